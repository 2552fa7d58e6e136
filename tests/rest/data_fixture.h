// SPDX-License-Identifier: Apache-2.0
// The bytes of buffers over HTTP: requests, and what is expected of answers.
#ifndef TESTS_REST_DATA_FIXTURE_H
#define TESTS_REST_DATA_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/rest_pod.h"

static const char octets[] = "Content-Type: application/octet-stream";
static const char npy[] = "Content-Type: application/x-npy";
static const char accept_json[] = "Accept: application/json";

// For cmocka: 4 MiB of staging.
static inline int data_setup(void **state)
{
    const struct rest_options options = {.pod = "local:2x1x1,hosts=2",
                                         .staging_bytes = 4 << 20};
    *state = rest_start(&options);
    return 0;
}

// The path of the data of a new buffer, in a static buffer.
static inline const char *make(struct rest *rest, const char *body)
{
    static char path[64];
    json_t *event = rest_submit(rest, "/v1/buffers", body);
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s/data",
                   rest_text(event, "buffer"));
    json_decref(event);
    return path;
}

static inline struct rest_answer put(struct rest *rest, const char *path,
                                     const char *type, const char *header,
                                     const void *body, size_t size)
{
    const char *headers[] = {type, header, NULL};
    return rest_ask(rest, "PUT", path, headers, body, size);
}

static inline struct rest_answer get(struct rest *rest, const char *path,
                                     const char *header, const char *second)
{
    const char *headers[] = {header, second, NULL};
    return rest_ask(rest, "GET", path, headers, NULL, 0);
}

static inline void is_bytes(struct rest_answer answer, long status,
                            const void *want, size_t size)
{
    if (answer.status != status)
        print_error("%s\n", answer.body);
    assert_int_equal(answer.status, status);
    assert_int_equal(answer.size, size);
    assert_memory_equal(answer.body, want, size);
    rest_answer_free(&answer);
}

static inline void is_text(struct rest_answer answer, const char *want)
{
    is_bytes(answer, 200, want, strlen(want));
}

#endif
