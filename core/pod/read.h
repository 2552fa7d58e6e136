// SPDX-License-Identifier: Apache-2.0
// Reading the pod: events, handles, graphs, lists of them, dependencies, and
// the bytes kept by reads.
//
// Views are copies; the caller frees each with its own _fini. One block of
// memory holds all that a view points to.
#ifndef POD_POD_READ_H
#define POD_POD_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/blob.h"
#include "core/base/err.h"
#include "core/driver/driver.h"
#include "core/hlo/shape.h"
#include "core/pod/kinds.h"
#include "core/sched/sched.h"

struct pod;

struct pod_event_error {
    enum pod_code code;
    const char *reason; // UPPER_SNAKE
    const char *detail;
    bool from_worker;
    int line, column; // 0: none
};

struct pod_event_cause {
    uint64_t number;
    enum pod_kind kind;
    enum pod_sched_state state;
    enum pod_code code;
};

struct pod_event_launch {
    uint64_t load;
    uint32_t core;
    const uint64_t *outputs;
    size_t output_count;
};

struct pod_event_host {
    uint32_t host;
    enum pod_sched_state state; // SUCCEEDED, FAILED, LOST, or open
    enum pod_code code;
    const char *detail; // NULL if none
};

// How far a host has come with an operation that it has not answered.
enum pod_awaited_state {
    POD_AWAITED_QUEUED, // could not be given to the host yet
    POD_AWAITED_SENT,   // the host has it and has not begun it
    POD_AWAITED_BEGUN,
};

const char *pod_awaited_state_name(enum pod_awaited_state state);

enum { POD_AWAITED_SHOWN = 64 }; // at most

struct pod_event_awaited {
    uint32_t host;
    enum pod_awaited_state state;
    const uint32_t *cores; // of the host, that the operation is for
    size_t core_count;
};

enum pod_cancel_outcome {
    POD_CANCEL_NONE, // not asked
    POD_CANCEL_PENDING,
    POD_CANCEL_INTERRUPTED,
    POD_CANCEL_COMPLETED_ANYWAY,
    POD_CANCEL_NOT_INTERRUPTIBLE,
    POD_CANCEL_UNKNOWN,
};

struct pod_event_view {
    uint64_t number;
    enum pod_kind kind;
    enum pod_sched_state state;
    uint64_t revision;
    uint32_t host; // POD_NO_ID: none or several
    uint32_t core;
    int64_t created_wall_ns;
    // Offsets from creation on the monotonic clock; -1: has not happened.
    int64_t ready_ns;
    int64_t running_ns;
    int64_t finished_ns;
    enum pod_pending pending;
    // How many operations are before it in the same queue; POD_NO_ID: it runs,
    // or waits for dependencies. queue_capped: there are even more.
    uint32_t queue_position;
    bool queue_capped;
    uint32_t waits_for_count;
    const uint64_t *waits_for; // the first unmet ones, at most 100
    size_t waits_for_shown;
    uint64_t graph; // it belongs to, or 0
    int priority;
    int64_t deadline_ns; // offset from creation; POD_NEVER: none
    const char *name;    // NULL: none
    const struct pod_label *labels;
    size_t label_count;
    // What it made or works on; 0: none.
    uint64_t buffer;
    uint64_t program;
    uint64_t load;
    const uint64_t *inputs; // EXECUTE with one launch, COPY (from)
    size_t input_count;
    const uint64_t *outputs; // EXECUTE
    size_t output_count;
    const struct pod_event_launch *launches; // gangs
    size_t launch_count;
    const uint64_t *loads; // COMPILE submitted with loads
    size_t load_count;
    const struct pod_event_host *hosts; // COMPILE and RESET: outcome by host
    size_t host_count;
    uint64_t bytes; // moved or allocated
    bool has_data;  // READ: its bytes are kept
    enum pod_cancel_outcome cancel;
    const char *cancel_reason; // NULL: none
    // Its hosts have shown no progress for long; `awaited` says which.
    bool is_stalled;
    int64_t stalled_ns; // offset from creation: when it was heard of last
    const struct pod_event_awaited *awaited;
    size_t awaited_count;
    // FAILED, CANCELLED, SKIPPED, LOST:
    bool has_error;
    struct pod_event_error error;
    uint64_t root; // number of the root cause, itself if it failed by itself
    enum pod_kind root_kind;
    uint32_t root_host;
    uint32_t root_core;
    struct pod_event_error root_error;
    int64_t root_at_wall_ns;
    const struct pod_event_cause *causes; // nearest first, at most 16
    size_t cause_count;
    uint64_t causes_omitted;
    // Where it came from: "" if that is not known. `span` is its own.
    const char *request_id;
    const char *trace_id;
    uint64_t span;
    void *memory;
};

enum pod_handle_state {
    POD_HANDLE_PENDING,
    POD_HANDLE_READY,
    POD_HANDLE_FREED,
    POD_HANDLE_LOST,
    POD_HANDLE_FAILED,
};

const char *pod_handle_state_name(enum pod_handle_state state);

enum { POD_TUPLE_SHOWN = 256 };

struct pod_buffer_view {
    uint64_t number;
    enum pod_handle_state state;
    bool has_shape;         // false: raw, or not known yet
    struct pod_shape shape; // an array's; of a tuple its type is TUPLE, empty
    // A tuple's with those of its parts, "(f32[2], s32[])". NULL: no tuple, or
    // one that is freed, has a part without a known shape, or has more than
    // POD_TUPLE_SHOWN buffers in it.
    const char *tuple_shape;
    uint64_t bytes;
    uint32_t core;
    uint32_t host;
    uint64_t last_writer; // never 0
    uint64_t freed_by;    // 0: not freed
    bool is_tuple;
    const uint64_t *children;
    size_t child_count;
    const uint64_t *readers; // since the last write, open ones, at most 100
    size_t reader_count;
    const char *name;
    void *memory;
};

struct pod_program_view {
    uint64_t number;
    enum pod_handle_state state;
    const char *name; // NULL: none
    uint32_t replicas;
    enum pod_program_format format;
    uint64_t bytes;
    char digest[72]; // as submitted
    uint64_t freed_by;
    const struct pod_event_host *hosts;
    size_t host_count;
    const uint64_t *loads; // live ones
    size_t load_count;
    bool has_shape;
    struct pod_program_shape shape; // owned by the view
    void *memory;
};

struct pod_load_view {
    uint64_t number;
    enum pod_handle_state state;
    uint64_t program;
    uint32_t core;
    uint32_t host;
    uint64_t freed_by;
};

struct pod_graph_view {
    uint64_t number;
    enum pod_sched_state state;
    uint64_t revision;
    const char *name; // NULL: none
    const struct pod_label *labels;
    size_t label_count;
    int64_t created_wall_ns;
    int64_t finished_ns; // offset from creation; -1: not yet
    bool cancel_on_error;
    uint64_t counts[POD_SCHED_LOST + 1]; // operations of the graph by state
    // The first operation that did not succeed; 0: none.
    uint64_t failed;
    enum pod_kind failed_kind;
    enum pod_sched_state failed_state;
    struct pod_event_error failed_error;
    uint64_t failed_root; // what it failed because of, itself if by itself
    // The chain that the end waited for, first operation first: from the one
    // that ended last back along the dependency that ended last, as far as
    // these are operations of the graph and kept.
    uint64_t *critical_path;
    size_t critical_path_count;     // at most POD_CRITICAL_PATH_MAX: its end
    uint64_t critical_path_omitted; // before these
    void *memory;
};

enum { POD_CRITICAL_PATH_MAX = 1000 };

// Each fills a view. Errors: NOT_FOUND (never issued, or of another kind),
// EXPIRED (at or below the last number issued, and no longer kept),
// OUT_OF_MEMORY.
enum pod_code pod_get_event(struct pod *pod, uint64_t number,
                            struct pod_event_view *out_view,
                            struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code pod_get_buffer(struct pod *pod, uint64_t number,
                             struct pod_buffer_view *out_view,
                             struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code pod_get_program(struct pod *pod, uint64_t number,
                              struct pod_program_view *out_view,
                              struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code pod_get_load(struct pod *pod, uint64_t number,
                           struct pod_load_view *out_view, struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code pod_get_graph(struct pod *pod, uint64_t number,
                            struct pod_graph_view *out_view,
                            struct pod_err *err)
    __attribute__((warn_unused_result));
void pod_event_view_fini(struct pod_event_view *view);
void pod_graph_view_fini(struct pod_graph_view *view);
void pod_buffer_view_fini(struct pod_buffer_view *view);
void pod_program_view_fini(struct pod_program_view *view);

enum pod_stalled_filter {
    POD_STALLED_ANY,
    POD_STALLED_ONLY,
    POD_STALLED_NOT,
};

// Which events a list wants. Zero means "any" for the masks.
struct pod_event_filter {
    uint32_t states;       // bit 1 << enum pod_sched_state
    uint32_t kinds;        // bit 1 << enum pod_kind
    uint32_t host;         // POD_NO_ID: any
    uint32_t core;         // POD_NO_ID: any
    uint64_t graph;        // 0: any
    uint64_t since_number; // at least this number; 0: any
    int64_t since_wall_ns; // created at or after; INT64_MIN: any
    enum pod_stalled_filter stalled;
    const struct pod_label *labels; // all must hold
    size_t label_count;
};

// Walks numbers downwards from `below` (exclusive; UINT64_MAX: from the newest)
// and fills at most `capacity` views of what is kept and matches. *out_next is
// the `below` of the next call, or 0 at the end. A call that has looked at very
// many may return fewer views than asked for, or none, before the end.
enum pod_code
pod_list_events(struct pod *pod, const struct pod_event_filter *filter,
                uint64_t below, size_t capacity,
                struct pod_event_view *out_views, size_t *out_count,
                uint64_t *out_next, struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code pod_list_buffers(struct pod *pod, uint64_t below, size_t capacity,
                               struct pod_buffer_view *out_views,
                               size_t *out_count, uint64_t *out_next,
                               struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code
pod_list_programs(struct pod *pod, uint64_t below, size_t capacity,
                  struct pod_program_view *out_views, size_t *out_count,
                  uint64_t *out_next, struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code pod_list_loads(struct pod *pod, uint64_t below, size_t capacity,
                             struct pod_load_view *out_views, size_t *out_count,
                             uint64_t *out_next, struct pod_err *err)
    __attribute__((warn_unused_result));

// As above; these views have no critical path.
enum pod_code pod_list_graphs(struct pod *pod, uint64_t below, size_t capacity,
                              struct pod_graph_view *out_views,
                              size_t *out_count, uint64_t *out_next,
                              struct pod_err *err)
    __attribute__((warn_unused_result));

// The neighbours of an operation in the graph of dependencies, breadth first.
struct pod_dependency {
    uint64_t number;
    uint32_t depth; // 1: direct
};

// Up: what it waits (or waited) for, as far as that is kept; down: open
// operations that wait for it. At most `limit`; *out_more: some were left out.
// The caller frees *out_items with pod_dependencies_free.
enum pod_code pod_dependencies(struct pod *pod, uint64_t number, bool down,
                               uint32_t max_depth, size_t limit,
                               struct pod_dependency **out_items,
                               size_t *out_count, bool *out_more,
                               struct pod_err *err)
    __attribute__((warn_unused_result));
void pod_dependencies_free(struct pod_dependency *items);

// The bytes of a READ that was submitted without a stream, as chunks in order.
// The caller owns the array and a reference to each chunk (pod_data_fini).
// Errors: NOT_FOUND (never issued, or not such a read), EXPIRED (dropped, or
// older than 10 minutes), WAIT_EXPIRED (not done yet), or the operation's own
// error.
struct pod_data {
    struct pod_blob **chunks;
    size_t chunk_count;
    uint64_t bytes;
    uint64_t buffer; // that was read, with its shape
    bool has_shape;
    struct pod_shape shape;
};
enum pod_code pod_take_data(struct pod *pod, uint64_t number,
                            struct pod_data *out_data, struct pod_err *err)
    __attribute__((warn_unused_result));
void pod_data_fini(struct pod_data *data);
// Drops the bytes kept by a read; they are EXPIRED afterwards. Errors as above.
enum pod_code pod_drop_data(struct pod *pod, uint64_t number,
                            struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
