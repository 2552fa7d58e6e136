// SPDX-License-Identifier: Apache-2.0
#include "proto/rpc_client.h"

#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <limits.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "proto/rpc_internal.h"
#include "proto/rpc_tls.h"

enum {
    CLIENT_MAX_ARGS = 16,
    CLIENT_CONNECT_MS = 2000,
    CLIENT_LOOK_MS = 50, // whether the loop ends, while a channel is given up
    CLIENT_BACKOFF_MIN_MS = 200,
    CLIENT_BACKOFF_MAX_MS = 2000,
    CLIENT_MAX_RECEIVE = 64 << 20,
    CLIENT_UNARY_OPS = 6,
};

struct rpc_channel {
    struct rpc_tag tag; // while it is given up
    struct rpc_loop *loop;
    grpc_channel *channel;
    bool retries;
};

// ------------------------------------------------------------------- channels

struct client_args {
    grpc_arg items[CLIENT_MAX_ARGS];
    size_t count;
};

static grpc_arg *client_arg(struct client_args *args, const char *key)
{
    grpc_arg *arg = &args->items[args->count++];
    // gRPC's struct has no const; it does not write there.
    memcpy(&arg->key, &key, sizeof(key));
    return arg;
}

static void client_arg_int(struct client_args *args, const char *key, int value)
{
    grpc_arg *arg = client_arg(args, key);
    arg->type = GRPC_ARG_INTEGER;
    arg->value.integer = value;
}

static void client_arg_text(struct client_args *args, const char *key,
                            const char *value)
{
    grpc_arg *arg = client_arg(args, key);
    arg->type = GRPC_ARG_STRING;
    memcpy(&arg->value.string, &value, sizeof(value));
}

// 0 stays 0, anything else is at least 1 ms.
static int client_ms(int64_t ns, int otherwise)
{
    int64_t ms = ns / (POD_NS_PER_S / 1000);
    if (ns <= 0)
        return otherwise;
    return ms < 1 ? 1 : ms > INT_MAX ? INT_MAX : (int)ms;
}

// Of all methods. The pauses are random, up to these. gRPC allows 5 attempts;
// the first few may meet with the broken connection again, until gRPC has seen
// that it is.
static const char client_retry_policy[] =
    "{\"methodConfig\":[{\"name\":[{}],\"retryPolicy\":{\"maxAttempts\":5,"
    "\"initialBackoff\":\"0.1s\",\"maxBackoff\":\"1s\",\"backoffMultiplier\":5,"
    "\"retryableStatusCodes\":[\"UNAVAILABLE\"]}}]}";

static void client_args_fill(const struct rpc_channel_options *options,
                             struct client_args *args)
{
    int min_ms = client_ms(options->backoff_min_ns, CLIENT_BACKOFF_MIN_MS);
    int max_ms = client_ms(options->backoff_max_ns, CLIENT_BACKOFF_MAX_MS);
    client_arg_int(args, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
                   options->max_receive_bytes > 0 ? options->max_receive_bytes
                                                  : CLIENT_MAX_RECEIVE);
    client_arg_int(args, GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, INT_MAX);
    client_arg_int(args, GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    client_arg_int(args, GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    client_arg_int(args, GRPC_ARG_ENABLE_RETRIES, options->retries);
    if (options->retries)
        client_arg_text(args, GRPC_ARG_SERVICE_CONFIG, client_retry_policy);
    client_arg_int(args, GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, min_ms);
    // Its name says otherwise, but it is how long an attempt may take.
    client_arg_int(args, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   client_ms(options->connect_ns, CLIENT_CONNECT_MS));
    client_arg_int(args, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, max_ms);
    if (options->keepalive_ns > 0) {
        client_arg_int(args, GRPC_ARG_KEEPALIVE_TIME_MS,
                       client_ms(options->keepalive_ns, 0));
        client_arg_int(args, GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                       client_ms(options->keepalive_timeout_ns, INT_MAX));
        client_arg_int(args, GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
        client_arg_int(args, GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    }
    if (options->tls != NULL && options->tls->peer_name != NULL)
        client_arg_text(args, GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
                        options->tls->peer_name);
}

enum pod_code rpc_channel_new(struct rpc_loop *loop,
                              const struct rpc_channel_options *options,
                              struct rpc_channel **out_channel,
                              struct pod_err *err)
{
    struct client_args args = {.count = 0};
    grpc_channel_credentials *credentials = NULL;
    if (options->target[0] == '\0')
        return pod_err_set(err, POD_REASON_BAD_VALUE, "an empty address");
    enum pod_code code = rpc_tls_client(options->tls, &credentials, err);
    if (code != POD_OK)
        return code;
    struct rpc_channel *channel = pod_calloc(1, sizeof(*channel));
    if (channel == NULL) {
        grpc_channel_credentials_release(credentials);
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    }
    client_args_fill(options, &args);
    grpc_channel_args channel_args = {.num_args = args.count,
                                      .args = args.items};
    channel->loop = loop;
    channel->retries = options->retries;
    channel->channel =
        grpc_channel_create(options->target, credentials, &channel_args);
    grpc_channel_credentials_release(credentials);
    *out_channel = channel;
    return POD_OK;
}

// gRPC 1.51 loses a connection, which then stays open for ever, if its channel
// is destroyed between the connect and the server's first word. So the attempt
// is left to end, unless the loop does.
static bool channel_must_wait(const struct rpc_channel *channel)
{
    return !rpc_loop_is_ending(channel->loop) &&
           grpc_channel_check_connectivity_state(channel->channel, 0) ==
               GRPC_CHANNEL_CONNECTING;
}

static void channel_destroy(struct rpc_channel *channel)
{
    grpc_channel_destroy(channel->channel);
    pod_free(channel);
}

static void channel_watch(struct rpc_channel *channel)
{
    gpr_timespec until =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                     gpr_time_from_millis(CLIENT_LOOK_MS, GPR_TIMESPAN));

    rpc_will_start();
    grpc_channel_watch_connectivity_state(
        channel->channel, GRPC_CHANNEL_CONNECTING, until,
        rpc_loop_queue(channel->loop), &channel->tag);
}

static void channel_watched(struct rpc_tag *tag, bool ok)
{
    struct rpc_channel *channel = POD_CONTAINER(tag, struct rpc_channel, tag);
    struct rpc_loop *loop = channel->loop;

    (void)ok; // false: the time is up
    if (channel_must_wait(channel)) {
        channel_watch(channel);
        return;
    }
    channel_destroy(channel);
    rpc_loop_release(loop);
}

void rpc_channel_free(struct rpc_channel *channel)
{
    if (channel == NULL)
        return;
    if (!channel_must_wait(channel) || !rpc_loop_hold(channel->loop)) {
        channel_destroy(channel);
        return;
    }
    channel->tag.run = channel_watched;
    channel_watch(channel);
}

enum rpc_state rpc_channel_state(struct rpc_channel *channel, bool connect)
{
    switch (grpc_channel_check_connectivity_state(channel->channel, connect)) {
    case GRPC_CHANNEL_IDLE:
        return RPC_IDLE;
    case GRPC_CHANNEL_CONNECTING:
        return RPC_CONNECTING;
    case GRPC_CHANNEL_READY:
        return RPC_READY;
    case GRPC_CHANNEL_TRANSIENT_FAILURE:
        return RPC_FAILING;
    case GRPC_CHANNEL_SHUTDOWN:
        break;
    }
    return RPC_SHUT;
}

static grpc_call *client_call(struct rpc_channel *channel, const char *method,
                              gpr_timespec deadline)
{
    grpc_slice path = grpc_slice_from_copied_string(method);
    grpc_call *call = grpc_channel_create_call(
        channel->channel, NULL, GRPC_PROPAGATE_DEFAULTS,
        rpc_loop_queue(channel->loop), path, NULL, deadline, NULL);
    grpc_slice_unref(path);
    return call;
}

// ---------------------------------------------------------------- unary calls

struct rpc_call {
    struct rpc_tag tag;
    atomic_int refs; // the tag's, and the caller's if it wanted one
    grpc_call *call;
    void (*done)(void *arg, const struct rpc_reply *reply);
    void *arg;
    grpc_byte_buffer *sending;
    grpc_byte_buffer *received;
    grpc_metadata_array initial;
    grpc_metadata_array trailing;
    grpc_status_code status;
    grpc_slice details;
};

void rpc_call_unref(struct rpc_call *call)
{
    if (call == NULL || atomic_fetch_sub(&call->refs, 1) != 1)
        return;
    grpc_byte_buffer_destroy(call->sending);
    grpc_metadata_array_destroy(&call->initial);
    grpc_metadata_array_destroy(&call->trailing);
    grpc_slice_unref(call->details);
    grpc_call_unref(call->call);
    pod_free(call);
}

void rpc_call_cancel(struct rpc_call *call)
{
    (void)grpc_call_cancel(call->call, NULL);
}

static void client_answer(struct rpc_call *call, struct rpc_reply *reply)
{
    struct rpc_flat flat = {.slice = grpc_empty_slice()};
    bool whole =
        call->received != NULL && rpc_bytes_flatten(call->received, &flat);
    if (reply->code == POD_OK && !whole) {
        reply->code = POD_INTERNAL;
        reply->text = "the answer has no message";
    } else if (reply->code == POD_OK) {
        reply->data = flat.data;
        reply->size = flat.size;
    }
    call->done(call->arg, reply);
    rpc_flat_fini(&flat);
}

static void client_done(struct rpc_tag *tag, bool ok)
{
    struct rpc_call *call = POD_CONTAINER(tag, struct rpc_call, tag);
    char *text = rpc_text_copy(call->details);
    struct rpc_reply reply = {.code = rpc_code(call->status),
                              .text = text != NULL ? text : ""};
    (void)ok; // the batch has a status: always true
    client_answer(call, &reply);
    pod_free(text);
    rpc_call_unref(call);
}

static void client_start(struct rpc_call *call, bool wait_for_ready)
{
    grpc_op ops[CLIENT_UNARY_OPS];
    memset(ops, 0, sizeof(ops));
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    if (wait_for_ready)
        ops[0].flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY |
                       GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = call->sending;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &call->initial;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &call->received;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client.trailing_metadata = &call->trailing;
    ops[5].data.recv_status_on_client.status = &call->status;
    ops[5].data.recv_status_on_client.status_details = &call->details;
    rpc_start(call->call, ops, CLIENT_UNARY_OPS, &call->tag);
}

static struct rpc_call *client_call_new(const struct rpc_unary *unary,
                                        struct pod_wire_out *owned_request)
{
    struct rpc_call *call = pod_calloc(1, sizeof(*call));
    struct pod_list list;
    if (call == NULL || owned_request == NULL) {
        pod_wire_out_free(owned_request);
        pod_free(call);
        return NULL;
    }
    pod_list_init(&list);
    pod_list_push_back(&list, &owned_request->link);
    call->sending = rpc_bytes_join(&list);
    if (call->sending == NULL) {
        pod_free(call);
        return NULL;
    }
    call->tag.run = client_done;
    call->done = unary->done;
    call->arg = unary->arg;
    call->details = grpc_empty_slice();
    grpc_metadata_array_init(&call->initial);
    grpc_metadata_array_init(&call->trailing);
    return call;
}

enum pod_code rpc_unary_start(struct rpc_channel *channel,
                              const struct rpc_unary *unary,
                              struct pod_wire_out *owned_request,
                              struct rpc_call **out_call, struct pod_err *err)
{
    struct rpc_call *call = client_call_new(unary, owned_request);
    if (call == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    gpr_timespec deadline =
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                     gpr_time_from_nanos(unary->timeout_ns, GPR_TIMESPAN));
    call->call = client_call(channel, unary->method, deadline);
    atomic_init(&call->refs, out_call != NULL ? 2 : 1);
    if (out_call != NULL)
        *out_call = call;
    client_start(call, unary->wait_for_ready);
    return POD_OK;
}

// -------------------------------------------------------------------- streams

enum pod_code rpc_stream_open(struct rpc_channel *channel, const char *method,
                              const struct rpc_stream_settings *settings,
                              const struct rpc_stream_events *events, void *arg,
                              struct rpc_stream **out_stream,
                              struct pod_err *err)
{
    grpc_call *call =
        client_call(channel, method, gpr_inf_future(GPR_CLOCK_MONOTONIC));
    struct rpc_stream *stream =
        rpc_stream_new(channel->loop, call, false, settings);
    if (stream == NULL) {
        grpc_call_unref(call);
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    }
    stream->retried = channel->retries;
    stream->events = *events;
    stream->arg = arg;
    *out_stream = stream;
    rpc_stream_begin(stream);
    return POD_OK;
}
