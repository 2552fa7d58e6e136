// SPDX-License-Identifier: Apache-2.0
// A load generator for HTTP/1.1: one thread, one epoll set, connections that
// are kept. Each connection sends its request, reads the answer and, while
// there is time, sends the request again. It reads only what it needs of an
// answer: the status, Content-Length, and how many bytes came.
//
// For benchmarks: whatever goes wrong ends the program with a message.
#ifndef POD_TESTS_BENCH_LOAD_H
#define POD_TESTS_BENCH_LOAD_H

#include <stddef.h>
#include <stdint.h>

// A request as it goes over the wire. The bytes are borrowed for as long as
// the load uses them.
struct load_request {
    const char *head;
    size_t head_bytes;
    const void *body; // NULL: none
    size_t body_bytes;
};

struct load_result {
    uint64_t requests;
    uint64_t bytes; // of bodies, in both directions
    double seconds; // from the first request to the last answer
    double p50_us;  // from sending a request to the end of its answer
    double p99_us;
};

struct load;

// Connects to 127.0.0.1:port. The connections spread over 127.0.0.1 to
// 127.0.0.8 as sources, because one address has too few ports for many.
struct load *load_open(unsigned port, size_t connections);
void load_close(struct load *load);

// What connection `index` sends from now on.
void load_set(struct load *load, size_t index,
              const struct load_request *request);
// Every connection repeats its request for so long. An answer that is not 2xx
// is an error.
void load_run(struct load *load, double seconds, struct load_result *out);

// Every connection sends its request once; answers are not awaited.
void load_send(struct load *load);
// Waits until each of them has been answered, with a 2xx.
void load_await(struct load *load, struct load_result *out);

#endif
