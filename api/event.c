// SPDX-License-Identifier: Apache-2.0
// /v1/events/{op}: one operation: reading and waiting, cancelling, and its
// neighbours.
#include <inttypes.h>
#include <stdio.h>

#include "api/body.h"
#include "api/build.h"
#include "api/common.h"
#include "api/handlers.h"
#include "api/page.h"
#include "api/page_token.h"
#include "api/park.h"
#include "api/query.h"
#include "api/view_json.h"
#include "api/watch.h"

// ---------------------------------------------------------------- long-poll

// A reader of one event, from its first look on.
struct event_reader {
    struct api_waiter waiter;
    uint64_t revision; // at the first look
    bool looked;
    bool conditional; // the client has the event as it was at the first look
};

static void event_resume(struct api_request *req, enum api_wake why);

static void event_reply(struct api_request *req,
                        const struct event_reader *reader,
                        const struct pod_event_view *view)
{
    char etag[API_ETAG_BYTES];
    api_event_etag(req, view, etag);
    api_header_text(req, "ETag", etag);
    if (reader->conditional && view->revision == reader->revision)
        api_reply_empty(req, 304);
    else
        api_reply_event_view(req, 200, view);
}

// Whether there is what the client waits for: with a matching If-None-Match
// any change, else the end.
static bool event_has_news(const struct event_reader *reader,
                           const struct pod_event_view *view)
{
    return view->state > POD_SCHED_RUNNING ||
           (reader->conditional && view->revision != reader->revision);
}

static void event_first_look(struct api_request *req,
                             struct event_reader *reader,
                             const struct pod_event_view *view)
{
    char etag[API_ETAG_BYTES];
    const char *header = api_request_header(req, "If-None-Match");
    reader->looked = true;
    reader->revision = view->revision;
    if (header == NULL)
        return;
    api_event_etag(req, view, etag);
    reader->conditional = api_etag_listed(header, etag, true);
    // What the client has is another state: this one is its news.
    if (!reader->conditional)
        reader->waiter.deadline_ns = 0;
}

// True: replied or parked. False: it has changed since the look.
static bool event_settle(struct api_request *req, struct event_reader *reader,
                         const struct pod_event_view *view, bool last)
{
    struct pod_err err = POD_ERR_NONE;
    if (last || reader->waiter.deadline_ns == 0 ||
        event_has_news(reader, view)) {
        event_reply(req, reader, view);
        return true;
    }
    uint64_t since = reader->conditional ? view->revision : 0;
    enum api_watch watch =
        api_watch(req, api_pod(req), reader->waiter.number, since);
    if (watch == API_WATCH_NOT)
        return false;
    if (watch == API_WATCH_NO_MEMORY)
        (void)api_err_memory(&err);
    else if (api_park(req, reader->waiter.deadline_ns, event_resume, &err) ==
             POD_OK)
        return true;
    api_problem(req, &err);
    return true;
}

static void event_look(struct api_request *req, bool last)
{
    struct event_reader *reader = api_state(req);
    bool settled = false;
    while (!settled) {
        struct pod_err err = POD_ERR_NONE;
        struct pod_event_view view = {0};
        if (pod_get_event(api_pod(req), reader->waiter.number, &view, &err) !=
            POD_OK) {
            api_problem(req, &err);
            return;
        }
        if (!reader->looked)
            event_first_look(req, reader, &view);
        // Nobody is woken any more once the pod drains.
        settled = event_settle(req, reader, &view,
                               last || pod_draining(api_pod(req)));
        pod_event_view_fini(&view);
    }
}

static void event_resume(struct api_request *req, enum api_wake why)
{
    event_look(req, why != API_WAKE_EVENT);
}

void api_event_get(struct api_request *req)
{
    if (api_waiter_begin(req, POD_REF_OP, 0, sizeof(struct event_reader)) !=
        NULL)
        event_look(req, false);
}

// ------------------------------------------------------------------- cancel

enum { EVENT_REASON_MAX = 256 };

static enum pod_code event_read_cancel(struct api_request *req,
                                       size_t *out_cascade,
                                       const char **out_reason,
                                       struct pod_err *err)
{
    static const char *const cascades[] = {
        [POD_CASCADE_NONE] = "NONE",
        [POD_CASCADE_DEPENDENTS] = "DEPENDENTS",
    };
    struct api_reader reader;
    const json_t *body = api_body_json(req);
    enum pod_code code = api_query_end(req, err);
    if (code != POD_OK || body == NULL)
        return code;
    code = api_read_begin(&reader, body, "", err);
    if (code == POD_OK)
        code = api_read_enum(&reader, "cascade", cascades, 2, out_cascade, err);
    if (code == POD_OK)
        code = api_read_text(&reader, "reason", 1, EVENT_REASON_MAX, out_reason,
                             err);
    if (code == POD_OK)
        code = api_read_end(&reader, err);
    return code;
}

static void event_cancel(struct api_request *req, uint64_t number)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_event_view view = {0};
    size_t cascade = POD_CASCADE_NONE;
    const char *reason = NULL;
    bool again = false;
    enum pod_code code = event_read_cancel(req, &cascade, &reason, &err);
    if (code == POD_OK)
        code =
            pod_cancel(api_pod(req), number, (enum pod_cancel_cascade)cascade,
                       reason, &again, &err);
    if (code == POD_OK)
        code = pod_get_event(api_pod(req), number, &view, &err);
    if (code != POD_OK) {
        api_problem(req, &err);
        return;
    }
    // One that ran on a host was only asked to stop, however soon it did.
    bool ran = view.running_ns >= 0 && view.kind != POD_KIND_GRAPH;
    bool at_once = pod_sched_terminal(view.state) && !ran;
    api_reply_event_view(req, at_once || again ? 200 : 202, &view);
    pod_event_view_fini(&view);
}

void api_event_cancel(struct api_request *req)
{
    uint64_t number = 0;
    if (api_path_id(req, 0, POD_REF_OP, &number))
        event_cancel(req, number);
}

// A graph is cancelled as its operation is.
void api_graph_cancel(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_graph_view view = {0};
    uint64_t number = 0;
    if (!api_path_id(req, 0, POD_REF_GRAPH, &number))
        return;
    if (pod_get_graph(api_pod(req), number, &view, &err) != POD_OK) {
        api_problem(req, &err);
        return;
    }
    pod_graph_view_fini(&view);
    event_cancel(req, number);
}

// ------------------------------------------------------------- dependencies

enum { EVENT_DEPTH_MAX = 1000, EVENT_NEIGHBOURS_MAX = 100000 };

struct event_walk {
    uint64_t number;
    size_t down;
    uint64_t depth;
    uint64_t limit;
    struct api_page page; // its place: how many were shown before
};

static const char *const event_directions[] = {"up", "down"};

static enum pod_code event_read_walk(struct api_request *req,
                                     struct event_walk *walk,
                                     struct pod_err *err)
{
    char depth[24];
    const char *token = NULL;
    walk->depth = 1;
    walk->limit = API_PAGE_DEFAULT;
    api_page_begin(req, "dependencies", NULL, &walk->page);
    enum pod_code code =
        api_query_enum(req, "direction", event_directions, 2, &walk->down, err);
    if (code == POD_OK)
        code =
            api_query_at_most(req, "depth", EVENT_DEPTH_MAX, &walk->depth, err);
    if (code == POD_OK)
        code = api_query_at_most(req, "limit", API_PAGE_MAX, &walk->limit, err);
    if (code == POD_OK)
        code = api_query_text(req, "page_token", &token, err);
    (void)snprintf(depth, sizeof(depth), "%" PRIu64, walk->depth);
    api_page_filter(&walk->page, api_param(req, 0),
                    event_directions[walk->down]);
    api_page_filter(&walk->page, "depth", depth);
    if (code == POD_OK && token != NULL)
        code = api_page_token_parse(token, walk->page.scope, &walk->page.place,
                                    err);
    if (code == POD_OK)
        code = api_query_end(req, err);
    return code;
}

static enum pod_code event_add_neighbour(struct pod *pod,
                                         struct api_build *items,
                                         const struct pod_dependency *item,
                                         struct pod_err *err)
{
    struct pod_event_view view = {0};
    enum pod_code code = pod_get_event(pod, item->number, &view, err);
    // One that has expired since is not kept any more.
    if (code != POD_OK)
        return err->reason == POD_REASON_EXPIRED ? POD_OK : code;
    struct api_build event = {.json = api_event_json(&view)};
    event.failed = event.json == NULL;
    api_set_number(&event, "depth", item->depth);
    api_append(items, api_build_take(&event));
    pod_event_view_fini(&view);
    return POD_OK;
}

void api_event_dependencies_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct event_walk walk = {0};
    struct pod_dependency *found = NULL;
    size_t count = 0;
    bool more = false;
    if (!api_path_id(req, 0, POD_REF_OP, &walk.number))
        return;
    enum pod_code code = event_read_walk(req, &walk, &err);
    size_t first = walk.page.place < EVENT_NEIGHBOURS_MAX
                       ? (size_t)walk.page.place
                       : EVENT_NEIGHBOURS_MAX;
    if (code == POD_OK)
        code = pod_dependencies(api_pod(req), walk.number, walk.down == 1,
                                (uint32_t)walk.depth, first + walk.limit,
                                &found, &count, &more, &err);
    if (code != POD_OK) {
        api_problem(req, &err);
        return;
    }
    struct api_build items = api_build_array();
    for (size_t i = first; i < count && code == POD_OK; i++)
        code = event_add_neighbour(api_pod(req), &items, &found[i], &err);
    pod_dependencies_free(found);
    if (code == POD_OK) {
        api_page_reply(req, &walk.page, "events", &items, more ? count : 0);
        return;
    }
    items.failed = true;
    (void)api_build_take(&items);
    api_problem(req, &err);
}
