// SPDX-License-Identifier: Apache-2.0
// HTTPS: libcurl with an authority of the test's own, renewal, bad pairs, big
// bodies, refusals in the middle of a body.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <curl/curl.h>

#include "api/tls.h"
#include "tests/lib/certificate.h"
#include "tests/lib/http_client.h"
#include "tests/lib/patience.h"
#include "tests/lib/rest_pod.h"

static char folder[] = "/tmp/podd-tls-XXXXXX";
static char ca_path[64];
static char cert_path[64];
static char key_path[64];
static struct certificate *authority;

static void write_pair(const char *name)
{
    struct certificate *made = certificate_server(name, authority);

    certificate_write(made, cert_path);
    certificate_write_key(made, key_path);
    certificate_free(made);
}

static int setup(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(ca_path, sizeof(ca_path), "%s/ca.pem", folder);
    (void)snprintf(cert_path, sizeof(cert_path), "%s/cert.pem", folder);
    (void)snprintf(key_path, sizeof(key_path), "%s/key.pem", folder);
    authority = certificate_authority("podd test authority");
    certificate_write(authority, ca_path);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    certificate_free(authority);
    (void)unlink(ca_path);
    (void)unlink(cert_path);
    (void)unlink(key_path);
    return rmdir(folder);
}

static struct rest *start(void)
{
    const struct rest_options options = {.pod = "local:2x1x1,hosts=2,hbm=64MiB",
                                         .tls_cert = cert_path,
                                         .tls_key = key_path,
                                         .tls_ca = ca_path};
    write_pair("first");
    return rest_start(&options);
}

static void test_answers(void **state)
{
    struct rest *rest = start();

    (void)state;
    json_decref(rest_json(rest_get(rest, "/v1"), 200));
    json_t *event =
        rest_submit(rest, "/v1/buffers", "{\"core\":0,\"bytes\":\"16\"}");
    json_decref(rest_await(rest, rest_text(event, "id")));
    json_decref(event);
    rest_stop(rest);
}

// More than any buffer on the way holds, there and back.
// Over plain text somebody on the way could have written the page.
static void test_pages_without_tls_may_change_nothing(void **state)
{
    static const struct {
        const char *origin;
        long status;
    } cases[] = {
        {"Origin: https://localhost", 202},
        {"Origin: http://localhost", 403},
    };
    struct rest *rest = start();

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const headers[] = {"Content-Type: application/json",
                                       "Host: localhost", cases[i].origin,
                                       NULL};
        struct rest_answer answer =
            rest_ask(rest, "POST", "/v1/buffers", headers,
                     "{\"core\":0,\"bytes\":\"4\"}", 22);
        assert_int_equal(answer.status, cases[i].status);
        rest_answer_free(&answer);
    }
    rest_stop(rest);
}

static void test_big_bodies(void **state)
{
    static const char *const headers[] = {
        "Content-Type: application/octet-stream", NULL};
    enum { SIZE = 20000003 };
    struct rest *rest = start();
    unsigned char *bytes = malloc(SIZE);

    (void)state;
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(i * 2654435761U >> 13);
    json_decref(rest_submit(rest, "/v1/buffers",
                            "{\"core\":0,\"bytes\":\"20000003\"}"));
    json_decref(
        rest_json(rest_ask(rest, "PUT", "/v1/buffers/buf-1/data?wait=50s",
                           headers, bytes, SIZE),
                  200));
    struct rest_answer answer = rest_get(rest, "/v1/buffers/buf-1/data");
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.size, SIZE);
    assert_memory_equal(answer.body, bytes, SIZE);
    rest_answer_free(&answer);
    free(bytes);
    rest_stop(rest);
}

// Told in the middle of a body, on the encrypted connection.
static void test_refuses_a_long_body(void **state)
{
    static const char *const headers[] = {"Content-Type: application/json",
                                          "Transfer-Encoding: chunked", NULL};
    size_t size = (1 << 20) + 100;
    char *body = malloc(size);
    struct rest *rest = start();

    (void)state;
    memset(body, ' ', size);
    rest_is_problem(rest_ask(rest, "POST", "/v1/buffers", headers, body, size),
                    413, "BODY_TOO_LARGE");
    free(body);
    json_decref(rest_json(rest_get(rest, "/v1"), 200));
    rest_stop(rest);
}

static size_t drop(char *bytes, size_t unit, size_t count, void *arg)
{
    (void)bytes;
    (void)arg;
    return unit * count;
}

// One request of a client of its own; the name of the certificate it saw.
static CURLcode visit(const struct rest *rest, const char *ca, long version,
                      char out_name[128])
{
    CURL *curl = curl_easy_init();
    struct curl_certinfo *info = NULL;
    char url[128];

    (void)snprintf(url, sizeof(url), "https://%s/healthz",
                   api_server_address(rest_server(rest)));
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_CAINFO, ca);
    curl_easy_setopt(curl, CURLOPT_SSLVERSION, version);
    curl_easy_setopt(curl, CURLOPT_CERTINFO, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)PATIENCE_S);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop);
    CURLcode code = curl_easy_perform(curl);
    out_name[0] = '\0';
    if (code == CURLE_OK &&
        curl_easy_getinfo(curl, CURLINFO_CERTINFO, &info) == CURLE_OK &&
        info->num_of_certs > 0)
        (void)snprintf(out_name, 128, "%s", info->certinfo[0]->data);
    curl_easy_cleanup(curl);
    return code;
}

static void test_versions_and_strangers(void **state)
{
    struct rest *rest = start();
    struct certificate *other = certificate_authority("another authority");
    char other_path[80];
    char name[128];

    (void)state;
    (void)snprintf(other_path, sizeof(other_path), "%s/other.pem", folder);
    certificate_write(other, other_path);
    assert_int_equal(visit(rest, ca_path, CURL_SSLVERSION_TLSv1_3, name),
                     CURLE_OK);
    assert_int_equal(
        visit(rest, ca_path,
              CURL_SSLVERSION_TLSv1_2 | CURL_SSLVERSION_MAX_TLSv1_2, name),
        CURLE_OK);
    assert_int_not_equal(
        visit(rest, ca_path,
              CURL_SSLVERSION_TLSv1_0 | CURL_SSLVERSION_MAX_TLSv1_1, name),
        CURLE_OK);
    assert_int_equal(visit(rest, other_path, CURL_SSLVERSION_TLSv1_2, name),
                     CURLE_PEER_FAILED_VERIFICATION);
    (void)unlink(other_path);
    certificate_free(other);
    rest_stop(rest);
}

static void test_plain_text_is_no_request(void **state)
{
    struct rest *rest = start();
    struct client_answer answer =
        client_ask(api_server_port(rest_server(rest)),
                   "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");

    (void)state;
    assert_int_equal(answer.status, 0);
    client_answer_free(&answer);
    json_decref(rest_json(rest_get(rest, "/v1"), 200));
    rest_stop(rest);
}

// A connection that never speaks is closed by the deadline of the headers.
static void test_silent_handshake(void **state)
{
    const struct rest_options options = {.tls_cert = cert_path,
                                         .tls_key = key_path,
                                         .tls_ca = ca_path,
                                         .limits = {.header_ns = 100000000}};

    (void)state;
    write_pair("silent");
    struct rest *rest = rest_start(&options);
    int fd = client_connect(api_server_port(rest_server(rest)));
    assert_true(client_is_closed(fd));
    (void)close(fd);
    rest_stop(rest);
}

// Asks until the certificate has this name.
static void await_name(const struct rest *rest, const char *wanted)
{
    char name[128] = "";
    time_t end = time(NULL) + PATIENCE_S;

    while (strstr(name, wanted) == NULL && time(NULL) < end)
        assert_int_equal(visit(rest, ca_path, CURL_SSLVERSION_TLSv1_2, name),
                         CURLE_OK);
    assert_non_null(strstr(name, wanted));
}

static void test_renewal(void **state)
{
    struct rest *rest = start();
    struct certificate *half = certificate_server("half", authority);

    (void)state;
    await_name(rest, "first");
    // A certificate whose key is not there yet: the old pair serves on.
    certificate_write(half, cert_path);
    api_server_reload(rest_server(rest));
    await_name(rest, "first");
    certificate_write_key(half, key_path);
    api_server_reload(rest_server(rest));
    await_name(rest, "half");
    write_pair("by itself");
    await_name(rest, "by itself");
    certificate_free(half);
    rest_stop(rest);
}

static void expect_unfit(const char *cert, const char *key, const char *text)
{
    struct api_tls *tls = NULL;
    struct pod_err err = POD_ERR_NONE;

    assert_int_equal(api_tls_new(cert, key, &tls, &err), POD_INVALID_ARGUMENT);
    assert_null(tls);
    assert_non_null(strstr(err.text, text));
}

static void test_unfit_files(void **state)
{
    struct certificate *other = certificate_server("other", authority);
    struct api_tls *tls = NULL;
    struct pod_err err = POD_ERR_NONE;

    (void)state;
    write_pair("fit");
    assert_int_equal(api_tls_new(cert_path, key_path, &tls, &err), POD_OK);
    api_tls_free(tls);
    expect_unfit("/tmp/no such file", key_path, "/tmp/no such file");
    expect_unfit(cert_path, "/tmp/no such file", "/tmp/no such file");
    expect_unfit(key_path, key_path, key_path);
    expect_unfit(cert_path, ca_path, ca_path);
    assert_int_equal(chmod(key_path, 0640), 0);
    expect_unfit(cert_path, key_path, "0640");
    certificate_write_key(other, key_path);
    expect_unfit(cert_path, key_path, "not the key");
    certificate_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_pages_without_tls_may_change_nothing),
        cmocka_unit_test(test_big_bodies),
        cmocka_unit_test(test_refuses_a_long_body),
        cmocka_unit_test(test_versions_and_strangers),
        cmocka_unit_test(test_plain_text_is_no_request),
        cmocka_unit_test(test_silent_handshake),
        cmocka_unit_test(test_renewal),
        cmocka_unit_test(test_unfit_files),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
