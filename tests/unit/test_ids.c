// SPDX-License-Identifier: Apache-2.0
#include "api/ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void parses_each_kind(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum pod_ref_kind kind;
        uint64_t number;
    } cases[] = {
        {"op-1", POD_REF_OP, 1},
        {"buf-17", POD_REF_BUFFER, 17},
        {"prog-18", POD_REF_PROGRAM, 18},
        {"load-19", POD_REF_LOAD, 19},
        {"graph-40", POD_REF_GRAPH, 40},
        {"op-9223372036854775807", POD_REF_OP, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pod_ref ref = {0};
        char text[API_ID_BYTES];
        assert_true(api_id_parse(cases[i].text, strlen(cases[i].text), &ref));
        assert_int_equal(ref.kind, cases[i].kind);
        assert_int_equal(ref.number, cases[i].number);
        assert_string_equal(api_id_print(ref.kind, ref.number, text),
                            cases[i].text);
    }
}

static void refuses_what_is_not_exact(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "op",
        "op-",
        "op-0",
        "op-01",
        "op-+1",
        "op--1",
        "op-1 ",
        " op-1",
        "OP-1",
        "op_1",
        "op-1x",
        "op-0x1",
        "1",
        "opp-1",
        "o-1",
        "buf-",
        "buffer-1",
        "op-1.0",
        "prog1",
        "op-9223372036854775808",
        "op-99999999999999999999999999",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pod_ref ref = {.kind = POD_REF_NONE};
        assert_false(api_id_parse(cases[i], strlen(cases[i]), &ref));
        assert_int_equal(ref.kind, POD_REF_NONE);
    }
    struct pod_ref ref = {0};
    assert_false(api_id_parse("op-1\0", 5, &ref));
    assert_true(api_id_parse("op-12", 4, &ref));
    assert_int_equal(ref.number, 1);
}

static void wants_the_kind(void **state)
{
    (void)state;
    uint64_t number = 7;
    assert_false(api_id_parse_kind("buf-1", POD_REF_OP, &number));
    assert_int_equal(number, 7);
    assert_true(api_id_parse_kind("buf-1", POD_REF_BUFFER, &number));
    assert_int_equal(number, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_each_kind),
        cmocka_unit_test(refuses_what_is_not_exact),
        cmocka_unit_test(wants_the_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
