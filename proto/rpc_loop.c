// SPDX-License-Identifier: Apache-2.0
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "proto/rpc_internal.h"

struct rpc_loop {
    grpc_completion_queue *queue;
    grpc_channel *idle; // loop_keep_engine
    pthread_t thread;
    atomic_bool ticks; // period, tick and arg are set
    int64_t period_ns;
    void (*tick)(void *arg);
    void *tick_arg;
    // When the thread looks around next, at the latest.
    _Atomic int64_t awake_ns;
    // The thread's own: when the last small message came, and until when it
    // looks for the next one before it sleeps.
    int64_t small_ns;
    int64_t eager_ns;
    int64_t modest_ns;     // until then it does not look at all
    struct pod_mutex lock; // guards the rest
    struct pod_list soon;  // streams to be flushed, each with a reference
    struct pod_cond changed;
    struct pod_list streams; // that have not ended
    struct pod_list cut;     // of those: cancelled because the loop ends
    size_t holders;
    bool ending;
};

// ------------------------------------------------------------------- the loop

static int64_t loop_now(void)
{
    return pod_clock_mono(&pod_clock_system);
}

// What was written before a start happens before its tag comes. gRPC sees to
// that with locks which race detectors do not know; these they know.
static atomic_ulong loop_started;

// A tag has come.
static void loop_has_come(void)
{
    (void)atomic_load_explicit(&loop_started, memory_order_acquire);
}

// How long the queue may be waited for, so that a tick that is set meanwhile
// is not missed for long.
enum { LOOP_IDLE_MS = 1000 };

#define LOOP_NS_PER_MS (POD_NS_PER_S / 1000)

// How long the thread looks for the next small message when the last two came
// close upon each other: somebody waits for each operation before the next.
#define LOOP_EAGER_NS (INT64_C(100) * 1000)
#define LOOP_NEAR_NS  (2 * LOOP_EAGER_NS)
// Another thread that keeps the processor for so long has more to do, and then
// it is better to sleep, for one that is woken comes first. So the thread does
// for a while.
#define LOOP_TAKEN_NS  (INT64_C(500) * 1000)
#define LOOP_MODEST_NS POD_NS_PER_S

// `busy`: there was something to do a moment ago, and there may be something to
// flush soon.
static int64_t loop_wait_ns(const struct rpc_loop *loop, int64_t next_tick_ns,
                            bool busy)
{
    int64_t idle = (busy ? RPC_SOON_MS : LOOP_IDLE_MS) * LOOP_NS_PER_MS;
    if (!atomic_load(&loop->ticks))
        return idle;
    int64_t left = next_tick_ns - loop_now();
    return left < 0 ? 0 : left < idle ? left : idle;
}

bool rpc_loop_flush_soon(struct rpc_loop *loop, struct rpc_stream *stream)
{
    if (atomic_load(&loop->awake_ns) >
        loop_now() + RPC_SOON_MS * LOOP_NS_PER_MS)
        return false;
    pod_mutex_lock(&loop->lock);
    if (pod_list_empty(&stream->soon))
        pod_list_push_back(&loop->soon, &rpc_stream_ref(stream)->soon);
    pod_mutex_unlock(&loop->lock);
    return true;
}

static void loop_flush(struct rpc_loop *loop)
{
    struct pod_list *item;
    do {
        pod_mutex_lock(&loop->lock);
        item = pod_list_pop_front(&loop->soon);
        pod_mutex_unlock(&loop->lock);
        if (item == NULL)
            return;
        struct rpc_stream *stream =
            POD_CONTAINER(item, struct rpc_stream, soon);
        rpc_stream_flush(stream);
        rpc_stream_unref(stream);
    } while (item != NULL);
}

void rpc_loop_small_came(struct rpc_loop *loop)
{
    int64_t now_ns = loop_now();
    bool near = now_ns - loop->small_ns <= LOOP_NEAR_NS;
    loop->small_ns = now_ns;
    loop->eager_ns =
        near && now_ns >= loop->modest_ns ? now_ns + LOOP_EAGER_NS : 0;
}

// Polls for an event while nobody else wants the processor: a thread that stays
// awake gets a message far sooner than one that sleeps.
static grpc_event loop_look(struct rpc_loop *loop)
{
    grpc_event event = {.type = GRPC_QUEUE_TIMEOUT};
    int64_t now_ns = loop_now();
    while (event.type == GRPC_QUEUE_TIMEOUT && now_ns < loop->eager_ns) {
        event = grpc_completion_queue_next(
            loop->queue, gpr_inf_past(GPR_CLOCK_MONOTONIC), NULL);
        if (event.type != GRPC_QUEUE_TIMEOUT)
            break;
        int64_t before_ns = loop_now();
        (void)sched_yield();
        now_ns = loop_now();
        if (now_ns - before_ns > LOOP_TAKEN_NS)
            loop->modest_ns = now_ns + LOOP_MODEST_NS;
    }
    return event;
}

static grpc_event loop_next(struct rpc_loop *loop, int64_t next_tick_ns,
                            bool busy)
{
    int64_t wait_ns = loop_wait_ns(loop, next_tick_ns, busy);
    gpr_timespec deadline =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                     gpr_time_from_nanos(wait_ns, GPR_TIMESPAN));
    atomic_store(&loop->awake_ns, pod_time_add(loop_now(), wait_ns));
    grpc_event event = loop_look(loop);
    if (event.type == GRPC_QUEUE_TIMEOUT)
        event = grpc_completion_queue_next(loop->queue, deadline, NULL);
    atomic_store(&loop->awake_ns, 0); // it is
    return event;
}

static void *loop_main(void *arg)
{
    struct rpc_loop *loop = arg;
    int64_t next_tick_ns = 0;
    int64_t next_flush_ns = 0;
    bool busy = false;
    for (;;) {
        grpc_event event = loop_next(loop, next_tick_ns, busy);
        busy = event.type == GRPC_OP_COMPLETE;
        int64_t now_ns = loop_now();
        if (!busy || now_ns >= next_flush_ns) {
            loop_flush(loop);
            next_flush_ns = now_ns + RPC_SOON_MS * LOOP_NS_PER_MS;
        }
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        if (event.type == GRPC_OP_COMPLETE) {
            struct rpc_tag *tag = event.tag;
            loop_has_come();
            bool ok = event.success != 0 && !tag->failed;
            tag->failed = false;
            tag->run(tag, ok);
        }
        if (atomic_load(&loop->ticks) && loop_now() >= next_tick_ns) {
            loop->tick(loop->tick_arg);
            next_tick_ns = pod_time_add(loop_now(), loop->period_ns);
        }
    }
}

// gRPC's engine, with descriptors of its own, lives as long as some channel or
// server and is made anew for the next one; if no descriptor is left then gRPC
// 1.51 ends the process. So there is always a channel, which never connects.
static grpc_channel *loop_keep_engine(void)
{
    grpc_channel_credentials *plain = grpc_insecure_credentials_create();
    grpc_channel *idle = grpc_channel_create("ipv4:127.0.0.1:1", plain, NULL);

    grpc_channel_credentials_release(plain);
    return idle;
}

static void loop_shutdown_grpc(struct rpc_loop *loop)
{
    grpc_completion_queue_destroy(loop->queue);
    grpc_channel_destroy(loop->idle);
    grpc_shutdown();
}

static void loop_free_memory(struct rpc_loop *loop)
{
    pod_cond_fini(&loop->changed);
    pod_mutex_fini(&loop->lock);
    pod_free(loop);
}

static void loop_setup(void)
{
    rpc_log_setup();
    rpc_warm_up();
}

enum pod_code rpc_loop_new(struct rpc_loop **out_loop, struct pod_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct rpc_loop *loop = pod_calloc(1, sizeof(*loop));
    if (loop == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    (void)pthread_once(&once, loop_setup);
    pod_mutex_init(&loop->lock, POD_RANK_RPC, "rpc loop");
    pod_list_init(&loop->soon);
    pod_cond_init(&loop->changed);
    pod_list_init(&loop->streams);
    pod_list_init(&loop->cut);
    grpc_init();
    loop->queue = grpc_completion_queue_create_for_next(NULL);
    loop->idle = loop_keep_engine();
    if (pthread_create(&loop->thread, NULL, loop_main, loop) != 0) {
        grpc_completion_queue_shutdown(loop->queue);
        loop_shutdown_grpc(loop);
        loop_free_memory(loop);
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no thread for gRPC");
    }
    *out_loop = loop;
    return POD_OK;
}

void rpc_loop_add(struct rpc_loop *loop, struct rpc_stream *stream)
{
    pod_mutex_lock(&loop->lock);
    pod_list_push_back(&loop->streams, &stream->link);
    pod_mutex_unlock(&loop->lock);
}

void rpc_loop_remove(struct rpc_loop *loop, struct rpc_stream *stream)
{
    pod_mutex_lock(&loop->lock);
    pod_list_remove(&stream->link);
    pod_cond_broadcast(&loop->changed);
    pod_mutex_unlock(&loop->lock);
}

// A stream that goes on by itself, to send what is queued or to receive its
// status, starts operations, and a queue that is shut down takes none.
static void loop_end_streams(struct rpc_loop *loop)
{
    struct pod_list *item;
    pod_mutex_lock(&loop->lock);
    while (!pod_list_empty(&loop->streams) || !pod_list_empty(&loop->cut)) {
        item = pod_list_pop_front(&loop->streams);
        if (item == NULL) {
            pod_cond_wait(&loop->changed, &loop->lock);
            continue;
        }
        struct rpc_stream *stream =
            rpc_stream_ref(POD_CONTAINER(item, struct rpc_stream, link));
        pod_list_push_back(&loop->cut, item);
        pod_mutex_unlock(&loop->lock);
        rpc_stream_cancel(stream);
        rpc_stream_unref(stream);
        pod_mutex_lock(&loop->lock);
    }
    pod_mutex_unlock(&loop->lock);
}

bool rpc_loop_hold(struct rpc_loop *loop)
{
    pod_mutex_lock(&loop->lock);
    bool held = !loop->ending;
    if (held)
        loop->holders++;
    pod_mutex_unlock(&loop->lock);
    return held;
}

void rpc_loop_release(struct rpc_loop *loop)
{
    pod_mutex_lock(&loop->lock);
    loop->holders--;
    pod_cond_broadcast(&loop->changed);
    pod_mutex_unlock(&loop->lock);
}

bool rpc_loop_is_ending(struct rpc_loop *loop)
{
    pod_mutex_lock(&loop->lock);
    bool ending = loop->ending;
    pod_mutex_unlock(&loop->lock);
    return ending;
}

static void loop_await_holders(struct rpc_loop *loop)
{
    pod_mutex_lock(&loop->lock);
    loop->ending = true;
    while (loop->holders > 0)
        pod_cond_wait(&loop->changed, &loop->lock);
    pod_mutex_unlock(&loop->lock);
}

void rpc_loop_free(struct rpc_loop *loop)
{
    if (loop == NULL)
        return;
    loop_end_streams(loop);
    loop_await_holders(loop);
    grpc_completion_queue_shutdown(loop->queue);
    (void)pthread_join(loop->thread, NULL);
    loop_shutdown_grpc(loop);
    loop_free_memory(loop);
}

grpc_completion_queue *rpc_loop_queue(struct rpc_loop *loop)
{
    return loop->queue;
}

void rpc_loop_set_tick(struct rpc_loop *loop, int64_t period_ns,
                       void (*tick)(void *arg), void *arg)
{
    loop->period_ns = period_ns;
    loop->tick = tick;
    loop->tick_arg = arg;
    atomic_store(&loop->ticks, true);
}

void rpc_will_start(void)
{
    (void)atomic_fetch_add_explicit(&loop_started, 1, memory_order_release);
}

void rpc_start(grpc_call *call, const grpc_op *ops, size_t count,
               struct rpc_tag *tag)
{
    rpc_will_start();
    grpc_call_error fault = grpc_call_start_batch(call, ops, count, tag, NULL);
    if (fault == GRPC_CALL_OK)
        return;
    pod_log(POD_LOG_ERROR, "grpc", "a batch was refused: %s",
            grpc_call_error_to_string(fault));
    abort();
}

bool rpc_start_here(struct rpc_loop *loop, grpc_call *call, const grpc_op *op,
                    struct rpc_tag *tag)
{
    void *done = NULL;
    int ok = 0;
    // gRPC keeps the first event that comes of it in this thread.
    grpc_completion_queue_thread_local_cache_init(loop->queue);
    rpc_start(call, op, 1, tag);
    if (!grpc_completion_queue_thread_local_cache_flush(loop->queue, &done,
                                                        &ok))
        return false;
    loop_has_come();
    if (done == tag)
        return true;
    // This thread happened to do the work of another that used the connection.
    rpc_post(call, done, ok != 0);
    return false;
}

// A batch of nothing is done at once.
void rpc_post(grpc_call *call, struct rpc_tag *tag, bool ok)
{
    tag->failed = !ok;
    rpc_start(call, NULL, 0, tag);
}

enum pod_code rpc_code(grpc_status_code status)
{
    return (unsigned)status <= POD_UNAUTHENTICATED ? (enum pod_code)status
                                                   : POD_UNKNOWN;
}
