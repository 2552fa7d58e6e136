// SPDX-License-Identifier: Apache-2.0
// Bytes out of buffers over HTTP: ranges, ETags, waits, budgets, and reads that
// are kept.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/http_client.h"
#include "tests/lib/rest_pod.h"
#include "tests/rest/data_fixture.h"

static void ranges(void **state)
{
    struct rest *rest = *state;
    const char *path = make(rest, "{\"core\":0,\"bytes\":\"10\"}");
    json_decref(
        rest_json(put(rest, path, octets, NULL, "0123456789", 10), 202));
    static const struct {
        const char *range;
        const char *bytes;
        const char *content_range;
    } cases[] = {
        {"Range: bytes=0-3", "0123", "bytes 0-3/10"},
        {"Range: bytes=4-4", "4", "bytes 4-4/10"},
        {"Range: bytes=-3", "789", "bytes 7-9/10"},
        {"Range: bytes=8-99", "89", "bytes 8-9/10"},
        {"Range: bytes=9-", "9", "bytes 9-9/10"},
        {"Range: bytes=-99", "0123456789", "bytes 0-9/10"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rest_answer answer = get(rest, path, cases[i].range, NULL);
        assert_string_equal(rest_header(&answer, "Content-Range"),
                            cases[i].content_range);
        is_bytes(answer, 206, cases[i].bytes, strlen(cases[i].bytes));
    }
    is_bytes(get(rest, path, "Range: bytes=0-1,4-5", NULL), 200, "0123456789",
             10);
    is_bytes(get(rest, path, "Range: lines=0-1", NULL), 200, "0123456789", 10);
    struct rest_answer answer = get(rest, path, "Range: bytes=10-", NULL);
    assert_string_equal(rest_header(&answer, "Content-Range"), "bytes */10");
    rest_is_problem(answer, 416, "RANGE_NOT_SATISFIABLE");
}

static void tags_guard_ranges(void **state)
{
    struct rest *rest = *state;
    const char *path = make(rest, "{\"core\":0,\"bytes\":\"4\"}");
    char guard[128];
    char match[128];
    json_decref(rest_json(put(rest, path, octets, NULL, "abcd", 4), 202));
    struct rest_answer answer = rest_ask(rest, "HEAD", path, NULL, NULL, 0);
    assert_string_equal(rest_header(&answer, "Content-Length"), "4");
    (void)snprintf(guard, sizeof(guard), "If-Range: %s",
                   rest_header(&answer, "ETag"));
    (void)snprintf(match, sizeof(match), "If-None-Match: %s",
                   rest_header(&answer, "ETag"));
    rest_answer_free(&answer);
    is_bytes(get(rest, path, "Range: bytes=0-1", guard), 206, "ab", 2);
    answer = get(rest, path, match, NULL);
    assert_string_equal(rest_header(&answer, "Vary"), "Accept");
    is_bytes(answer, 304, "", 0);
    json_decref(rest_json(put(rest, path, octets, NULL, "efgh", 4), 202));
    is_bytes(get(rest, path, "Range: bytes=0-1", guard), 200, "efgh", 4);
    is_bytes(get(rest, path, match, NULL), 200, "efgh", 4);
}

// The ETag of the buffer's data in a form, after `header`, in `out`.
static void tag_of(struct rest *rest, const char *path, const char *accept,
                   const char *header, char out[128])
{
    const char *const headers[] = {accept, NULL};
    struct rest_answer answer = rest_ask(rest, "HEAD", path, headers, NULL, 0);
    assert_int_equal(answer.status, 200);
    (void)snprintf(out, 128, "%s%s", header, rest_header(&answer, "ETag"));
    rest_answer_free(&answer);
}

// What is not known before it is made is not said, and not said to be 0.
static void heads_say_true_lengths(void **state)
{
    struct rest *rest = *state;
    const char *path = make(rest, "{\"core\":0,\"shape\":\"u8[4]\"}");
    const struct {
        const char *accept;
        const char *length;
    } cases[] = {
        {"Accept: application/octet-stream", "4"},
        {"Accept: application/x-npy", "132"},
        {accept_json, NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const headers[] = {cases[i].accept, NULL};
        struct rest_answer answer =
            rest_ask(rest, "HEAD", path, headers, NULL, 0);
        const char *length = rest_header(&answer, "Content-Length");
        assert_int_equal(answer.status, 200);
        assert_int_equal(answer.size, 0);
        assert_int_equal(length == NULL, cases[i].length == NULL);
        if (length != NULL)
            assert_string_equal(length, cases[i].length);
        rest_answer_free(&answer);
    }
}

static void tags_guard_reads(void **state)
{
    struct rest *rest = *state;
    const char *path = make(rest, "{\"core\":0,\"bytes\":\"4\"}");
    char match[128];
    tag_of(rest, path, "Accept: */*", "If-Match: ", match);
    is_bytes(get(rest, path, match, NULL), 200, "\0\0\0\0", 4);
    is_bytes(get(rest, path, "If-Match: *", NULL), 200, "\0\0\0\0", 4);
    uint64_t before = pod_last_number(rest_engine(rest));
    rest_is_problem(get(rest, path, "If-Match: \"x\"", NULL), 412,
                    "PRECONDITION_FAILED");
    // Of another form: another text.
    rest_is_problem(get(rest, path, match, accept_json), 412,
                    "PRECONDITION_FAILED");
    assert_int_equal(pod_last_number(rest_engine(rest)), before);
    json_decref(rest_json(put(rest, path, octets, NULL, "abcd", 4), 202));
    rest_is_problem(get(rest, path, match, NULL), 412, "PRECONDITION_FAILED");
}

// The ETag in the answer to a write of octets is that of a read.
static void writes_give_their_tag(void **state)
{
    static const char *const headers[] = {octets, "Content-Range: bytes 0-1/4",
                                          "Idempotency-Key: tag", NULL};
    struct rest *rest = *state;
    const char *path = make(rest, "{\"core\":0,\"shape\":\"u8[4]\"}");
    char match[128];
    char given[128];
    struct rest_answer answer = put(rest, path, octets, NULL, "abcd", 4);
    assert_int_equal(answer.status, 202);
    (void)snprintf(given, sizeof(given), "If-Match: %s",
                   rest_header(&answer, "ETag"));
    rest_answer_free(&answer);
    tag_of(rest, path, "Accept: */*", "If-Match: ", match);
    assert_string_equal(given, match);
    is_bytes(get(rest, path, given, NULL), 200, "abcd", 4);
    for (int again = 0; again < 2; again++) {
        answer = rest_ask(rest, "PUT", path, headers, "AB", 2);
        assert_int_equal(answer.status, 202);
        (void)snprintf(given, sizeof(given), "If-Match: %s",
                       rest_header(&answer, "ETag"));
        rest_answer_free(&answer);
        is_bytes(get(rest, path, given, NULL), 200, "ABcd", 4);
    }
    answer = put(rest, path, "Content-Type: application/json", NULL,
                 "{\"values\":[1,2,3,4]}", 20);
    assert_int_equal(answer.status, 202);
    assert_null(rest_header(&answer, "ETag"));
    rest_answer_free(&answer);
}

static void tags_guard_writes(void **state)
{
    const char *const accepts[] = {"Accept: application/octet-stream",
                                   "Accept: application/x-npy", accept_json};
    struct rest *rest = *state;
    const char *path = make(rest, "{\"core\":0,\"bytes\":\"4\"}");
    char match[128];
    char text[8];
    for (size_t i = 0; i < sizeof(accepts) / sizeof(accepts[0]); i++) {
        tag_of(rest, path, accepts[i], "If-Match: ", match);
        (void)snprintf(text, sizeof(text), "try%zu", i);
        json_decref(rest_json(put(rest, path, octets, match, text, 4), 202));
        // It was the last writer; now another is.
        uint64_t before = pod_last_number(rest_engine(rest));
        rest_is_problem(put(rest, path, octets, match, "late", 4), 412,
                        "PRECONDITION_FAILED");
        assert_int_equal(pod_last_number(rest_engine(rest)), before);
        is_bytes(rest_get(rest, path), 200, text, 4);
    }
    tag_of(rest, path, "Accept: */*", "If-None-Match: ", match);
    rest_is_problem(put(rest, path, octets, match, "none", 4), 412,
                    "PRECONDITION_FAILED");
    rest_is_problem(put(rest, path, octets, "If-None-Match: *", "none", 4), 412,
                    "PRECONDITION_FAILED");
    // Weak tags match nothing that is to be replaced.
    tag_of(rest, path, "Accept: */*", "If-Match: W/", match);
    rest_is_problem(put(rest, path, octets, match, "weak", 4), 412,
                    "PRECONDITION_FAILED");
    json_decref(rest_json(
        put(rest, path, octets, "If-None-Match: \"x\"", "free", 4), 202));
    json_decref(
        rest_json(put(rest, path, octets, "If-Match: *", "star", 4), 202));
    is_bytes(rest_get(rest, path), 200, "star", 4);
}

static void accept_decides(void **state)
{
    struct rest *rest = *state;
    const char *path =
        make(rest, "{\"core\":0,\"shape\":\"u8[200001]\",\"fill\":7}");
    struct rest_answer answer = get(rest, path, accept_json, NULL);
    assert_non_null(
        strstr(rest_text(answer.json, "detail"), "application/octet-stream"));
    rest_is_problem(answer, 406, "NOT_ACCEPTABLE");
    rest_is_problem(get(rest, path, "Accept: image/png", NULL), 406,
                    "NOT_ACCEPTABLE");
    answer = rest_ask(rest, "HEAD", path, NULL, NULL, 0);
    assert_string_equal(rest_header(&answer, "Content-Length"), "200001");
    rest_answer_free(&answer);
}

static void asynchronous_reads_are_kept(void **state)
{
    struct rest *rest = *state;
    char path[64];
    struct rest_answer answer =
        get(rest, make(rest, "{\"core\":1,\"shape\":\"s32[2]\",\"fill\":-2}"),
            "Prefer: respond-async", NULL);
    assert_string_equal(rest_text(answer.json, "kind"), "READ");
    assert_string_equal(rest_header(&answer, "Preference-Applied"),
                        "respond-async");
    (void)snprintf(path, sizeof(path), "/v1/events/%s/data",
                   rest_text(answer.json, "id"));
    json_decref(rest_json(answer, 202));
    is_bytes(rest_get(rest, path), 200, "\xfe\xff\xff\xff\xfe\xff\xff\xff", 8);
    is_bytes(get(rest, path, "Range: bytes=4-5", NULL), 206, "\xfe\xff", 2);
    is_bytes(get(rest, path, "If-None-Match: *", NULL), 304, "", 0);
    rest_is_problem(get(rest, path, "If-Match: \"x\"", NULL), 412,
                    "PRECONDITION_FAILED");
    is_text(get(rest, path, accept_json, NULL),
            "{\"shape\":\"s32[2]\",\"values\":[-2,-2]}\n");
    answer = rest_ask(rest, "DELETE", path, NULL, NULL, 0);
    assert_int_equal(answer.status, 204);
    rest_answer_free(&answer);
    rest_is_problem(rest_get(rest, path), 410, "EXPIRED");
    rest_is_problem(rest_get(rest, "/v1/events/op-1/data"), 404, "NOT_FOUND");
}

static void heads_make_no_operation(void **state)
{
    struct rest *rest = *state;
    const char *path = make(rest, "{\"core\":0,\"bytes\":\"4\"}");
    uint64_t before = pod_last_number(rest_engine(rest));
    struct rest_answer answer = rest_ask(rest, "HEAD", path, NULL, NULL, 0);
    assert_int_equal(answer.status, 200);
    rest_answer_free(&answer);
    assert_int_equal(pod_last_number(rest_engine(rest)), before);
}

static void waits_of_reads(void **state)
{
    struct rest *rest = *state;
    char op[32];
    char body[128];
    char path[96];
    struct rest_spin spin = rest_spin_make(rest, 0);
    rest_spin_start(rest, &spin, op);
    (void)snprintf(body, sizeof(body),
                   "{\"core\":1,\"bytes\":\"4\",\"after\":[\"%s\"]}", op);
    (void)snprintf(path, sizeof(path), "%s?wait=10ms", make(rest, body));
    struct rest_answer answer = rest_get(rest, path);
    char event[64];
    (void)snprintf(
        event, sizeof(event), "/v1/events/%s",
        rest_text(json_object_get(answer.json, "metadata"), "operation"));
    rest_is_problem(answer, 504, "WAIT_EXPIRED");
    // The operation goes on.
    json_t *view = rest_json(rest_get(rest, event), 200);
    assert_string_equal(rest_text(view, "state"), "WAITING");
    json_decref(view);
    rest_spin_stop(rest, op);
    // What it waited for was cancelled: the read says so.
    *strchr(path, '?') = '\0';
    answer = rest_get(rest, path);
    assert_string_equal(
        rest_text(json_object_get(answer.json, "metadata"), "root_cause"), op);
    assert_string_equal(rest_text(answer.json, "code"), "CANCELLED");
    rest_is_problem(answer, 409, "CANCEL_REQUESTED");
}

// The status of a GET that does not say how long it waits, once the spin that
// everything waits for was stopped.
static int status_when_stopped(struct rest *rest, const char *path,
                               const char *spin)
{
    char request[160];
    int fd = client_connect(api_server_port(rest_server(rest)));

    (void)snprintf(request, sizeof(request),
                   "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    assert_true(client_puts(fd, request));
    rest_await_parked(rest, 1);
    rest_spin_stop(rest, spin);
    struct client_answer answer = client_read(fd, false);
    int status = answer.status;
    client_answer_free(&answer);
    (void)close(fd);
    return status;
}

static void what_will_be_there_is_waited_for(void **state)
{
    static const char hlo[] = "HloModule m ENTRY e { ROOT r = s32[] "
                              "constant(1) }";
    static const char *const type[] = {"Content-Type: text/x-hlo", NULL};
    struct rest *rest = *state;
    struct rest_spin spin = rest_spin_make(rest, 0);
    char op[32];
    char text[128];

    rest_spin_start(rest, &spin, op);
    (void)snprintf(text, sizeof(text),
                   "{\"core\":1,\"bytes\":\"4\",\"after\":[\"%s\"]}", op);
    json_t *event = rest_json(
        get(rest, make(rest, text), "Prefer: respond-async", NULL), 202);
    (void)snprintf(text, sizeof(text), "/v1/events/%s/data",
                   rest_text(event, "id"));
    json_decref(event);
    assert_int_equal(status_when_stopped(rest, text, op), 409);
    rest_spin_start(rest, &spin, op);
    (void)snprintf(text, sizeof(text), "/v1/programs?after=%s", op);
    event = rest_json(rest_ask(rest, "POST", text, type, hlo, sizeof(hlo) - 1),
                      202);
    (void)snprintf(text, sizeof(text), "/v1/programs/%s/shape",
                   rest_text(event, "program"));
    json_decref(event);
    assert_int_equal(status_when_stopped(rest, text, op), 409);
}

static void staging_is_a_budget(void **state)
{
    struct rest *rest = *state;
    const char *path = make(rest, "{\"core\":0,\"bytes\":\"4194305\"}");
    char *bytes = calloc(1, (4 << 20) + 1);
    assert_non_null(bytes);
    // Larger than the whole budget can never be taken.
    rest_is_problem(put(rest, path, octets, NULL, bytes, (4 << 20) + 1), 413,
                    "BODY_TOO_LARGE");
    path = make(rest, "{\"core\":0,\"bytes\":\"4096\"}");
    assert_true(pod_staging_take(rest_engine(rest), 4 << 20));
    struct rest_answer answer = put(rest, path, octets, NULL, bytes, 4096);
    assert_non_null(rest_header(&answer, "Retry-After"));
    rest_is_problem(answer, 429, "STAGING_FULL");
    pod_staging_give(rest_engine(rest), 4 << 20);
    answer = put(rest, path, octets, NULL, bytes, 4096);
    char op[32];
    (void)snprintf(op, sizeof(op), "%s", rest_text(answer.json, "id"));
    json_decref(rest_json(answer, 202));
    json_decref(rest_await(rest, op));
    free(bytes);
}

static void big_reads_stream(void **state)
{
    struct rest *rest = *state;
    const char *path =
        make(rest, "{\"core\":0,\"shape\":\"u32[16777216]\",\"fill\":7}");
    struct rest_answer answer = rest_get(rest, path);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.size, 64 << 20);
    for (size_t i = 0; i < answer.size; i += 4096)
        assert_memory_equal(answer.body + i, "\7\0\0\0", 4);
    rest_answer_free(&answer);
}

// What slow readers could keep waiting is bounded by the budget, too.
static void big_reads_count_as_staging(void **state)
{
    struct rest *rest = *state;
    struct pod *pod = rest_engine(rest);
    uint64_t used = 0;
    uint64_t max = 0;
    char big[64];
    snprintf(big, sizeof(big), "%s",
             make(rest, "{\"core\":0,\"bytes\":\"1048576\"}"));
    pod_staging_usage(pod, &used, &max);
    assert_true(pod_staging_take(pod, max - used));
    rest_is_problem(rest_get(rest, big), 429, "STAGING_FULL");
    // A small one needs no place in it.
    struct rest_answer answer =
        rest_get(rest, make(rest, "{\"core\":0,\"bytes\":\"4\"}"));
    assert_int_equal(answer.status, 200);
    rest_answer_free(&answer);
    pod_staging_give(pod, max - used);
    answer = rest_get(rest, big);
    assert_int_equal(answer.size, 1048576);
    rest_answer_free(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges),
        cmocka_unit_test(tags_guard_ranges),
        cmocka_unit_test(heads_say_true_lengths),
        cmocka_unit_test(tags_guard_reads),
        cmocka_unit_test(writes_give_their_tag),
        cmocka_unit_test(tags_guard_writes),
        cmocka_unit_test(accept_decides),
        cmocka_unit_test(asynchronous_reads_are_kept),
        cmocka_unit_test(heads_make_no_operation),
        cmocka_unit_test(waits_of_reads),
        cmocka_unit_test(what_will_be_there_is_waited_for),
        cmocka_unit_test(staging_is_a_budget),
        cmocka_unit_test(big_reads_stream),
        cmocka_unit_test(big_reads_count_as_staging),
    };
    return cmocka_run_group_tests(tests, data_setup, rest_teardown);
}
