// SPDX-License-Identifier: Apache-2.0
// Traces of events and effects of the scheduler with simulated time: shared by
// the tests beside it.
//
// A line "[time] event" is an event; "[time]   name ..." is an effect of the
// event above it. A test takes the events out of its trace, runs them, and
// must get the whole trace again. Events:
//   lane WINDOW
//   submit NAME [needs=A,B!] [follows=A] [lanes=0,1] [prio=N] [deadline=T]
//               [doomed=A] [always] [certain]
//   started NAME | done NAME STATE | end NAME STATE
//   together NAME,NAME (done SUCCEEDED, with the least room for launches; in
//   the trace "more" stands where another call begins)
//   cancel NAME | cascade NAME | advance
// needs: edges that carry; follows: edges that only order; "!": sent ahead.
#ifndef POD_TESTS_SIM_SCHED_TRACE_H
#define POD_TESTS_SIM_SCHED_TRACE_H

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

static void trace_effect(struct trace *trace,
                         const struct pod_sched_effect *effect)
{
    const struct trace_op *op = pod_sched_effect_user(effect);
    const struct trace_op *cause = pod_sched_effect_cause(effect);

    pod_str_printf(&trace->text, "[%d]   %s", (int)trace->now, op->name);
    if ((effect->what & POD_SCHED_CHANGED) != 0)
        pod_str_printf(&trace->text, " %s",
                       pod_sched_state_name(effect->state));
    if ((effect->what & POD_SCHED_EXPIRED) != 0)
        pod_str_puts(&trace->text, " late");
    if (cause != NULL)
        pod_str_printf(&trace->text, " by %s", cause->name);
    if ((effect->what & POD_SCHED_LAUNCH) != 0)
        pod_str_puts(&trace->text, " launch");
    if ((effect->what & POD_SCHED_INTERRUPT) != 0)
        pod_str_puts(&trace->text, " interrupt");
    if ((effect->what & POD_SCHED_RELEASED) != 0)
        pod_str_puts(&trace->text, " released");
    pod_str_puts(&trace->text, "\n");
}

static void trace_effects(struct trace *trace)
{
    const struct pod_sched_effects *effects = pod_sched_effects(trace->sched);

    for (size_t i = 0; i < effects->count; i++)
        trace_effect(trace, &effects->items[i]);
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
    else if (strcmp(key, "certain") == 0)
        submit->event.certain = true;
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

// One call of a step of many DONEs.
static void trace_call(struct trace *trace, struct pod_sched_done *done)
{
    struct pod_sched_node *launched[POD_SCHED_LAUNCHED_MIN];
    size_t count = pod_sched_done_many(trace->sched, done, launched,
                                       POD_SCHED_LAUNCHED_MIN);

    for (size_t i = 0; i < count; i++) {
        const struct pod_sched_effect effect = {
            .node = launched[i],
            .what = POD_SCHED_CHANGED | POD_SCHED_LAUNCH,
            .state = pod_sched_node_state(launched[i]),
        };
        trace_effect(trace, &effect);
    }
    trace_effects(trace);
}

static void trace_together(struct trace *trace, char *list)
{
    struct pod_sched_node *nodes[TRACE_LIST];
    struct pod_sched_done done = {.nodes = nodes};
    char *rest = NULL;

    for (char *name = strtok_r(list, ",", &rest); name != NULL;
         name = strtok_r(NULL, ",", &rest)) {
        assert_true(done.count < TRACE_LIST);
        nodes[done.count] = trace_op(trace, name)->node;
        assert_true(pod_sched_plain(nodes[done.count++]));
    }
    trace_call(trace, &done);
    while (done.taken < done.count) {
        pod_str_printf(&trace->text, "[%d]   more\n", (int)trace->now);
        trace_call(trace, &done);
    }
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
    else if (strcmp(verb, "together") == 0)
        trace_together(trace, subject);
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

#endif
