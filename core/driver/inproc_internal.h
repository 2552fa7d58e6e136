// SPDX-License-Identifier: Apache-2.0
// What the files of the in-process driver share.
//
//   inproc.c           making it, its threads' loops, ready, loss, reset, close
//   inproc_calls.c     the functions that make calls
//   inproc_task.c      tasks: queued, cancelled, ended
//   inproc_run.c       what a thread does for each kind of call
//   inproc_transfer.c  the same for writes, reads and copies
//   inproc_handle.c    buffers, programs, loads
//
// All state is guarded by the driver's lock. The device, callbacks and frees
// are called without it; what is to be freed is collected in a trash meanwhile.
#ifndef POD_DRIVER_INPROC_INTERNAL_H
#define POD_DRIVER_INPROC_INTERNAL_H

#include <pthread.h>

#include "core/base/list.h"
#include "core/base/lock.h"
#include "core/base/map.h"
#include "core/driver/inproc.h"
#include "core/driver/queue.h"
#include "core/hlo/launch.h"

// IDLE -> OPENING -> OPEN <-> RESETTING, from all of them to LOST, from LOST to
// OPENING; from all to CLOSING. Work begins in OPEN only.
enum inproc_state {
    INPROC_IDLE,
    INPROC_OPENING, // the observer is being told
    INPROC_OPEN,
    INPROC_RESETTING, // waits for what runs to stop
    INPROC_LOST,
    INPROC_CLOSING,
};

enum inproc_kind {
    INPROC_ALLOCATE,
    INPROC_TUPLE,
    INPROC_DEALLOCATE,
    INPROC_WRITE,
    INPROC_READ,
    INPROC_COPY,
    INPROC_COMPILE,
    INPROC_FREE_PROGRAM,
    INPROC_LOAD,
    INPROC_UNLOAD,
    INPROC_EXECUTE,
    INPROC_RESET,
};

// Most tasks are no larger. Some of these are kept when they are done with: one
// thread makes tasks and another frees them, which the C library does slowly.
enum { INPROC_TASK_BYTES = 1024, INPROC_TASKS_KEPT = 64 };

// Lanes: a thread each. The cores come last.
enum {
    INPROC_LANE_CONTROL,
    INPROC_LANE_TRANSFER,
    INPROC_LANE_COPY,
    INPROC_LANE_COMPILE,
    INPROC_LANE_CORES,
};

// How a call ends that a thread did not carry out.
enum inproc_end {
    INPROC_END_OK,  // a reset
    INPROC_END_ERR, // as task->err says
    INPROC_END_CANCELLED,
    INPROC_END_RESET,
    INPROC_END_LOST,
    INPROC_END_CLOSED,
    INPROC_END_NO_MEMORY,
    INPROC_END_TWICE, // its number is that of another open call
};

enum inproc_handle_kind {
    INPROC_BUFFER,
    INPROC_PROGRAM,
    INPROC_LOADED,
};

struct inproc_part;

struct inproc_handle {
    enum inproc_handle_kind kind;
    uint64_t op;
    long refs; // the map's, tuples' and loads', and of parts that use it
    struct inproc_handle *next_dead;
    uint32_t core;
    // A buffer; a tuple has children, and marks stand at its leaves.
    struct pod_device_buffer *buffer;
    struct pod_shape *shape; // an array's, owned; NULL: raw, or a tuple
    struct pod_launch_value value;
    struct pod_launch_value *child_values; // owned
    struct inproc_handle **children;       // owned, with a reference each
    size_t nodes;                          // of the tree it is, and its depth
    size_t depth;
    size_t readers;
    const struct inproc_part *writer;
    bool lent; // perhaps: since it was written last
    // A program.
    struct pod_device_program *program;
    // A load: its program.
    struct inproc_handle *source;
};

// A handle that a part of a call uses.
struct inproc_hold {
    struct inproc_handle *handle;
    bool write;
};

// What one thread does of a call: all of it, or one replica of a gang.
struct inproc_part {
    struct pod_queue_item item;
    struct inproc_task *task;
    uint32_t lane;
    struct inproc_hold *holds; // room for all it may need
    size_t hold_count;         // in use
    // Of an execution.
    struct inproc_handle *load; // with a reference
    uint64_t *ids;              // inputs, then outputs
    size_t input_count;
    size_t output_count;
    uint32_t replica;
};

struct inproc_allocate {
    uint32_t core;
    uint64_t bytes;
    bool shaped;
    struct pod_shape shape;
};

struct inproc_tuple {
    uint32_t core;
    uint64_t *children;
    size_t count;
};

struct inproc_transfer {
    uint64_t buffer;
    uint64_t offset;
    size_t count;
    size_t moved;
    struct pod_blob *blob; // with a reference; of a read: NULL at first
    size_t data_offset;
    bool lend; // a read that may bring the buffer's own memory
};

struct inproc_copy {
    uint64_t from;
    uint64_t to;
};

struct inproc_compile {
    enum pod_program_format format;
    struct pod_blob *program; // with a reference
    uint32_t replicas;
};

struct inproc_load {
    uint32_t core;
    uint64_t program;
};

struct inproc_gang {
    struct pod_gang *gang; // NULL: alone
    uint32_t replica_count;
    struct pod_err err; // the failure of a part that counts
};

// One call. It is known by `open` until it is claimed, and freed with its last
// reference: one for that, one for each part that runs.
struct inproc_task {
    struct pod_driver_call call;
    enum inproc_kind kind;
    uint64_t seq; // the order in which calls came
    int refs;
    bool spare;   // goes back to driver->spares
    bool usual;   // has INPROC_TASK_BYTES: may be used again
    bool begun;   // a thread has taken a part of it
    bool started; // the caller was told so
    bool here;    // it hears of that when it is done
    bool claimed; // somebody gives its completion, or has
    enum inproc_end end;
    struct pod_list link; // in ended, resets, spares, or the list of a step
    struct pod_interrupt interrupt;
    struct inproc_handle *made; // keeps what the result points at
    union {
        struct inproc_allocate allocate;
        struct inproc_tuple tuple;
        struct inproc_transfer transfer;
        struct inproc_copy copy;
        struct inproc_compile compile;
        struct inproc_load load;
        struct inproc_gang gang;
        uint64_t handle; // deallocate, free_program, unload
    } as;
    size_t parts_left;
    size_t part_count;
    struct inproc_part parts[];
};

struct inproc_lane {
    struct inproc *driver;
    uint32_t index;
    pthread_t thread;
    struct pod_cond wake;
    struct pod_queue singles;
    struct pod_queue gangs; // in order, whatever their priority
};

struct inproc {
    struct pod_driver base;
    struct pod_mutex lock; // guards all that is not constant
    enum inproc_state state;
    bool opened; // open was called
    bool told;   // the observer knows of the loss
    bool revive_asked;
    struct pod_err why; // of the loss
    uint64_t next_seq;
    unsigned due;           // lanes (bits) to be woken by the next call
    size_t running;         // parts that a thread carries out
    size_t calling;         // callbacks of calls that are being made
    struct pod_map open;    // struct inproc_task by operation
    struct pod_map handles; // struct inproc_handle by operation
    struct pod_list ended;  // claimed, for the control thread to complete
    struct pod_list resets; // waiting, in order
    struct pod_list spares;
    struct pod_list used; // tasks of INPROC_TASK_BYTES, for the next calls
    size_t used_count;
    int64_t next_beat_ns;
    struct pod_driver_observer observer; // constant once opened
    // Constant.
    struct pod_device *device;
    struct pod_device_info device_info;
    struct pod_gang_hub *hub;
    uint32_t host;
    uint32_t core_count;
    int64_t heartbeat_ns;
    struct pod_driver_info info;
    struct pod_driver_core *cores;
    struct pod_driver_chip *chips;
    size_t lane_count;
    size_t threads; // lanes whose thread was started
    struct inproc_lane lanes[];
};

// What is to be freed after the lock. Not to be copied or used again.
struct inproc_trash {
    struct inproc_handle *handles;
    struct inproc_handle **handles_end;
    struct pod_list tasks;
};

static inline struct inproc *inproc_of(struct pod_driver *driver)
{
    return POD_CONTAINER(driver, struct inproc, base);
}

// ------------------------------------------------------------- inproc_handle

void pod_inproc_trash_init(struct inproc_trash *trash);
// Not under the lock, but for spare tasks, which must be taken out before.
void pod_inproc_trash_empty(struct inproc *driver, struct inproc_trash *trash);

// A new handle with one reference, in no map; NULL: no memory.
struct inproc_handle *pod_inproc_handle_new(enum inproc_handle_kind kind,
                                            uint64_t op, uint32_t core);
void pod_inproc_handle_unref_locked(struct inproc_handle *handle,
                                    struct inproc_trash *trash);
// Takes over the reference. Fails, and gives it to the trash, when the host was
// lost meanwhile, the number is taken, or there is no memory.
enum pod_code pod_inproc_handle_add_locked(struct inproc *driver,
                                           struct inproc_handle *handle,
                                           struct inproc_trash *trash,
                                           struct pod_err *err);
// The handle of this kind and number, borrowed, or UNKNOWN_HANDLE.
struct inproc_handle *
pod_inproc_handle_find_locked(struct inproc *driver,
                              enum inproc_handle_kind kind, uint64_t op,
                              struct pod_err *err);
// Takes it out of the map.
enum pod_code pod_inproc_handle_drop_locked(struct inproc *driver,
                                            enum inproc_handle_kind kind,
                                            uint64_t op,
                                            struct inproc_trash *trash,
                                            struct pod_err *err);
void pod_inproc_handles_drop_all_locked(struct inproc *driver,
                                        struct inproc_trash *trash);

// The part uses a buffer from now on, or IN_USE.
enum pod_code pod_inproc_hold_locked(struct inproc *driver,
                                     struct inproc_part *part, uint64_t op,
                                     bool write, struct pod_err *err);
// It uses none any more.
void pod_inproc_unhold_locked(struct inproc_part *part,
                              struct inproc_trash *trash);

// Sets RESOURCE_EXHAUSTED with what was asked, what is free, and who holds the
// most.
enum pod_code pod_inproc_no_room(struct inproc *driver, uint32_t core,
                                 uint64_t asked, struct pod_err *err);

// -------------------------------------------------------------- inproc_calls

// The functions of the driver's table that make calls, as driver.h says.
void pod_inproc_reset(struct pod_driver *base,
                      const struct pod_driver_call *call);
void pod_inproc_allocate(struct pod_driver *base,
                         const struct pod_driver_call *call, uint32_t core,
                         const struct pod_shape *shape, uint64_t bytes);
void pod_inproc_allocate_tuple(struct pod_driver *base,
                               const struct pod_driver_call *call,
                               uint32_t core, const uint64_t *children,
                               size_t child_count);
void pod_inproc_deallocate(struct pod_driver *base,
                           const struct pod_driver_call *call, uint64_t buffer);
void pod_inproc_write(struct pod_driver *base,
                      const struct pod_driver_call *call, uint64_t buffer,
                      uint64_t offset, struct pod_blob *data,
                      size_t data_offset, size_t count);
void pod_inproc_read(struct pod_driver *base,
                     const struct pod_driver_call *call, uint64_t buffer,
                     uint64_t offset, size_t count);
void pod_inproc_lend(struct pod_driver *base,
                     const struct pod_driver_call *call, uint64_t buffer,
                     uint64_t offset, size_t count);
void pod_inproc_copy(struct pod_driver *base,
                     const struct pod_driver_call *call, uint64_t from,
                     uint64_t to);
void pod_inproc_compile(struct pod_driver *base,
                        const struct pod_driver_call *call,
                        enum pod_program_format format,
                        struct pod_blob *program, uint32_t replicas);
void pod_inproc_free_program(struct pod_driver *base,
                             const struct pod_driver_call *call,
                             uint64_t program);
void pod_inproc_load(struct pod_driver *base,
                     const struct pod_driver_call *call, uint32_t core,
                     uint64_t program);
void pod_inproc_unload(struct pod_driver *base,
                       const struct pod_driver_call *call, uint64_t load);
void pod_inproc_execute(struct pod_driver *base,
                        const struct pod_driver_call *call,
                        const struct pod_driver_execute *execute);
void pod_inproc_cancel(struct pod_driver *base, uint64_t op);

// --------------------------------------------------------------- inproc_task

// A task with `part_count` parts, and in all of them together room for
// `hold_count` holds and `id_count` ids. NULL: no memory.
struct inproc_task *pod_inproc_task_new(struct inproc *driver,
                                        const struct pod_driver_call *call,
                                        enum inproc_kind kind,
                                        size_t part_count, size_t hold_count,
                                        size_t id_count);
// Takes the task over: queues its parts, each in its lane, or ends it. Whoever
// calls it wakes the lanes.
void pod_inproc_task_submit_locked(struct inproc *driver,
                                   struct inproc_task *task,
                                   struct inproc_trash *trash);
// Wakes the lanes of a task that has just been submitted, before the lock is
// given up: then the task may be gone.
void pod_inproc_task_wake_locked(struct inproc *driver,
                                 const struct inproc_task *task);
// Wakes the lanes that earlier calls left to a later one
// (pod_driver_call.more).
void pod_inproc_wake_due_locked(struct inproc *driver);
// Submits a task of one part; NULL: there was no memory for it.
void pod_inproc_task_submit(struct inproc *driver, struct inproc_task *task,
                            const struct pod_driver_call *call, uint32_t lane);
// Ends a call for which there is no memory.
void pod_inproc_task_refuse(struct inproc *driver,
                            const struct pod_driver_call *call);
// Ends a task that was never queued.
void pod_inproc_task_end_new_locked(struct inproc *driver,
                                    struct inproc_task *task,
                                    enum inproc_end end,
                                    const struct pod_err *cause,
                                    struct inproc_trash *trash);
void pod_inproc_task_free(struct inproc_task *task);
void pod_inproc_task_unref_locked(struct inproc *driver,
                                  struct inproc_task *task,
                                  struct inproc_trash *trash);
// Claims the task and leaves its completion to the control thread.
void pod_inproc_task_end_locked(struct inproc *driver, struct inproc_task *task,
                                enum inproc_end end);
// Calls back for a task of `ended`; drops and takes the lock.
void pod_inproc_task_deliver_locked(struct inproc *driver,
                                    struct inproc_task *task);
// Ends all open calls before `seq` and all that have begun.
void pod_inproc_end_all_locked(struct inproc *driver, uint64_t seq,
                               enum inproc_end end, struct inproc_trash *trash);
// Asks all that has begun to stop.
void pod_inproc_interrupt_all_locked(struct inproc *driver);
// Around a callback.
void pod_inproc_call_begin_locked(struct inproc *driver);
void pod_inproc_call_end_locked(struct inproc *driver);
void pod_inproc_wake_control(struct inproc *driver);

// ---------------------------------------------------------------- inproc_run

struct inproc_outcome {
    struct pod_driver_result result; // the error goes to result.err
    bool again;                      // one turn is done, there are more
    struct inproc_trash trash;
};

// Whether the call was asked to stop, and the error for it.
bool pod_inproc_run_interrupted(struct inproc_part *part);
enum pod_code pod_inproc_run_cancelled(struct pod_err *err);
// Carries out a part taken from a queue; drops and takes the lock.
void pod_inproc_run_locked(struct inproc *driver, struct inproc_part *part);

// ----------------------------------------------------------- inproc_transfer

// The work of these kinds, without the lock.
enum pod_code pod_inproc_run_write(struct inproc *driver,
                                   struct inproc_part *part,
                                   struct inproc_outcome *outcome);
enum pod_code pod_inproc_run_read(struct inproc *driver,
                                  struct inproc_part *part,
                                  struct inproc_outcome *outcome);
enum pod_code pod_inproc_run_copy(struct inproc *driver,
                                  struct inproc_part *part,
                                  struct inproc_outcome *outcome);

#endif
