// SPDX-License-Identifier: Apache-2.0
// The audit log: what it says, what it leaves out, and that --dev has none.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/tokens.h"
#include "tests/lib/rest_pod.h"

#define WRITE "Authorization: Bearer hand-secret"
#define JSON  "Content-Type: application/json"

static char folder[] = "/tmp/podd-audit-XXXXXX";
static char token_path[64];
static char log_path[64];
static int real_stderr;

static int make_folder(void **state)
{
    char line[API_TOKEN_LINE_BYTES];

    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(token_path, sizeof(token_path), "%s/tokens", folder);
    (void)snprintf(log_path, sizeof(log_path), "%s/log", folder);
    int fd = open(token_path, O_WRONLY | O_CREAT, 0600);
    api_token_line("hand-secret", API_SCOPE_WRITE, line);
    assert_int_equal(write(fd, line, strlen(line)), strlen(line));
    return close(fd);
}

static int remove_folder(void **state)
{
    (void)state;
    (void)unlink(token_path);
    (void)unlink(log_path);
    return rmdir(folder);
}

static void record(void)
{
    int fd = open(log_path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);

    (void)fflush(stderr);
    real_stderr = dup(STDERR_FILENO);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    (void)close(fd);
}

// Ends the recording; the log is the caller's to free. The server must have
// been stopped: a line is written when its request has ended.
static char *recorded(void)
{
    enum { MOST_BYTES = 65536 };
    char *text = calloc(1, MOST_BYTES);
    int fd = open(log_path, O_RDONLY);

    (void)dup2(real_stderr, STDERR_FILENO);
    (void)close(real_stderr);
    assert_true(read(fd, text, MOST_BYTES - 1) >= 0);
    (void)close(fd);
    return text;
}

static void ask(struct rest *rest, const char *method, const char *path,
                const char *header, const char *body)
{
    const char *const headers[] = {header, JSON, "X-Request-Id: mine", NULL};
    struct rest_answer answer = rest_ask(rest, method, path, headers, body,
                                         body != NULL ? strlen(body) : 0);

    rest_answer_free(&answer);
}

// How many lines of the audit log have this in them.
static int count(const char *log, const char *text)
{
    int found = 0;

    for (const char *line = log; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        char copy[1024];
        (void)snprintf(copy, sizeof(copy), "%.*s", (int)length, line);
        found +=
            strstr(copy, " audit=true") != NULL && strstr(copy, text) != NULL;
        line += length + (line[length] == '\n');
    }
    return found;
}

static void test_says_who_did_what(void **state)
{
    const struct rest_options options = {.token_file = token_path};
    const char *body = "{\"core\":0,\"bytes\":\"8\",\"name\":\"body-secret\"}";

    (void)state;
    record();
    struct rest *rest = rest_start(&options);
    ask(rest, "POST", "/v1/buffers", WRITE, body);
    ask(rest, "GET", "/v1/pod", WRITE, NULL);
    ask(rest, "POST", "/v1/pod:reset", WRITE, NULL);
    ask(rest, "GET", "/v1/pod?status=200", "A: b", NULL);
    ask(rest, "POST", "/ui/session", "A: b", "{\"token\":\"hand-secret\"}");
    rest_stop(rest);
    char *log = recorded();
    // SHA-256 of the token, its first 16 digits, worked out elsewhere.
    assert_int_equal(count(log, "level=info event=request method=\"POST\" "
                                "route=\"/v1/buffers\" status=202"),
                     1);
    assert_int_equal(count(log, " request_id=\"mine\" peer=\"127.0.0.1\" "
                                "token=\"e57bb9f12f8cb086\" "
                                "scope=\"write\" operation=\"op-1\" "
                                "audit=true target=\"/v1/buffers\""),
                     1);
    assert_int_equal(count(log, "route=\"/v1/pod:reset\" status=403"), 1);
    assert_int_equal(count(log, "target=\"/v1/pod?status=200\""), 1);
    assert_int_equal(count(log, "peer=\"127.0.0.1\" scope=\"none\""), 1);
    assert_int_equal(count(log, "route=\"/ui/session\" status=204"), 1);
    assert_int_equal(count(log, ""), 4);
    assert_null(strstr(log, "secret"));
    free(log);
}

static void test_dev_has_none(void **state)
{
    const struct rest_options options = {.pod = NULL};

    (void)state;
    record();
    struct rest *rest = rest_start(&options);
    ask(rest, "POST", "/v1/buffers", "A: b", "{\"core\":0,\"bytes\":\"8\"}");
    rest_stop(rest);
    char *log = recorded();
    assert_int_equal(count(log, ""), 0);
    free(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_says_who_did_what),
        cmocka_unit_test(test_dev_has_none),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
