// SPDX-License-Identifier: Apache-2.0
// A whole podd in the test program, and a client of it: an embedded pod on the
// reference device, the real server on a free port, libcurl.
//
// Helpers abort the test (cmocka's assertions) when something does not work
// that the test takes for granted.
#ifndef POD_TESTS_LIB_REST_POD_H
#define POD_TESTS_LIB_REST_POD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/server.h"
#include "core/pod/pod.h"

struct rest;

struct rest_options {
    const char *pod;          // NULL: "local:2x1x1,hosts=2"
    uint64_t staging_bytes;   // 0: 64 MiB
    uint64_t history_count;   // 0: 1,000
    size_t change_count;      // 0: the engine's default
    int64_t stall_after_ns;   // 0: nothing is ever stalled
    struct api_limits limits; // no time passes that is not given
    struct api_answers_limits answers;
    const char *listen; // NULL: 127.0.0.1:0
    const char *token_file;
    const char *tls_cert; // and then the client speaks TLS, and
    const char *tls_key;
    const char *tls_ca; // knows this one alone
};

struct rest *rest_start(const struct rest_options *options);
void rest_stop(struct rest *rest);
// For cmocka: one with the defaults of all options, for the state.
int rest_setup(void **state);
int rest_teardown(void **state);
struct pod *rest_engine(const struct rest *rest);
struct api_server *rest_server(const struct rest *rest);
// Waits until so many requests are parked; fails the test if that takes long.
void rest_await_parked(const struct rest *rest, uint64_t wanted);
// What podd does at SIGTERM, as far as the API shows it.
void rest_drain(struct rest *rest);

struct rest_answer {
    long status;
    char *head; // status line and headers
    char *body; // NUL-terminated
    size_t size;
    json_t *json; // the body if it is JSON, else NULL
};

void rest_answer_free(struct rest_answer *answer);
// The value of a header, in a buffer of the thread's own; NULL: not there.
const char *rest_header(const struct rest_answer *answer, const char *name);

// One request on a connection of its own. `headers` are lines, ended by NULL;
// it may be NULL, and so may the body.
struct rest_answer rest_ask(struct rest *rest, const char *method,
                            const char *path, const char *const *headers,
                            const void *body, size_t size);
// The same, but the server may also close without an answer: status 0.
struct rest_answer rest_try(struct rest *rest, const char *method,
                            const char *path, const char *const *headers,
                            const void *body, size_t size);
struct rest_answer rest_get(struct rest *rest, const char *path);
// With a JSON body.
struct rest_answer rest_send(struct rest *rest, const char *method,
                             const char *path, const char *json);

// The status and, for a problem, its reason; frees the answer. *out_reason has
// 64 bytes.
long rest_status(struct rest_answer answer, char *out_reason);
// Asserts that the answer is a problem document of this status and reason.
void rest_is_problem(struct rest_answer answer, long status,
                     const char *reason);
// Asserts the status, gives the JSON body (the caller's).
json_t *rest_json(struct rest_answer answer, long status);
// A string member of an object, borrowed; fails the test if there is none.
const char *rest_text(const json_t *object, const char *member);

// Submits with a JSON body and returns the event (the caller's).
json_t *rest_submit(struct rest *rest, const char *path, const char *json);
// Waits until an operation is done; gives its event.
json_t *rest_await(struct rest *rest, const char *op);
// Waits until the event of an operation is another than this one, which it
// frees; gives it.
json_t *rest_await_change(struct rest *rest, json_t *owned_event);

// Without HTTP: allocates 8 bytes on core 0 with that label (NULL: none); gives
// the operation's number. And waits until an operation is done.
uint64_t rest_allocate(struct rest *rest, const struct pod_label *label);
void rest_await_number(struct rest *rest, uint64_t number);

// A compiled and loaded program that loops for ever, for operations that run
// until they are cancelled.
struct rest_spin {
    char load[32];
    char input[32];
};
struct rest_spin rest_spin_make(struct rest *rest, unsigned core);
// Starts it, waits until it runs, and returns the operation's id in `out_op`
// (32 bytes).
void rest_spin_start(struct rest *rest, const struct rest_spin *spin,
                     char *out_op);
void rest_spin_stop(struct rest *rest, const char *op);

#endif
