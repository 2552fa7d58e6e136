// SPDX-License-Identifier: Apache-2.0
#include "api/tokens.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/session.h"
#include "core/base/clock.h"
#include "server/token.h"

// SHA-256 of "abc", of FIPS 180-4.
#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define ONE "1111111111111111111111111111111111111111111111111111111111111111"

static enum pod_code parse(const char *text, struct api_tokens *tokens)
{
    struct pod_err err;

    return api_tokens_parse(text, strlen(text), tokens, &err);
}

static const struct api_token *find(const struct api_tokens *tokens,
                                    const char *token)
{
    uint8_t hash[API_TOKEN_HASH_BYTES];

    api_token_hash(token, strlen(token), hash);
    return api_tokens_find(tokens, hash);
}

static void test_reads_lines(void **state)
{
    struct api_tokens tokens = {.items = NULL};

    (void)state;
    assert_int_equal(parse("# tokens\n\n  admin \t sha256:" ONE
                           "  # the boss\r\nwrite sha256:" ABC,
                           &tokens),
                     POD_OK);
    assert_int_equal(tokens.count, 2);
    const struct api_token *token = find(&tokens, "abc");
    assert_non_null(token);
    assert_int_equal(token->scope, API_SCOPE_WRITE);
    assert_string_equal(token->name, "ba7816bf8f01cfea");
    assert_null(find(&tokens, "abd"));
    assert_null(find(&tokens, ""));
    // The later line of a hash counts.
    assert_int_equal(
        parse("admin sha256:" ABC "\nread sha256:" ABC "\n", &tokens), POD_OK);
    assert_int_equal(tokens.count, 1);
    assert_int_equal(find(&tokens, "abc")->scope, API_SCOPE_READ);
    assert_int_equal(parse("", &tokens), POD_OK);
    assert_int_equal(tokens.count, 0);
    api_tokens_fini(&tokens);
}

static void test_refuses_other_lines(void **state)
{
    static const char *const bad[] = {
        "write",
        "write " ABC,
        "write md5:" ABC,
        "write sha256:" ABC "0",
        "write sha256:ba",
        "write sha256:" ABC " more",
        "writes sha256:" ABC,
        "none sha256:" ABC,
        "sha256:" ABC,
        "write sha256:zz7816bf8f01cfea414140de5dae2223"
        "b00361a396177a9cb410ff61f20015ad",
    };
    struct api_tokens tokens = {.items = NULL};

    (void)state;
    assert_int_equal(parse("write sha256:" ABC, &tokens), POD_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(parse(bad[i], &tokens), POD_INVALID_ARGUMENT);
    assert_non_null(find(&tokens, "abc")); // kept
    api_tokens_fini(&tokens);
}

static void test_tokens_are_bounded(void **state)
{
    struct api_tokens tokens = {.items = NULL};
    size_t room = (size_t)(API_TOKENS_MAX + 1) * API_TOKEN_LINE_BYTES;
    char *text = malloc(room);
    size_t used = 0;

    (void)state;
    for (int i = 0; i <= API_TOKENS_MAX; i++) {
        if (i == API_TOKENS_MAX)
            assert_int_equal(parse(text, &tokens), POD_OK);
        used += (size_t)snprintf(text + used, room - used,
                                 "read sha256:%064x\n", (unsigned)i + 1);
    }
    assert_int_equal(tokens.count, API_TOKENS_MAX);
    assert_int_equal(parse(text, &tokens), POD_INVALID_ARGUMENT);
    free(text);
    api_tokens_fini(&tokens);
}

static void test_makes_tokens(void **state)
{
    struct api_tokens tokens = {.items = NULL};
    char one[API_TOKEN_TEXT_BYTES];
    char two[API_TOKEN_TEXT_BYTES];
    char line[API_TOKEN_LINE_BYTES];

    (void)state;
    assert_true(api_token_make(one));
    assert_true(api_token_make(two));
    assert_string_not_equal(one, two);
    assert_int_equal(strlen(one), 48);
    assert_int_equal(strspn(one + 5, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmn"
                                     "opqrstuvwxyz0123456789-_"),
                     43);
    api_token_line(one, API_SCOPE_ADMIN, line);
    assert_int_equal(parse(line, &tokens), POD_OK);
    assert_int_equal(find(&tokens, one)->scope, API_SCOPE_ADMIN);
    assert_null(find(&tokens, two));
    api_token_line("abc", API_SCOPE_READ, line);
    assert_string_equal(line, "read sha256:" ABC "\n");
    api_tokens_fini(&tokens);
}

// ----------------------------------------------------------------- the file

static char folder[] = "/tmp/podd-tokens-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void write_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    (void)close(fd);
}

static enum pod_code load(const char *path, struct api_tokens *tokens,
                          struct api_file_stamp *stamp)
{
    struct pod_err err;
    enum pod_code code = api_tokens_load(path, tokens, stamp, &err);

    if (code != POD_OK)
        assert_non_null(strstr(err.text, path));
    return code;
}

static void test_only_its_owner_may_see_the_file(void **state)
{
    static const mode_t open_modes[] = {0640, 0604, 0620, 0602, 0610, 0601};
    struct api_tokens tokens = {.items = NULL};
    struct api_file_stamp stamp;
    const char *path = in_folder("modes");

    (void)state;
    for (size_t i = 0; i < sizeof(open_modes) / sizeof(open_modes[0]); i++) {
        write_file(path, "read sha256:" ABC, open_modes[i]);
        assert_int_equal(load(path, &tokens, &stamp), POD_INVALID_ARGUMENT);
    }
    write_file(path, "read sha256:" ABC, 0600);
    assert_int_equal(load(path, &tokens, &stamp), POD_OK);
    write_file(path, "read sha256:" ABC, 0400);
    assert_int_equal(load(path, &tokens, &stamp), POD_OK);
    assert_int_equal(tokens.count, 1);
    api_tokens_fini(&tokens);
    assert_int_equal(load(in_folder("missing"), &tokens, &stamp),
                     POD_INVALID_ARGUMENT);
    assert_int_equal(load(folder, &tokens, &stamp), POD_INVALID_ARGUMENT);
    path = in_folder("pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(load(path, &tokens, &stamp), POD_INVALID_ARGUMENT);
}

static void test_the_file_is_bounded(void **state)
{
    struct api_tokens tokens = {.items = NULL};
    struct api_file_stamp stamp;
    const char *path = in_folder("large");

    (void)state;
    write_file(path, "read sha256:" ABC "\n#", 0600);
    assert_int_equal(truncate(path, API_TOKENS_FILE_BYTES + 1), 0);
    assert_int_equal(load(path, &tokens, &stamp), POD_INVALID_ARGUMENT);
}

static void test_sees_that_a_file_changed(void **state)
{
    struct api_tokens tokens = {.items = NULL};
    struct api_file_stamp stamp;
    char path[128];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s", in_folder("changes"));
    write_file(path, "read sha256:" ABC "\n", 0600);
    assert_int_equal(load(path, &tokens, &stamp), POD_OK);
    assert_true(api_file_is(path, &stamp));
    // As editors save: another file of the same size takes its name.
    write_file(in_folder("new"), "read sha256:" ONE "\n", 0600);
    assert_int_equal(rename(in_folder("new"), path), 0);
    assert_false(api_file_is(path, &stamp));
    assert_int_equal(load(path, &tokens, &stamp), POD_OK);
    assert_null(find(&tokens, "abc"));
    assert_int_equal(unlink(path), 0);
    assert_false(api_file_is(path, &stamp));
    api_tokens_fini(&tokens);
}

// -------------------------------------------------------------- the command

// Runs `podd token ...`; what it prints is left in `out`.
static int run(const char *const *argv, char *out, size_t size)
{
    int argc = 0;
    const char *path = in_folder("stdout");

    while (argv[argc] != NULL)
        argc++;
    (void)fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(dup2(fd, STDOUT_FILENO) >= 0);
    int code = pod_token_main(argc, argv);
    (void)fflush(stdout);
    (void)dup2(saved, STDOUT_FILENO);
    (void)close(saved);
    ssize_t length = pread(fd, out, size - 1, 0);
    out[length > 0 ? length : 0] = '\0';
    (void)close(fd);
    return code;
}

static int add(const char *scope, const char *path, char *out, size_t size)
{
    const char *const argv[] = {"token",        "add", "--scope", scope,
                                "--token-file", path,  NULL};

    return run(argv, out, size);
}

static void test_adds_tokens(void **state)
{
    struct api_tokens tokens = {.items = NULL};
    struct api_file_stamp stamp;
    struct stat info;
    char path[128];
    char tokens_made[2][128];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s", in_folder("added"));
    assert_int_equal(add("write", path, tokens_made[0], 128), 0);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    // A last line without an end is not run into.
    write_file(path, "read sha256:" ABC, 0600);
    assert_int_equal(add("admin", path, tokens_made[1], 128), 0);
    assert_int_equal(load(path, &tokens, &stamp), POD_OK);
    assert_int_equal(tokens.count, 2);
    assert_int_equal(strcspn(tokens_made[1], "\n"), 48);
    assert_int_equal(strlen(tokens_made[1]), 49);
    tokens_made[1][48] = '\0';
    assert_int_equal(find(&tokens, tokens_made[1])->scope, API_SCOPE_ADMIN);
    assert_string_equal(find(&tokens, "abc")->name, "ba7816bf8f01cfea");
    api_tokens_fini(&tokens);
}

// As on a disk that is full after a few bytes more.
static void test_half_a_line_is_taken_back(void **state)
{
    struct stat info;
    struct rlimit before;
    char path[128];
    char made[128];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s", in_folder("full"));
    assert_int_equal(add("read", path, made, sizeof(made)), 0);
    assert_int_equal(stat(path, &info), 0);
    off_t size = info.st_size;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit tight = {.rlim_cur = (rlim_t)size + 10,
                           .rlim_max = before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    int code = add("admin", path, made, sizeof(made));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(code, 1);
    assert_string_equal(made, "");
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, size);
    assert_int_equal(add("admin", path, made, sizeof(made)), 0);
}

// Its hash stands in the file by then, so it is said what to do. In a process
// of its own: a failed write leaves the bytes in stdout's buffer.
static void test_a_token_that_cannot_be_told(void **state)
{
    char text[256];
    int full = open("/dev/full", O_WRONLY);
    int fd = open(in_folder("stdout"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    int status = 0;

    (void)state;
    assert_true(full >= 0 && fd >= 0);
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        (void)dup2(full, STDOUT_FILENO);
        (void)dup2(fd, STDERR_FILENO);
        char path[128];
        (void)snprintf(path, sizeof(path), "%s", in_folder("added"));
        const char *const add_one[] = {"token",        "add", "--scope", "read",
                                       "--token-file", path,  NULL};
        _exit(pod_token_main(6, add_one));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 1);
    ssize_t length = pread(fd, text, sizeof(text) - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    assert_non_null(strstr(text, "cannot print the token: No space left"));
    assert_non_null(strstr(text, in_folder("added")));
    (void)close(full);
    (void)close(fd);
}

static void test_command_refuses(void **state)
{
    static const char *const none[] = {"token", NULL};
    static const char *const other[] = {"token", "list", NULL};
    static const char *const no_scope[] = {"token", "add", "--token-file", "x",
                                           NULL};
    static const char *const no_file[] = {"token", "add", "--scope", "read",
                                          NULL};
    char out[128];
    char path[128];

    (void)state;
    assert_int_equal(run(none, out, sizeof(out)), 2);
    assert_int_equal(run(other, out, sizeof(out)), 2);
    assert_int_equal(run(no_scope, out, sizeof(out)), 2);
    assert_int_equal(run(no_file, out, sizeof(out)), 2);
    assert_int_equal(add("root", "x", out, sizeof(out)), 2);
    (void)snprintf(path, sizeof(path), "%s", in_folder("refused"));
    write_file(path, "read sha256:" ABC "\n", 0644);
    assert_int_equal(add("read", path, out, sizeof(out)), 1);
    write_file(path, "garbage\n", 0600);
    assert_int_equal(add("read", path, out, sizeof(out)), 1);
    assert_string_equal(out, "");
    assert_int_equal(add("read", folder, out, sizeof(out)), 1);
}

// ----------------------------------------------------------------- sessions

static void test_sessions(void **state)
{
    struct api_sessions sessions = {.items = NULL};
    char cookie[API_TOKEN_TEXT_BYTES];
    char other[API_TOKEN_TEXT_BYTES];
    uint8_t token[API_TOKEN_HASH_BYTES];
    int64_t end = API_SESSION_SECONDS * POD_NS_PER_S;

    (void)state;
    api_token_hash("abc", 3, token);
    assert_null(api_session_token(&sessions, "", 0));
    assert_true(api_session_open(&sessions, token, 0, cookie));
    assert_true(api_session_open(&sessions, token, 0, other));
    assert_memory_equal(api_session_token(&sessions, cookie, end - 1), token,
                        sizeof(token));
    assert_null(api_session_token(&sessions, cookie, end));
    assert_null(api_session_token(&sessions, "podd_", 0));
    api_session_close(&sessions, cookie);
    assert_null(api_session_token(&sessions, cookie, 0));
    assert_non_null(api_session_token(&sessions, other, 0));
    // The oldest ends when there are too many.
    for (int i = 0; i < API_SESSIONS_MAX - 2; i++)
        assert_true(api_session_open(&sessions, token, 0, cookie));
    assert_non_null(api_session_token(&sessions, other, 0));
    assert_true(api_session_open(&sessions, token, 0, cookie));
    assert_true(api_session_open(&sessions, token, 0, cookie));
    assert_null(api_session_token(&sessions, other, 0));
    api_sessions_fini(&sessions);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"modes",  "pipe",  "large", "changes",
                                        "stdout", "added", "full",  "refused"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        (void)unlink(in_folder(names[i]));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_lines),
        cmocka_unit_test(test_refuses_other_lines),
        cmocka_unit_test(test_tokens_are_bounded),
        cmocka_unit_test(test_makes_tokens),
        cmocka_unit_test(test_only_its_owner_may_see_the_file),
        cmocka_unit_test(test_the_file_is_bounded),
        cmocka_unit_test(test_sees_that_a_file_changed),
        cmocka_unit_test(test_adds_tokens),
        cmocka_unit_test(test_half_a_line_is_taken_back),
        cmocka_unit_test(test_a_token_that_cannot_be_told),
        cmocka_unit_test(test_command_refuses),
        cmocka_unit_test(test_sessions),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
