// SPDX-License-Identifier: Apache-2.0
// A page of 100 of very many events: microseconds, median and 99th of 100, and
// the mean of the processor's, all threads.
//
//   engine  pod_list_events
//   http    GET /v1/events?page_size=100 on one connection that is kept, all of
//   it:
//           client, server and the way between them
//   bare    the same answer, parsed before, is dumped by jansson: the least
//   that
//           writes it
//
// Pages are taken from the newest events and from the middle of all. The events
// are of small allocations that are done; POD_BENCH_MAX says how many,
// 1,000,000 if it is not set.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tests/bench/lib/numbers.h"
#include "tests/lib/http_client.h"
#include "tests/lib/rest_pod.h"

enum {
    BENCH_DEFAULT = 1000000,
    BENCH_GRAPH = 100000, // are submitted at a time
    BENCH_PAGE = 100,
    BENCH_CORES = 2,
    BENCH_TURNS = 300,
    BENCH_PATH_BYTES = 512,
    BENCH_ANSWER_BYTES = 1 << 20,
};

static void bench_check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static double bench_cpu_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static double bench_now_us(void)
{
    return (double)pod_clock_mono(&pod_clock_system) * 1e-3;
}

static void bench_print(const char *name, double *times, double cpu_us)
{
    bench_sort(times, BENCH_TURNS);
    printf("  %-16s %8.0f %8.0f %8.0f\n", name, times[BENCH_TURNS / 2],
           times[BENCH_TURNS * 99 / 100], cpu_us / BENCH_TURNS);
    (void)fflush(stdout);
}

// --------------------------------------------------------------------- events

static void bench_submit(struct pod *pod, size_t count)
{
    static struct pod_request requests[BENCH_GRAPH];
    static const struct pod_request *ops[BENCH_GRAPH];
    static uint64_t numbers[BENCH_GRAPH];
    const struct pod_request self = {.kind = POD_KIND_GRAPH,
                                     .deadline_ns = POD_NEVER};
    const struct pod_graph_request graph = {
        .self = &self, .ops = ops, .count = count};
    struct pod_faults faults = {.total = 0};
    struct pod_err err;
    uint64_t number = 0;

    for (size_t i = 0; i < count; i++) {
        requests[i] = (struct pod_request){.kind = POD_KIND_ALLOCATE,
                                           .deadline_ns = POD_NEVER,
                                           .allocate.core = i % BENCH_CORES};
        ops[i] = &requests[i];
    }
    bench_check(pod_submit_graph(pod, &graph, &number, numbers, &faults,
                                 &err) == POD_OK,
                "a graph is refused");
    pod_await_idle(pod, 600 * POD_NS_PER_S);
}

// --------------------------------------------------------------------- engine

// Where the page after so many events begins.
static uint64_t bench_place(struct pod *pod, size_t skip)
{
    return skip == 0 ? UINT64_MAX : pod_last_number(pod) - skip;
}

static void bench_engine(struct pod *pod, size_t skip, double *times)
{
    const struct pod_event_filter filter = {
        .host = POD_NO_ID, .core = POD_NO_ID, .since_wall_ns = INT64_MIN};
    struct pod_event_view *views = calloc(BENCH_PAGE, sizeof(*views));
    struct pod_err err;
    uint64_t next = 0;
    size_t count = 0;

    bench_check(views != NULL, "no memory");
    for (size_t turn = 0; turn < BENCH_TURNS; turn++) {
        double begin = bench_now_us();
        bench_check(pod_list_events(pod, &filter, bench_place(pod, skip),
                                    BENCH_PAGE, views, &count, &next,
                                    &err) == POD_OK &&
                        count == BENCH_PAGE,
                    "the engine has no such page");
        for (size_t i = 0; i < count; i++)
            pod_event_view_fini(&views[i]);
        times[turn] = bench_now_us() - begin;
    }
    free(views);
}

// ----------------------------------------------------------------------- HTTP

// The body of the answer, valid until the next one; read in large pieces.
static const char *bench_get(int fd, const char *path)
{
    static const char field[] = "Content-Length: ";
    static char answer[BENCH_ANSWER_BYTES];
    char request[BENCH_PATH_BYTES + 64];
    const char *body = NULL;
    size_t used = 0;
    size_t wanted = sizeof(answer) - 1;

    (void)snprintf(request, sizeof(request),
                   "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    (void)client_puts(fd, request);
    while (used < wanted) {
        ssize_t got = recv(fd, answer + used, wanted - used, 0);
        bench_check(got > 0, "the answer breaks off");
        used += (size_t)got;
        answer[used] = '\0';
        body = strstr(answer, "\r\n\r\n");
        if (body == NULL)
            continue;
        body += strlen("\r\n\r\n");
        const char *length = strstr(answer, field);
        bench_check(length != NULL && length < body,
                    "the answer has no length");
        wanted =
            (size_t)(body - answer) + strtoul(length + strlen(field), NULL, 10);
        bench_check(wanted < sizeof(answer), "the answer is too long");
    }
    bench_check(strncmp(answer, "HTTP/1.1 200 ", 13) == 0, "no page");
    return body;
}

// The path of the page after so many events, which is walked to.
static void bench_walk(int fd, size_t skip, char *out_path)
{
    const size_t most = 1000;
    char token[BENCH_PATH_BYTES / 2] = "";

    for (size_t walked = 0; walked < skip; walked += most) {
        (void)snprintf(out_path, BENCH_PATH_BYTES,
                       "/v1/events?fields=id&page_size=%zu%s", most, token);
        json_t *page = json_loads(bench_get(fd, out_path), 0, NULL);
        const char *next =
            json_string_value(json_object_get(page, "next_page_token"));
        bench_check(next != NULL, "the list is too short");
        (void)snprintf(token, sizeof(token), "&page_token=%s", next);
        json_decref(page);
    }
    (void)snprintf(out_path, BENCH_PATH_BYTES, "/v1/events?page_size=%d%s",
                   BENCH_PAGE, token);
}

static void bench_http(int fd, const char *path, double *times)
{
    for (size_t turn = 0; turn < BENCH_TURNS; turn++) {
        double begin = bench_now_us();
        (void)bench_get(fd, path);
        times[turn] = bench_now_us() - begin;
    }
}

static void bench_bare(int fd, const char *path, double *times)
{
    json_t *page = json_loads(bench_get(fd, path), 0, NULL);

    bench_check(json_array_size(json_object_get(page, "events")) == BENCH_PAGE,
                "the page is not full");
    for (size_t turn = 0; turn < BENCH_TURNS; turn++) {
        double begin = bench_now_us();
        char *text = json_dumps(page, JSON_COMPACT);
        times[turn] = bench_now_us() - begin;
        bench_check(text != NULL, "no memory");
        free(text);
    }
    json_decref(page);
}

static void bench_place_of(struct rest *rest, int fd, const char *name,
                           size_t skip)
{
    static double times[BENCH_TURNS];
    char path[BENCH_PATH_BYTES];

    bench_walk(fd, skip, path);
    printf("%s\n", name);
    double begin = bench_cpu_us();
    bench_engine(rest_engine(rest), skip, times);
    bench_print("engine", times, bench_cpu_us() - begin);
    begin = bench_cpu_us();
    bench_http(fd, path, times);
    bench_print("http (aim 1000)", times, bench_cpu_us() - begin);
    begin = bench_cpu_us();
    bench_bare(fd, path, times);
    bench_print("bare", times, bench_cpu_us() - begin);
}

int main(void)
{
    const char *limit = getenv("POD_BENCH_MAX");
    size_t count = limit != NULL ? strtoul(limit, NULL, 10) : BENCH_DEFAULT;
    struct rest *rest = rest_start(
        &(struct rest_options){.history_count = count + BENCH_DEFAULT});

    for (size_t done = 0; done < count; done += BENCH_GRAPH)
        bench_submit(rest_engine(rest), BENCH_GRAPH);
    int fd = client_connect(api_server_port(rest_server(rest)));
    printf("a page of %d from %zu events\n  %-16s %8s %8s %8s\n", BENCH_PAGE,
           count, "", "us", "99% us", "cpu us");
    bench_place_of(rest, fd, "the newest", 0);
    bench_place_of(rest, fd, "the middle", count / 2);
    (void)close(fd);
    rest_stop(rest);
    return 0;
}
