// SPDX-License-Identifier: Apache-2.0
// Graphs over HTTP: both types of bodies, faults, references, waiting.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/rest_pod.h"
#include "tests/rest/graph_body.h"

// A buffer of core 0.
#define TWO                                                                    \
    "{\"ref\":\"a\",\"op\":\"allocate\",\"core\":0,\"shape\":\"f32[2]\","      \
    "\"values\":[1,2]}"
// a + a there.
#define DOUBLE                                                                 \
    "{\"ref\":\"p\",\"op\":\"compile\",\"hlo\":\"HloModule m\\nENTRY e {"      \
    "\\n a = f32[2] parameter(0)\\n ROOT r = f32[2] add(a, a)\\n}\\n\"}",      \
        "{\"ref\":\"l\",\"op\":\"load\",\"program\":\"$p\",\"core\":0}",       \
        "{\"ref\":\"x\",\"op\":\"execute\",\"load\":\"$l\","                   \
        "\"inputs\":[\"$a\"]}"
// The sum copied to core 1, and its input freed.
#define SUM                                                                    \
    TWO, DOUBLE,                                                               \
        "{\"ref\":\"d\",\"op\":\"allocate\",\"core\":1,\"shape\":\"f32[2]\"}", \
        "{\"ref\":\"c\",\"op\":\"copy\",\"from\":\"$x.outputs[0]\","           \
        "\"to\":\"$d\"}",                                                      \
        "{\"ref\":\"f\",\"op\":\"free\",\"buffer\":\"$a\"}"

static const char *const sum[] = {SUM, NULL};

static struct rest_answer post(struct rest *rest, const char *path,
                               const char *const *ops, bool lines)
{
    char *body = body_of(ops, lines);
    struct rest_answer answer = rest_ask(
        rest, "POST", path, lines ? ndjson : json_headers, body, strlen(body));

    free(body);
    return answer;
}

static json_t *submit(struct rest *rest, const char *const *ops, bool lines)
{
    return rest_json(post(rest, "/v1/graphs", ops, lines), 202);
}

static const char *ref_text(const json_t *graph, const char *ref,
                            const char *member)
{
    return rest_text(json_object_get(json_object_get(graph, "refs"), ref),
                     member);
}

static const char *output_of(const json_t *graph, const char *ref, size_t i)
{
    const json_t *refs = json_object_get(graph, "refs");
    const json_t *outputs =
        json_object_get(json_object_get(refs, ref), "outputs");
    const char *buffer = json_string_value(json_array_get(outputs, i));

    assert_non_null(buffer);
    return buffer;
}

static json_t *graph_of(struct rest *rest, const json_t *event)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/v1/graphs/%s",
                   rest_text(event, "graph"));
    return rest_json(rest_get(rest, path), 200);
}

static void check_values(struct rest *rest, const char *buffer,
                         const char *expected)
{
    static const char *const headers[] = {"Accept: application/json", NULL};
    char path[64];

    (void)snprintf(path, sizeof(path), "/v1/buffers/%s/data", buffer);
    struct rest_answer answer = rest_ask(rest, "GET", path, headers, NULL, 0);
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.body, expected));
    rest_answer_free(&answer);
}

// Waits for the graph and checks how it ended and its counts.
static void check_end(struct rest *rest, const json_t *event, const char *state,
                      const char *count, const char *n)
{
    json_t *end = rest_await(rest, rest_text(event, "id"));
    json_t *graph = graph_of(rest, event);

    assert_string_equal(rest_text(end, "state"), state);
    assert_string_equal(rest_text(graph, "state"), state);
    assert_true(json_is_true(json_object_get(graph, "done")));
    assert_string_equal(rest_text(json_object_get(graph, "counts"), count), n);
    json_decref(graph);
    json_decref(end);
}

// ------------------------------------------------------------------- accepted

static void check_sum(struct rest *rest, bool lines)
{
    struct rest_answer answer = post(rest, "/v1/graphs", sum, lines);
    char location[64];

    assert_int_equal(answer.status, 202);
    (void)snprintf(location, sizeof(location), "/v1/graphs/%s",
                   rest_text(answer.json, "graph"));
    assert_string_equal(rest_header(&answer, "Location"), location);
    (void)snprintf(location, sizeof(location), "/v1/events/%s",
                   rest_text(answer.json, "id"));
    assert_string_equal(rest_header(&answer, "Operation-Location"), location);
    json_t *event = rest_json(answer, 202);
    assert_string_equal(rest_text(event, "kind"), "GRAPH");
    // Seven operations and one automatic output.
    check_end(rest, event, "SUCCEEDED", "SUCCEEDED", "8");
    check_values(rest, ref_text(event, "d", "buffer"), "[2,4]");
    json_decref(event);
}

static void test_a_graph_as_json(void **state)
{
    check_sum(*state, false);
}

static void test_a_graph_as_lines(void **state)
{
    check_sum(*state, true);
}

static void test_refs_name_what_was_made(void **state)
{
    json_t *event = submit(*state, sum, false);
    json_t *refs = json_object_get(event, "refs");

    assert_int_equal(json_object_size(refs), 7);
    assert_string_equal(rest_text(event, "id"), "op-1");
    assert_string_equal(rest_text(event, "graph"), "graph-1");
    assert_string_equal(ref_text(event, "a", "buffer"), "buf-2");
    assert_string_equal(ref_text(event, "p", "program"), "prog-3");
    assert_string_equal(ref_text(event, "l", "load"), "load-4");
    assert_string_equal(ref_text(event, "x", "op"), "op-6");
    const json_t *outputs =
        json_object_get(json_object_get(refs, "x"), "outputs");
    assert_int_equal(json_array_size(outputs), 1);
    assert_string_equal(output_of(event, "x", 0), "buf-5");
    assert_string_equal(ref_text(event, "f", "op"), "op-9");
    check_end(*state, event, "SUCCEEDED", "SUCCEEDED", "8");
    json_decref(event);
}

// Any text is a name, and a graph may be without any.
static void test_refs_are_text(void **state)
{
    static const char *const names[] = {"a\"b", "\\", "{},\u00e9", NULL};
    static const char *const ops[] = {
        "{\"ref\":\"a\\\"b\",\"op\":\"allocate\",\"core\":0,\"bytes\":1}",
        "{\"op\":\"allocate\",\"core\":0,\"bytes\":1}",
        "{\"ref\":\"\\\\\",\"op\":\"allocate\",\"core\":0,\"bytes\":1}",
        "{\"ref\":\"{},\u00e9\",\"op\":\"allocate\",\"core\":0,\"bytes\":1}",
        NULL};
    static const char *const buffers[] = {"buf-2", "buf-4", "buf-5"};
    static const char *const nameless[] = {
        "{\"op\":\"allocate\",\"core\":0,\"bytes\":1}", NULL};

    json_t *event = submit(*state, ops, false);
    assert_int_equal(json_object_size(json_object_get(event, "refs")), 3);
    for (size_t i = 0; names[i] != NULL; i++)
        assert_string_equal(ref_text(event, names[i], "buffer"), buffers[i]);
    json_decref(event);
    event = submit(*state, nameless, false);
    assert_true(json_is_object(json_object_get(event, "refs")));
    assert_int_equal(json_object_size(json_object_get(event, "refs")), 0);
    json_decref(event);
}

static void test_writes_and_reads(void **state)
{
    static const char *const ops[] = {
        "{\"ref\":\"r\",\"op\":\"read\",\"buffer\":\"$b\",\"after\":[\"$w\"]}",
        "{\"ref\":\"w\",\"op\":\"write\",\"buffer\":\"$b\","
        "\"values\":[7,8,9]}",
        "{\"ref\":\"b\",\"op\":\"allocate\",\"core\":0,\"shape\":\"u8[3]\"}",
        "{\"op\":\"write\",\"buffer\":\"buf-1\",\"values\":[5,6]}", NULL};
    char path[64];
    json_decref(rest_submit(*state, "/v1/buffers", "{\"core\":1,\"bytes\":2}"));
    json_t *event = submit(*state, ops, true);

    check_end(*state, event, "SUCCEEDED", "SUCCEEDED", "4");
    (void)snprintf(path, sizeof(path), "/v1/events/%s/data",
                   ref_text(event, "r", "op"));
    struct rest_answer answer = rest_get(*state, path);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.size, 3);
    assert_memory_equal(answer.body, "\x07\x08\x09", 3);
    rest_answer_free(&answer);
    check_values(*state, "buf-1", "[5,6]");
    json_decref(event);
}

static void test_waiting_gives_the_end(void **state)
{
    for (int lines = 0; lines < 2; lines++) {
        json_t *event = rest_json(
            post(*state, "/v1/graphs?wait=50s", sum, lines == 1), 201);
        assert_string_equal(rest_text(event, "state"), "SUCCEEDED");
        assert_int_equal(json_object_size(json_object_get(event, "refs")), 7);
        json_decref(event);
    }
}

static void test_lists_and_filters(void **state)
{
    json_t *first = submit(*state, sum, false);
    json_t *second = submit(*state, sum, true);
    json_t *list = rest_json(rest_get(*state, "/v1/graphs"), 200);
    const json_t *graphs = json_object_get(list, "graphs");
    char path[64];

    assert_int_equal(json_array_size(graphs), 2);
    assert_string_equal(rest_text(json_array_get(graphs, 0), "id"),
                        rest_text(second, "graph"));
    (void)snprintf(path, sizeof(path), "/v1/events?graph=%s",
                   rest_text(first, "graph"));
    json_t *events = rest_json(rest_get(*state, path), 200);
    assert_int_equal(json_array_size(json_object_get(events, "events")), 8);
    check_end(*state, second, "SUCCEEDED", "SUCCEEDED", "8");
    json_decref(events);
    json_decref(list);
    json_decref(first);
    json_decref(second);
}

static void test_members_of_the_whole_graph(void **state)
{
    static const char body[] =
        "{\"name\":\"night\",\"labels\":{\"k\":\"v\"},\"priority\":3,"
        "\"on_error\":\"CANCEL_GRAPH\",\"ops\":[{\"ref\":\"a\",\"op\":"
        "\"allocate\",\"core\":0,\"bytes\":8}]}";
    json_t *event =
        rest_json(rest_send(*state, "POST", "/v1/graphs?wait=50s", body), 201);
    json_t *graph = graph_of(*state, event);
    json_t *member = rest_await(*state, ref_text(event, "a", "op"));

    assert_string_equal(rest_text(graph, "name"), "night");
    assert_string_equal(rest_text(json_object_get(graph, "labels"), "k"), "v");
    assert_string_equal(rest_text(graph, "on_error"), "CANCEL_GRAPH");
    assert_int_equal(json_integer_value(json_object_get(member, "priority")),
                     3);
    json_decref(member);
    json_decref(graph);
    json_decref(event);

    // The same of NDJSON, where they stand in the query.
    static const char *const ops[] = {
        "{\"op\":\"allocate\",\"core\":0,\"bytes\":8}", NULL};
    event = rest_json(post(*state,
                           "/v1/graphs?wait=50s&name=day&label=k=w"
                           "&on_error=CANCEL_GRAPH",
                           ops, true),
                      201);
    graph = graph_of(*state, event);
    assert_string_equal(rest_text(graph, "name"), "day");
    assert_string_equal(rest_text(json_object_get(graph, "labels"), "k"), "w");
    assert_string_equal(rest_text(graph, "on_error"), "CANCEL_GRAPH");
    json_decref(graph);
    json_decref(event);
}

static void test_large_graphs(void **state)
{
    for (int lines = 0; lines < 2; lines++) {
        char *body = large_body(3000, lines == 1);
        struct rest_answer answer =
            rest_ask(*state, "POST", "/v1/graphs",
                     lines == 1 ? ndjson : json_headers, body, strlen(body));
        free(body);
        json_t *event = rest_json(answer, 202);
        assert_int_equal(json_object_size(json_object_get(event, "refs")),
                         3000);
        check_end(*state, event, "SUCCEEDED", "SUCCEEDED", "3000");
        json_t *graph = graph_of(*state, event);
        // A chain: of its 3,000 operations the last 1,000 are shown.
        assert_int_equal(
            json_array_size(json_object_get(graph, "critical_path")), 1000);
        assert_string_equal(rest_text(graph, "critical_path_omitted"), "2000");
        json_decref(graph);
        json_decref(event);
    }
}

static void test_a_repeated_key_makes_no_second_graph(void **state)
{
    static const char *const headers[] = {"Content-Type: application/json",
                                          "Idempotency-Key: k1", NULL};
    char *body = large_body(2000, false);
    struct rest_answer first =
        rest_ask(*state, "POST", "/v1/graphs", headers, body, strlen(body));
    struct rest_answer again =
        rest_ask(*state, "POST", "/v1/graphs", headers, body, strlen(body));

    assert_int_equal(first.status, 202);
    assert_int_equal(again.status, 202);
    assert_string_equal(rest_header(&again, "Idempotency-Replayed"), "true");
    assert_string_equal(first.body, again.body);
    assert_int_equal(pod_last_number(rest_engine(*state)), 2001);
    free(body);
    rest_answer_free(&first);
    rest_answer_free(&again);
}

// -------------------------------------------------------------------- refused

// Refused with these faults, none left out; nothing was admitted.
static void check_faults(struct rest *rest, const char *const *ops, bool lines,
                         const char *const *pointers,
                         const char *const *reasons)
{
    uint64_t last = pod_last_number(rest_engine(rest));
    json_t *problem = rest_json(post(rest, "/v1/graphs", ops, lines), 422);
    const json_t *errors = json_object_get(problem, "errors");
    size_t count = 0;

    for (; pointers[count] != NULL; count++) {
        size_t k = 0;
        while (k < json_array_size(errors) &&
               strcmp(rest_text(json_array_get(errors, k), "pointer"),
                      pointers[count]) != 0)
            k++;
        if (k == json_array_size(errors))
            fail_msg("no fault at %s", pointers[count]);
        assert_string_equal(rest_text(json_array_get(errors, k), "reason"),
                            reasons[count]);
    }
    assert_int_equal(json_array_size(errors), count);
    assert_string_equal(rest_text(problem, "reason"), "INVALID_GRAPH");
    assert_int_equal(pod_last_number(rest_engine(rest)), last);
    json_decref(problem);
}

static void test_every_fault_is_listed(void **state)
{
    static const char *const ops[] = {
        "{\"ref\":\"a\",\"op\":\"allocate\",\"core\":0,\"bytes\":8}",
        "{\"ref\":\"a\",\"op\":\"allocate\",\"core\":0,\"bytes\":8}",
        "{\"op\":\"explode\"}",
        "{\"ref\":\"n\",\"op\":\"free\",\"buffer\":\"$a\",\"when\":1}", "7",
        "{\"op\":\"load\",\"program\":\"$a\",\"core\":0}",
        "{\"op\":\"load\",\"program\":\"$zz\",\"core\":0}",
        "{\"op\":\"allocate\",\"core\":99,\"bytes\":8}",
        "{\"op\":\"copy\",\"from\":\"buf-99\",\"to\":\"$a\"}",
        "{\"op\":\"free\",\"buffer\":\"$a.outputs[0]\"}",
        "{\"op\":\"free\",\"buffer\":\"$a.outputs[x]\"}",
        "{\"op\":\"write\",\"buffer\":\"$a\",\"values\":[1]}",
        // Not a fault of its own: it refers to the third from above.
        "{\"op\":\"copy\",\"from\":\"$n\",\"to\":\"$a\"}", NULL};
    static const char *const pointers[] = {"/ops/1/ref",
                                           "/ops/2/op",
                                           "/ops/3/when",
                                           "/ops/4",
                                           "/ops/5/program",
                                           "/ops/6/program",
                                           "/ops/7/core",
                                           "/ops/8/from",
                                           "/ops/9/buffer",
                                           "/ops/10/buffer",
                                           "/ops/11/values",
                                           "/ops/12/from",
                                           NULL};
    static const char *const reasons[] = {
        "BAD_VALUE",      "BAD_VALUE",      "UNKNOWN_MEMBER", "WRONG_TYPE",
        "UNKNOWN_HANDLE", "UNKNOWN_HANDLE", "UNKNOWN_CORE",   "UNKNOWN_HANDLE",
        "UNKNOWN_HANDLE", "UNKNOWN_HANDLE", "SHAPE_MISMATCH", "UNKNOWN_HANDLE"};

    check_faults(*state, ops, false, pointers, reasons);
    check_faults(*state, ops, true, pointers, reasons);
}

// To outputs of programs that are compiled already: of loads that are there,
// and of the graph's own.
static void test_writes_to_outputs(void **state)
{
    static const char text[] =
        "HloModule m\nENTRY e {\n a = f32[2] parameter(0)\n"
        " c = s64[] constant(5)\n t = (s64[], f32[2]) tuple(c, a)\n"
        " ROOT r = (f32[2], (s64[], f32[2])) tuple(a, t)\n}\n";
    static const char *const type[] = {"Content-Type: text/x-hlo", NULL};
#define WRITE(buffer, values)                                                  \
    "{\"op\":\"write\",\"buffer\":\"" buffer "\",\"values\":" values "}"
#define RUN(name, load)                                                        \
    "{\"ref\":\"" name "\",\"op\":\"execute\",\"load\":\"" load                \
    "\",\"inputs\":[\"$a\"]}"
    static const char *const ops[] = {
        TWO,
        "{\"ref\":\"own\",\"op\":\"load\",\"program\":\"prog-1\",\"core\":0}",
        RUN("y", "$own"),
        RUN("z", "load-2"),
        WRITE("$y.outputs[1]", "\"-7\""),
        WRITE("$z.outputs[2]", "[8,9.5]"),
        NULL};
    // The program of the last is not compiled before the graph runs.
    static const char *const bad[] = {TWO,
                                      RUN("z", "load-2"),
                                      WRITE("$z.outputs[2]", "[8]"),
                                      WRITE("$z.outputs[3]", "[8,9]"),
                                      DOUBLE,
                                      WRITE("$x.outputs[0]", "[1,2]"),
                                      NULL};
    static const char *const pointers[] = {"/ops/2/values", "/ops/3/buffer",
                                           "/ops/7/buffer", NULL};
    static const char *const reasons[] = {"SHAPE_MISMATCH", "UNKNOWN_HANDLE",
                                          "SHAPE_MISMATCH"};
#undef WRITE
#undef RUN
    json_decref(
        rest_json(rest_ask(*state, "POST", "/v1/programs?load=0&wait=50s", type,
                           text, strlen(text)),
                  201));
    for (int lines = 0; lines < 2; lines++) {
        json_t *event = submit(*state, ops, lines == 1);
        check_end(*state, event, "SUCCEEDED", "SUCCEEDED", "12");
        check_values(*state, output_of(event, "y", 0), "[1,2]");
        check_values(*state, output_of(event, "y", 1), "-7");
        check_values(*state, output_of(event, "z", 2), "[8,9.5]");
        json_decref(event);
        check_faults(*state, bad, lines == 1, pointers, reasons);
    }
}

static void test_cycles_are_named_by_their_refs(void **state)
{
    static const char *const ops[] = {
        "{\"ref\":\"u\",\"op\":\"allocate\",\"core\":0,\"bytes\":8,"
        "\"after\":[\"$v\"]}",
        "{\"ref\":\"v\",\"op\":\"allocate\",\"core\":0,\"bytes\":8,"
        "\"after\":[\"$u\"]}",
        NULL};
    json_t *problem = rest_json(post(*state, "/v1/graphs", ops, false), 422);
    const json_t *fault = json_array_get(json_object_get(problem, "errors"), 0);

    assert_string_equal(rest_text(fault, "pointer"), "/ops/0");
    assert_string_equal(rest_text(fault, "reason"), "CYCLE");
    assert_non_null(strstr(rest_text(fault, "detail"), "u, v, u"));
    json_decref(problem);
}

static void test_the_whole_is_at_fault(void **state)
{
    struct rest *rest = *state;

    rest_is_problem(rest_send(rest, "POST", "/v1/graphs", "{}"), 400,
                    "MISSING_MEMBER");
    rest_is_problem(rest_send(rest, "POST", "/v1/graphs", "{\"ops\":7}"), 400,
                    "WRONG_TYPE");
    rest_is_problem(rest_send(rest, "POST", "/v1/graphs", "{\"ops\":[]}"), 422,
                    "OUT_OF_RANGE");
    rest_is_problem(
        rest_send(rest, "POST", "/v1/graphs", "{\"ops\":[],\"more\":1}"), 400,
        "UNKNOWN_MEMBER");
    rest_is_problem(rest_send(rest, "POST", "/v1/graphs",
                              "{\"ops\":[],\"on_error\":\"CONTINUE\"}"),
                    400, "BAD_VALUE");
    rest_is_problem(rest_send(rest, "POST", "/v1/graphs", "{\"ops\":[}"), 400,
                    "BAD_JSON");
    rest_is_problem(rest_send(rest, "POST", "/v1/graphs", "[]"), 400,
                    "WRONG_TYPE");
    rest_is_problem(rest_send(rest, "POST", "/v1/graphs?what=1", "{}"), 400,
                    "UNKNOWN_PARAMETER");
    rest_is_problem(rest_send(rest, "POST", "/v1/graphs?on_error=FAIL", "{}"),
                    400, "UNKNOWN_PARAMETER");
    rest_is_problem(rest_ask(rest, "POST", "/v1/graphs", ndjson, "", 0), 422,
                    "OUT_OF_RANGE");
    rest_is_problem(
        rest_ask(rest, "POST", "/v1/graphs?on_error=FAIL", ndjson, "{}", 2),
        400, "BAD_PARAMETER");
    rest_is_problem(rest_ask(rest, "POST", "/v1/graphs", NULL, "{}", 2), 415,
                    "UNSUPPORTED_TYPE");
}

static void test_validating_makes_nothing(void **state)
{
    static const char *const bad[] = {
        "{\"op\":\"allocate\",\"core\":99,\"bytes\":8}", NULL};
    static const char path[] = "/v1/graphs?validate_only=true";

    for (int lines = 0; lines < 2; lines++) {
        json_t *report = rest_json(post(*state, path, sum, lines == 1), 200);
        assert_true(json_is_true(json_object_get(report, "valid")));
        assert_string_equal(rest_text(report, "operations"), "7");
        json_decref(report);
        rest_is_problem(post(*state, path, bad, lines == 1), 422,
                        "INVALID_GRAPH");
    }
    assert_int_equal(pod_last_number(rest_engine(*state)), 0);
}

static void test_a_bad_line_is_named(void **state)
{
    static const char *const ops[] = {
        "{\"op\":\"allocate\",\"core\":0,\"bytes\":8}", "", "{oops", NULL};
    json_t *problem = rest_json(post(*state, "/v1/graphs", ops, true), 400);

    assert_string_equal(rest_text(problem, "reason"), "BAD_JSON");
    assert_non_null(strstr(rest_text(problem, "detail"), "line 3: "));
    const json_t *metadata = json_object_get(problem, "metadata");
    assert_string_equal(rest_text(metadata, "line"), "3");
    (void)rest_text(metadata, "column");
    assert_int_equal(pod_last_number(rest_engine(*state)), 0);
    json_decref(problem);
}

// -------------------------------------------------------------------- cancels

static void test_cancelling(void **state)
{
    struct rest *rest = *state;
    struct rest_spin spin = rest_spin_make(rest, 0);
    char op[32];
    char line[128];
    char path[64];

    rest_spin_start(rest, &spin, op);
    (void)snprintf(line, sizeof(line),
                   "{\"ref\":\"w\",\"op\":\"allocate\",\"core\":1,\"bytes\":8,"
                   "\"after\":[\"%s\"]}",
                   op);
    const char *const ops[] = {line, NULL};
    json_t *event = submit(rest, ops, false);
    (void)snprintf(path, sizeof(path), "/v1/graphs/%s:cancel",
                   rest_text(event, "graph"));
    json_t *cancelled = rest_json(
        rest_send(rest, "POST", path, "{\"reason\":\"enough\"}"), 200);
    assert_string_equal(rest_text(cancelled, "state"), "CANCELLED");
    json_decref(cancelled);
    check_end(rest, event, "CANCELLED", "CANCELLED", "1");
    json_decref(rest_json(rest_send(rest, "POST", path, "{}"), 200));
    json_decref(event);
    rest_spin_stop(rest, op);

    event = submit(rest, sum, false);
    check_end(rest, event, "SUCCEEDED", "SUCCEEDED", "8");
    (void)snprintf(path, sizeof(path), "/v1/graphs/%s:cancel",
                   rest_text(event, "graph"));
    rest_is_problem(rest_send(rest, "POST", path, "{}"), 409,
                    "ALREADY_FINISHED");
    json_decref(event);
    rest_is_problem(
        rest_send(rest, "POST", "/v1/graphs/graph-99999:cancel", "{}"), 404,
        "NOT_FOUND");
    // An operation that is no graph's.
    rest_is_problem(rest_send(rest, "POST", "/v1/graphs/graph-1:cancel", "{}"),
                    404, "NOT_FOUND");
    rest_is_problem(rest_get(rest, "/v1/graphs/op-1"), 404, "NOT_FOUND");
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, rest_setup, rest_teardown)
    const struct CMUnitTest tests[] = {
        T(test_a_graph_as_json),
        T(test_a_graph_as_lines),
        T(test_refs_name_what_was_made),
        T(test_refs_are_text),
        T(test_writes_and_reads),
        T(test_writes_to_outputs),
        T(test_waiting_gives_the_end),
        T(test_lists_and_filters),
        T(test_members_of_the_whole_graph),
        T(test_large_graphs),
        T(test_a_repeated_key_makes_no_second_graph),
        T(test_every_fault_is_listed),
        T(test_cycles_are_named_by_their_refs),
        T(test_the_whole_is_at_fault),
        T(test_validating_makes_nothing),
        T(test_a_bad_line_is_named),
        T(test_cancelling),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
