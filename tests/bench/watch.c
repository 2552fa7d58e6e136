// SPDX-License-Identifier: Apache-2.0
// What it costs to tell many readers of changes: 2,000 changes of operations a
// second, to as many readers as WATCH_READERS says (1,000 if it is not set).
//
//   alone   nobody watches
//   crowd   readers of /v1/watch?topics=events, all of what changes to each
//   bare    the ceiling: as many connections, and a thread that sends each of
//           them the bytes of "crowd" in as many pieces, and does nothing else.
//           Nobody watches, but operations are submitted all the same: what
//           they cost more than alone is then the price of so many bytes on
//           this machine, and what they cost in "crowd" beyond that is ours
//
// Columns: microseconds that pod_submit takes (median, 99th of 100); how many
// of them a second the submitting thread's time on the processor allows: what
// the readers cost the engine, and not what they take from it by running too;
// seconds of processor time of the whole program (the readers and the
// operations are in it), MB that were read. The three are run one after the
// other, a few times.
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tests/bench/lib/numbers.h"
#include "tests/lib/http_client.h"
#include "tests/lib/rest_pod.h"

enum {
    BENCH_READERS = 1000,
    BENCH_ROUNDS = 3,
    BENCH_OPS = 1000,      // of a round
    BENCH_OPS_PER_S = 500, // four changes each
    BENCH_PIECES_PER_S = 50,
    BENCH_READ_BYTES = 256 * 1024,
};

// -------------------------------------------------------------------- readers

struct crowd {
    int epoll_fd;
    int *fds;
    size_t count;
    pthread_t thread;
    atomic_bool over;
    _Atomic uint64_t bytes;
};

static void *crowd_read(void *arg)
{
    struct crowd *crowd = arg;
    struct epoll_event events[64];
    char *bytes = malloc(BENCH_READ_BYTES);

    while (bytes != NULL && !atomic_load(&crowd->over)) {
        int count = epoll_wait(crowd->epoll_fd, events, 64, 20);
        for (int i = 0; i < count; i++) {
            ssize_t got =
                recv(events[i].data.fd, bytes, BENCH_READ_BYTES, MSG_DONTWAIT);
            if (got > 0)
                atomic_fetch_add(&crowd->bytes, (uint64_t)got);
        }
    }
    free(bytes);
    return NULL;
}

static void bench_die(const char *what)
{
    perror(what);
    exit(1);
}

static void crowd_start(struct crowd *crowd, size_t count)
{
    *crowd = (struct crowd){.epoll_fd = epoll_create1(EPOLL_CLOEXEC),
                            .fds = calloc(count, sizeof(int))};
    if (crowd->epoll_fd < 0 || crowd->fds == NULL ||
        pthread_create(&crowd->thread, NULL, crowd_read, crowd) != 0)
        bench_die("crowd");
}

static void crowd_add(struct crowd *crowd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    crowd->fds[crowd->count++] = fd;
    if (epoll_ctl(crowd->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        bench_die("epoll_ctl");
}

static void crowd_stop(struct crowd *crowd)
{
    atomic_store(&crowd->over, true);
    (void)pthread_join(crowd->thread, NULL);
    for (size_t i = 0; i < crowd->count; i++)
        (void)close(crowd->fds[i]);
    (void)close(crowd->epoll_fd);
    free(crowd->fds);
}

// Until nothing has come for a while.
static void crowd_settle(struct crowd *crowd)
{
    uint64_t before;

    do {
        before = atomic_load(&crowd->bytes);
        (void)usleep(300000);
    } while (atomic_load(&crowd->bytes) != before);
}

// ------------------------------------------------------------------- measuring

struct result {
    double median_us;
    double worst_us;
    double per_s;
    double cpu_s;
    double megabytes;
};

static double bench_cpu(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

// Of this thread.
static double bench_own_cpu(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void bench_pace(struct timespec *at, long per_s)
{
    at->tv_nsec += (long)(POD_NS_PER_S / per_s);
    at->tv_sec += at->tv_nsec / POD_NS_PER_S;
    at->tv_nsec %= POD_NS_PER_S;
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, at, NULL);
}

static double bench_submit(struct rest *rest, double *in_out_own_cpu)
{
    const struct pod_request request = {.kind = POD_KIND_ALLOCATE,
                                        .deadline_ns = POD_NEVER,
                                        .allocate = {.core = 0, .bytes = 8}};
    uint64_t number = 0;
    struct pod_err err;
    double cpu = bench_own_cpu();
    int64_t start = pod_clock_mono(&pod_clock_system);

    if (pod_submit(rest_engine(rest), &request, 1, &number, NULL, &err) !=
        POD_OK)
        bench_die(err.text);
    *in_out_own_cpu += bench_own_cpu() - cpu;
    return (double)(pod_clock_mono(&pod_clock_system) - start) / 1000;
}

static struct result bench_operations(struct rest *rest, struct crowd *crowd)
{
    static double times[BENCH_OPS];
    struct timespec at;
    double cpu = bench_cpu();
    double own_cpu = 0;
    uint64_t bytes = crowd != NULL ? atomic_load(&crowd->bytes) : 0;

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    for (size_t i = 0; i < BENCH_OPS; i++) {
        times[i] = bench_submit(rest, &own_cpu);
        bench_pace(&at, BENCH_OPS_PER_S);
    }
    if (crowd != NULL)
        crowd_settle(crowd);
    cpu = bench_cpu() - cpu;
    if (crowd != NULL)
        bytes = atomic_load(&crowd->bytes) - bytes;
    bench_sort(times, BENCH_OPS);
    return (struct result){.median_us = times[BENCH_OPS / 2],
                           .worst_us = times[BENCH_OPS * 99 / 100],
                           .per_s = BENCH_OPS / own_cpu,
                           .cpu_s = cpu,
                           .megabytes = (double)bytes / 1e6};
}

static struct result bench_crowd(struct rest *rest, size_t readers)
{
    struct crowd crowd;
    unsigned port = api_server_port(rest_server(rest));

    crowd_start(&crowd, readers);
    for (size_t i = 0; i < readers; i++) {
        int fd = client_connect(port);
        (void)client_puts(fd, "GET /v1/watch?topics=events HTTP/1.1\r\n"
                              "Host: localhost\r\n\r\n");
        crowd_add(&crowd, fd);
    }
    crowd_settle(&crowd);
    struct result result = bench_operations(rest, &crowd);
    crowd_stop(&crowd);
    return result;
}

// --------------------------------------------------------------------- ceiling

static int bench_listen(unsigned *out_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 ||
        listen(fd, 128) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        bench_die("listen");
    *out_port = ntohs(address.sin_port);
    return fd;
}

struct bare_sender {
    int *writers;
    size_t readers;
    char *piece;
    size_t size;
    size_t pieces;
};

static void *bare_send(void *arg)
{
    const struct bare_sender *sender = arg;
    struct timespec at;

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    for (size_t k = 0; k < sender->pieces; k++) {
        for (size_t i = 0; i < sender->readers; i++)
            (void)client_send(sender->writers[i], sender->piece, sender->size);
        bench_pace(&at, BENCH_PIECES_PER_S);
    }
    return NULL;
}

static struct result bench_bare(struct rest *rest, size_t readers,
                                double megabytes)
{
    const size_t pieces =
        (size_t)BENCH_OPS * BENCH_PIECES_PER_S / BENCH_OPS_PER_S;
    size_t size = (size_t)(megabytes * 1e6 / (double)readers / (double)pieces);
    struct bare_sender sender = {.writers = calloc(readers, sizeof(int)),
                                 .readers = readers,
                                 .piece = calloc(size + 1, 1),
                                 .size = size,
                                 .pieces = pieces};
    struct crowd crowd;
    unsigned port = 0;
    int listener = bench_listen(&port);
    pthread_t thread;

    if (sender.writers == NULL || sender.piece == NULL)
        bench_die("memory");
    crowd_start(&crowd, readers);
    for (size_t i = 0; i < readers; i++) {
        crowd_add(&crowd, client_connect(port));
        sender.writers[i] = accept(listener, NULL, NULL);
    }
    if (pthread_create(&thread, NULL, bare_send, &sender) != 0)
        bench_die("thread");
    struct result result = bench_operations(rest, NULL);
    (void)pthread_join(thread, NULL);
    crowd_settle(&crowd);
    result.megabytes = (double)atomic_load(&crowd.bytes) / 1e6;
    crowd_stop(&crowd);
    for (size_t i = 0; i < readers; i++)
        (void)close(sender.writers[i]);
    (void)close(listener);
    free(sender.writers);
    free(sender.piece);
    return result;
}

static void bench_print(const char *name, const struct result *result)
{
    printf("%-6s %10.1f %10.1f %10.0f %8.2f %10.1f\n", name, result->median_us,
           result->worst_us, result->per_s, result->cpu_s, result->megabytes);
    (void)fflush(stdout);
}

int main(void)
{
    const char *text = getenv("WATCH_READERS");
    size_t readers = text != NULL ? strtoul(text, NULL, 10) : BENCH_READERS;
    struct rest *rest =
        rest_start(&(struct rest_options){.history_count = 100000});

    if (readers == 0)
        readers = BENCH_READERS;
    printf("%zu readers\n%-6s %10s %10s %10s %8s %10s\n", readers, "",
           "median us", "99% us", "engine/s", "cpu s", "MB read");
    for (int round = 0; round < BENCH_ROUNDS; round++) {
        struct result alone = bench_operations(rest, NULL);
        struct result crowd = bench_crowd(rest, readers);
        struct result bare = bench_bare(rest, readers, crowd.megabytes);
        bench_print("alone", &alone);
        bench_print("crowd", &crowd);
        bench_print("bare", &bare);
    }
    rest_stop(rest);
    return 0;
}
