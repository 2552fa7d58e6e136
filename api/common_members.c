// SPDX-License-Identifier: Apache-2.0
// The members that every submission may have.
#include <string.h>

#include "api/common.h"
#include "api/ids.h"
#include "api/query.h"
#include "core/base/str.h"

enum {
    COMMON_KEY_MAX = 63,
    COMMON_VALUE_MAX = 256,
    COMMON_NAME_MAX = 256,
    COMMON_PRIORITY_MAX = 10,
};

static const char *const common_failure_names[] = {"FAIL", "RUN"};

static void common_defaults(struct pod_request *out)
{
    out->deadline_ns = POD_NEVER;
}

static enum pod_code common_check_label(const char *key, size_t key_length,
                                        const char *value,
                                        enum pod_reason reason,
                                        struct pod_err *err)
{
    size_t sound =
        strspn(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                    "0123456789._/-");
    if (key_length == 0 || key_length > COMMON_KEY_MAX || sound < key_length)
        return pod_err_set(err, reason,
                           "a label's key must be 1 to %d characters of "
                           "[A-Za-z0-9._/-]",
                           COMMON_KEY_MAX);
    size_t length = strlen(value);
    if (length > COMMON_VALUE_MAX || pod_text_has_control(value, length))
        return pod_err_set(err, reason,
                           "a label's value must be at most %d bytes of text "
                           "without control characters",
                           COMMON_VALUE_MAX);
    return POD_OK;
}

// ------------------------------------------------------------- from a body

static enum pod_code common_body_label(const struct api_reader *reader,
                                       const char *key, const json_t *value,
                                       struct pod_label *out,
                                       struct pod_err *err)
{
    enum pod_code code = POD_OK;
    if (!json_is_string(value)) {
        code = api_json_wrong_type(value, "a label's value", "a string", err);
    } else {
        *out =
            (struct pod_label){.key = key, .value = json_string_value(value)};
        code = common_check_label(key, strlen(key), out->value,
                                  POD_REASON_BAD_TEXT, err);
    }
    if (code != POD_OK)
        api_read_at(reader, "labels", err);
    return code;
}

static enum pod_code common_body_labels(struct api_memory *memory,
                                        struct api_reader *reader,
                                        struct pod_request *out,
                                        struct pod_err *err)
{
    const json_t *object = NULL;
    enum pod_code code = api_read_object(reader, "labels", &object, err);
    if (code != POD_OK || object == NULL)
        return code;
    size_t count = json_object_size(object);
    if (count > API_LABELS_MAX) {
        code = pod_err_set(err, POD_REASON_BAD_TEXT,
                           "there may be at most %d labels", API_LABELS_MAX);
        api_read_at(reader, "labels", err);
        return code;
    }
    struct pod_label *labels =
        api_memory_alloc(memory, (count + 1) * sizeof(*labels));
    if (labels == NULL)
        return api_memory_error(memory, err);
    const char *key = NULL;
    json_t *value = NULL;
    size_t used = 0;
    // jansson's iteration wants a pointer that is not const; it changes none.
    json_t *walked = json_incref((json_t *)(uintptr_t)object);
    json_object_foreach(walked, key, value)
    {
        code = common_body_label(reader, key, value, &labels[used++], err);
        if (code != POD_OK)
            break;
    }
    json_decref(walked);
    out->labels = labels;
    out->label_count = count;
    return code;
}

enum pod_code api_common_from_body(struct api_memory *memory,
                                   struct api_reader *reader,
                                   struct pod_request *out, struct pod_err *err)
{
    size_t failure = out->run_on_failure;
    int64_t priority = out->priority;
    if (out->deadline_ns == 0)
        common_defaults(out);
    enum pod_code code = api_read_refs(memory, reader, "after", POD_REF_NONE,
                                       &out->after, &out->after_count, err);
    if (code == POD_OK)
        code = api_read_enum(reader, "on_dependency_failure",
                             common_failure_names, 2, &failure, err);
    if (code == POD_OK)
        code = api_read_duration(reader, "deadline", &out->deadline_ns, err);
    if (code == POD_OK)
        code = api_read_integer(reader, "priority", -COMMON_PRIORITY_MAX,
                                COMMON_PRIORITY_MAX, &priority, err);
    if (code == POD_OK)
        code = common_body_labels(memory, reader, out, err);
    if (code == POD_OK)
        code =
            api_read_text(reader, "name", 1, COMMON_NAME_MAX, &out->name, err);
    out->run_on_failure = failure == 1;
    out->priority = (int)priority;
    return code;
}

// ------------------------------------------------------------ from a query

// Counts the pieces of a comma list.
static size_t common_list_length(const char *list)
{
    const char *piece = NULL;
    size_t length = 0;
    size_t count = 0;
    while (api_list_next(&list, &piece, &length))
        count++;
    return count;
}

static enum pod_code common_query_after(struct api_request *req,
                                        struct pod_request *out,
                                        struct pod_err *err)
{
    const char *list = NULL;
    enum pod_code code = api_query_free_text(req, "after", &list, err);
    if (code != POD_OK || list == NULL)
        return code;
    size_t count = common_list_length(list);
    struct pod_ref *refs = api_alloc(req, (count + 1) * sizeof(*refs));
    if (refs == NULL)
        return api_err_memory(err);
    const char *piece = NULL;
    size_t length = 0;
    for (size_t i = 0; api_list_next(&list, &piece, &length); i++) {
        if (!api_id_parse(piece, length, &refs[i]))
            return pod_err_set(err, POD_REASON_UNKNOWN_HANDLE,
                               "after: '%.*s' is not an id",
                               (int)pod_utf8_clip(piece, length, 64), piece);
    }
    out->after = refs;
    out->after_count = count;
    return POD_OK;
}

static enum pod_code common_query_label(struct api_request *req,
                                        const char *text,
                                        enum pod_reason reason,
                                        struct pod_label *out,
                                        struct pod_err *err)
{
    const char *equals = strchr(text, '=');
    if (equals == NULL)
        return pod_err_set(err, reason, "label: expected key=value");
    size_t length = (size_t)(equals - text);
    enum pod_code code =
        common_check_label(text, length, equals + 1, reason, err);
    if (code != POD_OK)
        return code;
    char *key = api_strdup(req, text);
    if (key == NULL)
        return api_err_memory(err);
    key[length] = '\0';
    *out = (struct pod_label){.key = key, .value = key + length + 1};
    return POD_OK;
}

enum pod_code api_query_labels(struct api_request *req, enum pod_reason reason,
                               const struct pod_label **out_labels,
                               size_t *out_count, struct pod_err *err)
{
    size_t cursor = 0;
    size_t count = 0;
    struct pod_label *labels = api_alloc(req, API_LABELS_MAX * sizeof(*labels));
    if (labels == NULL)
        return api_err_memory(err);
    const char *text = api_query_next(req, "label", &cursor);
    for (; text != NULL; text = api_query_next(req, "label", &cursor)) {
        if (count == API_LABELS_MAX)
            return pod_err_set(err, reason,
                               "label: there may be at most %d labels",
                               API_LABELS_MAX);
        enum pod_code code =
            common_query_label(req, text, reason, &labels[count++], err);
        if (code != POD_OK)
            return code;
    }
    *out_labels = labels;
    *out_count = count;
    return POD_OK;
}

// A filter may ask for one key twice, a thing has it once: as in JSON.
static enum pod_code common_sole_keys(const struct pod_label *labels,
                                      size_t count, struct pod_err *err)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(labels[i].key, labels[k].key) == 0)
                return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                                   "label: the key '%s' is given twice",
                                   labels[i].key);
        }
    }
    return POD_OK;
}

static enum pod_code common_query_name(struct api_request *req,
                                       struct pod_request *out,
                                       struct pod_err *err)
{
    enum pod_code code = api_query_free_text(req, "name", &out->name, err);
    if (code != POD_OK || out->name == NULL)
        return code;
    size_t length = strlen(out->name);
    if (length == 0 || length > COMMON_NAME_MAX ||
        pod_text_has_control(out->name, length))
        return pod_err_set(
            err, POD_REASON_BAD_TEXT,
            "name must be 1 to %d bytes without control characters",
            COMMON_NAME_MAX);
    return POD_OK;
}

enum pod_code api_common_from_query(struct api_request *req,
                                    struct pod_request *out,
                                    struct pod_err *err)
{
    size_t failure = 0;
    int64_t priority = 0;
    common_defaults(out);
    enum pod_code code = common_query_after(req, out, err);
    if (code == POD_OK)
        code = api_query_enum(req, "on_dependency_failure",
                              common_failure_names, 2, &failure, err);
    if (code == POD_OK)
        code = api_query_duration(req, "deadline", POD_NEVER, &out->deadline_ns,
                                  err);
    if (code == POD_OK)
        code = api_query_int(req, "priority", -COMMON_PRIORITY_MAX,
                             COMMON_PRIORITY_MAX, &priority, err);
    if (code == POD_OK)
        code = api_query_labels(req, POD_REASON_BAD_TEXT, &out->labels,
                                &out->label_count, err);
    if (code == POD_OK)
        code = common_sole_keys(out->labels, out->label_count, err);
    if (code == POD_OK)
        code = common_query_name(req, out, err);
    out->run_on_failure = failure == 1;
    out->priority = (int)priority;
    return code;
}
