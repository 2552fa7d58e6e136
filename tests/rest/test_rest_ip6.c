// SPDX-License-Identifier: Apache-2.0
// IPv6: where podd listens, and who counts as one caller.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/http_client.h"
#include "tests/lib/rest_pod.h"

#define GET "GET /v1 HTTP/1.1\r\nHost: localhost\r\n\r\n"

static bool there_is_ip6(void)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6,
                               .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool there =
        fd >= 0 && bind(fd, (const struct sockaddr *)&any, sizeof(any)) == 0;

    if (fd >= 0)
        (void)close(fd);
    if (!there)
        print_message("skipped: this machine has no IPv6\n");
    return there;
}

static int connect_to(unsigned port)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6,
                                   .sin6_addr = IN6ADDR_LOOPBACK_INIT,
                                   .sin6_port = htons((uint16_t)port)};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(
        connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static int status_of(int fd, const char *request)
{
    assert_true(client_puts(fd, request));
    struct client_answer answer = client_read(fd, false);
    int status = answer.status;
    client_answer_free(&answer);
    return status;
}

static void test_loopback(void **state)
{
    (void)state;
    if (!there_is_ip6())
        skip();
    struct rest *rest = rest_start(&(struct rest_options){.listen = "[::1]:0"});
    unsigned port = api_server_port(rest_server(rest));
    char text[128];

    (void)snprintf(text, sizeof(text), "[::1]:%u", port);
    assert_string_equal(api_server_address(rest_server(rest)), text);
    int fd = connect_to(port);
    assert_int_equal(status_of(fd, GET), 200);
    (void)snprintf(text, sizeof(text),
                   "GET /v1 HTTP/1.1\r\nHost: [::1]:%u\r\n\r\n", port);
    assert_int_equal(status_of(fd, text), 200);
    (void)close(fd);
    rest_stop(rest);
}

// Two connections an address: a third is refused.
static void test_callers(void **state)
{
    enum { EACH = 2 };
    int fds[EACH + 1];

    (void)state;
    if (!there_is_ip6())
        skip();
    struct rest *rest = rest_start(&(struct rest_options){
        .listen = "[::]:0", .limits = {.connections_per_address = EACH}});
    unsigned port = api_server_port(rest_server(rest));
    for (size_t i = 0; i <= EACH; i++) {
        fds[i] = connect_to(port);
        assert_int_equal(status_of(fds[i], GET), i < EACH ? 200 : 503);
    }
    for (size_t i = 0; i <= EACH; i++)
        (void)close(fds[i]);
    rest_stop(rest);
}

// IPv4 is another socket's: it has the same port, and its own callers.
static void test_ip4_is_apart(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t size = sizeof(address);
    char listen_at[32];

    (void)state;
    if (!there_is_ip6())
        skip();
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size),
                     0);
    unsigned port = ntohs(address.sin_port);
    (void)snprintf(listen_at, sizeof(listen_at), "[::]:%u", port);
    struct rest *rest = rest_start(&(struct rest_options){.listen = listen_at});
    int client = client_connect(port);
    int served = accept(listener, NULL, NULL);
    assert_true(served >= 0);
    int fd = connect_to(port);
    assert_int_equal(status_of(fd, GET), 200);
    (void)close(fd);
    (void)close(served);
    (void)close(client);
    (void)close(listener);
    rest_stop(rest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loopback),
        cmocka_unit_test(test_callers),
        cmocka_unit_test(test_ip4_is_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
