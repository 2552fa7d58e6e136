// SPDX-License-Identifier: Apache-2.0
// Requests while memory runs out at every place in turn: each is answered, as
// it should be or with OUT_OF_MEMORY, or not at all, and podd goes on.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "tests/lib/rest_pod.h"

enum { MEMORY_PLACES = 60 };

static int setup(void **state)
{
    const struct rest_options options = {.pod = "local:1x1x1"};
    *state = rest_start(&options);
    return 0;
}

// Whether an answer says that memory ran out: the request was refused, the
// operation it made failed, the answer could not be built, or there was no
// memory for the request itself and so no answer to it.
static bool memory_is_told(const struct rest_answer *answer)
{
    if (answer->status == 0 || answer->status == 500)
        return true;
    return (answer->status == 503 || answer->status == 409) &&
           strcmp(rest_text(answer->json, "reason"), "OUT_OF_MEMORY") == 0;
}

// Asks once for each place at which one allocation fails.
static void ask_everywhere(struct rest *rest, const char *method,
                           const char *path, const char *header,
                           const char *body, long good)
{
    const char *headers[] = {header, NULL};
    size_t size = body != NULL ? strlen(body) : 0;
    int refused = 0;
    for (long place = 0; place < MEMORY_PLACES; place++) {
        pod_mem_fail_after(place, 1);
        struct rest_answer answer =
            rest_try(rest, method, path, headers, body, size);
        pod_mem_fail_after(-1, 0);
        bool full = memory_is_told(&answer);
        if (!full && answer.status != good)
            print_error("%s %s at %ld: %s\n", method, path, place, answer.body);
        assert_true(full || answer.status == good);
        refused += full;
        rest_answer_free(&answer);
    }
    assert_true(refused > 0);
    struct rest_answer answer =
        rest_ask(rest, method, path, headers, body, size);
    assert_int_equal(answer.status, good);
    rest_answer_free(&answer);
}

static const char json[] = "Content-Type: application/json";

static void allocations(void **state)
{
    ask_everywhere(*state, "POST", "/v1/buffers", json,
                   "{\"core\":0,\"shape\":\"f32[2]\",\"values\":[1,2],"
                   "\"labels\":{\"a\":\"b\"},\"name\":\"n\"}",
                   202);
}

static void writes(void **state)
{
    ask_everywhere(*state, "PUT", "/v1/buffers/buf-1/data", json,
                   "{\"values\":[1,2]}", 202);
    ask_everywhere(*state, "PUT", "/v1/buffers/buf-1/data?label=a=b&after=op-1",
                   "Content-Type: application/octet-stream", "01234567", 202);
}

static void compilations(void **state)
{
    ask_everywhere(*state, "POST", "/v1/programs?load=0",
                   "Content-Type: text/x-hlo", "HloModule nothing", 202);
}

static void waits(void **state)
{
    ask_everywhere(*state, "POST", "/v1/events:wait", json,
                   "{\"ids\":[\"op-1\",\"buf-1\"]}", 200);
}

static void reads(void **state)
{
    static const char *const paths[] = {
        "/v1/events/op-1",
        "/v1/events?label=a=b",
        "/v1/buffers",
        "/v1/pod",
        "/v1/programs",
        "/v1/events:summary",
        "/",
        "/ui/",
        "/v1/events/op-1/dependencies?direction=down",
    };
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        ask_everywhere(*state, "GET", paths[i], NULL, NULL, 200);
}

static void watching(void **state)
{
    ask_everywhere(*state, "GET", "/v1/watch?since=snapshot&label=a=b",
                   "Accept: application/json", NULL, 200);
}

static void data(void **state)
{
    // One of its own: a write that failed above has spoilt the first buffer.
    static const char *const accept[] = {"Accept: application/octet-stream",
                                         "Accept: application/x-npy",
                                         "Accept: application/json"};
    char path[64];
    json_t *event =
        rest_submit(*state, "/v1/buffers", "{\"core\":0,\"shape\":\"f32[2]\"}");
    // It is there before any memory is missing.
    json_decref(rest_await(*state, rest_text(event, "id")));
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s/data",
                   rest_text(event, "buffer"));
    // Made before memory runs out.
    json_decref(rest_await(*state, rest_text(event, "id")));
    json_decref(event);
    for (size_t i = 0; i < sizeof(accept) / sizeof(accept[0]); i++)
        ask_everywhere(*state, "GET", path, accept[i], NULL, 200);
}

int main(void)
{
    struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations),  cmocka_unit_test(writes),
        cmocka_unit_test(compilations), cmocka_unit_test(waits),
        cmocka_unit_test(reads),        cmocka_unit_test(data),
        cmocka_unit_test(watching),
    };
    return cmocka_run_group_tests(tests, setup, rest_teardown);
}
