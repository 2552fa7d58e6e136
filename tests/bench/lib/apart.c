// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/lib/apart.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

void bench_apart(void (*run)(const void *arg), const void *arg)
{
    int status = 0;

    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        run(arg);
        exit(0);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0) {
        fprintf(stderr, "a part of the benchmark failed\n");
        exit(1);
    }
}
