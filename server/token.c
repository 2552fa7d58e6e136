// SPDX-License-Identifier: Apache-2.0
#include "server/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "api/tokens.h"
#include "core/base/mem.h"
#include "server/config.h"

enum { TOKEN_FAILURE = 1, TOKEN_USAGE = 2 };

struct token_settings {
    bool help;
    char *scope;
    char *token_file;
};

static enum pod_code token_check_scope(const void *settings,
                                       struct pod_err *err)
{
    const char *scope = ((const struct token_settings *)settings)->scope;
    if (api_scope_parse(scope, strlen(scope)) != API_SCOPE_NONE)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                       "expected read, write or admin");
}

#define AT(member) offsetof(struct token_settings, member)
static const struct pod_setting token_table[] = {
    {"help", POD_SETTING_FLAG, AT(help), "print this and exit", NULL},
    {"scope", POD_SETTING_TEXT, AT(scope),
     "read (look only), write (also submit) or admin (also change hosts and "
     "reset the pod)",
     token_check_scope},
    {"token-file", POD_SETTING_TEXT, AT(token_file),
     "file of hashes for podd --token-file; made if it is missing", NULL},
};
enum { TOKEN_TABLE_COUNT = sizeof(token_table) / sizeof(token_table[0]) };

// ----------------------------------------------------------------- the file

static enum pod_code token_failed(const char *path, struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_BAD_VALUE, "%s: %s", path,
                       strerror(errno));
}

// What podd would refuse to read is not added to. Says whether the last line
// has an end.
static enum pod_code token_check_file(const char *path, bool *out_ended,
                                      struct pod_err *err)
{
    struct api_tokens tokens = {.items = NULL};
    struct api_file_stamp stamp;
    char *text = NULL;
    size_t length = 0;

    enum pod_code code = api_file_read(path, API_TOKENS_FILE_BYTES, true, &text,
                                       &length, &stamp, err);
    if (code != POD_OK)
        return code;
    *out_ended = length == 0 || text[length - 1] == '\n';
    code = api_tokens_parse(text, length, &tokens, err);
    if (code != POD_OK)
        pod_err_wrap(err, "%s", path);
    else if (tokens.count == API_TOKENS_MAX)
        code = pod_err_set(err, POD_REASON_BAD_VALUE,
                           "%s: has %d tokens already", path, API_TOKENS_MAX);
    api_tokens_fini(&tokens);
    pod_free(text);
    return code;
}

static enum pod_code token_append(int fd, const char *path, const char *line,
                                  struct pod_err *err)
{
    char bytes[API_TOKEN_LINE_BYTES + 1];
    bool ended = true;

    if (flock(fd, LOCK_EX) != 0)
        return token_failed(path, err);
    enum pod_code code = token_check_file(path, &ended, err);
    if (code != POD_OK)
        return code;
    (void)snprintf(bytes, sizeof(bytes), "%s%s", ended ? "" : "\n", line);
    // One write, so that podd never reads half a line.
    ssize_t length = (ssize_t)strlen(bytes);
    off_t end = lseek(fd, 0, SEEK_END);
    errno = ENOSPC; // what a short write means
    if (end >= 0 && write(fd, bytes, (size_t)length) == length &&
        fsync(fd) == 0)
        return POD_OK;
    code = token_failed(path, err);
    // Half a line would make the file unfit for podd's next start.
    if (end < 0 || ftruncate(fd, end) != 0)
        pod_err_wrap(err, "check the last line");
    return code;
}

static enum pod_code token_add(const char *path, const char *line,
                               struct pod_err *err)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0)
        return token_failed(path, err);
    enum pod_code code = token_append(fd, path, line, err);
    if (close(fd) != 0 && code == POD_OK)
        code = token_failed(path, err);
    return code;
}

// -------------------------------------------------------------- the command

static int token_usage(const char *text)
{
    (void)fprintf(stderr, "podd token add: %s\n", text);
    return TOKEN_USAGE;
}

static int token_make(const struct token_settings *settings)
{
    char token[API_TOKEN_TEXT_BYTES];
    char line[API_TOKEN_LINE_BYTES];
    struct pod_err err = POD_ERR_NONE;
    enum api_scope scope =
        api_scope_parse(settings->scope, strlen(settings->scope));

    if (!api_token_make(token)) {
        (void)fprintf(stderr, "podd token add: no random bytes\n");
        return TOKEN_FAILURE;
    }
    api_token_line(token, scope, line);
    if (token_add(settings->token_file, line, &err) != POD_OK) {
        (void)fprintf(stderr, "podd token add: %s\n", err.text);
        return TOKEN_FAILURE;
    }
    printf("%s\n", token);
    if (fflush(stdout) == 0)
        return 0;
    (void)fprintf(
        stderr,
        "podd token add: cannot print the token: %s; take its line, the "
        "last one, out of %s\n",
        strerror(errno), settings->token_file);
    return TOKEN_FAILURE;
}

static int token_run(int argc, const char *const *argv,
                     struct token_settings *settings)
{
    struct pod_err err = POD_ERR_NONE;

    if (pod_config_read(token_table, TOKEN_TABLE_COUNT, "PODD", argc, argv,
                        settings, &err) != POD_OK)
        return token_usage(err.text);
    if (settings->help) {
        printf("usage: podd token add --scope read|write|admin "
               "--token-file FILE\n\n");
        pod_config_help(token_table, TOKEN_TABLE_COUNT);
        printf("\nA token is taken away by deleting its line from the file: "
               "podd looks at it\nonce a second.\n");
        return 0;
    }
    if (settings->scope == NULL)
        return token_usage("--scope is missing: read, write or admin");
    if (settings->token_file == NULL)
        return token_usage("--token-file is missing");
    return token_make(settings);
}

int pod_token_main(int argc, const char *const *argv)
{
    struct token_settings settings = {.help = false};

    if (argc < 2 || strcmp(argv[1], "add") != 0) {
        (void)fprintf(stderr,
                      "podd token: expected 'add': podd token add --scope "
                      "read|write|admin --token-file FILE\n");
        return TOKEN_USAGE;
    }
    int code = token_run(argc - 1, argv + 1, &settings);
    pod_config_fini(token_table, TOKEN_TABLE_COUNT, &settings);
    return code;
}
