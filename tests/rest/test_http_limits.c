// SPDX-License-Identifier: Apache-2.0
// Slow clients and many clients: deadlines that are absolute, and caps. Limits
// are short here, but only those that are to pass; the tests only assert what
// happens, never when.
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

#include "core/base/clock.h"
#include "tests/lib/http_client.h"
#include "tests/lib/http_fixture.h"

#define HOST  "Host: localhost\r\n"
#define HELLO "GET /hello HTTP/1.1\r\n" HOST "\r\n"
#define MS(n) ((n) * (POD_NS_PER_S / 1000))

static void expect_status(int fd, int status, const char *reason)
{
    struct client_answer answer = client_read(fd, false);

    assert_int_equal(answer.status, status);
    if (reason != NULL)
        assert_non_null(strstr(answer.body, reason));
    client_answer_free(&answer);
}

// Sends a byte now and then until the server has had enough.
static void drip(int fd, const char *byte)
{
    for (int i = 0; i < 1000; i++) {
        if (!client_send(fd, byte, 1))
            return;
        (void)usleep(10000);
    }
    fail_msg("ten seconds of drips were taken");
}

static void test_silent_connection(void **state)
{
    const struct api_limits limits = {.header_ns = MS(100)};
    struct fixture *server = fixture_start(&limits, 1000);
    int fd = client_connect(server->port);

    (void)state;
    assert_true(client_is_closed(fd));
    (void)close(fd);
    fixture_stop(server);
}

// Dripping resets no clock: in the request line, then in the headers.
static void test_slow_headers(void **state)
{
    const struct api_limits limits = {.header_ns = MS(100)};
    struct fixture *server = fixture_start(&limits, 1000);

    (void)state;
    int fd = client_connect(server->port);
    (void)client_puts(fd, "GET /");
    drip(fd, "a");
    (void)close(fd);
    fd = client_connect(server->port);
    (void)client_puts(fd, "GET /hello HTTP/1.1\r\nX: ");
    drip(fd, "a");
    (void)close(fd);
    fixture_stop(server);
}

// A connection whose first request has come within the time for headers, at the
// first try or a later one.
static int connect_in_time(const struct fixture *server)
{
    for (int i = 0; i < 1000; i++) {
        int fd = client_connect(server->port);
        (void)client_puts(fd, HELLO);
        struct client_answer answer = client_read(fd, false);
        client_answer_free(&answer);
        if (answer.status == 200)
            return fd;
        (void)close(fd);
    }
    fail_msg("no request came in time");
    return -1;
}

// On a connection that has been used the headers have their time again.
static void test_slow_headers_of_a_second_request(void **state)
{
    const struct api_limits limits = {.header_ns = MS(100)};
    struct fixture *server = fixture_start(&limits, 1000);
    int fd = connect_in_time(server);

    (void)state;
    (void)client_puts(fd, "GET /hello HTTP/1.1\r\nX: a");
    expect_status(fd, 408, "REQUEST_TIMEOUT");
    assert_true(client_is_closed(fd));
    (void)close(fd);
    fixture_stop(server);
}

static void test_idle_connection(void **state)
{
    const struct api_limits limits = {.idle_ns = MS(100)};
    struct fixture *server = fixture_start(&limits, 1000);
    int fd = client_connect(server->port);

    (void)state;
    (void)client_puts(fd, HELLO);
    expect_status(fd, 200, NULL);
    assert_true(client_is_closed(fd));
    (void)close(fd);
    fixture_stop(server);
}

// One request on a connection that the server closes; how many it has refused.
static uint64_t refused(const struct api_limits *limits, bool half_close)
{
    struct fixture *server = fixture_start(limits, 1000);
    struct api_server_counts counts;
    int fd = client_connect(server->port);

    (void)client_puts(fd, HELLO);
    if (half_close)
        assert_int_equal(shutdown(fd, SHUT_WR), 0);
    expect_status(fd, 200, NULL);
    assert_true(client_is_closed(fd));
    (void)close(fd);
    api_server_counts(server->server, &counts);
    fixture_stop(server);
    return counts.refused;
}

// Who says that he is done is not one of those that a deadline passes.
static void test_half_closed_is_not_refused(void **state)
{
    const struct api_limits patient = {.idle_ns = 3600 * POD_NS_PER_S};
    const struct api_limits limits = {.idle_ns = MS(100)};

    (void)state;
    assert_int_equal(refused(&patient, true), 0);
    assert_int_equal(refused(&limits, false), 1);
}

static void test_slow_json(void **state)
{
    const struct api_limits limits = {.json_body_ns = MS(100)};
    struct fixture *server = fixture_start(&limits, 1000);
    int fd = client_connect(server->port);

    (void)state;
    (void)client_puts(fd, "POST /echo HTTP/1.1\r\n" HOST
                          "Content-Type: application/json\r\n"
                          "Content-Length: 5000\r\n\r\n{");
    expect_status(fd, 408, "REQUEST_TIMEOUT");
    assert_true(client_is_closed(fd));
    (void)close(fd);
    assert_true(fixture_await_connections(server, 0));
    fixture_stop(server);
}

// A body that is only read to be dropped has its deadline too.
static void test_slow_refused_body(void **state)
{
    const struct api_limits limits = {.json_body_ns = MS(100)};
    struct fixture *server = fixture_start(&limits, 1000);
    int fd = client_connect(server->port);

    (void)state;
    (void)client_puts(fd, "POST /echo HTTP/1.1\r\n" HOST
                          "Content-Length: 5000\r\n\r\n{");
    expect_status(fd, 408, "REQUEST_TIMEOUT");
    (void)close(fd);
    assert_true(fixture_await_connections(server, 0));
    fixture_stop(server);
}

static void test_slow_data(void **state)
{
    const struct api_limits limits = {.data_grace_ns = MS(100),
                                      .data_bytes_per_s = 10000};
    struct fixture *server = fixture_start(&limits, 100000);
    int fd = client_connect(server->port);

    (void)state;
    (void)client_puts(fd, "PUT /data HTTP/1.1\r\n" HOST
                          "Content-Length: 50000\r\n\r\n");
    drip(fd, "a");
    (void)close(fd);
    assert_true(fixture_await_connections(server, 0));
    assert_int_equal(atomic_load(&server->staging_used), 0);
    assert_int_equal(atomic_load(&server->handled), 0);
    fixture_stop(server);
}

// Data that comes faster than the least rate may take longer than the grace.
// The first thousand bytes, which come with the headers, are worth as many
// seconds.
static void test_steady_data(void **state)
{
    const struct api_limits limits = {.data_grace_ns = MS(300),
                                      .data_bytes_per_s = 1,
                                      .json_body_ns = MS(50)};
    static const char head[] =
        "PUT /data HTTP/1.1\r\n" HOST "Content-Length: 20000\r\n\r\n";
    enum { HEAD = sizeof(head) - 1, PIECE = 1000 };
    struct fixture *server = fixture_start(&limits, 100000);
    int fd = client_connect(server->port);
    char bytes[HEAD + PIECE];

    (void)state;
    memcpy(bytes, head, HEAD);
    memset(bytes + HEAD, 1, PIECE);
    assert_true(client_send(fd, bytes, sizeof(bytes)));
    for (int i = 1; i < 20; i++) {
        (void)usleep(20000);
        assert_true(client_send(fd, bytes + HEAD, PIECE));
    }
    expect_status(fd, 200, "20000");
    (void)close(fd);
    fixture_stop(server);
}

// A client that asks for much and reads nothing.
static void expect_stall(const char *target)
{
    const struct api_limits limits = {.stall_ns = MS(100)};
    struct fixture *server = fixture_start(&limits, 1000);
    char request[200];
    int fd = client_connect(server->port);

    (void)snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\n" HOST "\r\n",
                   target);
    (void)client_puts(fd, request);
    assert_true(fixture_await_refused(server, 1));
    assert_true(fixture_await_connections(server, 0));
    (void)close(fd);
    fixture_stop(server);
}

static void test_stalled_readers(void **state)
{
    (void)state;
    expect_stall("/bytes?n=50000000");
    expect_stall("/stream?n=50000000");
}

// Reads all of a large answer, slowly. False: it was cut; *out_rest_ns is the
// longest time for which nothing was read.
static bool read_slowly(const struct fixture *server, int64_t *out_rest_ns)
{
    enum { SIZE = 20000000 };
    static char piece[200000];
    int fd = client_connect(server->port);
    int64_t last_ns = pod_clock_mono(&pod_clock_system);
    ssize_t n = 1;

    *out_rest_ns = 0;
    (void)client_puts(fd, "GET /bytes?n=20000000 HTTP/1.1\r\n" HOST "\r\n");
    for (ssize_t got = 0; got < SIZE && n > 0; got += n) {
        n = recv(fd, piece, sizeof(piece), 0);
        int64_t now_ns = pod_clock_mono(&pod_clock_system);
        if (now_ns - last_ns > *out_rest_ns)
            *out_rest_ns = now_ns - last_ns;
        last_ns = now_ns;
        (void)usleep(5000);
    }
    (void)close(fd);
    return n > 0;
}

// A reader that is slow but moves keeps its answer, over many stalls. One that
// the machine has let rest for a stall may be cut, and tries again.
static void test_slow_reader(void **state)
{
    const struct api_limits limits = {.stall_ns = MS(50)};
    struct fixture *server = fixture_start(&limits, 1000);
    int64_t rest_ns = 0;

    (void)state;
    for (int i = 0; !read_slowly(server, &rest_ns); i++) {
        if (rest_ns < limits.stall_ns || i == 100)
            fail_msg("cut after %lld ns", (long long)rest_ns);
    }
    fixture_stop(server);
}

// A stream that waits for its source is not a stalled reader.
static void test_waiting_is_no_stall(void **state)
{
    const struct api_limits limits = {.stall_ns = MS(20)};
    struct fixture *server = fixture_start(&limits, 1000);
    int fd = client_connect(server->port);

    (void)state;
    (void)client_puts(fd,
                      "GET /stream?n=1000&pause=200 HTTP/1.1\r\n" HOST "\r\n");
    expect_status(fd, 200, NULL);
    (void)close(fd);
    fixture_stop(server);
}

static void expect_no_place(int fd)
{
    struct client_answer answer = client_read(fd, false);

    assert_int_equal(answer.status, 503);
    assert_non_null(strstr(answer.body, "TOO_MANY_CONNECTIONS"));
    assert_string_equal(client_header(&answer, "Retry-After"), "1");
    assert_string_equal(client_header(&answer, "Connection"), "close");
    assert_true(client_is_closed(fd));
    client_answer_free(&answer);
    (void)close(fd);
}

static void expect_cap(const struct api_limits *limits, int cap)
{
    struct fixture *server = fixture_start(limits, 1000);
    int fds[8];

    for (int i = 0; i < cap; i++) {
        fds[i] = client_connect(server->port);
        (void)client_puts(fds[i], HELLO);
        expect_status(fds[i], 200, NULL);
    }
    int extra = client_connect(server->port);
    int late = client_connect(server->port);
    (void)client_puts(extra, HELLO);
    expect_no_place(extra);
    (void)close(fds[0]);
    assert_true(fixture_await_connections(server, (uint64_t)cap - 1));
    fds[0] = client_connect(server->port);
    (void)client_puts(fds[0], HELLO);
    expect_status(fds[0], 200, NULL);
    // Who came over the cap and asks when there is a place has it.
    (void)close(fds[0]);
    assert_true(fixture_await_connections(server, (uint64_t)cap - 1));
    (void)client_puts(late, HELLO);
    expect_status(late, 200, NULL);
    assert_true(fixture_await_connections(server, (uint64_t)cap));
    (void)close(late);
    for (int i = 1; i < cap; i++)
        (void)close(fds[i]);
    assert_true(fixture_await_connections(server, 0));
    fixture_stop(server);
}

static void test_caps_of_connections(void **state)
{
    const struct api_limits in_all = {.connections = 3};
    const struct api_limits each = {.connections_per_address = 2};

    (void)state;
    expect_cap(&in_all, 3);
    expect_cap(&each, 2);
}

// Over the caps there are places for a few, and they are given back.
static void test_too_many_over_the_cap(void **state)
{
    const struct api_limits limits = {.connections = 1};
    struct fixture *server = fixture_start(&limits, 1000);
    enum { SURPLUS = 64 };
    int fds[SURPLUS + 1];

    (void)state;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i <= SURPLUS; i++)
            fds[i] = client_connect(server->port);
        int beyond = client_connect(server->port);
        assert_true(client_is_closed(beyond));
        (void)close(beyond);
        (void)client_puts(fds[0], HELLO);
        expect_status(fds[0], 200, NULL);
        for (int i = 1; i <= SURPLUS; i++) {
            (void)client_puts(fds[i], HELLO);
            expect_no_place(fds[i]);
        }
        (void)close(fds[0]);
        assert_true(fixture_await_connections(server, 0));
    }
    fixture_stop(server);
}

// ----------------------------------------------------------------- listening

static enum pod_code listen_on(const char *address, struct api_server **server,
                               struct pod_err *err)
{
    const struct api_server_options options = {.listen = address};

    return api_server_new(&options, server, err);
}

static void test_port_in_use(void **state)
{
    struct fixture *server = fixture_start(NULL, 1000);
    struct api_server *second = NULL;
    struct pod_err err;
    char address[64];

    (void)state;
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", server->port);
    assert_string_equal(address, api_server_address(server->server));
    assert_int_equal(listen_on(address, &second, &err), POD_UNAVAILABLE);
    assert_null(second);
    assert_non_null(strstr(err.text, address));
    fixture_stop(server);
}

// Once a server has stopped its port is free at once; but sometimes another
// program takes it just then.
static void test_port_is_given_back(void **state)
{
    enum pod_code code = POD_UNAVAILABLE;
    struct api_server *second = NULL;
    struct pod_err err;
    char address[64];

    (void)state;
    for (int i = 0; i < 10 && code == POD_UNAVAILABLE; i++) {
        struct fixture *server = fixture_start(NULL, 1000);
        (void)snprintf(address, sizeof(address), "127.0.0.1:%u", server->port);
        fixture_stop(server);
        code = listen_on(address, &second, &err);
    }
    assert_int_equal(code, POD_OK);
    api_server_free(second);
}

static void test_bad_addresses(void **state)
{
    static const char *const bad[] = {"",           "127.0.0.1",   ":80",
                                      "127.0.0.1:", "127.0.0.1:x", "::1:80",
                                      "[::1]80",    "[]:80",       "a:65536",
                                      "[::1]:-1",   "999.0.0.1:0"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct api_server *server = NULL;
        struct pod_err err;
        if (listen_on(bad[i], &server, &err) != POD_INVALID_ARGUMENT)
            fail_msg("\"%s\" was taken", bad[i]);
    }
}

static void test_ipv6(void **state)
{
    struct api_server *server;
    struct pod_err err;

    (void)state;
    if (listen_on("[::1]:0", &server, &err) != POD_OK) {
        print_message("no IPv6 here: %s\n", err.text);
        skip();
    }
    assert_int_equal(strncmp(api_server_address(server), "[::1]:", 6), 0);
    assert_true(api_server_port(server) > 0);
    api_server_free(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent_connection),
        cmocka_unit_test(test_slow_headers),
        cmocka_unit_test(test_slow_headers_of_a_second_request),
        cmocka_unit_test(test_idle_connection),
        cmocka_unit_test(test_half_closed_is_not_refused),
        cmocka_unit_test(test_slow_json),
        cmocka_unit_test(test_slow_refused_body),
        cmocka_unit_test(test_slow_data),
        cmocka_unit_test(test_steady_data),
        cmocka_unit_test(test_stalled_readers),
        cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_waiting_is_no_stall),
        cmocka_unit_test(test_caps_of_connections),
        cmocka_unit_test(test_too_many_over_the_cap),
        cmocka_unit_test(test_port_in_use),
        cmocka_unit_test(test_port_is_given_back),
        cmocka_unit_test(test_bad_addresses),
        cmocka_unit_test(test_ipv6),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
