// SPDX-License-Identifier: Apache-2.0
// Digits and times of answers. Times were worked out with GNU date.
#include "api/build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/digits.h"

static void digits(void **state)
{
    (void)state;
    static const struct {
        uint64_t value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {9, "9"},
        {10, "10"},
        {1000000, "1000000"},
        {UINT64_MAX, "18446744073709551615"},
    };
    char text[API_DIGITS_MAX + 1];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        *api_put_u64(text, cases[i].value) = '\0';
        assert_string_equal(text, cases[i].text);
    }
    *api_put_padded(text, 42, 6) = '\0';
    assert_string_equal(text, "000042");
    *api_put_padded(text, 1234567, 6) = '\0';
    assert_string_equal(text, "234567");
}

static void times_are_printed(void **state)
{
    (void)state;
    static const struct {
        int64_t wall_ns;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000000Z"},
        {INT64_C(1709251199999999999), "2024-02-29T23:59:59.999999Z"},
        {INT64_C(1796032800000123456), "2026-11-30T10:00:00.000123Z"},
        {INT64_C(1796032800999999456), "2026-11-30T10:00:00.999999Z"},
        {INT64_C(1796032801000000000), "2026-11-30T10:00:01.000000Z"},
        {-1, "1969-12-31T23:59:59.999999Z"},
        {INT64_MAX, "2262-04-11T23:47:16.854775Z"},
        {INT64_MIN, "1677-09-21T00:12:43.145224Z"},
    };
    char text[API_TIME_BYTES];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(api_time_print(cases[i].wall_ns, text),
                            cases[i].text);
}

static void times_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t wall_ns;
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2026-11-30T10:00:00.000123456Z", INT64_C(1796032800000123456)},
        {"2026-11-30T12:00:00.5+02:00", INT64_C(1796032800500000000)},
        {"2026-11-30t04:30:00-05:30", INT64_C(1796032800000000000)},
        {"2000-02-29T00:00:00Z", INT64_C(951782400000000000)},
        {"2024-02-29T23:59:60Z", INT64_C(1709251200000000000)},
        {"9999-12-31T23:59:59Z", INT64_MAX},
        {"0001-01-01T00:00:00Z", INT64_MIN + 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t wall = 7;
        assert_true(api_time_parse(cases[i].text, &wall));
        assert_true(wall == cases[i].wall_ns);
    }
}

static void bad_times_are_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "abc",
        "1970-01-01",
        "1970-01-01T00:00:00",
        "1970-01-01T00:00Z",
        "1970-13-01T00:00:00Z",
        "1970-00-01T00:00:00Z",
        "1970-01-32T00:00:00Z",
        "1970-02-29T00:00:00Z",
        "1972-02-30T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "1970-04-31T00:00:00Z",
        "1970-01-01T24:00:00Z",
        "1970-01-01T00:60:00Z",
        "1970-01-01T00:00:61Z",
        "1970-01-01T00:00:00.Z",
        "1970-01-01T00:00:00.1234567890Z",
        "1970-01-01T00:00:00+24:00",
        "1970-01-01T00:00:00+0100",
        "1970-01-01T00:00:00Zx",
        "970-01-01T00:00:00Z",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t wall = 7;
        assert_false(api_time_parse(cases[i], &wall));
        assert_int_equal(wall, 7);
    }
}

static void members_are_set(void **state)
{
    (void)state;
    static const uint64_t numbers[] = {3, 4};
    struct api_build build = api_build_object();
    api_set_u64(&build, "a", UINT64_MAX);
    api_set_number(&build, "b", -1);
    api_set_bool(&build, "c", true);
    api_set_text(&build, "d", "x\xff");
    api_set_text(&build, "e", NULL);
    api_set_id(&build, "f", POD_REF_BUFFER, 17);
    api_set_id(&build, "g", POD_REF_OP, 0);
    api_set_ids(&build, "h", POD_REF_LOAD, numbers, 2);
    api_set_duration(&build, "i", INT64_C(61000000999));
    api_set_duration(&build, "j", -5);
    json_t *json = api_build_take(&build);
    char *text = json_dumps(json, JSON_COMPACT);
    assert_string_equal(
        text, "{\"a\":\"18446744073709551615\",\"b\":-1,\"c\":true,"
              "\"d\":\"x\xef\xbf\xbd\",\"e\":null,\"f\":\"buf-17\",\"g\":null,"
              "\"h\":[\"load-3\",\"load-4\"],\"i\":\"61.000000s\","
              "\"j\":\"0.000000s\"}");
    free(text);
    json_decref(json);
}

static void a_failure_is_remembered(void **state)
{
    (void)state;
    struct api_build build = api_build_object();
    api_set(&build, "a", NULL);
    api_set_number(&build, "b", 1);
    assert_null(api_build_take(&build));
    struct api_build outer = api_build_array();
    api_append(&outer, api_build_take(&build));
    assert_null(api_build_take(&outer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits),
        cmocka_unit_test(times_are_printed),
        cmocka_unit_test(times_are_read),
        cmocka_unit_test(bad_times_are_refused),
        cmocka_unit_test(members_are_set),
        cmocka_unit_test(a_failure_is_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
