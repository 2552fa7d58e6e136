// SPDX-License-Identifier: Apache-2.0
// PUT /v1/buffers/{id}/data: octets, a .npy file or JSON values into a buffer.
#include <inttypes.h>
#include <string.h>

#include "api/body.h"
#include "api/common.h"
#include "api/data.h"
#include "api/handlers.h"
#include "api/ids.h"
#include "api/npy.h"
#include "api/payload.h"
#include "api/query.h"

static const char put_octets_type[] = "application/octet-stream";
static const char put_npy_type[] = "application/x-npy";
static const char put_json_type[] = "application/json";

// A write while it is read from the request.
struct put {
    uint64_t buffer;
    struct pod_request request;
    struct pod_buffer_view view;
    struct pod_blob *body; // NULL: it is JSON
    bool part;
    uint64_t length; // of the part
};

// Whether the size of the buffer is known yet.
static bool put_size_known(const struct pod_buffer_view *view)
{
    return view->has_shape || view->bytes > 0 ||
           view->state == POD_HANDLE_READY;
}

// ----------------------------------------------------------------- headers

// Content-Range against the buffer and the body.
static enum pod_code put_read_range(struct api_request *req, struct put *put,
                                    struct pod_err *err)
{
    const char *header = api_request_header(req, "Content-Range");
    uint64_t total = 0;
    uint64_t end = 0;
    if (header == NULL)
        return POD_OK;
    if (strcmp(api_body_type(req), put_octets_type) != 0)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "Content-Range: only %s can be written in part",
                           put_octets_type);
    if (!api_content_range_parse(header, &put->request.write.offset,
                                 &put->length, &total))
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "Content-Range is not 'bytes FIRST-LAST/TOTAL'");
    if (__builtin_add_overflow(put->request.write.offset, put->length, &end) ||
        (put_size_known(&put->view) &&
         (end > put->view.bytes ||
          (total != UINT64_MAX && total != put->view.bytes))))
        return pod_err_set(err, POD_REASON_BAD_LENGTH,
                           "Content-Range does not lie in the buffer's "
                           "%" PRIu64 " bytes",
                           put->view.bytes);
    put->part = true;
    return POD_OK;
}

static enum pod_code put_find(struct api_request *req, struct put *put,
                              struct pod_err *err)
{
    enum pod_code code =
        pod_get_buffer(api_pod(req), put->buffer, &put->view, err);
    if (code != POD_OK)
        return code;
    if (put->view.freed_by != 0)
        return api_err_freed(POD_REF_BUFFER, put->buffer, put->view.freed_by,
                             err);
    if (put->view.is_tuple)
        return pod_err_set(err, POD_REASON_IS_A_TUPLE,
                           "a tuple must be written leaf by leaf");
    code = api_data_may_write(req, put->view.last_writer,
                              &put->request.write.if_writer, err);
    return code == POD_OK ? put_read_range(req, put, err) : code;
}

static enum pod_code put_check_type(struct api_request *req,
                                    struct pod_err *err)
{
    const char *type = api_body_type(req);
    if (strcmp(type, put_octets_type) == 0 || strcmp(type, put_npy_type) == 0 ||
        strcmp(type, put_json_type) == 0)
        return POD_OK;
    return pod_err_set(err, POD_REASON_UNSUPPORTED_TYPE,
                       "send data as one of these: "
                       "-H 'Content-Type: %s', "
                       "-H 'Content-Type: %s', "
                       "-H 'Content-Type: %s'",
                       put_octets_type, put_npy_type, put_json_type);
}

// Before the body is read: what can be refused by the headers alone.
void api_data_put_headers(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct put put = {.buffer = 0};
    if (!api_path_id(req, 0, POD_REF_BUFFER, &put.buffer))
        return;
    enum pod_code code = put_check_type(req, &err);
    if (code == POD_OK)
        code = put_find(req, &put, &err);
    if (code != POD_OK)
        api_problem(req, &err);
    else if (strcmp(api_body_type(req), put_json_type) == 0)
        api_body_want(req, API_BODY_JSON);
    else if (put.part)
        api_body_exactly(req, put.length);
    else if (strcmp(api_body_type(req), put_octets_type) == 0 &&
             put_size_known(&put.view))
        api_body_exactly(req, put.view.bytes);
    pod_buffer_view_fini(&put.view);
}

// -------------------------------------------------------------------- bodies

// The shape that values and arrays are read against: u8[n] if it has none.
static enum pod_code put_shape(const struct put *put, struct pod_shape *out,
                               struct pod_err *err)
{
    if (put->view.has_shape) {
        *out = put->view.shape; // an array's owns nothing
        return POD_OK;
    }
    const int64_t dims[1] = {(int64_t)put->view.bytes};
    return pod_shape_array(out, POD_TYPE_U8, 1, dims, err);
}

static enum pod_code put_check_array(const struct put *put,
                                     const struct pod_shape *shape,
                                     struct pod_err *err)
{
    char have[128];
    char want[128];
    bool fits = put->view.has_shape
                    ? pod_shape_equal(shape, &put->view.shape)
                    : (uint64_t)pod_shape_bytes(shape) == put->view.bytes;
    if (fits || !put_size_known(&put->view))
        return POD_OK;
    if (!put->view.has_shape)
        return pod_err_set(err, POD_REASON_SHAPE_MISMATCH,
                           "%s does not fit a buffer of %" PRIu64 " bytes",
                           pod_shape_brief(shape, have, sizeof(have)),
                           put->view.bytes);
    return pod_err_set(err, POD_REASON_SHAPE_MISMATCH,
                       "the buffer is %s, not %s",
                       pod_shape_brief(&put->view.shape, want, sizeof(want)),
                       pod_shape_brief(shape, have, sizeof(have)));
}

static enum pod_code put_take_npy(struct api_request *req, struct put *put,
                                  struct pod_err *err)
{
    struct api_npy npy;
    struct pod_shape shape = {0};
    enum pod_code code =
        api_npy_read(put->body->data, put->body->size, &npy, err);
    if (code != POD_OK)
        return code;
    // The buffer says what the file does not; where both say, they are
    // compared below as whole shapes.
    enum pod_type said = npy.type == POD_TYPE_INVALID && put->view.has_shape
                             ? put->view.shape.type
                             : POD_TYPE_INVALID;
    code = api_npy_shape(&npy, said, &shape, err);
    if (code == POD_OK)
        code = put_check_array(put, &shape, err);
    if (code != POD_OK)
        return code;
    put->request.write.data = api_payload_npy(req, &npy, put->body, err);
    return put->request.write.data != NULL ? POD_OK : err->code;
}

static enum pod_code put_take_octets(struct put *put, struct pod_err *err)
{
    uint64_t want = put->part ? put->length : put->view.bytes;
    put->request.write.data = put->body;
    if (put->body->size != want && put_size_known(&put->view))
        return pod_err_set(err, POD_REASON_BAD_LENGTH,
                           "the body has %zu bytes, the buffer takes %" PRIu64,
                           put->body->size, want);
    return POD_OK;
}

static enum pod_code put_take_values(struct api_request *req, struct put *put,
                                     struct pod_err *err)
{
    struct api_reader reader;
    struct pod_shape shape = {0};
    struct api_memory *memory = api_memory_of(req);
    if (memory == NULL)
        return api_err_memory(err);
    enum pod_code code = api_read_begin(&reader, api_body_json(req), "", err);
    if (code == POD_OK)
        code = api_common_from_body(memory, &reader, &put->request, err);
    const json_t *values =
        code == POD_OK ? api_read_any(&reader, "values") : NULL;
    if (code == POD_OK)
        code = api_read_end(&reader, err);
    if (code == POD_OK && values == NULL)
        code = api_read_missing(&reader, "values", err);
    if (code == POD_OK)
        code = put_shape(put, &shape, err);
    if (code != POD_OK)
        return code;
    put->request.write.data =
        api_payload_values(req, values, "/values", &shape, err);
    return put->request.write.data != NULL ? POD_OK : err->code;
}

static enum pod_code put_take_body(struct api_request *req, struct put *put,
                                   struct pod_err *err)
{
    if (put->body == NULL)
        return put_take_values(req, put, err);
    enum pod_code code = api_common_from_query(req, &put->request, err);
    if (code != POD_OK)
        return code;
    return strcmp(api_body_type(req), put_npy_type) == 0
               ? put_take_npy(req, put, err)
               : put_take_octets(put, err);
}

static void put_run(struct api_request *req, struct pod_blob *body)
{
    struct pod_err err = POD_ERR_NONE;
    struct put put = {.request = {.kind = POD_KIND_WRITE}, .body = body};
    struct api_submission submission = {.requests = &put.request, .count = 1};
    if (!api_path_id(req, 0, POD_REF_BUFFER, &put.buffer))
        return;
    put.request.write.buffer =
        (struct pod_ref){.kind = POD_REF_BUFFER, .number = put.buffer};
    // Octets come back as they were given, which is what an ETag says here.
    if (strcmp(api_body_type(req), put_octets_type) == 0)
        submission.admitted = api_data_etag_header;
    // It may have been freed while the body came.
    enum pod_code code = put_find(req, &put, &err);
    if (code == POD_OK)
        code = put_take_body(req, &put, &err);
    if (code == POD_OK)
        code = api_submission_end(req, &submission, &err);
    if (code == POD_OK) {
        // Nothing here looks at the bytes again: the device may keep them.
        pod_blob_give_up(put.request.write.data);
        api_submit(req, &submission);
    } else {
        api_problem(req, &err);
    }
    pod_buffer_view_fini(&put.view);
}

void api_data_put(struct api_request *req)
{
    if (strcmp(api_body_type(req), put_json_type) == 0)
        put_run(req, NULL);
    else
        api_payload_verify(req, put_run);
}
