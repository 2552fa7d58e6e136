// SPDX-License-Identifier: Apache-2.0
// Graphs: operations per second through the engine, and from the bytes of a
// body to the admitted graph, beside a bare jansson parse of the same bytes.
//
// The hosts are fakes that keep their calls. All operations wait for one that
// is not answered, so that what is measured ends with their admission; then
// the graph is cancelled, which is measured too. Times are of the processor:
// all is done by one thread.
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
#include "core/base/log.h"
#include "tests/lib/pod_fixture.h"

enum {
    BENCH_OPS = 100000,
    BENCH_ROUNDS = 5,
    BENCH_PIECE = 16 * 1024,
    BENCH_THRESHOLD = 1 << 30
};

static double bench_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double bench_median(double *times)
{
    qsort(times, BENCH_ROUNDS, sizeof(times[0]), bench_compare);
    return times[BENCH_ROUNDS / 2];
}

// A chain and a fan of small allocations.
static char *bench_body(size_t count, size_t *out_length)
{
    char *body = malloc(count * 96);
    size_t used = 0;

    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(
            body + used, 96,
            "{\"ref\":\"%zu\",\"op\":\"allocate\",\"core\":%zu,\"bytes\":\"0\""
            ",\"after\":[\"%s%zu\"]}\n",
            i, i % 4, i == 0 ? "op-" : "$",
            i == 0  ? 1
            : i % 2 ? i - 1
                    : 0);
    *out_length = used;
    return body;
}

static double bench_bare(const char *body, size_t length)
{
    double begin = bench_now();

    for (const char *at = body; at < body + length;) {
        const char *end = memchr(at, '\n', (size_t)(body + length - at));
        json_error_t error;
        json_decref(
            json_loadb(at, (size_t)(end - at), JSON_REJECT_DUPLICATES, &error));
        at = end + 1;
    }
    return bench_now() - begin;
}

struct bench_times {
    double read;
    double submit;
    double cancel;
};

static struct bench_times bench_graph(const char *body, size_t length)
{
    struct fixture fix;
    struct api_graph graph;
    struct pod_err err;
    struct bench_times times;
    uint64_t *numbers = calloc(BENCH_OPS, sizeof(*numbers));
    uint64_t number = 0;
    bool again;

    fixture_init_options(&fix, 2, 1000, POD_NEVER, 0, 1 << 30);
    fake_ready(fix.host[0]);
    fake_ready(fix.host[1]);
    (void)fixture_allocate(&fix, 0, 0);
    double begin = bench_now();
    api_graph_init(&graph, fix.pod);
    for (size_t at = 0; at < length; at += BENCH_PIECE) {
        size_t piece = length - at < BENCH_PIECE ? length - at : BENCH_PIECE;
        assert_int_equal(api_graph_read_lines(&graph, body + at, piece, &err),
                         POD_OK);
    }
    assert_int_equal(api_graph_read_end(&graph, &err), POD_OK);
    times.read = bench_now() - begin;
    assert_int_equal(api_graph_submit(&graph, &number, numbers, &err), POD_OK);
    times.submit = bench_now() - begin - times.read;
    api_graph_fini(&graph);
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

int main(void)
{
    double bare[BENCH_ROUNDS];
    double read[BENCH_ROUNDS];
    double submit[BENCH_ROUNDS];
    double cancel[BENCH_ROUNDS];
    size_t length;
    char *body = bench_body(BENCH_OPS, &length);

    // As podd does.
    (void)mallopt(M_MMAP_THRESHOLD, BENCH_THRESHOLD);
    (void)mallopt(M_TRIM_THRESHOLD, BENCH_THRESHOLD);
    pod_log_setup(POD_LOG_ERROR, POD_LOG_TEXT);
    for (size_t i = 0; i < BENCH_ROUNDS; i++) {
        bare[i] = bench_bare(body, length);
        struct bench_times times = bench_graph(body, length);
        read[i] = times.read;
        submit[i] = times.submit;
        cancel[i] = times.cancel;
    }
    double ns = 1e9 / BENCH_OPS;
    double parse = bench_median(bare);
    double reading = bench_median(read);
    double submitting = bench_median(submit);
    printf("%d operations, %zu bytes; ns an operation\n", BENCH_OPS, length);
    printf("  bare jansson            %8.0f\n", parse * ns);
    printf("  read                    %8.0f\n", reading * ns);
    printf("  submit                  %8.0f   %.2f million a second\n",
           submitting * ns, 1e3 / (submitting * ns));
    printf("  cancel                  %8.0f\n", bench_median(cancel) * ns);
    printf("  bytes to admitted, of a bare parse (aim 0.60): %.2f\n",
           parse / (reading + submitting));
    free(body);
    return 0;
}
