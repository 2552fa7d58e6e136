// SPDX-License-Identifier: Apache-2.0
#include "core/hlo/arena.h"

#include "core/base/mem.h"
#include "core/hlo/module.h"
#include "core/hlo/shape_proto.h"

#include <stdalign.h>
#include <stdint.h>
#include <string.h>

enum {
    ARENA_ALIGN = alignof(max_align_t),
    ARENA_FIRST_CHUNK = 4096,
    ARENA_LARGEST_CHUNK = 1 << 20,
    ARENA_BYTES_AT_LEAST = 1 << 20,
    ARENA_BYTES_PER_BYTE = 128,
};

struct pod_hlo_arena_chunk {
    struct pod_hlo_arena_chunk *next;
    size_t size; // of data
    alignas(max_align_t) unsigned char data[];
};

struct arena_shape {
    struct arena_shape *next; // in its bucket
    uint64_t hash;
    Xla__ShapeProto *proto; // NULL: not asked for yet
    struct pod_shape shape;
};

struct pod_hlo_arena_shapes {
    struct arena_shape **buckets;
    size_t capacity; // a power of two
    size_t count;
};

static void *arena_protobuf_alloc(void *data, size_t size)
{
    return pod_hlo_arena_alloc(data, 1, size);
}

static void arena_protobuf_free(void *data, void *block)
{
    (void)data;
    (void)block;
}

static size_t arena_budget(size_t length)
{
    if (length > POD_HLO_MAX_MEMORY / ARENA_BYTES_PER_BYTE)
        return POD_HLO_MAX_MEMORY;
    length = length * ARENA_BYTES_PER_BYTE + ARENA_BYTES_AT_LEAST;
    return length < POD_HLO_MAX_MEMORY ? length : POD_HLO_MAX_MEMORY;
}

struct pod_hlo_arena *pod_hlo_arena_new(size_t length)
{
    struct pod_hlo_arena *arena = pod_calloc(1, sizeof(*arena));
    if (arena == NULL)
        return NULL;
    arena->budget = arena_budget(length);
    arena->allocator =
        (ProtobufCAllocator){arena_protobuf_alloc, arena_protobuf_free, arena};
    return arena;
}

static void arena_shapes_free(struct pod_hlo_arena_shapes *shapes)
{
    if (shapes == NULL)
        return;
    for (size_t i = 0; i < shapes->capacity; i++)
        for (struct arena_shape *s = shapes->buckets[i]; s != NULL; s = s->next)
            pod_shape_fini(&s->shape);
    pod_free(shapes->buckets);
    pod_free(shapes);
}

void pod_hlo_arena_free(struct pod_hlo_arena *arena)
{
    if (arena == NULL)
        return;
    arena_shapes_free(arena->shapes);
    while (arena->chunks != NULL) {
        struct pod_hlo_arena_chunk *next = arena->chunks->next;
        pod_free(arena->chunks);
        arena->chunks = next;
    }
    pod_free(arena);
}

static bool arena_charge(struct pod_hlo_arena *arena, size_t bytes)
{
    if (bytes > arena->budget) {
        arena->over_budget = true;
        return false;
    }
    arena->budget -= bytes;
    return true;
}

// Opens a chunk with room for `need` bytes.
static bool arena_grow(struct pod_hlo_arena *arena, size_t need)
{
    size_t size = ARENA_FIRST_CHUNK;
    struct pod_hlo_arena_chunk *chunk;
    if (arena->chunks != NULL)
        size = arena->chunks->size * 2;
    if (size > ARENA_LARGEST_CHUNK)
        size = ARENA_LARGEST_CHUNK;
    if (size < need)
        size = need;
    if (!arena_charge(arena, size))
        return false;
    chunk = pod_malloc(sizeof(*chunk) + size);
    if (chunk == NULL)
        return false;
    chunk->size = size;
    chunk->next = arena->chunks;
    arena->chunks = chunk;
    arena->left = size;
    return true;
}

void *pod_hlo_arena_alloc(struct pod_hlo_arena *arena, size_t count,
                          size_t bytes)
{
    size_t need;
    unsigned char *block;
    if (__builtin_mul_overflow(count, bytes, &need) ||
        __builtin_add_overflow(need, ARENA_ALIGN - 1, &need)) {
        arena->failed = arena->over_budget = true;
        return NULL;
    }
    need &= ~(size_t)(ARENA_ALIGN - 1);
    if (need == 0)
        need = ARENA_ALIGN;
    if (need > arena->left && !arena_grow(arena, need)) {
        arena->failed = true;
        return NULL;
    }
    block = arena->chunks->data + arena->chunks->size - arena->left;
    arena->left -= need;
    return memset(block, 0, need);
}

char *pod_hlo_arena_text(struct pod_hlo_arena *arena, const char *text,
                         size_t length)
{
    char *copy = pod_hlo_arena_alloc(arena, length + 1, 1);
    if (copy != NULL && length > 0)
        memcpy(copy, text, length);
    return copy;
}

enum pod_code pod_hlo_arena_fail(const struct pod_hlo_arena *arena,
                                 struct pod_err *err)
{
    if (arena->over_budget)
        return pod_err_set(err, POD_REASON_RESOURCE_EXHAUSTED,
                           "program takes too much memory to read");
    return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                       "no memory to read the program");
}

// ------------------------------------------------------------------- shapes

static uint64_t arena_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

// The address of a variable differs from run to run, so that nobody can write
// a program whose shapes all fall into one bucket.
static uint64_t arena_hash(const struct pod_shape *shape, size_t *nodes)
{
    static const char salt;
    uint64_t hash = arena_mix((uint64_t)(uintptr_t)&salt, shape->rank);
    hash = arena_mix(hash, (uint64_t)shape->type);
    ++*nodes;
    for (uint32_t i = 0; i < shape->rank; i++)
        hash = arena_mix(hash, (uint64_t)shape->dims[i]);
    for (uint32_t i = 0; shape->has_layout && i < shape->rank; i++)
        hash = arena_mix(hash, shape->minor_to_major[i]);
    hash = arena_mix(hash, shape->has_layout);
    for (size_t i = 0; i < shape->child_count; i++)
        hash = arena_mix(hash, arena_hash(&shape->children[i], nodes));
    return hash;
}

// As pod_shape_equal_layout, but no layout differs from a row-major one.
static bool arena_same(const struct pod_shape *a, const struct pod_shape *b)
{
    if (a->has_layout != b->has_layout || !pod_shape_equal_layout(a, b))
        return false;
    for (size_t i = 0; i < a->child_count; i++)
        if (!arena_same(&a->children[i], &b->children[i]))
            return false;
    return true;
}

static bool arena_rehash(struct pod_hlo_arena *arena, size_t capacity)
{
    struct pod_hlo_arena_shapes *shapes = arena->shapes;
    struct arena_shape **buckets;
    if (!arena_charge(arena, capacity * sizeof(struct arena_shape *)))
        return false;
    buckets = pod_calloc(capacity, sizeof(struct arena_shape *));
    if (buckets == NULL)
        return false;
    for (size_t i = 0; i < shapes->capacity; i++) {
        while (shapes->buckets[i] != NULL) {
            struct arena_shape *shape = shapes->buckets[i];
            size_t bucket = shape->hash & (capacity - 1);
            shapes->buckets[i] = shape->next;
            shape->next = buckets[bucket];
            buckets[bucket] = shape;
        }
    }
    pod_free(shapes->buckets);
    shapes->buckets = buckets;
    shapes->capacity = capacity;
    return true;
}

static bool arena_shapes_room(struct pod_hlo_arena *arena)
{
    if (arena->shapes == NULL)
        arena->shapes = pod_calloc(1, sizeof(*arena->shapes));
    if (arena->shapes == NULL)
        return false;
    if (arena->shapes->count < arena->shapes->capacity)
        return true;
    if (arena->shapes->capacity == 0)
        return arena_rehash(arena, 64);
    return arena_rehash(arena, arena->shapes->capacity * 2);
}

const struct pod_shape *pod_hlo_arena_shape(struct pod_hlo_arena *arena,
                                            struct pod_shape *owned_shape)
{
    size_t nodes = 0;
    uint64_t hash = arena_hash(owned_shape, &nodes);
    struct arena_shape **bucket;
    struct arena_shape *fresh = NULL;
    if (!arena_shapes_room(arena)) {
        pod_shape_fini(owned_shape);
        return NULL;
    }
    bucket = &arena->shapes->buckets[hash & (arena->shapes->capacity - 1)];
    for (struct arena_shape *s = *bucket; s != NULL; s = s->next) {
        if (s->hash == hash && arena_same(&s->shape, owned_shape)) {
            pod_shape_fini(owned_shape);
            return &s->shape;
        }
    }
    if (arena_charge(arena, (nodes - 1) * sizeof(struct pod_shape)))
        fresh = pod_hlo_arena_alloc(arena, 1, sizeof(*fresh));
    if (fresh == NULL) {
        pod_shape_fini(owned_shape);
        return NULL;
    }
    fresh->hash = hash;
    fresh->shape = *owned_shape;
    fresh->next = *bucket;
    *bucket = fresh;
    arena->shapes->count++;
    *owned_shape = (struct pod_shape){.type = POD_TYPE_INVALID};
    return &fresh->shape;
}

Xla__ShapeProto *pod_hlo_arena_shape_proto(struct pod_hlo_arena *arena,
                                           const struct pod_shape *shape)
{
    size_t bucket;
    size_t nodes = 0;
    struct arena_shape *entry;
    bucket = arena_hash(shape, &nodes) & (arena->shapes->capacity - 1);
    entry = arena->shapes->buckets[bucket];
    while (&entry->shape != shape)
        entry = entry->next;
    if (entry->proto == NULL)
        entry->proto = pod_shape_to_proto(shape, &arena->allocator);
    return entry->proto;
}
