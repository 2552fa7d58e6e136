// SPDX-License-Identifier: Apache-2.0
#include "api/query.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/http_internal.h"
#include "core/base/clock.h"

const char *api_query_next(struct api_request *req, const char *name,
                           size_t *cursor)
{
    for (; *cursor < req->parameter_count; (*cursor)++) {
        struct api_parameter *parameter = &req->parameters[*cursor];
        if (strcmp(parameter->name, name) == 0) {
            parameter->known = true;
            (*cursor)++;
            return parameter->value;
        }
    }
    return NULL;
}

enum pod_code api_query_free_text(struct api_request *req, const char *name,
                                  const char **out_value, struct pod_err *err)
{
    size_t cursor = 0;
    const char *value = api_query_next(req, name, &cursor);

    if (value != NULL && api_query_next(req, name, &cursor) != NULL)
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "parameter \"%s\" is given twice", name);
    *out_value = value;
    return POD_OK;
}

enum pod_code api_query_text(struct api_request *req, const char *name,
                             const char **out_value, struct pod_err *err)
{
    const char *value = NULL;

    enum pod_code code = api_query_free_text(req, name, &value, err);
    if (code != POD_OK)
        return code;
    if (value != NULL && pod_text_has_control(value, strlen(value)))
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "the value of parameter \"%s\" is malformed", name);
    *out_value = value;
    return POD_OK;
}

static enum pod_code query_bad(const char *name, const char *value,
                               const char *wanted, struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                       "parameter \"%s\" must be %s, not \"%.64s\"", name,
                       wanted, value);
}

enum pod_code api_query_int(struct api_request *req, const char *name,
                            int64_t min, int64_t max, int64_t *out_value,
                            struct pod_err *err)
{
    const char *text;
    char wanted[80];
    uint64_t number = 0;

    enum pod_code code = api_query_text(req, name, &text, err);
    if (code != POD_OK || text == NULL)
        return code;
    (void)snprintf(wanted, sizeof(wanted),
                   "an integer from %" PRId64 " to %" PRId64, min, max);
    const char *digits = *text == '-' ? text + 1 : text;
    if (strcmp(digits, "0") != 0 &&
        !pod_parse_number(digits, strlen(digits), &number))
        return query_bad(name, text, wanted, err);
    int64_t value = digits == text ? (int64_t)number : -(int64_t)number;
    if (value < min || value > max)
        return query_bad(name, text, wanted, err);
    *out_value = value;
    return POD_OK;
}

enum pod_code api_query_uint(struct api_request *req, const char *name,
                             uint64_t min, uint64_t max, uint64_t *out_value,
                             struct pod_err *err)
{
    int64_t value = -1;
    int64_t top = max > INT64_MAX ? INT64_MAX : (int64_t)max;

    enum pod_code code =
        api_query_int(req, name, (int64_t)min, top, &value, err);
    if (code == POD_OK && value >= 0)
        *out_value = (uint64_t)value;
    return code;
}

enum pod_code api_query_at_most(struct api_request *req, const char *name,
                                uint64_t max, uint64_t *out_value,
                                struct pod_err *err)
{
    const char *text;
    uint64_t number = max;

    enum pod_code code = api_query_text(req, name, &text, err);
    if (code != POD_OK || text == NULL)
        return code;
    size_t length = strlen(text);
    bool digits = *text > '0' && strspn(text, "0123456789") == length;
    if (!digits)
        return query_bad(name, text, "a positive integer", err);
    bool small = pod_parse_number(text, length, &number);
    *out_value = small && number < max ? number : max;
    return POD_OK;
}

enum pod_code api_query_bool(struct api_request *req, const char *name,
                             bool *out_value, struct pod_err *err)
{
    const char *text;

    enum pod_code code = api_query_text(req, name, &text, err);
    if (code != POD_OK || text == NULL)
        return code;
    if (strcmp(text, "true") == 0 || strcmp(text, "1") == 0 || *text == '\0')
        *out_value = true;
    else if (strcmp(text, "false") == 0 || strcmp(text, "0") == 0)
        *out_value = false;
    else
        return query_bad(name, text, "true or false", err);
    return POD_OK;
}

enum pod_code api_query_duration(struct api_request *req, const char *name,
                                 int64_t cap_ns, int64_t *out_ns,
                                 struct pod_err *err)
{
    const char *text;
    int64_t ns;

    enum pod_code code = api_query_text(req, name, &text, err);
    if (code != POD_OK || text == NULL)
        return code;
    if (!pod_parse_duration(text, strlen(text), &ns))
        return query_bad(name, text, "a duration such as 30s or 250ms", err);
    *out_ns = ns < cap_ns ? ns : cap_ns;
    return POD_OK;
}

enum pod_code api_query_enum(struct api_request *req, const char *name,
                             const char *const *names, size_t count,
                             size_t *out_index, struct pod_err *err)
{
    const char *text;
    char wanted[160] = "one of";
    size_t used = strlen(wanted);

    enum pod_code code = api_query_text(req, name, &text, err);
    if (code != POD_OK || text == NULL)
        return code;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out_index = i;
            return POD_OK;
        }
        if (used < sizeof(wanted))
            used += (size_t)snprintf(wanted + used, sizeof(wanted) - used,
                                     " %s", names[i]);
    }
    return query_bad(name, text, wanted, err);
}

bool api_list_next(const char **cursor, const char **out_piece,
                   size_t *out_length)
{
    const char *start = *cursor;

    if (start == NULL)
        return false;
    size_t length = strcspn(start, ",");
    *cursor = start[length] == ',' ? start + length + 1 : NULL;
    while (length > 0 && (*start == ' ' || *start == '\t')) {
        start++;
        length--;
    }
    while (length > 0 &&
           (start[length - 1] == ' ' || start[length - 1] == '\t'))
        length--;
    *out_piece = start;
    *out_length = length;
    return true;
}

enum pod_code api_query_end(struct api_request *req, struct pod_err *err)
{
    for (size_t i = 0; i < req->parameter_count; i++) {
        if (!req->parameters[i].known)
            return pod_err_set(err, POD_REASON_UNKNOWN_PARAMETER,
                               "parameter \"%.128s\" is not known here",
                               req->parameters[i].name);
    }
    return POD_OK;
}

// The value of a preference ("wait" in "respond-async, wait=10"), or NULL with
// *out_found false. RFC 7240: names in any case, the first one counts.
static const char *query_preference(const struct api_request *req,
                                    const char *name, size_t *out_length,
                                    bool *out_found)
{
    const char *cursor = api_request_header(req, "Prefer");
    const char *piece;
    size_t length;

    *out_found = false;
    while (api_list_next(&cursor, &piece, &length)) {
        size_t name_length = strlen(name);
        if (length < name_length || strncasecmp(piece, name, name_length) != 0)
            continue;
        const char *rest = piece + name_length;
        size_t left = length - name_length;
        if (left > 0 && *rest != '=' && *rest != ';' && *rest != ' ')
            continue;
        *out_found = true;
        if (left == 0 || *rest != '=')
            return NULL;
        *out_length = strcspn(rest + 1, ";, \t");
        return rest + 1;
    }
    return NULL;
}

enum pod_code api_wait_time(struct api_request *req, int64_t *out_ns,
                            bool *out_given, struct pod_err *err)
{
    int64_t cap = req->server->limits.wait_ns;
    int64_t ns = -1;
    size_t length = 0;
    bool found = false;

    enum pod_code code = api_query_duration(req, "wait", cap, &ns, err);
    if (code != POD_OK)
        return code;
    if (ns < 0) {
        const char *value = query_preference(req, "wait", &length, &found);
        // A preference that makes no sense is ignored, as RFC 7240 says.
        if (value == NULL || !pod_parse_duration(value, length, &ns))
            ns = -1;
    }
    if (out_given != NULL)
        *out_given = ns >= 0;
    if (ns >= 0)
        *out_ns = ns;
    if (*out_ns > cap)
        *out_ns = cap;
    return POD_OK;
}

bool api_prefers_async(const struct api_request *req)
{
    size_t length;
    bool found;

    (void)query_preference(req, "respond-async", &length, &found);
    return found;
}
