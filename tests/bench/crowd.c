// SPDX-License-Identifier: Apache-2.0
// What a pod of many workers costs: behind gRPC as in tests/bench/worker.c, and
// the workers in one process (tests/bench/lib/crowd.h). Nothing bare beside it.
//
//   usage: crowd BUILD_DIR
//
//   idle        the processor time of a pod of ten workers with nothing to do
//   64, 1024    so many workers: how long all take to connect and to do one
//               operation each, and what a host costs the pod and the workers
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/log.h"
#include "server/process.h"
#include "tests/bench/lib/apart.h"
#include "tests/bench/lib/crowd.h"
#include "tests/bench/lib/far_pod.h"

enum {
    CROWD_SMALL_BYTES = 16,
    CROWD_IDLE_WORKERS = 10,
    CROWD_IDLE_S = 3,
};

static double crowd_now(void)
{
    return (double)pod_clock_mono(&pod_clock_system) / 1e9;
}

// What a process takes.
struct crowd_taken {
    double threads;
    double resident_kb;
};

static struct crowd_taken crowd_taken(pid_t pid)
{
    struct crowd_taken taken = {.threads = 0};
    char path[64];
    char line[256];

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "Threads:", 8) == 0)
            taken.threads = strtod(line + 8, NULL);
        else if (strncmp(line, "VmRSS:", 6) == 0)
            taken.resident_kb = strtod(line + 6, NULL);
    }
    if (taken.threads < 1) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    (void)fclose(file);
    return taken;
}

// One operation on each host, begun together; seconds.
static double crowd_on_each(struct far_pod *far, size_t hosts)
{
    struct pod_request request = far_request(POD_KIND_ALLOCATE);
    double begin = crowd_now();
    uint64_t first = 0;

    request.allocate.bytes = CROWD_SMALL_BYTES;
    for (size_t i = 0; i < hosts; i++) {
        request.allocate.core = (uint32_t)i;
        uint64_t number = far_submit(far, &request);
        first = i == 0 ? number : first;
    }
    for (size_t i = 0; i < hosts; i++)
        far_await(far, first + i);
    return crowd_now() - begin;
}

static void crowd_many(const void *arg)
{
    const size_t count = *(const size_t *)arg;
    struct crowd crowd;
    struct far_pod far;

    crowd_start(&crowd, count);
    struct crowd_taken before = crowd_taken(getpid());
    double begin = crowd_now();
    far_pod_open(&far, (const char *const *)crowd.addresses, count);
    double opened = crowd_now() - begin;
    double each = crowd_on_each(&far, count);
    double again = crowd_on_each(&far, count);
    struct crowd_taken pod = crowd_taken(getpid());
    struct crowd_taken workers = crowd_taken(crowd.pid);
    double hosts = (double)count;
    printf("%zu workers: open in %.2f s, an operation on each in %.3f s, "
           "again in %.3f s\n",
           count, opened, each, again);
    printf("  the pod      %6.0f threads, %7.2f for each; %8.0f KiB, %7.1f for "
           "each\n",
           pod.threads, (pod.threads - before.threads) / hosts, pod.resident_kb,
           (pod.resident_kb - before.resident_kb) / hosts);
    printf("  the workers  %6.0f threads, %7.2f for each; %8.0f KiB, %7.1f for "
           "each\n",
           workers.threads, workers.threads / hosts, workers.resident_kb,
           workers.resident_kb / hosts);
    far_pod_close(&far);
    crowd_stop(&crowd);
}

// Seconds of processor time that a process has had.
static double crowd_used(pid_t pid)
{
    clockid_t clock;
    struct timespec used;

    if (clock_getcpuclockid(pid, &clock) != 0 ||
        clock_gettime(clock, &used) != 0) {
        fprintf(stderr, "%d: its time cannot be read\n", (int)pid);
        exit(1);
    }
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

static void crowd_idle(const void *arg)
{
    struct crowd crowd;
    struct far_pod far;

    (void)arg;
    crowd_start(&crowd, CROWD_IDLE_WORKERS);
    far_pod_open(&far, (const char *const *)crowd.addresses,
                 CROWD_IDLE_WORKERS);
    double pod = crowd_used(getpid());
    double workers = crowd_used(crowd.pid);
    double begin = crowd_now();
    (void)sleep(CROWD_IDLE_S);
    double seconds = crowd_now() - begin;
    printf("%d workers, idle: the pod takes %.4f of a core, the workers %.4f\n",
           CROWD_IDLE_WORKERS, (crowd_used(getpid()) - pod) / seconds,
           (crowd_used(crowd.pid) - workers) / seconds);
    far_pod_close(&far);
    crowd_stop(&crowd);
}

int main(int argc, char **argv)
{
    static const size_t counts[] = {64, 1024};

    if (argc != 2) {
        fprintf(stderr, "usage: %s BUILD_DIR\n", argv[0]);
        return 2;
    }
    process_setup();
    pod_log_setup(POD_LOG_ERROR, POD_LOG_TEXT);
    bench_apart(crowd_idle, NULL);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        bench_apart(crowd_many, &counts[i]);
    return 0;
}
