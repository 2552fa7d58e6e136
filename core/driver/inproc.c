// SPDX-License-Identifier: Apache-2.0
// The host's life: making it, its threads, ready, loss, reset, close.
//
// The control thread is the only one that calls the observer, and the one that
// completes what no other thread carried out. When the host leaves the state
// OPEN, nothing new begins; what runs ends without completion; once the
// callbacks that are being made have returned, the control thread tells the
// observer (of a loss) and then completes all open calls. So no success from
// before a loss is reported after it.
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/driver/inproc_internal.h"

enum inproc_step {
    INPROC_STEP_WAIT,
    INPROC_STEP_READY,
    INPROC_STEP_LOSS,
    INPROC_STEP_RESET,
    INPROC_STEP_ENDED,
    INPROC_STEP_WORK,
    INPROC_STEP_BEAT,
    INPROC_STEP_CLOSE,
};

static int64_t inproc_now(void)
{
    return pod_clock_mono(&pod_clock_system);
}

// -------------------------------------------------------------- state changes

static void inproc_wake_all_locked(struct inproc *driver)
{
    for (size_t i = 0; i < driver->lane_count; i++)
        pod_cond_signal(&driver->lanes[i].wake);
}

static void inproc_lose_locked(struct inproc *driver, const char *why)
{
    if (driver->state == INPROC_LOST || driver->state == INPROC_CLOSING)
        return;
    driver->state = INPROC_LOST;
    driver->told = false;
    (void)pod_err_set(&driver->why, POD_REASON_HOST_LOST, "%s", why);
    pod_gang_host_lost(driver->hub, driver->host, why);
    pod_inproc_interrupt_all_locked(driver);
    pod_inproc_wake_control(driver);
}

void pod_inproc_kill(struct pod_driver *base, const char *why)
{
    struct inproc *driver = inproc_of(base);

    pod_mutex_lock(&driver->lock);
    inproc_lose_locked(driver, why);
    pod_mutex_unlock(&driver->lock);
}

void pod_inproc_revive(struct pod_driver *base)
{
    struct inproc *driver = inproc_of(base);

    pod_mutex_lock(&driver->lock);
    if (driver->state == INPROC_LOST) {
        driver->revive_asked = true;
        pod_inproc_wake_control(driver);
    }
    pod_mutex_unlock(&driver->lock);
}

static void inproc_reconnect(struct pod_driver *base)
{
    struct inproc *driver = inproc_of(base);

    pod_mutex_lock(&driver->lock);
    inproc_lose_locked(driver, "a new connection was asked for");
    driver->revive_asked = true;
    pod_inproc_wake_control(driver);
    pod_mutex_unlock(&driver->lock);
}

static void inproc_open(struct pod_driver *base,
                        const struct pod_driver_observer *observer)
{
    struct inproc *driver = inproc_of(base);

    pod_mutex_lock(&driver->lock);
    assert(!driver->opened);
    driver->observer = *observer;
    driver->opened = true;
    pod_inproc_wake_control(driver);
    pod_mutex_unlock(&driver->lock);
}

// ------------------------------------------------------------- control steps

static void control_ready_locked(struct inproc *driver)
{
    driver->state = INPROC_OPENING;
    driver->revive_asked = false;
    pod_gang_host_present(driver->hub, driver->host);
    pod_mutex_unlock(&driver->lock);
    driver->observer.ready(driver->observer.arg, &driver->info);
    pod_mutex_lock(&driver->lock);
    driver->next_beat_ns = pod_time_add(inproc_now(), driver->heartbeat_ns);
    if (driver->state != INPROC_OPENING)
        return;
    driver->state =
        pod_list_empty(&driver->resets) ? INPROC_OPEN : INPROC_RESETTING;
    inproc_wake_all_locked(driver);
}

static void control_loss_locked(struct inproc *driver)
{
    struct inproc_trash trash;
    struct pod_err why = driver->why;

    pod_mutex_unlock(&driver->lock);
    driver->observer.lost(driver->observer.arg, &why);
    pod_mutex_lock(&driver->lock);
    if (driver->state != INPROC_LOST)
        return;
    driver->told = true;
    pod_inproc_trash_init(&trash);
    for (struct pod_list *item = driver->ended.next; item != &driver->ended;
         item = item->next)
        POD_CONTAINER(item, struct inproc_task, link)->end = INPROC_END_LOST;
    pod_inproc_end_all_locked(driver, UINT64_MAX, INPROC_END_LOST, &trash);
    pod_inproc_handles_drop_all_locked(driver, &trash);
    pod_mutex_unlock(&driver->lock);
    pod_inproc_trash_empty(driver, &trash);
    pod_mutex_lock(&driver->lock);
}

// Nothing runs and no callback is being made.
static void control_reset_locked(struct inproc *driver)
{
    struct pod_list *first = driver->resets.next;
    struct inproc_task *reset = POD_CONTAINER(first, struct inproc_task, link);
    struct inproc_trash trash;

    if (!reset->started && reset->call.started != NULL) {
        reset->started = true;
        pod_mutex_unlock(&driver->lock);
        reset->call.started(reset->call.arg);
        pod_mutex_lock(&driver->lock);
        return; // the state may have changed: look again
    }
    pod_inproc_trash_init(&trash);
    pod_inproc_end_all_locked(driver, reset->seq, INPROC_END_RESET, &trash);
    pod_inproc_handles_drop_all_locked(driver, &trash);
    pod_mutex_unlock(&driver->lock);
    pod_inproc_trash_empty(driver, &trash);
    pod_mutex_lock(&driver->lock);
    if (driver->state != INPROC_RESETTING)
        return;
    pod_inproc_task_end_locked(driver, reset, INPROC_END_OK);
    if (!pod_list_empty(&driver->resets))
        return;
    driver->state = INPROC_OPEN;
    inproc_wake_all_locked(driver);
}

static void control_ended_locked(struct inproc *driver)
{
    struct pod_list *item = pod_list_pop_front(&driver->ended);

    pod_inproc_task_deliver_locked(
        driver, POD_CONTAINER(item, struct inproc_task, link));
}

static void control_beat_locked(struct inproc *driver)
{
    driver->next_beat_ns = pod_time_add(inproc_now(), driver->heartbeat_ns);
    if (driver->observer.heartbeat == NULL)
        return;
    pod_mutex_unlock(&driver->lock);
    driver->observer.heartbeat(driver->observer.arg, NULL);
    pod_mutex_lock(&driver->lock);
}

static void control_close_locked(struct inproc *driver)
{
    struct inproc_trash trash;

    pod_inproc_trash_init(&trash);
    pod_inproc_end_all_locked(driver, UINT64_MAX, INPROC_END_CLOSED, &trash);
    pod_inproc_handles_drop_all_locked(driver, &trash);
    pod_mutex_unlock(&driver->lock);
    pod_inproc_trash_empty(driver, &trash);
    pod_mutex_lock(&driver->lock);
    while (!pod_list_empty(&driver->ended))
        control_ended_locked(driver);
}

// ------------------------------------------------------------------- threads

// Whether the gang goes before the single part (NULL: there is none).
static bool lane_gang_first(struct pod_queue_item *gang,
                            const struct pod_queue_item *single)
{
    struct pod_queue_item ranked = {
        .priority =
            POD_CONTAINER(gang, struct inproc_part, item)->task->call.priority,
        .order = gang->order,
    };

    return single == NULL || pod_queue_before(&ranked, single);
}

// The next part of a lane. Gangs of a lane go in their order among themselves,
// so only the first of them stands against the first of the others.
static struct inproc_part *lane_take_locked(struct inproc_lane *lane)
{
    struct pod_queue *queue = &lane->singles;
    struct pod_queue_item *gang = lane->gangs.root;

    if (lane->driver->state != INPROC_OPEN)
        return NULL;
    if (gang != NULL && lane_gang_first(gang, lane->singles.root))
        queue = &lane->gangs;
    struct pod_queue_item *item = pod_queue_pop(queue);
    return item == NULL ? NULL : POD_CONTAINER(item, struct inproc_part, item);
}

static void *lane_main(void *arg)
{
    struct inproc_lane *lane = arg;
    struct inproc *driver = lane->driver;

    pod_mutex_lock(&driver->lock);
    while (driver->state != INPROC_CLOSING) {
        struct inproc_part *part = lane_take_locked(lane);
        if (part != NULL)
            pod_inproc_run_locked(driver, part);
        else
            pod_cond_wait(&lane->wake, &driver->lock);
    }
    pod_mutex_unlock(&driver->lock);
    return NULL;
}

static enum inproc_step control_step_lost(const struct inproc *driver)
{
    if (!driver->told)
        return driver->calling == 0 ? INPROC_STEP_LOSS : INPROC_STEP_WAIT;
    if (!pod_list_empty(&driver->ended))
        return INPROC_STEP_ENDED;
    if (driver->revive_asked && driver->running == 0)
        return INPROC_STEP_READY;
    return INPROC_STEP_WAIT;
}

static enum inproc_step control_step_locked(struct inproc *driver)
{
    const struct inproc_lane *lane = &driver->lanes[INPROC_LANE_CONTROL];
    bool still = driver->running == 0 && driver->calling == 0;

    if (driver->state == INPROC_CLOSING)
        return still ? INPROC_STEP_CLOSE : INPROC_STEP_WAIT;
    if (!driver->opened)
        return INPROC_STEP_WAIT;
    if (driver->state == INPROC_LOST)
        return control_step_lost(driver);
    if (!pod_list_empty(&driver->ended))
        return INPROC_STEP_ENDED;
    if (driver->state == INPROC_IDLE)
        return INPROC_STEP_READY;
    if (driver->state == INPROC_RESETTING && still)
        return INPROC_STEP_RESET;
    if (inproc_now() >= driver->next_beat_ns)
        return INPROC_STEP_BEAT;
    if (driver->state == INPROC_OPEN && lane->singles.root != NULL)
        return INPROC_STEP_WORK;
    return INPROC_STEP_WAIT;
}

static void control_wait_locked(struct inproc *driver)
{
    struct inproc_lane *lane = &driver->lanes[INPROC_LANE_CONTROL];
    bool beats =
        driver->state == INPROC_OPEN || driver->state == INPROC_RESETTING;

    (void)pod_cond_wait_until(&lane->wake, &driver->lock,
                              beats ? driver->next_beat_ns : POD_NEVER);
}

static void control_do_locked(struct inproc *driver, enum inproc_step step)
{
    switch (step) {
    case INPROC_STEP_WAIT:
        control_wait_locked(driver);
        break;
    case INPROC_STEP_READY:
        control_ready_locked(driver);
        break;
    case INPROC_STEP_LOSS:
        control_loss_locked(driver);
        break;
    case INPROC_STEP_RESET:
        control_reset_locked(driver);
        break;
    case INPROC_STEP_ENDED:
        control_ended_locked(driver);
        break;
    case INPROC_STEP_WORK:
        pod_inproc_run_locked(
            driver, lane_take_locked(&driver->lanes[INPROC_LANE_CONTROL]));
        break;
    case INPROC_STEP_BEAT:
        control_beat_locked(driver);
        break;
    case INPROC_STEP_CLOSE:
        control_close_locked(driver);
        break;
    }
}

static void *control_main(void *arg)
{
    struct inproc_lane *lane = arg;
    struct inproc *driver = lane->driver;
    enum inproc_step step;

    pod_mutex_lock(&driver->lock);
    do {
        step = control_step_locked(driver);
        control_do_locked(driver, step);
    } while (step != INPROC_STEP_CLOSE);
    pod_mutex_unlock(&driver->lock);
    return NULL;
}

// ----------------------------------------------------------- making, unmaking

static void inproc_close(struct pod_driver *base)
{
    struct inproc *driver = inproc_of(base);

    pod_mutex_lock(&driver->lock);
    if (driver->state != INPROC_CLOSING) {
        driver->state = INPROC_CLOSING;
        if (driver->hub != NULL)
            pod_gang_host_lost(driver->hub, driver->host, "it was closed");
        pod_inproc_interrupt_all_locked(driver);
        inproc_wake_all_locked(driver);
    }
    size_t threads = driver->threads;
    driver->threads = 0;
    pod_mutex_unlock(&driver->lock);
    for (size_t i = 0; i < threads; i++)
        (void)pthread_join(driver->lanes[i].thread, NULL);
}

// All but the device, which a maker that failed leaves to its caller.
static void inproc_fini(struct inproc *driver)
{
    struct pod_list *item;

    pod_list_splice(&driver->spares, &driver->used);
    while ((item = pod_list_pop_front(&driver->spares)) != NULL)
        pod_inproc_task_free(POD_CONTAINER(item, struct inproc_task, link));
    for (size_t i = 0; i < driver->lane_count; i++)
        pod_cond_fini(&driver->lanes[i].wake);
    pod_map_fini(&driver->open);
    pod_map_fini(&driver->handles);
    pod_gang_hub_unref(driver->hub);
    pod_free(driver->cores);
    pod_free(driver->chips);
    pod_mutex_fini(&driver->lock);
    pod_free(driver);
}

static void inproc_free(struct pod_driver *base)
{
    if (base == NULL)
        return;
    struct inproc *driver = inproc_of(base);
    struct pod_device *device = driver->device;

    inproc_close(base);
    inproc_fini(driver);
    device->ops->free(device);
}

static const struct pod_driver_ops inproc_ops = {
    .open = inproc_open,
    .close = inproc_close,
    .free = inproc_free,
    .reset = pod_inproc_reset,
    .reconnect = inproc_reconnect,
    .allocate = pod_inproc_allocate,
    .allocate_tuple = pod_inproc_allocate_tuple,
    .deallocate = pod_inproc_deallocate,
    .write = pod_inproc_write,
    .read = pod_inproc_read,
    .lend = pod_inproc_lend,
    .copy = pod_inproc_copy,
    .compile = pod_inproc_compile,
    .free_program = pod_inproc_free_program,
    .load = pod_inproc_load,
    .unload = pod_inproc_unload,
    .execute = pod_inproc_execute,
    .cancel = pod_inproc_cancel,
};

static enum pod_code inproc_check(const struct pod_inproc_options *options,
                                  const struct pod_device_info *info,
                                  struct pod_err *err)
{
    if (info->core_count == 0 || info->core_count > POD_INPROC_MAX_CORES)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "a host of %" PRIu32 " cores: 1 to %d are possible",
                           info->core_count, POD_INPROC_MAX_CORES);
    for (uint32_t i = 0; i < info->core_count; i++) {
        if (options->core_chips[i] >= options->chip_count)
            return pod_err_set(err, POD_REASON_BAD_VALUE,
                               "core %" PRIu32 " is on chip %" PRIu32 " of %zu",
                               i, options->core_chips[i], options->chip_count);
    }
    return POD_OK;
}

// Fills what is constant; false: no memory.
static bool inproc_describe(struct inproc *driver,
                            const struct pod_inproc_options *options)
{
    const struct pod_device_info *info = &driver->device_info;

    driver->cores = pod_calloc(info->core_count, sizeof driver->cores[0]);
    driver->chips = pod_calloc(options->chip_count, sizeof driver->chips[0]);
    driver->hub = options->hub != NULL ? pod_gang_hub_ref(options->hub)
                                       : pod_gang_hub_new(options->host + 1);
    if (driver->cores == NULL || driver->chips == NULL || driver->hub == NULL)
        return false;
    for (uint32_t i = 0; i < info->core_count; i++)
        driver->cores[i] = (struct pod_driver_core){
            .worker_core = i,
            .chip = options->core_chips[i],
            .memory_bytes = info->memory_bytes,
        };
    memcpy(driver->chips, options->chips,
           options->chip_count * sizeof driver->chips[0]);
    driver->info = (struct pod_driver_info){
        .platform = info->platform,
        .version = info->version,
        .accepts = info->accepts,
        .features = POD_DRIVER_CANCEL | POD_DRIVER_FREE_PROGRAM |
                    POD_DRIVER_NEAR |
                    (driver->device->ops->lend != NULL ? POD_DRIVER_LENDS : 0U),
        .host_id = (int32_t)options->host,
        .host_count = (int32_t)options->host_count,
        .cores = driver->cores,
        .core_count = info->core_count,
        .chips = driver->chips,
        .chip_count = options->chip_count,
    };
    return true;
}

// False: no memory.
static bool inproc_add_spares(struct inproc *driver)
{
    for (int i = 0; i < POD_INPROC_SPARE_CALLS; i++) {
        struct inproc_task *task = pod_calloc(1, sizeof *task);
        if (task == NULL)
            return false;
        task->spare = true;
        pod_list_push_back(&driver->spares, &task->link);
    }
    return true;
}

static struct inproc *inproc_alloc(const struct pod_inproc_options *options,
                                   const struct pod_device_info *info)
{
    size_t lanes = INPROC_LANE_CORES + (size_t)info->core_count;
    struct inproc *driver =
        pod_calloc(1, sizeof *driver + lanes * sizeof driver->lanes[0]);

    if (driver == NULL)
        return NULL;
    pod_mutex_init(&driver->lock, POD_RANK_DRIVER, "inproc driver");
    driver->base.ops = &inproc_ops;
    pod_list_init(&driver->ended);
    pod_list_init(&driver->resets);
    pod_list_init(&driver->spares);
    pod_list_init(&driver->used);
    driver->device = options->device;
    driver->device_info = *info;
    driver->host = options->host;
    driver->core_count = info->core_count;
    driver->heartbeat_ns =
        options->heartbeat_ns > 0 ? options->heartbeat_ns : POD_NS_PER_S / 4;
    driver->lane_count = lanes;
    for (uint32_t i = 0; i < lanes; i++) {
        driver->lanes[i].driver = driver;
        driver->lanes[i].index = i;
        pod_cond_init(&driver->lanes[i].wake);
    }
    return driver;
}

static enum pod_code inproc_start(struct inproc *driver, struct pod_err *err)
{
    for (size_t i = 0; i < driver->lane_count; i++) {
        int result =
            pthread_create(&driver->lanes[i].thread, NULL,
                           i == INPROC_LANE_CONTROL ? control_main : lane_main,
                           &driver->lanes[i]);
        if (result != 0)
            return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                               "thread %zu of host %" PRIu32 ": %s", i,
                               driver->host, strerror(result));
        driver->threads++;
    }
    return POD_OK;
}

enum pod_code pod_inproc_new(const struct pod_inproc_options *options,
                             struct pod_driver **out_driver,
                             struct pod_err *err)
{
    struct pod_device_info info;

    options->device->ops->info(options->device, &info);
    enum pod_code code = inproc_check(options, &info, err);
    if (code != POD_OK)
        return code;
    struct inproc *driver = inproc_alloc(options, &info);
    if (driver == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for host %" PRIu32, options->host);
    if (inproc_describe(driver, options) && inproc_add_spares(driver))
        code = inproc_start(driver, err);
    else
        code = pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for host %" PRIu32, options->host);
    if (code != POD_OK) {
        inproc_close(&driver->base);
        inproc_fini(driver);
        return code;
    }
    *out_driver = &driver->base;
    return POD_OK;
}
