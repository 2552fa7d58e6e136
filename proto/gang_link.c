// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "proto/gang_internal.h"

enum { GANG_BATCH_BYTES = 4 << 20 };

// ------------------------------------------------------------------ the steps

static struct pod_wire_out *gang_pack(const Pod__Worker__V1__ExchangeStep *step,
                                      struct pod_blob *data, size_t offset,
                                      size_t size)
{
    const struct pod_wire_level level = {.number = 3, .message = &step->base};
    return pod_wire_pack_levels(&level, 1, 7, data, offset, size);
}

static void gang_send_step(struct gang_link *link,
                           const Pod__Worker__V1__ExchangeStep *step)
{
    for (size_t i = 0; i < link->out_count; i++) {
        if (link->outs[i].stream != NULL)
            rpc_stream_send(link->outs[i].stream, gang_pack(step, NULL, 0, 0));
    }
}

// The gang that the driver knows by this number, with a reference, or NULL.
static struct gang_link *gang_by_op(struct gang_links *links, uint64_t op)
{
    pod_mutex_lock(&links->lock);
    struct gang_link *link = pod_map_get(&links->by_op, op);
    if (link != NULL)
        atomic_fetch_add(&link->refs, 1);
    pod_mutex_unlock(&links->lock);
    return link;
}

static void gang_arrived(void *arg, uint64_t op, uint32_t replica)
{
    struct gang_link *link = gang_by_op(arg, op);
    Pod__Worker__V1__ExchangeStep step;
    if (link == NULL)
        return;
    pod__worker__v1__exchange_step__init(&step);
    step.replica = replica;
    step.kind = POD__WORKER__V1__EXCHANGE_STEP__KIND__ARRIVED;
    gang_send_step(link, &step);
    gang_link_unref(link);
}

static void gang_send_left(struct gang_link *link, uint32_t replica,
                           const struct pod_err *cause)
{
    Pod__Worker__V1__ExchangeStep step;
    Pod__Worker__V1__Status status;
    char text[POD_ERR_TEXT_BYTES];
    pod__worker__v1__exchange_step__init(&step);
    pod__worker__v1__status__init(&status);
    step.replica = replica;
    step.kind = POD__WORKER__V1__EXCHANGE_STEP__KIND__LEFT;
    if (cause != NULL) {
        memcpy(text, cause->text, sizeof(text));
        pod_wire_clean_text(text);
        status.code = (uint32_t)cause->code;
        status.message = text;
        step.cause = &status;
    }
    gang_send_step(link, &step);
}

static void gang_left(void *arg, uint64_t op, uint32_t replica,
                      const struct pod_err *cause)
{
    struct gang_link *link = gang_by_op(arg, op);
    if (link == NULL)
        return;
    gang_send_left(link, replica, cause);
    gang_link_unref(link);
}

static bool gang_has_host(const struct gang_link *link, const uint32_t *group,
                          size_t group_size, uint32_t host)
{
    for (size_t i = 0; i < group_size; i++) {
        if (link->hosts[group[i]] == host)
            return true;
    }
    return false;
}

static void gang_send_part(const struct gang_out *out,
                           Pod__Worker__V1__ExchangeStep *step,
                           struct pod_blob *blob)
{
    size_t at = 0;
    do {
        size_t left = blob->size - at;
        size_t piece =
            left < GANG_LINK_PIECE_BYTES ? left : GANG_LINK_PIECE_BYTES;
        step->offset = at;
        rpc_stream_send(out->stream, gang_pack(step, blob, at, piece));
        at += piece;
    } while (at < blob->size);
}

static void gang_gave(void *arg, uint64_t op, uint32_t replica,
                      const uint32_t *group, size_t group_size,
                      uint64_t sequence, const void *part, size_t bytes)
{
    struct gang_link *link = gang_by_op(arg, op);
    Pod__Worker__V1__ExchangeStep step;
    if (link == NULL)
        return;
    pod__worker__v1__exchange_step__init(&step);
    step.replica = replica;
    step.kind = POD__WORKER__V1__EXCHANGE_STEP__KIND__PART;
    step.n_group = group_size;
    memcpy(&step.group, &group, sizeof(group)); // packing does not write it
    step.sequence = sequence;
    step.total_bytes = bytes;
    struct pod_blob *blob = pod_blob_new(bytes);
    if (blob != NULL && bytes > 0)
        memcpy(blob->data, part, bytes);
    for (size_t i = 0; i < link->out_count; i++) {
        const struct gang_out *out = &link->outs[i];
        if (out->stream == NULL ||
            !gang_has_host(link, group, group_size, out->host))
            continue;
        if (blob != NULL)
            gang_send_part(out, &step, blob);
        else
            rpc_stream_send(out->stream, NULL); // breaks it, and the gang
    }
    pod_blob_unref(blob);
    gang_link_unref(link);
}

// ------------------------------------------------------------- the other side

static void gang_out_message(void *arg, const void *data, size_t size)
{
    (void)arg; // the answers have no fields
    (void)data;
    (void)size;
}

static void gang_out_ended(void *arg, enum pod_code code, const char *text)
{
    struct gang_out *out = arg;
    struct gang_link *link = out->link;
    struct pod_err err = POD_ERR_NONE;
    (void)pod_err_set(&err, POD_REASON_HOST_LOST, "worker %s: %s", out->address,
                      text);
    if (code != POD_OK)
        gang_link_lose(link, out->host, err.text);
    gang_link_unref(link);
}

static enum pod_code gang_open_out(struct gang_link *link, struct gang_out *out,
                                   struct pod_err *err)
{
    static const struct rpc_stream_events events = {.message = gang_out_message,
                                                    .ended = gang_out_ended};
    static const struct rpc_stream_settings settings = {.batch_bytes =
                                                            GANG_BATCH_BYTES};
    Pod__Worker__V1__ExchangeRequest first =
        POD__WORKER__V1__EXCHANGE_REQUEST__INIT;
    if (out->session == 0)
        return pod_err_set(err, POD_REASON_HOST_LOST,
                           "worker %s is not connected", out->address);
    atomic_fetch_add(&link->refs, 1); // the stream's
    enum pod_code code = peers_open(link->links->peers, out->address,
                                    "/pod.worker.v1.PodWorker/Exchange",
                                    &settings, &events, out, &out->stream, err);
    if (code != POD_OK) {
        gang_link_unref(link);
        return code;
    }
    first.gang = link->id;
    first.from_host = link->own_host;
    rpc_stream_send(out->stream, pod_wire_pack(&first.base));
    return POD_OK;
}

static void gang_open_outs(struct gang_link *link)
{
    struct pod_err err = POD_ERR_NONE;
    for (size_t i = 0; i < link->out_count; i++) {
        if (gang_open_out(link, &link->outs[i], &err) != POD_OK)
            gang_link_lose(link, link->outs[i].host, err.text);
    }
}

void gang_link_lose(struct gang_link *link, uint32_t host, const char *why)
{
    struct pod_err cause = POD_ERR_NONE;
    (void)pod_err_set(&cause, POD_REASON_HOST_LOST, "%s", why);
    if (link->gang == NULL)
        return;
    for (uint32_t i = 0; i < link->replica_count; i++) {
        if (link->hosts[i] == host)
            pod_gang_leave(link->gang, i, &cause);
    }
}

// ------------------------------------------------------------------ begin, end

static enum pod_code gang_register(struct gang_link *link, struct pod_err *err)
{
    struct gang_links *links = link->links;
    enum pod_code code = POD_OK;
    pod_mutex_lock(&links->lock);
    if (pod_map_get(&links->by_gang, link->id) != NULL)
        code = pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                           "gang %016" PRIx64 " is already running", link->id);
    else if (!pod_map_put(&links->by_gang, link->id, link))
        code = pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    else if (!pod_map_put(&links->by_op, link->driver_op, link)) {
        (void)pod_map_remove(&links->by_gang, link->id);
        code = pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    }
    pod_mutex_unlock(&links->lock);
    return code;
}

static enum pod_code gang_begin(struct worker_plan *plan, uint64_t driver_op,
                                struct pod_err *err)
{
    struct gang_link *link = POD_CONTAINER(plan, struct gang_link, plan);
    enum pod_code code =
        pod_gang_join(link->links->hub, driver_op, link->replica_count,
                      link->places, &link->gang, err);
    link->driver_op = driver_op;
    if (code == POD_OK)
        code = gang_register(link, err);
    if (code != POD_OK)
        return code;
    link->begun = true;
    gang_open_outs(link);
    gang_in_resume(link->links, link);
    return POD_OK;
}

static void gang_close_outs(struct gang_link *link)
{
    for (size_t i = 0; i < link->out_count; i++) {
        if (link->outs[i].stream != NULL)
            rpc_stream_half_close(link->outs[i].stream);
    }
}

// Streams that come for it from now on need not wait. Without memory they do,
// as they do for one that is forgotten.
static void gang_remember_locked(struct gang_links *links, uint64_t id)
{
    uint64_t *place = &links->ended_ids[links->ended_at];
    if (pod_map_get(&links->ended, id) != NULL)
        return;
    if (*place != 0)
        (void)pod_map_remove(&links->ended, *place);
    *place = pod_map_put(&links->ended, id, links) ? id : 0;
    links->ended_at = (links->ended_at + 1) % GANG_LINK_MAX_ENDED;
}

// If it ended badly the others are told so, whether it had begun or not: being
// told twice that a replica has left does no harm.
static void gang_end(struct worker_plan *plan, const struct pod_err *err)
{
    struct gang_link *link = POD_CONTAINER(plan, struct gang_link, plan);
    struct gang_links *links = link->links;
    if (!link->begun)
        gang_open_outs(link);
    for (uint32_t i = 0; i < link->replica_count && err->code != POD_OK; i++) {
        if (link->places[i] == 0)
            gang_send_left(link, i, err);
    }
    gang_close_outs(link);
    pod_mutex_lock(&links->lock);
    if (pod_map_get(&links->by_gang, link->id) == link)
        (void)pod_map_remove(&links->by_gang, link->id);
    if (pod_map_get(&links->by_op, link->driver_op) == link)
        (void)pod_map_remove(&links->by_op, link->driver_op);
    gang_remember_locked(links, link->id);
    pod_mutex_unlock(&links->lock);
    gang_in_drop(links, link->id);
    // Workers that have not connected yet need not do so any more.
    for (size_t i = 0; i < link->out_count; i++)
        gang_link_lose(link, link->outs[i].host, "the gang has ended");
}

void gang_link_unref(struct gang_link *link)
{
    if (atomic_fetch_sub(&link->refs, 1) != 1)
        return;
    for (size_t i = 0; i < link->out_count; i++) {
        rpc_stream_unref(link->outs[i].stream);
        pod_free(link->outs[i].address);
    }
    pod_gang_unref(link->gang);
    pod_free(link->outs);
    pod_free(link->hosts);
    pod_free(link->places);
    pod_free(link);
}

static void gang_free(struct worker_plan *plan)
{
    gang_link_unref(POD_CONTAINER(plan, struct gang_link, plan));
}

// ------------------------------------------------------------------- the plan

static enum pod_code gang_fill_members(struct gang_link *link,
                                       const Pod__Worker__V1__Execute *execute,
                                       struct pod_err *err)
{
    for (size_t i = 0; i < execute->n_members; i++) {
        link->hosts[i] = execute->members[i]->host;
        link->places[i] = 1;
    }
    for (size_t i = 0; i < execute->n_launches; i++) {
        uint32_t replica = execute->launches[i]->replica;
        if (replica >= link->replica_count || link->places[replica] == 0)
            return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                               "replica %" PRIu32
                               " is launched twice, or is not in the gang",
                               replica);
        link->places[replica] = 0;
    }
    link->own_host = link->hosts[execute->launches[0]->replica];
    for (uint32_t i = 0; i < link->replica_count; i++) {
        if ((link->hosts[i] == link->own_host) != (link->places[i] == 0))
            return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                               "replica %" PRIu32 " is on host %" PRIu32
                               ", but is%s launched here",
                               i, link->hosts[i],
                               link->places[i] == 0 ? "" : " not");
    }
    return POD_OK;
}

static enum pod_code gang_fill_outs(struct gang_link *link,
                                    const Pod__Worker__V1__Execute *execute,
                                    struct pod_err *err)
{
    for (size_t i = 0; i < execute->n_peers; i++) {
        const Pod__Worker__V1__Peer *peer = execute->peers[i];
        struct gang_out *out = &link->outs[link->out_count];
        if (peer->host == link->own_host)
            continue;
        *out = (struct gang_out){.link = link,
                                 .host = peer->host,
                                 .session = peer->session,
                                 .address = pod_strdup(peer->address)};
        if (out->address == NULL)
            return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
        link->out_count++;
    }
    for (uint32_t i = 0; i < link->replica_count; i++) {
        bool known = link->places[i] == 0;
        for (size_t k = 0; k < link->out_count && !known; k++)
            known = link->outs[k].host == link->hosts[i];
        if (!known)
            return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                               "the address of host %" PRIu32 " is missing",
                               link->hosts[i]);
    }
    return POD_OK;
}

enum pod_code gang_links_plan(struct gang_links *links,
                              const Pod__Worker__V1__Execute *execute,
                              struct worker_plan **out_plan,
                              struct pod_err *err)
{
    struct gang_link *link = pod_calloc(1, sizeof(*link));
    if (link == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    atomic_init(&link->refs, 1);
    link->links = links;
    link->id = execute->gang;
    link->replica_count = (uint32_t)execute->n_members;
    link->hosts = pod_calloc(execute->n_members, sizeof(link->hosts[0]));
    link->places = pod_calloc(execute->n_members, sizeof(link->places[0]));
    link->outs = pod_calloc(execute->n_peers, sizeof(link->outs[0]));
    enum pod_code code = POD_OK;
    if (link->hosts == NULL || link->places == NULL || link->outs == NULL)
        code = pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    if (code == POD_OK && link->id == 0)
        code = pod_err_set(err, POD_REASON_BAD_VALUE, "a gang without a name");
    if (code == POD_OK)
        code = gang_fill_members(link, execute, err);
    if (code == POD_OK)
        code = gang_fill_outs(link, execute, err);
    if (code != POD_OK) {
        gang_link_unref(link);
        return code;
    }
    link->plan = (struct worker_plan){.places = link->places,
                                      .begin = gang_begin,
                                      .end = gang_end,
                                      .free = gang_free};
    *out_plan = &link->plan;
    return POD_OK;
}

// ------------------------------------------------------------------ the links

struct gang_links *gang_links_new(struct pod_gang_hub *hub, struct peers *peers)
{
    struct gang_links *links = pod_calloc(1, sizeof(*links));
    if (links == NULL)
        return NULL;
    // Above the locks of the driver, under which a replica may leave, and below
    // those of the hub.
    pod_mutex_init(&links->lock, POD_RANK_DEVICE, "gang links");
    pod_list_init(&links->waiting);
    links->hub = pod_gang_hub_ref(hub);
    links->peers = peers;
    struct pod_gang_tap tap = {.arrived = gang_arrived,
                               .gave = gang_gave,
                               .left = gang_left,
                               .arg = links};
    pod_gang_hub_tap(hub, 0, &tap);
    return links;
}

void gang_links_stop(struct gang_links *links)
{
    if (links != NULL)
        gang_in_expire(links, POD_NEVER);
}

void gang_links_free(struct gang_links *links)
{
    if (links == NULL)
        return;
    pod_map_fini(&links->by_gang);
    pod_map_fini(&links->by_op);
    pod_map_fini(&links->ended);
    pod_gang_hub_unref(links->hub);
    pod_mutex_fini(&links->lock);
    pod_free(links);
}

void gang_links_tick(struct gang_links *links)
{
    gang_in_expire(links,
                   pod_clock_mono(&pod_clock_system) - GANG_LINK_WAIT_NS);
}
