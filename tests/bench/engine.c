// SPDX-License-Identifier: Apache-2.0
// What an operation costs the engine, from its admission to its end: random
// graphs of N operations, each of which waits for up to three earlier ones.
//
//   submit  the graph is admitted
//   done    the host begins and answers each call by itself, as they come
//   well    it begins and answers up to 64 at once, as many as there are, as a
//           worker does whose answers come in one message
//
// The host is a list of calls and nothing else. Nanoseconds an operation, of
// the processor, all threads; the median of the rounds. POD_BENCH_MAX says how
// large N may become: 100,000 if it is not set.
//
// The pod has done the same graph once before, so that what it keeps for the
// next one is there; submit and the bytes are those of the second.
//
// The last columns are the bytes that an operation takes in the heap, with the
// record of the buffer that it makes: while all are open, and when they have
// ended and are kept.
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/list.h"
#include "core/base/log.h"
#include "core/pod/pod.h"
#include "server/process.h"
#include "tests/bench/lib/numbers.h"

enum {
    BENCH_PARENTS = 3,
    BENCH_CORES = 4,
    BENCH_ROUNDS = 5,
    BENCH_DEFAULT = 100000,
    BENCH_COSTS = 5, // of struct bench_costs
    BENCH_TOGETHER = 64,
};

static void bench_check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static double bench_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

// ----------------------------------------------------------------- the host

// Keeps the calls it gets, in order; it has room for all of them.
struct bench_host {
    struct pod_driver base;
    struct pod_driver_observer observer;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    struct pod_driver_call *calls;
    size_t count; // calls it got
    size_t taken;
};

static struct bench_host *bench_host_of(struct pod_driver *driver)
{
    return POD_CONTAINER(driver, struct bench_host, base);
}

static void bench_host_open(struct pod_driver *driver,
                            const struct pod_driver_observer *observer)
{
    bench_host_of(driver)->observer = *observer;
}

static void bench_host_close(struct pod_driver *driver)
{
    (void)driver;
}

static void bench_host_free(struct pod_driver *driver)
{
    struct bench_host *host = bench_host_of(driver);

    (void)pthread_mutex_destroy(&host->lock);
    (void)pthread_cond_destroy(&host->cond);
    free(host->calls);
    free(host);
}

static void bench_host_allocate(struct pod_driver *driver,
                                const struct pod_driver_call *call,
                                uint32_t core, const struct pod_shape *shape,
                                uint64_t bytes)
{
    struct bench_host *host = bench_host_of(driver);

    (void)core;
    (void)shape;
    (void)bytes;
    (void)pthread_mutex_lock(&host->lock);
    host->calls[host->count++] = *call;
    (void)pthread_cond_signal(&host->cond);
    (void)pthread_mutex_unlock(&host->lock);
}

static const struct pod_driver_ops bench_host_ops = {
    .open = bench_host_open,
    .close = bench_host_close,
    .free = bench_host_free,
    .allocate = bench_host_allocate,
};

static struct bench_host *bench_host_new(size_t calls)
{
    struct bench_host *host = calloc(1, sizeof(*host));

    bench_check(host != NULL, "no memory");
    host->base.ops = &bench_host_ops;
    host->calls = calloc(calls, sizeof(host->calls[0]));
    bench_check(host->calls != NULL, "no memory");
    (void)pthread_mutex_init(&host->lock, NULL);
    (void)pthread_cond_init(&host->cond, NULL);
    return host;
}

static void bench_host_ready(struct bench_host *host)
{
    struct pod_driver_core cores[BENCH_CORES];
    struct pod_driver_chip chip = {.x = 0};
    const struct pod_driver_info info = {
        .platform = "bench",
        .version = "1",
        .host_count = 1,
        .cores = cores,
        .core_count = BENCH_CORES,
        .chips = &chip,
        .chip_count = 1,
    };

    for (uint32_t i = 0; i < BENCH_CORES; i++)
        cores[i] = (struct pod_driver_core){.worker_core = i};
    host->observer.ready(host->observer.arg, &info);
}

// The oldest calls that are not answered, up to `most`; waits for one.
static size_t bench_host_take(struct bench_host *host, size_t most,
                              struct pod_driver_call *out_calls)
{
    (void)pthread_mutex_lock(&host->lock);
    while (host->taken == host->count)
        (void)pthread_cond_wait(&host->cond, &host->lock);
    size_t count = host->count - host->taken;
    if (count > most)
        count = most;
    memcpy(out_calls, host->calls + host->taken, count * sizeof out_calls[0]);
    host->taken += count;
    (void)pthread_mutex_unlock(&host->lock);
    return count;
}

// Begins and answers so many calls, each by itself.
static void bench_host_answer_each(struct bench_host *host, size_t count)
{
    const struct pod_driver_result well = {.err = POD_ERR_NONE};
    struct pod_driver_call call;

    for (size_t i = 0; i < count; i++) {
        (void)bench_host_take(host, 1, &call);
        call.started(call.arg);
        call.done(call.arg, &well);
    }
}

// The same, many at once.
static void bench_host_answer_together(struct bench_host *host, size_t count)
{
    struct pod_driver_call calls[BENCH_TOGETHER];
    struct pod_driver_well well[BENCH_TOGETHER];

    while (count > 0) {
        size_t some = bench_host_take(host, BENCH_TOGETHER, calls);
        for (size_t i = 0; i < some; i++)
            well[i] =
                (struct pod_driver_well){.arg = calls[i].arg, .begun = true};
        host->observer.done_well(host->observer.arg, well, some);
        count -= some;
    }
}

// -------------------------------------------------------------------- graphs

struct bench_graph {
    size_t count;
    struct pod_request *requests;
    const struct pod_request **ops;
    struct pod_ref *after;
    uint64_t *numbers;
};

static size_t bench_random(uint64_t *state, size_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (size_t)(*state % below);
}

static struct bench_graph bench_graph_make(size_t count)
{
    struct bench_graph graph = {
        .count = count,
        .requests = calloc(count, sizeof(graph.requests[0])),
        .ops = calloc(count, sizeof(graph.ops[0])),
        .after = calloc(count * BENCH_PARENTS, sizeof(graph.after[0])),
        .numbers = calloc(count, sizeof(graph.numbers[0])),
    };
    struct pod_ref *next = graph.after;
    uint64_t random = 1;

    bench_check(graph.requests != NULL && graph.ops != NULL && next != NULL &&
                    graph.numbers != NULL,
                "no memory");
    for (size_t i = 0; i < count; i++) {
        size_t parents = i > 0 ? 1 + bench_random(&random, BENCH_PARENTS) : 0;
        graph.requests[i] = (struct pod_request){
            .kind = POD_KIND_ALLOCATE,
            .deadline_ns = POD_NEVER,
            .after = next,
            .after_count = parents,
            .allocate.core = (uint32_t)(i % BENCH_CORES),
        };
        graph.ops[i] = &graph.requests[i];
        for (size_t k = 0; k < parents; k++)
            *next++ = (struct pod_ref){.kind = POD_REF_REQUEST,
                                       .number = bench_random(&random, i)};
    }
    return graph;
}

static void bench_graph_free(struct bench_graph *graph)
{
    free(graph->requests);
    free(graph->ops);
    free(graph->after);
    free(graph->numbers);
}

static uint64_t bench_submit(struct pod *pod, const struct bench_graph *graph)
{
    const struct pod_request self = {.kind = POD_KIND_GRAPH,
                                     .deadline_ns = POD_NEVER};
    const struct pod_graph_request request = {
        .self = &self, .ops = graph->ops, .count = graph->count};
    struct pod_faults faults = {.total = 0};
    struct pod_err err;
    uint64_t number = 0;

    bench_check(pod_submit_graph(pod, &request, &number, graph->numbers,
                                 &faults, &err) == POD_OK,
                "the graph is refused");
    return number;
}

// ---------------------------------------------------------------------- rounds

struct bench_costs {
    double submit; // ns
    double done;
    double well;
    double open; // bytes
    double ended;
};

static struct pod *bench_pod(struct bench_host *host)
{
    const struct pod_options options = {
        .clock = pod_clock_system,
        .instance = "bench",
        .history_count = 1000,
        .history_age_ns = POD_NEVER,
        .first_number = 1,
        .staging_bytes = 1 << 20,
    };
    struct pod_err err;
    struct pod *pod = pod_new(&options);

    bench_check(pod != NULL, "no memory");
    bench_check(pod_add_host(pod, &host->base, "bench", &err) == POD_OK &&
                    pod_start(pod, &err) == POD_OK,
                "the pod does not start");
    bench_host_ready(host);
    return pod;
}

// Of all that is allocated and not freed.
static double bench_heap(void)
{
    struct mallinfo2 info = mallinfo2();

    return (double)info.uordblks + (double)info.hblkhd;
}

// Admits the graph and does all of it. What `done` says is how long `answer`
// took.
static struct bench_costs bench_do(struct pod *pod, struct bench_host *host,
                                   const struct bench_graph *graph,
                                   void (*answer)(struct bench_host *host,
                                                  size_t count))
{
    struct pod_event_view view = {0};
    struct bench_costs costs;
    struct pod_err err;

    double heap = bench_heap();
    double begin = bench_now();
    uint64_t number = bench_submit(pod, graph);
    costs.submit = bench_now() - begin;
    costs.open = bench_heap() - heap;
    begin = bench_now();
    answer(host, graph->count);
    costs.done = bench_now() - begin;
    costs.ended = bench_heap() - heap;
    bench_check(pod_get_event(pod, number, &view, &err) == POD_OK &&
                    view.state == POD_SCHED_SUCCEEDED,
                "the graph is not done");
    pod_event_view_fini(&view);
    return costs;
}

static struct bench_costs bench_round(const struct bench_graph *graph)
{
    enum { BENCH_TIMES = 3 };
    struct bench_host *host = bench_host_new(BENCH_TIMES * graph->count);
    struct pod *pod = bench_pod(host);

    (void)bench_do(pod, host, graph, bench_host_answer_each);
    struct bench_costs costs =
        bench_do(pod, host, graph, bench_host_answer_each);
    costs.well = bench_do(pod, host, graph, bench_host_answer_together).done;
    pod_stop(pod);
    pod_destroy(pod);
    return costs;
}

// The median of each, for one operation.
static void bench_row(size_t count)
{
    struct bench_graph graph = bench_graph_make(count);
    double costs[BENCH_COSTS][BENCH_ROUNDS];

    for (size_t i = 0; i < BENCH_ROUNDS; i++) {
        struct bench_costs round = bench_round(&graph);
        costs[0][i] = round.submit;
        costs[1][i] = round.done;
        costs[2][i] = round.well;
        costs[3][i] = round.open;
        costs[4][i] = round.ended;
    }
    printf("%9zu", count);
    for (size_t i = 0; i < BENCH_COSTS; i++)
        printf(" %7.0f",
               bench_median_of(costs[i], BENCH_ROUNDS) / (double)count);
    printf("\n");
    (void)fflush(stdout);
    bench_graph_free(&graph);
}

int main(void)
{
    const char *limit = getenv("POD_BENCH_MAX");
    size_t most = limit != NULL ? strtoul(limit, NULL, 10) : BENCH_DEFAULT;

    process_setup();
    pod_log_setup(POD_LOG_ERROR, POD_LOG_TEXT);
    printf("an operation: ns, and bytes in the heap\n%9s %7s %7s %7s %7s %7s\n",
           "in flight", "submit", "done", "well", "open", "ended");
    for (size_t count = 1000; count <= most; count *= 10)
        bench_row(count);
    return 0;
}
