// SPDX-License-Identifier: Apache-2.0
// The HTTP server: one thread, one loop, many connections.
//
// libmicrohttpd parses and writes HTTP; the loop around it is ours (its own
// epoll thread stalls when a multiple of 128 events is ready). Handlers run on
// the loop's thread and never block: they reply, or park (park.h).
//
// The order at the end of a server's life: api_server_drain (parked requests
// answer with the present state), the owner lets operations end,
// api_server_stop, api_server_free, and then the engine may go.
#ifndef POD_API_SERVER_H
#define POD_API_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/idempotency.h"
#include "api/route.h"
#include "core/base/err.h"

struct api_server;

// All limits; zero means the default in brackets.
struct api_limits {
    unsigned connections;             // in all [12,000]
    unsigned connections_per_address; // [connections]
    unsigned requests_per_token;      // in flight, of one token [connections]
    unsigned requests_per_s;          // of one token or address [no limit]
    unsigned parked;                  // parked requests in all [10,000]
    unsigned parked_per_address;      // [parked]
    unsigned streams;                 // answers without end (live.h) [4,000]
    unsigned streams_per_address;     // [streams]
    size_t header_bytes;              // request line and headers [8 KiB]
    size_t json_bytes;                // one JSON body [1 MiB]
    size_t json_total_bytes;          // JSON bodies held at once [64 MiB]
    size_t json_values;               // values in a JSON body [200,000]
    unsigned json_depth;              // nesting of a JSON body [32]
    uint64_t data_bytes_per_s;        // the slowest upload of data [64 KiB]
    int64_t header_ns;                // from connect to whole headers [10 s]
    int64_t json_body_ns;             // from headers to whole body [30 s]
    int64_t data_grace_ns;            // before the rate counts [10 s]
    int64_t idle_ns;                  // between requests [75 s]
    int64_t stall_ns;                 // an answer that does not move [30 s]
    uint64_t reply_bytes_per_s;       // what counts as moving [1 KiB]
    int64_t wait_ns;                  // cap on a park [55 s]
    int64_t bookmark_ns;              // a live stream says something [15 s]
};

// The byte budget that bodies of data are held against. All NULL: no budget.
// Thread-safe functions; `give` may be called after the server is gone.
struct api_budget {
    bool (*take)(void *arg, size_t bytes);
    void (*give)(void *arg, size_t bytes);
    void (*usage)(void *arg, uint64_t *out_used, uint64_t *out_max);
    void *arg;
};

struct api_server_options {
    // "127.0.0.1:8480", "[::1]:0" (port 0 picks one), or "unix:PATH": a
    // socket file of mode 0660.
    const char *listen;
    const char *token_file; // auth.h; NULL: nobody needs a token
    const char *tls_cert;   // tls.h; both or none
    const char *tls_key;
    // Host names that are ours besides the loopback names and the listen
    // address: without port, IPv6 in brackets.
    const char *const *allowed_hosts;
    size_t allowed_host_count;
    // Origins ("https://pod.example") whose pages may change state besides
    // our own. None by default.
    const char *const *allowed_origins;
    size_t allowed_origin_count;
    const struct api_route *routes; // must outlive the server
    size_t route_count;
    struct api_limits limits;
    struct api_budget staging;
    struct api_answers_limits answers; // of requests with an Idempotency-Key
    void *app;                         // handed to handlers (api_app)
    // Called on the loop's thread after api_server_notify, once for any number
    // of notifications, to collect woken waiters (api_watch_collect). May be
    // NULL.
    void (*on_notify)(struct api_server *server, void *arg);
    void *on_notify_arg;
    // Called on the loop's thread when all requests of a turn have been
    // handled, with on_notify_arg, to hand what they have submitted to the
    // hosts at once. May be NULL.
    void (*on_turn)(struct api_server *server, void *arg);
};

// Binds and listens; connections are answered once api_server_start has been
// called. Everything in `options` but the routes is copied. Errors: BAD_VALUE
// (an address that cannot be parsed, an unusable file), UNAVAILABLE with the
// address and the cause (a port in use), OUT_OF_MEMORY.
enum pod_code api_server_new(const struct api_server_options *options,
                             struct api_server **out_server,
                             struct pod_err *err)
    __attribute__((warn_unused_result));

// Starts the loop's thread.
enum pod_code api_server_start(struct api_server *server, struct pod_err *err)
    __attribute__((warn_unused_result));

// The address it really listens on, "127.0.0.1:43211". Lives as long as the
// server.
const char *api_server_address(const struct api_server *server);
// 0 for an address without port.
unsigned api_server_port(const struct api_server *server);

// Makes the server look at its files of tokens and certificates now. From any
// thread.
void api_server_reload(struct api_server *server);

// Wakes the loop and has on_notify called. From any thread, with any lock held.
void api_server_notify(struct api_server *server);
// Makes on_notify be called at that time, unless it is called before anyway: an
// earlier time replaces a later one. On the loop's thread.
void api_server_notify_at(struct api_server *server, int64_t mono_ns);

// Wakes parked requests with API_WAKE_DRAIN, and from now on every request that
// parks, at once. Requests are still answered, each with "Connection: close".
// From any thread.
void api_server_drain(struct api_server *server);
bool api_server_draining(const struct api_server *server);

// Stops accepting, answers what is parked, gives answers that are on their
// way at most `grace_ns` to leave, then ends the thread. Blocks. Idempotent.
void api_server_stop(struct api_server *server, int64_t grace_ns);
// After api_server_stop, or instead of start. NULL is allowed.
void api_server_free(struct api_server *server);

// For /metrics and the tests. From any thread; the values are not read at one
// moment.
struct api_server_counts {
    uint64_t connections; // open now
    uint64_t parked;      // now
    uint64_t streams;     // now
    uint64_t requests;    // completed, ever
    uint64_t refused;     // connections closed for a limit or a deadline, ever
};
void api_server_counts(const struct api_server *server,
                       struct api_server_counts *out_counts);

#endif
