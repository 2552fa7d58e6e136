// SPDX-License-Identifier: Apache-2.0
// Streams that gRPC makes again because their connection broke.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/wire/rpc_fixture.h"

// ------------------------------------------- a server that never answers

// Of HTTP/2: what a client sends first, and the head of each frame.
enum { PREFACE_BYTES = 24, HEAD_BYTES = 9, FRAME_DATA = 0, FRAME_HEADERS = 1 };
enum { RECORD_BYTES = 1 << 16 };

struct silent {
    int listener;
    int connection;
    char address[32];
    size_t size;
    unsigned char record[RECORD_BYTES]; // what the client has sent
};

static void silent_listen(struct silent *silent)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(at);
    int on = 1;
    silent->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    // So that another can listen there while its connection lasts.
    assert_int_equal(
        setsockopt(silent->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)),
        0);
    assert_int_equal(bind(silent->listener, (struct sockaddr *)&at, length), 0);
    assert_int_equal(listen(silent->listener, 1), 0);
    assert_int_equal(
        getsockname(silent->listener, (struct sockaddr *)&at, &length), 0);
    (void)snprintf(silent->address, sizeof(silent->address), "127.0.0.1:%u",
                   ntohs(at.sin_port));
}

static bool silent_saw(const struct silent *silent, int kind)
{
    const unsigned char *head;
    for (size_t at = PREFACE_BYTES; at + HEAD_BYTES <= silent->size;
         at += HEAD_BYTES +
               ((size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2])) {
        head = silent->record + at;
        if (head[3] == kind)
            return true;
    }
    return false;
}

static void await_readable(int fd)
{
    struct pollfd waits = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&waits, 1, WAIT_S * 1000), 1);
}

// Lets a client connect, and reads until it has begun a call.
static void silent_await_call(struct silent *silent)
{
    static const unsigned char no_settings[HEAD_BYTES] = {0, 0, 0, 4};
    await_readable(silent->listener);
    silent->connection = accept(silent->listener, NULL, NULL);
    assert_true(silent->connection >= 0);
    assert_int_equal(
        write(silent->connection, no_settings, sizeof(no_settings)),
        sizeof(no_settings));
    while (!silent_saw(silent, FRAME_HEADERS)) {
        await_readable(silent->connection);
        ssize_t got = read(silent->connection, silent->record + silent->size,
                           RECORD_BYTES - silent->size);
        assert_true(got > 0);
        silent->size += (size_t)got;
    }
}

// ------------------------------------------------------------------- the test

static void open_retried(struct fixture *f, const char *target)
{
    static const struct rpc_stream_events events = {
        .message = on_message, .drained = on_drained, .ended = on_ended};
    const struct rpc_channel_options options = {.target = target,
                                                .retries = true};
    struct pod_err err = POD_ERR_NONE;
    assert_int_equal(rpc_channel_new(f->loop, &options, &f->channel, &err),
                     POD_OK);
    assert_int_equal(rpc_stream_open(f->channel, "/t.S/Stream", &settings,
                                     &events, &f->client, &f->client.stream,
                                     &err),
                     POD_OK);
}

// gRPC loses messages that are sent while it sends earlier ones again, so there
// must be none to send again.
static void test_nothing_is_sent_before_the_answer(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    struct silent *silent = calloc(1, sizeof(*silent));
    struct pod_err err = POD_ERR_NONE;
    void *as_state = f;
    (void)state;
    assert_non_null(f);
    assert_non_null(silent);
    seen_init(&f->client);
    seen_init(&f->served);
    assert_int_equal(rpc_loop_new(&f->loop, &err), POD_OK);
    silent_listen(silent);
    open_retried(f, silent->address);
    rpc_stream_send(f->client.stream, bytes_out("one ", 4));
    rpc_stream_send(f->client.stream, bytes_out("two ", 4));
    silent_await_call(silent);
    assert_false(silent_saw(silent, FRAME_DATA));
    // Now one comes that answers, and the connection breaks.
    (void)close(silent->listener);
    serve_at(f, silent->address, NULL);
    (void)close(silent->connection);
    await(&f->served, &f->served.bytes, 8);
    assert_int_equal(f->served.messages, 1);
    assert_memory_equal(f->served.last, "one two ", 8);
    rpc_stream_send(f->client.stream, bytes_out("three", 5));
    rpc_stream_half_close(f->client.stream);
    await(&f->served, &f->served.half_closed, 1);
    assert_int_equal(f->served.messages, 2);
    assert_memory_equal(f->served.last, "three", 5);
    rpc_stream_finish(f->served.stream, POD_OK, "");
    await(&f->client, &f->client.ended, 1);
    assert_int_equal(f->client.code, POD_OK);
    (void)teardown(&as_state);
    free(silent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_sent_before_the_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
