// SPDX-License-Identifier: Apache-2.0
// Connections that are made under bad stars.
//
// One is not taken for failed because a lock of gRPC had to be waited for while
// it was made: a test has the thread that connects do what such a wait does,
// just before gRPC looks at the errno of connect(). And one that is taken by a
// machine where nothing answers is given up when its time is over, and one that
// nobody wants any more is closed when it comes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <dlfcn.h>
#include <errno.h>
#include <grpc/support/sync.h>
#include <grpc/support/time.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "proto/rpc_client.h"
#include "proto/rpc_server.h"

enum { SLEEPERS = 2 };

// Who wakes them while the lock is held has the second wait for it behind the
// first, and does what one that waits like that does itself.
static struct {
    gpr_mu lock;
    gpr_cv woken;
    pthread_t threads[SLEEPERS];
    sem_t begins;
    atomic_bool sleep;
} sleepers;

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        assert_int_equal(errno, EINTR);
}

static void *sleeper_main(void *arg)
{
    (void)arg;
    gpr_mu_lock(&sleepers.lock);
    (void)sem_post(&sleepers.begins);
    while (atomic_load(&sleepers.sleep))
        (void)gpr_cv_wait(&sleepers.woken, &sleepers.lock,
                          gpr_inf_future(GPR_CLOCK_MONOTONIC));
    gpr_mu_unlock(&sleepers.lock);
    return NULL;
}

static void sleepers_start(void)
{
    gpr_mu_init(&sleepers.lock);
    gpr_cv_init(&sleepers.woken);
    atomic_store(&sleepers.sleep, true);
    assert_int_equal(sem_init(&sleepers.begins, 0, 0), 0);
    for (int i = 0; i < SLEEPERS; i++) {
        assert_int_equal(
            pthread_create(&sleepers.threads[i], NULL, sleeper_main, NULL), 0);
        await(&sleepers.begins);
        // It sleeps when it has given the lock back. To wait for the lock would
        // spoil the test.
        while (!gpr_mu_trylock(&sleepers.lock))
            (void)sched_yield();
        gpr_mu_unlock(&sleepers.lock);
    }
}

static void sleepers_wake(void)
{
    gpr_mu_lock(&sleepers.lock);
    atomic_store(&sleepers.sleep, false);
    gpr_cv_broadcast(&sleepers.woken);
    gpr_mu_unlock(&sleepers.lock);
}

static void sleepers_stop(void)
{
    for (int i = 0; i < SLEEPERS; i++)
        (void)pthread_join(sleepers.threads[i], NULL);
    (void)sem_destroy(&sleepers.begins);
    gpr_cv_destroy(&sleepers.woken);
    gpr_mu_destroy(&sleepers.lock);
}

// ---------------------------------------------------- gRPC's calls of the libc

// gRPC calls it after connect(), and then looks at errno.
int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    int (*real)(int, int, int, struct epoll_event *) = NULL;
    bool connecting = errno == EINPROGRESS;
    void *function = dlsym(RTLD_NEXT, "epoll_ctl");

    memcpy(&real, &function, sizeof(real));
    int result = real(epfd, op, fd, event);
    if (connecting && atomic_load(&sleepers.sleep))
        sleepers_wake();
    return result;
}

// -------------------------------------------------------------------- the test

struct answer {
    sem_t came;
    enum pod_code code;
    char text[POD_ERR_TEXT_BYTES];
};

static void on_answer(void *arg, const struct rpc_reply *reply)
{
    struct answer *answer = arg;

    answer->code = reply->code;
    strncpy(answer->text, reply->text, sizeof(answer->text) - 1);
    (void)sem_post(&answer->came);
}

static void serve(void *arg, struct rpc_request *request, const void *data,
                  size_t size)
{
    (void)arg;
    (void)data;
    (void)size;
    rpc_request_reply(request, pod_wire_out_new(0));
}

static void ask(struct rpc_loop *loop, const struct rpc_channel_options *to,
                struct answer *out_answer)
{
    struct rpc_unary unary = {.method = "/t.S/Any",
                              .timeout_ns = 60 * POD_NS_PER_S,
                              .done = on_answer,
                              .arg = out_answer};
    struct rpc_channel *channel = NULL;
    struct pod_err err;

    assert_int_equal(sem_init(&out_answer->came, 0, 0), 0);
    assert_int_equal(rpc_channel_new(loop, to, &channel, &err), POD_OK);
    assert_int_equal(
        rpc_unary_start(channel, &unary, pod_wire_out_new(0), NULL, &err),
        POD_OK);
    await(&out_answer->came);
    (void)sem_destroy(&out_answer->came);
    rpc_channel_free(channel);
}

static void test_waiting_for_a_lock_fails_no_connection(void **state)
{
    const struct rpc_method method = {.path = "/t.S/Any", .unary = serve};
    const struct rpc_server_options options = {
        .listen = "127.0.0.1:0", .methods = &method, .method_count = 1};
    struct rpc_loop *loop = NULL;
    struct rpc_server *server = NULL;
    struct answer answer = {.code = POD_UNKNOWN};
    struct pod_err err;

    (void)state;
    assert_int_equal(rpc_loop_new(&loop, &err), POD_OK);
    assert_int_equal(rpc_server_new(loop, &options, &server, &err), POD_OK);
    const struct rpc_channel_options to = {.target =
                                               rpc_server_address(server)};
    sleepers_start();
    ask(loop, &to, &answer);
    assert_false(atomic_load(&sleepers.sleep)); // a connection was under way
    sleepers_stop();
    assert_string_equal(answer.text, "");
    assert_int_equal(answer.code, POD_OK);
    rpc_server_stop(server, 0);
    rpc_server_free(server);
    rpc_loop_free(loop);
}

enum { ATTEMPTS_MAX = 16 };

// The system takes connections to it, and nobody reads them.
static int deaf_listener(char *out_address, size_t size)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (void *)&at, length), 0);
    assert_int_equal(listen(fd, ATTEMPTS_MAX), 0);
    assert_int_equal(getsockname(fd, (void *)&at, &length), 0);
    (void)snprintf(out_address, size, "127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

static void test_an_attempt_ends_in_time(void **state)
{
    char address[32];
    int listener = deaf_listener(address, sizeof(address));
    struct rpc_channel_options to = {
        .target = address,
        .connect_ns = POD_NS_PER_S / 20,
        // An attempt lasts no longer because they may be far apart.
        .backoff_min_ns = 1,
        .backoff_max_ns = 3600 * POD_NS_PER_S,
    };
    struct rpc_loop *loop = NULL;
    struct answer answer = {.code = POD_UNKNOWN};
    struct pod_err err;

    (void)state;
    assert_int_equal(rpc_loop_new(&loop, &err), POD_OK);
    ask(loop, &to, &answer);
    // A busy machine may not even be connected by then: it gets more time.
    while (strstr(answer.text, "timed out before receiving SETTINGS") == NULL) {
        // The call's own deadline would be DEADLINE_EXCEEDED.
        assert_int_equal(answer.code, POD_UNAVAILABLE);
        assert_true(to.connect_ns < 20 * POD_NS_PER_S);
        to.connect_ns *= 2;
        ask(loop, &to, &answer);
    }
    assert_int_equal(answer.code, POD_UNAVAILABLE);
    rpc_loop_free(loop);
    close(listener);
}

// Waits for the client's first bytes; with `all` for its end.
static void take(int fd, bool all)
{
    const struct timeval patience = {.tv_sec = 60};
    char bytes[4096];
    ssize_t got = 0;

    assert_int_equal(
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)),
        0);
    do {
        got = recv(fd, bytes, sizeof(bytes), 0);
    } while (all && got > 0);
    assert_true(all ? got == 0 : got > 0);
}

// A channel whose connection has been taken and waits for the server's word.
struct attempt {
    int listener;
    int fd;
    struct rpc_loop *loop;
    struct rpc_channel *channel;
};

static void attempt_begin(struct attempt *out, int64_t connect_ns)
{
    char address[32];
    struct rpc_channel_options to = {.target = address,
                                     .connect_ns = connect_ns};
    struct pod_err err;

    out->listener = deaf_listener(address, sizeof(address));
    assert_int_equal(rpc_loop_new(&out->loop, &err), POD_OK);
    assert_int_equal(rpc_channel_new(out->loop, &to, &out->channel, &err),
                     POD_OK);
    (void)rpc_channel_state(out->channel, true);
    out->fd = accept(out->listener, NULL, NULL);
    assert_true(out->fd >= 0);
    take(out->fd, false);
}

// The server says its first word when the channel has been freed.
static void test_a_connection_that_comes_too_late_is_closed(void **state)
{
    static const char settings[9] = {0, 0, 0, 4, 0, 0, 0, 0, 0};
    struct attempt attempt;

    (void)state;
    attempt_begin(&attempt, 60 * POD_NS_PER_S);
    rpc_channel_free(attempt.channel);
    assert_int_equal(send(attempt.fd, settings, sizeof(settings), MSG_NOSIGNAL),
                     sizeof(settings));
    take(attempt.fd, true);
    close(attempt.fd);
    rpc_loop_free(attempt.loop);
    close(attempt.listener);
}

// A loop does not wait for one that will not come.
static void test_a_loop_ends_while_a_channel_connects(void **state)
{
    struct attempt attempt;

    (void)state;
    attempt_begin(&attempt, POD_NEVER);
    rpc_channel_free(attempt.channel);
    rpc_loop_free(attempt.loop);
    close(attempt.fd);
    close(attempt.listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waiting_for_a_lock_fails_no_connection),
        cmocka_unit_test(test_an_attempt_ends_in_time),
        cmocka_unit_test(test_a_connection_that_comes_too_late_is_closed),
        cmocka_unit_test(test_a_loop_ends_while_a_channel_connects),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
