// SPDX-License-Identifier: Apache-2.0
#include "api/problem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/http_internal.h"

struct problem_status {
    int status;
    const char *text;
};

static const struct problem_status problem_statuses[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {303, "See Other"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
};

const char *api_status_text(int status)
{
    size_t count = sizeof(problem_statuses) / sizeof(problem_statuses[0]);

    for (size_t i = 0; i < count; i++) {
        if (problem_statuses[i].status == status)
            return problem_statuses[i].text;
    }
    return "Unknown";
}

// Bytes up to the next one that is not part of well-formed UTF-8.
static size_t problem_valid_prefix(const char *text, size_t length)
{
    size_t good = 0;

    while (good < length) {
        size_t step = 1;
        while (step < 4 && good + step < length &&
               !pod_utf8_valid(text + good, step))
            step++;
        if (!pod_utf8_valid(text + good, step))
            break;
        good += step;
    }
    return good;
}

json_t *api_json_text(const char *text)
{
    size_t length = strlen(text);
    struct pod_str clean = {.data = NULL};

    if (pod_utf8_valid(text, length))
        return json_stringn_nocheck(text, length);
    while (length > 0) {
        size_t good = problem_valid_prefix(text, length);
        pod_str_append(&clean, text, good);
        text += good;
        length -= good;
        if (length > 0) {
            pod_str_puts(&clean, "\xef\xbf\xbd");
            text++;
            length--;
        }
    }
    json_t *json =
        clean.failed ? NULL : json_stringn_nocheck(clean.data, clean.length);
    pod_str_fini(&clean);
    return json;
}

json_t *api_problem_entry(const struct pod_err *err)
{
    return json_pack("{s:o, s:s, s:o}", "pointer", api_json_text(err->pointer),
                     "reason", pod_reason_name(err->reason), "detail",
                     api_json_text(err->text));
}

// A pointer is into the body, which some requests have none of.
static json_t *problem_errors(const struct api_request *req,
                              const struct pod_err *err,
                              const struct api_problem *more)
{
    bool bodiless =
        req != NULL && (req->method == API_GET || req->method == API_HEAD ||
                        req->method == API_DELETE);

    if (more->errors != NULL)
        return more->errors;
    if (bodiless || err->pointer[0] == '\0')
        return NULL;
    return json_pack("[o]", api_problem_entry(err));
}

static int problem_status(const struct pod_err *err,
                          const struct api_problem *more)
{
    return more->status > 0 ? more->status : pod_reason_status(err->reason);
}

static json_t *problem_limit(const struct pod_err *err)
{
    char numbers[2][24];

    (void)snprintf(numbers[0], sizeof(numbers[0]), "%" PRIu64, err->used);
    (void)snprintf(numbers[1], sizeof(numbers[1]), "%" PRIu64, err->max);
    return json_pack("{s:s, s:s, s:s}", "limit", err->limit, "used", numbers[0],
                     "max", numbers[1]);
}

// The metadata with the place in a text, or NULL if there is neither.
static json_t *problem_metadata(const struct api_request *req,
                                const struct pod_err *err,
                                const struct api_problem *more)
{
    json_t *metadata = more->metadata;
    char number[16];

    if (metadata == NULL && err->limit != NULL)
        metadata = problem_limit(err);
    if (metadata == NULL && req != NULL)
        metadata = api_body_metadata(req, err);
    if (err->line <= 0)
        return metadata;
    if (metadata == NULL)
        metadata = json_object();
    (void)snprintf(number, sizeof(number), "%d", err->line);
    (void)json_object_set_new(metadata, "line", json_string(number));
    (void)snprintf(number, sizeof(number), "%d", err->column);
    (void)json_object_set_new(metadata, "column", json_string(number));
    return metadata;
}

json_t *api_problem_json(const struct api_request *req, const char *target,
                         const char *id, const struct pod_err *err,
                         const struct api_problem *more)
{
    const char *reason = more->reason_name != NULL
                             ? more->reason_name
                             : pod_reason_name(err->reason);
    int status = problem_status(err, more);

    return json_pack(
        "{s:s+, s:s, s:i, s:o, s:o, s:s, s:s, s:b, s:s, s:o*, s:o*}", "type",
        "urn:podd:problem:", reason, "title", api_status_text(status), "status",
        status, "detail", api_json_text(err->text), "instance",
        api_json_text(target), "code", pod_code_name(err->code), "reason",
        reason, "retryable", (int)pod_reason_retryable(err->reason),
        "request_id", id, "errors", problem_errors(req, err, more), "metadata",
        problem_metadata(req, err, more));
}

static void problem_headers(struct api_request *req, int status,
                            const struct api_problem *more)
{
    unsigned seconds = more->retry_after_s;

    if (seconds == 0 && (status == 429 || status == 503))
        seconds = 1;
    if (seconds > 0)
        api_header(req, "Retry-After", "%u", seconds);
    if (more->close)
        req->close = true;
}

void api_problem_with(struct api_request *req, const struct pod_err *err,
                      struct api_problem *more)
{
    struct api_problem none = {.status = 0};

    if (more == NULL)
        more = &none;
    int status = problem_status(err, more);
    json_t *json = api_problem_json(req, req->target, req->id, err, more);
    problem_headers(req, status, more);
    api_header(req, "Content-Type", "application/problem+json");
    api_reply_json(req, status, json);
}

void api_problem(struct api_request *req, const struct pod_err *err)
{
    api_problem_with(req, err, NULL);
}
