// SPDX-License-Identifier: Apache-2.0
// Settings: precedence, types, and what the messages name.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "server/config.h"

struct settings {
    bool dev;
    char *listen;
    char *config;
    struct pod_setting_list hosts;
    uint64_t count;
    uint64_t bytes;
    int64_t age_ns;
};

static enum pod_code check_listen(const void *settings, struct pod_err *err)
{
    const struct settings *s = settings;
    if (strchr(s->listen, ':') != NULL)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_PARAMETER, "no port");
}

#define AT(member) offsetof(struct settings, member)
static const struct pod_setting table[] = {
    {"dev", POD_SETTING_FLAG, AT(dev), "", NULL},
    {"listen", POD_SETTING_TEXT, AT(listen), "", check_listen},
    {"config", POD_SETTING_TEXT, AT(config), "", NULL},
    {"allowed-host", POD_SETTING_LIST, AT(hosts), "", NULL},
    {"history-count", POD_SETTING_COUNT, AT(count), "", NULL},
    {"staging-bytes", POD_SETTING_BYTES, AT(bytes), "", NULL},
    {"history-age", POD_SETTING_DURATION, AT(age_ns), "", NULL},
};
enum { TABLE_COUNT = sizeof(table) / sizeof(table[0]), MAX_ARGS = 12 };

static struct settings read_settings;
static struct pod_err error;

// Reads a NULL-terminated list of flags.
static enum pod_code read_flags(const char *const *flags)
{

    const char *argv[MAX_ARGS] = {"test"};
    int argc = 1;
    for (; flags[argc - 1] != NULL; argc++)
        argv[argc] = flags[argc - 1];
    memset(&read_settings, 0, sizeof(read_settings));
    error = POD_ERR_NONE;
    return pod_config_read(table, TABLE_COUNT, "TESTPOD", argc, argv,
                           &read_settings, &error);
}

#define READ(...) read_flags((const char *[]){__VA_ARGS__, NULL})

static int teardown(void **state)
{
    (void)state;
    pod_config_fini(table, TABLE_COUNT, &read_settings);
    memset(&read_settings, 0, sizeof(read_settings));
    return pod_mem_live() == 0 ? 0 : -1;
}

static void test_every_type_is_read(void **state)
{
    (void)state;
    assert_int_equal(READ("--dev", "--listen", "h:1", "--allowed-host", "a",
                          "--allowed-host=b", "--history-count", "7",
                          "--staging-bytes=3KiB", "--history-age=2m"),
                     POD_OK);
    assert_true(read_settings.dev);
    assert_string_equal(read_settings.listen, "h:1");
    assert_int_equal(read_settings.hosts.count, 2);
    assert_string_equal(read_settings.hosts.items[1], "b");
    assert_int_equal(read_settings.count, 7);
    assert_int_equal(read_settings.bytes, 3072);
    assert_int_equal(read_settings.age_ns, 120 * POD_NS_PER_S);
}

static void refused(enum pod_code code, const char *name, const char *value)
{
    assert_int_equal(code, POD_INVALID_ARGUMENT);
    assert_non_null(strstr(error.text, name));
    assert_non_null(strstr(error.text, value));
}

static void test_faults_name_flag_and_value(void **state)
{
    (void)state;
    refused(READ("--nonsense"), "--nonsense", "unknown");
    teardown(NULL);
    refused(READ("word"), "word", "flag");
    teardown(NULL);
    refused(READ("--listen"), "--listen", "missing");
    teardown(NULL);
    refused(READ("--listen", "h"), "--listen", "'h': no port");
    teardown(NULL);
    refused(READ("--history-count", "0"), "--history-count", "'0'");
    teardown(NULL);
    refused(READ("--staging-bytes", "lots"), "--staging-bytes", "'lots'");
    teardown(NULL);
    refused(READ("--history-age", "-1s"), "--history-age", "'-1s'");
    teardown(NULL);
    refused(READ("--dev=maybe"), "--dev", "'maybe'");
    teardown(NULL);
    refused(READ("--listen", "h:1", "--listen", "h:2"), "--listen", "twice");
}

static void write_file(char *path, const char *text)
{
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void test_flags_win_over_environment_over_file(void **state)
{
    (void)state;
    char path[] = "/tmp/podd-config-XXXXXX";
    write_file(path, "# comment\n\n listen = file:1 \nhistory-count=3\n"
                     "allowed-host = one\nallowed-host = two\n"
                     "history-age = 5s\n");
    setenv("TESTPOD_HISTORY_COUNT", "4", 1);
    setenv("TESTPOD_LISTEN", "environment:1", 1);
    assert_int_equal(READ("--config", path, "--listen", "flag:1"), POD_OK);
    unsetenv("TESTPOD_HISTORY_COUNT");
    unsetenv("TESTPOD_LISTEN");
    unlink(path);
    assert_string_equal(read_settings.listen, "flag:1");
    assert_int_equal(read_settings.count, 4);
    assert_int_equal(read_settings.hosts.count, 2);
    assert_int_equal(read_settings.age_ns, 5 * POD_NS_PER_S);
}

static void file_refused(const char *text, const char *name, const char *value)
{
    char path[] = "/tmp/podd-config-XXXXXX";
    write_file(path, text);
    enum pod_code code = READ("--config", path);
    unlink(path);
    refused(code, name, value);
    teardown(NULL);
}

// What stands behind a zero byte would be passed over.
static void test_a_zero_byte_in_a_file(void **state)
{
    static const char bytes[] = "listen = a:1\ndev = true\0 # or is it\n";
    char path[] = "/tmp/podd-config-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, sizeof(bytes) - 1), sizeof(bytes) - 1);
    close(fd);
    enum pod_code code = READ("--config", path);
    unlink(path);
    refused(code, ":2", "zero byte");
}

static void test_file_faults_name_the_line(void **state)
{
    (void)state;
    file_refused("listen = a:1\nwhat = 1\n", ":2", "'what'");
    file_refused("\nlisten\n", ":2", "name = value");
    file_refused("history-count = x\n", "history-count in", "'x'");
    file_refused("listen = a:1\nlisten = b:1\n", "listen in", "twice");
    file_refused("listen = a:1\nconfig = x\n", ":2", "'config'");
    refused(READ("--config", "/nonexistent/podd.conf"), "--config",
            "No such file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_every_type_is_read, teardown),
        cmocka_unit_test_teardown(test_faults_name_flag_and_value, teardown),
        cmocka_unit_test_teardown(test_flags_win_over_environment_over_file,
                                  teardown),
        cmocka_unit_test_teardown(test_file_faults_name_the_line, teardown),
        cmocka_unit_test_teardown(test_a_zero_byte_in_a_file, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
