// SPDX-License-Identifier: Apache-2.0
// Buffers, programs and loads, inside the pod engine.
//
// Each is owned by the operation that made it and goes when that expires, which
// is after the handle was freed. All fields are guarded by the engine's lock.
#ifndef POD_POD_HANDLE_H
#define POD_POD_HANDLE_H

#include "core/pod/op.h"

// What all handles have.
struct pod_handle {
    struct pod_op *maker;
    uint64_t change;           // its last one in the log of changes
    struct pod_list host_link; // in the host's handles (buffers, loads)
    // The operation whose acceptance freed it; 0: it lives. Its number alone,
    // for that operation may expire first.
    uint64_t freed_by;
    bool free_done;           // the freeing operation has settled
    bool failed;              // its making ended badly
    bool exists;              // the host has it
    bool lost;                // its host went away with it
    struct pod_failure *loss; // why; NULL unless lost
};

// Where a buffer stands in a tuple.
struct pod_tuple_place {
    struct pod_list link; // in the child's tuples, until the tuple is freed
    struct pod_buffer *tuple;
};

struct pod_buffer {
    struct pod_handle handle;
    uint32_t core;
    uint32_t host;
    bool has_shape; // an array's; false: raw, a tuple, or not known yet
    bool is_tuple;
    bool shape_unknown; // automatic output of a program not compiled yet
    bool reserved;      // its bytes are counted in its core's reserved
    // An array's, owned; NULL: there will be none. It is larger than all the
    // rest, and many buffers are raw.
    struct pod_shape *shape;
    uint64_t bytes; // of an array; of a tuple the sum of its leaves
    // The last operation that wrote it (the maker at first): pinned. Its
    // failure makes the buffer FAILED.
    struct pod_op *last_writer; // NULL once freed
    uint64_t last_writer_number;
    struct pod_list readers; // pod_use.link: unsettled readers since then
    struct pod_list tuples;  // pod_tuple_place.link: in live ones
    // Tuples. The records are valid while the tuple is not freed.
    uint64_t *child_numbers;
    struct pod_buffer **children; // their places stand behind (op_new.c)
    size_t child_count;
    uint32_t depth; // of tuples in tuples; 0 for an array
    uint32_t nodes; // buffers in it, itself counted
};

// What the hosts compiled, shared by programs with equal content.
struct pod_compiled {
    struct pod_list link; // in pod->compiled
    long refs;            // programs that are not freed, and freeing operations
    uint64_t number;      // the drivers' handle: the first compile's operation
    char digest[72];
    enum pod_program_format format;
    uint32_t replicas;
    struct pod_blob *blob; // kept, to compile again for a host that comes back
    bool has_shape;
    struct pod_program_shape shape;
    // By id; the records from host_count on are not in use.
    struct pod_compiled_host **hosts;
    size_t host_count;
    size_t host_room;
    uint32_t open_hosts; // calls of the leader that are not answered yet
    bool done;           // the first compile has ended on all hosts
    bool failed;         // badly
    enum pod_sched_state failed_as;
    struct pod_failure *failure; // the first one of a host; a reference
    struct pod_op *leader;       // COMPILE or FREE that its calls work for
    struct pod_list joined; // pod_op.joined: other COMPILEs that wait for done
};

enum pod_compiled_state {
    POD_COMPILED_NONE, // never, or in an incarnation that is gone
    POD_COMPILED_OPEN,
    POD_COMPILED_READY,
    POD_COMPILED_FAILED,
};

struct pod_compiled_host {
    uint32_t host;
    enum pod_compiled_state state;
    struct pod_call call;
    enum pod_sched_state failed_as; // FAILED, CANCELLED or LOST
    struct pod_failure *failure;    // of FAILED; NULL also if no memory
    uint32_t incarnation;
    bool owed; // it has refused to free what is compiled there (owed.c)
    struct pod_list joined;  // pod_op.joined: LOADs that wait for it
    struct pod_trace *trace; // of the call, with a reference
};

struct pod_program {
    struct pod_handle handle;      // no host
    struct pod_compiled *compiled; // NULL once freed
    enum pod_program_format format;
    uint32_t replicas;
    uint64_t bytes; // of the program as given
    char digest[72];
    struct pod_list loads;   // pod_loaded.program_link: live ones
    struct pod_list closing; // the same: freed ones that are not unloaded yet
    size_t load_count;
    bool has_shape;
    struct pod_program_shape shape; // a copy of the compiled one's
};

// A program on a core: a "load" in the interface.
struct pod_loaded {
    struct pod_handle handle;
    struct pod_program *program; // valid while the load is not freed
    struct pod_list program_link;
    uint64_t program_number;
    uint32_t core;
    uint32_t host;
    struct pod_op *freeing; // the UNLOAD, until it is settled
    struct pod_list users;  // pod_load_use.link: unsettled executions
};

// An unsettled execution uses a load.
struct pod_load_use {
    struct pod_list link;
    struct pod_op *op;
};

// The handle that an operation made, or NULL.
static inline struct pod_handle *pod_op_handle(const struct pod_op *op)
{
    if (op->buffer != NULL)
        return &op->buffer->handle;
    if (op->program != NULL)
        return &op->program->handle;
    if (op->load != NULL)
        return &op->load->handle;
    return NULL;
}

// The state to show.
enum pod_handle_state pod_buffer_state(const struct pod_buffer *buffer);
enum pod_handle_state pod_program_state(const struct pod_program *program);
enum pod_handle_state pod_loaded_state(const struct pod_loaded *load);

#endif
