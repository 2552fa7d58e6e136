// SPDX-License-Identifier: Apache-2.0
// The log of changes: what became different, in order, for those who watch.
//
// A change is a place in the log (its sequence, from 1, without holes) and the
// name of a thing. The log is a ring of fixed size: writing never waits and
// never allocates; a reader that is too late gets an error. It holds no
// contents: a reader looks at the thing itself, and for an operation the entry
// says which state and revision it had just reached.
//
// Entries of one thing are chained forwards, so that a reader which is behind
// can leave out what has been overtaken: see pod_change.next.
#ifndef POD_POD_CHANGES_H
#define POD_POD_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct pod;

enum pod_change_kind {
    POD_CHANGE_EVENT,
    POD_CHANGE_GRAPH,
    POD_CHANGE_BUFFER,
    POD_CHANGE_PROGRAM,
    POD_CHANGE_LOAD,
    POD_CHANGE_HOST,
    POD_CHANGE_KIND_COUNT
};

struct pod_change {
    uint64_t number;   // of the operation that it is or that made it; a host's
    uint64_t revision; // EVENT: what it came to; else 0
    // Sequence of the next change of the same thing, 0: none so far. A reader
    // at the sequence `horizon` may skip this one if next is not above that.
    uint64_t next;
    uint8_t kind;  // enum pod_change_kind
    uint8_t state; // EVENT: enum pod_sched_state that it came to
    bool removed;  // HOST: it was taken away, and this is its last change
};

// ------------------------------------------------------------------ the ring
// Not thread-safe: the pod's is guarded by the engine's lock.

struct pod_changes {
    struct pod_change *ring;
    size_t capacity;
    uint64_t last; // sequence of the newest, 0: none yet
    // Somebody wants to know when there is one above this; POD_CHANGES_UNARMED:
    // nobody does.
    uint64_t armed;
};

#define POD_CHANGES_UNARMED UINT64_MAX

// False: no memory. `capacity` is at least 1.
bool pod_changes_init(struct pod_changes *changes, size_t capacity);
void pod_changes_fini(struct pod_changes *changes);
// Appends. *in_out_chain is the sequence of the thing's last change (0: none)
// and becomes this one's.
void pod_changes_append(struct pod_changes *changes,
                        const struct pod_change *change,
                        uint64_t *in_out_chain);
// Whether somebody is to be notified of new changes; true once each time it was
// asked for.
bool pod_changes_disarm(struct pod_changes *changes)
    __attribute__((warn_unused_result));
// The oldest sequence that may be read after: what came later is all kept.
uint64_t pod_changes_oldest(const struct pod_changes *changes);
// Copies at most `capacity` changes that follow `after`. False: some of them
// are kept no longer. `after` is at most changes->last.
bool pod_changes_copy(const struct pod_changes *changes, uint64_t after,
                      size_t capacity, struct pod_change *out_items,
                      size_t *out_count) __attribute__((warn_unused_result));

// ------------------------------------------------------------- of a pod
// Thread-safe.

// The sequence of the newest change. `arm`: have options.notify called when a
// later one has come (once; other calls may come in between).
uint64_t pod_last_change(struct pod *pod, bool arm);

// What follows `after`, at most `capacity`. Errors: EXPIRED (it is too long
// ago), BAD_VALUE (there is no such sequence yet).
enum pod_code pod_read_changes(struct pod *pod, uint64_t after, size_t capacity,
                               struct pod_change *out_items, size_t *out_count,
                               struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
