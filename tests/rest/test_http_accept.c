// SPDX-License-Identifier: Apache-2.0
// Accepting while no descriptor is left: who comes waits, and is served when
// there is one again, whatever it was that was closed.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "tests/lib/http_client.h"
#include "tests/lib/http_fixture.h"

#define HELLO "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"

static atomic_int refusals; // of accept4, for want of a descriptor

// In the place of the C library's accept4; not called so here, because its
// declaration there has a type that is none of ISO C.
int accept_counted(int fd, struct sockaddr *address, socklen_t *length,
                   int flags) __asm__("accept4");

int accept_counted(int fd, struct sockaddr *address, socklen_t *length,
                   int flags)
{
    long client = syscall(SYS_accept4, fd, address, length, flags);

    if (client < 0 && errno == EMFILE)
        atomic_fetch_add(&refusals, 1);
    return (int)client;
}

static void served(int fd)
{
    (void)client_puts(fd, HELLO);
    struct client_answer answer = client_read(fd, false);

    assert_int_equal(answer.status, 200);
    client_answer_free(&answer);
}

// Leaves one descriptor; gives the former limit.
static struct rlimit leave_one(void)
{
    struct rlimit before;
    int last = dup(STDERR_FILENO);

    assert_true(last >= 0);
    (void)close(last);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit few = {.rlim_cur = (rlim_t)last + 1,
                               .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    return before;
}

// Until accepting has failed so often since it was `from`.
static void await_refusals(int from, int count)
{
    for (int i = 0; atomic_load(&refusals) - from < count; i++) {
        if (i == 10000)
            fail_msg("it was not tried %d times in ten seconds", count);
        (void)usleep(1000);
    }
}

static void test_when_a_connection_ends(void **state)
{
    struct fixture *server = fixture_start(NULL, 1000);
    int first = client_connect(server->port);

    (void)state;
    served(first);
    int from = atomic_load(&refusals);
    struct rlimit before = leave_one();
    int second = client_connect(server->port); // takes it
    await_refusals(from, 1);
    served(first);
    (void)close(first);
    served(second);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    (void)close(second);
    fixture_stop(server);
}

// The descriptor comes from elsewhere, and all connections stay.
static void test_while_all_connections_stay(void **state)
{
    struct fixture *server = fixture_start(NULL, 1000);
    int first = client_connect(server->port);

    (void)state;
    served(first);
    int from = atomic_load(&refusals);
    struct rlimit before = leave_one();
    int second = client_connect(server->port);
    await_refusals(from, 2);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    served(second);
    served(first);
    (void)close(first);
    (void)close(second);
    fixture_stop(server);
}

// With no connection at all it does not spin: between tries are 20 ms.
static void test_there_are_pauses(void **state)
{
    enum { TRIES = 5 };
    struct fixture *server = fixture_start(NULL, 1000);
    int64_t start = pod_clock_mono(&pod_clock_system);
    int from = atomic_load(&refusals);
    struct rlimit before = leave_one();
    int client = client_connect(server->port);

    (void)state;
    await_refusals(from, TRIES);
    assert_true(pod_clock_mono(&pod_clock_system) - start >=
                (TRIES - 1) * (POD_NS_PER_S / 50));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    served(client);
    (void)close(client);
    fixture_stop(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_when_a_connection_ends),
        cmocka_unit_test(test_while_all_connections_stay),
        cmocka_unit_test(test_there_are_pauses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
