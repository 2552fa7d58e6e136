// SPDX-License-Identifier: Apache-2.0
#include "api/number.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---------------------------------------------------------------- integers

static unsigned number_bits(enum pod_type type)
{
    if (type == POD_TYPE_S1 || type == POD_TYPE_U1)
        return 1;
    if (type == POD_TYPE_S2 || type == POD_TYPE_U2)
        return 2;
    if (type == POD_TYPE_S4 || type == POD_TYPE_U4)
        return 4;
    return 8 * (unsigned)pod_type_bytes(type);
}

void api_number_limits(enum pod_type type, int64_t *out_least,
                       uint64_t *out_greatest)
{
    uint64_t all = UINT64_MAX >> (64 - number_bits(type));
    bool is_signed = pod_type_is_signed(type);
    *out_greatest = is_signed ? all >> 1 : all;
    *out_least = is_signed ? -(int64_t)(all >> 1) - 1 : 0;
}

void api_number_put_integer(enum pod_type type, uint64_t twos_complement,
                            unsigned char *out)
{
    size_t bytes = pod_type_bytes(type);
    for (size_t i = 0; i < bytes; i++)
        out[i] = (unsigned char)(twos_complement >> (8 * i));
}

static uint64_t number_get_bits(const unsigned char *in, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)in[i] << (8 * i);
    return value;
}

uint64_t api_number_get_integer(enum pod_type type, const unsigned char *in)
{
    unsigned bits = number_bits(type);
    uint64_t mask = UINT64_MAX >> (64 - bits);
    uint64_t value = number_get_bits(in, pod_type_bytes(type)) & mask;
    bool negative = pod_type_is_signed(type) && value > mask >> 1;
    return negative ? value | ~mask : value;
}

// ------------------------------------------------------------------ floats
// A format is read off its codes: with the sign taken off, greater codes are
// greater values, so rounding may simply carry into the exponent. `infinity`
// and `nan` are 0 when there is none; `nan` equal to `sign` is the lone NaN of
// the FNUZ types, which have no negative zero. The formats are those of IEEE
// 754 and of the ml_dtypes and OCP definitions that XLA's names stand for.

struct number_format {
    enum pod_type type;
    int mantissa_bits;
    int bias;
    uint64_t greatest;
    uint64_t infinity;
    uint64_t nan;
    uint64_t sign; // 0: the type has no negative values
};

static const struct number_format number_formats[] = {
    {POD_TYPE_F32, 23, 127, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, 0x80000000},
    {POD_TYPE_F64, 52, 1023, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000,
     0x7FF8000000000000, 0x8000000000000000},
    {POD_TYPE_F16, 10, 15, 0x7BFF, 0x7C00, 0x7E00, 0x8000},
    {POD_TYPE_BF16, 7, 127, 0x7F7F, 0x7F80, 0x7FC0, 0x8000},
    {POD_TYPE_F8E5M2, 2, 15, 0x7B, 0x7C, 0x7E, 0x80},
    {POD_TYPE_F8E4M3, 3, 7, 0x77, 0x78, 0x7C, 0x80},
    {POD_TYPE_F8E3M4, 4, 3, 0x6F, 0x70, 0x78, 0x80},
    {POD_TYPE_F8E4M3FN, 3, 7, 0x7E, 0, 0x7F, 0x80},
    {POD_TYPE_F8E4M3B11FNUZ, 3, 11, 0x7F, 0, 0x80, 0x80},
    {POD_TYPE_F8E5M2FNUZ, 2, 16, 0x7F, 0, 0x80, 0x80},
    {POD_TYPE_F8E4M3FNUZ, 3, 8, 0x7F, 0, 0x80, 0x80},
    {POD_TYPE_F8E8M0FNU, 0, 127, 0xFE, 0, 0xFF, 0},
    {POD_TYPE_F4E2M1FN, 1, 1, 0x7, 0, 0, 0x8},
    {POD_TYPE_F6E3M2FN, 2, 3, 0x1F, 0, 0, 0x20},
    {POD_TYPE_F6E2M3FN, 3, 1, 0x1F, 0, 0, 0x20},
};

static const struct number_format *number_find(enum pod_type type)
{
    size_t last = sizeof(number_formats) / sizeof(number_formats[0]) - 1;
    size_t i = 0;
    while (i < last && number_formats[i].type != type)
        i++;
    return &number_formats[i];
}

// The code of a finite magnitude that is not zero; may be above `greatest`.
static uint64_t number_round(const struct number_format *format, double value)
{
    int exponent = 0;
    int least = 1 - format->bias;
    (void)frexp(value, &exponent);
    exponent--;
    // Far above every format's greatest; also keeps the shift below in range.
    if (exponent > format->bias + 1)
        return UINT64_MAX;
    if (exponent < least)
        exponent = least;
    double scaled = ldexp(value, format->mantissa_bits - exponent);
    return ((uint64_t)(exponent - least) << format->mantissa_bits) +
           (uint64_t)nearbyint(scaled);
}

static bool number_encode(const struct number_format *format, double value,
                          uint64_t *out_code)
{
    bool negative = signbit(value) != 0;
    uint64_t code = 0;
    if (isnan(value)) {
        *out_code = format->nan;
        return format->nan != 0;
    }
    if (isinf(value)) {
        code = format->infinity;
        if (code == 0)
            return false;
    } else if (value != 0) {
        code = number_round(format, fabs(value));
        if (code > format->greatest)
            return false;
    }
    if (format->sign == 0 && (negative || value == 0))
        return false;
    if (negative && !(code == 0 && format->nan == format->sign))
        code |= format->sign;
    *out_code = code;
    return true;
}

static bool number_is_nan(const struct number_format *format, uint64_t code)
{
    uint64_t magnitude = code & ~format->sign;
    if (format->nan == 0)
        return false;
    if (format->infinity != 0)
        return magnitude > format->infinity;
    return format->nan == format->sign ? code == format->sign
                                       : magnitude == format->nan;
}

static double number_decode(const struct number_format *format, uint64_t code)
{
    uint64_t magnitude = code & ~format->sign;
    uint64_t one = UINT64_C(1) << format->mantissa_bits;
    int exponent = (int)(magnitude >> format->mantissa_bits);
    int shift = 1 - format->bias - format->mantissa_bits;
    double value = 0;
    if (number_is_nan(format, code))
        return (double)NAN;
    if (format->infinity != 0 && magnitude == format->infinity)
        value = (double)INFINITY;
    else if (format->sign == 0) // f8e8m0fnu: powers of two, no zero
        value = ldexp(1, exponent - format->bias);
    else if (exponent == 0)
        value = ldexp((double)magnitude, shift);
    else
        value = ldexp((double)((magnitude & (one - 1)) + one),
                      shift + exponent - 1);
    return (code & format->sign) != 0 ? -value : value;
}

bool api_number_put_float(enum pod_type type, double value, unsigned char *out)
{
    uint64_t code = 0;
    if (!number_encode(number_find(type), value, &code))
        return false;
    api_number_put_integer(type, code, out);
    return true;
}

// ---------------------------------------------------------------- printing

// "%.{digits}g" of the value. strfromd and not snprintf: a library that hooks
// printf makes all of it slow.
static void number_print(int digits, double value,
                         char out[API_NUMBER_TEXT_BYTES])
{
    char format[6] = {'%', '.', '0', '0', 'g', '\0'};
    format[2] = (char)('0' + digits / 10);
    format[3] = (char)('0' + digits % 10);
    (void)strfromd(out, API_NUMBER_TEXT_BYTES, format, value);
}

static bool number_reads_back(const struct number_format *format,
                              const char *text, uint64_t code)
{
    uint64_t found = 0;
    return number_encode(format, strtod(text, NULL), &found) && found == code;
}

// At a power of two the values below are nearer than those above, so that a
// decimal may read back although another one of the same length, which does
// not, is nearer. It is found by rounding away from zero.
static bool number_print_away(const struct number_format *format, int digits,
                              uint64_t code, double value,
                              char out[API_NUMBER_TEXT_BYTES])
{
    uint64_t one = UINT64_C(1) << format->mantissa_bits;
    if ((code & (one - 1)) != 0)
        return false;
    int before = fegetround();
    (void)fesetround(value > 0 ? FE_UPWARD : FE_DOWNWARD);
    number_print(digits, value, out);
    (void)fesetround(before);
    return number_reads_back(format, out, code);
}

// What is not written with digits, and the zeros; NULL: anything else.
static const char *number_word(double value)
{
    if (isnan(value))
        return "\"NaN\"";
    if (isinf(value))
        return value < 0 ? "\"-Infinity\"" : "\"Infinity\"";
    if (value == 0)
        return signbit(value) ? "-0.0" : "0";
    return NULL;
}

void api_number_print_float(enum pod_type type, const unsigned char *in,
                            char out[API_NUMBER_TEXT_BYTES])
{
    const struct number_format *format = number_find(type);
    uint64_t code = number_get_bits(in, pod_type_bytes(type));
    double value = number_decode(format, code);
    // Whole numbers up to here are printed in full: in f32 and f64 each of
    // their digits is needed, and a reader with a wider type than the narrow
    // ones gets the value itself.
    double whole = ldexp(1, format->mantissa_bits < 24 ? 24 : 52);
    const char *word = number_word(value);
    if (word != NULL) {
        memcpy(out, word, strlen(word) + 1);
        return;
    }
    if (fabs(value) <= whole && nearbyint(value) == value) {
        (void)strfromd(out, API_NUMBER_TEXT_BYTES, "%.0f", value);
        return;
    }
    // So many digits always survive in a normal number, and %g drops zeros at
    // the end; the denormal ones may have fewer.
    int digits = (int)((double)format->mantissa_bits * 0.30103);
    if (digits < 1 || fabs(value) < ldexp(1, 1 - format->bias))
        digits = 1;
    for (; digits < 17; digits++) {
        number_print(digits, value, out);
        if (number_reads_back(format, out, code) ||
            number_print_away(format, digits, code, value, out))
            return;
    }
    number_print(17, value, out);
}
