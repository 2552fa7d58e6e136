// SPDX-License-Identifier: Apache-2.0
// podworker: the devices of one host behind gRPC. Reads the settings, wires
// the parts, waits for a signal, and takes it all down again in order.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/base/mem.h"
#include "core/base/str.h"
#include "core/device/reference/reference.h"
#include "core/driver/inproc.h"
#include "proto/cloud_service.h"
#include "proto/pod_service.h"
#include "server/accept.h"
#include "server/config.h"
#include "server/flags.h"
#include "server/host_share.h"
#include "server/process.h"

enum {
    PODWORKER_EXIT_FAILURE = 1,
    PODWORKER_EXIT_USAGE = 2,
    PODWORKER_PEMS = 3, // certificate, key, client CA
};

struct podworker_settings {
    bool help;
    bool version;
    bool check_config;
    bool insecure;
    char *config;
    char *listen;
    char *device;
    char *chips;
    char *block;
    uint64_t cores_per_chip;
    char *host_id;
    uint64_t hosts;
    uint64_t hbm_bytes;
    char *tls_cert;
    char *tls_key;
    char *tls_client_ca;
    int64_t max_idle_ns;
    int64_t latency_ns;
    uint64_t staging_bytes;
    uint64_t client_bytes;
    char *log_format;
    char *log_level;
};

static const char default_listen[] = "127.0.0.1:8470";

// ------------------------------------------------------------------ settings

// "X", "XxY" or "XxYxZ"; false: something else.
static bool podworker_parse_mesh(const char *text, uint32_t out_mesh[3])
{
    for (int i = 0; i < 3; i++)
        out_mesh[i] = 1;
    for (int i = 0; i < 3; i++) {
        size_t length = strcspn(text, "x");
        uint64_t side = 0;
        if (!pod_parse_number(text, length, &side) ||
            side > WORKER_SLICE_MAX_CHIPS)
            return false;
        out_mesh[i] = (uint32_t)side;
        if (text[length] == '\0')
            return true;
        text += length + 1;
    }
    return false;
}

static enum pod_code podworker_slice(const struct podworker_settings *settings,
                                     struct worker_slice *out_slice,
                                     struct pod_err *err)
{
    uint32_t mesh[3] = {1, 1, 1};
    uint32_t block[3] = {0, 0, 0};
    uint64_t host_id = 0;
    const char *host = settings->host_id;
    if (settings->chips != NULL && !podworker_parse_mesh(settings->chips, mesh))
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "--chips '%s': expected X, XxY or XxYxZ",
                           settings->chips);
    if (settings->block != NULL &&
        !podworker_parse_mesh(settings->block, block))
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "--host-block '%s': expected X, XxY or XxYxZ",
                           settings->block);
    if (host != NULL && strcmp(host, "0") != 0 &&
        (!pod_parse_number(host, strlen(host), &host_id) ||
         host_id > WORKER_SLICE_MAX_CHIPS))
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "--host-id '%s': expected a number", host);
    if (settings->hosts > WORKER_SLICE_MAX_CHIPS)
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "--hosts '%" PRIu64 "': expected at most %d",
                           settings->hosts, WORKER_SLICE_MAX_CHIPS);
    if (settings->cores_per_chip > WORKER_SLICE_MAX_CORES_PER_CHIP)
        return pod_err_set(
            err, POD_REASON_BAD_PARAMETER,
            "--cores-per-chip '%" PRIu64 "': expected at most %d",
            settings->cores_per_chip, WORKER_SLICE_MAX_CORES_PER_CHIP);
    *out_slice = (struct worker_slice){
        .x = mesh[0],
        .y = mesh[1],
        .z = mesh[2],
        .block_x = block[0],
        .block_y = block[1],
        .block_z = block[2],
        .cores_per_chip = (uint32_t)settings->cores_per_chip,
        .host_id = (uint32_t)host_id,
        .hosts = (uint32_t)settings->hosts,
        .hbm_bytes = settings->hbm_bytes,
    };
    enum pod_code code = worker_slice_check(out_slice, err);
    if (code != POD_OK)
        pod_err_wrap(err, "--chips '%s', --hosts %u, --host-id %u",
                     settings->chips != NULL ? settings->chips : "1x1x1",
                     out_slice->hosts, out_slice->host_id);
    return code;
}

static enum pod_code podworker_check_listen(const void *settings,
                                            struct pod_err *err)
{
    return flags_check_listen(
        ((const struct podworker_settings *)settings)->listen, err);
}

static enum pod_code podworker_check_device(const void *settings,
                                            struct pod_err *err)
{
    const char *device = ((const struct podworker_settings *)settings)->device;
    if (strcmp(device, "auto") == 0 || strcmp(device, "reference") == 0)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                       "expected auto or reference");
}

static enum pod_code podworker_check_log_format(const void *settings,
                                                struct pod_err *err)
{
    return flags_check_log_format(
        ((const struct podworker_settings *)settings)->log_format, err);
}

static enum pod_code podworker_check_log_level(const void *settings,
                                               struct pod_err *err)
{
    return flags_check_log_level(
        ((const struct podworker_settings *)settings)->log_level, err);
}

#define AT(member) offsetof(struct podworker_settings, member)
static const struct pod_setting podworker_table[] = {
    {"help", POD_SETTING_FLAG, AT(help), "print this and exit", NULL},
    {"version", POD_SETTING_FLAG, AT(version), "print the version and exit",
     NULL},
    {"check-config", POD_SETTING_FLAG, AT(check_config),
     "validate the settings and exit", NULL},
    {"config", POD_SETTING_TEXT, AT(config),
     "file of lines `name = value` with these settings", NULL},
    {"listen", POD_SETTING_TEXT, AT(listen),
     "ADDRESS:PORT or unix:PATH; port 0 picks one [127.0.0.1:8470]",
     podworker_check_listen},
    {"device", POD_SETTING_TEXT, AT(device), "auto or reference [auto]",
     podworker_check_device},
    {"chips", POD_SETTING_TEXT, AT(chips),
     "chips of the whole slice, as XxYxZ [1x1x1]", NULL},
    {"cores-per-chip", POD_SETTING_COUNT, AT(cores_per_chip),
     "cores of each chip [1]", NULL},
    {"host-id", POD_SETTING_TEXT, AT(host_id),
     "which host of the slice this is [0]", NULL},
    {"hosts", POD_SETTING_COUNT, AT(hosts), "how many hosts the slice has [1]",
     NULL},
    {"host-block", POD_SETTING_TEXT, AT(block),
     "chips of each host, as a block XxYxZ of the mesh [dealt in id order]",
     NULL},
    {"hbm", POD_SETTING_BYTES, AT(hbm_bytes), "memory of each core [1GiB]",
     NULL},
    {"staging-bytes", POD_SETTING_BYTES, AT(staging_bytes),
     "limit of the data that operations wait with or have read [8GiB]", NULL},
    {"client-bytes", POD_SETTING_BYTES, AT(client_bytes),
     "limit of what the operations and handles of all clients take [4GiB]",
     NULL},
    {"latency", POD_SETTING_DURATION, AT(latency_ns),
     "simulation: each device call takes at least this long", NULL},
    {"tls-cert", POD_SETTING_TEXT, AT(tls_cert),
     "PEM file with the certificate to show", NULL},
    {"tls-key", POD_SETTING_TEXT, AT(tls_key), "PEM file with its key", NULL},
    {"tls-client-ca", POD_SETTING_TEXT, AT(tls_client_ca),
     "PEM file with a CA; only clients with a certificate of it are served",
     NULL},
    {"insecure", POD_SETTING_FLAG, AT(insecure),
     "allow plain text beyond loopback", NULL},
    {"max-idle", POD_SETTING_DURATION, AT(max_idle_ns),
     "how long a client may be without a stream [1h]", NULL},
    {"log-format", POD_SETTING_TEXT, AT(log_format), "text or json [text]",
     podworker_check_log_format},
    {"log-level", POD_SETTING_TEXT, AT(log_level),
     "error, warn, info or debug [info]", podworker_check_log_level},
};
enum {
    PODWORKER_TABLE_COUNT = sizeof(podworker_table) / sizeof(podworker_table[0])
};

static int podworker_usage(const char *text)
{
    (void)fprintf(stderr, "podworker: %s\n", text);
    return PODWORKER_EXIT_USAGE;
}

static enum pod_code
podworker_read_pems(const struct podworker_settings *settings,
                    char *out_pem[PODWORKER_PEMS], struct pod_err *err)
{
    enum pod_code code =
        flags_read_pem("--tls-cert", settings->tls_cert, &out_pem[0], err);

    if (code == POD_OK)
        code = flags_read_pem("--tls-key", settings->tls_key, &out_pem[1], err);
    if (code == POD_OK)
        code = flags_read_pem("--tls-client-ca", settings->tls_client_ca,
                              &out_pem[2], err);
    return code;
}

static void podworker_free_pems(char *pem[PODWORKER_PEMS])
{
    for (int i = 0; i < PODWORKER_PEMS; i++)
        pod_free(pem[i]);
}

static enum pod_code
podworker_check_files(const struct podworker_settings *settings,
                      struct pod_err *err)
{
    char *pem[PODWORKER_PEMS] = {NULL};
    enum pod_code code = podworker_read_pems(settings, pem, err);

    podworker_free_pems(pem);
    return code;
}

// What the settings mean together. -1: go on, else the exit code.
static int podworker_check(const struct podworker_settings *settings)
{
    struct worker_slice slice;
    struct pod_err err = POD_ERR_NONE;
    const char *listen =
        settings->listen != NULL ? settings->listen : default_listen;
    if (podworker_slice(settings, &slice, &err) != POD_OK)
        return podworker_usage(err.text);
    if ((settings->tls_cert == NULL) != (settings->tls_key == NULL))
        return podworker_usage("--tls-cert and --tls-key go together");
    if (settings->tls_client_ca != NULL && settings->tls_cert == NULL)
        return podworker_usage("--tls-client-ca needs --tls-cert");
    if (settings->tls_cert == NULL && !settings->insecure &&
        !flags_is_loopback(listen)) {
        (void)fprintf(
            stderr,
            "podworker: --listen '%s': plain text beyond loopback needs "
            "--tls-cert and --tls-key, or --insecure\n",
            listen);
        return PODWORKER_EXIT_USAGE;
    }
    if (podworker_check_files(settings, &err) != POD_OK)
        return podworker_usage(err.text);
    return settings->check_config ? 0 : -1;
}

// ------------------------------------------------------------------- wiring

struct podworker {
    struct podworker_settings settings;
    struct worker_slice slice;
    struct worker *worker;
    struct rpc_loop *loop;
    struct rpc_server *server;
    struct cloud_service *cloud;
    struct pod_service *pods;
    struct peers *peers;
    struct pod_gang_hub *hub;
    struct gang_links *gangs;
    char *pem[PODWORKER_PEMS];
};

static enum pod_code podworker_make_driver(struct podworker *program,
                                           const struct host_share *share,
                                           struct pod_driver **out_driver,
                                           struct pod_err *err)
{
    const struct pod_reference_options device = {
        .memory_bytes = program->slice.hbm_bytes,
        .latency_ns = program->settings.latency_ns,
    };
    const struct pod_inproc_options options = {
        .host_count = program->slice.hosts,
        .hub = program->hub,
    };

    return host_share_new_driver(share, device, options, out_driver, err);
}

static enum pod_code podworker_make_worker(struct podworker *program,
                                           struct pod_err *err)
{
    struct host_share share;
    struct worker_options options = {
        .clock = pod_clock_system,
        .gone_ns = 30 * POD_NS_PER_S,
        .staging_bytes = program->settings.staging_bytes,
        .client_bytes = program->settings.client_bytes};
    enum pod_code code = host_share_init(&program->slice, &share, err);
    // Host 0 is this worker, host 1 all others.
    program->hub = pod_gang_hub_new(2);
    if (code == POD_OK && program->hub == NULL)
        code = pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    if (code == POD_OK)
        code = podworker_make_driver(program, &share, &options.driver, err);
    host_share_fini(&share);
    return code == POD_OK ? worker_new(&options, &program->worker, err) : code;
}

// Other workers are reached with this one's certificate, and trusted if the
// client CA signed theirs.
static enum pod_code podworker_make_peers(struct podworker *program,
                                          struct pod_err *err)
{
    struct rpc_tls tls = {
        .cert = program->pem[0], .key = program->pem[1], .ca = program->pem[2]};
    enum pod_code code = rpc_loop_new(&program->loop, err);
    if (code != POD_OK)
        return code;
    program->peers =
        peers_new(program->loop, program->pem[0] != NULL ? &tls : NULL);
    if (program->peers != NULL)
        program->gangs = gang_links_new(program->hub, program->peers);
    return program->gangs != NULL
               ? POD_OK
               : pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
}

static enum pod_code podworker_make_services(struct podworker *program,
                                             struct pod_err *err)
{
    struct {
        uint64_t incarnation;
        uint32_t client;
    } seed;
    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
        return pod_err_set(err, POD_REASON_INTERNAL, "no random bytes: %s",
                           strerror(errno));
    struct cloud_options cloud = {
        .worker = program->worker,
        .slice = program->slice,
        .first_client = 1 + seed.client % CLOUD_MAX_CLIENT,
        .idle_seconds =
            (uint32_t)(program->settings.max_idle_ns / POD_NS_PER_S),
    };
    struct pod_service_options pods = {.worker = program->worker,
                                       .slice = program->slice,
                                       .incarnation = seed.incarnation,
                                       .peers = program->peers,
                                       .gangs = program->gangs};
    program->cloud = cloud_service_new(&cloud);
    program->pods = pod_service_new(&pods);
    if (program->cloud == NULL || program->pods == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    return POD_OK;
}

static void podworker_tick(void *arg)
{
    struct podworker *program = arg;
    worker_tick(program->worker);
    gang_links_tick(program->gangs);
}

static enum pod_code podworker_make_server(struct podworker *program,
                                           struct pod_err *err)
{
    const struct podworker_settings *settings = &program->settings;
    struct rpc_method methods[CLOUD_METHODS + POD_SERVICE_METHODS];
    struct rpc_tls tls = {
        .cert = program->pem[0], .key = program->pem[1], .ca = program->pem[2]};
    cloud_service_methods(program->cloud, methods);
    pod_service_methods(program->pods, methods + CLOUD_METHODS);
    struct rpc_server_options options = {
        .listen = settings->listen != NULL ? settings->listen : default_listen,
        .tls = settings->tls_cert != NULL ? &tls : NULL,
        .methods = methods,
        .method_count = CLOUD_METHODS + POD_SERVICE_METHODS,
        .tick_ns = POD_NS_PER_S / 4,
        .tick = podworker_tick,
        .tick_arg = program,
    };
    return rpc_server_new(program->loop, &options, &program->server, err);
}

static enum pod_code podworker_make(struct podworker *program,
                                    struct pod_err *err)
{
    enum pod_code code =
        podworker_slice(&program->settings, &program->slice, err);
    if (code == POD_OK)
        code = podworker_read_pems(&program->settings, program->pem, err);
    if (code == POD_OK)
        code = podworker_make_worker(program, err);
    if (code == POD_OK)
        code = podworker_make_peers(program, err);
    if (code == POD_OK)
        code = podworker_make_services(program, err);
    if (code == POD_OK)
        code = podworker_make_server(program, err);
    return code;
}

static void podworker_fini(struct podworker *program)
{
    // Operations hold streams: they end before the server is freed.
    if (program->server != NULL)
        rpc_server_stop(program->server, 0);
    worker_stop(program->worker);
    gang_links_stop(program->gangs);
    rpc_server_free(program->server);
    peers_free(program->peers);
    rpc_loop_free(program->loop);
    worker_free(program->worker);
    cloud_service_free(program->cloud);
    pod_service_free(program->pods);
    gang_links_free(program->gangs);
    pod_gang_hub_unref(program->hub);
    podworker_free_pems(program->pem);
}

static void podworker_log_start(const struct podworker_settings *settings)
{
    struct pod_str config = {.data = NULL};

    pod_config_text(podworker_table, PODWORKER_TABLE_COUNT, settings, &config);
    flags_log_start("podworker", POD_VERSION, config.data);
    pod_str_fini(&config);
}

static enum pod_code podworker_serve(struct podworker *program,
                                     struct pod_err *err)
{
    enum pod_code code = process_catch_signals(err);
    if (code == POD_OK)
        code = podworker_make(program, err);
    if (code == POD_OK) {
        podworker_log_start(&program->settings);
        flags_log_listening("podworker", rpc_server_address(program->server));
        printf("listening on %s\n", rpc_server_address(program->server));
        (void)fflush(stdout);
        process_await_end(&(struct process_calls){.arg = NULL});
        flags_log_drain("podworker");
    }
    process_end_begins("worker", code == POD_OK ? 0 : PODWORKER_EXIT_FAILURE);
    podworker_fini(program);
    process_end_is_done();
    if (code == POD_OK)
        flags_log_stop("podworker");
    return code;
}

static int podworker_run(struct podworker *program, int argc, char **argv)
{
    struct podworker_settings *settings = &program->settings;
    struct pod_err err = POD_ERR_NONE;
    if (pod_config_read(podworker_table, PODWORKER_TABLE_COUNT, "PODWORKER",
                        argc, (const char *const *)argv, settings,
                        &err) != POD_OK)
        return podworker_usage(err.text);
    if (settings->help) {
        printf("usage: podworker [flags]\n\n");
        pod_config_help(podworker_table, PODWORKER_TABLE_COUNT);
        return 0;
    }
    if (settings->version) {
        printf("podworker %s\n", POD_VERSION);
        return 0;
    }
    int checked = podworker_check(settings);
    if (checked >= 0)
        return checked;
    flags_setup_log(settings->log_format, settings->log_level);
    process_setup();
    accept_while_short();
    enum pod_code code = podworker_serve(program, &err);
    if (code == POD_OK)
        return 0;
    (void)fprintf(stderr, "podworker: %s\n", err.text);
    return err.reason == POD_REASON_BAD_PARAMETER ||
                   err.reason == POD_REASON_BAD_VALUE
               ? PODWORKER_EXIT_USAGE
               : PODWORKER_EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct podworker program = {
        .settings = {.cores_per_chip = 1,
                     .hosts = 1,
                     .hbm_bytes = UINT64_C(1) << 30,
                     .staging_bytes = UINT64_C(8) << 30,
                     .client_bytes = UINT64_C(4) << 30,
                     .max_idle_ns = 3600 * POD_NS_PER_S}};
    int code = podworker_run(&program, argc, argv);
    pod_config_fini(podworker_table, PODWORKER_TABLE_COUNT, &program.settings);
    return code;
}
