// SPDX-License-Identifier: Apache-2.0
#include "api/values.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/digits.h"
#include "api/json.h"
#include "api/number.h"

// ------------------------------------------------------------------ locale
// strfromd follows the thread's locale; the "C" locale is put in force around
// its use. (The digits of a big integer read the same in all.)

static pthread_once_t values_once = PTHREAD_ONCE_INIT;
static locale_t values_locale;

static void values_make_locale(void)
{
    values_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static locale_t values_enter_locale(void)
{
    (void)pthread_once(&values_once, values_make_locale);
    return values_locale == (locale_t)0 ? (locale_t)0
                                        : uselocale(values_locale);
}

static void values_leave_locale(locale_t before)
{
    if (before != (locale_t)0)
        (void)uselocale(before);
}

// ------------------------------------------------------------------ reading

static enum pod_code values_read_pred(const json_t *value, unsigned char *out,
                                      struct pod_err *err)
{
    if (!json_is_boolean(value))
        return pod_err_set(err, POD_REASON_WRONG_TYPE,
                           "a pred element must be true or false");
    out[0] = json_is_true(value);
    return POD_OK;
}

static enum pod_code values_out_of_range(enum pod_type type,
                                         struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_OUT_OF_RANGE,
                       "the value is not in the range of %s",
                       pod_type_name(type));
}

// Decimal digits with an optional minus, nothing else.
static bool values_is_integer_text(const char *text)
{
    if (*text == '-')
        text++;
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && text[digits] == '\0' && !(*text == '0' && digits > 1);
}

// As two's complement; `*out_negative` says how to read it.
static enum pod_code values_parse_integer(const char *text, enum pod_type type,
                                          uint64_t *out, bool *out_negative,
                                          struct pod_err *err)
{
    if (!values_is_integer_text(text))
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "a string that is not a decimal integer");
    errno = 0;
    *out_negative = text[0] == '-';
    *out = *out_negative ? (uint64_t)strtoll(text, NULL, 10)
                         : strtoull(text, NULL, 10);
    if (errno == ERANGE)
        return values_out_of_range(type, err);
    return POD_OK;
}

static enum pod_code values_integer(const json_t *value, enum pod_type type,
                                    uint64_t *out, bool *out_negative,
                                    struct pod_err *err)
{
    const char *digits = NULL;
    bool wide = pod_type_bytes(type) == 8;
    if (json_is_integer(value)) {
        json_int_t integer = json_integer_value(value);
        *out_negative = integer < 0;
        *out = (uint64_t)integer;
        return POD_OK;
    }
    if (api_json_big_integer(value, &digits))
        return values_parse_integer(digits, type, out, out_negative, err);
    if (wide && json_is_string(value))
        return values_parse_integer(json_string_value(value), type, out,
                                    out_negative, err);
    return pod_err_set(err, POD_REASON_WRONG_TYPE, "%s elements are %s",
                       pod_type_name(type),
                       wide ? "integers, or strings of digits" : "integers");
}

static enum pod_code values_read_integer(const json_t *value,
                                         enum pod_type type, unsigned char *out,
                                         struct pod_err *err)
{
    uint64_t integer = 0;
    bool negative = false;
    int64_t least = 0;
    uint64_t greatest = 0;
    enum pod_code code = values_integer(value, type, &integer, &negative, err);
    if (code != POD_OK)
        return code;
    api_number_limits(type, &least, &greatest);
    if (negative ? (int64_t)integer < least : integer > greatest)
        return values_out_of_range(type, err);
    api_number_put_integer(type, integer, out);
    return POD_OK;
}

static bool values_special(const char *text, double *out)
{
    if (strcmp(text, "NaN") == 0)
        *out = (double)NAN;
    else if (strcmp(text, "Infinity") == 0)
        *out = (double)INFINITY;
    else if (strcmp(text, "-Infinity") == 0)
        *out = -(double)INFINITY;
    else
        return false;
    return true;
}

static enum pod_code values_read_float(const json_t *value, enum pod_type type,
                                       unsigned char *out, struct pod_err *err)
{
    double number = 0;
    const char *digits = NULL;
    if (api_json_big_integer(value, &digits))
        number = strtod(digits, NULL);
    else if (json_is_number(value))
        number = json_number_value(value);
    else if (!json_is_string(value))
        return pod_err_set(err, POD_REASON_WRONG_TYPE,
                           "%s elements are numbers", pod_type_name(type));
    else if (!values_special(json_string_value(value), &number))
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "the only strings that stand for numbers are "
                           "\"NaN\", \"Infinity\" and "
                           "\"-Infinity\"");
    if (!api_number_put_float(type, number, out))
        return values_out_of_range(type, err);
    return POD_OK;
}

static enum pod_code values_read_complex(const json_t *value,
                                         enum pod_type type, unsigned char *out,
                                         struct pod_err *err)
{
    enum pod_type part = type == POD_TYPE_C64 ? POD_TYPE_F32 : POD_TYPE_F64;
    if (!json_is_array(value) || json_array_size(value) != 2)
        return pod_err_set(err, POD_REASON_WRONG_TYPE,
                           "%s elements are lists of two numbers",
                           pod_type_name(type));
    enum pod_code code =
        values_read_float(json_array_get(value, 0), part, out, err);
    if (code != POD_OK)
        return code;
    return values_read_float(json_array_get(value, 1), part,
                             out + pod_type_bytes(part), err);
}

static enum pod_code values_read_element(const json_t *value,
                                         enum pod_type type, unsigned char *out,
                                         struct pod_err *err)
{
    if (type == POD_TYPE_PRED)
        return values_read_pred(value, out, err);
    if (pod_type_is_complex(type))
        return values_read_complex(value, type, out, err);
    if (pod_type_is_float(type))
        return values_read_float(value, type, out, err);
    return values_read_integer(value, type, out, err);
}

// A walk through nested lists, with the place it has come to.
struct values_reader {
    const struct pod_shape *shape;
    unsigned char *out; // the next element
    size_t place[POD_SHAPE_MAX_RANK];
    size_t depth;
};

static enum pod_code values_read_list(struct values_reader *reader,
                                      const json_t *value, struct pod_err *err);

static enum pod_code values_read_items(struct values_reader *reader,
                                       const json_t *list, struct pod_err *err)
{
    size_t level = reader->depth;
    reader->depth++;
    for (size_t i = 0; i < json_array_size(list); i++) {
        reader->place[level] = i;
        enum pod_code code =
            values_read_list(reader, json_array_get(list, i), err);
        if (code != POD_OK)
            return code;
    }
    reader->depth = level;
    return POD_OK;
}

// Recursion is bounded by the rank. After a failure the place stays.
static enum pod_code values_read_list(struct values_reader *reader,
                                      const json_t *value, struct pod_err *err)
{
    const struct pod_shape *shape = reader->shape;
    if (reader->depth == shape->rank) {
        enum pod_code code =
            values_read_element(value, shape->type, reader->out, err);
        reader->out += pod_type_bytes(shape->type);
        return code;
    }
    size_t wanted = (size_t)shape->dims[reader->depth];
    if (!json_is_array(value))
        return pod_err_set(err, POD_REASON_SHAPE_MISMATCH,
                           "the shape has a list of %zu here", wanted);
    if (json_array_size(value) != wanted)
        return pod_err_set(err, POD_REASON_SHAPE_MISMATCH,
                           "a list of %zu where the shape has %zu",
                           json_array_size(value), wanted);
    return values_read_items(reader, value, err);
}

static void values_set_pointer(const struct values_reader *reader,
                               const char *pointer, struct pod_err *err)
{
    struct pod_str path = {0};
    pod_str_puts(&path, pointer);
    for (size_t i = 0; i < reader->depth; i++)
        pod_str_printf(&path, "/%zu", reader->place[i]);
    pod_err_at(err, "%s", path.failed ? pointer : path.data);
    pod_str_fini(&path);
}

enum pod_code api_values_read(const json_t *values,
                              const struct pod_shape *shape,
                              const char *pointer, void *out,
                              struct pod_err *err)
{
    struct values_reader reader = {.shape = shape, .out = out};
    enum pod_code code = values_read_list(&reader, values, err);
    if (code != POD_OK)
        values_set_pointer(&reader, pointer, err);
    return code;
}

enum pod_code api_values_read_one(const json_t *value, enum pod_type type,
                                  const char *pointer, unsigned char out[16],
                                  struct pod_err *err)
{
    enum pod_code code = values_read_element(value, type, out, err);
    if (code != POD_OK)
        pod_err_at(err, "%s", pointer);
    return code;
}

// ----------------------------------------------------------------- printing

bool api_values_fit(const struct pod_shape *shape)
{
    int64_t lists = 1;
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (__builtin_mul_overflow(lists, shape->dims[i], &lists) ||
            lists > API_VALUES_MAX)
            return false;
    }
    return true;
}

enum pod_code api_values_check(const struct pod_shape *shape,
                               const char *pointer, struct pod_err *err)
{
    if (api_values_fit(shape))
        return POD_OK;
    enum pod_code code =
        pod_err_set(err, POD_REASON_OUT_OF_RANGE,
                    "arrays of more than %d elements are sent as "
                    "application/octet-stream or application/x-npy",
                    API_VALUES_MAX);
    pod_err_at(err, "%s", pointer);
    return code;
}

static void values_print_integer(enum pod_type type, const unsigned char *in,
                                 struct pod_str *out)
{
    char text[API_NUMBER_TEXT_BYTES];
    char *at = text;
    uint64_t value = api_number_get_integer(type, in);
    bool negative = pod_type_is_signed(type) && (int64_t)value < 0;
    bool wide = pod_type_bytes(type) == 8;
    if (wide)
        *at++ = '"';
    if (negative)
        *at++ = '-';
    at = api_put_u64(at, negative ? -value : value);
    if (wide)
        *at++ = '"';
    pod_str_append(out, text, (size_t)(at - text));
}

static void values_print_float(enum pod_type type, const unsigned char *in,
                               struct pod_str *out)
{
    char text[API_NUMBER_TEXT_BYTES];
    api_number_print_float(type, in, text);
    pod_str_puts(out, text);
}

static void values_print_element(enum pod_type type, const unsigned char *in,
                                 struct pod_str *out)
{
    if (type == POD_TYPE_PRED) {
        pod_str_puts(out, in[0] ? "true" : "false");
    } else if (pod_type_is_complex(type)) {
        enum pod_type part = type == POD_TYPE_C64 ? POD_TYPE_F32 : POD_TYPE_F64;
        pod_str_puts(out, "[");
        values_print_float(part, in, out);
        pod_str_puts(out, ",");
        values_print_float(part, in + pod_type_bytes(part), out);
        pod_str_puts(out, "]");
    } else if (pod_type_is_float(type)) {
        values_print_float(type, in, out);
    } else {
        values_print_integer(type, in, out);
    }
}

// Recursion is bounded by the rank. Returns where the next element is.
static const unsigned char *values_print_list(const struct pod_shape *shape,
                                              uint32_t level,
                                              const unsigned char *in,
                                              struct pod_str *out)
{
    if (level == shape->rank) {
        values_print_element(shape->type, in, out);
        return in + pod_type_bytes(shape->type);
    }
    pod_str_puts(out, "[");
    for (int64_t i = 0; i < shape->dims[level]; i++) {
        if (i > 0)
            pod_str_puts(out, ",");
        in = values_print_list(shape, level + 1, in, out);
    }
    pod_str_puts(out, "]");
    return in;
}

void api_values_print(const struct pod_shape *shape, const void *data,
                      struct pod_str *out)
{
    locale_t before = values_enter_locale();
    (void)values_print_list(shape, 0, data, out);
    values_leave_locale(before);
}
