// SPDX-License-Identifier: Apache-2.0
// Streams of Exchange from other workers.
//
// The first message names the gang. Until the gang has begun here, what comes
// is kept (`stash`; when that is full the stream is paused); then it is done in
// order, on the loop's thread or on that of the launch, one at a time. A stream
// that ended meanwhile is kept too: it may say that the gang has failed.
#include <inttypes.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "proto/answers.h"
#include "proto/gang_internal.h"

// A part of which not all pieces have come.
struct gang_part {
    struct pod_list link;
    uint32_t replica;
    uint64_t sequence;
    uint64_t total;
    uint64_t have;
    size_t group_size;
    uint32_t *group;
    unsigned char *data;
};

struct gang_stash {
    struct pod_list link;
    size_t size;
    unsigned char data[];
};

struct gang_in {
    atomic_int refs;
    struct gang_links *links;
    struct rpc_stream *stream;
    struct pod_list waiting; // in the links' list
    int64_t since_ns;
    uint64_t id;
    uint32_t host;
    bool named;            // the gang's id has come
    struct pod_mutex lock; // guards the rest; held while steps are done
    struct gang_link *link;
    bool over;
    struct pod_list stash;
    size_t stashed; // bytes in it
    struct pod_list parts;
};

static void part_free(struct gang_part *part)
{
    if (part == NULL)
        return;
    pod_list_remove(&part->link);
    pod_free(part->group);
    pod_free(part->data);
    pod_free(part);
}

// ---------------------------------------------------------------------- parts

static struct gang_part *in_find_part(struct gang_in *in, uint32_t replica)
{
    for (struct pod_list *item = in->parts.next; item != &in->parts;
         item = item->next) {
        struct gang_part *part = POD_CONTAINER(item, struct gang_part, link);
        if (part->replica == replica)
            return part;
    }
    return NULL;
}

static struct gang_part *in_new_part(struct gang_in *in,
                                     const Pod__Worker__V1__ExchangeStep *step,
                                     struct pod_err *err)
{
    if (step->total_bytes > GANG_LINK_MAX_PART ||
        step->n_group > in->link->replica_count) {
        (void)pod_err_set(err, POD_REASON_BODY_TOO_LARGE,
                          "a part of %" PRIu64 " bytes for %zu replicas",
                          step->total_bytes, step->n_group);
        return NULL;
    }
    struct gang_part *part = pod_calloc(1, sizeof(*part));
    (void)pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    if (part == NULL)
        return NULL;
    pod_list_init(&part->link);
    part->replica = step->replica;
    part->sequence = step->sequence;
    part->total = step->total_bytes;
    part->group_size = step->n_group;
    part->group = pod_calloc(step->n_group, sizeof(part->group[0]));
    part->data = pod_malloc((size_t)step->total_bytes);
    if (part->group == NULL || part->data == NULL) {
        part_free(part);
        return NULL;
    }
    if (step->n_group > 0)
        memcpy(part->group, step->group,
               step->n_group * sizeof(part->group[0]));
    pod_list_push_back(&in->parts, &part->link);
    return part;
}

// What the meeting point refuses aborts the gang; the stream goes on.
static void in_give(struct gang_in *in, struct gang_part *part)
{
    struct pod_err err = POD_ERR_NONE;
    enum pod_code code = pod_gang_give(
        in->link->gang, part->replica, part->group, part->group_size,
        part->sequence, part->data, (size_t)part->total, &err);
    (void)code;
    part_free(part);
}

static enum pod_code in_part(struct gang_in *in,
                             const Pod__Worker__V1__ExchangeStep *step,
                             struct pod_err *err)
{
    struct gang_part *part = in_find_part(in, step->replica);
    if (part == NULL)
        part = in_new_part(in, step, err);
    if (part == NULL)
        return err->code;
    if (step->sequence != part->sequence || step->offset != part->have ||
        step->data.len > part->total - part->have)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "pieces of a part do not fit together");
    if (step->data.len > 0)
        memcpy(part->data + part->have, step->data.data, step->data.len);
    part->have += step->data.len;
    if (part->have == part->total)
        in_give(in, part);
    return POD_OK;
}

// ---------------------------------------------------------------------- steps

static void in_left(struct gang_in *in,
                    const Pod__Worker__V1__ExchangeStep *step)
{
    struct pod_err cause = POD_ERR_NONE;
    if (step->cause != NULL)
        (void)pod_err_set(&cause, POD_REASON_GANG_ABORTED, "%s",
                          step->cause->message);
    pod_gang_leave(in->link->gang, step->replica,
                   step->cause != NULL ? &cause : NULL);
}

static enum pod_code in_step(struct gang_in *in,
                             const Pod__Worker__V1__ExchangeStep *step,
                             struct pod_err *err)
{
    if (step->replica >= in->link->replica_count ||
        in->link->hosts[step->replica] != in->host)
        return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                           "replica %" PRIu32 " is not host %" PRIu32 "'s",
                           step->replica, in->host);
    switch ((int)step->kind) {
    case POD__WORKER__V1__EXCHANGE_STEP__KIND__ARRIVED:
        pod_gang_arrive_elsewhere(in->link->gang, step->replica);
        return POD_OK;
    case POD__WORKER__V1__EXCHANGE_STEP__KIND__PART:
        return in_part(in, step, err);
    case POD__WORKER__V1__EXCHANGE_STEP__KIND__LEFT:
        in_left(in, step);
        return POD_OK;
    default:
        return pod_err_set(err, POD_REASON_UNIMPLEMENTED,
                           "unknown kind of step: %d", (int)step->kind);
    }
}

// Does the steps of a message. Under the stream's lock.
static void in_do_locked(struct gang_in *in, const void *data, size_t size)
{
    struct pod_err err = POD_ERR_NONE;
    ProtobufCMessage *message = NULL;
    enum pod_code code =
        pod_wire_unpack(&pod__worker__v1__exchange_request__descriptor, data,
                        size, 0, &message, &err);
    const Pod__Worker__V1__ExchangeRequest *request =
        (const Pod__Worker__V1__ExchangeRequest *)message;
    for (size_t i = 0; code == POD_OK && i < request->n_steps; i++)
        code = in_step(in, request->steps[i], &err);
    pod_wire_free(message);
    if (code != POD_OK)
        rpc_stream_finish(in->stream, code, err.text);
}

static void in_stash_locked(struct gang_in *in, const void *data, size_t size)
{
    struct gang_stash *stash = pod_malloc(sizeof(*stash) + size);
    if (stash == NULL) {
        rpc_stream_finish(in->stream, POD_RESOURCE_EXHAUSTED, "no memory");
        return;
    }
    stash->size = size;
    memcpy(stash->data, data, size);
    pod_list_push_back(&in->stash, &stash->link);
    in->stashed += size;
    if (in->stashed > GANG_LINK_PIECE_BYTES)
        rpc_stream_pause(in->stream);
}

// ----------------------------------------------------------- finding the gang

// The gang and the sender, from the head of the first message.
static bool in_read_name(struct gang_in *in, const void *data, size_t size)
{
    struct pod_wire_field field;
    size_t at = 0;
    bool gang = false;
    while (pod_wire_next(data, size, &at, &field)) {
        if (field.number == 1 && field.wire_type == POD_WIRE_FIXED64) {
            in->id = field.value;
            gang = true;
        } else if (field.number == 2 && field.wire_type == POD_WIRE_VARINT) {
            in->host = (uint32_t)field.value;
        }
    }
    return gang && at == size;
}

static void in_unref(struct gang_in *in)
{
    struct pod_list *item;
    if (atomic_fetch_sub(&in->refs, 1) != 1)
        return;
    while ((item = pod_list_pop_front(&in->stash)) != NULL)
        pod_free(POD_CONTAINER(item, struct gang_stash, link));
    while (!pod_list_empty(&in->parts))
        part_free(POD_CONTAINER(in->parts.next, struct gang_part, link));
    if (in->link != NULL)
        gang_link_unref(in->link);
    rpc_stream_unref(in->stream);
    pod_mutex_fini(&in->lock);
    pod_free(in);
}

// Does what was kept, and reads on.
static void in_go_on(struct gang_in *in)
{
    struct pod_list *item;
    pod_mutex_lock(&in->lock);
    bool attached = in->link != NULL;
    while (attached && (item = pod_list_pop_front(&in->stash)) != NULL) {
        struct gang_stash *stash = POD_CONTAINER(item, struct gang_stash, link);
        in->stashed -= stash->size;
        in_do_locked(in, stash->data, stash->size);
        pod_free(stash);
    }
    bool over = in->over;
    pod_mutex_unlock(&in->lock);
    if (attached && over)
        gang_link_lose(in->link, in->host, "its stream has ended");
    if (attached)
        rpc_stream_resume(in->stream);
}

// The sender's only stream becomes part of the gang.
static bool in_join_locked(struct gang_in *in, struct gang_link *link)
{
    for (size_t i = 0; i < link->out_count; i++) {
        struct gang_out *out = &link->outs[i];
        if (out->host != in->host || out->heard)
            continue;
        out->heard = true;
        atomic_fetch_add(&link->refs, 1);
        return true;
    }
    return false;
}

enum in_place { IN_GANG, IN_WAITING, IN_LATE, IN_NO_ROOM, IN_NOT_WANTED };

// Finds the gang, or puts the stream among those that wait.
static enum in_place in_place_locked(struct gang_in *in,
                                     struct gang_link **out_link)
{
    struct gang_links *links = in->links;
    struct gang_link *link = pod_map_get(&links->by_gang, in->id);
    *out_link = link;
    if (link != NULL)
        return in_join_locked(in, link) ? IN_GANG : IN_NOT_WANTED;
    if (pod_map_get(&links->ended, in->id) != NULL)
        return IN_LATE;
    if (links->waiting_count == GANG_LINK_MAX_WAITING)
        return IN_NO_ROOM;
    in->since_ns = pod_clock_mono(&pod_clock_system);
    pod_list_push_back(&links->waiting, &in->waiting);
    links->waiting_count++;
    atomic_fetch_add(&in->refs, 1);
    return IN_WAITING;
}

static void in_refuse(struct gang_in *in)
{
    rpc_stream_finish(in->stream, POD_ALREADY_EXISTS,
                      "the gang has a stream of this host, or none of its "
                      "replicas is there");
}

static void in_attach(struct gang_in *in)
{
    struct gang_link *link = NULL;
    pod_mutex_lock(&in->links->lock);
    enum in_place place = in_place_locked(in, &link);
    pod_mutex_unlock(&in->links->lock);
    switch (place) {
    case IN_GANG:
        pod_mutex_lock(&in->lock);
        in->link = link;
        pod_mutex_unlock(&in->lock);
        in_go_on(in);
        return;
    case IN_WAITING: // it may be in its gang by now
        return;
    case IN_LATE: // why it has ended it was told, or sees
        rpc_stream_finish(in->stream, POD_OK, "");
        return;
    case IN_NO_ROOM:
        rpc_stream_finish(in->stream, POD_RESOURCE_EXHAUSTED,
                          "too many streams wait for their gangs");
        return;
    case IN_NOT_WANTED:
        in_refuse(in);
        return;
    }
}

// A stream that waits for this gang, or, with id 0, since before this time;
// with the list's reference.
static struct gang_in *in_take_waiting(struct gang_links *links, uint64_t id,
                                       int64_t before_ns)
{
    struct gang_in *found = NULL;
    pod_mutex_lock(&links->lock);
    for (struct pod_list *item = links->waiting.next;
         item != &links->waiting && found == NULL; item = item->next) {
        struct gang_in *in = POD_CONTAINER(item, struct gang_in, waiting);
        if (id != 0 ? in->id == id : in->since_ns <= before_ns)
            found = in;
    }
    if (found != NULL) {
        pod_list_remove(&found->waiting);
        links->waiting_count--;
    }
    pod_mutex_unlock(&links->lock);
    return found;
}

void gang_in_resume(struct gang_links *links, struct gang_link *link)
{
    struct gang_in *in;
    while ((in = in_take_waiting(links, link->id, 0)) != NULL) {
        pod_mutex_lock(&links->lock);
        bool joined = in_join_locked(in, link);
        pod_mutex_unlock(&links->lock);
        pod_mutex_lock(&in->lock);
        in->link = joined ? link : NULL;
        pod_mutex_unlock(&in->lock);
        if (joined)
            in_go_on(in);
        else
            in_refuse(in);
        in_unref(in);
    }
}

void gang_in_drop(struct gang_links *links, uint64_t id)
{
    struct gang_in *in;
    while ((in = in_take_waiting(links, id, 0)) != NULL) {
        rpc_stream_finish(in->stream, POD_OK, "");
        in_unref(in);
    }
}

void gang_in_expire(struct gang_links *links, int64_t before_ns)
{
    struct gang_in *in;
    while ((in = in_take_waiting(links, 0, before_ns)) != NULL) {
        rpc_stream_finish(in->stream, POD_DEADLINE_EXCEEDED,
                          "the gang did not begin here");
        in_unref(in);
    }
}

// ----------------------------------------------------------------- the stream

// The first message is kept before the gang can find the stream.
static void in_first(struct gang_in *in, const void *data, size_t size)
{
    in->named = true;
    if (!in_read_name(in, data, size) || in->id == 0) {
        rpc_stream_finish(in->stream, POD_INVALID_ARGUMENT,
                          "the stream does not begin with its gang");
        return;
    }
    pod_mutex_lock(&in->lock);
    in_stash_locked(in, data, size);
    pod_mutex_unlock(&in->lock);
    in_attach(in);
}

static void in_message(void *arg, const void *data, size_t size)
{
    struct gang_in *in = arg;
    if (!in->named) {
        in_first(in, data, size);
        return;
    }
    pod_mutex_lock(&in->lock);
    if (in->link != NULL && pod_list_empty(&in->stash))
        in_do_locked(in, data, size);
    else
        in_stash_locked(in, data, size);
    pod_mutex_unlock(&in->lock);
}

static void in_half_closed(void *arg)
{
    rpc_stream_finish(((struct gang_in *)arg)->stream, POD_OK, "");
}

// Replicas that have not left never will.
static void in_ended(void *arg, enum pod_code code, const char *text)
{
    struct gang_in *in = arg;
    (void)code;
    (void)text;
    pod_mutex_lock(&in->lock);
    in->over = true;
    struct gang_link *link =
        pod_list_empty(&in->stash) ? in->link : NULL; // else in_go_on does it
    pod_mutex_unlock(&in->lock);
    if (link != NULL)
        gang_link_lose(link, in->host, "its stream has ended");
    in_unref(in);
}

void gang_links_opened(void *arg, struct rpc_stream *owned_stream,
                       struct rpc_stream_events *out_events, void **out_arg)
{
    struct gang_in *in = pod_calloc(1, sizeof(*in));
    if (in == NULL) {
        answers_refuse(owned_stream, out_events, out_arg);
        return;
    }
    atomic_init(&in->refs, 1);
    in->links = arg;
    in->stream = owned_stream;
    pod_mutex_init(&in->lock, POD_RANK_DEVICE + 1, "gang stream");
    pod_list_init(&in->waiting);
    pod_list_init(&in->stash);
    pod_list_init(&in->parts);
    *out_events = (struct rpc_stream_events){.message = in_message,
                                             .half_closed = in_half_closed,
                                             .ended = in_ended};
    *out_arg = in;
}
