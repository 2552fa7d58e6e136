// SPDX-License-Identifier: Apache-2.0
// TLS of gRPC: both sides in one process, with certificates of many kinds.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "proto/rpc_client.h"
#include "proto/rpc_internal.h"
#include "proto/rpc_server.h"
#include "tests/wire/rpc_fixture.h"

// Certificates for one run: a CA, a server and a client that it signed, and
// one nobody signed.
struct pki {
    char folder[32];
    char *ca, *server_cert, *server_key, *client_cert, *client_key;
    char *stray_cert, *stray_key;
};

static void run(const char *folder, const char *command)
{
    char line[1024];
    (void)snprintf(line, sizeof(line), "cd %s && { %s; } >log 2>&1", folder,
                   command);
    if (system(line) != 0)
        fail_msg("openssl failed: %s", command);
}

static char *read_pem(const char *folder, const char *name)
{
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = calloc(1, 8192);
    assert_non_null(text);
    assert_true(fread(text, 1, 8191, file) > 0);
    (void)fclose(file);
    return text;
}

static void make_pair(struct pki *pki, const char *name, const char *more)
{
    char line[512];
    (void)snprintf(line, sizeof(line),
                   "openssl req -x509 -newkey ec -pkeyopt "
                   "ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=%s "
                   "-addext subjectAltName=DNS:%s -keyout %s.key -out %s.crt "
                   "%s",
                   name, name, name, name, more);
    run(pki->folder, line);
}

static int setup_pki(void **state)
{
    struct pki *pki = calloc(1, sizeof(*pki));
    assert_non_null(pki);
    (void)snprintf(pki->folder, sizeof(pki->folder), "/tmp/podd-pki-XXXXXX");
    assert_non_null(mkdtemp(pki->folder));
    const char *by_ca = "-CA ca.test.crt -CAkey ca.test.key "
                        "-addext basicConstraints=critical,CA:FALSE";
    make_pair(pki, "ca.test", "-addext keyUsage=keyCertSign");
    make_pair(pki, "worker.test", by_ca);
    make_pair(pki, "client.test", by_ca);
    make_pair(pki, "stray.test", "");
    pki->ca = read_pem(pki->folder, "ca.test.crt");
    pki->server_cert = read_pem(pki->folder, "worker.test.crt");
    pki->server_key = read_pem(pki->folder, "worker.test.key");
    pki->client_cert = read_pem(pki->folder, "client.test.crt");
    pki->client_key = read_pem(pki->folder, "client.test.key");
    pki->stray_cert = read_pem(pki->folder, "stray.test.crt");
    pki->stray_key = read_pem(pki->folder, "stray.test.key");
    *state = pki;
    return 0;
}

static int teardown_pki(void **state)
{
    struct pki *pki = *state;
    char line[64];
    (void)snprintf(line, sizeof(line), "rm -r %s", pki->folder);
    assert_int_equal(system(line), 0);
    free(pki->ca);
    free(pki->server_cert);
    free(pki->server_key);
    free(pki->client_cert);
    free(pki->client_key);
    free(pki->stray_cert);
    free(pki->stray_key);
    free(pki);
    return 0;
}

// The code of an echo between these two.
static enum pod_code tls_echo(const struct rpc_tls *server,
                              const struct rpc_tls *client)
{
    struct fixture *f = calloc(1, sizeof(*f));
    void *state = f;
    assert_non_null(f);
    (void)setup_at(f, "127.0.0.1:0", NULL, server, client);
    call_text(f, "/t.S/Echo", "secret", WAIT_S * POD_NS_PER_S, NULL);
    await(&f->client, &f->client.ended, 1);
    enum pod_code code = f->client.code;
    (void)teardown(&state);
    return code;
}

static void test_tls(void **state)
{
    const struct pki *pki = *state;
    struct rpc_tls server = {.cert = pki->server_cert, .key = pki->server_key};
    struct rpc_tls good = {.ca = pki->ca, .peer_name = "worker.test"};
    struct rpc_tls wrong_name = {.ca = pki->ca, .peer_name = "other.test"};
    struct rpc_tls wrong_ca = {.ca = pki->stray_cert,
                               .peer_name = "worker.test"};
    assert_int_equal(tls_echo(&server, &good), POD_OK);
    assert_int_equal(tls_echo(&server, &wrong_name), POD_UNAVAILABLE);
    assert_int_equal(tls_echo(&server, &wrong_ca), POD_UNAVAILABLE);
    assert_int_equal(tls_echo(&server, NULL), POD_UNAVAILABLE);
    assert_int_equal(tls_echo(NULL, &good), POD_UNAVAILABLE);
}

static void test_mutual_tls(void **state)
{
    const struct pki *pki = *state;
    struct rpc_tls server = {
        .ca = pki->ca, .cert = pki->server_cert, .key = pki->server_key};
    struct rpc_tls good = {.ca = pki->ca,
                           .cert = pki->client_cert,
                           .key = pki->client_key,
                           .peer_name = "worker.test"};
    struct rpc_tls none = {.ca = pki->ca, .peer_name = "worker.test"};
    struct rpc_tls stray = {.ca = pki->ca,
                            .cert = pki->stray_cert,
                            .key = pki->stray_key,
                            .peer_name = "worker.test"};
    assert_int_equal(tls_echo(&server, &good), POD_OK);
    assert_int_equal(tls_echo(&server, &none), POD_UNAVAILABLE);
    assert_int_equal(tls_echo(&server, &stray), POD_UNAVAILABLE);
}

static void test_bad_certificates(void **state)
{
    const struct pki *pki = *state;
    struct pod_err err = POD_ERR_NONE;
    struct rpc_loop *loop = NULL;
    struct rpc_server *server = NULL;
    struct rpc_channel *channel = NULL;
    struct rpc_tls text = {.ca = "no certificate"};
    struct rpc_tls half = {.ca = pki->ca, .cert = pki->client_cert};
    struct rpc_tls crossed = {.cert = pki->server_cert, .key = pki->client_key};
    assert_int_equal(rpc_loop_new(&loop, &err), POD_OK);
    struct rpc_channel_options to = {.target = "127.0.0.1:1", .tls = &text};
    assert_int_equal(rpc_channel_new(loop, &to, &channel, &err),
                     POD_INVALID_ARGUMENT);
    to.tls = &half;
    assert_int_equal(rpc_channel_new(loop, &to, &channel, &err),
                     POD_INVALID_ARGUMENT);
    struct rpc_server_options at = {.listen = "127.0.0.1:0", .tls = &text};
    assert_int_equal(rpc_server_new(loop, &at, &server, &err),
                     POD_INVALID_ARGUMENT);
    at.tls = &crossed;
    assert_int_equal(rpc_server_new(loop, &at, &server, &err),
                     POD_RESOURCE_EXHAUSTED);
    rpc_loop_free(loop);
}

#define WITH_PKI(test)                                                         \
    cmocka_unit_test_setup_teardown(test, setup_pki, teardown_pki)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PKI(test_tls),
        WITH_PKI(test_mutual_tls),
        WITH_PKI(test_bad_certificates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
