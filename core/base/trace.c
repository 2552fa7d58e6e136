// SPDX-License-Identifier: Apache-2.0
#include "core/base/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"

// traceparent = version "-" trace-id "-" parent-id "-" flags
enum {
    TRACE_AT = 3,
    TRACE_PARENT_AT = 36,
    TRACE_FLAGS_AT = 53,
    TRACE_LENGTH = 55,
};

// ------------------------------------------------------------------- reading

static int trace_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// `count` lower-case hex digits, not all of them 0 unless `may_be_zero`.
static bool trace_hex(const char *text, size_t count, bool may_be_zero)
{
    bool zero = true;

    for (size_t i = 0; i < count; i++) {
        int digit = trace_digit(text[i]);
        if (digit < 0)
            return false;
        zero = zero && digit == 0;
    }
    return may_be_zero || !zero;
}

static int trace_byte(const char *text)
{
    return trace_digit(text[0]) * 16 + trace_digit(text[1]);
}

// Later versions may add fields behind a dash; of the version 00 there are no
// more, and ff is none.
static bool trace_parent_fit(const char *text)
{
    size_t length = strlen(text);

    if (length < TRACE_LENGTH || !trace_hex(text, 2, true) ||
        trace_byte(text) == 0xFF)
        return false;
    if (length > TRACE_LENGTH &&
        (trace_byte(text) == 0 || text[TRACE_LENGTH] != '-'))
        return false;
    return text[TRACE_AT - 1] == '-' && text[TRACE_PARENT_AT - 1] == '-' &&
           text[TRACE_FLAGS_AT - 1] == '-' &&
           trace_hex(text + TRACE_AT, POD_TRACE_ID_BYTES - 1, false) &&
           trace_hex(text + TRACE_PARENT_AT, POD_SPAN_ID_BYTES - 1, false) &&
           trace_hex(text + TRACE_FLAGS_AT, 2, true);
}

bool pod_request_id_fit(const char *text)
{
    static const char fit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "abcdefghijklmnopqrstuvwxyz"
                              "0123456789._-";
    size_t length = strspn(text, fit);

    return length > 0 && length < POD_REQUEST_ID_BYTES && text[length] == '\0';
}

struct pod_trace *pod_trace_new(const char *request_id, const char *traceparent)
{
    struct pod_trace *trace = pod_calloc(1, sizeof(*trace));

    if (trace == NULL)
        return NULL;
    atomic_init(&trace->refs, 1);
    if (request_id != NULL && pod_request_id_fit(request_id))
        memcpy(trace->request_id, request_id, strlen(request_id) + 1);
    if (traceparent != NULL && trace_parent_fit(traceparent)) {
        memcpy(trace->trace_id, traceparent + TRACE_AT, POD_TRACE_ID_BYTES - 1);
        memcpy(trace->parent_id, traceparent + TRACE_PARENT_AT,
               POD_SPAN_ID_BYTES - 1);
        trace->flags = (uint8_t)trace_byte(traceparent + TRACE_FLAGS_AT);
    }
    return trace;
}

struct pod_trace *pod_trace_ref(struct pod_trace *trace)
{
    if (trace != NULL)
        (void)atomic_fetch_add_explicit(&trace->refs, 1, memory_order_relaxed);
    return trace;
}

void pod_trace_unref(struct pod_trace *trace)
{
    if (trace != NULL && atomic_fetch_sub(&trace->refs, 1) == 1)
        pod_free(trace);
}

// ------------------------------------------------------------------- writing

void pod_span_id_print(uint64_t span, char out_text[POD_SPAN_ID_BYTES])
{
    (void)snprintf(out_text, POD_SPAN_ID_BYTES, "%016" PRIx64, span);
}

void pod_trace_print(const struct pod_trace *trace,
                     char out_text[POD_TRACEPARENT_BYTES])
{
    out_text[0] = '\0';
    if (trace->trace_id[0] != '\0')
        (void)snprintf(out_text, POD_TRACEPARENT_BYTES, "00-%s-%s-%02x",
                       trace->trace_id, trace->parent_id, trace->flags);
}
