// SPDX-License-Identifier: Apache-2.0
#include "core/base/err.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/str.h"

// Text is formatted into a buffer that is a little longer than the field, so
// that the cut can see whether it would split a character. It also lets the
// arguments point into the error that is being set.
enum { ERR_SCRATCH_BYTES = POD_ERR_TEXT_BYTES + 4 };

struct err_row {
    const char *name;
    enum pod_code code;
    int status;
    bool retry;
};

static const struct err_row err_rows[POD_REASON_COUNT] = {
#define X(name, code, status, retry)                                           \
    [POD_REASON_##name] = {#name, POD_##code, (status), (retry)},
    POD_REASONS(X)
#undef X
};

static const struct err_row *err_row(enum pod_reason reason)
{
    if ((unsigned)reason >= POD_REASON_COUNT)
        reason = POD_REASON_INTERNAL;
    return &err_rows[reason];
}

const char *pod_code_name(enum pod_code code)
{
    switch (code) {
#define X(name, number)                                                        \
    case POD_##name:                                                           \
        return #name;
        POD_CODES(X)
#undef X
    }
    return "UNKNOWN";
}

const char *pod_reason_name(enum pod_reason reason)
{
    return err_row(reason)->name;
}

enum pod_code pod_reason_code(enum pod_reason reason)
{
    return err_row(reason)->code;
}

int pod_reason_status(enum pod_reason reason)
{
    return err_row(reason)->status;
}

bool pod_reason_retryable(enum pod_reason reason)
{
    return err_row(reason)->retry;
}

// How many bytes vsnprintf left in a scratch buffer.
static size_t err_written(int result)
{
    if (result < 0)
        return 0;
    if (result >= ERR_SCRATCH_BYTES)
        return ERR_SCRATCH_BYTES - 1;
    return (size_t)result;
}

// Copies text behind the first `used` bytes of the field, cutting it to fit;
// returns how much is used now.
static size_t err_put(struct pod_err *err, size_t used, const char *text,
                      size_t length)
{
    size_t room = POD_ERR_TEXT_BYTES - 1 - used;
    size_t fits = pod_utf8_clip(text, length, room);

    memcpy(err->text + used, text, fits);
    err->text[used + fits] = '\0';
    return used + fits;
}

static enum pod_code err_fill(struct pod_err *err, enum pod_code code,
                              enum pod_reason reason, const char *format,
                              va_list args)
{
    char scratch[ERR_SCRATCH_BYTES];

    if (code == POD_OK)
        code = POD_UNKNOWN;
    if (err == NULL)
        return code;
    size_t length =
        err_written(vsnprintf(scratch, sizeof scratch, format, args));
    err->code = code;
    err->reason = reason;
    err->line = 0;
    err->column = 0;
    err->limit = NULL;
    err->used = 0;
    err->max = 0;
    err->pointer[0] = '\0';
    err_put(err, 0, scratch, length);
    return code;
}

enum pod_code pod_err_set(struct pod_err *err, enum pod_reason reason,
                          const char *format, ...)
{
    va_list args;

    va_start(args, format);
    enum pod_code code =
        err_fill(err, pod_reason_code(reason), reason, format, args);
    va_end(args);
    return code;
}

enum pod_code pod_err_set_code(struct pod_err *err, enum pod_code code,
                               enum pod_reason reason, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    code = err_fill(err, code, reason, format, args);
    va_end(args);
    return code;
}

void pod_err_at(struct pod_err *err, const char *format, ...)
{
    va_list args;

    if (err == NULL)
        return;
    va_start(args, format);
    int length = vsnprintf(err->pointer, sizeof err->pointer, format, args);
    va_end(args);
    // A pointer that was cut would name another place: the whole is named.
    if (length >= (int)sizeof err->pointer) {
        char *last = strrchr(err->pointer, '/');
        err->pointer[last != NULL ? last - err->pointer : 0] = '\0';
    }
}

enum pod_code pod_err_limit(struct pod_err *err, enum pod_reason reason,
                            const char *limit, uint64_t used, uint64_t max)
{
    enum pod_code code = pod_err_set(err, reason,
                                     "the limit %s is reached: %" PRIu64
                                     " of %" PRIu64 " are used",
                                     limit, used, max);

    if (err != NULL) {
        err->limit = limit;
        err->used = used;
        err->max = max;
    }
    return code;
}

void pod_err_wrap(struct pod_err *err, const char *format, ...)
{
    char prefix[ERR_SCRATCH_BYTES];
    char text[POD_ERR_TEXT_BYTES];
    va_list args;

    if (err == NULL)
        return;
    va_start(args, format);
    size_t length = err_written(vsnprintf(prefix, sizeof prefix, format, args));
    va_end(args);
    memcpy(text, err->text, sizeof text);
    size_t used = err_put(err, 0, prefix, length);
    // A prefix that was cut leaves no room: nothing may follow it.
    if (used < length)
        return;
    used = err_put(err, used, ": ", 2);
    err_put(err, used, text, strnlen(text, sizeof text - 1));
}
