// SPDX-License-Identifier: Apache-2.0
// The arguments of a slice of a trace, which describe its operation.
#ifndef POD_API_TRACE_ARGS_H
#define POD_API_TRACE_ARGS_H

#include <jansson.h>

#include "api/trace_spans.h"
#include "core/pod/pod.h"

// The name of a slice: the operation's own, else its kind, to which executions
// add what they run. A new string, NULL: no memory.
json_t *trace_args_name(const struct pod_event_view *view,
                        const struct trace_span *span);
// The `args` of a slice, by the names that they have in an event. Of a gang
// they are those of the span's core. A view of an operation that is not kept
// any more is all zero. A new object, NULL: no memory.
json_t *trace_args(const struct pod_event_view *view,
                   const struct trace_span *span);

#endif
