// SPDX-License-Identifier: Apache-2.0
// What the scheduler must do, by definition: a model that keeps all operations
// ever submitted with their dependencies, and finds out from all of them what
// holds after an event. It knows no counters, lists or queues.
#ifndef POD_TESTS_SCHED_MODEL_H
#define POD_TESTS_SCHED_MODEL_H

#include <stddef.h>

#include "core/sched/sched.h"

enum {
    SCHED_MODEL_OPS = 48,
    SCHED_MODEL_DEPS = 5,
    SCHED_MODEL_LANES = 4,
};

struct sched_model_dep {
    int to; // index of an operation
    bool carries;
    bool ahead;
};

struct sched_model_op {
    struct sched_model_dep deps[SCHED_MODEL_DEPS];
    int dep_count;
    uint32_t lanes[SCHED_MODEL_LANES];
    int lane_count;
    int priority;
    int64_t deadline;
    bool run_on_failure;
    bool certain;
    const struct sched_model_op *doom; // what the event said had doomed it

    enum pod_sched_state state;
    bool launched; // by whoever checks the effects
    bool answered; // the worker is done with it
    bool settled;
    bool interrupted;
    bool released;

    // Of the last event.
    enum pod_sched_state before;
    unsigned expected; // bits of its effect, but for LAUNCH
    bool spread;       // ended because of a dependency
    bool late;         // ended by its deadline

    // For whoever makes the events and checks the effects.
    struct pod_sched_node *node;
    bool depended; // some operation was submitted that depends on it
    int position;  // of its effect; -1: none yet
    unsigned said; // bits of its effects, but for LAUNCH
    bool told;     // its DONE is told together with others: it has no effect
};

struct sched_model {
    int64_t now;
    struct sched_model_op ops[SCHED_MODEL_OPS];
    int count;
    uint32_t windows[SCHED_MODEL_LANES];
    int lane_count;
    int root; // the launched operation that the last event cancels, or -1
    enum pod_sched_state spread_state; // in which dependents end
};

// Makes an event happen, and says in each operation what must follow from it.
// `op` is what it is about, or NULL; a submitted one is the last of `ops`.
void sched_model_step(struct sched_model *model,
                      const struct pod_sched_event *event,
                      struct sched_model_op *op);

// Makes DONEs that went well happen after those that did since
// sched_model_begin, as one event: what must follow is of all of them.
void sched_model_begin(struct sched_model *model);
void sched_model_done_well(struct sched_model *model,
                           struct sched_model_op *const *ops, size_t count);

// Whether it has not ended.
bool sched_model_open(const struct sched_model_op *op);

// Whether it has ended in anything but success.
bool sched_model_bad(const struct sched_model_op *op);

// How many of its dependencies are not settled.
int sched_model_unmet(const struct sched_model *model,
                      const struct sched_model_op *op);

// Whether it could be launched as far as its dependencies are concerned.
bool sched_model_free(const struct sched_model *model,
                      const struct sched_model_op *op);

// Whether the worker has it, it has not ended, and its DONE leaves nothing of
// it: no place in a lane, no deadline, no dependency.
bool sched_model_plain(const struct sched_model *model,
                       const struct sched_model_op *op);

// Whether all its lanes have room.
bool sched_model_has_room(const struct sched_model *model,
                          const struct sched_model_op *op);

// Whether it could be launched, and has its turn and room in all its lanes.
bool sched_model_may_launch(const struct sched_model *model,
                            const struct sched_model_op *op);

bool sched_model_uses(const struct sched_model_op *op, uint32_t lane);

// Whether a dependency gives the operation a reason to end.
bool sched_model_strikes(const struct sched_model *model,
                         const struct sched_model_dep *dep);

#endif
