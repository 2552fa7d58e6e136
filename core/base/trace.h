// SPDX-License-Identifier: Apache-2.0
// Where work came from: the id of the request that asked for it and, if its
// client takes part in distributed tracing, the client's place in its trace as
// W3C Trace Context (level 1) writes it.
//
// One immutable object for each request, shared by everything that the request
// causes.
#ifndef POD_BASE_TRACE_H
#define POD_BASE_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    POD_REQUEST_ID_BYTES = 65, // with the NUL, as the rest
    POD_TRACE_ID_BYTES = 33,   // 32 lower-case hex digits
    POD_SPAN_ID_BYTES = 17,    // 16
    POD_TRACEPARENT_BYTES = 56,
};

struct pod_trace {
    atomic_long refs;
    char request_id[POD_REQUEST_ID_BYTES]; // "": none
    char trace_id[POD_TRACE_ID_BYTES];     // "": the client sent none
    char parent_id[POD_SPAN_ID_BYTES];     // the client's span; "" likewise
    uint8_t flags;                         // 1: sampled
};

// A new one with one reference. A request id that is not 1-64 characters of
// [A-Za-z0-9._-], and a malformed `traceparent`, are ignored as if they had not
// been sent; both may be NULL. Returns NULL when there is no memory.
struct pod_trace *pod_trace_new(const char *request_id,
                                const char *traceparent);
struct pod_trace *pod_trace_ref(struct pod_trace *trace); // NULL is allowed
void pod_trace_unref(struct pod_trace *trace);            // NULL is allowed

// Whether the text can be a request id.
bool pod_request_id_fit(const char *text);

// The id of a span, never 0, as 16 hex digits.
void pod_span_id_print(uint64_t span, char out_text[POD_SPAN_ID_BYTES]);

// The traceparent as it came, but as version 00; "" if there is none.
void pod_trace_print(const struct pod_trace *trace,
                     char out_text[POD_TRACEPARENT_BYTES]);

#endif
