// SPDX-License-Identifier: Apache-2.0
// /v1/events and /v1/events:summary: many operations at once.
#include <stdio.h>
#include <string.h>

#include "api/common.h"
#include "api/handlers.h"
#include "api/ids.h"
#include "api/page.h"
#include "api/query.h"
#include "api/view_json.h"
#include "core/base/mem.h"
#include "core/base/str.h"

// ------------------------------------------------------------------ filters

static const char *events_state_name(size_t index)
{
    return pod_sched_state_name((enum pod_sched_state)index);
}

static const char *events_kind_name(size_t index)
{
    return pod_kind_name((enum pod_kind)index);
}

static enum pod_code events_no_value(const char *parameter, const char *piece,
                                     size_t length, size_t count,
                                     const char *(*name)(size_t index),
                                     struct pod_err *err)
{
    char names[256];
    size_t used = 0;

    for (size_t i = 0; i < count && used < sizeof(names); i++)
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
                                 i > 0 ? ", " : "", name(i));
    return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                       "%s: '%.*s' is not one of %s", parameter,
                       (int)pod_utf8_clip(piece, length, 64), piece, names);
}

// A comma list of names as a mask.
static enum pod_code events_read_mask(struct api_request *req,
                                      struct api_page *page,
                                      const char *parameter, size_t count,
                                      const char *(*name)(size_t index),
                                      uint32_t *out_mask, struct pod_err *err)
{
    const char *list = NULL;
    const char *piece = NULL;
    size_t length = 0;
    enum pod_code code = api_query_text(req, parameter, &list, err);
    if (code != POD_OK)
        return code;
    api_page_filter(page, parameter, list);
    while (list != NULL && api_list_next(&list, &piece, &length)) {
        size_t i = 0;
        while (i < count && (strlen(name(i)) != length ||
                             memcmp(name(i), piece, length) != 0))
            i++;
        if (i == count)
            return events_no_value(parameter, piece, length, count, name, err);
        *out_mask |= 1U << i;
    }
    return POD_OK;
}

static enum pod_code events_read_number(struct api_request *req,
                                        struct api_page *page,
                                        const char *parameter,
                                        uint32_t *out_number,
                                        struct pod_err *err)
{
    const char *text = NULL;
    uint64_t number = POD_NO_ID;
    enum pod_code code = api_query_text(req, parameter, &text, err);
    if (code == POD_OK)
        code = api_query_uint(req, parameter, 0, POD_NO_ID - 1, &number, err);
    api_page_filter(page, parameter, text);
    *out_number = (uint32_t)number;
    return code;
}

static enum pod_code events_read_graph(struct api_request *req,
                                       struct api_page *page,
                                       uint64_t *out_graph, struct pod_err *err)
{
    const char *text = NULL;
    enum pod_code code = api_query_text(req, "graph", &text, err);
    if (code != POD_OK || text == NULL)
        return code;
    api_page_filter(page, "graph", text);
    if (!api_id_parse_kind(text, POD_REF_GRAPH, out_graph))
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "graph: not the id of a graph");
    return POD_OK;
}

static enum pod_code events_read_stalled(struct api_request *req,
                                         struct api_page *page,
                                         struct pod_event_filter *filter,
                                         struct pod_err *err)
{
    const char *text = NULL;
    bool stalled = false;
    enum pod_code code = api_query_text(req, "stalled", &text, err);
    if (code == POD_OK)
        code = api_query_bool(req, "stalled", &stalled, err);
    if (code != POD_OK || text == NULL)
        return code;
    filter->stalled = stalled ? POD_STALLED_ONLY : POD_STALLED_NOT;
    api_page_filter(page, "stalled", stalled ? "true" : "false");
    return POD_OK;
}

static enum pod_code events_read_since(struct api_request *req,
                                       struct api_page *page,
                                       struct pod_event_filter *filter,
                                       struct pod_err *err)
{
    const char *text = NULL;
    enum pod_code code = api_query_text(req, "since", &text, err);
    if (code != POD_OK || text == NULL)
        return code;
    api_page_filter(page, "since", text);
    if (!api_id_parse_kind(text, POD_REF_OP, &filter->since_number) &&
        !api_time_parse(text, &filter->since_wall_ns))
        return pod_err_set(
            err, POD_REASON_BAD_PARAMETER,
            "since: neither the id of an operation nor an RFC 3339 time");
    return POD_OK;
}

static enum pod_code events_read_labels(struct api_request *req,
                                        struct api_page *page,
                                        struct pod_event_filter *filter,
                                        struct pod_err *err)
{
    enum pod_code code =
        api_query_labels(req, POD_REASON_BAD_PARAMETER, &filter->labels,
                         &filter->label_count, err);
    for (size_t i = 0; code == POD_OK && i < filter->label_count; i++)
        api_page_filter(page, filter->labels[i].key, filter->labels[i].value);
    return code;
}

static enum pod_code events_read_filter(struct api_request *req,
                                        struct api_page *page,
                                        struct pod_event_filter *filter,
                                        struct pod_err *err)
{
    *filter = (struct pod_event_filter){.since_wall_ns = INT64_MIN};
    enum pod_code code =
        events_read_mask(req, page, "state", POD_SCHED_LOST + 1,
                         events_state_name, &filter->states, err);
    if (code == POD_OK)
        code = events_read_mask(req, page, "kind", POD_KIND_COUNT,
                                events_kind_name, &filter->kinds, err);
    if (code == POD_OK)
        code = events_read_number(req, page, "host", &filter->host, err);
    if (code == POD_OK)
        code = events_read_number(req, page, "core", &filter->core, err);
    if (code == POD_OK)
        code = events_read_graph(req, page, &filter->graph, err);
    if (code == POD_OK)
        code = events_read_stalled(req, page, filter, err);
    if (code == POD_OK)
        code = events_read_since(req, page, filter, err);
    if (code == POD_OK)
        code = events_read_labels(req, page, filter, err);
    return code;
}

// -------------------------------------------------------------------- lists

struct events_found {
    const struct api_page *page;
    struct pod_event_view *views;
    size_t count;
    uint64_t next;
};

static json_t *events_json(const void *arg)
{
    const struct events_found *found = arg;
    struct api_build items = api_build_array();

    for (size_t i = 0; i < found->count; i++)
        api_page_add(found->page, &items, api_event_json(&found->views[i]));
    return api_page_json(found->page, "events", &items, found->next);
}

static void events_list(struct api_request *req, const struct api_page *page,
                        const struct pod_event_filter *filter)
{
    struct pod_err err = POD_ERR_NONE;
    uint64_t below = page->place != 0 ? page->place : UINT64_MAX;
    struct events_found found = {
        .page = page, .views = pod_calloc(page->size, sizeof(*found.views))};
    enum pod_code code =
        found.views == NULL
            ? api_err_memory(&err)
            : pod_list_events(api_pod(req), filter, below, page->size,
                              found.views, &found.count, &found.next, &err);

    if (code == POD_OK)
        api_reply_made(req, 200, events_json, &found);
    else
        api_problem(req, &err);
    for (size_t i = 0; i < found.count; i++)
        pod_event_view_fini(&found.views[i]);
    pod_free(found.views);
}

void api_events_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_event_filter filter;
    struct api_page page;
    api_page_begin(req, "events", api_event_fields, &page);
    enum pod_code code = events_read_filter(req, &page, &filter, &err);
    if (code == POD_OK)
        code = api_page_read(req, &page, &err);
    if (code == POD_OK)
        events_list(req, &page, &filter);
    else
        api_problem(req, &err);
}

void api_events_summary_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_summary summary = {0};
    enum pod_code code = api_query_end(req, &err);
    if (code == POD_OK)
        code = pod_get_summary(api_pod(req), &summary, &err);
    if (code != POD_OK) {
        api_problem(req, &err);
        return;
    }
    api_reply_json(req, 200, api_summary_json(&summary));
    pod_summary_fini(&summary);
}
