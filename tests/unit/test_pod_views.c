// SPDX-License-Identifier: Apache-2.0
// What is shown of operations, and the summary, from records made by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "tests/lib/hand_pod.h"

static int check_no_leak(void **state)
{
    (void)state;
    return pod_mem_live() == 0 ? 0 : -1;
}

static struct pod_failure *new_failure(uint64_t root, const char *text)
{
    struct pod_failure *failure =
        pod_calloc(1, sizeof(*failure) + strlen(text) + 1);

    assert_non_null(failure);
    failure->refs = 1;
    failure->root = root;
    failure->kind = POD_KIND_EXECUTE;
    failure->host = 2;
    failure->core = 5;
    failure->code = POD_INVALID_ARGUMENT;
    failure->reason = POD_REASON_PROGRAM_FAULT;
    failure->line = 7;
    failure->column = 3;
    failure->from_worker = true;
    failure->at_wall_ns = 12345;
    memcpy(failure->text, text, strlen(text) + 1);
    return failure;
}

static void get_event(struct hand_pod *hand, uint64_t number,
                      struct pod_event_view *out_view)
{
    struct pod_err err = POD_ERR_NONE;

    assert_int_equal(pod_get_event(&hand->pod, number, out_view, &err), POD_OK);
}

static void test_plain_event(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct pod_event_view view;
    struct pod_label labels[] = {{"team", "a"}, {"run", ""}};

    hand_pod_init(&hand);
    hand.mono_ns = 500;
    struct pod_op *op = hand_op(&hand, POD_KIND_WRITE, POD_SCHED_SUCCEEDED);
    op->host = 1;
    op->core = 3;
    op->ready_ns = 10;
    op->running_ns = 20;
    op->finished_ns = 30;
    op->priority = -4;
    op->deadline_ns = 77;
    char name[] = "first";
    op->name = name;
    op->labels = labels;
    op->label_count = 2;
    op->buffer_number = 9;
    op->graph = 8;
    op->bytes = 1024;
    get_event(&hand, 1, &view);
    assert_int_equal(view.number, 1);
    assert_int_equal(view.kind, POD_KIND_WRITE);
    assert_int_equal(view.state, POD_SCHED_SUCCEEDED);
    assert_int_equal(view.revision, 1);
    assert_int_equal(view.host, 1);
    assert_int_equal(view.core, 3);
    assert_int_equal(view.created_wall_ns, 1000500);
    assert_int_equal(view.ready_ns, 10);
    assert_int_equal(view.running_ns, 20);
    assert_int_equal(view.finished_ns, 30);
    assert_int_equal(view.pending, POD_PENDING_NONE);
    assert_int_equal(view.priority, -4);
    assert_int_equal(view.deadline_ns, 77);
    assert_string_equal(view.name, "first");
    assert_ptr_not_equal(view.name, name);
    assert_int_equal(view.label_count, 2);
    assert_string_equal(view.labels[0].key, "team");
    assert_string_equal(view.labels[0].value, "a");
    assert_string_equal(view.labels[1].value, "");
    assert_int_equal(view.buffer, 9);
    assert_int_equal(view.graph, 8);
    assert_int_equal(view.bytes, 1024);
    assert_false(view.has_error);
    assert_null(view.hosts);
    assert_null(view.outputs);
    pod_event_view_fini(&view);
    pod_event_view_fini(&view); // twice is harmless
    hand_pod_fini(&hand);
}

static void test_numbers_that_are_not_kept(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct pod_event_view event;
    struct pod_buffer_view buffer;
    struct pod_program_view program;
    struct pod_load_view load;
    struct pod_err err = POD_ERR_NONE;

    hand_pod_init(&hand);
    struct pod_op *op = hand_op(&hand, POD_KIND_FREE, POD_SCHED_SUCCEEDED);
    (void)hand_op(&hand, POD_KIND_FREE, POD_SCHED_SUCCEEDED);
    hand_expire(&hand, op);
    assert_int_equal(pod_get_event(&hand.pod, 1, &event, &err), POD_NOT_FOUND);
    assert_int_equal(err.reason, POD_REASON_EXPIRED);
    assert_int_equal(pod_get_event(&hand.pod, 3, &event, &err), POD_NOT_FOUND);
    assert_int_equal(err.reason, POD_REASON_NOT_FOUND);
    // Kept, but it made nothing.
    assert_int_equal(pod_get_buffer(&hand.pod, 2, &buffer, &err),
                     POD_NOT_FOUND);
    assert_int_equal(err.reason, POD_REASON_NOT_FOUND);
    assert_int_equal(pod_get_program(&hand.pod, 2, &program, &err),
                     POD_NOT_FOUND);
    assert_int_equal(err.reason, POD_REASON_NOT_FOUND);
    assert_int_equal(pod_get_load(&hand.pod, 2, &load, &err), POD_NOT_FOUND);
    assert_int_equal(err.reason, POD_REASON_NOT_FOUND);
    hand_pod_fini(&hand);
}

static void test_waiting_event_names_what_it_waits_for(void **state)
{
    (void)state;
    enum { DEPS = 130 };
    struct hand_pod hand;
    struct pod_event_view view;
    uint64_t deps[DEPS];

    hand_pod_init(&hand);
    for (uint64_t i = 0; i < DEPS; i++)
        deps[i] = hand_op(&hand, POD_KIND_READ, POD_SCHED_READY)->number;
    struct pod_op *op = hand_op(&hand, POD_KIND_WRITE, POD_SCHED_WAITING);
    op->deps = deps;
    op->dep_count = DEPS;
    get_event(&hand, op->number, &view);
    assert_int_equal(view.pending, POD_PENDING_DEPENDENCY);
    assert_int_equal(view.waits_for_shown, 100);
    assert_true(view.waits_for_count >= 100);
    assert_int_equal(view.waits_for[0], 1);
    assert_int_equal(view.waits_for[99], 100);
    pod_event_view_fini(&view);

    op->dep_count = 2;
    get_event(&hand, op->number, &view);
    assert_int_equal(view.waits_for_shown, 2);
    assert_int_equal(view.waits_for_count, 2);
    pod_event_view_fini(&view);
    hand_pod_fini(&hand);
}

static void test_execution(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct pod_event_view view;
    uint64_t inputs[] = {11, 12, 11};
    uint64_t outputs[] = {13};
    struct pod_replica replica = {.load_number = 6,
                                  .core = 2,
                                  .inputs = inputs,
                                  .input_count = 3,
                                  .outputs = outputs,
                                  .output_count = 1};

    hand_pod_init(&hand);
    struct pod_op *op = hand_op(&hand, POD_KIND_EXECUTE, POD_SCHED_RUNNING);
    op->replicas = &replica;
    op->replica_count = 1;
    get_event(&hand, 1, &view);
    assert_int_equal(view.load, 6);
    assert_int_equal(view.input_count, 3);
    assert_memory_equal(view.inputs, inputs, sizeof(inputs));
    assert_int_equal(view.output_count, 1);
    assert_int_equal(view.outputs[0], 13);
    assert_int_equal(view.launch_count, 0);
    pod_event_view_fini(&view);
    hand_pod_fini(&hand);
}

static void test_gang(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct pod_event_view view;
    uint64_t outputs[] = {13, 14, 15};
    struct pod_replica replicas[] = {
        {.load_number = 6, .core = 2, .outputs = outputs, .output_count = 2},
        {.load_number = 7, .core = 0},
        {.load_number = 8,
         .core = 1,
         .outputs = &outputs[2],
         .output_count = 1},
    };

    hand_pod_init(&hand);
    struct pod_op *op = hand_op(&hand, POD_KIND_EXECUTE, POD_SCHED_RUNNING);
    op->replicas = replicas;
    op->replica_count = 3;
    op->is_gang = true;
    get_event(&hand, 1, &view);
    assert_int_equal(view.launch_count, 3);
    assert_int_equal(view.launches[0].load, 6);
    assert_int_equal(view.launches[0].core, 2);
    assert_int_equal(view.launches[0].output_count, 2);
    assert_int_equal(view.launches[0].outputs[1], 14);
    assert_int_equal(view.launches[1].output_count, 0);
    assert_int_equal(view.launches[2].outputs[0], 15);
    assert_int_equal(view.output_count, 3);
    assert_memory_equal(view.outputs, outputs, sizeof(outputs));
    assert_int_equal(view.load, 0);
    pod_event_view_fini(&view);
    hand_pod_fini(&hand);
}

static void test_own_error(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct pod_event_view view;

    hand_pod_init(&hand);
    struct pod_op *op = hand_op(&hand, POD_KIND_EXECUTE, POD_SCHED_FAILED);
    op->failure = new_failure(1, "division by zero");
    op->root = 1;
    get_event(&hand, 1, &view);
    assert_true(view.has_error);
    assert_int_equal(view.error.code, POD_INVALID_ARGUMENT);
    assert_string_equal(view.error.reason, "PROGRAM_FAULT");
    assert_string_equal(view.error.detail, "division by zero");
    assert_true(view.error.from_worker);
    assert_int_equal(view.error.line, 7);
    assert_int_equal(view.error.column, 3);
    assert_int_equal(view.root, 1);
    assert_int_equal(view.root_kind, POD_KIND_EXECUTE);
    assert_int_equal(view.root_host, 2);
    assert_int_equal(view.root_core, 5);
    assert_int_equal(view.root_at_wall_ns, 12345);
    assert_int_equal(view.cause_count, 0);
    pod_event_view_fini(&view);

    // A failure that is set before the end does not show yet.
    op->state = POD_SCHED_RUNNING;
    get_event(&hand, 1, &view);
    assert_false(view.has_error);
    pod_event_view_fini(&view);
    pod_free(op->failure);
    op->state = POD_SCHED_FAILED;
    hand_pod_fini(&hand);
}

static void test_inherited_error(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct pod_event_view view;

    hand_pod_init(&hand);
    struct pod_op *op = hand_op(&hand, POD_KIND_READ, POD_SCHED_SKIPPED);
    op->failure = new_failure(40, "division by zero");
    op->root = 40;
    op->causes =
        pod_calloc(1, sizeof(*op->causes) + 2 * sizeof(struct pod_event_cause));
    op->causes->count = 2;
    op->causes->omitted = 5;
    op->causes->items[0] = (struct pod_event_cause){
        .number = 44, .kind = POD_KIND_COPY, .state = POD_SCHED_SKIPPED};
    op->causes->items[1].number = 40;
    get_event(&hand, 1, &view);
    assert_true(view.has_error);
    assert_int_equal(view.error.code, POD_INVALID_ARGUMENT);
    assert_string_equal(view.error.detail,
                        "op-40 did not succeed: division by zero");
    assert_string_equal(view.root_error.detail, "division by zero");
    assert_int_equal(view.root, 40);
    assert_int_equal(view.cause_count, 2);
    assert_int_equal(view.causes[0].number, 44);
    assert_int_equal(view.causes[0].kind, POD_KIND_COPY);
    assert_int_equal(view.causes[1].number, 40);
    assert_int_equal(view.causes_omitted, 5);
    pod_event_view_fini(&view);
    pod_free(op->failure);
    pod_free(op->causes);
    hand_pod_fini(&hand);
}

// More than the first block holds: laid twice, and each failing allocation on
// the way is survived.
static void test_large_event_and_no_memory(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    static uint64_t loads[MANY];
    struct hand_pod hand;
    struct pod_event_view view;
    struct pod_err err = POD_ERR_NONE;

    hand_pod_init(&hand);
    for (uint64_t i = 0; i < MANY; i++)
        loads[i] = 1000 + i;
    struct pod_op *op = hand_op(&hand, POD_KIND_COMPILE, POD_SCHED_SUCCEEDED);
    op->load_numbers = loads;
    op->load_number_count = MANY;
    struct pod_outcome outcomes[] = {
        {.host = 0, .state = POD_SCHED_SUCCEEDED},
        {.host = 1,
         .state = POD_SCHED_FAILED,
         .failure = new_failure(1, "no such instruction")},
    };
    op->outcomes = outcomes;
    op->outcome_count = 2;
    for (long allowed = 0; allowed < 2; allowed++) {
        long live = pod_mem_live();
        pod_mem_fail_after(allowed, 1);
        enum pod_code code = pod_get_event(&hand.pod, 1, &view, &err);
        pod_mem_fail_after(-1, 0);
        assert_int_equal(code, POD_RESOURCE_EXHAUSTED);
        assert_int_equal(err.reason, POD_REASON_OUT_OF_MEMORY);
        assert_int_equal(pod_mem_live(), live);
    }
    get_event(&hand, 1, &view);
    assert_int_equal(view.load_count, MANY);
    assert_memory_equal(view.loads, loads, sizeof(loads));
    assert_int_equal(view.host_count, 2);
    assert_null(view.hosts[0].detail);
    assert_int_equal(view.hosts[0].state, POD_SCHED_SUCCEEDED);
    assert_int_equal(view.hosts[1].host, 1);
    assert_int_equal(view.hosts[1].code, POD_INVALID_ARGUMENT);
    assert_string_equal(view.hosts[1].detail, "no such instruction");
    pod_event_view_fini(&view);
    pod_free(outcomes[1].failure);
    hand_pod_fini(&hand);
}

static void test_summary(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct pod_summary summary;

    hand_pod_init(&hand);
    (void)hand_op(&hand, POD_KIND_FREE, POD_SCHED_SUCCEEDED);
    (void)hand_op(&hand, POD_KIND_FREE, POD_SCHED_LOST);
    (void)hand_op(&hand, POD_KIND_READ, POD_SCHED_LOST);
    hand.hosts[2].kept_operations = 17;
    assert_int_equal(pod_get_summary(&hand.pod, &summary, NULL), POD_OK);
    assert_int_equal(summary.by_state[POD_SCHED_SUCCEEDED], 1);
    assert_int_equal(summary.by_state[POD_SCHED_LOST], 2);
    assert_int_equal(summary.by_state[POD_SCHED_FAILED], 0);
    assert_int_equal(summary.by_kind[POD_KIND_FREE], 2);
    assert_int_equal(summary.by_kind[POD_KIND_READ], 1);
    assert_int_equal(summary.host_count, HAND_HOSTS);
    assert_int_equal(summary.by_host[2].operations, 17);
    assert_int_equal(summary.by_host[1].operations, 0);
    assert_int_equal(summary.last_number, 3);
    assert_int_equal(summary.revision, 3);
    pod_summary_fini(&summary);
    pod_summary_fini(&summary);
    pod_mem_fail_after(0, 1);
    assert_int_equal(pod_get_summary(&hand.pod, &summary, NULL),
                     POD_RESOURCE_EXHAUSTED);
    pod_mem_fail_after(-1, 0);
    hand_pod_fini(&hand);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(pod_kind_name(POD_KIND_ALLOCATE_TUPLE),
                        "ALLOCATE_TUPLE");
    assert_string_equal(pod_kind_name(POD_KIND_RESET), "RESET");
    assert_string_equal(pod_kind_name(POD_KIND_COUNT), "UNKNOWN");
    assert_string_equal(pod_pending_name(POD_PENDING_NONE), "NONE");
    assert_string_equal(pod_pending_name(POD_PENDING_STAGING), "STAGING");
    assert_string_equal(pod_handle_state_name(POD_HANDLE_LOST), "LOST");
    assert_string_equal(pod_host_state_name(POD_HOST_CORDONED), "CORDONED");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_plain_event, check_no_leak),
        cmocka_unit_test_teardown(test_numbers_that_are_not_kept,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_waiting_event_names_what_it_waits_for,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_execution, check_no_leak),
        cmocka_unit_test_teardown(test_gang, check_no_leak),
        cmocka_unit_test_teardown(test_own_error, check_no_leak),
        cmocka_unit_test_teardown(test_inherited_error, check_no_leak),
        cmocka_unit_test_teardown(test_large_event_and_no_memory,
                                  check_no_leak),
        cmocka_unit_test_teardown(test_summary, check_no_leak),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
