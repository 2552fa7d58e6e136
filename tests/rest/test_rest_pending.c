// SPDX-License-Identifier: Apache-2.0
// Why an operation does not run, as a client sees it: reasons, places in
// queues.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/rest_pod.h"

// The id of the operation before: an execution's output.
static const char *rest_before(const char *op, char out[32])
{
    (void)snprintf(out, 32, "op-%ld", strtol(op + 3, NULL, 10) - 1);
    return out;
}

static json_t *event_now(struct rest *rest, const char *op)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/v1/events/%.31s", op);
    return rest_json(rest_get(rest, path), 200);
}

static void cancel(struct rest *rest, const char *op)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/v1/events/%.31s:cancel", op);
    json_decref(rest_json(rest_send(rest, "POST", path, ""), 200));
}

static void what_waits_knows_its_place(void **state)
{
    enum { COUNT = 20 };
    struct rest *rest = *state;
    char running[32];
    char ids[COUNT][32];
    char text[160];
    struct rest_spin spin = rest_spin_make(rest, 0);
    rest_spin_start(rest, &spin, running);
    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(text, sizeof(text),
                       "{\"load\":\"%s\",\"inputs\":[\"%s\"]}", spin.load,
                       spin.input);
        json_t *event = rest_submit(rest, "/v1/executions", text);
        (void)snprintf(ids[i], sizeof(ids[i]), "%s", rest_text(event, "id"));
        json_decref(event);
        // Its output is allocated first.
        json_decref(rest_await(rest, rest_before(ids[i], text)));
        event = event_now(rest, ids[i]);
        assert_string_equal(rest_text(event, "pending_reason"), "CORE_BUSY");
        assert_int_equal(
            json_integer_value(json_object_get(event, "queue_position")), i);
        assert_null(json_object_get(event, "queue_position_capped"));
        json_decref(event);
    }
    json_t *event = event_now(rest, running);
    assert_true(json_is_null(json_object_get(event, "queue_position")));
    assert_null(json_object_get(event, "pending_reason"));
    json_decref(event);
    for (int i = COUNT - 1; i >= 0; i--)
        cancel(rest, ids[i]);
    rest_spin_stop(rest, running);
}

// Of the 1 GiB of a core.
static void what_waits_for_memory(void **state)
{
    struct rest *rest = *state;
    struct rest_spin spin = rest_spin_make(rest, 0);
    char running[32];
    char text[160];
    json_t *half = rest_submit(rest, "/v1/buffers",
                               "{\"core\":0,\"bytes\":\"600000000\"}");
    json_decref(rest_await(rest, rest_text(half, "id")));
    rest_spin_start(rest, &spin, running);
    (void)snprintf(text, sizeof(text), "/v1/buffers/%s?after=%s",
                   rest_text(half, "buffer"), running);
    json_decref(rest_json(rest_ask(rest, "DELETE", text, NULL, NULL, 0), 202));
    for (int i = 0; i < 2; i++) {
        json_t *event = rest_submit(rest, "/v1/buffers",
                                    "{\"core\":0,\"bytes\":\"600000000\"}");
        assert_string_equal(rest_text(event, "pending_reason"), "MEMORY");
        assert_int_equal(
            json_integer_value(json_object_get(event, "queue_position")), i);
        json_decref(event);
    }
    json_decref(half);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_waits_knows_its_place, rest_setup,
                                        rest_teardown),
        cmocka_unit_test_setup_teardown(what_waits_for_memory, rest_setup,
                                        rest_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
