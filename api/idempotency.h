// SPDX-License-Identifier: Apache-2.0
// The answers that were given to requests with an Idempotency-Key.
//
// A record is in flight from the moment its request reaches a handler, and
// done once there is an answer to give again. Done records are forgotten after
// their time, or when there are too many of them or they hold too many bytes,
// the oldest first; one in flight is never forgotten. Kept in memory: a new run
// knows no keys. Not thread-safe.
#ifndef POD_API_IDEMPOTENCY_H
#define POD_API_IDEMPOTENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/blob.h"
#include "core/base/list.h"

// Bytes of a SHA-256.
enum { API_KEY_DIGEST_BYTES = 32 };

// Zero takes the default in brackets.
struct api_answers_limits {
    size_t count;   // done records [100,000]
    size_t bytes;   // what they hold in all [256 MiB]
    int64_t age_ns; // [24 h]
};

// The status of an answer that was given, but could not be kept.
enum { API_ANSWER_LOST = -1 };

struct api_answer_header {
    const char *name;
    const char *value;
};

struct api_answer {
    struct pod_list link; // among the done ones, oldest first
    uint64_t key;
    uint8_t head[API_KEY_DIGEST_BYTES]; // of all that is not the body
    uint8_t body[API_KEY_DIGEST_BYTES];
    uint64_t body_bytes;     // the caller's
    struct pod_list waiters; // equal requests; the list is the caller's
    bool done;
    int64_t done_ns;
    // The answer; status 0: none yet, API_ANSWER_LOST: none any more.
    int status;
    struct pod_blob *content; // NULL: an answer without a body
    size_t header_count;
    struct api_answer_header *headers; // one block with their text
    size_t bytes;                      // all that the record holds
};

struct api_answers;

// NULL: no memory. `limits` may be NULL.
struct api_answers *api_answers_new(const struct api_answers_limits *limits);
// NULL is allowed.
void api_answers_free(struct api_answers *answers);

// The record of a name, or NULL. A name is a digest of the key, its scope and a
// secret of this run, so that nobody can search for two keys with the same
// name.
struct api_answer *api_answers_find(struct api_answers *answers,
                                    const uint8_t name[API_KEY_DIGEST_BYTES],
                                    int64_t now_ns);
// Makes a record in flight for a name that has none; NULL: no memory.
struct api_answer *api_answers_begin(struct api_answers *answers,
                                     const uint8_t name[API_KEY_DIGEST_BYTES],
                                     const uint8_t head[API_KEY_DIGEST_BYTES],
                                     const uint8_t body[API_KEY_DIGEST_BYTES]);
// Sets or replaces the answer of a record in flight; takes a reference to
// `content` and copies the headers. False: no memory, and the answer is as
// before.
bool api_answer_set(struct api_answer *answer, int status,
                    const struct api_answer_header *headers,
                    size_t header_count, struct pod_blob *content);
// The record is done if it has an answer, else forgotten and freed.
void api_answers_end(struct api_answers *answers, struct api_answer *answer,
                     int64_t now_ns);

// How many are done.
size_t api_answers_count(const struct api_answers *answers);

#endif
