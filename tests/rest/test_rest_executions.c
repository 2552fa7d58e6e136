// SPDX-License-Identifier: Apache-2.0
// Programs, loads and executions over HTTP, and how failures are told.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/rest_pod.h"

static const char hlo[] = "Content-Type: text/x-hlo";

static const char add_program[] = "HloModule add\n"
                                  "ENTRY main {\n"
                                  "  a = f32[2] parameter(0)\n"
                                  "  b = f32[2] parameter(1)\n"
                                  "  ROOT r = f32[2] add(a, b)\n"
                                  "}\n";
static const char pair_program[] = "HloModule pair\n"
                                   "ENTRY main {\n"
                                   "  a = f32[2] parameter(0)\n"
                                   "  b = f32[2] add(a, a)\n"
                                   "  ROOT r = (f32[2], f32[2]) tuple(a, b)\n"
                                   "}\n";
static const char bad_program[] = "HloModule bad\n"
                                  "ENTRY main {\n"
                                  "  ROOT a = f32[2] nonsense(0)\n"
                                  "}\n";

static struct rest_answer compile(struct rest *rest, const char *query,
                                  const char *text)
{
    char path[128];
    const char *headers[] = {hlo, NULL};
    (void)snprintf(path, sizeof(path), "/v1/programs%s", query);
    return rest_ask(rest, "POST", path, headers, text, strlen(text));
}

// Asks for /v1/<collection>/<id><rest>.
static struct rest_answer ask(struct rest *rest, const char *method,
                              const char *collection, const char *id,
                              const char *tail)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "/v1/%s/%s%s", collection, id, tail);
    return rest_ask(rest, method, path, NULL, NULL, 0);
}

// A compiled program on a core; the ids in buffers of 32 bytes.
static void load(struct rest *rest, const char *text, unsigned core,
                 char *out_program, char *out_load)
{
    char body[96];
    json_t *event = rest_json(compile(rest, "", text), 202);
    (void)snprintf(out_program, 32, "%s", rest_text(event, "program"));
    json_decref(event);
    (void)snprintf(body, sizeof(body), "{\"program\":\"%s\",\"core\":%u}",
                   out_program, core);
    event = rest_submit(rest, "/v1/loads", body);
    (void)snprintf(out_load, 32, "%s", rest_text(event, "load"));
    json_decref(event);
}

static void make(struct rest *rest, const char *body, char *out_buffer)
{
    json_t *event = rest_submit(rest, "/v1/buffers", body);
    (void)snprintf(out_buffer, 32, "%s", rest_text(event, "buffer"));
    json_decref(event);
}

static void is_values(struct rest *rest, const char *buffer, const char *want)
{
    static const char *const headers[] = {"Accept: application/json", NULL};
    char path[64];
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s/data", buffer);
    struct rest_answer answer = rest_ask(rest, "GET", path, headers, NULL, 0);
    assert_string_equal(answer.body, want);
    rest_answer_free(&answer);
}

// Waits until the program's shape is known.
static json_t *shape_of(struct rest *rest, const char *program)
{
    return rest_json(ask(rest, "GET", "programs", program, "/shape"), 200);
}

static void compile_load_execute(void **state)
{
    struct rest *rest = *state;
    char program[32];
    char loaded[32];
    char input[32];
    char op[32];
    char body[128];
    load(rest, add_program, 1, program, loaded);
    make(rest, "{\"core\":1,\"shape\":\"f32[2]\",\"values\":[1,2.5]}", input);
    (void)snprintf(body, sizeof(body),
                   "{\"load\":\"%s\",\"inputs\":[\"%s\",\"%s\"]}", loaded,
                   input, input);
    json_t *event = rest_submit(rest, "/v1/executions", body);
    (void)snprintf(op, sizeof(op), "%s", rest_text(event, "id"));
    json_decref(event);
    event = rest_await(rest, op);
    assert_string_equal(rest_text(event, "state"), "SUCCEEDED");
    const json_t *outputs = json_object_get(event, "outputs");
    assert_int_equal(json_array_size(outputs), 1);
    is_values(rest, json_string_value(json_array_get(outputs, 0)),
              "{\"shape\":\"f32[2]\",\"values\":[2,5]}\n");
    json_decref(event);
    json_t *view = rest_json(ask(rest, "GET", "programs", program, ""), 200);
    assert_string_equal(rest_text(view, "state"), "READY");
    assert_int_equal(strlen(rest_text(view, "digest")), 71);
    assert_string_equal(
        json_string_value(json_array_get(json_object_get(view, "loads"), 0)),
        loaded);
    json_decref(view);
    view = rest_json(ask(rest, "GET", "loads", loaded, ""), 200);
    assert_string_equal(rest_text(view, "program"), program);
    json_decref(view);
    view = shape_of(rest, program);
    assert_string_equal(rest_text(view, "result"), "f32[2]");
    assert_int_equal(json_array_size(json_object_get(view, "parameters")), 2);
    json_decref(view);
}

// The read is sent before anything has run: it has to find out the size.
static void outputs_of_a_program_not_yet_compiled(void **state)
{
    struct rest *rest = *state;
    struct rest_spin spin = rest_spin_make(rest, 0);
    char op[32];
    char query[48];
    char body[128];
    char input[32];
    rest_spin_start(rest, &spin, op);
    (void)snprintf(query, sizeof(query), "?after=%s", op);
    json_t *event = rest_json(compile(rest, query, pair_program), 202);
    (void)snprintf(body, sizeof(body), "{\"program\":\"%s\",\"core\":1}",
                   rest_text(event, "program"));
    rest_is_problem(ask(rest, "GET", "programs", rest_text(event, "program"),
                        "/shape?wait=0"),
                    504, "WAIT_EXPIRED");
    json_decref(event);
    event = rest_submit(rest, "/v1/loads", body);
    make(rest, "{\"core\":1,\"shape\":\"f32[2]\",\"values\":[1,2]}", input);
    (void)snprintf(body, sizeof(body), "{\"load\":\"%s\",\"inputs\":[\"%s\"]}",
                   rest_text(event, "load"), input);
    json_decref(event);
    event = rest_submit(rest, "/v1/executions", body);
    const char *output =
        json_string_value(json_array_get(json_object_get(event, "outputs"), 0));
    assert_non_null(output);
    rest_is_problem(ask(rest, "GET", "buffers", output, "/data?wait=10ms"), 504,
                    "WAIT_EXPIRED");
    // What it hangs on is cancelled: the data will never be there.
    rest_spin_stop(rest, op);
    rest_is_problem(ask(rest, "GET", "buffers", output, "/data"), 409,
                    "CANCEL_REQUESTED");
    json_decref(event);
}

static void tuple_results(void **state)
{
    struct rest *rest = *state;
    char program[32];
    char loaded[32];
    char input[32];
    char body[128];
    load(rest, pair_program, 0, program, loaded);
    json_decref(shape_of(rest, program));
    make(rest, "{\"core\":0,\"shape\":\"f32[2]\",\"values\":[1,2]}", input);
    (void)snprintf(body, sizeof(body), "{\"load\":\"%s\",\"inputs\":[\"%s\"]}",
                   loaded, input);
    json_t *event = rest_submit(rest, "/v1/executions", body);
    const json_t *outputs = json_object_get(event, "outputs");
    assert_int_equal(json_array_size(outputs), 2);
    is_values(rest, json_string_value(json_array_get(outputs, 1)),
              "{\"shape\":\"f32[2]\",\"values\":[2,4]}\n");
    json_decref(event);
}

static void gangs(void **state)
{
    static const char text[] = "HloModule g, replica_count=2\n"
                               "ENTRY main {\n"
                               "  ROOT a = f32[2] parameter(0)\n"
                               "}\n";
    struct rest *rest = *state;
    char program[32];
    char body[512];
    char loads[2][32];
    char inputs[2][32];
    json_t *event = rest_json(compile(rest, "?replicas=2", text), 202);
    (void)snprintf(program, sizeof(program), "%s", rest_text(event, "program"));
    json_decref(event);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(body, sizeof(body), "{\"program\":\"%s\",\"core\":%d}",
                       program, i);
        event = rest_submit(rest, "/v1/loads", body);
        (void)snprintf(loads[i], 32, "%s", rest_text(event, "load"));
        json_decref(event);
        (void)snprintf(body, sizeof(body),
                       "{\"core\":%d,\"shape\":\"f32[2]\",\"fill\":%d}", i, i);
        make(rest, body, inputs[i]);
    }
    (void)snprintf(body, sizeof(body),
                   "{\"launches\":[{\"load\":\"%s\",\"inputs\":[\"%s\"]},"
                   "{\"load\":\"%s\",\"inputs\":[\"%s\"]}],"
                   "\"device_assignment\":[[0,1]]}",
                   loads[0], inputs[0], loads[1], inputs[1]);
    event = rest_submit(rest, "/v1/executions", body);
    const json_t *launches = json_object_get(event, "launches");
    assert_int_equal(json_array_size(launches), 2);
    assert_string_equal(rest_text(json_array_get(launches, 1), "load"),
                        loads[1]);
    json_decref(event);
    (void)snprintf(body, sizeof(body),
                   "{\"launches\":[{\"load\":\"%s\",\"inputs\":[\"%s\"]}]}",
                   loads[0], inputs[0]);
    rest_is_problem(rest_send(rest, "POST", "/v1/executions", body), 422,
                    "COUNT_MISMATCH");
}

static void bad_executions_are_refused(void **state)
{
    static const struct {
        const char *body;
        long status;
        const char *reason;
        const char *pointer;
    } cases[] = {
        {"{}", 400, "MISSING_MEMBER", "/load"},
        {"{\"load\":1}", 400, "WRONG_TYPE", "/load"},
        {"{\"load\":\"buf-1\"}", 422, "UNKNOWN_HANDLE", "/load"},
        {"{\"load\":\"load-999999\"}", 422, "UNKNOWN_HANDLE", "/load"},
        {"{\"launches\":[]}", 422, "COUNT_MISMATCH", "/launches"},
        {"{\"launches\":[1]}", 400, "WRONG_TYPE", "/launches/0"},
        {"{\"launches\":[{}]}", 400, "MISSING_MEMBER", "/launches/0/load"},
        {"{\"launches\":[{\"load\":\"load-1\",\"x\":1}]}", 400,
         "UNKNOWN_MEMBER", "/launches/0/x"},
        {"{\"load\":\"load-1\",\"launches\":[]}", 400, "BAD_VALUE",
         "/launches"},
        {"{\"load\":\"load-1\",\"device_assignment\":[0]}", 400, "WRONG_TYPE",
         "/device_assignment"},
        {"{\"load\":\"load-1\",\"device_assignment\":[[-1]]}", 422,
         "UNKNOWN_CORE", "/device_assignment"},
        {"{\"load\":\"load-1\",\"inputs\":[\"load-1\"]}", 422, "UNKNOWN_HANDLE",
         "/inputs/0"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rest_answer answer =
            rest_send(*state, "POST", "/v1/executions", cases[i].body);
        const json_t *error =
            json_array_get(json_object_get(answer.json, "errors"), 0);
        assert_string_equal(rest_text(error, "pointer"), cases[i].pointer);
        rest_is_problem(answer, cases[i].status, cases[i].reason);
    }
}

static void inputs_are_checked(void **state)
{
    struct rest *rest = *state;
    char program[32];
    char loaded[32];
    char good[32];
    char other[32];
    char far[32];
    char body[256];
    load(rest, add_program, 0, program, loaded);
    json_decref(shape_of(rest, program));
    make(rest, "{\"core\":0,\"shape\":\"f32[2]\"}", good);
    make(rest, "{\"core\":0,\"shape\":\"s32[2]\"}", other);
    make(rest, "{\"core\":1,\"shape\":\"f32[2]\"}", far);
    const struct {
        const char *second;
        const char *reason;
    } cases[] = {{other, "SHAPE_MISMATCH"}, {far, "CORE_MISMATCH"}};
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(body, sizeof(body),
                       "{\"load\":\"%s\",\"inputs\":[\"%s\",\"%s\"]}", loaded,
                       good, cases[i].second);
        rest_is_problem(rest_send(rest, "POST", "/v1/executions", body), 422,
                        cases[i].reason);
    }
    (void)snprintf(body, sizeof(body), "{\"load\":\"%s\",\"inputs\":[\"%s\"]}",
                   loaded, good);
    rest_is_problem(rest_send(rest, "POST", "/v1/executions", body), 422,
                    "COUNT_MISMATCH");
    // An output may be an input too.
    (void)snprintf(body, sizeof(body),
                   "{\"load\":\"%s\",\"inputs\":[\"%s\",\"%s\"],"
                   "\"outputs\":[\"%s\"]}",
                   loaded, good, good, good);
    json_decref(rest_submit(rest, "/v1/executions", body));
}

static void bad_programs_are_refused(void **state)
{
    static const char *const plain[] = {"Content-Type: text/plain", NULL};
    static const char *const bad[] = {
        "?replicas=0",    "?replicas=x",
        "?replicas=4097", "?load=x",
        "?load=0,",       "?load=-1",
        "?load=",         "?deadline=x",
        "?priority=99",   "?replicas=1&replicas=1",
    };
    struct rest *rest = *state;
    struct rest_answer answer =
        rest_ask(rest, "POST", "/v1/programs", plain, "x", 1);
    assert_non_null(
        strstr(rest_text(answer.json, "detail"), "application/x-hlo-proto"));
    rest_is_problem(answer, 415, "UNSUPPORTED_TYPE");
    rest_is_problem(compile(rest, "", ""), 400, "EMPTY_BODY");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        rest_is_problem(compile(rest, bad[i], add_program), 400,
                        "BAD_PARAMETER");
    rest_is_problem(compile(rest, "?x=1", add_program), 400,
                    "UNKNOWN_PARAMETER");
    rest_is_problem(compile(rest, "?after=nonsense", add_program), 422,
                    "UNKNOWN_HANDLE");
    rest_is_problem(compile(rest, "?label=nonsense", add_program), 422,
                    "BAD_TEXT");
    rest_is_problem(compile(rest, "?load=99", add_program), 422,
                    "UNKNOWN_CORE");
}

static void a_failing_program_is_told_in_its_event(void **state)
{
    struct rest *rest = *state;
    json_t *event =
        rest_json(compile(rest, "?wait=50s&name=broken", bad_program), 201);
    assert_string_equal(rest_text(event, "state"), "FAILED");
    const json_t *error = json_object_get(event, "error");
    assert_string_equal(rest_text(json_object_get(error, "metadata"), "line"),
                        "3");
    const json_t *root = json_object_get(error, "root_cause");
    assert_string_equal(rest_text(root, "operation"), rest_text(event, "id"));
    assert_int_equal(json_array_size(json_object_get(error, "causes")), 0);
    const char *program = rest_text(event, "program");
    struct rest_answer answer = ask(rest, "GET", "programs", program, "/shape");
    assert_string_equal(
        rest_text(json_object_get(answer.json, "metadata"), "root_cause"),
        rest_text(event, "id"));
    rest_is_problem(answer, 409, rest_text(error, "reason"));
    // Whatever uses it is accepted, and skipped with that cause.
    char body[96];
    (void)snprintf(body, sizeof(body), "{\"program\":\"%s\",\"core\":0}",
                   program);
    json_t *loaded = rest_submit(rest, "/v1/loads", body);
    json_t *skipped = rest_await(rest, rest_text(loaded, "id"));
    assert_string_equal(rest_text(skipped, "state"), "SKIPPED");
    root = json_object_get(json_object_get(skipped, "error"), "root_cause");
    assert_string_equal(rest_text(root, "operation"), rest_text(event, "id"));
    json_decref(skipped);
    json_decref(loaded);
    json_decref(event);
}

static void programs_in_use_stay(void **state)
{
    struct rest *rest = *state;
    char program[32];
    char loaded[32];
    load(rest, add_program, 0, program, loaded);
    rest_is_problem(ask(rest, "DELETE", "programs", program, ""), 409,
                    "IN_USE");
    json_t *event =
        rest_json(ask(rest, "DELETE", "loads", loaded, "?wait=50s"), 200);
    assert_string_equal(rest_text(event, "kind"), "UNLOAD");
    json_t *again = rest_json(ask(rest, "DELETE", "loads", loaded, ""), 200);
    assert_string_equal(rest_text(again, "id"), rest_text(event, "id"));
    json_decref(again);
    json_decref(event);
    event =
        rest_json(ask(rest, "DELETE", "programs", program, "?wait=50s"), 200);
    assert_string_equal(rest_text(event, "kind"), "FREE");
    json_decref(event);
    rest_is_problem(ask(rest, "GET", "programs", program, "/shape"), 409,
                    "HANDLE_FREED");
    rest_is_problem(ask(rest, "DELETE", "programs", "prog-999999", ""), 404,
                    "NOT_FOUND");
    rest_is_problem(ask(rest, "DELETE", "loads", "load-999999", ""), 404,
                    "NOT_FOUND");
}

static void loading_on_compile(void **state)
{
    struct rest *rest = *state;
    json_t *event = rest_json(compile(rest, "?load=0,1", add_program), 202);
    const json_t *loads = json_object_get(event, "loads");
    assert_int_equal(json_array_size(loads), 2);
    json_t *view =
        rest_json(ask(rest, "GET", "loads",
                      json_string_value(json_array_get(loads, 1)), ""),
                  200);
    assert_int_equal(json_integer_value(json_object_get(view, "core")), 1);
    json_decref(view);
    json_decref(event);
}

static void bad_loads_are_refused(void **state)
{
    static const struct {
        const char *body;
        long status;
        const char *reason;
    } cases[] = {
        {"{}", 400, "MISSING_MEMBER"},
        {"{\"program\":\"prog-1\"}", 400, "MISSING_MEMBER"},
        {"{\"program\":1,\"core\":0}", 400, "WRONG_TYPE"},
        {"{\"program\":\"prog-999999\",\"core\":0}", 422, "UNKNOWN_HANDLE"},
        {"{\"program\":\"buf-1\",\"core\":0}", 422, "UNKNOWN_HANDLE"},
        {"{\"program\":\"prog-1\",\"core\":0,\"x\":1}", 400, "UNKNOWN_MEMBER"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        rest_is_problem(rest_send(*state, "POST", "/v1/loads", cases[i].body),
                        cases[i].status, cases[i].reason);
}

static void collections_list_them(void **state)
{
    struct rest *rest = *state;
    json_t *page = rest_json(
        rest_get(rest, "/v1/programs?page_size=2&fields=id,state"), 200);
    assert_int_equal(json_array_size(json_object_get(page, "programs")), 2);
    assert_non_null(json_object_get(page, "next_page_token"));
    json_decref(page);
    page = rest_json(rest_get(rest, "/v1/loads?page_size=1"), 200);
    assert_int_equal(json_array_size(json_object_get(page, "loads")), 1);
    json_decref(page);
    page = rest_json(rest_get(rest, "/v1/graphs"), 200);
    assert_int_equal(json_array_size(json_object_get(page, "graphs")), 0);
    json_decref(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compile_load_execute),
        cmocka_unit_test(outputs_of_a_program_not_yet_compiled),
        cmocka_unit_test(tuple_results),
        cmocka_unit_test(gangs),
        cmocka_unit_test(bad_executions_are_refused),
        cmocka_unit_test(inputs_are_checked),
        cmocka_unit_test(bad_programs_are_refused),
        cmocka_unit_test(a_failing_program_is_told_in_its_event),
        cmocka_unit_test(programs_in_use_stay),
        cmocka_unit_test(loading_on_compile),
        cmocka_unit_test(bad_loads_are_refused),
        cmocka_unit_test(collections_list_them),
    };
    return cmocka_run_group_tests(tests, rest_setup, rest_teardown);
}
