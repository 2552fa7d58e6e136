// SPDX-License-Identifier: Apache-2.0
// One line per event, as key=value pairs or as JSON, to stderr.
#ifndef POD_BASE_LOG_H
#define POD_BASE_LOG_H

enum pod_log_level {
    POD_LOG_ERROR,
    POD_LOG_WARN,
    POD_LOG_INFO,
    POD_LOG_DEBUG,
};

enum pod_log_format { POD_LOG_TEXT, POD_LOG_JSON };

// Before any thread starts. Default: text, info.
void pod_log_setup(enum pod_log_level level, enum pod_log_format format);

// `subject` is what it is about ("host 3", "http"), the text says what
// happened, lower case, cause after a colon. Thread-safe; never under the
// engine's lock above debug.
void pod_log(enum pod_log_level level, const char *subject, const char *format,
             ...) __attribute__((format(printf, 3, 4)));

#endif
