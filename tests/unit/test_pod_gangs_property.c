// SPDX-License-Identifier: Apache-2.0
// Gangs that share cores go to all their hosts in one order, whatever is
// cancelled, fails or is lost meanwhile: random gangs and single executions of
// random priority on fake hosts that answer in random order. Run with
// POD_SEEDS=n for another number of programs, POD_SEED=n for just that one.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/blob.h"
#include "tests/lib/pod_fixture.h"

enum {
    HOSTS = 3,
    CORES = 2 * HOSTS,
    STEPS = 120,
    EXECUTIONS_MAX = 200,
    REPLICAS_MAX = 4,
    BUFFERS = 5,
};

// What a host was sent, in that order.
struct sent {
    uint64_t ops[EXECUTIONS_MAX];
    size_t count;
};

struct program {
    struct fixture fix;
    uint64_t seed;
    uint64_t random;
    uint64_t programs[REPLICAS_MAX]; // for so many replicas, and one
    uint64_t loads[CORES][REPLICAS_MAX];
    uint64_t buffers[CORES][BUFFERS]; // an input, and outputs
    uint64_t ops[EXECUTIONS_MAX];
    size_t op_count;
    struct sent sent[HOSTS];
    bool together; // hosts answer many calls at once, too
    size_t common; // pairs that were compared
};

static uint64_t pick(struct program *program, uint64_t below)
{
    program->random =
        program->random * 6364136223846793005U + 1442695040888963407U;
    return (program->random >> 33) % below;
}

// ---------------------------------------------------------------------- order

static bool was_sent(const struct sent *sent, uint64_t op)
{
    bool found = false;

    for (size_t i = 0; !found && i < sent->count; i++)
        found = sent->ops[i] == op;
    return found;
}

// Calls are kept by the hosts in the order in which they came.
static void look(struct program *program)
{
    for (size_t h = 0; h < HOSTS; h++) {
        struct pod_driver *host = program->fix.host[h];
        struct sent *sent = &program->sent[h];
        struct fake_call call;
        for (size_t i = 0; fake_peek(host, i, &call); i++) {
            if (call.kind != FAKE_EXECUTE || was_sent(sent, call.op))
                continue;
            assert_true(sent->count < EXECUTIONS_MAX);
            sent->ops[sent->count++] = call.op;
        }
    }
}

// What both hosts got stands in one order.
static void compare(struct program *program, const struct sent *a,
                    const struct sent *b)
{
    size_t at = 0;

    for (size_t i = 0; i < a->count; i++) {
        if (!was_sent(b, a->ops[i]))
            continue;
        while (at < b->count && b->ops[at] != a->ops[i])
            at++;
        if (at == b->count)
            fail_msg("seed %llu: op-%llu is not in order",
                     (unsigned long long)program->seed,
                     (unsigned long long)a->ops[i]);
        program->common++;
    }
}

// ---------------------------------------------------------------------- steps

static void make_programs(struct program *program)
{
    struct pod_request request = fixture_request(POD_KIND_COMPILE);

    request.compile.format = POD_FORMAT_HLO_TEXT;
    request.compile.digest = "sha-256:a";
    request.compile.program = pod_blob_new(1);
    assert_non_null(request.compile.program);
    request.compile.program->data[0] = 'x';
    for (uint32_t i = 0; i < REPLICAS_MAX; i++) {
        request.compile.replicas = i + 1;
        program->programs[i] = fixture_submit(&program->fix, &request);
    }
    pod_blob_unref(request.compile.program);
}

static void make_core(struct program *program, uint32_t core)
{
    struct fixture *fix = &program->fix;

    for (int i = 0; i < REPLICAS_MAX; i++)
        program->loads[core][i] =
            fixture_load_on(fix, program->programs[i], core);
    for (int i = 0; i < BUFFERS; i++)
        program->buffers[core][i] = fixture_allocate(fix, core, 8);
}

// Distinct cores, from a random one on.
static void step_execute(struct program *program, size_t replicas)
{
    struct pod_request request = fixture_request(POD_KIND_EXECUTE);
    struct pod_launch launches[REPLICAS_MAX];
    struct pod_ref refs[REPLICAS_MAX][2];
    uint32_t core = (uint32_t)pick(program, CORES);
    uint32_t stride = replicas > CORES / 2 ? 1 : 1 + (uint32_t)pick(program, 2);
    struct pod_err err;
    uint64_t number;

    memset(launches, 0, sizeof(launches));
    for (size_t i = 0; i < replicas; i++) {
        uint64_t out = 1 + pick(program, BUFFERS - 1);
        launches[i].load = fixture_load(program->loads[core][replicas - 1]);
        refs[i][0] = fixture_buffer(program->buffers[core][0]);
        refs[i][1] = fixture_buffer(program->buffers[core][out]);
        launches[i].inputs = &refs[i][0];
        launches[i].input_count = 1;
        launches[i].outputs = &refs[i][1];
        launches[i].output_count = 1;
        core = (core + stride) % CORES;
    }
    request.execute.launches = launches;
    request.execute.launch_count = replicas;
    request.execute.is_gang = replicas > 1;
    request.priority = (int)pick(program, 21) - 10;
    if (pod_submit(program->fix.pod, &request, 1, &number, NULL, &err) ==
        POD_OK)
        program->ops[program->op_count++] = number;
}

static void step_answer(struct program *program)
{
    struct pod_driver *host = program->fix.host[pick(program, HOSTS)];
    size_t open = fake_open(host);
    struct fake_call call;

    if (open == 0 || !fake_peek(host, (size_t)pick(program, open), &call))
        return;
    switch (pick(program, 8)) {
    case 0:
        fake_fail(host, call.op, POD_REASON_PROGRAM_FAULT, "bad");
        break;
    case 1:
        fake_start(host, call.op);
        break;
    default:
        if (call.cancelled)
            fake_fail(host, call.op, POD_REASON_CANCEL_REQUESTED, "stopped");
        else
            fake_done(host, call.op);
        break;
    }
}

// Some of what a host has, together.
static void step_answer_together(struct program *program)
{
    struct pod_driver *host = program->fix.host[pick(program, HOSTS)];
    uint64_t ops[FAKE_MAX_TOGETHER];
    struct fake_call call;
    size_t count = 0;

    for (size_t i = 0; count < FAKE_MAX_TOGETHER && fake_peek(host, i, &call);
         i++) {
        if (call.kind != FAKE_COMPILE && !call.cancelled &&
            pick(program, 2) == 0)
            ops[count++] = call.op;
    }
    if (pick(program, 2) == 0)
        fake_done_together(host, ops, count);
    else
        fake_start_done_together(host, ops, count);
}

static void step_cancel(struct program *program)
{
    struct pod_err err;
    bool again;

    if (program->op_count == 0)
        return;
    uint64_t op = program->ops[pick(program, program->op_count)];
    (void)!pod_cancel(program->fix.pod, op, POD_CASCADE_NONE, NULL, &again,
                      &err);
}

// It comes back with nothing, and gets all anew.
static void step_lose(struct program *program)
{
    uint32_t host = (uint32_t)pick(program, HOSTS);

    fake_lose(program->fix.host[host], "gone");
    fake_ready(program->fix.host[host]);
    make_core(program, 2 * host);
    make_core(program, 2 * host + 1);
}

static void step(struct program *program)
{
    uint64_t which = pick(program, 100);

    if (which < 35)
        step_execute(program, 2 + (size_t)pick(program, REPLICAS_MAX - 1));
    else if (which < 45)
        step_execute(program, 1);
    else if (which < 90 && program->together && which % 3 == 0)
        step_answer_together(program);
    else if (which < 90)
        step_answer(program);
    else if (which < 98)
        step_cancel(program);
    else
        step_lose(program);
    look(program);
}

// ---------------------------------------------------------------------- tests

static void run_program(uint64_t seed, size_t *in_out_common)
{
    static struct program program;

    memset(&program, 0, sizeof(program));
    program.seed = program.random = seed;
    program.together = seed % 2 == 0;
    fixture_init_options(&program.fix, HOSTS, 10000, POD_NEVER, 16, 1 << 20);
    bool waits = pick(&program, 2) == 0;
    for (size_t i = 0; i < HOSTS; i++) {
        fake_set_features(program.fix.host[i],
                          waits ? POD_DRIVER_WAITS | POD_DRIVER_ORDERS : 0);
        fake_ready(program.fix.host[i]);
    }
    make_programs(&program);
    for (uint32_t core = 0; core < CORES; core++)
        make_core(&program, core);
    fixture_run(&program.fix);
    for (int i = 0; i < STEPS; i++)
        step(&program);
    for (size_t i = 0; i < HOSTS; i++) {
        for (size_t k = i + 1; k < HOSTS; k++)
            compare(&program, &program.sent[i], &program.sent[k]);
    }
    *in_out_common += program.common;
    for (int i = 0; i < 2 * STEPS; i++) // what comes of answers is answered
        fixture_run(&program.fix);
    for (size_t i = 0; i < program.op_count; i++)
        assert_true(
            pod_sched_terminal(fixture_state(&program.fix, program.ops[i])));
    fixture_fini(&program.fix);
}

static void test_gangs_stand_in_one_order(void **state)
{
    const char *one = getenv("POD_SEED");
    const char *text = getenv("POD_SEEDS");
    uint64_t seeds = text == NULL ? 300 : strtoull(text, NULL, 10);
    size_t common = 0;

    (void)state;
    if (one != NULL) {
        run_program(strtoull(one, NULL, 10), &common);
        return;
    }
    for (uint64_t seed = 1; seed <= seeds; seed++)
        run_program(seed, &common);
    assert_true(common > seeds); // else this compares nothing
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gangs_stand_in_one_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
