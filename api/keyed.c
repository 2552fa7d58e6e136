// SPDX-License-Identifier: Apache-2.0
#include "api/keyed.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <nettle/sha2.h>

#include "api/http_internal.h"
#include "api/idempotency.h"
#include "core/base/clock.h"

enum { KEYED_MAX_BYTES = 255, KEYED_HEADERS_MAX = 16 };

struct api_keyed {
    struct api_request *req;
    uint8_t name[API_KEY_DIGEST_BYTES];
    uint8_t head[API_KEY_DIGEST_BYTES];
    uint8_t body[API_KEY_DIGEST_BYTES];
    struct sha256_ctx digest;  // of the body as it arrives
    uint64_t expected;         // bytes of the body that was answered before
    bool replays;              // answered before the body came
    bool waits;                // for an equal request in flight
    struct pod_list link;      // among the waiters
    struct api_answer *answer; // of the first request: its record in flight
    struct pod_blob *content;  // of its reply
    bool lost;                 // there was no memory for that
};

// -------------------------------------------------------------------- names

static void keyed_put(struct sha256_ctx *digest, const char *text)
{
    sha256_update(digest, strlen(text) + 1, (const uint8_t *)text);
}

// The method, path, query, type and place; of the query all but `wait`, which
// says how the client waits and not what it asks for.
static void keyed_head(struct api_request *req, uint8_t *out)
{
    const char *range = api_request_header(req, "Content-Range");
    struct sha256_ctx digest;

    sha256_init(&digest);
    keyed_put(&digest, req->method_text);
    keyed_put(&digest, req->path);
    for (size_t i = 0; i < req->parameter_count; i++) {
        if (strcmp(req->parameters[i].name, "wait") == 0)
            continue;
        keyed_put(&digest, "&");
        keyed_put(&digest, req->parameters[i].name);
        keyed_put(&digest, req->parameters[i].value);
    }
    keyed_put(&digest, "");
    keyed_put(&digest, req->body.type);
    keyed_put(&digest, range != NULL ? range : "");
    sha256_digest(&digest, API_KEY_DIGEST_BYTES, out);
}

static void keyed_name(const struct api_request *req, const char *key,
                       size_t length, uint8_t *out)
{
    const struct api_server *server = req->server;
    struct sha256_ctx digest;

    sha256_init(&digest);
    sha256_update(&digest, sizeof(server->key_secret), server->key_secret);
    keyed_put(&digest, api_identity(req));
    sha256_update(&digest, length, (const uint8_t *)key);
    sha256_digest(&digest, API_KEY_DIGEST_BYTES, out);
}

struct keyed_given {
    unsigned count;
    const char *value;
};

static enum MHD_Result keyed_header(void *arg, enum MHD_ValueKind kind,
                                    const char *name, const char *value)
{
    struct keyed_given *given = arg;

    (void)kind;
    if (strcasecmp(name, "Idempotency-Key") == 0) {
        given->count++;
        given->value = value != NULL ? value : "";
    }
    return MHD_YES;
}

// A key written as a structured field ("..." with quotes) is the same key.
static enum pod_code keyed_check(const char **key, size_t *out_length,
                                 struct pod_err *err)
{
    size_t length = strlen(*key);

    if (length >= 2 && (*key)[0] == '"' && (*key)[length - 1] == '"') {
        ++*key;
        length -= 2;
    }
    bool fit = length >= 1 && length <= KEYED_MAX_BYTES;
    for (size_t i = 0; fit && i < length; i++)
        fit = (*key)[i] >= ' ' && (*key)[i] <= '~';
    *out_length = length;
    if (fit)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                       "Idempotency-Key must be 1 to %d printable characters",
                       KEYED_MAX_BYTES);
}

static enum pod_code keyed_reused(struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_IDEMPOTENCY_KEY_REUSED,
                       "the Idempotency-Key was used for another request");
}

static struct api_answer *keyed_find(const struct api_request *req)
{
    return api_answers_find(req->server->answers, req->keyed->name,
                            req->server->now_ns);
}

static bool keyed_same(const uint8_t *a, const uint8_t *b)
{
    return memcmp(a, b, API_KEY_DIGEST_BYTES) == 0;
}

static bool keyed_length_fits(const struct api_request *req)
{
    uint64_t declared =
        req->body.declared > 0 ? (uint64_t)req->body.declared : 0;

    return req->body.chunked || declared == req->keyed->expected;
}

enum pod_code api_keyed_headers(struct api_request *req, struct pod_err *err)
{
    struct keyed_given given = {.count = 0};
    size_t length = 0;

    if (req->match.route->scope < API_SCOPE_WRITE)
        return POD_OK;
    (void)MHD_get_connection_values(req->connection, MHD_HEADER_KIND,
                                    keyed_header, &given);
    if (given.count == 0)
        return POD_OK;
    if (given.count > 1)
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "Idempotency-Key is given twice");
    enum pod_code code = keyed_check(&given.value, &length, err);
    if (code != POD_OK)
        return code;
    struct api_keyed *keyed = api_alloc(req, sizeof(*keyed));
    if (keyed == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for the Idempotency-Key");
    keyed->req = req;
    pod_list_init(&keyed->link);
    sha256_init(&keyed->digest);
    keyed_name(req, given.value, length, keyed->name);
    keyed_head(req, keyed->head);
    req->keyed = keyed;
    const struct api_answer *answer = keyed_find(req);
    if (answer == NULL)
        return POD_OK;
    keyed->replays = answer->done;
    keyed->expected = answer->body_bytes;
    if (!keyed_same(answer->head, keyed->head) ||
        (answer->done && !keyed_length_fits(req)))
        return keyed_reused(err);
    return POD_OK;
}

bool api_keyed_replays(const struct api_request *req)
{
    return req->keyed != NULL && req->keyed->replays;
}

enum pod_code api_keyed_update(struct api_request *req, const void *data,
                               size_t size, struct pod_err *err)
{
    struct api_keyed *keyed = req->keyed;

    if (keyed == NULL)
        return POD_OK;
    sha256_update(&keyed->digest, size, data);
    if (!keyed->replays)
        return POD_OK;
    req->body.received += size; // what its least rate is measured by
    return req->body.received <= keyed->expected ? POD_OK : keyed_reused(err);
}

// ---------------------------------------------------------------- answering

static void keyed_replay(struct api_request *req,
                         const struct api_answer *answer)
{
    const char *type = NULL;

    for (size_t i = answer->header_count; i-- > 0;) {
        const struct api_answer_header *header = &answer->headers[i];
        const char *name = api_strdup(req, header->name);
        if (name != NULL)
            api_header(req, name, "%s", header->value);
        if (strcasecmp(header->name, "Content-Type") == 0)
            type = header->value;
    }
    api_header(req, "Idempotency-Replayed", "true");
    if (answer->content == NULL)
        api_reply_empty(req, answer->status);
    else
        api_reply_blobs(req, answer->status, type, NULL, &answer->content, 1, 0,
                        answer->content->size);
}

static void keyed_problem(struct api_request *req, enum pod_reason reason,
                          const char *text)
{
    struct pod_err err;

    (void)pod_err_set(&err, reason, "%s", text);
    api_problem(req, &err);
}

static void keyed_resume(struct api_request *req, enum api_wake why);

static void keyed_wait(struct api_request *req, struct api_answer *answer)
{
    struct pod_err err;

    if (api_park(req, POD_NEVER, keyed_resume, &err) != POD_OK) {
        api_problem(req, &err);
        return;
    }
    req->keyed->waits = true;
    pod_list_push_back(&answer->waiters, &req->keyed->link);
}

// True: the request is the first of its key.
static bool keyed_take(struct api_request *req)
{
    struct api_keyed *keyed = req->keyed;
    struct api_answer *answer = keyed_find(req);

    if (answer == NULL && !keyed->replays) {
        keyed->answer = api_answers_begin(req->server->answers, keyed->name,
                                          keyed->head, keyed->body);
        if (keyed->answer != NULL) {
            keyed->answer->body_bytes = req->body.received;
            return true;
        }
        keyed_problem(req, POD_REASON_OUT_OF_MEMORY, "no memory for the key");
    } else if (answer == NULL) {
        // Forgotten while the body came, which was not kept.
        keyed_problem(
            req, POD_REASON_IDEMPOTENCY_IN_PROGRESS,
            "the first answer has just expired: send the request again");
    } else if (!keyed_same(answer->head, keyed->head) ||
               !keyed_same(answer->body, keyed->body)) {
        struct pod_err err;
        (void)keyed_reused(&err);
        api_problem(req, &err);
    } else if (answer->done && answer->status == API_ANSWER_LOST) {
        keyed_problem(req, POD_REASON_IDEMPOTENCY_ANSWER_LOST,
                      "the first request was carried out, but its answer could "
                      "not be kept: look for what it made");
    } else if (answer->done) {
        keyed_replay(req, answer);
    } else {
        keyed_wait(req, answer);
    }
    return false;
}

static void keyed_resume(struct api_request *req, enum api_wake why)
{
    struct api_keyed *keyed = req->keyed;

    keyed->waits = false;
    pod_list_remove(&keyed->link);
    const struct api_answer *answer = keyed_find(req);
    if (why == API_WAKE_TIMEOUT && answer != NULL && !answer->done)
        keyed_problem(req, POD_REASON_IDEMPOTENCY_IN_PROGRESS,
                      "an equal request is still waiting for its answer");
    else if (keyed_take(req))
        req->match.route->handle(req);
}

bool api_keyed_begin(struct api_request *req)
{
    if (req->keyed == NULL)
        return true;
    sha256_digest(&req->keyed->digest, API_KEY_DIGEST_BYTES, req->keyed->body);
    return keyed_take(req);
}

bool api_keyed_waits(const struct api_request *req)
{
    return req->keyed != NULL && req->keyed->waits;
}

// ------------------------------------------------------------------ keeping

bool api_keyed_is_first(const struct api_request *req)
{
    return req->keyed != NULL && req->keyed->answer != NULL;
}

// Takes the headers set so far, the last of a name only. More than there is
// room for is no answer of ours.
static size_t keyed_headers(const struct api_request *req,
                            struct api_answer_header *out)
{
    size_t count = 0;

    for (const struct api_reply_header *h = req->headers; h; h = h->next) {
        bool known = count == KEYED_HEADERS_MAX;
        for (size_t i = 0; i < count && !known; i++)
            known = strcasecmp(out[i].name, h->name) == 0;
        if (!known)
            out[count++] = (struct api_answer_header){h->name, h->value};
    }
    return count;
}

// Without memory the answer that is there already stays. If there is none it
// is lost, and the key says so: forgetting it would make a second operation.
static void keyed_set(struct api_request *req, int status,
                      struct pod_blob *content, bool no_memory)
{
    struct api_answer_header headers[KEYED_HEADERS_MAX];
    size_t count = keyed_headers(req, headers);

    if (no_memory ||
        !api_answer_set(req->keyed->answer, status, headers, count, content))
        api_keyed_made(req);
}

static struct pod_blob *keyed_blob(const void *bytes, size_t length)
{
    struct pod_blob *blob = pod_blob_new(length);

    if (blob != NULL)
        memcpy(blob->data, bytes, length);
    return blob;
}

void api_keyed_content(struct api_request *req, const void *bytes,
                       size_t length)
{
    if (!api_keyed_is_first(req) || req->response != NULL)
        return;
    req->keyed->content = keyed_blob(bytes, length);
    req->keyed->lost = req->keyed->content == NULL;
}

void api_keyed_made(struct api_request *req)
{
    if (api_keyed_is_first(req) && req->keyed->answer->status == 0)
        req->keyed->answer->status = API_ANSWER_LOST;
}

// A body of JSON; takes the value over. NULL: no memory, or no value.
static struct pod_blob *keyed_json_blob(json_t *owned)
{
    char *text = owned != NULL ? json_dumps(owned, JSON_COMPACT) : NULL;
    struct pod_blob *content = NULL;

    json_decref(owned);
    if (text != NULL) {
        size_t length = strlen(text);
        text[length] = '\n';
        content = keyed_blob(text, length + 1);
    }
    free(text);
    return content;
}

void api_keyed_accepted_text(struct api_request *req, int status,
                             struct pod_blob *text)
{
    if (!api_keyed_is_first(req))
        return;
    api_header(req, "Content-Type", "application/json");
    keyed_set(req, status, text, text == NULL);
}

void api_keyed_accepted(struct api_request *req, int status, json_t *owned)
{
    struct pod_blob *content = keyed_json_blob(owned);

    api_keyed_accepted_text(req, status, content);
    pod_blob_unref(content);
}

// Lets the waiters look again.
static void keyed_close(struct api_server *server, struct api_answer *answer)
{
    struct pod_list *item;

    while ((item = pod_list_pop_front(&answer->waiters)) != NULL)
        api_wake(POD_CONTAINER(item, struct api_keyed, link)->req);
    api_answers_end(server->answers, answer, server->now_ns);
}

struct api_answer *api_keyed_leave(struct api_request *req)
{
    struct api_answer *answer =
        api_keyed_is_first(req) ? req->keyed->answer : NULL;

    if (answer != NULL)
        req->keyed->answer = NULL;
    return answer;
}

void api_keyed_late(struct api_server *server, struct api_answer *answer,
                    int status, const char *location, json_t *owned)
{
    const struct api_answer_header headers[] = {
        {"Location", location}, {"Content-Type", "application/json"}};
    struct pod_blob *content = keyed_json_blob(owned);

    if (status != 0 && (content == NULL ||
                        !api_answer_set(answer, status, headers, 2, content)))
        answer->status = API_ANSWER_LOST;
    pod_blob_unref(content);
    keyed_close(server, answer);
}

// The request has nothing to do with its key any more.
static void keyed_end(struct api_request *req)
{
    keyed_close(req->server, req->keyed->answer);
    req->keyed->answer = NULL;
    pod_blob_unref(req->keyed->content);
    req->keyed->content = NULL;
}

void api_keyed_end(struct api_request *req)
{
    if (!api_keyed_is_first(req))
        return;
    if (req->status >= 200 && req->status < 300)
        keyed_set(req, req->status, req->keyed->content, req->keyed->lost);
    keyed_end(req);
}

void api_keyed_fini(struct api_request *req)
{
    if (req->keyed == NULL)
        return;
    pod_list_remove(&req->keyed->link);
    if (api_keyed_is_first(req))
        keyed_end(req);
}
