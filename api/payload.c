// SPDX-License-Identifier: Apache-2.0
#include "api/payload.h"

#include "api/body.h"
#include "api/common.h"
#include "api/digest.h"
#include "api/memory.h"
#include "api/park.h"
#include "api/values.h"

static void payload_unref(void *blob)
{
    pod_blob_unref(blob);
}

static void payload_give(void *pod, size_t size)
{
    pod_staging_give(pod, size);
}

// Lets the request own a reference.
static struct pod_blob *payload_keep(struct api_request *req,
                                     struct pod_blob *blob, struct pod_err *err)
{
    if (api_defer(req, payload_unref, blob))
        return blob;
    (void)api_err_memory(err);
    return NULL;
}

// `held` is what the request has of the budget.
static struct pod_blob *payload_new(struct api_request *req, size_t size,
                                    size_t held, struct pod_err *err)
{
    const struct api_memory own = {.held = held};
    struct pod *pod = api_pod(req);
    if (!pod_staging_take(pod, size)) {
        (void)api_memory_refuse(&own, pod, size, err);
        return NULL;
    }
    struct pod_blob *blob = pod_blob_new(size);
    if (blob == NULL) {
        pod_staging_give(pod, size);
        (void)api_err_memory(err);
        return NULL;
    }
    blob->on_free = payload_give;
    blob->arg = pod;
    return payload_keep(req, blob, err);
}

// The bytes from `offset` on of a blob, without a copy.
static struct pod_blob *payload_slice(struct api_request *req,
                                      struct pod_blob *whole, size_t offset,
                                      struct pod_err *err)
{
    struct pod_blob *slice =
        pod_blob_slice(whole, offset, whole->size - offset);
    if (slice == NULL) {
        (void)api_err_memory(err);
        return NULL;
    }
    return payload_keep(req, slice, err);
}

struct pod_blob *api_payload_npy(struct api_request *req,
                                 const struct api_npy *npy,
                                 struct pod_blob *file, struct pod_err *err)
{
    if (api_npy_is_plain(npy))
        return payload_slice(req, file, npy->data_offset, err);
    struct pod_blob *plain = payload_new(req, npy->data_bytes, file->size, err);
    if (plain != NULL)
        api_npy_to_plain(npy, file->data + npy->data_offset, plain->data);
    return plain;
}

enum pod_code api_payload_undigested(struct api_request *req,
                                     struct pod_err *err)
{
    const char *header = NULL;
    enum pod_code code = api_request_list(req, "Content-Digest", &header, err);

    // The text is gone once it is parsed; nothing is taken unverified that
    // somebody wanted verified.
    if (code != POD_OK || header == NULL)
        return code;
    return pod_err_set(
        err, POD_REASON_BAD_VALUE,
        "Content-Digest is verified for octets and .npy files, not for JSON");
}

struct pod_blob *api_payload_values(struct api_request *req,
                                    const json_t *values, const char *pointer,
                                    const struct pod_shape *shape,
                                    struct pod_err *err)
{
    if (api_payload_undigested(req, err) != POD_OK ||
        api_values_check(shape, pointer, err) != POD_OK)
        return NULL;
    size_t size = (size_t)pod_shape_bytes(shape);
    struct pod_blob *blob = payload_new(req, size, 0, err);
    if (blob == NULL ||
        api_values_read(values, shape, pointer, blob->data, err) != POD_OK)
        return NULL;
    return blob;
}

// ------------------------------------------------------------------- digest

enum { PAYLOAD_SLICE = 1 << 20 };

struct payload_check {
    struct api_digest digest;
    struct pod_blob *body; // parking lets go of the request's own
    size_t done;
    api_body_fn *next;
};

static void payload_end(struct api_request *req, struct payload_check *check)
{
    struct pod_err err = POD_ERR_NONE;
    if (api_digest_end(&check->digest, &err) == POD_OK)
        check->next(req, check->body);
    else
        api_problem(req, &err);
}

static void payload_resume(struct api_request *req, enum api_wake why);

static void payload_step(struct api_request *req)
{
    struct payload_check *check = api_state(req);
    const struct pod_blob *body = check->body;
    bool parked = false;
    while (check->done < body->size && !parked) {
        struct pod_err err = POD_ERR_NONE;
        size_t size = body->size - check->done;
        if (size > PAYLOAD_SLICE)
            size = PAYLOAD_SLICE;
        api_digest_update(&check->digest, body->data + check->done, size);
        check->done += size;
        // Until the next turn. Without a place to park it goes on at once.
        parked =
            check->done < body->size &&
            api_park(req, api_now(req) + 1, payload_resume, &err) == POD_OK;
    }
    if (!parked)
        payload_end(req, check);
}

static void payload_resume(struct api_request *req, enum api_wake why)
{
    (void)why; // it does not wait for anything
    payload_step(req);
}

void api_payload_verify(struct api_request *req, api_body_fn *next)
{
    struct pod_err err = POD_ERR_NONE;
    struct payload_check *check = NULL;
    const char *header = NULL;
    enum pod_code code = api_request_list(req, "Content-Digest", &header, &err);
    if (code == POD_OK && header == NULL) {
        next(req, api_body_blob(req));
        return;
    }
    if (code == POD_OK) {
        check = api_alloc(req, sizeof(*check));
        code = check == NULL ? api_err_memory(&err)
                             : api_digest_begin(&check->digest, header, &err);
    }
    if (code == POD_OK) {
        check->next = next;
        check->body = payload_keep(req, pod_blob_ref(api_body_blob(req)), &err);
        code = check->body != NULL ? POD_OK : err.code;
    }
    if (code != POD_OK) {
        api_problem(req, &err);
        return;
    }
    api_set_state(req, check);
    payload_step(req);
}
