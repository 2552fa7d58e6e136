// SPDX-License-Identifier: Apache-2.0
// Downloads are sent from the device's memory: a client that takes its time has
// the version it asked for, whatever is done to the buffer meanwhile, keeps
// nobody waiting, and what it holds is in the staging budget.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/http_client.h"
#include "tests/lib/rest_pod.h"

// More than the sockets of both ends hold. The budget has room for four; half
// of it may be lent.
enum { BYTES = 32 << 20, BUDGET = 4 * BYTES, LOOKS = 100000 };
// What a reader of pieces has of such a budget.
enum { PIECES = BUDGET / 16 };

static const char octets[] = "Content-Type: application/octet-stream";

static int setup(void **state)
{
    // A core has room for one buffer and a small one; host 3 reads nothing.
    const struct rest_options options = {
        .pod = "local:4x1x1,hosts=4,hbm=33MiB,fault=host3:read=fail:ABORTED",
        .staging_bytes = BUDGET};

    *state = rest_start(&options);
    return 0;
}

static uint64_t staged(struct rest *rest)
{
    uint64_t used = 0;
    uint64_t max = 0;

    pod_staging_usage(rest_engine(rest), &used, &max);
    return used;
}

// The budget comes to this once the server has let go of an answer.
static void await_staged(struct rest *rest, uint64_t want)
{
    for (int i = 0; i < LOOKS && staged(rest) != want; i++) {
        struct rest_answer answer = rest_get(rest, "/healthz");
        rest_answer_free(&answer);
    }
    assert_int_equal(staged(rest), want);
}

// A buffer of BYTES ones; its id in `out`.
static void make(struct rest *rest, unsigned core, char out[32])
{
    char json[96];

    (void)snprintf(json, sizeof(json),
                   "{\"core\":%u,\"shape\":\"u8[%d]\",\"fill\":1}", core,
                   BYTES);
    json_t *event =
        rest_json(rest_send(rest, "POST", "/v1/buffers?wait=50s", json), 201);
    assert_string_equal(rest_text(event, "state"), "SUCCEEDED");
    (void)snprintf(out, 32, "%s", rest_text(event, "buffer"));
    json_decref(event);
}

// Asks for something that must be done when the answer comes.
static void done(struct rest *rest, const char *method, const char *path,
                 const char *header, const void *body, size_t size)
{
    const char *headers[] = {octets, header, NULL};
    json_t *event =
        rest_json(rest_ask(rest, method, path, headers, body, size), 200);

    assert_string_equal(rest_text(event, "state"), "SUCCEEDED");
    json_decref(event);
}

static void release(struct rest *rest, const char *buffer)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/v1/buffers/%s?wait=50s", buffer);
    done(rest, "DELETE", path, NULL, NULL, 0);
}

static uint64_t memory_used(struct rest *rest, unsigned core)
{
    char path[32];

    (void)snprintf(path, sizeof(path), "/v1/cores/%u", core);
    json_t *view = rest_json(rest_get(rest, path), 200);
    const char *text = rest_text(json_object_get(view, "memory"), "used");
    uint64_t used = strtoull(text, NULL, 10);
    json_decref(view);
    return used;
}

// --------------------------------------------------------------- slow readers

struct reader {
    int fd;
    size_t taken; // bytes of the body
    size_t size;  // of all of it
};

// Asks for a buffer's bytes from one on, and takes no more of the answer than
// its head.
static struct reader begin_at(struct rest *rest, const char *buffer,
                              size_t first)
{
    struct reader reader = {
        .fd = client_connect(api_server_port(rest_server(rest))),
        .size = BYTES - first};
    char text[256];
    char end[4] = "";

    (void)snprintf(text, sizeof(text),
                   "GET /v1/buffers/%s/data HTTP/1.1\r\nHost: localhost\r\n"
                   "Connection: close\r\n%s%zu-\r\n\r\n",
                   buffer, first > 0 ? "Range: bytes=" : "X-First: ", first);
    assert_true(client_puts(reader.fd, text));
    assert_int_equal(recv(reader.fd, text, 12, MSG_WAITALL), 12);
    assert_memory_equal(text, first > 0 ? "HTTP/1.1 206" : "HTTP/1.1 200", 12);
    while (memcmp(end, "\r\n\r\n", 4) != 0) {
        memmove(end, end + 1, 3);
        assert_int_equal(recv(reader.fd, end + 3, 1, 0), 1);
    }
    return reader;
}

static struct reader begin(struct rest *rest, const char *buffer)
{
    return begin_at(rest, buffer, 0);
}

// Takes the rest: all of it is ones.
static void finish(struct reader *reader)
{
    static char bytes[64 * 1024];
    static char ones[sizeof(bytes)];
    ssize_t count = 0;

    memset(ones, 1, sizeof(ones));
    while ((count = recv(reader->fd, bytes, sizeof(bytes), 0)) > 0) {
        assert_int_equal(memcmp(bytes, ones, (size_t)count), 0);
        reader->taken += (size_t)count;
    }
    assert_int_equal(count, 0);
    assert_int_equal(reader->taken, reader->size);
    close(reader->fd);
}

static void a_part_is_written(void **state)
{
    struct rest *rest = *state;
    char buffer[32];
    char path[64];

    make(rest, 0, buffer);
    struct reader reader = begin(rest, buffer);
    assert_int_equal(staged(rest), BYTES);
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s/data?wait=50s", buffer);
    done(rest, "PUT", path, "Content-Range: bytes 33554430-33554431/33554432",
         "\2\3", 2);
    const char *range[] = {"Range: bytes=33554429-33554431", NULL};
    struct rest_answer answer = rest_ask(rest, "GET", path, range, NULL, 0);
    assert_int_equal(answer.status, 206);
    assert_memory_equal(answer.body, "\1\2\3", 3);
    rest_answer_free(&answer);
    assert_int_equal(memory_used(rest, 0), BYTES);
    assert_int_equal(staged(rest), BYTES);
    finish(&reader);
    await_staged(rest, 0);
    release(rest, buffer);
}

// Makes all of a buffer twos, while a reader has it on loan.
static void overwrite(struct rest *rest, const char *buffer)
{
    char path[64];
    char *bytes = malloc(BYTES);

    assert_non_null(bytes);
    memset(bytes, 2, BYTES);
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s/data?wait=50s", buffer);
    done(rest, "PUT", path, NULL, bytes, BYTES);
    struct rest_answer answer = rest_get(rest, path);
    assert_int_equal(answer.size, BYTES);
    assert_memory_equal(answer.body, bytes, BYTES);
    rest_answer_free(&answer);
    free(bytes);
}

static void the_whole_is_written(void **state)
{
    struct rest *rest = *state;
    char buffer[32];

    make(rest, 0, buffer);
    struct reader reader = begin(rest, buffer);
    overwrite(rest, buffer);
    finish(&reader);
    await_staged(rest, 0);
    release(rest, buffer);
}

// The core has the memory back, and another buffer takes it.
static void it_is_freed(void **state)
{
    struct rest *rest = *state;
    char buffer[32];
    char next[32];

    make(rest, 0, buffer);
    struct reader reader = begin(rest, buffer);
    release(rest, buffer);
    assert_int_equal(memory_used(rest, 0), 0);
    make(rest, 0, next);
    assert_int_equal(memory_used(rest, 0), BYTES);
    assert_int_equal(staged(rest), BYTES);
    finish(&reader);
    await_staged(rest, 0);
    release(rest, next);
}

static void the_pod_is_reset(void **state)
{
    struct rest *rest = *state;
    char buffer[32];

    make(rest, 0, buffer);
    struct reader reader = begin(rest, buffer);
    json_t *event =
        rest_json(rest_send(rest, "POST", "/v1/pod:reset?wait=50s", "{}"), 200);
    assert_string_equal(rest_text(event, "state"), "SUCCEEDED");
    json_decref(event);
    assert_int_equal(memory_used(rest, 0), 0);
    assert_int_equal(staged(rest), BYTES);
    finish(&reader);
    await_staged(rest, 0);
}

static void the_host_is_removed(void **state)
{
    struct rest *rest = *state;
    char buffer[32];

    make(rest, 2, buffer);
    struct reader reader = begin(rest, buffer);
    struct rest_answer answer =
        rest_ask(rest, "DELETE", "/v1/hosts/2?force=true", NULL, NULL, 0);
    assert_int_equal(answer.status, 204);
    rest_answer_free(&answer);
    assert_int_equal(staged(rest), BYTES);
    finish(&reader);
    await_staged(rest, 0);
}

static void the_client_hangs_up(void **state)
{
    struct rest *rest = *state;
    char buffer[32];

    make(rest, 0, buffer);
    struct reader reader = begin(rest, buffer);
    release(rest, buffer);
    assert_int_equal(staged(rest), BYTES);
    close(reader.fd);
    await_staged(rest, 0);
}

// -------------------------------------------------------------------- limits

// Loans leave half of the budget to those who write. Whoever finds no room in
// the other half is sent pieces.
static void half_of_the_budget_is_lent(void **state)
{
    enum { LOANS = BUDGET / 2 / BYTES };
    struct rest *rest = *state;
    struct reader readers[LOANS + 1];
    char buffer[32];
    char other[32];

    make(rest, 0, buffer);
    make(rest, 1, other);
    for (size_t i = 0; i < LOANS; i++) {
        readers[i] = begin(rest, buffer);
        assert_int_equal(staged(rest), (i + 1) * BYTES);
    }
    readers[LOANS] = begin(rest, other);
    assert_int_equal(staged(rest), LOANS * BYTES + PIECES);
    for (size_t i = 0; i < LOANS; i++)
        finish(&readers[i]);
    await_staged(rest, PIECES);
    finish(&readers[LOANS]);
    await_staged(rest, 0);
    release(rest, buffer);
    release(rest, other);
}

static void a_failed_loan_costs_nothing(void **state)
{
    struct rest *rest = *state;
    char buffer[32];
    char path[64];

    make(rest, 3, buffer);
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s/data", buffer);
    rest_is_problem(rest_get(rest, path), 409, "WORKER_ERROR");
    await_staged(rest, 0);
    release(rest, buffer);
}

// A part is a window on a loan of the whole.
static void parts_are_lent(void **state)
{
    struct rest *rest = *state;
    const char *range[] = {"Range: bytes=1-", NULL};
    char buffer[32];
    char path[64];

    make(rest, 0, buffer);
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s/data", buffer);
    struct rest_answer answer = rest_ask(rest, "GET", path, range, NULL, 0);
    assert_int_equal(answer.status, 206);
    assert_int_equal(answer.size, BYTES - 1);
    for (size_t i = 0; i < answer.size; i += 1021)
        assert_int_equal(answer.body[i], 1);
    rest_answer_free(&answer);
    await_staged(rest, 0);
    struct reader reader = begin_at(rest, buffer, BYTES / 4);
    assert_int_equal(staged(rest), BYTES);
    overwrite(rest, buffer);
    finish(&reader);
    await_staged(rest, 0);
    release(rest, buffer);
}

// What goes before the bytes is sent with them.
static void files_are_lent(void **state)
{
    struct rest *rest = *state;
    const char *accept[] = {"Accept: application/x-npy", NULL};
    char buffer[32];
    char path[64];

    make(rest, 0, buffer);
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s/data", buffer);
    struct rest_answer answer = rest_ask(rest, "GET", path, accept, NULL, 0);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.size, BYTES + 128);
    assert_memory_equal(answer.body, "\x93NUMPY", 6);
    for (size_t i = 128; i < answer.size; i += 1021)
        assert_int_equal(answer.body[i], 1);
    rest_answer_free(&answer);
    release(rest, buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_is_written),
        cmocka_unit_test(the_whole_is_written),
        cmocka_unit_test(it_is_freed),
        cmocka_unit_test(the_client_hangs_up),
        cmocka_unit_test(half_of_the_budget_is_lent),
        cmocka_unit_test(a_failed_loan_costs_nothing),
        cmocka_unit_test(parts_are_lent),
        cmocka_unit_test(files_are_lent),
        cmocka_unit_test(the_pod_is_reset),
        cmocka_unit_test(the_host_is_removed),
    };

    return cmocka_run_group_tests(tests, setup, rest_teardown);
}
