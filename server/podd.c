// SPDX-License-Identifier: Apache-2.0
// podd: the HTTP server with the pod engine in it. Reads the settings, wires
// the parts, waits for a signal, and takes it all down again in order.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "api/routes.h"
#include "api/server.h"
#include "core/base/log.h"
#include "core/base/str.h"
#include "core/pod/pod.h"
#include "server/flags.h"
#include "server/pod_remote.h"
#include "server/pod_spec.h"
#include "server/process.h"
#include "server/settings.h"
#include "server/token.h"

enum {
    PODD_EXIT_FAILURE = 1,
    PODD_EXIT_USAGE = 2,
};

// ------------------------------------------------------------------- wiring

struct podd {
    struct podd_settings settings;
    struct pod *pod;
    struct pod_spec_shared *hosts;
    struct pod_workers *workers;
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
        .insecure = settings->insecure,
    };
    struct pod_remote remote;
    enum pod_code code = pod_remote_parse(settings->pod, &remote, err);

    if (code != POD_OK)
        return code;
    remote.trusts_order = settings->trust_worker_order;
    code = pod_workers_new(&remote, &tls, podd->pod, &podd->workers, err);
    pod_remote_fini(&remote);
    return code;
}

static enum pod_code podd_add_hosts(struct podd *podd, struct pod_err *err)
{
    const char *text = podd_settings_pod(&podd->settings);
    struct pod_spec spec;

    if (podd_settings_is_remote(&podd->settings))
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
        .stall_after_ns = settings->stall_after_ns,
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
    bool remote = podd_settings_is_remote(settings);
    podd->app.join = remote ? pod_workers_join : pod_spec_join;
    podd->app.join_arg = remote ? (void *)podd->workers : (void *)podd->hosts;
    struct api_server_options options = {
        .listen = podd_settings_listen(settings),
        .token_file = settings->token_file,
        .tls_cert = settings->tls_cert,
        .tls_key = settings->tls_key,
        .limits = {.requests_per_s = (unsigned)settings->rate_limit,
                   .connections_per_address =
                       (unsigned)settings->connections_per_address,
                   .requests_per_token =
                       (unsigned)settings->requests_per_token},
        .allowed_hosts = (const char *const *)settings->allowed_hosts.items,
        .allowed_host_count = settings->allowed_hosts.count,
        .allowed_origins = (const char *const *)settings->allowed_origins.items,
        .allowed_origin_count = settings->allowed_origins.count,
    };
    api_app_setup(&podd->app, &options);
    return api_server_new(&options, &podd->server, err);
}

static void podd_welcome(const struct podd *podd)
{
    const char *at = api_server_address(podd->server);
    const char *scheme = podd->settings.tls_cert != NULL ? "https" : "http";
    const char *path = strncmp(at, "unix:", 5) == 0 ? at + 5 : NULL;
    char base[256];
    char curl[256] = "curl";
    (void)snprintf(base, sizeof(base), "%s://%s", scheme,
                   path == NULL ? at : "localhost");
    if (path != NULL)
        (void)snprintf(curl, sizeof(curl), "curl --unix-socket '%s'", path);
    printf("\n"
           "  podd %s is serving a pod at %s\n\n"
           "  dashboard   %s/ui/\n"
           "  overview    %s %s/\n"
           "  topology    %s %s/v1/pod\n"
           "  a buffer    %s -H 'Content-Type: application/json' \\\n"
           "                   -d '{\"core\":0,\"shape\":\"f32[2]\","
           "\"values\":[1,2]}' \\\n"
           "                   '%s/v1/buffers?wait=10s'\n\n"
           "  Ctrl-C ends it. The README has a tour of five minutes.\n\n",
           POD_VERSION, path == NULL ? base : at, base, curl, base, curl, base,
           curl, base);
}

// ------------------------------------------------------------------ running

// SIGHUP has the files of tokens and certificate looked at (they are anyway,
// once a second while they are used).
static void podd_hang_up(void *arg)
{
    struct podd *podd = arg;
    api_server_reload(podd->server);
}

static bool podd_tidy(void *arg)
{
    struct podd *podd = arg;
    return pod_trim(podd->pod);
}

static void podd_drain(struct podd *podd)
{
    process_end_begins("podd", 0);
    flags_log_drain("podd");
    pod_drain(podd->pod);
    api_server_drain(podd->server);
    pod_await_idle(podd->pod, podd->settings.drain_timeout_ns);
    api_server_stop(podd->server, POD_NS_PER_S);
    pod_stop(podd->pod);
    process_end_is_done();
}

static enum pod_code podd_serve(struct podd *podd, struct pod_err *err)
{
    enum pod_code code = process_catch_signals(err);
    if (code == POD_OK)
        code = podd_make_pod(podd, err);
    if (code == POD_OK)
        code = podd_make_server(podd, err);
    if (code == POD_OK)
        code = pod_start(podd->pod, err);
    if (code != POD_OK)
        return code;
    // Workers may be long in coming: users see that better than a closed port.
    pod_await_hosts(podd->pod, podd_settings_is_remote(&podd->settings)
                                   ? POD_NS_PER_S
                                   : 5 * POD_NS_PER_S);
    code = api_server_start(podd->server, err);
    if (code != POD_OK) {
        pod_stop(podd->pod);
        return code;
    }
    if (podd->settings.dev)
        podd_welcome(podd);
    flags_log_listening("podd", api_server_address(podd->server));
    printf("listening on %s\n", api_server_address(podd->server));
    (void)fflush(stdout);
    process_await_end(&(struct process_calls){
        .hang_up = podd_hang_up, .tidy = podd_tidy, .arg = podd});
    podd_drain(podd);
    flags_log_stop("podd");
    return POD_OK;
}

static void podd_fini(struct podd *podd)
{
    api_server_free(podd->server);
    pod_destroy(podd->pod);
    pod_spec_shared_free(podd->hosts);
    pod_workers_free(podd->workers);
}

static int podd_help(void)
{
    printf("usage: podd --dev [flags]\n"
           "       podd --token-file FILE [flags]\n"
           "       podd token add --scope read|write|admin "
           "--token-file FILE\n\n");
    podd_settings_help();
    return 0;
}

static int podd_fail(int exit_code, const struct pod_err *err)
{
    (void)fprintf(stderr, "podd: %s\n", err->text);
    return exit_code;
}

static void podd_log_start(const struct podd_settings *settings)
{
    struct pod_str config = {.data = NULL};

    podd_settings_text(settings, &config);
    flags_log_start("podd", POD_VERSION, config.data);
    pod_str_fini(&config);
}

static int podd_run(struct podd *podd, int argc, char **argv)
{
    struct podd_settings *settings = &podd->settings;
    struct pod_err err = POD_ERR_NONE;
    if (podd_settings_read(argc, (const char *const *)argv, settings, &err) !=
        POD_OK)
        return podd_fail(PODD_EXIT_USAGE, &err);
    if (settings->help)
        return podd_help();
    if (settings->version) {
        printf("podd %s\n", POD_VERSION);
        return 0;
    }
    if (podd_settings_check(settings, &err) != POD_OK)
        return podd_fail(PODD_EXIT_USAGE, &err);
    if (settings->check_config)
        return 0;
    flags_setup_log(settings->log_format, settings->log_level);
    process_setup();
    podd_log_start(settings);
    enum pod_code code = podd_serve(podd, &err);
    podd_fini(podd);
    return code == POD_OK ? 0 : podd_fail(PODD_EXIT_FAILURE, &err);
}

int main(int argc, char **argv)
{
    struct podd podd = {.pod = NULL};

    if (argc > 1 && strcmp(argv[1], "token") == 0)
        return pod_token_main(argc - 1, (const char *const *)argv + 1);
    int exit_code = podd_run(&podd, argc, argv);
    podd_settings_fini(&podd.settings);
    return exit_code;
}
