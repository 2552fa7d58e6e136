// SPDX-License-Identifier: Apache-2.0
// /v1/watch: what it is asked for, and its answer as one long-polled page. The
// answers that go on are in feed_stream.c.
#include "api/feed_get.h"

#include <string.h>

#include "api/common.h"
#include "api/handlers.h"
#include "api/park.h"
#include "api/problem.h"
#include "api/query.h"
#include "api/routes.h"
#include "api/server.h"
#include "core/base/str.h"

enum {
    PAGE_MESSAGES = 1000,
    PAGE_BYTES = 1 << 20,
    PAGE_TURNS = 16, // of others, before it is answered without news
};

// ------------------------------------------------------------------ the query

static enum pod_code get_read_topic(const char *name, size_t length,
                                    unsigned *in_out_topics,
                                    struct pod_err *err)
{
    for (unsigned i = 0; i < POD_CHANGE_KIND_COUNT; i++) {
        const char *kind = feed_kind_name((enum pod_change_kind)i);
        size_t bytes = strlen(kind);
        if (length == bytes + 1 && name[bytes] == 's' &&
            memcmp(name, kind, bytes) == 0) {
            *in_out_topics |= 1U << i;
            return POD_OK;
        }
    }
    return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                       "topics: '%.*s' is not one of events, graphs, buffers, "
                       "programs, loads, hosts",
                       (int)pod_utf8_clip(name, length, 64), name);
}

static enum pod_code get_read_topics(struct api_request *req,
                                     unsigned *out_topics, struct pod_err *err)
{
    const char *list = NULL;
    const char *piece = NULL;
    size_t length = 0;
    enum pod_code code = api_query_text(req, "topics", &list, err);

    *out_topics = list == NULL ? (1U << POD_CHANGE_KIND_COUNT) - 1 : 0;
    while (code == POD_OK && list != NULL &&
           api_list_next(&list, &piece, &length))
        code = get_read_topic(piece, length, out_topics, err);
    return code;
}

// Whether the place within a snapshot may be one that was given out.
static bool get_place_is_ours(const struct api_cursor *cursor, uint64_t last)
{
    if (!cursor->snapshot || cursor->stage < FEED_COLLECTIONS)
        return true;
    return cursor->stage == FEED_CURSOR_CATCH_UP && cursor->place <= last &&
           cursor->place >= cursor->sequence;
}

// The head is looked up here, so that a cursor of the future is known as one.
static enum pod_code get_read_cursor(const char *text, const char *where,
                                     struct pod *pod,
                                     struct api_cursor *out_cursor,
                                     struct pod_err *err)
{
    uint64_t last = pod_last_change(pod, false);

    *out_cursor = (struct api_cursor){.sequence = last};
    if (text == NULL || strcmp(text, "now") == 0)
        return POD_OK;
    if (strcmp(text, "snapshot") == 0) {
        out_cursor->snapshot = true;
        return POD_OK;
    }
    if (api_cursor_parse(pod_instance(pod), text, out_cursor) &&
        out_cursor->sequence <= last && get_place_is_ours(out_cursor, last))
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                       "%s: neither now nor snapshot nor a cursor of this pod",
                       where);
}

static enum pod_code get_read_since(struct api_request *req,
                                    struct api_cursor *out_cursor,
                                    struct pod_err *err)
{
    const char *since = NULL;
    const char *last = api_request_header(req, "Last-Event-ID");
    enum pod_code code = api_query_text(req, "since", &since, err);

    if (code != POD_OK)
        return code;
    if (last != NULL && *last != '\0')
        return get_read_cursor(last, "Last-Event-ID", api_pod(req), out_cursor,
                               err);
    return get_read_cursor(since, "since", api_pod(req), out_cursor, err);
}

static enum pod_code get_read(struct api_request *req, struct feed_watch *watch,
                              struct pod_err *err)
{
    struct feed_reader *reader = &watch->reader;
    enum pod_code code = get_read_since(req, &reader->at, err);

    if (code == POD_OK)
        code = get_read_topics(req, &reader->topics, err);
    if (code == POD_OK)
        code = api_query_labels(req, POD_REASON_BAD_PARAMETER, &reader->labels,
                                &reader->label_count, err);
    // Streams wait anyway.
    if (code == POD_OK)
        code = api_wait_time(req, &watch->wait_ns, NULL, err);
    if (code == POD_OK)
        code = api_query_end(req, err);
    return code;
}

// ------------------------------------------------------------------- one page

enum page_state { PAGE_EMPTY, PAGE_NEWS, PAGE_FAILED };

// Collects what there is. FAILED: `err` is set, and nothing was collected.
static enum page_state page_collect(struct feed_watch *watch,
                                    struct pod_str *text, struct pod_err *err)
{
    struct feed_message *message = NULL;
    enum feed_next next = FEED_NEXT_MESSAGE;
    int turns = 0;
    size_t count = 0;

    while (count < PAGE_MESSAGES && text->length < PAGE_BYTES) {
        next = feed_reader_next(&watch->reader, &message);
        if (next == FEED_NEXT_LATER && count == 0 && ++turns < PAGE_TURNS)
            continue;
        if (next != FEED_NEXT_MESSAGE)
            break;
        if (count++ > 0)
            pod_str_puts(text, ",");
        pod_str_append(text, message->text + message->json_start,
                       message->json_length);
        feed_message_unref(message);
    }
    if (count > 0)
        return PAGE_NEWS;
    if (next == FEED_NEXT_EXPIRED)
        (void)pod_err_set(err, POD_REASON_EXPIRED,
                          "since: the changes after this cursor are no longer "
                          "kept; start again with since=snapshot");
    else if (next == FEED_NEXT_NO_MEMORY)
        (void)api_err_memory(err);
    else
        return next == FEED_NEXT_LATER ? PAGE_NEWS : PAGE_EMPTY;
    return PAGE_FAILED;
}

static void page_reply(struct api_request *req, struct feed_watch *watch,
                       struct pod_str *text)
{
    const struct api_cursor place = feed_reader_cursor(&watch->reader);
    char cursor[API_CURSOR_BYTES];
    struct pod_err err;

    pod_str_puts(text, "],\"cursor\":\"");
    pod_str_puts(text,
                 api_cursor_print(pod_instance(api_pod(req)), &place, cursor));
    pod_str_puts(text, "\"}\n");
    if (!text->failed) {
        api_reply_text(req, 200, "application/json", text->data, text->length);
        return;
    }
    (void)api_err_memory(&err);
    api_problem(req, &err);
}

static void page_resume(struct api_request *req, enum api_wake why);

static void page_answer(struct api_request *req, struct feed_watch *watch,
                        bool wait)
{
    struct pod_str text = {.data = NULL};
    struct pod_err err = POD_ERR_NONE;

    feed_reader_stay(&watch->reader);
    pod_str_puts(&text, "{\"changes\":[");
    enum page_state state = page_collect(watch, &text, &err);
    if (state == PAGE_EMPTY && wait) {
        feed_reader_sleep(&watch->reader);
        if (api_park(req, watch->until_ns, page_resume, &err) != POD_OK)
            api_problem(req, &err);
    } else if (state == PAGE_FAILED) {
        api_problem(req, &err);
    } else {
        page_reply(req, watch, &text);
    }
    pod_str_fini(&text);
}

static void page_resume(struct api_request *req, enum api_wake why)
{
    page_answer(req, api_state(req), why == API_WAKE_EVENT);
}

static void page_start(struct api_request *req, struct feed_watch *watch)
{
    watch->until_ns = pod_time_add(api_now(req), watch->wait_ns);
    api_feed_look(watch->reader.feed);
    page_answer(req, watch,
                watch->wait_ns > 0 && !api_server_draining(api_server_of(req)));
}

// ---------------------------------------------------------------- the handler

static void get_end(void *arg)
{
    struct feed_watch *watch = arg;

    feed_message_unref(watch->message);
    feed_reader_fini(&watch->reader);
}

static enum pod_code get_start(struct api_request *req,
                               struct feed_watch *watch, struct pod_err *err)
{
    struct api_app *app = api_app(req);
    enum pod_code code = get_read(req, watch, err);

    if (code == POD_OK && watch->form != FEED_PAGE &&
        api_method(req) != API_HEAD)
        code = api_live_admit(req, err);
    if (code != POD_OK)
        return code;
    if (!feed_reader_init(&watch->reader, &app->feed, req))
        return api_err_memory(err);
    api_set_state(req, watch);
    return api_defer(req, get_end, watch) ? POD_OK : api_err_memory(err);
}

void api_feed_get(struct api_request *req)
{
    static const char *const types[] = {
        "application/x-ndjson", "text/event-stream", "application/json"};
    struct pod_err err = POD_ERR_NONE;
    struct feed_watch *watch = api_alloc(req, sizeof(*watch));
    int form = api_accept(req, types, 3);
    enum pod_code code;

    if (watch == NULL) {
        code = api_err_memory(&err);
    } else {
        // As all JSON, it comes even if none of the three was asked for.
        watch->form = form < 0 ? FEED_LINES : (enum feed_form)form;
        code = get_start(req, watch, &err);
    }
    if (code != POD_OK)
        api_problem(req, &err);
    else if (watch->form == FEED_PAGE)
        page_start(req, watch);
    else
        feed_stream_start(req, watch, types[watch->form]);
}
