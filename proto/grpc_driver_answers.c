// SPDX-License-Identifier: Apache-2.0
// What became of what was sent.
//
// A worker is another program: what it says is used once, if it is about
// something open, and is of the kind and size that was asked for.
#include <string.h>

#include "core/base/mem.h"
#include "core/driver/text_ids.h"
#include "proto/grpc_driver_internal.h"

static bool answers_makes(enum gd_kind kind)
{
    return kind == GD_ALLOCATE || kind == GD_TUPLE || kind == GD_COMPILE ||
           kind == GD_LOAD;
}

void gd_item_free_locked(struct gd *driver, struct gd_item *item)
{
    uint32_t parts = item == NULL || item->parts == 0 ? 1 : item->parts;

    if (item == NULL)
        return;
    // One that was never sent has no number, or one that is the next one's.
    for (uint32_t i = 0; item->wire != 0 && i < parts; i++) {
        if (pod_map_get(&driver->by_wire, item->wire + i) == item)
            (void)pod_map_remove(&driver->by_wire, item->wire + i);
    }
    pod_free(item->part_err);
    pod_free(item);
}

static void answers_forget_first_failed_locked(struct gd *driver)
{
    struct pod_list *first = pod_list_pop_front(&driver->failed);

    if (first == NULL)
        return;
    struct gd_item *item = POD_CONTAINER(first, struct gd_item, link);
    (void)pod_map_remove(&driver->by_op, item->call.op);
    driver->failed_count--;
    gd_item_free_locked(driver, item);
}

static void answers_drop_handle_locked(struct gd *driver, uint64_t handle)
{
    struct gd_item *item = pod_map_get(&driver->by_op, handle);

    if (item == NULL || item->open || item->failed)
        return;
    (void)pod_map_remove(&driver->by_op, handle);
    gd_item_free_locked(driver, item);
}

// The operation is over; what stays of it is a handle, or the memory of a
// failure, for a call that waits for it may be on its way.
static void answers_settle_locked(struct gd *driver, struct gd_item *item,
                                  bool good)
{
    item->open = false;
    pod_list_remove(&item->link);
    if (!good) {
        item->failed = true;
        gd_failed_note_locked(driver, item->call.op);
        pod_list_push_back(&driver->failed, &item->link);
        if (++driver->failed_count > GD_FAILED_MAX)
            answers_forget_first_failed_locked(driver);
        return;
    }
    if (item->ends != 0)
        answers_drop_handle_locked(driver, item->ends);
    if (answers_makes(item->kind))
        return;
    (void)pod_map_remove(&driver->by_op, item->call.op);
    gd_item_free_locked(driver, item);
}

// Now and then the worker is told what it need not remember any more.
static void answers_tell_forget_locked(struct gd *driver)
{
    const struct gd_dialect *dialect = driver->link->dialect;
    uint64_t below = driver->last_wire + 1;

    if (dialect->forget == NULL || ++driver->unforgotten < GD_FORGET_EVERY)
        return;
    driver->unforgotten = 0;
    if (!pod_list_empty(&driver->open))
        below = POD_CONTAINER(driver->open.next, struct gd_item, link)->wire;
    for (struct pod_list *at = driver->failed.next; at != &driver->failed;
         at = at->next) {
        const struct gd_item *item = POD_CONTAINER(at, struct gd_item, link);
        if (item->wire < below)
            below = item->wire;
    }
    rpc_stream_send(driver->link->streams[GD_CONTROL], dialect->forget(below));
}

// Of a whole buffer, the part that was asked for.
static void answers_cut(const struct gd_item *item, struct gd_outcome *outcome)
{
    struct pod_blob *whole = outcome->data;

    if (whole == NULL || !outcome->whole || whole->size != item->bytes ||
        item->count == whole->size || item->offset > whole->size ||
        item->count > whole->size - item->offset)
        return;
    struct pod_blob *part = pod_blob_new(item->count);
    if (part == NULL) {
        pod_err_set(&outcome->err, POD_REASON_OUT_OF_MEMORY, "no memory");
        return;
    }
    memcpy(part->data, whole->data + item->offset, item->count);
    pod_blob_unref(whole);
    outcome->data = part;
}

static void answers_check(const struct gd_item *item,
                          struct gd_outcome *outcome)
{
    if (outcome->err.code != POD_OK)
        return;
    if (item->kind == GD_READ)
        answers_cut(item, outcome);
    size_t got = outcome->data == NULL ? 0 : outcome->data->size;
    if (item->kind == GD_READ && got != item->count)
        pod_err_set(&outcome->err, POD_REASON_WORKER_ERROR,
                    "the worker gave %zu bytes where %zu were asked for", got,
                    item->count);
    if (item->kind == GD_COMPILE && outcome->shape == NULL)
        pod_err_set(&outcome->err, POD_REASON_WORKER_ERROR,
                    "the worker gave no signature of the program");
}

static void answers_started(struct gd *driver, struct gd_item *item)
{
    struct pod_driver_call call = item->call;

    if (item->started || call.started == NULL)
        return;
    item->started = true;
    driver->delivering++;
    pod_mutex_unlock(&driver->lock);
    call.started(call.arg);
    pod_mutex_lock(&driver->lock);
    driver->delivering--;
}

// All that came before a RESET is over, whether the worker has said so or not.
static void answers_reset(struct gd *driver, const struct gd_item *reset)
{
    struct pod_driver_result result = {.lost = false};
    uint64_t wire = reset->wire;

    pod_err_set(&result.err, POD_REASON_POD_RESET, "the host was reset");
    gd_end_all_locked(driver, wire, &result);
    gd_handles_drop_locked(driver, wire);
}

// Whether all parts are answered; the first bad one counts.
static bool answers_part(struct gd *driver, struct gd_item *item,
                         struct gd_outcome *outcome)
{
    if (item->parts <= 1)
        return true;
    (void)pod_map_remove(&driver->by_wire, outcome->wire);
    if (outcome->err.code != POD_OK && item->part_err == NULL) {
        item->part_err = pod_malloc(sizeof(*item->part_err));
        if (item->part_err != NULL)
            *item->part_err = outcome->err;
    }
    if (++item->parts_done < item->parts)
        return false;
    if (item->part_err != NULL)
        outcome->err = *item->part_err;
    return true;
}

// Our number of what the worker knows by another; 0: it is over, and forgotten.
static uint64_t answers_number_locked(void *arg, uint64_t wire)
{
    const struct gd *driver = arg;
    const struct gd_item *item =
        wire == 0 ? NULL : pod_map_get(&driver->by_wire, wire);

    return item == NULL ? 0 : item->call.op;
}

static void answers_done(struct gd *driver, struct gd_item *item,
                         struct gd_outcome *outcome)
{
    struct pod_driver_call call = item->call;

    if (outcome->err.code != POD_OK && driver->link->dialect->says_ids)
        pod_text_ids_replace(&outcome->err, answers_number_locked, driver);
    answers_check(item, outcome);
    struct pod_driver_result result = {
        .err = outcome->err,
        .from_worker = outcome->err.code != POD_OK,
        .begun = outcome->started && !item->started,
        .data = outcome->data,
        .shape = outcome->shape,
    };
    answers_settle_locked(driver, item, outcome->err.code == POD_OK);
    answers_tell_forget_locked(driver);
    driver->delivering++;
    pod_mutex_unlock(&driver->lock);
    call.done(call.arg, &result);
    pod_mutex_lock(&driver->lock);
    driver->delivering--;
}

// NULL: it is nothing that is open.
static struct gd_item *answers_find_locked(const struct gd_link *link,
                                           uint64_t wire)
{
    const struct gd *driver = link->driver;

    if (driver->link != link || driver->state != GD_OPEN || driver->closing ||
        wire == 0)
        return NULL;
    struct gd_item *item = pod_map_get(&driver->by_wire, wire);
    return item != NULL && item->open ? item : NULL;
}

// Who waits until no answer is being given.
static void answers_wake_locked(struct gd *driver)
{
    if (driver->state != GD_OPEN || driver->closing || driver->reset != NULL)
        pod_cond_broadcast(&driver->wake);
}

void gd_tell_together(struct gd *driver, struct gd_together *together)
{
    if (together->count == 0)
        return;
    driver->observer.done_well(driver->observer.arg, together->calls,
                               together->count);
    together->count = 0;
    pod_mutex_lock(&driver->lock);
    driver->delivering--;
    answers_wake_locked(driver);
    pod_mutex_unlock(&driver->lock);
}

// Whether no more is said than that it went well.
static bool answers_says_well(const struct gd_outcome *outcome)
{
    return outcome->done && outcome->err.code == POD_OK &&
           outcome->data == NULL && outcome->shape == NULL;
}

// Whether that is all there is to say of such a call.
static bool answers_plain(const struct gd_item *item)
{
    return item->parts <= 1 && item->kind != GD_READ &&
           item->kind != GD_COMPILE && item->kind != GD_RESET;
}

// true: it is told with others.
static bool answers_join(const struct gd_link *link,
                         const struct gd_outcome *outcome,
                         struct gd_together *together)
{
    struct gd *driver = link->driver;

    if (!answers_says_well(outcome) || driver->observer.done_well == NULL)
        return false;
    pod_mutex_lock(&driver->lock);
    struct gd_item *item = answers_find_locked(link, outcome->wire);
    bool plain = item != NULL && answers_plain(item);
    if (plain) {
        if (together->count == 0)
            driver->delivering++;
        together->calls[together->count++] = (struct pod_driver_well){
            .arg = item->call.arg,
            .begun = outcome->started && !item->started,
        };
        answers_settle_locked(driver, item, true);
        answers_tell_forget_locked(driver);
    }
    pod_mutex_unlock(&driver->lock);
    return plain;
}

static void answers_outcome(struct gd_link *link, struct gd_outcome *outcome)
{
    struct gd *driver = link->driver;

    pod_mutex_lock(&driver->lock);
    struct gd_item *item = answers_find_locked(link, outcome->wire);
    if (item != NULL && !outcome->done) {
        answers_started(driver, item);
    } else if (item != NULL) {
        if (item->kind == GD_RESET && outcome->err.code == POD_OK)
            answers_reset(driver, item);
        // While others were answered the host may have been lost.
        if (answers_find_locked(link, outcome->wire) == item &&
            answers_part(driver, item, outcome))
            answers_done(driver, item, outcome);
    }
    answers_wake_locked(driver);
    pod_mutex_unlock(&driver->lock);
}

void gd_outcome(struct gd_link *link, struct gd_outcome *outcome,
                struct gd_together *together)
{
    bool joined = answers_join(link, outcome, together);

    // What came before is told before.
    if (!joined || together->count == GD_TOGETHER_MAX)
        gd_tell_together(link->driver, together);
    if (!joined)
        answers_outcome(link, outcome);
}

// ------------------------------------------------------------------- all ends

void gd_end_all_locked(struct gd *driver, uint64_t below,
                       const struct pod_driver_result *result)
{
    struct pod_list *item;

    while ((item = driver->open.next) != &driver->open) {
        struct gd_item *ended = POD_CONTAINER(item, struct gd_item, link);
        if (ended->wire >= below)
            return;
        struct pod_driver_call call = ended->call;
        pod_list_remove(&ended->link);
        (void)pod_map_remove(&driver->by_op, call.op);
        gd_item_free_locked(driver, ended);
        driver->delivering++;
        pod_mutex_unlock(&driver->lock);
        call.done(call.arg, result);
        pod_mutex_lock(&driver->lock);
        driver->delivering--;
    }
}

void gd_handles_drop_locked(struct gd *driver, uint64_t below)
{
    size_t cursor = 0;
    uint64_t op;
    void *value;
    struct pod_list gone;
    struct pod_list *at;

    pod_list_init(&gone);
    worker_ids_fini(&driver->failed_numbers);
    while (pod_map_next(&driver->by_op, &cursor, &op, &value)) {
        struct gd_item *item = value;
        if (item->open || item->wire >= below)
            continue;
        pod_list_remove(&item->link);
        pod_list_push_back(&gone, &item->link);
    }
    while ((at = pod_list_pop_front(&gone)) != NULL) {
        struct gd_item *item = POD_CONTAINER(at, struct gd_item, link);
        (void)pod_map_remove(&driver->by_op, item->call.op);
        if (item->failed)
            driver->failed_count--;
        gd_item_free_locked(driver, item);
    }
}
