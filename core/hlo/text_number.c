// SPDX-License-Identifier: Apache-2.0
// Numbers, as XLA reads them.
#include "core/hlo/text_internal.h"

#include <stdlib.h>
#include <string.h>

static bool number_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

enum pod_code pod_text_integer(struct text *t, int64_t *out)
{
    int64_t value = 0;
    bool negative = pod_text_take(t, '-');
    size_t start = t->at;
    for (; t->at < t->length && number_is_digit(t->data[t->at]); t->at++) {
        int64_t digit = t->data[t->at] - '0';
        // Counted downwards: the lowest number has no positive counterpart.
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, digit, &value))
            return pod_text_fail_at(t, start, "number does not fit 64 bits");
    }
    if (t->at == start)
        return pod_text_expected(t, "a number");
    if (!negative && value == INT64_MIN)
        return pod_text_fail_at(t, start, "number does not fit 64 bits");
    *out = negative ? value : -value;
    return POD_OK;
}

static int number_hex_digit(char c)
{
    if (number_is_digit(c))
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// "(0x400001)" behind "nan": the bits of its mantissa, which are not all 0.
static enum pod_code number_payload(struct text *t, uint64_t *out)
{
    size_t start = t->at;
    if (!pod_text_take_joint(t, '('))
        return POD_OK;
    bool fits = pod_text_take_joint(t, '0') && pod_text_take_joint(t, 'x');
    for (; t->at < t->length && number_hex_digit(t->data[t->at]) >= 0;
         t->at++) {
        fits = fits && *out >> 60 == 0;
        *out = *out << 4 | (uint64_t)number_hex_digit(t->data[t->at]);
    }
    if (!pod_text_take_joint(t, ')') || !fits || *out == 0)
        return pod_text_fail_at(t, start,
                                "expected the mantissa of a NaN, such as "
                                "\"(0x400001)\"");
    return POD_OK;
}

static size_t number_digits(const struct text *t, size_t at)
{
    while (at < t->length && number_is_digit(t->data[at]))
        at++;
    return at;
}

// Where the decimal number at `at` ends: as XLA reads it, a point may stand
// first only behind a sign.
static size_t number_end(const struct text *t, size_t at)
{
    bool negative = at < t->length && t->data[at] == '-';
    size_t whole = number_digits(t, at + negative);
    size_t end = whole;
    if (whole < t->length && t->data[whole] == '.')
        end = number_digits(t, whole + 1);
    if (whole == at + negative && (!negative || end <= whole + 1))
        return at;
    if (end == t->length || (t->data[end] | 0x20) != 'e')
        return end;
    size_t power = end + 1;
    if (power < t->length && (t->data[power] == '+' || t->data[power] == '-'))
        power++;
    size_t after = number_digits(t, power);
    return after > power ? after : at;
}

static enum pod_code number_decimal(struct text *t, double *out)
{
    char digits[128];
    size_t start;
    size_t length;
    (void)pod_text_peek(t);
    start = t->at;
    length = number_end(t, start) - start;
    if (length == 0)
        return pod_text_expected(t, "a number");
    if (length > sizeof(digits) - 1)
        return pod_text_fail_at(t, start, "number is too long");
    memcpy(digits, t->data + start, length);
    digits[length] = '\0';
    *out = strtod(digits, NULL);
    t->at += length;
    return POD_OK;
}

enum pod_code pod_text_double(struct text *t, double *out,
                              uint64_t *out_payload)
{
    double sign = 1;
    size_t before;
    (void)pod_text_peek(t);
    before = t->at;
    *out_payload = 0;
    if (pod_text_take(t, '-'))
        sign = -1;
    bool word =
        t->at < t->length && (t->data[t->at] == 'i' || t->data[t->at] == 'n');
    if (word && pod_text_take_word(t, "inf")) {
        *out = sign * (double)__builtin_inf();
        return POD_OK;
    }
    if (word && pod_text_take_word(t, "nan")) {
        *out = __builtin_copysign(__builtin_nan(""), sign);
        return number_payload(t, out_payload);
    }
    t->at = before;
    return number_decimal(t, out);
}
