// SPDX-License-Identifier: Apache-2.0
// Parked requests: wakes, deadlines, caps, hang-ups, drain and stop.
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
#define PARK  "GET /park?wait=50s HTTP/1.1\r\n" HOST "\r\n"
#define WAKE  "POST /wake HTTP/1.1\r\n" HOST "\r\n"
#define HELLO "GET /hello HTTP/1.1\r\n" HOST "\r\n"

enum { MANY = 2000 };

static const struct api_limits no_limits;

static struct fixture *start(const struct api_limits *limits)
{
    return fixture_start(limits, 1 << 20);
}

static int park(const struct fixture *server)
{
    int fd = client_connect(server->port);

    (void)client_puts(fd, PARK);
    return fd;
}

static void wake(const struct fixture *server)
{
    struct client_answer answer = client_ask(server->port, WAKE);

    assert_int_equal(answer.status, 204);
    client_answer_free(&answer);
}

static void expect_why(int fd, const char *why)
{
    struct client_answer answer = client_read(fd, false);
    char body[64];

    (void)snprintf(body, sizeof(body), "{\"why\":\"%s\"}\n", why);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, body);
    client_answer_free(&answer);
}

static void test_wake(void **state)
{
    struct fixture *server = start(&no_limits);
    int fd = park(server);

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_true(fixture_await_parked(server, 1));
        wake(server);
        expect_why(fd, "EVENT");
        assert_true(fixture_await_parked(server, 0));
        (void)client_puts(fd, PARK);
    }
    (void)close(fd);
    fixture_stop(server);
}

static void test_timeouts(void **state)
{
    const struct api_limits limits = {.wait_ns = POD_NS_PER_S / 10};
    struct fixture *server = start(&limits);

    (void)state;
    int fd = client_connect(server->port);
    (void)client_puts(fd, "GET /park?wait=0 HTTP/1.1\r\n" HOST "\r\n");
    expect_why(fd, "TIMEOUT");
    (void)client_puts(fd, "GET /park?wait=20ms HTTP/1.1\r\n" HOST "\r\n");
    expect_why(fd, "TIMEOUT");
    (void)client_puts(fd, PARK); // above the cap is taken as the cap
    expect_why(fd, "TIMEOUT");
    (void)client_puts(fd, "GET /park HTTP/1.1\r\n" HOST
                          "Prefer: respond-async, Wait=0\r\n\r\n");
    expect_why(fd, "TIMEOUT");
    (void)close(fd);
    fixture_stop(server);
}

static void test_bad_waits(void **state)
{
    static const char *const waits[] = {"-1s", "soon", "", "1s&wait=1s", "1+s"};
    struct fixture *server = start(&no_limits);
    char request[200];

    (void)state;
    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        (void)snprintf(request, sizeof(request),
                       "GET /park?wait=%s HTTP/1.1\r\n" HOST "\r\n", waits[i]);
        struct client_answer answer = client_ask(server->port, request);
        assert_int_equal(answer.status, 400);
        assert_non_null(strstr(answer.body, "wait"));
        client_answer_free(&answer);
    }
    fixture_stop(server);
}

// Deadlines in another order than the parks.
static void test_deadlines_in_order(void **state)
{
    static const unsigned waits[] = {60, 20, 80, 40, 10, 70, 30, 50};
    enum { COUNT = sizeof(waits) / sizeof(waits[0]) };
    struct fixture *server = start(&no_limits);
    int fds[COUNT];
    char request[100];

    (void)state;
    for (int i = 0; i < COUNT; i++) {
        fds[i] = client_connect(server->port);
        (void)snprintf(request, sizeof(request),
                       "GET /park?wait=%ums HTTP/1.1\r\n" HOST "\r\n",
                       waits[i]);
        (void)client_puts(fds[i], request);
    }
    for (int i = 0; i < COUNT; i++) {
        expect_why(fds[i], "TIMEOUT");
        (void)close(fds[i]);
    }
    fixture_stop(server);
}

static void test_caps(void **state)
{
    const struct api_limits limits = {.parked = 3, .parked_per_address = 2};
    struct fixture *server = start(&limits);
    int first = park(server);
    int second = park(server);

    (void)state;
    assert_true(fixture_await_parked(server, 2));
    struct client_answer answer = client_ask(server->port, PARK);
    assert_int_equal(answer.status, 429);
    assert_non_null(strstr(answer.body, "TOO_MANY_WAITS"));
    assert_non_null(strstr(answer.body, "\"metadata\":{\"limit\":\"waits"));
    assert_string_equal(client_header(&answer, "Retry-After"), "1");
    client_answer_free(&answer);
    (void)close(first);
    assert_true(fixture_await_parked(server, 1));
    first = park(server);
    assert_true(fixture_await_parked(server, 2));
    (void)close(first);
    (void)close(second);
    fixture_stop(server);
}

static void test_hang_up(void **state)
{
    struct fixture *server = start(&no_limits);
    int gone = park(server);
    int half = park(server);
    int reset = park(server);
    int stays = park(server);
    const struct linger at_once = {.l_onoff = 1};

    (void)state;
    assert_true(fixture_await_parked(server, 4));
    (void)close(gone);
    (void)shutdown(half, SHUT_WR);
    (void)setsockopt(reset, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    (void)close(reset);
    assert_true(fixture_await_parked(server, 1));
    assert_true(fixture_await_connections(server, 1));
    assert_int_equal(atomic_load(&server->released), 3);
    assert_true(client_is_closed(half));
    (void)close(half);
    wake(server);
    expect_why(stays, "EVENT");
    (void)close(stays);
    fixture_stop(server);
}

// What is pipelined behind a parked request is no hang-up, and is served after.
static void test_pipelined_behind_a_park(void **state)
{
    struct fixture *server = start(&no_limits);
    int fd = client_connect(server->port);

    (void)state;
    (void)client_puts(fd, PARK HELLO);
    assert_true(fixture_await_parked(server, 1));
    (void)client_puts(fd, HELLO);
    wake(server);
    expect_why(fd, "EVENT");
    for (int i = 0; i < 2; i++) {
        struct client_answer answer = client_read(fd, false);
        assert_int_equal(answer.status, 200);
        client_answer_free(&answer);
    }
    (void)close(fd);
    fixture_stop(server);
}

static int *park_many(const struct fixture *server)
{
    int *fds = calloc(MANY, sizeof(int));

    for (int i = 0; i < MANY; i++)
        fds[i] = park(server);
    assert_true(fixture_await_parked(server, MANY));
    return fds;
}

static void close_many(int *fds)
{
    for (int i = 0; i < MANY; i++)
        (void)close(fds[i]);
    free(fds);
}

static void test_wake_many(void **state)
{
    struct fixture *server = start(&no_limits);
    int *fds = park_many(server);

    (void)state;
    wake(server);
    for (int i = 0; i < MANY; i++)
        expect_why(fds[i], "EVENT");
    assert_true(fixture_await_parked(server, 0));
    close_many(fds);
    fixture_stop(server);
}

static void test_hang_up_many(void **state)
{
    struct fixture *server = start(&no_limits);
    int *fds = park_many(server);

    (void)state;
    close_many(fds);
    assert_true(fixture_await_connections(server, 0));
    assert_true(fixture_await_parked(server, 0));
    assert_int_equal(atomic_load(&server->released), MANY);
    fixture_stop(server);
}

// Draining answers what is parked, and later parks at once; other requests are
// served on connections that then close.
static void test_drain(void **state)
{
    struct fixture *server = start(&no_limits);
    int fd = park(server);

    (void)state;
    assert_true(fixture_await_parked(server, 1));
    api_server_drain(server->server);
    expect_why(fd, "DRAIN");
    assert_true(client_is_closed(fd));
    (void)close(fd);
    fd = park(server);
    expect_why(fd, "DRAIN");
    (void)close(fd);
    struct client_answer answer = client_ask(server->port, HELLO);
    assert_int_equal(answer.status, 200);
    assert_string_equal(client_header(&answer, "Connection"), "close");
    client_answer_free(&answer);
    fixture_stop(server);
}

static void test_stop_answers_many(void **state)
{
    struct fixture *server = start(&no_limits);
    int *fds = park_many(server);

    (void)state;
    api_server_stop(server->server, 20 * POD_NS_PER_S);
    for (int i = 0; i < MANY; i++)
        expect_why(fds[i], "DRAIN");
    close_many(fds);
    fixture_stop(server);
}

// Without grace they are dropped, and nothing is left behind.
static void test_stop_at_once(void **state)
{
    struct fixture *server = start(&no_limits);
    int *fds = park_many(server);

    (void)state;
    api_server_stop(server->server, 0);
    assert_int_equal(atomic_load(&server->released), MANY);
    close_many(fds);
    fixture_stop(server);
}

// A handler that parks without time left for ever is cut short.
static void test_handler_bugs(void **state)
{
    struct fixture *server = start(&no_limits);

    (void)state;
    struct client_answer answer =
        client_ask(server->port, "GET /spin HTTP/1.1\r\n" HOST "\r\n");
    assert_int_equal(answer.status, 500);
    client_answer_free(&answer);
    answer = client_ask(server->port, "GET /silent HTTP/1.1\r\n" HOST "\r\n");
    assert_int_equal(answer.status, 500);
    client_answer_free(&answer);
    fixture_stop(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wake),
        cmocka_unit_test(test_timeouts),
        cmocka_unit_test(test_bad_waits),
        cmocka_unit_test(test_deadlines_in_order),
        cmocka_unit_test(test_caps),
        cmocka_unit_test(test_hang_up),
        cmocka_unit_test(test_pipelined_behind_a_park),
        cmocka_unit_test(test_wake_many),
        cmocka_unit_test(test_hang_up_many),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_stop_answers_many),
        cmocka_unit_test(test_stop_at_once),
        cmocka_unit_test(test_handler_bugs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
