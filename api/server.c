// SPDX-License-Identifier: Apache-2.0
#include "api/server.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/http_internal.h"
#include "api/idempotency.h"
#include "api/json_memory.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"

enum {
    // Memory of a connection at libmicrohttpd: request line, headers and one
    // piece of a body, and later the headers of the answer. All of it stays
    // resident for a connection, and half of it is what one recv of a body
    // takes at most. With 16, 24 and 32 KiB an upload costs the processor 1.4,
    // 1.15 and 1.0 times what it costs a bare server with 32 KiB
    // (tests/bench/http). 8 KiB would refuse a browser's cookies.
    SERVER_POOL_BYTES = 24 * 1024,
    // For workers and the log, and connections over the cap.
    SERVER_SPARE_FDS = 256 + API_SURPLUS_CONNECTIONS,
};

// Of GnuTLS; libmicrohttpd takes it as void * and reads it only.
static char server_priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

// The server whose loop this thread runs: GnuTLS hands its callback nothing.
static _Thread_local struct api_server *server_of_thread;

static void server_limits(struct api_limits *limits)
{
    const struct api_limits defaults = {
        .connections = 12000,
        .parked = 10000,
        .streams = 4000,
        .header_bytes = 8 * 1024,
        .json_bytes = 1 << 20,
        .json_total_bytes = 64 << 20,
        .json_values = 200000,
        .json_depth = 32,
        .data_bytes_per_s = 64 * 1024,
        .header_ns = 10 * POD_NS_PER_S,
        .json_body_ns = 30 * POD_NS_PER_S,
        .data_grace_ns = 10 * POD_NS_PER_S,
        .idle_ns = 75 * POD_NS_PER_S,
        .stall_ns = 30 * POD_NS_PER_S,
        .reply_bytes_per_s = 1024,
        .wait_ns = 55 * POD_NS_PER_S,
        .bookmark_ns = 15 * POD_NS_PER_S,
    };

#define SERVER_DEFAULT(member)                                                 \
    limits->member = limits->member > 0 ? limits->member : defaults.member
    SERVER_DEFAULT(connections);
    SERVER_DEFAULT(parked);
    SERVER_DEFAULT(streams);
    SERVER_DEFAULT(header_bytes);
    SERVER_DEFAULT(json_bytes);
    SERVER_DEFAULT(json_total_bytes);
    SERVER_DEFAULT(json_values);
    SERVER_DEFAULT(json_depth);
    SERVER_DEFAULT(data_bytes_per_s);
    SERVER_DEFAULT(header_ns);
    SERVER_DEFAULT(json_body_ns);
    SERVER_DEFAULT(data_grace_ns);
    SERVER_DEFAULT(idle_ns);
    SERVER_DEFAULT(stall_ns);
    SERVER_DEFAULT(reply_bytes_per_s);
    SERVER_DEFAULT(wait_ns);
    SERVER_DEFAULT(bookmark_ns);
#undef SERVER_DEFAULT
}

// What one client may have is all there is, unless it was limited.
static void server_client_limits(struct api_limits *limits)
{
    if (limits->connections_per_address == 0)
        limits->connections_per_address = limits->connections;
    if (limits->requests_per_token == 0)
        limits->requests_per_token = limits->connections;
    if (limits->parked_per_address == 0)
        limits->parked_per_address = limits->parked;
    if (limits->streams_per_address == 0)
        limits->streams_per_address = limits->streams;
}

// With more connections than descriptors nothing else would get one.
static void server_fit_descriptors(struct api_limits *limits)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0 ||
        files.rlim_cur == RLIM_INFINITY)
        return;
    rlim_t room = files.rlim_cur > 2 * SERVER_SPARE_FDS
                      ? files.rlim_cur - SERVER_SPARE_FDS
                      : files.rlim_cur / 2;
    if (limits->connections <= room)
        return;
    pod_log(POD_LOG_WARN, "http",
            "%u connections do not fit into %llu descriptors: %llu allowed",
            limits->connections, (unsigned long long)files.rlim_cur,
            (unsigned long long)room);
    limits->connections = (unsigned)room;
}

// ------------------------------------------------------------------ options

static void server_free_list(char **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pod_free(list[i]);
    pod_free(list);
}

// Copies names in lower case; `extra` (may be NULL) is added.
static bool server_copy_list(const char *const *names, size_t count,
                             const char *extra, char ***out_list,
                             size_t *out_count)
{
    size_t all = count + (extra != NULL);
    char **list = pod_calloc(all + 1, sizeof(char *));

    if (list == NULL)
        return false;
    *out_list = list;
    for (size_t i = 0; i < all; i++) {
        list[i] = pod_strdup(i < count ? names[i] : extra);
        if (list[i] == NULL)
            return false;
        for (char *c = list[i]; *c != '\0'; c++)
            *c = (char)tolower((unsigned char)*c);
        *out_count = i + 1;
    }
    return true;
}

static bool server_copy_options(struct api_server *server,
                                const struct api_server_options *options)
{
    char host[sizeof(server->address)];

    server->limits = options->limits;
    server_limits(&server->limits);
    server_client_limits(&server->limits);
    server_fit_descriptors(&server->limits);
    server->routes = options->routes;
    server->route_count = options->route_count;
    server->app = options->app;
    server->on_notify = options->on_notify;
    server->on_notify_arg = options->on_notify_arg;
    server->on_turn = options->on_turn;
    server->staging = options->staging;
    server->answers = api_answers_new(&options->answers);
    if (server->answers == NULL)
        return false;
    (void)snprintf(host, sizeof(host), "%s", server->address);
    char *colon = strrchr(host, ':');
    if (colon != NULL)
        *colon = '\0';
    return server_copy_list(options->allowed_hosts, options->allowed_host_count,
                            server->local ? NULL : host, &server->hosts,
                            &server->host_count) &&
           server_copy_list(options->allowed_origins,
                            options->allowed_origin_count, NULL,
                            &server->origins, &server->origin_count);
}

// --------------------------------------------------------------------- making

static void server_log(void *arg, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static void server_log(void *arg, const char *format, va_list args)
{
    char line[256];

    (void)arg;
    (void)vsnprintf(line, sizeof(line), format, args);
    line[strcspn(line, "\r\n")] = '\0';
    pod_log(POD_LOG_DEBUG, "http", "libmicrohttpd: %s", line);
}

static int server_certificate(gnutls_session_t session,
                              const gnutls_datum_t *authorities, int count,
                              const gnutls_pk_algorithm_t *algorithms,
                              int algorithm_count, gnutls_pcert_st **out_chain,
                              unsigned *out_length, gnutls_privkey_t *out_key)
{
    (void)session;
    (void)authorities;
    (void)count;
    (void)algorithms;
    (void)algorithm_count;
    if (server_of_thread == NULL)
        return -1;
    api_tls_pair(server_of_thread->tls, server_of_thread->now_ns, out_chain,
                 out_length, out_key);
    return 0;
}

static bool server_start_daemon(struct api_server *server)
{
    // An option is a pointer, and a function is none in C.
    const union {
        gnutls_certificate_retrieve_function2 *function;
        void *pointer;
    } callback = {.function = server_certificate};
    struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, callback.pointer},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, server_priorities},
        {MHD_OPTION_END, 0, NULL},
    };

    server->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME |
            MHD_USE_ERROR_LOG | (server->tls != NULL ? MHD_USE_TLS : 0),
        0, api_conn_accept, server, api_request_step, server,
        MHD_OPTION_EXTERNAL_LOGGER, server_log, server,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SERVER_POOL_BYTES,
        MHD_OPTION_CONNECTION_LIMIT,
        server->limits.connections + API_SURPLUS_CONNECTIONS + 1,
        MHD_OPTION_CONNECTION_TIMEOUT, 0U, MHD_OPTION_STRICT_FOR_CLIENT, 0,
        MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_URI_LOG_CALLBACK,
        api_conn_target, server, MHD_OPTION_NOTIFY_CONNECTION, api_conn_notify,
        server, MHD_OPTION_NOTIFY_COMPLETED, api_request_completed, server,
        MHD_OPTION_ARRAY, server->tls != NULL ? tls : none, MHD_OPTION_END);
    return server->daemon != NULL;
}

static bool server_add_fd(struct api_server *server, int fd, void *tag)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = tag};

    return epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool server_open(struct api_server *server)
{
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    server->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->epoll_fd < 0 || server->event_fd < 0 ||
        !server_start_daemon(server))
        return false;
    int daemon_fd =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    return server_add_fd(server, server->event_fd, &server->event_fd) &&
           server_add_fd(server, server->listen_fd, &server->listen_fd) &&
           server_add_fd(server, daemon_fd, server);
}

static struct api_server *server_new_empty(void)
{
    struct api_server *server = pod_calloc(1, sizeof(*server));

    if (server == NULL)
        return NULL;
    server->notify_at_ns = POD_NEVER;
    server->accept_at_ns = POD_NEVER;
    server->listen_fd = -1;
    server->epoll_fd = -1;
    server->event_fd = -1;
    pod_list_init(&server->conns);
    pod_list_init(&server->wakes);
    pod_list_init(&server->lingering);
    pod_list_init(&server->spare);
    pod_list_init(&server->shared.woken);
    for (int i = 0; i < API_PHASE_COUNT; i++)
        pod_list_init(&server->phases[i]);
    pod_mutex_init(&server->shared.lock, POD_RANK_PARKED, "parked");
    api_worker_init(&server->worker);
    (void)!getrandom(&server->id_state, sizeof(server->id_state), 0);
    (void)!getrandom(server->key_secret, sizeof(server->key_secret), 0);
    return server;
}

static enum pod_code server_secure(struct api_server *server,
                                   const struct api_server_options *options,
                                   struct pod_err *err)
{
    api_rate_init(&server->rate, server->limits.requests_per_s);
    enum pod_code code =
        api_auth_init(&server->auth, options->token_file, server->local, err);
    if (code == POD_OK && options->tls_cert != NULL)
        code =
            api_tls_new(options->tls_cert, options->tls_key, &server->tls, err);
    return code;
}

enum pod_code api_server_new(const struct api_server_options *options,
                             struct api_server **out_server,
                             struct pod_err *err)
{
    struct api_server *server = server_new_empty();

    if (server == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for the server");
    enum pod_code code =
        api_listen(options->listen, &server->listen_fd, server->address,
                   sizeof(server->address), &server->port, err);
    server->local = strncmp(server->address, "unix:", 5) == 0;
    if (code == POD_OK && server->local)
        (void)api_file_look(server->address + 5, &server->socket_stamp);
    if (code == POD_OK &&
        (!server_copy_options(server, options) ||
         !api_traffic_init(&server->traffic, options->route_count)))
        code = pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for the server");
    if (code == POD_OK)
        code = server_secure(server, options, err);
    if (code == POD_OK && !server_open(server))
        code = pod_err_set(err, POD_REASON_INTERNAL,
                           "cannot start the HTTP server: %s", strerror(errno));
    if (code != POD_OK) {
        api_server_free(server);
        return code;
    }
    *out_server = server;
    return POD_OK;
}

// The socket file goes too, unless somebody has put another in its place.
static void server_close_listener(struct api_server *server)
{
    if (server->listen_fd < 0)
        return;
    (void)close(server->listen_fd);
    if (server->local &&
        api_file_is(server->address + 5, &server->socket_stamp))
        (void)unlink(server->address + 5);
}

void api_server_free(struct api_server *server)
{
    if (server == NULL)
        return;
    api_server_stop(server, 0);
    if (server->daemon != NULL)
        MHD_stop_daemon(server->daemon);
    api_worker_fini(&server->worker);
    server_close_listener(server);
    if (server->epoll_fd >= 0)
        (void)close(server->epoll_fd);
    if (server->event_fd >= 0)
        (void)close(server->event_fd);
    server_free_list(server->hosts, server->host_count);
    server_free_list(server->origins, server->origin_count);
    api_request_free_spare(server);
    api_answers_free(server->answers);
    api_auth_fini(&server->auth);
    api_tls_free(server->tls);
    api_rate_fini(&server->rate);
    api_traffic_fini(&server->traffic);
    pod_map_fini(&server->callers);
    pod_map_fini(&server->addresses);
    pod_free(server->heap);
    api_memory_fini(&server->json);
    pod_mutex_fini(&server->shared.lock);
    pod_free(server);
}

// -------------------------------------------------------------------- running

static void *server_main(void *arg)
{
    server_of_thread = arg;
    return api_loop_main(arg);
}

// The thread takes no signals: they are for the one that waits for them, and a
// broken pipe is an error of its send.
enum pod_code api_server_start(struct api_server *server, struct pod_err *err)
{
    sigset_t all;
    sigset_t before;

    api_json_memory_setup();
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&server->thread, NULL, server_main, server);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure != 0)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "cannot start the HTTP thread: %s",
                           strerror(failure));
    server->running = true;
    return POD_OK;
}

void api_server_wake_loop(struct api_server *server)
{
    uint64_t one = 1;

    (void)!write(server->event_fd, &one, sizeof(one));
}

void api_server_reload(struct api_server *server)
{
    atomic_store(&server->reload, true);
    api_server_wake_loop(server);
}

void api_server_notify(struct api_server *server)
{
    if (!atomic_exchange(&server->notified, true))
        api_server_wake_loop(server);
}

void api_server_notify_at(struct api_server *server, int64_t mono_ns)
{
    if (mono_ns < server->notify_at_ns)
        server->notify_at_ns = mono_ns;
}

void api_server_drain(struct api_server *server)
{
    atomic_store(&server->draining, true);
    api_server_wake_loop(server);
}

bool api_server_draining(const struct api_server *server)
{
    return atomic_load(&server->draining);
}

void api_server_stop(struct api_server *server, int64_t grace_ns)
{
    if (!server->running)
        return;
    int64_t now = pod_clock_mono(&pod_clock_system);
    atomic_store(&server->stop_deadline_ns, pod_time_add(now, grace_ns));
    atomic_store(&server->stopping, true);
    api_server_drain(server);
    (void)pthread_join(server->thread, NULL);
    server->running = false;
}

const char *api_server_address(const struct api_server *server)
{
    return server->address;
}

unsigned api_server_port(const struct api_server *server)
{
    return server->port;
}

void api_server_counts(const struct api_server *server,
                       struct api_server_counts *out_counts)
{
    *out_counts = (struct api_server_counts){
        .connections = atomic_load(&server->connections),
        .parked = atomic_load(&server->parked),
        .streams = atomic_load(&server->streams),
        .requests = atomic_load(&server->requests),
        .refused = atomic_load(&server->refused),
    };
}
