// SPDX-License-Identifier: Apache-2.0
// Requests with an Idempotency-Key: what connects a request to the record of
// its key (idempotency.h).
//
// The key is looked up twice. When the headers are there a request of another
// method, path, query (without `wait`), type or place in the data is refused,
// and the body of one that was answered before is only read to be compared: it
// needs no budget, and no handle that may be gone. When the body is whole the
// request is answered again, or waits for an equal one in flight, or is the
// first and goes to its handler. A key counts for requests that change state
// (scopes write and admin) and is ignored elsewhere.
#ifndef POD_API_KEYED_H
#define POD_API_KEYED_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "api/http.h"

struct api_answer;
struct api_server;
struct pod_blob;

// Reads the key once the route is known. Errors: BAD_PARAMETER (malformed or
// given twice), IDEMPOTENCY_KEY_REUSED.
enum pod_code api_keyed_headers(struct api_request *req, struct pod_err *err)
    __attribute__((warn_unused_result));
// Whether the answer is already known, so that the body is only compared.
bool api_keyed_replays(const struct api_request *req);
// A piece of the body. Error: IDEMPOTENCY_KEY_REUSED when it is longer than
// that of the request which was answered.
enum pod_code api_keyed_update(struct api_request *req, const void *data,
                               size_t size, struct pod_err *err)
    __attribute__((warn_unused_result));
// The body is whole. True: run the handler. False: the request was answered,
// or parked.
bool api_keyed_begin(struct api_request *req);
// Whether the request waits for an equal one and must keep its body.
bool api_keyed_waits(const struct api_request *req);
// The body of the reply, which is kept if it is to be given again.
void api_keyed_content(struct api_request *req, const void *bytes,
                       size_t length);
// The reply is made, its headers too.
void api_keyed_end(struct api_request *req);
// The request ends, whether it was answered or not.
void api_keyed_fini(struct api_request *req);

// For handlers: something has been made, so from now on the key must not be
// forgotten, even if there will be no answer to give again.
void api_keyed_made(struct api_request *req);
// For handlers whose work goes on when the request has ended: from here on the
// key is in flight until api_keyed_late. NULL: none, or not the first of it.
struct api_answer *api_keyed_leave(struct api_request *req);
// On the loop's thread: sets the answer of such a key, with a `Location`. Owns
// the value; NULL: there is no answer to give, but the request was carried out.
// Status 0: it was not, and the key is forgotten.
void api_keyed_late(struct api_server *server, struct api_answer *answer,
                    int status, const char *location, json_t *owned);
// For handlers that park after they have made something: sets the answer that
// the key gives if the client hangs up before it gets one. Owns the value; the
// headers are those set so far. Only if api_keyed_is_first, else there is
// nothing to do.
bool api_keyed_is_first(const struct api_request *req);
void api_keyed_accepted(struct api_request *req, int status, json_t *owned);
// The same with the text of JSON, which is borrowed. NULL: no memory.
void api_keyed_accepted_text(struct api_request *req, int status,
                             struct pod_blob *text);

#endif
