// SPDX-License-Identifier: Apache-2.0
#include "server/pod_remote.h"

#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "core/base/mem.h"
#include "core/base/str.h"
#include "server/flags.h"

static const char remote_scheme[] = "grpc+pod://";
static const char remote_port[] = ":8470"; // of TPU drivers
static const char remote_forms[] =
    "expected HOST:PORT, [ADDRESS]:PORT or unix:PATH of at most 107 bytes";

enum { REMOTE_MAX_PATH = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1 };

_Static_assert(REMOTE_MAX_PATH == 107, "what remote_forms says");

_Static_assert(POD_REMOTE_ADDRESS_BYTES >=
                   POD_REMOTE_MAX_ADDRESS + sizeof(remote_port),
               "an address and a port fit");

struct pod_workers {
    struct pod *pod;
    struct pod_grpc_hub *hub;
    bool far; // workers may be beyond loopback
};

bool pod_remote_is(const char *text)
{
    return strncmp(text, remote_scheme, sizeof(remote_scheme) - 1) == 0;
}

// ------------------------------------------------------------------ addresses

static enum pod_code remote_fault(const char *text, size_t length,
                                  const char *what, struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_BAD_PARAMETER, "'%.*s': %s", (int)length,
                       text, what);
}

static bool remote_is_port(const char *text, size_t length)
{
    uint64_t port;

    return pod_parse_number(text, length, &port) && port <= 65535;
}

// Letters, digits and what else names and addresses have.
static bool remote_is_host(const char *text, size_t length, const char *also)
{
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     (c >= '0' && c <= '9');
        if (!plain && strchr(also, c) == NULL)
            return false;
    }
    return length > 0;
}

// Whether the text is sound; *out_port says whether it has a port.
static bool remote_is_address(const char *text, size_t length, bool *out_port)
{
    const char *end = text + length;
    const char *colon = memchr(text, ':', length);

    *out_port = true;
    if (length > 5 && strncmp(text, "unix:", 5) == 0)
        return length - 5 <= REMOTE_MAX_PATH;
    if (text[0] == '[') {
        const char *close = memchr(text, ']', length);
        if (close == NULL ||
            !remote_is_host(text + 1, (size_t)(close - text) - 1, ":.%"))
            return false;
        colon = close + 1 < end ? close + 1 : NULL;
        if (colon != NULL && *colon != ':')
            return false;
    } else if (!remote_is_host(text,
                               colon == NULL ? length : (size_t)(colon - text),
                               ".-_")) {
        return false;
    }
    *out_port = colon != NULL;
    return colon == NULL ||
           remote_is_port(colon + 1, (size_t)(end - colon) - 1);
}

// The address as drivers take it, with its port.
static enum pod_code remote_read_address(const char *text, size_t length,
                                         char out[POD_REMOTE_ADDRESS_BYTES],
                                         struct pod_err *err)
{
    bool has_port = false;

    if (length == 0)
        return remote_fault(text, length, "an address is empty", err);
    if (length > POD_REMOTE_MAX_ADDRESS)
        return remote_fault(text, pod_utf8_clip(text, length, 40),
                            "the address is too long", err);
    if (!remote_is_address(text, length, &has_port) ||
        pod_text_has_control(text, length))
        return remote_fault(text, length, remote_forms, err);
    (void)snprintf(out, POD_REMOTE_ADDRESS_BYTES, "%.*s%s", (int)length, text,
                   has_port ? "" : remote_port);
    return POD_OK;
}

static bool remote_has(const struct pod_remote *remote, const char *address)
{
    for (size_t i = 0; i < remote->count; i++) {
        if (strcmp(remote->addresses[i], address) == 0)
            return true;
    }
    return false;
}

static enum pod_code remote_add(struct pod_remote *remote, const char *text,
                                size_t length, struct pod_err *err)
{
    char address[POD_REMOTE_ADDRESS_BYTES];
    enum pod_code code = remote_read_address(text, length, address, err);

    if (code != POD_OK)
        return code;
    if (remote_has(remote, address))
        return remote_fault(text, length, "the address is given twice", err);
    if (remote->count == POD_REMOTE_MAX_HOSTS)
        return remote_fault(text, length, "more than 1024 hosts", err);
    remote->addresses[remote->count] = pod_strdup(address);
    if (remote->addresses[remote->count] == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    remote->count++;
    return POD_OK;
}

enum pod_code pod_remote_parse(const char *text, struct pod_remote *out_remote,
                               struct pod_err *err)
{
    struct pod_remote remote = {.count = 0};
    const char *at = text + sizeof(remote_scheme) - 1;
    enum pod_code code;

    if (!pod_remote_is(text))
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "expected grpc+pod://HOST:PORT,...");
    remote.addresses = pod_calloc(POD_REMOTE_MAX_HOSTS, sizeof(char *));
    if (remote.addresses == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    do {
        size_t length = strcspn(at, ",");
        code = remote_add(&remote, at, length, err);
        at += length;
    } while (code == POD_OK && *at++ == ',');
    if (code == POD_OK)
        *out_remote = remote;
    else
        pod_remote_fini(&remote);
    return code;
}

void pod_remote_fini(struct pod_remote *remote)
{
    for (size_t i = 0; i < remote->count; i++)
        pod_free(remote->addresses[i]);
    pod_free(remote->addresses);
    *remote = (struct pod_remote){.count = 0};
}

const char *pod_remote_beyond_loopback(const struct pod_remote *remote)
{
    for (size_t i = 0; i < remote->count; i++) {
        if (!flags_is_loopback(remote->addresses[i]))
            return remote->addresses[i];
    }
    return NULL;
}

// --------------------------------------------------------------- certificates

static enum pod_code remote_hub(const struct pod_remote_tls *files,
                                bool trusts_order, struct pod_workers *workers,
                                struct pod_err *err)
{
    char *ca = NULL;
    char *cert = NULL;
    char *key = NULL;
    enum pod_code code = flags_read_pem("--worker-tls-ca", files->ca, &ca, err);

    if (code == POD_OK)
        code = flags_read_pem("--worker-tls-cert", files->cert, &cert, err);
    if (code == POD_OK)
        code = flags_read_pem("--worker-tls-key", files->key, &key, err);
    const struct rpc_tls tls = {.ca = ca, .cert = cert, .key = key};
    if (code == POD_OK)
        code = pod_grpc_hub_new(ca == NULL ? NULL : &tls, &workers->hub, err);
    if (code == POD_OK && trusts_order)
        pod_grpc_hub_trust_order(workers->hub);
    workers->far = ca != NULL || files->insecure;
    pod_free(ca);
    pod_free(cert);
    pod_free(key);
    return code;
}

// ----------------------------------------------------------------------- hosts

// What makes one worker's driver.
struct remote_maker {
    struct pod_grpc_hub *hub;
    const char *address;
};

static enum pod_code remote_make(void *arg, uint32_t host,
                                 struct pod_driver **out_driver,
                                 struct pod_err *err)
{
    const struct remote_maker *maker = arg;
    const struct pod_grpc_options options = {
        .hub = maker->hub,
        .host = host,
        .address = maker->address,
    };

    return pod_grpc_driver_new(&options, out_driver, err);
}

static enum pod_code remote_add_host(const struct pod_workers *workers,
                                     const char *address, uint32_t host,
                                     struct pod_err *err)
{
    struct remote_maker maker = {.hub = workers->hub, .address = address};
    struct pod_driver *driver = NULL;
    enum pod_code code = remote_make(&maker, host, &driver, err);

    if (code != POD_OK)
        return code;
    return pod_add_host(workers->pod, driver, address, err);
}

enum pod_code pod_workers_new(const struct pod_remote *remote,
                              const struct pod_remote_tls *tls, struct pod *pod,
                              struct pod_workers **out_workers,
                              struct pod_err *err)
{
    struct pod_workers *workers = pod_calloc(1, sizeof(*workers));

    if (workers == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    *out_workers = workers;
    workers->pod = pod;
    enum pod_code code = remote_hub(tls, remote->trusts_order, workers, err);
    for (uint32_t i = 0; i < remote->count && code == POD_OK; i++)
        code = remote_add_host(workers, remote->addresses[i], i, err);
    return code;
}

static enum pod_code remote_join_address(const struct pod_workers *workers,
                                         const char *text,
                                         char out[POD_REMOTE_ADDRESS_BYTES],
                                         struct pod_err *err)
{
    enum pod_code code = remote_read_address(text, strlen(text), out, err);

    if (code != POD_OK)
        pod_err_set(err, POD_REASON_BAD_TEXT, "'%.64s': %s", text,
                    remote_forms);
    else if (!workers->far && !flags_is_loopback(out))
        code = pod_err_set(err, POD_REASON_BAD_TEXT,
                           "'%.64s': plain text beyond this machine; start "
                           "podd with --worker-tls-ca, or --insecure",
                           text);
    if (code != POD_OK)
        pod_err_at(err, "/address");
    return code;
}

enum pod_code pod_workers_join(void *arg, const char *address,
                               uint32_t *out_host, struct pod_err *err)
{
    struct pod_workers *workers = arg;
    char whole[POD_REMOTE_ADDRESS_BYTES];
    struct remote_maker making = {.hub = workers->hub, .address = whole};
    const struct pod_driver_maker maker = {.make = remote_make, .arg = &making};

    if (address == NULL) {
        pod_err_set(err, POD_REASON_MISSING_MEMBER,
                    "address: say where the worker is");
        pod_err_at(err, "/address");
        return err->code;
    }
    enum pod_code code = remote_join_address(workers, address, whole, err);
    if (code != POD_OK)
        return code;
    return pod_join_host(workers->pod, whole, &maker, out_host, err);
}

void pod_workers_free(struct pod_workers *workers)
{
    if (workers == NULL)
        return;
    pod_grpc_hub_free(workers->hub);
    pod_free(workers);
}
