// SPDX-License-Identifier: Apache-2.0
// Allocations: by bytes, by shape, with values or a fill, or as a tuple.
#include <stdio.h>

#include "api/common.h"
#include "api/forms.h"
#include "api/shape_json.h"
#include "api/values.h"

// The members, before it is clear what they are together.
struct allocate {
    const struct api_form *form;
    struct pod_request *request;
    struct pod_shape *shape; // of the memory; NULL: absent
    int64_t core;            // -1: absent
    bool has_shape;
    bool has_bytes;
    const json_t *values; // borrowed
    const json_t *fill;
    const struct pod_ref *children; // NULL: absent
    size_t child_count;
};

static enum pod_code allocate_read(struct allocate *allocate,
                                   struct pod_err *err)
{
    struct api_reader *reader = allocate->form->reader;
    struct api_memory *memory = allocate->form->memory;
    struct pod_request *request = allocate->request;
    enum pod_code code = api_common_from_body(memory, reader, request, err);
    if (code == POD_OK)
        code = api_read_integer(reader, "core", 0, UINT32_MAX - 1,
                                &allocate->core, err);
    if (code == POD_OK)
        code = api_read_u64(reader, "bytes", &request->allocate.bytes,
                            &allocate->has_bytes, err);
    if (code == POD_OK && allocate->shape != NULL)
        code = api_read_shape(reader, "shape", allocate->shape,
                              &allocate->has_shape, err);
    if (code == POD_OK)
        code = api_read_refs(memory, reader, "tuple", POD_REF_BUFFER,
                             &allocate->children, &allocate->child_count, err);
    allocate->values = code == POD_OK ? api_read_any(reader, "values") : NULL;
    allocate->fill = code == POD_OK ? api_read_any(reader, "fill") : NULL;
    if (code == POD_OK)
        code = api_read_end(reader, err);
    return code;
}

static enum pod_code allocate_bad_form(const struct allocate *allocate,
                                       const char *member, const char *text,
                                       struct pod_err *err)
{
    return api_form_fault(allocate->form, member, POD_REASON_BAD_VALUE, text,
                          err);
}

static enum pod_code allocate_take_tuple(struct allocate *allocate,
                                         struct pod_err *err)
{
    if (allocate->has_bytes || allocate->has_shape ||
        allocate->values != NULL || allocate->fill != NULL ||
        allocate->core >= 0)
        return allocate_bad_form(
            allocate, "tuple", "a tuple takes no member but its children", err);
    allocate->request->kind = POD_KIND_ALLOCATE_TUPLE;
    allocate->request->tuple.children = allocate->children;
    allocate->request->tuple.child_count = allocate->child_count;
    return POD_OK;
}

static enum pod_code allocate_take_contents(struct allocate *allocate,
                                            struct pod_err *err)
{
    const struct api_form *form = allocate->form;
    struct pod_request *request = allocate->request;
    char object[POD_ERR_POINTER_BYTES];
    char pointer[POD_ERR_POINTER_BYTES];
    if (allocate->values != NULL && allocate->fill != NULL)
        return allocate_bad_form(allocate, "fill",
                                 "values and fill exclude each other", err);
    (void)snprintf(pointer, sizeof(pointer), "%.48s/%s",
                   api_read_pointer(form->reader, object),
                   allocate->fill != NULL ? "fill" : "values");
    if (allocate->fill != NULL) {
        request->allocate.fill_size = pod_type_bytes(allocate->shape->type);
        return api_values_read_one(allocate->fill, allocate->shape->type,
                                   pointer, request->allocate.fill, err);
    }
    if (allocate->values == NULL)
        return POD_OK;
    request->allocate.data =
        api_form_values(form, allocate->values, pointer, allocate->shape, err);
    return request->allocate.data != NULL ? POD_OK : err->code;
}

static enum pod_code allocate_take_array(struct allocate *allocate,
                                         struct pod_err *err)
{
    bool contents = allocate->values != NULL || allocate->fill != NULL;
    allocate->request->kind = POD_KIND_ALLOCATE;
    if (allocate->core < 0)
        return api_read_missing(allocate->form->reader, "core", err);
    allocate->request->allocate.core = (uint32_t)allocate->core;
    if (allocate->has_bytes && allocate->has_shape)
        return allocate_bad_form(allocate, "bytes",
                                 "bytes and shape exclude each other", err);
    if (allocate->has_bytes && contents)
        return allocate_bad_form(allocate,
                                 allocate->fill != NULL ? "fill" : "values",
                                 "contents need a shape", err);
    if (allocate->has_bytes)
        return POD_OK;
    if (!allocate->has_shape)
        return api_read_missing(allocate->form->reader, "shape", err);
    if (!pod_shape_is_array(allocate->shape))
        return api_form_fault(
            allocate->form, "shape", POD_REASON_BAD_SHAPE,
            "a buffer holds one array; a tuple is made of buffers", err);
    allocate->request->allocate.shape = allocate->shape;
    return allocate_take_contents(allocate, err);
}

static void allocate_end_shape(void *shape)
{
    pod_shape_fini(shape);
}

enum pod_code api_form_allocate(const struct api_form *form,
                                struct pod_request *out, struct pod_err *err)
{
    struct allocate allocate = {.form = form, .request = out, .core = -1};
    if (api_read_any(form->reader, "shape") != NULL) {
        allocate.shape =
            api_memory_alloc(form->memory, sizeof(*allocate.shape));
        if (allocate.shape == NULL)
            return api_memory_error(form->memory, err);
    }
    enum pod_code code = allocate_read(&allocate, err);
    // An array's shape owns nothing.
    if (allocate.has_shape && !pod_shape_is_array(allocate.shape) &&
        !api_memory_defer(form->memory, allocate_end_shape, allocate.shape))
        return api_memory_error(form->memory, err);
    if (code != POD_OK)
        return code;
    return allocate.children != NULL ? allocate_take_tuple(&allocate, err)
                                     : allocate_take_array(&allocate, err);
}
