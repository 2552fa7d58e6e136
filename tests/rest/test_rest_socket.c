// SPDX-License-Identifier: Apache-2.0
// Unix sockets: who is let in by whom the kernel says he is, and the file.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/tokens.h"
#include "tests/lib/http_client.h"
#include "tests/lib/rest_pod.h"

#define READ "Authorization: Bearer eye"

static char folder[] = "/tmp/podd-socket-XXXXXX";
static char token_path[64];
static char socket_path[64];

static void write_token(void)
{
    char line[API_TOKEN_LINE_BYTES];
    int fd = open(token_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    api_token_line("eye", API_SCOPE_READ, line);
    assert_int_equal(write(fd, line, strlen(line)), strlen(line));
    assert_int_equal(close(fd), 0);
}

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(token_path, sizeof(token_path), "%s/tokens", folder);
    (void)snprintf(socket_path, sizeof(socket_path), "%s/socket", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    (void)unlink(token_path);
    return rmdir(folder);
}

static long ask(struct rest *rest, const char *method, const char *path,
                const char *header)
{
    const char *const headers[] = {header, NULL};
    struct rest_answer answer = rest_ask(rest, method, path, headers, NULL, 0);
    long found = answer.status;

    rest_answer_free(&answer);
    return found;
}

static struct rest *start_local(bool tokens)
{
    char listen[96];
    const struct rest_options options = {
        .listen = listen, .token_file = tokens ? token_path : NULL};

    (void)snprintf(listen, sizeof(listen), "unix:%s", socket_path);
    write_token();
    return rest_start(&options);
}

static void test_socket_knows_its_user(void **state)
{
    struct rest *rest = start_local(true);
    struct stat info;

    (void)state;
    assert_int_equal(stat(socket_path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0660);
    assert_int_equal(ask(rest, "POST", "/v1/pod:reset", NULL), 202);
    // A token that is shown counts instead.
    assert_int_equal(ask(rest, "POST", "/v1/pod:reset", READ), 403);
    rest_stop(rest);
    assert_int_not_equal(stat(socket_path, &info), 0);
}

// Of the calling thread alone, which the library's function would not do.
static void become(uid_t user)
{
    assert_int_equal(syscall(SYS_setresuid, -1, user, -1), 0);
}

// The status of a request that another user sends.
static long ask_as_nobody(const char *header)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char request[256];
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s",
                   socket_path);
    become(65534);
    int failed =
        connect(fd, (const struct sockaddr *)&address, sizeof(address));
    become(0);
    assert_int_equal(failed, 0);
    (void)snprintf(request, sizeof(request),
                   "GET /v1 HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n", header);
    assert_true(client_puts(fd, request));
    struct client_answer answer = client_read(fd, false);
    long found = answer.status;
    client_answer_free(&answer);
    (void)close(fd);
    return found;
}

static void test_socket_refuses_other_users(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip(); // only root can be somebody else
    for (int tokens = 0; tokens < 2; tokens++) {
        struct rest *rest = start_local(tokens == 1);
        assert_int_equal(chmod(folder, 0755), 0);
        assert_int_equal(chmod(socket_path, 0666), 0);
        assert_int_equal(ask_as_nobody("A: b"), tokens == 1 ? 401 : 403);
        assert_int_equal(ask_as_nobody("Authorization: Bearer no"), 401);
        rest_stop(rest);
        (void)unlink(socket_path);
    }
}

static enum pod_code try_local(const char *listen, struct pod_err *err)
{
    const struct api_server_options options = {.listen = listen};
    struct api_server *server = NULL;
    enum pod_code code = api_server_new(&options, &server, err);

    api_server_free(server);
    return code;
}

static void test_socket_files(void **state)
{
    struct rest *rest = start_local(false);
    struct pod_err err;
    char listen[200];

    (void)state;
    (void)snprintf(listen, sizeof(listen), "unix:%s", socket_path);
    assert_int_equal(try_local(listen, &err), POD_UNAVAILABLE);
    assert_non_null(strstr(err.text, "in use"));
    assert_int_equal(ask(rest, "GET", "/v1", NULL), 200);
    rest_stop(rest);
    // What a killed process left behind is replaced; what is no socket is not.
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s",
                   socket_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(
        bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    (void)close(fd);
    assert_int_equal(try_local(listen, &err), POD_OK);
    (void)snprintf(listen, sizeof(listen), "unix:%s", token_path);
    assert_int_equal(try_local(listen, &err), POD_UNAVAILABLE);
    assert_int_equal(access(token_path, F_OK), 0);
    assert_int_equal(try_local("unix:", &err), POD_INVALID_ARGUMENT);
    memset(listen + 5, 'a', 108);
    listen[113] = '\0';
    assert_int_equal(try_local(listen, &err), POD_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_socket_knows_its_user),
        cmocka_unit_test(test_socket_refuses_other_users),
        cmocka_unit_test(test_socket_files),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
