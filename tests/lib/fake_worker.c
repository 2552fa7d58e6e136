// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/fake_worker.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool fake_worker_spawn(struct fake_worker *worker, const char *mode,
                              const char *address, int output)
{
    // The packages of the system are those of its own python.
    char python[] = "/usr/bin/python3";
    char script[] = "tests/wire/fake_worker.py";
    char protos[] = "proto";
    char mode_copy[32];
    char address_copy[32];
    char *argv[] = {python, script, protos, mode_copy, address_copy, NULL};
    posix_spawn_file_actions_t actions;

    snprintf(mode_copy, sizeof(mode_copy), "%s", mode);
    snprintf(address_copy, sizeof(address_copy), "%s", address);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, output);
    int failed =
        posix_spawn(&worker->pid, python, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return failed == 0;
}

static bool fake_worker_listens(struct fake_worker *worker, int input)
{
    FILE *lines = fdopen(input, "r");
    char line[128];

    if (lines == NULL)
        return false;
    bool came = fgets(line, sizeof(line), lines) != NULL &&
                sscanf(line, "listening on %d", &worker->port) == 1;
    (void)fclose(lines);
    snprintf(worker->address, sizeof(worker->address), "127.0.0.1:%d",
             worker->port);
    return came && worker->port > 0;
}

bool fake_worker_start(struct fake_worker *worker, const char *mode, int port)
{
    char address[32];
    int ends[2];

    *worker = (struct fake_worker){.pid = -1};
    snprintf(address, sizeof(address), "127.0.0.1:%d", port);
    if (pipe2(ends, 0) != 0)
        return false;
    bool spawned = fake_worker_spawn(worker, mode, address, ends[1]);
    (void)close(ends[1]);
    bool listens = fake_worker_listens(worker, ends[0]);
    if (!spawned || !listens)
        printf("the fake worker did not start in mode %s\n", mode);
    return spawned && listens;
}

void fake_worker_signal(struct fake_worker *worker, int number)
{
    if (worker->pid <= 0)
        return;
    (void)kill(worker->pid, number);
    if (number != SIGKILL && number != SIGTERM)
        return;
    (void)waitpid(worker->pid, NULL, 0);
    worker->pid = -1;
}
