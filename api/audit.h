// SPDX-License-Identifier: Apache-2.0
// The audit log: who changed what, and who was refused.
//
// One line for each request that changes state or is refused (401, 403, 421,
// 429), once somebody may be refused at all; nothing in --dev. It goes where
// the log goes, with the subject "audit", at level info, and holds: who,
// scope, client, request id, status, the operation it made, method and target.
// Tokens and bodies are never in it.
#ifndef POD_API_AUDIT_H
#define POD_API_AUDIT_H

#include "api/http.h"

// The request ends.
void api_audit(const struct api_request *req);

#endif
