// SPDX-License-Identifier: Apache-2.0
// The life of a gRPC driver.
//
//   RESTING --time--> CONNECTING --answered--> ARRIVED --told--> OPEN
//      ^                  |                                        |
//      +------- LOST <----+----------------------------------------+
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "proto/grpc_driver_internal.h"

enum gd_step {
    GD_STEP_WAIT,
    GD_STEP_CLOSE,
    GD_STEP_LOSS,
    GD_STEP_REFUSED,
    GD_STEP_CONNECT,
    GD_STEP_READY,
    GD_STEP_RESET,
    GD_STEP_BEAT,
    GD_STEP_SILENCE,
    GD_STEP_TELL_BEAT,
};

static int64_t gd_now(void)
{
    return pod_clock_mono(&pod_clock_system);
}

// ------------------------------------------------------------- state changes

void gd_lose_locked(struct gd *driver, struct gd_link *link,
                    const struct pod_err *err)
{
    if (driver->link != link || driver->state == GD_LOST ||
        driver->state == GD_CLOSED)
        return;
    driver->state = GD_LOST;
    driver->why = *err;
    gd_hub_set_session(driver->hub, driver->host, 0);
    pod_cond_broadcast(&driver->wake);
}

void gd_arrived_locked(struct gd *driver, struct gd_link *link)
{
    struct pod_err err;

    if (driver->link != link || driver->state != GD_CONNECTING)
        return;
    if (gd_link_streams_locked(link, &err) != POD_OK) {
        gd_lose_locked(driver, link, &err);
        return;
    }
    driver->last_wire = 0;
    driver->state = GD_ARRIVED;
    gd_hub_set_session(driver->hub, driver->host, link->session);
    pod_cond_broadcast(&driver->wake);
}

static void gd_open(struct pod_driver *base,
                    const struct pod_driver_observer *observer)
{
    struct gd *driver = gd_of(base);

    pod_mutex_lock(&driver->lock);
    driver->observer = *observer;
    driver->opened = true;
    pod_cond_broadcast(&driver->wake);
    pod_mutex_unlock(&driver->lock);
}

static void gd_close(struct pod_driver *base)
{
    struct gd *driver = gd_of(base);

    pod_mutex_lock(&driver->lock);
    driver->closing = true;
    pod_cond_broadcast(&driver->wake);
    pod_mutex_unlock(&driver->lock);
    (void)pthread_join(driver->thread, NULL);
    driver->has_thread = false;
}

static void gd_reconnect(struct pod_driver *base)
{
    struct gd *driver = gd_of(base);
    struct pod_err err;

    pod_err_set(&err, POD_REASON_HOST_LOST, "a new connection was asked for");
    pod_mutex_lock(&driver->lock);
    if (driver->link != NULL)
        gd_lose_locked(driver, driver->link, &err);
    driver->hurry = true;
    pod_cond_broadcast(&driver->wake);
    pod_mutex_unlock(&driver->lock);
}

// ------------------------------------------------------------- control steps

static void gd_rest_locked(struct gd *driver)
{
    driver->state = GD_RESTING;
    driver->next_ns = pod_time_add(gd_now(), driver->backoff_ns);
    driver->backoff_ns *= 2;
    if (driver->backoff_ns > driver->times.backoff_max_ns)
        driver->backoff_ns = driver->times.backoff_max_ns;
}

static void gd_step_connect_locked(struct gd *driver)
{
    struct pod_err err;

    driver->hurry = false;
    driver->state = GD_CONNECTING;
    if (gd_link_start_locked(driver, &err) != POD_OK)
        gd_lose_locked(driver, driver->link, &err);
}

// The same reason is reported only once. What follows it in brackets changes
// from attempt to attempt.
static bool gd_is_news(const struct gd *driver)
{
    size_t length = strcspn(driver->why.text, "(");

    return !driver->lost_told ||
           strncmp(driver->told.text, driver->why.text, length) != 0;
}

// A RESET of a worker that has none for one client: the client is closed, and
// another opened. The observer is not told.
static void gd_step_reset_locked(struct gd *driver)
{
    struct pod_driver_result result = {.lost = false};

    pod_err_set(&result.err, POD_REASON_POD_RESET, "the host was reset");
    driver->state = GD_RESTING;
    driver->next_ns = gd_now();
    gd_hub_set_session(driver->hub, driver->host, 0);
    gd_link_drop_locked(driver);
    gd_end_all_locked(driver, UINT64_MAX, &result);
    gd_handles_drop_locked(driver, UINT64_MAX);
}

static void gd_reset_end_locked(struct gd *driver,
                                const struct pod_driver_result *result)
{
    struct gd_item *reset = driver->reset;

    if (reset == NULL)
        return;
    driver->reset = NULL;
    pod_mutex_unlock(&driver->lock);
    reset->call.done(reset->call.arg, result);
    pod_mutex_lock(&driver->lock);
    gd_item_free_locked(driver, reset);
}

// Nobody is being answered, and nobody will be.
static void gd_step_loss_locked(struct gd *driver)
{
    struct pod_driver_result result = {.err = driver->why, .lost = true};

    gd_link_drop_locked(driver);
    if (gd_is_news(driver)) {
        driver->lost_told = true;
        driver->told = driver->why;
        pod_mutex_unlock(&driver->lock);
        driver->observer.lost(driver->observer.arg, &result.err);
        pod_mutex_lock(&driver->lock);
    }
    gd_reset_end_locked(driver, &result);
    gd_end_all_locked(driver, UINT64_MAX, &result);
    gd_handles_drop_locked(driver, UINT64_MAX);
    gd_rest_locked(driver);
}

static void gd_step_ready_locked(struct gd *driver)
{
    driver->state = GD_OPEN;
    driver->backoff_ns = driver->times.backoff_min_ns;
    driver->beating = false;
    driver->beat_came = false;
    driver->heard_ns = gd_now();
    driver->next_ns = pod_time_add(gd_now(), driver->times.heartbeat_ns);
    driver->lost_told = false;
    if (driver->reset != NULL) {
        gd_reset_end_locked(driver, &(struct pod_driver_result){.lost = false});
        return;
    }
    // Only this thread gives a link up, so its info stays.
    const struct pod_driver_info *info = &driver->link->info->info;
    pod_mutex_unlock(&driver->lock);
    driver->observer.ready(driver->observer.arg, info);
    pod_mutex_lock(&driver->lock);
}

static void gd_step_beat_locked(struct gd *driver)
{
    struct gd_link *link = driver->link;
    struct pod_err err;

    driver->beating = true;
    // Asked again, it gets some time for the answer.
    driver->next_ns = pod_time_add(gd_now(), driver->times.heartbeat_ns);
    if (driver->next_ns < driver->heard_ns + driver->times.silence_ns)
        driver->next_ns = driver->heard_ns + driver->times.silence_ns;
    if (link->dialect->beat(link, &err) != POD_OK)
        gd_lose_locked(driver, link, &err);
}

// Whoever looks this late has stood still, as has the whole process or machine,
// and does not know yet what has come meanwhile.
static bool gd_stood_still(const struct gd *driver, int64_t now_ns)
{
    return now_ns - driver->next_ns > driver->times.heartbeat_ns / 2;
}

// The call has a deadline too, but gRPC does not give it back while its bytes
// wait behind others for a worker that reads nothing.
static void gd_step_silence_locked(struct gd *driver)
{
    int64_t now_ns = gd_now();
    struct pod_err err;

    if (gd_stood_still(driver, now_ns)) {
        driver->next_ns = pod_time_add(now_ns, driver->times.silence_ns);
        return;
    }
    if (now_ns - driver->heard_ns < driver->times.silence_ns) { // it is busy
        driver->next_ns =
            pod_time_add(driver->heard_ns, driver->times.silence_ns);
        return;
    }
    gd_link_explain_silence(driver->link, &err);
    gd_lose_locked(driver, driver->link, &err);
}

static void gd_step_tell_beat_locked(struct gd *driver)
{
    struct pod_driver_load *load = driver->load;

    driver->beat_came = false;
    driver->load = NULL;
    pod_mutex_unlock(&driver->lock);
    driver->observer.heartbeat(driver->observer.arg, load);
    pod_free(load);
    pod_mutex_lock(&driver->lock);
}

static void gd_step_close_locked(struct gd *driver)
{
    struct pod_driver_result result = {.lost = false};

    pod_err_set(&result.err, POD_REASON_CANCEL_REQUESTED,
                "the host was closed");
    driver->state = GD_CLOSED;
    gd_hub_set_session(driver->hub, driver->host, 0);
    gd_link_drop_locked(driver);
    gd_reset_end_locked(driver, &result);
    gd_end_all_locked(driver, UINT64_MAX, &result);
    gd_handles_drop_locked(driver, UINT64_MAX);
    while (!pod_list_empty(&driver->refused))
        gd_refused_answer_locked(driver);
}

// --------------------------------------------------------- the control thread

static enum gd_step gd_timed_step(const struct gd *driver, int64_t now_ns)
{
    if (driver->state == GD_RESTING &&
        (driver->hurry || now_ns >= driver->next_ns))
        return GD_STEP_CONNECT;
    if (driver->state == GD_OPEN && now_ns >= driver->next_ns)
        return driver->beating ? GD_STEP_SILENCE : GD_STEP_BEAT;
    return GD_STEP_WAIT;
}

static enum gd_step gd_next_step(const struct gd *driver)
{
    bool busy = driver->delivering > 0;

    if (driver->closing)
        return busy ? GD_STEP_WAIT : GD_STEP_CLOSE;
    if (!driver->opened)
        return GD_STEP_WAIT;
    if (driver->state == GD_LOST)
        return busy ? GD_STEP_WAIT : GD_STEP_LOSS;
    if (!pod_list_empty(&driver->refused))
        return GD_STEP_REFUSED;
    if (driver->state == GD_ARRIVED)
        return GD_STEP_READY;
    if (driver->reset != NULL && driver->state == GD_OPEN)
        return busy ? GD_STEP_WAIT : GD_STEP_RESET;
    if (driver->beat_came && driver->state == GD_OPEN)
        return GD_STEP_TELL_BEAT;
    return gd_timed_step(driver, gd_now());
}

static void gd_sleep_locked(struct gd *driver)
{
    bool timed = driver->opened && !driver->closing &&
                 (driver->state == GD_RESTING || driver->state == GD_OPEN);

    if (timed)
        (void)pod_cond_wait_until(&driver->wake, &driver->lock,
                                  driver->next_ns);
    else
        pod_cond_wait(&driver->wake, &driver->lock);
}

static void gd_step_locked(struct gd *driver, enum gd_step step)
{
    switch (step) {
    case GD_STEP_WAIT:
        gd_sleep_locked(driver);
        break;
    case GD_STEP_CLOSE:
        gd_step_close_locked(driver);
        break;
    case GD_STEP_LOSS:
        gd_step_loss_locked(driver);
        break;
    case GD_STEP_REFUSED:
        gd_refused_answer_locked(driver);
        break;
    case GD_STEP_CONNECT:
        gd_step_connect_locked(driver);
        break;
    case GD_STEP_READY:
        gd_step_ready_locked(driver);
        break;
    case GD_STEP_RESET:
        gd_step_reset_locked(driver);
        break;
    case GD_STEP_BEAT:
        gd_step_beat_locked(driver);
        break;
    case GD_STEP_SILENCE:
        gd_step_silence_locked(driver);
        break;
    case GD_STEP_TELL_BEAT:
        gd_step_tell_beat_locked(driver);
        break;
    }
}

static void *gd_thread(void *arg)
{
    struct gd *driver = arg;

    pod_mutex_lock(&driver->lock);
    while (driver->state != GD_CLOSED) {
        gd_link_reap_locked(driver);
        gd_step_locked(driver, gd_next_step(driver));
    }
    for (;;) {
        gd_link_reap_locked(driver);
        if (pod_list_empty(&driver->old_links))
            break;
        pod_cond_wait(&driver->wake, &driver->lock);
    }
    pod_mutex_unlock(&driver->lock);
    return NULL;
}

// ------------------------------------------------------------ made and freed

static int64_t gd_time(int64_t given_ns, int64_t otherwise_ns)
{
    return given_ns > 0 ? given_ns : otherwise_ns;
}

static void gd_set_times(struct gd *driver,
                         const struct pod_grpc_options *options)
{
    const int64_t second = POD_NS_PER_S;
    struct gd_times *times = &driver->times;

    times->connect_ns = gd_time(options->connect_ns, 3 * second);
    times->heartbeat_ns = gd_time(options->heartbeat_ns, second);
    times->silence_ns = gd_time(options->silence_ns, 4 * second);
    times->backoff_min_ns = gd_time(options->backoff_min_ns, second / 5);
    times->backoff_max_ns = gd_time(options->backoff_max_ns, 2 * second);
    driver->backoff_ns = times->backoff_min_ns;
}

static bool gd_make_spares(struct gd *driver)
{
    for (int i = 0; i < GD_SPARE_REFUSALS; i++) {
        struct gd_refusal *spare = pod_calloc(1, sizeof(*spare));
        if (spare == NULL)
            return false;
        spare->spare = true;
        pod_list_push_back(&driver->spares, &spare->link);
    }
    return true;
}

static void gd_free(struct pod_driver *base)
{
    struct gd *driver = gd_of(base);
    struct pod_list *item;

    if (driver == NULL)
        return;
    // One that was never closed was never opened either.
    if (driver->has_thread)
        gd_close(base);
    gd_hub_leave(driver->hub, driver);
    while ((item = pod_list_pop_front(&driver->spares)) != NULL)
        pod_free(POD_CONTAINER(item, struct gd_refusal, link));
    pod_map_fini(&driver->by_op);
    pod_map_fini(&driver->by_wire);
    worker_ids_fini(&driver->failed_numbers);
    pod_free(driver->load);
    pod_mutex_fini(&driver->lock);
    pod_cond_fini(&driver->wake);
    pod_free(driver->address);
    pod_free(driver);
}

static const struct pod_driver_ops gd_ops = {
    .open = gd_open,
    .close = gd_close,
    .free = gd_free,
    .reset = gd_call_reset,
    .reconnect = gd_reconnect,
    .allocate = gd_call_allocate,
    .allocate_tuple = gd_call_allocate_tuple,
    .deallocate = gd_call_deallocate,
    .write = gd_call_write,
    .read = gd_call_read,
    .copy = gd_call_copy,
    .copy_from_peer = gd_call_copy_from_peer,
    .compile = gd_call_compile,
    .free_program = gd_call_free_program,
    .load = gd_call_load,
    .unload = gd_call_unload,
    .execute = gd_call_execute,
    .cancel = gd_call_cancel,
};

static void gd_init(struct gd *driver, const struct pod_grpc_options *options)
{
    driver->base.ops = &gd_ops;
    pod_mutex_init(&driver->lock, POD_RANK_DRIVER, "grpc driver");
    pod_cond_init(&driver->wake);
    driver->hub = options->hub;
    driver->host = options->host;
    driver->state = GD_RESTING;
    gd_set_times(driver, options);
    pod_list_init(&driver->old_links);
    pod_list_init(&driver->open);
    pod_list_init(&driver->failed);
    pod_list_init(&driver->refused);
    pod_list_init(&driver->spares);
}

enum pod_code pod_grpc_driver_new(const struct pod_grpc_options *options,
                                  struct pod_driver **out_driver,
                                  struct pod_err *err)
{
    struct gd *driver = pod_calloc(1, sizeof(*driver));

    if (driver == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    gd_init(driver, options);
    driver->address = pod_strdup(options->address);
    bool has_memory = driver->address != NULL && gd_make_spares(driver);
    driver->has_thread = has_memory && pthread_create(&driver->thread, NULL,
                                                      gd_thread, driver) == 0;
    if (!driver->has_thread || !gd_hub_join(driver->hub, driver)) {
        const char *what =
            has_memory && !driver->has_thread ? "thread" : "memory";
        gd_free(&driver->base);
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no %s for host \"%s\"", what, options->address);
    }
    *out_driver = &driver->base;
    return POD_OK;
}
