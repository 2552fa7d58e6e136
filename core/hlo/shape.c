// SPDX-License-Identifier: Apache-2.0
#include "core/hlo/shape.h"

#include "core/base/mem.h"

#include <string.h>

struct shape_type {
    const char *name;
    size_t length;
    size_t bytes;
};

static const struct shape_type shape_types[POD_TYPE_COUNT] = {
#define X(name, number, text, bytes)                                           \
    [POD_TYPE_##name] = {(text), sizeof(text) - 1, (bytes)},
    POD_TYPES(X)
#undef X
};

static bool shape_type_known(enum pod_type type)
{
    return (unsigned)type < POD_TYPE_COUNT && shape_types[type].name != NULL;
}

const char *pod_type_name(enum pod_type type)
{
    return shape_type_known(type) ? shape_types[type].name : "invalid";
}

enum pod_type pod_type_parse(const char *text, size_t length)
{
    for (unsigned i = 0; i < POD_TYPE_COUNT; i++) {
        const struct shape_type *type = &shape_types[i];
        if (i == POD_TYPE_TUPLE || i == POD_TYPE_BUFFER || type->name == NULL)
            continue;
        if (type->length == length && memcmp(type->name, text, length) == 0)
            return (enum pod_type)i;
    }
    return POD_TYPE_INVALID;
}

size_t pod_type_bytes(enum pod_type type)
{
    return shape_type_known(type) ? shape_types[type].bytes : 0;
}

bool pod_type_is_array(enum pod_type type)
{
    return pod_type_bytes(type) != 0;
}

bool pod_type_is_complex(enum pod_type type)
{
    return type == POD_TYPE_C64 || type == POD_TYPE_C128;
}

// The first letter of a type's name says its kind: only pred, token, opaque,
// tuple and b are no numbers, and start with other letters. bf16 is the
// exception.
static bool shape_type_starts(enum pod_type type, char letter)
{
    return pod_type_is_array(type) && shape_types[type].name[0] == letter;
}

bool pod_type_is_float(enum pod_type type)
{
    return shape_type_starts(type, 'f') || type == POD_TYPE_BF16;
}

bool pod_type_is_signed(enum pod_type type)
{
    return shape_type_starts(type, 's');
}

bool pod_type_is_unsigned(enum pod_type type)
{
    return shape_type_starts(type, 'u');
}

// ------------------------------------------------------------------- making

// Sets *bytes to the size of the dense data; false if that overflows. A zero
// dimension makes it 0, but the others must still multiply to something sane,
// because strides are made of them.
static bool shape_array_bytes(size_t element, size_t rank, const int64_t *dims,
                              int64_t *bytes)
{
    int64_t product = (int64_t)element;
    bool empty = false;
    for (size_t i = 0; i < rank; i++) {
        int64_t dim = dims[i];
        if (dim == 0) {
            empty = true;
            dim = 1;
        }
        if (__builtin_mul_overflow(product, dim, &product))
            return false;
    }
    *bytes = empty ? 0 : product;
    return true;
}

enum pod_code pod_shape_array(struct pod_shape *out, enum pod_type type,
                              size_t rank, const int64_t *dims,
                              struct pod_err *err)
{
    int64_t bytes;
    if (!pod_type_is_array(type))
        return pod_err_set(err, POD_REASON_BAD_SHAPE,
                           "element type %d is not that of an array",
                           (int)type);
    if (rank > POD_SHAPE_MAX_RANK)
        return pod_err_set(err, POD_REASON_BAD_SHAPE,
                           "shape has %zu dimensions, at most %d are allowed",
                           rank, POD_SHAPE_MAX_RANK);
    for (size_t i = 0; i < rank; i++)
        if (dims[i] < 0)
            return pod_err_set(err, POD_REASON_BAD_SHAPE,
                               "dimension %zu is negative: %lld", i,
                               (long long)dims[i]);
    if (!shape_array_bytes(pod_type_bytes(type), rank, dims, &bytes))
        return pod_err_set(err, POD_REASON_BAD_SHAPE,
                           "dimensions multiply to more than 2^63-1 bytes");
    *out = (struct pod_shape){.type = type, .rank = (uint32_t)rank};
    if (rank > 0)
        memcpy(out->dims, dims, rank * sizeof(dims[0]));
    return POD_OK;
}

static size_t shape_nodes(const struct pod_shape *shape)
{
    size_t nodes = 1;
    for (size_t i = 0; i < shape->child_count; i++)
        nodes += shape_nodes(&shape->children[i]);
    return nodes;
}

static unsigned shape_depth(const struct pod_shape *shape)
{
    unsigned depth = 0;
    for (size_t i = 0; i < shape->child_count; i++) {
        unsigned child = shape_depth(&shape->children[i]) + 1;
        depth = child > depth ? child : depth;
    }
    return depth;
}

enum pod_code pod_shape_tuple(struct pod_shape *out, size_t count,
                              struct pod_shape *owned_children,
                              struct pod_err *err)
{
    size_t nodes = 1;
    unsigned depth = 0;
    int64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const struct pod_shape *child = &owned_children[i];
        unsigned below = shape_depth(child) + 1;
        nodes += shape_nodes(child);
        depth = below > depth ? below : depth;
        if (nodes > POD_SHAPE_MAX_NODES)
            return pod_err_set(err, POD_REASON_BAD_SHAPE,
                               "tuple has more than %d parts",
                               POD_SHAPE_MAX_NODES);
        if (__builtin_add_overflow(bytes, pod_shape_bytes(child), &bytes))
            return pod_err_set(err, POD_REASON_BAD_SHAPE,
                               "tuple has more than 2^63-1 bytes");
    }
    if (depth > POD_SHAPE_MAX_DEPTH)
        return pod_err_set(err, POD_REASON_BAD_SHAPE,
                           "tuples are nested more than %d deep",
                           POD_SHAPE_MAX_DEPTH);
    *out = (struct pod_shape){.type = POD_TYPE_TUPLE,
                              .child_count = count,
                              .children = owned_children};
    return POD_OK;
}

enum pod_code pod_shape_copy(const struct pod_shape *from,
                             struct pod_shape *out, struct pod_err *err)
{
    struct pod_shape copy = *from;
    if (copy.child_count == 0) {
        copy.children = NULL;
        *out = copy;
        return POD_OK;
    }
    copy.children = pod_calloc(from->child_count, sizeof(*copy.children));
    if (copy.children == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for a shape");
    for (size_t i = 0; i < from->child_count; i++) {
        enum pod_code code =
            pod_shape_copy(&from->children[i], &copy.children[i], err);
        if (code != POD_OK) {
            pod_shape_fini(&copy);
            return code;
        }
    }
    *out = copy;
    return POD_OK;
}

void pod_shape_fini(struct pod_shape *shape)
{
    if (shape == NULL)
        return;
    if (shape->children != NULL) {
        for (size_t i = 0; i < shape->child_count; i++)
            pod_shape_fini(&shape->children[i]);
        pod_free(shape->children);
    }
    *shape = (struct pod_shape){.type = POD_TYPE_INVALID};
}

// ---------------------------------------------------------------- comparing

static bool shape_equal_layout(const struct pod_shape *a,
                               const struct pod_shape *b)
{
    if (!pod_shape_is_array(a))
        return true;
    for (uint32_t i = 0; i < a->rank; i++) {
        uint32_t normal = a->rank - 1 - i;
        uint32_t of_a = a->has_layout ? a->minor_to_major[i] : normal;
        uint32_t of_b = b->has_layout ? b->minor_to_major[i] : normal;
        if (of_a != of_b)
            return false;
    }
    return true;
}

static bool shape_equal(const struct pod_shape *a, const struct pod_shape *b,
                        bool layouts)
{
    if (a->type != b->type || a->rank != b->rank || a->dynamic != b->dynamic ||
        a->child_count != b->child_count)
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    if (layouts && !shape_equal_layout(a, b))
        return false;
    for (size_t i = 0; i < a->child_count; i++)
        if (!shape_equal(&a->children[i], &b->children[i], layouts))
            return false;
    return true;
}

bool pod_shape_equal(const struct pod_shape *a, const struct pod_shape *b)
{
    return shape_equal(a, b, false);
}

bool pod_shape_equal_layout(const struct pod_shape *a,
                            const struct pod_shape *b)
{
    return shape_equal(a, b, true);
}

// ----------------------------------------------------------------- measuring

int64_t pod_shape_elements(const struct pod_shape *shape)
{
    size_t bytes = pod_type_bytes(shape->type);
    return bytes == 0 ? 0 : pod_shape_bytes(shape) / (int64_t)bytes;
}

int64_t pod_shape_bytes(const struct pod_shape *shape)
{
    int64_t bytes = 0;
    if (pod_shape_is_array(shape)) {
        // Cannot fail: the shape was checked when it was made.
        (void)shape_array_bytes(pod_type_bytes(shape->type), shape->rank,
                                shape->dims, &bytes);
        return bytes;
    }
    for (size_t i = 0; i < shape->child_count; i++)
        bytes += pod_shape_bytes(&shape->children[i]);
    return bytes;
}

size_t pod_shape_leaves(const struct pod_shape *shape)
{
    size_t leaves = 0;
    if (shape->type != POD_TYPE_TUPLE && shape->type != POD_TYPE_BUFFER)
        return 1;
    for (size_t i = 0; i < shape->child_count; i++)
        leaves += pod_shape_leaves(&shape->children[i]);
    return leaves;
}

// ------------------------------------------------------------------- layouts

bool pod_shape_is_row_major(const struct pod_shape *shape)
{
    int64_t last = shape->rank;
    if (!shape->has_layout)
        return true;
    for (uint32_t i = 0; i < shape->rank; i++) {
        uint8_t dim = shape->minor_to_major[i];
        if (shape->dims[dim] == 1)
            continue;
        if (dim > last)
            return pod_shape_bytes(shape) == 0;
        last = dim;
    }
    return true;
}

void pod_shape_set_default_layout(struct pod_shape *shape)
{
    if (pod_shape_is_array(shape) && !shape->has_layout) {
        shape->has_layout = true;
        for (uint32_t i = 0; i < shape->rank; i++)
            shape->minor_to_major[i] = (uint8_t)(shape->rank - 1 - i);
    }
    for (size_t i = 0; i < shape->child_count; i++)
        pod_shape_set_default_layout(&shape->children[i]);
}

// ---------------------------------------------------------------- signatures

enum pod_code pod_program_shape_copy(const struct pod_program_shape *from,
                                     struct pod_program_shape *out,
                                     struct pod_err *err)
{
    struct pod_program_shape copy = {.count = from->count};
    enum pod_code code = POD_OK;
    copy.parameters = pod_calloc(from->count, sizeof(*copy.parameters));
    if (copy.parameters == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for a signature");
    for (size_t i = 0; i < from->count && code == POD_OK; i++)
        code = pod_shape_copy(&from->parameters[i], &copy.parameters[i], err);
    if (code == POD_OK)
        code = pod_shape_copy(&from->result, &copy.result, err);
    if (code != POD_OK) {
        pod_program_shape_fini(&copy);
        return code;
    }
    *out = copy;
    return POD_OK;
}

void pod_program_shape_fini(struct pod_program_shape *shape)
{
    if (shape == NULL)
        return;
    if (shape->parameters != NULL)
        for (size_t i = 0; i < shape->count; i++)
            pod_shape_fini(&shape->parameters[i]);
    pod_free(shape->parameters);
    pod_shape_fini(&shape->result);
    *shape = (struct pod_program_shape){.count = 0};
}
