// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/lib/crowd.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/near_worker.h"
#include "tests/lib/reference_driver.h"

enum { CROWD_MEMORY_BYTES = 1 << 20 };

static void crowd_die(const char *what)
{
    fprintf(stderr, "crowd: %s\n", what);
    exit(1);
}

static struct near_worker *crowd_worker(void)
{
    return near_worker_start(reference_driver_new(1, CROWD_MEMORY_BYTES, NULL),
                             NULL, 1);
}

// Says where each of them listens, a line each, and lets them serve until the
// process is killed.
static void crowd_serve(size_t count, int output)
{
    FILE *lines = fdopen(output, "w");

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (lines == NULL)
        crowd_die("no pipe");
    for (size_t i = 0; i < count; i++)
        fprintf(lines, "%s\n", near_worker_address(crowd_worker()));
    (void)fflush(lines);
    for (;;)
        (void)pause();
}

void crowd_start(struct crowd *crowd, size_t count)
{
    int pipes[2];
    char line[64];

    *crowd = (struct crowd){.count = count,
                            .addresses = calloc(count, sizeof(char *))};
    if (crowd->addresses == NULL || pipe(pipes) != 0)
        crowd_die("no memory or no pipe");
    crowd->pid = fork();
    if (crowd->pid == 0)
        crowd_serve(count, pipes[1]);
    close(pipes[1]);
    FILE *lines = fdopen(pipes[0], "r");
    for (size_t i = 0; i < count; i++) {
        if (lines == NULL || fgets(line, sizeof(line), lines) == NULL)
            crowd_die("a worker did not start");
        crowd->addresses[i] = strndup(line, strcspn(line, "\n"));
    }
    (void)fclose(lines);
}

void crowd_stop(struct crowd *crowd)
{
    kill(crowd->pid, SIGKILL);
    waitpid(crowd->pid, NULL, 0);
    for (size_t i = 0; i < crowd->count; i++)
        free(crowd->addresses[i]);
    free(crowd->addresses);
}
