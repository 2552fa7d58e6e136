// SPDX-License-Identifier: Apache-2.0
// Many threads at one pod while its hosts die and come back and the pod is
// reset. Nothing is known of how each operation ends, but that it ends; run it
// under the thread and address sanitizers.
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/driver/inproc.h"
#include "core/pod/pod.h"
#include "tests/unit/fake_device.h"

enum { RACE_HOSTS = 2, RACE_CORES = 2, RACE_THREADS = 3, RACE_STEPS = 400 };

struct race {
    struct pod *pod;
    struct pod_driver *driver[RACE_HOSTS];
    atomic_bool stop;
    atomic_int streams_ended;
    atomic_int faults; // answers that cannot be
};

struct race_thread {
    struct race *race;
    uint64_t random;
    pthread_t thread;
};

static uint64_t race_pick(struct race_thread *self, uint64_t below)
{
    self->random = self->random * 6364136223846793005U + 1442695040888963407U;
    return (self->random >> 33) % below;
}

// Somewhere among the newest: much of it is freed, lost or something else.
static uint64_t race_number(struct race_thread *self)
{
    uint64_t last = pod_last_number(self->race->pod);
    uint64_t back = race_pick(self, 30);

    return last > back ? last - back : 1;
}

static uint64_t race_submit(struct race_thread *self,
                            struct pod_request *request)
{
    uint64_t number = 0;

    request->deadline_ns =
        race_pick(self, 8) == 0 ? (int64_t)race_pick(self, 200000) : POD_NEVER;
    request->run_on_failure = race_pick(self, 10) == 0;
    if (pod_submit(self->race->pod, request, 1, &number, NULL, NULL) != POD_OK)
        return 0;
    return number;
}

static void race_allocate(struct race_thread *self)
{
    struct pod_request request = {.kind = POD_KIND_ALLOCATE};

    request.allocate.core =
        (uint32_t)race_pick(self, (uint64_t)RACE_HOSTS * RACE_CORES);
    request.allocate.bytes = 64;
    request.allocate.fill_size = race_pick(self, 2) == 0 ? 4 : 0;
    (void)race_submit(self, &request);
}

static void race_write(struct race_thread *self)
{
    struct pod_request request = {.kind = POD_KIND_WRITE};
    struct pod_blob *blob = pod_blob_new(race_pick(self, 2) == 0 ? 64 : 10);

    if (blob == NULL)
        return;
    memset(blob->data, 7, blob->size);
    request.write.buffer.kind = POD_REF_BUFFER;
    request.write.buffer.number = race_number(self);
    request.write.data = blob;
    (void)race_submit(self, &request);
    pod_blob_unref(blob);
}

static void race_copy(struct race_thread *self)
{
    struct pod_request request = {.kind = POD_KIND_COPY};

    request.copy.from.kind = request.copy.to.kind = POD_REF_BUFFER;
    request.copy.from.number = race_number(self);
    request.copy.to.number = race_number(self);
    (void)race_submit(self, &request);
}

static void race_free(struct race_thread *self)
{
    struct pod_request request = {.kind = POD_KIND_FREE};

    request.free.handle.kind = POD_REF_BUFFER;
    request.free.handle.number = race_number(self);
    (void)race_submit(self, &request);
}

static void race_keep(struct race_thread *self)
{
    struct pod_request request = {.kind = POD_KIND_READ};
    struct pod_data data;

    request.read.buffer.kind = POD_REF_BUFFER;
    request.read.buffer.number = race_number(self);
    request.read.length = UINT64_MAX;
    uint64_t number = race_submit(self, &request);
    if (number == 0)
        return;
    if (pod_take_data(self->race->pod, number, &data, NULL) == POD_OK) {
        // An output of a program has 4.
        self->race->faults += data.bytes != 64 && data.bytes != 4;
        pod_data_fini(&data);
    }
}

// -------------------------------------------------------------------- streams

struct race_bell {
    pthread_mutex_t lock;
    pthread_cond_t rung;
    bool ring;
};

static void race_ring(void *arg)
{
    struct race_bell *bell = arg;

    pthread_mutex_lock(&bell->lock);
    bell->ring = true;
    pthread_cond_signal(&bell->rung);
    pthread_mutex_unlock(&bell->lock);
}

static void race_listen(struct race_bell *bell)
{
    pthread_mutex_lock(&bell->lock);
    while (!bell->ring)
        pthread_cond_wait(&bell->rung, &bell->lock);
    bell->ring = false;
    pthread_mutex_unlock(&bell->lock);
}

// Takes what comes until the end, or gives up half-way.
static void race_consume(struct race_thread *self, struct pod_stream *stream,
                         struct race_bell *bell)
{
    uint64_t patience = race_pick(self, 8);
    struct pod_blob *chunk;

    while (patience > 0) {
        enum pod_stream_state state = pod_stream_pop(stream, &chunk, NULL);
        if (state == POD_STREAM_END || state == POD_STREAM_FAILED)
            break;
        if (state == POD_STREAM_CHUNK) {
            pod_blob_unref(chunk);
            patience--;
            continue;
        }
        race_listen(bell);
    }
    pod_stream_close(stream);
    self->race->streams_ended++;
}

static void race_stream(struct race_thread *self)
{
    struct pod_request request = {.kind = POD_KIND_READ};
    struct race_bell bell = {.ring = false};
    struct pod_stream *stream;

    pthread_mutex_init(&bell.lock, NULL);
    pthread_cond_init(&bell.rung, NULL);
    stream = pod_stream_new(16, race_ring, &bell);
    request.read.buffer.kind = POD_REF_BUFFER;
    request.read.buffer.number = race_number(self);
    request.read.length = UINT64_MAX;
    request.read.stream = stream;
    // A stream that was refused is still ours at both ends.
    if (race_submit(self, &request) == 0) {
        pod_stream_finish(stream, NULL);
        pod_stream_close(stream);
    } else {
        race_consume(self, stream, &bell);
    }
    pthread_mutex_destroy(&bell.lock);
    pthread_cond_destroy(&bell.rung);
}

// ------------------------------------------------------------------ programs

static uint64_t race_compile(struct race_thread *self)
{
    static const char *const words[] = {"increment", "fail", "nonsense"};
    const char *word = words[race_pick(self, 3)];
    struct pod_request request = {.kind = POD_KIND_COMPILE};
    struct pod_blob *blob = pod_blob_new(strlen(word));

    if (blob == NULL)
        return 0;
    memcpy(blob->data, word, blob->size);
    request.compile.program = blob;
    request.compile.replicas = 1;
    request.compile.digest = word;
    uint64_t number = race_submit(self, &request);
    pod_blob_unref(blob);
    return number;
}

static void race_program(struct race_thread *self)
{
    struct pod_request request = {.kind = POD_KIND_LOAD};
    uint64_t program = race_compile(self);

    request.load.program.kind = POD_REF_PROGRAM;
    request.load.program.number = program;
    request.load.core =
        (uint32_t)race_pick(self, (uint64_t)RACE_HOSTS * RACE_CORES);
    uint64_t load = race_submit(self, &request);
    struct pod_ref input = {.kind = POD_REF_BUFFER,
                            .number = race_number(self)};
    struct pod_launch launch = {
        .load = {.kind = POD_REF_LOAD, .number = load},
        .inputs = &input,
        .input_count = 1,
        .auto_outputs = true,
    };
    request = (struct pod_request){.kind = POD_KIND_EXECUTE};
    request.execute.launches = &launch;
    request.execute.launch_count = 1;
    (void)race_submit(self, &request);
    request = (struct pod_request){.kind = POD_KIND_UNLOAD};
    request.unload.load = launch.load;
    (void)race_submit(self, &request);
    request = (struct pod_request){.kind = POD_KIND_FREE};
    request.free.handle.kind = POD_REF_PROGRAM;
    request.free.handle.number = program;
    (void)race_submit(self, &request);
}

// ------------------------------------------------------------------- onlookers

static void race_wait(struct race_thread *self)
{
    struct pod_waiter waiter;
    struct pod_event_view view;
    uint64_t number = race_number(self);

    if (pod_get_event(self->race->pod, number, &view, NULL) == POD_OK)
        pod_event_view_fini(&view);
    if (pod_wait_add(self->race->pod, &waiter, number, 0))
        pod_wait_remove(self->race->pod, &waiter);
}

static void race_cancel(struct race_thread *self)
{
    bool again;

    (void)!pod_cancel(self->race->pod, race_number(self),
                      race_pick(self, 2) == 0 ? POD_CASCADE_NONE
                                              : POD_CASCADE_DEPENDENTS,
                      "race", &again, NULL);
}

static void race_step(struct race_thread *self)
{
    static void (*const steps[])(struct race_thread *) = {
        race_allocate, race_allocate, race_allocate, race_write, race_write,
        race_copy,     race_copy,     race_free,     race_keep,  race_stream,
        race_program,  race_wait,     race_cancel,
    };

    steps[race_pick(self, sizeof(steps) / sizeof(steps[0]))](self);
}

static void *race_run(void *arg)
{
    struct race_thread *self = arg;

    for (int i = 0; i < RACE_STEPS; i++)
        race_step(self);
    return NULL;
}

// Hosts die and are revived, the pod is reset, until the others are done.
static void *race_havoc(void *arg)
{
    struct race_thread *self = arg;
    struct race *race = self->race;

    while (!race->stop) {
        uint64_t host = race_pick(self, RACE_HOSTS);
        struct pod_request request = {.kind = POD_KIND_RESET,
                                      .deadline_ns = POD_NEVER};
        uint64_t number;
        pod_inproc_kill(race->driver[host], "havoc");
        sched_yield();
        pod_inproc_revive(race->driver[host]);
        if (race_pick(self, 10) == 0)
            (void)!pod_submit(race->pod, &request, 1, &number, NULL, NULL);
        // Let the host be of use for a while.
        for (uint64_t last = pod_last_number(race->pod);
             !race->stop && pod_last_number(race->pod) < last + 20;)
            sched_yield();
    }
    return NULL;
}

// ------------------------------------------------------------------------ pod

static void race_add_host(struct race *race, struct pod_gang_hub *hub,
                          uint32_t host)
{
    const struct pod_driver_chip chips[] = {{.x = (int32_t)host}};
    static const uint32_t core_chips[RACE_CORES] = {0, 0};
    struct fake_device *fake = fake_new(RACE_CORES, 1 << 20);
    struct pod_inproc_options options = {
        .device = &fake->base,
        .hub = hub,
        .host = host,
        .host_count = 1,
        .chips = chips,
        .chip_count = 1,
        .core_chips = core_chips,
    };

    assert_int_equal(pod_inproc_new(&options, &race->driver[host], NULL),
                     POD_OK);
    assert_int_equal(
        pod_add_host(race->pod, race->driver[host], "in-process", NULL),
        POD_OK);
}

static void race_start(struct race *race)
{
    struct pod_options options = {
        .clock = pod_clock_system,
        .instance = "race",
        .history_count = 200,
        .history_age_ns = POD_NEVER,
        .first_number = 1,
        .staging_bytes = 4096,
        .chunk_bytes = 10,
    };
    struct pod_gang_hub *hub = pod_gang_hub_new(RACE_HOSTS);

    race->pod = pod_new(&options);
    assert_non_null(race->pod);
    for (uint32_t i = 0; i < RACE_HOSTS; i++)
        race_add_host(race, hub, i);
    pod_gang_hub_unref(hub);
    assert_int_equal(pod_start(race->pod, NULL), POD_OK);
    pod_await_hosts(race->pod, 60 * POD_NS_PER_S);
}

static void race_check_ended(struct race *race)
{
    struct pod_summary summary;

    assert_int_equal(pod_get_summary(race->pod, &summary, NULL), POD_OK);
    assert_int_equal(summary.by_state[POD_SCHED_WAITING], 0);
    assert_int_equal(summary.by_state[POD_SCHED_READY], 0);
    assert_int_equal(summary.by_state[POD_SCHED_RUNNING], 0);
    pod_summary_fini(&summary);
}

static void test_race(void **state)
{
    struct race_thread threads[RACE_THREADS];
    struct race race = {.pod = NULL};
    struct race_thread havoc = {.race = &race, .random = 99};

    (void)state;
    race_start(&race);
    for (size_t i = 0; i < RACE_THREADS; i++) {
        threads[i] = (struct race_thread){.race = &race, .random = i + 1};
        assert_int_equal(
            pthread_create(&threads[i].thread, NULL, race_run, &threads[i]), 0);
    }
    assert_int_equal(pthread_create(&havoc.thread, NULL, race_havoc, &havoc),
                     0);
    for (size_t i = 0; i < RACE_THREADS; i++)
        pthread_join(threads[i].thread, NULL);
    race.stop = true;
    pthread_join(havoc.thread, NULL);
    pod_await_idle(race.pod, 60 * POD_NS_PER_S);
    race_check_ended(&race);
    pod_stop(race.pod);
    pod_destroy(race.pod);
    assert_int_equal(race.faults, 0);
    assert_true(race.streams_ended > 0);
    assert_int_equal(pod_mem_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_race),
    };

    pod_log_setup(POD_LOG_ERROR, POD_LOG_TEXT); // losses are meant here
    return cmocka_run_group_tests(tests, NULL, NULL);
}
