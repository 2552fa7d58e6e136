// SPDX-License-Identifier: Apache-2.0
// The forms of operations that have few members.
#include "api/forms.h"

#include <string.h>

#include "api/body.h"
#include "api/common.h"
#include "api/digest.h"
#include "api/values.h"
#include "core/base/blob.h"

enum { FORM_REPLICAS_MAX = 4096 };

enum pod_code api_form_begin(struct api_request *req,
                             struct api_reader *out_reader,
                             struct api_form *out_form, struct pod_err *err)
{
    *out_form = (struct api_form){.memory = api_memory_of(req),
                                  .pod = api_pod(req),
                                  .reader = out_reader};
    return out_form->memory == NULL
               ? api_err_memory(err)
               : api_read_begin(out_reader, api_body_json(req), "", err);
}

enum pod_code api_form_fault(const struct api_form *form, const char *member,
                             enum pod_reason reason, const char *text,
                             struct pod_err *err)
{
    enum pod_code code = pod_err_set(err, reason, "%s", text);
    api_read_at(form->reader, member, err);
    return code;
}

// --------------------------------------------------------------------- values

static void form_unref(void *blob)
{
    pod_blob_unref(blob);
}

static void form_give(void *pod, size_t size)
{
    pod_staging_give(pod, size);
}

// Held against the staging budget as long as it lives.
static struct pod_blob *form_new_blob(const struct api_form *form, size_t size,
                                      struct pod_err *err)
{
    if (!pod_staging_take(form->pod, size)) {
        (void)api_memory_refuse(form->memory, form->pod, size, err);
        return NULL;
    }
    struct pod_blob *blob = pod_blob_new(size);
    if (blob == NULL) {
        pod_staging_give(form->pod, size);
        (void)api_err_memory(err);
        return NULL;
    }
    blob->on_free = form_give;
    blob->arg = form->pod;
    form->memory->held += size;
    if (api_memory_defer(form->memory, form_unref, blob))
        return blob;
    (void)api_memory_error(form->memory, err);
    return NULL;
}

struct pod_blob *api_form_values(const struct api_form *form,
                                 const json_t *values, const char *pointer,
                                 const struct pod_shape *shape,
                                 struct pod_err *err)
{
    if (api_values_check(shape, pointer, err) != POD_OK)
        return NULL;
    struct pod_blob *blob =
        form_new_blob(form, (size_t)pod_shape_bytes(shape), err);
    if (blob == NULL ||
        api_values_read(values, shape, pointer, blob->data, err) != POD_OK)
        return NULL;
    return blob;
}

// ---------------------------------------------------------------------- kinds

// A reference that must be there.
static enum pod_code form_ref(const struct api_form *form, const char *member,
                              enum pod_ref_kind kind, struct pod_ref *out,
                              struct pod_err *err)
{
    enum pod_code code = api_read_ref(form->reader, member, kind, out, err);
    if (code == POD_OK && out->kind == POD_REF_NONE)
        code = api_read_missing(form->reader, member, err);
    return code;
}

// The common members, before the form's own.
static enum pod_code form_common(const struct api_form *form,
                                 struct pod_request *out, struct pod_err *err)
{
    return api_common_from_body(form->memory, form->reader, out, err);
}

enum pod_code api_form_load(const struct api_form *form,
                            struct pod_request *out, struct pod_err *err)
{
    int64_t core = -1;
    enum pod_code code = form_common(form, out, err);
    if (code == POD_OK)
        code =
            form_ref(form, "program", POD_REF_PROGRAM, &out->load.program, err);
    if (code == POD_OK)
        code = api_read_integer(form->reader, "core", 0, UINT32_MAX - 1, &core,
                                err);
    if (code == POD_OK)
        code = api_read_end(form->reader, err);
    if (code == POD_OK && core < 0)
        code = api_read_missing(form->reader, "core", err);
    out->load.core = (uint32_t)core;
    return code;
}

enum pod_code api_form_unload(const struct api_form *form,
                              struct pod_request *out, struct pod_err *err)
{
    enum pod_code code = form_common(form, out, err);
    if (code == POD_OK)
        code = form_ref(form, "load", POD_REF_LOAD, &out->unload.load, err);
    if (code == POD_OK)
        code = api_read_end(form->reader, err);
    return code;
}

enum pod_code api_form_copy(const struct api_form *form,
                            struct pod_request *out, struct pod_err *err)
{
    enum pod_code code = form_common(form, out, err);
    if (code == POD_OK && out->copy.from.kind == POD_REF_NONE)
        code = form_ref(form, "from", POD_REF_BUFFER, &out->copy.from, err);
    if (code == POD_OK)
        code = form_ref(form, "to", POD_REF_BUFFER, &out->copy.to, err);
    if (code == POD_OK)
        code = api_read_end(form->reader, err);
    return code;
}

enum pod_code api_form_free(const struct api_form *form,
                            struct pod_request *out, struct pod_err *err)
{
    bool program = api_read_any(form->reader, "program") != NULL;
    enum pod_code code = form_common(form, out, err);
    if (code == POD_OK && program &&
        api_read_any(form->reader, "buffer") != NULL)
        code = api_form_fault(form, "program", POD_REASON_BAD_VALUE,
                              "buffer and program exclude each other", err);
    if (code == POD_OK && program)
        code =
            form_ref(form, "program", POD_REF_PROGRAM, &out->free.handle, err);
    if (code == POD_OK && !program)
        code = form_ref(form, "buffer", POD_REF_BUFFER, &out->free.handle, err);
    if (code == POD_OK)
        code = api_read_end(form->reader, err);
    return code;
}

enum pod_code api_form_read(const struct api_form *form,
                            struct pod_request *out, struct pod_err *err)
{
    enum pod_code code = form_common(form, out, err);
    out->read.length = UINT64_MAX;
    if (code == POD_OK)
        code = form_ref(form, "buffer", POD_REF_BUFFER, &out->read.buffer, err);
    if (code == POD_OK)
        code =
            api_read_u64(form->reader, "offset", &out->read.offset, NULL, err);
    if (code == POD_OK)
        code =
            api_read_u64(form->reader, "length", &out->read.length, NULL, err);
    if (code == POD_OK)
        code = api_read_end(form->reader, err);
    return code;
}

enum pod_code api_form_write(const struct api_form *form,
                             struct pod_request *out, const json_t **out_values,
                             struct pod_err *err)
{
    enum pod_code code = form_common(form, out, err);
    if (code == POD_OK)
        code =
            form_ref(form, "buffer", POD_REF_BUFFER, &out->write.buffer, err);
    *out_values = code == POD_OK ? api_read_any(form->reader, "values") : NULL;
    if (code == POD_OK)
        code = api_read_end(form->reader, err);
    if (code == POD_OK && *out_values == NULL)
        code = api_read_missing(form->reader, "values", err);
    return code;
}

// ------------------------------------------------------------------- programs

// What the staging budget is short of until the body has been dealt with.
struct form_hold {
    struct pod *pod;
    size_t bytes;
};

static void form_let_go(void *arg)
{
    const struct form_hold *hold = arg;
    pod_staging_give(hold->pod, hold->bytes);
}

static enum pod_code form_take_hold(const struct api_form *form, size_t bytes,
                                    struct pod_err *err)
{
    struct form_hold *hold = api_memory_alloc(form->memory, sizeof(*hold));
    if (hold == NULL)
        return api_memory_error(form->memory, err);
    if (!pod_staging_take(form->pod, bytes))
        return api_memory_refuse(form->memory, form->pod, bytes, err);
    *hold = (struct form_hold){.pod = form->pod, .bytes = bytes};
    form->memory->held += bytes;
    return api_memory_defer(form->memory, form_let_go, hold)
               ? POD_OK
               : api_memory_error(form->memory, err);
}

// The text as the engine keeps it, and its name. A program may live long, so
// it is not the blob that is held against the budget.
static enum pod_code form_take_program(const struct api_form *form,
                                       const char *text,
                                       struct pod_request *out,
                                       struct pod_err *err)
{
    size_t length = strlen(text);
    char *digest = api_memory_alloc(form->memory, API_DIGEST_NAME_BYTES);
    if (digest == NULL)
        return api_memory_error(form->memory, err);
    enum pod_code code = form_take_hold(form, length, err);
    if (code != POD_OK)
        return code;
    struct pod_blob *blob = pod_blob_new(length);
    if (blob == NULL)
        return api_err_memory(err);
    memcpy(blob->data, text, length);
    api_digest_name(blob->data, blob->size, digest);
    out->compile.program = blob;
    out->compile.digest = digest;
    return api_memory_defer(form->memory, form_unref, blob)
               ? POD_OK
               : api_memory_error(form->memory, err);
}

enum pod_code api_form_compile(const struct api_form *form,
                               struct pod_request *out, struct pod_err *err)
{
    const char *hlo = NULL;
    const char *mlir = NULL;
    int64_t replicas = 1;
    enum pod_code code = form_common(form, out, err);
    if (code == POD_OK)
        code = api_read_string(form->reader, "hlo", &hlo, err);
    if (code == POD_OK)
        code = api_read_string(form->reader, "mlir", &mlir, err);
    if (code == POD_OK)
        code = api_read_integer(form->reader, "replicas", 1, FORM_REPLICAS_MAX,
                                &replicas, err);
    if (code == POD_OK)
        code = api_read_end(form->reader, err);
    if (code != POD_OK)
        return code;
    if (hlo == NULL && mlir == NULL)
        return api_read_missing(form->reader, "hlo", err);
    if (hlo != NULL && mlir != NULL)
        return api_form_fault(form, "mlir", POD_REASON_BAD_VALUE,
                              "hlo and mlir exclude each other", err);
    const char *text = hlo != NULL ? hlo : mlir;
    if (text[0] == '\0')
        return api_form_fault(form, hlo != NULL ? "hlo" : "mlir",
                              POD_REASON_EMPTY_BODY, "the program is empty",
                              err);
    out->compile.format =
        hlo != NULL ? POD_FORMAT_HLO_TEXT : POD_FORMAT_MLIR_TEXT;
    out->compile.replicas = (uint32_t)replicas;
    return form_take_program(form, text, out, err);
}
