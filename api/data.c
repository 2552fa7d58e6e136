// SPDX-License-Identifier: Apache-2.0
#include "api/data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/npy.h"
#include "api/problem.h"
#include "api/query.h"
#include "api/values.h"

static const char *const data_types[] = {
    [API_DATA_OCTETS] = "application/octet-stream",
    [API_DATA_NPY] = "application/x-npy",
    [API_DATA_JSON] = "application/json",
};

enum { DATA_TYPE_COUNT = sizeof(data_types) / sizeof(data_types[0]) };

enum pod_code api_data_describe(const struct pod_shape *shape, uint64_t bytes,
                                struct api_data *out, struct pod_err *err)
{
    *out = (struct api_data){.bytes = bytes, .length = bytes};
    if (shape != NULL && pod_shape_is_array(shape) &&
        (uint64_t)pod_shape_bytes(shape) == bytes) {
        out->shape = *shape;
        return POD_OK;
    }
    if (bytes > INT64_MAX)
        return pod_err_set(err, POD_REASON_INTERNAL,
                           "a buffer of %" PRIu64 " bytes", bytes);
    const int64_t dims[1] = {(int64_t)bytes};
    return pod_shape_array(&out->shape, POD_TYPE_U8, 1, dims, err);
}

enum pod_code api_data_negotiate(struct api_request *req, struct api_data *data,
                                 struct pod_err *err)
{
    int chosen = api_accept(req, data_types, DATA_TYPE_COUNT);
    if (chosen < 0)
        return pod_err_set(err, POD_REASON_NOT_ACCEPTABLE,
                           "data is available as %s, %s or %s",
                           data_types[API_DATA_OCTETS],
                           data_types[API_DATA_NPY], data_types[API_DATA_JSON]);
    data->form = (enum api_data_form)chosen;
    if (data->form == API_DATA_JSON && !api_values_fit(&data->shape))
        return pod_err_set(
            err, POD_REASON_NOT_ACCEPTABLE,
            "arrays of more than %d elements are available only as "
            "application/octet-stream or application/x-npy",
            API_VALUES_MAX);
    return POD_OK;
}

// A strong validator names one representation.
static void data_print_etag(const struct api_request *req, uint64_t writer,
                            enum api_data_form form,
                            char out_etag[API_DATA_ETAG_BYTES])
{
    static const char *const suffixes[] = {
        [API_DATA_OCTETS] = "",
        [API_DATA_NPY] = "-npy",
        [API_DATA_JSON] = "-json",
    };
    (void)snprintf(out_etag, API_DATA_ETAG_BYTES, "\"%s-w%" PRIu64 "%s\"",
                   pod_instance(api_pod(req)), writer, suffixes[form]);
}

void api_data_set_etag(const struct api_request *req, struct api_data *data,
                       uint64_t writer)
{
    data_print_etag(req, writer, data->form, data->etag);
}

void api_data_etag_header(struct api_request *req, uint64_t writer)
{
    char etag[API_DATA_ETAG_BYTES];

    data_print_etag(req, writer, API_DATA_OCTETS, etag);
    api_header_text(req, "ETag", etag);
}

// -------------------------------------------------------------- preconditions

static enum pod_code data_precondition(const char *header, struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_PRECONDITION_FAILED,
                       "%s: the buffer's contents do not match", header);
}

bool api_data_wanted(struct api_request *req, const struct api_data *data)
{
    struct pod_err err = POD_ERR_NONE;
    const char *match = api_request_header(req, "If-Match");
    const char *none = api_request_header(req, "If-None-Match");
    if (match != NULL && !api_etag_listed(match, data->etag, false)) {
        (void)data_precondition("If-Match", &err);
        api_problem(req, &err);
        return false;
    }
    if (none == NULL || !api_etag_listed(none, data->etag, true))
        return true;
    api_header_text(req, "ETag", data->etag);
    api_header(req, "Vary", "Accept");
    api_reply_empty(req, 304);
    return false;
}

static bool data_lists_writer(const struct api_request *req, const char *header,
                              uint64_t writer, bool weak)
{
    char etag[API_DATA_ETAG_BYTES];
    bool listed = false;
    for (int form = 0; !listed && form < DATA_TYPE_COUNT; form++) {
        data_print_etag(req, writer, (enum api_data_form)form, etag);
        listed = api_etag_listed(header, etag, weak);
    }
    return listed;
}

enum pod_code api_data_may_write(const struct api_request *req, uint64_t writer,
                                 uint64_t *out_writer, struct pod_err *err)
{
    const char *match = api_request_header(req, "If-Match");
    const char *none = api_request_header(req, "If-None-Match");
    *out_writer = 0;
    if (match != NULL && !data_lists_writer(req, match, writer, false))
        return data_precondition("If-Match", err);
    if (none != NULL && data_lists_writer(req, none, writer, true))
        return data_precondition("If-None-Match", err);
    if (match != NULL && strcmp(match, "*") != 0)
        *out_writer = writer;
    return POD_OK;
}

bool api_data_range(struct api_request *req, struct api_data *data)
{
    const char *range = api_request_header(req, "Range");
    const char *guard = api_request_header(req, "If-Range");
    bool stale = guard != NULL && strcmp(guard, data->etag) != 0;
    // Ranges of .npy and JSON would cut texts: the whole is always right.
    if (range == NULL || stale || data->form != API_DATA_OCTETS)
        return true;
    uint64_t offset = 0;
    uint64_t length = 0;
    enum api_range kind = api_range_parse(range, data->bytes, &offset, &length);
    if (kind == API_RANGE_PART) {
        data->part = true;
        data->offset = offset;
        data->length = length;
    }
    if (kind != API_RANGE_BEYOND)
        return true;
    struct pod_err err = POD_ERR_NONE;
    (void)pod_err_set(&err, POD_REASON_RANGE_NOT_SATISFIABLE,
                      "the range lies beyond the %" PRIu64 " bytes there are",
                      data->bytes);
    api_header(req, "Content-Range", "bytes */%" PRIu64, data->bytes);
    api_problem(req, &err);
    return false;
}

void api_data_headers(struct api_request *req, const struct api_data *data)
{
    api_header(req, "Vary", "Accept");
    if (data->etag[0] != '\0')
        api_header_text(req, "ETag", data->etag);
    if (data->form == API_DATA_OCTETS)
        api_header(req, "Accept-Ranges", "bytes");
    if (data->part)
        api_header(req, "Content-Range",
                   "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, data->offset,
                   data->offset + data->length - 1, data->bytes);
}

int api_data_status(const struct api_data *data)
{
    return data->part ? 206 : 200;
}

const char *api_data_type(const struct api_data *data)
{
    return data_types[data->form];
}

static void data_unref(void *blob)
{
    pod_blob_unref(blob);
}

enum pod_code api_data_prefix(struct api_request *req,
                              const struct api_data *data,
                              struct pod_blob **out_prefix, struct pod_err *err)
{
    struct pod_str header = {0};
    *out_prefix = NULL;
    if (data->form != API_DATA_NPY)
        return POD_OK;
    api_npy_print_header(&data->shape, &header);
    struct pod_blob *blob = header.failed ? NULL : pod_blob_new(header.length);
    if (blob != NULL) {
        memcpy(blob->data, header.data, header.length);
        *out_prefix = blob;
    }
    pod_str_fini(&header);
    if (blob == NULL || !api_defer(req, data_unref, blob))
        return api_err_memory(err);
    return POD_OK;
}

void api_data_reply_head(struct api_request *req, const struct api_data *data)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_blob *prefix = NULL;
    if (api_data_prefix(req, data, &prefix, &err) != POD_OK) {
        api_problem(req, &err);
        return;
    }
    api_data_headers(req, data);
    uint64_t length = data->bytes + (prefix != NULL ? prefix->size : 0);
    // The length of JSON is only known once the values are.
    if (data->form == API_DATA_JSON)
        length = API_LENGTH_UNKNOWN;
    api_reply_head(req, 200, api_data_type(data), length);
}

// {"shape":"f32[2]" without the brace that closes it.
static bool data_print_shape(const struct pod_shape *shape, struct pod_str *out)
{
    struct pod_str text = {0};
    pod_shape_print(shape, false, &text);
    json_t *head = text.failed ? NULL : json_pack("{s:s}", "shape", text.data);
    char *dump = head != NULL ? json_dumps(head, JSON_COMPACT) : NULL;
    if (dump != NULL)
        pod_str_append(out, dump, strlen(dump) - 1);
    free(dump);
    json_decref(head);
    pod_str_fini(&text);
    return dump != NULL;
}

void api_data_reply_values(struct api_request *req, const struct api_data *data,
                           const void *bytes)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_str text = {0};
    bool printed = data_print_shape(&data->shape, &text);
    pod_str_puts(&text, ",\"values\":");
    api_values_print(&data->shape, bytes, &text);
    pod_str_puts(&text, "}\n");
    if (printed && !text.failed) {
        api_data_headers(req, data);
        api_reply_text(req, 200, api_data_type(data), text.data, text.length);
    } else {
        (void)api_err_memory(&err);
        api_problem(req, &err);
    }
    pod_str_fini(&text);
}
