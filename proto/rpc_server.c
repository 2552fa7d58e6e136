// SPDX-License-Identifier: Apache-2.0
// For each method, and for all unknown ones, one accept is pending at any time:
// a place for gRPC to put the next call. `live` counts what gRPC still holds
// (accepts, calls, the notice of the shutdown); the server has stopped when it
// is zero.
#include "proto/rpc_server.h"

#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "proto/rpc_internal.h"
#include "proto/rpc_tls.h"

enum {
    SERVER_KEEPALIVE_MS = 20000,
    SERVER_REPLY_OPS = 4,
    SERVER_TEXT_BYTES = 256,
};

struct server_accept {
    struct rpc_tag tag;
    struct rpc_server *server;
    const struct rpc_method *method; // NULL: unknown methods
    void *registered;
    grpc_call *call;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    grpc_byte_buffer *payload;
    grpc_call_details details; // of an unknown method
};

struct rpc_server {
    struct pod_mutex lock; // guards the next three
    struct pod_cond changed;
    size_t live;
    bool stopping;
    // Constant.
    struct rpc_loop *loop;
    grpc_server *server;
    struct rpc_tag shutdown_tag;
    char *address;
    size_t method_count;
    struct rpc_method methods[RPC_SERVER_MAX_METHODS];
    struct server_accept accepts[RPC_SERVER_MAX_METHODS + 1];
};

struct rpc_request {
    struct rpc_tag tag;
    struct rpc_server *server;
    grpc_call *call;
    grpc_byte_buffer *sending;
    char *peer;
    int cancelled;
};

static void server_live_add(struct rpc_server *server)
{
    pod_mutex_lock(&server->lock);
    server->live++;
    pod_mutex_unlock(&server->lock);
}

static void server_live_drop(struct rpc_server *server)
{
    pod_mutex_lock(&server->lock);
    server->live--;
    pod_cond_broadcast(&server->changed);
    pod_mutex_unlock(&server->lock);
}

// ------------------------------------------------------------------ answering

static void request_done(struct rpc_tag *tag, bool ok)
{
    struct rpc_request *request = POD_CONTAINER(tag, struct rpc_request, tag);
    struct rpc_server *server = request->server;
    (void)ok; // a client that has gone does not matter any more
    grpc_byte_buffer_destroy(request->sending);
    grpc_call_unref(request->call);
    gpr_free(request->peer);
    pod_free(request);
    server_live_drop(server);
}

static void request_end(struct rpc_request *request, enum pod_code code,
                        const char *text)
{
    grpc_slice details = grpc_slice_from_copied_string(text);
    grpc_op ops[SERVER_REPLY_OPS];
    size_t count = 0;
    memset(ops, 0, sizeof(ops));
    ops[count++].op = GRPC_OP_SEND_INITIAL_METADATA;
    if (request->sending != NULL) {
        ops[count].op = GRPC_OP_SEND_MESSAGE;
        ops[count++].data.send_message.send_message = request->sending;
    }
    ops[count].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[count].data.send_status_from_server.status = (grpc_status_code)code;
    ops[count++].data.send_status_from_server.status_details = &details;
    ops[count].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    ops[count++].data.recv_close_on_server.cancelled = &request->cancelled;
    rpc_start(request->call, ops, count, &request->tag);
    grpc_slice_unref(details);
}

void rpc_request_reply(struct rpc_request *owned_request,
                       struct pod_wire_out *owned_reply)
{
    struct pod_list list;
    if (owned_reply != NULL) {
        pod_list_init(&list);
        pod_list_push_back(&list, &owned_reply->link);
        owned_request->sending = rpc_bytes_join(&list);
    }
    if (owned_request->sending != NULL)
        request_end(owned_request, POD_OK, "");
    else
        request_end(owned_request, POD_RESOURCE_EXHAUSTED, "no memory");
}

void rpc_request_fail(struct rpc_request *owned_request, enum pod_code code,
                      const char *text)
{
    request_end(owned_request, code, text);
}

const char *rpc_request_peer(struct rpc_request *request)
{
    if (request->peer == NULL)
        request->peer = grpc_call_get_peer(request->call);
    return request->peer;
}

static struct rpc_request *request_new(struct rpc_server *server,
                                       grpc_call *call)
{
    struct rpc_request *request = pod_calloc(1, sizeof(*request));
    if (request == NULL)
        return NULL;
    request->tag.run = request_done;
    request->server = server;
    request->call = call;
    return request;
}

// ------------------------------------------------------------------ accepting

static void accept_arm(struct server_accept *accept)
{
    struct rpc_server *server = accept->server;
    grpc_completion_queue *queue = rpc_loop_queue(server->loop);
    grpc_call_error fault;
    accept->call = NULL;
    accept->payload = NULL;
    grpc_metadata_array_init(&accept->metadata);
    rpc_will_start();
    if (accept->method == NULL) {
        grpc_call_details_init(&accept->details);
        fault = grpc_server_request_call(server->server, &accept->call,
                                         &accept->details, &accept->metadata,
                                         queue, queue, &accept->tag);
    } else {
        bool unary = accept->method->unary != NULL;
        fault = grpc_server_request_registered_call(
            server->server, accept->registered, &accept->call,
            &accept->deadline, &accept->metadata,
            unary ? &accept->payload : NULL, queue, queue, &accept->tag);
    }
    if (fault == GRPC_CALL_OK)
        return;
    pod_log(POD_LOG_ERROR, "grpc", "no more calls are accepted: %s",
            grpc_call_error_to_string(fault));
    server_live_drop(server);
}

// The call that an accept got, moved out of it so that it can be armed again.
struct server_arrival {
    grpc_call *call;
    grpc_byte_buffer *payload;
    char method[SERVER_TEXT_BYTES];
};

static void accept_take(struct server_accept *accept,
                        struct server_arrival *out)
{
    out->call = accept->call;
    out->payload = accept->payload;
    grpc_metadata_array_destroy(&accept->metadata);
    if (accept->method != NULL)
        return;
    (void)snprintf(out->method, sizeof(out->method), "no method %.*s",
                   (int)GRPC_SLICE_LENGTH(accept->details.method),
                   (const char *)GRPC_SLICE_START_PTR(accept->details.method));
    grpc_call_details_destroy(&accept->details);
}

static void serve_unary(struct rpc_server *server,
                        const struct rpc_method *method,
                        struct server_arrival *arrival)
{
    struct rpc_request *request = request_new(server, arrival->call);
    struct rpc_flat flat;
    if (request == NULL) {
        grpc_byte_buffer_destroy(arrival->payload);
        grpc_call_unref(arrival->call); // cancels it
        server_live_drop(server);
        return;
    }
    if (arrival->payload == NULL) {
        rpc_request_fail(request, POD_INVALID_ARGUMENT, "no message came");
    } else if (!rpc_bytes_flatten(arrival->payload, &flat)) {
        rpc_request_fail(request, POD_INTERNAL, "the message is unreadable");
    } else {
        method->unary(method->arg, request, flat.data, flat.size);
        rpc_flat_fini(&flat);
    }
}

static void serve_unknown(struct rpc_server *server,
                          struct server_arrival *arrival)
{
    struct rpc_request *request = request_new(server, arrival->call);
    if (request != NULL) {
        rpc_request_fail(request, POD_UNIMPLEMENTED, arrival->method);
        return;
    }
    grpc_call_unref(arrival->call);
    server_live_drop(server);
}

static void serve_gone(void *arg)
{
    server_live_drop(arg);
}

static void serve_stream(struct rpc_server *server,
                         const struct rpc_method *method,
                         struct server_arrival *arrival)
{
    struct rpc_stream *stream =
        rpc_stream_new(server->loop, arrival->call, true, &method->settings);
    if (stream == NULL) {
        grpc_call_unref(arrival->call);
        server_live_drop(server);
        return;
    }
    stream->gone = serve_gone;
    stream->gone_arg = server;
    method->opened(method->arg, stream, &stream->events, &stream->arg);
    rpc_stream_begin(stream);
}

static void accept_arrived(struct rpc_tag *tag, bool ok)
{
    struct server_accept *accept =
        POD_CONTAINER(tag, struct server_accept, tag);
    struct rpc_server *server = accept->server;
    struct server_arrival arrival = {.call = NULL};
    accept_take(accept, &arrival);
    if (!ok) { // the server is stopping
        server_live_drop(server);
        return;
    }
    server_live_add(server);
    accept_arm(accept);
    if (accept->method == NULL)
        serve_unknown(server, &arrival);
    else if (accept->method->unary != NULL)
        serve_unary(server, accept->method, &arrival);
    else
        serve_stream(server, accept->method, &arrival);
}

// --------------------------------------------------------------------- making

static grpc_server *server_create(const struct rpc_server_options *options)
{
    struct {
        const char *key;
        int value;
    } const settings[] = {
        {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
         options->max_receive_bytes > 0 ? options->max_receive_bytes : INT_MAX},
        {GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, INT_MAX},
        {GRPC_ARG_MAX_CONCURRENT_STREAMS, RPC_SERVER_MAX_STREAMS},
        {GRPC_ARG_ALLOW_REUSEPORT, 0},
        // Clients may probe as often as they like, and are probed, so that
        // what a vanished one holds is freed.
        {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 100},
        {GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0},
        {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},
        {GRPC_ARG_KEEPALIVE_TIME_MS, SERVER_KEEPALIVE_MS},
        {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, SERVER_KEEPALIVE_MS},
        {GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0},
    };
    enum { COUNT = sizeof(settings) / sizeof(settings[0]) };
    grpc_arg args[COUNT];
    memset(args, 0, sizeof(args));
    for (size_t i = 0; i < COUNT; i++) {
        args[i].type = GRPC_ARG_INTEGER;
        memcpy(&args[i].key, &settings[i].key, sizeof(args[i].key));
        args[i].value.integer = settings[i].value;
    }
    grpc_channel_args channel_args = {.num_args = COUNT, .args = args};
    return grpc_server_create(&channel_args, NULL);
}

static void server_register(struct rpc_server *server,
                            const struct rpc_server_options *options)
{
    for (size_t i = 0; i <= options->method_count; i++) {
        struct server_accept *accept = &server->accepts[i];
        accept->tag.run = accept_arrived;
        accept->server = server;
        if (i == options->method_count)
            continue;
        server->methods[i] = options->methods[i];
        accept->method = &server->methods[i];
        accept->registered = grpc_server_register_method(
            server->server, accept->method->path, NULL,
            accept->method->unary != NULL
                ? GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER
                : GRPC_SRM_PAYLOAD_NONE,
            0);
    }
    server->method_count = options->method_count;
}

static char *server_address(const char *listen, int port)
{
    char text[SERVER_TEXT_BYTES];
    const char *colon = strrchr(listen, ':');
    if (strncmp(listen, "unix:", 5) == 0 || colon == NULL)
        return pod_strdup(listen);
    (void)snprintf(text, sizeof(text), "%.*s:%d", (int)(colon - listen), listen,
                   port);
    return pod_strdup(text);
}

static enum pod_code server_bind(struct rpc_server *server,
                                 const struct rpc_server_options *options,
                                 struct pod_err *err)
{
    grpc_server_credentials *credentials = NULL;
    enum pod_code code = rpc_tls_server(options->tls, &credentials, err);
    if (code != POD_OK)
        return code;
    int port = grpc_server_add_http2_port(server->server, options->listen,
                                          credentials);
    grpc_server_credentials_release(credentials);
    if (port == 0)
        return pod_err_set(
            err, POD_REASON_RESOURCE_EXHAUSTED,
            options->tls == NULL
                ? "cannot listen at '%s': it is taken, or is not an address of "
                  "this machine"
                : "cannot listen at '%s': it is taken, is no address of this "
                  "machine, or the certificate and key do not fit",
            options->listen);
    server->address = server_address(options->listen, port);
    return server->address != NULL
               ? POD_OK
               : pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
}

static void server_shut(struct rpc_tag *tag, bool ok)
{
    struct rpc_server *server =
        POD_CONTAINER(tag, struct rpc_server, shutdown_tag);
    (void)ok;
    server_live_drop(server);
}

enum pod_code rpc_server_new(struct rpc_loop *loop,
                             const struct rpc_server_options *options,
                             struct rpc_server **out_server,
                             struct pod_err *err)
{
    if (options->method_count > RPC_SERVER_MAX_METHODS)
        return pod_err_set(err, POD_REASON_BAD_VALUE, "too many methods");
    struct rpc_server *server = pod_calloc(1, sizeof(*server));
    if (server == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    pod_mutex_init(&server->lock, POD_RANK_RPC, "rpc server");
    pod_cond_init(&server->changed);
    server->loop = loop;
    server->shutdown_tag.run = server_shut;
    server->server = server_create(options);
    grpc_server_register_completion_queue(server->server, rpc_loop_queue(loop),
                                          NULL);
    server_register(server, options);
    enum pod_code code = server_bind(server, options, err);
    grpc_server_start(server->server);
    for (size_t i = 0; code == POD_OK && i <= server->method_count; i++) {
        server_live_add(server);
        accept_arm(&server->accepts[i]);
    }
    if (code != POD_OK) {
        rpc_server_free(server);
        return code;
    }
    if (options->tick_ns > 0)
        rpc_loop_set_tick(loop, options->tick_ns, options->tick,
                          options->tick_arg);
    *out_server = server;
    return POD_OK;
}

const char *rpc_server_address(const struct rpc_server *server)
{
    return server->address;
}

// ------------------------------------------------------------------- stopping

static bool server_wait_locked(struct rpc_server *server, int64_t until_ns)
{
    while (server->live > 0) {
        if (!pod_cond_wait_until(&server->changed, &server->lock, until_ns))
            return server->live == 0;
    }
    return true;
}

void rpc_server_stop(struct rpc_server *server, int64_t grace_ns)
{
    pod_mutex_lock(&server->lock);
    bool first = !server->stopping;
    server->stopping = true;
    if (first)
        server->live++;
    pod_mutex_unlock(&server->lock);
    if (!first)
        return;
    rpc_will_start();
    grpc_server_shutdown_and_notify(
        server->server, rpc_loop_queue(server->loop), &server->shutdown_tag);
    int64_t until_ns =
        pod_time_add(pod_clock_mono(&pod_clock_system), grace_ns);
    pod_mutex_lock(&server->lock);
    bool ended = server_wait_locked(server, until_ns);
    pod_mutex_unlock(&server->lock);
    if (!ended)
        grpc_server_cancel_all_calls(server->server);
    pod_mutex_lock(&server->lock);
    (void)server_wait_locked(server, POD_NEVER);
    pod_mutex_unlock(&server->lock);
}

void rpc_server_free(struct rpc_server *server)
{
    if (server == NULL)
        return;
    rpc_server_stop(server, 0);
    grpc_server_destroy(server->server);
    pod_free(server->address);
    pod_cond_fini(&server->changed);
    pod_mutex_fini(&server->lock);
    pod_free(server);
}
