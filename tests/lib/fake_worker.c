// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/fake_worker.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static bool fake_worker_spawn(struct fake_worker *worker,
                              const char *const *argv, int output)
{
    posix_spawn_file_actions_t actions;
    // posix_spawn takes them without const, and leaves them alone.
    union {
        const char *const *from;
        char *const *to;
    } arguments = {.from = argv};

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    int failed = posix_spawn(&worker->pid, argv[0], &actions, NULL,
                             arguments.to, environ);
    posix_spawn_file_actions_destroy(&actions);
    return failed == 0;
}

// No other test listens at the address of this one, so a port is still free
// there when a worker comes back. Certificates are for another.
static void fake_worker_ip(const struct fake_worker_tls *tls, char *out_ip,
                           size_t size)
{
    unsigned number = (unsigned)getpid() + (1U << 16);

    if (tls->cert != NULL)
        snprintf(out_ip, size, "127.0.0.1");
    else
        snprintf(out_ip, size, "127.%u.%u.%u", number >> 16 & 255,
                 number >> 8 & 255, number & 255);
}

static bool fake_worker_listens(struct fake_worker *worker, const char *ip,
                                int input)
{
    FILE *lines = fdopen(input, "r");
    char line[128];

    if (lines == NULL)
        return false;
    bool came = fgets(line, sizeof(line), lines) != NULL &&
                sscanf(line, "listening on %d", &worker->port) == 1;
    (void)fclose(lines);
    snprintf(worker->address, sizeof(worker->address), "%s:%d", ip,
             worker->port);
    return came && worker->port > 0;
}

bool fake_worker_start_tls(struct fake_worker *worker, const char *mode,
                           int port, const struct fake_worker_tls *tls)
{
    char ip[16];
    char address[32];
    int ends[2];
    // The packages of the system are those of its own python.
    const char *const argv[] = {"/usr/bin/python3",
                                "tests/wire/fake_worker.py",
                                "proto",
                                mode,
                                address,
                                tls->cert,
                                tls->key,
                                tls->client_ca,
                                NULL};

    *worker = (struct fake_worker){.pid = -1};
    fake_worker_ip(tls, ip, sizeof(ip));
    snprintf(address, sizeof(address), "%s:%d", ip, port);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    bool spawned = fake_worker_spawn(worker, argv, ends[1]);
    (void)close(ends[1]);
    bool listens = fake_worker_listens(worker, ip, ends[0]);
    if (!spawned || !listens)
        printf("the fake worker did not start in mode %s\n", mode);
    return spawned && listens;
}

bool fake_worker_start(struct fake_worker *worker, const char *mode, int port)
{
    const struct fake_worker_tls none = {.cert = NULL};

    return fake_worker_start_tls(worker, mode, port, &none);
}

void fake_worker_signal(struct fake_worker *worker, int number)
{
    if (worker->pid <= 0)
        return;
    (void)kill(worker->pid, number);
    // A stop begins when one of its threads gets to run; until then the others
    // go on.
    if (number == SIGSTOP)
        (void)waitpid(worker->pid, NULL, WUNTRACED);
    if (number != SIGKILL && number != SIGTERM)
        return;
    (void)waitpid(worker->pid, NULL, 0);
    worker->pid = -1;
}
