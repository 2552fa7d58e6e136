// SPDX-License-Identifier: Apache-2.0
// The present state as messages, a few at a time.
//
// Collections are walked as their pages are (numbers downwards, hosts by rising
// id), so that what
// existed at the start is shown once; the place in the walk is in each
// message's cursor.
#include "api/common.h"
#include "api/feed_reader.h"
#include "api/view_json.h"

// One collection: lists what is below `place`, adds it to the queue, and gives
// the place to go on at, 0 at the end.
struct snapshot_collection {
    enum pod_change_kind kind;
    uint64_t start;
    enum pod_code (*step)(struct feed_reader *reader, uint64_t place,
                          uint64_t *out_next, struct pod_err *err);
};

// Takes the object over; leaves out what the labels do not fit. `place` is
// where the walk goes on after it.
static enum pod_code snapshot_add(struct feed_reader *reader,
                                  enum pod_change_kind kind, uint64_t place,
                                  json_t *owned_object,
                                  const struct pod_label *labels,
                                  size_t label_count, struct pod_err *err)
{
    const struct api_cursor cursor = {.sequence = reader->at.sequence,
                                      .snapshot = true,
                                      .stage = reader->walk_stage,
                                      .place = place};
    struct feed_message *message = feed_message_of_object(
        reader->feed->pod, kind, &cursor, owned_object, labels, label_count);

    if (message == NULL)
        return api_err_memory(err);
    if (!feed_message_has(message, reader->labels, reader->label_count)) {
        feed_message_unref(message);
        return POD_OK;
    }
    reader->queue_places[reader->queue_count] = place;
    reader->queue[reader->queue_count++] = message;
    return POD_OK;
}

// A handle has the labels of the operation that made it.
static enum pod_code snapshot_add_made(struct feed_reader *reader,
                                       enum pod_change_kind kind,
                                       uint64_t number, json_t *owned_object,
                                       struct pod_err *err)
{
    struct pod_event_view event = {.number = 0};

    if (reader->label_count > 0)
        (void)!pod_get_event(reader->feed->pod, number, &event, NULL);
    enum pod_code code = snapshot_add(reader, kind, number, owned_object,
                                      event.labels, event.label_count, err);
    pod_event_view_fini(&event);
    return code;
}

// -------------------------------------------------------------- collections

static enum pod_code snapshot_hosts(struct feed_reader *reader, uint64_t place,
                                    uint64_t *out_next, struct pod_err *err)
{
    struct pod_topology_view view;
    enum pod_code code = pod_get_topology(reader->feed->pod, &view, err);

    if (code != POD_OK)
        return code;
    size_t i = 0;
    while (i < view.host_count && view.hosts[i].id < place)
        i++;
    for (size_t shown = 0;
         code == POD_OK && shown < FEED_QUEUE && i < view.host_count; shown++) {
        place = (uint64_t)view.hosts[i].id + 1;
        code = snapshot_add(reader, POD_CHANGE_HOST, place,
                            api_host_json(&view.hosts[i++]), NULL, 0, err);
    }
    *out_next = i < view.host_count ? place : 0;
    pod_topology_view_fini(&view);
    return code;
}

static enum pod_code snapshot_programs(struct feed_reader *reader,
                                       uint64_t place, uint64_t *out_next,
                                       struct pod_err *err)
{
    struct pod_program_view views[FEED_QUEUE];
    size_t count = 0;
    enum pod_code code = pod_list_programs(reader->feed->pod, place, FEED_QUEUE,
                                           views, &count, out_next, err);

    for (size_t i = 0; i < count; i++) {
        if (code == POD_OK)
            code =
                snapshot_add_made(reader, POD_CHANGE_PROGRAM, views[i].number,
                                  api_program_json(&views[i]), err);
        pod_program_view_fini(&views[i]);
    }
    return code;
}

static enum pod_code snapshot_loads(struct feed_reader *reader, uint64_t place,
                                    uint64_t *out_next, struct pod_err *err)
{
    struct pod_load_view views[FEED_QUEUE];
    size_t count = 0;
    enum pod_code code = pod_list_loads(reader->feed->pod, place, FEED_QUEUE,
                                        views, &count, out_next, err);

    for (size_t i = 0; code == POD_OK && i < count; i++)
        code = snapshot_add_made(reader, POD_CHANGE_LOAD, views[i].number,
                                 api_load_json(&views[i]), err);
    return code;
}

static enum pod_code snapshot_buffers(struct feed_reader *reader,
                                      uint64_t place, uint64_t *out_next,
                                      struct pod_err *err)
{
    struct pod_buffer_view views[FEED_QUEUE];
    size_t count = 0;
    enum pod_code code = pod_list_buffers(reader->feed->pod, place, FEED_QUEUE,
                                          views, &count, out_next, err);

    for (size_t i = 0; i < count; i++) {
        if (code == POD_OK)
            code = snapshot_add_made(reader, POD_CHANGE_BUFFER, views[i].number,
                                     api_buffer_json(&views[i]), err);
        pod_buffer_view_fini(&views[i]);
    }
    return code;
}

static enum pod_code snapshot_graphs(struct feed_reader *reader, uint64_t place,
                                     uint64_t *out_next, struct pod_err *err)
{
    struct pod_graph_view views[FEED_QUEUE];
    size_t count = 0;
    enum pod_code code = pod_list_graphs(reader->feed->pod, place, FEED_QUEUE,
                                         views, &count, out_next, err);

    for (size_t i = 0; i < count; i++) {
        if (code == POD_OK)
            code = snapshot_add(reader, POD_CHANGE_GRAPH, views[i].number,
                                api_graph_json(&views[i]), views[i].labels,
                                views[i].label_count, err);
        pod_graph_view_fini(&views[i]);
    }
    return code;
}

static enum pod_code snapshot_events(struct feed_reader *reader, uint64_t place,
                                     uint64_t *out_next, struct pod_err *err)
{
    const struct pod_event_filter filter = {.host = POD_NO_ID,
                                            .core = POD_NO_ID,
                                            .since_wall_ns = INT64_MIN,
                                            .labels = reader->labels,
                                            .label_count = reader->label_count};
    struct pod_event_view views[FEED_QUEUE];
    size_t count = 0;
    enum pod_code code =
        pod_list_events(reader->feed->pod, &filter, place, FEED_QUEUE, views,
                        &count, out_next, err);

    for (size_t i = 0; i < count; i++) {
        if (code == POD_OK)
            code = snapshot_add(reader, POD_CHANGE_EVENT, views[i].number,
                                api_event_json(&views[i]), views[i].labels,
                                views[i].label_count, err);
        pod_event_view_fini(&views[i]);
    }
    return code;
}

static const struct snapshot_collection snapshot_collections[] = {
    {POD_CHANGE_HOST, 0, snapshot_hosts},
    {POD_CHANGE_PROGRAM, UINT64_MAX, snapshot_programs},
    {POD_CHANGE_LOAD, UINT64_MAX, snapshot_loads},
    {POD_CHANGE_BUFFER, UINT64_MAX, snapshot_buffers},
    {POD_CHANGE_GRAPH, UINT64_MAX, snapshot_graphs},
    {POD_CHANGE_EVENT, UINT64_MAX, snapshot_events},
};

_Static_assert(sizeof(snapshot_collections) / sizeof(snapshot_collections[0]) ==
                   FEED_COLLECTIONS,
               "cursors name one of them");

// ------------------------------------------------------------------- walking

static bool snapshot_wants(const struct feed_reader *reader, uint32_t stage)
{
    return (reader->topics >> snapshot_collections[stage].kind & 1) != 0;
}

// Goes to the next collection that is wanted. False: there is none.
static bool snapshot_turn(struct feed_reader *reader)
{
    do {
        reader->walk_stage++;
        if (reader->walk_stage >= FEED_COLLECTIONS)
            return false;
    } while (!snapshot_wants(reader, reader->walk_stage));
    reader->walk_place = snapshot_collections[reader->walk_stage].start;
    return true;
}

enum feed_next feed_snapshot_step(struct feed_reader *reader)
{
    struct pod_err err;
    uint64_t next = 0;

    if (reader->walk_over || !snapshot_wants(reader, reader->walk_stage)) {
        reader->walk_over = false;
        return snapshot_turn(reader) ? FEED_NEXT_LATER : FEED_NEXT_NOTHING;
    }
    enum pod_code code = snapshot_collections[reader->walk_stage].step(
        reader, reader->walk_place, &next, &err);
    if (code != POD_OK) {
        // Begun again from the same place by who tries again.
        while (reader->queue_count > 0)
            feed_message_unref(reader->queue[--reader->queue_count]);
        return FEED_NEXT_NO_MEMORY;
    }
    reader->walk_place = next;
    reader->walk_over = next == 0;
    return reader->queue_count > 0 ? FEED_NEXT_MESSAGE : FEED_NEXT_LATER;
}
