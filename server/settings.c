// SPDX-License-Identifier: Apache-2.0
#include "server/settings.h"

#include <stddef.h>
#include <string.h>

#include "api/auth.h"
#include "api/tls.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/str.h"
#include "server/flags.h"
#include "server/pod_remote.h"
#include "server/pod_spec.h"

static const char default_listen[] = "127.0.0.1:8480";
static const char default_pod[] = "local:2x2x1,hosts=2,cores=2";

static enum pod_code settings_check_pod(const void *settings,
                                        struct pod_err *err)
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

static enum pod_code settings_check_listen(const void *settings,
                                           struct pod_err *err)
{
    return flags_check_listen(((const struct podd_settings *)settings)->listen,
                              err);
}

static enum pod_code settings_check_limit(uint64_t value, uint64_t max,
                                          struct pod_err *err)
{
    if (value <= max)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_PARAMETER, "expected at most %llu",
                       (unsigned long long)max);
}

static enum pod_code settings_check_rate(const void *settings,
                                         struct pod_err *err)
{
    return settings_check_limit(
        ((const struct podd_settings *)settings)->rate_limit, 1000000, err);
}

static enum pod_code settings_check_per_address(const void *settings,
                                                struct pod_err *err)
{
    const struct podd_settings *all = settings;
    return settings_check_limit(all->connections_per_address, UINT32_MAX, err);
}

static enum pod_code settings_check_per_token(const void *settings,
                                              struct pod_err *err)
{
    const struct podd_settings *all = settings;
    return settings_check_limit(all->requests_per_token, UINT32_MAX, err);
}

// As browsers send it: without a path, and never "*".
static enum pod_code settings_check_origin(const void *settings,
                                           struct pod_err *err)
{
    const struct pod_setting_list *list =
        &((const struct podd_settings *)settings)->allowed_origins;
    const char *origin = list->items[list->count - 1];
    const char *host = strstr(origin, "://");
    if ((strncmp(origin, "http://", 7) == 0 ||
         strncmp(origin, "https://", 8) == 0) &&
        host[3] != '\0' && strpbrk(host + 3, "/?#*@ ") == NULL)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                       "expected http:// or https:// and HOST[:PORT]");
}

// As a Host header has it, but for the port, which is not compared.
static enum pod_code settings_check_host(const void *settings,
                                         struct pod_err *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const struct pod_setting_list *list =
        &((const struct podd_settings *)settings)->allowed_hosts;
    const char *name = list->items[list->count - 1];
    bool is_v6 = name[0] == '[';
    const char *at = name + is_v6;
    size_t length = strspn(at, letters);

    while (at[length] != '\0' &&
           strchr(is_v6 ? ":." : "-._", at[length]) != NULL) {
        length++;
        length += strspn(at + length, letters);
    }
    if (length > 0 && strcmp(at + length, is_v6 ? "]" : "") == 0)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                       "expected a name, an IPv4 address or an [IPv6 address], "
                       "without a port");
}

static enum pod_code settings_check_log_format(const void *settings,
                                               struct pod_err *err)
{
    return flags_check_log_format(
        ((const struct podd_settings *)settings)->log_format, err);
}

static enum pod_code settings_check_log_level(const void *settings,
                                              struct pod_err *err)
{
    return flags_check_log_level(
        ((const struct podd_settings *)settings)->log_level, err);
}

#define AT(member) offsetof(struct podd_settings, member)
static const struct pod_setting settings_table[] = {
    {"help", POD_SETTING_FLAG, AT(help), "print this and exit", NULL},
    {"version", POD_SETTING_FLAG, AT(version), "print the version and exit",
     NULL},
    {"check-config", POD_SETTING_FLAG, AT(check_config),
     "validate the settings and exit", NULL},
    {"dev", POD_SETTING_FLAG, AT(dev),
     "no token is needed; listens on this machine only", NULL},
    {"config", POD_SETTING_TEXT, AT(config),
     "file of lines `name = value` with these settings", NULL},
    {"listen", POD_SETTING_TEXT, AT(listen),
     "ADDRESS:PORT (port 0 picks one) or unix:PATH [127.0.0.1:8480]",
     settings_check_listen},
    {"token-file", POD_SETTING_TEXT, AT(token_file),
     "file with the hashes of the tokens it accepts (podd token add)", NULL},
    {"tls-cert", POD_SETTING_TEXT, AT(tls_cert),
     "PEM file with its certificate and the chain above it", NULL},
    {"tls-key", POD_SETTING_TEXT, AT(tls_key),
     "PEM file with the key, readable by its owner only", NULL},
    {"rate-limit", POD_SETTING_COUNT, AT(rate_limit),
     "requests per second of one token or address [no limit]",
     settings_check_rate},
    {"connections-per-address", POD_SETTING_COUNT, AT(connections_per_address),
     "connections that one address may have open [as many as all together]",
     settings_check_per_address},
    {"requests-per-token", POD_SETTING_COUNT, AT(requests_per_token),
     "requests that one token may have in flight, waiting ones included [as "
     "many as all together]",
     settings_check_per_token},
    {"pod", POD_SETTING_TEXT, AT(pod),
     "local:XxYxZ[,option=value...] with the options hosts, cores, hbm, "
     "device, latency, bandwidth, flops and fault, or "
     "grpc+pod://HOST:PORT[,...] "
     "[local:2x2x1,hosts=2,cores=2]",
     settings_check_pod},
    {"worker-tls-ca", POD_SETTING_TEXT, AT(worker_tls_ca),
     "PEM file with the CA of the workers' certificates; turns on TLS to "
     "workers",
     NULL},
    {"worker-tls-cert", POD_SETTING_TEXT, AT(worker_tls_cert),
     "PEM file with the certificate to show to workers", NULL},
    {"worker-tls-key", POD_SETTING_TEXT, AT(worker_tls_key),
     "PEM file with its key", NULL},
    {"trust-worker-order", POD_SETTING_FLAG, AT(trust_worker_order),
     "send chains of operations to plain TPU driver workers at once; they must "
     "fail whatever waits for a failed one",
     NULL},
    {"insecure", POD_SETTING_FLAG, AT(insecure),
     "allow plain text beyond this machine, to users and to workers", NULL},
    {"allowed-host", POD_SETTING_LIST, AT(allowed_hosts),
     "another host name by which users reach it; may be repeated",
     settings_check_host},
    {"allowed-origin", POD_SETTING_LIST, AT(allowed_origins),
     "SCHEME://HOST[:PORT] whose pages may use the API (CORS); may be repeated",
     settings_check_origin},
    {"staging-bytes", POD_SETTING_BYTES, AT(staging_bytes),
     "limit of the bytes held for uploads and reads [1GiB]", NULL},
    {"history-count", POD_SETTING_COUNT, AT(history_count),
     "how many finished operations are kept [100000]", NULL},
    {"history-age", POD_SETTING_DURATION, AT(history_age_ns),
     "how long finished operations are kept [24h]", NULL},
    {"drain-timeout", POD_SETTING_DURATION, AT(drain_timeout_ns),
     "how long SIGTERM waits for open operations [30s]", NULL},
    {"stall-after", POD_SETTING_DURATION, AT(stall_after_ns),
     "report operations whose hosts show no progress for so long; 0: never "
     "[60s]",
     NULL},
    {"log-format", POD_SETTING_TEXT, AT(log_format), "text or json [text]",
     settings_check_log_format},
    {"log-level", POD_SETTING_TEXT, AT(log_level),
     "error, warn, info or debug [info]", settings_check_log_level},
};
enum { PODD_TABLE_COUNT = sizeof(settings_table) / sizeof(settings_table[0]) };

enum pod_code podd_settings_read(int argc, const char *const *argv,
                                 struct podd_settings *settings,
                                 struct pod_err *err)
{
    *settings = (struct podd_settings){
        .staging_bytes = UINT64_C(1) << 30,
        .history_count = 100000,
        .history_age_ns = 24 * 3600 * POD_NS_PER_S,
        .drain_timeout_ns = 30 * POD_NS_PER_S,
        .stall_after_ns = 60 * POD_NS_PER_S,
    };
    return pod_config_read(settings_table, PODD_TABLE_COUNT, "PODD", argc, argv,
                           settings, err);
}

void podd_settings_fini(struct podd_settings *settings)
{
    pod_config_fini(settings_table, PODD_TABLE_COUNT, settings);
}

void podd_settings_text(const struct podd_settings *settings,
                        struct pod_str *out_text)
{
    pod_config_text(settings_table,
                    sizeof(settings_table) / sizeof(settings_table[0]),
                    settings, out_text);
}

void podd_settings_help(void)
{
    pod_config_help(settings_table, PODD_TABLE_COUNT);
}

const char *podd_settings_listen(const struct podd_settings *settings)
{
    return settings->listen != NULL ? settings->listen : default_listen;
}

bool podd_settings_is_remote(const struct podd_settings *settings)
{
    return settings->pod != NULL && pod_remote_is(settings->pod);
}

const char *podd_settings_pod(const struct podd_settings *settings)
{
    return settings->pod != NULL ? settings->pod : default_pod;
}

static enum pod_code settings_say(struct pod_err *err, const char *text)
{
    return pod_err_set(err, POD_REASON_BAD_PARAMETER, "%s", text);
}

static enum pod_code settings_check_access(const struct podd_settings *settings,
                                           struct pod_err *err)
{
    if (settings->dev && settings->token_file != NULL)
        return settings_say(err, "--dev takes no --token-file: leave one out");
    if (!settings->dev && settings->token_file == NULL)
        return settings_say(err, "--token-file is missing: make one with `podd "
                                 "token add --scope admin --token-file FILE`, "
                                 "or use --dev on this machine alone");
    if (settings->tls_cert != NULL && settings->tls_key == NULL)
        return settings_say(err, "--tls-cert needs --tls-key");
    if (settings->tls_key != NULL && settings->tls_cert == NULL)
        return settings_say(err, "--tls-key needs --tls-cert");
    return POD_OK;
}

// Beyond this machine only with tokens and TLS.
static enum pod_code settings_check_reach(const struct podd_settings *settings,
                                          struct pod_err *err)
{
    const char *listen = podd_settings_listen(settings);

    if (settings->insecure || flags_is_loopback(listen))
        return POD_OK;
    if (settings->dev)
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "--listen '%s': --dev serves loopback only "
                           "(127.0.0.1, localhost, [::1] or unix:PATH)",
                           listen);
    if (settings->tls_cert == NULL)
        return pod_err_set(
            err, POD_REASON_BAD_PARAMETER,
            "--listen '%s': beyond loopback TLS is needed (--tls-cert and "
            "--tls-key), or --insecure behind a proxy that speaks TLS",
            listen);
    return POD_OK;
}

static enum pod_code settings_check_pems(const struct podd_settings *settings,
                                         struct pod_err *err)
{
    const struct {
        const char *flag;
        const char *path;
    } files[] = {
        {"--worker-tls-ca", settings->worker_tls_ca},
        {"--worker-tls-cert", settings->worker_tls_cert},
        {"--worker-tls-key", settings->worker_tls_key},
    };
    enum pod_code code = POD_OK;

    for (size_t i = 0; i < 3 && code == POD_OK; i++) {
        char *text = NULL;
        code = flags_read_pem(files[i].flag, files[i].path, &text, err);
        pod_free(text);
    }
    return code;
}

// Files that podd would not start with.
static enum pod_code settings_check_files(const struct podd_settings *settings,
                                          struct pod_err *err)
{
    struct api_auth auth = {.on = false};
    struct api_tls *tls = NULL;
    enum pod_code code = api_auth_init(&auth, settings->token_file, false, err);
    if (code == POD_OK && settings->tls_cert != NULL) {
        code = api_tls_new(settings->tls_cert, settings->tls_key, &tls, err);
        if (code != POD_OK)
            pod_err_wrap(err, "--tls-cert, --tls-key");
    }
    api_auth_fini(&auth);
    api_tls_free(tls);
    return code == POD_OK ? settings_check_pems(settings, err) : code;
}

static enum pod_code
settings_check_workers(const struct podd_settings *settings,
                       struct pod_err *err)
{
    struct pod_remote remote;
    enum pod_code code = POD_OK;

    if ((settings->worker_tls_cert == NULL) !=
        (settings->worker_tls_key == NULL))
        return settings_say(err, "--worker-tls-cert and --worker-tls-key "
                                 "belong together");
    if (settings->worker_tls_cert != NULL && settings->worker_tls_ca == NULL)
        return settings_say(err, "--worker-tls-cert needs --worker-tls-ca");
    if (!podd_settings_is_remote(settings) || settings->worker_tls_ca != NULL ||
        settings->insecure)
        return POD_OK;
    code = pod_remote_parse(settings->pod, &remote, err);
    if (code != POD_OK)
        return code;
    const char *far = pod_remote_beyond_loopback(&remote);
    if (far != NULL)
        code = pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "--pod '%s': plain text beyond this machine; give "
                           "--worker-tls-ca, or --insecure",
                           far);
    pod_remote_fini(&remote);
    return code;
}

enum pod_code podd_settings_check(const struct podd_settings *settings,
                                  struct pod_err *err)
{
    enum pod_code code = settings_check_access(settings, err);
    if (code == POD_OK)
        code = settings_check_reach(settings, err);
    if (code == POD_OK)
        code = settings_check_workers(settings, err);
    return code == POD_OK ? settings_check_files(settings, err) : code;
}
