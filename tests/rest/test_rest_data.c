// SPDX-License-Identifier: Apache-2.0
// Bytes in and out of buffers over HTTP: forms, parts, ranges, digests,
// budgets, and what a failed read says.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/rest_pod.h"

static const char octets[] = "Content-Type: application/octet-stream";
static const char npy[] = "Content-Type: application/x-npy";
static const char accept_json[] = "Accept: application/json";

static int setup(void **state)
{
    const struct rest_options options = {.pod = "local:2x1x1,hosts=2",
                                         .staging_bytes = 4 << 20};
    *state = rest_start(&options);
    return 0;
}

static int teardown(void **state)
{
    rest_stop(*state);
    return 0;
}

// The path of the data of a new buffer, in a static buffer.
static const char *make(struct rest *rest, const char *body)
{
    static char path[64];
    json_t *event = rest_submit(rest, "/v1/buffers", body);
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s/data",
                   rest_text(event, "buffer"));
    json_decref(event);
    return path;
}

static struct rest_answer put(struct rest *rest, const char *path,
                              const char *type, const char *header,
                              const void *body, size_t size)
{
    const char *headers[] = {type, header, NULL};
    return rest_ask(rest, "PUT", path, headers, body, size);
}

static struct rest_answer get(struct rest *rest, const char *path,
                              const char *header, const char *second)
{
    const char *headers[] = {header, second, NULL};
    return rest_ask(rest, "GET", path, headers, NULL, 0);
}

static void is_bytes(struct rest_answer answer, long status, const void *want,
                     size_t size)
{
    if (answer.status != status)
        print_error("%s\n", answer.body);
    assert_int_equal(answer.status, status);
    assert_int_equal(answer.size, size);
    assert_memory_equal(answer.body, want, size);
    rest_answer_free(&answer);
}

static void is_text(struct rest_answer answer, const char *want)
{
    is_bytes(answer, 200, want, strlen(want));
}

// A .npy file of version 1 with any header; gives its size.
static size_t npy_file(char *out, const char *header, const void *data,
                       size_t size)
{
    size_t length = strlen(header);
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)length;
    out[9] = 0;
    memcpy(out + 10, header, length);
    memcpy(out + 10 + length, data, size);
    return 10 + length + size;
}

static void octets_there_and_back(void **state)
{
    struct rest *rest = *state;
    const char *path = make(rest, "{\"core\":0,\"shape\":\"u8[2,3]\"}");
    // Never written: zeros.
    is_bytes(rest_get(rest, path), 200, "\0\0\0\0\0", 6);
    struct rest_answer answer = put(rest, path, octets, NULL, "abcdef", 6);
    assert_string_equal(rest_text(answer.json, "kind"), "WRITE");
    json_decref(rest_json(answer, 202));
    answer = rest_get(rest, path);
    assert_string_equal(rest_header(&answer, "Content-Type"),
                        "application/octet-stream");
    assert_string_equal(rest_header(&answer, "Accept-Ranges"), "bytes");
    is_bytes(answer, 200, "abcdef", 6);
    // The column-major buffer takes and gives row-major bytes.
    path = make(rest, "{\"core\":1,\"shape\":\"u8[2,3]{0,1}\"}");
    json_decref(rest_json(put(rest, path, octets, NULL, "abcdef", 6), 202));
    is_bytes(rest_get(rest, path), 200, "abcdef", 6);
}

static void values_there_and_back(void **state)
{
    struct rest *rest = *state;
    const char *body = "{\"values\":[[1,\"NaN\"],[-0.0,0.1]]}";
    const char *path = make(rest, "{\"core\":0,\"shape\":\"f32[2,2]\"}");
    json_t *event = rest_json(rest_send(rest, "PUT", path, body), 202);
    json_decref(event);
    is_text(get(rest, path, accept_json, NULL),
            "{\"shape\":\"f32[2,2]\",\"values\":[[1,\"NaN\"],[-0.0,0.1]]}\n");
    rest_is_problem(rest_send(rest, "PUT", path, "{}"), 400, "MISSING_MEMBER");
    rest_is_problem(rest_send(rest, "PUT", path, "{\"values\":[1]}"), 422,
                    "SHAPE_MISMATCH");
    rest_is_problem(
        rest_send(rest, "PUT", path, "{\"values\":[[1,2],[3,4]],\"x\":1}"), 400,
        "UNKNOWN_MEMBER");
    // Raw bytes are u8[n].
    path = make(rest, "{\"core\":0,\"bytes\":\"3\"}");
    json_decref(
        rest_json(rest_send(rest, "PUT", path, "{\"values\":[1,2,255]}"), 202));
    is_text(get(rest, path, accept_json, NULL),
            "{\"shape\":\"u8[3]\",\"values\":[1,2,255]}\n");
}

static void npy_there_and_back(void **state)
{
    struct rest *rest = *state;
    char file[256];
    size_t size = npy_file(
        file, "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 2), }\n",
        "\0\1\0\2\0\3\0\4", 8);
    const char *headers[] = {npy, NULL};
    struct rest_answer answer = rest_ask(
        rest, "POST", "/v1/buffers?core=1&label=a=b", headers, file, size);
    assert_string_equal(rest_text(answer.json, "kind"), "WRITE");
    char path[64];
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s/data",
                   rest_text(answer.json, "buffer"));
    // The transfer comes right after the allocation that made the buffer.
    assert_int_equal(atoi(rest_text(answer.json, "id") + 3),
                     atoi(rest_text(answer.json, "buffer") + 4) + 1);
    json_decref(rest_json(answer, 202));
    is_text(get(rest, path, accept_json, NULL),
            "{\"shape\":\"s16[2,2]\",\"values\":[[1,3],[2,4]]}\n");
    answer = get(rest, path, "Accept: application/x-npy", NULL);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.size, 128 + 8);
    assert_memory_equal(answer.body, "\x93NUMPY\x01\x00", 8);
    assert_non_null(strstr(answer.body + 10, "'<i2'"));
    assert_memory_equal(answer.body + 128, "\1\0\3\0\2\0\4\0", 8);
    rest_answer_free(&answer);
    // Of the buffer's shape only.
    size = npy_file(file,
                    "{'descr': '<i2', 'fortran_order': False, 'shape': (4,)}",
                    "\1\0\2\0\3\0\4\0", 8);
    rest_is_problem(put(rest, path, npy, NULL, file, size), 422,
                    "SHAPE_MISMATCH");
    size = npy_file(file,
                    "{'descr': '<f2', 'fortran_order': False, 'shape': (2,2)}",
                    "\1\0\2\0\3\0\4\0", 8);
    rest_is_problem(put(rest, path, npy, NULL, file, size), 422,
                    "SHAPE_MISMATCH");
    rest_is_problem(put(rest, path, npy, NULL, file, size - 1), 400, "BAD_NPY");
    size =
        npy_file(file, "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
                 "\1\0\2\0\3\0\4\0", 8);
    rest_is_problem(put(rest, path, npy, NULL, file, size), 415, "NPY_DTYPE");
}

static void bfloat_must_be_said(void **state)
{
    struct rest *rest = *state;
    char file[256];
    const char *headers[] = {npy, NULL};
    size_t size = npy_file(
        file, "{'descr': '<V2', 'fortran_order': False, 'shape': (2,)}",
        "\x80\x3f\x00\xc0", 4);
    rest_is_problem(
        rest_ask(rest, "POST", "/v1/buffers?core=0", headers, file, size), 415,
        "NPY_DTYPE");
    rest_is_problem(rest_ask(rest, "POST",
                             "/v1/buffers?core=0&element_type=F32", headers,
                             file, size),
                    422, "SHAPE_MISMATCH");
    rest_is_problem(rest_ask(rest, "POST",
                             "/v1/buffers?core=0&element_type=F31", headers,
                             file, size),
                    400, "BAD_PARAMETER");
    rest_is_problem(rest_ask(rest, "POST", "/v1/buffers", headers, file, size),
                    400, "BAD_PARAMETER");
    json_decref(
        rest_json(rest_ask(rest, "POST", "/v1/buffers?core=0&element_type=BF16",
                           headers, file, size),
                  202));
    const char *path = make(rest, "{\"core\":0,\"shape\":\"bf16[2]\"}");
    json_decref(rest_json(put(rest, path, npy, NULL, file, size), 202));
    is_text(get(rest, path, accept_json, NULL),
            "{\"shape\":\"bf16[2]\",\"values\":[1,-2]}\n");
}

static void is_query_refused(struct rest *rest, const char *path,
                             const char *query, long status, const char *reason)
{
    char whole[1024];
    int length = snprintf(whole, sizeof(whole), "%s?%s", path, query);
    assert_true(length > 0 && (size_t)length < sizeof(whole));
    rest_is_problem(put(rest, whole, octets, NULL, "abcd", 4), status, reason);
}

static void common_members_in_the_query(void **state)
{
    static const struct {
        const char *query;
        long status;
        const char *reason;
    } cases[] = {
        {"label=a", 422, "BAD_TEXT"},
        {"label==b", 422, "BAD_TEXT"},
        {"label=a%20b=c", 422, "BAD_TEXT"},
        {"label=a=%01", 422, "BAD_TEXT"},
        {"label=a=%00", 400, "BAD_PARAMETER"},
        {"label=a=b&label=c=d&label=a=e", 400, "BAD_PARAMETER"},
        {"name=", 422, "BAD_TEXT"},
        {"name=a%7fb", 422, "BAD_TEXT"},
        {"name=a%ff", 400, "BAD_PARAMETER"},
        {"name=a&name=b", 400, "BAD_PARAMETER"},
        {"priority=11", 400, "BAD_PARAMETER"},
        {"priority=-11", 400, "BAD_PARAMETER"},
        {"priority=1.5", 400, "BAD_PARAMETER"},
        {"deadline=soon", 400, "BAD_PARAMETER"},
        {"deadline=-1s", 400, "BAD_PARAMETER"},
        {"deadline=1s%0a", 400, "BAD_PARAMETER"},
        {"deadline=1s&deadline=2s", 400, "BAD_PARAMETER"},
        {"on_dependency_failure=MAYBE", 400, "BAD_PARAMETER"},
        {"after=op-999999999", 422, "UNKNOWN_HANDLE"},
        {"after=what", 422, "UNKNOWN_HANDLE"},
        {"after=op-1%0a", 422, "UNKNOWN_HANDLE"},
        {"unknown=1", 400, "UNKNOWN_PARAMETER"},
    };
    struct rest *rest = *state;
    const char *path = make(rest, "{\"core\":0,\"bytes\":\"4\"}");
    char query[512];
    int length = 0;
    uint64_t before = pod_last_number(rest_engine(rest));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        is_query_refused(rest, path, cases[i].query, cases[i].status,
                         cases[i].reason);
    for (int i = 0; i < 17; i++) // 16 are allowed
        length += snprintf(query + length, sizeof(query) - (size_t)length,
                           "&label=k%d=v", i);
    is_query_refused(rest, path, query + 1, 422, "BAD_TEXT");
    (void)snprintf(query, sizeof(query), "label=%064d=v", 0); // 63 are
    is_query_refused(rest, path, query, 422, "BAD_TEXT");
    (void)snprintf(query, sizeof(query), "label=k=%0257d", 0); // 256 are
    is_query_refused(rest, path, query, 422, "BAD_TEXT");
    (void)snprintf(query, sizeof(query), "name=%0257d", 0); // 256 are
    is_query_refused(rest, path, query, 422, "BAD_TEXT");
    assert_int_equal(pod_last_number(rest_engine(rest)), before);
    char whole[1024];
    (void)snprintf(whole, sizeof(whole),
                   "%s?name=%0256d&label=%063d=%0256d&priority=-10", path, 0, 0,
                   0);
    json_decref(rest_json(put(rest, whole, octets, NULL, "abcd", 4), 202));
}

static void wrong_lengths_and_types(void **state)
{
    struct rest *rest = *state;
    const char *path = make(rest, "{\"core\":0,\"bytes\":\"4\"}");
    rest_is_problem(put(rest, path, octets, NULL, "abc", 3), 400, "BAD_LENGTH");
    rest_is_problem(put(rest, path, octets, NULL, "abcde", 5), 400,
                    "BAD_LENGTH");
    // Chunked: told when it is longer, or ends shorter.
    rest_is_problem(
        put(rest, path, octets, "Transfer-Encoding: chunked", "abc", 3), 400,
        "BAD_LENGTH");
    json_decref(rest_json(
        put(rest, path, octets, "Transfer-Encoding: chunked", "abcd", 4), 202));
    rest_is_problem(
        put(rest, path, "Content-Type: text/plain", NULL, "abcd", 4), 415,
        "UNSUPPORTED_TYPE");
    rest_is_problem(rest_ask(rest, "PUT", path, NULL, "abcd", 4), 415,
                    "UNSUPPORTED_TYPE");
    rest_is_problem(
        put(rest, path, octets, "Content-Encoding: gzip", "abcd", 4), 415,
        "UNSUPPORTED_TYPE");
    is_bytes(rest_get(rest, path), 200, "abcd", 4);
}

static void parts(void **state)
{
    struct rest *rest = *state;
    static const char *const bad[] = {
        "Content-Range: bytes 6-8/8", "Content-Range: bytes 0-1/9",
        "Content-Range: bytes 1-0/8", "Content-Range: lines 0-1/8",
        "Content-Range: bytes 0-1",   "Content-Range: bytes */8",
        "Content-Range: bytes 8-9/8",
    };
    const char *path = make(rest, "{\"core\":0,\"bytes\":\"8\"}");
    json_decref(rest_json(
        put(rest, path, octets, "Content-Range: bytes 2-3/8", "ab", 2), 202));
    json_decref(rest_json(
        put(rest, path, octets, "Content-Range: bytes 4-4/*", "c", 1), 202));
    is_bytes(rest_get(rest, path), 200, "\0\0abc\0\0", 8);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char reason[64];
        assert_int_equal(
            rest_status(put(rest, path, octets, bad[i], "ab", 2), reason), 400);
        assert_true(strcmp(reason, "BAD_VALUE") == 0 ||
                    strcmp(reason, "BAD_LENGTH") == 0);
    }
    rest_is_problem(
        put(rest, path, octets, "Content-Range: bytes 2-3/8", "abc", 3), 400,
        "BAD_LENGTH");
    rest_is_problem(put(rest, path, npy, "Content-Range: bytes 2-3/8", "ab", 2),
                    400, "BAD_VALUE");
}

static void digests_are_verified_first(void **state)
{
    struct rest *rest = *state;
    const char *path = make(rest, "{\"core\":0,\"bytes\":\"9\"}");
    const char *right = "Content-Digest: crc32c=:4waSgw==:, "
                        "sha-256=:FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU"
                        "=:";
    json_decref(rest_json(put(rest, path, octets, right, "123456789", 9), 202));
    rest_is_problem(put(rest, path, octets, right, "123456780", 9), 400,
                    "DIGEST_MISMATCH");
    rest_is_problem(
        put(rest, path, octets, "Content-Digest: crc32c=x", "123456789", 9),
        400, "BAD_VALUE");
    is_bytes(rest_get(rest, path), 200, "123456789", 9);
    rest_is_problem(put(rest, path, "Content-Type: application/json", right,
                        "{\"values\":[1,2,3,4,5,6,7,8,9]}", 30),
                    400, "BAD_VALUE");
}

// Longer than one slice of the check.
static void a_digest_of_many_slices(void **state)
{
    struct rest *rest = *state;
    enum { SIZE = 3 * (1 << 20) / 2 }; // two of them fit the budget
    const char *path = make(rest, "{\"core\":0,\"bytes\":\"1572864\"}");
    char *bytes = calloc(1, SIZE);
    assert_non_null(bytes);
    // sha256sum of that many zeros.
    const char *right =
        "Content-Digest: "
        "sha-256=:EG8GR64QplFrGrKWgDgWHih+9A0bIsoEdTHtdo5ZTvE=:";
    // Its bytes are held until it is done.
    char waiting[96];
    (void)snprintf(waiting, sizeof(waiting), "%s?wait=20s", path);
    json_decref(rest_json(put(rest, waiting, octets, right, bytes, SIZE), 200));
    bytes[SIZE - 1] = 1;
    rest_is_problem(put(rest, path, octets, right, bytes, SIZE), 400,
                    "DIGEST_MISMATCH");
    free(bytes);
}

static void empty_arrays_and_scalars(void **state)
{
    struct rest *rest = *state;
    const char *path = make(rest, "{\"core\":0,\"shape\":\"f32[0,3]\"}");
    is_bytes(rest_get(rest, path), 200, "", 0);
    json_decref(rest_json(put(rest, path, octets, NULL, "", 0), 202));
    is_text(get(rest, path, accept_json, NULL),
            "{\"shape\":\"f32[0,3]\",\"values\":[]}\n");
    struct rest_answer answer =
        get(rest, path, "Accept: application/x-npy", NULL);
    assert_int_equal(answer.size, 128);
    assert_non_null(strstr(answer.body + 10, "'shape': (0, 3), }"));
    rest_answer_free(&answer);
    rest_is_problem(get(rest, path, "Range: bytes=0-", NULL), 416,
                    "RANGE_NOT_SATISFIABLE");
    path = make(rest, "{\"core\":0,\"shape\":\"s64[]\",\"values\":-1}");
    is_text(get(rest, path, accept_json, NULL),
            "{\"shape\":\"s64[]\",\"values\":\"-1\"}\n");
    path = make(rest, "{\"core\":0,\"bytes\":\"0\"}");
    is_bytes(rest_get(rest, path), 200, "", 0);
}

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
    is_bytes(get(rest, path, match, NULL), 304, "", 0);
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

static uint64_t staged(struct rest *rest)
{
    uint64_t used = 0;
    uint64_t max = 0;

    pod_staging_usage(rest_engine(rest), &used, &max);
    return used;
}

static void put_whole(struct rest *rest, const char *data, const char *type,
                      const void *bytes, size_t size)
{
    char path[80];

    (void)snprintf(path, sizeof(path), "%s?wait=30s", data);
    json_t *event = rest_json(put(rest, path, type, NULL, bytes, size), 200);
    assert_string_equal(rest_text(event, "state"), "SUCCEEDED");
    json_decref(event);
}

static void is_filled(struct rest *rest, const char *path, int value,
                      size_t size)
{
    char *want = malloc(size);

    assert_non_null(want);
    memset(want, value, size);
    is_bytes(get(rest, path, NULL, NULL), 200, want, size);
    free(want);
}

// The device keeps the memory that a whole write came in: it is the budget's no
// more, and each buffer has its own.
static void whole_writes_leave_the_budget(void **state)
{
    enum { SIZE = 3 << 20, HEADER = 128 };
    static const char header[] =
        "\x93NUMPY\1\0\x76\0{'descr': '|u1', 'fortran_order': False, "
        "'shape': (3145728,), }";
    struct rest *rest = *state;
    char first[64];
    char second[64];
    char *bytes = malloc(HEADER + SIZE);
    assert_non_null(bytes);
    uint64_t before = staged(rest);
    (void)snprintf(first, sizeof(first), "%s",
                   make(rest, "{\"core\":0,\"bytes\":\"3145728\"}"));
    (void)snprintf(second, sizeof(second), "%s",
                   make(rest, "{\"core\":0,\"bytes\":\"3145728\"}"));
    memset(bytes, ' ', HEADER);
    memcpy(bytes, header, sizeof(header) - 1);
    bytes[HEADER - 1] = '\n';
    for (int i = 1; i <= 3; i++) {
        memset(bytes + HEADER, i, SIZE);
        put_whole(rest, first, octets, bytes + HEADER, SIZE);
        assert_int_equal(staged(rest), before);
    }
    memset(bytes + HEADER, 4, SIZE);
    put_whole(rest, second, npy, bytes, HEADER + SIZE);
    assert_int_equal(staged(rest), before);
    is_filled(rest, first, 3, SIZE);
    is_filled(rest, second, 4, SIZE);
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
        cmocka_unit_test(octets_there_and_back),
        cmocka_unit_test(values_there_and_back),
        cmocka_unit_test(npy_there_and_back),
        cmocka_unit_test(bfloat_must_be_said),
        cmocka_unit_test(common_members_in_the_query),
        cmocka_unit_test(wrong_lengths_and_types),
        cmocka_unit_test(parts),
        cmocka_unit_test(digests_are_verified_first),
        cmocka_unit_test(a_digest_of_many_slices),
        cmocka_unit_test(empty_arrays_and_scalars),
        cmocka_unit_test(ranges),
        cmocka_unit_test(tags_guard_ranges),
        cmocka_unit_test(tags_guard_reads),
        cmocka_unit_test(writes_give_their_tag),
        cmocka_unit_test(tags_guard_writes),
        cmocka_unit_test(accept_decides),
        cmocka_unit_test(asynchronous_reads_are_kept),
        cmocka_unit_test(heads_make_no_operation),
        cmocka_unit_test(waits_of_reads),
        cmocka_unit_test(staging_is_a_budget),
        cmocka_unit_test(whole_writes_leave_the_budget),
        cmocka_unit_test(big_reads_stream),
        cmocka_unit_test(big_reads_count_as_staging),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
