// SPDX-License-Identifier: Apache-2.0
// gRPC plumbing: both sides in one process over real sockets.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/lock.h"
#include "proto/rpc_client.h"
#include "proto/rpc_internal.h"
#include "proto/rpc_server.h"

enum { MAX_TEXT = 256, WAIT_NS = 20, BATCH = 100 };

// What a side has seen, for a test that waits for it.
struct seen {
    struct pod_mutex lock;
    struct pod_cond changed;
    size_t messages;
    size_t bytes;
    size_t most; // bytes of the largest message
    size_t last_size;
    unsigned char last[MAX_TEXT];
    size_t drained;
    size_t half_closed;
    size_t ended;
    enum pod_code code;
    char text[MAX_TEXT];
    struct rpc_stream *stream;
    struct rpc_request *held;
    bool opened;
    void (*on_message)(void *arg, const void *data, size_t size);
    struct pod_blob *kept;
    struct pod_blob *kept_end;
    bool uncopied;
    bool end_uncopied;
};

struct fixture {
    struct rpc_loop *loop;
    struct rpc_server *server;
    struct rpc_channel *channel;
    struct seen client;
    struct seen served;
};

static void seen_init(struct seen *seen)
{
    memset(seen, 0, sizeof(*seen));
    pod_mutex_init(&seen->lock, 1, "seen");
    pod_cond_init(&seen->changed);
}

static void seen_fini(struct seen *seen)
{
    pod_cond_fini(&seen->changed);
    pod_mutex_fini(&seen->lock);
}

static void seen_done_locked(struct seen *seen)
{
    pod_cond_broadcast(&seen->changed);
    pod_mutex_unlock(&seen->lock);
}

// Waits until the counter is at least `count`.
static void await(struct seen *seen, const size_t *counter, size_t count)
{
    int64_t until = pod_clock_mono(&pod_clock_system) + WAIT_NS * POD_NS_PER_S;
    pod_mutex_lock(&seen->lock);
    bool came = true;
    while (*counter < count && came)
        came = pod_cond_wait_until(&seen->changed, &seen->lock, until);
    pod_mutex_unlock(&seen->lock);
    assert_true(came);
}

static void on_message(void *arg, const void *data, size_t size)
{
    struct seen *seen = arg;
    pod_mutex_lock(&seen->lock);
    seen->messages++;
    seen->bytes += size;
    seen->most = size > seen->most ? size : seen->most;
    seen->last_size = size;
    memcpy(seen->last, data, size < MAX_TEXT ? size : MAX_TEXT);
    seen_done_locked(seen);
}

static void on_half_closed(void *arg)
{
    struct seen *seen = arg;
    pod_mutex_lock(&seen->lock);
    seen->half_closed++;
    seen_done_locked(seen);
}

static void on_drained(void *arg)
{
    struct seen *seen = arg;
    pod_mutex_lock(&seen->lock);
    seen->drained++;
    seen_done_locked(seen);
}

static void on_ended(void *arg, enum pod_code code, const char *text)
{
    struct seen *seen = arg;
    pod_mutex_lock(&seen->lock);
    seen->ended++;
    seen->code = code;
    (void)snprintf(seen->text, sizeof(seen->text), "%s", text);
    seen_done_locked(seen);
}

static void on_reply(void *arg, const struct rpc_reply *reply)
{
    if (reply->code == POD_OK)
        on_message(arg, reply->data, reply->size);
    on_ended(arg, reply->code, reply->text);
}

static struct pod_wire_out *bytes_out(const void *data, size_t size)
{
    struct pod_wire_out *out = pod_wire_out_new(size);
    assert_non_null(out);
    memcpy(out->head, data, size);
    return out;
}

// ----------------------------------------------------------------- the server

static void serve_echo(void *arg, struct rpc_request *request, const void *data,
                       size_t size)
{
    on_message(arg, data, size);
    rpc_request_reply(request, bytes_out(data, size));
}

static void serve_refuse(void *arg, struct rpc_request *request,
                         const void *data, size_t size)
{
    (void)arg;
    (void)data;
    (void)size;
    rpc_request_fail(request, POD_FAILED_PRECONDITION, "not today");
}

static void serve_hold(void *arg, struct rpc_request *request, const void *data,
                       size_t size)
{
    struct seen *seen = arg;
    (void)data;
    (void)size;
    pod_mutex_lock(&seen->lock);
    seen->held = request;
    seen->messages++;
    seen_done_locked(seen);
}

// Keeps most of the message, and the end of it.
static void on_message_keep(void *arg, const void *data, size_t size)
{
    struct seen *seen = arg;
    const unsigned char *bytes = data;
    pod_mutex_lock(&seen->lock);
    seen->kept = rpc_stream_keep(seen->stream, bytes + 10, size - 10);
    seen->kept_end = rpc_stream_keep(seen->stream, bytes + size - 10, 10);
    seen->uncopied = seen->kept != NULL && seen->kept->data == bytes + 10;
    seen->end_uncopied =
        seen->kept_end != NULL && seen->kept_end->data == bytes + size - 10;
    pod_mutex_unlock(&seen->lock);
    on_message(arg, data, size);
}

// Answers with two things, or with the first alone if little was said.
static void on_message_soon(void *arg, const void *data, size_t size)
{
    struct seen *seen = arg;
    rpc_stream_send_soon(seen->stream, bytes_out("begun ", 6));
    if (size > 4)
        rpc_stream_send(seen->stream, bytes_out("done", 4));
    on_message(arg, data, size);
}

static void serve_stream(void *arg, struct rpc_stream *stream,
                         struct rpc_stream_events *events, void **out_arg)
{
    struct seen *seen = arg;
    *events = (struct rpc_stream_events){
        .message = seen->on_message != NULL ? seen->on_message : on_message,
        .half_closed = on_half_closed,
        .drained = on_drained,
        .ended = on_ended};
    *out_arg = seen;
    pod_mutex_lock(&seen->lock);
    seen->stream = stream;
    seen->opened = true;
    seen_done_locked(seen);
}

static const struct rpc_stream_settings settings = {.batch_bytes = 1 << 20,
                                                    .batch_count = BATCH,
                                                    .high_water = 1 << 20,
                                                    .low_water = 1 << 18};

static int setup_at(struct fixture *f, const char *listen, const char *target,
                    const struct rpc_tls *tls, const struct rpc_tls *client_tls)
{
    struct pod_err err = POD_ERR_NONE;
    const struct rpc_method methods[] = {
        {.path = "/t.S/Echo", .arg = &f->served, .unary = serve_echo},
        {.path = "/t.S/Refuse", .arg = &f->served, .unary = serve_refuse},
        {.path = "/t.S/Hold", .arg = &f->served, .unary = serve_hold},
        {.path = "/t.S/Stream",
         .arg = &f->served,
         .opened = serve_stream,
         .settings = settings},
    };
    struct rpc_server_options options = {
        .listen = listen, .tls = tls, .methods = methods, .method_count = 4};
    seen_init(&f->client);
    seen_init(&f->served);
    assert_int_equal(rpc_loop_new(&f->loop, &err), POD_OK);
    if (rpc_server_new(f->loop, &options, &f->server, &err) != POD_OK)
        fail_msg("%s", err.text);
    struct rpc_channel_options to = {
        .target = target != NULL ? target : rpc_server_address(f->server),
        .tls = client_tls};
    assert_int_equal(rpc_channel_new(f->loop, &to, &f->channel, &err), POD_OK);
    return 0;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    *state = f;
    return setup_at(f, "127.0.0.1:0", NULL, NULL, NULL);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    rpc_channel_free(f->channel);
    rpc_server_stop(f->server, 0);
    rpc_stream_unref(f->client.stream);
    rpc_stream_unref(f->served.stream);
    rpc_server_free(f->server);
    rpc_loop_free(f->loop);
    seen_fini(&f->client);
    seen_fini(&f->served);
    free(f);
    return 0;
}

// ---------------------------------------------------------------------- unary

static void call_text(struct fixture *f, const char *method, const char *text,
                      int64_t timeout_ns, struct rpc_call **out_call)
{
    struct pod_err err = POD_ERR_NONE;
    struct rpc_unary unary = {.method = method,
                              .timeout_ns = timeout_ns,
                              .done = on_reply,
                              .arg = &f->client};
    assert_int_equal(rpc_unary_start(f->channel, &unary,
                                     bytes_out(text, strlen(text)), out_call,
                                     &err),
                     POD_OK);
}

static void test_unary_echo(void **state)
{
    struct fixture *f = *state;
    call_text(f, "/t.S/Echo", "hello", 10 * POD_NS_PER_S, NULL);
    await(&f->client, &f->client.ended, 1);
    assert_int_equal(f->client.code, POD_OK);
    assert_int_equal(f->client.last_size, 5);
    assert_memory_equal(f->client.last, "hello", 5);
}

static void test_unary_empty_message(void **state)
{
    struct fixture *f = *state;
    call_text(f, "/t.S/Echo", "", 10 * POD_NS_PER_S, NULL);
    await(&f->client, &f->client.ended, 1);
    assert_int_equal(f->client.code, POD_OK);
    assert_int_equal(f->client.messages, 1);
    assert_int_equal(f->client.last_size, 0);
}

static void test_unary_refusal(void **state)
{
    struct fixture *f = *state;
    call_text(f, "/t.S/Refuse", "x", 10 * POD_NS_PER_S, NULL);
    await(&f->client, &f->client.ended, 1);
    assert_int_equal(f->client.code, POD_FAILED_PRECONDITION);
    assert_string_equal(f->client.text, "not today");
    assert_int_equal(f->client.messages, 0);
}

static void test_unknown_method(void **state)
{
    struct fixture *f = *state;
    call_text(f, "/t.S/Nothing", "x", 10 * POD_NS_PER_S, NULL);
    await(&f->client, &f->client.ended, 1);
    assert_int_equal(f->client.code, POD_UNIMPLEMENTED);
    assert_string_equal(f->client.text, "no method /t.S/Nothing");
}

static void test_unary_deadline(void **state)
{
    struct fixture *f = *state;
    call_text(f, "/t.S/Hold", "x", POD_NS_PER_S / 5, NULL);
    await(&f->client, &f->client.ended, 1);
    assert_int_equal(f->client.code, POD_DEADLINE_EXCEEDED);
    await(&f->served, &f->served.messages, 1);
    rpc_request_fail(f->served.held, POD_OK, "");
}

static void test_unary_cancel(void **state)
{
    struct fixture *f = *state;
    struct rpc_call *call = NULL;
    call_text(f, "/t.S/Hold", "x", 10 * POD_NS_PER_S, &call);
    await(&f->served, &f->served.messages, 1);
    rpc_call_cancel(call);
    await(&f->client, &f->client.ended, 1);
    assert_int_equal(f->client.code, POD_CANCELLED);
    rpc_call_unref(call);
    assert_non_null(strstr(rpc_request_peer(f->served.held), "127.0.0.1"));
    rpc_request_reply(f->served.held, bytes_out("late", 4));
}

// -------------------------------------------------------------------- streams

static const struct rpc_stream_events client_events = {
    .message = on_message, .drained = on_drained, .ended = on_ended};

static void open_stream(struct fixture *f)
{
    struct pod_err err = POD_ERR_NONE;
    assert_int_equal(rpc_stream_open(f->channel, "/t.S/Stream", &settings,
                                     &client_events, &f->client,
                                     &f->client.stream, &err),
                     POD_OK);
}

static struct rpc_stream *served_stream(struct fixture *f)
{
    pod_mutex_lock(&f->served.lock);
    while (!f->served.opened)
        pod_cond_wait(&f->served.changed, &f->served.lock);
    pod_mutex_unlock(&f->served.lock);
    return f->served.stream;
}

static void test_stream_both_ways(void **state)
{
    struct fixture *f = *state;
    open_stream(f);
    rpc_stream_send(f->client.stream, bytes_out("ping", 4));
    await(&f->served, &f->served.bytes, 4);
    rpc_stream_send(served_stream(f), bytes_out("pong!", 5));
    await(&f->client, &f->client.bytes, 5);
    assert_memory_equal(f->client.last, "pong!", 5);
    rpc_stream_half_close(f->client.stream);
    await(&f->served, &f->served.half_closed, 1);
    rpc_stream_send(f->client.stream, bytes_out("dropped", 7));
    rpc_stream_finish(f->served.stream, POD_ABORTED, "that was all");
    await(&f->client, &f->client.ended, 1);
    await(&f->served, &f->served.ended, 1);
    assert_int_equal(f->client.code, POD_ABORTED);
    assert_string_equal(f->client.text, "that was all");
    assert_int_equal(f->served.code, POD_OK);
    assert_int_equal(f->served.bytes, 4);
}

// While the first message is on its way the others queue and are joined, but
// not more of them than may be.
static void test_stream_joins_what_queues(void **state)
{
    struct fixture *f = *state;
    enum { COUNT = 5000 };
    open_stream(f);
    for (int i = 0; i < COUNT; i++)
        rpc_stream_send(f->client.stream, bytes_out("0123456789", 10));
    await(&f->served, &f->served.bytes, COUNT * 10);
    assert_int_equal(f->served.bytes, COUNT * 10);
    assert_true(f->served.messages < COUNT / 2);
    assert_true(f->served.most <= BATCH * 10);
    rpc_stream_cancel(f->client.stream);
    await(&f->client, &f->client.ended, 1);
    assert_int_equal(f->client.code, POD_CANCELLED);
    await(&f->served, &f->served.ended, 1);
    assert_int_equal(f->served.code, POD_CANCELLED);
}

static void test_stream_sends_blobs_uncopied(void **state)
{
    struct fixture *f = *state;
    struct pod_blob *blob = pod_blob_new(6 << 20);
    assert_non_null(blob);
    memset(blob->data, 7, blob->size);
    const unsigned char *place = blob->data + 1000;
    struct pod_wire_out *out =
        pod_wire_pack_levels(NULL, 0, 3, blob, 1000, 5 << 20);
    assert_non_null(out);
    assert_ptr_equal(out->tail->data + out->tail_offset, place);
    // Tag of field 3, and the length 5,242,880 in four bytes.
    static const unsigned char head[] = {0x1a, 0x80, 0x80, 0xc0, 0x02};
    assert_int_equal(out->size, sizeof(head));
    assert_memory_equal(out->head, head, sizeof(head));
    open_stream(f);
    rpc_stream_send(f->client.stream, out);
    pod_blob_unref(blob);
    await(&f->served, &f->served.bytes, (5 << 20) + sizeof(head));
    assert_int_equal(f->served.messages, 1);
    assert_memory_equal(f->served.last, head, sizeof(head));
    assert_int_equal(f->served.last[sizeof(head)], 7);
}

static void test_stream_keeps_messages(void **state)
{
    struct fixture *f = *state;
    enum { SIZE = 1 << 20 };
    struct pod_wire_out *out = pod_wire_out_new(SIZE);
    assert_non_null(out);
    for (size_t i = 0; i < SIZE; i++)
        out->head[i] = (unsigned char)(i % 251);
    f->served.on_message = on_message_keep;
    open_stream(f);
    rpc_stream_send(f->client.stream, out);
    await(&f->served, &f->served.messages, 1);
    rpc_stream_cancel(f->client.stream);
    await(&f->served, &f->served.ended, 1);
    struct pod_blob *kept = f->served.kept;
    struct pod_blob *end = f->served.kept_end;
    assert_non_null(kept);
    assert_non_null(end);
    assert_true(f->served.uncopied);
    assert_false(f->served.end_uncopied);
    assert_int_equal(kept->size, SIZE - 10);
    for (size_t i = 0; i < kept->size; i++)
        assert_int_equal(kept->data[i], (i + 10) % 251);
    assert_int_equal(end->size, 10);
    assert_memory_equal(end->data, kept->data + SIZE - 20, 10);
    pod_blob_unref(kept);
    pod_blob_unref(end);
}

// In one message with what follows, or after a moment alone.
static void test_stream_sends_soon(void **state)
{
    struct fixture *f = *state;
    f->served.on_message = on_message_soon;
    open_stream(f);
    rpc_stream_send(f->client.stream, bytes_out("whole", 5));
    await(&f->client, &f->client.bytes, 10);
    assert_int_equal(f->client.messages, 1);
    assert_memory_equal(f->client.last, "begun done", 10);
    rpc_stream_send(f->client.stream, bytes_out("half", 4));
    await(&f->client, &f->client.bytes, 16);
    assert_memory_equal(f->client.last, "begun ", 6);
    // From a thread that the loop knows nothing of.
    rpc_stream_send_soon(f->client.stream, bytes_out("half", 4));
    await(&f->client, &f->client.bytes, 22);
}

static void test_stream_marks_and_pause(void **state)
{
    struct fixture *f = *state;
    enum { COUNT = 64 };
    open_stream(f);
    rpc_stream_send(f->client.stream, bytes_out("a", 1));
    rpc_stream_pause(served_stream(f));
    char *big = calloc(1, 1 << 20);
    assert_non_null(big);
    for (int i = 0; i < COUNT; i++)
        rpc_stream_send(f->client.stream, bytes_out(big, 1 << 20));
    free(big);
    // The windows of the connection are far smaller than what was sent.
    assert_true(rpc_stream_queued(f->client.stream) > 16 << 20);
    pod_mutex_lock(&f->client.lock);
    size_t drained = f->client.drained;
    pod_mutex_unlock(&f->client.lock);
    rpc_stream_resume(f->served.stream);
    await(&f->client, &f->client.drained, drained + 1);
    await(&f->served, &f->served.bytes, 1 + ((size_t)COUNT << 20));
    assert_int_equal(rpc_stream_queued(f->client.stream), 0);
}

static void test_stream_without_memory_breaks(void **state)
{
    struct fixture *f = *state;
    open_stream(f);
    rpc_stream_send(f->client.stream, NULL);
    await(&f->client, &f->client.ended, 1);
    assert_int_equal(f->client.code, POD_RESOURCE_EXHAUSTED);
}

static void test_server_stop_ends_streams(void **state)
{
    struct fixture *f = *state;
    open_stream(f);
    (void)served_stream(f);
    rpc_server_stop(f->server, 0);
    await(&f->client, &f->client.ended, 1);
    await(&f->served, &f->served.ended, 1);
    assert_int_equal(f->client.code, POD_UNAVAILABLE);
    assert_int_equal(f->served.code, POD_CANCELLED);
}

static void test_refused_connection(void **state)
{
    struct fixture *f = *state;
    rpc_server_stop(f->server, 0);
    call_text(f, "/t.S/Echo", "x", 10 * POD_NS_PER_S, NULL);
    await(&f->client, &f->client.ended, 1);
    assert_int_equal(f->client.code, POD_UNAVAILABLE);
    assert_non_null(strstr(f->client.text, "refused"));
}

static void test_taken_port(void **state)
{
    struct fixture *f = *state;
    struct pod_err err = POD_ERR_NONE;
    struct rpc_server *second = NULL;
    struct rpc_server_options options = {.listen =
                                             rpc_server_address(f->server)};
    assert_int_equal(rpc_server_new(f->loop, &options, &second, &err),
                     POD_RESOURCE_EXHAUSTED);
    assert_null(second);
}

static void test_receive_limit(void **state)
{
    struct fixture *f = *state;
    struct pod_err err = POD_ERR_NONE;
    struct rpc_channel *narrow = NULL;
    struct rpc_channel_options to = {.target = rpc_server_address(f->server),
                                     .max_receive_bytes = 100};
    assert_int_equal(rpc_channel_new(f->loop, &to, &narrow, &err), POD_OK);
    char text[102] = "";
    memset(text, 'x', 101);
    struct rpc_unary unary = {.method = "/t.S/Echo",
                              .timeout_ns = 10 * POD_NS_PER_S,
                              .done = on_reply,
                              .arg = &f->client};
    assert_int_equal(
        rpc_unary_start(narrow, &unary, bytes_out(text, 101), NULL, &err),
        POD_OK);
    await(&f->client, &f->client.ended, 1);
    assert_int_equal(f->client.code, POD_RESOURCE_EXHAUSTED);
    assert_int_equal(
        rpc_unary_start(narrow, &unary, bytes_out(text, 100), NULL, &err),
        POD_OK);
    await(&f->client, &f->client.ended, 2);
    assert_int_equal(f->client.code, POD_OK);
    rpc_channel_free(narrow);
}

static void test_unix_socket(void **state)
{
    (void)state;
    char folder[] = "/tmp/podd-test-XXXXXX";
    char address[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(address, sizeof(address), "unix:%s/s", folder);
    struct fixture *f = calloc(1, sizeof(*f));
    void *as_state = f;
    assert_non_null(f);
    (void)setup_at(f, address, NULL, NULL, NULL);
    assert_string_equal(rpc_server_address(f->server), address);
    call_text(f, "/t.S/Echo", "hello", 10 * POD_NS_PER_S, NULL);
    await(&f->client, &f->client.ended, 1);
    assert_int_equal(f->client.code, POD_OK);
    (void)teardown(&as_state);
    (void)unlink(address + 5);
    (void)rmdir(folder);
}

// ------------------------------------------------------------------------ TLS

// Certificates for one run: a CA, a server and a client that it signed, and
// one nobody signed.
struct pki {
    char folder[32];
    char *ca, *server_cert, *server_key, *client_cert, *client_key;
    char *stray_cert, *stray_key;
};

static void run(const char *folder, const char *command)
{
    char line[1024];
    (void)snprintf(line, sizeof(line), "cd %s && { %s; } >log 2>&1", folder,
                   command);
    if (system(line) != 0)
        fail_msg("openssl failed: %s", command);
}

static char *read_pem(const char *folder, const char *name)
{
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = calloc(1, 8192);
    assert_non_null(text);
    assert_true(fread(text, 1, 8191, file) > 0);
    (void)fclose(file);
    return text;
}

static void make_pair(struct pki *pki, const char *name, const char *more)
{
    char line[512];
    (void)snprintf(line, sizeof(line),
                   "openssl req -x509 -newkey ec -pkeyopt "
                   "ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=%s "
                   "-addext subjectAltName=DNS:%s -keyout %s.key -out %s.crt "
                   "%s",
                   name, name, name, name, more);
    run(pki->folder, line);
}

static int setup_pki(void **state)
{
    struct pki *pki = calloc(1, sizeof(*pki));
    assert_non_null(pki);
    (void)snprintf(pki->folder, sizeof(pki->folder), "/tmp/podd-pki-XXXXXX");
    assert_non_null(mkdtemp(pki->folder));
    const char *by_ca = "-CA ca.test.crt -CAkey ca.test.key "
                        "-addext basicConstraints=critical,CA:FALSE";
    make_pair(pki, "ca.test", "-addext keyUsage=keyCertSign");
    make_pair(pki, "worker.test", by_ca);
    make_pair(pki, "client.test", by_ca);
    make_pair(pki, "stray.test", "");
    pki->ca = read_pem(pki->folder, "ca.test.crt");
    pki->server_cert = read_pem(pki->folder, "worker.test.crt");
    pki->server_key = read_pem(pki->folder, "worker.test.key");
    pki->client_cert = read_pem(pki->folder, "client.test.crt");
    pki->client_key = read_pem(pki->folder, "client.test.key");
    pki->stray_cert = read_pem(pki->folder, "stray.test.crt");
    pki->stray_key = read_pem(pki->folder, "stray.test.key");
    *state = pki;
    return 0;
}

static int teardown_pki(void **state)
{
    struct pki *pki = *state;
    char line[64];
    (void)snprintf(line, sizeof(line), "rm -r %s", pki->folder);
    assert_int_equal(system(line), 0);
    free(pki->ca);
    free(pki->server_cert);
    free(pki->server_key);
    free(pki->client_cert);
    free(pki->client_key);
    free(pki->stray_cert);
    free(pki->stray_key);
    free(pki);
    return 0;
}

// The code of an echo between these two.
static enum pod_code tls_echo(const struct rpc_tls *server,
                              const struct rpc_tls *client)
{
    struct fixture *f = calloc(1, sizeof(*f));
    void *state = f;
    assert_non_null(f);
    (void)setup_at(f, "127.0.0.1:0", NULL, server, client);
    call_text(f, "/t.S/Echo", "secret", 10 * POD_NS_PER_S, NULL);
    await(&f->client, &f->client.ended, 1);
    enum pod_code code = f->client.code;
    (void)teardown(&state);
    return code;
}

static void test_tls(void **state)
{
    const struct pki *pki = *state;
    struct rpc_tls server = {.cert = pki->server_cert, .key = pki->server_key};
    struct rpc_tls good = {.ca = pki->ca, .peer_name = "worker.test"};
    struct rpc_tls wrong_name = {.ca = pki->ca, .peer_name = "other.test"};
    struct rpc_tls wrong_ca = {.ca = pki->stray_cert,
                               .peer_name = "worker.test"};
    assert_int_equal(tls_echo(&server, &good), POD_OK);
    assert_int_equal(tls_echo(&server, &wrong_name), POD_UNAVAILABLE);
    assert_int_equal(tls_echo(&server, &wrong_ca), POD_UNAVAILABLE);
    assert_int_equal(tls_echo(&server, NULL), POD_UNAVAILABLE);
    assert_int_equal(tls_echo(NULL, &good), POD_UNAVAILABLE);
}

static void test_mutual_tls(void **state)
{
    const struct pki *pki = *state;
    struct rpc_tls server = {
        .ca = pki->ca, .cert = pki->server_cert, .key = pki->server_key};
    struct rpc_tls good = {.ca = pki->ca,
                           .cert = pki->client_cert,
                           .key = pki->client_key,
                           .peer_name = "worker.test"};
    struct rpc_tls none = {.ca = pki->ca, .peer_name = "worker.test"};
    struct rpc_tls stray = {.ca = pki->ca,
                            .cert = pki->stray_cert,
                            .key = pki->stray_key,
                            .peer_name = "worker.test"};
    assert_int_equal(tls_echo(&server, &good), POD_OK);
    assert_int_equal(tls_echo(&server, &none), POD_UNAVAILABLE);
    assert_int_equal(tls_echo(&server, &stray), POD_UNAVAILABLE);
}

static void test_bad_certificates(void **state)
{
    const struct pki *pki = *state;
    struct pod_err err = POD_ERR_NONE;
    struct rpc_loop *loop = NULL;
    struct rpc_server *server = NULL;
    struct rpc_channel *channel = NULL;
    struct rpc_tls text = {.ca = "no certificate"};
    struct rpc_tls half = {.ca = pki->ca, .cert = pki->client_cert};
    struct rpc_tls crossed = {.cert = pki->server_cert, .key = pki->client_key};
    assert_int_equal(rpc_loop_new(&loop, &err), POD_OK);
    struct rpc_channel_options to = {.target = "127.0.0.1:1", .tls = &text};
    assert_int_equal(rpc_channel_new(loop, &to, &channel, &err),
                     POD_INVALID_ARGUMENT);
    to.tls = &half;
    assert_int_equal(rpc_channel_new(loop, &to, &channel, &err),
                     POD_INVALID_ARGUMENT);
    struct rpc_server_options at = {.listen = "127.0.0.1:0", .tls = &text};
    assert_int_equal(rpc_server_new(loop, &at, &server, &err),
                     POD_INVALID_ARGUMENT);
    at.tls = &crossed;
    assert_int_equal(rpc_server_new(loop, &at, &server, &err),
                     POD_RESOURCE_EXHAUSTED);
    rpc_loop_free(loop);
}

static void test_words_of_grpc_are_not_repeated(void **state)
{
    const int64_t start = 1000 * POD_NS_PER_S;
    const int64_t minute = 60 * POD_NS_PER_S;
    struct pod_err err = POD_ERR_NONE;
    struct rpc_loop *loop = NULL;
    char long_text[1024];
    char text[24];
    (void)state;
    assert_int_equal(rpc_loop_new(&loop, &err), POD_OK); // sets the log up
    assert_false(rpc_log_is_old("a", start));
    assert_false(rpc_log_is_old("ab", start));
    assert_true(rpc_log_is_old("a", start + minute - 1));
    assert_false(rpc_log_is_old("a", start + minute));
    assert_true(rpc_log_is_old("a", start + minute + 1));
    memset(long_text, 'x', sizeof(long_text));
    long_text[sizeof(long_text) - 1] = '\0';
    assert_false(rpc_log_is_old(long_text, start));
    assert_true(rpc_log_is_old(long_text, start));
    // Many others make it forget.
    for (int i = 0; i < 16; i++) {
        snprintf(text, sizeof(text), "other %d", i);
        assert_false(rpc_log_is_old(text, start + 2 * minute));
    }
    assert_false(rpc_log_is_old("a", start + minute + 2));
    rpc_loop_free(loop);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define WITH_PKI(test)                                                         \
    cmocka_unit_test_setup_teardown(test, setup_pki, teardown_pki)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(test_unary_echo),
        WITH(test_unary_empty_message),
        WITH(test_unary_refusal),
        WITH(test_unknown_method),
        WITH(test_unary_deadline),
        WITH(test_unary_cancel),
        WITH(test_stream_both_ways),
        WITH(test_stream_joins_what_queues),
        WITH(test_stream_sends_blobs_uncopied),
        WITH(test_stream_keeps_messages),
        WITH(test_stream_sends_soon),
        WITH(test_stream_marks_and_pause),
        WITH(test_stream_without_memory_breaks),
        WITH(test_server_stop_ends_streams),
        WITH(test_refused_connection),
        WITH(test_taken_port),
        WITH(test_receive_limit),
        cmocka_unit_test(test_unix_socket),
        WITH_PKI(test_tls),
        WITH_PKI(test_mutual_tls),
        WITH_PKI(test_bad_certificates),
        cmocka_unit_test(test_words_of_grpc_are_not_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
