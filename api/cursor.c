// SPDX-License-Identifier: Apache-2.0
#include "api/cursor.h"

#include <string.h>

#include "api/digits.h"

const char *api_cursor_print(const char *instance,
                             const struct api_cursor *cursor,
                             char buffer[API_CURSOR_BYTES])
{
    char *at = api_put_text(buffer, instance);
    *at++ = '-';
    at = api_put_u64(at, cursor->sequence);
    if (cursor->snapshot) {
        *at++ = '-';
        at = api_put_u64(at, cursor->stage);
        *at++ = '-';
        at = api_put_u64(at, cursor->place);
    }
    *at = '\0';
    return buffer;
}

// Digits without leading zeros, at least one; moves *text behind them.
static bool cursor_number(const char **text, uint64_t *out_value)
{
    const char *at = *text;
    uint64_t value = 0;

    if (*at < '0' || *at > '9' || (*at == '0' && at[1] >= '0' && at[1] <= '9'))
        return false;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return false;
    }
    *text = at;
    *out_value = value;
    return true;
}

bool api_cursor_parse(const char *instance, const char *text,
                      struct api_cursor *out_cursor)
{
    size_t length = strlen(instance);
    struct api_cursor cursor = {.snapshot = false};
    uint64_t stage = 0;

    if (strncmp(text, instance, length) != 0 || text[length] != '-')
        return false;
    text += length + 1;
    if (!cursor_number(&text, &cursor.sequence))
        return false;
    if (*text == '-') {
        text++;
        cursor.snapshot = true;
        if (!cursor_number(&text, &stage) || stage >= 100 || *text++ != '-' ||
            !cursor_number(&text, &cursor.place))
            return false;
        cursor.stage = (uint32_t)stage;
    }
    if (*text != '\0')
        return false;
    *out_cursor = cursor;
    return true;
}
