// SPDX-License-Identifier: Apache-2.0
// What the members of an object say of an operation, read into a request: for
// bodies, and for the operations of a graph. Each takes the common members
// too, and refuses members that it does not know.
#ifndef POD_API_FORMS_H
#define POD_API_FORMS_H

#include "api/json.h"
#include "api/memory.h"
#include "core/pod/pod.h"

// What they read from and into. What a request points at lives as long as the
// object and the memory.
struct api_form {
    struct api_memory *memory;
    struct pod *pod;           // whose staging budget values are held against
    struct api_reader *reader; // begun
};

// The form of a request's body.
enum pod_code api_form_begin(struct api_request *req,
                             struct api_reader *out_reader,
                             struct api_form *out_form, struct pod_err *err)
    __attribute__((warn_unused_result));

// core, and one of bytes, shape (with values or fill), tuple.
enum pod_code api_form_allocate(const struct api_form *form,
                                struct pod_request *out, struct pod_err *err)
    __attribute__((warn_unused_result));
// load, inputs, outputs; or launches and device_assignment.
enum pod_code api_form_execute(const struct api_form *form,
                               struct pod_request *out, struct pod_err *err)
    __attribute__((warn_unused_result));
// program, core.
enum pod_code api_form_load(const struct api_form *form,
                            struct pod_request *out, struct pod_err *err)
    __attribute__((warn_unused_result));
// load.
enum pod_code api_form_unload(const struct api_form *form,
                              struct pod_request *out, struct pod_err *err)
    __attribute__((warn_unused_result));
// to, and from unless out->copy.from is set.
enum pod_code api_form_copy(const struct api_form *form,
                            struct pod_request *out, struct pod_err *err)
    __attribute__((warn_unused_result));
// buffer or program.
enum pod_code api_form_free(const struct api_form *form,
                            struct pod_request *out, struct pod_err *err)
    __attribute__((warn_unused_result));
// buffer, offset, length: the bytes are kept with the operation.
enum pod_code api_form_read(const struct api_form *form,
                            struct pod_request *out, struct pod_err *err)
    __attribute__((warn_unused_result));
// hlo or mlir (text), replicas.
enum pod_code api_form_compile(const struct api_form *form,
                               struct pod_request *out, struct pod_err *err)
    __attribute__((warn_unused_result));
// buffer, values. The array is read when its shape is known, with
// api_form_values; *out_values is borrowed from the object.
enum pod_code api_form_write(const struct api_form *form,
                             struct pod_request *out, const json_t **out_values,
                             struct pod_err *err)
    __attribute__((warn_unused_result));

// The bytes of an array, owned by the memory; `pointer` is the place of
// `values`. NULL with an error.
struct pod_blob *api_form_values(const struct api_form *form,
                                 const json_t *values, const char *pointer,
                                 const struct pod_shape *shape,
                                 struct pod_err *err);

// A fault of a member.
enum pod_code api_form_fault(const struct api_form *form, const char *member,
                             enum pod_reason reason, const char *text,
                             struct pod_err *err);

#endif
