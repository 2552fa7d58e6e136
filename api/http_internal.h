// SPDX-License-Identifier: Apache-2.0
// What the files of the HTTP layer share. For api/ infrastructure only;
// handlers use the public headers.
//
// Who owns what: the server owns connections (from accept to close), a
// connection owns at most one request (from its headers to the end of its
// answer), a request owns its body, reply, park and deferred cleanups.
// Everything belongs to the loop's thread but struct api_shared and the
// atomics.
#ifndef POD_API_HTTP_INTERNAL_H
#define POD_API_HTTP_INTERNAL_H

#include <jansson.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/auth.h"
#include "api/body.h"
#include "api/http.h"
#include "api/keyed.h"
#include "api/live.h"
#include "api/memory.h"
#include "api/park.h"
#include "api/problem.h"
#include "api/rate.h"
#include "api/route.h"
#include "api/server.h"
#include "api/tls.h"
#include "api/traffic.h"
#include "api/worker.h"
#include "core/base/list.h"
#include "core/base/lock.h"
#include "core/base/map.h"
#include "core/base/str.h"

// ------------------------------------------------------------- connections

// What a connection is doing. Each phase has one delay, so its list is in
// order of deadlines and the first item is the next to expire.
enum api_phase {
    API_PHASE_NEW,     // accepted, no whole request line yet
    API_PHASE_HEADERS, // request line seen
    API_PHASE_JSON,    // body, one absolute deadline
    API_PHASE_DATA,    // body, looked at now and then: a least rate
    API_PHASE_GONE,    // closed by the client: is there more to read?
    API_PHASE_REPLY,   // answer leaving, looked at now and then
    API_PHASE_IDLE,    // between requests
    API_PHASE_COUNT,
    API_PHASE_NONE, // handler at work or parked: no deadline of this kind
};

// So many connections over a limit are accepted only to be answered with 503;
// any more are closed without an answer.
enum { API_SURPLUS_CONNECTIONS = 64 };

// One client address: an IPv4 address or an IPv6 /64.
struct api_address {
    uint64_t key;
    unsigned connections;
    unsigned surplus; // connections that will only be refused
    unsigned parked;
    unsigned streams;
};

// What the loop's epoll set points at, besides the server and its descriptors.
enum api_watched_kind { API_WATCHED_CONN, API_WATCHED_LINGER };
struct api_watched {
    enum api_watched_kind kind;
};

struct api_conn {
    struct api_watched watched;
    struct api_server *server;
    struct pod_list all_link;
    struct pod_list phase_link;
    enum api_phase phase;
    int64_t deadline_ns; // of the phase
    struct MHD_Connection *connection;
    int fd;     // libmicrohttpd's
    bool local; // a Unix socket, and the user at its other end
    uid_t uid;
    bool hung_up; // the client has closed its sending half
    bool refused; // shut down by us; only waits to be closed
    bool surplus; // over a cap; unless others go it is answered so
    bool linger;  // bytes of its body may still come when it closes
    struct api_address *address;
    char client[48];
    char *target;            // raw, of the request whose headers are coming
    uintptr_t target_place;  // where libmicrohttpd keeps it; never followed
    struct api_request *req; // or NULL
    int64_t sent_bytes;      // acknowledged at the last look
};

// NOTIFY_CONNECTION and the accept policy of libmicrohttpd.
void api_conn_notify(void *arg, struct MHD_Connection *connection,
                     void **socket_context,
                     enum MHD_ConnectionNotificationCode code);
enum MHD_Result api_conn_accept(void *arg, const struct sockaddr *address,
                                socklen_t length);
// Before a request of it is looked at. TOO_MANY_CONNECTIONS: it came over a
// cap, and there is still no place for it.
enum pod_code api_conn_admit(struct api_conn *conn, struct pod_err *err);
// URI_LOG: the request line is there.
void *api_conn_target(void *arg, const char *target,
                      struct MHD_Connection *connection);
struct api_conn *api_conn_of(struct MHD_Connection *connection);
void api_conn_enter(struct api_conn *conn, enum api_phase phase);
// epoll says that the client has closed.
void api_conn_hang_up(struct api_conn *conn);
// Closes what is past its deadline.
void api_conn_expire(struct api_server *server);
// When that is next needed, POD_NEVER: not.
int64_t api_conn_next_deadline(const struct api_server *server);
// Sends a problem document on a connection on which libmicrohttpd cannot
// answer (in the middle of a request) and shuts its sending half.
void api_conn_last_words(struct api_conn *conn, const struct pod_err *err);

// Accepting (accept.c). Accepts those in the queue if it is time to; for the
// loop alone, as it may end connections.
void api_accept_new(struct api_server *server);
// A descriptor is about to be free: if there was none, it is tried in the next
// turn.
void api_accept_soon(struct api_server *server);
// Nobody is accepted any more.
void api_accept_end(struct api_server *server);

// Keeps the socket of a closing connection until the client has closed too,
// for a while (linger.c).
void api_linger_start(struct api_conn *conn);
void api_linger_ready(struct api_server *server, struct api_watched *watched);
int64_t api_linger_next_deadline(const struct api_server *server);
// Closes those whose time is up; POD_NEVER: all.
void api_linger_expire(struct api_server *server, int64_t now_ns);

// ----------------------------------------------------------------- requests

struct api_parameter {
    const char *name;
    const char *value;
    bool known; // a handler asked for it
};

struct api_cleanup {
    void (*run)(void *arg);
    void *arg;
    struct api_cleanup *next;
};

struct api_arena_chunk {
    struct api_arena_chunk *next;
};

struct api_reply_header {
    const char *name;
    const char *value;
    struct api_reply_header *next;
};

struct api_body {
    enum api_body_kind kind;
    bool chunked;
    int64_t declared; // Content-Length, -1: none
    uint64_t exactly; // UINT64_MAX: any
    uint64_t received;
    char type[128];      // media type, lower case
    struct pod_str text; // JSON as it arrives
    size_t json_held;    // counted in the server's json_held
    struct api_memory json_memory;
    json_t *json;          // in it
    struct pod_blob *blob; // data as it arrives; size is its capacity until
    uint64_t blob_used;    // the body is whole
    api_piece_fn *take;    // of PIECES
};

enum api_stage {
    API_STAGE_HEADERS,
    API_STAGE_BODY,
    API_STAGE_HANDLING, // in a handler
    API_STAGE_PARKED,
    API_STAGE_REPLYING,
};

struct api_request {
    struct api_server *server;
    struct api_conn *conn;
    struct MHD_Connection *connection;
    enum api_stage stage;
    enum api_method method;
    const char *method_text;
    const char *target;
    const char *path;
    struct api_match match;
    const char *params[API_PARAMS_MAX]; // terminated copies
    char id[POD_REQUEST_ID_BYTES];
    struct pod_trace *trace; // NULL: nobody asked yet
    int64_t started_ns;
    int64_t body_started_ns;
    bool close;      // end the connection after the answer
    bool suspended;  // at libmicrohttpd
    bool abandoned;  // drop the connection when next run
    bool whole;      // the handler has been called
    bool drain_told; // DRAIN is told once
    struct api_parameter *parameters;
    size_t parameter_count;
    struct api_body body;

    char identity[24];         // api_identity
    enum api_scope scope;      // what it may do
    uint64_t caller_key;       // of its token or user; 0: nobody we know
    struct api_caller *caller; // it is counted there (quota.c), or NULL
    struct api_keyed *keyed;   // its Idempotency-Key, or NULL

    // The reply.
    struct MHD_Response *response;
    int status;
    uint64_t body_bytes; // of the answer's body, as far as they were given
    struct api_reply_header *headers;
    struct pod_stream *stream;
    struct pod_blob *stream_prefix;
    struct pod_blob *stream_chunk; // being sent
    uint64_t stream_chunk_start;   // its place in the body
    bool stream_starved;           // waited for us since the last look
    bool discarding;               // answered early: the body is thrown away
    uint64_t discarded;

    // An answer without end (live.c).
    api_live_fn *live;
    int64_t live_until_ns;

    // Parking (park.c).
    api_resume_fn *resume;
    int64_t park_deadline_ns;
    int64_t park_cap_ns; // 0: not parked yet
    size_t heap_index;   // 1-based; 0: not in the heap
    uint64_t held_turn;  // in which it was held first, 0: never
    bool counted;        // among the parked
    bool woken;
    enum api_wake wake;
    struct pod_list wake_link;   // on server->wakes
    struct pod_list thread_link; // on server->shared.woken

    // Watches (watch.c).
    struct pod_list watches;
    size_t watches_pending;
    bool watch_all;
    bool watching; // the clean-up is deferred

    void *state;
    struct api_cleanup *cleanups;
    struct api_arena_chunk *chunks;
    size_t arena_used;
    _Alignas(max_align_t) unsigned char arena[1024];
};

// Frees the memory that was kept for requests to come.
void api_request_free_spare(struct api_server *server);

// The access handler and the completion callback of libmicrohttpd.
enum MHD_Result api_request_step(void *arg, struct MHD_Connection *connection,
                                 const char *url, const char *method,
                                 const char *version, const char *data,
                                 size_t *data_size, void **context);
void api_request_completed(void *arg, struct MHD_Connection *connection,
                           void **context,
                           enum MHD_RequestTerminationCode code);
void api_request_free(struct api_request *req);

// Framing, Host, origin: what is refused before routing. An error of reason
// BAD_FRAMING closes the connection (guard.c).
enum pod_code api_guard(struct api_request *req, const char *version,
                        struct pod_err *err)
    __attribute__((warn_unused_result));
// Whether a Host value (with or without port) is one of ours.
bool api_host_allowed(const struct api_server *server, const char *host);
// Whether the request comes from a page of an origin that was listed.
bool api_origin_listed(const struct api_request *req);
// Adds the CORS headers for a listed origin to the reply.
void api_guard_cors(struct api_request *req);

// Splits and decodes the target into path and parameters (target.c).
enum pod_code api_target_parse(struct api_request *req, struct pod_err *err)
    __attribute__((warn_unused_result));
// The authority of an absolute-form target, or false.
bool api_target_authority(const char *target, const char **out_start,
                          size_t *out_length, const char **out_path);

// Bodies (body.c).
void api_body_init(struct api_request *req);
void api_body_fini(struct api_request *req);
bool api_body_expected(const struct api_request *req);
// Limit, used and maximum for the metadata of a refusal, or NULL.
json_t *api_body_metadata(const struct api_request *req,
                          const struct pod_err *err);
// After on_headers: checks types and lengths, takes the budget.
enum pod_code api_body_admit(struct api_request *req, struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code api_body_append(struct api_request *req, const char *data,
                              size_t size, struct pod_err *err)
    __attribute__((warn_unused_result));
// The body is whole: parse it.
enum pod_code api_body_finish(struct api_request *req, struct pod_err *err)
    __attribute__((warn_unused_result));

// Replies (reply.c). The last touch before a response is queued.
void api_reply_decorate(struct api_request *req);
// A body of `total` bytes (MHD_SIZE_UNKNOWN: who knows) that `read` gives.
void api_reply_reader(struct api_request *req, int status, const char *type,
                      uint64_t total, size_t block,
                      MHD_ContentReaderCallback read);

// Parking (park.c).
void api_park_leave(struct api_request *req);  // forget heap, lists and counts
void api_park_unlist(struct api_request *req); // forget heap and lists alone
void api_park_expire(struct api_server *server);
int64_t api_park_next_deadline(const struct api_server *server);
// Tells all parked requests to answer, or drops them.
void api_park_drain(struct api_server *server);
void api_park_abandon(struct api_server *server);
// Resumes what was woken; true if anything was.
bool api_park_apply(struct api_server *server);
// Moves what other threads woke to this turn's wakes.
void api_park_collect(struct api_server *server);
void api_suspend(struct api_request *req);
// Whether a parked request stays with libmicrohttpd for this turn, which then
// runs it again; if not, it is to be suspended.
bool api_park_hold(struct api_request *req);
// Has a request that is answered already wake at a time at the latest. False:
// no memory.
bool api_park_alarm(struct api_request *req, int64_t deadline_ns);
// Has a suspended request run again soon, whatever it waits for.
void api_wake_soon(struct api_request *req, enum api_wake why);

// ------------------------------------------------------------------- server

// What other threads may touch.
struct api_shared {
    struct pod_mutex lock;
    struct pod_list woken; // requests, by thread_link
};

struct api_server {
    struct api_limits limits;
    const struct api_route *routes;
    size_t route_count;
    void *app;
    void (*on_notify)(struct api_server *server, void *arg);
    void *on_notify_arg;
    void (*on_turn)(struct api_server *server, void *arg);
    struct api_budget staging;
    struct api_auth auth;
    struct api_tls *tls; // NULL: plain HTTP
    struct api_rate rate;
    struct api_traffic traffic;
    struct pod_map callers;             // key -> struct api_caller, in flight
    bool local;                         // it listens on a Unix socket
    struct api_file_stamp socket_stamp; // as it was made
    struct api_answers *answers;        // of Idempotency-Keys
    uint8_t key_secret[16];             // of this run, in the names of keys
    char **hosts; // allowed, with the listen address; lower case, no port
    size_t host_count;
    char **origins;
    size_t origin_count;

    char address[128];
    unsigned port;
    int listen_fd;
    int epoll_fd;
    int event_fd;
    struct MHD_Daemon *daemon;
    pthread_t thread;
    bool running; // the thread is there to be joined

    atomic_bool draining;
    atomic_bool stopping;
    atomic_bool notified; // on_notify is due
    atomic_bool reload;   // files are to be looked at
    _Atomic int64_t stop_deadline_ns;
    _Atomic uint64_t connections;
    _Atomic uint64_t parked;
    _Atomic uint64_t streams;
    _Atomic uint64_t requests;
    _Atomic uint64_t refused;
    unsigned surplus; // connections over a cap; the loop's thread alone

    // The loop's own.
    int64_t now_ns;       // of this turn
    int64_t notify_at_ns; // when on_notify is due by itself
    int64_t accept_at_ns; // when to try it again; POD_NEVER: nothing is wrong
    bool accept_ready;    // somebody waits in the queue
    bool accept_failed;   // for want of something, at the last try
    unsigned kicks;       // turns that must not block
    uint64_t turn;        // its number, from 1
    bool held;            // a request was held in its last run
    bool drain_done;
    bool abandon_done;
    struct pod_list conns;
    struct pod_list phases[API_PHASE_COUNT];
    struct pod_list lingering;
    unsigned linger_count;
    struct pod_map addresses; // key -> struct api_address
    struct pod_list wakes;    // requests to resume at this turn's end
    struct pod_list spare;    // memory of ended requests, by wake_link
    unsigned spare_count;
    char scratch[16 * 1024]; // where answers are written before they are copied
    struct api_memory json;  // what they are made of meanwhile
    uint64_t id_state;       // of the generator of request ids
    struct api_request **heap; // parked, by deadline
    size_t heap_count;
    size_t heap_capacity;
    unsigned in_flight; // requests
    size_t json_held;
    struct api_shared shared;
    struct api_worker worker;
};

// One listening socket (listen.c). out_address is "127.0.0.1:43211", or as it
// was given "unix:PATH"; a socket file that nobody listens on is replaced.
enum pod_code api_listen(const char *listen, int *out_fd, char *out_address,
                         size_t address_bytes, unsigned *out_port,
                         struct pod_err *err)
    __attribute__((warn_unused_result));

// Has the loop run a turn soon. From any thread.
void api_server_wake_loop(struct api_server *server);

// The loop's thread (loop.c). `arg` is the server.
void *api_loop_main(void *arg);

#endif
