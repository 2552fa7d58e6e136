// SPDX-License-Identifier: Apache-2.0
// Replies made of bytes that are there already.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/http_internal.h"
#include "api/json_memory.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/pod/pod.h"

#define REPLY_JSON_FLAGS (JSON_COMPACT | JSON_ENCODE_ANY)

static void reply_add_header(struct api_request *req, const char *name,
                             const char *owned_value, size_t length)
{
    struct api_reply_header *header = api_alloc(req, sizeof(*header));

    if (owned_value == NULL || header == NULL) {
        pod_log(POD_LOG_ERROR, "http", "no memory for header %s", name);
        return;
    }
    if (pod_text_has_control(owned_value, length)) {
        pod_log(POD_LOG_ERROR, "http", "header %s dropped: control byte", name);
        return;
    }
    *header = (struct api_reply_header){
        .name = name, .value = owned_value, .next = req->headers};
    req->headers = header;
}

void api_header(struct api_request *req, const char *name, const char *format,
                ...)
{
    va_list args;
    char stack[512];

    va_start(args, format);
    int length = vsnprintf(stack, sizeof(stack), format, args);
    va_end(args);
    if (length < 0)
        length = 0;
    char *value = api_alloc(req, (size_t)length + 1);
    if (value != NULL && (size_t)length < sizeof(stack)) {
        memcpy(value, stack, (size_t)length + 1);
    } else if (value != NULL) {
        va_start(args, format);
        (void)vsnprintf(value, (size_t)length + 1, format, args);
        va_end(args);
    }
    reply_add_header(req, name, value, (size_t)length);
}

void api_header_text(struct api_request *req, const char *name,
                     const char *value)
{
    reply_add_header(req, name, api_strdup(req, value), strlen(value));
}

static bool reply_has(const struct api_request *req, const char *name)
{
    for (const struct api_reply_header *h = req->headers; h; h = h->next) {
        if (strcasecmp(h->name, name) == 0)
            return true;
    }
    return false;
}

// The newest of a name wins: it stands first.
static bool reply_is_shadowed(const struct api_request *req,
                              const struct api_reply_header *header)
{
    for (const struct api_reply_header *h = req->headers; h != header;
         h = h->next) {
        if (strcasecmp(h->name, header->name) == 0)
            return true;
    }
    return false;
}

void api_reply_decorate(struct api_request *req)
{
    api_guard_cors(req);
    for (const struct api_reply_header *h = req->headers; h; h = h->next) {
        if (!reply_is_shadowed(req, h))
            (void)MHD_add_response_header(req->response, h->name, h->value);
    }
    (void)MHD_add_response_header(req->response, "X-Request-Id", req->id);
    (void)MHD_add_response_header(req->response, "X-Content-Type-Options",
                                  "nosniff");
    if (!reply_has(req, "Cache-Control"))
        (void)MHD_add_response_header(req->response, "Cache-Control",
                                      "no-store");
    if (req->close || api_server_draining(req->server))
        (void)MHD_add_response_header(req->response, "Connection", "close");
}

// Takes the response over. A second reply is dropped; without a response (no
// memory) the client gets an empty 500.
static void reply_set(struct api_request *req, int status, const char *type,
                      struct MHD_Response *response, uint64_t bytes)
{
    if (req->response != NULL) {
        pod_log(POD_LOG_ERROR, "http", "second reply to %s %s dropped",
                req->method_text, req->path);
        if (response != NULL)
            MHD_destroy_response(response);
        return;
    }
    if (response == NULL) {
        status = 500;
        type = NULL;
        bytes = 0;
        response =
            MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
        req->close = true;
    }
    req->response = response;
    req->status = status;
    req->body_bytes = bytes;
    if (type != NULL && !reply_has(req, "Content-Type"))
        api_header_text(req, "Content-Type", type);
}

// Where an answer is written: the scratch memory, or text that grows once that
// is full, so that a large answer too is written once.
struct reply_text {
    char *scratch;
    size_t room;
    size_t length;
    struct pod_str large; // empty while all fits
};

static int reply_dump(const char *bytes, size_t length, void *arg)
{
    struct reply_text *text = arg;

    if (text->large.data == NULL && length <= text->room - text->length) {
        memcpy(text->scratch + text->length, bytes, length);
        text->length += length;
        return 0;
    }
    if (text->large.data == NULL)
        pod_str_append(&text->large, text->scratch, text->length);
    pod_str_append(&text->large, bytes, length);
    text->length += length;
    return text->large.failed ? -1 : 0;
}

static struct MHD_Response *reply_large(struct api_request *req,
                                        struct pod_str *text)
{
    struct MHD_Response *response = NULL;

    pod_str_puts(text, "\n");
    size_t length = text->length;
    char *bytes = pod_str_take(text);
    if (bytes == NULL)
        return NULL;
    api_keyed_content(req, bytes, length);
    response = MHD_create_response_from_buffer_with_free_callback(length, bytes,
                                                                  pod_free);
    if (response == NULL)
        pod_free(bytes);
    return response;
}

void api_reply_json(struct api_request *req, int status, json_t *owned_json)
{
    struct reply_text text = {.scratch = req->server->scratch,
                              .room = sizeof(req->server->scratch) - 1};
    struct MHD_Response *response = NULL;
    int failed =
        json_dump_callback(owned_json, reply_dump, &text, REPLY_JSON_FLAGS);

    if (failed != 0) {
        pod_log(POD_LOG_ERROR, "http", "no JSON for the answer to %s %s",
                req->method_text, req->target);
    } else if (text.large.data != NULL) {
        response = reply_large(req, &text.large);
    } else {
        text.scratch[text.length] = '\n';
        api_keyed_content(req, text.scratch, text.length + 1);
        response = MHD_create_response_from_buffer(
            text.length + 1, text.scratch, MHD_RESPMEM_MUST_COPY);
    }
    pod_str_fini(&text.large);
    json_decref(owned_json);
    reply_set(req, status, "application/json", response, text.length + 1);
}

void api_reply_made(struct api_request *req, int status,
                    json_t *(*make)(const void *arg), const void *arg)
{
    struct api_memory *memory = &req->server->json;
    struct api_memory *before = api_json_memory_begin(memory);
    json_t *json = make(arg);

    api_json_memory_last(json);
    api_reply_json(req, status, memory->failed ? NULL : json);
    api_json_memory_end(before);
    api_memory_reset(memory);
}

// libmicrohttpd 0.9.75 takes bytes it only reads as void *.
static void *reply_unconst(const void *bytes)
{
    union {
        const void *in;
        void *out;
    } pun = {.in = bytes};
    return pun.out;
}

void api_reply_text(struct api_request *req, int status, const char *type,
                    const char *text, size_t length)
{
    api_keyed_content(req, text, length);
    reply_set(req, status, type,
              MHD_create_response_from_buffer(length, reply_unconst(text),
                                              MHD_RESPMEM_MUST_COPY),
              length);
}

void api_reply_static(struct api_request *req, int status, const char *type,
                      const void *bytes, size_t length)
{
    reply_set(req, status, type,
              MHD_create_response_from_buffer(length, reply_unconst(bytes),
                                              MHD_RESPMEM_PERSISTENT),
              length);
}

void api_reply_empty(struct api_request *req, int status)
{
    reply_set(req, status, NULL,
              MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT),
              0);
}

static ssize_t reply_no_bytes(void *arg, uint64_t at, char *out, size_t max)
{
    (void)arg;
    (void)at;
    (void)out;
    (void)max;
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

void api_reply_head(struct api_request *req, int status, const char *type,
                    uint64_t length)
{
    reply_set(req, status, type,
              MHD_create_response_from_callback(length, 64, reply_no_bytes,
                                                NULL, NULL),
              0);
}

// ------------------------------------------------------------------- blobs

// What a response of blobs holds until it has left.
struct reply_blobs {
    size_t count;
    struct pod_blob *blobs[];
};

static void reply_blobs_free(void *arg)
{
    struct reply_blobs *held = arg;

    for (size_t i = 0; i < held->count; i++)
        pod_blob_unref(held->blobs[i]);
    pod_free(held);
}

// Lays the wanted bytes of the chunks out as vectors; returns how many.
static size_t reply_slice(struct pod_blob *const *chunks, size_t count,
                          uint64_t offset, uint64_t length,
                          struct MHD_IoVec *vectors)
{
    size_t used = 0;

    for (size_t i = 0; i < count && length > 0; i++) {
        uint64_t size = chunks[i]->size;
        if (offset >= size) {
            offset -= size;
            continue;
        }
        uint64_t part = size - offset < length ? size - offset : length;
        vectors[used++] = (struct MHD_IoVec){
            .iov_base = chunks[i]->data + offset, .iov_len = (size_t)part};
        length -= part;
        offset = 0;
    }
    return used;
}

static struct MHD_Response *reply_blobs_response(struct pod_blob *prefix,
                                                 struct pod_blob *const *chunks,
                                                 size_t count, uint64_t offset,
                                                 uint64_t length)
{
    struct MHD_Response *response = NULL;
    struct MHD_IoVec *vectors = pod_calloc(count + 1, sizeof(*vectors));
    struct reply_blobs *held =
        pod_calloc(1, sizeof(*held) + (count + 1) * sizeof(held->blobs[0]));

    if (vectors != NULL && held != NULL) {
        size_t used = 0;
        for (size_t i = 0; i < count; i++)
            held->blobs[held->count++] = pod_blob_ref(chunks[i]);
        if (prefix != NULL) {
            held->blobs[held->count++] = pod_blob_ref(prefix);
            vectors[used++] = (struct MHD_IoVec){.iov_base = prefix->data,
                                                 .iov_len = prefix->size};
        }
        used += reply_slice(chunks, count, offset, length, vectors + used);
        response = MHD_create_response_from_iovec(vectors, (unsigned)used,
                                                  reply_blobs_free, held);
    }
    pod_free(vectors);
    if (response == NULL && held != NULL)
        reply_blobs_free(held);
    return response;
}

void api_reply_blobs(struct api_request *req, int status, const char *type,
                     struct pod_blob *prefix, struct pod_blob *const *chunks,
                     size_t count, uint64_t offset, uint64_t length)
{
    reply_set(req, status, type,
              reply_blobs_response(prefix, chunks, count, offset, length),
              length + (prefix != NULL ? prefix->size : 0));
}

// ------------------------------------------------------------------ streams

void api_reply_reader(struct api_request *req, int status, const char *type,
                      uint64_t total, size_t block,
                      MHD_ContentReaderCallback read)
{
    reply_set(req, status, type,
              MHD_create_response_from_callback(total, block, read, req, NULL),
              0);
}

// Copies what the prefix has for this place; 0 if it has nothing.
static size_t reply_from(const struct pod_blob *blob, uint64_t start,
                         uint64_t at, char *out, size_t max)
{
    if (blob == NULL || at < start || at - start >= blob->size)
        return 0;
    size_t skip = (size_t)(at - start);
    size_t size = blob->size - skip < max ? blob->size - skip : max;
    memcpy(out, blob->data + skip, size);
    return size;
}

// Content reader: suspends when nothing is there, for returning 0 without it
// would spin.
static ssize_t reply_stream_read(void *arg, uint64_t at, char *out, size_t max)
{
    struct api_request *req = arg;

    while (!req->abandoned) {
        size_t size = reply_from(req->stream_prefix, 0, at, out, max);
        if (size == 0)
            size = reply_from(req->stream_chunk, req->stream_chunk_start, at,
                              out, max);
        if (size > 0) {
            req->body_bytes = at + size;
            return (ssize_t)size;
        }
        pod_blob_unref(req->stream_chunk);
        req->stream_chunk = NULL;
        switch (pod_stream_pop(req->stream, &req->stream_chunk, NULL)) {
        case POD_STREAM_CHUNK:
            req->stream_chunk_start = at;
            break;
        case POD_STREAM_EMPTY:
            req->stream_starved = true;
            req->woken = false;
            api_suspend(req);
            return 0;
        case POD_STREAM_END:
        case POD_STREAM_FAILED:
            return MHD_CONTENT_READER_END_WITH_ERROR;
        }
    }
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

static void reply_stream_notify(void *arg)
{
    api_wake_from_thread(arg);
}

static void reply_stream_close(void *arg)
{
    struct api_request *req = arg;

    pod_stream_close(req->stream);
    pod_blob_unref(req->stream_chunk);
    pod_blob_unref(req->stream_prefix);
}

struct pod_stream *api_stream_open(struct api_request *req, uint64_t window)
{
    struct pod_stream *stream =
        pod_stream_new(window, reply_stream_notify, req);

    req->stream = stream;
    if (stream != NULL && !api_defer(req, reply_stream_close, req)) {
        // The other end is given up too: nobody will push.
        pod_stream_finish(stream, NULL);
        req->stream = NULL;
    }
    return req->stream;
}

// All bytes in one piece, if that is how they came. Else what has come is
// where reply_stream_read looks first.
static struct pod_blob *reply_take_whole(struct api_request *req,
                                         uint64_t start, uint64_t length)
{
    struct pod_blob *chunk = NULL;

    if (length == 0 ||
        pod_stream_pop(req->stream, &chunk, NULL) != POD_STREAM_CHUNK)
        return NULL;
    if (chunk->size == length)
        return chunk;
    req->stream_chunk = chunk;
    req->stream_chunk_start = start;
    return NULL;
}

bool api_reply_stream(struct api_request *req, int status, const char *type,
                      struct pod_blob *prefix, uint64_t length)
{
    enum { REPLY_BLOCK_BYTES = 256 * 1024 };
    uint64_t start = prefix != NULL ? prefix->size : 0;
    uint64_t total = length + start;
    struct pod_blob *whole = reply_take_whole(req, start, length);

    if (whole != NULL) {
        api_reply_blobs(req, status, type, prefix, &whole, 1, 0, length);
        bool counted = pod_staging_has(whole);
        pod_blob_unref(whole);
        return counted;
    }
    if (prefix != NULL)
        req->stream_prefix = pod_blob_ref(prefix);
    size_t block = total < REPLY_BLOCK_BYTES ? (size_t)total + 1
                                             : (size_t)REPLY_BLOCK_BYTES;
    api_reply_reader(req, status, type, total, block, reply_stream_read);
    return false;
}
