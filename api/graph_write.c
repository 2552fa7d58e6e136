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

// The program of a load, of the pod or of the graph; 0: it is not compiled
// yet, or there is none.
static uint64_t write_program_of(const struct api_graph *graph,
                                 const struct pod_ref *load)
{
    const struct pod_request *named =
        load->kind == POD_REF_REQUEST ? graph->ops[load->number] : NULL;
    struct pod_load_view view;

    if (load->kind == POD_REF_LOAD &&
        pod_get_load(graph->pod, load->number, &view, NULL) == POD_OK)
        return view.program;
    if (named == NULL || named->kind != POD_KIND_LOAD ||
        named->load.program.kind != POD_REF_PROGRAM)
        return 0;
    return named->load.program.number;
}

// The leaf of a result that *leaf counts down to, or NULL.
static const struct pod_shape *write_leaf(const struct pod_shape *shape,
                                          size_t *leaf)
{
    const struct pod_shape *found = NULL;

    if (shape->type != POD_TYPE_TUPLE)
        return (*leaf)-- == 0 ? shape : NULL;
    for (size_t i = 0; i < shape->child_count && found == NULL; i++)
        found = write_leaf(&shape->children[i], leaf);
    return found;
}

// The shape of an automatic output, launch by launch, where the programs are
// compiled.
static enum pod_code write_shape_of_output(const struct api_graph *graph,
                                           const struct pod_ref *ref,
                                           struct pod_shape *out,
                                           struct pod_err *err)
{
    const struct pod_request *request = graph->ops[ref->number];
    const struct pod_shape *found = NULL;
    size_t leaf = ref->output;
    bool known = request->kind == POD_KIND_EXECUTE && ref->has_output;

    for (size_t i = 0;
         known && found == NULL && i < request->execute.launch_count; i++) {
        const struct pod_launch *launch = &request->execute.launches[i];
        uint64_t program = write_program_of(graph, &launch->load);
        struct pod_program_view view = {0};
        if (!launch->auto_outputs)
            continue;
        known = program != 0 &&
                pod_get_program(graph->pod, program, &view, NULL) == POD_OK &&
                view.has_shape;
        if (known)
            found = write_leaf(&view.shape.result, &leaf);
        if (found != NULL)
            *out = *found; // an array's owns nothing
        pod_program_view_fini(&view);
    }
    if (found != NULL)
        return POD_OK;
    if (!known)
        return write_unknown_shape(err);
    return pod_err_set(err, POD_REASON_UNKNOWN_HANDLE, "there is no output %u",
                       ref->output);
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
        return write_shape_of_output(graph, ref, out, err);
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
