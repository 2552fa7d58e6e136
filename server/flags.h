// SPDX-License-Identifier: Apache-2.0
// What flags of the same name mean in both programs.
#ifndef POD_SERVER_FLAGS_H
#define POD_SERVER_FLAGS_H

#include <stdbool.h>

#include "core/base/err.h"

// ADDRESS:PORT with a port of 0 to 65535, or unix:PATH. BAD_PARAMETER.
enum pod_code flags_check_listen(const char *listen, struct pod_err *err)
    __attribute__((warn_unused_result));
// Whether an address with its port is this machine's alone: unix:PATH,
// localhost, [::1], or one of 127.0.0.0/8 as four numbers (a name such as
// 127.example.org may be anybody's, and so may 127.1).
bool flags_is_loopback(const char *address);

// Reads a PEM file, of at most 1 MiB, that a flag names; free the text with
// pod_free. No path: no text. BAD_PARAMETER names the flag and the file;
// OUT_OF_MEMORY.
enum pod_code flags_read_pem(const char *flag, const char *path,
                             char **out_text, struct pod_err *err)
    __attribute__((warn_unused_result));

// text or json; error, warn, info or debug. BAD_PARAMETER.
enum pod_code flags_check_log_format(const char *format, struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code flags_check_log_level(const char *level, struct pod_err *err)
    __attribute__((warn_unused_result));
// Sets the log up with checked values; NULL: text, info.
void flags_setup_log(const char *format, const char *level);

// The lines of the log that mark the life of a program.

// It starts, with these settings.
void flags_log_start(const char *program, const char *version,
                     const char *config);
void flags_log_listening(const char *program, const char *address);
// It takes no new work any more.
void flags_log_drain(const char *program);
// It ends in order; what comes after is not told.
void flags_log_stop(const char *program);

#endif
