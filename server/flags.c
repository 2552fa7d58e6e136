// SPDX-License-Identifier: Apache-2.0
#include "server/flags.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/str.h"

enum {
    // What fits a socket's address, with its end.
    FLAGS_MAX_PATH = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1,
    FLAGS_MAX_PEM = 1 << 20,
};

enum pod_code flags_check_listen(const char *listen, struct pod_err *err)
{
    const char *colon = strrchr(listen, ':');
    uint64_t port = 0;
    if (strncmp(listen, "unix:", 5) == 0 && listen[5] != '\0' &&
        strlen(listen + 5) <= FLAGS_MAX_PATH)
        return POD_OK;
    if (colon != NULL && colon != listen &&
        (strcmp(colon, ":0") == 0 ||
         (pod_parse_number(colon + 1, strlen(colon + 1), &port) &&
          port <= 65535)))
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                       "expected ADDRESS:PORT with a port of 0 to 65535, or "
                       "unix:PATH of at most %d bytes",
                       FLAGS_MAX_PATH);
}

bool flags_is_loopback(const char *address)
{
    struct in_addr ip;
    char host[INET_ADDRSTRLEN];
    const char *colon = strrchr(address, ':');
    size_t length = colon != NULL ? (size_t)(colon - address) : 0;
    if (strncmp(address, "unix:", 5) == 0 ||
        strncmp(address, "localhost:", 10) == 0 ||
        strncmp(address, "[::1]:", 6) == 0)
        return true;
    if (length == 0 || length >= sizeof(host))
        return false;
    memcpy(host, address, length);
    host[length] = '\0';
    return inet_pton(AF_INET, host, &ip) == 1 && ntohl(ip.s_addr) >> 24 == 127;
}

static enum pod_code flags_read_open(FILE *file, char **out_text,
                                     struct pod_err *err)
{
    char *text = pod_malloc(FLAGS_MAX_PEM + 1);

    if (text == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    errno = 0;
    size_t length = fread(text, 1, FLAGS_MAX_PEM + 1, file);
    const char *fault = ferror(file)             ? strerror(errno)
                        : length == 0            ? "is empty"
                        : length > FLAGS_MAX_PEM ? "is longer than 1 MiB"
                                                 : NULL;
    if (fault != NULL) {
        pod_free(text);
        return pod_err_set(err, POD_REASON_BAD_PARAMETER, "%s", fault);
    }
    text[length] = '\0';
    *out_text = text;
    return POD_OK;
}

enum pod_code flags_read_pem(const char *flag, const char *path,
                             char **out_text, struct pod_err *err)
{
    if (path == NULL) {
        *out_text = NULL;
        return POD_OK;
    }
    FILE *file = fopen(path, "re");
    enum pod_code code =
        file != NULL
            ? flags_read_open(file, out_text, err)
            : pod_err_set(err, POD_REASON_BAD_PARAMETER, "%s", strerror(errno));
    if (code != POD_OK)
        pod_err_wrap(err, "%s '%s'", flag, path);
    if (file != NULL)
        (void)fclose(file);
    return code;
}

enum pod_code flags_check_log_format(const char *format, struct pod_err *err)
{
    if (strcmp(format, "text") == 0 || strcmp(format, "json") == 0)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_PARAMETER, "expected text or json");
}

static bool flags_find_level(const char *name, enum pod_log_level *out_level)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (int i = POD_LOG_ERROR; i <= POD_LOG_DEBUG; i++) {
        *out_level = (enum pod_log_level)i;
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

enum pod_code flags_check_log_level(const char *level, struct pod_err *err)
{
    enum pod_log_level unused;
    if (flags_find_level(level, &unused))
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                       "expected error, warn, info or debug");
}

void flags_setup_log(const char *format, const char *level)
{
    enum pod_log_level found = POD_LOG_INFO;
    if (level != NULL && !flags_find_level(level, &found))
        found = POD_LOG_INFO;
    pod_log_setup(found, format != NULL && strcmp(format, "json") == 0
                             ? POD_LOG_JSON
                             : POD_LOG_TEXT);
}

void flags_log_start(const char *program, const char *version,
                     const char *config)
{
    const struct pod_log_field fields[] = {
        pod_log_text(POD_LOG_KEY_PROGRAM, program),
        pod_log_text(POD_LOG_KEY_VERSION, version),
        pod_log_text(POD_LOG_KEY_CONFIG, config),
    };

    pod_log_event(POD_LOG_INFO, POD_LOG_EVENT_START, fields, 3);
}

void flags_log_listening(const char *program, const char *address)
{
    const struct pod_log_field fields[] = {
        pod_log_text(POD_LOG_KEY_PROGRAM, program),
        pod_log_text(POD_LOG_KEY_ADDRESS, address),
    };

    pod_log_event(POD_LOG_INFO, POD_LOG_EVENT_LISTENING, fields, 2);
}

void flags_log_drain(const char *program)
{
    const struct pod_log_field field =
        pod_log_text(POD_LOG_KEY_PROGRAM, program);

    pod_log_event(POD_LOG_INFO, POD_LOG_EVENT_DRAIN, &field, 1);
}

void flags_log_stop(const char *program)
{
    const struct pod_log_field field =
        pod_log_text(POD_LOG_KEY_PROGRAM, program);

    pod_log_event(POD_LOG_INFO, POD_LOG_EVENT_STOP, &field, 1);
}
