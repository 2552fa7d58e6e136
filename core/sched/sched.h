// SPDX-License-Identifier: Apache-2.0
// The dependency scheduler: a pure step function.
//
// Events go in (submitted, started, done, ended, cancelled, time passed),
// effects come out (launch this, it is now in that state, interrupt it, forget
// it). It does no I/O, takes no lock, reads no clock, and allocates only when a
// node is submitted (pool chunks of a fixed size, and room in the queues and
// the list of effects it may ever stand in), so the same events always give the
// same effects. One thread at a time may use a scheduler; the pod engine calls
// it under its lock.
//
// A node counts its unmet dependencies and keeps the list of its dependents,
// so a completion costs its out-degree, whatever else is in flight.
//
//   WAITING --all dependencies met--> READY --launched, started--> RUNNING
//      |                                |                             |
//      +---------------- ends (any terminal state) -------------------+
//
// "Launched" is apart from these states: a node is launched when the LAUNCH
// effect was given. That happens when nothing holds it back (its dependencies
// are met, or are sent-ahead dependencies that are launched themselves) and
// each of its lanes has room.
//
// "Ended" and "settled" differ. A launched node may end early for its
// observers (deadline, cancel, reset) while the worker still has it. It is
// settled when the worker has answered (DONE). A node that was never launched
// settles when it has ended and all its dependencies are settled: whoever comes
// after it also comes after them. One that is `certain` is launched then
// instead, and settles when the worker has answered. Failure passes on when a
// node ends; edges that only order, and dependents that run in spite of
// failure, are released when it settles, for only then has the worker let go of
// its buffers.
#ifndef POD_SCHED_SCHED_H
#define POD_SCHED_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/sched/node.h"

// The first three are open, the rest terminal.
enum pod_sched_state {
    POD_SCHED_WAITING,
    POD_SCHED_READY,
    POD_SCHED_RUNNING,
    POD_SCHED_SUCCEEDED,
    POD_SCHED_FAILED,
    POD_SCHED_CANCELLED,
    POD_SCHED_SKIPPED,
    POD_SCHED_LOST,
};

struct pod_sched;
struct pod_sched_node;

// One edge to a node that is not settled yet.
struct pod_sched_dep {
    struct pod_sched_node *node;
    // true: when `node` ends in anything but SUCCEEDED the dependent is
    // SKIPPED (or runs, if it said run_on_failure). false: the edge only
    // orders; the dependent waits until `node` settles, however it ends.
    bool carries;
    // The dependent may be launched as soon as `node` is launched, because the
    // worker of both keeps this order itself.
    bool ahead;
};

enum pod_sched_event_kind {
    POD_SCHED_SUBMIT,
    POD_SCHED_STARTED, // the worker has begun a launched node
    POD_SCHED_DONE,    // the worker has answered: ends and settles the node
    POD_SCHED_END,     // ended from outside
    POD_SCHED_CANCEL,
    POD_SCHED_ADVANCE, // time has passed
};

struct pod_sched_event {
    enum pod_sched_event_kind kind;
    int64_t now_ns; // monotonic; never decreases from event to event
    // All but SUBMIT and ADVANCE: which node. It must not be released yet.
    struct pod_sched_node *node;

    // DONE and END: the terminal state. DONE of a node that has already ended
    // only settles it.
    enum pod_sched_state state;

    // CANCEL: dependents end CANCELLED instead of SKIPPED.
    bool cascade;

    // SUBMIT:
    void *user; // given back with each effect
    const struct pod_sched_dep *deps;
    size_t dep_count;
    // A dependency that carries has ended badly before: the node is SKIPPED at
    // once (unless run_on_failure) and `doomed_by` is reported as its cause.
    bool doomed;
    void *doomed_by; // that dependency's user pointer
    bool run_on_failure;
    // It takes away what nobody can name any more, so that has to be done
    // whatever becomes of it for its observers. It has no lanes.
    bool certain;
    int8_t priority;       // -10..10, higher goes first among nodes of a lane
    int64_t deadline_ns;   // absolute, or POD_NEVER
    const uint32_t *lanes; // places needed to launch: none, one, or a gang's
    size_t lane_count;     // distinct lanes
};

// Bits of struct pod_sched_effect.what.
enum {
    POD_SCHED_LAUNCH = 1,    // send it to its host; it may have ended (certain)
    POD_SCHED_CHANGED = 2,   // its state is now effect.state
    POD_SCHED_INTERRUPT = 4, // it is launched: ask the worker to stop it
    POD_SCHED_RELEASED = 8,  // settled, no edge left: the node is gone
    POD_SCHED_EXPIRED = 16,  // CHANGED to FAILED because its deadline passed
};

struct pod_sched_effect {
    struct pod_sched_node *node; // gone, if RELEASED: only to be asked below
    uint32_t what;
    enum pod_sched_state state;
};

// What a step brought, in the order in which things happened.
struct pod_sched_effects {
    struct pod_sched_effect *items;
    size_t count;
};

// A scheduler without nodes or lanes; NULL when there is no memory.
struct pod_sched *pod_sched_new(void);
// Frees all nodes too, whatever their state. NULL is allowed.
void pod_sched_free(struct pod_sched *sched);

// A new lane: a queue in which at most `window` (>= 1) nodes are launched and
// not settled at a time. Lanes number from 0. UINT32_MAX: no memory.
uint32_t pod_sched_add_lane(struct pod_sched *sched, uint32_t window);
// Another window (>= 1) for a lane that no node has a place in.
void pod_sched_set_window(struct pod_sched *sched, uint32_t lane,
                          uint32_t window);

// Takes memory for the next `nodes` SUBMITs, which have at most `edges`
// dependencies in all and the places of `lanes` (with repetition): they cannot
// fail then. OUT_OF_MEMORY.
enum pod_code pod_sched_reserve(struct pod_sched *sched, size_t nodes,
                                size_t edges, const uint32_t *lanes,
                                size_t lane_count, struct pod_err *err)
    __attribute__((warn_unused_result));

// Gives back the memory of all nodes that ever were, if there is none now; else
// false. Afterwards there are no effects.
bool pod_sched_trim(struct pod_sched *sched);

// Makes one step, and leaves what it brought in pod_sched_effects. SUBMIT
// gives the node in *out_node (else out_node may be NULL). The only
// failure is OUT_OF_MEMORY of a SUBMIT, which changes nothing.
//
// In a lane, nodes launch by priority, then in the order submitted. A gang
// launches when it is first in all of its lanes and all have room; what is
// behind it in those lanes waits, so that gangs that share lanes launch in one
// order and none starves.
//
// CANCEL of a node that is not launched ends it CANCELLED at once. Of a
// launched one it gives INTERRUPT, once; the node ends by its DONE. In both
// cases the dependents over carrying edges that exist now end at once
// (SKIPPED, or CANCELLED with cascade), and theirs in turn, but for those with
// run_on_failure; a dependent that was launched ahead gets INTERRUPT too.
// CANCEL of an ended node does nothing.
//
// One that is `certain` is never interrupted: CANCEL ends it CANCELLED at once
// unless it is RUNNING, and the worker goes on with it.
//
// A deadline that passes ends an open node FAILED and EXPIRED, and gives
// INTERRUPT if it was launched. ADVANCE looks for deadlines at or before
// now_ns, earliest first; SUBMIT at that of its own node only.
enum pod_code
pod_sched_step(struct pod_sched *sched, const struct pod_sched_event *event,
               struct pod_sched_node **out_node, struct pod_err *err)
    __attribute__((warn_unused_result));

// Whether the node is launched and open, has no lane, no deadline and no
// dependency that stands: as soon as it is done it is gone. It stays so until
// it ends.
bool pod_sched_plain(const struct pod_sched_node *node);

// What pod_sched_done_many is told: the worker has answered these, and all went
// well (SUCCEEDED).
struct pod_sched_done {
    struct pod_sched_node *const *nodes; // distinct, each pod_sched_plain
    size_t count;
    size_t taken;   // the first so many are done: 0 to begin with
    uint32_t group; // its own; 0 to begin with
};

enum { POD_SCHED_LAUNCHED_MIN = 16 }; // room for launches that a call needs

// Makes the step of many DONEs, or a part of it: it is to be called again, and
// no other step made and no dependents of these nodes walked before, until all
// are taken. The nodes are gone then; nothing else is said of them. Returns how
// many nodes it put in out_launched, which has room for `room`, at least
// POD_SCHED_LAUNCHED_MIN: those of which there is no more to say than CHANGED
// to READY and LAUNCH. What else a call brought is in pod_sched_effects, at
// most one effect a node.
size_t pod_sched_done_many(struct pod_sched *sched, struct pod_sched_done *done,
                           struct pod_sched_node **out_launched, size_t room);

// A hint that an event about a node will come soon: with many nodes in flight
// it comes from memory, meanwhile. `has_lanes`: it was submitted with some.
// Reads and changes nothing, so it may be given by any thread while the node is
// there.
static inline void pod_sched_expect(const struct pod_sched_node *node,
                                    bool has_lanes)
{
    __builtin_prefetch(node, 1);
    if (has_lanes)
        __builtin_prefetch(pod_sched_node_cold(node), 1);
}

// Where the effects of the last step stand: the same place as long as the
// scheduler lives. What stands there holds until the next step,
// pod_sched_reserve or pod_sched_trim. A node gives one effect a step at most,
// its bits merged. A cause comes before what it brought. A SUBMIT that failed
// has none.
const struct pod_sched_effects *
pod_sched_effects(const struct pod_sched *sched);

// The user pointer it was submitted with.
void *pod_sched_node_user(const struct pod_sched_node *node);
// The user pointer of the node of an effect, as long as the effect holds.
void *pod_sched_effect_user(const struct pod_sched_effect *effect);
// In the same way, if it ended SKIPPED, or CANCELLED by a cascade: the user
// pointer of the dependency that brought it; else NULL.
void *pod_sched_effect_cause(const struct pod_sched_effect *effect);

// The earliest deadline of an open node, or POD_NEVER: when to ADVANCE.
int64_t pod_sched_next_deadline(const struct pod_sched *sched);

enum pod_sched_state pod_sched_node_state(const struct pod_sched_node *node);
bool pod_sched_node_launched(const struct pod_sched_node *node);
bool pod_sched_node_settled(const struct pod_sched_node *node);
// Whether it stands in the queue of a lane (ready but not launched).
bool pod_sched_node_queued(const struct pod_sched_node *node);
// Dependencies that still hold it back.
uint32_t pod_sched_node_unmet(const struct pod_sched_node *node);

// Walks the dependents (edges that still stand) of a node, newest first:
// start with *cursor = NULL; false at the end. No step may come in between.
bool pod_sched_next_dependent(const struct pod_sched *sched,
                              const struct pod_sched_node *node,
                              const void **cursor, void **out_user,
                              bool *out_carries);

// How a queued node stands in one of its lanes.
struct pod_sched_standing {
    size_t before;     // nodes queued before it; counted to a limit
    uint32_t launched; // nodes of the lane that are launched and not settled
};

// Walks the lanes of a queued node in the order they were given with it: start
// with *cursor = NULL; false at the end, and if it is not queued. Costs what
// stands before it, up to `limit`. No step may come in between.
bool pod_sched_next_standing(const struct pod_sched *sched,
                             const struct pod_sched_node *node, size_t limit,
                             const void **cursor,
                             struct pod_sched_standing *out_standing);

// Nodes queued or launched in a lane.
uint32_t pod_sched_lane_depth(const struct pod_sched *sched, uint32_t lane);

static inline bool pod_sched_terminal(enum pod_sched_state state)
{
    return state >= POD_SCHED_SUCCEEDED;
}

// "WAITING".
const char *pod_sched_state_name(enum pod_sched_state state);

#endif
