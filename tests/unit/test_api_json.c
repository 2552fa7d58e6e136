// SPDX-License-Identifier: Apache-2.0
// Parsing of JSON that clients send, and typed reading of its members.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/json.h"
#include "api/memory.h"
#include "core/base/clock.h"

static const struct api_json_limits limits = {
    .depth = 32, .values = 1000, .any = false};

// What a test parses ends with it.
static struct api_memory memory;

static int end_memory(void **state)
{
    (void)state;
    api_memory_fini(&memory);
    return 0;
}

static json_t *parse(const char *text)
{
    struct pod_err err;
    json_t *json = NULL;

    if (api_json_parse(text, strlen(text), &limits, &memory, &json, &err) !=
        POD_OK)
        fail_msg("%s: %s", text, err.text);
    return json;
}

static struct pod_err refused(const char *text, size_t length,
                              const struct api_json_limits *which)
{
    struct pod_err err = POD_ERR_NONE;
    json_t *json = NULL;

    enum pod_code code =
        api_json_parse(text, length, which, &memory, &json, &err);
    assert_int_not_equal(code, POD_OK);
    assert_null(json);
    return err;
}

static void test_malformed(void **state)
{
    static const char *const texts[] = {"",
                                        "{",
                                        "{\"a\":1,}",
                                        "{\"a\":1}x",
                                        "{'a':1}",
                                        "[1 2]",
                                        "{\"a\":01}",
                                        "{\"a\":1e400}",
                                        "nul",
                                        "1",
                                        "\"text\"",
                                        "{\"a\":\"\\u0000\"}",
                                        "{\"a\":\"\\ud800\"}",
                                        "\xef\xbb\xbf{}",
                                        "{\"a\":\"\xff\"}",
                                        "{\"a\":00000000000000000000}",
                                        "{18446744073709551616:1}",
                                        "{\"a\":1,18446744073709551616 \t:1}",
                                        "{\"a\":1,\"a\":2}",
                                        "{\"o\":{\"a\":1,\"a\":2}}"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct pod_err err = refused(texts[i], strlen(texts[i]), &limits);
        assert_int_equal(err.reason, POD_REASON_BAD_JSON);
        assert_true(err.line >= 1 && err.column >= 1);
    }
}

static void test_place_of_a_fault(void **state)
{
    const char *text = "{\n  \"a\": 1,\n  \"b\": ?\n}";

    (void)state;
    struct pod_err err = refused(text, strlen(text), &limits);
    assert_int_equal(err.line, 3);
    assert_int_equal(err.column, 8);
}

static char *nested(size_t depth)
{
    char *text = malloc(2 * depth + 1);

    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    text[2 * depth] = '\0';
    return text;
}

static void test_depth(void **state)
{
    char *most = nested(32);
    char *more = nested(33);
    char *bomb = nested(500000);

    (void)state;
    (void)parse(most);
    assert_int_equal(refused(more, 66, &limits).reason,
                     POD_REASON_BODY_TOO_LARGE);
    assert_int_equal(refused(bomb, 1000000, &limits).reason,
                     POD_REASON_BODY_TOO_LARGE);
    free(most);
    free(more);
    free(bomb);
}

// Brackets in strings are no depth, and escaped quotes do not end a string.
static void test_depth_ignores_strings(void **state)
{
    (void)state;
    (void)parse("{\"a\":\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"}");
    (void)parse("{\"a\":\"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"}");
}

// {"a":[1,"x",true,{}]} has six values: the object, the array, four in it.
static void test_count_of_values(void **state)
{
    const char *text = "{\"a\":[1,\"x\",true,{}]}";
    struct api_json_limits six = {.depth = 4, .values = 6};
    struct api_json_limits five = {.depth = 4, .values = 5};
    struct pod_err err;
    json_t *json;

    (void)state;
    assert_int_equal(
        api_json_parse(text, strlen(text), &six, &memory, &json, &err), POD_OK);
    assert_int_equal(refused(text, strlen(text), &five).reason,
                     POD_REASON_BODY_TOO_LARGE);
}

static void test_large_integers(void **state)
{
    const char *digits;
    json_t *json = parse("{\"v\":[9223372036854775807,9223372036854775808,"
                         "18446744073709551615,-9223372036854775808,"
                         "-9223372036854775809,1.5,\"18446744073709551615\"]}");
    const json_t *v = json_object_get(json, "v");

    (void)state;
    assert_int_equal(json_integer_value(json_array_get(v, 0)), INT64_MAX);
    assert_true(api_json_big_integer(json_array_get(v, 1), &digits));
    assert_string_equal(digits, "9223372036854775808");
    assert_true(api_json_big_integer(json_array_get(v, 2), &digits));
    assert_string_equal(digits, "18446744073709551615");
    assert_int_equal(json_integer_value(json_array_get(v, 3)), INT64_MIN);
    assert_true(api_json_big_integer(json_array_get(v, 4), &digits));
    assert_string_equal(digits, "-9223372036854775809");
    assert_true(json_is_real(json_array_get(v, 5)));
    assert_false(api_json_big_integer(json_array_get(v, 6), &digits));
}

// A short text is only looked at here and there: a large integer is found
// wherever it stands.
static void test_large_integers_anywhere(void **state)
{
    char text[128];
    const char *digits;

    (void)state;
    for (int spaces = 0; spaces < 60; spaces++) {
        (void)snprintf(text, sizeof(text), "[%*s9223372036854775808]", spaces,
                       "");
        json_t *json = parse(text);
        assert_true(api_json_big_integer(json_array_get(json, 0), &digits));
        assert_string_equal(digits, "9223372036854775808");
        (void)snprintf(text, sizeof(text), "[%*s9223372036854775807]", spaces,
                       "");
        json = parse(text);
        assert_int_equal(json_integer_value(json_array_get(json, 0)),
                         INT64_MAX);
    }
}

// "[ [ [" and "{"a":{"a":": one level more than is allowed, wherever they are.
static void test_depth_anywhere(void **state)
{
    struct api_json_limits most = {.depth = 3, .values = 1000};
    char text[128];
    json_t *json;
    struct pod_err err;

    (void)state;
    for (int spaces = 0; spaces < 20; spaces++) {
        (void)snprintf(text, sizeof(text), "[%*s{\"a\":[%*s]}]", spaces, "",
                       spaces, "");
        assert_int_equal(
            api_json_parse(text, strlen(text), &most, &memory, &json, &err),
            POD_OK);
        (void)snprintf(text, sizeof(text), "[%*s{\"a\":[%*s{}]}]", spaces, "",
                       spaces, "");
        assert_int_equal(refused(text, strlen(text), &most).reason,
                         POD_REASON_BODY_TOO_LARGE);
    }
}

static void test_top_level_scalar(void **state)
{
    struct api_json_limits any = {.depth = 1, .values = 1, .any = true};
    struct pod_err err;
    json_t *json;

    (void)state;
    assert_int_equal(api_json_parse("7", 1, &any, &memory, &json, &err),
                     POD_OK);
    assert_int_equal(json_integer_value(json), 7);
}

// -------------------------------------------------------------------- members

static void test_members(void **state)
{
    static const char *const names[] = {"FAIL", "RUN"};
    json_t *json = parse("{\"text\":\"\xc3\xa9\",\"n\":-3,\"big\":\"4096\","
                         "\"wait\":\"250ms\",\"secs\":2,"
                         "\"how\":\"RUN\",\"list\":[1,2],\"none\":null,"
                         "\"top\":18446744073709551615}");
    struct api_reader reader;
    struct pod_err err;
    const char *text;
    int64_t number = 0;
    int64_t wait = 0;
    uint64_t big = 0;
    uint64_t top = 0;
    bool given;
    size_t how = 0;
    const json_t *list;

    (void)state;
    assert_int_equal(api_read_begin(&reader, json, "", &err), POD_OK);
    assert_int_equal(api_read_text(&reader, "text", 1, 2, &text, &err), POD_OK);
    assert_string_equal(text, "\xc3\xa9");
    assert_int_equal(api_read_integer(&reader, "n", -10, 10, &number, &err),
                     POD_OK);
    assert_int_equal(number, -3);
    assert_int_equal(api_read_u64(&reader, "big", &big, &given, &err), POD_OK);
    assert_true(given && big == 4096);
    assert_int_equal(api_read_u64(&reader, "top", &top, NULL, &err), POD_OK);
    assert_true(top == UINT64_MAX);
    assert_int_equal(api_read_duration(&reader, "wait", &wait, &err), POD_OK);
    assert_int_equal(wait, 250 * 1000000);
    assert_int_equal(api_read_duration(&reader, "secs", &wait, &err), POD_OK);
    assert_int_equal(wait, 2 * POD_NS_PER_S);
    assert_int_equal(api_read_enum(&reader, "how", names, 2, &how, &err),
                     POD_OK);
    assert_int_equal(how, 1);
    assert_int_equal(api_read_array(&reader, "list", 2, &list, &err), POD_OK);
    assert_int_equal(json_array_size(list), 2);
    assert_int_equal(api_read_integer(&reader, "none", 0, 1, &number, &err),
                     POD_OK);
    assert_int_equal(number, -3); // null is as if absent
    assert_int_equal(api_read_end(&reader, &err), POD_OK);
}

static void test_unknown_member(void **state)
{
    json_t *json = parse("{\"core\":0,\"a/b~c\":1}");
    struct api_reader reader;
    struct pod_err err;

    (void)state;
    assert_int_equal(api_read_begin(&reader, json, "/ops/3", &err), POD_OK);
    (void)api_read_any(&reader, "core");
    assert_int_equal(api_read_end(&reader, &err), POD_INVALID_ARGUMENT);
    assert_int_equal(err.reason, POD_REASON_UNKNOWN_MEMBER);
    assert_string_equal(err.pointer, "/ops/3/a~1b~0c");
}

static void test_missing_member(void **state)
{
    json_t *json = parse("{}");
    struct api_reader reader;
    struct pod_err err;

    (void)state;
    assert_int_equal(api_read_begin(&reader, json, "", &err), POD_OK);
    (void)api_read_missing(&reader, "core", &err);
    assert_int_equal(err.reason, POD_REASON_MISSING_MEMBER);
    assert_string_equal(err.pointer, "/core");
}

// What each reader makes of one value.
static enum pod_reason read_as(char kind, const char *value)
{
    static const char *const names[] = {"ONE"};
    struct api_reader reader;
    struct pod_err err = POD_ERR_NONE;
    char text[128];
    const char *string;
    const json_t *node;
    int64_t number;
    uint64_t u64;
    size_t index;
    enum pod_code code = POD_OK;

    (void)snprintf(text, sizeof(text), "{\"m\":%s}", value);
    json_t *json = parse(text);
    assert_int_equal(api_read_begin(&reader, json, "", &err), POD_OK);
    switch (kind) {
    case 's':
        code = api_read_string(&reader, "m", &string, &err);
        break;
    case 't':
        code = api_read_text(&reader, "m", 1, 4, &string, &err);
        break;
    case 'i':
        code = api_read_integer(&reader, "m", 0, 10, &number, &err);
        break;
    case 'u':
        code = api_read_u64(&reader, "m", &u64, NULL, &err);
        break;
    case 'd':
        code = api_read_duration(&reader, "m", &number, &err);
        break;
    case 'e':
        code = api_read_enum(&reader, "m", names, 1, &index, &err);
        break;
    case 'a':
        code = api_read_array(&reader, "m", 2, &node, &err);
        break;
    default:
        code = api_read_object(&reader, "m", &node, &err);
        break;
    }
    if (code != POD_OK)
        assert_string_equal(err.pointer, "/m");
    return err.reason;
}

static void test_wrong_values(void **state)
{
    static const struct {
        char kind;
        const char *value;
        enum pod_reason reason;
    } cases[] = {
        {'s', "1", POD_REASON_WRONG_TYPE},
        {'s', "99999999999999999999", POD_REASON_WRONG_TYPE},
        {'t', "[]", POD_REASON_WRONG_TYPE},
        {'t', "\"\"", POD_REASON_BAD_TEXT},
        {'t', "\"abcde\"", POD_REASON_BAD_TEXT},
        {'t', "\"a\\n\"", POD_REASON_BAD_TEXT},
        {'i', "\"1\"", POD_REASON_WRONG_TYPE},
        {'i', "1.0", POD_REASON_WRONG_TYPE},
        {'i', "true", POD_REASON_WRONG_TYPE},
        {'i', "11", POD_REASON_OUT_OF_RANGE},
        {'i', "-1", POD_REASON_OUT_OF_RANGE},
        {'i', "99999999999999999999", POD_REASON_OUT_OF_RANGE},
        {'u', "-1", POD_REASON_OUT_OF_RANGE},
        {'u', "18446744073709551616", POD_REASON_OUT_OF_RANGE},
        {'u', "\"18446744073709551616\"", POD_REASON_OUT_OF_RANGE},
        {'u', "\"4k\"", POD_REASON_BAD_VALUE},
        {'u', "\"\"", POD_REASON_BAD_VALUE},
        {'u', "\"-1\"", POD_REASON_BAD_VALUE},
        {'u', "1.5", POD_REASON_WRONG_TYPE},
        {'d', "\"soon\"", POD_REASON_BAD_VALUE},
        {'d', "-1", POD_REASON_BAD_VALUE},
        {'d', "false", POD_REASON_WRONG_TYPE},
        {'e', "\"TWO\"", POD_REASON_BAD_VALUE},
        {'e', "\"one\"", POD_REASON_BAD_VALUE},
        {'e', "1", POD_REASON_WRONG_TYPE},
        {'a', "[1,2,3]", POD_REASON_OUT_OF_RANGE},
        {'a', "{}", POD_REASON_WRONG_TYPE},
        {'o', "[]", POD_REASON_WRONG_TYPE},
        {'i', "null", POD_REASON_NONE},
        {'a', "[1,2]", POD_REASON_NONE},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (read_as(cases[i].kind, cases[i].value) != cases[i].reason)
            fail_msg("case %zu: '%c' %s", i, cases[i].kind, cases[i].value);
    }
}

static void test_body_is_no_object(void **state)
{
    struct api_reader reader;
    struct pod_err err;
    json_t *json = parse("[1]");

    (void)state;
    assert_int_equal(api_read_begin(&reader, json, "", &err),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(err.reason, POD_REASON_WRONG_TYPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_place_of_a_fault),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_depth_ignores_strings),
        cmocka_unit_test(test_depth_anywhere),
        cmocka_unit_test(test_large_integers_anywhere),
        cmocka_unit_test(test_count_of_values),
        cmocka_unit_test(test_large_integers),
        cmocka_unit_test(test_top_level_scalar),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_unknown_member),
        cmocka_unit_test(test_missing_member),
        cmocka_unit_test(test_wrong_values),
        cmocka_unit_test(test_body_is_no_object),
    };
    return cmocka_run_group_tests(tests, NULL, end_memory);
}
