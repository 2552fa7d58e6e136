// SPDX-License-Identifier: Apache-2.0
#include "api/body.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/http_internal.h"
#include "api/json.h"

enum { BODY_FIRST_BYTES = 64 * 1024 };

static const char body_curl_hint[] =
    "send the header Content-Type: application/json (curl: -H "
    "'Content-Type: application/json')";

void api_body_want(struct api_request *req, enum api_body_kind kind)
{
    req->body.kind = kind;
}

void api_body_exactly(struct api_request *req, uint64_t length)
{
    req->body.exactly = length;
}

void api_body_pieces(struct api_request *req, api_piece_fn *take)
{
    req->body.kind = API_BODY_PIECES;
    req->body.take = take;
}

char *api_body_take_text(struct api_request *req, size_t *out_length)
{
    *out_length = req->body.text.length;
    return pod_str_take(&req->body.text);
}

const char *api_body_type(const struct api_request *req)
{
    return req->body.type;
}

json_t *api_body_json(const struct api_request *req)
{
    return req->body.json;
}

struct pod_blob *api_body_blob(const struct api_request *req)
{
    return req->body.blob;
}

bool api_body_expected(const struct api_request *req)
{
    return req->body.chunked || req->body.declared > 0;
}

static bool body_is_json(const struct api_request *req)
{
    return req->body.kind == API_BODY_JSON || req->body.kind == API_BODY_TEXT ||
           req->body.kind == API_BODY_OPTIONAL_JSON;
}

// Framing was checked by the guard: the length has digits only.
void api_body_init(struct api_request *req)
{
    const char *length = api_request_header(req, "Content-Length");
    const char *type = api_request_header(req, "Content-Type");
    struct api_body *body = &req->body;

    body->chunked = api_request_header(req, "Transfer-Encoding") != NULL;
    body->declared = length != NULL ? strtoll(length, NULL, 10) : -1;
    body->exactly = UINT64_MAX;
    if (type == NULL)
        return;
    size_t end = strcspn(type, "; \t");
    for (size_t i = 0; i < end && i + 1 < sizeof(body->type); i++)
        body->type[i] = (char)tolower((unsigned char)type[i]);
}

void api_body_fini(struct api_request *req)
{
    struct api_body *body = &req->body;

    pod_str_fini(&body->text);
    req->server->json_held -= body->json_held;
    body->json_held = 0;
    api_memory_fini(&body->json_memory);
    body->json = NULL;
    pod_blob_unref(body->blob);
    body->blob = NULL;
}

// ------------------------------------------------------------------- budgets

json_t *api_body_metadata(const struct api_request *req,
                          const struct pod_err *err)
{
    const struct api_budget *staging = &req->server->staging;
    uint64_t used = 0;
    uint64_t max = 0;
    char numbers[2][24];

    if (err->reason != POD_REASON_STAGING_FULL || staging->usage == NULL)
        return NULL;
    staging->usage(staging->arg, &used, &max);
    (void)snprintf(numbers[0], sizeof(numbers[0]), "%" PRIu64, used);
    (void)snprintf(numbers[1], sizeof(numbers[1]), "%" PRIu64, max);
    return json_pack("{s:s, s:s, s:s}", "limit", "staging-bytes", "used",
                     numbers[0], "max", numbers[1]);
}

static enum pod_code body_too_large(uint64_t limit, const char *what,
                                    struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_BODY_TOO_LARGE,
                       "the body is larger than the limit of %" PRIu64
                       " bytes (%s)",
                       limit, what);
}

static enum pod_code body_staging_full(uint64_t used, uint64_t max,
                                       struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_STAGING_FULL,
                       "the staging budget is full: %" PRIu64 " of %" PRIu64
                       " bytes are used",
                       used, max);
}

static enum pod_code body_no_memory(uint64_t bytes, struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                       "no memory for a body of %" PRIu64 " bytes", bytes);
}

// A blob of the budget's, or the refusal.
static enum pod_code body_blob_new(struct api_request *req, uint64_t bytes,
                                   struct pod_blob **out_blob,
                                   struct pod_err *err)
{
    const struct api_budget *staging = &req->server->staging;
    uint64_t used = 0;
    uint64_t max = UINT64_MAX;

    if (staging->usage != NULL)
        staging->usage(staging->arg, &used, &max);
    if (bytes > max)
        return body_too_large(max, "staging-bytes; send parts", err);
    if (staging->take != NULL && !staging->take(staging->arg, (size_t)bytes))
        return body_staging_full(used, max, err);
    struct pod_blob *blob = pod_blob_new((size_t)bytes);
    if (blob == NULL) {
        if (staging->give != NULL)
            staging->give(staging->arg, (size_t)bytes);
        return body_no_memory(bytes, err);
    }
    blob->on_free = staging->give;
    blob->arg = staging->arg;
    *out_blob = blob;
    return POD_OK;
}

// Counts `more` bytes of JSON against what the server may hold.
static enum pod_code body_hold_json(struct api_request *req, size_t more,
                                    struct pod_err *err)
{
    struct api_server *server = req->server;

    if (more > server->limits.json_total_bytes - server->json_held)
        return pod_err_limit(err, POD_REASON_TOO_MANY_REQUESTS, "json-bytes",
                             server->json_held,
                             server->limits.json_total_bytes);
    server->json_held += more;
    req->body.json_held += more;
    return POD_OK;
}

// ------------------------------------------------------------------- admission

static size_t body_json_limit(const struct api_request *req)
{
    size_t own = req->match.route->json_bytes;
    return own > 0 ? own : req->server->limits.json_bytes;
}

static bool body_charset_is_utf8(const char *type)
{
    const char *charset = strcasestr(type, "charset=");

    if (charset == NULL)
        return true;
    charset += strlen("charset=");
    charset += *charset == '"';
    size_t length = strcspn(charset, "\"; \t");
    return (length == 5 && strncasecmp(charset, "utf-8", 5) == 0) ||
           (length == 4 && strncasecmp(charset, "utf8", 4) == 0);
}

static enum pod_code body_admit_json(struct api_request *req,
                                     struct pod_err *err)
{
    const char *type = api_request_header(req, "Content-Type");
    uint64_t limit = body_json_limit(req);

    if (!api_body_expected(req) && req->body.kind == API_BODY_OPTIONAL_JSON)
        return POD_OK;
    if (type == NULL)
        return pod_err_set(err, POD_REASON_UNSUPPORTED_TYPE,
                           "Content-Type is missing: %s", body_curl_hint);
    if (strcmp(req->body.type, "application/json") != 0)
        return pod_err_set(err, POD_REASON_UNSUPPORTED_TYPE,
                           "Content-Type \"%.64s\" is not accepted here: %s",
                           type, body_curl_hint);
    if (!body_charset_is_utf8(type))
        return pod_err_set(err, POD_REASON_UNSUPPORTED_TYPE,
                           "JSON must be in UTF-8, not in \"%.64s\"", type);
    if (!api_body_expected(req))
        return pod_err_set(err, POD_REASON_EMPTY_BODY,
                           "the body is empty; a JSON object is expected");
    if (req->body.declared > 0 && (uint64_t)req->body.declared > limit)
        return body_too_large(limit, "JSON", err);
    return req->body.declared > 0
               ? body_hold_json(req, (size_t)req->body.declared, err)
               : POD_OK;
}

static enum pod_code body_wrong_length(const struct api_request *req,
                                       uint64_t length, struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_BAD_LENGTH,
                       "the body has %s%" PRIu64 " bytes, not the %" PRIu64
                       " that are expected",
                       length > req->body.exactly ? "at least " : "", length,
                       req->body.exactly);
}

static enum pod_code body_admit_data(struct api_request *req,
                                     struct pod_err *err)
{
    struct api_body *body = &req->body;
    uint64_t size = body->declared > 0 ? (uint64_t)body->declared : 0;

    if (!body->chunked && body->exactly != UINT64_MAX && size != body->exactly)
        return body_wrong_length(req, size, err);
    if (body->chunked && body->exactly != UINT64_MAX)
        size = body->exactly;
    return body_blob_new(req, size, &body->blob, err);
}

enum pod_code api_body_admit(struct api_request *req, struct pod_err *err)
{
    const char *encoding = api_request_header(req, "Content-Encoding");

    if (req->body.kind == API_BODY_NONE && api_body_expected(req))
        return pod_err_set(err, POD_REASON_BAD_LENGTH,
                           "this request takes no body");
    if (encoding != NULL && strcasecmp(encoding, "identity") != 0)
        return pod_err_set(err, POD_REASON_UNSUPPORTED_TYPE,
                           "Content-Encoding \"%.32s\" is not supported",
                           encoding);
    if (body_is_json(req))
        return body_admit_json(req, err);
    return req->body.kind == API_BODY_DATA ? body_admit_data(req, err) : POD_OK;
}

// ------------------------------------------------------------------- receiving

static enum pod_code body_append_json(struct api_request *req, const char *data,
                                      size_t size, struct pod_err *err)
{
    struct api_body *body = &req->body;
    size_t limit = body_json_limit(req);

    if (size > limit - body->text.length)
        return body_too_large(limit, "JSON", err);
    if (body->text.length + size > body->json_held) {
        size_t more = body->text.length + size - body->json_held;
        enum pod_code code = body_hold_json(req, more, err);
        if (code != POD_OK)
            return code;
    }
    pod_str_append(&body->text, data, size);
    if (body->text.failed)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for the body");
    return POD_OK;
}

// Takes what a body needs more of the budget: generously, else exactly.
static bool body_take_more(struct api_request *req, uint64_t have,
                           uint64_t need, uint64_t *capacity)
{
    const struct api_budget *staging = &req->server->staging;

    if (staging->take == NULL ||
        staging->take(staging->arg, (size_t)(*capacity - have)))
        return true;
    *capacity = need;
    return staging->take(staging->arg, (size_t)(need - have));
}

// Makes room for a chunked body whose length nobody said. The new blob takes
// over what the old one had of the budget.
static enum pod_code body_grow(struct api_request *req, uint64_t need,
                               struct pod_err *err)
{
    struct api_body *body = &req->body;
    const struct api_budget *staging = &req->server->staging;
    uint64_t have = body->blob->size;
    uint64_t used = 0;
    uint64_t max = UINT64_MAX;
    uint64_t capacity = have < BODY_FIRST_BYTES ? BODY_FIRST_BYTES : have * 2;

    if (staging->usage != NULL)
        staging->usage(staging->arg, &used, &max);
    if (need > max)
        return body_too_large(max, "staging-bytes; send parts", err);
    capacity = capacity > need ? capacity : need;
    capacity = capacity < max ? capacity : max;
    if (!body_take_more(req, have, need, &capacity))
        return body_staging_full(used, max, err);
    struct pod_blob *larger = pod_blob_new((size_t)capacity);
    if (larger == NULL) {
        if (staging->give != NULL)
            staging->give(staging->arg, (size_t)(capacity - have));
        return body_no_memory(capacity, err);
    }
    memcpy(larger->data, body->blob->data, (size_t)body->blob_used);
    larger->on_free = staging->give;
    larger->arg = staging->arg;
    body->blob->on_free = NULL;
    pod_blob_unref(body->blob);
    body->blob = larger;
    return POD_OK;
}

static enum pod_code body_append_data(struct api_request *req, const char *data,
                                      size_t size, struct pod_err *err)
{
    struct api_body *body = &req->body;
    uint64_t need = body->blob_used + size;

    if (need > body->exactly)
        return body_wrong_length(req, need, err);
    if (need > body->blob->size) {
        enum pod_code code = body_grow(req, need, err);
        if (code != POD_OK)
            return code;
    }
    memcpy(body->blob->data + body->blob_used, data, size);
    body->blob_used = need;
    return POD_OK;
}

enum pod_code api_body_append(struct api_request *req, const char *data,
                              size_t size, struct pod_err *err)
{
    req->body.received += size;
    if (body_is_json(req))
        return body_append_json(req, data, size, err);
    if (req->body.kind == API_BODY_DATA)
        return body_append_data(req, data, size, err);
    if (req->body.kind == API_BODY_PIECES)
        return req->body.take(req, data, size, err);
    return POD_OK;
}

static enum pod_code body_finish_json(struct api_request *req,
                                      struct pod_err *err)
{
    struct api_body *body = &req->body;
    const struct api_limits *limits = &req->server->limits;
    size_t values = req->match.route->json_values;
    struct api_json_limits json_limits = {
        .depth = limits->json_depth,
        .values = values > 0 ? values : limits->json_values};

    if (body->text.length == 0 && body->kind == API_BODY_OPTIONAL_JSON)
        return POD_OK;
    if (body->text.length == 0)
        return pod_err_set(err, POD_REASON_EMPTY_BODY,
                           "the body is empty; a JSON object is expected");
    if (body->kind == API_BODY_TEXT)
        return POD_OK;
    enum pod_code code =
        api_json_parse(body->text.data, body->text.length, &json_limits,
                       &body->json_memory, &body->json, err);
    pod_str_fini(&body->text);
    if (code == POD_OK && !json_is_object(body->json))
        code = api_json_wrong_type(body->json, "the body", "an object", err);
    return code;
}

enum pod_code api_body_finish(struct api_request *req, struct pod_err *err)
{
    struct api_body *body = &req->body;

    if (body_is_json(req))
        return body_finish_json(req, err);
    if (body->kind != API_BODY_DATA)
        return POD_OK;
    if (body->exactly != UINT64_MAX && body->blob_used != body->exactly)
        return body_wrong_length(req, body->blob_used, err);
    // The budget gets back what a growing body took ahead.
    size_t spare = body->blob->size - (size_t)body->blob_used;
    if (spare > 0 && body->blob->on_free != NULL)
        body->blob->on_free(body->blob->arg, spare);
    body->blob->size = (size_t)body->blob_used;
    return POD_OK;
}
