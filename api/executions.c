// SPDX-License-Identifier: Apache-2.0
// POST /v1/executions: one load, or a gang of launches.
#include "api/common.h"
#include "api/forms.h"
#include "api/handlers.h"

void api_executions_post(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_request request = {.kind = POD_KIND_EXECUTE};
    struct api_submission submission = {.requests = &request, .count = 1};
    struct api_reader reader;
    struct api_form form;
    enum pod_code code = api_form_begin(req, &reader, &form, &err);
    if (code == POD_OK)
        code = api_form_execute(&form, &request, &err);
    api_submit_read(req, &submission, code, &err);
}
