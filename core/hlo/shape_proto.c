// SPDX-License-Identifier: Apache-2.0
#include "core/hlo/shape_proto.h"

#include "core/base/mem.h"

#include <string.h>

// ------------------------------------------------------------- from messages

static enum pod_code shape_layout_from_proto(const Xla__LayoutProto *proto,
                                             struct pod_shape *shape,
                                             struct pod_err *err)
{
    uint32_t seen = 0;
    if (proto->memory_space != 0)
        return pod_err_set(
            err, POD_REASON_BAD_SHAPE,
            "layout is in memory space %lld, only 0 is supported",
            (long long)proto->memory_space);
    if (proto->n_minor_to_major != shape->rank)
        return pod_err_set(err, POD_REASON_BAD_SHAPE,
                           "layout has %zu dimensions, the shape has %u",
                           proto->n_minor_to_major, (unsigned)shape->rank);
    for (uint32_t i = 0; i < shape->rank; i++) {
        int64_t dim = proto->minor_to_major[i];
        if (dim < 0 || dim >= shape->rank || (seen >> dim & 1) != 0)
            return pod_err_set(err, POD_REASON_BAD_SHAPE,
                               "layout is not a permutation of the dimensions");
        seen |= UINT32_C(1) << dim;
        shape->minor_to_major[i] = (uint8_t)dim;
    }
    shape->has_layout = true;
    return POD_OK;
}

static enum pod_code shape_array_from_proto(const Xla__ShapeProto *proto,
                                            struct pod_shape *out,
                                            struct pod_err *err)
{
    enum pod_code code =
        pod_shape_array(out, (enum pod_type)proto->element_type,
                        proto->n_dimensions, proto->dimensions, err);
    if (code != POD_OK)
        return code;
    if (proto->n_is_dynamic_dimension > out->rank)
        return pod_err_set(err, POD_REASON_BAD_SHAPE,
                           "shape marks dimensions it does not have");
    for (size_t i = 0; i < proto->n_is_dynamic_dimension; i++)
        out->dynamic |= proto->is_dynamic_dimension[i] ? UINT32_C(1) << i : 0;
    if (proto->layout == NULL)
        return POD_OK;
    return shape_layout_from_proto(proto->layout, out, err);
}

static enum pod_code shape_from_proto(const Xla__ShapeProto *proto,
                                      unsigned depth, size_t *nodes,
                                      struct pod_shape *out,
                                      struct pod_err *err);

static enum pod_code shape_tuple_from_proto(const Xla__ShapeProto *proto,
                                            unsigned depth, size_t *nodes,
                                            struct pod_shape *out,
                                            struct pod_err *err)
{
    size_t count = proto->n_tuple_shapes;
    struct pod_shape whole = {.type = POD_TYPE_TUPLE, .child_count = count};
    enum pod_code code = POD_OK;
    if (depth == POD_SHAPE_MAX_DEPTH || count >= POD_SHAPE_MAX_NODES)
        return pod_err_set(err, POD_REASON_BAD_SHAPE,
                           "tuple is nested too deep or has too many parts");
    if (count > 0) {
        whole.children = pod_calloc(count, sizeof(*whole.children));
        if (whole.children == NULL)
            return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                               "no memory for a shape");
    }
    for (size_t i = 0; i < count && code == POD_OK; i++)
        code = shape_from_proto(proto->tuple_shapes[i], depth + 1, nodes,
                                &whole.children[i], err);
    if (code == POD_OK)
        code = pod_shape_tuple(out, count, whole.children, err);
    if (code != POD_OK)
        pod_shape_fini(&whole);
    return code;
}

static enum pod_code shape_from_proto(const Xla__ShapeProto *proto,
                                      unsigned depth, size_t *nodes,
                                      struct pod_shape *out,
                                      struct pod_err *err)
{
    enum pod_type type = (enum pod_type)proto->element_type;
    enum pod_code code;
    if (++*nodes > POD_SHAPE_MAX_NODES)
        return pod_err_set(err, POD_REASON_BAD_SHAPE,
                           "tuple has more than %d parts", POD_SHAPE_MAX_NODES);
    if (type != POD_TYPE_TUPLE && type != POD_TYPE_BUFFER &&
        proto->n_tuple_shapes > 0)
        return pod_err_set(err, POD_REASON_BAD_SHAPE,
                           "shape has parts but is not a tuple");
    if (type == POD_TYPE_TOKEN || type == POD_TYPE_OPAQUE) {
        *out = (struct pod_shape){.type = type};
        return POD_OK;
    }
    if (type != POD_TYPE_TUPLE && type != POD_TYPE_BUFFER)
        return shape_array_from_proto(proto, out, err);
    code = shape_tuple_from_proto(proto, depth, nodes, out, err);
    if (code != POD_OK || type == POD_TYPE_TUPLE)
        return code;
    if (out->child_count != 1 || !pod_shape_is_array(out->children)) {
        pod_shape_fini(out);
        return pod_err_set(err, POD_REASON_BAD_SHAPE,
                           "a buffer holds one array");
    }
    out->type = POD_TYPE_BUFFER;
    return POD_OK;
}

enum pod_code pod_shape_from_proto(const Xla__ShapeProto *proto,
                                   struct pod_shape *out, struct pod_err *err)
{
    size_t nodes = 0;
    return shape_from_proto(proto, 0, &nodes, out, err);
}

enum pod_code pod_program_shape_from_proto(const Xla__ProgramShapeProto *proto,
                                           struct pod_program_shape *out,
                                           struct pod_err *err)
{
    struct pod_program_shape shape = {.count = proto->n_parameters};
    enum pod_code code = POD_OK;
    if (proto->result == NULL)
        return pod_err_set(err, POD_REASON_BAD_SHAPE,
                           "program shape has no result");
    shape.parameters = pod_calloc(shape.count, sizeof(*shape.parameters));
    if (shape.parameters == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for a signature");
    for (size_t i = 0; i < shape.count && code == POD_OK; i++) {
        code = pod_shape_from_proto(proto->parameters[i], &shape.parameters[i],
                                    err);
        if (code == POD_INVALID_ARGUMENT)
            pod_err_wrap(err, "parameter %zu", i);
    }
    if (code == POD_OK) {
        code = pod_shape_from_proto(proto->result, &shape.result, err);
        if (code == POD_INVALID_ARGUMENT)
            pod_err_wrap(err, "result");
    }
    if (code != POD_OK) {
        pod_program_shape_fini(&shape);
        return code;
    }
    *out = shape;
    return POD_OK;
}

// --------------------------------------------------------------- to messages

static void *heap_alloc(void *data, size_t size)
{
    (void)data;
    return pod_malloc(size);
}

static void heap_free(void *data, void *block)
{
    (void)data;
    pod_free(block);
}

ProtobufCAllocator pod_shape_heap = {heap_alloc, heap_free, NULL};

static void *shape_alloc(ProtobufCAllocator *allocator, size_t count,
                         size_t bytes)
{
    return allocator->alloc(allocator->allocator_data, count * bytes);
}

static bool shape_layout_to_proto(const struct pod_shape *shape,
                                  Xla__ShapeProto *proto,
                                  ProtobufCAllocator *allocator)
{
    Xla__LayoutProto *layout = shape_alloc(allocator, 1, sizeof(*layout));
    if (layout == NULL)
        return false;
    xla__layout_proto__init(layout);
    proto->layout = layout;
    layout->format = 1;
    if (shape->rank == 0)
        return true;
    layout->minor_to_major =
        shape_alloc(allocator, shape->rank, sizeof(layout->minor_to_major[0]));
    if (layout->minor_to_major == NULL)
        return false;
    layout->n_minor_to_major = shape->rank;
    for (uint32_t i = 0; i < shape->rank; i++)
        layout->minor_to_major[i] = shape->minor_to_major[i];
    return true;
}

static bool shape_array_to_proto(const struct pod_shape *shape,
                                 Xla__ShapeProto *proto,
                                 ProtobufCAllocator *allocator)
{
    if (shape->has_layout && !shape_layout_to_proto(shape, proto, allocator))
        return false;
    if (shape->rank == 0)
        return true;
    proto->dimensions =
        shape_alloc(allocator, shape->rank, sizeof(proto->dimensions[0]));
    if (proto->dimensions == NULL)
        return false;
    proto->n_dimensions = shape->rank;
    memcpy(proto->dimensions, shape->dims,
           shape->rank * sizeof(proto->dimensions[0]));
    proto->is_dynamic_dimension = shape_alloc(
        allocator, shape->rank, sizeof(proto->is_dynamic_dimension[0]));
    if (proto->is_dynamic_dimension == NULL)
        return false;
    proto->n_is_dynamic_dimension = shape->rank;
    for (uint32_t i = 0; i < shape->rank; i++)
        proto->is_dynamic_dimension[i] = (shape->dynamic >> i & 1) != 0;
    return true;
}

static bool shape_children_to_proto(const struct pod_shape *shape,
                                    Xla__ShapeProto *proto,
                                    ProtobufCAllocator *allocator)
{
    if (shape->child_count == 0)
        return true;
    proto->tuple_shapes = shape_alloc(allocator, shape->child_count,
                                      sizeof(proto->tuple_shapes[0]));
    if (proto->tuple_shapes == NULL)
        return false;
    for (size_t i = 0; i < shape->child_count; i++) {
        Xla__ShapeProto *child =
            pod_shape_to_proto(&shape->children[i], allocator);
        if (child == NULL)
            return false;
        proto->tuple_shapes[proto->n_tuple_shapes++] = child;
    }
    return true;
}

Xla__ShapeProto *pod_shape_to_proto(const struct pod_shape *shape,
                                    ProtobufCAllocator *allocator)
{
    ProtobufCAllocator *from = allocator == NULL ? &pod_shape_heap : allocator;
    Xla__ShapeProto *proto = shape_alloc(from, 1, sizeof(*proto));
    if (proto == NULL)
        return NULL;
    xla__shape_proto__init(proto);
    proto->element_type = (int32_t)shape->type;
    if (shape_array_to_proto(shape, proto, from) &&
        shape_children_to_proto(shape, proto, from))
        return proto;
    xla__shape_proto__free_unpacked(proto, from);
    return NULL;
}

static bool program_shape_fill(const struct pod_program_shape *shape,
                               Xla__ProgramShapeProto *proto,
                               ProtobufCAllocator *allocator)
{
    proto->result = pod_shape_to_proto(&shape->result, allocator);
    if (proto->result == NULL)
        return false;
    if (shape->count == 0)
        return true;
    proto->parameters =
        shape_alloc(allocator, shape->count, sizeof(proto->parameters[0]));
    if (proto->parameters == NULL)
        return false;
    for (size_t i = 0; i < shape->count; i++) {
        Xla__ShapeProto *parameter =
            pod_shape_to_proto(&shape->parameters[i], allocator);
        if (parameter == NULL)
            return false;
        proto->parameters[proto->n_parameters++] = parameter;
    }
    return true;
}

Xla__ProgramShapeProto *
pod_program_shape_to_proto(const struct pod_program_shape *shape,
                           ProtobufCAllocator *allocator)
{
    ProtobufCAllocator *from = allocator == NULL ? &pod_shape_heap : allocator;
    Xla__ProgramShapeProto *proto = shape_alloc(from, 1, sizeof(*proto));
    if (proto == NULL)
        return NULL;
    xla__program_shape_proto__init(proto);
    if (program_shape_fill(shape, proto, from))
        return proto;
    xla__program_shape_proto__free_unpacked(proto, from);
    return NULL;
}
