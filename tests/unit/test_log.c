// SPDX-License-Identifier: Apache-2.0
// Lines of the log: their form, what makes them safe, and what happens when
// they cannot be written.
#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/log.h"

enum { LINE_MAX_BYTES = 4096 };

// What a call writes to stderr. `text` has room for `size` bytes.
static void capture(void (*call)(void), char *text, size_t size)
{
    int saved = dup(STDERR_FILENO);
    int ends[2];

    assert_true(saved >= 0);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    call();
    (void)dup2(saved, STDERR_FILENO);
    (void)close(saved);
    (void)close(ends[1]);
    size_t length = 0;
    ssize_t got;
    while ((got = read(ends[0], text + length, size - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = '\0';
    (void)close(ends[0]);
}

static void say(enum pod_log_level level, struct pod_log_field field)
{
    pod_log_event(level, POD_LOG_EVENT_HOST, &field, 1);
}

// ----------------------------------------------------------------------- form

static void log_some(void)
{
    const struct pod_log_field fields[] = {
        pod_log_id(POD_LOG_KEY_OPERATION, "op", 17),
        pod_log_text(POD_LOG_KEY_KIND, "READ"),
        pod_log_number(POD_LOG_KEY_BYTES, INT64_MAX),
        pod_log_flag(POD_LOG_KEY_AUDIT, true),
        pod_log_flag(POD_LOG_KEY_ABORTED, false),
        pod_log_text(POD_LOG_KEY_DETAIL, ""),
        pod_log_text(POD_LOG_KEY_REASON, NULL),
        pod_log_id(POD_LOG_KEY_GRAPH, "graph", 0),
    };

    pod_log_event(POD_LOG_INFO, POD_LOG_EVENT_OPERATION, fields,
                  sizeof(fields) / sizeof(fields[0]));
    pod_log(POD_LOG_DEBUG, "host 3", "not shown");
    pod_log(POD_LOG_WARN, "host 3", "said \"%s\"\n", "hi");
}

// The times differ from run to run: compares what is behind them.
static const char *after_time(const char *line, const char *prefix)
{
    static const char form[] = "dddd-dd-ddTdd:dd:dd.ddddddZ";

    assert_memory_equal(line, prefix, strlen(prefix));
    line += strlen(prefix);
    for (size_t i = 0; form[i] != '\0'; i++) {
        if (form[i] == 'd')
            assert_in_range(line[i], '0', '9');
        else
            assert_int_equal(line[i], form[i]);
    }
    return line + strlen(form);
}

static char *second_line(char *text)
{
    char *end = strchr(text, '\n');

    assert_non_null(end);
    *end = '\0';
    return end + 1;
}

static void test_text(void **state)
{
    char text[1024];

    (void)state;
    pod_log_setup(POD_LOG_INFO, POD_LOG_TEXT);
    capture(log_some, text, sizeof text);
    char *second = second_line(text);
    assert_string_equal(after_time(text, ""),
                        " level=info event=operation operation=op-17"
                        " kind=\"READ\" bytes=9223372036854775807 audit=true");
    assert_string_equal(after_time(second, ""),
                        " level=warn event=note subject=\"host 3\""
                        " msg=\"said \\\"hi\\\"\\u000a\"\n");
}

static void test_json(void **state)
{
    char text[1024];

    (void)state;
    pod_log_setup(POD_LOG_INFO, POD_LOG_JSON);
    capture(log_some, text, sizeof text);
    char *second = second_line(text);
    assert_string_equal(after_time(text, "{\"time\":\""),
                        "\",\"level\":\"info\",\"event\":\"operation\","
                        "\"operation\":\"op-17\",\"kind\":\"READ\","
                        "\"bytes\":9223372036854775807,\"audit\":true}");
    assert_string_equal(after_time(second, "{\"time\":\""),
                        "\",\"level\":\"warn\",\"event\":\"note\","
                        "\"subject\":\"host 3\","
                        "\"msg\":\"said \\\"hi\\\"\\u000a\"}\n");
}

static void log_levels(void)
{
    for (int level = POD_LOG_ERROR; level <= POD_LOG_DEBUG; level++)
        say((enum pod_log_level)level, pod_log_number(POD_LOG_KEY_HOST, level));
}

static void test_levels(void **state)
{
    char text[1024];

    (void)state;
    pod_log_setup(POD_LOG_WARN, POD_LOG_JSON);
    assert_true(pod_log_wants(POD_LOG_WARN));
    assert_false(pod_log_wants(POD_LOG_INFO));
    capture(log_levels, text, sizeof text);
    assert_non_null(strstr(text, "\"level\":\"error\",\"event\":\"host\","
                                 "\"host\":0}\n"));
    assert_non_null(strstr(text, "\"host\":1}\n"));
    assert_null(strstr(text, "\"host\":2"));
}

// --------------------------------------------------------------------- safety

// Text that ends lines, opens members, drives terminals or is not UTF-8.
static const struct {
    const char *given;
    const char *shown;
} texts[] = {
    {"caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80",
     "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"},
    {"a\nlevel=error\r\t\x7F", "a\\u000alevel=error\\u000d\\u0009\\u007f"},
    {"\",\"level\":\"error", "\\\",\\\"level\\\":\\\"error"},
    {"\x1B[2J\xC2\x9B\x32J", "\\u001b[2J\\u009b2J"},
    // One bad byte does not spoil the good characters beside it.
    {"\xC3\xA9\xC3(\xFF\xED\xA0\x80\xC3\xA9", "\xC3\xA9?(?\?\?\?\xC3\xA9"},
    {"\xF0\x9F\x98", "?\?\?"},
};

static void log_texts(void)
{
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        say(POD_LOG_INFO, pod_log_text(POD_LOG_KEY_DETAIL, texts[i].given));
}

static void check_texts(enum pod_log_format format, const char *before,
                        const char *after)
{
    char text[4096];
    char *line = text;

    pod_log_setup(POD_LOG_INFO, format);
    capture(log_texts, text, sizeof text);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        char *next = second_line(line);
        const char *detail = strstr(line, before);
        assert_non_null(detail);
        detail += strlen(before);
        assert_memory_equal(detail, texts[i].shown, strlen(texts[i].shown));
        assert_string_equal(detail + strlen(texts[i].shown), after);
        line = next;
    }
    assert_string_equal(line, "");
}

static void test_escapes(void **state)
{
    (void)state;
    check_texts(POD_LOG_TEXT, "detail=\"", "\"");
    check_texts(POD_LOG_JSON, "\"detail\":\"", "\"}");
}

static void log_long(const char *unit)
{
    char text[6000];
    size_t size = strlen(unit);

    for (size_t i = 0; i + size < sizeof text; i += size)
        memcpy(text + i, unit, size + 1);
    const struct pod_log_field fields[] = {
        pod_log_number(POD_LOG_KEY_HOST, 3),
        pod_log_text(POD_LOG_KEY_DETAIL, text),
        pod_log_text(POD_LOG_KEY_TARGET, text),
        pod_log_number(POD_LOG_KEY_CORE, 4),
    };
    pod_log_event(POD_LOG_INFO, POD_LOG_EVENT_HOST, fields, 4);
    pod_log(POD_LOG_INFO, text, "%s", text);
}

static void log_long_escapes(void)
{
    log_long("\x01");
}

static void log_long_euros(void)
{
    log_long("\xE2\x82\xAC");
}

static void check_long(void (*call)(void))
{
    static char text[4 * LINE_MAX_BYTES];
    char *line = text;

    capture(call, text, sizeof text);
    for (int i = 0; i < 2; i++) {
        char *next = second_line(line);
        assert_true((size_t)(next - line) <= LINE_MAX_BYTES);
        // Hardly less than there is room for.
        assert_true((size_t)(next - line) > LINE_MAX_BYTES - 80);
        json_t *json = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        assert_true(json_is_object(json));
        json_decref(json);
        line = next;
    }
    assert_string_equal(line, "");
}

static void test_long(void **state)
{
    (void)state;
    pod_log_setup(POD_LOG_INFO, POD_LOG_JSON);
    check_long(log_long_escapes);
    check_long(log_long_euros);
}

// -------------------------------------------------- what cannot be written

static char lost_text[LINE_MAX_BYTES];

// A full pipe takes nothing: lines are dropped, nobody waits, and the first
// that finds room again is told of them.
static void log_to_full_pipe(int out, int in)
{
    char bytes[LINE_MAX_BYTES] = {0};
    size_t fill = 0;

    assert_int_equal(dup2(out, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(fcntl(out, F_SETFL, O_NONBLOCK), 0);
    while (write(out, bytes, sizeof bytes) > 0)
        fill += sizeof bytes;
    assert_int_equal(fcntl(out, F_SETFL, 0), 0);
    for (int i = 0; i < 3; i++)
        say(POD_LOG_INFO, pod_log_number(POD_LOG_KEY_HOST, i));
    while (fill > 0)
        fill -= (size_t)read(in, bytes, sizeof bytes);
    say(POD_LOG_INFO, pod_log_number(POD_LOG_KEY_HOST, 3));
}

static void test_full_pipe(void **state)
{
    int saved = dup(STDERR_FILENO);
    int ends[2];

    (void)state;
    pod_log_setup(POD_LOG_INFO, POD_LOG_JSON);
    assert_int_equal(pipe(ends), 0);
    uint64_t lost = pod_log_lost();
    log_to_full_pipe(ends[1], ends[0]);
    assert_int_equal(pod_log_lost() - lost, 3);
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    (void)close(saved);
    (void)close(ends[1]);
    ssize_t got = read(ends[0], lost_text, sizeof lost_text - 1);
    assert_true(got > 0);
    (void)close(ends[0]);
    char *second = second_line(lost_text);
    assert_string_equal(after_time(lost_text, "{\"time\":\""),
                        "\",\"level\":\"warn\",\"event\":\"log_lost\","
                        "\"count\":3}");
    assert_string_equal(after_time(second, "{\"time\":\""),
                        "\",\"level\":\"info\",\"event\":\"host\","
                        "\"host\":3}\n");
}

// A child of which `call` says by its exit status how it went.
static void check_child(int (*call)(void))
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        _exit(call());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

// A full disk and a reader that is gone.
static int child_full(void)
{
    int ends[2];

    if (dup2(open("/dev/full", O_WRONLY | O_CLOEXEC), STDERR_FILENO) < 0)
        return 1;
    say(POD_LOG_ERROR, pod_log_number(POD_LOG_KEY_HOST, 1));
    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR || pipe(ends) != 0 ||
        dup2(ends[1], STDERR_FILENO) < 0)
        return 2;
    (void)close(ends[0]);
    say(POD_LOG_ERROR, pod_log_number(POD_LOG_KEY_HOST, 1));
    return 0;
}

// Closed descriptors are filled, so what is opened next is none of them.
static int child_closed(void)
{
    int ends[2];

    (void)close(STDIN_FILENO);
    (void)close(STDERR_FILENO);
    pod_log_setup(POD_LOG_INFO, POD_LOG_JSON);
    if (pipe(ends) != 0 || ends[0] <= STDERR_FILENO)
        return 1;
    say(POD_LOG_ERROR, pod_log_number(POD_LOG_KEY_HOST, 1));
    return 0;
}

static void test_no_stderr(void **state)
{
    (void)state;
    check_child(child_full);
    check_child(child_closed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),      cmocka_unit_test(test_json),
        cmocka_unit_test(test_levels),    cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_long),      cmocka_unit_test(test_full_pipe),
        cmocka_unit_test(test_no_stderr),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
