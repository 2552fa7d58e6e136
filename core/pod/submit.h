// SPDX-License-Identifier: Apache-2.0
// A batch of requests on its way to become operations. For core/pod alone.
#ifndef POD_POD_SUBMIT_H
#define POD_POD_SUBMIT_H

#include "core/base/mem.h"
#include "core/pod/graph.h"

enum {
    POD_MAX_LABELS = 16,
    POD_MAX_PRIORITY = 10,
    POD_MAX_REFS = 65536,    // in any one list of a request
    POD_MAX_REPLICAS = 4096, // of a gang, and of a program
    // Buffers inside the tuples that the executions of a submission name, each
    // as often as it is named: a few bytes of JSON may name many.
    POD_MAX_INNER = 262144,
    POD_MAX_REQUESTS = 1000001, // and POD_GRAPH_MAX is less
};

struct pod_batch_item {
    const struct pod_request *request;
    struct pod_op *op;
    size_t index;        // of op in batch.ops; its outputs stand before it
    size_t place;        // of op in the order of numbers
    size_t output_count; // automatic ones, of all launches
    size_t *auto_counts; // by launch; NULL if the request has none
    bool crosses;        // a COPY that may go from one host to another
    bool left_out;       // a fault was found before: it has no record
    bool marked;         // its marks and hazards are made, at least in part
    bool passed;         // it was checked: later ones may refer to it
    bool shadowed;       // it refers to one that was not passed
};

struct pod_batch {
    struct pod *pod;
    struct pod_batch_item *items;
    size_t count;
    // The order of turns; NULL: that of `items`. Fewer than `count` if a
    // graph has cycles.
    size_t *turns;
    size_t turn_count;
    struct pod_op **ops; // in the order of turns, a graph's own first
    size_t op_count;
    size_t *edge_starts; // op_count + 1: whose edges are whose
    uint32_t *lanes;     // of all executions
    size_t lane_count;
    size_t inner;   // so many of POD_MAX_INNER are used
    bool compiles;  // there is a COMPILE
    bool resets;    // there is a RESET
    uint64_t first; // the least number
    int64_t now_ns;
    int64_t wall_ns;
    uint64_t *out_existing;
    struct pod_err *err;
    bool later; // pod_send makes its calls
    bool admitted;

    // Only of a graph.
    const struct pod_graph_request *graph; // NULL: no graph
    struct pod_faults *faults;
    struct pod_op *graph_op;
    struct pod_op *after[POD_GRAPH_AFTER_MAX]; // what all operations wait for
    size_t after_count;
};

// The records of a large batch are visited in several passes, and have left the
// cache when they are visited again: brings the next but one of `ops[at]` back
// while that is worked on. A hint.
static inline void pod_op_expect(struct pod_op *const *ops, size_t count,
                                 size_t at)
{
    enum { EXPECT_AHEAD = 2 };

    if (at < count && count - at > EXPECT_AHEAD)
        pod_mem_expect(ops[at + EXPECT_AHEAD], sizeof(struct pod_op));
}

// The item whose turn it is.
static inline size_t pod_batch_turn(const struct pod_batch *batch, size_t turn)
{
    return batch->turns == NULL ? turn : batch->turns[turn];
}

// ---------------------------------------------------------- submit_make.c

// The items of a batch, within their limits. An error leaves them for
// pod_batch_fini.
enum pod_code pod_batch_init(struct pod_batch *batch,
                             const struct pod_request *requests)
    __attribute__((warn_unused_result));
void pod_batch_fini(struct pod_batch *batch); // its operations are others' then
// Gives each operation its place among the numbers and among the turns. False:
// the plan is not what it was (the caller asked whether it still holds).
bool pod_batch_plan_locked(struct pod_batch *batch);
// Makes the operations that were planned, without the lock; after an error too
// they are taken back by pod_batch_drop, while op_count is what it was.
enum pod_code pod_batch_make(struct pod_batch *batch)
    __attribute__((warn_unused_result));
void pod_batch_drop(struct pod_batch *batch);
// A fault of one request. A graph goes on without it, to find them all; false:
// the submission is refused at once.
bool pod_batch_fault(struct pod_batch *batch);
enum pod_code pod_batch_no_memory(const struct pod_batch *batch);

// ------------------------------------------- check*.c, edges.c, admit.c

// Sets err.pointer to the request's place and a member in it; gives err->code.
enum pod_code pod_batch_at(const struct pod_batch *batch, size_t item,
                           const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// What needs no lock: limits of a request.
enum pod_code pod_check_limits(const struct pod_batch *batch, size_t item)
    __attribute__((warn_unused_result));

// What a reference may name.
enum pod_want {
    POD_WANT_ANY,
    POD_WANT_BUFFER,
    POD_WANT_PROGRAM,
    POD_WANT_LOAD
};

// The operation that a reference of item `item` names: kept, of the right kind,
// and its handle not freed. err without a place.
enum pod_code pod_batch_find_locked(const struct pod_batch *batch, size_t item,
                                    const struct pod_ref *ref,
                                    enum pod_want want, struct pod_op **out_op)
    __attribute__((warn_unused_result));

// The same for what a whole graph waits for.
enum pod_code pod_batch_find_after_locked(const struct pod_batch *batch,
                                          const struct pod_ref *ref,
                                          struct pod_op **out_op)
    __attribute__((warn_unused_result));

// The shape of the program that a load reference will run, or NULL if it is not
// known.
const struct pod_program_shape *
pod_batch_shape_locked(const struct pod_batch *batch,
                       const struct pod_ref *load);

// Checks a request against the state and marks what it does to handles, so
// that later requests of the batch see it. An error has marked nothing.
enum pod_code pod_check_request_locked(struct pod_batch *batch, size_t item)
    __attribute__((warn_unused_result));
enum pod_code pod_check_execute_locked(struct pod_batch *batch, size_t item)
    __attribute__((warn_unused_result));
// Takes the marks of an operation back.
void pod_check_undo_locked(struct pod *pod, struct pod_op *op);

// Whether a core can take something new.
enum pod_code pod_check_place_locked(const struct pod *pod, uint32_t core,
                                     struct pod_err *err)
    __attribute__((warn_unused_result));

// Finds the edges of an operation (automatic outputs too); false: no memory.
bool pod_batch_edges_locked(struct pod_batch *batch, struct pod_op *op,
                            const struct pod_batch_item *item);

// Puts operations that cannot be refused any more in the table and in the
// scheduler, and applies what that brings. `edge_starts` as in the batch.
void pod_admit_locked(struct pod *pod, struct pod_op **ops, size_t count,
                      const size_t *edge_starts, struct pod_after *after);

#endif
