// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/program.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/patience.h"

enum { PROGRAM_MAX_ARGUMENTS = 60 };

static void program_exec(const char *name, const char *const *arguments,
                         int output)
{
    const char *folder = getenv("POD_BUILD");
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s", folder != NULL ? folder : "build",
             name);
    // execv wants char *const *, but changes nothing.
    char *argv[PROGRAM_MAX_ARGUMENTS + 2] = {path};
    for (int i = 0; i < PROGRAM_MAX_ARGUMENTS && arguments[i] != NULL; i++)
        argv[i + 1] = strdup(arguments[i]);
    prctl(PR_SET_PDEATHSIG, SIGKILL); // do not outlive a test that crashes
    dup2(output, STDOUT_FILENO);
    alarm(0);
    execv(path, argv);
    perror(path);
    _exit(127);
}

// Reads lines until the one that says where it listens.
static void program_read_address(struct test_program *program)
{
    static const char words[] = "listening on ";
    FILE *lines = fdopen(dup(program->output), "r");
    char *line = NULL;
    size_t capacity = 0;
    while (program->address[0] == '\0' &&
           getline(&line, &capacity, lines) > 0) {
        char *at = strstr(line, words);
        if (at == NULL)
            continue;
        at += sizeof(words) - 1;
        at[strcspn(at, "\r\n")] = '\0';
        snprintf(program->address, sizeof(program->address), "%s", at);
    }
    free(line);
    fclose(lines);
    const char *colon = strrchr(program->address, ':');
    if (colon != NULL && strncmp(program->address, "unix:", 5) != 0)
        program->port = (unsigned)strtoul(colon + 1, NULL, 10);
}

void test_program_start(struct test_program *program, const char *name,
                        const char *const *arguments)
{
    int pipes[2];
    memset(program, 0, sizeof(*program));
    if (pipe(pipes) != 0)
        fail_msg("no pipe");
    program->pid = fork();
    if (program->pid == 0) {
        close(pipes[0]);
        program_exec(name, arguments, pipes[1]);
    }
    close(pipes[1]);
    program->output = pipes[0];
    // A program that neither listens nor ends must not hang the test.
    signal(SIGALRM, SIG_DFL);
    alarm(PATIENCE_S);
    program_read_address(program);
    alarm(0);
    if (program->address[0] == '\0') {
        test_program_kill(program);
        fail_msg("%s did not say where it listens", name);
    }
}

int test_program_stop(struct test_program *program)
{
    int status = 0;
    kill(program->pid, SIGTERM);
    alarm(PATIENCE_S);
    waitpid(program->pid, &status, 0);
    alarm(0);
    program->pid = 0;
    close(program->output);
    if (!WIFEXITED(status))
        fail_msg("ended by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

void test_program_kill(struct test_program *program)
{
    if (program->pid == 0)
        return;
    kill(program->pid, SIGKILL);
    waitpid(program->pid, NULL, 0);
    program->pid = 0;
    close(program->output);
}
