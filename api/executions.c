// SPDX-License-Identifier: Apache-2.0
// POST /v1/executions: one load, or a gang of launches.
#include <stdio.h>

#include "api/body.h"
#include "api/common.h"
#include "api/handlers.h"
#include "api/query.h"

enum { EXECUTIONS_LAUNCHES_MAX = 4096 };

// load, inputs and outputs: of the body itself, or of one of its launches.
static enum pod_code executions_read_launch(struct api_request *req,
                                            struct api_reader *reader,
                                            struct pod_launch *out,
                                            struct pod_err *err)
{
    enum pod_code code =
        api_read_ref(reader, "load", POD_REF_LOAD, &out->load, err);
    if (code == POD_OK)
        code = api_read_refs(req, reader, "inputs", POD_REF_BUFFER,
                             &out->inputs, &out->input_count, err);
    if (code == POD_OK)
        code = api_read_refs(req, reader, "outputs", POD_REF_BUFFER,
                             &out->outputs, &out->output_count, err);
    out->auto_outputs = out->outputs == NULL;
    return code;
}

static enum pod_code executions_read_launches(struct api_request *req,
                                              const json_t *list,
                                              struct pod_launch *out,
                                              struct pod_err *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct api_reader reader;
        char pointer[POD_ERR_POINTER_BYTES];
        (void)snprintf(pointer, sizeof(pointer), "/launches/%zu", i);
        enum pod_code code =
            api_read_begin(&reader, json_array_get(list, i), pointer, err);
        if (code == POD_OK)
            code = executions_read_launch(req, &reader, &out[i], err);
        if (code == POD_OK)
            code = api_read_end(&reader, err);
        if (code == POD_OK && out[i].load.kind == POD_REF_NONE)
            code = api_read_missing(&reader, "load", err);
        if (code != POD_OK)
            return code;
    }
    return POD_OK;
}

static enum pod_code executions_bad(const struct api_reader *reader,
                                    const char *name, enum pod_reason reason,
                                    const char *text, struct pod_err *err)
{
    enum pod_code code = pod_err_set(err, reason, "%s", text);
    api_read_at(reader, name, err);
    return code;
}

// device_assignment is [computation][replica], of one computation.
static enum pod_code executions_read_assignment(struct api_request *req,
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
        return executions_bad(reader, "device_assignment",
                              POD_REASON_WRONG_TYPE,
                              "device_assignment is a list of one list of "
                              "cores",
                              err);
    size_t count = json_array_size(row);
    uint32_t *cores = api_alloc(req, (count + 1) * sizeof(*cores));
    if (cores == NULL)
        return api_err_memory(err);
    for (size_t i = 0; i < count; i++) {
        const json_t *core = json_array_get(row, i);
        json_int_t number = json_integer_value(core);
        if (!json_is_integer(core))
            return executions_bad(reader, "device_assignment",
                                  POD_REASON_WRONG_TYPE, "cores are integers",
                                  err);
        if (number < 0 || number >= POD_NO_ID)
            return executions_bad(reader, "device_assignment",
                                  POD_REASON_UNKNOWN_CORE,
                                  "there is no such core", err);
        cores[i] = (uint32_t)number;
    }
    request->execute.assignment = cores;
    request->execute.assignment_count = count;
    return POD_OK;
}

static enum pod_code executions_read_gang(struct api_request *req,
                                          struct api_reader *reader,
                                          const json_t *list,
                                          struct pod_request *request,
                                          struct pod_err *err)
{
    size_t count = json_array_size(list);
    if (count == 0)
        return executions_bad(reader, "launches", POD_REASON_COUNT_MISMATCH,
                              "a gang has at least one launch", err);
    struct pod_launch *launches = api_alloc(req, count * sizeof(*launches));
    if (launches == NULL)
        return api_err_memory(err);
    request->execute.launches = launches;
    request->execute.launch_count = count;
    request->execute.is_gang = true;
    return executions_read_launches(req, list, launches, err);
}

// One launch is the body itself; `single` holds it.
static enum pod_code executions_read(struct api_request *req,
                                     struct pod_request *request,
                                     struct pod_launch *single,
                                     struct pod_err *err)
{
    struct api_reader reader;
    const json_t *launches = NULL;
    enum pod_code code = api_read_begin(&reader, api_body_json(req), "", err);
    if (code == POD_OK)
        code = api_common_from_body(req, &reader, request, err);
    if (code == POD_OK)
        code = executions_read_launch(req, &reader, single, err);
    if (code == POD_OK)
        code = api_read_array(&reader, "launches", EXECUTIONS_LAUNCHES_MAX,
                              &launches, err);
    if (code == POD_OK)
        code = executions_read_assignment(req, &reader, request, err);
    if (code == POD_OK)
        code = api_read_end(&reader, err);
    if (code != POD_OK)
        return code;
    bool is_single = single->load.kind != POD_REF_NONE;
    if (launches == NULL && !is_single)
        return api_read_missing(&reader, "load", err);
    if (launches == NULL) {
        request->execute.launches = single;
        request->execute.launch_count = 1;
        return POD_OK;
    }
    if (is_single || single->inputs != NULL || single->outputs != NULL)
        return executions_bad(&reader, "launches", POD_REASON_BAD_VALUE,
                              "load, inputs and outputs stand in each launch",
                              err);
    return executions_read_gang(req, &reader, launches, request, err);
}

void api_executions_post(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_launch single = {.auto_outputs = true};
    struct pod_request request = {.kind = POD_KIND_EXECUTE};
    struct api_submission submission = {.requests = &request, .count = 1};
    enum pod_code code = executions_read(req, &request, &single, &err);
    if (code == POD_OK)
        code = api_submission_end(req, &submission, &err);
    if (code == POD_OK)
        api_submit(req, &submission);
    else
        api_problem(req, &err);
}
