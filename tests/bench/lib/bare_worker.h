// SPDX-License-Identifier: Apache-2.0
// A thread that does small jobs for the loop of the bare program: the plainest
// way to have work done elsewhere and be told. The loop hands over the jobs of
// a turn at once; the thread takes all that are there; what is done goes to a
// list that the loop takes whole, and an eventfd wakes the loop when that list
// was empty.
#ifndef POD_TESTS_BENCH_BARE_WORKER_H
#define POD_TESTS_BENCH_BARE_WORKER_H

enum { BARE_JOB_BYTES = 16 };

struct bare_job {
    struct bare_job *next;
    void *owner;
    char from[BARE_JOB_BYTES];
    char to[BARE_JOB_BYTES];
};

struct bare_worker;

// Starts the thread. A failure ends the program.
struct bare_worker *bare_worker_start(void);
// Readable when jobs are done.
int bare_worker_fd(const struct bare_worker *worker);
// Has a job done after the next flush: its bytes are copied. It is the caller's
// again when bare_worker_take has given it. These three are for one thread.
void bare_worker_give(struct bare_worker *worker, struct bare_job *job);
void bare_worker_flush(struct bare_worker *worker);
// All jobs that are done, by `next`; NULL: none.
struct bare_job *bare_worker_take(struct bare_worker *worker);

#endif
