// SPDX-License-Identifier: Apache-2.0
// The programs as a user of a shell meets them: what they print, how they exit,
// and what signals do to them.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/tokens.h"
#include "tests/lib/http_client.h"
#include "tests/lib/program.h"

enum { SHELL_BYTES = 1 << 14, SHELL_COLUMNS = 80 };

struct shell {
    int code; // of the exit; -1: by a signal
    char out[SHELL_BYTES];
    char err[SHELL_BYTES];
};

static void read_all(FILE *file, char *out)
{
    size_t length = 0;

    rewind(file);
    length = fread(out, 1, SHELL_BYTES - 1, file);
    out[length] = '\0';
    (void)fclose(file);
}

// Runs "NAME ARGUMENTS", as a shell takes them apart, with nothing to read.
static void run(struct shell *shell, const char *command)
{
    FILE *out = tmpfile();
    FILE *err = tmpfile();
    const char *folder = getenv("POD_BUILD");
    char line[512];

    assert_non_null(out);
    assert_non_null(err);
    (void)snprintf(line, sizeof(line), "exec timeout 60 %s/%s </dev/null",
                   folder != NULL ? folder : "build", command);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(fileno(out), STDOUT_FILENO);
        (void)dup2(fileno(err), STDERR_FILENO);
        (void)execl("/bin/sh", "sh", "-c", line, NULL);
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    shell->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    read_all(out, shell->out);
    read_all(err, shell->err);
}

static size_t lines_of(const char *text)
{
    size_t count = 0;

    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

// ----------------------------------------------------------------- what is bad

// One line, on stderr, with the program, the flag and the value.
static void test_bad_flags(void **state)
{
    static const char *const bad[][2] = {
        {"podd --nonsense", "podd: --nonsense: unknown flag"},
        {"podd --listen", "podd: --listen: its value is missing"},
        {"podd --dev --history-count x", "podd: --history-count 'x': "},
        {"podd --dev --listen 1.2.3.4:1", "podd: --listen '1.2.3.4:1': "},
        {"podd --config /nonexistent", "podd: --config '/nonexistent': "},
        {"podd --check-config --dev --pod x:y", "podd: --pod 'x:y': "},
        {"podd --dev --log-format xml", "--log-format 'xml': "},
        {"podd --dev --log-level loud", "--log-level 'loud': "},
        {"podd --dev --drain-timeout 5x", "--drain-timeout '5x': "},
        {"podd --dev --staging-bytes 1KB2", "--staging-bytes '1KB2': "},
        {"podd --dev --pod grpc+pod://:1", "podd: --pod 'grpc+pod://:1': "},
        {"podd --dev --pod grpc+pod://h:1 --worker-tls-cert a",
         "--worker-tls-cert and --worker-tls-key belong together"},
        {"podd --dev --pod grpc+pod://h:1 --worker-tls-cert a "
         "--worker-tls-key b",
         "--worker-tls-cert needs --worker-tls-ca"},
        {"podd token", "podd token: "},
        {"podd token add", "podd token add: --scope is missing"},
        {"podd token add --scope all --token-file /x", "podd token add: "},
        {"podworker --nonsense", "podworker: --nonsense: unknown flag"},
        {"podworker --chips 0x1x1", "podworker: --chips '0x1x1': "},
        {"podworker --host-block 2xx", "podworker: --host-block '2xx': "},
        {"podworker --host-id x", "podworker: --host-id 'x': "},
        {"podworker --host-id 3", "there is no host 3 in a slice of 1"},
        {"podworker --tls-client-ca x", "--tls-client-ca needs --tls-cert"},
        {"podworker --listen 127.0.0.1:0 --device nonsense", "nonsense"},
    };
    static struct shell shell;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        run(&shell, bad[i][0]);
        if (shell.code != 2 || strstr(shell.err, bad[i][1]) == NULL ||
            lines_of(shell.err) != 1)
            fail_msg("%s: exit code %d, \"%s\"", bad[i][0], shell.code,
                     shell.err);
        assert_string_equal(shell.out, "");
    }
}

// What cannot be done, though it was well said.
static void test_failures(void **state)
{
    static const char *const failing[][2] = {
        {"podd --dev --listen unix:/nonexistent/socket", "/nonexistent/socket"},
        {"podd token add --scope read --token-file /nonexistent/file",
         "/nonexistent/file"},
        {"podworker --listen unix:/nonexistent/socket", "/nonexistent/socket"},
    };
    static struct shell shell;

    (void)state;
    for (size_t i = 0; i < sizeof(failing) / sizeof(failing[0]); i++) {
        run(&shell, failing[i][0]);
        if (shell.code != 1 || strstr(shell.err, failing[i][1]) == NULL)
            fail_msg("%s: exit code %d, \"%s\"", failing[i][0], shell.code,
                     shell.err);
        assert_string_equal(shell.out, "");
    }
}

// ---------------------------------------------------------------------- tokens

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    assert_int_equal(fclose(file), 0);
}

static void add_token(struct shell *shell, const char *path)
{
    char command[128];

    (void)snprintf(command, sizeof(command),
                   "podd token add --scope read --token-file %s", path);
    run(shell, command);
}

// A token is added behind a last line without an end, but not to a file that
// podd would refuse, nor to one that is full.
static void test_token_files(void **state)
{
    char path[] = "/tmp/podd-tokens-XXXXXX";
    char lines[2 * API_TOKEN_LINE_BYTES];
    static char full[(API_TOKENS_MAX + 1) * API_TOKEN_LINE_BYTES];
    static struct shell shell;
    size_t length = 0;

    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    api_token_line("first", API_SCOPE_WRITE, lines);
    lines[strlen(lines) - 1] = '\0'; // the end of the line
    write_file(path, lines);
    add_token(&shell, path);
    assert_int_equal(shell.code, 0);
    assert_int_equal(lines_of(shell.out), 1);
    add_token(&shell, path);
    assert_int_equal(shell.code, 0);
    write_file(path, "no token\n");
    add_token(&shell, path);
    assert_int_equal(shell.code, 1);
    assert_non_null(strstr(shell.err, path));
    for (int i = 0; i < API_TOKENS_MAX; i++) {
        char token[32];
        (void)snprintf(token, sizeof(token), "token %d", i);
        api_token_line(token, API_SCOPE_READ, full + length);
        length += strlen(full + length);
    }
    write_file(path, full);
    add_token(&shell, path);
    assert_int_equal(shell.code, 1);
    assert_non_null(strstr(shell.err, "has 1000 tokens already"));
    assert_int_equal(unlink(path), 0);
}

// --------------------------------------------------------------- what is asked

static void test_version_and_check(void **state)
{
    static struct shell shell;

    (void)state;
    run(&shell, "podd --version");
    assert_int_equal(shell.code, 0);
    assert_string_equal(shell.out, "podd " POD_VERSION "\n");
    run(&shell, "podworker --version");
    assert_int_equal(shell.code, 0);
    assert_string_equal(shell.out, "podworker " POD_VERSION "\n");
    run(&shell, "podd --dev --check-config");
    assert_int_equal(shell.code, 0);
    assert_string_equal(shell.out, "");
    assert_string_equal(shell.err, "");
    run(&shell, "podworker --check-config");
    assert_int_equal(shell.code, 0);
    assert_string_equal(shell.out, "");
}

// The flag in a line of a help, without its dashes; false: it begins none.
static bool flag_of(const char *line, char *flag, size_t size, bool *out_valued)
{
    if (strncmp(line, "  --", 4) != 0)
        return false;
    size_t length = strcspn(line + 4, " \n");
    assert_true(length > 0 && length < size);
    memcpy(flag, line + 4, length);
    flag[length] = '\0';
    // A word in capitals stands for its value.
    *out_valued = line[4 + length] == ' ' && line[5 + length] != ' ';
    return true;
}

// The help of a program fits a terminal, and what it lists is there.
static void check_help(const char *program, size_t least)
{
    static struct shell help;
    static struct shell tried;
    size_t flags = 0;
    char flag[64];
    char command[160];
    bool valued = false;

    (void)snprintf(command, sizeof(command), "%s --help", program);
    run(&help, command);
    assert_int_equal(help.code, 0);
    assert_string_equal(help.err, "");
    for (const char *line = help.out; *line != '\0';
         line += strcspn(line, "\n") + 1) {
        if (strcspn(line, "\n") > SHELL_COLUMNS)
            fail_msg("too wide: %.100s", line);
        if (!flag_of(line, flag, sizeof(flag), &valued))
            continue;
        flags++;
        // The last flag, so that one with a value has none.
        (void)snprintf(command, sizeof(command), "%s --check-config --%s",
                       program, flag);
        run(&tried, command);
        if (strstr(tried.err, "unknown flag") != NULL ||
            (strstr(tried.err, "value is missing") != NULL) != valued)
            fail_msg("%s: exit code %d, %s", command, tried.code, tried.err);
    }
    assert_true(flags >= least);
}

static void test_help(void **state)
{
    static struct shell shell;

    (void)state;
    check_help("podd", 20);
    check_help("podworker", 10);
    run(&shell, "podd token add --help");
    assert_int_equal(shell.code, 0);
    assert_non_null(strstr(shell.out, "--scope"));
    assert_non_null(strstr(shell.out, "--token-file"));
}

// --------------------------------------------------------------------- signals

static int ask(const struct test_program *program, const char *request)
{
    struct client_answer answer = client_ask(program->port, request);
    int status = answer.status;

    client_answer_free(&answer);
    return status;
}

#define HOST "Host: localhost\r\n"
#define BUFFER                                                                 \
    "POST /v1/buffers HTTP/1.1\r\n" HOST                                       \
    "Content-Type: application/json\r\nContent-Length: 46\r\n\r\n"             \
    "{\"core\":0,\"shape\":\"s32[4]\",\"values\":[1,2,3,4]}"

static void test_hang_up(void **state)
{
    static const char *const arguments[] = {"--dev", "--listen", "127.0.0.1:0",
                                            NULL};
    struct test_program program;

    (void)state;
    test_program_start(&program, "podd", arguments);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kill(program.pid, SIGHUP), 0);
        assert_int_equal(ask(&program, "GET /v1 HTTP/1.1\r\n" HOST "\r\n"),
                         200);
    }
    assert_int_equal(test_program_stop(&program), 0);
}

// The first signal waits for what runs, for an hour here; the second does not.
static void test_second_signal(void **state)
{
    static const char *const arguments[] = {"--dev",
                                            "--listen",
                                            "127.0.0.1:0",
                                            "--pod",
                                            "local:1x1x1,latency=1h",
                                            "--drain-timeout",
                                            "1h",
                                            NULL};
    struct test_program program;

    (void)state;
    test_program_start(&program, "podd", arguments);
    assert_int_equal(ask(&program, BUFFER), 202);
    // Who waits is told when the end begins.
    int fd = client_connect(program.port);
    assert_true(client_puts(fd, "GET /v1/events/op-1?wait=60s HTTP/1.1\r\n" HOST
                                "\r\n"));
    assert_int_equal(kill(program.pid, SIGTERM), 0);
    struct client_answer answer = client_read(fd, false);
    client_answer_free(&answer);
    (void)close(fd);
    assert_int_equal(waitpid(program.pid, NULL, WNOHANG), 0);
    assert_int_equal(test_program_stop(&program), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_flags),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_token_files),
        cmocka_unit_test(test_version_and_check),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_hang_up),
        cmocka_unit_test(test_second_signal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
