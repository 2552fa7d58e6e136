// SPDX-License-Identifier: Apache-2.0
// Graphs: operations per second through the engine, and from the bytes of a
// body to the admitted graph, beside a bare jansson parse of the same bytes: as
// NDJSON (each line parsed and let go) and as JSON (one value, let go when all
// is measured).
//
// The hosts are fakes that keep their calls. All operations wait for one that
// is not answered, so that what is measured ends with their admission; then
// the graph is cancelled, which is measured too. Times are of the processor:
// all is done by one thread. Bytes are of the heap: with what was read, and
// with that let go.
#include <jansson.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "api/graph_read.h"
#include "api/json_memory.h"
#include "core/base/log.h"
#include "server/process.h"
#include "tests/bench/lib/numbers.h"
#include "tests/lib/pod_fixture.h"

enum {
    BENCH_OPS = 100000,
    BENCH_ROUNDS = 5,
    BENCH_PIECE = 16 * 1024,
};

static double bench_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// A chain and a fan of small allocations, as lines or as one value.
static char *bench_body(size_t count, bool by_lines, size_t *out_length)
{
    char *body = malloc(count * 96);
    size_t used = 0;

    used += (size_t)sprintf(body, "%s", by_lines ? "" : "{\"ops\":[\n");
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(
            body + used, 96,
            "{\"ref\":\"%zu\",\"op\":\"allocate\",\"core\":%zu,\"bytes\":\"0\""
            ",\"after\":[\"%s%zu\"]}%s\n",
            i, i % 4, i == 0 ? "op-" : "$",
            i == 0  ? 1
            : i % 2 ? i - 1
                    : 0,
            by_lines || i + 1 == count ? "" : ",");
    used += (size_t)sprintf(body + used, "%s", by_lines ? "" : "]}\n");
    *out_length = used;
    return body;
}

static json_t *bench_parse(const char *text, size_t length)
{
    json_error_t error;
    json_t *value = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);

    assert_non_null(value);
    return value;
}

static double bench_bare_lines(const char *body, size_t length)
{
    double begin = bench_now();

    for (const char *at = body; at < body + length;) {
        const char *end = memchr(at, '\n', (size_t)(body + length - at));
        json_decref(bench_parse(at, (size_t)(end - at)));
        at = end + 1;
    }
    return bench_now() - begin;
}

static double bench_bare_json(const char *body, size_t length)
{
    double begin = bench_now();
    json_t *value = bench_parse(body, length);
    double spent = bench_now() - begin;

    json_decref(value);
    return spent;
}

// jansson as a bare program has it: with malloc.
static double bench_bare(const char *body, size_t length, bool by_lines)
{
    json_malloc_t take;
    json_free_t drop;

    json_get_alloc_funcs(&take, &drop);
    json_set_alloc_funcs(malloc, free);
    double spent = by_lines ? bench_bare_lines(body, length)
                            : bench_bare_json(body, length);
    json_set_alloc_funcs(take, drop);
    return spent;
}

static void bench_read_lines(struct api_graph *graph, const char *body,
                             size_t length)
{
    struct pod_err err;

    for (size_t at = 0; at < length; at += BENCH_PIECE) {
        size_t piece = length - at < BENCH_PIECE ? length - at : BENCH_PIECE;
        assert_int_equal(api_graph_read_lines(graph, body + at, piece, &err),
                         POD_OK);
    }
    assert_int_equal(api_graph_read_end(graph, &err), POD_OK);
}

static void bench_read_json(struct api_graph *graph, const char *body,
                            size_t length)
{
    struct pod_err err;

    assert_int_equal(api_graph_parse_json(graph, body, length, &err), POD_OK);
    assert_int_equal(api_graph_read_json(graph, &err), POD_OK);
}

static double bench_heap(void)
{
    struct mallinfo2 info = mallinfo2();

    return (double)(info.uordblks + info.hblkhd);
}

struct bench_times {
    double read;
    double submit;
    double end; // what was read is let go
    double cancel;
    double most; // bytes
    double kept;
};

static struct bench_times bench_graph(const char *body, size_t length,
                                      bool by_lines)
{
    struct fixture fix;
    struct api_graph graph;
    struct bench_times times;
    struct pod_err err;
    uint64_t *numbers = calloc(BENCH_OPS, sizeof(*numbers));
    uint64_t number = 0;
    bool again;

    fixture_init_options(&fix, 2, 1000, POD_NEVER, 0, 1 << 30);
    fake_ready(fix.host[0]);
    fake_ready(fix.host[1]);
    (void)fixture_allocate(&fix, 0, 0);
    double heap = bench_heap();
    double begin = bench_now();
    api_graph_init(&graph, fix.pod);
    if (by_lines)
        bench_read_lines(&graph, body, length);
    else
        bench_read_json(&graph, body, length);
    times.read = bench_now() - begin;
    assert_int_equal(api_graph_submit(&graph, &number, numbers, &err), POD_OK);
    times.submit = bench_now() - begin - times.read;
    times.most = bench_heap() - heap;
    begin = bench_now();
    api_graph_fini(&graph);
    times.end = bench_now() - begin;
    times.kept = bench_heap() - heap;
    begin = bench_now();
    assert_int_equal(
        pod_cancel(fix.pod, number, POD_CASCADE_NONE, NULL, &again, &err),
        POD_OK);
    times.cancel = bench_now() - begin;
    assert_state(&fix, number, "CANCELLED");
    fixture_run(&fix);
    fixture_fini(&fix);
    free(numbers);
    return times;
}

static void bench_rounds(bool by_lines)
{
    double bare[BENCH_ROUNDS];
    double read[BENCH_ROUNDS];
    double submit[BENCH_ROUNDS];
    double end[BENCH_ROUNDS];
    double cancel[BENCH_ROUNDS];
    double ratio[BENCH_ROUNDS];
    struct bench_times times = {.read = 0};
    size_t length;
    char *body = bench_body(BENCH_OPS, by_lines, &length);

    for (size_t i = 0; i < BENCH_ROUNDS; i++) {
        const double ns = 1e9 / BENCH_OPS;
        bare[i] = ns * bench_bare(body, length, by_lines);
        times = bench_graph(body, length, by_lines);
        read[i] = times.read * ns;
        submit[i] = times.submit * ns;
        end[i] = times.end * ns;
        cancel[i] = times.cancel * ns;
        ratio[i] = bare[i] / (read[i] + submit[i]);
    }
    double reading = bench_median_of(read, BENCH_ROUNDS);
    double submitting = bench_median_of(submit, BENCH_ROUNDS);
    printf("%s: %d operations, %zu bytes; ns an operation\n",
           by_lines ? "NDJSON" : "JSON", BENCH_OPS, length);
    printf("  bare jansson            %8.0f\n",
           bench_median_of(bare, BENCH_ROUNDS));
    printf("  read                    %8.0f\n", reading);
    printf("  submit                  %8.0f   %.2f million a second\n",
           submitting, 1e3 / submitting);
    printf("  end                     %8.0f\n",
           bench_median_of(end, BENCH_ROUNDS));
    printf("  cancel                  %8.0f\n",
           bench_median_of(cancel, BENCH_ROUNDS));
    printf("  heap at the end of it   %8.0f   %.0f kept; bytes an operation\n",
           times.most / BENCH_OPS, times.kept / BENCH_OPS);
    printf("  bytes to admitted                %.2f million a second\n",
           1e3 / (reading + submitting));
    printf("  the same, of a bare parse (aim 0.60): %.2f\n",
           bench_median_of(ratio, BENCH_ROUNDS));
    (void)fflush(stdout);
    free(body);
}

int main(void)
{
    process_setup();
    pod_log_setup(POD_LOG_ERROR, POD_LOG_TEXT);
    api_json_memory_setup();
    bench_rounds(true);
    bench_rounds(false);
    return 0;
}
