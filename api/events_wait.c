// SPDX-License-Identifier: Apache-2.0
// POST /v1/events:wait: waiting for any or all of many operations.
#include <string.h>

#include "api/body.h"
#include "api/build.h"
#include "api/common.h"
#include "api/handlers.h"
#include "api/ids.h"
#include "api/park.h"
#include "api/problem.h"
#include "api/query.h"
#include "api/view_json.h"
#include "api/watch.h"
#include "core/base/map.h"

enum { WAIT_IDS_MAX = 1000, WAIT_FAULTS_MAX = 100, WAIT_ANY = 0, WAIT_ALL = 1 };

static const char *const wait_modes[] = {"ANY", "ALL"};

// The call, from its first look on.
struct wait_many {
    size_t mode;
    int64_t deadline_ns; // 0: it does not wait
    size_t count;
    uint64_t *numbers; // each once, in the order asked
};

// ------------------------------------------------------------------ reading

// Whether an operation of this kind makes handles of that kind.
static bool wait_makes(enum pod_kind made_by, enum pod_ref_kind handle)
{
    switch (handle) {
    case POD_REF_OP:
        return true;
    case POD_REF_BUFFER:
        return made_by == POD_KIND_ALLOCATE ||
               made_by == POD_KIND_ALLOCATE_TUPLE;
    case POD_REF_PROGRAM:
        return made_by == POD_KIND_COMPILE;
    case POD_REF_LOAD:
        return made_by == POD_KIND_LOAD;
    case POD_REF_GRAPH:
        return made_by == POD_KIND_GRAPH;
    case POD_REF_NONE:
    case POD_REF_REQUEST:
        break;
    }
    return false;
}

// Checks that what an id names was issued once.
static enum pod_code wait_check_ref(struct pod *pod, const struct pod_ref *ref,
                                    struct pod_err *err)
{
    struct pod_event_view view = {0};
    enum pod_code code = pod_get_event(pod, ref->number, &view, err);
    if (code != POD_OK)
        return err->reason == POD_REASON_EXPIRED ? POD_OK : code;
    bool made = wait_makes(view.kind, ref->kind);
    pod_event_view_fini(&view);
    return made ? POD_OK
                : pod_err_set(err, POD_REASON_UNKNOWN_HANDLE,
                              "the operation made no such handle");
}

static enum pod_code wait_check_id(struct pod *pod, const json_t *item,
                                   struct pod_ref *out, struct pod_err *err)
{
    const char *text = json_string_value(item);
    bool sound = api_id_parse(text, strlen(text), out);
    if (sound && wait_check_ref(pod, out, err) == POD_OK)
        return POD_OK;
    if (sound && err->reason == POD_REASON_OUT_OF_MEMORY)
        return err->code;
    return pod_err_set(err, POD_REASON_UNKNOWN_HANDLE,
                       "'%.64s' was never issued", text);
}

// Takes the number unless it came before.
static enum pod_code wait_take(struct wait_many *many, struct pod_map *seen,
                               uint64_t number, struct pod_err *err)
{
    if (pod_map_get(seen, number) != NULL)
        return POD_OK;
    if (!pod_map_put(seen, number, many))
        return api_err_memory(err);
    many->numbers[many->count++] = number;
    return POD_OK;
}

// Checks all ids. *out_faults: the entries of those that were never issued.
static enum pod_code wait_check_ids(struct api_request *req,
                                    struct wait_many *many, const json_t *ids,
                                    json_t *out_faults, struct pod_err *err)
{
    struct pod_map seen = {0};
    enum pod_code code = POD_OK;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        const json_t *item = json_array_get(ids, i);
        struct pod_ref ref = {0};
        if (!json_is_string(item)) {
            code = api_json_wrong_type(item, "ids", "a list of strings", err);
            pod_err_at(err, "/ids/%zu", i);
            break;
        }
        struct pod_err fault = POD_ERR_NONE;
        if (wait_check_id(api_pod(req), item, &ref, &fault) == POD_OK) {
            code = wait_take(many, &seen, ref.number, err);
        } else if (fault.reason == POD_REASON_OUT_OF_MEMORY) {
            *err = fault;
            code = fault.code;
        } else if (json_array_size(out_faults) < WAIT_FAULTS_MAX) {
            pod_err_at(&fault, "/ids/%zu", i);
            *err = fault;
            (void)json_array_append_new(out_faults, api_problem_entry(&fault));
        }
        if (code != POD_OK)
            break;
    }
    pod_map_fini(&seen);
    return code;
}

static enum pod_code wait_read_ids(struct api_request *req,
                                   struct wait_many *many,
                                   struct api_reader *reader,
                                   json_t *out_faults, struct pod_err *err)
{
    const json_t *ids = NULL;
    enum pod_code code = api_read_array(reader, "ids", WAIT_IDS_MAX, &ids, err);
    if (code != POD_OK)
        return code;
    if (ids == NULL)
        return api_read_missing(reader, "ids", err);
    size_t count = json_array_size(ids);
    if (count == 0) {
        code = pod_err_set(err, POD_REASON_OUT_OF_RANGE,
                           "ids must name 1 to %d operations", WAIT_IDS_MAX);
        api_read_at(reader, "ids", err);
        return code;
    }
    many->numbers = api_alloc(req, count * sizeof(*many->numbers));
    if (many->numbers == NULL)
        return api_err_memory(err);
    return wait_check_ids(req, many, ids, out_faults, err);
}

static enum pod_code wait_read_body(struct api_request *req,
                                    struct wait_many *many, json_t *out_faults,
                                    struct pod_err *err)
{
    struct api_reader reader;
    int64_t wait_ns = 0;
    many->mode = WAIT_ALL;
    enum pod_code code = api_read_begin(&reader, api_body_json(req), "", err);
    if (code == POD_OK)
        code = api_wait_time(req, &wait_ns, NULL, err);
    if (code == POD_OK)
        code = api_query_end(req, err);
    if (code == POD_OK)
        code = api_read_enum(&reader, "mode", wait_modes, 2, &many->mode, err);
    if (code == POD_OK)
        code = api_read_duration(&reader, "wait", &wait_ns, err);
    if (code == POD_OK)
        code = wait_read_ids(req, many, &reader, out_faults, err);
    if (code == POD_OK)
        code = api_read_end(&reader, err);
    if (wait_ns > 0)
        many->deadline_ns = pod_time_add(api_now(req), wait_ns);
    return code;
}

// ------------------------------------------------------------------ waiting

// The lists of the answer while they grow.
struct wait_lists {
    struct api_build events;
    struct api_build pending;
    struct api_build expired;
};

static enum pod_code wait_add_event(struct pod *pod, uint64_t number,
                                    struct wait_lists *lists,
                                    struct pod_err *err)
{
    struct pod_event_view view = {0};
    enum pod_code code = pod_get_event(pod, number, &view, err);
    if (code != POD_OK && err->reason != POD_REASON_EXPIRED)
        return code;
    if (code != POD_OK) {
        api_append_id(&lists->expired, POD_REF_OP, number);
        return POD_OK;
    }
    if (view.state <= POD_SCHED_RUNNING)
        api_append_id(&lists->pending, POD_REF_OP, number);
    api_append(&lists->events, api_event_json(&view));
    pod_event_view_fini(&view);
    return POD_OK;
}

static void wait_reply(struct api_request *req, const struct wait_many *many)
{
    struct pod_err err = POD_ERR_NONE;
    enum pod_code code = POD_OK;
    struct api_build answer = api_build_object();
    struct wait_lists lists = {
        .events = api_build_array(),
        .pending = api_build_array(),
        .expired = api_build_array(),
    };
    for (size_t i = 0; i < many->count && code == POD_OK; i++)
        code = wait_add_event(api_pod(req), many->numbers[i], &lists, &err);
    size_t open = json_array_size(lists.pending.json);
    bool done = many->mode == WAIT_ALL ? open == 0 : open < many->count;
    api_set_bool(&answer, "done", done);
    api_set(&answer, "events", api_build_take(&lists.events));
    api_set(&answer, "pending", api_build_take(&lists.pending));
    api_set(&answer, "expired", api_build_take(&lists.expired));
    json_t *json = api_build_take(&answer);
    if (code == POD_OK) {
        api_reply_json(req, 200, json);
        return;
    }
    json_decref(json);
    api_problem(req, &err);
}

static void wait_resume(struct api_request *req, enum api_wake why)
{
    struct pod_err err = POD_ERR_NONE;
    const struct wait_many *many = api_state(req);
    size_t pending = api_watch_pending(req);
    bool met = many->mode == WAIT_ALL ? pending == 0 : pending < many->count;
    if (why != API_WAKE_EVENT || met ||
        api_park(req, many->deadline_ns, wait_resume, &err) != POD_OK)
        wait_reply(req, many);
}

// Registers for what is open; true when what the mode asks for holds already.
static enum pod_code wait_register(struct api_request *req,
                                   const struct wait_many *many, bool *out_met,
                                   struct pod_err *err)
{
    size_t open = 0;
    api_watch_all(req, many->mode == WAIT_ALL);
    for (size_t i = 0; i < many->count; i++) {
        enum api_watch watch =
            api_watch(req, api_pod(req), many->numbers[i], 0);
        if (watch == API_WATCH_NO_MEMORY)
            return api_err_memory(err);
        if (watch == API_WATCH_WAITING)
            open++;
        else if (many->mode == WAIT_ANY)
            break;
    }
    *out_met = many->mode == WAIT_ALL ? open == 0 : open < many->count;
    return POD_OK;
}

void api_events_wait(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    bool met = false;
    json_t *faults = json_array();
    struct wait_many *many = api_alloc(req, sizeof(*many));
    enum pod_code code = many == NULL || faults == NULL
                             ? api_err_memory(&err)
                             : wait_read_body(req, many, faults, &err);
    if (code == POD_OK && json_array_size(faults) > 0) {
        struct api_problem more = {.errors = faults};
        api_problem_with(req, &err, &more);
        return;
    }
    json_decref(faults);
    if (code == POD_OK)
        code = wait_register(req, many, &met, &err);
    if (code == POD_OK && !met && many->deadline_ns != 0) {
        api_set_state(req, many);
        code = api_park(req, many->deadline_ns, wait_resume, &err);
    } else if (code == POD_OK) {
        wait_reply(req, many);
    }
    if (code != POD_OK)
        api_problem(req, &err);
}
