// SPDX-License-Identifier: Apache-2.0
// What the rules of all opcodes share: errors with their place, and checks of
// operands and results.
#include "core/base/str.h"
#include "core/hlo/verify_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// -------------------------------------------------------------------- errors

// Names in a message may be any bytes; an error's text is for JSON and logs.
static void verify_clean(char *text)
{
    size_t length = strlen(text);
    bool valid = pod_utf8_valid(text, length);
    if (valid && !pod_text_has_control(text, length))
        return;
    for (size_t i = 0; i < length; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            text[i] = '?';
}

// Puts the place into an error whose text is set.
static enum pod_code verify_place(const struct verify *v,
                                  enum pod_reason reason)
{
    struct pod_err *err = v->err;
    if (err == NULL)
        return pod_reason_code(reason);
    if (v->instr != NULL) {
        pod_err_wrap(err, "instruction \"%.64s\" (%s) of computation \"%.64s\"",
                     v->instr->proto->name, pod_opcode_name(v->instr->opcode),
                     v->comp->proto->name);
        err->line = v->instr->line;
        err->column = v->instr->column;
    } else if (v->comp != NULL) {
        pod_err_wrap(err, "computation \"%.64s\"", v->comp->proto->name);
    }
    verify_clean(err->text);
    err->reason = reason;
    err->code = pod_reason_code(reason);
    return err->code;
}

enum pod_code pod_verify_fail(const struct verify *v, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    (void)pod_err_set(v->err, POD_REASON_INVALID_PROGRAM, "%s", text);
    return verify_place(v, POD_REASON_INVALID_PROGRAM);
}

enum pod_code pod_verify_unsupported(const struct verify *v, const char *format,
                                     ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    (void)pod_err_set(v->err, POD_REASON_UNIMPLEMENTED, "%s", text);
    return verify_place(v, POD_REASON_UNIMPLEMENTED);
}

enum pod_code pod_verify_wrap(const struct verify *v)
{
    enum pod_reason reason = v->err->reason;
    if (v->err->code == POD_INVALID_ARGUMENT)
        reason = POD_REASON_INVALID_PROGRAM;
    return verify_place(v, reason);
}

// --------------------------------------------------------------------- checks

const struct pod_shape *pod_verify_operand(const struct verify *v,
                                           uint32_t index)
{
    return pod_hlo_operand(v->comp, v->instr, index)->shape;
}

enum pod_code pod_verify_result(const struct verify *v,
                                const struct pod_shape *want)
{
    char is[96];
    char wants[96];
    if (pod_shape_equal(v->instr->shape, want))
        return POD_OK;
    return pod_verify_fail(v, "result is declared %s, but is %s",
                           pod_shape_brief(v->instr->shape, is, sizeof(is)),
                           pod_shape_brief(want, wants, sizeof(wants)));
}

enum pod_code pod_verify_result_array(const struct verify *v,
                                      enum pod_type type, size_t rank,
                                      const int64_t *dims)
{
    struct pod_shape want;
    if (pod_shape_array(&want, type, rank, dims, v->err) != POD_OK)
        return pod_verify_wrap(v);
    return pod_verify_result(v, &want);
}

enum pod_code pod_verify_array(const struct verify *v, uint32_t index)
{
    const struct pod_shape *shape = pod_verify_operand(v, index);
    char is[96];
    if (pod_shape_is_array(shape))
        return POD_OK;
    return pod_verify_fail(v, "operand %u is %s, not an array", (unsigned)index,
                           pod_shape_brief(shape, is, sizeof(is)));
}

enum pod_code pod_verify_arrays(const struct verify *v, uint32_t least)
{
    enum pod_code code = POD_OK;
    if (v->instr->operand_count < least)
        return pod_verify_fail(v, "at least %u operands are needed",
                               (unsigned)least);
    for (uint32_t i = 0; i < v->instr->operand_count && code == POD_OK; i++)
        code = pod_verify_array(v, i);
    return code;
}

enum pod_code pod_verify_dimensions(const struct verify *v, const char *what,
                                    size_t count, const int64_t *dims,
                                    size_t rank)
{
    uint32_t seen = 0;
    for (size_t i = 0; i < count; i++) {
        if (dims[i] < 0 || (uint64_t)dims[i] >= rank)
            return pod_verify_fail(v,
                                   "%s %lld is out of range, there are %zu "
                                   "dimensions",
                                   what, (long long)dims[i], rank);
        if ((seen >> dims[i] & 1) != 0)
            return pod_verify_fail(v, "%s %lld occurs twice", what,
                                   (long long)dims[i]);
        seen |= UINT32_C(1) << dims[i];
    }
    return POD_OK;
}
