// SPDX-License-Identifier: Apache-2.0
// For proto/grpc_driver*.c only.
//
//   grpc_driver.c          made and freed; the control thread's steps
//   grpc_driver_hub.c      what the drivers share
//   grpc_driver_link.c     one connection: opened, kept alive, let go
//   grpc_driver_info.c     what a worker says of itself
//   grpc_driver_calls.c    the driver's calls become requests
//   grpc_driver_answers.c  what became of them
//   grpc_driver_failed.c   the numbers of what failed
//   grpc_driver_pod.c      pod.worker.v1: opening, answers
//   grpc_driver_entry.c    the same: requests
//   grpc_driver_cloud.c    tpu_driver.CloudTpuDriver: opening, answers
//   grpc_driver_cloud_entry.c  the same: requests
//
// Numbers. Operations are numbered anew on each connection: what is sent
// bears 1, 2, 3 ... in the order in which it is sent, so that a worker can
// forget by number, and a handle of an earlier incarnation has no number at
// all and cannot be taken for another.
//
// Threads. Callbacks of gRPC come from the hub's thread. It answers calls, and
// else only notes what happened. The control thread of the driver does the
// rest: it connects, asks for signs of life, speaks to the observer, and
// answers calls that were lost or refused. When the host is lost it waits until
// no answer is being given (`delivering`), tells the observer and only then
// answers what was open, so nobody hears of a success after the loss.
#ifndef POD_PROTO_GRPC_DRIVER_INTERNAL_H
#define POD_PROTO_GRPC_DRIVER_INTERNAL_H

#include "core/base/list.h"
#include "core/base/lock.h"
#include "core/base/map.h"
#include "proto/grpc_driver.h"
#include "proto/rpc_client.h"
#include "proto/wire.h"
#include "proto/worker_ids.h"

enum {
    GD_SPARE_REFUSALS = 64,
    GD_FAILED_MAX = 1024,     // failed ones that the worker is to remember
    GD_FORGET_EVERY = 256,    // answers between two words to the worker
    GD_CHUNK_BYTES = 4 << 20, // podd's pieces (pod_options.chunk_bytes)
    // Pieces up to this travel with the small operations.
    GD_SMALL_BYTES = 64 << 10,
    GD_BATCH_BYTES = 256 << 10,
    GD_BATCH_COUNT = 256,
    GD_CLOUD_BYTES = 1 << 30, // of one buffer, moved in one message
    GD_CLOUD_MESSAGE = INT32_MAX,
    GD_WIRE_BITS = 44, // of an operation id of CloudTpuDriver
};

#define GD_KEEPALIVE_NS (INT64_C(310) * 1000 * 1000 * 1000)
#define GD_WIRE_MASK    ((UINT64_C(1) << GD_WIRE_BITS) - 1)

enum gd_kind {
    GD_ALLOCATE,
    GD_TUPLE,
    GD_DEALLOCATE,
    GD_WRITE,
    GD_READ,
    GD_COPY,
    GD_PEER_COPY,
    GD_COMPILE,
    GD_FREE_PROGRAM,
    GD_LOAD,
    GD_UNLOAD,
    GD_EXECUTE,
    GD_RESET,
};

enum gd_stream { GD_CONTROL, GD_DATA, GD_STREAMS };

// What a call asks for. Handles are the driver's own; borrowed.
struct gd_request {
    enum gd_kind kind;
    uint32_t core;
    uint64_t handle; // what it works on
    uint64_t from;   // COPY
    const struct pod_shape *shape;
    uint64_t bytes;
    const uint64_t *children;
    size_t child_count;
    struct pod_blob *data; // WRITE, COMPILE
    size_t data_offset;
    uint64_t offset;
    size_t count;
    enum pod_program_format format;
    uint32_t replicas;
    const struct pod_driver_execute *execute;
    const char *peer_address;
    uint64_t peer_session;
    uint64_t peer_wire; // number of the buffer in that session
};

// A call the worker has, a handle, or a failure that may still be waited for.
struct gd_item {
    struct pod_list link; // in open or failed
    struct pod_driver_call call;
    enum gd_kind kind;
    uint64_t wire;
    uint64_t ends;  // handle that is gone if it goes well, or 0
    uint64_t bytes; // of the buffer it made; cloud: of the one it reads
    uint64_t offset;
    size_t count; // READ
    // Answered in so many parts, numbered from `wire` on; 0: in one.
    uint32_t parts;
    uint32_t parts_done;
    struct pod_err *part_err; // the first bad one
    bool open;
    bool failed;
    bool started;
};

// A call that did not reach the worker.
struct gd_refusal {
    struct pod_list link;
    struct pod_driver_call call;
    struct pod_err err;
    bool lost;
    bool spare;
};

enum gd_state {
    GD_RESTING,    // until next_ns
    GD_CONNECTING, // the link says when it is done
    GD_ARRIVED,    // the observer is to be told
    GD_OPEN,
    GD_LOST, // the observer is to be told, perhaps
    GD_CLOSED,
};

struct gd;
struct gd_link;
struct gd_together;

// What a worker says of itself, in memory of one block.
struct gd_info {
    struct pod_driver_info info; // points into what follows
    char *platform;
    char *version;
    struct pod_driver_core *cores;
    struct pod_driver_chip *chips;
};

// One of the two protocols. All are called with the driver's lock held.
struct gd_dialect {
    const char *name;
    const char *stream_method;
    bool reopens;    // RESET is done by connecting anew
    bool says_ids;   // its texts name operations as ours do (text_ids.h)
    bool data_apart; // its data stream may be on a connection of its own
    // The message for a request, or NULL with *err set.
    struct pod_wire_out *(*encode)(struct gd *driver, struct gd_item *item,
                                   const struct gd_request *request,
                                   struct pod_err *err);
    // What a stream begins with; NULL also if nothing.
    struct pod_wire_out *(*greet)(const struct gd_link *link,
                                  enum gd_stream stream);
    // Asks for a sign of life.
    enum pod_code (*beat)(struct gd_link *link, struct pod_err *err);
    // Takes the worker's words apart. False: they are none, *err says why; what
    // came before in the same message counts. Called without the lock, for one
    // link by one thread at a time; the caller tells what is left `together`.
    bool (*receive)(struct gd_link *link, const void *data, size_t size,
                    struct gd_together *together, struct pod_err *err);
    // The messages for a cancel, and for "all below is known"; NULL: it has
    // none.
    struct pod_wire_out *(*cancel)(uint64_t wire, uint64_t own_wire);
    struct pod_wire_out *(*forget)(uint64_t below);
    // The connection is given up in peace; may be NULL.
    void (*leave)(struct gd_link *link);
};

extern const struct gd_dialect gd_pod_dialect;
extern const struct gd_dialect gd_cloud_dialect;

// A connection. `pending` callbacks of gRPC are still to come; it is freed when
// there are none.
struct gd_link {
    struct pod_list link; // in driver->old_links, once it is given up
    struct gd *driver;
    const struct gd_dialect *dialect;
    struct rpc_channel *channel;
    struct rpc_channel *first;        // that was replaced, or NULL
    struct rpc_channel *data_channel; // of GD_DATA; NULL: the same
    struct rpc_stream *streams[GD_STREAMS];
    struct pod_trace *told[GD_STREAMS]; // said last on each, with a reference
    struct gd_link_stream {
        struct gd_link *link;
        enum gd_stream stream;
    } stream_args[GD_STREAMS];
    struct rpc_call *opening; // the unary call that opens it, while it is open
    unsigned pending;
    uint64_t session; // CloudTpuDriver: the client id
    uint64_t incarnation;
    struct gd_info *info;
};

struct gd_times {
    int64_t connect_ns;
    int64_t heartbeat_ns;
    int64_t silence_ns;
    int64_t backoff_min_ns;
    int64_t backoff_max_ns;
};

struct gd {
    struct pod_driver base;
    struct pod_mutex lock;
    struct pod_cond wake; // of the control thread, and of who waits for it
    // Fixed.
    struct pod_grpc_hub *hub;
    uint32_t host;
    char *address;
    struct gd_times times;
    struct pod_driver_observer observer;
    pthread_t thread;
    bool has_thread;

    enum gd_state state;
    bool opened;
    bool closing;
    bool lost_told;        // since it was ready last; `told` says what
    uint64_t left_session; // of the last link to one of our workers, or 0
    bool hurry;
    struct gd_item *reset; // waits for a new connection, or NULL
    struct gd_link *link;  // the present one, or NULL
    struct pod_list old_links;
    unsigned delivering; // answers that are being given
    struct pod_err why;  // LOST
    struct pod_err told;
    int64_t backoff_ns;
    int64_t
        next_ns; // of the next attempt, or beat, or look for an answer to it
    int64_t heard_ns;
    bool beating;                 // a sign of life was asked for
    bool beat_came;               // the observer is to be told
    struct pod_driver_load *load; // what came with it; one block; or NULL
    uint64_t last_wire;
    unsigned unforgotten; // answers since the last word
    struct pod_map by_op;
    struct pod_map by_wire; // the same items; of the parts, open ones
    struct pod_list open;   // gd_item.link, by wire
    struct pod_list failed; // the same, oldest first
    size_t failed_count;
    struct worker_ids failed_numbers; // these, forgotten ones, refused ones
    struct pod_list refused;          // gd_refusal.link
    struct pod_list spares;
};

static inline struct gd *gd_of(struct pod_driver *base)
{
    return (struct gd *)(void *)base;
}

// ------------------------------------------------------------- grpc_driver.c

// The connection is no good any more: everything stops, the control thread
// does the rest. Without effect unless `link` is the present one.
void gd_lose_locked(struct gd *driver, struct gd_link *link,
                    const struct pod_err *err);
// The link is open, with dialect, session and info.
void gd_arrived_locked(struct gd *driver, struct gd_link *link);

// -------------------------------------------------------- grpc_driver_link.c

// Begins to connect. On failure err is set and nothing remains.
enum pod_code gd_link_start_locked(struct gd *driver, struct pod_err *err)
    __attribute__((warn_unused_result));
// Opens the streams of a link whose worker has answered.
enum pod_code gd_link_streams_locked(struct gd_link *link, struct pod_err *err)
    __attribute__((warn_unused_result));
// Gives the present one up; it goes to driver->old_links.
void gd_link_drop_locked(struct gd *driver);
// Frees the old links for which no callback is to come. Gives up the lock in
// between.
void gd_link_reap_locked(struct gd *driver);

// A channel for messages up to that size (0: the usual) in place of what there
// is.
enum pod_code gd_link_channel_locked(struct gd_link *link, int max_bytes,
                                     struct pod_err *err)
    __attribute__((warn_unused_result));

struct gd_link_unary {
    const char *method;
    int64_t timeout_ns;
    bool opens; // ended early when the link is given up
    // Gets the link; calls gd_link_settle_locked at its end.
    void (*done)(void *arg, const struct rpc_reply *reply);
};
enum pod_code
gd_link_call_locked(struct gd_link *link, const struct gd_link_unary *unary,
                    struct pod_wire_out *owned_request, struct pod_err *err)
    __attribute__((warn_unused_result));
void gd_link_settle_locked(struct gd_link *link);
// A sign of life came, or did not.
void gd_link_beaten_locked(struct gd_link *link, const struct rpc_reply *reply);
// A reason users understand, from how a call ended.
void gd_link_explain(const struct gd_link *link, enum pod_code code,
                     const char *text, struct pod_err *out_err);
void gd_link_explain_silence(const struct gd_link *link,
                             struct pod_err *out_err);
// A copy fit to be shown: valid UTF-8, no control characters, cut to `size`.
void gd_clean_text(const char *text, char *out, size_t size);

// ---------------------------------- grpc_driver_pod.c, grpc_driver_cloud.c

// A new link's first call; the dialect is set. The second when the worker has
// not got the first.
enum pod_code gd_pod_begin_locked(struct gd_link *link, struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code gd_cloud_begin_locked(struct gd_link *link, struct pod_err *err)
    __attribute__((warn_unused_result));

// ------------------------------------------------------- grpc_driver_entry.c

struct pod_wire_out *gd_entry_encode(struct gd *driver, struct gd_item *item,
                                     const struct gd_request *request,
                                     struct pod_err *err);
struct pod_wire_out *gd_entry_cancel(uint64_t wire, uint64_t own_wire);

// ------------------------------------------------- grpc_driver_cloud_entry.c

struct pod_wire_out *gd_cloud_encode(struct gd *driver, struct gd_item *item,
                                     const struct gd_request *request,
                                     struct pod_err *err);
// A program as the HloProto that the protocol wants; NULL: *err is set.
// Without the lock.
struct pod_blob *gd_cloud_program(enum pod_program_format format,
                                  const struct pod_blob *program,
                                  struct pod_err *err);

// -------------------------------------------------------- grpc_driver_info.c

// Room for so many; NULL: no memory.
struct gd_info *gd_info_new(size_t core_count, size_t chip_count,
                            const char *platform, const char *version);
void gd_info_free(struct gd_info *info); // NULL is allowed

// ------------------------------------------------------- grpc_driver_calls.c

void gd_call_allocate(struct pod_driver *base,
                      const struct pod_driver_call *call, uint32_t core,
                      const struct pod_shape *shape, uint64_t bytes);
void gd_call_allocate_tuple(struct pod_driver *base,
                            const struct pod_driver_call *call, uint32_t core,
                            const uint64_t *children, size_t child_count);
void gd_call_deallocate(struct pod_driver *base,
                        const struct pod_driver_call *call, uint64_t buffer);
void gd_call_free_program(struct pod_driver *base,
                          const struct pod_driver_call *call, uint64_t program);
void gd_call_unload(struct pod_driver *base, const struct pod_driver_call *call,
                    uint64_t load);
void gd_call_write(struct pod_driver *base, const struct pod_driver_call *call,
                   uint64_t buffer, uint64_t offset, struct pod_blob *data,
                   size_t data_offset, size_t count);
void gd_call_read(struct pod_driver *base, const struct pod_driver_call *call,
                  uint64_t buffer, uint64_t offset, size_t count);
void gd_call_copy(struct pod_driver *base, const struct pod_driver_call *call,
                  uint64_t from, uint64_t to);
void gd_call_copy_from_peer(struct pod_driver *base,
                            const struct pod_driver_call *call, uint32_t host,
                            uint64_t from, uint64_t to);
void gd_call_compile(struct pod_driver *base,
                     const struct pod_driver_call *call,
                     enum pod_program_format format, struct pod_blob *program,
                     uint32_t replicas);
void gd_call_load(struct pod_driver *base, const struct pod_driver_call *call,
                  uint32_t core, uint64_t program);
void gd_call_execute(struct pod_driver *base,
                     const struct pod_driver_call *call,
                     const struct pod_driver_execute *execute);
void gd_call_reset(struct pod_driver *base, const struct pod_driver_call *call);
void gd_call_cancel(struct pod_driver *base, uint64_t op);
// The stream on which a request travels.
enum gd_stream gd_request_stream(const struct gd_request *request);
// The number of a handle in this session; 0: it has none, *err is set.
uint64_t gd_handle_locked(struct gd *driver, uint64_t handle,
                          struct pod_err *err);
// The number of an operation that may be waited for; 0: it is over.
uint64_t gd_wait_locked(const struct gd *driver, uint64_t op);
// The number of an operation that is open; 0: it is over.
uint64_t gd_order_locked(const struct gd *driver, uint64_t op);
// Answers the first of the refused. The lock is given up in between.
void gd_refused_answer_locked(struct gd *driver);

// ----------------------------------------------------- grpc_driver_answers.c

// What the worker says of an operation.
struct gd_outcome {
    uint64_t wire;
    bool started;
    bool done;             // else nothing of the following is set
    struct pod_err err;    // code POD_OK: it went well
    struct pod_blob *data; // with a reference of the caller
    bool whole;            // the data is the whole buffer
    const struct pod_program_shape *shape;
};

enum { GD_TOGETHER_MAX = 64 };

// Calls that one message answered well, and that are to be told together: while
// there is one the driver is `delivering`.
struct gd_together {
    size_t count;
    struct pod_driver_well calls[GD_TOGETHER_MAX];
};

// Answers, if the link is the present one and the operation is open: at once,
// or with others by gd_tell_together.
void gd_outcome(struct gd_link *link, struct gd_outcome *outcome,
                struct gd_together *together);
// At the end of a message.
void gd_tell_together(struct gd *driver, struct gd_together *together);
// Answers all open ones below `below` in the same way. Gives up the lock in
// between.
void gd_end_all_locked(struct gd *driver, uint64_t below,
                       const struct pod_driver_result *result);
// Frees it; its numbers are nothing's any more. NULL is allowed.
void gd_item_free_locked(struct gd *driver, struct gd_item *item);
// Forgets all handles and failures below that number.
void gd_handles_drop_locked(struct gd *driver, uint64_t below);

// ------------------------------------------------------ grpc_driver_failed.c

// The operation of that number has failed, or was refused here.
void gd_failed_note_locked(struct gd *driver, uint64_t op);
// Whether a call can be sent as far as those it waits for are concerned: the
// worker knows them, or they went well. DEPENDENCY_EXPIRED.
enum pod_code gd_failed_check_locked(const struct gd *driver,
                                     const struct pod_driver_call *call,
                                     struct pod_err *err)
    __attribute__((warn_unused_result));

// --------------------------------------------------------- grpc_driver_hub.c

struct rpc_loop *gd_hub_loop(struct pod_grpc_hub *hub);
const struct rpc_tls *gd_hub_tls(const struct pod_grpc_hub *hub);
uint64_t gd_hub_salt(const struct pod_grpc_hub *hub);
bool gd_hub_trusts_order(const struct pod_grpc_hub *hub);
// False: no memory.
bool gd_hub_join(struct pod_grpc_hub *hub, struct gd *driver)
    __attribute__((warn_unused_result));
// Nobody looks at the driver any more when this returns.
void gd_hub_leave(struct pod_grpc_hub *hub, const struct gd *driver);
// A host's session, 0: none. Lock ranks: after a driver's.
void gd_hub_set_session(struct pod_grpc_hub *hub, uint32_t host,
                        uint64_t session);
uint64_t gd_hub_session(struct pod_grpc_hub *hub, uint32_t host);
// Its address, which lives as long as the hub; NULL: it is not there.
const char *gd_hub_address(struct pod_grpc_hub *hub, uint32_t host);
// Its driver, which is not freed before gd_hub_let_go; NULL: it is not there.
struct gd *gd_hub_hold(struct pod_grpc_hub *hub, uint32_t host);
void gd_hub_let_go(struct pod_grpc_hub *hub, uint32_t host);

#endif
