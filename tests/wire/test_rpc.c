// SPDX-License-Identifier: Apache-2.0
// gRPC plumbing: both sides in one process over real sockets.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/lock.h"
#include "proto/rpc_client.h"
#include "proto/rpc_internal.h"
#include "proto/rpc_server.h"
#include "tests/wire/rpc_fixture.h"

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

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    *state = f;
    return setup_at(f, "127.0.0.1:0", NULL, NULL, NULL);
}

// ---------------------------------------------------------------------- unary

static void test_unary_echo(void **state)
{
    struct fixture *f = *state;
    call_text(f, "/t.S/Echo", "hello", WAIT_S * POD_NS_PER_S, NULL);
    await(&f->client, &f->client.ended, 1);
    assert_int_equal(f->client.code, POD_OK);
    assert_int_equal(f->client.last_size, 5);
    assert_memory_equal(f->client.last, "hello", 5);
}

static void test_unary_empty_message(void **state)
{
    struct fixture *f = *state;
    call_text(f, "/t.S/Echo", "", WAIT_S * POD_NS_PER_S, NULL);
    await(&f->client, &f->client.ended, 1);
    assert_int_equal(f->client.code, POD_OK);
    assert_int_equal(f->client.messages, 1);
    assert_int_equal(f->client.last_size, 0);
}

static void test_unary_refusal(void **state)
{
    struct fixture *f = *state;
    call_text(f, "/t.S/Refuse", "x", WAIT_S * POD_NS_PER_S, NULL);
    await(&f->client, &f->client.ended, 1);
    assert_int_equal(f->client.code, POD_FAILED_PRECONDITION);
    assert_string_equal(f->client.text, "not today");
    assert_int_equal(f->client.messages, 0);
}

static void test_unknown_method(void **state)
{
    struct fixture *f = *state;
    call_text(f, "/t.S/Nothing", "x", WAIT_S * POD_NS_PER_S, NULL);
    await(&f->client, &f->client.ended, 1);
    assert_int_equal(f->client.code, POD_UNIMPLEMENTED);
    assert_string_equal(f->client.text, "no method /t.S/Nothing");
}

static bool is_held(struct fixture *f)
{
    pod_mutex_lock(&f->served.lock);
    bool is = f->served.held != NULL;
    pod_mutex_unlock(&f->served.lock);
    return is;
}

static void test_unary_deadline(void **state)
{
    struct fixture *f = *state;
    int64_t timeout_ns = POD_NS_PER_S / 5;
    // A busy machine may not even have sent it by then: it gets more time.
    for (size_t tries = 1; !is_held(f); tries++, timeout_ns *= 2) {
        assert_true(timeout_ns < WAIT_S * POD_NS_PER_S);
        call_text(f, "/t.S/Hold", "x", timeout_ns, NULL);
        await(&f->client, &f->client.ended, tries);
        assert_int_equal(f->client.code, POD_DEADLINE_EXCEEDED);
    }
    let_go(&f->served);
}

static void test_unary_cancel(void **state)
{
    struct fixture *f = *state;
    struct rpc_call *call = NULL;
    call_text(f, "/t.S/Hold", "x", WAIT_S * POD_NS_PER_S, &call);
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

// While a message is on its way, which does not get through before it is read,
// the others queue and are joined: as many of them as may be.
static void test_stream_joins_what_queues(void **state)
{
    enum { COUNT = 5000, LARGE = 16 << 20 };
    struct fixture *f = *state;
    char *large = calloc(1, LARGE);
    assert_non_null(large);
    open_stream(f);
    rpc_stream_pause(served_stream(f));
    // The read that had begun takes this one, and is the last for now.
    rpc_stream_send(f->client.stream, bytes_out("a", 1));
    await(&f->served, &f->served.bytes, 1);
    rpc_stream_send(f->client.stream, bytes_out(large, LARGE));
    for (int i = 0; i < COUNT; i++)
        rpc_stream_send(f->client.stream, bytes_out("0123456789", 10));
    rpc_stream_resume(f->served.stream);
    await(&f->served, &f->served.bytes, 1 + LARGE + COUNT * 10);
    assert_int_equal(f->served.bytes, 1 + LARGE + COUNT * 10);
    assert_int_equal(f->served.messages, 2 + COUNT / BATCH);
    free(large);
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

enum { MUCH_MIB = 64 };

// More than the windows of the connection.
static void send_much(struct fixture *f)
{
    char *big = calloc(1, 1 << 20);
    assert_non_null(big);
    for (int i = 0; i < MUCH_MIB; i++)
        rpc_stream_send(f->client.stream, bytes_out(big, 1 << 20));
    free(big);
}

static void test_stream_marks_and_pause(void **state)
{
    struct fixture *f = *state;
    open_stream(f);
    rpc_stream_send(f->client.stream, bytes_out("a", 1));
    rpc_stream_pause(served_stream(f));
    send_much(f);
    // The windows of the connection are far smaller than what was sent.
    assert_true(rpc_stream_queued(f->client.stream) > 16 << 20);
    pod_mutex_lock(&f->client.lock);
    size_t drained = f->client.drained;
    pod_mutex_unlock(&f->client.lock);
    rpc_stream_resume(f->served.stream);
    await(&f->client, &f->client.drained, drained + 1);
    await(&f->served, &f->served.bytes, 1 + ((size_t)MUCH_MIB << 20));
    assert_int_equal(rpc_stream_queued(f->client.stream), 0);
}

// Who has much to send to one that does not take it does not read either.
static void test_stream_holds_back(void **state)
{
    struct fixture *f = *state;
    struct rpc_stream_settings settings_back = settings;
    struct pod_err err = POD_ERR_NONE;
    struct seen other;
    settings_back.hold_bytes = 1 << 20;
    seen_init(&other);
    assert_int_equal(rpc_stream_open(f->channel, "/t.S/Stream", &settings_back,
                                     &client_events, &f->client,
                                     &f->client.stream, &err),
                     POD_OK);
    rpc_stream_pause(served_stream(f));
    send_much(f);
    // A read that had begun is not taken back.
    rpc_stream_send(f->served.stream, bytes_out("first", 5));
    await(&f->client, &f->client.messages, 1);
    rpc_stream_send(f->served.stream, bytes_out("second", 6));
    // What comes later on the same connection has come.
    struct rpc_unary unary = {.method = "/t.S/Echo",
                              .timeout_ns = WAIT_S * POD_NS_PER_S,
                              .done = on_reply,
                              .arg = &other};
    assert_int_equal(
        rpc_unary_start(f->channel, &unary, bytes_out("x", 1), NULL, &err),
        POD_OK);
    await(&other, &other.messages, 1);
    assert_int_equal(f->client.messages, 1);
    rpc_stream_resume(f->served.stream);
    await(&f->client, &f->client.messages, 2);
    assert_int_equal(f->client.last_size, 6);
    await(&other, &other.ended, 1);
    seen_fini(&other);
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
    call_text(f, "/t.S/Echo", "x", WAIT_S * POD_NS_PER_S, NULL);
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
                              .timeout_ns = WAIT_S * POD_NS_PER_S,
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
    call_text(f, "/t.S/Echo", "hello", WAIT_S * POD_NS_PER_S, NULL);
    await(&f->client, &f->client.ended, 1);
    assert_int_equal(f->client.code, POD_OK);
    (void)teardown(&as_state);
    (void)unlink(address + 5);
    (void)rmdir(folder);
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
        WITH(test_stream_holds_back),
        WITH(test_stream_without_memory_breaks),
        WITH(test_server_stop_ends_streams),
        WITH(test_refused_connection),
        WITH(test_taken_port),
        WITH(test_receive_limit),
        cmocka_unit_test(test_unix_socket),
        cmocka_unit_test(test_words_of_grpc_are_not_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
