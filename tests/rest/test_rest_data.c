// SPDX-License-Identifier: Apache-2.0
// Bytes in and out of buffers over HTTP: forms, parts, digests, budgets.
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

// Sends "123456789" as one chunk with these headers and this trailer.
static struct client_answer put_with_trailer(struct rest *rest,
                                             const char *path,
                                             const char *headers,
                                             const char *trailer)
{
    char text[1024];
    int fd = client_connect(api_server_port(rest_server(rest)));

    (void)snprintf(text, sizeof(text),
                   "PUT %s HTTP/1.1\r\nHost: localhost\r\n%s"
                   "Content-Type: application/octet-stream\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n"
                   "9\r\n123456789\r\n0\r\n%s\r\n",
                   path, headers, trailer);
    assert_true(client_puts(fd, text));
    struct client_answer answer = client_read(fd, false);
    (void)close(fd);
    return answer;
}

// Wherever a digest stands, and however many of them there are.
static void digests_in_trailers_are_verified(void **state)
{
    struct rest *rest = *state;
    const char *path = make(rest, "{\"core\":0,\"bytes\":\"9\"}");
    const char *right = "Content-Digest: crc32c=:4waSgw==:\r\n";
    const char *wrong = "content-digest: crc32c=:AAAAAA==:\r\n";
    const char *twice = "Content-Digest: crc32c=:4waSgw==:\r\n"
                        "Content-Digest: crc32c=:AAAAAA==:\r\n";
    const struct {
        const char *headers;
        const char *trailer;
        int status;
    } cases[] = {
        {"", right, 202},    {"", wrong, 400},
        {right, right, 202}, {right, wrong, 400},
        {wrong, right, 400}, {twice, "", 400},
        {"", twice, 400},    {"", "Content-Digest: x\r\n", 400},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct client_answer answer =
            put_with_trailer(rest, path, cases[i].headers, cases[i].trailer);
        if (answer.status != cases[i].status)
            fail_msg("case %zu: %d %s", i, answer.status, answer.body);
        client_answer_free(&answer);
    }
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
    (void)snprintf(waiting, sizeof(waiting), "%s?wait=50s", path);
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
    // Nothing was moved, and the event says so.
    char waiting[96];
    (void)snprintf(waiting, sizeof(waiting), "%s?wait=50s", path);
    json_t *event = rest_json(put(rest, waiting, octets, NULL, "", 0), 200);
    assert_string_equal(rest_text(event, "bytes"), "0");
    assert_string_equal(rest_text(json_object_get(event, "result"), "bytes"),
                        "0");
    json_decref(event);
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

    (void)snprintf(path, sizeof(path), "%s?wait=50s", data);
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
        cmocka_unit_test(digests_in_trailers_are_verified),
        cmocka_unit_test(a_digest_of_many_slices),
        cmocka_unit_test(empty_arrays_and_scalars),
        cmocka_unit_test(whole_writes_leave_the_budget),
    };
    return cmocka_run_group_tests(tests, data_setup, rest_teardown);
}
