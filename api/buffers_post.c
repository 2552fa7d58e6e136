// SPDX-License-Identifier: Apache-2.0
// POST /v1/buffers: by bytes, by shape, with values or a fill, as a tuple, or
// from a .npy file.
#include <string.h>

#include "api/body.h"
#include "api/common.h"
#include "api/forms.h"
#include "api/handlers.h"
#include "api/npy.h"
#include "api/payload.h"
#include "api/query.h"
#include "api/shape_json.h"

static const char buffers_npy_type[] = "application/x-npy";

void api_buffers_post_headers(struct api_request *req)
{
    if (strcmp(api_body_type(req), buffers_npy_type) == 0)
        api_body_want(req, API_BODY_DATA);
}

// --------------------------------------------------------------------- JSON

static void buffers_post_json(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_request request = {.kind = POD_KIND_ALLOCATE};
    struct api_submission submission = {
        .requests = &request, .count = 1, .made = POD_REF_BUFFER};
    struct api_reader reader;
    struct api_form form;
    enum pod_code code = api_form_begin(req, &reader, &form, &err);
    if (code == POD_OK)
        code = api_form_allocate(&form, &request, &err);
    if (code == POD_OK && request.kind == POD_KIND_ALLOCATE &&
        request.allocate.data != NULL)
        code = api_payload_undigested(req, &err);
    api_submit_read(req, &submission, code, &err);
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
                           "element_type: unknown type");
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
                           "core: name the core with ?core=");
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
    if (code == POD_OK) {
        // Nothing here looks at the bytes again: the device may keep them.
        pod_blob_give_up(requests[1].write.data);
        api_submit(req, &submission);
    } else {
        api_problem(req, &err);
    }
}

void api_buffers_post(struct api_request *req)
{
    if (strcmp(api_body_type(req), buffers_npy_type) == 0)
        api_payload_verify(req, buffers_post_npy);
    else
        buffers_post_json(req);
}
