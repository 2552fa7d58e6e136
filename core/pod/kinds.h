// SPDX-License-Identifier: Apache-2.0
// What operations there are, why one waits, and what ids name.
#ifndef POD_POD_KINDS_H
#define POD_POD_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#define POD_KINDS(X)                                                           \
    X(ALLOCATE)                                                                \
    X(ALLOCATE_TUPLE)                                                          \
    X(FREE)                                                                    \
    X(WRITE)                                                                   \
    X(READ)                                                                    \
    X(COPY)                                                                    \
    X(COMPILE)                                                                 \
    X(LOAD)                                                                    \
    X(UNLOAD)                                                                  \
    X(EXECUTE)                                                                 \
    X(GRAPH)                                                                   \
    X(RESET)

enum pod_kind {
#define X(name) POD_KIND_##name,
    POD_KINDS(X)
#undef X
        POD_KIND_COUNT
};

const char *pod_kind_name(enum pod_kind kind);

// Why an open operation does not run yet.
#define POD_PENDINGS(X)                                                        \
    X(NONE)                                                                    \
    X(DEPENDENCY)                                                              \
    X(HOST_QUEUE)                                                              \
    X(CORE_BUSY)                                                               \
    X(GANG)                                                                    \
    X(MEMORY)                                                                  \
    X(HOST_CORDONED)                                                           \
    X(STAGING)

enum pod_pending {
#define X(name) POD_PENDING_##name,
    POD_PENDINGS(X)
#undef X
};

const char *pod_pending_name(enum pod_pending pending);

// What an id names. GRAPH's number is its operation's.
enum pod_ref_kind {
    POD_REF_NONE,
    POD_REF_OP,
    POD_REF_BUFFER,
    POD_REF_PROGRAM,
    POD_REF_LOAD,
    POD_REF_GRAPH,
    // Inside one submission: what request number `number` (an index from 0)
    // makes; `output` then picks one of an EXECUTE's automatic outputs.
    POD_REF_REQUEST,
};

struct pod_ref {
    enum pod_ref_kind kind;
    uint64_t number;
    uint32_t output; // REQUEST of an EXECUTE used as a buffer: which output
    bool has_output; // false: the thing the request itself makes
};

struct pod_label {
    const char *key;
    const char *value;
};

#define POD_NO_ID UINT32_MAX // no host, no core, none in particular

#endif
