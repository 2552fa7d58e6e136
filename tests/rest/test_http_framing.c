// SPDX-License-Identifier: Apache-2.0
// What is refused before routing, on raw sockets: framing that can be read in
// two ways, hosts and origins that are not ours, oversized headers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/lib/http_client.h"
#include "tests/lib/http_fixture.h"

#define HOST "Host: localhost\r\n"

static struct fixture *server;

static int setup(void **state)
{
    (void)state;
    server = fixture_start(NULL, 1 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_stop(server);
    return 0;
}

static void expect_reason(const struct client_answer *answer,
                          const char *reason)
{
    json_error_t fault;
    json_t *problem = json_loadb(answer->body, answer->body_size, 0, &fault);

    assert_non_null(problem);
    assert_string_equal(client_header(answer, "Content-Type"),
                        "application/problem+json");
    assert_string_equal(json_string_value(json_object_get(problem, "reason")),
                        reason);
    assert_int_equal(json_integer_value(json_object_get(problem, "status")),
                     answer->status);
    assert_string_equal(
        json_string_value(json_object_get(problem, "request_id")),
        client_header(answer, "X-Request-Id"));
    json_decref(problem);
}

// The request is answered with this status and, if `reason` is not NULL, this
// problem; a connection that must close has nothing more on it.
static void expect(const char *request, int status, const char *reason,
                   bool closes)
{
    int fd = client_connect(server->port);

    (void)client_puts(fd, request);
    struct client_answer answer =
        client_read(fd, strncmp(request, "HEAD ", 5) == 0);
    if (answer.status != status)
        fail_msg("status %d, not %d: %s", answer.status, status, request);
    if (reason != NULL)
        expect_reason(&answer, reason);
    client_answer_free(&answer);
    if (closes) {
        assert_true(client_is_closed(fd));
    } else {
        (void)client_puts(fd, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
        answer = client_read(fd, false);
        if (answer.status != 200)
            fail_msg("the connection did not go on: %s", request);
        client_answer_free(&answer);
    }
    (void)close(fd);
}

static void expect_bad(const char *request)
{
    expect(request, 400, "BAD_FRAMING", true);
}

static void test_hosts(void **state)
{
    static const char *const ours[] = {
        "localhost",       "LOCALHOST:99",   "127.0.0.1", "127.9.9.9:1",
        "localhost:65535", "[::1]:",         "[::1]",     "[::1]:8480",
        "pod.example",     "Pod.Example:443"};
    static const char *const others[] = {
        "evil.example",    "localhost.evil.example",
        "127.0.0.1.evil",  "[::2]",
        "localhost:http",  "localhost:123456",
        "localhost:65536", "[::1]:99999",
        "localhost:-1",    "localhost@evil",
        "127.1",           "",
        "localhost, evil", "[::1",
        "localhost:80:80", "podXexample",
        "10.0.0.1"};
    static const char *const methods[] = {"GET", "HEAD", "POST", "OPTIONS"};
    char request[512];

    (void)state;
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        (void)snprintf(request, sizeof(request),
                       "GET /hello HTTP/1.1\r\nHost: %s\r\n\r\n", ours[i]);
        expect(request, 200, NULL, false);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        (void)snprintf(request, sizeof(request),
                       "GET /hello HTTP/1.1\r\nHost: %s\r\n\r\n", others[i]);
        expect(request, 421, "WRONG_HOST", false);
    }
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        (void)snprintf(request, sizeof(request),
                       "%s /hello HTTP/1.1\r\nHost: evil.example\r\n\r\n",
                       methods[i]);
        expect(request, 421, i == 1 ? NULL : "WRONG_HOST", false);
    }
}

static void test_missing_or_repeated_host(void **state)
{
    (void)state;
    expect_bad("GET /hello HTTP/1.1\r\n\r\n");
    expect_bad("GET /hello HTTP/1.0\r\n\r\n");
    expect_bad("GET /hello HTTP/1.1\r\n" HOST HOST "\r\n");
    expect_bad("GET /hello HTTP/1.1\r\nHost : localhost\r\n\r\n");
    expect_bad("GET /hello HTTP/1.1\r\n Host: localhost\r\n\r\n");
}

static void test_absolute_form(void **state)
{
    (void)state;
    expect("GET http://localhost:1/hello HTTP/1.1\r\n" HOST "\r\n", 200, NULL,
           false);
    expect("GET http://evil.example/hello HTTP/1.1\r\n" HOST "\r\n", 421,
           "WRONG_HOST", false);
    expect("GET http://localhost@evil.example/hello HTTP/1.1\r\n" HOST "\r\n",
           421, "WRONG_HOST", false);
    expect("GET http:///hello HTTP/1.1\r\n" HOST "\r\n", 421, "WRONG_HOST",
           false);
}

// Each method, because libmicrohttpd treats bodies of POST and PUT apart.
static void test_lengths(void **state)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "DELETE"};
    static const char *const heads[] = {
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
        "Content-Length: 2\r\nContent-Length: 3\r\n",
        "Content-Length: 2\r\nContent-Length: 2\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: \r\n",
        "Content-Length : 2\r\n",
        "Transfer-Encoding : chunked\r\n"};
    char request[512];

    (void)state;
    for (size_t m = 0; m < sizeof(methods) / sizeof(methods[0]); m++) {
        for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
            (void)snprintf(request, sizeof(request),
                           "%s /echo HTTP/1.1\r\n" HOST "%s\r\n2\r\n{}\r\n"
                           "0\r\n\r\n",
                           methods[m], heads[i]);
            expect_bad(request);
        }
    }
}

// HTTP/1.0 has no chunks: who forwards such a request may take its end to be
// elsewhere (RFC 9112, 6.1).
static void test_chunks_of_http_1_0(void **state)
{
    (void)state;
    expect_bad("POST /echo HTTP/1.0\r\n" HOST
               "Content-Type: application/json\r\n"
               "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n");
    expect_bad("GET /hello HTTP/1.0\r\n" HOST "Connection: keep-alive\r\n"
               "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
}

// libmicrohttpd refuses some of these itself, with a body of its own.
static void test_malformed_lengths(void **state)
{
    static const char *const lengths[] = {"+2",   "-2",  "2x",  "",
                                          "2, 2", "0x2", "2.0", "2 2"};
    char request[512];

    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        (void)snprintf(request, sizeof(request),
                       "POST /echo HTTP/1.1\r\n" HOST
                       "Content-Length: %s\r\n\r\n{}",
                       lengths[i]);
        expect(request, 400, NULL, true);
    }
    expect_bad("POST /echo HTTP/1.1\r\n" HOST
               "Content-Length: 9223372036854775807\r\n\r\n{}");
    expect("POST /echo HTTP/1.1\r\n" HOST
           "Content-Length: 99999999999999999999\r\n\r\n{}",
           413, NULL, true);
}

// A smuggled second request is never served.
static void test_no_smuggling(void **state)
{
    int fd = client_connect(server->port);

    (void)state;
    (void)client_puts(fd, "POST /echo HTTP/1.1\r\n" HOST
                          "Content-Type: application/json\r\n"
                          "Content-Length: 5\r\n"
                          "Transfer-Encoding: chunked\r\n\r\n"
                          "0\r\n\r\nGET /hello HTTP/1.1\r\n" HOST "\r\n");
    struct client_answer answer = client_read(fd, false);
    assert_int_equal(answer.status, 400);
    client_answer_free(&answer);
    answer = client_read(fd, false);
    assert_int_equal(answer.status, 0);
    (void)close(fd);
}

static void test_targets(void **state)
{
    static const char nul[] = "GET /hel\0lo HTTP/1.1\r\n" HOST "\r\n";
    static const char late_nul[] = "GET /hello\0 HTTP/1.1\r\n" HOST "\r\n";

    (void)state;
    expect_bad("GET /a%2fb HTTP/1.1\r\n" HOST "\r\n");
    expect_bad("GET /a%2Fb HTTP/1.1\r\n" HOST "\r\n");
    expect_bad("GET /a%00b HTTP/1.1\r\n" HOST "\r\n");
    expect_bad("GET /a%zzb HTTP/1.1\r\n" HOST "\r\n");
    expect_bad("GET /a%ffb HTTP/1.1\r\n" HOST "\r\n");
    expect_bad("GET /a%0ab HTTP/1.1\r\n" HOST "\r\n");
    expect_bad("GET /a b HTTP/1.1\r\n" HOST "\r\n");
    expect_bad("GET /hello#x HTTP/1.1\r\n" HOST "\r\n");
    const struct {
        const char *bytes;
        size_t size;
    } raw[] = {{nul, sizeof(nul) - 1}, {late_nul, sizeof(late_nul) - 1}};
    for (size_t i = 0; i < 2; i++) {
        int fd = client_connect(server->port);
        (void)client_send(fd, raw[i].bytes, raw[i].size);
        struct client_answer answer = client_read(fd, false);
        assert_int_equal(answer.status, 400);
        expect_reason(&answer, "BAD_FRAMING");
        client_answer_free(&answer);
        assert_true(client_is_closed(fd));
        (void)close(fd);
    }
}

// The path is not normalised: only what was asked for is found.
static void test_dots_are_segments(void **state)
{
    (void)state;
    expect("GET /rest/../hello HTTP/1.1\r\n" HOST "\r\n", 200, NULL, false);
    struct client_answer answer =
        client_ask(server->port, "GET /rest/../hello HTTP/1.1\r\n" HOST "\r\n");
    assert_string_equal(answer.body, "../hello");
    client_answer_free(&answer);
    expect("GET /x/../hello HTTP/1.1\r\n" HOST "\r\n", 404, "NOT_FOUND", false);
}

static void test_origins(void **state)
{
    static const struct {
        const char *head;
        int status;
    } cases[] = {
        {"", 200},
        {"Origin: http://localhost\r\n", 200},
        {"Origin: https://localhost\r\n", 200},
        {"Origin: http://localhost:81\r\n", 403},
        {"Origin: http://evil.example\r\n", 403},
        {"Origin: null\r\n", 403},
        {"Origin: https://friend.example\r\n", 200},
        {"Sec-Fetch-Site: same-origin\r\n", 200},
        {"Sec-Fetch-Site: none\r\n", 200},
        {"Sec-Fetch-Site: same-site\r\n", 403},
        {"Sec-Fetch-Site: cross-site\r\n", 403},
        {"Sec-Fetch-Site: cross-site\r\nOrigin: http://localhost\r\n", 403},
        {"Sec-Fetch-Site: cross-site\r\nOrigin: https://friend.example\r\n",
         200},
    };
    char request[512];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)snprintf(request, sizeof(request),
                       "POST /things/a:poke HTTP/1.1\r\n" HOST "%s\r\n",
                       cases[i].head);
        expect(request, cases[i].status,
               cases[i].status == 403 ? "CROSS_ORIGIN" : NULL, false);
        // Reading is everybody's.
        (void)snprintf(request, sizeof(request),
                       "GET /hello HTTP/1.1\r\n" HOST "%s\r\n", cases[i].head);
        expect(request, 200, NULL, false);
    }
}

static void test_cors(void **state)
{
    static const char *const said[] = {
        "Authorization",   "Content-Digest", "Content-Range", "Content-Type",
        "If-Match",        "If-None-Match",  "If-Range",      "Last-Event-ID",
        "Idempotency-Key", "Prefer",         "Range",         "X-Request-Id",
        "traceparent"};

    (void)state;
    struct client_answer answer =
        client_ask(server->port, "GET /hello HTTP/1.1\r\n" HOST
                                 "Origin: https://friend.example\r\n\r\n");
    assert_string_equal(client_header(&answer, "Access-Control-Allow-Origin"),
                        "https://friend.example");
    // Beside what the handler says.
    assert_string_equal(client_header(&answer, "Vary"), "Accept, Origin");
    client_answer_free(&answer);
    answer = client_ask(server->port, "GET /hello HTTP/1.1\r\n" HOST
                                      "Origin: https://evil.example\r\n\r\n");
    assert_null(client_header(&answer, "Access-Control-Allow-Origin"));
    client_answer_free(&answer);
    // Whatever a request may say, a page may say.
    answer =
        client_ask(server->port, "OPTIONS /hello HTTP/1.1\r\n" HOST
                                 "Origin: https://friend.example\r\n"
                                 "Access-Control-Request-Method: PUT\r\n\r\n");
    const char *allowed =
        client_header(&answer, "Access-Control-Allow-Headers");
    assert_non_null(allowed);
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
        assert_non_null(strstr(allowed, said[i]));
    client_answer_free(&answer);
}

static void test_methods(void **state)
{
    (void)state;
    struct client_answer answer =
        client_ask(server->port, "PUT /things/a HTTP/1.1\r\n" HOST
                                 "Content-Length: 0\r\n\r\n");
    assert_int_equal(answer.status, 405);
    assert_string_equal(client_header(&answer, "Allow"),
                        "GET, HEAD, DELETE, OPTIONS");
    expect_reason(&answer, "METHOD_NOT_ALLOWED");
    client_answer_free(&answer);
    answer =
        client_ask(server->port, "OPTIONS /things/a HTTP/1.1\r\n" HOST "\r\n");
    assert_int_equal(answer.status, 204);
    assert_string_equal(client_header(&answer, "Allow"),
                        "GET, HEAD, DELETE, OPTIONS");
    client_answer_free(&answer);
    expect("BREW /hello HTTP/1.1\r\n" HOST "\r\n", 405, "METHOD_NOT_ALLOWED",
           false);
    expect("OPTIONS * HTTP/1.1\r\n" HOST "\r\n", 204, NULL, false);
    expect("POST /hello HTTP/1.1\r\n" HOST "\r\n", 405, "METHOD_NOT_ALLOWED",
           false);
}

static void test_header_limits(void **state)
{
    char filler[9000];
    char request[12000];

    (void)state;
    memset(filler, 'a', sizeof(filler));
    (void)snprintf(request, sizeof(request),
                   "GET /hello HTTP/1.1\r\n" HOST "X: %.7900s\r\n\r\n", filler);
    expect(request, 200, NULL, false);
    (void)snprintf(request, sizeof(request),
                   "GET /hello HTTP/1.1\r\n" HOST "X: %.8300s\r\n\r\n", filler);
    expect(request, 431, "HEADERS_TOO_LARGE", false);
    (void)snprintf(request, sizeof(request),
                   "GET /rest/%.4100s HTTP/1.1\r\n" HOST "\r\n", filler);
    expect(request, 414, "URI_TOO_LONG", false);
}

// What does not fit libmicrohttpd's memory is refused by it.
static void test_huge_headers(void **state)
{
    static char request[50000];
    size_t head = (size_t)snprintf(request, sizeof(request),
                                   "GET /hello HTTP/1.1\r\n" HOST "X: ");

    (void)state;
    memset(request + head, 'a', 40000);
    memcpy(request + head + 40000, "\r\n\r\n", 5);
    expect(request, 431, NULL, true);
}

static void test_garbage(void **state)
{
    static const char *const texts[] = {"garbage\r\n\r\n",
                                        "\x16\x03\x01\x02\x01\x01\r\n\r\n"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        int fd = client_connect(server->port);
        (void)client_puts(fd, texts[i]);
        assert_true(client_is_closed(fd));
        (void)close(fd);
    }
    expect("GET /hello HTTP/2.0\r\n" HOST "\r\n", 505, NULL, true);
    expect("GET /hello HTTP/1.1\r\n" HOST "NoColon\r\n\r\n", 400, NULL, true);
}

// What the library refuses by itself: the list of api/README.md.
static void test_refused_by_the_library(void **state)
{
    static const struct {
        const char *request;
        int status;
    } cases[] = {
        {"POST /echo HTTP/1.1\r\n" HOST "Content-Length: x\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n", 400},
        {"POST /echo HTTP/1.1\r\n" HOST
         "Content-Length: 99999999999999999999\r\n\r\n",
         413},
        {"GET /hello\r\n" HOST "\r\n", 400},
        {"POST /echo HTTP/1.1\r\n" HOST "Content-Type: application/json\r\n"
         "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
         400},
        {"POST /echo HTTP/1.1\r\n" HOST "Content-Type: application/json\r\n"
         "Transfer-Encoding: chunked\r\n\r\n1\r\n{x\r\n0\r\n\r\n",
         400},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect(cases[i].request, cases[i].status, NULL, true);
}

static void test_pipelined(void **state)
{
    int fd = client_connect(server->port);

    (void)state;
    (void)client_puts(fd, "GET /things/1 HTTP/1.1\r\n" HOST "\r\n"
                          "POST /echo HTTP/1.1\r\n" HOST
                          "Content-Type: application/json\r\n"
                          "Content-Length: 9\r\n\r\n{\"a\":[1]}"
                          "GET /things/3 HTTP/1.1\r\n" HOST "\r\n");
    const char *const bodies[] = {"{\"id\":\"1\"}\n", "{\"a\":[1]}\n",
                                  "{\"id\":\"3\"}\n"};
    for (size_t i = 0; i < 3; i++) {
        struct client_answer answer = client_read(fd, false);
        assert_int_equal(answer.status, 200);
        assert_string_equal(answer.body, bodies[i]);
        client_answer_free(&answer);
    }
    (void)close(fd);
}

static void test_parameters(void **state)
{
    (void)state;
    expect("GET /things/a?n=3 HTTP/1.1\r\n" HOST "\r\n", 200, NULL, false);
    expect("GET /things/a?&n=%33& HTTP/1.1\r\n" HOST "\r\n", 200, NULL, false);
    expect("GET /things/a?n=3&n=3 HTTP/1.1\r\n" HOST "\r\n", 400,
           "BAD_PARAMETER", false);
    expect("GET /things/a?n=11 HTTP/1.1\r\n" HOST "\r\n", 400, "BAD_PARAMETER",
           false);
    expect("GET /things/a?n=03 HTTP/1.1\r\n" HOST "\r\n", 400, "BAD_PARAMETER",
           false);
    expect("GET /things/a?n= HTTP/1.1\r\n" HOST "\r\n", 400, "BAD_PARAMETER",
           false);
    expect("GET /things/a?n=%00 HTTP/1.1\r\n" HOST "\r\n", 400, "BAD_PARAMETER",
           false);
    expect("GET /things/a?n=%ff HTTP/1.1\r\n" HOST "\r\n", 400, "BAD_PARAMETER",
           false);
    expect("GET /things/a?N=3 HTTP/1.1\r\n" HOST "\r\n", 400,
           "UNKNOWN_PARAMETER", false);
    expect("GET /things/a?x HTTP/1.1\r\n" HOST "\r\n", 400, "UNKNOWN_PARAMETER",
           false);
}

static void test_request_ids(void **state)
{
    (void)state;
    struct client_answer answer =
        client_ask(server->port, "GET /nope HTTP/1.1\r\n" HOST
                                 "X-Request-Id: My-id_1.2\r\n\r\n");
    assert_string_equal(client_header(&answer, "X-Request-Id"), "My-id_1.2");
    expect_reason(&answer, "NOT_FOUND");
    client_answer_free(&answer);
    answer = client_ask(server->port, "GET /nope HTTP/1.1\r\n" HOST
                                      "X-Request-Id: a b\r\n\r\n");
    assert_int_equal(strlen(client_header(&answer, "X-Request-Id")), 16);
    client_answer_free(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_missing_or_repeated_host),
        cmocka_unit_test(test_absolute_form),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_chunks_of_http_1_0),
        cmocka_unit_test(test_malformed_lengths),
        cmocka_unit_test(test_no_smuggling),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_dots_are_segments),
        cmocka_unit_test(test_origins),
        cmocka_unit_test(test_cors),
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_header_limits),
        cmocka_unit_test(test_huge_headers),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_refused_by_the_library),
        cmocka_unit_test(test_pipelined),
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_request_ids),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
