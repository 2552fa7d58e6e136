// SPDX-License-Identifier: Apache-2.0
// A fake of a host, for tests of the pod engine: it has no device. It keeps the
// calls it gets until the test answers them, by hand and in any order, from the
// test's own thread. What it is given it does not check.
#ifndef POD_TESTS_FAKE_DRIVER_H
#define POD_TESTS_FAKE_DRIVER_H

#include "core/driver/driver.h"

enum fake_kind {
    FAKE_ALLOCATE,
    FAKE_TUPLE,
    FAKE_DEALLOCATE,
    FAKE_WRITE,
    FAKE_READ,
    FAKE_COPY,
    FAKE_COMPILE,
    FAKE_FREE_PROGRAM,
    FAKE_LOAD,
    FAKE_UNLOAD,
    FAKE_EXECUTE,
    FAKE_RESET,
    FAKE_PEER_COPY,
    FAKE_KINDS,
};

enum { FAKE_MAX_WAITS = 64, FAKE_MAX_TOGETHER = 256 };

struct fake_call {
    enum fake_kind kind;
    uint64_t op;
    uint64_t handle; // buffer, program or load it works on
    uint64_t from;   // COPY
    uint32_t core;
    uint64_t offset;
    size_t count;
    uint64_t bytes;
    unsigned char first; // WRITE: the first byte
    size_t output_count; // EXECUTE: of its first launch
    uint32_t peer;       // PEER_COPY: the host that has `from`
    uint64_t waits[FAKE_MAX_WAITS];
    size_t wait_count;
    uint64_t orders[FAKE_MAX_WAITS];
    size_t order_count;
    bool more;      // was told that another call follows
    bool cancelled; // was asked to end
};

// A host of `cores` cores on one chip at (x,0,0), each with `memory` bytes.
struct pod_driver *fake_driver_new(uint32_t cores, uint64_t memory, int32_t x);
// What it says it can do, beside POD_DRIVER_CANCEL and FREE_PROGRAM; before it
// is ready.
void fake_set_features(struct pod_driver *driver, unsigned features);
// The host becomes ready, or is lost; then open calls are answered lost.
void fake_ready(struct pod_driver *driver);
void fake_lose(struct pod_driver *driver, const char *why);
// How often it was told to open a new connection; it does not do so by itself.
size_t fake_reconnects(struct pod_driver *driver);
// A sign of life.
void fake_beat(struct pod_driver *driver);

// How many calls are open, and the oldest but `index` one.
size_t fake_open(struct pod_driver *driver);
// Waits until so many are open, and no more: many calls that come at once may
// be made by a thread of the pod.
void fake_await_open(struct pod_driver *driver, size_t count);
bool fake_peek(struct pod_driver *driver, size_t index,
               struct fake_call *out_call);
// The open call of a kind (the oldest), or false.
bool fake_find(struct pod_driver *driver, enum fake_kind kind,
               struct fake_call *out_call);
// How many calls of a kind it got in all.
size_t fake_count(struct pod_driver *driver, enum fake_kind kind);

// Begins the open call with that number, answers it: well, or with a reason.
void fake_start(struct pod_driver *driver, uint64_t op);
void fake_done(struct pod_driver *driver, uint64_t op);
// Both in one.
void fake_start_done(struct pod_driver *driver, uint64_t op);
// The same for up to FAKE_MAX_TOGETHER calls, neither reads nor compilations,
// that the observer is told of together.
void fake_done_together(struct pod_driver *driver, const uint64_t *ops,
                        size_t count);
void fake_start_done_together(struct pod_driver *driver, const uint64_t *ops,
                              size_t count);
void fake_fail(struct pod_driver *driver, uint64_t op, enum pod_reason reason,
               const char *text);
// Answers all open calls well, and what comes of that, until none is open.
void fake_run(struct pod_driver *driver);
// The same: what can be told together is.
void fake_run_together(struct pod_driver *driver);
// When it is closed what is open is answered well, and not as cancelled.
void fake_set_ends_well(struct pod_driver *driver);

// Reads are answered with so many bytes more than was asked for, or less.
void fake_set_surplus(struct pod_driver *driver, int bytes);

// The shape that compiles answer with, as text; none: "(f32[2]) -> f32[2]".
void fake_set_shape(struct pod_driver *driver, const char *parameter,
                    const char *result);

#endif
