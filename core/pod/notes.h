// SPDX-License-Identifier: Apache-2.0
// Lines for the program's log: noted under the lock, written after it. For
// core/pod alone.
#ifndef POD_POD_NOTES_H
#define POD_POD_NOTES_H

#include "core/base/log.h"
#include "core/pod/host.h"
#include "core/pod/op.h"

// Something about an operation, for the log.
struct pod_note {
    enum pod_log_event event;
    enum pod_log_level level;
    uint64_t number;
    enum pod_kind kind;
    enum pod_sched_state state;
    uint32_t host;
    uint32_t core;
    uint64_t graph;
    uint64_t root;
    int64_t took_ns;
    const char *detail;          // fixed text, or NULL
    struct pod_failure *failure; // with a reference, or NULL
    struct pod_trace *trace;     // the same
};

struct pod_notes {
    struct pod_note *items; // a ring
    size_t first;
    size_t count;
    uint64_t dropped; // for want of room
};

// The id of an operation's span, never 0.
uint64_t pod_span(const struct pod *pod, uint64_t number);
bool pod_notes_init(struct pod *pod); // false: no memory
void pod_notes_fini(struct pod *pod);
// The operation has ended: notes it for the log, unless its level is not
// logged.
void pod_note_ended_locked(struct pod *pod, const struct pod_op *op);
// It is stalled on a host, without progress since then; and it is no longer.
// `detail` is a constant.
void pod_note_stalled_locked(struct pod *pod, const struct pod_op *op,
                             uint32_t host, int64_t since_ns,
                             const char *detail);
void pod_note_stall_over_locked(struct pod *pod, const struct pod_op *op,
                                uint32_t host, int64_t since_ns);
// Writes the notes to the log. Without the lock.
void pod_notes_write(struct pod *pod);
// A host's state has changed. Without the lock; the address is fixed.
void pod_note_host(enum pod_log_level level, const struct pod_host *host,
                   enum pod_host_state state, const char *detail);

#endif
