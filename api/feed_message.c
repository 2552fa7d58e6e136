// SPDX-License-Identifier: Apache-2.0
#include "api/feed_message.h"

#include <string.h>

#include "api/build.h"
#include "api/ids.h"
#include "api/json_memory.h"
#include "api/view_json.h"
#include "core/base/mem.h"
#include "core/base/str.h"

// ------------------------------------------------------------------- layout

// A message while it is written. Labels point into the view they are from.
struct message_draft {
    const char *type;
    const char *cursor;
    const struct pod_label *labels;
    size_t label_count;
    unsigned retry_ms;
};

static int message_dump(const char *bytes, size_t length, void *arg)
{
    struct pod_str *text = arg;

    pod_str_append(text, bytes, length);
    return text->failed ? -1 : 0;
}

static void message_put_frame(struct pod_str *text,
                              const struct message_draft *draft,
                              const json_t *content, size_t *out_start,
                              size_t *out_length)
{
    pod_str_puts(text, "event: ");
    pod_str_puts(text, draft->type);
    pod_str_puts(text, "\nid: ");
    pod_str_puts(text, draft->cursor);
    if (draft->retry_ms > 0)
        pod_str_printf(text, "\nretry: %u", draft->retry_ms);
    pod_str_puts(text, "\ndata: ");
    *out_start = text->length;
    if (json_dump_callback(content, message_dump, text, JSON_COMPACT) != 0)
        text->failed = true;
    *out_length = text->length - *out_start;
    pod_str_puts(text, "\n\n");
}

// Takes the content over: the object that all three forms show.
static struct feed_message *message_finish(const struct message_draft *draft,
                                           json_t *owned_content)
{
    struct pod_str text = {.data = NULL};
    struct feed_message *message = NULL;
    size_t start = 0;
    size_t length = 0;

    if (owned_content == NULL)
        return NULL;
    message_put_frame(&text, draft, owned_content, &start, &length);
    json_decref(owned_content);
    size_t frame = text.length;
    for (size_t i = 0; i < draft->label_count; i++) {
        const struct pod_label *label = &draft->labels[i];
        pod_str_append(&text, label->key, strlen(label->key) + 1);
        pod_str_append(&text, label->value, strlen(label->value) + 1);
    }
    if (!text.failed)
        message = pod_malloc(sizeof(*message) + text.length);
    if (message != NULL) {
        *message = (struct feed_message){
            .refs = 1,
            .label_count = draft->label_count,
            .frame_length = frame,
            .json_start = start,
            .json_length = length,
            .bytes = sizeof(*message) + text.length,
        };
        pod_list_init(&message->link);
        memcpy(message->text, text.data, text.length);
    }
    pod_str_fini(&text);
    return message;
}

static json_t *message_content(const struct message_draft *draft,
                               json_t *owned_object)
{
    struct api_build content = api_build_object();

    api_set_word(&content, "type", draft->type);
    api_set_word(&content, "cursor", draft->cursor);
    api_set(&content, "object", owned_object);
    return api_build_take(&content);
}

struct feed_message *feed_message_ref(struct feed_message *message)
{
    message->refs++;
    return message;
}

void feed_message_unref(struct feed_message *message)
{
    if (message != NULL && --message->refs == 0)
        pod_free(message);
}

// ------------------------------------------------------------------- labels

static bool message_has_label(const struct feed_message *message,
                              const struct pod_label *label)
{
    const char *at = message->text + message->frame_length;

    for (size_t i = 0; i < message->label_count; i++) {
        const char *value = at + strlen(at) + 1;
        if (strcmp(at, label->key) == 0)
            return strcmp(value, label->value) == 0;
        at = value + strlen(value) + 1;
    }
    return false;
}

bool feed_message_has(const struct feed_message *message,
                      const struct pod_label *labels, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!message_has_label(message, &labels[i]))
            return false;
    return true;
}

// ------------------------------------------------------------------- words

struct feed_message *feed_message_of_word(struct pod *pod, const char *type,
                                          const struct api_cursor *cursor,
                                          int64_t now_wall_ns,
                                          unsigned retry_ms)
{
    char text[API_CURSOR_BYTES];
    const struct message_draft draft = {
        .type = type,
        .cursor = api_cursor_print(pod_instance(pod), cursor, text),
        .retry_ms = retry_ms,
    };
    struct api_build content = api_build_object();

    api_set_word(&content, "type", type);
    api_set_word(&content, "cursor", draft.cursor);
    api_set_time(&content, "now", now_wall_ns);
    if (retry_ms > 0)
        api_set_duration(&content, "retry", retry_ms * INT64_C(1000000));
    return message_finish(&draft, api_build_take(&content));
}

// ------------------------------------------------------------------ objects

const char *feed_kind_name(enum pod_change_kind kind)
{
    static const char *const names[POD_CHANGE_KIND_COUNT] = {
        [POD_CHANGE_EVENT] = "event",   [POD_CHANGE_GRAPH] = "graph",
        [POD_CHANGE_BUFFER] = "buffer", [POD_CHANGE_PROGRAM] = "program",
        [POD_CHANGE_LOAD] = "load",     [POD_CHANGE_HOST] = "host",
    };
    return names[kind];
}

struct feed_message *
feed_message_of_object(struct pod *pod, enum pod_change_kind kind,
                       const struct api_cursor *cursor, json_t *owned_object,
                       const struct pod_label *labels, size_t label_count)
{
    char text[API_CURSOR_BYTES];
    const struct message_draft draft = {
        .type = feed_kind_name(kind),
        .cursor = api_cursor_print(pod_instance(pod), cursor, text),
        .labels = labels,
        .label_count = label_count,
    };

    return message_finish(&draft, message_content(&draft, owned_object));
}

// ------------------------------------------------------------------ changes

static enum pod_ref_kind message_ref_kind(uint8_t kind)
{
    static const enum pod_ref_kind kinds[POD_CHANGE_KIND_COUNT] = {
        [POD_CHANGE_EVENT] = POD_REF_OP,
        [POD_CHANGE_GRAPH] = POD_REF_GRAPH,
        [POD_CHANGE_BUFFER] = POD_REF_BUFFER,
        [POD_CHANGE_PROGRAM] = POD_REF_PROGRAM,
        [POD_CHANGE_LOAD] = POD_REF_LOAD,
        [POD_CHANGE_HOST] = POD_REF_NONE,
    };
    return kinds[kind];
}

// A thing whose record has expired since.
static json_t *message_gone(const struct pod_change *change)
{
    struct api_build object = api_build_object();

    api_set_id(&object, "id", message_ref_kind(change->kind), change->number);
    if (change->kind == POD_CHANGE_EVENT) {
        enum pod_sched_state state = (enum pod_sched_state)change->state;
        api_set_word(&object, "state", pod_sched_state_name(state));
        api_set_bool(&object, "done", pod_sched_terminal(state));
        api_set_u64(&object, "revision", change->revision);
    }
    api_set_bool(&object, "expired", true);
    return api_build_take(&object);
}

// Turns a view of what an operation is now into what it was at the entry.
static void message_rewind(struct pod_event_view *view,
                           const struct pod_change *change)
{
    enum pod_sched_state state = (enum pod_sched_state)change->state;

    if (view->revision == change->revision)
        return;
    view->revision = change->revision;
    view->state = state;
    if (pod_sched_terminal(state))
        return;
    view->finished_ns = -1;
    view->has_error = false;
    view->has_data = false;
    view->pending = state == POD_SCHED_WAITING ? POD_PENDING_DEPENDENCY
                    : state == POD_SCHED_READY ? POD_PENDING_HOST_QUEUE
                                               : POD_PENDING_NONE;
    view->queue_position = POD_NO_ID;
    view->queue_capped = false;
    view->is_stalled = false;
    if (state < POD_SCHED_RUNNING)
        view->running_ns = -1;
    if (state < POD_SCHED_READY)
        view->ready_ns = -1;
}

static json_t *message_buffer(struct pod *pod, uint64_t number,
                              struct pod_err *err)
{
    struct pod_buffer_view view;

    if (pod_get_buffer(pod, number, &view, err) != POD_OK)
        return NULL;
    json_t *json = api_buffer_json(&view);
    pod_buffer_view_fini(&view);
    return json;
}

static json_t *message_program(struct pod *pod, uint64_t number,
                               struct pod_err *err)
{
    struct pod_program_view view;

    if (pod_get_program(pod, number, &view, err) != POD_OK)
        return NULL;
    json_t *json = api_program_json(&view);
    pod_program_view_fini(&view);
    return json;
}

static json_t *message_load(struct pod *pod, uint64_t number,
                            struct pod_err *err)
{
    struct pod_load_view view;

    if (pod_get_load(pod, number, &view, err) != POD_OK)
        return NULL;
    return api_load_json(&view);
}

// Without its critical path: that is for who asks for the graph itself.
static json_t *message_graph(struct pod *pod, uint64_t number,
                             struct pod_err *err)
{
    struct pod_graph_view view;
    size_t count = 0;
    uint64_t next = 0;
    json_t *json = NULL;

    if (pod_list_graphs(pod, number + 1, 1, &view, &count, &next, err) !=
        POD_OK)
        return NULL;
    if (count > 0 && view.number == number)
        json = api_graph_json(&view);
    else
        (void)pod_err_set(err, POD_REASON_NOT_FOUND, "the graph is gone");
    if (count > 0)
        pod_graph_view_fini(&view);
    return json;
}

// The last that is heard of a host.
static json_t *message_removed(uint64_t host)
{
    struct api_build object = api_build_object();

    api_set_number(&object, "id", (int64_t)host);
    api_set_word(&object, "state", pod_host_state_name(POD_HOST_LOST));
    api_set_bool(&object, "removed", true);
    return api_build_take(&object);
}

// *out_gone: it was removed.
static json_t *message_host(struct pod *pod, uint64_t id, bool *out_gone,
                            struct pod_err *err)
{
    struct pod_topology_view view;

    if (pod_get_topology(pod, &view, err) != POD_OK)
        return NULL;
    const struct pod_host_view *host = pod_topology_host(&view, (uint32_t)id);
    json_t *json = host != NULL ? api_host_json(host) : message_removed(id);
    *out_gone = host == NULL;
    pod_topology_view_fini(&view);
    return json;
}

// *out_gone is set where message_host sets it.
static json_t *message_object(struct pod *pod, const struct pod_change *change,
                              const struct pod_event_view *event,
                              bool *out_gone)
{
    struct pod_err err = POD_ERR_NONE;
    json_t *json = NULL;

    if (event == NULL && change->kind != POD_CHANGE_HOST)
        return message_gone(change);
    switch ((enum pod_change_kind)change->kind) {
    case POD_CHANGE_EVENT:
        return api_event_json(event);
    case POD_CHANGE_GRAPH:
        json = message_graph(pod, change->number, &err);
        break;
    case POD_CHANGE_BUFFER:
        json = message_buffer(pod, change->number, &err);
        break;
    case POD_CHANGE_PROGRAM:
        json = message_program(pod, change->number, &err);
        break;
    case POD_CHANGE_LOAD:
        json = message_load(pod, change->number, &err);
        break;
    case POD_CHANGE_HOST:
        return message_host(pod, change->number, out_gone, &err);
    case POD_CHANGE_KIND_COUNT:
        break;
    }
    // Else it is there, and there was no memory to show it.
    return json == NULL && err.code == POD_NOT_FOUND ? message_gone(change)
                                                     : json;
}

struct feed_message *feed_message_of_change(struct pod *pod,
                                            const struct api_cursor *cursor,
                                            const struct pod_change *change)
{
    struct pod_event_view event = {.number = 0};
    enum pod_code code = POD_NOT_FOUND;
    bool gone = false;

    // Its labels are those of the operation that made it.
    if (change->kind != POD_CHANGE_HOST)
        code = pod_get_event(pod, change->number, &event, NULL);
    if (code == POD_RESOURCE_EXHAUSTED)
        return NULL;
    if (code == POD_OK)
        message_rewind(&event, change);
    struct api_memory memory = {.budget = NULL};
    struct api_memory *before = api_json_memory_begin(&memory);
    json_t *object =
        message_object(pod, change, code == POD_OK ? &event : NULL, &gone);
    struct feed_message *message =
        feed_message_of_object(pod, (enum pod_change_kind)change->kind, cursor,
                               object, event.labels, event.label_count);
    api_json_memory_end(before);
    api_memory_fini(&memory);
    if (message != NULL) {
        message->sequence = cursor->sequence;
        // What is logged after it says that the host was removed.
        message->needless = gone && !change->removed;
    }
    pod_event_view_fini(&event);
    return message;
}
