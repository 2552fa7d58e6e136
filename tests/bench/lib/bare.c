// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/lib/bare.h"

#include <jansson.h>
#include <malloc.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/lib/bare_worker.h"

enum {
    BARE_CONNECTIONS = 15000,
    BARE_BODY_BYTES = 256, // of JSON
    BARE_EVENT_BYTES = 4096,
    BARE_KICKS = 2,
    BARE_HEAP_KEPT = 1 << 30, // as ours: big blocks stay with malloc
};

struct bare_request {
    struct bare_request *next; // suspended
    struct MHD_Connection *connection;
    bool woken;
    char *data; // what is PUT
    size_t used;
    struct bare_job job;
    char body[BARE_BODY_BYTES];
};

struct bare_server {
    struct MHD_Daemon *daemon;
    struct MHD_Response *download;
    struct bare_request *suspended;
    size_t suspended_count;
    unsigned kicks;             // turns that must not block
    struct bare_worker *worker; // or NULL: jobs are not handed over
    char *kept;                 // what was PUT last
    char event[BARE_EVENT_BYTES];
};

// ------------------------------------------------------------------- answers

static void bare_set(json_t *object, const char *key, const char *text)
{
    (void)json_object_set_new_nocheck(object, key, json_string_nocheck(text));
}

static json_t *bare_object(const char *a, const char *a_text, const char *b,
                           const char *b_text)
{
    json_t *object = json_object();

    bare_set(object, a, a_text);
    bare_set(object, b, b_text);
    return object;
}

static json_t *bare_target(void)
{
    json_t *target = json_object();

    (void)json_object_set_new_nocheck(target, "host", json_integer(0));
    (void)json_object_set_new_nocheck(target, "core", json_integer(0));
    return target;
}

// Why a cancelled operation ended.
static void bare_set_error(json_t *event)
{
    json_t *cancel = bare_object("outcome", "INTERRUPTED", "by", "null");
    json_t *error =
        bare_object("code", "CANCELLED", "reason", "CANCEL_REQUESTED");
    json_t *root = bare_object("operation", "op-1234567", "kind", "COPY");

    bare_set(root, "host", "0");
    bare_set(root, "core", "0");
    bare_set(root, "code", "CANCELLED");
    bare_set(root, "reason", "CANCEL_REQUESTED");
    bare_set(root, "detail", "it was cancelled");
    bare_set(root, "at", "2026-01-01T00:00:00.000123Z");
    bare_set(error, "detail", "it was cancelled");
    bare_set(error, "causes_omitted", "0");
    (void)json_object_set_new_nocheck(error, "root_cause", root);
    (void)json_object_set_new_nocheck(error, "causes", json_array());
    (void)json_object_set_new_nocheck(event, "error", error);
    (void)json_object_set_new_nocheck(event, "cancel", cancel);
}

// The event of a finished copy.
static json_t *bare_event(void)
{
    json_t *event = json_object();
    json_t *inputs = json_array();
    json_t *durations =
        bare_object("waiting", "0.000006s", "ready", "0.000030s");
    json_t *result = json_object();

    bare_set(event, "id", "op-1234567");
    bare_set(event, "kind", "COPY");
    bare_set(event, "state", "SUCCEEDED");
    (void)json_object_set_new_nocheck(event, "done", json_true());
    bare_set(event, "revision", "4938271");
    bare_set(event, "buffer", "buf-64");
    (void)json_array_append_new(inputs, json_string_nocheck("buf-63"));
    (void)json_object_set_new_nocheck(event, "inputs", inputs);
    (void)json_object_set_new_nocheck(event, "target", bare_target());
    bare_set(event, "created", "2026-01-01T00:00:00.000123Z");
    bare_set(event, "ready", "2026-01-01T00:00:00.000129Z");
    bare_set(event, "running", "2026-01-01T00:00:00.000159Z");
    bare_set(event, "bytes", "16");
    bare_set(event, "finished", "2026-01-01T00:00:00.000164Z");
    bare_set(durations, "running", "0.000005s");
    (void)json_object_set_new_nocheck(event, "durations", durations);
    bare_set(result, "bytes", "16");
    (void)json_object_set_new_nocheck(event, "result", result);
    (void)json_object_set_new_nocheck(event, "labels", json_object());
    (void)json_object_set_new_nocheck(event, "links",
                                      bare_object("self",
                                                  "/v1/events/op-1234567", "ui",
                                                  "/ui/events/op-1234567"));
    return event;
}

static enum MHD_Result bare_reply_event(struct bare_server *server,
                                        struct MHD_Connection *connection,
                                        bool cancelled)
{
    json_t *event = bare_event();
    if (cancelled)
        bare_set_error(event);
    size_t length =
        json_dumpb(event, server->event, sizeof(server->event), JSON_COMPACT);
    struct MHD_Response *response = MHD_create_response_from_buffer(
        length, server->event, MHD_RESPMEM_MUST_COPY);

    json_decref(event);
    MHD_add_response_header(response, "Content-Type", "application/json");
    MHD_add_response_header(response, "ETag", "\"0123456789abcdef-r4938271\"");
    MHD_add_response_header(response, "X-Request-Id", "0123456789abcdef");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    enum MHD_Result result =
        MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}

// The line of podd's own that tells how many wait.
static enum MHD_Result bare_reply_metrics(struct bare_server *server,
                                          struct MHD_Connection *connection)
{
    int length =
        snprintf(server->event, sizeof(server->event),
                 "podd_http_parked_requests %zu\n", server->suspended_count);
    struct MHD_Response *response = MHD_create_response_from_buffer(
        (size_t)length, server->event, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result result =
        MHD_queue_response(connection, MHD_HTTP_OK, response);

    MHD_destroy_response(response);
    return result;
}

// ------------------------------------------------------------------ requests

static enum MHD_Result bare_suspend(struct bare_server *server,
                                    struct bare_request *request)
{
    request->next = server->suspended;
    server->suspended = request;
    server->suspended_count++;
    MHD_suspend_connection(request->connection);
    return MHD_YES;
}

static void bare_resume_all(struct bare_server *server)
{
    struct bare_request *request;

    while ((request = server->suspended) != NULL) {
        server->suspended = request->next;
        request->woken = true;
        MHD_resume_connection(request->connection);
    }
    server->suspended_count = 0;
    server->kicks = BARE_KICKS;
}

static enum MHD_Result bare_hand_over(struct bare_server *server,
                                      struct bare_request *request)
{
    request->job.owner = request;
    MHD_suspend_connection(request->connection);
    bare_worker_give(server->worker, &request->job);
    return MHD_YES;
}

static void bare_take_back(struct bare_server *server)
{
    struct bare_job *job = bare_worker_take(server->worker);

    while (job != NULL) {
        struct bare_request *request = job->owner;
        job = job->next;
        request->woken = true;
        MHD_resume_connection(request->connection);
        server->kicks = BARE_KICKS;
    }
}

static enum MHD_Result bare_get(struct bare_server *server,
                                struct bare_request *request, const char *url)
{
    if (strstr(url, "/data") != NULL)
        return MHD_queue_response(request->connection, MHD_HTTP_OK,
                                  server->download);
    if (strcmp(url, "/metrics") == 0)
        return bare_reply_metrics(server, request->connection);
    if (!request->woken &&
        MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND,
                                    "wait") != NULL)
        return bare_suspend(server, request);
    return bare_reply_event(server, request->connection, request->woken);
}

static enum MHD_Result bare_post(struct bare_server *server,
                                 struct bare_request *request, const char *url)
{
    if (strstr(url, ":cancel") != NULL) {
        bare_resume_all(server);
    } else if (!request->woken) {
        json_t *body = json_loadb(request->body, request->used, 0, NULL);
        if (json_string_value(json_object_get(body, "to")) == NULL)
            return MHD_NO;
        json_decref(body);
        if (server->worker != NULL)
            return bare_hand_over(server, request);
    }
    return bare_reply_event(server, request->connection, false);
}

static enum MHD_Result bare_put(struct bare_server *server,
                                struct bare_request *request)
{
    free(server->kept);
    server->kept = request->data;
    request->data = NULL;
    return bare_reply_event(server, request->connection, false);
}

static struct bare_request *bare_new(struct MHD_Connection *connection,
                                     const char *method)
{
    struct bare_request *request = malloc(sizeof(*request));
    const char *length = MHD_lookup_connection_value(
        connection, MHD_HEADER_KIND, "Content-Length");

    if (request == NULL)
        return NULL;
    request->connection = connection;
    request->woken = false;
    request->used = 0;
    request->data = NULL;
    if (method[1] == 'U' && length != NULL)
        request->data = malloc(strtoul(length, NULL, 10));
    return request;
}

static enum MHD_Result bare_piece(struct bare_request *request,
                                  const char *bytes, size_t *size)
{
    char *place = request->data;

    if (place == NULL) {
        place = request->body;
        if (*size > sizeof(request->body) - request->used)
            return MHD_NO;
    }
    memcpy(place + request->used, bytes, *size);
    request->used += *size;
    *size = 0;
    return MHD_YES;
}

static enum MHD_Result bare_step(void *arg, struct MHD_Connection *connection,
                                 const char *url, const char *method,
                                 const char *version, const char *bytes,
                                 size_t *size, void **context)
{
    struct bare_server *server = arg;
    struct bare_request *request = *context;

    (void)version;
    if (request == NULL) {
        *context = bare_new(connection, method);
        return *context != NULL ? MHD_YES : MHD_NO;
    }
    if (*size > 0)
        return bare_piece(request, bytes, size);
    if (method[0] == 'G')
        return bare_get(server, request, url);
    return method[1] == 'O' ? bare_post(server, request, url)
                            : bare_put(server, request);
}

static void bare_completed(void *arg, struct MHD_Connection *connection,
                           void **context, enum MHD_RequestTerminationCode code)
{
    struct bare_request *request = *context;

    (void)arg;
    (void)connection;
    (void)code;
    if (request != NULL)
        free(request->data);
    free(request);
}

// -------------------------------------------------------------------- server

static void bare_die(const char *what)
{
    perror(what);
    exit(1);
}

static void bare_open(struct bare_server *server,
                      const struct bare_options *options)
{
    struct MHD_OptionItem pool[] = {
        {options->pool_bytes > 0 ? MHD_OPTION_CONNECTION_MEMORY_LIMIT
                                 : MHD_OPTION_END,
         (intptr_t)options->pool_bytes, NULL},
        {MHD_OPTION_END, 0, NULL},
    };
    char *data = malloc(options->data_bytes + 1);

    if (data == NULL)
        bare_die("memory");
    // Not zeros from calloc: they would be one page, again and again.
    memset(data, 1, options->data_bytes + 1);
    server->download = MHD_create_response_from_buffer(
        options->data_bytes, data, MHD_RESPMEM_MUST_FREE);
    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, bare_step,
        server, MHD_OPTION_CONNECTION_LIMIT, (unsigned)BARE_CONNECTIONS,
        MHD_OPTION_NOTIFY_COMPLETED, bare_completed, NULL, MHD_OPTION_ARRAY,
        pool, MHD_OPTION_END);
    if (server->daemon == NULL || server->download == NULL)
        bare_die("bare server");
}

// What is resumed inside MHD_run is looked at by the next MHD_run alone, so
// there the loop must not block.
static void bare_loop(struct bare_server *server)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct epoll_event event = {.events = EPOLLIN};
    struct epoll_event done = {.events = EPOLLIN, .data.ptr = server};
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);

    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, info->epoll_fd, &event) != 0 ||
        (server->worker != NULL &&
         epoll_ctl(epoll_fd, EPOLL_CTL_ADD, bare_worker_fd(server->worker),
                   &done) != 0))
        bare_die("epoll");
    for (;;) {
        MHD_UNSIGNED_LONG_LONG due;
        bool now =
            server->kicks > 0 ||
            (MHD_get_timeout(server->daemon, &due) == MHD_YES && due == 0);
        server->kicks -= server->kicks > 0;
        struct epoll_event ready[2];
        int count = epoll_wait(epoll_fd, ready, 2, now ? 0 : -1);
        for (int i = 0; i < count; i++) {
            if (ready[i].data.ptr == server)
                bare_take_back(server);
        }
        MHD_run(server->daemon);
        if (server->worker != NULL)
            bare_worker_flush(server->worker);
    }
}

static void bare_main(const struct bare_options *options, int output)
{
    static struct bare_server server;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    mallopt(M_MMAP_THRESHOLD, BARE_HEAP_KEPT);
    mallopt(M_TRIM_THRESHOLD, BARE_HEAP_KEPT);
    bare_open(&server, options);
    if (options->hands_over)
        server.worker = bare_worker_start();
    unsigned port =
        MHD_get_daemon_info(server.daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
    if (write(output, &port, sizeof(port)) != sizeof(port))
        bare_die("pipe");
    bare_loop(&server);
}

void bare_start(struct bare *bare, const struct bare_options *options)
{
    int pipes[2];

    if (pipe(pipes) != 0)
        bare_die("pipe");
    bare->pid = fork();
    if (bare->pid == 0)
        bare_main(options, pipes[1]);
    close(pipes[1]);
    if (read(pipes[0], &bare->port, sizeof(bare->port)) != sizeof(bare->port))
        bare_die("bare server");
    close(pipes[0]);
}

void bare_stop(struct bare *bare)
{
    kill(bare->pid, SIGKILL);
    waitpid(bare->pid, NULL, 0);
}
