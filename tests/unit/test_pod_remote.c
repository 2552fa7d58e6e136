// SPDX-License-Identifier: Apache-2.0
// Which addresses of workers --pod may name.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "server/pod_remote.h"

static void test_what_is_remote(void **state)
{
    (void)state;
    assert_true(pod_remote_is("grpc+pod://h:1"));
    assert_false(pod_remote_is("local:1x1x1"));
    assert_false(pod_remote_is("grpc://h:1"));
}

static void test_addresses(void **state)
{
    static const char *const expected[] = {
        "h1:8470",        "h-2.example_org:9", "[::1]:8471",
        "[fe80::1]:8470", "unix:/run/w.sock",  "10.0.0.7:65535",
    };
    enum { COUNT = sizeof(expected) / sizeof(expected[0]) };
    struct pod_remote remote;
    struct pod_err err;

    (void)state;
    assert_int_equal(
        pod_remote_parse("grpc+pod://h1,h-2.example_org:9,[::1]:8471,"
                         "[fe80::1],unix:/run/w.sock,10.0.0.7:65535",
                         &remote, &err),
        POD_OK);
    assert_int_equal(remote.count, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        assert_string_equal(remote.addresses[i], expected[i]);
    pod_remote_fini(&remote);
    assert_int_equal(pod_mem_live(), 0);
}

static void refuse(const char *text, const char *names)
{
    struct pod_remote remote;
    struct pod_err err;

    assert_int_equal(pod_remote_parse(text, &remote, &err),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(err.reason, POD_REASON_BAD_PARAMETER);
    if (strstr(err.text, names) == NULL)
        fail_msg("%s: \"%s\"", text, err.text);
    assert_int_equal(pod_mem_live(), 0);
}

static void test_refused(void **state)
{
    char text[400];

    (void)state;
    refuse("grpc+pod://", "empty");
    refuse("grpc+pod://h1,", "empty");
    refuse("grpc+pod://h1,,h2", "empty");
    refuse("grpc+pod://h1:0", "'h1:0'");
    refuse("grpc+pod://h1:65536", "'h1:65536'");
    refuse("grpc+pod://h1:", "'h1:'");
    refuse("grpc+pod://:8470", "':8470'");
    refuse("grpc+pod://h 1", "'h 1'");
    refuse("grpc+pod://[::1", "'[::1'");
    refuse("grpc+pod://[::1]8470", "'[::1]8470'");
    refuse("grpc+pod://h1,h2/x", "'h2/x'");
    // With the port that is understood it is the same host.
    refuse("grpc+pod://h1,h1:8470", "twice");
    memset(text, 'a', sizeof(text));
    memcpy(text, "grpc+pod://", 11);
    text[11 + POD_REMOTE_MAX_ADDRESS + 1] = '\0';
    refuse(text, "too long");
}

// A socket's name has 108 bytes with its end.
static void test_long_paths(void **state)
{
    char text[] = "grpc+pod://unix:"
                  "0123456789012345678901234567890123456789012345678901234567"
                  "89012345678901234567890123456789012345678901234567";
    struct pod_remote remote;
    struct pod_err err;

    (void)state;
    refuse(text, "at most 107 bytes");
    text[sizeof(text) - 2] = '\0';
    assert_int_equal(pod_remote_parse(text, &remote, &err), POD_OK);
    pod_remote_fini(&remote);
}

static void test_too_many(void **state)
{
    static char text[16 * (POD_REMOTE_MAX_HOSTS + 2)];
    struct pod_remote remote;
    struct pod_err err;
    size_t at = (size_t)snprintf(text, sizeof(text), "grpc+pod://h0");

    (void)state;
    for (int i = 1; i < POD_REMOTE_MAX_HOSTS; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, ",h%d", i);
    assert_int_equal(pod_remote_parse(text, &remote, &err), POD_OK);
    assert_int_equal(remote.count, POD_REMOTE_MAX_HOSTS);
    pod_remote_fini(&remote);
    snprintf(text + at, sizeof(text) - at, ",more");
    refuse(text, "more than 1024");
}

static void expect_far(const char *text, const char *far)
{
    struct pod_remote remote;
    struct pod_err err;

    assert_int_equal(pod_remote_parse(text, &remote, &err), POD_OK);
    const char *found = pod_remote_beyond_loopback(&remote);
    if (far == NULL)
        assert_null(found);
    else
        assert_string_equal(found, far);
    pod_remote_fini(&remote);
}

// Plain text may go to this machine alone.
static void test_beyond_loopback(void **state)
{
    (void)state;
    expect_far("grpc+pod://127.0.0.1,127.9.9.9:1,localhost,[::1],unix:x", NULL);
    expect_far("grpc+pod://127.0.0.1,h2", "h2:8470");
    expect_far("grpc+pod://127.example.org", "127.example.org:8470");
    // No address of four numbers: a resolver says what these are.
    expect_far("grpc+pod://127.1", "127.1:8470");
    expect_far("grpc+pod://127.999.1.1", "127.999.1.1:8470");
    expect_far("grpc+pod://127.0.0.1.1:5", "127.0.0.1.1:5");
    expect_far("grpc+pod://localhost.example.org",
               "localhost.example.org:8470");
    expect_far("grpc+pod://localhost.example.org",
               "localhost.example.org:8470");
    expect_far("grpc+pod://[::2]", "[::2]:8470");
    expect_far("grpc+pod://10.127.0.1", "10.127.0.1:8470");
}

static void test_no_memory(void **state)
{
    struct pod_remote remote;
    struct pod_err err;

    (void)state;
    for (long i = 0; i < 3; i++) {
        pod_mem_fail_after(i, 1);
        assert_int_equal(pod_remote_parse("grpc+pod://a,b", &remote, &err),
                         POD_RESOURCE_EXHAUSTED);
        pod_mem_fail_after(-1, 0);
        assert_int_equal(pod_mem_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_remote),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_long_paths),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_beyond_loopback),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
