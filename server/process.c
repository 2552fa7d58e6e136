// SPDX-License-Identifier: Apache-2.0
// Not sigwait: OpenBLAS starts threads before main, with no signal blocked, and
// the kernel may give a signal to one of them. A handler that writes to a pipe
// works in whatever thread it runs.
#include "server/process.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"

enum {
    // First touch of fresh pages costs more than the copy: keep big blocks.
    PROCESS_MMAP_THRESHOLD = 1 << 30,
    PROCESS_TRIM_THRESHOLD = 1 << 30,
    // How often it is looked whether memory is to be given back all the same.
    PROCESS_TIDY_MS = 500,
};

// What comes through the pipe.
enum { PROCESS_END = 't', PROCESS_HANG_UP = 'h', PROCESS_QUIT = 'q' };

struct process_memory {
    struct pod_mem_watch watch;
    bool untidy; // tidy is to be called
};

static int process_pipe[2] = {-1, -1};

static struct {
    const char *component;
    int exit_code;
    bool watched;
    pthread_t thread;
} process_second;

void process_setup(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    mallopt(M_MMAP_THRESHOLD, PROCESS_MMAP_THRESHOLD);
    mallopt(M_TRIM_THRESHOLD, PROCESS_TRIM_THRESHOLD);
    // The heaps of threads have no room for blocks of 64 MiB: those would be
    // mapped anew each time, whatever the thresholds say.
    mallopt(M_ARENA_MAX, 1);
    (void)signal(SIGPIPE, SIG_IGN);
}

static void process_on_signal(int number)
{
    int saved = errno;
    const char byte = number == SIGHUP ? PROCESS_HANG_UP : PROCESS_END;
    if (write(process_pipe[1], &byte, 1) < 0)
        errno = saved; // full: as many signals as that are waiting already
    errno = saved;
}

enum pod_code process_catch_signals(struct pod_err *err)
{
    if (pipe2(process_pipe, O_CLOEXEC) != 0)
        return pod_err_set(err, POD_REASON_INTERNAL, "no pipe: %s",
                           strerror(errno));
    struct sigaction action = {.sa_handler = process_on_signal,
                               .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    return POD_OK;
}

// What comes out of the pipe next; 0: nothing in that time, or nothing yet. Not
// a bare read, which the kernel would begin anew after a handler: a sanitizer
// that puts handlers off until a call returns would never run them.
static char process_next(int timeout_ms)
{
    struct pollfd pipe_end = {.fd = process_pipe[0], .events = POLLIN};
    char byte = PROCESS_END;
    int ready = poll(&pipe_end, 1, timeout_ms);
    if (ready == 0)
        return 0;
    if (ready < 0 || read(process_pipe[0], &byte, 1) < 0)
        return errno == EINTR ? 0 : PROCESS_END;
    return byte;
}

// First what is free already, as it may be much; what is tidied up then is
// little, and may have to wait.
static void process_tidy(struct process_memory *memory,
                         const struct process_calls *calls)
{
    bool due = pod_mem_watch_due(&memory->watch, pod_mem_live());
    bool tidied = !due && memory->untidy && calls->tidy(calls->arg);
    if (due)
        memory->untidy = calls->tidy != NULL;
    if (tidied)
        memory->untidy = false;
    if (due || tidied)
        malloc_trim(0);
}

void process_await_end(const struct process_calls *calls)
{
    struct process_memory memory = {.untidy = false};
    char byte;
    while ((byte = process_next(PROCESS_TIDY_MS)) != PROCESS_END) {
        if (byte == PROCESS_HANG_UP && calls->hang_up != NULL)
            calls->hang_up(calls->arg);
        if (byte == 0)
            process_tidy(&memory, calls);
    }
}

static void *process_watch_second(void *arg)
{
    char byte = 0;
    (void)arg;
    while (byte != PROCESS_END && byte != PROCESS_QUIT)
        byte = process_next(-1);
    if (byte == PROCESS_QUIT)
        return NULL;
    pod_log(POD_LOG_WARN, process_second.component,
            "second signal: exit without waiting");
    _exit(process_second.exit_code);
}

void process_end_begins(const char *component, int exit_code)
{
    process_second.component = component;
    process_second.exit_code = exit_code;
    process_second.watched = pthread_create(&process_second.thread, NULL,
                                            process_watch_second, NULL) == 0;
}

void process_end_is_done(void)
{
    const char byte = PROCESS_QUIT;
    // Not cancelled: that would leave its stack poisoned for ASan.
    if (process_second.watched && write(process_pipe[1], &byte, 1) == 1)
        pthread_join(process_second.thread, NULL);
}
