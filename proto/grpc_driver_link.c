// SPDX-License-Identifier: Apache-2.0
// What connects podd with a worker: a channel, the calls that open it and keep
// it alive, and two streams. Small operations have a stream of their own, so
// that they do not queue behind pieces of data. On a slow network these would
// still wait in one socket, and signs of life with them, until the worker is
// taken for lost; so with our own workers data has a connection of its own.
#include <inttypes.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/str.h"
#include "proto/grpc_driver_internal.h"

static struct gd_link *link_new(struct gd *driver)
{
    struct gd_link *link = pod_calloc(1, sizeof(*link));

    if (link == NULL)
        return NULL;
    link->driver = driver;
    pod_list_init(&link->link);
    for (int i = 0; i < GD_STREAMS; i++)
        link->stream_args[i] = (struct gd_link_stream){
            .link = link,
            .stream = (enum gd_stream)i,
        };
    return link;
}

static void link_free(struct gd_link *link)
{
    if (link == NULL)
        return;
    for (int i = 0; i < GD_STREAMS; i++) {
        rpc_stream_unref(link->streams[i]);
        pod_trace_unref(link->told[i]);
    }
    rpc_call_unref(link->opening);
    rpc_channel_free(link->first);
    rpc_channel_free(link->data_channel);
    rpc_channel_free(link->channel);
    gd_info_free(link->info);
    pod_free(link);
}

static enum pod_code link_channel_new(struct gd *driver, int max_bytes,
                                      struct rpc_channel **out_channel,
                                      struct pod_err *err)
{
    struct rpc_channel_options options = {
        .target = driver->address,
        .tls = gd_hub_tls(driver->hub),
        .connect_ns = driver->times.connect_ns,
        .backoff_min_ns = driver->times.backoff_min_ns,
        .backoff_max_ns = driver->times.backoff_max_ns,
        .max_receive_bytes = max_bytes,
        // No probes worth the name, because signs of life are asked for
        // anyway and a plain gRPC server wants none more often; but sent bytes
        // that nobody takes for the time-out end the connection.
        .keepalive_ns = GD_KEEPALIVE_NS,
        .keepalive_timeout_ns = driver->times.silence_ns,
    };

    return rpc_channel_new(gd_hub_loop(driver->hub), &options, out_channel,
                           err);
}

enum pod_code gd_link_channel_locked(struct gd_link *link, int max_bytes,
                                     struct pod_err *err)
{
    struct rpc_channel *channel = NULL;
    enum pod_code code =
        link_channel_new(link->driver, max_bytes, &channel, err);

    if (code != POD_OK)
        return code;
    link->first = link->channel;
    link->channel = channel;
    return POD_OK;
}

enum pod_code gd_link_start_locked(struct gd *driver, struct pod_err *err)
{
    struct gd_link *link = link_new(driver);

    if (link == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    enum pod_code code = gd_link_channel_locked(link, 0, err);
    if (code == POD_OK)
        code = gd_pod_begin_locked(link, err);
    if (code == POD_OK)
        driver->link = link;
    else
        link_free(link);
    return code;
}

// ---------------------------------------------------------------- unary calls

enum pod_code gd_link_call_locked(struct gd_link *link,
                                  const struct gd_link_unary *unary,
                                  struct pod_wire_out *owned_request,
                                  struct pod_err *err)
{
    struct rpc_unary call = {
        .method = unary->method,
        .timeout_ns = unary->timeout_ns,
        .done = unary->done,
        .arg = link,
    };
    struct rpc_call *opening = NULL;
    enum pod_code code = rpc_unary_start(link->channel, &call, owned_request,
                                         unary->opens ? &opening : NULL, err);

    if (code != POD_OK)
        return code;
    link->pending++;
    if (unary->opens) {
        rpc_call_unref(link->opening);
        link->opening = opening;
    }
    return POD_OK;
}

void gd_link_settle_locked(struct gd_link *link)
{
    if (--link->pending == 0)
        pod_cond_broadcast(&link->driver->wake);
}

void gd_link_beaten_locked(struct gd_link *link, const struct rpc_reply *reply)
{
    struct gd *driver = link->driver;
    int64_t now_ns = pod_clock_mono(&pod_clock_system);
    struct pod_err err;

    if (driver->link != link || driver->state != GD_OPEN)
        return;
    driver->beating = false;
    if (reply->code == POD_OK) {
        driver->heard_ns = now_ns;
        driver->beat_came = true;
        driver->next_ns = pod_time_add(now_ns, driver->times.heartbeat_ns);
    } else if (reply->code == POD_DEADLINE_EXCEEDED) {
        // It is busy, or nobody looked for the answer: ask again, and watch on.
        driver->next_ns = now_ns;
    } else {
        gd_link_explain(link, reply->code, reply->text, &err);
        gd_lose_locked(driver, link, &err);
    }
    pod_cond_broadcast(&driver->wake);
}

// -------------------------------------------------------------------- streams

static void link_on_message(void *arg, const void *data, size_t size)
{
    struct gd_link_stream *stream = arg;
    struct gd_link *link = stream->link;
    struct gd *driver = link->driver;
    struct gd_together together;
    struct pod_err err;

    pod_mutex_lock(&driver->lock);
    bool present = driver->link == link && driver->state != GD_LOST;
    driver->heard_ns = pod_clock_mono(&pod_clock_system);
    pod_mutex_unlock(&driver->lock);
    if (!present)
        return;
    together.count = 0; // the rest is not looked at
    bool good = link->dialect->receive(link, data, size, &together, &err);
    gd_tell_together(driver, &together);
    if (good)
        return;
    pod_mutex_lock(&driver->lock);
    gd_lose_locked(driver, link, &err);
    pod_mutex_unlock(&driver->lock);
}

static void link_on_ended(void *arg, enum pod_code code, const char *text)
{
    struct gd_link_stream *stream = arg;
    struct gd_link *link = stream->link;
    struct gd *driver = link->driver;
    struct pod_err err;

    if (code == POD_OK)
        pod_err_set(&err, POD_REASON_HOST_LOST, "the worker ended the session");
    else
        gd_link_explain(link, code, text, &err);
    pod_mutex_lock(&driver->lock);
    gd_lose_locked(driver, link, &err);
    gd_link_settle_locked(link);
    pod_mutex_unlock(&driver->lock);
}

static enum pod_code link_open_stream_locked(struct gd_link *link,
                                             enum gd_stream stream,
                                             struct rpc_channel *channel,
                                             struct pod_err *err)
{
    static const struct rpc_stream_settings settings = {
        .batch_bytes = GD_BATCH_BYTES, .batch_count = GD_BATCH_COUNT};
    static const struct rpc_stream_events events = {
        .message = link_on_message,
        .ended = link_on_ended,
    };
    enum pod_code code = rpc_stream_open(
        channel, link->dialect->stream_method, &settings, &events,
        &link->stream_args[stream], &link->streams[stream], err);

    if (code != POD_OK)
        return code;
    link->pending++;
    if (link->dialect->greet != NULL)
        rpc_stream_send(link->streams[stream],
                        link->dialect->greet(link, stream));
    return POD_OK;
}

enum pod_code gd_link_streams_locked(struct gd_link *link, struct pod_err *err)
{
    struct rpc_channel *data = link->channel;
    enum pod_code code =
        link_open_stream_locked(link, GD_CONTROL, link->channel, err);

    if (code == POD_OK && link->dialect->data_apart) {
        code = link_channel_new(link->driver, 0, &link->data_channel, err);
        data = link->data_channel;
    }
    if (code == POD_OK)
        code = link_open_stream_locked(link, GD_DATA, data, err);
    return code;
}

// ------------------------------------------------------------------- let go

void gd_link_drop_locked(struct gd *driver)
{
    struct gd_link *link = driver->link;

    if (link == NULL)
        return;
    driver->link = NULL;
    if (link->dialect == &gd_pod_dialect && link->session != 0)
        driver->left_session = link->session;
    pod_list_push_back(&driver->old_links, &link->link);
    if (link->dialect != NULL && link->dialect->leave != NULL)
        link->dialect->leave(link);
    if (link->opening != NULL)
        rpc_call_cancel(link->opening);
    for (int i = 0; i < GD_STREAMS; i++) {
        if (link->streams[i] != NULL)
            rpc_stream_cancel(link->streams[i]);
    }
}

// Moves the old links to which nothing comes any more.
static void link_take_done_locked(struct gd *driver, struct pod_list *out_done)
{
    struct pod_list *at = driver->old_links.next;

    while (at != &driver->old_links) {
        struct gd_link *link = POD_CONTAINER(at, struct gd_link, link);
        at = at->next;
        if (link->pending > 0)
            continue;
        pod_list_remove(&link->link);
        pod_list_push_back(out_done, &link->link);
    }
}

void gd_link_reap_locked(struct gd *driver)
{
    struct pod_list *at;
    struct pod_list done;

    pod_list_init(&done);
    link_take_done_locked(driver, &done);
    while (!pod_list_empty(&done)) {
        pod_mutex_unlock(&driver->lock);
        while ((at = pod_list_pop_front(&done)) != NULL)
            link_free(POD_CONTAINER(at, struct gd_link, link));
        pod_mutex_lock(&driver->lock);
        // Another may have been done meanwhile, when nobody waited to be told.
        link_take_done_locked(driver, &done);
    }
}

// ------------------------------------------------------------------- reasons

void gd_clean_text(const char *text, char *out, size_t size)
{
    size_t length = strnlen(text, size - 1);

    if (pod_utf8_valid(text, strlen(text)))
        length = pod_utf8_clip(text, strlen(text), size - 1);
    memcpy(out, text, length);
    out[length] = '\0';
    if (pod_utf8_valid(out, length) && !pod_text_has_control(out, length))
        return;
    for (size_t i = 0; i < length; i++) {
        if (out[i] < ' ' || out[i] > '~')
            out[i] = '?';
    }
}

static bool link_says(const char *text, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strcasestr(text, *words) != NULL)
            return true;
    }
    return false;
}

// Why no connection was made, with TLS on this side. The words are OpenSSL's
// and gRPC's.
static const char *link_tls_reason(const char *text)
{
    static const char *const plain[] = {"wrong version number", NULL};
    static const char *const unsigned_[] = {"certificate verify", NULL};
    static const char *const name[] = {"peer name", NULL};

    if (link_says(text, plain))
        return "only one side uses TLS: the worker has no --tls-cert";
    if (link_says(text, unsigned_))
        return "bad certificate: the worker's has expired, or is not signed by "
               "that of --worker-tls-ca";
    if (link_says(text, name))
        return "bad certificate: the worker's is for other names than this "
               "address";
    return "bad certificate, or only one side uses TLS";
}

// The worker took the connection and closed it before a word. If this side had
// no fault to find with the worker's certificate, the worker found one.
static const char *link_closed_reason(const struct rpc_tls *tls)
{
    if (tls == NULL)
        return "closed at once: the worker may use TLS, which needs "
               "--worker-tls-ca";
    if (tls->cert == NULL)
        return "closed at once: the worker may ask for a certificate, which "
               "needs --worker-tls-cert";
    return "closed at once: the worker may not accept the certificate of "
           "--worker-tls-cert";
}

// What gRPC 1.51 says when a connection cannot be made; without a match the
// words are shown as they are.
static const char *link_reason(const struct rpc_tls *tls, enum pod_code code,
                               const char *text)
{
    static const char *const refused[] = {"connection refused", NULL};
    static const char *const secure[] = {"certificate", "handshak",  "ssl",
                                         "tls",         "peer name", NULL};
    static const char *const slow[] = {"timed out before receiving settings",
                                       "tcp handshaker shutdown", NULL};
    static const char *const http[] = {"http1",        "http/1",
                                       "parsing http", "settings frame",
                                       "http status",  NULL};
    static const char *const name[] = {"dns", "resol", NULL};
    static const char *const first[] = {"failed to connect", NULL};
    static const char *const closed[] = {"socket closed",
                                         "handshake read failed", NULL};
    static const char *const broken[] = {"socket closed", "reset by peer",
                                         "broken pipe", NULL};
    static const char *const stopped[] = {"cancelling all calls", NULL};

    if (link_says(text, refused))
        return "refused: nothing listens there";
    if (link_says(text, slow))
        return "not ready: no answer in time";
    if (link_says(text, http) || code == POD_UNIMPLEMENTED)
        return "wrong service: what answers is not a worker";
    if (link_says(text, first) && link_says(text, closed))
        return link_closed_reason(tls);
    if (code == POD_UNAVAILABLE && link_says(text, secure))
        return link_tls_reason(text);
    if (code == POD_UNAVAILABLE && link_says(text, name))
        return "unknown name";
    if (code == POD_DEADLINE_EXCEEDED)
        return "not ready: no answer in time";
    if (link_says(text, stopped))
        return "the worker was stopped";
    if (code == POD_UNAVAILABLE && link_says(text, broken))
        return "the connection broke";
    if (code == POD_UNAVAILABLE)
        return "not reachable";
    return pod_code_name(code);
}

void gd_link_explain(const struct gd_link *link, enum pod_code code,
                     const char *text, struct pod_err *out_err)
{
    char clean[POD_ERR_TEXT_BYTES / 2];

    gd_clean_text(text == NULL ? "" : text, clean, sizeof(clean));
    const char *reason =
        link_reason(gd_hub_tls(link->driver->hub), code, clean);
    if (clean[0] == '\0')
        pod_err_set(out_err, POD_REASON_HOST_LOST, "%s", reason);
    else
        pod_err_set(out_err, POD_REASON_HOST_LOST, "%s (%s)", reason, clean);
}

void gd_link_explain_silence(const struct gd_link *link,
                             struct pod_err *out_err)
{
    pod_err_set(out_err, POD_REASON_HOST_LOST,
                "no answer for %" PRId64 " ms: it is frozen, or cut off",
                link->driver->times.silence_ns / (POD_NS_PER_S / 1000));
}
