// SPDX-License-Identifier: Apache-2.0
// What is true of a host and of the pod, the way controllers ask for it: each
// condition is TRUE, FALSE or UNKNOWN, for one of a few reasons. Pure functions
// of the present state; they are the only place that says which follows from
// what.
#ifndef POD_POD_CONDITIONS_H
#define POD_POD_CONDITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pod_host_state {
    POD_HOST_CONNECTING,
    POD_HOST_READY,
    POD_HOST_CORDONED,
    POD_HOST_LOST,
};

// READY        it answers, and can be used
// SCHEDULABLE  new work is placed on it
// DRAINED      it is cordoned and has nothing to do: it may be taken away
// STALLED      something has its turn there and is silent (stall.h)
enum pod_condition_type {
    POD_CONDITION_READY,
    POD_CONDITION_SCHEDULABLE,
    POD_CONDITION_DRAINED,
    POD_CONDITION_STALLED,
    POD_CONDITION_COUNT,
};

enum pod_condition_status {
    POD_CONDITION_FALSE,
    POD_CONDITION_TRUE,
    POD_CONDITION_UNKNOWN,
};

// Stable names that users may rely on, and what they mean.
#define POD_CONDITION_REASONS(X)                                               \
    /* READY of a host */                                                      \
    X(HEARTBEATS, "it gives signs of life")                                    \
    X(CONNECTING, "it has not answered yet")                                   \
    X(UNREACHABLE, "it has never answered")                                    \
    X(HOST_LOST, "it went away")                                               \
    X(CONTRADICTORY, "what it says of itself cannot be, or has changed")       \
    /* SCHEDULABLE */                                                          \
    X(ACCEPTS_WORK, "new work is placed on it")                                \
    X(CORDONED, "it is cordoned")                                              \
    X(NOT_READY, "it is not ready")                                            \
    /* DRAINED */                                                              \
    X(IDLE, "it is cordoned and no operation is open on it")                   \
    X(OPERATIONS_OPEN, "it is cordoned and has operations to finish")          \
    X(NOT_CORDONED, "it is not cordoned")                                      \
    /* STALLED, also of the pod */                                             \
    X(OPERATION_STALLED, "an operation has its turn and is silent")            \
    X(NOTHING_STALLED, "all that has its turn gets on")                        \
    /* READY of the pod */                                                     \
    X(ALL_HOSTS_READY, "all hosts are ready")                                  \
    X(HOSTS_MISSING, "not all hosts are ready")                                \
    X(DRAINING, "the pod is draining")                                         \
    X(NO_HOSTS, "the pod has no hosts")

enum pod_condition_reason {
#define X(name, text) POD_CONDITION_REASON_##name,
    POD_CONDITION_REASONS(X)
#undef X
        POD_CONDITION_REASON_COUNT
};

struct pod_condition {
    enum pod_condition_status status;
    enum pod_condition_reason reason;
    int64_t since_wall_ns; // when the status became what it is; 0: not set yet
};

// "READY", "TRUE", "HEARTBEATS", and a sentence for people.
const char *pod_condition_type_name(enum pod_condition_type type);
const char *pod_condition_status_name(enum pod_condition_status status);
const char *pod_condition_reason_name(enum pod_condition_reason reason);
const char *pod_condition_reason_text(enum pod_condition_reason reason);

struct pod_host_facts {
    enum pod_host_state state;
    bool cordoned;
    bool known;     // it was ready once
    bool refused;   // LOST: because of what it says of itself
    uint64_t to_do; // operations that are open on it, calls it has not answered
    bool stalled;   // some of these calls are
};

// Sets status and reason of all conditions of a host; not the times.
void pod_host_judge(const struct pod_host_facts *facts,
                    struct pod_condition out[POD_CONDITION_COUNT]);

struct pod_facts {
    size_t hosts;
    size_t up; // of them: ready, cordoned or not
    bool draining;
};

// The same for the pod, which has two conditions: READY, and STALLED.
void pod_judge(const struct pod_facts *facts, struct pod_condition *out);
void pod_judge_stalled(bool stalled, struct pod_condition *out);

// Takes a new judgement over. The time moves only when the status does. True:
// status or reason changed.
bool pod_condition_take(struct pod_condition *condition,
                        const struct pod_condition *judged, int64_t wall_ns);

#endif
