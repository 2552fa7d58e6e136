// SPDX-License-Identifier: Apache-2.0
// Matching of paths, ETags and ranges: what needs no connection.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/query.h"
#include "api/route.h"

static const struct api_route routes[] = {
    {.method = API_GET, .pattern = "/"},
    {.method = API_GET, .pattern = "/v1/events/{id}"},
    {.method = API_DELETE, .pattern = "/v1/events/{id}"},
    {.method = API_POST, .pattern = "/v1/events/{id}:cancel"},
    {.method = API_GET, .pattern = "/v1/events/{id}/data"},
    {.method = API_POST, .pattern = "/v1/events:wait"},
    {.method = API_GET, .pattern = "/v1/events/latest"},
    {.method = API_GET, .pattern = "/ui/{path*}"},
};

enum { ROUTE_COUNT = sizeof(routes) / sizeof(routes[0]) };

static struct api_match match(enum api_method method, const char *path)
{
    struct api_match found;

    api_route_match(routes, ROUTE_COUNT, method, path, &found);
    return found;
}

static void expect_route(enum api_method method, const char *path, int index,
                         const char *param)
{
    struct api_match found = match(method, path);

    if (index < 0) {
        assert_null(found.route);
        return;
    }
    assert_ptr_equal(found.route, &routes[index]);
    if (param != NULL) {
        assert_int_equal(found.param_count, 1);
        assert_int_equal(found.params[0].length, strlen(param));
        assert_memory_equal(found.params[0].start, param, strlen(param));
    }
}

static void test_paths(void **state)
{
    (void)state;
    expect_route(API_GET, "/", 0, NULL);
    expect_route(API_GET, "/v1/events/op-1", 1, "op-1");
    expect_route(API_HEAD, "/v1/events/op-1", 1, "op-1");
    expect_route(API_DELETE, "/v1/events/op-1", 2, "op-1");
    expect_route(API_POST, "/v1/events/op-1:cancel", 3, "op-1");
    expect_route(API_GET, "/v1/events/op-1/data", 4, "op-1");
    expect_route(API_POST, "/v1/events:wait", 5, NULL);
    expect_route(API_GET, "/v1/events/latest", 6, NULL);
    expect_route(API_GET, "/ui/", 7, "");
    expect_route(API_GET, "/ui/a/b.css", 7, "a/b.css");
}

static void test_unknown_paths(void **state)
{
    static const char *const paths[] = {"",
                                        "/v1",
                                        "/v1/events",
                                        "/v1/events/",
                                        "/v1/events/op-1/",
                                        "/v1/events//data",
                                        "/v1/events/op-1:pause",
                                        "/v1/events/:cancel",
                                        "/v1/events/a:b:cancel",
                                        "/V1/events/op-1",
                                        "//v1/events/op-1",
                                        "/ui"};

    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct api_match found = match(API_GET, paths[i]);
        if (found.route != NULL || found.allowed != 0)
            fail_msg("\"%s\" was found", paths[i]);
    }
}

static void test_allow(void **state)
{
    char allow[API_ALLOW_BYTES];
    struct api_match found = match(API_PUT, "/v1/events/op-1");

    (void)state;
    assert_null(found.route);
    api_route_allow(found.allowed, allow);
    assert_string_equal(allow, "GET, HEAD, DELETE, OPTIONS");
    found = match(API_OTHER, "/v1/events:wait");
    assert_null(found.route);
    api_route_allow(found.allowed, allow);
    assert_string_equal(allow, "POST, OPTIONS");
    // The literal hides the capture, with its methods.
    found = match(API_DELETE, "/v1/events/latest");
    assert_null(found.route);
    api_route_allow(found.allowed, allow);
    assert_string_equal(allow, "GET, HEAD, OPTIONS");
}

static void test_long_segment(void **state)
{
    char path[512] = "/v1/events/";
    size_t head = strlen(path);

    (void)state;
    memset(path + head, 'a', API_PARAM_BYTES);
    expect_route(API_GET, path, 1, path + head);
    path[head + API_PARAM_BYTES] = 'a';
    expect_route(API_GET, path, -1, NULL);
}

// -------------------------------------------------------------------- headers

static void test_etags(void **state)
{
    (void)state;
    assert_true(api_etag_listed("\"a-r1\"", "\"a-r1\"", true));
    assert_true(api_etag_listed("\"x\" , W/\"a-r1\"", "\"a-r1\"", true));
    assert_false(api_etag_listed("W/\"a-r1\"", "\"a-r1\"", false));
    assert_true(api_etag_listed("*", "\"a-r1\"", false));
    assert_false(api_etag_listed("\"a-r10\"", "\"a-r1\"", true));
    assert_false(api_etag_listed("a-r1", "\"a-r1\"", true));
    assert_false(api_etag_listed("", "\"a-r1\"", true));
    assert_false(api_etag_listed(NULL, "\"a-r1\"", true));
}

static void expect_part(const char *header, uint64_t offset, uint64_t length)
{
    uint64_t o = 0;
    uint64_t l = 0;

    assert_int_equal(api_range_parse(header, 100, &o, &l), API_RANGE_PART);
    assert_int_equal(o, offset);
    assert_int_equal(l, length);
}

static void test_ranges(void **state)
{
    static const char *const whole[] = {"bytes=",
                                        "bytes=-",
                                        "bytes=5-2",
                                        "bytes=0-1,3-4",
                                        "items=0-1",
                                        "bytes=a-b",
                                        "bytes=0-1x",
                                        "bytes=--1",
                                        "bytes=1",
                                        "bytes= 0-1",
                                        "bytes=0-99999999999999999999"};
    uint64_t o;
    uint64_t l;

    (void)state;
    expect_part("bytes=0-0", 0, 1);
    expect_part("bytes=0-99", 0, 100);
    expect_part("bytes=90-", 90, 10);
    expect_part("bytes=90-1000", 90, 10);
    expect_part("bytes=-10", 90, 10);
    expect_part("bytes=-1000", 0, 100);
    assert_int_equal(api_range_parse(NULL, 100, &o, &l), API_RANGE_WHOLE);
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        if (api_range_parse(whole[i], 100, &o, &l) != API_RANGE_WHOLE)
            fail_msg("\"%s\" is not the whole", whole[i]);
    }
    assert_int_equal(api_range_parse("bytes=100-", 100, &o, &l),
                     API_RANGE_BEYOND);
    assert_int_equal(api_range_parse("bytes=-0", 100, &o, &l),
                     API_RANGE_BEYOND);
    assert_int_equal(api_range_parse("bytes=0-", 0, &o, &l), API_RANGE_BEYOND);
}

static void test_content_range(void **state)
{
    static const char *const bad[] = {"",
                                      "bytes 0-15",
                                      "bytes 5-4/64",
                                      "bytes 0-64/64",
                                      "bytes */9",
                                      "bytes 0-15/",
                                      "bytes=0-15/64",
                                      "bytes 0-15/64x",
                                      "items 0-1/2",
                                      "bytes 0-18446744073709551615/*"};
    uint64_t o = 0;
    uint64_t l = 0;
    uint64_t t = 0;

    (void)state;
    assert_true(api_content_range_parse("bytes 16-31/64", &o, &l, &t));
    assert_true(o == 16 && l == 16 && t == 64);
    assert_true(api_content_range_parse("bytes 0-0/*", &o, &l, &t));
    assert_true(o == 0 && l == 1 && t == UINT64_MAX);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (api_content_range_parse(bad[i], &o, &l, &t))
            fail_msg("\"%s\" was taken", bad[i]);
    }
}

static void test_lists(void **state)
{
    const char *cursor = " a, b ,,c";
    const char *piece;
    size_t length;
    static const char *const wanted[] = {"a", "b", "", "c"};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_true(api_list_next(&cursor, &piece, &length));
        assert_int_equal(length, strlen(wanted[i]));
        assert_memory_equal(piece, wanted[i], length);
    }
    assert_false(api_list_next(&cursor, &piece, &length));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_unknown_paths),
        cmocka_unit_test(test_allow),
        cmocka_unit_test(test_long_segment),
        cmocka_unit_test(test_etags),
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_content_range),
        cmocka_unit_test(test_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
