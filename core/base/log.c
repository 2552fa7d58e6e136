// SPDX-License-Identifier: Apache-2.0
// A line is built in a buffer of fixed size and leaves with one write, so
// lines of several threads do not mix and logging allocates nothing.
#include "core/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/lock.h"
#include "core/base/str.h"

enum {
    LOG_TEXT_BYTES = 576,  // of a note's message, before escapes
    LOG_ESCAPE_BYTES = 6,  // the longest escape of one byte
    LOG_LINE_BYTES = 4096, // what a pipe takes in one piece
    LOG_END_BYTES = 3,     // quote, brace, newline
};

static struct {
    enum pod_log_level level;
    enum pod_log_format format;
} log_config = {POD_LOG_INFO, POD_LOG_TEXT};

// Its turn: who holds it asks whether a pipe has room, then writes.
static struct {
    struct pod_mutex lock;
    uint64_t lost; // lines, since the last that could be written
    uint64_t lost_ever;
    bool torn; // the last one was written in part
} log_out = {.lock = {.os = PTHREAD_MUTEX_INITIALIZER,
                      .rank = POD_RANK_LOG,
                      .name = "log"}};

struct log_line {
    char bytes[LOG_LINE_BYTES];
    size_t length;
};

static const char *log_event_name(enum pod_log_event event)
{
    static const char *const names[] = {
#define X(name, text) text,
        POD_LOG_EVENTS(X)
#undef X
    };
    return names[event];
}

static const char *log_key_name(enum pod_log_key key)
{
    static const char *const names[] = {
#define X(name, text) text,
        POD_LOG_KEYS(X)
#undef X
    };
    return names[key];
}

static const char *log_level_name(enum pod_log_level level)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};

    return names[level];
}

void pod_log_setup(enum pod_log_level level, enum pod_log_format format)
{
    log_config.level = level;
    log_config.format = format;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", O_RDWR); // the lowest that is free: fd
    }
}

bool pod_log_wants(enum pod_log_level level)
{
    return level <= log_config.level;
}

// -------------------------------------------------------------------- the line

// What still fits, the line's end not counted.
static size_t log_room(const struct log_line *line)
{
    size_t used = line->length + LOG_END_BYTES;

    return used < LOG_LINE_BYTES ? LOG_LINE_BYTES - used : 0;
}

// The caller knows that it fits.
static void log_put(struct log_line *line, const char *bytes, size_t length)
{
    memcpy(line->bytes + line->length, bytes, length);
    line->length += length;
}

static void log_puts(struct log_line *line, const char *text)
{
    log_put(line, text, strlen(text));
}

// What is put in place of the `size` bytes of one character, or NULL: as it
// is. Besides what JSON wants, control characters beyond ASCII are escaped,
// for terminals obey them.
static const char *log_escape(const unsigned char *at, size_t size, char *room)
{
    if (size == 0)
        return "?";
    if (size == 1 && (*at == '"' || *at == '\\'))
        (void)snprintf(room, LOG_ESCAPE_BYTES + 1, "\\%c", *at);
    else if (size == 1 && (*at < 0x20 || *at == 0x7F))
        (void)snprintf(room, LOG_ESCAPE_BYTES + 1, "\\u%04x", *at);
    else if (size == 2 && at[0] == 0xC2 && at[1] < 0xA0)
        (void)snprintf(room, LOG_ESCAPE_BYTES + 1, "\\u%04x", at[1]);
    else
        return NULL;
    return room;
}

// The size of the character at `at` if it is UTF-8, else 0.
static size_t log_character(const char *at, size_t length)
{
    enum { LOG_CHARACTER_BYTES = 4 };
    size_t most = length < LOG_CHARACTER_BYTES ? length : LOG_CHARACTER_BYTES;

    if ((unsigned char)*at < 0x80)
        return 1;
    for (size_t size = 2; size <= most; size++) {
        if (pod_utf8_valid(at, size))
            return size;
    }
    return 0;
}

// Puts as much of the text as fits, character by character.
static void log_escaped(struct log_line *line, const char *text, size_t length)
{
    char room[LOG_ESCAPE_BYTES + 1];

    for (size_t i = 0; i < length;) {
        size_t size = log_character(text + i, length - i);
        const char *put =
            log_escape((const unsigned char *)text + i, size, room);
        size_t bytes = put != NULL ? strlen(put) : size;
        if (bytes > log_room(line))
            return;
        log_put(line, put != NULL ? put : text + i, bytes);
        i += size > 0 ? size : 1;
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

static void log_begin(struct log_line *line, enum pod_log_level level,
                      enum pod_log_event event)
{
    bool json = log_config.format == POD_LOG_JSON;

    line->length = 0;
    log_puts(line, json ? "{\"time\":\"" : "");
    log_time(line);
    log_puts(line, json ? "\",\"level\":\"" : " level=");
    log_puts(line, log_level_name(level));
    log_puts(line, json ? "\",\"event\":\"" : " event=");
    log_puts(line, log_event_name(event));
    log_puts(line, json ? "\"" : "");
}

// Numbers are 64 bits, and so strings in JSON only where ids are; a reader of
// logs adds up and compares them.
static void log_field(struct log_line *line, const struct pod_log_field *field)
{
    enum { LOG_FIELD_BYTES = 64 }; // of all but a text that can be cut
    bool json = log_config.format == POD_LOG_JSON;
    bool quoted = field->kind == POD_LOG_KIND_STRING ||
                  (json && field->kind == POD_LOG_KIND_ID);
    char number[32];

    if (field->kind == POD_LOG_KIND_NONE || log_room(line) < LOG_FIELD_BYTES)
        return;
    log_puts(line, json ? ",\"" : " ");
    log_puts(line, log_key_name(field->key));
    log_puts(line, json ? "\":" : "=");
    log_puts(line, quoted ? "\"" : "");
    if (field->kind == POD_LOG_KIND_STRING)
        log_escaped(line, field->text, strlen(field->text));
    else if (field->kind == POD_LOG_KIND_TRUE)
        log_puts(line, "true");
    else {
        (void)snprintf(number, sizeof number, "%s%s%lld",
                       field->kind == POD_LOG_KIND_ID ? field->text : "",
                       field->kind == POD_LOG_KIND_ID ? "-" : "",
                       (long long)field->number);
        log_puts(line, number);
    }
    log_puts(line, quoted ? "\"" : "");
}

static void log_end(struct log_line *line)
{
    log_puts(line, log_config.format == POD_LOG_JSON ? "}\n" : "\n");
}

// ------------------------------------------------------------------- writing

// Whether stderr takes a line now. A file always does.
static bool log_ready(void)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};

    return poll(&out, 1, 0) != 0 && (out.revents & POLLOUT) != 0;
}

static bool log_write_locked(const struct log_line *line)
{
    if (!log_ready() || (log_out.torn && write(STDERR_FILENO, "\n", 1) != 1))
        return false;
    ssize_t written = write(STDERR_FILENO, line->bytes, line->length);
    log_out.torn = written > 0 && (size_t)written < line->length;
    return written == (ssize_t)line->length;
}

// Tells how many lines are missing before the one that follows.
static bool log_tell_lost_locked(void)
{
    struct log_line line;
    struct pod_log_field lost =
        pod_log_number(POD_LOG_KEY_COUNT, (int64_t)log_out.lost);

    if (log_out.lost == 0)
        return true;
    log_begin(&line, POD_LOG_WARN, POD_LOG_EVENT_LOST);
    log_field(&line, &lost);
    log_end(&line);
    if (!log_write_locked(&line))
        return false;
    log_out.lost = 0;
    return true;
}

void pod_log_event(enum pod_log_level level, enum pod_log_event event,
                   const struct pod_log_field *fields, size_t count)
{
    struct log_line line;

    if (!pod_log_wants(level))
        return;
    log_begin(&line, level, event);
    for (size_t i = 0; i < count; i++)
        log_field(&line, &fields[i]);
    log_end(&line);
    pod_mutex_lock(&log_out.lock);
    if (!log_tell_lost_locked() || !log_write_locked(&line)) {
        log_out.lost++;
        log_out.lost_ever++;
    }
    pod_mutex_unlock(&log_out.lock);
}

uint64_t pod_log_lost(void)
{
    pod_mutex_lock(&log_out.lock);
    uint64_t lost = log_out.lost_ever;
    pod_mutex_unlock(&log_out.lock);
    return lost;
}

void pod_log(enum pod_log_level level, const char *subject, const char *format,
             ...)
{
    // Longer than the limit by a character, so that the cut sees its edge.
    char text[LOG_TEXT_BYTES + 4];
    va_list args;

    if (!pod_log_wants(level))
        return;
    va_start(args, format);
    int result = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (result < 0)
        return;
    text[pod_utf8_clip(text, strnlen(text, sizeof text), LOG_TEXT_BYTES)] =
        '\0';
    const struct pod_log_field fields[] = {
        pod_log_text(POD_LOG_KEY_SUBJECT, subject),
        pod_log_text(POD_LOG_KEY_MSG, text),
    };
    pod_log_event(level, POD_LOG_EVENT_NOTE, fields, 2);
}
