// SPDX-License-Identifier: Apache-2.0
// Requests with an Idempotency-Key: what connects a request to the record of
// its key (idempotency.h).
//
// The key is looked up twice. When the headers are there a request of another
// method, path, query (without `wait`), type or place in the data is refused,
// and the body of one that was answered before is only read to be compared:
// it needs no budget, and no handle that may be gone. When the body is whole
// the request is answered again, or waits for an equal one in flight, or is
// the first and goes to its handler. A key counts on what changes state
// (scopes write and admin) and is passed over elsewhere.
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
// Whether the answer is known already, so that nothing is to be done with the
// body but to compare it.
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
// The body of the reply: kept if it is the one to be given again.
void api_keyed_content(struct api_request *req, const void *bytes,
                       size_t length);
// The reply is made, its headers too.
void api_keyed_end(struct api_request *req);
// The request ends, whether it was answered or not.
void api_keyed_fini(struct api_request *req);

// For handlers: something was made, so from here on the key is never forgotten,
// whether there will be an answer to give again or not.
void api_keyed_made(struct api_request *req);
// For handlers whose work goes on when the request has ended: from here on the
// key is in flight until api_keyed_late. NULL: none, or not the first of it.
struct api_answer *api_keyed_leave(struct api_request *req);
// On the loop's thread: the answer that such a key gives, with a `Location`.
// Takes the value over; NULL: there is none to give, but it was done. Status 0:
// nothing was done, and the key is forgotten.
void api_keyed_late(struct api_server *server, struct api_answer *answer,
                    int status, const char *location, json_t *owned);
// For handlers that park after they have made something: the answer that the
// key gives should the client hang up before it gets one. Takes the value
// over; headers are those set so far. Nothing to do without a key: ask first.
bool api_keyed_is_first(const struct api_request *req);
void api_keyed_accepted(struct api_request *req, int status, json_t *owned);
// The same with the text of JSON, which is borrowed. NULL: no memory.
void api_keyed_accepted_text(struct api_request *req, int status,
                             struct pod_blob *text);

#endif
