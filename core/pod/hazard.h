// SPDX-License-Identifier: Apache-2.0
// What a new operation must wait for (hazard.c), which of that its host sees to
// (ahead.c), and the order of memory of a core (memory.c). For core/pod alone.
#ifndef POD_POD_HAZARD_H
#define POD_POD_HAZARD_H

#include "core/pod/internal.h"

// ------------------------------------------------------------------- hazard.c

// What a new operation waits for, while it is found.
struct pod_hazard {
    struct pod *pod;
    struct pod_op *op;
    size_t first; // its edges are pod->edges.items[first...]
};

void pod_hazard_begin_locked(struct pod_hazard *hazard, struct pod *pod,
                             struct pod_op *op);
// An edge; met or unneeded ones are left out. All return false: no memory.
bool pod_hazard_after_locked(struct pod_hazard *hazard, struct pod_op *dep,
                             bool carries);
// All edges are found: says which the host keeps itself.
void pod_hazard_ahead_locked(struct pod_hazard *hazard);
// The making of a handle that is used.
bool pod_hazard_handle_locked(struct pod_hazard *hazard,
                              struct pod_handle *handle);
// The executions of a load, before it is unloaded.
bool pod_hazard_users_locked(struct pod_hazard *hazard,
                             struct pod_loaded *load);
bool pod_hazard_read_locked(struct pod_hazard *hazard,
                            struct pod_buffer *buffer);
bool pod_hazard_write_locked(struct pod_hazard *hazard,
                             struct pod_buffer *buffer, bool whole);
// An automatic output turns out to be a tuple: who reads it reads its leaves.
// False: no memory, and nothing has changed.
bool pod_hazard_spread_locked(struct pod_buffer *tuple,
                              struct pod_op *const *leaves, size_t count);
bool pod_hazard_free_locked(struct pod_hazard *hazard,
                            struct pod_buffer *buffer);
// Undoes what an operation's hazards changed in buffers (newest first).
void pod_hazard_undo_locked(struct pod_op *op);
// Makes it final: what was put aside is let go.
void pod_hazard_commit_locked(struct pod *pod, struct pod_op *op);
// Pins what a submitted operation points at, or lets it go.
void pod_hazard_hold_locked(struct pod *pod, struct pod_op *op, bool hold);
// A buffer is gone: its last writer need not be kept for it.
void pod_hazard_forget_locked(struct pod *pod, struct pod_buffer *buffer);
// The operation is settled: nobody waits for its uses any more.
void pod_hazard_settle_locked(struct pod_op *op);

// -------------------------------------------------------------------- ahead.c

// Whether `op`, which waits for `dep` (`carries`: for its success), may be sent
// to its host as soon as `dep` was.
bool pod_ahead_may(const struct pod *pod, const struct pod_op *op,
                   const struct pod_op *dep, bool carries);
// Whether a handle is there, or will be by the time a launched operation that
// uses it begins.
bool pod_ahead_there(const struct pod_handle *handle);
// Whether something that `op` was to be sent after did not reach the host
// itself, and ends badly as soon as this step is over.
bool pod_ahead_broken_locked(const struct pod *pod, const struct pod_op *op);

// ------------------------------------------------------------------- memory.c

// Whether an allocation fits what is not spoken for.
bool pod_memory_fits(const struct pod_core *core, uint64_t bytes);
// Orders an allocation that does not fit behind the frees of its core.
bool pod_memory_wait_locked(struct pod_hazard *hazard, struct pod_core *core);
void pod_memory_reserve_locked(struct pod *pod, struct pod_buffer *buffer);
// The host has a buffer, or has it no more: the core's use is counted.
void pod_memory_exists_locked(struct pod *pod, struct pod_buffer *buffer,
                              bool exists);
// A FREE was accepted on a core.
void pod_memory_freeing_locked(struct pod_core *core, struct pod_op *op);
// A buffer's bytes are not spoken for any more (freed, failed, lost).
void pod_memory_release_locked(struct pod *pod, struct pod_buffer *buffer);

#endif
