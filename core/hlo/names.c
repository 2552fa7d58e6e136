// SPDX-License-Identifier: Apache-2.0
#include "core/hlo/names.h"

#include "core/base/mem.h"

#include <string.h>

struct pod_hlo_name {
    const char *text; // NULL: empty slot
    size_t length;
    uint64_t hash;
    uint32_t position;
};

// The address of a variable differs from run to run, so that nobody can write
// a program whose names all fall into one slot.
static uint64_t names_hash(const char *text, size_t length)
{
    static const char salt;
    uint64_t hash = (uint64_t)(uintptr_t)&salt ^ length;
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return hash;
}

// The slot that holds the name, or the empty one where it belongs.
static size_t names_slot(const struct pod_hlo_names *names, const char *text,
                         size_t length, uint64_t hash)
{
    size_t at = hash & (names->capacity - 1);
    for (;; at = (at + 1) & (names->capacity - 1)) {
        const struct pod_hlo_name *slot = &names->slots[at];
        if (slot->text == NULL)
            return at;
        if (slot->hash == hash && slot->length == length &&
            memcmp(slot->text, text, length) == 0)
            return at;
    }
}

static bool names_grow(struct pod_hlo_names *names)
{
    struct pod_hlo_names bigger = {
        .capacity = names->capacity == 0 ? 16 : names->capacity * 2,
        .count = names->count,
    };
    bigger.slots = pod_calloc(bigger.capacity, sizeof(*bigger.slots));
    if (bigger.slots == NULL)
        return false;
    for (size_t i = 0; i < names->capacity; i++) {
        const struct pod_hlo_name *slot = &names->slots[i];
        if (slot->text == NULL)
            continue;
        bigger
            .slots[names_slot(&bigger, slot->text, slot->length, slot->hash)] =
            *slot;
    }
    pod_free(names->slots);
    *names = bigger;
    return true;
}

enum pod_hlo_names_result pod_hlo_names_add(struct pod_hlo_names *names,
                                            const char *text, size_t length,
                                            uint32_t position)
{
    uint64_t hash = names_hash(text, length);
    struct pod_hlo_name *slot;
    if (names->count * 4 >= names->capacity * 3 && !names_grow(names))
        return POD_HLO_NAMES_NO_MEMORY;
    slot = &names->slots[names_slot(names, text, length, hash)];
    if (slot->text != NULL)
        return POD_HLO_NAMES_TAKEN;
    *slot = (struct pod_hlo_name){text, length, hash, position};
    names->count++;
    return POD_HLO_NAMES_ADDED;
}

bool pod_hlo_names_find(const struct pod_hlo_names *names, const char *text,
                        size_t length, uint32_t *out_position)
{
    const struct pod_hlo_name *slot;
    if (names->capacity == 0)
        return false;
    slot =
        &names
             ->slots[names_slot(names, text, length, names_hash(text, length))];
    if (slot->text == NULL)
        return false;
    *out_position = slot->position;
    return true;
}

void pod_hlo_names_fini(struct pod_hlo_names *names)
{
    pod_free(names->slots);
    *names = (struct pod_hlo_names){.slots = NULL};
}
