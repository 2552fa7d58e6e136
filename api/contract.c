// SPDX-License-Identifier: Apache-2.0
// /openapi.json: the contract.
#include "api/contract.h"

#include "api/handlers.h"
#include "api/query.h"

void api_contract_get(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;

    if (api_query_end(req, &err) == POD_OK)
        api_reply_static(req, 200, "application/json", api_contract,
                         api_contract_size);
    else
        api_problem(req, &err);
}
