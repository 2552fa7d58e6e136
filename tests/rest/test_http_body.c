// SPDX-License-Identifier: Apache-2.0
// Bodies: JSON and its limits, data and its budget, bodies that break off.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "core/base/clock.h"
#include "tests/lib/http_client.h"
#include "tests/lib/http_fixture.h"

#define HOST "Host: localhost\r\n"

enum { STAGING = 1 << 20 };

static struct fixture *server;

static int setup(void **state)
{
    const struct api_limits limits = {
        .json_bytes = 20000, .json_total_bytes = 30000, .json_values = 500};

    (void)state;
    server = fixture_start(&limits, STAGING);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_true(fixture_await_connections(server, 0));
    assert_int_equal(atomic_load(&server->staging_used), 0);
    fixture_stop(server);
    return 0;
}

static json_t *problem_of(const struct client_answer *answer)
{
    json_error_t fault;
    json_t *problem = json_loadb(answer->body, answer->body_size, 0, &fault);

    assert_non_null(problem);
    return problem;
}

static void expect_reason(const struct client_answer *answer, int status,
                          const char *reason)
{
    json_t *problem = problem_of(answer);

    assert_string_equal(json_string_value(json_object_get(problem, "reason")),
                        reason);
    assert_int_equal(answer->status, status);
    json_decref(problem);
}

static struct client_answer post(const char *path, const char *head,
                                 const char *body)
{
    char *request = NULL;

    if (asprintf(&request,
                 "POST %s HTTP/1.1\r\n" HOST "%sContent-Length: %zu\r\n\r\n%s",
                 path, head, strlen(body), body) < 0)
        abort();
    struct client_answer answer = client_ask(server->port, request);
    free(request);
    return answer;
}

static void expect_post(const char *head, const char *body, int status,
                        const char *reason)
{
    struct client_answer answer = post("/echo", head, body);

    if (answer.status != status)
        fail_msg("status %d, not %d for %s %.40s", answer.status, status, head,
                 body);
    if (reason != NULL)
        expect_reason(&answer, status, reason);
    client_answer_free(&answer);
}

#define JSON "Content-Type: application/json\r\n"

static void test_types(void **state)
{
    (void)state;
    expect_post(JSON, "{}", 200, NULL);
    expect_post("Content-Type: APPLICATION/JSON; charset=UTF-8\r\n", "{}", 200,
                NULL);
    expect_post("Content-Type: application/json; v=1\r\n", "{}", 200, NULL);
    expect_post("Content-Type: application/json; charset=latin1\r\n", "{}", 415,
                "UNSUPPORTED_TYPE");
    expect_post("Content-Type: application/jsonp\r\n", "{}", 415,
                "UNSUPPORTED_TYPE");
    expect_post("", "{}", 415, "UNSUPPORTED_TYPE");
    expect_post(JSON "Content-Encoding: gzip\r\n", "{}", 415,
                "UNSUPPORTED_TYPE");
    expect_post(JSON "Content-Encoding: identity\r\n", "{}", 200, NULL);
}

// What curl -d sends is told which header to add.
static void test_form_type_is_told_the_header(void **state)
{
    (void)state;
    struct client_answer answer = post(
        "/echo", "Content-Type: application/x-www-form-urlencoded\r\n", "{}");
    json_t *problem = problem_of(&answer);
    const char *detail = json_string_value(json_object_get(problem, "detail"));
    assert_int_equal(answer.status, 415);
    assert_non_null(strstr(detail, "Content-Type: application/json"));
    json_decref(problem);
    client_answer_free(&answer);
}

static void test_json_faults(void **state)
{
    (void)state;
    expect_post(JSON, "", 400, "EMPTY_BODY");
    expect_post(JSON, "[1]", 400, "WRONG_TYPE");
    expect_post(JSON, "{\"a\":1,\"a\":2}", 400, "BAD_JSON");
    expect_post(JSON, "{\"a\":\"\xff\"}", 400, "BAD_JSON");
    expect_post(JSON, "{} x", 400, "BAD_JSON");
    struct client_answer answer = post("/echo", JSON, "{\n\"a\": x}");
    json_t *problem = problem_of(&answer);
    const json_t *metadata = json_object_get(problem, "metadata");
    assert_string_equal(json_string_value(json_object_get(metadata, "line")),
                        "2");
    assert_string_equal(json_string_value(json_object_get(metadata, "column")),
                        "6");
    json_decref(problem);
    client_answer_free(&answer);
}

static void test_json_limits(void **state)
{
    char *large = malloc(30002);
    char *values = malloc(4000);
    char deep[80];
    size_t used = 0;

    (void)state;
    memset(large, ' ', 30001);
    large[30001] = '\0';
    memcpy(large, "{}", 2);
    large[20000] = '\0';
    expect_post(JSON, large, 200, NULL);
    large[20000] = ' ';
    large[20001] = '\0';
    expect_post(JSON, large, 413, "BODY_TOO_LARGE");
    // The object, the array and 498 numbers are 500 values.
    used += (size_t)snprintf(values, 4000, "{\"a\":[1");
    for (int i = 0; i < 497; i++)
        used += (size_t)snprintf(values + used, 4000 - used, ",1");
    memcpy(values + used, "]}", 3);
    expect_post(JSON, values, 200, NULL);
    memcpy(values + used, ",1]}", 5);
    expect_post(JSON, values, 413, "BODY_TOO_LARGE");
    memcpy(deep, "{\"a\":", 5);
    memset(deep + 5, '[', 32);
    memset(deep + 37, ']', 32);
    memcpy(deep + 69, "}", 2);
    expect_post(JSON, deep, 413, "BODY_TOO_LARGE");
    free(large);
    free(values);
}

static void test_optional_body(void **state)
{
    (void)state;
    struct client_answer answer =
        client_ask(server->port, "POST /poke HTTP/1.1\r\n" HOST "\r\n");
    assert_int_equal(answer.status, 204);
    client_answer_free(&answer);
    answer = post("/poke",
                  "Content-Type: application/x-www-form-urlencoded"
                  "\r\n",
                  "");
    assert_int_equal(answer.status, 204);
    client_answer_free(&answer);
    answer = post("/poke", JSON, "{");
    expect_reason(&answer, 400, "BAD_JSON");
    client_answer_free(&answer);
    answer = post("/things/a:poke", JSON, "{}");
    expect_reason(&answer, 400, "BAD_LENGTH");
    client_answer_free(&answer);
}

// Two bodies of 16,000 bytes do not fit into 30,000.
static void test_json_bodies_in_all(void **state)
{
    char *spaces = calloc(1, 16001);
    int fd = client_connect(server->port);
    char head[200];

    (void)state;
    memset(spaces, ' ', 16000);
    (void)snprintf(head, sizeof(head),
                   "POST /echo HTTP/1.1\r\n" HOST JSON
                   "Content-Length: 16002\r\nExpect: 100-continue\r\n\r\n");
    (void)client_puts(fd, head);
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), 1); // of 100 Continue
    memcpy(spaces, "{}", 2);
    expect_post(JSON, spaces, 429, "TOO_MANY_REQUESTS");
    (void)close(fd);
    assert_true(fixture_await_connections(server, 0));
    expect_post(JSON, spaces, 200, NULL);
    free(spaces);
}

// ------------------------------------------------------------------- data

static struct client_answer put(const char *path, size_t size)
{
    char head[200];
    char *body = malloc(size + 1);
    int fd = client_connect(server->port);

    memset(body, 1, size);
    (void)snprintf(head, sizeof(head),
                   "PUT %s HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n",
                   path, size);
    (void)(client_puts(fd, head) && client_send(fd, body, size));
    struct client_answer answer = client_read(fd, false);
    (void)close(fd);
    free(body);
    return answer;
}

static void expect_put(const char *path, size_t size, int status,
                       const char *reason)
{
    struct client_answer answer = put(path, size);
    char wanted[64];

    if (reason != NULL) {
        expect_reason(&answer, status, reason);
    } else {
        (void)snprintf(wanted, sizeof(wanted), "{\"bytes\":%zu,\"sum\":%zu}\n",
                       size, size);
        assert_int_equal(answer.status, status);
        assert_string_equal(answer.body, wanted);
    }
    client_answer_free(&answer);
}

static void test_data(void **state)
{
    (void)state;
    expect_put("/data", 0, 200, NULL);
    expect_put("/data", 1, 200, NULL);
    expect_put("/data", STAGING, 200, NULL);
    expect_put("/exact", 1000, 200, NULL);
    expect_put("/exact", 999, 400, "BAD_LENGTH");
    expect_put("/exact", 1001, 400, "BAD_LENGTH");
}

// Larger than the whole budget: 413 before the body, which Expect shows.
static void test_larger_than_the_budget(void **state)
{
    (void)state;
    struct client_answer answer =
        client_ask(server->port,
                   "PUT /data HTTP/1.1\r\n" HOST "Content-Length: 1048577\r\n"
                   "Expect: 100-continue\r\n\r\n");
    expect_reason(&answer, 413, "BODY_TOO_LARGE");
    assert_string_equal(client_header(&answer, "Connection"), "close");
    client_answer_free(&answer);
}

// The client sends all of its body before it reads: the refusal must not be
// lost to a reset.
static void test_refusal_survives_an_unread_body(void **state)
{
    size_t size = 8 << 20;
    char *body = calloc(1, size);
    char head[100];

    (void)state;
    for (int i = 0; i < 20; i++) {
        int fd = client_connect(server->port);
        (void)snprintf(
            head, sizeof(head),
            "PUT /data HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n", size);
        assert_true(client_puts(fd, head));
        assert_true(client_send(fd, body, size));
        struct client_answer answer = client_read(fd, false);
        expect_reason(&answer, 413, "BODY_TOO_LARGE");
        client_answer_free(&answer);
        assert_true(client_is_closed(fd));
        (void)close(fd);
    }
    free(body);
}

static void test_budget_is_full(void **state)
{
    int fd = client_connect(server->port);

    (void)state;
    (void)client_puts(fd, "PUT /data HTTP/1.1\r\n" HOST
                          "Content-Length: 1000000\r\n"
                          "Expect: 100-continue\r\n\r\n");
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), 1); // of 100 Continue
    struct client_answer answer = client_ask(
        server->port, "PUT /data HTTP/1.1\r\n" HOST "Content-Length: 100000\r\n"
                      "Expect: 100-continue\r\n\r\n");
    expect_reason(&answer, 429, "STAGING_FULL");
    assert_non_null(client_header(&answer, "Retry-After"));
    json_t *problem = problem_of(&answer);
    const json_t *metadata = json_object_get(problem, "metadata");
    assert_string_equal(json_string_value(json_object_get(metadata, "used")),
                        "1000000");
    assert_string_equal(json_string_value(json_object_get(metadata, "max")),
                        "1048576");
    json_decref(problem);
    client_answer_free(&answer);
    (void)close(fd);
    assert_true(fixture_await_connections(server, 0));
    assert_int_equal(atomic_load(&server->staging_used), 0);
    expect_put("/data", 100000, 200, NULL);
}

// Sends `count` chunks of `size` bytes of value 1, and the end if asked.
static struct client_answer put_chunked(const char *path, size_t count,
                                        size_t size, bool end)
{
    char head[64];
    char *chunk = malloc(size);
    int fd = client_connect(server->port);

    memset(chunk, 1, size);
    (void)snprintf(head, sizeof(head), "PUT %s HTTP/1.1\r\n" HOST, path);
    bool open = client_puts(fd, head) &&
                client_puts(fd, "Transfer-Encoding: chunked\r\n\r\n");
    (void)snprintf(head, sizeof(head), "%zx\r\n", size);
    for (size_t i = 0; i < count && open; i++)
        open = client_puts(fd, head) && client_send(fd, chunk, size) &&
               client_puts(fd, "\r\n");
    if (end && open)
        (void)client_puts(fd, "0\r\nX-Trailer: dropped\r\n\r\n");
    struct client_answer answer = client_read(fd, false);
    (void)close(fd);
    free(chunk);
    return answer;
}

static void test_chunked(void **state)
{
    (void)state;
    struct client_answer answer = put_chunked("/data", 100, 3000, true);
    assert_string_equal(answer.body, "{\"bytes\":300000,\"sum\":300000}\n");
    client_answer_free(&answer);
    answer = put_chunked("/exact", 10, 100, true);
    assert_string_equal(answer.body, "{\"bytes\":1000,\"sum\":1000}\n");
    client_answer_free(&answer);
    answer = put_chunked("/exact", 9, 100, true);
    expect_reason(&answer, 400, "BAD_LENGTH");
    client_answer_free(&answer);
}

// Told as soon as it is too long, though the body never ends.
static void test_chunked_too_long(void **state)
{
    (void)state;
    int handled = atomic_load(&server->handled);
    struct client_answer answer = put_chunked("/exact", 11, 100, false);
    expect_reason(&answer, 400, "BAD_LENGTH");
    client_answer_free(&answer);
    answer = put_chunked("/data", 20, 100000, false);
    expect_reason(&answer, 413, "BODY_TOO_LARGE");
    client_answer_free(&answer);
    assert_int_equal(atomic_load(&server->handled), handled);
}

static void test_chunked_json(void **state)
{
    char body[64];
    int fd = client_connect(server->port);

    (void)state;
    (void)client_puts(fd, "POST /echo HTTP/1.1\r\n" HOST JSON
                          "Transfer-Encoding: chunked\r\n\r\n");
    (void)client_puts(fd, "4\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\n\r\n");
    struct client_answer answer = client_read(fd, false);
    assert_string_equal(answer.body, "{\"a\":1}\n");
    client_answer_free(&answer);
    (void)client_puts(fd, "POST /echo HTTP/1.1\r\n" HOST JSON
                          "Transfer-Encoding: chunked\r\n\r\n");
    (void)snprintf(body, sizeof(body), "32\r\n%50s\r\n", "");
    bool open = true;
    for (int i = 0; i < 401 && open; i++) // 401 * 50 > 20,000
        open = client_puts(fd, body);
    answer = client_read(fd, false);
    expect_reason(&answer, 413, "BODY_TOO_LARGE");
    client_answer_free(&answer);
    (void)close(fd);
}

// A body that breaks off reaches no handler, and its bytes are given back.
static void test_body_breaks_off(void **state)
{
    static const char *const requests[] = {
        "PUT /data HTTP/1.1\r\n" HOST "Content-Length: 5000\r\n\r\nabc",
        "PUT /data HTTP/1.1\r\n" HOST
        "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
        "POST /echo HTTP/1.1\r\n" HOST JSON "Content-Length: 10\r\n\r\n{"};
    int handled = atomic_load(&server->handled);

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        int fd = client_connect(server->port);
        (void)client_puts(fd, requests[i]);
        (void)shutdown(fd, SHUT_WR);
        assert_true(client_is_closed(fd));
        (void)close(fd);
    }
    assert_true(fixture_await_connections(server, 0));
    assert_int_equal(atomic_load(&server->staging_used), 0);
    assert_int_equal(atomic_load(&server->handled), handled);
}

static void test_continue(void **state)
{
    int fd = client_connect(server->port);
    char seen[26] = "";

    (void)state;
    (void)client_puts(fd, "PUT /data HTTP/1.1\r\n" HOST
                          "Content-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    assert_int_equal(recv(fd, seen, 25, MSG_WAITALL), 25);
    assert_string_equal(seen, "HTTP/1.1 100 Continue\r\n\r\n");
    (void)client_send(fd, "\1\1\1", 3);
    struct client_answer answer = client_read(fd, false);
    assert_string_equal(answer.body, "{\"bytes\":3,\"sum\":3}\n");
    client_answer_free(&answer);
    (void)close(fd);
}

// A small refused body is read, so that the connection lives on.
static void test_small_refused_body_keeps_the_connection(void **state)
{
    int fd = client_connect(server->port);

    (void)state;
    (void)client_puts(fd, "POST /echo HTTP/1.1\r\n" HOST
                          "Content-Length: 2\r\n\r\n{}"
                          "GET /hello HTTP/1.1\r\n" HOST "\r\n");
    struct client_answer answer = client_read(fd, false);
    expect_reason(&answer, 415, "UNSUPPORTED_TYPE");
    client_answer_free(&answer);
    answer = client_read(fd, false);
    assert_int_equal(answer.status, 200);
    client_answer_free(&answer);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_form_type_is_told_the_header),
        cmocka_unit_test(test_json_faults),
        cmocka_unit_test(test_json_limits),
        cmocka_unit_test(test_optional_body),
        cmocka_unit_test(test_json_bodies_in_all),
        cmocka_unit_test(test_data),
        cmocka_unit_test(test_larger_than_the_budget),
        cmocka_unit_test(test_refusal_survives_an_unread_body),
        cmocka_unit_test(test_budget_is_full),
        cmocka_unit_test(test_chunked),
        cmocka_unit_test(test_chunked_too_long),
        cmocka_unit_test(test_chunked_json),
        cmocka_unit_test(test_body_breaks_off),
        cmocka_unit_test(test_continue),
        cmocka_unit_test(test_small_refused_body_keeps_the_connection),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
