// SPDX-License-Identifier: Apache-2.0
#include "core/base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

enum { STR_FIRST_CAPACITY = 64 };

void pod_str_fini(struct pod_str *str)
{
    if (str == NULL)
        return;
    pod_free(str->data);
    *str = (struct pod_str){.data = NULL};
}

// Makes room for `more` bytes and a NUL.
static bool str_reserve(struct pod_str *str, size_t more)
{
    size_t need;

    if (str->failed)
        return false;
    if (__builtin_add_overflow(str->length, more, &need) ||
        __builtin_add_overflow(need, 1, &need)) {
        str->failed = true;
        return false;
    }
    if (need <= str->capacity)
        return true;
    size_t capacity =
        str->capacity > 0 ? str->capacity : (size_t)STR_FIRST_CAPACITY;
    while (capacity < need) {
        if (__builtin_mul_overflow(capacity, 2, &capacity))
            capacity = need;
    }
    char *data = pod_realloc(str->data, capacity, 1);
    if (data == NULL) {
        str->failed = true;
        return false;
    }
    str->data = data;
    str->capacity = capacity;
    return true;
}

void pod_str_append(struct pod_str *str, const char *bytes, size_t length)
{
    if (!str_reserve(str, length))
        return;
    if (length > 0)
        memcpy(str->data + str->length, bytes, length);
    str->length += length;
    str->data[str->length] = '\0';
}

void pod_str_puts(struct pod_str *str, const char *text)
{
    pod_str_append(str, text, strlen(text));
}

void pod_str_printf(struct pod_str *str, const char *format, ...)
{
    va_list args;
    va_list again;

    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0)
        str->failed = true;
    else if (str_reserve(str, (size_t)length)) {
        (void)vsnprintf(str->data + str->length, (size_t)length + 1, format,
                        again);
        str->length += (size_t)length;
    }
    va_end(again);
}

char *pod_str_take(struct pod_str *str)
{
    char *data = NULL;

    // Text that was never appended to is the empty string, not NULL.
    if (str_reserve(str, 0)) {
        data = str->data;
        data[str->length] = '\0';
        str->data = NULL;
    }
    pod_str_fini(str);
    return data;
}

// How long the well-formed character at the start is; 0: there is none.
static size_t str_utf8_char(const unsigned char *bytes, size_t length)
{
    unsigned char lead = bytes[0];
    unsigned char low = 0x80; // bounds of the second byte
    unsigned char high = 0xBF;
    size_t size;

    if (lead < 0x80)
        return 1;
    if (lead >= 0xC2 && lead <= 0xDF)
        size = 2;
    else if (lead >= 0xE0 && lead <= 0xEF)
        size = 3;
    else if (lead >= 0xF0 && lead <= 0xF4)
        size = 4;
    else
        return 0;
    if (lead == 0xE0) // overlong
        low = 0xA0;
    else if (lead == 0xED) // surrogates
        high = 0x9F;
    else if (lead == 0xF0) // overlong
        low = 0x90;
    else if (lead == 0xF4) // above U+10FFFF
        high = 0x8F;
    if (length < size || bytes[1] < low || bytes[1] > high)
        return 0;
    for (size_t i = 2; i < size; i++) {
        if ((bytes[i] & 0xC0) != 0x80)
            return 0;
    }
    return size;
}

bool pod_utf8_valid(const char *bytes, size_t length)
{
    size_t i = 0;

    while (i < length) {
        size_t size =
            str_utf8_char((const unsigned char *)bytes + i, length - i);
        if (size == 0)
            return false;
        i += size;
    }
    return true;
}

size_t pod_utf8_clip(const char *bytes, size_t length, size_t limit)
{
    enum { STR_UTF8_TAIL_MAX = 3 };
    size_t end = limit;

    if (length <= limit)
        return length;
    // Step back over continuation bytes; bytes that are not UTF-8 are cut at
    // the limit.
    while (end > 0 && limit - end < STR_UTF8_TAIL_MAX &&
           ((unsigned char)bytes[end] & 0xC0) == 0x80)
        end--;
    return ((unsigned char)bytes[end] & 0xC0) == 0x80 ? limit : end;
}

bool pod_text_has_control(const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c < 0x20 || c == 0x7F)
            return true;
        // U+0080..9F are C2 80 .. C2 9F.
        if (c == 0xC2 && i + 1 < length && (unsigned char)bytes[i + 1] < 0xA0)
            return true;
    }
    return false;
}

static bool str_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// Reads digits from *at on, moving it past them; false when there is none.
// A value above INT64_MAX becomes UINT64_MAX.
static bool str_digits(const char *text, size_t length, size_t *at,
                       uint64_t *out_value)
{
    uint64_t value = 0;
    size_t i = *at;

    for (; i < length && str_is_digit(text[i]); i++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value) ||
            value > INT64_MAX)
            value = UINT64_MAX;
    }
    if (i == *at)
        return false;
    *at = i;
    *out_value = value;
    return true;
}

struct str_unit {
    const char *name;
    uint64_t factor;
};

// The factor of the unit that is the whole rest of the text; 0: unknown.
static uint64_t str_unit(const struct str_unit *units, const char *rest,
                         size_t length)
{
    for (; units->name != NULL; units++) {
        if (strlen(units->name) == length &&
            memcmp(units->name, rest, length) == 0)
            return units->factor;
    }
    return 0;
}

bool pod_parse_number(const char *text, size_t length, uint64_t *out_value)
{
    uint64_t value;
    size_t at = 0;

    if (!str_digits(text, length, &at, &value) || at != length)
        return false;
    if (text[0] == '0' || value > INT64_MAX)
        return false;
    *out_value = value;
    return true;
}

bool pod_parse_bytes(const char *text, size_t length, uint64_t *out_bytes)
{
    static const struct str_unit units[] = {
        {"", 1},
        {"KiB", UINT64_C(1) << 10},
        {"MiB", UINT64_C(1) << 20},
        {"GiB", UINT64_C(1) << 30},
        {"TiB", UINT64_C(1) << 40},
        {"KB", UINT64_C(1000)},
        {"MB", UINT64_C(1000000)},
        {"GB", UINT64_C(1000000000)},
        {"TB", UINT64_C(1000000000000)},
        {NULL, 0},
    };
    uint64_t value;
    size_t at = 0;

    if (!str_digits(text, length, &at, &value))
        return false;
    uint64_t factor = str_unit(units, text + at, length - at);
    if (factor == 0 || __builtin_mul_overflow(value, factor, &value) ||
        value > INT64_MAX)
        return false;
    *out_bytes = value;
    return true;
}

// Reads the digits behind a decimal point as billionths; digits past the
// ninth are checked and left out.
static bool str_billionths(const char *text, size_t length, size_t *at,
                           uint64_t *out_value)
{
    enum { STR_FRACTION_DIGITS = 9 };
    uint64_t value = 0;
    size_t i = *at;
    size_t read = 0;

    for (; i < length && str_is_digit(text[i]); i++) {
        if (read == STR_FRACTION_DIGITS)
            continue;
        value = value * 10 + (uint64_t)(text[i] - '0');
        read++;
    }
    if (i == *at)
        return false;
    for (; read < STR_FRACTION_DIGITS; read++)
        value *= 10;
    *at = i;
    *out_value = value;
    return true;
}

bool pod_parse_duration(const char *text, size_t length, int64_t *out_ns)
{
    static const struct str_unit units[] = {
        {"", UINT64_C(1000000000)},
        {"us", UINT64_C(1000)},
        {"ms", UINT64_C(1000000)},
        {"s", UINT64_C(1000000000)},
        {"m", UINT64_C(60000000000)},
        {"h", UINT64_C(3600000000000)},
        {NULL, 0},
    };
    uint64_t whole;
    uint64_t fraction = 0;
    size_t at = 0;

    if (!str_digits(text, length, &at, &whole))
        return false;
    if (at < length && text[at] == '.') {
        at++;
        if (!str_billionths(text, length, &at, &fraction))
            return false;
    }
    uint64_t unit = str_unit(units, text + at, length - at);
    if (unit == 0)
        return false;
    // All units are multiples of 1000: the product stays below 2^62.
    fraction = fraction * (unit / 1000) / 1000000;
    if (__builtin_mul_overflow(whole, unit, &whole) ||
        __builtin_add_overflow(whole, fraction, &whole) || whole > INT64_MAX)
        whole = INT64_MAX;
    *out_ns = (int64_t)whole;
    return true;
}
