// SPDX-License-Identifier: Apache-2.0
// /v1/events/{op}/data: the bytes of an asynchronous read.
#include <string.h>

#include "api/common.h"
#include "api/data.h"
#include "api/handlers.h"
#include "api/park.h"
#include "api/watch.h"
#include "core/base/mem.h"

enum { KEPT_WAIT_S = 30 };

static void kept_reply_values(struct api_request *req,
                              const struct pod_data *kept,
                              const struct api_data *data)
{
    struct pod_err err = POD_ERR_NONE;
    size_t used = 0;
    // Bounded: JSON is for small arrays.
    unsigned char *bytes = pod_malloc((size_t)kept->bytes);
    if (bytes == NULL) {
        (void)api_err_memory(&err);
        api_problem(req, &err);
        return;
    }
    for (size_t i = 0; i < kept->chunk_count; i++) {
        memcpy(bytes + used, kept->chunks[i]->data, kept->chunks[i]->size);
        used += kept->chunks[i]->size;
    }
    api_data_reply_values(req, data, bytes);
    pod_free(bytes);
}

static void kept_reply_blobs(struct api_request *req,
                             const struct pod_data *kept,
                             const struct api_data *data)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_blob *prefix = NULL;
    if (api_data_prefix(req, data, &prefix, &err) != POD_OK) {
        api_problem(req, &err);
        return;
    }
    api_data_headers(req, data);
    api_reply_blobs(req, api_data_status(data), api_data_type(data), prefix,
                    kept->chunks, kept->chunk_count, data->offset,
                    data->length);
}

static void kept_reply(struct api_request *req, const struct api_waiter *read,
                       const struct pod_data *kept)
{
    struct pod_err err = POD_ERR_NONE;
    struct api_data data;
    enum pod_code code = api_data_describe(
        kept->has_shape ? &kept->shape : NULL, kept->bytes, &data, &err);
    if (code == POD_OK)
        code = api_data_negotiate(req, &data, &err);
    if (code != POD_OK) {
        api_problem(req, &err);
        return;
    }
    api_data_set_etag(req, &data, read->number);
    if (!api_data_wanted(req, &data))
        return;
    if (api_method(req) == API_HEAD)
        api_data_reply_head(req, &data);
    else if (!api_data_range(req, &data))
        return;
    else if (data.form == API_DATA_JSON)
        kept_reply_values(req, kept, &data);
    else
        kept_reply_blobs(req, kept, &data);
}

// The bytes cannot be had: an operation that ended badly says why.
static void kept_refuse(struct api_request *req, const struct api_waiter *read,
                        const struct pod_err *why)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_event_view view = {0};
    bool ended_badly =
        pod_get_event(api_pod(req), read->number, &view, &err) == POD_OK &&
        view.kind == POD_KIND_READ && view.has_error;
    if (ended_badly)
        api_problem_of_event(req, &view);
    else
        api_problem(req, why);
    pod_event_view_fini(&view);
}

static void kept_resume(struct api_request *req, enum api_wake why);

static void kept_look(struct api_request *req, bool last)
{
    const struct api_waiter *read = api_state(req);
    struct pod_err err = POD_ERR_NONE;
    struct pod_data kept = {0};
    // Registered before the look, so that its end is not missed.
    enum api_watch watch =
        last ? API_WATCH_NOT : api_watch(req, api_pod(req), read->number, 0);
    enum pod_code code = pod_take_data(api_pod(req), read->number, &kept, &err);
    if (code == POD_OK) {
        kept_reply(req, read, &kept);
        pod_data_fini(&kept);
        return;
    }
    if (err.reason == POD_REASON_WAIT_EXPIRED && watch == API_WATCH_WAITING &&
        api_park(req, read->deadline_ns, kept_resume, &err) == POD_OK)
        return;
    kept_refuse(req, read, &err);
}

static void kept_resume(struct api_request *req, enum api_wake why)
{
    kept_look(req, why != API_WAKE_EVENT);
}

void api_event_data_get(struct api_request *req)
{
    const struct api_waiter *read = api_waiter_begin(
        req, POD_REF_OP, KEPT_WAIT_S * POD_NS_PER_S, sizeof(*read));
    if (read != NULL)
        kept_look(req, read->deadline_ns == 0);
}

void api_event_data_delete(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    uint64_t op = 0;
    if (!api_path_id_only(req, POD_REF_OP, &op))
        return;
    if (pod_drop_data(api_pod(req), op, &err) == POD_OK)
        api_reply_empty(req, 204);
    else
        api_problem(req, &err);
}
