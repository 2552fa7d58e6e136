// SPDX-License-Identifier: Apache-2.0
// Many rude clients at once, and a server that stops in the middle of it:
// whatever they do, it ends clean. (Sanitizers see the rest.)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "tests/lib/http_client.h"
#include "tests/lib/http_fixture.h"

#define HOST "Host: localhost\r\n"

enum { STORM_CLIENTS = 12, STORM_ACTIONS = 40, STORM_ROUNDS = 4 };

struct storm_client {
    pthread_t thread;
    unsigned port;
    uint32_t random;
};

static const char *const storm_requests[] = {
    "GET /hello HTTP/1.1\r\n" HOST "\r\n",
    "GET /park?wait=20s HTTP/1.1\r\n" HOST "\r\n",
    "GET /park?wait=3ms HTTP/1.1\r\n" HOST "\r\n",
    "POST /wake HTTP/1.1\r\n" HOST "\r\n",
    "GET /stream?n=3000000 HTTP/1.1\r\n" HOST "\r\n",
    "GET /bytes?n=3000000 HTTP/1.1\r\n" HOST "\r\n",
    "POST /echo HTTP/1.1\r\n" HOST "Content-Type: application/json\r\n"
    "Content-Length: 7\r\n\r\n{\"a\":1}",
    "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 900000\r\n\r\n{",
    "PUT /data HTTP/1.1\r\n" HOST "Content-Length: 100000\r\n\r\nabc",
    "PUT /exact HTTP/1.1\r\n" HOST
    "Transfer-Encoding: chunked\r\n\r\n3e9\r\nabc",
    "GET /hello HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n",
    "GET /hello HTTP/1.1\r\nX: ",
    "GET /park?wait=20s HTTP/1.1\r\n" HOST "\r\n"
    "GET /hello HTTP/1.1\r\n" HOST "\r\n",
};

enum { STORM_REQUESTS = sizeof(storm_requests) / sizeof(storm_requests[0]) };

// xorshift32
static uint32_t storm_random(struct storm_client *client, uint32_t below)
{
    client->random ^= client->random << 13;
    client->random ^= client->random >> 17;
    client->random ^= client->random << 5;
    return client->random % below;
}

// -1: the server listens no more.
static int storm_connect(unsigned port)
{
    const struct timeval patience = {.tv_usec = 20000};
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((unsigned short)port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

// How a client leaves: at once, after some of the answer, by half, by a reset.
static void storm_leave(struct storm_client *client, int fd)
{
    const struct linger at_once = {.l_onoff = 1};
    char some[5000];

    switch (storm_random(client, 4)) {
    case 0:
        break;
    case 1:
        (void)!recv(fd, some, sizeof(some), 0);
        break;
    case 2:
        (void)shutdown(fd, SHUT_WR);
        (void)!recv(fd, some, sizeof(some), 0);
        break;
    default:
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
        break;
    }
    (void)close(fd);
}

static void *storm_run(void *arg)
{
    struct storm_client *client = arg;

    for (int i = 0; i < STORM_ACTIONS; i++) {
        int fd = storm_connect(client->port);
        if (fd < 0)
            break;
        uint32_t requests = 1 + storm_random(client, 3);
        while (requests-- > 0)
            (void)client_puts(
                fd, storm_requests[storm_random(client, STORM_REQUESTS)]);
        storm_leave(client, fd);
    }
    return NULL;
}

static void storm(uint32_t seed, bool stop_in_the_middle)
{
    const struct api_limits limits = {.header_ns = POD_NS_PER_S / 20,
                                      .json_body_ns = POD_NS_PER_S / 20,
                                      .data_grace_ns = POD_NS_PER_S / 20,
                                      .stall_ns = POD_NS_PER_S / 20,
                                      .parked = 20};
    struct fixture *server = fixture_start(&limits, 1 << 20);
    struct storm_client clients[STORM_CLIENTS];
    struct api_server_counts counts = {.requests = 0};

    for (uint32_t i = 0; i < STORM_CLIENTS; i++) {
        clients[i] = (struct storm_client){.port = server->port,
                                           .random = seed * 1000 + i + 1};
        assert_int_equal(
            pthread_create(&clients[i].thread, NULL, storm_run, &clients[i]),
            0);
    }
    while (stop_in_the_middle && counts.requests < 50) {
        api_server_counts(server->server, &counts);
        (void)usleep(1000);
    }
    if (stop_in_the_middle)
        api_server_stop(server->server, (int64_t)(seed % 3) * 10000000);
    for (uint32_t i = 0; i < STORM_CLIENTS; i++)
        (void)pthread_join(clients[i].thread, NULL);
    if (!stop_in_the_middle) {
        assert_true(fixture_await_connections(server, 0));
        struct client_answer answer =
            client_ask(server->port, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
        assert_int_equal(answer.status, 200);
        client_answer_free(&answer);
        api_server_stop(server->server, POD_NS_PER_S);
    }
    api_server_counts(server->server, &counts);
    assert_int_equal(counts.connections, 0);
    assert_int_equal(counts.parked, 0);
    assert_int_equal(atomic_load(&server->staging_used), 0);
    fixture_stop(server);
}

static void test_storm(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < STORM_ROUNDS; round++)
        storm(round + 1, false);
}

static void test_stop_in_a_storm(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < STORM_ROUNDS; round++)
        storm(round + 101, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_storm),
        cmocka_unit_test(test_stop_in_a_storm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
