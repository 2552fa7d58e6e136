// SPDX-License-Identifier: Apache-2.0
#include "api/graph_write.h"

#include <stdio.h>

#include "api/forms.h"

static enum pod_code write_unknown_shape(struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_SHAPE_MISMATCH,
                       "the buffer's shape is not known yet, so no values can "
                       "be read for it");
}

static enum pod_code write_octets(uint64_t bytes, struct pod_shape *out,
                                  struct pod_err *err)
{
    const int64_t dims[1] = {(int64_t)bytes};

    return pod_shape_array(out, POD_TYPE_U8, 1, dims, err);
}

static enum pod_code write_shape_of_buffer(struct api_graph *graph,
                                           uint64_t number,
                                           struct pod_shape *out,
                                           struct pod_err *err)
{
    struct pod_buffer_view view = {0};
    enum pod_code code = pod_get_buffer(graph->pod, number, &view, err);

    if (code != POD_OK)
        return pod_err_set(err, POD_REASON_UNKNOWN_HANDLE,
                           "the buffer does not exist");
    if (view.has_shape && pod_shape_is_array(&view.shape))
        *out = view.shape; // an array's owns nothing
    else if (view.bytes > 0 || view.state == POD_HANDLE_READY)
        code = write_octets(view.bytes, out, err);
    else
        code = write_unknown_shape(err);
    pod_buffer_view_fini(&view);
    return code;
}

static enum pod_code write_shape_of(struct api_graph *graph,
                                    const struct pod_ref *ref,
                                    struct pod_shape *out, struct pod_err *err)
{
    const struct pod_request *named;

    if (ref->kind == POD_REF_BUFFER)
        return write_shape_of_buffer(graph, ref->number, out, err);
    named = graph->ops[ref->number];
    if (ref->has_output || named->kind != POD_KIND_ALLOCATE)
        return write_unknown_shape(err);
    if (named->allocate.shape == NULL)
        return write_octets(named->allocate.bytes, out, err);
    *out = *named->allocate.shape;
    return POD_OK;
}

enum pod_code api_graph_write_values(struct api_graph *graph,
                                     const struct api_graph_write *write,
                                     struct pod_err *err)
{
    const struct api_form form = {.memory = &graph->memory, .pod = graph->pod};
    struct pod_shape shape;
    char pointer[POD_ERR_POINTER_BYTES];

    enum pod_code code =
        write_shape_of(graph, &write->request->write.buffer, &shape, err);
    if (code != POD_OK) {
        pod_err_at(err, "/ops/%zu/buffer", write->operation);
        return code;
    }
    (void)snprintf(pointer, sizeof(pointer), "/ops/%zu/values",
                   write->operation);
    write->request->write.data =
        api_form_values(&form, write->values, pointer, &shape, err);
    return write->request->write.data != NULL ? POD_OK : err->code;
}
