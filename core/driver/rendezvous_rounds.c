// SPDX-License-Identifier: Apache-2.0
// No hang: who waits in a round waits for members that are at a lower sequence
// number, or running. A member that has left, is past this number, or is at it
// in another round, is found by whichever of the two comes last. Numbers fall
// along each chain of waiting, so there is no cycle.
#include <inttypes.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/driver/rendezvous_internal.h"

bool pod_round_awaits(const struct gang_round *round, uint32_t replica)
{
    for (size_t i = 0; i < round->group_size; i++) {
        if (round->group[i] == replica)
            return !round->here[i];
    }
    return false;
}

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

static void round_free_locked(struct gang_round *round)
{
    pod_list_remove(&round->link);
    pod_cond_fini(&round->complete);
    pod_free(round->data);
    pod_free(round);
}

// The last one that is here takes those along that run elsewhere.
static void round_leave_locked(struct gang_round *round)
{
    if (--round->inside == round->absent)
        round_free_locked(round);
}

void pod_gang_drop_rounds(struct pod_gang *gang)
{
    while (!pod_list_empty(&gang->rounds))
        round_free_locked(
            POD_CONTAINER(gang->rounds.next, struct gang_round, link));
}

static enum pod_code gang_fault_locked(struct pod_gang *gang, uint32_t replica,
                                       struct pod_err *err)
{
    pod_gang_abort_locked(gang, replica, err->text);
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
            pod_round_awaits(round, replica))
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
    if (pod_gang_tapped(gang, replica))
        gang->hub->tap.gave(gang->hub->tap.arg, gang->op, replica, round->group,
                            round->group_size, round->sequence, part,
                            round->bytes);
    pod_mutex_lock(&gang->lock);
    if (++round->ready == round->group_size)
        pod_cond_broadcast(&round->complete);
    while (round->ready < round->group_size && gang->cause.code == POD_OK &&
           !pod_gang_interrupted(interrupt))
        pod_cond_wait(&round->complete, &gang->lock);
    if (round->ready < round->group_size) {
        code = pod_gang_failure_locked(gang, replica, interrupt, err);
    } else if (round->bytes > 0) {
        pod_mutex_unlock(&gang->lock);
        memcpy(out, round->data, round->group_size * round->bytes);
        pod_mutex_lock(&gang->lock);
    }
    round_leave_locked(round);
    return code;
}

enum pod_code pod_gang_all_gather(struct pod_exchange *exchange,
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
    if (gang->cause.code != POD_OK || pod_gang_interrupted(interrupt)) {
        code = pod_gang_failure_locked(gang, replica, interrupt, &own);
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

enum pod_code pod_gang_give(struct pod_gang *gang, uint32_t replica,
                            const uint32_t *group, size_t group_size,
                            uint64_t sequence, const void *part, size_t bytes,
                            struct pod_err *err)
{
    struct pod_err own = POD_ERR_NONE;
    size_t position = 0;
    struct gang_round *round = NULL;

    if (replica >= gang->replica_count)
        return pod_err_set(err, POD_REASON_BAD_ASSIGNMENT,
                           "replica %" PRIu32 " of a gang of %" PRIu32, replica,
                           gang->replica_count);
    pod_mutex_lock(&gang->lock);
    if (gang->cause.code != POD_OK) {
        own = gang->cause;
    } else {
        round = gang_enter_locked(gang, replica, group, group_size, sequence,
                                  bytes, &position, &own);
        if (round == NULL)
            (void)gang_fault_locked(gang, replica, &own);
    }
    if (round != NULL) {
        round->absent++;
        if (bytes > 0)
            memcpy(round->data + position * bytes, part, bytes);
        if (++round->ready == round->group_size)
            pod_cond_broadcast(&round->complete);
    }
    pod_mutex_unlock(&gang->lock);
    if (round == NULL && err != NULL)
        *err = own;
    return round != NULL ? POD_OK : own.code;
}
