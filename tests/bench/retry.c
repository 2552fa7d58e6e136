// SPDX-License-Identifier: Apache-2.0
// What an Idempotency-Key costs: requests one after the other on a connection
// that is kept, each a copy between two small buffers (202, not waited for).
//
//   usage: retry BUILD_DIR
//
//   plain    without a key
//   first    each with a key of its own
//   replay   the same keys and bodies again: no operation is made
//   bare     the least that answers a POST on the same library
//            (tests/bench/lib/bare.h)
//   map      no request: a map of as many entries is asked for each key by its
//            hash, which is the least that finds an answer
//
// Microseconds of the server's processor for each request, of the clock, and
// requests a second by the former; the median of the rounds.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/map.h"
#include "tests/bench/lib/bare.h"
#include "tests/bench/lib/numbers.h"
#include "tests/lib/http_client.h"
#include "tests/lib/program.h"

enum {
    BENCH_ROUNDS = 5,
    BENCH_REQUESTS = 2000,
    BENCH_REQUEST_BYTES = 512,
    BENCH_POOL_BYTES = 24 * 1024, // as podd's
};

enum { BENCH_PLAIN, BENCH_FIRST, BENCH_REPLAY, BENCH_BARE, BENCH_WORKS };

static const char *const bench_names[BENCH_WORKS] = {"plain", "first", "replay",
                                                     "bare"};

static void bench_check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static double bench_cpu_us(pid_t pid)
{
    struct timespec time = {0};
    clockid_t clock;

    bench_check(clock_getcpuclockid(pid, &clock) == 0 &&
                    clock_gettime(clock, &time) == 0,
                "a server has ended");
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static double bench_now_us(void)
{
    return (double)pod_clock_mono(&pod_clock_system) / 1e3;
}

// ------------------------------------------------------------------- requests

struct bench_server {
    pid_t pid;
    int fd;
    char target[64];
    char body[64];
};

// Posts; gives the number of the operation.
static unsigned long bench_post(int fd, const char *target, const char *headers,
                                const char *body)
{
    char request[BENCH_REQUEST_BYTES];

    (void)snprintf(request, sizeof(request),
                   "POST %s HTTP/1.1\r\nHost: localhost\r\n"
                   "Content-Type: application/json\r\n%s"
                   "Content-Length: %zu\r\n\r\n%s",
                   target, headers, strlen(body), body);
    (void)client_puts(fd, request);
    struct client_answer answer = client_read(fd, false);
    const char *id = strstr(answer.body, "\"id\":\"op-");
    bench_check(answer.status / 100 == 2 && id != NULL, "a POST is refused");
    unsigned long number = strtoul(id + strlen("\"id\":\"op-"), NULL, 10);
    client_answer_free(&answer);
    return number;
}

static void bench_key(char out_header[64], size_t round, size_t i)
{
    (void)snprintf(out_header, 64, "Idempotency-Key: round-%zu-%08zu\r\n",
                   round, i);
}

struct bench_times {
    double cpu_us;
    double wall_us;
};

// `numbers`: of the operations; a replay must give the same.
static struct bench_times bench_run(const struct bench_server *server,
                                    size_t work, size_t round,
                                    unsigned long *numbers)
{
    char header[64] = "";
    double cpu = bench_cpu_us(server->pid);
    double begin = bench_now_us();

    for (size_t i = 0; i < BENCH_REQUESTS; i++) {
        if (work == BENCH_FIRST || work == BENCH_REPLAY)
            bench_key(header, round, i);
        unsigned long number =
            bench_post(server->fd, server->target, header, server->body);
        bench_check(work != BENCH_REPLAY || number == numbers[i],
                    "a replay made an operation");
        numbers[i] = number;
    }
    return (struct bench_times){
        .cpu_us = (bench_cpu_us(server->pid) - cpu) / BENCH_REQUESTS,
        .wall_us = (bench_now_us() - begin) / BENCH_REQUESTS};
}

// ------------------------------------------------------------------------ map

static uint64_t bench_hash(const char *text)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);

    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001B3);
    return hash | 1;
}

static double bench_map_us(void)
{
    static int here;
    struct pod_map map = {.slots = NULL};
    char header[64];
    double spent = 0;

    for (size_t turn = 0; turn < 2; turn++) {
        double begin = bench_now_us();
        for (size_t i = 0; i < BENCH_REQUESTS; i++) {
            bench_key(header, 0, i);
            uint64_t hash = bench_hash(header);
            bench_check(turn == 0 ? pod_map_put(&map, hash, &here)
                                  : pod_map_get(&map, hash) == &here,
                        "the map fails");
        }
        spent = bench_now_us() - begin;
    }
    pod_map_fini(&map);
    return spent / BENCH_REQUESTS;
}

// ---------------------------------------------------------------------- rounds

static void bench_prepare(struct bench_server *podd)
{
    static const char buffer[] = "{\"core\":0,\"bytes\":\"16\"}";
    unsigned long from =
        bench_post(podd->fd, "/v1/buffers?wait=30s", "", buffer);
    unsigned long to = bench_post(podd->fd, "/v1/buffers?wait=30s", "", buffer);

    (void)snprintf(podd->target, sizeof(podd->target),
                   "/v1/buffers/buf-%lu:copy", from);
    (void)snprintf(podd->body, sizeof(podd->body), "{\"to\":\"buf-%lu\"}", to);
}

static void bench_rounds(const struct bench_server *podd,
                         const struct bench_server *bare)
{
    static unsigned long numbers[BENCH_REQUESTS];
    double cpu[BENCH_WORKS][BENCH_ROUNDS];
    double wall[BENCH_WORKS][BENCH_ROUNDS];

    for (size_t round = 0; round < BENCH_ROUNDS; round++) {
        for (size_t work = 0; work < BENCH_WORKS; work++) {
            struct bench_times times = bench_run(
                work == BENCH_BARE ? bare : podd, work, round, numbers);
            cpu[work][round] = times.cpu_us;
            wall[work][round] = times.wall_us;
        }
    }
    printf("%-8s %8s %8s %8s\n", "", "cpu us", "us", "a second");
    for (size_t work = 0; work < BENCH_WORKS; work++) {
        double median = bench_median_of(cpu[work], BENCH_ROUNDS);
        printf("%-8s %8.1f %8.1f %8.0f\n", bench_names[work], median,
               bench_median_of(wall[work], BENCH_ROUNDS), 1e6 / median);
    }
    printf("%-8s %8.3f\n", "map", bench_map_us());
}

int main(int argc, char **argv)
{
    const char *arguments[] = {"--dev", "--listen", "127.0.0.1:0", NULL};
    const struct bare_options options = {.pool_bytes = BENCH_POOL_BYTES};
    struct test_program program;
    struct bare ceiling;

    bench_check(argc == 2, "usage: retry BUILD_DIR");
    (void)setenv("POD_BUILD", argv[1], 1);
    bare_start(&ceiling, &options);
    test_program_start(&program, "podd", arguments);
    struct bench_server podd = {.pid = program.pid,
                                .fd = client_connect(program.port)};
    struct bench_server bare = {.pid = ceiling.pid,
                                .fd = client_connect(ceiling.port)};
    bench_prepare(&podd);
    (void)snprintf(bare.target, sizeof(bare.target), "%s", podd.target);
    (void)snprintf(bare.body, sizeof(bare.body), "%s", podd.body);
    bench_rounds(&podd, &bare);
    (void)close(podd.fd);
    (void)close(bare.fd);
    test_program_kill(&program);
    bare_stop(&ceiling);
    return 0;
}
