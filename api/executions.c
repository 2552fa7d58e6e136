// SPDX-License-Identifier: Apache-2.0
// POST /v1/executions: one load, or a gang of launches.
#include "api/body.h"
#include "api/common.h"
#include "api/forms.h"
#include "api/handlers.h"

void api_executions_post(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_request request = {.kind = POD_KIND_EXECUTE};
    struct api_submission submission = {.requests = &request, .count = 1};
    struct api_reader reader;
    struct api_form form = {
        .memory = api_memory_of(req), .pod = api_pod(req), .reader = &reader};
    enum pod_code code = form.memory == NULL ? api_err_memory(&err) : POD_OK;
    if (code == POD_OK)
        code = api_read_begin(&reader, api_body_json(req), "", &err);
    if (code == POD_OK)
        code = api_form_execute(&form, &request, &err);
    if (code == POD_OK)
        code = api_submission_end(req, &submission, &err);
    if (code == POD_OK)
        api_submit(req, &submission);
    else
        api_problem(req, &err);
}
