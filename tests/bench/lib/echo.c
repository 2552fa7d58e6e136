// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/lib/echo.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include "core/base/clock.h"

// One end of the stream. Each direction has one message under way at a time.
struct echo_end {
    grpc_completion_queue *queue;
    grpc_call *call;
    grpc_slice pool; // what messages that it sends are cut from
    size_t at;       // where the next one begins
    size_t bytes;    // of each
    grpc_byte_buffer *in;
    grpc_byte_buffer *out;
    bool sending;
};

// What ended, as tags of the completion queue.
static int echo_opened;
static int echo_sent;
static int echo_received;

struct echo_client {
    struct echo_end end;
    grpc_channel *channel;
    grpc_metadata_array metadata;
    uint64_t sent;
    uint64_t received;
};

static void echo_die(const char *what)
{
    fprintf(stderr, "echo: %s\n", what);
    exit(1);
}

// Messages of any length.
static grpc_channel_args echo_arguments(void)
{
    static grpc_arg list[2];

    list[0] = (grpc_arg){.type = GRPC_ARG_INTEGER,
                         .key = strdup(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH),
                         .value = {.integer = -1}};
    list[1] = (grpc_arg){.type = GRPC_ARG_INTEGER,
                         .key = strdup(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH),
                         .value = {.integer = -1}};
    return (grpc_channel_args){.num_args = 2, .args = list};
}

// -------------------------------------------------------------- both its ends

static void echo_init(struct echo_end *end, size_t bytes, size_t pool_bytes)
{
    size_t size = pool_bytes > bytes ? pool_bytes : bytes;

    end->queue = grpc_completion_queue_create_for_next(NULL);
    end->bytes = bytes;
    end->pool = grpc_slice_malloc(size);
    memset(GRPC_SLICE_START_PTR(end->pool), 'x', size);
}

static void echo_batch(struct echo_end *end, const grpc_op *ops, size_t count,
                       void *tag)
{
    if (grpc_call_start_batch(end->call, ops, count, tag, NULL) != GRPC_CALL_OK)
        echo_die("a batch was refused");
}

// The tag of what ended, which must have worked.
static void *echo_next(struct echo_end *end)
{
    grpc_event event = grpc_completion_queue_next(
        end->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);

    if (event.type != GRPC_OP_COMPLETE || !event.success)
        echo_die("the stream has ended");
    return event.tag;
}

static void echo_send(struct echo_end *end)
{
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};

    if (end->at + end->bytes > GRPC_SLICE_LENGTH(end->pool))
        end->at = 0;
    grpc_slice payload =
        grpc_slice_sub(end->pool, end->at, end->at + end->bytes);
    end->at += end->bytes;
    end->out = grpc_raw_byte_buffer_create(&payload, 1);
    grpc_slice_unref(payload);
    end->sending = true;
    op.data.send_message.send_message = end->out;
    echo_batch(end, &op, 1, &echo_sent);
}

static void echo_receive(struct echo_end *end)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};

    end->in = NULL;
    op.data.recv_message.recv_message = &end->in;
    echo_batch(end, &op, 1, &echo_received);
}

// Whether a message came; else one was sent.
static bool echo_step(struct echo_end *end)
{
    void *tag = echo_next(end);

    if (tag == &echo_sent) {
        grpc_byte_buffer_destroy(end->out);
        end->sending = false;
        return false;
    }
    if (tag != &echo_received || end->in == NULL)
        echo_die("no message came");
    grpc_byte_buffer_destroy(end->in);
    echo_receive(end);
    return true;
}

// --------------------------------------------------------------------- server

static void echo_accept(struct echo_end *end, grpc_server *server)
{
    grpc_op op = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    grpc_call_details details;
    grpc_metadata_array metadata;

    grpc_call_details_init(&details);
    grpc_metadata_array_init(&metadata);
    if (grpc_server_request_call(server, &end->call, &details, &metadata,
                                 end->queue, end->queue,
                                 &echo_opened) != GRPC_CALL_OK)
        echo_die("no call can be taken");
    (void)echo_next(end);
    grpc_metadata_array_destroy(&metadata);
    grpc_call_details_destroy(&details);
    echo_batch(end, &op, 1, &echo_opened);
    (void)echo_next(end);
}

// Serves one stream, until it is killed.
static void echo_serve(const struct echo_options *options, int output)
{
    struct echo_end end = {.sending = false};
    const grpc_channel_args arguments = echo_arguments();
    uint64_t owed = 0; // replies

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    grpc_init();
    echo_init(&end, options->reply_bytes, options->pool_bytes);
    grpc_server *server = grpc_server_create(&arguments, NULL);
    grpc_server_register_completion_queue(server, end.queue, NULL);
    grpc_server_credentials *plain = grpc_insecure_server_credentials_create();
    int bound = grpc_server_add_http2_port(server, "127.0.0.1:0", plain);
    grpc_server_credentials_release(plain);
    unsigned port = (unsigned)bound;
    if (bound <= 0)
        echo_die("no port");
    grpc_server_start(server);
    if (write(output, &port, sizeof(port)) != sizeof(port))
        echo_die("no pipe");
    echo_accept(&end, server);
    echo_receive(&end);
    for (;;) {
        owed += echo_step(&end);
        if (owed > 0 && !end.sending) {
            echo_send(&end);
            owed--;
        }
    }
}

// --------------------------------------------------------------------- client

static void client_connect(struct echo_client *client,
                           const struct echo_options *options, unsigned port)
{
    const grpc_channel_args arguments = echo_arguments();
    grpc_op ops[2] = {{.op = GRPC_OP_SEND_INITIAL_METADATA},
                      {.op = GRPC_OP_RECV_INITIAL_METADATA}};
    char target[32];

    grpc_init();
    echo_init(&client->end, options->request_bytes, options->pool_bytes);
    snprintf(target, sizeof(target), "127.0.0.1:%u", port);
    grpc_channel_credentials *plain = grpc_insecure_credentials_create();
    client->channel = grpc_channel_create(target, plain, &arguments);
    grpc_channel_credentials_release(plain);
    client->end.call = grpc_channel_create_call(
        client->channel, NULL, GRPC_PROPAGATE_DEFAULTS, client->end.queue,
        grpc_slice_from_static_string("/bench.Echo/Stream"), NULL,
        gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    grpc_metadata_array_init(&client->metadata);
    ops[1].data.recv_initial_metadata.recv_initial_metadata = &client->metadata;
    echo_batch(&client->end, ops, 2, &echo_opened);
    (void)echo_next(&client->end);
    echo_receive(&client->end);
}

static double client_run(struct echo_client *client, unsigned window,
                         double seconds)
{
    uint64_t before = client->received;
    int64_t begin = pod_clock_mono(&pod_clock_system);
    int64_t now = begin;
    int64_t end = begin + (int64_t)(seconds * 1e9);

    do {
        if (now < end && !client->end.sending &&
            client->sent - client->received < window) {
            client->sent++;
            echo_send(&client->end);
        }
        client->received += echo_step(&client->end);
        now = pod_clock_mono(&pod_clock_system);
    } while (now < end || client->end.sending ||
             client->received < client->sent);
    return (double)(client->received - before) / ((double)(now - begin) / 1e9);
}

// Runs as often as it is asked to, until it is killed.
static void client_serve(const struct echo_options *options, unsigned port,
                         int input, int output)
{
    struct echo_client client = {.sent = 0};
    double seconds = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    client_connect(&client, options, port);
    while (read(input, &seconds, sizeof(seconds)) == sizeof(seconds)) {
        double rate = client_run(&client, options->window, seconds);
        if (write(output, &rate, sizeof(rate)) != sizeof(rate))
            echo_die("no pipe");
    }
    exit(0);
}

// --------------------------------------------------------------- both together

static unsigned echo_start_server(struct echo *echo)
{
    unsigned port = 0;
    int pipes[2];

    if (pipe(pipes) != 0)
        echo_die("no pipe");
    echo->server = fork();
    if (echo->server == 0)
        echo_serve(&echo->options, pipes[1]);
    close(pipes[1]);
    if (read(pipes[0], &port, sizeof(port)) != sizeof(port))
        echo_die("the server did not start");
    close(pipes[0]);
    return port;
}

static void echo_start_client(struct echo *echo, unsigned port)
{
    int asks[2];
    int answers[2];

    if (pipe(asks) != 0 || pipe(answers) != 0)
        echo_die("no pipe");
    echo->client = fork();
    if (echo->client == 0)
        client_serve(&echo->options, port, asks[0], answers[1]);
    close(asks[0]);
    close(answers[1]);
    echo->ask = asks[1];
    echo->answer = answers[0];
}

void echo_start(struct echo *echo, const struct echo_options *options)
{
    *echo = (struct echo){.options = *options};
    echo_start_client(echo, echo_start_server(echo));
}

double echo_run(struct echo *echo, double seconds)
{
    double rate = 0;

    if (write(echo->ask, &seconds, sizeof(seconds)) != sizeof(seconds) ||
        read(echo->answer, &rate, sizeof(rate)) != sizeof(rate))
        echo_die("the client has ended");
    return rate;
}

void echo_stop(struct echo *echo)
{
    // The client waits for a question, and does not see its stream end.
    kill(echo->server, SIGKILL);
    kill(echo->client, SIGKILL);
    waitpid(echo->client, NULL, 0);
    waitpid(echo->server, NULL, 0);
    close(echo->ask);
    close(echo->answer);
}
