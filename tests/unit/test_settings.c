// SPDX-License-Identifier: Apache-2.0
#include "server/settings.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/tokens.h"
#include "core/base/clock.h"
#include "tests/lib/certificate.h"

enum { ARGS_MAX = 12 };

#define NAME_OF_27  "/abcdefghijklmnopqrstuvwxyz"
#define PATH_OF_108 NAME_OF_27 NAME_OF_27 NAME_OF_27 NAME_OF_27

static char folder[] = "/tmp/podd-settings-XXXXXX";
static char tokens[64];
static char cert[64];
static char key[64];

static int setup(void **state)
{
    char line[API_TOKEN_LINE_BYTES];
    struct certificate *made = certificate_authority("settings");

    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(tokens, sizeof(tokens), "%s/tokens", folder);
    (void)snprintf(cert, sizeof(cert), "%s/cert.pem", folder);
    (void)snprintf(key, sizeof(key), "%s/key.pem", folder);
    int fd = open(tokens, O_WRONLY | O_CREAT, 0600);
    api_token_line("abc", API_SCOPE_READ, line);
    assert_int_equal(write(fd, line, strlen(line)), strlen(line));
    (void)close(fd);
    certificate_write(made, cert);
    certificate_write_key(made, key);
    certificate_free(made);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(tokens);
    (void)unlink(cert);
    (void)unlink(key);
    return rmdir(folder);
}

// Reads and checks; T, C and K stand for the files. The text of the error is
// left in `out_text`, "" when there is none.
static void check(const char *const *args, char out_text[POD_ERR_TEXT_BYTES])
{
    const char *argv[ARGS_MAX + 1] = {"podd"};
    struct podd_settings settings;
    struct pod_err err = POD_ERR_NONE;
    int argc = 1;

    for (; args[argc - 1] != NULL; argc++) {
        const char *arg = args[argc - 1];
        argv[argc] = strcmp(arg, "T") == 0   ? tokens
                     : strcmp(arg, "C") == 0 ? cert
                     : strcmp(arg, "K") == 0 ? key
                                             : arg;
    }
    enum pod_code code = podd_settings_read(argc, argv, &settings, &err);
    if (code == POD_OK)
        code = podd_settings_check(&settings, &err);
    podd_settings_fini(&settings);
    (void)snprintf(out_text, POD_ERR_TEXT_BYTES, "%s",
                   code == POD_OK ? "" : err.text);
}

static void test_what_is_served(void **state)
{
    static const char *const good[][ARGS_MAX] = {
        {"--dev"},
        {"--dev", "--listen", "127.200.0.9:0"},
        {"--dev", "--listen", "[::1]:80"},
        {"--dev", "--listen", "localhost:8480"},
        {"--dev", "--listen", "unix:/tmp/podd.socket"},
        {"--dev", "--listen", "0.0.0.0:0", "--insecure"},
        {"--dev", "--tls-cert", "C", "--tls-key", "K"},
        {"--token-file", "T"},
        {"--token-file", "T", "--listen", "unix:/tmp/podd.socket"},
        {"--token-file", "T", "--listen", "0.0.0.0:0", "--insecure"},
        {"--token-file", "T", "--listen", "0.0.0.0:0", "--tls-cert", "C",
         "--tls-key", "K"},
        {"--dev", "--rate-limit", "1000000"},
        {"--dev", "--allowed-origin", "https://pod.example", "--allowed-origin",
         "http://[::1]:3000"},
        {"--dev", "--allowed-host", "Pod_1.example", "--allowed-host",
         "[fd00::1]", "--allowed-host", "10.0.0.1"},
    };
    char text[POD_ERR_TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        check(good[i], text);
        assert_string_equal(text, "");
    }
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *args[ARGS_MAX];
        const char *text;
    } bad[] = {
        {{NULL}, "podd token add"},
        {{"--insecure"}, "--token-file is missing"},
        {{"--listen", "unix:/tmp/podd.socket"}, "--token-file is missing"},
        {{"--dev", "--token-file", "T"}, "leave one out"},
        {{"--dev", "--listen", "0.0.0.0:0"}, "loopback only"},
        {{"--dev", "--listen", "[::]:0"}, "loopback only"},
        {{"--dev", "--listen", "127.0.0.1.example.org:0"}, "loopback only"},
        {{"--dev", "--listen", "127.1:0"}, "loopback only"},
        {{"--dev", "--listen", "0.0.0.0:0", "--tls-cert", "C", "--tls-key",
          "K"},
         "loopback only"},
        {{"--token-file", "T", "--listen", "0.0.0.0:0"}, "TLS is needed"},
        {{"--dev", "--tls-cert", "C"}, "--tls-cert needs --tls-key"},
        {{"--dev", "--tls-key", "K"}, "--tls-key needs --tls-cert"},
        {{"--dev", "--tls-cert", "K", "--tls-key", "K"}, "key.pem"},
        {{"--dev", "--tls-cert", "/none", "--tls-key", "K"}, "--tls-cert"},
        {{"--dev", "--worker-tls-ca", "/none"}, "--worker-tls-ca '/none': No"},
        {{"--dev", "--worker-tls-ca", "C", "--worker-tls-cert", "C",
          "--worker-tls-key", "/dev/null"},
         "--worker-tls-key '/dev/null': is empty"},
        {{"--token-file", "/no/such/file"}, "/no/such/file"},
        {{"--token-file", "C"}, "lets others in"},
        {{"--dev", "--listen", "127.0.0.1"}, "--listen '127.0.0.1'"},
        {{"--dev", "--listen", "127.0.0.1:65536"}, "65535"},
        {{"--dev", "--listen", "unix:"}, "--listen 'unix:'"},
        {{"--dev", "--rate-limit", "1000001"}, "at most 1000000"},
        {{"--dev", "--listen", "unix:" PATH_OF_108}, "at most 107 bytes"},
        {{"--dev", "--allowed-host", "pod:8480"}, "--allowed-host 'pod:8480'"},
        {{"--dev", "--allowed-host", "http://pod"}, "without a port"},
        {{"--dev", "--allowed-host", "[fd00::1"}, "without a port"},
        {{"--dev", "--allowed-host", "[]"}, "without a port"},
        {{"--dev", "--allowed-host", "a b"}, "without a port"},
        {{"--dev", "--allowed-origin", "*"}, "--allowed-origin '*'"},
        {{"--dev", "--allowed-origin", "https://"}, "expected http"},
        {{"--dev", "--allowed-origin", "https://*.example"}, "expected http"},
        {{"--dev", "--allowed-origin", "https://a.example/"}, "expected http"},
        {{"--dev", "--allowed-origin", "https://a.example", "--allowed-origin",
          "null"},
         "--allowed-origin 'null'"},
        {{"--dev", "--rate-limit", "0"}, "--rate-limit '0'"},
        {{"--dev", "--requests-per-token", "4294967296"}, "at most"},
        {{"--dev", "--connections-per-address", "4294967296"}, "at most"},
    };
    char text[POD_ERR_TEXT_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        check(bad[i].args, text);
        if (strstr(text, bad[i].text) == NULL)
            print_error("expected '%s', got '%s'\n", bad[i].text, text);
        assert_non_null(strstr(text, bad[i].text));
    }
}

static void test_defaults(void **state)
{
    const char *const argv[] = {"podd"};
    struct podd_settings settings;
    struct pod_err err;

    (void)state;
    assert_int_equal(podd_settings_read(1, argv, &settings, &err), POD_OK);
    assert_string_equal(podd_settings_listen(&settings), "127.0.0.1:8480");
    assert_int_equal(settings.staging_bytes, UINT64_C(1) << 30);
    assert_int_equal(settings.history_count, 100000);
    assert_int_equal(settings.history_age_ns, 86400 * POD_NS_PER_S);
    assert_int_equal(settings.drain_timeout_ns, 30 * POD_NS_PER_S);
    assert_int_equal(settings.stall_after_ns, 60 * POD_NS_PER_S);
    assert_false(podd_settings_is_remote(&settings));
    podd_settings_fini(&settings);
}

int main(void)
{
    const struct CMUnitTest all[] = {
        cmocka_unit_test(test_what_is_served),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_defaults),
    };

    return cmocka_run_group_tests(all, setup, teardown);
}
