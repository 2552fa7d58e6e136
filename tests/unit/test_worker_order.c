// SPDX-License-Identifier: Apache-2.0
// The worker core with simulated time: numbers that are waited for, or
// followed, and do not come.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/list.h"
#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "proto/worker.h"
#include "tests/lib/reference_driver.h"

enum { ORDER_SESSION = 7, ORDER_NUMBERS = 200, ORDER_RANK = 85 };

// What became of one number.
struct outcome {
    int answers;
    struct pod_err err;
    uint64_t root;
    unsigned char first; // byte that was read
};

struct order {
    struct worker_sink sink;
    struct pod_mutex lock;
    struct pod_cond changed;
    struct outcome outcomes[ORDER_NUMBERS];
    int64_t now_ns;
    uint64_t client_bytes;
    struct worker *worker;
    struct worker_session *session;
};

static int64_t order_now(void *arg)
{
    return ((const struct order *)arg)->now_ns;
}

static void order_answer(struct worker_sink *sink,
                         const struct worker_answer *answer)
{
    struct order *order = POD_CONTAINER(sink, struct order, sink);

    if (answer->started)
        return;
    pod_mutex_lock(&order->lock);
    struct outcome *outcome = &order->outcomes[answer->number];
    outcome->answers++;
    outcome->err = *answer->err;
    outcome->root = answer->root;
    if (answer->data != NULL && answer->data->size > 0)
        outcome->first = answer->data->data[0];
    pod_cond_broadcast(&order->changed);
    pod_mutex_unlock(&order->lock);
}

// The test outlives all answers.
static void order_hold(struct worker_sink *sink)
{
    (void)sink;
}

static void order_begin(struct order *order, uint64_t client_bytes)
{
    memset(order, 0, sizeof(*order));
    pod_log_setup(POD_LOG_ERROR, POD_LOG_TEXT);
    order->sink = (struct worker_sink){
        .answer = order_answer, .ref = order_hold, .unref = order_hold};
    pod_mutex_init(&order->lock, ORDER_RANK, "order");
    pod_cond_init(&order->changed);
    struct worker_options options = {
        .driver = reference_driver_new(1, 1 << 20, NULL),
        .clock = {.mono_ns = order_now, .wall_ns = order_now, .arg = order},
        .gone_ns = 1000 * POD_NS_PER_S,
        .client_bytes = client_bytes,
    };
    assert_int_equal(worker_new(&options, &order->worker, NULL), POD_OK);
    assert_int_equal(
        worker_open(order->worker, ORDER_SESSION, 1000 * POD_NS_PER_S, NULL),
        POD_OK);
    order->session = worker_find(order->worker, ORDER_SESSION);
    assert_non_null(order->session);
}

static void order_end(struct order *order)
{
    worker_session_unref(order->session);
    worker_free(order->worker);
    pod_cond_fini(&order->changed);
    pod_mutex_fini(&order->lock);
    assert_int_equal(pod_mem_live(), 0);
}

static void order_submit(struct order *order,
                         const struct worker_request *request)
{
    worker_submit(order->session, request, &order->sink);
}

static const struct outcome *order_await(struct order *order, uint64_t number)
{
    pod_mutex_lock(&order->lock);
    while (order->outcomes[number].answers == 0)
        pod_cond_wait(&order->changed, &order->lock);
    assert_int_equal(order->outcomes[number].answers, 1);
    pod_mutex_unlock(&order->lock);
    return &order->outcomes[number];
}

static bool order_answered(struct order *order, uint64_t number)
{
    pod_mutex_lock(&order->lock);
    bool answered = order->outcomes[number].answers > 0;
    pod_mutex_unlock(&order->lock);
    return answered;
}

static void order_pass(struct order *order, int64_t ns)
{
    order->now_ns += ns;
    worker_tick(order->worker);
}

// A buffer of 4 bytes, filled with `byte`.
static void order_buffer(struct order *order, uint64_t buffer, uint64_t write,
                         unsigned char byte)
{
    struct pod_blob *blob = pod_blob_new(4);

    memset(blob->data, byte, 4);
    order_submit(order, &(struct worker_request){.kind = WORKER_ALLOCATE,
                                                 .number = buffer,
                                                 .bytes = 4});
    order_submit(order, &(struct worker_request){.kind = WORKER_WRITE,
                                                 .number = write,
                                                 .target = buffer,
                                                 .data = blob,
                                                 .data_count = 4});
    assert_int_equal(order_await(order, write)->err.code, POD_OK);
    pod_blob_unref(blob);
}

static enum pod_code order_allocate(struct order *order, uint64_t number)
{
    order_submit(order, &(struct worker_request){.kind = WORKER_ALLOCATE,
                                                 .number = number,
                                                 .bytes = 4});
    return order_await(order, number)->err.code;
}

static struct worker_request order_read(uint64_t number, uint64_t buffer)
{
    return (struct worker_request){
        .kind = WORKER_READ, .number = number, .target = buffer, .count = 4};
}

// A read of buffer 1 that waits for one number, or is only ordered behind it;
// NULL: not.
static void order_read_after(struct order *order, uint64_t number,
                             const uint64_t *waits, const uint64_t *orders)
{
    struct worker_request read = order_read(number, 1);

    read.waits = waits;
    read.wait_count = waits != NULL;
    read.orders = orders;
    read.order_count = orders != NULL;
    order_submit(order, &read);
}

// A write that is ordered behind a read must not come before it, however late
// that is: the read would bring the wrong bytes.
static void test_what_follows_a_lost_number_fails(void **state)
{
    struct order order;
    const uint64_t read = 3;

    (void)state;
    order_begin(&order, 0);
    order_buffer(&order, 1, 2, 5);
    struct pod_blob *blob = pod_blob_new(4);
    memset(blob->data, 6, 4);
    const struct worker_request write = {.kind = WORKER_WRITE,
                                         .number = 4,
                                         .target = 1,
                                         .orders = &read,
                                         .order_count = 1,
                                         .data = blob,
                                         .data_count = 4};
    order_submit(&order, &write);
    order_pass(&order, WORKER_FORWARD_NS - 1);
    assert_false(order_answered(&order, 4));
    order_pass(&order, 1);
    const struct outcome *failed = order_await(&order, 4);
    assert_int_equal(failed->err.reason, POD_REASON_DEPENDENCY_EXPIRED);
    assert_int_equal(failed->root, read);
    const struct worker_request late = order_read(read, 1);
    order_submit(&order, &late);
    assert_int_equal(order_await(&order, read)->err.code, POD_OK);
    assert_int_equal(order_await(&order, read)->first, 5);
    pod_blob_unref(blob);
    order_end(&order);
}

// Over a slow link much data may come before a number that is waited for.
static void test_data_that_comes_gives_more_time(void **state)
{
    struct order order;
    const uint64_t late = 100;
    uint64_t number = 5;

    (void)state;
    order_begin(&order, 0);
    order_buffer(&order, 1, 2, 5);
    order_read_after(&order, 3, &late, NULL);
    order_read_after(&order, 4, NULL, &late);
    for (; number < 15; number += 2) {
        order_pass(&order, WORKER_FORWARD_NS - 1);
        assert_false(order_answered(&order, 3));
        assert_false(order_answered(&order, 4));
        order_buffer(&order, number, number + 1, 6);
    }
    // What brings no data does not.
    order_pass(&order, WORKER_FORWARD_NS - 1);
    assert_int_equal(order_allocate(&order, number), POD_OK);
    assert_false(order_answered(&order, 3));
    order_pass(&order, 1);
    assert_int_equal(order_await(&order, 3)->err.reason,
                     POD_REASON_UNKNOWN_HANDLE);
    assert_int_equal(order_await(&order, 4)->err.reason,
                     POD_REASON_DEPENDENCY_EXPIRED);
    order_end(&order);
}

static void test_what_waits_for_a_lost_number_fails(void **state)
{
    struct order order;
    const uint64_t lost = 3;
    const uint64_t waits = 4;

    (void)state;
    order_begin(&order, 0);
    order_buffer(&order, 1, 2, 5);
    order_read_after(&order, waits, &lost, NULL);
    order_read_after(&order, 5, NULL, &waits);
    order_pass(&order, WORKER_FORWARD_NS);
    assert_int_equal(order_await(&order, waits)->err.reason,
                     POD_REASON_UNKNOWN_HANDLE);
    assert_int_equal(order_await(&order, waits)->root, lost);
    // What follows that has its turn: it came, and has ended.
    assert_int_equal(order_await(&order, 5)->err.code, POD_OK);
    order_end(&order);
}

// The worker has no room for it, and not even for its number: but it came, so
// what follows goes on at once.
static void test_what_follows_a_refused_number_goes_on(void **state)
{
    struct order order;
    const uint64_t refused = 3;
    uint64_t number = 10;

    (void)state;
    order_begin(&order, 1 << 14);
    order_buffer(&order, 1, 2, 5);
    order_read_after(&order, 4, NULL, &refused);
    while (order_allocate(&order, number) == POD_OK)
        number++;
    // Numbers apart from each other, until there is no room for one more.
    for (number += 2; number < ORDER_NUMBERS; number += 2)
        assert_int_equal(order_allocate(&order, number),
                         POD_RESOURCE_EXHAUSTED);
    assert_false(order_answered(&order, 4));
    assert_int_equal(order_allocate(&order, refused), POD_RESOURCE_EXHAUSTED);
    assert_int_equal(order_await(&order, 4)->err.code, POD_OK);
    order_end(&order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_follows_a_lost_number_fails),
        cmocka_unit_test(test_data_that_comes_gives_more_time),
        cmocka_unit_test(test_what_waits_for_a_lost_number_fails),
        cmocka_unit_test(test_what_follows_a_refused_number_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
