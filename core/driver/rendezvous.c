// SPDX-License-Identifier: Apache-2.0
// Happy path: join, arrive (the last one wakes all), any number of rounds, one
// for each collective and group, leave, unref; the record goes when all
// replicas have left and nobody holds it.
//
// Failures: the first sets `cause` and wakes all. A round that is complete is
// still handed out, so that all of its members see the same end of it.
//
// No hang: who waits in a round waits for members that are at a lower sequence
// number, or running. A member that has left, is past this number, or is at it
// in another round, is found by whichever of the two comes last. Numbers fall
// along each chain of waiting, so there is no cycle.
#include "core/driver/rendezvous.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "core/base/list.h"
#include "core/base/lock.h"
#include "core/base/map.h"
#include "core/base/mem.h"

struct pod_gang_hub {
    struct pod_mutex lock;
    long refs;
    struct pod_map gangs;       // struct pod_gang by operation
    struct pod_list remembered; // gangs with no reference, oldest first
    size_t remembered_count;
    uint32_t host_count;
    bool lost[]; // by host
};

enum gang_place { GANG_AWAITED, GANG_ARRIVED, GANG_LEFT };

struct gang_replica {
    uint32_t host;
    enum gang_place place;
    uint64_t next;  // the least sequence number it may come with
    uint64_t stamp; // finds a replica that stands in a group twice
};

struct pod_gang {
    struct pod_mutex lock; // guards what follows `replica_count`
    // Guarded by the hub's lock.
    struct pod_list link; // in hub->remembered when refs is 0
    long refs;
    // Constant.
    struct pod_gang_hub *hub;
    struct pod_exchange exchange;
    uint64_t op;
    uint32_t replica_count;
    struct pod_cond all_arrived;
    uint32_t arrived;
    bool assembled; // all have arrived, whatever came after
    uint32_t left;
    uint64_t stamp;
    struct pod_err cause;   // code is not POD_OK: aborted
    struct pod_list rounds; // struct gang_round
    struct gang_replica replicas[];
};

// One collective of one group.
struct gang_round {
    struct pod_list link;
    struct pod_cond complete;
    uint64_t sequence;
    size_t bytes; // of one part
    size_t group_size;
    size_t ready;  // parts that are in `data`
    size_t inside; // members that hold the round
    unsigned char *data;
    uint32_t *group;
    bool *here; // by position: the member has come
};

// --------------------------------------------------------------------- hub

struct pod_gang_hub *pod_gang_hub_new(uint32_t host_count)
{
    struct pod_gang_hub *hub =
        pod_calloc(1, sizeof *hub + host_count * sizeof hub->lost[0]);

    if (hub == NULL)
        return NULL;
    pod_mutex_init(&hub->lock, POD_RANK_GANG, "gang hub");
    pod_list_init(&hub->remembered);
    hub->refs = 1;
    hub->host_count = host_count;
    return hub;
}

struct pod_gang_hub *pod_gang_hub_ref(struct pod_gang_hub *hub)
{
    pod_mutex_lock(&hub->lock);
    hub->refs++;
    pod_mutex_unlock(&hub->lock);
    return hub;
}

// The caller holds the hub's lock; nobody else knows the gang any more.
static void gang_free_locked(struct pod_gang *gang)
{
    assert(pod_list_empty(&gang->rounds));
    (void)pod_map_remove(&gang->hub->gangs, gang->op);
    pod_cond_fini(&gang->all_arrived);
    pod_mutex_fini(&gang->lock);
    pod_free(gang);
}

static void hub_forget_locked(struct pod_gang_hub *hub, struct pod_gang *gang)
{
    pod_list_remove(&gang->link);
    hub->remembered_count--;
    gang_free_locked(gang);
}

void pod_gang_hub_unref(struct pod_gang_hub *hub)
{
    if (hub == NULL)
        return;
    pod_mutex_lock(&hub->lock);
    bool last = --hub->refs == 0;
    while (last && !pod_list_empty(&hub->remembered)) {
        struct pod_list *oldest = hub->remembered.next;
        hub_forget_locked(hub, POD_CONTAINER(oldest, struct pod_gang, link));
    }
    pod_mutex_unlock(&hub->lock);
    if (!last)
        return;
    assert(hub->gangs.count == 0);
    pod_map_fini(&hub->gangs);
    pod_mutex_fini(&hub->lock);
    pod_free(hub);
}

// ------------------------------------------------------------------- abort

static void gang_wake_locked(struct pod_gang *gang)
{
    pod_cond_broadcast(&gang->all_arrived);
    for (struct pod_list *item = gang->rounds.next; item != &gang->rounds;
         item = item->next)
        pod_cond_broadcast(
            &POD_CONTAINER(item, struct gang_round, link)->complete);
}

// The first failure wins. The cause of a member that was itself told of an
// abort is never the first.
static void gang_abort_locked(struct pod_gang *gang, uint32_t replica,
                              const char *cause)
{
    if (gang->cause.code != POD_OK)
        return;
    (void)pod_err_set(&gang->cause, POD_REASON_GANG_ABORTED,
                      "gang aborted by replica %" PRIu32 ": %s", replica,
                      cause);
    gang_wake_locked(gang);
}

static bool round_awaits(const struct gang_round *round, uint32_t replica)
{
    for (size_t i = 0; i < round->group_size; i++) {
        if (round->group[i] == replica)
            return !round->here[i];
    }
    return false;
}

static void gang_leave_locked(struct pod_gang *gang, uint32_t replica,
                              const char *cause)
{
    struct gang_replica *self = &gang->replicas[replica];

    if (self->place == GANG_LEFT)
        return;
    if (cause == NULL && !gang->assembled)
        cause = "it ended before the others had arrived";
    self->place = GANG_LEFT;
    gang->left++;
    for (struct pod_list *item = gang->rounds.next;
         item != &gang->rounds && cause == NULL; item = item->next) {
        if (round_awaits(POD_CONTAINER(item, struct gang_round, link), replica))
            cause = "it ended while others waited for it in a collective";
    }
    if (cause != NULL)
        gang_abort_locked(gang, replica, cause);
}

void pod_gang_leave(struct pod_gang *gang, uint32_t replica,
                    const struct pod_err *cause)
{
    if (replica >= gang->replica_count)
        return;
    pod_mutex_lock(&gang->lock);
    gang_leave_locked(gang, replica, cause == NULL ? NULL : cause->text);
    pod_mutex_unlock(&gang->lock);
}

void pod_gang_wake(struct pod_gang *gang)
{
    pod_mutex_lock(&gang->lock);
    gang_wake_locked(gang);
    pod_mutex_unlock(&gang->lock);
}

// Says whether all replicas have left.
static bool gang_lose_host(struct pod_gang *gang, uint32_t host,
                           const char *why)
{
    struct pod_err cause;

    (void)pod_err_set(&cause, POD_REASON_HOST_LOST,
                      "host %" PRIu32 " was lost: %s", host, why);
    pod_mutex_lock(&gang->lock);
    for (uint32_t i = 0; i < gang->replica_count; i++) {
        if (gang->replicas[i].host == host)
            gang_leave_locked(gang, i, cause.text);
    }
    bool empty = gang->left == gang->replica_count;
    pod_mutex_unlock(&gang->lock);
    return empty;
}

// Remembered gangs that nobody can come to any more.
static void hub_sweep_locked(struct pod_gang_hub *hub)
{
    struct pod_list *item = hub->remembered.next;

    while (item != &hub->remembered) {
        struct pod_gang *gang = POD_CONTAINER(item, struct pod_gang, link);
        item = item->next;
        if (gang->left == gang->replica_count)
            hub_forget_locked(hub, gang);
    }
}

void pod_gang_host_lost(struct pod_gang_hub *hub, uint32_t host,
                        const char *why)
{
    size_t cursor = 0;
    uint64_t op;
    void *value;

    pod_mutex_lock(&hub->lock);
    if (host < hub->host_count) {
        hub->lost[host] = true;
        while (pod_map_next(&hub->gangs, &cursor, &op, &value))
            (void)gang_lose_host(value, host, why);
        hub_sweep_locked(hub);
    }
    pod_mutex_unlock(&hub->lock);
}

void pod_gang_host_present(struct pod_gang_hub *hub, uint32_t host)
{
    pod_mutex_lock(&hub->lock);
    if (host < hub->host_count)
        hub->lost[host] = false;
    pod_mutex_unlock(&hub->lock);
}

// -------------------------------------------------------------------- join

static enum pod_code gang_all_gather(struct pod_exchange *exchange,
                                     uint32_t replica, const uint32_t *group,
                                     size_t group_size, uint64_t sequence,
                                     const void *part, size_t bytes, void *out,
                                     struct pod_interrupt *interrupt,
                                     struct pod_err *err);

static enum pod_code hub_make_gang_locked(struct pod_gang_hub *hub, uint64_t op,
                                          uint32_t replica_count,
                                          const uint32_t *replica_hosts,
                                          struct pod_gang **out_gang,
                                          struct pod_err *err)
{
    struct pod_gang *gang =
        pod_calloc(1, sizeof *gang + replica_count * sizeof gang->replicas[0]);

    if (gang == NULL || !pod_map_put(&hub->gangs, op, gang)) {
        pod_free(gang);
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for a gang of %" PRIu32 " replicas",
                           replica_count);
    }
    pod_mutex_init(&gang->lock, POD_RANK_GANG + 1, "gang");
    pod_cond_init(&gang->all_arrived);
    pod_list_init(&gang->rounds);
    pod_list_init(&gang->link);
    gang->hub = hub;
    gang->exchange.all_gather = gang_all_gather;
    gang->op = op;
    gang->replica_count = replica_count;
    for (uint32_t i = 0; i < replica_count; i++)
        gang->replicas[i].host = replica_hosts[i];
    for (uint32_t i = 0; i < replica_count; i++) {
        if (hub->lost[replica_hosts[i]])
            (void)gang_lose_host(gang, replica_hosts[i], "it is not there");
    }
    *out_gang = gang;
    return POD_OK;
}

static enum pod_code hub_check(const struct pod_gang_hub *hub,
                               uint32_t replica_count,
                               const uint32_t *replica_hosts,
                               struct pod_err *err)
{
    if (replica_count == 0 || replica_count > POD_GANG_MAX_REPLICAS)
        return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                           "a gang of %" PRIu32 " replicas: 1 to %d can meet",
                           replica_count, POD_GANG_MAX_REPLICAS);
    for (uint32_t i = 0; i < replica_count; i++) {
        if (replica_hosts[i] >= hub->host_count)
            return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                               "replica %" PRIu32 " is on host %" PRIu32
                               ", but there are %" PRIu32 " hosts",
                               i, replica_hosts[i], hub->host_count);
    }
    return POD_OK;
}

// Whether a host gave the same gang as the one that came first.
static bool gang_is(const struct pod_gang *gang, uint32_t replica_count,
                    const uint32_t *replica_hosts)
{
    if (gang->replica_count != replica_count)
        return false;
    for (uint32_t i = 0; i < replica_count; i++) {
        if (gang->replicas[i].host != replica_hosts[i])
            return false;
    }
    return true;
}

static enum pod_code gang_join_locked(struct pod_gang_hub *hub, uint64_t op,
                                      uint32_t replica_count,
                                      const uint32_t *replica_hosts,
                                      struct pod_gang **out_gang,
                                      struct pod_err *err)
{
    struct pod_gang *gang = pod_map_get(&hub->gangs, op);

    if (gang == NULL)
        return hub_make_gang_locked(hub, op, replica_count, replica_hosts,
                                    out_gang, err);
    if (!gang_is(gang, replica_count, replica_hosts))
        return pod_err_set(
            err, POD_REASON_BAD_ASSIGNMENT,
            "gang %" PRIu64 " has other replicas on another host", op);
    if (gang->refs == 0) {
        pod_list_remove(&gang->link);
        hub->remembered_count--;
    }
    *out_gang = gang;
    return POD_OK;
}

enum pod_code pod_gang_join(struct pod_gang_hub *hub, uint64_t op,
                            uint32_t replica_count,
                            const uint32_t *replica_hosts,
                            struct pod_gang **out_gang, struct pod_err *err)
{
    enum pod_code code = hub_check(hub, replica_count, replica_hosts, err);
    struct pod_gang *gang = NULL;

    if (code != POD_OK)
        return code;
    pod_mutex_lock(&hub->lock);
    code = gang_join_locked(hub, op, replica_count, replica_hosts, &gang, err);
    if (code == POD_OK) {
        gang->refs++;
        *out_gang = gang;
    }
    pod_mutex_unlock(&hub->lock);
    return code;
}

void pod_gang_unref(struct pod_gang *gang)
{
    if (gang == NULL)
        return;
    struct pod_gang_hub *hub = gang->hub;
    pod_mutex_lock(&hub->lock);
    if (--gang->refs > 0) {
        pod_mutex_unlock(&hub->lock);
        return;
    }
    if (gang->left == gang->replica_count) {
        gang_free_locked(gang);
    } else {
        pod_list_push_back(&hub->remembered, &gang->link);
        hub->remembered_count++;
    }
    if (hub->remembered_count > POD_GANG_MAX_REMEMBERED)
        hub_forget_locked(
            hub, POD_CONTAINER(hub->remembered.next, struct pod_gang, link));
    pod_mutex_unlock(&hub->lock);
}

// ------------------------------------------------------------------ arrive

static bool gang_interrupted(struct pod_interrupt *interrupt)
{
    return interrupt != NULL && atomic_load(&interrupt->asked);
}

// Why a wait ended that did not get what it waited for.
static enum pod_code gang_failure_locked(struct pod_gang *gang,
                                         uint32_t replica,
                                         struct pod_interrupt *interrupt,
                                         struct pod_err *err)
{
    if (gang->cause.code != POD_OK) {
        if (err != NULL)
            *err = gang->cause;
        return gang->cause.code;
    }
    assert(gang_interrupted(interrupt));
    (void)interrupt;
    gang_abort_locked(gang, replica, "it was cancelled");
    return pod_err_set(err, POD_REASON_CANCEL_REQUESTED,
                       "replica %" PRIu32 " was cancelled", replica);
}

enum pod_code pod_gang_arrive(struct pod_gang *gang, uint32_t replica,
                              struct pod_interrupt *interrupt,
                              struct pod_err *err)
{
    enum pod_code code = POD_OK;

    if (replica >= gang->replica_count)
        return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                           "replica %" PRIu32 " of a gang of %" PRIu32, replica,
                           gang->replica_count);
    pod_mutex_lock(&gang->lock);
    if (gang->replicas[replica].place == GANG_AWAITED) {
        gang->replicas[replica].place = GANG_ARRIVED;
        gang->arrived++;
        if (gang->arrived == gang->replica_count) {
            gang->assembled = true;
            pod_cond_broadcast(&gang->all_arrived);
        }
    }
    while (!gang->assembled && gang->cause.code == POD_OK &&
           !gang_interrupted(interrupt))
        pod_cond_wait(&gang->all_arrived, &gang->lock);
    if (gang->cause.code != POD_OK || gang_interrupted(interrupt))
        code = gang_failure_locked(gang, replica, interrupt, err);
    pod_mutex_unlock(&gang->lock);
    return code;
}

struct pod_exchange *pod_gang_exchange(struct pod_gang *gang)
{
    return &gang->exchange;
}

// ------------------------------------------------------------------ rounds

static struct gang_round *round_new(const uint32_t *group, size_t group_size,
                                    uint64_t sequence, size_t bytes)
{
    size_t total;

    if (__builtin_mul_overflow(group_size, bytes, &total))
        return NULL;
    struct gang_round *round =
        pod_calloc(1, sizeof *round + group_size * (sizeof round->group[0] +
                                                    sizeof round->here[0]));
    if (round == NULL)
        return NULL;
    round->data = pod_malloc(total);
    if (round->data == NULL) {
        pod_free(round);
        return NULL;
    }
    round->group = (uint32_t *)(void *)(round + 1);
    round->here = (bool *)(round->group + group_size);
    memcpy(round->group, group, group_size * sizeof group[0]);
    round->group_size = group_size;
    round->sequence = sequence;
    round->bytes = bytes;
    pod_cond_init(&round->complete);
    return round;
}

static void round_leave_locked(struct gang_round *round)
{
    if (--round->inside > 0)
        return;
    pod_list_remove(&round->link);
    pod_cond_fini(&round->complete);
    pod_free(round->data);
    pod_free(round);
}

static enum pod_code gang_fault_locked(struct pod_gang *gang, uint32_t replica,
                                       struct pod_err *err)
{
    gang_abort_locked(gang, replica, err->text);
    return err->code;
}

// A group without faults; gives the replica's position in it.
static enum pod_code
gang_check_group_locked(struct pod_gang *gang, uint32_t replica,
                        const uint32_t *group, size_t group_size,
                        size_t *out_position, struct pod_err *err)
{
    bool found = false;
    uint64_t stamp = ++gang->stamp;

    for (size_t i = 0; i < group_size; i++) {
        if (group[i] >= gang->replica_count)
            return pod_err_set(err, POD_REASON_PROGRAM_FAULT,
                               "group names replica %" PRIu32 " of %" PRIu32,
                               group[i], gang->replica_count);
        if (gang->replicas[group[i]].stamp == stamp)
            return pod_err_set(err, POD_REASON_PROGRAM_FAULT,
                               "group names replica %" PRIu32 " twice",
                               group[i]);
        gang->replicas[group[i]].stamp = stamp;
        if (group[i] == replica) {
            *out_position = i;
            found = true;
        }
    }
    if (!found)
        return pod_err_set(err, POD_REASON_PROGRAM_FAULT,
                           "replica %" PRIu32 " is not in its own group",
                           replica);
    return POD_OK;
}

static bool round_is(const struct gang_round *round, const uint32_t *group,
                     size_t group_size, uint64_t sequence)
{
    return round->sequence == sequence && round->group_size == group_size &&
           memcmp(round->group, group, group_size * sizeof group[0]) == 0;
}

static struct gang_round *gang_find_round_locked(struct pod_gang *gang,
                                                 const uint32_t *group,
                                                 size_t group_size,
                                                 uint64_t sequence)
{
    for (struct pod_list *item = gang->rounds.next; item != &gang->rounds;
         item = item->next) {
        struct gang_round *round = POD_CONTAINER(item, struct gang_round, link);
        if (round_is(round, group, group_size, sequence))
            return round;
    }
    return NULL;
}

// Members that cannot come to the round (NULL: it is new) of this replica.
static enum pod_code
gang_check_members_locked(struct pod_gang *gang, const struct gang_round *round,
                          uint32_t replica, const uint32_t *group,
                          size_t group_size, uint64_t sequence,
                          struct pod_err *err)
{
    for (size_t i = 0; i < group_size; i++) {
        const struct gang_replica *member = &gang->replicas[group[i]];
        if (round != NULL && round->here[i] && group[i] != replica)
            continue;
        if (member->place == GANG_LEFT)
            return pod_err_set(err, POD_REASON_PROGRAM_FAULT,
                               "replica %" PRIu32
                               " ended before collective %" PRIu64,
                               group[i], sequence);
        if (member->next > sequence)
            return pod_err_set(err, POD_REASON_PROGRAM_FAULT,
                               "replicas disagree: replica %" PRIu32
                               " is not in collective %" PRIu64,
                               group[i], sequence);
    }
    return POD_OK;
}

// Others that wait for this replica where it can no longer come.
static enum pod_code gang_check_passed_locked(struct pod_gang *gang,
                                              const struct gang_round *own,
                                              uint32_t replica,
                                              uint64_t sequence,
                                              struct pod_err *err)
{
    for (struct pod_list *item = gang->rounds.next; item != &gang->rounds;
         item = item->next) {
        struct gang_round *round = POD_CONTAINER(item, struct gang_round, link);
        if (round != own && round->sequence <= sequence &&
            round_awaits(round, replica))
            return pod_err_set(err, POD_REASON_PROGRAM_FAULT,
                               "replicas disagree: replica %" PRIu32
                               " is not in collective %" PRIu64,
                               replica, round->sequence);
    }
    return POD_OK;
}

// Finds or makes the round and puts the replica into it; NULL: `err` says why.
static struct gang_round *
gang_enter_locked(struct pod_gang *gang, uint32_t replica,
                  const uint32_t *group, size_t group_size, uint64_t sequence,
                  size_t bytes, size_t *out_position, struct pod_err *err)
{
    if (gang_check_group_locked(gang, replica, group, group_size, out_position,
                                err) != POD_OK)
        return NULL;
    struct gang_round *round =
        gang_find_round_locked(gang, group, group_size, sequence);
    if (round != NULL && round->bytes != bytes) {
        (void)pod_err_set(err, POD_REASON_PROGRAM_FAULT,
                          "replicas disagree: %zu and %zu bytes in "
                          "collective %" PRIu64,
                          round->bytes, bytes, sequence);
        return NULL;
    }
    if (gang_check_members_locked(gang, round, replica, group, group_size,
                                  sequence, err) != POD_OK ||
        gang_check_passed_locked(gang, round, replica, sequence, err) != POD_OK)
        return NULL;
    if (round == NULL) {
        round = round_new(group, group_size, sequence, bytes);
        if (round == NULL) {
            (void)pod_err_set(err, POD_REASON_RESOURCE_EXHAUSTED,
                              "no memory for %zu parts of %zu bytes",
                              group_size, bytes);
            return NULL;
        }
        pod_list_push_back(&gang->rounds, &round->link);
    }
    round->here[*out_position] = true;
    round->inside++;
    gang->replicas[replica].next = sequence + 1;
    return round;
}

// Puts the part into the round and takes all parts out of it. The copies are
// made without the lock: `data` stays while somebody is inside.
static enum pod_code gang_trade_locked(struct pod_gang *gang,
                                       struct gang_round *round,
                                       uint32_t replica, size_t position,
                                       const void *part, void *out,
                                       struct pod_interrupt *interrupt,
                                       struct pod_err *err)
{
    enum pod_code code = POD_OK;

    pod_mutex_unlock(&gang->lock);
    if (round->bytes > 0)
        memcpy(round->data + position * round->bytes, part, round->bytes);
    pod_mutex_lock(&gang->lock);
    if (++round->ready == round->group_size)
        pod_cond_broadcast(&round->complete);
    while (round->ready < round->group_size && gang->cause.code == POD_OK &&
           !gang_interrupted(interrupt))
        pod_cond_wait(&round->complete, &gang->lock);
    if (round->ready < round->group_size) {
        code = gang_failure_locked(gang, replica, interrupt, err);
    } else if (round->bytes > 0) {
        pod_mutex_unlock(&gang->lock);
        memcpy(out, round->data, round->group_size * round->bytes);
        pod_mutex_lock(&gang->lock);
    }
    round_leave_locked(round);
    return code;
}

static enum pod_code gang_all_gather(struct pod_exchange *exchange,
                                     uint32_t replica, const uint32_t *group,
                                     size_t group_size, uint64_t sequence,
                                     const void *part, size_t bytes, void *out,
                                     struct pod_interrupt *interrupt,
                                     struct pod_err *err)
{
    struct pod_gang *gang = POD_CONTAINER(exchange, struct pod_gang, exchange);
    struct pod_err own = POD_ERR_NONE;
    size_t position = 0;
    enum pod_code code;

    pod_mutex_lock(&gang->lock);
    if (gang->cause.code != POD_OK || gang_interrupted(interrupt)) {
        code = gang_failure_locked(gang, replica, interrupt, &own);
    } else {
        struct gang_round *round = gang_enter_locked(
            gang, replica, group, group_size, sequence, bytes, &position, &own);
        if (round != NULL)
            code = gang_trade_locked(gang, round, replica, position, part, out,
                                     interrupt, &own);
        else
            code = gang_fault_locked(gang, replica, &own);
    }
    pod_mutex_unlock(&gang->lock);
    if (code != POD_OK && err != NULL)
        *err = own;
    return code;
}
