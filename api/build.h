// SPDX-License-Identifier: Apache-2.0
// Building JSON answers, with setters that remember a failure, so that the
// caller checks once, at the end.
#ifndef POD_API_BUILD_H
#define POD_API_BUILD_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/pod/pod.h"

// An object or an array that grows.
struct api_build {
    json_t *json;
    bool failed;
};

struct api_build api_build_object(void);
struct api_build api_build_array(void);
// The result, or NULL if anything failed (then it is freed).
json_t *api_build_take(struct api_build *build);

// Keys are literals: plain ASCII. api_set takes the value over; NULL fails.
void api_set(struct api_build *build, const char *key, json_t *owned_value);
void api_set_bool(struct api_build *build, const char *key, bool value);
// For small bounded numbers.
void api_set_number(struct api_build *build, const char *key, int64_t value);
// For 64-bit quantities: a string of digits.
void api_set_u64(struct api_build *build, const char *key, uint64_t value);
// A name of ours: plain ASCII.
void api_set_word(struct api_build *build, const char *key, const char *word);
// Text of anybody, made valid UTF-8; NULL gives null.
void api_set_text(struct api_build *build, const char *key, const char *text);
// "buf-17"; number 0 gives null.
void api_set_id(struct api_build *build, const char *key,
                enum pod_ref_kind kind, uint64_t number);
// A list of ids.
void api_set_ids(struct api_build *build, const char *key,
                 enum pod_ref_kind kind, const uint64_t *numbers, size_t count);
// RFC 3339 in UTC with microseconds.
void api_set_time(struct api_build *build, const char *key, int64_t wall_ns);
// "0.000120s".
void api_set_duration(struct api_build *build, const char *key, int64_t ns);

void api_append(struct api_build *build, json_t *owned_value);
void api_append_id(struct api_build *build, enum pod_ref_kind kind,
                   uint64_t number);

enum { API_TIME_BYTES = 48 };
const char *api_time_print(int64_t wall_ns, char buffer[API_TIME_BYTES]);
// RFC 3339 with any offset and up to nine digits of fraction.
bool api_time_parse(const char *text, int64_t *out_wall_ns);

#endif
