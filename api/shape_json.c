// SPDX-License-Identifier: Apache-2.0
#include "api/shape_json.h"

#include <stdio.h>
#include <string.h>

enum { SHAPE_NAME_MAX = 16 };

enum pod_type api_type_parse(const char *text)
{
    char lower[SHAPE_NAME_MAX];
    size_t length = strlen(text);
    if (length >= sizeof(lower))
        return POD_TYPE_INVALID;
    for (size_t i = 0; i < length; i++) {
        bool upper = text[i] >= 'A' && text[i] <= 'Z';
        lower[i] = (char)(upper ? text[i] + ('a' - 'A') : text[i]);
    }
    return pod_type_parse(lower, length);
}

// A list of integers into `out`; *out_count of them, at most the rank's limit.
static enum pod_code shape_read_list(struct api_reader *reader,
                                     const char *name, int64_t *out,
                                     size_t *out_count, bool *out_given,
                                     struct pod_err *err)
{
    const json_t *list = NULL;
    enum pod_code code =
        api_read_array(reader, name, POD_SHAPE_MAX_RANK, &list, err);
    *out_given = list != NULL;
    if (code != POD_OK || list == NULL)
        return code;
    *out_count = json_array_size(list);
    for (size_t i = 0; i < *out_count; i++) {
        const json_t *item = json_array_get(list, i);
        if (!json_is_integer(item)) {
            char pointer[POD_ERR_POINTER_BYTES];
            code = api_json_wrong_type(item, name, "a list of integers", err);
            pod_err_at(err, "%s/%s/%zu", api_read_pointer(reader, pointer),
                       name, i);
            return code;
        }
        out[i] = json_integer_value(item);
    }
    return POD_OK;
}

static enum pod_code shape_bad(const struct api_reader *reader,
                               const char *name, const char *text,
                               struct pod_err *err)
{
    enum pod_code code = pod_err_set(err, POD_REASON_BAD_SHAPE, "%s", text);
    api_read_at(reader, name, err);
    return code;
}

static enum pod_code shape_set_layout(const struct api_reader *reader,
                                      const int64_t *layout, size_t count,
                                      struct pod_shape *out,
                                      struct pod_err *err)
{
    uint32_t seen = 0;
    if (count != out->rank)
        return shape_bad(reader, "layout",
                         "layout must have one entry for each dimension", err);
    for (size_t i = 0; i < count; i++) {
        if (layout[i] < 0 || layout[i] >= (int64_t)count ||
            (seen & (1U << layout[i])))
            return shape_bad(reader, "layout",
                             "layout is not a permutation of the dimensions",
                             err);
        seen |= 1U << layout[i];
        out->minor_to_major[i] = (uint8_t)layout[i];
    }
    out->has_layout = true;
    return POD_OK;
}

static enum pod_code shape_read_parts(struct api_reader *reader,
                                      struct pod_shape *out,
                                      struct pod_err *err)
{
    int64_t dims[POD_SHAPE_MAX_RANK] = {0};
    int64_t layout[POD_SHAPE_MAX_RANK] = {0};
    size_t rank = 0;
    size_t layout_count = 0;
    bool has_dims = false;
    bool has_layout = false;
    const char *type = NULL;
    enum pod_code code = api_read_string(reader, "element_type", &type, err);
    if (code == POD_OK)
        code =
            shape_read_list(reader, "dimensions", dims, &rank, &has_dims, err);
    if (code == POD_OK)
        code = shape_read_list(reader, "layout", layout, &layout_count,
                               &has_layout, err);
    if (code == POD_OK)
        code = api_read_end(reader, err);
    if (code != POD_OK)
        return code;
    if (type == NULL)
        return api_read_missing(reader, "element_type", err);
    if (!has_dims)
        return api_read_missing(reader, "dimensions", err);
    if (api_type_parse(type) == POD_TYPE_INVALID)
        return shape_bad(reader, "element_type", "unknown type", err);
    code = pod_shape_array(out, api_type_parse(type), rank, dims, err);
    if (code != POD_OK)
        api_read_at(reader, "dimensions", err);
    else if (has_layout)
        code = shape_set_layout(reader, layout, layout_count, out, err);
    return code;
}

enum pod_code api_read_shape(struct api_reader *reader, const char *name,
                             struct pod_shape *out, bool *out_given,
                             struct pod_err *err)
{
    const json_t *value = api_read_any(reader, name);
    enum pod_code code = POD_OK;
    *out_given = value != NULL;
    if (value == NULL)
        return POD_OK;
    if (json_is_object(value)) {
        struct api_reader parts;
        char object[POD_ERR_POINTER_BYTES];
        char pointer[2 * POD_ERR_POINTER_BYTES];
        (void)snprintf(pointer, sizeof(pointer), "%s/%s",
                       api_read_pointer(reader, object), name);
        code = api_read_begin(&parts, value, pointer, err);
        return code == POD_OK ? shape_read_parts(&parts, out, err) : code;
    }
    if (json_is_string(value))
        code = pod_shape_parse(json_string_value(value),
                               json_string_length(value), out, err);
    else
        code = api_json_wrong_type(value, name, "a string or an object", err);
    if (code != POD_OK)
        api_read_at(reader, name, err);
    return code;
}
