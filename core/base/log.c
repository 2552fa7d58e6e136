// SPDX-License-Identifier: Apache-2.0
// A line is built in a buffer of fixed size and leaves with one write, so
// lines of several threads do not mix and logging allocates nothing.
#include "core/base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/str.h"

enum {
    LOG_TEXT_BYTES = 576, // of the message, before escapes
    LOG_SUBJECT_BYTES = 64,
    LOG_ESCAPE_BYTES = 6,  // the longest escape of one byte
    LOG_FRAME_BYTES = 192, // more than all that is not subject or message
    LOG_LINE_BYTES = 4096, // what a pipe takes in one piece
};

_Static_assert((LOG_TEXT_BYTES + LOG_SUBJECT_BYTES) * LOG_ESCAPE_BYTES +
                       LOG_FRAME_BYTES <=
                   LOG_LINE_BYTES,
               "a line always fits its buffer");

static struct {
    enum pod_log_level level;
    enum pod_log_format format;
} log_config = {POD_LOG_INFO, POD_LOG_TEXT};

struct log_line {
    char bytes[LOG_LINE_BYTES];
    size_t length;
};

void pod_log_setup(enum pod_log_level level, enum pod_log_format format)
{
    log_config.level = level;
    log_config.format = format;
}

static const char *log_level_name(enum pod_log_level level)
{
    switch (level) {
    case POD_LOG_ERROR:
        return "error";
    case POD_LOG_WARN:
        return "warn";
    case POD_LOG_INFO:
        return "info";
    case POD_LOG_DEBUG:
        return "debug";
    }
    return "error";
}

static void log_puts(struct log_line *line, const char *text)
{
    size_t length = strlen(text);

    memcpy(line->bytes + line->length, text, length);
    line->length += length;
}

// Puts text between quotes. The escapes are those of JSON; bytes that are not
// UTF-8 become question marks, so that the line stays valid.
static void log_quoted(struct log_line *line, const char *text, size_t length)
{
    bool valid = pod_utf8_valid(text, length);

    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        char escape[LOG_ESCAPE_BYTES + 1];
        if (c == '"' || c == '\\')
            (void)snprintf(escape, sizeof escape, "\\%c", c);
        else if (c < 0x20 || c == 0x7F)
            (void)snprintf(escape, sizeof escape, "\\u%04x", c);
        else
            (void)snprintf(escape, sizeof escape, "%c",
                           c >= 0x80 && !valid ? '?' : c);
        log_puts(line, escape);
    }
}

// RFC 3339 in UTC with microseconds.
static void log_time(struct log_line *line)
{
    int64_t now = pod_clock_wall(&pod_clock_system);
    time_t seconds = (time_t)(now / POD_NS_PER_S);
    struct tm utc;
    char text[64];

    if (gmtime_r(&seconds, &utc) == NULL)
        return;
    size_t used = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(text + used, sizeof text - used, ".%06dZ",
                   (int)(now % POD_NS_PER_S / 1000));
    log_puts(line, text);
}

static void log_build(struct log_line *line, enum pod_log_level level,
                      const char *subject, const char *text, size_t length)
{
    bool json = log_config.format == POD_LOG_JSON;
    size_t subject_length =
        pod_utf8_clip(subject, strlen(subject), LOG_SUBJECT_BYTES);

    line->length = 0;
    log_puts(line, json ? "{\"time\":\"" : "");
    log_time(line);
    log_puts(line, json ? "\",\"level\":\"" : " level=");
    log_puts(line, log_level_name(level));
    log_puts(line, json ? "\",\"subject\":\"" : " subject=\"");
    log_quoted(line, subject, subject_length);
    log_puts(line, json ? "\",\"msg\":\"" : "\" msg=\"");
    log_quoted(line, text, length);
    log_puts(line, json ? "\"}\n" : "\"\n");
}

void pod_log(enum pod_log_level level, const char *subject, const char *format,
             ...)
{
    // Longer than the limit by a character, so that the cut sees its edge.
    char text[LOG_TEXT_BYTES + 4];
    struct log_line line;
    va_list args;

    if (level > log_config.level)
        return;
    va_start(args, format);
    int result = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (result < 0)
        return;
    size_t length = strnlen(text, sizeof text);
    log_build(&line, level, subject, text,
              pod_utf8_clip(text, length, LOG_TEXT_BYTES));
    // Nothing can be done about a log that cannot be written.
    ssize_t written = write(STDERR_FILENO, line.bytes, line.length);
    (void)written;
}
