// SPDX-License-Identifier: Apache-2.0
// Buffers over HTTP: every form of making one, freeing, copying, tuples.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/rest_pod.h"

static int setup(void **state)
{
    const struct rest_options options = {.pod = "local:2x1x1,hosts=2,hbm=1MiB"};
    *state = rest_start(&options);
    return 0;
}

// Makes a buffer and gives its id in a static buffer.
static const char *make(struct rest *rest, const char *body)
{
    static char id[4][32];
    static unsigned next;
    char *out = id[next++ % 4];
    json_t *event = rest_submit(rest, "/v1/buffers", body);
    (void)snprintf(out, 32, "%s", rest_text(event, "buffer"));
    json_decref(rest_await(rest, rest_text(event, "id")));
    json_decref(event);
    return out;
}

static json_t *buffer(struct rest *rest, const char *id)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s", id);
    return rest_json(rest_get(rest, path), 200);
}

static void is_shape(struct rest *rest, const char *id, const char *shape,
                     const char *bytes)
{
    json_t *json = buffer(rest, id);
    const char *found = json_string_value(json_object_get(json, "shape"));
    assert_string_equal(rest_text(json, "state"), "READY");
    assert_string_equal(rest_text(json, "bytes"), bytes);
    if (shape == NULL)
        assert_null(found);
    else
        assert_string_equal(found, shape);
    json_decref(json);
}

static void every_form(void **state)
{
    struct rest *rest = *state;
    is_shape(rest, make(rest, "{\"core\":0,\"bytes\":\"4096\"}"), NULL, "4096");
    is_shape(rest, make(rest, "{\"core\":0,\"bytes\":4096}"), NULL, "4096");
    is_shape(rest, make(rest, "{\"core\":0,\"shape\":\"f32[2,3]\"}"),
             "f32[2,3]", "24");
    is_shape(rest, make(rest, "{\"core\":0,\"shape\":\"f32[2,3]{0,1}\"}"),
             "f32[2,3]{0,1}", "24");
    is_shape(rest,
             make(rest, "{\"core\":0,\"shape\":{\"element_type\":\"BF16\","
                        "\"dimensions\":[2,3],\"layout\":[0,1]}}"),
             "bf16[2,3]{0,1}", "12");
    is_shape(rest,
             make(rest, "{\"core\":1,\"shape\":\"s32[2]\",\"values\":[1,-2]}"),
             "s32[2]", "8");
    is_shape(rest,
             make(rest, "{\"core\":1,\"shape\":\"pred[]\",\"fill\":true}"),
             "pred[]", "1");
    is_shape(rest, make(rest, "{\"core\":1,\"shape\":\"f32[0,3]\"}"),
             "f32[0,3]", "0");
    // null is as if it were absent.
    is_shape(rest,
             make(rest, "{\"core\":0,\"bytes\":\"8\",\"shape\":null,"
                        "\"values\":null,\"fill\":null,\"tuple\":null,"
                        "\"after\":null,\"labels\":null,\"name\":null}"),
             NULL, "8");
}

static void bad_forms_are_refused(void **state)
{
    static const struct {
        const char *body;
        long status;
        const char *reason;
        const char *pointer;
    } cases[] = {
        {"{}", 400, "MISSING_MEMBER", "/core"},
        {"{\"core\":0}", 400, "MISSING_MEMBER", "/shape"},
        {"{\"bytes\":\"8\"}", 400, "MISSING_MEMBER", "/core"},
        {"{\"core\":\"0\",\"bytes\":\"8\"}", 400, "WRONG_TYPE", "/core"},
        {"{\"core\":-1,\"bytes\":\"8\"}", 422, "OUT_OF_RANGE", "/core"},
        {"{\"core\":9,\"bytes\":\"8\"}", 422, "UNKNOWN_CORE", "/core"},
        {"{\"core\":0,\"bytes\":\"x\"}", 400, "BAD_VALUE", "/bytes"},
        {"{\"core\":0,\"bytes\":\"01\"}", 400, "BAD_VALUE", "/bytes"},
        {"{\"core\":0,\"bytes\":\"00\"}", 400, "BAD_VALUE", "/bytes"},
        {"{\"core\":0,\"bytes\":-1}", 422, "OUT_OF_RANGE", "/bytes"},
        {"{\"core\":0,\"bytes\":[]}", 400, "WRONG_TYPE", "/bytes"},
        {"{\"core\":0,\"bytes\":\"1048577\"}", 422, "RESOURCE_EXHAUSTED",
         "/bytes"},
        {"{\"core\":0,\"bytes\":\"8\",\"shape\":\"f32[]\"}", 400, "BAD_VALUE",
         "/bytes"},
        {"{\"core\":0,\"bytes\":\"8\",\"fill\":0}", 400, "BAD_VALUE", "/fill"},
        {"{\"core\":0,\"bytes\":\"8\",\"values\":[]}", 400, "BAD_VALUE",
         "/values"},
        {"{\"core\":0,\"shape\":\"f32[\"}", 422, "BAD_SHAPE", "/shape"},
        {"{\"core\":0,\"shape\":7}", 400, "WRONG_TYPE", "/shape"},
        {"{\"core\":0,\"shape\":\"(f32[],f32[])\"}", 422, "BAD_SHAPE",
         "/shape"},
        {"{\"core\":0,\"shape\":\"f32[9223372036854775807]\"}", 422,
         "BAD_SHAPE", "/shape"},
        {"{\"core\":0,\"shape\":{\"dimensions\":[]}}", 400, "MISSING_MEMBER",
         "/shape/element_type"},
        {"{\"core\":0,\"shape\":{\"element_type\":\"F32\"}}", 400,
         "MISSING_MEMBER", "/shape/dimensions"},
        {"{\"core\":0,\"shape\":{\"element_type\":\"F31\",\"dimensions\":[]}}",
         422, "BAD_SHAPE", "/shape/element_type"},
        {"{\"core\":0,\"shape\":{\"element_type\":\"F32\",\"dimensions\":"
         "[\"1\"]}}",
         400, "WRONG_TYPE", "/shape/dimensions/0"},
        {"{\"core\":0,\"shape\":{\"element_type\":\"F32\",\"dimensions\":[2,3],"
         "\"layout\":[0,0]}}",
         422, "BAD_SHAPE", "/shape/layout"},
        {"{\"core\":0,\"shape\":{\"element_type\":\"F32\",\"dimensions\":[],"
         "\"x\":1}}",
         400, "UNKNOWN_MEMBER", "/shape/x"},
        {"{\"core\":0,\"shape\":\"f32[2]\",\"values\":[1]}", 422,
         "SHAPE_MISMATCH", "/values"},
        {"{\"core\":0,\"shape\":\"f32[2]\",\"values\":[1,\"x\"]}", 400,
         "BAD_VALUE", "/values/1"},
        {"{\"core\":0,\"shape\":\"u8[1]\",\"values\":[256]}", 422,
         "OUT_OF_RANGE", "/values/0"},
        {"{\"core\":0,\"shape\":\"u8[1]\",\"fill\":256}", 422, "OUT_OF_RANGE",
         "/fill"},
        {"{\"core\":0,\"shape\":\"u8[1]\",\"fill\":0,\"values\":[0]}", 400,
         "BAD_VALUE", "/fill"},
        {"{\"tuple\":[\"buf-1\"],\"core\":0}", 400, "BAD_VALUE", "/tuple"},
        {"{\"tuple\":[\"op-1\"]}", 422, "UNKNOWN_HANDLE", "/tuple/0"},
        {"{\"tuple\":[\"buf-999999\"]}", 422, "UNKNOWN_HANDLE", "/tuple/0"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rest_answer answer =
            rest_send(*state, "POST", "/v1/buffers", cases[i].body);
        const json_t *error =
            json_array_get(json_object_get(answer.json, "errors"), 0);
        if (error == NULL ||
            strcmp(rest_text(error, "pointer"), cases[i].pointer) != 0)
            print_error("%s: %s\n", cases[i].body, answer.body);
        assert_non_null(error);
        assert_string_equal(rest_text(error, "pointer"), cases[i].pointer);
        rest_is_problem(answer, cases[i].status, cases[i].reason);
    }
}

static void types_of_bodies(void **state)
{
    static const char *const types[] = {
        "Content-Type: application/x-www-form-urlencoded",
        "Content-Type: text/plain",
        "Content-Type: application/json; charset=latin1",
    };
    const char *body = "{\"core\":0,\"bytes\":\"8\"}";
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        const char *headers[] = {types[i], NULL};
        rest_is_problem(rest_ask(*state, "POST", "/v1/buffers", headers, body,
                                 strlen(body)),
                        415, "UNSUPPORTED_TYPE");
    }
    struct rest_answer answer =
        rest_ask(*state, "POST", "/v1/buffers", NULL, body, strlen(body));
    assert_non_null(strstr(rest_text(answer.json, "detail"),
                           "-H 'Content-Type: application/json'"));
    rest_is_problem(answer, 415, "UNSUPPORTED_TYPE");
}

static void freeing_twice(void **state)
{
    struct rest *rest = *state;
    char path[64];
    char copy[96];
    const char *other = make(rest, "{\"core\":0,\"bytes\":\"8\"}");
    const char *id = make(rest, "{\"core\":0,\"bytes\":\"8\"}");
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s", id);
    json_t *first =
        rest_json(rest_ask(rest, "DELETE", path, NULL, NULL, 0), 202);
    assert_string_equal(rest_text(first, "kind"), "FREE");
    json_decref(rest_await(rest, rest_text(first, "id")));
    json_t *second =
        rest_json(rest_ask(rest, "DELETE", path, NULL, NULL, 0), 200);
    assert_string_equal(rest_text(second, "id"), rest_text(first, "id"));
    json_decref(second);
    json_t *view = buffer(rest, id);
    assert_string_equal(rest_text(view, "state"), "FREED");
    json_decref(view);
    // It is refused everywhere, by name of what freed it.
    (void)snprintf(copy, sizeof(copy), "%s:copy", path);
    char body[64];
    (void)snprintf(body, sizeof(body), "{\"to\":\"%s\"}", other);
    struct rest_answer answer = rest_send(rest, "POST", copy, body);
    assert_string_equal(
        rest_text(json_object_get(answer.json, "metadata"), "freed_by"),
        rest_text(first, "id"));
    rest_is_problem(answer, 409, "HANDLE_FREED");
    (void)snprintf(copy, sizeof(copy), "%s/data", path);
    rest_is_problem(rest_get(rest, copy), 409, "HANDLE_FREED");
    answer = rest_get(rest, "/v1/buffers/buf-999999/data");
    assert_string_equal(rest_text(answer.json, "detail"),
                        "buf-999999 does not exist");
    rest_is_problem(answer, 404, "NOT_FOUND");
    json_decref(first);
    rest_is_problem(
        rest_ask(rest, "DELETE", "/v1/buffers/buf-999999", NULL, NULL, 0), 404,
        "NOT_FOUND");
}

static void copies(void **state)
{
    struct rest *rest = *state;
    char path[64];
    char body[64];
    const char *from =
        make(rest, "{\"core\":0,\"shape\":\"s32[2]\",\"values\":[7,-8]}");
    const char *to = make(rest, "{\"core\":1,\"shape\":\"s32[2]\"}");
    const char *odd = make(rest, "{\"core\":1,\"shape\":\"s32[3]\"}");
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s:copy", from);
    (void)snprintf(body, sizeof(body), "{\"to\":\"%s\"}", to);
    json_t *event = rest_submit(rest, path, body);
    assert_string_equal(rest_text(event, "kind"), "COPY");
    json_decref(event);
    static const char *const headers[] = {"Accept: application/json", NULL};
    char data[64];
    (void)snprintf(data, sizeof(data), "/v1/buffers/%s/data", to);
    struct rest_answer answer = rest_ask(rest, "GET", data, headers, NULL, 0);
    assert_string_equal(answer.body, "{\"shape\":\"s32[2]\",\"values\":[7,-8]}"
                                     "\n");
    rest_answer_free(&answer);
    (void)snprintf(body, sizeof(body), "{\"to\":\"%s\"}", odd);
    rest_is_problem(rest_send(rest, "POST", path, body), 422, "SHAPE_MISMATCH");
    rest_is_problem(rest_send(rest, "POST", path, "{}"), 400, "MISSING_MEMBER");
    rest_is_problem(rest_send(rest, "POST", path, "{\"to\":\"prog-1\"}"), 422,
                    "UNKNOWN_HANDLE");
    rest_is_problem(
        rest_send(rest, "POST", "/v1/buffers/buf-999999:copy", body), 404,
        "NOT_FOUND");
}

static struct rest_answer ask_to_free(struct rest *rest, const char *id)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s", id);
    return rest_ask(rest, "DELETE", path, NULL, NULL, 0);
}

static void tuples(void **state)
{
    struct rest *rest = *state;
    char path[64];
    char body[96];
    const char *a = make(rest, "{\"core\":0,\"bytes\":\"8\"}");
    const char *b = make(rest, "{\"core\":0,\"bytes\":\"8\"}");
    (void)snprintf(body, sizeof(body), "{\"tuple\":[\"%s\",\"%s\",\"%s\"]}", a,
                   b, a);
    const char *tuple = make(rest, body);
    json_t *view = buffer(rest, tuple);
    assert_int_equal(json_array_size(json_object_get(view, "tuple")), 3);
    json_decref(view);
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s/data", tuple);
    struct rest_answer answer = rest_get(rest, path);
    assert_non_null(strstr(answer.body, a));
    assert_non_null(strstr(answer.body, b));
    rest_is_problem(answer, 422, "IS_A_TUPLE");
    answer = ask_to_free(rest, a);
    (void)snprintf(body, sizeof(body),
                   "%s is part of a tuple that is not freed: %s", a, tuple);
    assert_non_null(strstr(answer.body, body));
    // There is no body for a pointer to point into.
    assert_null(json_object_get(answer.json, "errors"));
    rest_is_problem(answer, 409, "IN_USE");
    json_decref(rest_json(ask_to_free(rest, tuple), 202));
    json_decref(rest_json(ask_to_free(rest, a), 202));
}

// A tuple of `count` times the buffer.
static const char *make_tuple(struct rest *rest, const char *part, size_t count)
{
    struct pod_str text = {0};
    for (size_t i = 0; i < count; i++)
        pod_str_printf(&text, "%s\"%s\"", i == 0 ? "{\"tuple\":[" : ",", part);
    pod_str_puts(&text, "]}");
    assert_false(text.failed);
    const char *id = make(rest, text.data);
    pod_str_fini(&text);
    return id;
}

static void tuples_show_the_shapes_of_their_parts(void **state)
{
    struct rest *rest = *state;
    char a[32];
    char b[32];
    char body[96];
    (void)snprintf(a, sizeof(a), "%s",
                   make(rest, "{\"core\":0,\"shape\":\"f32[2,3]{0,1}\"}"));
    (void)snprintf(b, sizeof(b), "%s",
                   make(rest, "{\"core\":0,\"shape\":\"s32[]\"}"));
    (void)snprintf(body, sizeof(body), "{\"tuple\":[\"%s\",\"%s\"]}", a, b);
    const char *flat = make(rest, body);
    is_shape(rest, flat, "(f32[2,3]{0,1}, s32[])", "28");
    (void)snprintf(body, sizeof(body), "{\"tuple\":[\"%s\",\"%s\"]}", b, flat);
    is_shape(rest, make(rest, body), "(s32[], (f32[2,3]{0,1}, s32[]))", "32");
    (void)snprintf(body, sizeof(body), "{\"tuple\":[\"%s\",\"%s\"]}", b,
                   make(rest, "{\"core\":0,\"bytes\":\"8\"}"));
    is_shape(rest, make(rest, body), NULL, "12");
    json_t *most = buffer(rest, make_tuple(rest, b, 256));
    assert_int_equal(strlen(rest_text(most, "shape")), 256 * strlen("s32[], "));
    json_decref(most);
    is_shape(rest, make_tuple(rest, b, 257), NULL, "1028");
}

static void lists_page_without_gaps(void **state)
{
    struct rest *rest = *state;
    char path[160] = "/v1/buffers?page_size=3&fields=id";
    size_t listed = 0;
    unsigned long last = 1000000;
    json_t *all = rest_json(rest_get(rest, "/v1/buffers?page_size=1000"), 200);
    size_t count = json_array_size(json_object_get(all, "buffers"));
    json_decref(all);
    for (bool more = true; more;) {
        json_t *page = rest_json(rest_get(rest, path), 200);
        const json_t *items = json_object_get(page, "buffers");
        assert_true(json_array_size(items) <= 3);
        for (size_t i = 0; i < json_array_size(items); i++) {
            const char *id = rest_text(json_array_get(items, i), "id");
            unsigned long number = strtoul(id + 4, NULL, 10);
            assert_true(number < last);
            last = number;
            listed++;
        }
        const char *token =
            json_string_value(json_object_get(page, "next_page_token"));
        more = token != NULL;
        if (more)
            (void)snprintf(path, sizeof(path),
                           "/v1/buffers?page_size=3&fields=id&page_token=%s",
                           token);
        json_decref(page);
    }
    assert_true(count > 10);
    assert_int_equal(listed, count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form),
        cmocka_unit_test(bad_forms_are_refused),
        cmocka_unit_test(types_of_bodies),
        cmocka_unit_test(freeing_twice),
        cmocka_unit_test(copies),
        cmocka_unit_test(tuples),
        cmocka_unit_test(tuples_show_the_shapes_of_their_parts),
        cmocka_unit_test(lists_page_without_gaps),
    };
    return cmocka_run_group_tests(tests, setup, rest_teardown);
}
