// SPDX-License-Identifier: Apache-2.0
// Traces of events and effects with simulated time.
//
// A line "[time] event" is an event; "[time]   name ..." is an effect of the
// event above it. A test takes the events out of its trace, runs them, and
// must get the whole trace again. Events:
//   lane WINDOW
//   submit NAME [needs=A,B!] [follows=A] [lanes=0,1] [prio=N] [deadline=T]
//               [doomed=A] [always]
//   started NAME | done NAME STATE | end NAME STATE
//   cancel NAME | cascade NAME | advance
// needs: edges that carry; follows: edges that only order; "!": sent ahead.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/str.h"
#include "core/sched/sched.h"

enum { TRACE_OPS = 64, TRACE_LIST = 8 };

struct trace_op {
    char name[8];
    struct pod_sched_node *node;
};

struct trace {
    struct pod_sched *sched;
    int64_t now;
    struct pod_str text;
    struct trace_op ops[TRACE_OPS];
    size_t count;
};

static struct trace_op *trace_op(struct trace *trace, const char *name)
{
    for (size_t i = 0; i < trace->count; i++) {
        if (strcmp(trace->ops[i].name, name) == 0)
            return &trace->ops[i];
    }
    assert_true(trace->count < TRACE_OPS);
    struct trace_op *op = &trace->ops[trace->count++];
    (void)snprintf(op->name, sizeof op->name, "%s", name);
    return op;
}

static void trace_effects(struct trace *trace)
{
    struct pod_sched_effect effect;

    while (pod_sched_next_effect(trace->sched, &effect)) {
        const struct trace_op *op = effect.user;
        pod_str_printf(&trace->text, "[%d]   %s", (int)trace->now, op->name);
        if ((effect.what & POD_SCHED_CHANGED) != 0)
            pod_str_printf(&trace->text, " %s",
                           pod_sched_state_name(effect.state));
        if (effect.deadline)
            pod_str_puts(&trace->text, " late");
        if (effect.cause != NULL)
            pod_str_printf(&trace->text, " by %s",
                           ((const struct trace_op *)effect.cause)->name);
        if ((effect.what & POD_SCHED_LAUNCH) != 0)
            pod_str_puts(&trace->text, " launch");
        if ((effect.what & POD_SCHED_INTERRUPT) != 0)
            pod_str_puts(&trace->text, " interrupt");
        if ((effect.what & POD_SCHED_RELEASED) != 0)
            pod_str_puts(&trace->text, " released");
        pod_str_puts(&trace->text, "\n");
    }
}

static void trace_step(struct trace *trace, struct pod_sched_event *event,
                       struct pod_sched_node **out_node)
{
    event->now_ns = trace->now;
    assert_int_equal(pod_sched_step(trace->sched, event, out_node, NULL),
                     POD_OK);
    trace_effects(trace);
}

// What a submit collects before the step.
struct trace_submit {
    struct pod_sched_event event;
    struct pod_sched_dep deps[TRACE_LIST];
    uint32_t lanes[TRACE_LIST];
};

static void trace_add_deps(struct trace *trace, struct trace_submit *submit,
                           char *list, bool carries)
{
    char *rest = NULL;

    for (char *name = strtok_r(list, ",", &rest); name != NULL;
         name = strtok_r(NULL, ",", &rest)) {
        assert_true(submit->event.dep_count < TRACE_LIST);
        size_t length = strlen(name);
        bool ahead = name[length - 1] == '!';
        if (ahead)
            name[length - 1] = '\0';
        submit->deps[submit->event.dep_count++] = (struct pod_sched_dep){
            .node = trace_op(trace, name)->node,
            .carries = carries,
            .ahead = ahead,
        };
    }
}

static void trace_add_lanes(struct trace_submit *submit, char *list)
{
    char *rest = NULL;

    for (char *number = strtok_r(list, ",", &rest); number != NULL;
         number = strtok_r(NULL, ",", &rest)) {
        assert_true(submit->event.lane_count < TRACE_LIST);
        submit->lanes[submit->event.lane_count++] =
            (uint32_t)strtoul(number, NULL, 10);
    }
}

static void trace_option(struct trace *trace, struct trace_submit *submit,
                         char *key)
{
    char *value = strchr(key, '=');

    if (value != NULL)
        *value++ = '\0';
    if (strcmp(key, "needs") == 0)
        trace_add_deps(trace, submit, value, true);
    else if (strcmp(key, "follows") == 0)
        trace_add_deps(trace, submit, value, false);
    else if (strcmp(key, "lanes") == 0)
        trace_add_lanes(submit, value);
    else if (strcmp(key, "prio") == 0)
        submit->event.priority = (int8_t)strtol(value, NULL, 10);
    else if (strcmp(key, "deadline") == 0)
        submit->event.deadline_ns = strtol(value, NULL, 10);
    else if (strcmp(key, "always") == 0)
        submit->event.run_on_failure = true;
    else if (strcmp(key, "doomed") == 0) {
        submit->event.doomed = true;
        submit->event.doomed_by = trace_op(trace, value);
    } else
        fail_msg("unknown option \"%s\"", key);
}

static void trace_submit(struct trace *trace, const char *name, char **rest)
{
    struct trace_op *op = trace_op(trace, name);
    struct trace_submit submit = {
        .event = {.kind = POD_SCHED_SUBMIT,
                  .user = op,
                  .deadline_ns = POD_NEVER},
    };

    for (char *word = strtok_r(NULL, " ", rest); word != NULL;
         word = strtok_r(NULL, " ", rest))
        trace_option(trace, &submit, word);
    submit.event.deps = submit.deps;
    submit.event.lanes = submit.lanes;
    trace_step(trace, &submit.event, &op->node);
}

static enum pod_sched_state trace_state(const char *name)
{
    for (int i = POD_SCHED_SUCCEEDED; i <= POD_SCHED_LOST; i++) {
        enum pod_sched_state state = (enum pod_sched_state)i;
        if (strcmp(pod_sched_state_name(state), name) == 0)
            return state;
    }
    fail_msg("unknown state \"%s\"", name);
    return POD_SCHED_LOST;
}

// An event about one node.
static void trace_node_event(struct trace *trace, const char *verb,
                             const char *name, const char *state)
{
    struct pod_sched_event event = {.node = trace_op(trace, name)->node};

    if (strcmp(verb, "started") == 0)
        event.kind = POD_SCHED_STARTED;
    else if (strcmp(verb, "done") == 0)
        event.kind = POD_SCHED_DONE;
    else if (strcmp(verb, "end") == 0)
        event.kind = POD_SCHED_END;
    else
        event.kind = POD_SCHED_CANCEL;
    event.cascade = strcmp(verb, "cascade") == 0;
    if (state != NULL)
        event.state = trace_state(state);
    trace_step(trace, &event, NULL);
}

static void trace_line(struct trace *trace, char *line)
{
    struct pod_sched_event advance = {.kind = POD_SCHED_ADVANCE};
    char *rest = NULL;
    char *verb = strtok_r(line, " ", &rest);
    char *subject = strtok_r(NULL, " ", &rest);

    if (strcmp(verb, "lane") == 0)
        (void)pod_sched_add_lane(trace->sched,
                                 (uint32_t)strtoul(subject, NULL, 10));
    else if (strcmp(verb, "submit") == 0)
        trace_submit(trace, subject, &rest);
    else if (strcmp(verb, "advance") == 0)
        trace_step(trace, &advance, NULL);
    else
        trace_node_event(trace, verb, subject, strtok_r(NULL, " ", &rest));
}

static void trace_check(const char *expected)
{
    long live = pod_mem_live();
    struct trace trace = {.sched = pod_sched_new()};
    char *copy = pod_strdup(expected);
    char *rest = NULL;

    assert_non_null(trace.sched);
    for (char *line = strtok_r(copy, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char *event = strchr(line, ' ') + 1;
        if (event[0] == ' ')
            continue;
        trace.now = strtol(line + 1, NULL, 10);
        pod_str_printf(&trace.text, "%s\n", line);
        trace_line(&trace, event);
    }
    assert_string_equal(trace.text.data, expected);
    pod_str_fini(&trace.text);
    pod_sched_free(trace.sched);
    pod_free(copy);
    assert_int_equal(pod_mem_live(), live);
}

// A node without dependencies and lanes is launched at once and passes all
// states.
static void test_single(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] started a\n"
                "[0]   a RUNNING\n"
                "[0] started a\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n");
}

// A chain: each is ready when the one before is done.
static void test_chain(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a\n"
                "[0] submit c needs=b\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   b READY launch\n"
                "[0] done b SUCCEEDED\n"
                "[0]   b SUCCEEDED released\n"
                "[0]   c READY launch\n"
                "[0] done c SUCCEEDED\n"
                "[0]   c SUCCEEDED released\n");
}

// A node waits for all of its dependencies.
static void test_join(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit c needs=a follows=b\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0] done b SUCCEEDED\n"
                "[0]   b SUCCEEDED released\n"
                "[0]   c READY launch\n");
}

// Dependents are released newest first.
static void test_fan_out(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a\n"
                "[0] submit c needs=a\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   c READY launch\n"
                "[0]   b READY launch\n");
}

// A failure skips what depends on it, through the graph, each with its own
// cause.
static void test_failure_spreads(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a\n"
                "[0] submit c needs=b\n"
                "[0] submit d\n"
                "[0]   d READY launch\n"
                "[0] submit e needs=c,d\n"
                "[0] submit f needs=d\n"
                "[0] done a FAILED\n"
                "[0]   a FAILED released\n"
                "[0]   b SKIPPED by a released\n"
                "[0]   c SKIPPED by b released\n"
                "[0]   e SKIPPED by c\n"
                "[0] done d SUCCEEDED\n"
                "[0]   d SUCCEEDED released\n"
                "[0]   f READY launch\n"
                "[0]   e released\n");
}

// An edge that only orders is released by a failure too.
static void test_order_only(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b follows=a\n"
                "[0] done a FAILED\n"
                "[0]   a FAILED released\n"
                "[0]   b READY launch\n");
}

// A node that ended early holds order-only dependents until its worker
// answers.
static void test_order_waits_for_settle(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b follows=a\n"
                "[0] submit c needs=a\n"
                "[0] end a LOST\n"
                "[0]   a LOST\n"
                "[0]   c SKIPPED by a\n"
                "[0] done a SUCCEEDED\n"
                "[0]   c released\n"
                "[0]   b READY launch\n"
                "[0]   a released\n");
}

// So does it hold those that run in spite of failure.
static void test_run_on_failure(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a always\n"
                "[0] submit c needs=b\n"
                "[0] end a CANCELLED\n"
                "[0]   a CANCELLED\n"
                "[0] done a FAILED\n"
                "[0]   b READY launch\n"
                "[0]   a released\n"
                "[0] done b SUCCEEDED\n"
                "[0]   b SUCCEEDED released\n"
                "[0]   c READY launch\n");
}

// A skipped node lets its clean-up run at once, for no worker ever had it.
static void test_run_on_failure_of_skipped(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a\n"
                "[0] submit c needs=b always\n"
                "[0] done a FAILED\n"
                "[0]   a FAILED released\n"
                "[0]   b SKIPPED by a released\n"
                "[0]   c READY launch\n");
}

// A dependency that failed long ago.
static void test_doomed(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] done a FAILED\n"
                "[0]   a FAILED released\n"
                "[0] submit b doomed=a\n"
                "[0]   b SKIPPED by a released\n"
                "[0] submit c doomed=a always\n"
                "[0]   c READY launch\n");
}

// A dependency that ended badly but is not settled dooms too; order waits.
static void test_dep_ended_not_settled(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] end a LOST\n"
                "[0]   a LOST\n"
                "[0] submit b needs=a\n"
                "[0]   b SKIPPED by a released\n"
                "[0] submit c follows=a\n"
                "[0] submit d needs=a always\n"
                "[0] done a LOST\n"
                "[0]   d READY launch\n"
                "[0]   c READY launch\n"
                "[0]   a released\n");
}

// Cancelling what is not launched: it ends, dependents are skipped.
static void test_cancel_waiting(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a\n"
                "[0] submit c needs=b\n"
                "[0] cancel b\n"
                "[0]   b CANCELLED\n"
                "[0]   c SKIPPED by b released\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   b released\n");
}

// Cancelling what is launched: interrupted once; existing dependents end now,
// later ones see how it ends.
static void test_cancel_launched(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a\n"
                "[0] cancel a\n"
                "[0]   a interrupt\n"
                "[0]   b SKIPPED by a\n"
                "[0] cancel a\n"
                "[0] submit c needs=a\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   c READY launch\n"
                "[0]   b released\n");
}

// The node may end cancelled.
static void test_cancel_launched_ends(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b follows=a\n"
                "[0] submit c needs=a\n"
                "[0] cancel a\n"
                "[0]   a interrupt\n"
                "[0]   c SKIPPED by a\n"
                "[0] done a CANCELLED\n"
                "[0]   a CANCELLED released\n"
                "[0]   c released\n"
                "[0]   b READY launch\n");
}

// With cascade the dependents are cancelled as well, but for clean-up.
static void test_cascade(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a\n"
                "[0] submit c needs=b\n"
                "[0] submit d needs=b always\n"
                "[0] submit e needs=d\n"
                "[0] cascade a\n"
                "[0]   a interrupt\n"
                "[0]   b CANCELLED by a\n"
                "[0]   c CANCELLED by b released\n"
                "[0]   d READY launch\n"
                "[0] done a CANCELLED\n"
                "[0]   a CANCELLED released\n"
                "[0]   b released\n");
}

// Cancelling an ended node does nothing.
static void test_cancel_ended(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] end a FAILED\n"
                "[0]   a FAILED\n"
                "[0] submit b follows=a\n"
                "[0] cancel a\n"
                "[0] cascade a\n"
                "[0] done a FAILED\n"
                "[0]   b READY launch\n"
                "[0]   a released\n");
}

// A deadline ends a node that waits.
static void test_deadline_waiting(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a deadline=10\n"
                "[0] submit c needs=b\n"
                "[9] advance\n"
                "[10] advance\n"
                "[10]   b FAILED late\n"
                "[10]   c SKIPPED by b released\n"
                "[10] done a SUCCEEDED\n"
                "[10]   a SUCCEEDED released\n"
                "[10]   b released\n");
}

// A deadline ends a launched node for its observers; the lane stays taken
// until the worker answers.
static void test_deadline_launched(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a lanes=0 deadline=5\n"
                "[0]   a READY launch\n"
                "[0] submit b lanes=0\n"
                "[0]   b READY\n"
                "[0] started a\n"
                "[0]   a RUNNING\n"
                "[7] advance\n"
                "[7]   a FAILED late interrupt\n"
                "[8] done a SUCCEEDED\n"
                "[8]   a released\n"
                "[8]   b launch\n");
}

// Deadlines pass in their order: a cause may take a node away before its own
// deadline.
static void test_deadline_order(void **state)
{
    (void)state;
    trace_check("[0] submit x\n"
                "[0]   x READY launch\n"
                "[0] submit a follows=x deadline=3\n"
                "[0] submit b needs=a deadline=4\n"
                "[0] submit c follows=x deadline=4\n"
                "[5] advance\n"
                "[5]   a FAILED late\n"
                "[5]   b SKIPPED by a released\n"
                "[5]   c FAILED late\n");
}

// A deadline that has passed at submit.
static void test_deadline_past(void **state)
{
    (void)state;
    trace_check("[5] submit a deadline=5\n"
                "[5]   a FAILED late released\n"
                "[5] submit b deadline=6\n"
                "[5]   b READY launch\n"
                "[6] advance\n"
                "[6]   b FAILED late interrupt\n");
}

// Done in time: the deadline is forgotten.
static void test_deadline_met(void **state)
{
    (void)state;
    trace_check("[0] submit a deadline=5\n"
                "[0]   a READY launch\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[9] advance\n");
}

// A lane launches no more than its window.
static void test_window(void **state)
{
    (void)state;
    trace_check("[0] lane 2\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit b lanes=0\n"
                "[0]   b READY launch\n"
                "[0] submit c lanes=0\n"
                "[0]   c READY\n"
                "[0] done b SUCCEEDED\n"
                "[0]   b SUCCEEDED released\n"
                "[0]   c launch\n");
}

// By priority, then in the order submitted.
static void test_priority(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit b lanes=0\n"
                "[0]   b READY\n"
                "[0] submit c lanes=0 prio=5\n"
                "[0]   c READY\n"
                "[0] submit d lanes=0 prio=-5\n"
                "[0]   d READY\n"
                "[0] submit e lanes=0 prio=5\n"
                "[0]   e READY\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   c launch\n"
                "[0] done c SUCCEEDED\n"
                "[0]   c SUCCEEDED released\n"
                "[0]   e launch\n"
                "[0] done e SUCCEEDED\n"
                "[0]   e SUCCEEDED released\n"
                "[0]   b launch\n"
                "[0] done b SUCCEEDED\n"
                "[0]   b SUCCEEDED released\n"
                "[0]   d launch\n");
}

// Nodes that become ready together are launched in the lane's order.
static void test_priority_of_released(void **state)
{
    (void)state;
    trace_check("[0] lane 2\n"
                "[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a lanes=0\n"
                "[0] submit c needs=a lanes=0\n"
                "[0] submit d needs=a lanes=0 prio=1\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   c READY\n"
                "[0]   d READY launch\n"
                "[0]   b READY launch\n");
}

// A gang needs room in all lanes; what is behind it waits although there is
// room.
static void test_gang(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit g lanes=0,1\n"
                "[0]   g READY\n"
                "[0] submit b lanes=1\n"
                "[0]   b READY\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   g launch\n"
                "[0] done g SUCCEEDED\n"
                "[0]   g SUCCEEDED released\n"
                "[0]   b launch\n");
}

// Gangs that share lanes launch in one order.
static void test_gangs_one_order(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] lane 1\n"
                "[0] lane 1\n"
                "[0] submit a lanes=1\n"
                "[0]   a READY launch\n"
                "[0] submit g lanes=0,1\n"
                "[0]   g READY\n"
                "[0] submit h lanes=1,2\n"
                "[0]   h READY\n"
                "[0] submit i lanes=2,0\n"
                "[0]   i READY\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   g launch\n"
                "[0] done g SUCCEEDED\n"
                "[0]   g SUCCEEDED released\n"
                "[0]   h launch\n"
                "[0] done h SUCCEEDED\n"
                "[0]   h SUCCEEDED released\n"
                "[0]   i launch\n");
}

// A gang that goes away lets go those behind it.
static void test_gang_cancelled(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit g lanes=0,1\n"
                "[0]   g READY\n"
                "[0] submit b lanes=1\n"
                "[0]   b READY\n"
                "[0] cancel g\n"
                "[0]   g CANCELLED released\n"
                "[0]   b launch\n");
}

// Cancelling a launched member of a lane frees it only when it settles.
static void test_cancel_keeps_lane(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit b lanes=0\n"
                "[0]   b READY\n"
                "[0] cancel a\n"
                "[0]   a interrupt\n"
                "[0] done a CANCELLED\n"
                "[0]   a CANCELLED released\n"
                "[0]   b launch\n");
}

// Sent ahead: the dependent is launched as soon as the dependency is.
static void test_ahead(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a!\n"
                "[0]   b launch\n"
                "[0] submit x lanes=0\n"
                "[0]   x READY\n"
                "[0] submit y needs=x!\n"
                "[0] submit z needs=y!\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   b READY\n"
                "[0]   x launch\n"
                "[0]   y launch\n"
                "[0]   z launch\n"
                "[0] started b\n"
                "[0]   b RUNNING\n"
                "[0] done b SUCCEEDED\n"
                "[0]   b SUCCEEDED released\n");
}

// A sent-ahead node still waits for its other dependencies.
static void test_ahead_and_other(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit c needs=a!,b\n"
                "[0] done b SUCCEEDED\n"
                "[0]   b SUCCEEDED released\n"
                "[0]   c launch\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   c READY\n");
}

// Sent ahead, and the dependency fails: it ends and is interrupted, settles
// later.
static void test_ahead_fails(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a!\n"
                "[0]   b launch\n"
                "[0] submit c needs=b\n"
                "[0] submit d follows=b\n"
                "[0] done a FAILED\n"
                "[0]   a FAILED released\n"
                "[0]   b SKIPPED by a interrupt\n"
                "[0]   c SKIPPED by b\n"
                "[0] done b CANCELLED\n"
                "[0]   d READY launch\n"
                "[0]   c released\n"
                "[0]   b released\n");
}

// Sent ahead, and it answers before its dependency does.
static void test_ahead_answers_first(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a!\n"
                "[0]   b launch\n"
                "[0] started b\n"
                "[0]   b RUNNING\n"
                "[0] done b SUCCEEDED\n"
                "[0]   b SUCCEEDED\n"
                "[0] done a FAILED\n"
                "[0]   a FAILED released\n"
                "[0]   b released\n");
}

// Cancelling the dependency interrupts what was sent ahead.
static void test_ahead_cancel(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a!\n"
                "[0]   b launch\n"
                "[0] cancel b\n"
                "[0]   b interrupt\n"
                "[0] cancel a\n"
                "[0]   a interrupt\n"
                "[0]   b SKIPPED by a\n"
                "[0] done a CANCELLED\n"
                "[0]   a CANCELLED released\n"
                "[0] done b CANCELLED\n"
                "[0]   b released\n");
}

// A skipped node stays until its last edge is gone.
static void test_skipped_drains(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b\n"
                "[0]   b READY launch\n"
                "[0] submit c needs=a,b\n"
                "[0] done a FAILED\n"
                "[0]   a FAILED released\n"
                "[0]   c SKIPPED by a\n"
                "[0] done b FAILED\n"
                "[0]   b FAILED released\n"
                "[0]   c released\n");
}

// One step may end, release and launch.
static void test_end_releases_lane(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit b lanes=0 deadline=2\n"
                "[0]   b READY\n"
                "[0] submit c lanes=0\n"
                "[0]   c READY\n"
                "[0] submit d follows=b\n"
                "[2] advance\n"
                "[2]   b FAILED late released\n"
                "[2]   d READY launch\n"
                "[2] done a SUCCEEDED\n"
                "[2]   a SUCCEEDED released\n"
                "[2]   c launch\n");
}

// Ended from outside: the host was lost; its answer, if any, settles.
static void test_end_launched(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit b lanes=0\n"
                "[0]   b READY\n"
                "[0] submit c needs=a\n"
                "[0] started a\n"
                "[0]   a RUNNING\n"
                "[0] end a LOST\n"
                "[0]   a LOST\n"
                "[0]   c SKIPPED by a\n"
                "[0] end a FAILED\n"
                "[0] done a SUCCEEDED\n"
                "[0]   c released\n"
                "[0]   a released\n"
                "[0]   b launch\n");
}

// Sent ahead of a node that is never launched: its end lets the dependent go.
static void test_ahead_of_unlaunched(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit b lanes=0\n"
                "[0]   b READY\n"
                "[0] submit c follows=b!\n"
                "[0] cancel b\n"
                "[0]   b CANCELLED released\n"
                "[0]   c READY launch\n");
}

// Sent ahead over an edge that only orders.
static void test_ahead_order_only(void **state)
{
    (void)state;
    trace_check("[0] lane 1\n"
                "[0] submit a lanes=0\n"
                "[0]   a READY launch\n"
                "[0] submit b lanes=0\n"
                "[0]   b READY\n"
                "[0] submit c follows=b!\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0]   b launch\n"
                "[0]   c launch\n"
                "[0] done b FAILED\n"
                "[0]   b FAILED released\n"
                "[0]   c READY\n");
}

// A worker may begin before we know that the dependency is done.
static void test_ahead_started(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] submit b needs=a!\n"
                "[0]   b launch\n"
                "[0] started b\n"
                "[0]   b RUNNING\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a SUCCEEDED released\n"
                "[0] done b SUCCEEDED\n"
                "[0]   b SUCCEEDED released\n");
}

// What a worker says of an ended node changes nothing but that it settles.
static void test_started_after_end(void **state)
{
    (void)state;
    trace_check("[0] submit a\n"
                "[0]   a READY launch\n"
                "[0] end a LOST\n"
                "[0]   a LOST\n"
                "[0] started a\n"
                "[0] done a SUCCEEDED\n"
                "[0]   a released\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_fan_out),
        cmocka_unit_test(test_failure_spreads),
        cmocka_unit_test(test_order_only),
        cmocka_unit_test(test_order_waits_for_settle),
        cmocka_unit_test(test_run_on_failure),
        cmocka_unit_test(test_run_on_failure_of_skipped),
        cmocka_unit_test(test_doomed),
        cmocka_unit_test(test_dep_ended_not_settled),
        cmocka_unit_test(test_cancel_waiting),
        cmocka_unit_test(test_cancel_launched),
        cmocka_unit_test(test_cancel_launched_ends),
        cmocka_unit_test(test_cascade),
        cmocka_unit_test(test_cancel_ended),
        cmocka_unit_test(test_deadline_waiting),
        cmocka_unit_test(test_deadline_launched),
        cmocka_unit_test(test_deadline_order),
        cmocka_unit_test(test_deadline_past),
        cmocka_unit_test(test_deadline_met),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_priority),
        cmocka_unit_test(test_priority_of_released),
        cmocka_unit_test(test_gang),
        cmocka_unit_test(test_gangs_one_order),
        cmocka_unit_test(test_gang_cancelled),
        cmocka_unit_test(test_cancel_keeps_lane),
        cmocka_unit_test(test_ahead),
        cmocka_unit_test(test_ahead_and_other),
        cmocka_unit_test(test_ahead_fails),
        cmocka_unit_test(test_ahead_answers_first),
        cmocka_unit_test(test_ahead_cancel),
        cmocka_unit_test(test_skipped_drains),
        cmocka_unit_test(test_end_releases_lane),
        cmocka_unit_test(test_end_launched),
        cmocka_unit_test(test_ahead_of_unlaunched),
        cmocka_unit_test(test_ahead_order_only),
        cmocka_unit_test(test_ahead_started),
        cmocka_unit_test(test_started_after_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
