// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/json.h"
#include "core/base/str.h"

static const char *json_type_name(const json_t *value)
{
    const char *digits;

    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return api_json_big_integer(value, &digits) ? "an integer" : "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number with a fraction";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        break;
    }
    return "null";
}

enum pod_code api_json_wrong_type(const json_t *value, const char *what,
                                  const char *wanted, struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_WRONG_TYPE, "%s must be %s, not %s",
                       what, wanted, json_type_name(value));
}

static uint32_t read_initial(const char *name)
{
    return UINT32_C(1) << ((unsigned char)name[0] % 32);
}

const char *api_read_pointer(const struct api_reader *reader,
                             char buffer[POD_ERR_POINTER_BYTES])
{
    if (reader->index == SIZE_MAX)
        (void)snprintf(buffer, POD_ERR_POINTER_BYTES, "%s", reader->pointer);
    else
        (void)snprintf(buffer, POD_ERR_POINTER_BYTES, "%s/%zu", reader->pointer,
                       reader->index);
    return buffer;
}

static enum pod_code read_no_object(const struct api_reader *reader,
                                    const json_t *value, struct pod_err *err)
{
    char pointer[POD_ERR_POINTER_BYTES];
    bool body = *api_read_pointer(reader, pointer) == '\0';
    enum pod_code code = api_json_wrong_type(
        value, body ? "the body" : "the value", "an object", err);

    pod_err_at(err, "%s", pointer);
    return code;
}

enum pod_code api_read_begin(struct api_reader *reader, const json_t *value,
                             const char *pointer, struct pod_err *err)
{
    return api_read_begin_item(reader, value, pointer, SIZE_MAX, err);
}

enum pod_code api_read_begin_item(struct api_reader *reader,
                                  const json_t *value, const char *pointer,
                                  size_t index, struct pod_err *err)
{
    reader->object = value;
    reader->names = NULL;
    reader->pointer = pointer;
    reader->index = index;
    reader->count = 0;
    reader->initials = 0;
    if (!json_is_object(value))
        return read_no_object(reader, value, err);
    // Iterating takes a non-const object and does not change it.
    union {
        const json_t *in;
        json_t *out;
    } object = {.in = value};
    void *at = json_object_iter(object.out);
    for (; at != NULL && reader->count < API_READER_MEMBERS;
         at = json_object_iter_next(object.out, at)) {
        const char *name = json_object_iter_key(at);
        reader->members[reader->count++] = (struct api_member){
            .name = name, .value = json_object_iter_value(at)};
        reader->initials |= read_initial(name);
    }
    return POD_OK;
}

void api_read_at(const struct api_reader *reader, const char *name,
                 struct pod_err *err)
{
    char escaped[POD_ERR_POINTER_BYTES];
    char pointer[POD_ERR_POINTER_BYTES];
    size_t used = 0;

    for (; *name != '\0' && used + 3 < sizeof(escaped); name++) {
        if (*name == '~' || *name == '/') {
            escaped[used++] = '~';
            escaped[used++] = *name == '~' ? '0' : '1';
        } else {
            escaped[used++] = *name;
        }
    }
    escaped[used] = '\0';
    pod_err_at(err, "%s/%s", api_read_pointer(reader, pointer), escaped);
}

const json_t *api_read_any(struct api_reader *reader, const char *name)
{
    // Most members that are asked for are not there.
    if ((reader->initials & read_initial(name)) == 0)
        return NULL;
    for (size_t i = 0; i < reader->count; i++) {
        struct api_member *member = &reader->members[i];
        if (member->name[0] != name[0] || strcmp(member->name, name) != 0)
            continue;
        member->known = true;
        return json_is_null(member->value) ? NULL : member->value;
    }
    return NULL;
}

static enum pod_code read_wrong(const struct api_reader *reader,
                                const char *name, const json_t *value,
                                const char *wanted, struct pod_err *err)
{
    char what[80];

    (void)snprintf(what, sizeof(what), "\"%s\"", name);
    enum pod_code code = api_json_wrong_type(value, what, wanted, err);
    api_read_at(reader, name, err);
    return code;
}

static enum pod_code read_fault(const struct api_reader *reader,
                                const char *name, enum pod_reason reason,
                                const char *fault, struct pod_err *err)
{
    enum pod_code code = pod_err_set(err, reason, "\"%s\" %s", name, fault);
    api_read_at(reader, name, err);
    return code;
}

enum pod_code api_read_string(struct api_reader *reader, const char *name,
                              const char **out_text, struct pod_err *err)
{
    const json_t *value = api_read_any(reader, name);
    const char *digits;

    if (value != NULL &&
        (!json_is_string(value) || api_json_big_integer(value, &digits)))
        return read_wrong(reader, name, value, "a string", err);
    *out_text = json_string_value(value);
    return POD_OK;
}

enum pod_code api_read_text(struct api_reader *reader, const char *name,
                            size_t min_bytes, size_t max_bytes,
                            const char **out_text, struct pod_err *err)
{
    const char *text;
    char fault[64];

    enum pod_code code = api_read_string(reader, name, &text, err);
    if (code != POD_OK)
        return code;
    if (text != NULL) {
        size_t length = strlen(text);
        if (length < min_bytes || length > max_bytes) {
            (void)snprintf(fault, sizeof(fault), "must have %zu to %zu bytes",
                           min_bytes, max_bytes);
            return read_fault(reader, name, POD_REASON_BAD_TEXT, fault, err);
        }
        if (pod_text_has_control(text, length))
            return read_fault(reader, name, POD_REASON_BAD_TEXT,
                              "has a control character", err);
    }
    *out_text = text;
    return POD_OK;
}

enum pod_code api_read_integer(struct api_reader *reader, const char *name,
                               int64_t min, int64_t max, int64_t *out_value,
                               struct pod_err *err)
{
    const json_t *value = api_read_any(reader, name);
    const char *digits;
    char fault[80];

    if (value == NULL)
        return POD_OK;
    bool big = api_json_big_integer(value, &digits);
    if (!json_is_integer(value) && !big)
        return read_wrong(reader, name, value, "an integer", err);
    json_int_t number = json_integer_value(value);
    if (big || number < min || number > max) {
        (void)snprintf(fault, sizeof(fault),
                       "must be from %" PRId64 " to %" PRId64, min, max);
        return read_fault(reader, name, POD_REASON_OUT_OF_RANGE, fault, err);
    }
    *out_value = number;
    return POD_OK;
}

// Digits to a number, up to UINT64_MAX, without leading zeros.
static bool read_digits(const char *text, uint64_t *out_value)
{
    uint64_t value = 0;

    if (*text == '\0' || (text[0] == '0' && text[1] != '\0'))
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' ||
            __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return false;
    }
    *out_value = value;
    return true;
}

enum pod_code api_read_u64(struct api_reader *reader, const char *name,
                           uint64_t *out_value, bool *out_given,
                           struct pod_err *err)
{
    const json_t *value = api_read_any(reader, name);
    const char *text;

    if (out_given != NULL)
        *out_given = value != NULL;
    if (value == NULL)
        return POD_OK;
    if (json_is_integer(value)) {
        json_int_t number = json_integer_value(value);
        if (number < 0)
            return read_fault(reader, name, POD_REASON_OUT_OF_RANGE,
                              "must not be negative", err);
        *out_value = (uint64_t)number;
        return POD_OK;
    }
    if (!json_is_string(value))
        return read_wrong(reader, name, value, "an integer or its digits", err);
    bool big = api_json_big_integer(value, &text);
    if (!big)
        text = json_string_value(value);
    if (read_digits(text, out_value))
        return POD_OK;
    bool number = strspn(text, "0123456789") == strlen(text) && *text != '\0' &&
                  *text != '0';
    return read_fault(
        reader, name,
        big || number ? POD_REASON_OUT_OF_RANGE : POD_REASON_BAD_VALUE,
        big || number ? "is too large or negative"
                      : "must be decimal digits without leading zeros",
        err);
}

enum pod_code api_read_duration(struct api_reader *reader, const char *name,
                                int64_t *out_ns, struct pod_err *err)
{
    const json_t *value = api_read_any(reader, name);
    const char *text = json_string_value(value);
    char number[40];

    if (value == NULL)
        return POD_OK;
    if (json_is_integer(value)) {
        (void)snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT,
                       json_integer_value(value));
        text = number;
    } else if (json_is_real(value)) {
        (void)snprintf(number, sizeof(number), "%.9f", json_real_value(value));
        text = number;
    }
    if (text == NULL)
        return read_wrong(reader, name, value, "a duration such as \"30s\"",
                          err);
    if (!pod_parse_duration(text, strlen(text), out_ns))
        return read_fault(reader, name, POD_REASON_BAD_VALUE,
                          "must be a duration such as \"30s\" or \"250ms\"",
                          err);
    return POD_OK;
}

enum pod_code api_read_enum(struct api_reader *reader, const char *name,
                            const char *const *names, size_t count,
                            size_t *out_index, struct pod_err *err)
{
    const char *text;
    char fault[160] = "must be one of";
    size_t used = strlen(fault);

    enum pod_code code = api_read_string(reader, name, &text, err);
    if (code != POD_OK || text == NULL)
        return code;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out_index = i;
            return POD_OK;
        }
        if (used < sizeof(fault))
            used += (size_t)snprintf(fault + used, sizeof(fault) - used, " %s",
                                     names[i]);
    }
    return read_fault(reader, name, POD_REASON_BAD_VALUE, fault, err);
}

enum pod_code api_read_array(struct api_reader *reader, const char *name,
                             size_t max, const json_t **out_array,
                             struct pod_err *err)
{
    const json_t *value = api_read_any(reader, name);
    char fault[64];

    if (value != NULL && !json_is_array(value))
        return read_wrong(reader, name, value, "an array", err);
    if (json_array_size(value) > max) {
        (void)snprintf(fault, sizeof(fault), "has more than %zu elements", max);
        return read_fault(reader, name, POD_REASON_OUT_OF_RANGE, fault, err);
    }
    *out_array = value;
    return POD_OK;
}

enum pod_code api_read_object(struct api_reader *reader, const char *name,
                              const json_t **out_object, struct pod_err *err)
{
    const json_t *value = api_read_any(reader, name);

    if (value != NULL && !json_is_object(value))
        return read_wrong(reader, name, value, "an object", err);
    *out_object = value;
    return POD_OK;
}

enum pod_code api_read_end(const struct api_reader *reader, struct pod_err *err)
{
    for (size_t i = 0; i < reader->count; i++) {
        const struct api_member *member = &reader->members[i];
        if (member->known)
            continue;
        enum pod_code code =
            pod_err_set(err, POD_REASON_UNKNOWN_MEMBER,
                        "member \"%.128s\" is not known here", member->name);
        api_read_at(reader, member->name, err);
        return code;
    }
    return POD_OK;
}

enum pod_code api_read_missing(const struct api_reader *reader,
                               const char *name, struct pod_err *err)
{
    enum pod_code code = pod_err_set(err, POD_REASON_MISSING_MEMBER,
                                     "member \"%s\" is missing", name);
    api_read_at(reader, name, err);
    return code;
}
