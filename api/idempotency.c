// SPDX-License-Identifier: Apache-2.0
#include "api/idempotency.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/map.h"
#include "core/base/mem.h"

struct api_answers {
    struct api_answers_limits limits;
    struct pod_map map;
    struct pod_list done; // oldest first
    size_t count;         // of `done`
    size_t bytes;         // of `done`
};

// The map's key: 64 bits of the name are enough, for the name holds a secret;
// two names that meet all the same have different heads.
static uint64_t idempotency_key(const uint8_t *name)
{
    uint64_t key;

    memcpy(&key, name, sizeof(key));
    return key != 0 ? key : 1;
}

struct api_answers *api_answers_new(const struct api_answers_limits *limits)
{
    struct api_answers *answers = pod_calloc(1, sizeof(*answers));

    if (answers == NULL)
        return NULL;
    if (limits != NULL)
        answers->limits = *limits;
    if (answers->limits.count == 0)
        answers->limits.count = 100000;
    if (answers->limits.bytes == 0)
        answers->limits.bytes = (size_t)256 << 20;
    if (answers->limits.age_ns == 0)
        answers->limits.age_ns = 24 * 3600 * POD_NS_PER_S;
    pod_list_init(&answers->done);
    return answers;
}

static void idempotency_clear(struct api_answer *answer)
{
    pod_blob_unref(answer->content);
    pod_free(answer->headers);
    answer->content = NULL;
    answer->headers = NULL;
    answer->header_count = 0;
}

static void idempotency_forget(struct api_answers *answers,
                               struct api_answer *answer)
{
    (void)pod_map_remove(&answers->map, answer->key);
    if (answer->done) {
        pod_list_remove(&answer->link);
        answers->count--;
        answers->bytes -= answer->bytes;
    }
    idempotency_clear(answer);
    pod_free(answer);
}

void api_answers_free(struct api_answers *answers)
{
    if (answers == NULL)
        return;
    size_t cursor = 0;
    uint64_t key;
    void *value;
    while (pod_map_next(&answers->map, &cursor, &key, &value)) {
        idempotency_clear(value);
        pod_free(value);
    }
    pod_map_fini(&answers->map);
    pod_free(answers);
}

static struct api_answer *idempotency_oldest(const struct api_answers *answers)
{
    return POD_CONTAINER(answers->done.next, struct api_answer, link);
}

// Forgets what is past its time, and the oldest of what is too much.
static void idempotency_trim(struct api_answers *answers, int64_t now_ns)
{
    const struct api_answers_limits *limits = &answers->limits;

    while (answers->count > 0) {
        struct api_answer *oldest = idempotency_oldest(answers);
        if (now_ns - oldest->done_ns < limits->age_ns &&
            answers->count <= limits->count && answers->bytes <= limits->bytes)
            return;
        idempotency_forget(answers, oldest);
    }
}

struct api_answer *api_answers_find(struct api_answers *answers,
                                    const uint8_t name[API_KEY_DIGEST_BYTES],
                                    int64_t now_ns)
{
    idempotency_trim(answers, now_ns);
    return pod_map_get(&answers->map, idempotency_key(name));
}

struct api_answer *api_answers_begin(struct api_answers *answers,
                                     const uint8_t name[API_KEY_DIGEST_BYTES],
                                     const uint8_t head[API_KEY_DIGEST_BYTES],
                                     const uint8_t body[API_KEY_DIGEST_BYTES])
{
    struct api_answer *answer = pod_calloc(1, sizeof(*answer));

    if (answer == NULL)
        return NULL;
    answer->key = idempotency_key(name);
    answer->bytes = sizeof(*answer);
    memcpy(answer->head, head, API_KEY_DIGEST_BYTES);
    memcpy(answer->body, body, API_KEY_DIGEST_BYTES);
    pod_list_init(&answer->link);
    pod_list_init(&answer->waiters);
    if (pod_map_put(&answers->map, answer->key, answer))
        return answer;
    pod_free(answer);
    return NULL;
}

static const char *idempotency_copy(char **at, const char *text)
{
    size_t length = strlen(text) + 1;
    const char *copy = memcpy(*at, text, length);

    *at += length;
    return copy;
}

bool api_answer_set(struct api_answer *answer, int status,
                    const struct api_answer_header *headers,
                    size_t header_count, struct pod_blob *content)
{
    size_t bytes = header_count * sizeof(*headers);

    for (size_t i = 0; i < header_count; i++)
        bytes += strlen(headers[i].name) + strlen(headers[i].value) + 2;
    struct api_answer_header *copies = pod_malloc(bytes);
    if (copies == NULL)
        return false;
    char *text = (char *)(copies + header_count);
    for (size_t i = 0; i < header_count; i++) {
        copies[i].name = idempotency_copy(&text, headers[i].name);
        copies[i].value = idempotency_copy(&text, headers[i].value);
    }
    if (content != NULL)
        (void)pod_blob_ref(content);
    idempotency_clear(answer);
    answer->status = status;
    answer->headers = copies;
    answer->header_count = header_count;
    answer->content = content;
    answer->bytes = sizeof(*answer) + bytes;
    if (content != NULL)
        answer->bytes += sizeof(*content) + content->size;
    return true;
}

void api_answers_end(struct api_answers *answers, struct api_answer *answer,
                     int64_t now_ns)
{
    if (answer->status == 0) {
        idempotency_forget(answers, answer);
        return;
    }
    answer->done = true;
    answer->done_ns = now_ns;
    pod_list_push_back(&answers->done, &answer->link);
    answers->count++;
    answers->bytes += answer->bytes;
    idempotency_trim(answers, now_ns);
}

size_t api_answers_count(const struct api_answers *answers)
{
    return answers->count;
}
