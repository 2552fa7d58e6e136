// SPDX-License-Identifier: Apache-2.0
// Words in the JSON of an event that few pods ever show: how a cancel came out,
// and a queue that is longer than was counted.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/view_json.h"

static struct pod_event_view view_of_write(void)
{
    return (struct pod_event_view){.number = 5,
                                   .kind = POD_KIND_WRITE,
                                   .state = POD_SCHED_RUNNING,
                                   .host = POD_NO_ID,
                                   .core = POD_NO_ID,
                                   .queue_position = POD_NO_ID,
                                   .deadline_ns = POD_NEVER,
                                   .ready_ns = -1,
                                   .running_ns = -1,
                                   .finished_ns = -1};
}

static void test_how_a_cancel_came_out(void **state)
{
    static const struct {
        enum pod_cancel_outcome outcome;
        const char *word;
    } words[] = {
        {POD_CANCEL_NONE, "NONE"},
        {POD_CANCEL_PENDING, "PENDING"},
        {POD_CANCEL_INTERRUPTED, "INTERRUPTED"},
        {POD_CANCEL_COMPLETED_ANYWAY, "COMPLETED_ANYWAY"},
        {POD_CANCEL_NOT_INTERRUPTIBLE, "NOT_INTERRUPTIBLE"},
        {POD_CANCEL_UNKNOWN, "UNKNOWN"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct pod_event_view view = view_of_write();
        view.cancel = words[i].outcome;
        view.cancel_reason = "no more";
        json_t *event = api_event_json(&view);
        const json_t *cancel = json_object_get(event, "cancel");
        assert_string_equal(
            json_string_value(json_object_get(cancel, "outcome")),
            words[i].word);
        assert_string_equal(
            json_string_value(json_object_get(cancel, "reason")), "no more");
        json_decref(event);
    }
    struct pod_event_view view = view_of_write();
    json_t *event = api_event_json(&view);
    assert_null(json_object_get(event, "cancel"));
    json_decref(event);
}

static void test_a_queue_that_was_not_counted(void **state)
{
    (void)state;
    for (int capped = 0; capped < 2; capped++) {
        struct pod_event_view view = view_of_write();
        view.state = POD_SCHED_READY;
        view.pending = POD_PENDING_CORE_BUSY;
        view.queue_position = 1000;
        view.queue_capped = capped;
        json_t *event = api_event_json(&view);
        assert_int_equal(
            json_integer_value(json_object_get(event, "queue_position")), 1000);
        assert_int_equal(
            json_is_true(json_object_get(event, "queue_position_capped")),
            capped);
        json_decref(event);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_how_a_cancel_came_out),
        cmocka_unit_test(test_a_queue_that_was_not_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
