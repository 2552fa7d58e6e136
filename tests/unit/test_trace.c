// SPDX-License-Identifier: Apache-2.0
// Request ids and traceparent, against what W3C Trace Context says of it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/trace.h"

#define TRACE_ID "0af7651916cd43dd8448eb211c80319c"
#define PARENT   "b7ad6b7169203331"

static void test_request_ids(void **state)
{
    static const char *const bad[] = {
        "", "a b", "a\n", "a\"b", "caf\xC3\xA9", "a/b", "a:b"};
    char id[66];

    (void)state;
    assert_true(pod_request_id_fit("My-id_1.2"));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(pod_request_id_fit(bad[i]));
    memset(id, 'x', sizeof id);
    id[64] = '\0';
    assert_true(pod_request_id_fit(id));
    id[64] = 'x';
    id[65] = '\0';
    assert_false(pod_request_id_fit(id));
}

// Makes one and says whether it has a trace, with the ids above.
static bool takes(const char *traceparent, uint8_t flags)
{
    struct pod_trace *trace = pod_trace_new("r-1", traceparent);

    assert_non_null(trace);
    assert_string_equal(trace->request_id, "r-1");
    bool taken = trace->trace_id[0] != '\0';
    assert_string_equal(trace->trace_id, taken ? TRACE_ID : "");
    assert_string_equal(trace->parent_id, taken ? PARENT : "");
    assert_int_equal(trace->flags, taken ? flags : 0);
    pod_trace_unref(trace);
    return taken;
}

static void test_taken(void **state)
{
    (void)state;
    assert_true(takes("00-" TRACE_ID "-" PARENT "-01", 1));
    assert_true(takes("00-" TRACE_ID "-" PARENT "-00", 0));
    assert_true(takes("00-" TRACE_ID "-" PARENT "-ff", 0xFF));
    // Of a version to come what stands where 00 has it.
    assert_true(takes("cc-" TRACE_ID "-" PARENT "-01", 1));
    assert_true(takes("01-" TRACE_ID "-" PARENT "-01-what", 1));
    assert_true(takes("01-" TRACE_ID "-" PARENT "-01-", 1));
}

static void test_ignored(void **state)
{
    static const char *const bad[] = {
        "",
        "00",
        "ff-" TRACE_ID "-" PARENT "-01",
        "00-" TRACE_ID "-" PARENT "-01-what",
        "00-" TRACE_ID "-" PARENT "-01-",
        "01-" TRACE_ID "-" PARENT "-01what",
        "00-" TRACE_ID "-" PARENT,
        "00-" TRACE_ID "-" PARENT "-1",
        "00-" TRACE_ID "-" PARENT "-0G",
        "00-" TRACE_ID "-" PARENT "-0A",
        "0A-" TRACE_ID "-" PARENT "-01",
        "0-" TRACE_ID "-" PARENT "-001",
        "00-0AF7651916cd43dd8448eb211c80319c-" PARENT "-01",
        "00-00000000000000000000000000000000-" PARENT "-01",
        "00-" TRACE_ID "-0000000000000000-01",
        "00-" TRACE_ID "-b7ad6b716920333.-01",
        "00_" TRACE_ID "-" PARENT "-01",
        "00-" TRACE_ID "_" PARENT "-01",
        "00-" TRACE_ID "-" PARENT "_01",
        " 00-" TRACE_ID "-" PARENT "-01",
        "00-" TRACE_ID "-" PARENT "-01 ",
    };

    (void)state;
    assert_false(takes(NULL, 0));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(takes(bad[i], 0));
}

static void test_print(void **state)
{
    char text[POD_TRACEPARENT_BYTES];
    char span[POD_SPAN_ID_BYTES];
    struct pod_trace *with =
        pod_trace_new(NULL, "01-" TRACE_ID "-" PARENT "-03-more");
    struct pod_trace *without = pod_trace_new("a b", NULL);

    (void)state;
    pod_trace_print(with, text);
    assert_string_equal(text, "00-" TRACE_ID "-" PARENT "-03");
    pod_span_id_print(0xABC, span);
    assert_string_equal(span, "0000000000000abc");
    pod_trace_print(without, text);
    assert_string_equal(text, "");
    assert_string_equal(without->request_id, "");
    // Shared: the last to let go frees it.
    assert_ptr_equal(pod_trace_ref(with), with);
    pod_trace_unref(with);
    assert_string_equal(with->trace_id, TRACE_ID);
    pod_trace_unref(with);
    pod_trace_unref(without);
    pod_trace_unref(pod_trace_ref(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_ids),
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_ignored),
        cmocka_unit_test(test_print),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
