// SPDX-License-Identifier: Apache-2.0
// Any bytes as a JSON body: no crash, no leak, and the same value as jansson
// alone reads, unless there is an integer that it cannot hold.
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/json.h"
#include "api/memory.h"
#include "core/base/mem.h"

enum { FUZZ_DEPTH = 32, FUZZ_VALUES = 2000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_seen {
    size_t values;
    bool big;
};

static void fuzz_walk(const json_t *value, unsigned depth,
                      struct fuzz_seen *seen)
{
    const char *digits;
    const char *name;
    json_t *child;
    size_t i;
    union {
        const json_t *in;
        json_t *out;
    } node = {.in = value};

    seen->values++;
    if (depth > FUZZ_DEPTH + 1)
        abort();
    if (api_json_big_integer(value, &digits)) {
        seen->big = true;
        return;
    }
    json_array_foreach(node.out, i, child) fuzz_walk(child, depth + 1, seen);
    json_object_foreach(node.out, name, child)
        fuzz_walk(child, depth + 1, seen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct api_json_limits limits = {
        .depth = FUZZ_DEPTH, .values = FUZZ_VALUES, .any = true};
    long live = pod_mem_live();
    const char *text = (const char *)data;
    struct pod_err err = POD_ERR_NONE;
    struct fuzz_seen seen = {.values = 0};
    struct api_memory memory = {.budget = NULL};
    json_t *ours = NULL;

    enum pod_code code =
        api_json_parse(text, size, &limits, &memory, &ours, &err);
    json_t *plain =
        json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    if (code != POD_OK && plain != NULL &&
        err.reason != POD_REASON_BODY_TOO_LARGE)
        abort();
    if (code == POD_OK) {
        fuzz_walk(ours, 1, &seen);
        if (seen.values > FUZZ_VALUES || (!seen.big && plain == NULL) ||
            (!seen.big && !json_equal(ours, plain)))
            abort();
    }
    json_decref(plain);
    api_memory_fini(&memory);
    if (pod_mem_live() != live)
        abort();
    return 0;
}
