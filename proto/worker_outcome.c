// SPDX-License-Identifier: Apache-2.0
// How operations ended, remembered for those that will wait for them: which
// numbers, as intervals, and the texts of the latest failures.
#include "core/base/mem.h"
#include "proto/worker_internal.h"

bool worker_remember_room_locked(struct worker_session *session,
                                 struct worker_ids *ids, size_t room)
{
    size_t before = ids->capacity;
    bool reserved = worker_ids_reserve(ids, room, WORKER_MAX_INTERVALS);
    size_t bytes = (ids->capacity - before) * sizeof(ids->items[0]);
    session->kept += bytes;
    session->worker->kept += bytes;
    return reserved;
}

enum { OUTCOME_TEXT_BYTES = sizeof(struct worker_failure) + WORKER_MORE_BYTES };

static void outcome_forget_one_locked(struct worker_session *session,
                                      struct worker_failure *failure)
{
    (void)pod_map_remove(&session->failures, failure->number);
    pod_list_remove(&failure->link);
    session->worker->kept -= OUTCOME_TEXT_BYTES;
    pod_free(failure);
}

// Before another text is remembered. false: it cannot be.
static bool outcome_make_room_locked(struct worker_session *session)
{
    bool full = worker_is_full_locked(session->worker);
    if (session->failures.count >= WORKER_MAX_FAILURES ||
        (full && session->failures.count > 0))
        outcome_forget_one_locked(session,
                                  POD_CONTAINER(session->failure_list.next,
                                                struct worker_failure, link));
    else if (full)
        return false;
    return true;
}

static void outcome_keep_text_locked(struct worker_session *session,
                                     uint64_t number, const struct pod_err *err,
                                     uint64_t root)
{
    struct worker_failure *failure =
        outcome_make_room_locked(session) ? pod_malloc(sizeof(*failure)) : NULL;
    if (failure == NULL)
        return;
    *failure =
        (struct worker_failure){.number = number, .root = root, .err = *err};
    if (!pod_map_put(&session->failures, number, failure)) {
        pod_free(failure);
        return;
    }
    pod_list_push_back(&session->failure_list, &failure->link);
    session->worker->kept += OUTCOME_TEXT_BYTES;
}

void worker_remember_locked(struct worker_session *session, uint64_t number,
                            const struct pod_err *err, uint64_t root)
{
    if (err == NULL) {
        worker_ids_add(&session->done, number);
        return;
    }
    worker_ids_add(&session->failed, number);
    outcome_keep_text_locked(session, number, err, root);
}

void worker_forget_texts_locked(struct worker_session *session)
{
    while (!pod_list_empty(&session->failure_list))
        outcome_forget_one_locked(session,
                                  POD_CONTAINER(session->failure_list.next,
                                                struct worker_failure, link));
}

void worker_forget(struct worker_session *session, uint64_t number)
{
    struct worker *worker = session->worker;
    pod_mutex_lock(&worker->lock);
    if (number > session->floor) {
        session->floor = number;
        worker_ids_drop_below(&session->done, number);
        worker_ids_drop_below(&session->failed, number);
        struct pod_list *item = session->failure_list.next;
        while (item != &session->failure_list) {
            struct worker_failure *failure =
                POD_CONTAINER(item, struct worker_failure, link);
            item = item->next;
            if (failure->number < number)
                outcome_forget_one_locked(session, failure);
        }
    }
    pod_mutex_unlock(&worker->lock);
}
