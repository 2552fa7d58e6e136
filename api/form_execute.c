// SPDX-License-Identifier: Apache-2.0
// Executions: one load, or a gang of launches.
#include <stdio.h>

#include "api/common.h"
#include "api/forms.h"

enum { EXECUTE_LAUNCHES_MAX = 4096 };

// load, inputs and outputs: of the body itself, or of one of its launches.
static enum pod_code execute_read_launch(const struct api_form *form,
                                         struct api_reader *reader,
                                         struct pod_launch *out,
                                         struct pod_err *err)
{
    enum pod_code code =
        api_read_ref(reader, "load", POD_REF_LOAD, &out->load, err);
    if (code == POD_OK)
        code = api_read_refs(form->memory, reader, "inputs", POD_REF_BUFFER,
                             &out->inputs, &out->input_count, err);
    if (code == POD_OK)
        code = api_read_refs(form->memory, reader, "outputs", POD_REF_BUFFER,
                             &out->outputs, &out->output_count, err);
    out->auto_outputs = out->outputs == NULL;
    return code;
}

static enum pod_code execute_read_launches(const struct api_form *form,
                                           const json_t *list,
                                           struct pod_launch *out,
                                           struct pod_err *err)
{
    char object[POD_ERR_POINTER_BYTES];
    char pointer[POD_ERR_POINTER_BYTES];
    (void)snprintf(pointer, sizeof(pointer), "%.30s/launches",
                   api_read_pointer(form->reader, object));
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct api_reader reader;
        enum pod_code code = api_read_begin_item(
            &reader, json_array_get(list, i), pointer, i, err);
        reader.names = form->reader->names;
        if (code == POD_OK)
            code = execute_read_launch(form, &reader, &out[i], err);
        if (code == POD_OK)
            code = api_read_end(&reader, err);
        if (code == POD_OK && out[i].load.kind == POD_REF_NONE)
            code = api_read_missing(&reader, "load", err);
        if (code != POD_OK)
            return code;
    }
    return POD_OK;
}

static enum pod_code execute_bad(const struct api_reader *reader,
                                 const char *name, enum pod_reason reason,
                                 const char *text, struct pod_err *err)
{
    enum pod_code code = pod_err_set(err, reason, "%s", text);
    api_read_at(reader, name, err);
    return code;
}

// device_assignment is [computation][replica], of one computation.
static enum pod_code execute_read_assignment(const struct api_form *form,
                                             struct api_reader *reader,
                                             struct pod_request *request,
                                             struct pod_err *err)
{
    const json_t *rows = NULL;
    enum pod_code code =
        api_read_array(reader, "device_assignment", 1, &rows, err);
    if (code != POD_OK || rows == NULL)
        return code;
    const json_t *row = json_array_get(rows, 0);
    if (!json_is_array(row))
        return execute_bad(
            reader, "device_assignment", POD_REASON_WRONG_TYPE,
            "device_assignment must be a list of one list of cores", err);
    size_t count = json_array_size(row);
    uint32_t *cores =
        api_memory_alloc(form->memory, (count + 1) * sizeof(*cores));
    if (cores == NULL)
        return api_memory_error(form->memory, err);
    for (size_t i = 0; i < count; i++) {
        const json_t *core = json_array_get(row, i);
        json_int_t number = json_integer_value(core);
        if (!json_is_integer(core))
            return execute_bad(reader, "device_assignment",
                               POD_REASON_WRONG_TYPE, "cores must be integers",
                               err);
        if (number < 0 || number >= POD_NO_ID)
            return execute_bad(reader, "device_assignment",
                               POD_REASON_UNKNOWN_CORE, "there is no such core",
                               err);
        cores[i] = (uint32_t)number;
    }
    request->execute.assignment = cores;
    request->execute.assignment_count = count;
    return POD_OK;
}

static enum pod_code execute_read_gang(const struct api_form *form,
                                       struct api_reader *reader,
                                       const json_t *list,
                                       struct pod_request *request,
                                       struct pod_err *err)
{
    size_t count = json_array_size(list);
    if (count == 0)
        return execute_bad(reader, "launches", POD_REASON_COUNT_MISMATCH,
                           "a gang needs at least one launch", err);
    struct pod_launch *launches =
        api_memory_alloc(form->memory, count * sizeof(*launches));
    if (launches == NULL)
        return api_memory_error(form->memory, err);
    request->execute.launches = launches;
    request->execute.launch_count = count;
    request->execute.is_gang = true;
    return execute_read_launches(form, list, launches, err);
}

enum pod_code api_form_execute(const struct api_form *form,
                               struct pod_request *out, struct pod_err *err)
{
    struct api_reader *reader = form->reader;
    const json_t *launches = NULL;
    // One launch is the object itself.
    struct pod_launch *single = api_memory_alloc(form->memory, sizeof(*single));
    if (single == NULL)
        return api_memory_error(form->memory, err);
    enum pod_code code = api_common_from_body(form->memory, reader, out, err);
    if (code == POD_OK)
        code = execute_read_launch(form, reader, single, err);
    if (code == POD_OK)
        code = api_read_array(reader, "launches", EXECUTE_LAUNCHES_MAX,
                              &launches, err);
    if (code == POD_OK)
        code = execute_read_assignment(form, reader, out, err);
    if (code == POD_OK)
        code = api_read_end(reader, err);
    if (code != POD_OK)
        return code;
    bool is_single = single->load.kind != POD_REF_NONE;
    if (launches == NULL && !is_single)
        return api_read_missing(reader, "load", err);
    if (launches == NULL) {
        out->execute.launches = single;
        out->execute.launch_count = 1;
        return POD_OK;
    }
    if (is_single || single->inputs != NULL || single->outputs != NULL)
        return execute_bad(reader, "launches", POD_REASON_BAD_VALUE,
                           "load, inputs and outputs belong in each launch",
                           err);
    return execute_read_gang(form, reader, launches, out, err);
}
