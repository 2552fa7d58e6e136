// SPDX-License-Identifier: Apache-2.0
// What --pod may say.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/pod_spec.h"

static void test_defaults(void **state)
{
    (void)state;
    struct pod_spec spec;
    assert_int_equal(pod_spec_parse("local:1x1x1", &spec, NULL), POD_OK);
    assert_int_equal(spec.hosts, 1);
    assert_int_equal(spec.cores_per_chip, 1);
    assert_int_equal(spec.hbm_bytes, 1073741824);
    assert_string_equal(spec.fault, "");
}

static void test_every_option(void **state)
{
    (void)state;
    struct pod_spec spec;
    assert_int_equal(
        pod_spec_parse("local:4x2x3,hosts=6,cores=2,hbm=64MiB,device=reference,"
                       "latency=5ms,bandwidth=10GB/s,flops=1.5T,"
                       "fault=host1:execute#3=die",
                       &spec, NULL),
        POD_OK);
    assert_int_equal(spec.x * 100 + spec.y * 10 + spec.z, 423);
    assert_int_equal(spec.hosts, 6);
    assert_int_equal(spec.cores_per_chip, 2);
    assert_int_equal(spec.hbm_bytes, 67108864);
    assert_int_equal(spec.latency_ns, 5000000);
    assert_int_equal(spec.bandwidth, 10000000000);
    assert_true(spec.flops > 1.49e12 && spec.flops < 1.51e12);
    assert_string_equal(spec.fault, "host1:execute#3=die");
}

static void test_faults_name_the_piece(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *named;
    } cases[] = {
        {"ftp://x", "local:"},
        {"local:", "''"},
        {"local:0x1x1", "'0x1x1'"},
        {"local:2x2", "'2x2'"},
        {"local:2x2x2x2", "'2x2x2x2'"},
        {"local:-1x1x1", "'-1x1x1'"},
        {"local:100000x100000x100000", "'100000x100000x100000'"},
        {"local:1024x1024x1", "4096"},
        {"local:3x1x1,hosts=2", "hosts=2"},
        {"local:1x1x1,cores=-1", "'cores=-1'"},
        {"local:1x1x1,cores=65", "'cores=65': expected 1 to 64"},
        {"local:1x1x1,hbm=lots", "'hbm=lots': expected bytes"},
        {"local:1x1x1,device=tpu", "'device=tpu': expected reference or auto"},
        {"local:1x1x1,nonsense=1", "'nonsense=1'"},
        {"local:1x1x1,hosts", "'hosts'"},
        {"local:1x1x1,hosts=1,cores=2,hosts=1", "'hosts=1': the option"},
        {"local:1x1x1,hosts=1025", "'hosts=1025': expected 1 to 1024"},
        {"local:1x1x1,latency=1d", "'latency=1d': expected a duration"},
        {"local:1x1x1,flops=1Q", "'flops=1Q': expected operations a second"},
        {"local:1x1x1,bandwidth=0", "'bandwidth=0': expected bytes a second"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pod_spec spec;
        struct pod_err err = POD_ERR_NONE;
        assert_int_equal(pod_spec_parse(cases[i].text, &spec, &err),
                         POD_INVALID_ARGUMENT);
        if (strstr(err.text, cases[i].named) == NULL)
            fail_msg("%s: \"%s\" does not name %s", cases[i].text, err.text,
                     cases[i].named);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_option),
        cmocka_unit_test(test_faults_name_the_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
