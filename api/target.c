// SPDX-License-Identifier: Apache-2.0
// The target of a request, taken apart from its raw form: libmicrohttpd
// decodes %2f before anybody can route, cuts at %00, and hides which parameter
// was given twice.
#include <string.h>
#include <strings.h>

#include "api/http_internal.h"

bool api_target_authority(const char *target, const char **out_start,
                          size_t *out_length, const char **out_path)
{
    const char *start = NULL;

    if (strncasecmp(target, "http://", 7) == 0)
        start = target + 7;
    else if (strncasecmp(target, "https://", 8) == 0)
        start = target + 8;
    else
        return false;
    size_t length = strcspn(start, "/?#");
    *out_start = start;
    *out_length = length;
    *out_path = start + length;
    return true;
}

static int target_hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

// Decodes `length` bytes into `out` (as large, and a NUL). False: malformed, or
// no text.
static bool target_decode(const char *from, size_t length, bool plus_is_space,
                          char *out)
{
    size_t used = 0;

    for (size_t i = 0; i < length; i++) {
        char c = from[i];
        if (c == '%') {
            int high = i + 2 < length ? target_hex(from[i + 1]) : -1;
            int low = high >= 0 ? target_hex(from[i + 2]) : -1;
            if (low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        out[used++] = c;
    }
    out[used] = '\0';
    // A NUL inside makes the text shorter than what was written.
    return strlen(out) == used && pod_utf8_valid(out, used);
}

static bool target_has_control(const char *decoded)
{
    return pod_text_has_control(decoded, strlen(decoded));
}

static bool target_has_bad_escape(const char *path, size_t length)
{
    for (size_t i = 0; i + 2 < length; i++) {
        if (path[i] == '%' && (strncasecmp(path + i, "%2f", 3) == 0 ||
                               strncmp(path + i, "%00", 3) == 0))
            return true;
    }
    return false;
}

static bool target_has_bad_byte(const char *target)
{
    for (const unsigned char *c = (const unsigned char *)target; *c; c++) {
        if (*c <= ' ' || *c == 0x7f)
            return true;
    }
    return false;
}

static enum pod_code target_parameter(struct api_request *req,
                                      const char *start, size_t length,
                                      struct pod_err *err)
{
    const char *equals = memchr(start, '=', length);
    size_t name_length = equals ? (size_t)(equals - start) : length;
    size_t value_length = equals ? length - name_length - 1 : 0;
    char *name = api_alloc(req, name_length + 1);
    char *value = api_alloc(req, value_length + 1);

    if (name == NULL || value == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for the query");
    if (!target_decode(start, name_length, true, name) ||
        target_has_control(name))
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "the name of a query parameter is malformed");
    if (equals != NULL && !target_decode(equals + 1, value_length, true, value))
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "the value of parameter \"%s\" is malformed", name);
    req->parameters[req->parameter_count++] =
        (struct api_parameter){.name = name, .value = value};
    return POD_OK;
}

static enum pod_code target_query(struct api_request *req, const char *query,
                                  struct pod_err *err)
{
    size_t count = 1;

    for (const char *c = query; *c != '\0'; c++)
        count += *c == '&';
    req->parameters = api_alloc(req, count * sizeof(*req->parameters));
    if (req->parameters == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for the query");
    while (*query != '\0') {
        size_t length = strcspn(query, "&");
        if (length > 0) {
            enum pod_code code = target_parameter(req, query, length, err);
            if (code != POD_OK)
                return code;
        }
        query += length;
        if (*query == '&')
            query++;
    }
    return POD_OK;
}

enum pod_code api_target_parse(struct api_request *req, struct pod_err *err)
{
    const char *path = req->target;
    const char *authority;
    size_t authority_length;

    if (target_has_bad_byte(path))
        return pod_err_set(err, POD_REASON_BAD_FRAMING,
                           "the request target has a space or control byte");
    (void)api_target_authority(path, &authority, &authority_length, &path);
    size_t length = strcspn(path, "?#");
    if (target_has_bad_escape(path, length))
        return pod_err_set(err, POD_REASON_BAD_FRAMING,
                           "the path has an encoded slash or NUL");
    char *decoded = api_alloc(req, length + 2);
    if (decoded == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for the path");
    if (!target_decode(path, length, false, decoded) ||
        target_has_control(decoded))
        return pod_err_set(err, POD_REASON_BAD_FRAMING,
                           "the path is not percent-encoded UTF-8");
    if (length == 0 && path != req->target)
        memcpy(decoded, "/", 2);
    req->path = decoded;
    if (path[length] == '#')
        return pod_err_set(err, POD_REASON_BAD_FRAMING,
                           "the request target has a fragment");
    return path[length] == '?' ? target_query(req, path + length + 1, err)
                               : POD_OK;
}
