// SPDX-License-Identifier: Apache-2.0
// What handlers see of a request: memory that goes with it, and what it is.
#include <string.h>
#include <strings.h>

#include "api/http_internal.h"
#include "core/base/mem.h"
#include "core/base/str.h"

// -------------------------------------------------------------------- memory

void *api_alloc(struct api_request *req, size_t bytes)
{
    size_t align = _Alignof(max_align_t);
    size_t rounded;

    if (__builtin_add_overflow(bytes, align - 1, &rounded))
        return NULL;
    rounded &= ~(align - 1);
    if (rounded <= sizeof(req->arena) - req->arena_used) {
        void *block = req->arena + req->arena_used;
        req->arena_used += rounded;
        return memset(block, 0, bytes);
    }
    size_t head = (sizeof(struct api_arena_chunk) + align - 1) & ~(align - 1);
    if (__builtin_add_overflow(rounded, head, &rounded))
        return NULL;
    struct api_arena_chunk *chunk = pod_calloc(1, rounded);
    if (chunk == NULL)
        return NULL;
    chunk->next = req->chunks;
    req->chunks = chunk;
    return (unsigned char *)chunk + head;
}

char *api_strdup(struct api_request *req, const char *text)
{
    size_t length = strlen(text);
    char *copy = api_alloc(req, length + 1);

    return copy != NULL ? memcpy(copy, text, length) : NULL;
}

bool api_defer(struct api_request *req, void (*cleanup)(void *arg), void *arg)
{
    struct api_cleanup *entry = api_alloc(req, sizeof(*entry));

    if (entry == NULL) {
        cleanup(arg);
        return false;
    }
    *entry =
        (struct api_cleanup){.run = cleanup, .arg = arg, .next = req->cleanups};
    req->cleanups = entry;
    return true;
}

// ----------------------------------------------------------------- accessors

void *api_app(const struct api_request *req)
{
    return req->server->app;
}

struct api_server *api_server_of(const struct api_request *req)
{
    return req->server;
}

enum api_method api_method(const struct api_request *req)
{
    return req->method;
}

const char *api_target(const struct api_request *req)
{
    return req->target;
}

const char *api_param(const struct api_request *req, size_t index)
{
    return index < req->match.param_count ? req->params[index] : "";
}

// The one header of its name.
struct request_sole {
    const char *name;
    const char *value;
    unsigned count;
};

static enum MHD_Result request_find_sole(void *arg, enum MHD_ValueKind kind,
                                         const char *name, const char *value)
{
    struct request_sole *sole = arg;

    (void)kind;
    if (strcasecmp(name, sole->name) == 0) {
        sole->value = value;
        sole->count++;
    }
    return MHD_YES;
}

struct pod_trace *api_trace(struct api_request *req)
{
    struct request_sole sole = {.name = "traceparent"};

    if (req->trace != NULL)
        return req->trace;
    (void)MHD_get_connection_values(req->connection, MHD_HEADER_KIND,
                                    request_find_sole, &sole);
    req->trace = pod_trace_new(req->id, sole.count == 1 ? sole.value : NULL);
    return req->trace;
}

const char *api_request_header(const struct api_request *req, const char *name)
{
    return MHD_lookup_connection_value(req->connection, MHD_HEADER_KIND, name);
}

struct request_list {
    const char *name;
    struct pod_str text;
    unsigned count;
};

static enum MHD_Result request_find_all(void *arg, enum MHD_ValueKind kind,
                                        const char *name, const char *value)
{
    struct request_list *list = arg;

    (void)kind;
    if (strcasecmp(name, list->name) != 0)
        return MHD_YES;
    if (list->count++ > 0)
        pod_str_puts(&list->text, ", ");
    pod_str_puts(&list->text, value);
    return MHD_YES;
}

enum pod_code api_request_list(struct api_request *req, const char *name,
                               const char **out_list, struct pod_err *err)
{
    struct request_list list = {.name = name};

    (void)MHD_get_connection_values(req->connection,
                                    MHD_HEADER_KIND | MHD_FOOTER_KIND,
                                    request_find_all, &list);
    const char *text = list.text.data != NULL ? list.text.data : "";
    *out_list = NULL;
    if (list.count > 0 && !list.text.failed)
        *out_list = api_strdup(req, text);
    pod_str_fini(&list.text);
    if (list.count > 0 && *out_list == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    return POD_OK;
}

const char *api_identity(const struct api_request *req)
{
    return req->identity;
}

void *api_state(const struct api_request *req)
{
    return req->state;
}

void api_set_state(struct api_request *req, void *state)
{
    req->state = state;
}
