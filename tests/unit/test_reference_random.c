// SPDX-License-Identifier: Apache-2.0
// Random programs whose values the test computes for itself: whatever memory
// arrays share, whichever outputs are inputs, the results must be right.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/str.h"
#include "tests/lib/ref_program.h"

enum { WIDTH = 8, INPUTS = 3, RESULTS = 3, MAX_VALUES = 40, PROGRAMS = 400 };

struct vector {
    uint32_t at[WIDTH];
};

struct program {
    uint64_t random;
    struct pod_str text;
    struct vector values[MAX_VALUES];
    int count;
};

static uint32_t pick(struct program *p, uint32_t below)
{
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return (uint32_t)(p->random >> 33) % below;
}

// --------------------------------------------------------- plain instructions

static const char *const operations[] = {"add", "subtract", "multiply",
                                         "xor", "and",      "minimum"};
enum { OPERATIONS = 6 };

static uint32_t apply(int operation, uint32_t a, uint32_t b)
{
    switch (operation) {
    case 0:
        return a + b;
    case 1:
        return a - b;
    case 2:
        return a * b;
    case 3:
        return a ^ b;
    case 4:
        return a & b;
    default:
        return a < b ? a : b;
    }
}

static void add_binary(struct program *p, int a, int b)
{
    int operation = (int)pick(p, OPERATIONS);
    struct vector *to = &p->values[p->count];

    pod_str_printf(&p->text, "  v%d = u32[8] %s(v%d, v%d)\n", p->count,
                   operations[operation], a, b);
    for (int i = 0; i < WIDTH; i++)
        to->at[i] = apply(operation, p->values[a].at[i], p->values[b].at[i]);
    p->count++;
}

// u32[2,4] turned to u32[4,2], or only given a new shape.
static void add_turn(struct program *p, int a)
{
    int turned = (int)pick(p, 2);
    int n = p->count;

    pod_str_printf(&p->text, "  s%d = u32[2,4] reshape(v%d)\n", n, a);
    pod_str_printf(&p->text, "  t%d = u32[4,2] %s(s%d)%s\n", n,
                   turned ? "transpose" : "reshape", n,
                   turned ? ", dimensions={1,0}" : "");
    pod_str_printf(&p->text, "  v%d = u32[8] reshape(t%d)\n", n, n);
    for (int i = 0; i < WIDTH; i++)
        p->values[n].at[i] = p->values[a].at[turned ? i % 2 * 4 + i / 2 : i];
    p->count++;
}

// Three elements of b written into a.
static void add_update(struct program *p, int a, int b)
{
    int n = p->count;
    int from = (int)pick(p, WIDTH - 2);
    int to = (int)pick(p, WIDTH - 2);

    pod_str_printf(&p->text,
                   "  s%d = u32[3] slice(v%d), slice={[%d:%d]}\n"
                   "  i%d = s32[] constant(%d)\n"
                   "  v%d = u32[8] dynamic-update-slice(v%d, s%d, i%d)\n",
                   n, b, from, from + 3, n, to, n, a, n, n);
    p->values[n] = p->values[a];
    for (int i = 0; i < 3; i++)
        p->values[n].at[to + i] = p->values[b].at[from + i];
    p->count++;
}

static void add_select(struct program *p, int a, int b)
{
    int n = p->count;

    pod_str_printf(&p->text,
                   "  p%d = pred[8] compare(v%d, v%d), direction=LT\n"
                   "  v%d = u32[8] select(p%d, v%d, v%d)\n",
                   n, a, b, n, n, b, a);
    for (int i = 0; i < WIDTH; i++) {
        uint32_t x = p->values[a].at[i];
        uint32_t y = p->values[b].at[i];
        p->values[n].at[i] = x < y ? y : x;
    }
    p->count++;
}

// ------------------------------------------------------------ calls and loops

#define STATE "(s32[], u32[8], u32[8])"
#define BODY(name, made)                                                       \
    name " {\n  p = " STATE " parameter(0)\n"                                  \
         "  i = s32[] get-tuple-element(p), index=0\n"                         \
         "  x = u32[8] get-tuple-element(p), index=1\n"                        \
         "  y = u32[8] get-tuple-element(p), index=2\n"                        \
         "  one = s32[] constant(1)\n  n = s32[] subtract(i, one)\n" made      \
         "}\n"

// Bodies that make the state from itself in ways that invite mistakes.
static const char callees[] =
    "HloModule t\n"
    "f {\n  x = u32[8] parameter(0)\n  y = u32[8] parameter(1)\n"
    "  z = u32[8] multiply(x, y)\n  w = u32[8] add(z, y)\n"
    "  ROOT r = (u32[8], u32[8]) tuple(w, x)\n}\n"
    "c {\n  p = " STATE " parameter(0)\n"
    "  i = s32[] get-tuple-element(p), index=0\n  z = s32[] constant(0)\n"
    "  ROOT r = pred[] compare(i, z), direction=GT\n}\n" BODY(
        "b0", "  ROOT r = " STATE " tuple(n, y, x)\n")
        BODY("b1",
             "  s = u32[8] add(x, y)\n  ROOT r = " STATE " tuple(n, s, x)\n")
            BODY("b2", "  s = u32[8] multiply(x, x)\n  t = u32[8] xor(y, x)\n"
                       "  ROOT r = " STATE " tuple(n, s, t)\n")
                BODY("b3", "  u = u32[1] slice(y), slice={[0:1]}\n"
                           "  k = s32[] constant(2)\n"
                           "  s = u32[8] dynamic-update-slice(x, u, k)\n"
                           "  t = u32[8] add(y, y)\n"
                           "  ROOT r = " STATE " tuple(n, s, t)\n")
                    BODY("b4", "  ROOT r = " STATE " tuple(n, y, y)\n")
                        BODY("b5", "  s = u32[8] subtract(x, y)\n"
                                   "  ROOT r = " STATE " tuple(n, s, y)\n");
enum { BODIES = 6 };

static void turn_loop(int body, struct vector *x, struct vector *y)
{
    const struct vector a = *x;
    const struct vector b = *y;

    for (int i = 0; i < WIDTH; i++) {
        uint32_t u = a.at[i];
        uint32_t v = b.at[i];
        x->at[i] = body == 0 || body == 4 ? v
                   : body == 1            ? u + v
                   : body == 2            ? u * u
                   : body == 3            ? (i == 2 ? b.at[0] : u)
                                          : u - v;
        y->at[i] = body == 0 || body == 1 ? u
                   : body == 2            ? u ^ v
                   : body == 3            ? v + v
                                          : v;
    }
}

static void add_loop(struct program *p, int a, int b)
{
    int n = p->count;
    int body = (int)pick(p, BODIES);
    int turns = (int)pick(p, 4);
    struct vector x = p->values[a];
    struct vector y = p->values[b];

    pod_str_printf(&p->text,
                   "  k%d = s32[] constant(%d)\n"
                   "  l%d = " STATE " tuple(k%d, v%d, v%d)\n"
                   "  w%d = " STATE " while(l%d), condition=c, body=b%d\n"
                   "  v%d = u32[8] get-tuple-element(w%d), index=1\n"
                   "  v%d = u32[8] get-tuple-element(w%d), index=2\n",
                   n, turns, n, n, a, b, n, n, body, n, n, n + 1, n);
    for (int i = 0; i < turns; i++)
        turn_loop(body, &x, &y);
    p->values[n] = x;
    p->values[n + 1] = y;
    p->count += 2;
}

static void add_call(struct program *p, int a, int b)
{
    int n = p->count;

    pod_str_printf(&p->text,
                   "  w%d = (u32[8], u32[8]) call(v%d, v%d), to_apply=f\n"
                   "  v%d = u32[8] get-tuple-element(w%d), index=0\n"
                   "  v%d = u32[8] get-tuple-element(w%d), index=1\n",
                   n, a, b, n, n, n + 1, n);
    for (int i = 0; i < WIDTH; i++)
        p->values[n].at[i] =
            p->values[a].at[i] * p->values[b].at[i] + p->values[b].at[i];
    p->values[n + 1] = p->values[a];
    p->count += 2;
}

// ------------------------------------------------------------- whole programs

static void add_some(struct program *p)
{
    int a = (int)pick(p, (uint32_t)p->count);
    int b = (int)pick(p, (uint32_t)p->count);

    switch (pick(p, 8)) {
    case 0:
        add_turn(p, a);
        break;
    case 1:
        add_update(p, a, b);
        break;
    case 2:
        add_select(p, a, b);
        break;
    case 3:
        // Often twice the same, and the last one made: it may end here.
        add_loop(p, pick(p, 2) == 0 ? p->count - 1 : a,
                 pick(p, 2) == 0 ? p->count - 1 : b);
        break;
    case 4:
        add_call(p, a, b);
        break;
    default:
        add_binary(p, a, b);
        break;
    }
}

static void make_program(struct program *p, int results[RESULTS])
{
    int size = 4 + (int)pick(p, MAX_VALUES - 6);

    pod_str_puts(&p->text, callees);
    pod_str_puts(&p->text, "ENTRY e {\n");
    for (int i = 0; i < INPUTS; i++) {
        pod_str_printf(&p->text, "  v%d = u32[8] parameter(%d)\n", i, i);
        for (int j = 0; j < WIDTH; j++)
            p->values[i].at[j] = pick(p, 1000);
    }
    p->count = INPUTS;
    while (p->count < size)
        add_some(p);
    for (int i = 0; i < RESULTS; i++)
        results[i] = (int)pick(p, (uint32_t)p->count);
    pod_str_printf(&p->text,
                   "  ROOT r = (u32[8], u32[8], u32[8])"
                   " tuple(v%d, v%d, v%d)\n}\n",
                   results[0], results[1], results[2]);
    assert_false(p->text.failed);
}

static struct pod_device_buffer *make_buffer(const struct vector *vector)
{
    struct pod_device *device = ref_device();
    struct pod_device_buffer *buffer;

    assert_int_equal(
        device->ops->allocate(device, 0, NULL, sizeof(*vector), &buffer, NULL),
        POD_OK);
    assert_int_equal(device->ops->write(device, buffer, 0, vector,
                                        sizeof(*vector), NULL, NULL),
                     POD_OK);
    return buffer;
}

// Runs the program; some of the outputs are inputs.
static void run_program(struct program *p, const int results[RESULTS])
{
    struct pod_device *device = ref_device();
    struct pod_device_program *program = ref_compile(p->text.data, 1);
    struct pod_device_buffer *buffers[INPUTS + RESULTS];
    struct pod_device_buffer *outputs[RESULTS];
    struct pod_device_launch launch = {.program = program,
                                       .inputs = buffers,
                                       .input_count = INPUTS,
                                       .outputs = outputs,
                                       .output_count = RESULTS,
                                       .replica_count = 1};
    const struct vector junk = {{0}};
    uint32_t shift = pick(p, INPUTS);

    for (int i = 0; i < INPUTS + RESULTS; i++)
        buffers[i] = make_buffer(i < INPUTS ? &p->values[i] : &junk);
    for (uint32_t i = 0; i < RESULTS; i++)
        outputs[i] =
            buffers[pick(p, 2) == 0 ? (i + shift) % INPUTS : INPUTS + i];
    assert_int_equal(device->ops->execute(device, &launch, NULL), POD_OK);
    for (int i = 0; i < RESULTS; i++) {
        struct vector got;
        assert_int_equal(device->ops->read(device, outputs[i], 0, &got,
                                           sizeof(got), NULL, NULL),
                         POD_OK);
        if (memcmp(&got, &p->values[results[i]], sizeof(got)) != 0)
            fail_msg("result %d is wrong:\n%s", i, p->text.data);
    }
    for (int i = 0; i < INPUTS + RESULTS; i++)
        device->ops->release(device, buffers[i]);
    device->ops->program_free(device, program);
}

static void test_random_programs(void **state)
{
    const char *seed = getenv("POD_SEED");

    (void)state;
    for (uint64_t i = 1; i <= PROGRAMS; i++) {
        struct program *p = calloc(1, sizeof(*p));
        int results[RESULTS];
        assert_non_null(p);
        p->random = i * 0x9e3779b97f4a7c15U +
                    (seed != NULL ? strtoull(seed, NULL, 10) : 0);
        make_program(p, results);
        run_program(p, results);
        pod_str_fini(&p->text);
        free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_programs),
    };

    return cmocka_run_group_tests(tests, ref_setup, ref_teardown);
}
