// SPDX-License-Identifier: Apache-2.0
// One line per event, as key=value pairs or as JSON, to stderr.
//
// A line has a time, a level, the name of the event and its fields; names and
// keys are closed sets, listed here and explained in server/README.md. Text of
// any kind is safe in either format: quotes, control characters and what is
// not UTF-8 are escaped, and what is too long is cut.
//
// Logging never blocks for long and never fails: a line that cannot be written
// at once (a full disk, a pipe nobody reads) is dropped, and the next one that
// can be is preceded by an event log_lost with their number.
#ifndef POD_BASE_LOG_H
#define POD_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pod_log_level {
    POD_LOG_ERROR,
    POD_LOG_WARN,
    POD_LOG_INFO,
    POD_LOG_DEBUG,
};

enum pod_log_format { POD_LOG_TEXT, POD_LOG_JSON };

#define POD_LOG_EVENTS(X)                                                      \
    X(NOTE, "note")                                                            \
    X(LOST, "log_lost")                                                        \
    X(START, "start")                                                          \
    X(LISTENING, "listening")                                                  \
    X(DRAIN, "drain")                                                          \
    X(STOP, "stop")                                                            \
    X(REQUEST, "request")                                                      \
    X(OPERATION, "operation")                                                  \
    X(STALLED, "stalled")                                                      \
    X(STALL_OVER, "stall_over")                                                \
    X(HOST, "host")                                                            \
    X(CLIENT, "client")

enum pod_log_event {
#define X(name, text) POD_LOG_EVENT_##name,
    POD_LOG_EVENTS(X)
#undef X
        POD_LOG_EVENTS_END
};

#define POD_LOG_KEYS(X)                                                        \
    X(SUBJECT, "subject")                                                      \
    X(MSG, "msg")                                                              \
    X(COUNT, "count")                                                          \
    X(REQUEST_ID, "request_id")                                                \
    X(TRACE_ID, "trace_id")                                                    \
    X(SPAN_ID, "span_id")                                                      \
    X(PARENT_ID, "parent_id")                                                  \
    X(METHOD, "method")                                                        \
    X(ROUTE, "route")                                                          \
    X(TARGET, "target")                                                        \
    X(STATUS, "status")                                                        \
    X(BYTES, "bytes")                                                          \
    X(DURATION_US, "duration_us")                                              \
    X(PEER, "peer")                                                            \
    X(TOKEN, "token")                                                          \
    X(SCOPE, "scope")                                                          \
    X(AUDIT, "audit")                                                          \
    X(ABORTED, "aborted")                                                      \
    X(OPERATION, "operation")                                                  \
    X(KIND, "kind")                                                            \
    X(STATE, "state")                                                          \
    X(CODE, "code")                                                            \
    X(REASON, "reason")                                                        \
    X(DETAIL, "detail")                                                        \
    X(ROOT_CAUSE, "root_cause")                                                \
    X(HOST, "host")                                                            \
    X(CORE, "core")                                                            \
    X(GRAPH, "graph")                                                          \
    X(ADDRESS, "address")                                                      \
    X(PROGRAM, "program")                                                      \
    X(VERSION, "version")                                                      \
    X(CONFIG, "config")                                                        \
    X(SESSION, "session")                                                      \
    X(NUMBER, "number")

enum pod_log_key {
#define X(name, text) POD_LOG_KEY_##name,
    POD_LOG_KEYS(X)
#undef X
        POD_LOG_KEYS_END
};

enum pod_log_kind {
    POD_LOG_KIND_NONE, // left out
    POD_LOG_KIND_STRING,
    POD_LOG_KIND_NUMBER,
    POD_LOG_KIND_TRUE,
    POD_LOG_KIND_ID, // the text, a dash, the number: "op-17"
};

// One field of a line. Texts are borrowed for the call.
struct pod_log_field {
    enum pod_log_key key;
    enum pod_log_kind kind;
    const char *text;
    int64_t number;
};

// NULL and "" leave the field out.
static inline struct pod_log_field pod_log_text(enum pod_log_key key,
                                                const char *text)
{
    return (struct pod_log_field){.key = key,
                                  .kind = text == NULL || text[0] == '\0'
                                              ? POD_LOG_KIND_NONE
                                              : POD_LOG_KIND_STRING,
                                  .text = text};
}

static inline struct pod_log_field pod_log_number(enum pod_log_key key,
                                                  int64_t number)
{
    return (struct pod_log_field){
        .key = key, .kind = POD_LOG_KIND_NUMBER, .number = number};
}

// Present, and true; or absent.
static inline struct pod_log_field pod_log_flag(enum pod_log_key key, bool set)
{
    return (struct pod_log_field){
        .key = key, .kind = set ? POD_LOG_KIND_TRUE : POD_LOG_KIND_NONE};
}

// "op-17"; the number 0 leaves the field out.
static inline struct pod_log_field
pod_log_id(enum pod_log_key key, const char *prefix, uint64_t number)
{
    return (struct pod_log_field){.key = key,
                                  .kind = number == 0 ? POD_LOG_KIND_NONE
                                                      : POD_LOG_KIND_ID,
                                  .text = prefix,
                                  .number = (int64_t)number};
}

// Before any thread starts. Default: text, info. Descriptors 0 to 2 that are
// closed are opened on /dev/null, so that no line ends up in a socket or a file
// that got the number of stderr.
void pod_log_setup(enum pod_log_level level, enum pod_log_format format);

// Whether lines of this level are written, for callers whose fields are costly
// to make.
bool pod_log_wants(enum pod_log_level level);

// Writes a line. Thread-safe; allocates nothing. Never called under the
// engine's lock, because it does I/O.
void pod_log_event(enum pod_log_level level, enum pod_log_event event,
                   const struct pod_log_field *fields, size_t count);

// How many lines could not be written so far. Thread-safe.
uint64_t pod_log_lost(void);

// A line in words, the event "note": `subject` is what it is about ("http"),
// the text says what happened, lower case, cause after a colon. As
// pod_log_event.
void pod_log(enum pod_log_level level, const char *subject, const char *format,
             ...) __attribute__((format(printf, 3, 4)));

#endif
