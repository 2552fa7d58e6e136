// SPDX-License-Identifier: Apache-2.0
// POST /v1/buffers: by bytes, by shape, with values or a fill, as a tuple, or
// from a .npy file.
#include <stdlib.h>
#include <string.h>

#include "api/body.h"
#include "api/common.h"
#include "api/handlers.h"
#include "api/npy.h"
#include "api/payload.h"
#include "api/query.h"
#include "api/shape_json.h"
#include "api/values.h"

static const char buffers_npy_type[] = "application/x-npy";

void api_buffers_post_headers(struct api_request *req)
{
    if (strcmp(api_body_type(req), buffers_npy_type) == 0)
        api_body_want(req, API_BODY_DATA);
}

// --------------------------------------------------------------------- JSON

// A body of POST /v1/buffers, whichever of its forms it has.
struct buffers_form {
    struct api_reader reader;
    struct pod_request request;
    struct pod_shape shape;
    int64_t core; // -1: absent
    bool has_shape;
    bool has_bytes;
    const json_t *values; // borrowed
    const json_t *fill;
    const struct pod_ref *children; // NULL: absent
    size_t child_count;
};

static enum pod_code buffers_read_form(struct api_request *req,
                                       struct buffers_form *form,
                                       struct pod_err *err)
{
    struct api_reader *reader = &form->reader;
    form->core = -1;
    enum pod_code code = api_read_begin(reader, api_body_json(req), "", err);
    if (code == POD_OK)
        code = api_common_from_body(req, reader, &form->request, err);
    if (code == POD_OK)
        code = api_read_integer(reader, "core", 0, UINT32_MAX - 1, &form->core,
                                err);
    if (code == POD_OK)
        code = api_read_u64(reader, "bytes", &form->request.allocate.bytes,
                            &form->has_bytes, err);
    if (code == POD_OK)
        code = api_read_shape(reader, "shape", &form->shape, &form->has_shape,
                              err);
    if (code == POD_OK)
        code = api_read_refs(req, reader, "tuple", POD_REF_BUFFER,
                             &form->children, &form->child_count, err);
    form->values = code == POD_OK ? api_read_any(reader, "values") : NULL;
    form->fill = code == POD_OK ? api_read_any(reader, "fill") : NULL;
    if (code == POD_OK)
        code = api_read_end(reader, err);
    return code;
}

static enum pod_code buffers_bad_form(const struct buffers_form *form,
                                      const char *member, const char *text,
                                      struct pod_err *err)
{
    enum pod_code code = pod_err_set(err, POD_REASON_BAD_VALUE, "%s", text);
    api_read_at(&form->reader, member, err);
    return code;
}

static enum pod_code buffers_take_tuple(struct buffers_form *form,
                                        struct pod_err *err)
{
    if (form->has_bytes || form->has_shape || form->values != NULL ||
        form->fill != NULL || form->core >= 0)
        return buffers_bad_form(form, "tuple",
                                "a tuple is made of its children alone", err);
    form->request.kind = POD_KIND_ALLOCATE_TUPLE;
    form->request.tuple.children = form->children;
    form->request.tuple.child_count = form->child_count;
    return POD_OK;
}

static enum pod_code buffers_take_contents(struct api_request *req,
                                           struct buffers_form *form,
                                           struct pod_err *err)
{
    struct pod_request *request = &form->request;
    if (form->values != NULL && form->fill != NULL)
        return buffers_bad_form(form, "fill",
                                "values and fill exclude each "
                                "other",
                                err);
    if (form->fill != NULL) {
        request->allocate.fill_size = pod_type_bytes(form->shape.type);
        return api_values_read_one(form->fill, form->shape.type, "/fill",
                                   request->allocate.fill, err);
    }
    if (form->values == NULL)
        return POD_OK;
    request->allocate.data =
        api_payload_values(req, form->values, "/values", &form->shape, err);
    return request->allocate.data != NULL ? POD_OK : err->code;
}

static enum pod_code buffers_take_array(struct api_request *req,
                                        struct buffers_form *form,
                                        struct pod_err *err)
{
    bool contents = form->values != NULL || form->fill != NULL;
    form->request.kind = POD_KIND_ALLOCATE;
    if (form->core < 0)
        return api_read_missing(&form->reader, "core", err);
    form->request.allocate.core = (uint32_t)form->core;
    if (form->has_bytes && form->has_shape)
        return buffers_bad_form(form, "bytes",
                                "bytes and shape exclude each other", err);
    if (form->has_bytes && contents)
        return buffers_bad_form(form, form->fill != NULL ? "fill" : "values",
                                "contents need a shape", err);
    if (form->has_bytes)
        return POD_OK;
    if (!form->has_shape)
        return api_read_missing(&form->reader, "shape", err);
    if (!pod_shape_is_array(&form->shape)) {
        enum pod_code code =
            pod_err_set(err, POD_REASON_BAD_SHAPE,
                        "a buffer holds one array; a tuple is made of buffers");
        api_read_at(&form->reader, "shape", err);
        return code;
    }
    form->request.allocate.shape = &form->shape;
    return buffers_take_contents(req, form, err);
}

static void buffers_post_json(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct buffers_form form = {.core = -1};
    struct api_submission submission = {
        .requests = &form.request, .count = 1, .made = POD_REF_BUFFER};
    enum pod_code code = buffers_read_form(req, &form, &err);
    if (code == POD_OK)
        code = form.children != NULL ? buffers_take_tuple(&form, &err)
                                     : buffers_take_array(req, &form, &err);
    if (code == POD_OK)
        code = api_submission_end(req, &submission, &err);
    if (code == POD_OK)
        api_submit(req, &submission);
    else
        api_problem(req, &err);
    pod_shape_fini(&form.shape);
}

// --------------------------------------------------------------------- .npy

static enum pod_code buffers_query_type(struct api_request *req,
                                        enum pod_type *out_type,
                                        struct pod_err *err)
{
    const char *text = NULL;
    *out_type = POD_TYPE_INVALID;
    enum pod_code code = api_query_text(req, "element_type", &text, err);
    if (code != POD_OK || text == NULL)
        return code;
    *out_type = api_type_parse(text);
    if (*out_type == POD_TYPE_INVALID)
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "element_type: there is no such type");
    return POD_OK;
}

static enum pod_code buffers_query_core(struct api_request *req,
                                        uint32_t *out_core, struct pod_err *err)
{
    uint64_t core = UINT64_MAX;
    enum pod_code code =
        api_query_uint(req, "core", 0, UINT32_MAX - 1, &core, err);
    if (code == POD_OK && core == UINT64_MAX)
        code = pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "core: say on which one, with ?core=");
    *out_core = (uint32_t)core;
    return code;
}

// The file as an allocation and the transfer into it.
static enum pod_code buffers_take_npy(struct api_request *req,
                                      struct pod_blob *file, enum pod_type said,
                                      struct pod_shape *shape,
                                      struct pod_request requests[2],
                                      struct pod_err *err)
{
    struct api_npy npy;
    enum pod_code code = api_npy_read(file->data, file->size, &npy, err);
    if (code == POD_OK)
        code = api_npy_shape(&npy, said, shape, err);
    if (code != POD_OK)
        return code;
    requests[0].allocate.shape = shape;
    requests[1].write.data = api_payload_npy(req, &npy, file, err);
    return requests[1].write.data != NULL ? POD_OK : err->code;
}

static void buffers_post_npy(struct api_request *req, struct pod_blob *file)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_shape shape = {0};
    struct pod_request requests[2] = {
        {.kind = POD_KIND_ALLOCATE},
        {.kind = POD_KIND_WRITE},
    };
    struct api_submission submission = {
        .requests = requests,
        .count = 2,
        .shown = 1,
        .made = POD_REF_BUFFER,
    };
    enum pod_type said = POD_TYPE_INVALID;
    enum pod_code code = api_common_from_query(req, &requests[0], &err);
    if (code == POD_OK)
        code = buffers_query_core(req, &requests[0].allocate.core, &err);
    if (code == POD_OK)
        code = buffers_query_type(req, &said, &err);
    if (code == POD_OK)
        code = api_submission_end(req, &submission, &err);
    if (code == POD_OK) {
        // Both carry the labels, the name and the limits; only the first one
        // needs to wait, for the second waits for it.
        requests[1] = requests[0];
        requests[1].kind = POD_KIND_WRITE;
        requests[1].after = NULL;
        requests[1].after_count = 0;
        requests[1].run_on_failure = false;
        memset(&requests[1].write, 0, sizeof(requests[1].write));
        requests[1].write.buffer = (struct pod_ref){.kind = POD_REF_REQUEST};
        code = buffers_take_npy(req, file, said, &shape, requests, &err);
    }
    if (code == POD_OK)
        api_submit(req, &submission);
    else
        api_problem(req, &err);
}

void api_buffers_post(struct api_request *req)
{
    if (strcmp(api_body_type(req), buffers_npy_type) == 0)
        api_payload_verify(req, buffers_post_npy);
    else
        buffers_post_json(req);
}
