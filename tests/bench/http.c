// SPDX-License-Identifier: Apache-2.0
// What podd makes of HTTP, beside the least that does the same on the same
// library (tests/bench/lib/bare.h says what that leaves out).
//
//   usage: http BUILD_DIR [WORK]     those whose names begin so
//
// Each work is done by both in turns, and each ratio is the median of the
// rounds' own, with the least and the greatest beside it. On a machine of few
// cores the client takes one of them and may be what limits the rate; so the
// time on the processor for each request is there too, and its ratio (bare over
// podd: as for rates, more is better).
//
//   event       GET of a finished operation's event
//   submit      a copy between two small buffers of one core, with ?wait: the
//               answer comes when it is done. It is held against two ceilings:
//               "at once" answers without doing anything, which is less than
//               the contract asks; "handed over" does the same work by bare
//               means: it suspends the connection, a thread makes the copy,
//               and the loop resumes it. Neither keeps operations
//   upload      PUT of a buffer's data, with ?wait: podd answers when it is in
//               the device's memory
//   download    GET of a buffer's data; each side reads as many bytes of memory
//               that was written
//   waits       GET of an unfinished event with ?wait, until all are parked;
//               then it is cancelled, and all are answered
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tests/bench/lib/bare.h"
#include "tests/bench/lib/load.h"
#include "tests/bench/lib/numbers.h"
#include "tests/lib/http_client.h"
#include "tests/lib/program.h"

enum {
    BENCH_ROUNDS = 7,
    BENCH_CLIENTS = 64,
    BENCH_CORES = 8,
    BENCH_WAITS = 10000,
    BENCH_FIRES = 5,
    BENCH_DATA_BYTES = 64 << 20,
    BENCH_HEAD_BYTES = 256,
    BENCH_POOL_BYTES = 24 * 1024, // as podd's
    BENCH_LOOK_NS = 10000000,
    BENCH_LOOKS = 6000,
};

#define BENCH_SECONDS 0.7

// podd and bare, in this order.
enum { BENCH_PODD, BENCH_BARE, BENCH_SIDES };

struct bench_side {
    pid_t pid;
    unsigned port;
};

struct bench_pair {
    struct test_program podd;
    struct bare bare;
    struct bench_side sides[BENCH_SIDES];
};

// ------------------------------------------------------------------- numbers

static void bench_print_ratio(struct bench_numbers *ratios)
{
    double median = bench_median(ratios);

    printf(" %5.2f [%4.2f %4.2f]", median, ratios->values[0],
           ratios->values[ratios->count - 1]);
}

// Time on the processor of another process.
static double bench_cpu_us(pid_t pid)
{
    clockid_t clock;
    struct timespec time = {0};

    if (clock_getcpuclockid(pid, &clock) != 0 ||
        clock_gettime(clock, &time) != 0) {
        fprintf(stderr, "a server has ended\n");
        exit(1);
    }
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

// Bytes of memory that are resident.
static double bench_resident(pid_t pid)
{
    char path[64];
    unsigned long pages = 0;

    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%*u %lu", &pages) != 1) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

// ------------------------------------------------------------------- servers

static void bench_start(struct bench_pair *pair, const char *spec,
                        const struct bare_options *options)
{
    const char *arguments[] = {"--dev",  "--listen", "127.0.0.1:0",
                               "--pod",  spec,       "--staging-bytes",
                               "256MiB", NULL};

    bare_start(&pair->bare, options);
    test_program_start(&pair->podd, "podd", arguments);
    pair->sides[BENCH_PODD] =
        (struct bench_side){pair->podd.pid, pair->podd.port};
    pair->sides[BENCH_BARE] =
        (struct bench_side){pair->bare.pid, pair->bare.port};
}

static void bench_stop(struct bench_pair *pair)
{
    test_program_kill(&pair->podd);
    bare_stop(&pair->bare);
}

// Asks podd for one thing that must succeed; returns the number of the
// operation that it made.
static unsigned long bench_ask(const struct bench_pair *pair,
                               const char *target, const char *json)
{
    char request[1024];

    snprintf(request, sizeof(request),
             "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
             "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
             target, strlen(json), json);
    struct client_answer answer = client_ask(pair->podd.port, request);
    const char *id = strstr(answer.body, "\"id\":\"op-");
    if (answer.status / 100 != 2 || id == NULL) {
        fprintf(stderr, "%s: %d %s\n", target, answer.status, answer.body);
        exit(1);
    }
    unsigned long number = strtoul(id + strlen("\"id\":\"op-"), NULL, 10);
    client_answer_free(&answer);
    return number;
}

static unsigned long bench_buffer(const struct bench_pair *pair, unsigned core,
                                  size_t bytes)
{
    char json[128];

    snprintf(json, sizeof(json), "{\"core\":%u,\"bytes\":\"%zu\"}", core,
             bytes);
    return bench_ask(pair, "/v1/buffers?wait=30s", json);
}

// ------------------------------------------------------------- steady works

// What one client repeats.
struct bench_request {
    struct load_request load;
    char head[BENCH_HEAD_BYTES];
    char json[64];
};

struct bench_work {
    const char *name;
    size_t clients;
    bool bulk;       // bytes count, not requests
    bool hands_over; // bare has it done by a thread
    void (*prepare)(const struct bench_pair *pair, size_t client,
                    struct bench_request *out);
};

static void bench_set_get(struct bench_request *out, const char *target)
{
    int length = snprintf(out->head, sizeof(out->head),
                          "GET %s HTTP/1.1\r\nHost: localhost\r\n"
                          "Accept: */*\r\n\r\n",
                          target);

    out->load =
        (struct load_request){.head = out->head, .head_bytes = (size_t)length};
}

static void bench_set_body(struct bench_request *out, const char *method,
                           const char *target, const char *type,
                           const void *body, size_t bytes)
{
    int length = snprintf(out->head, sizeof(out->head),
                          "%s %s HTTP/1.1\r\nHost: localhost\r\n"
                          "Accept: */*\r\nContent-Type: %s\r\n"
                          "Content-Length: %zu\r\n\r\n",
                          method, target, type, bytes);

    out->load = (struct load_request){.head = out->head,
                                      .head_bytes = (size_t)length,
                                      .body = body,
                                      .body_bytes = bytes};
}

static void bench_prepare_event(const struct bench_pair *pair, size_t client,
                                struct bench_request *out)
{
    static unsigned long number; // of a copy that is done

    if (client == 0) {
        unsigned long from = bench_buffer(pair, 0, 16);
        unsigned long to = bench_buffer(pair, 0, 16);
        char target[64];
        char json[64];
        snprintf(target, sizeof(target), "/v1/buffers/buf-%lu:copy?wait=30s",
                 from);
        snprintf(json, sizeof(json), "{\"to\":\"buf-%lu\"}", to);
        number = bench_ask(pair, target, json);
    }
    char target[64];
    snprintf(target, sizeof(target), "/v1/events/op-%lu", number);
    bench_set_get(out, target);
}

static void bench_prepare_submit(const struct bench_pair *pair, size_t client,
                                 struct bench_request *out)
{
    unsigned core = (unsigned)client % BENCH_CORES;
    unsigned long from = bench_buffer(pair, core, 16);
    unsigned long to = bench_buffer(pair, core, 16);
    char target[64];

    snprintf(target, sizeof(target), "/v1/buffers/buf-%lu:copy?wait=30s", from);
    snprintf(out->json, sizeof(out->json), "{\"to\":\"buf-%lu\"}", to);
    bench_set_body(out, "POST", target, "application/json", out->json,
                   strlen(out->json));
}

static void bench_prepare_upload(const struct bench_pair *pair, size_t client,
                                 struct bench_request *out)
{
    static char *data;
    unsigned long buffer =
        bench_buffer(pair, (unsigned)client, BENCH_DATA_BYTES);
    char target[64];

    if (data == NULL)
        data = malloc(BENCH_DATA_BYTES);
    if (data == NULL)
        abort();
    memset(data, 1, BENCH_DATA_BYTES);
    snprintf(target, sizeof(target), "/v1/buffers/buf-%lu/data?wait=30s",
             buffer);
    bench_set_body(out, "PUT", target, "application/octet-stream", data,
                   BENCH_DATA_BYTES);
}

static void bench_prepare_download(const struct bench_pair *pair, size_t client,
                                   struct bench_request *out)
{
    char json[128];
    char target[64];

    // Filled: memory that was never written is one page of zeros again and
    // again, which no cache would miss.
    snprintf(json, sizeof(json),
             "{\"core\":%u,\"shape\":\"u8[%d]\",\"fill\":1}", (unsigned)client,
             BENCH_DATA_BYTES);
    unsigned long buffer = bench_ask(pair, "/v1/buffers?wait=30s", json);
    snprintf(target, sizeof(target), "/v1/buffers/buf-%lu/data", buffer);
    bench_set_get(out, target);
}

static const struct bench_work bench_works[] = {
    {"event, 1 client", 1, .prepare = bench_prepare_event},
    {"event, 64 clients", BENCH_CLIENTS, .prepare = bench_prepare_event},
    {"submit : at once", BENCH_CLIENTS, .prepare = bench_prepare_submit},
    {"submit : handed over", BENCH_CLIENTS, .hands_over = true,
     .prepare = bench_prepare_submit},
    {"upload", 1, .bulk = true, .prepare = bench_prepare_upload},
    {"download", 1, .bulk = true, .prepare = bench_prepare_download},
};

// What the rounds of one work on one side measured.
struct bench_measured {
    struct bench_numbers rate; // requests or MB a second
    struct bench_numbers cpu;  // us for each request, or for each MB
    struct bench_numbers p50;
    struct bench_numbers p99;
};

static void bench_round(const struct bench_work *work,
                        const struct bench_side *side, struct load *load,
                        struct bench_measured *out)
{
    struct load_result result;
    double cpu = bench_cpu_us(side->pid);

    load_run(load, BENCH_SECONDS, &result);
    cpu = bench_cpu_us(side->pid) - cpu;
    double done =
        work->bulk ? (double)result.bytes / 1e6 : (double)result.requests;
    bench_add(&out->rate, done / result.seconds);
    bench_add(&out->cpu, cpu / done);
    bench_add(&out->p50, result.p50_us);
    bench_add(&out->p99, result.p99_us);
}

static void bench_print_work(const struct bench_work *work,
                             struct bench_measured *podd,
                             struct bench_measured *bare)
{
    struct bench_numbers rates = {.count = 0};
    struct bench_numbers cpus = {.count = 0};

    for (size_t i = 0; i < BENCH_ROUNDS; i++) {
        bench_add(&rates, podd->rate.values[i] / bare->rate.values[i]);
        bench_add(&cpus, bare->cpu.values[i] / podd->cpu.values[i]);
    }
    printf("%-20s %8.0f %8.0f", work->name, bench_median(&podd->rate),
           bench_median(&bare->rate));
    bench_print_ratio(&rates);
    printf(" %6.1f %6.1f", bench_median(&podd->cpu), bench_median(&bare->cpu));
    bench_print_ratio(&cpus);
    printf(" %7.0f %7.0f %7.0f %7.0f\n", bench_median(&podd->p50),
           bench_median(&bare->p50), bench_median(&podd->p99),
           bench_median(&bare->p99));
    (void)fflush(stdout);
}

static void bench_steady(const struct bench_work *work)
{
    struct bench_pair pair = {.podd = {.pid = 0}};
    struct bare_options options = {.data_bytes = BENCH_DATA_BYTES,
                                   .hands_over = work->hands_over};
    struct bench_measured measured[BENCH_SIDES] = {{.rate = {.count = 0}}};
    struct bench_measured warm = {.rate = {.count = 0}};
    struct load *loads[BENCH_SIDES];
    struct bench_request *requests = calloc(work->clients, sizeof(*requests));

    options.pool_bytes = work->bulk ? 0 : BENCH_POOL_BYTES;
    bench_start(&pair, "local:2x2x1,hosts=2,cores=2,device=reference",
                &options);
    for (size_t i = 0; i < work->clients; i++)
        work->prepare(&pair, i, &requests[i]);
    for (size_t side = 0; side < BENCH_SIDES; side++) {
        loads[side] = load_open(pair.sides[side].port, work->clients);
        for (size_t i = 0; i < work->clients; i++)
            load_set(loads[side], i, &requests[i].load);
        bench_round(work, &pair.sides[side], loads[side], &warm);
    }
    for (size_t round = 0; round < BENCH_ROUNDS; round++) {
        for (size_t side = 0; side < BENCH_SIDES; side++)
            bench_round(work, &pair.sides[side], loads[side], &measured[side]);
    }
    bench_print_work(work, &measured[BENCH_PODD], &measured[BENCH_BARE]);
    for (size_t side = 0; side < BENCH_SIDES; side++)
        load_close(loads[side]);
    bench_stop(&pair);
    free(requests);
}

// -------------------------------------------------------------- parked waits

// How many requests wait at a server, as it tells.
static unsigned long bench_parked_at(unsigned port)
{
    static const char name[] = "\npodd_http_parked_requests ";
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
                                  "Accept: */*\r\nConnection: close\r\n\r\n";
    struct client_answer answer = client_ask(port, request);
    const char *line = strstr(answer.body, name + 1);

    // At the start of a line: the name stands in comments too.
    if (line != answer.body)
        line = strstr(answer.body, name);
    if (answer.status != 200 || line == NULL) {
        fprintf(stderr, "/metrics: %d\n", answer.status);
        exit(1);
    }
    unsigned long count = strtoul(strchr(line + 1, ' '), NULL, 10);
    client_answer_free(&answer);
    return count;
}

static void bench_await_parked(unsigned port, unsigned long wanted)
{
    const struct timespec pause = {.tv_nsec = BENCH_LOOK_NS};

    for (int look = 0; bench_parked_at(port) < wanted; look++) {
        if (look == BENCH_LOOKS) {
            fprintf(stderr, "the requests were never parked\n");
            exit(1);
        }
        nanosleep(&pause, NULL);
    }
}

// Time on the processor, in us a second, while nothing happens.
static double bench_rest(pid_t pid)
{
    const struct timespec pause = {.tv_sec = 1};
    double before = bench_cpu_us(pid);

    nanosleep(&pause, NULL);
    return bench_cpu_us(pid) - before;
}

// An operation that stays open until it is cancelled: it waits for a copy that
// takes the device long.
static unsigned long bench_after(const struct bench_pair *pair,
                                 unsigned long copy)
{
    char json[128];

    snprintf(json, sizeof(json),
             "{\"core\":0,\"bytes\":\"16\",\"after\":[\"op-%lu\"]}", copy);
    return bench_ask(pair, "/v1/buffers", json);
}

struct bench_waits {
    struct bench_numbers wake_ms; // all
    struct bench_numbers cpu;     // us for each wait
    struct bench_numbers bytes;   // resident, for each wait
    struct bench_numbers rest;    // us a second, while all wait
};

// All connect, wait and are woken, once.
static void bench_fire(const struct bench_pair *pair, size_t side,
                       unsigned long copy, double resident,
                       struct bench_waits *out)
{
    const struct bench_side *server = &pair->sides[side];
    unsigned long open = bench_after(pair, copy);
    struct load *load = load_open(server->port, BENCH_WAITS);
    struct bench_request wait;
    struct bench_request cancel;
    struct load_result result;
    char target[64];

    snprintf(target, sizeof(target), "/v1/events/op-%lu?wait=55s", open);
    bench_set_get(&wait, target);
    for (size_t i = 0; i < BENCH_WAITS; i++)
        load_set(load, i, &wait.load);
    load_send(load);
    bench_await_parked(server->port, BENCH_WAITS);
    bench_add(&out->bytes,
              (bench_resident(server->pid) - resident) / BENCH_WAITS);
    bench_add(&out->rest, bench_rest(server->pid));
    snprintf(target, sizeof(target), "/v1/events/op-%lu:cancel", open);
    bench_set_body(&cancel, "POST", target, "application/json", "{}", 2);
    int fd = client_connect(server->port);
    double cpu = bench_cpu_us(server->pid);
    client_send(fd, cancel.load.head, cancel.load.head_bytes);
    client_send(fd, "{}", 2);
    load_await(load, &result);
    bench_add(&out->cpu, (bench_cpu_us(server->pid) - cpu) / BENCH_WAITS);
    bench_add(&out->wake_ms, result.seconds * 1e3);
    close(fd);
    load_close(load);
}

static void bench_print_waits(struct bench_waits *podd,
                              struct bench_waits *bare)
{
    struct bench_numbers ratios = {.count = 0};

    for (size_t i = 0; i < BENCH_FIRES; i++)
        bench_add(&ratios, bare->wake_ms.values[i] / podd->wake_ms.values[i]);
    printf("\n%d parked waits: podd, bare\n", BENCH_WAITS);
    printf("  to wake all, ms          %8.1f %8.1f",
           bench_median(&podd->wake_ms), bench_median(&bare->wake_ms));
    bench_print_ratio(&ratios);
    printf("\n  processor, us each       %8.1f %8.1f\n",
           bench_median(&podd->cpu), bench_median(&bare->cpu));
    printf("  resident bytes each      %8.0f %8.0f\n",
           bench_median(&podd->bytes), bench_median(&bare->bytes));
    printf("  at rest, us a second     %8.0f %8.0f\n",
           bench_median(&podd->rest), bench_median(&bare->rest));
}

static void bench_parked(void)
{
    struct bench_pair pair = {.podd = {.pid = 0}};
    struct bare_options options = {.pool_bytes = BENCH_POOL_BYTES};
    struct bench_waits waits[BENCH_SIDES] = {{.bytes = {.count = 0}}};
    double resident[BENCH_SIDES];

    bench_start(&pair,
                "local:1x1x1,hosts=1,cores=1,device=reference,latency=600s",
                &options);
    bench_buffer(&pair, 0, 16);
    bench_buffer(&pair, 0, 16);
    unsigned long copy =
        bench_ask(&pair, "/v1/buffers/buf-1:copy", "{\"to\":\"buf-2\"}");
    for (size_t side = 0; side < BENCH_SIDES; side++)
        resident[side] = bench_resident(pair.sides[side].pid);
    for (size_t fire = 0; fire < BENCH_FIRES; fire++) {
        for (size_t side = 0; side < BENCH_SIDES; side++)
            bench_fire(&pair, side, copy, resident[side], &waits[side]);
    }
    bench_print_waits(&waits[BENCH_PODD], &waits[BENCH_BARE]);
    bench_stop(&pair);
}

// Whether the name begins with what was asked for.
static bool bench_wanted(int argc, char **argv, const char *name)
{
    return argc < 3 || strncmp(name, argv[2], strlen(argv[2])) == 0;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: http BUILD_DIR [WORK]\n");
        return 2;
    }
    setenv("POD_BUILD", argv[1], 1);
    printf("%-20s %8s %8s %-17s %6s %6s %-17s %7s %7s %7s %7s\n"
           "%-20s %17s %17s %13s %18s %15s %15s\n",
           "", "podd", "bare", "   ratio", "podd", "bare", "   ratio", "podd",
           "bare", "podd", "bare", "", "requests|MB/s", "", "us each|MB", "",
           "p50 us", "p99 us");
    for (size_t i = 0; i < sizeof bench_works / sizeof bench_works[0]; i++) {
        if (bench_wanted(argc, argv, bench_works[i].name))
            bench_steady(&bench_works[i]);
    }
    if (bench_wanted(argc, argv, "waits"))
        bench_parked();
    return 0;
}
