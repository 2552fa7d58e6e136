// SPDX-License-Identifier: Apache-2.0
// podd: the HTTP server with the pod engine in it. Reads the settings, wires
// the parts, waits for a signal, and takes it all down again in order.
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "api/routes.h"
#include "api/server.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/str.h"
#include "core/pod/pod.h"
#include "server/config.h"
#include "server/pod_remote.h"
#include "server/pod_spec.h"

enum {
    PODD_EXIT_FAILURE = 1,
    PODD_EXIT_USAGE = 2,
    // First touch of fresh pages costs more than the copy: keep big blocks.
    PODD_MMAP_THRESHOLD = 1 << 30,
    PODD_TRIM_THRESHOLD = 1 << 30,
};

struct podd_settings {
    bool help;
    bool version;
    bool check_config;
    bool dev;
    bool insecure;
    char *config;
    char *listen;
    char *pod;
    char *worker_tls_ca;
    char *worker_tls_cert;
    char *worker_tls_key;
    struct pod_setting_list allowed_hosts;
    uint64_t staging_bytes;
    uint64_t history_count;
    int64_t history_age_ns;
    int64_t drain_timeout_ns;
    char *log_format;
    char *log_level;
};

static const char default_listen[] = "127.0.0.1:8480";
static const char default_pod[] = "local:2x2x1,hosts=2,cores=2";

// ------------------------------------------------------------------ settings

static enum pod_code podd_check_pod(const void *settings, struct pod_err *err)
{
    const char *text = ((const struct podd_settings *)settings)->pod;
    struct pod_remote remote;
    struct pod_spec spec;

    if (!pod_remote_is(text))
        return pod_spec_parse(text, &spec, err);
    enum pod_code code = pod_remote_parse(text, &remote, err);
    if (code == POD_OK)
        pod_remote_fini(&remote);
    return code;
}

// "host:port" with a port of 0..65535.
static enum pod_code podd_check_listen(const void *settings,
                                       struct pod_err *err)
{
    const char *listen = ((const struct podd_settings *)settings)->listen;
    const char *colon = strrchr(listen, ':');
    uint64_t port = 0;
    if (colon != NULL && colon != listen &&
        (strcmp(colon, ":0") == 0 ||
         (pod_parse_number(colon + 1, strlen(colon + 1), &port) &&
          port <= 65535)))
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                       "expected ADDRESS:PORT with a port of 0 to 65535");
}

static enum pod_code podd_check_log_format(const void *settings,
                                           struct pod_err *err)
{
    const char *format = ((const struct podd_settings *)settings)->log_format;
    if (strcmp(format, "text") == 0 || strcmp(format, "json") == 0)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_PARAMETER, "expected text or json");
}

static const char *const log_levels[] = {"error", "warn", "info", "debug"};

static int podd_log_level(const char *name)
{
    for (int i = POD_LOG_ERROR; i <= POD_LOG_DEBUG; i++) {
        if (strcmp(name, log_levels[i]) == 0)
            return i;
    }
    return -1;
}

static enum pod_code podd_check_log_level(const void *settings,
                                          struct pod_err *err)
{
    const char *level = ((const struct podd_settings *)settings)->log_level;
    if (podd_log_level(level) >= 0)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                       "expected error, warn, info or debug");
}

#define AT(member) offsetof(struct podd_settings, member)
static const struct pod_setting podd_table[] = {
    {"help", POD_SETTING_FLAG, AT(help), "print this and exit", NULL},
    {"version", POD_SETTING_FLAG, AT(version), "print the version and exit",
     NULL},
    {"check-config", POD_SETTING_FLAG, AT(check_config),
     "validate the settings and exit", NULL},
    {"dev", POD_SETTING_FLAG, AT(dev),
     "everything in one process: loopback only, no token", NULL},
    {"config", POD_SETTING_TEXT, AT(config),
     "file with lines `name = value` of these settings", NULL},
    {"listen", POD_SETTING_TEXT, AT(listen),
     "ADDRESS:PORT to serve at; port 0 picks one [127.0.0.1:8480]",
     podd_check_listen},
    {"pod", POD_SETTING_TEXT, AT(pod),
     "the hosts: local:XxYxZ,... or grpc+pod://HOST:PORT,... "
     "[local:2x2x1,hosts=2,cores=2]",
     podd_check_pod},
    {"worker-tls-ca", POD_SETTING_TEXT, AT(worker_tls_ca),
     "file with who signs the workers' certificates; turns TLS on", NULL},
    {"worker-tls-cert", POD_SETTING_TEXT, AT(worker_tls_cert),
     "file with the certificate shown to workers", NULL},
    {"worker-tls-key", POD_SETTING_TEXT, AT(worker_tls_key),
     "file with its key", NULL},
    {"insecure", POD_SETTING_FLAG, AT(insecure),
     "allow plain text to workers on other machines", NULL},
    {"allowed-host", POD_SETTING_LIST, AT(allowed_hosts),
     "another name users reach it by; may be repeated", NULL},
    {"staging-bytes", POD_SETTING_BYTES, AT(staging_bytes),
     "budget of bytes held for uploads and reads [1GiB]", NULL},
    {"history-count", POD_SETTING_COUNT, AT(history_count),
     "finished operations that are kept [100000]", NULL},
    {"history-age", POD_SETTING_DURATION, AT(history_age_ns),
     "how long they are kept [24h]", NULL},
    {"drain-timeout", POD_SETTING_DURATION, AT(drain_timeout_ns),
     "how long SIGTERM waits for operations [30s]", NULL},
    {"log-format", POD_SETTING_TEXT, AT(log_format), "text or json [text]",
     podd_check_log_format},
    {"log-level", POD_SETTING_TEXT, AT(log_level),
     "error, warn, info or debug [info]", podd_check_log_level},
};
enum { PODD_TABLE_COUNT = sizeof(podd_table) / sizeof(podd_table[0]) };

static bool podd_is_loopback(const char *listen)
{
    return strncmp(listen, "127.", 4) == 0 ||
           strncmp(listen, "localhost:", 10) == 0 ||
           strncmp(listen, "[::1]:", 6) == 0;
}

static int podd_usage(const char *text)
{
    fprintf(stderr, "podd: %s\n", text);
    return PODD_EXIT_USAGE;
}

static bool podd_is_remote(const struct podd_settings *settings)
{
    return settings->pod != NULL && pod_remote_is(settings->pod);
}

// 0, or the exit code of a usage error.
static int podd_check_workers(const struct podd_settings *settings)
{
    struct pod_remote remote;
    struct pod_err err;
    const char *far;

    if ((settings->worker_tls_cert == NULL) !=
        (settings->worker_tls_key == NULL))
        return podd_usage("--worker-tls-cert and --worker-tls-key belong "
                          "together");
    if (settings->worker_tls_cert != NULL && settings->worker_tls_ca == NULL)
        return podd_usage("--worker-tls-cert needs --worker-tls-ca");
    if (!podd_is_remote(settings) || settings->worker_tls_ca != NULL ||
        settings->insecure)
        return 0;
    if (pod_remote_parse(settings->pod, &remote, &err) != POD_OK)
        return podd_usage(err.text);
    far = pod_remote_beyond_loopback(&remote);
    if (far != NULL)
        fprintf(stderr,
                "podd: --pod '%s': plain text beyond this machine; give "
                "--worker-tls-ca, or --insecure\n",
                far);
    pod_remote_fini(&remote);
    return far == NULL ? 0 : PODD_EXIT_USAGE;
}

// What the settings mean together. -1: go on, else the exit code.
static int podd_check(const struct podd_settings *settings)
{
    const char *listen =
        settings->listen != NULL ? settings->listen : default_listen;
    if (!settings->dev)
        return podd_usage("--dev is missing: this version has no tokens yet "
                          "and serves loopback only");
    if (!podd_is_loopback(listen)) {
        fprintf(stderr,
                "podd: --listen '%s': --dev serves loopback only "
                "(127.0.0.1, localhost or [::1])\n",
                listen);
        return PODD_EXIT_USAGE;
    }
    int workers = podd_check_workers(settings);
    if (workers != 0)
        return workers;
    return settings->check_config ? 0 : -1;
}

// ------------------------------------------------------------------- wiring

struct podd {
    struct podd_settings settings;
    struct pod *pod;
    struct pod_spec_shared *hosts;
    struct pod_grpc_hub *workers;
    struct api_server *server;
    struct api_app app;
};

static enum pod_code podd_random_instance(char *out, size_t size,
                                          struct pod_err *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return pod_err_set(err, POD_REASON_INTERNAL, "no random bytes: %s",
                           strerror(errno));
    size_t length = size - 1 < sizeof(bytes) ? size - 1 : sizeof(bytes);
    for (size_t i = 0; i < length; i++)
        out[i] = letters[bytes[i] % 32];
    out[length] = '\0';
    return POD_OK;
}

static void podd_notify(void *arg)
{
    struct podd *podd = arg;
    if (podd->server != NULL)
        api_server_notify(podd->server);
}

static enum pod_code podd_add_workers(struct podd *podd, struct pod_err *err)
{
    const struct podd_settings *settings = &podd->settings;
    const struct pod_remote_tls tls = {
        .ca = settings->worker_tls_ca,
        .cert = settings->worker_tls_cert,
        .key = settings->worker_tls_key,
    };
    struct pod_remote remote;
    enum pod_code code = pod_remote_parse(settings->pod, &remote, err);

    if (code != POD_OK)
        return code;
    code = pod_remote_add_hosts(&remote, &tls, podd->pod, &podd->workers, err);
    pod_remote_fini(&remote);
    return code;
}

static enum pod_code podd_add_hosts(struct podd *podd, struct pod_err *err)
{
    const char *text =
        podd->settings.pod != NULL ? podd->settings.pod : default_pod;
    struct pod_spec spec;

    if (podd_is_remote(&podd->settings))
        return podd_add_workers(podd, err);
    enum pod_code code = pod_spec_parse(text, &spec, err);
    if (code != POD_OK)
        return code;
    return pod_spec_add_hosts(&spec, podd->pod, &podd->hosts, err);
}

static enum pod_code podd_make_pod(struct podd *podd, struct pod_err *err)
{
    const struct podd_settings *settings = &podd->settings;
    struct pod_options options = {
        .clock = pod_clock_system,
        .history_count = settings->history_count,
        .history_age_ns = settings->history_age_ns,
        .first_number = 1,
        .staging_bytes = settings->staging_bytes,
        .notify = podd_notify,
        .notify_arg = podd,
    };
    enum pod_code code =
        podd_random_instance(options.instance, sizeof(options.instance), err);
    if (code != POD_OK)
        return code;
    podd->pod = pod_new(&options);
    if (podd->pod == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    return podd_add_hosts(podd, err);
}

static enum pod_code podd_make_server(struct podd *podd, struct pod_err *err)
{
    const struct podd_settings *settings = &podd->settings;
    api_app_init(&podd->app, podd->pod);
    podd->app.history_count = settings->history_count;
    podd->app.history_age_ns = settings->history_age_ns;
    struct api_server_options options = {
        .listen = settings->listen != NULL ? settings->listen : default_listen,
        .allowed_hosts = (const char *const *)settings->allowed_hosts.items,
        .allowed_host_count = settings->allowed_hosts.count,
    };
    api_app_setup(&podd->app, &options);
    return api_server_new(&options, &podd->server, err);
}

static void podd_welcome(const struct podd *podd)
{
    const char *at = api_server_address(podd->server);
    printf("\n"
           "  podd %s is serving a pod at http://%s\n\n"
           "  dashboard   http://%s/ui/\n"
           "  overview    curl http://%s/\n"
           "  topology    curl http://%s/v1/pod\n"
           "  a buffer    curl -H 'Content-Type: application/json' \\\n"
           "                   -d '{\"core\":0,\"shape\":\"f32[2]\","
           "\"values\":[1,2]}' \\\n"
           "                   'http://%s/v1/buffers?wait=10s'\n\n"
           "  Ctrl-C ends it. The README has a tour of five minutes.\n\n",
           POD_VERSION, at, at, at, at, at);
}

// ------------------------------------------------------------------ signals
// Not sigwait: OpenBLAS starts threads before main, with no signal blocked, and
// the kernel may give a signal to one of them. A handler that writes to a pipe
// works in whatever thread it runs.

static int signal_pipe[2] = {-1, -1};

static void podd_on_signal(int number)
{
    (void)number;
    int saved = errno;
    if (write(signal_pipe[1], "", 1) < 0)
        errno = saved; // full: as many signals as that are waiting already
    errno = saved;
}

static enum pod_code podd_catch_signals(struct pod_err *err)
{
    if (pipe2(signal_pipe, O_CLOEXEC) != 0)
        return pod_err_set(err, POD_REASON_INTERNAL, "no pipe: %s",
                           strerror(errno));
    struct sigaction action = {.sa_handler = podd_on_signal,
                               .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    return POD_OK;
}

static void podd_wait_signal(void)
{
    char byte;
    while (read(signal_pipe[0], &byte, 1) < 0 && errno == EINTR)
        ;
}

// A second signal ends the process at once, whatever the drain waits for.
static void *podd_second_signal(void *arg)
{
    (void)arg;
    podd_wait_signal();
    pod_log(POD_LOG_WARN, "podd", "second signal: exit without draining");
    _exit(0);
}

static void podd_drain(struct podd *podd)
{
    pthread_t second;
    bool watching =
        pthread_create(&second, NULL, podd_second_signal, NULL) == 0;
    pod_log(POD_LOG_INFO, "podd", "draining");
    pod_drain(podd->pod);
    api_server_drain(podd->server);
    pod_await_idle(podd->pod, podd->settings.drain_timeout_ns);
    api_server_stop(podd->server, POD_NS_PER_S);
    pod_stop(podd->pod);
    if (watching) {
        pthread_cancel(second);
        pthread_join(second, NULL);
    }
}

static enum pod_code podd_serve(struct podd *podd, struct pod_err *err)
{
    enum pod_code code = podd_catch_signals(err);
    if (code == POD_OK)
        code = podd_make_pod(podd, err);
    if (code == POD_OK)
        code = podd_make_server(podd, err);
    if (code == POD_OK)
        code = pod_start(podd->pod, err);
    if (code != POD_OK)
        return code;
    // Workers may be long in coming: users see that better than a closed port.
    pod_await_hosts(podd->pod, podd_is_remote(&podd->settings)
                                   ? POD_NS_PER_S
                                   : 5 * POD_NS_PER_S);
    code = api_server_start(podd->server, err);
    if (code != POD_OK) {
        pod_stop(podd->pod);
        return code;
    }
    if (podd->settings.dev)
        podd_welcome(podd);
    printf("listening on %s\n", api_server_address(podd->server));
    fflush(stdout);
    podd_wait_signal();
    podd_drain(podd);
    return POD_OK;
}

static void podd_fini(struct podd *podd)
{
    api_server_free(podd->server);
    pod_destroy(podd->pod);
    pod_spec_shared_free(podd->hosts);
    pod_grpc_hub_free(podd->workers);
}

// As many connections as the system allows.
static void podd_raise_limits(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    mallopt(M_MMAP_THRESHOLD, PODD_MMAP_THRESHOLD);
    mallopt(M_TRIM_THRESHOLD, PODD_TRIM_THRESHOLD);
}

static int podd_run(struct podd *podd, int argc, char **argv)
{
    struct podd_settings *settings = &podd->settings;
    struct pod_err err = POD_ERR_NONE;
    if (pod_config_read(podd_table, PODD_TABLE_COUNT, "PODD", argc,
                        (const char *const *)argv, settings, &err) != POD_OK)
        return podd_usage(err.text);
    if (settings->help) {
        printf("usage: podd --dev [flags]\n\n");
        pod_config_help(podd_table, PODD_TABLE_COUNT);
        return 0;
    }
    if (settings->version) {
        printf("podd %s\n", POD_VERSION);
        return 0;
    }
    int checked = podd_check(settings);
    if (checked >= 0)
        return checked;
    pod_log_setup(settings->log_level != NULL
                      ? (enum pod_log_level)podd_log_level(settings->log_level)
                      : POD_LOG_INFO,
                  settings->log_format != NULL &&
                          strcmp(settings->log_format, "json") == 0
                      ? POD_LOG_JSON
                      : POD_LOG_TEXT);
    podd_raise_limits();
    enum pod_code code = podd_serve(podd, &err);
    podd_fini(podd);
    if (code == POD_OK)
        return 0;
    fprintf(stderr, "podd: %s\n", err.text);
    return PODD_EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct podd podd = {
        .settings = {.staging_bytes = UINT64_C(1) << 30,
                     .history_count = 100000,
                     .history_age_ns = 24 * 3600 * POD_NS_PER_S,
                     .drain_timeout_ns = 30 * POD_NS_PER_S},
    };
    int exit_code = podd_run(&podd, argc, argv);
    pod_config_fini(podd_table, PODD_TABLE_COUNT, &podd.settings);
    return exit_code;
}
