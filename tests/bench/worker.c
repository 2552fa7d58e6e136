// SPDX-License-Identifier: Apache-2.0
// What a pod makes of workers that are other processes, beside the least that
// moves messages of the same sizes over the same library
// (tests/bench/lib/echo.h says what that leaves out).
//
//   usage: worker BUILD_DIR [WORK]     those whose names begin so
//
// The pod is the engine and its gRPC driver, without HTTP; the workers are
// podworker. Each work is done by both in turns, and each ratio is the median
// of the rounds' own, with the least and the greatest beside it. An operation
// is a copy of 16 bytes on one core.
//
//   trip        an operation, waited for, then the next
//   chain       a graph of operations that each wait for the one before. bare
//               sends a message for each, and waits for none; ours joins them
//   fan         a graph of operations that all wait for the first
//   pingpong    the chain beside a bare message at a time
//   alternate   the same of a chain whose operations are on two hosts in turns
//   spread      the same of a fan over two hosts
//   write       of a buffer, in the engine's pieces, until the worker has it
//   read        of a buffer
//   across      a copy of a buffer to another worker, which fetches it
//   bounce      the same of 16 MiB; bare sends it there, then back, in one
//               message each, as what reads it and then writes it would
//
// The chain has one more ratio: how much faster it is than one whose every
// operation is sent when the one before has been answered. On few cores that
// slow way has several speeds, of which the greatest is four times the least;
// each lasts some tenths of a second: which of the three threads that wake each
// other share a core, and whether those of gRPC look for the next message or
// sleep, for they sleep for a second once another thread has wanted their core
// (proto/rpc_loop.c). So it has more and longer rounds, in each of which a
// second of it goes by before it is measured: what the chain did is forgotten.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "server/process.h"
#include "tests/bench/lib/apart.h"
#include "tests/bench/lib/echo.h"
#include "tests/bench/lib/far_pod.h"
#include "tests/bench/lib/numbers.h"
#include "tests/lib/program.h"

enum {
    BENCH_ROUNDS = 5,
    BENCH_SLOW_ROUNDS = 9, // of a work with a slow way
    BENCH_WORKERS = 2,
    BENCH_OPS = 10000, // of a graph
    BENCH_SMALL_BYTES = 16,
    BENCH_DATA_BYTES = 64 << 20,
    BENCH_BOUNCE_BYTES = 16 << 20,
    // On the wire: an operation of a few numbers, its outcome, the engine's
    // pieces of data, and those of one worker for another.
    BENCH_ENTRY_BYTES = 24,
    BENCH_OUTCOME_BYTES = 8,
    BENCH_PIECE_BYTES = 4 << 20,
    BENCH_FETCH_BYTES = 1 << 20,
    // Messages of bare under way.
    BENCH_MANY = 1000,
    BENCH_PIECES = 4,
    BENCH_FETCHES = 8,
};

#define BENCH_SECONDS      0.5
#define BENCH_SLOW_SECONDS 1.0
#define BENCH_SLOW_WARM    1.1

// ------------------------------------------------------------------- numbers

static void bench_print_ratio(struct bench_numbers *ratios)
{
    double median = bench_median(ratios);

    printf("  %6.2f [%.2f %.2f]", median, ratios->values[0],
           ratios->values[ratios->count - 1]);
}

static double bench_now(void)
{
    return (double)pod_clock_mono(&pod_clock_system) / 1e9;
}

// ----------------------------------------------------------- what is measured

// A pod of one worker or two, and what the works use of it.
struct bench_site {
    struct test_program workers[BENCH_WORKERS];
    struct far_pod far;
    uint64_t from;
    uint64_t to;
    size_t bytes;
    struct pod_blob *data;
    // A graph that is submitted again and again.
    struct pod_request *ops;
    const struct pod_request **list;
    struct pod_ref *after; // of each operation
    uint64_t *numbers;
};

struct bench_work {
    const char *name;
    const char *unit;
    size_t workers;
    size_t bytes;             // of its buffers
    struct echo_options bare; // request, reply, window, pool
    double worth;             // of a message of bare, in units
    void (*prepare)(struct bench_site *site);
    // Does it once; returns how many units that were.
    double (*step)(struct bench_site *site);
    // The same in the slow way that the work is to beat, or NULL.
    double (*slow)(struct bench_site *site);
};

static uint64_t bench_buffer(struct bench_site *site, uint32_t core,
                             uint64_t bytes)
{
    struct pod_request request = far_request(POD_KIND_ALLOCATE);

    request.allocate.core = core;
    request.allocate.bytes = bytes;
    uint64_t number = far_submit(&site->far, &request);
    far_await(&site->far, number);
    return number;
}

static struct pod_request bench_copy(uint64_t from, uint64_t to)
{
    struct pod_request request = far_request(POD_KIND_COPY);

    request.copy.from = far_buffer(from);
    request.copy.to = far_buffer(to);
    return request;
}

static void bench_do(struct bench_site *site, const struct pod_request *request)
{
    far_await(&site->far, far_submit(&site->far, request));
}

// ------------------------------------------------------------ small operations

static void bench_prepare_small(struct bench_site *site)
{
    site->from = bench_buffer(site, 0, BENCH_SMALL_BYTES);
    site->to = bench_buffer(site, 0, BENCH_SMALL_BYTES);
}

static double bench_trip(struct bench_site *site)
{
    const struct pod_request request = bench_copy(site->from, site->to);

    bench_do(site, &request);
    return 1;
}

// Operation i is a copy into `to`, after operation `after`.
static void bench_set_op(struct bench_site *site, size_t i, uint64_t from,
                         uint64_t to, size_t after)
{
    site->ops[i] = bench_copy(from, to);
    site->list[i] = &site->ops[i];
    if (i == 0)
        return;
    site->after[i] = (struct pod_ref){POD_REF_REQUEST, .number = after};
    site->ops[i].after = &site->after[i];
    site->ops[i].after_count = 1;
}

static void bench_prepare_graph(struct bench_site *site)
{
    bench_prepare_small(site);
    site->ops = calloc(BENCH_OPS, sizeof(*site->ops));
    site->list = calloc(BENCH_OPS, sizeof(struct pod_request *));
    site->after = calloc(BENCH_OPS, sizeof(*site->after));
    site->numbers = calloc(BENCH_OPS, sizeof(*site->numbers));
    if (site->ops == NULL || site->list == NULL || site->after == NULL ||
        site->numbers == NULL)
        abort();
}

static void bench_prepare_chain(struct bench_site *site)
{
    bench_prepare_graph(site);
    for (size_t i = 0; i < BENCH_OPS; i++)
        bench_set_op(site, i, site->from, site->to, i - 1);
}

// Each copies what the first made to a buffer of its own.
static void bench_prepare_fan(struct bench_site *site)
{
    bench_prepare_graph(site);
    bench_set_op(site, 0, site->from, site->to, 0);
    for (size_t i = 1; i < BENCH_OPS; i++)
        bench_set_op(site, i, site->to,
                     bench_buffer(site, 0, BENCH_SMALL_BYTES), 0);
}

static double bench_graph(struct bench_site *site)
{
    const struct pod_request self = far_request(POD_KIND_GRAPH);
    const struct pod_graph_request graph = {
        .self = &self, .ops = site->list, .count = BENCH_OPS};
    struct pod_faults faults = {.capacity = 0};
    struct pod_err err = POD_ERR_NONE;
    uint64_t number = 0;

    if (pod_submit_graph(site->far.pod, &graph, &number, site->numbers, &faults,
                         &err) != POD_OK) {
        fprintf(stderr, "graph: %s\n", err.text);
        exit(1);
    }
    far_await(&site->far, number);
    return BENCH_OPS;
}

// Operation i is a copy on the host i % 2, after operation `after`.
static void bench_prepare_two(struct bench_site *site, bool chain)
{
    bench_prepare_graph(site);
    const uint64_t to[] = {site->to, bench_buffer(site, 1, BENCH_SMALL_BYTES)};
    const uint64_t from[] = {site->from,
                             bench_buffer(site, 1, BENCH_SMALL_BYTES)};
    for (size_t i = 0; i < BENCH_OPS; i++)
        bench_set_op(site, i, from[i % 2],
                     chain || i == 0
                         ? to[i % 2]
                         : bench_buffer(site, i % 2, BENCH_SMALL_BYTES),
                     chain ? i - 1 : 0);
}

static void bench_prepare_alternate(struct bench_site *site)
{
    bench_prepare_two(site, true);
}

static void bench_prepare_spread(struct bench_site *site)
{
    bench_prepare_two(site, false);
}

// ------------------------------------------------------------------------ data

static double bench_mb(const struct bench_site *site)
{
    return (double)site->bytes / 1e6;
}

static void bench_prepare_data(struct bench_site *site)
{
    site->from = bench_buffer(site, 0, site->bytes);
    site->data = pod_blob_new(site->bytes);
    if (site->data == NULL)
        abort();
    memset(site->data->data, 1, site->bytes);
}

static double bench_write(struct bench_site *site)
{
    struct pod_request request = far_request(POD_KIND_WRITE);

    request.write.buffer = far_buffer(site->from);
    request.write.data = site->data;
    bench_do(site, &request);
    return bench_mb(site);
}

static void bench_ignore(void *arg)
{
    (void)arg;
}

// What comes is dropped, as bare does.
static double bench_read(struct bench_site *site)
{
    struct pod_request request = far_request(POD_KIND_READ);
    struct pod_stream *stream = pod_stream_new(site->bytes, bench_ignore, NULL);

    if (stream == NULL)
        abort();
    pod_stream_abandon(stream);
    request.read.buffer = far_buffer(site->from);
    request.read.length = UINT64_MAX;
    request.read.stream = stream;
    bench_do(site, &request);
    pod_stream_close(stream);
    return bench_mb(site);
}

static void bench_prepare_across(struct bench_site *site)
{
    bench_prepare_data(site);
    site->to = bench_buffer(site, 1, site->bytes);
    (void)bench_write(site);
}

static double bench_across(struct bench_site *site)
{
    const struct pod_request request = bench_copy(site->from, site->to);

    bench_do(site, &request);
    return bench_mb(site);
}

static const struct bench_work bench_works[] = {
    {.name = "trip",
     .unit = "ops/s",
     .workers = 1,
     .bare = {BENCH_ENTRY_BYTES, BENCH_OUTCOME_BYTES, 1},
     .worth = 1,
     .prepare = bench_prepare_small,
     .step = bench_trip},
    {.name = "chain",
     .unit = "ops/s",
     .workers = 1,
     .bare = {BENCH_ENTRY_BYTES, BENCH_OUTCOME_BYTES, BENCH_MANY},
     .worth = 1,
     .prepare = bench_prepare_chain,
     .step = bench_graph,
     .slow = bench_trip},
    {.name = "fan",
     .unit = "ops/s",
     .workers = 1,
     .bare = {BENCH_ENTRY_BYTES, BENCH_OUTCOME_BYTES, BENCH_MANY},
     .worth = 1,
     .prepare = bench_prepare_fan,
     .step = bench_graph},
    {.name = "pingpong",
     .unit = "ops/s",
     .workers = 1,
     .bare = {BENCH_ENTRY_BYTES, BENCH_OUTCOME_BYTES, 1},
     .worth = 1,
     .prepare = bench_prepare_chain,
     .step = bench_graph},
    {.name = "alternate",
     .unit = "ops/s",
     .workers = 2,
     .bare = {BENCH_ENTRY_BYTES, BENCH_OUTCOME_BYTES, 1},
     .worth = 1,
     .prepare = bench_prepare_alternate,
     .step = bench_graph},
    {.name = "spread",
     .unit = "ops/s",
     .workers = 2,
     .bare = {BENCH_ENTRY_BYTES, BENCH_OUTCOME_BYTES, 1},
     .worth = 1,
     .prepare = bench_prepare_spread,
     .step = bench_graph},
    {.name = "write",
     .unit = "MB/s ",
     .workers = 1,
     .bytes = BENCH_DATA_BYTES,
     .bare = {BENCH_PIECE_BYTES, BENCH_OUTCOME_BYTES, BENCH_PIECES,
              BENCH_DATA_BYTES},
     .worth = BENCH_PIECE_BYTES / 1e6,
     .prepare = bench_prepare_data,
     .step = bench_write},
    {.name = "read",
     .unit = "MB/s ",
     .workers = 1,
     .bytes = BENCH_DATA_BYTES,
     .bare = {BENCH_ENTRY_BYTES, BENCH_PIECE_BYTES, BENCH_PIECES,
              BENCH_DATA_BYTES},
     .worth = BENCH_PIECE_BYTES / 1e6,
     .prepare = bench_prepare_data,
     .step = bench_read},
    {.name = "across",
     .unit = "MB/s ",
     .workers = 2,
     .bytes = BENCH_DATA_BYTES,
     .bare = {BENCH_ENTRY_BYTES, BENCH_FETCH_BYTES, BENCH_FETCHES,
              BENCH_DATA_BYTES},
     .worth = BENCH_FETCH_BYTES / 1e6,
     .prepare = bench_prepare_across,
     .step = bench_across},
    {.name = "bounce",
     .unit = "MB/s ",
     .workers = 2,
     .bytes = BENCH_BOUNCE_BYTES,
     .bare = {BENCH_BOUNCE_BYTES, BENCH_BOUNCE_BYTES, 1, 0},
     .worth = BENCH_BOUNCE_BYTES / 1e6,
     .prepare = bench_prepare_across,
     .step = bench_across},
};

// ---------------------------------------------------------------------- rounds

static void bench_open(struct bench_site *site, size_t count)
{
    const char *addresses[BENCH_WORKERS];

    for (size_t i = 0; i < count; i++) {
        const char *arguments[] = {
            "--log-level", "error",
            "--listen",    "127.0.0.1:0",
            "--device",    "reference",
            "--chips",     count == 1 ? "1x1x1" : "2x1x1",
            "--hosts",     count == 1 ? "1" : "2",
            "--host-id",   i == 0 ? "0" : "1",
            NULL,
        };
        test_program_start(&site->workers[i], "podworker", arguments);
        addresses[i] = site->workers[i].address;
    }
    far_pod_open(&site->far, addresses, count);
}

static void bench_close(struct bench_site *site, size_t count)
{
    far_pod_close(&site->far);
    for (size_t i = 0; i < count; i++)
        test_program_kill(&site->workers[i]);
    pod_blob_unref(site->data);
    free(site->ops);
    free(site->list);
    free(site->after);
    free(site->numbers);
}

// Units a second.
static double bench_rate(struct bench_site *site,
                         double (*step)(struct bench_site *site),
                         double seconds)
{
    double begin = bench_now();
    double done = 0;
    double now;

    do {
        done += step(site);
        now = bench_now();
    } while (now - begin < seconds);
    return done / (now - begin);
}

struct bench_measured {
    struct bench_numbers pod;
    struct bench_numbers bare;
    struct bench_numbers ratio;
    struct bench_numbers gain; // over the slow way
};

static void bench_round(const struct bench_work *work, struct bench_site *site,
                        struct echo *echo, struct bench_measured *out)
{
    double pod = bench_rate(site, work->step, BENCH_SECONDS);
    double bare = echo_run(echo, BENCH_SECONDS) * work->worth;

    bench_add(&out->pod, pod);
    bench_add(&out->bare, bare);
    bench_add(&out->ratio, pod / bare);
    if (work->slow == NULL)
        return;
    (void)bench_rate(site, work->slow, BENCH_SLOW_WARM);
    bench_add(&out->gain,
              pod / bench_rate(site, work->slow, BENCH_SLOW_SECONDS));
}

static void bench_print(const struct bench_work *work,
                        struct bench_measured *measured)
{
    printf("%-9s %9.0f %9.0f %s", work->name, bench_median(&measured->pod),
           bench_median(&measured->bare), work->unit);
    bench_print_ratio(&measured->ratio);
    if (work->slow != NULL) {
        printf("  over one trip an edge");
        bench_print_ratio(&measured->gain);
    }
    printf("\n");
}

static void bench_run(const void *arg)
{
    const struct bench_work *work = arg;
    struct bench_site site = {.bytes = work->bytes};
    struct echo echo;
    struct bench_measured warm = {.pod = {.count = 0}};
    struct bench_measured measured = {.pod = {.count = 0}};
    size_t rounds = work->slow != NULL ? BENCH_SLOW_ROUNDS : BENCH_ROUNDS;

    echo_start(&echo, &work->bare);
    bench_open(&site, work->workers);
    work->prepare(&site);
    bench_round(work, &site, &echo, &warm);
    for (size_t i = 0; i < rounds; i++)
        bench_round(work, &site, &echo, &measured);
    bench_print(work, &measured);
    bench_close(&site, work->workers);
    echo_stop(&echo);
}

// ------------------------------------------------------------------------ main

// Whether the name begins with what was asked for.
static bool bench_wanted(int argc, char **argv, const char *name)
{
    return argc < 3 || strncmp(name, argv[2], strlen(argv[2])) == 0;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: worker BUILD_DIR [WORK]\n");
        return 2;
    }
    setenv("POD_BUILD", argv[1], 1);
    process_setup();
    pod_log_setup(POD_LOG_ERROR, POD_LOG_TEXT);
    printf("%-9s %9s %9s         ratio (aim 0.70)\n", "", "pod", "bare");
    for (size_t i = 0; i < sizeof bench_works / sizeof bench_works[0]; i++) {
        if (bench_wanted(argc, argv, bench_works[i].name))
            bench_apart(bench_run, &bench_works[i]);
    }
    return 0;
}
