// SPDX-License-Identifier: Apache-2.0
#include "api/page_token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static enum pod_reason parse(const char *text, uint64_t scope, uint64_t *place)
{
    struct pod_err err = POD_ERR_NONE;
    return api_page_token_parse(text, scope, place, &err) == POD_OK
               ? POD_REASON_NONE
               : err.reason;
}

static void gives_the_place_back(void **state)
{
    (void)state;
    static const uint64_t places[] = {1,       2,         255,
                                      1000000, INT64_MAX, UINT64_MAX};
    uint64_t scope = api_page_scope(0, "events");
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char text[API_PAGE_TOKEN_BYTES];
        uint64_t place = 0;
        api_page_token_print(scope, places[i], text);
        // Safe in a query without escapes.
        assert_int_equal(strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmn"
                                      "opqrstuvwxyz0123456789-_"),
                         strlen(text));
        assert_int_equal(parse(text, scope, &place), POD_REASON_NONE);
        assert_true(place == places[i]);
    }
}

static void refuses_other_scopes(void **state)
{
    (void)state;
    char text[API_PAGE_TOKEN_BYTES];
    uint64_t place = 7;
    uint64_t scope = api_page_scope(api_page_scope(0, "events"), "core=0");
    uint64_t other = api_page_scope(api_page_scope(0, "events"), "core=1");
    api_page_token_print(scope, 17, text);
    assert_int_equal(parse(text, other, &place), POD_REASON_BAD_PAGE_TOKEN);
    assert_int_equal(place, 7);
}

static void borders_of_texts_count(void **state)
{
    (void)state;
    uint64_t a = api_page_scope(api_page_scope(0, "ab"), "c");
    uint64_t b = api_page_scope(api_page_scope(0, "a"), "bc");
    assert_true(a != b);
    assert_true(api_page_scope(0, "a") != api_page_scope(0, "b"));
    assert_true(api_page_scope(api_page_scope(0, "a"), "") !=
                api_page_scope(0, "a"));
}

static void refuses_every_cut_and_change(void **state)
{
    (void)state;
    char text[API_PAGE_TOKEN_BYTES];
    uint64_t place = 7;
    uint64_t scope = api_page_scope(0, "buffers");
    api_page_token_print(scope, 123456, text);
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++) {
        char bad[API_PAGE_TOKEN_BYTES];
        strcpy(bad, text);
        bad[i] = '\0';
        assert_int_equal(parse(bad, scope, &place), POD_REASON_BAD_PAGE_TOKEN);
    }
    // The last character has bits that mean nothing, so it is left out.
    for (size_t i = 0; i + 1 < length; i++) {
        char bad[API_PAGE_TOKEN_BYTES];
        strcpy(bad, text);
        bad[i] = bad[i] == 'A' ? 'B' : 'A';
        assert_int_equal(parse(bad, scope, &place), POD_REASON_BAD_PAGE_TOKEN);
    }
    static const char *const cases[] = {
        "",
        "abc",
        "-1",
        "eyJhIjoxfQ==",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "%00",
        "                           ",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(parse(cases[i], scope, &place),
                         POD_REASON_BAD_PAGE_TOKEN);
    assert_int_equal(place, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_place_back),
        cmocka_unit_test(refuses_other_scopes),
        cmocka_unit_test(borders_of_texts_count),
        cmocka_unit_test(refuses_every_cut_and_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
