// SPDX-License-Identifier: Apache-2.0
// The staging budget and the bytes that reads keep.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/pod/staging.h"
#include "tests/lib/hand_pod.h"

static int check_no_leak(void **state)
{
    (void)state;
    return pod_mem_live() == 0 ? 0 : -1;
}

static uint64_t used(struct hand_pod *hand)
{
    uint64_t now, max;

    pod_staging_usage(&hand->pod, &now, &max);
    assert_int_equal(max, 1000);
    return now;
}

static void test_budget(void **state)
{
    (void)state;
    struct hand_pod hand;

    hand_pod_init(&hand);
    assert_true(pod_staging_take(&hand.pod, 600));
    assert_false(pod_staging_take(&hand.pod, 401));
    assert_false(pod_staging_take(&hand.pod, UINT64_MAX));
    assert_int_equal(used(&hand), 600);
    assert_true(pod_staging_take(&hand.pod, 400));
    assert_true(pod_staging_take(&hand.pod, 0));
    assert_false(pod_staging_take(&hand.pod, 1));
    pod_staging_give(&hand.pod, 1000);
    assert_int_equal(used(&hand), 0);
    hand_pod_fini(&hand);
}

// Half of the budget is lent at most; what is lent is taken from it.
static void test_half_is_lent(void **state)
{
    (void)state;
    struct hand_pod hand;

    hand_pod_init(&hand);
    assert_null(pod_loan_new(&hand.pod, 501));
    assert_null(pod_loan_new(&hand.pod, UINT64_MAX));
    struct pod_loan *first = pod_loan_new(&hand.pod, 300);
    assert_non_null(first);
    assert_int_equal(used(&hand), 300);
    assert_null(pod_loan_new(&hand.pod, 201));
    assert_true(pod_staging_take(&hand.pod, 600));
    assert_null(pod_loan_new(&hand.pod, 101)); // others have the rest
    struct pod_loan *second = pod_loan_new(&hand.pod, 100);
    assert_non_null(second);
    pod_staging_give(&hand.pod, 600);
    assert_null(pod_loan_new(&hand.pod, 101));
    pod_loan_free(first);
    pod_loan_free(NULL);
    assert_int_equal(used(&hand), 100);
    // What is lent ends the loan, little of the memory as it is.
    struct pod_blob *part = pod_blob_new(1);
    assert_non_null(part);
    assert_false(pod_staging_has(part));
    pod_loan_follow(second, part);
    assert_true(pod_staging_has(part));
    first = pod_loan_new(&hand.pod, 400);
    assert_non_null(first);
    pod_blob_unref(part);
    assert_int_equal(used(&hand), 400);
    pod_loan_free(first);
    assert_int_equal(used(&hand), 0);
    hand_pod_fini(&hand);
}

// A read of `count` chunks of 100 bytes that has brought its bytes, as the
// engine leaves it: bytes taken from the budget, chunks in the record.
static struct pod_op *kept_read(struct hand_pod *hand, size_t count)
{
    struct pod_op *op = hand_op(hand, POD_KIND_READ, POD_SCHED_SUCCEEDED);

    assert_true(pod_staging_take(&hand->pod, 100 * count));
    assert_true(pod_kept_new(op));
    struct pod_data_chunks *data = &op->kept->data;
    data->bytes = 100 * count;
    op->buffer_number = 77;
    // Someone still counts on it, so that it is not retired in these tests.
    op->pins = 1;
    data->chunks = pod_calloc(count, sizeof(struct pod_blob *));
    assert_non_null(data->chunks);
    data->count = count;
    for (size_t i = 0; i < count; i++) {
        data->chunks[i] = pod_blob_new(100);
        assert_non_null(data->chunks[i]);
        memset(data->chunks[i]->data, (int)i, 100);
    }
    pod_mutex_lock(&hand->pod.lock);
    pod_data_keep_locked(&hand->pod, op);
    pod_mutex_unlock(&hand->pod.lock);
    return op;
}

static void assert_gone(struct hand_pod *hand, uint64_t number)
{
    struct pod_data data;
    struct pod_err err = POD_ERR_NONE;

    assert_int_equal(pod_take_data(&hand->pod, number, &data, &err),
                     POD_NOT_FOUND);
    assert_int_equal(err.reason, POD_REASON_EXPIRED);
    assert_int_equal(pod_drop_data(&hand->pod, number, &err), POD_NOT_FOUND);
    assert_int_equal(err.reason, POD_REASON_EXPIRED);
}

static void test_bytes_can_be_taken_until_dropped(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct pod_data data;
    struct pod_shape shape;

    hand_pod_init(&hand);
    assert_int_equal(
        pod_shape_array(&shape, POD_TYPE_U8, 1, (int64_t[]){300}, NULL),
        POD_OK);
    struct pod_op *op = kept_read(&hand, 3);
    op->shape = &shape;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pod_take_data(&hand.pod, 1, &data, NULL), POD_OK);
        assert_int_equal(data.chunk_count, 3);
        assert_int_equal(data.bytes, 300);
        assert_int_equal(data.buffer, 77);
        assert_true(data.has_shape);
        assert_int_equal(data.shape.dims[0], 300);
        assert_int_equal(data.chunks[2]->data[99], 2);
        pod_data_fini(&data);
        pod_data_fini(&data);
    }
    assert_int_equal(used(&hand), 300);
    uint64_t revision = op->revision;
    assert_int_equal(pod_drop_data(&hand.pod, 1, NULL), POD_OK);
    assert_int_equal(used(&hand), 0);
    // Its event shows that they are gone.
    assert_true(op->revision > revision);
    assert_false(pod_op_has_data(op));
    assert_gone(&hand, 1);
    op->shape = NULL;
    hand_pod_fini(&hand);
}

static void test_budget_is_held_while_bytes_are_sent(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct pod_data data;

    hand_pod_init(&hand);
    (void)kept_read(&hand, 4);
    assert_int_equal(pod_take_data(&hand.pod, 1, &data, NULL), POD_OK);
    assert_int_equal(pod_drop_data(&hand.pod, 1, NULL), POD_OK);
    assert_int_equal(used(&hand), 400);
    // As a client does that has sent the first chunk.
    pod_blob_unref(data.chunks[0]);
    assert_int_equal(used(&hand), 300);
    data.chunks[0] = NULL;
    pod_data_fini(&data);
    assert_int_equal(used(&hand), 0);
    hand_pod_fini(&hand);
}

static int freed_elsewhere;

static void free_elsewhere(void *arg, size_t size)
{
    (void)arg;
    freed_elsewhere += (int)size;
}

static void test_chunks_that_others_follow(void **state)
{
    (void)state;
    struct hand_pod hand;

    hand_pod_init(&hand);
    struct pod_op *op = hand_op(&hand, POD_KIND_READ, POD_SCHED_SUCCEEDED);
    assert_true(pod_staging_take(&hand.pod, 50));
    assert_true(pod_kept_new(op));
    struct pod_data_chunks *data = &op->kept->data;
    data->bytes = 50;
    op->pins = 1;
    data->chunks = pod_calloc(1, sizeof(struct pod_blob *));
    assert_non_null(data->chunks);
    data->count = 1;
    data->chunks[0] = pod_blob_new(50);
    data->chunks[0]->on_free = free_elsewhere;
    pod_mutex_lock(&hand.pod.lock);
    pod_data_keep_locked(&hand.pod, op);
    pod_mutex_unlock(&hand.pod.lock);
    assert_int_equal(used(&hand), 50);
    assert_int_equal(pod_drop_data(&hand.pod, 1, NULL), POD_OK);
    assert_int_equal(used(&hand), 0);
    assert_int_equal(freed_elsewhere, 50);
    hand_pod_fini(&hand);
}

static void test_bytes_expire_in_order(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct pod_data_chunks chunks;

    hand_pod_init(&hand);
    assert_int_equal(pod_data_due_locked(&hand.pod), POD_NEVER);
    hand.mono_ns = 5;
    (void)kept_read(&hand, 1);
    hand.mono_ns = 7;
    (void)kept_read(&hand, 2);
    const int64_t kept = 600 * INT64_C(1000000000);
    assert_int_equal(pod_data_due_locked(&hand.pod), 5 + kept);
    pod_mutex_lock(&hand.pod.lock);
    assert_false(pod_data_expire_locked(&hand.pod, 4 + kept, &chunks));
    assert_true(pod_data_expire_locked(&hand.pod, 5 + kept, &chunks));
    pod_mutex_unlock(&hand.pod.lock);
    assert_int_equal(chunks.count, 1);
    pod_data_discard(&hand.pod, chunks);
    assert_int_equal(used(&hand), 200);
    assert_gone(&hand, 1);
    pod_mutex_lock(&hand.pod.lock);
    assert_false(pod_data_expire_locked(&hand.pod, 6 + kept, &chunks));
    assert_true(pod_data_expire_locked(&hand.pod, 7 + kept, &chunks));
    pod_mutex_unlock(&hand.pod.lock);
    pod_data_discard(&hand.pod, chunks);
    assert_int_equal(pod_data_due_locked(&hand.pod), POD_NEVER);
    assert_int_equal(used(&hand), 0);
    // Nothing is left to drop.
    pod_mutex_lock(&hand.pod.lock);
    chunks = pod_data_drop_locked(&hand.pod, pod_table_get(&hand.pod.table, 2));
    pod_mutex_unlock(&hand.pod.lock);
    assert_int_equal(chunks.count, 0);
    pod_data_discard(&hand.pod, chunks);
    hand_pod_fini(&hand);
}

static enum pod_reason why_not(struct hand_pod *hand, uint64_t number)
{
    struct pod_data data;
    struct pod_err err = POD_ERR_NONE;

    assert_int_not_equal(pod_take_data(&hand->pod, number, &data, &err),
                         POD_OK);
    return err.reason;
}

static void test_reads_without_bytes(void **state)
{
    (void)state;
    struct hand_pod hand;

    hand_pod_init(&hand);
    (void)hand_op(&hand, POD_KIND_WRITE, POD_SCHED_SUCCEEDED);
    struct pod_op *open = hand_op(&hand, POD_KIND_READ, POD_SCHED_RUNNING);
    assert_true(pod_kept_new(open));
    struct pod_op *failed = hand_op(&hand, POD_KIND_READ, POD_SCHED_SKIPPED);
    assert_true(pod_kept_new(failed));
    failed->root = 9;
    struct pod_failure *failure = pod_calloc(1, sizeof(*failure) + 10);
    assert_non_null(failure);
    failure->code = POD_DATA_LOSS;
    failure->reason = POD_REASON_BUFFER_LOST;
    strcpy(failure->text, "gone");
    failed->failure = failure;

    assert_int_equal(why_not(&hand, 1), POD_REASON_NOT_FOUND);
    assert_int_equal(why_not(&hand, 2), POD_REASON_WAIT_EXPIRED);
    assert_int_equal(why_not(&hand, 4), POD_REASON_NOT_FOUND);
    struct pod_data data;
    struct pod_err err = POD_ERR_NONE;
    assert_int_equal(pod_take_data(&hand.pod, 3, &data, &err), POD_DATA_LOSS);
    assert_int_equal(err.reason, POD_REASON_BUFFER_LOST);
    assert_string_equal(err.text, "op-9 did not succeed: gone");
    failed->root = 3;
    assert_int_equal(pod_take_data(&hand.pod, 3, &data, &err), POD_DATA_LOSS);
    assert_string_equal(err.text, "gone");
    pod_free(failure);
    failed->failure = NULL;
    hand_pod_fini(&hand);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct pod_data data;

    hand_pod_init(&hand);
    hand.pod.options.staging_bytes = 100000;
    (void)kept_read(&hand, 40); // more than the first list holds
    for (long allowed = 0; allowed < 2; allowed++) {
        long live = pod_mem_live();
        pod_mem_fail_after(allowed, 1);
        enum pod_code code = pod_take_data(&hand.pod, 1, &data, NULL);
        pod_mem_fail_after(-1, 0);
        assert_int_equal(code, POD_RESOURCE_EXHAUSTED);
        assert_int_equal(pod_mem_live(), live);
    }
    assert_int_equal(pod_take_data(&hand.pod, 1, &data, NULL), POD_OK);
    assert_int_equal(data.chunk_count, 40);
    assert_int_equal(data.chunks[39]->data[0], 39);
    assert_false(data.has_shape);
    pod_data_fini(&data);
    assert_int_equal(pod_drop_data(&hand.pod, 1, NULL), POD_OK);
    hand_pod_fini(&hand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_budget, check_no_leak),
        cmocka_unit_test_teardown(test_half_is_lent, check_no_leak),
        cmocka_unit_test_teardown(test_bytes_can_be_taken_until_dropped,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_budget_is_held_while_bytes_are_sent,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_chunks_that_others_follow,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_bytes_expire_in_order, check_no_leak),
        cmocka_unit_test_teardown(test_reads_without_bytes, check_no_leak),
        cmocka_unit_test_teardown(test_no_memory, check_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
