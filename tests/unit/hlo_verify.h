// SPDX-License-Identifier: Apache-2.0
// For tests of the verifier's rules: an instruction is tried in a module that
// has computations and parameters of all kinds.
#ifndef TESTS_UNIT_HLO_VERIFY_H
#define TESTS_UNIT_HLO_VERIFY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/base/str.h"
#include "core/hlo/text.h"

// Computations and parameters that the cases may use.
static const char verify_prelude[] =
    "HloModule m\n"
    "addf { x = f32[] parameter(0) y = f32[] parameter(1) "
    "ROOT z = f32[] add(x, y) }\n"
    "addi { x = s32[] parameter(0) y = s32[] parameter(1) "
    "ROOT z = s32[] add(x, y) }\n"
    "less { x = f32[] parameter(0) y = f32[] parameter(1) "
    "ROOT z = pred[] compare(x, y), direction=LT }\n"
    "less2 { a = f32[] parameter(0) b = f32[] parameter(1) "
    "c = s32[] parameter(2) d = s32[] parameter(3) "
    "ROOT z = pred[] compare(a, b), direction=LT }\n"
    "both { a = f32[] parameter(0) b = s32[] parameter(1) "
    "c = f32[] parameter(2) d = s32[] parameter(3) "
    "e = f32[] add(a, c) f = s32[] add(b, d) "
    "ROOT z = (f32[], s32[]) tuple(e, f) }\n"
    "inc { x = s32[] parameter(0) o = s32[] constant(1) "
    "ROOT z = s32[] add(x, o) }\n"
    "small { x = s32[] parameter(0) o = s32[] constant(9) "
    "ROOT z = pred[] compare(x, o), direction=LT }\n"
    "negv { x = f32[4] parameter(0) ROOT z = f32[4] negate(x) }\n"
    "ENTRY e {\n"
    "  f = f32[4] parameter(0)\n"
    "  g = f32[4] parameter(1)\n"
    "  m = f32[2,3] parameter(2)\n"
    "  n = f32[3,5] parameter(3)\n"
    "  i = s32[4] parameter(4)\n"
    "  j = s32[] parameter(5)\n"
    "  k = s64[] parameter(6)\n"
    "  p = pred[4] parameter(7)\n"
    "  q = pred[] parameter(8)\n"
    "  u = u32[4] parameter(9)\n"
    "  c = c64[4] parameter(10)\n"
    "  s = f32[] parameter(11)\n"
    "  t = (f32[4], s32[]) parameter(12)\n"
    "  b = f32[2,3,4] parameter(13)\n"
    "  h = f16[4] parameter(14)\n"
    "  w = f32[4]{0} parameter(15)\n"
    "  d = f64[2] parameter(16)\n";

static inline enum pod_code verify(const char *line, struct pod_err *err)
{
    char text[8192];
    struct pod_hlo_module *module = NULL;
    enum pod_code code;
    *err = POD_ERR_NONE;
    (void)snprintf(text, sizeof(text), "%s  ROOT r = %s\n}\n", verify_prelude,
                   line);
    code = pod_hlo_parse_text(text, strlen(text), &module, err);
    pod_hlo_module_free(module);
    return code;
}

static inline void assert_sound(const char *line)
{
    struct pod_err err;
    if (verify(line, &err) != POD_OK)
        fail_msg("%s: %s", line, err.text);
}

static inline void assert_wrong(const char *line, const char *part)
{
    struct pod_err err;
    enum pod_code code = verify(line, &err);
    if (code != POD_INVALID_ARGUMENT ||
        err.reason != POD_REASON_INVALID_PROGRAM || err.line != 28 ||
        strstr(err.text, part) == NULL ||
        strstr(err.text, "instruction \"r\"") == NULL)
        fail_msg("%s: %d %d: %s", line, (int)code, err.line, err.text);
}

static inline void assert_unsupported(const char *line, const char *part)
{
    struct pod_err err;
    enum pod_code code = verify(line, &err);
    if (code != POD_UNIMPLEMENTED || strstr(err.text, part) == NULL)
        fail_msg("%s: %d: %s", line, (int)code, err.text);
}

// For the end of a group of tests.
static inline int nothing_left(void **state)
{
    (void)state;
    return pod_mem_live() == 0 ? 0 : -1;
}

#endif
