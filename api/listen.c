// SPDX-License-Identifier: Apache-2.0
// The listening socket. It is ours and not libmicrohttpd's, so that the error
// about a port in use names the port.
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/http_internal.h"

enum { LISTEN_BACKLOG = 4096, LISTEN_SOCKET_MODE = 0660 };

static enum pod_code listen_bad(const char *listen, struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_BAD_VALUE,
                       "listen address \"%.128s\" is not HOST:PORT, "
                       "[IPV6]:PORT or unix:PATH",
                       listen);
}

// "[::1]:80" to "::1" and "80".
static enum pod_code listen_split(const char *listen, char *host,
                                  size_t host_bytes, const char **out_port,
                                  struct pod_err *err)
{
    const char *start = listen;
    const char *end = strrchr(listen, ':');
    const char *port = end != NULL ? end + 1 : NULL;

    if (port == NULL || *port == '\0' ||
        strspn(port, "0123456789") != strlen(port) ||
        strtol(port, NULL, 10) > UINT16_MAX)
        return listen_bad(listen, err);
    if (*start == '[') {
        if (end == start + 1 || end[-1] != ']')
            return listen_bad(listen, err);
        start++;
        end--;
    } else if (memchr(start, ':', (size_t)(end - start)) != NULL) {
        return listen_bad(listen, err);
    }
    size_t length = (size_t)(end - start);
    if (length == 0 || length >= host_bytes)
        return listen_bad(listen, err);
    memcpy(host, start, length);
    host[length] = '\0';
    *out_port = port;
    return POD_OK;
}

// Where the socket really listens, as text.
static void listen_print(int fd, char *out_address, size_t address_bytes,
                         unsigned *out_port)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof(address);
    char host[INET6_ADDRSTRLEN] = "";
    char port[8] = "0";

    if (getsockname(fd, (struct sockaddr *)&address, &size) == 0)
        (void)getnameinfo((struct sockaddr *)&address, size, host, sizeof(host),
                          port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
    bool v6 = strchr(host, ':') != NULL;
    (void)snprintf(out_address, address_bytes, "%s%s%s:%s", v6 ? "[" : "", host,
                   v6 ? "]" : "", port);
    *out_port = (unsigned)strtoul(port, NULL, 10);
}

static bool listen_bind(int fd, const struct addrinfo *info)
{
    int on = 1;

    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (info->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    return bind(fd, info->ai_addr, info->ai_addrlen) == 0 &&
           listen(fd, LISTEN_BACKLOG) == 0;
}

// ------------------------------------------------------------- Unix sockets

static enum pod_code listen_failed(const char *listen, int cause,
                                   struct pod_err *err)
{
    return pod_err_set_code(
        err, POD_UNAVAILABLE, POD_REASON_INTERNAL,
        "cannot listen on %.128s: %s%s", listen, strerror(cause),
        cause == EADDRINUSE ? "; take another with --listen" : "");
}

// Whether a socket file is left over from a process that ended.
static bool listen_is_stale(const struct sockaddr_un *address)
{
    struct stat info;
    bool stale = false;

    if (lstat(address->sun_path, &info) != 0 || !S_ISSOCK(info.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        stale = connect(fd, (const struct sockaddr *)address,
                        sizeof(*address)) != 0 &&
                errno == ECONNREFUSED;
        (void)close(fd);
    }
    return stale;
}

// Nobody can connect before `listen`, so the mode is set in time.
static bool listen_bind_local(int fd, const struct sockaddr_un *address)
{
    const struct sockaddr *any = (const struct sockaddr *)address;
    int failed = bind(fd, any, sizeof(*address));

    if (failed != 0 && errno == EADDRINUSE && listen_is_stale(address)) {
        (void)unlink(address->sun_path);
        failed = bind(fd, any, sizeof(*address));
    } else if (failed != 0 && errno != EADDRINUSE) {
        return false;
    }
    if (failed != 0) {
        errno = EADDRINUSE;
        return false;
    }
    return chmod(address->sun_path, LISTEN_SOCKET_MODE) == 0 &&
           listen(fd, LISTEN_BACKLOG) == 0;
}

static enum pod_code listen_local(const char *text, int *out_fd,
                                  struct pod_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = text + strlen("unix:");

    if (*path == '\0' || strlen(path) >= sizeof(address.sun_path))
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "listen address \"%.128s\": the path must have 1 "
                           "to %zu bytes",
                           text, sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && listen_bind_local(fd, &address)) {
        *out_fd = fd;
        return POD_OK;
    }
    int cause = errno;
    if (fd >= 0)
        (void)close(fd);
    return listen_failed(text, cause, err);
}

enum pod_code api_listen(const char *listen, int *out_fd, char *out_address,
                         size_t address_bytes, unsigned *out_port,
                         struct pod_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *info;
    char host[256];
    const char *port = "";

    if (strncmp(listen, "unix:", 5) == 0) {
        (void)snprintf(out_address, address_bytes, "%s", listen);
        *out_port = 0;
        return listen_local(listen, out_fd, err);
    }
    enum pod_code code = listen_split(listen, host, sizeof(host), &port, err);
    if (code != POD_OK)
        return code;
    int failure = getaddrinfo(host, port, &hints, &info);
    if (failure != 0)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "listen address \"%.128s\": %s", listen,
                           gai_strerror(failure));
    int fd =
        socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool bound = fd >= 0 && listen_bind(fd, info);
    int cause = errno;
    freeaddrinfo(info);
    if (!bound) {
        if (fd >= 0)
            (void)close(fd);
        return listen_failed(listen, cause, err);
    }
    listen_print(fd, out_address, address_bytes, out_port);
    *out_fd = fd;
    return POD_OK;
}
