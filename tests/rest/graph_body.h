// SPDX-License-Identifier: Apache-2.0
// Bodies of POST /v1/graphs.
#ifndef TESTS_REST_GRAPH_BODY_H
#define TESTS_REST_GRAPH_BODY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/str.h"

static const char *const ndjson[] = {"Content-Type: application/x-ndjson",
                                     NULL};
static const char *const json_headers[] = {"Content-Type: application/json",
                                           NULL};

// The operations as the body of a request: one a line, or in a JSON graph.
static inline char *body_of(const char *const *ops, bool lines)
{
    struct pod_str text = {0};

    if (!lines)
        pod_str_puts(&text, "{\"ops\":[");
    for (size_t i = 0; ops[i] != NULL; i++)
        pod_str_printf(&text, "%s%s", ops[i],
                       lines                ? "\n"
                       : ops[i + 1] != NULL ? ","
                                            : "]}");
    assert_false(text.failed);
    return text.data;
}

// Enough for the worker's thread, and more than one piece of a body.
static inline char *large_body(size_t count, bool lines)
{
    struct pod_str text = {0};

    if (!lines)
        pod_str_puts(&text, "{\"ops\":[");
    for (size_t i = 0; i < count; i++) {
        pod_str_printf(&text,
                       "{\"ref\":\"%zu\",\"op\":\"allocate\",\"core\":%zu,"
                       "\"bytes\":1",
                       i, i % 2);
        if (i > 0)
            pod_str_printf(&text, ",\"after\":[\"$%zu\"]", i - 1);
        pod_str_puts(&text, lines ? "}\n" : i + 1 < count ? "}," : "}]}");
    }
    assert_false(text.failed);
    return text.data;
}

#endif
