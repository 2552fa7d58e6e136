// SPDX-License-Identifier: Apache-2.0
// core/base: locks and condition variables.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/lock.h"

enum { TURNS = 1000 };

// Two threads take turns: each waits until the number has its parity.
struct table {
    struct pod_mutex lock;
    struct pod_cond changed;
    int turn;
};

static void play(struct table *table, int parity)
{
    for (int i = 0; i < TURNS; i++) {
        pod_mutex_lock(&table->lock);
        while (table->turn % 2 != parity)
            pod_cond_wait(&table->changed, &table->lock);
        table->turn++;
        pod_cond_signal(&table->changed);
        pod_mutex_unlock(&table->lock);
    }
}

static void *play_odd(void *arg)
{
    play(arg, 1);
    return NULL;
}

static void test_turns(void **state)
{
    struct table table = {.turn = 0};
    pthread_t thread;

    (void)state;
    pod_mutex_init(&table.lock, POD_RANK_ENGINE, "table");
    pod_cond_init(&table.changed);
    assert_int_equal(pthread_create(&thread, NULL, play_odd, &table), 0);
    play(&table, 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(table.turn, 2 * TURNS);
    pod_cond_fini(&table.changed);
    pod_mutex_fini(&table.lock);
}

// A time that has passed ends the wait; the lock is held again after it.
static void test_wait_until(void **state)
{
    struct table table = {.turn = 0};
    pthread_t thread;

    (void)state;
    pod_mutex_init(&table.lock, POD_RANK_ENGINE, "table");
    pod_cond_init(&table.changed);
    pod_mutex_lock(&table.lock);
    assert_false(pod_cond_wait_until(&table.changed, &table.lock, -5));
    assert_false(pod_cond_wait_until(&table.changed, &table.lock,
                                     pod_clock_mono(&pod_clock_system)));
    table.turn = 1;
    // The other thread makes one turn; a signal is no timeout.
    assert_int_equal(pthread_create(&thread, NULL, play_odd, &table), 0);
    while (table.turn == 1)
        assert_true(
            pod_cond_wait_until(&table.changed, &table.lock, POD_NEVER));
    assert_int_equal(table.turn, 2);
    pod_mutex_unlock(&table.lock);
    for (int i = 1; i < TURNS; i++) {
        pod_mutex_lock(&table.lock);
        table.turn++;
        pod_cond_broadcast(&table.changed);
        while (table.turn % 2 != 0)
            pod_cond_wait(&table.changed, &table.lock);
        pod_mutex_unlock(&table.lock);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    pod_cond_fini(&table.changed);
    pod_mutex_fini(&table.lock);
}

// ---------------------------------------------------------------- lock ranks

struct locks {
    struct pod_mutex outer;
    struct pod_mutex inner;
    struct pod_mutex same;
};

static void locks_init(struct locks *locks)
{
    pod_mutex_init(&locks->outer, POD_RANK_ENGINE, "outer lock");
    pod_mutex_init(&locks->inner, POD_RANK_OUTBOX, "inner lock");
    pod_mutex_init(&locks->same, POD_RANK_OUTBOX, "same lock");
}

static void locks_fini(struct locks *locks)
{
    pod_mutex_fini(&locks->outer);
    pod_mutex_fini(&locks->inner);
    pod_mutex_fini(&locks->same);
}

// Rising ranks are allowed, in whatever order they are given back.
static void test_rank_order(void **state)
{
    struct locks locks;

    (void)state;
    locks_init(&locks);
    for (int i = 0; i < 2; i++) {
        pod_mutex_lock(&locks.outer);
        pod_mutex_lock(&locks.inner);
        pod_mutex_unlock(i == 0 ? &locks.outer : &locks.inner);
        pod_mutex_unlock(i == 0 ? &locks.inner : &locks.outer);
    }
    pod_mutex_lock(&locks.same);
    pod_mutex_unlock(&locks.same);
    locks_fini(&locks);
}

#ifdef POD_CHECK_LOCKS

static void lock_backwards(struct locks *locks)
{
    pod_mutex_lock(&locks->inner);
    pod_mutex_lock(&locks->outer);
}

static void lock_same_rank(struct locks *locks)
{
    pod_mutex_lock(&locks->inner);
    pod_mutex_lock(&locks->same);
}

static void unlock_unheld(struct locks *locks)
{
    pod_mutex_unlock(&locks->outer);
}

// Runs it in a child, which must abort with these words on stderr.
static void check_aborts(void (*misuse)(struct locks *locks), const char *word,
                         const char *other)
{
    char text[512] = {0};
    size_t length = 0;
    ssize_t got;
    int status;
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct locks locks;
        (void)dup2(ends[1], STDERR_FILENO);
        locks_init(&locks);
        // cmocka catches SIGABRT otherwise.
        (void)signal(SIGABRT, SIG_DFL);
        misuse(&locks);
        _exit(0);
    }
    (void)close(ends[1]);
    while ((got = read(ends[0], text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)got;
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, word));
    assert_non_null(strstr(text, other));
}

static void test_rank_misuse(void **state)
{
    (void)state;
    check_aborts(lock_backwards, "outer lock", "inner lock");
    check_aborts(lock_same_rank, "same lock", "inner lock");
    check_aborts(unlock_unheld, "outer lock", "not held");
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_wait_until),
        cmocka_unit_test(test_rank_order),
#ifdef POD_CHECK_LOCKS
        cmocka_unit_test(test_rank_misuse),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
