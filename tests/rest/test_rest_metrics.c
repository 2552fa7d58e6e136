// SPDX-License-Identifier: Apache-2.0
// /metrics: what is counted, and that it is sound Prometheus text.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/lib/rest_pod.h"

static char *scrape(struct rest *rest)
{
    struct rest_answer answer = rest_get(rest, "/metrics");
    assert_int_equal(answer.status, 200);
    assert_string_equal(rest_header(&answer, "Content-Type"),
                        "text/plain; version=0.0.4; charset=utf-8");
    char *text = strdup(answer.body);
    assert_non_null(text);
    rest_answer_free(&answer);
    return text;
}

// The value of a series, named as it stands; -1: there is no such line.
static double value_in(const char *text, const char *series)
{
    size_t length = strlen(series);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, series, length) == 0 && line[length] == ' ')
            return strtod(line + length, NULL);
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return -1;
}

static double value_of(struct rest *rest, const char *series)
{
    char *text = scrape(rest);
    double value = value_in(text, series);
    free(text);
    return value;
}

static void is_value(struct rest *rest, const char *series, double expected)
{
    double value = value_of(rest, series);
    if (value != expected)
        fail_msg("%s is %g, not %g", series, value, expected);
}

static int setup(void **state)
{
    struct rest_options options = {.staging_bytes = 1 << 20};
    *state = rest_start(&options);
    return 0;
}

static void test_operations_are_counted(void **state)
{
    struct rest *rest = *state;
    static const char *const octets[] = {
        "Content-Type: application/octet-stream", NULL};
    json_decref(rest_json(rest_send(rest, "POST", "/v1/buffers?wait=50s",
                                    "{\"core\":0,\"bytes\":16}"),
                          201));
    json_decref(
        rest_json(rest_ask(rest, "PUT", "/v1/buffers/buf-1/data?wait=50s",
                           octets, "0123456789abcdef", 16),
                  200));
    // One that fails: there is no such instruction.
    static const char *const hlo[] = {"Content-Type: text/x-hlo", NULL};
    json_decref(rest_json(
        rest_ask(rest, "POST", "/v1/programs?wait=50s", hlo, "HloModule", 9),
        201));
    is_value(rest, "podd_operations_accepted_total{kind=\"ALLOCATE\"}", 1);
    is_value(rest, "podd_operations_accepted_total{kind=\"EXECUTE\"}", 0);
    is_value(rest,
             "podd_operations_ended_total{kind=\"WRITE\",state=\"SUCCEEDED\"}",
             1);
    is_value(rest,
             "podd_operations_ended_total{kind=\"COMPILE\",state=\"FAILED\"}",
             1);
    is_value(rest, "podd_transferred_bytes_total{kind=\"WRITE\"}", 16);
    is_value(rest, "podd_operation_run_seconds_count{kind=\"WRITE\"}", 1);
    is_value(rest, "podd_operation_queue_seconds_count{kind=\"WRITE\"}", 1);
    is_value(rest, "podd_log_lines_lost_total", 0);
    is_value(rest, "podd_operations_open{state=\"RUNNING\"}", 0);
    is_value(rest, "podd_device_memory_used_bytes", 16);
}

static void test_what_runs_is_open(void **state)
{
    struct rest *rest = *state;
    char op[32];
    struct rest_spin spin = rest_spin_make(rest, 0);
    rest_spin_start(rest, &spin, op);
    is_value(rest, "podd_operations_open{state=\"RUNNING\"}", 1);
    rest_spin_stop(rest, op);
    json_decref(rest_await(rest, op));
    is_value(rest, "podd_operations_open{state=\"RUNNING\"}", 0);
    is_value(
        rest,
        "podd_operations_ended_total{kind=\"EXECUTE\",state=\"CANCELLED\"}", 1);
}

static void test_requests_are_counted_by_route(void **state)
{
    struct rest *rest = *state;
    char reason[64];
    static const char series[] = "podd_http_requests_total{method=\"GET\","
                                 "route=\"/v1/buffers/{id}\",code=\"404\"}";
    is_value(rest, series, -1);
    assert_int_equal(rest_status(rest_get(rest, "/v1/buffers/buf-99"), reason),
                     404);
    assert_int_equal(rest_status(rest_get(rest, "/v1/buffers/buf-98"), reason),
                     404);
    is_value(rest, series, 2);
    is_value(rest,
             "podd_http_request_duration_seconds_count{method=\"GET\","
             "route=\"/v1/buffers/{id}\"}",
             2);
    assert_int_equal(rest_status(rest_get(rest, "/nowhere"), reason), 404);
    is_value(rest,
             "podd_http_requests_total{method=\"none\",route=\"none\","
             "code=\"404\"}",
             1);
}

static void test_no_label_holds_an_id(void **state)
{
    struct rest *rest = *state;
    json_decref(rest_json(rest_send(rest, "POST", "/v1/buffers?wait=50s",
                                    "{\"core\":0,\"bytes\":16}"),
                          201));
    char *text = scrape(rest);
    assert_null(strstr(text, "buf-1"));
    assert_null(strstr(text, "op-1"));
    free(text);
}

static void test_an_unknown_parameter_is_refused(void **state)
{
    rest_is_problem(rest_get(*state, "/metrics?name=x"), 400,
                    "UNKNOWN_PARAMETER");
}

// Prometheus' own linter: conventions and format.
static void test_promtool_finds_no_fault(void **state)
{
    char *text = scrape(*state);
    FILE *promtool = popen("promtool check metrics 2>&1", "w");
    assert_non_null(promtool);
    fputs(text, promtool);
    free(text);
    int status = pclose(promtool);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_operations_are_counted, setup,
                                        rest_teardown),
        cmocka_unit_test_setup_teardown(test_what_runs_is_open, setup,
                                        rest_teardown),
        cmocka_unit_test_setup_teardown(test_requests_are_counted_by_route,
                                        setup, rest_teardown),
        cmocka_unit_test_setup_teardown(test_no_label_holds_an_id, setup,
                                        rest_teardown),
        cmocka_unit_test_setup_teardown(test_an_unknown_parameter_is_refused,
                                        setup, rest_teardown),
        cmocka_unit_test_setup_teardown(test_promtool_finds_no_fault, setup,
                                        rest_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
