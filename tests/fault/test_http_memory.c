// SPDX-License-Identifier: Apache-2.0
// The HTTP layer without memory: each allocation of a request fails once. The
// client may get any answer or none, but the server lives on, and nothing is
// left behind.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "tests/lib/http_client.h"
#include "tests/lib/http_fixture.h"
#include "tests/lib/patience.h"

#define HOST "Host: localhost\r\n"

enum { MOST_ALLOCATIONS = 60 };

// The server lets go of a connection when it has counted it as closed.
static void await_mem_live(long most)
{
    for (int i = 0; pod_mem_live() > most; i++) {
        assert_true(i < PATIENCE_MS);
        (void)usleep(1000);
    }
}

// Sends the request with the n-th allocation failing, for each n until one
// run meets no failure. (libmicrohttpd and jansson have a heap of their own.)
static void every_allocation_fails(const char *request)
{
    struct fixture *server = fixture_start(NULL, 1 << 20);
    long before = pod_mem_live();
    int refused = 0;

    for (int n = 0; n < MOST_ALLOCATIONS; n++) {
        pod_mem_fail_after(n, 1);
        int fd = client_connect(server->port);
        (void)client_puts(fd, request);
        struct client_answer answer = client_read(fd, false);
        pod_mem_fail_after(-1, 0);
        refused += answer.status < 200 || answer.status > 299;
        client_answer_free(&answer);
        (void)close(fd);
        assert_true(fixture_await_connections(server, 0));
        answer =
            client_ask(server->port, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
        assert_int_equal(answer.status, 200);
        client_answer_free(&answer);
    }
    assert_true(refused > 0 && refused < MOST_ALLOCATIONS);
    assert_true(fixture_await_connections(server, 0));
    assert_int_equal(atomic_load(&server->staging_used), 0);
    // Tables, and the memory of one request, that stay.
    await_mem_live(before + 3);
    fixture_stop(server);
}

static void test_plain_request(void **state)
{
    (void)state;
    every_allocation_fails("GET /things/abc?n=3 HTTP/1.1\r\n" HOST "\r\n");
}

static void test_json_body(void **state)
{
    (void)state;
    every_allocation_fails("POST /echo HTTP/1.1\r\n" HOST
                           "Content-Type: application/json\r\n"
                           "Content-Length: 30\r\n\r\n"
                           "{\"a\":99999999999999999999    }");
}

static void test_data_body(void **state)
{
    (void)state;
    every_allocation_fails("PUT /data HTTP/1.1\r\n" HOST
                           "Content-Length: 10\r\n\r\n0123456789");
}

static void test_chunked_body(void **state)
{
    (void)state;
    every_allocation_fails("PUT /data HTTP/1.1\r\n" HOST
                           "Transfer-Encoding: chunked\r\n\r\n"
                           "5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n");
}

static void test_blobs(void **state)
{
    (void)state;
    every_allocation_fails("GET /bytes?n=100 HTTP/1.1\r\n" HOST
                           "Range: bytes=10-19\r\n\r\n");
}

static void test_park(void **state)
{
    (void)state;
    every_allocation_fails("GET /park?wait=1ms HTTP/1.1\r\n" HOST "\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_request),
        cmocka_unit_test(test_json_body),
        cmocka_unit_test(test_data_body),
        cmocka_unit_test(test_chunked_body),
        cmocka_unit_test(test_blobs),
        cmocka_unit_test(test_park),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
