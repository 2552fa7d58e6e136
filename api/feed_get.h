// SPDX-License-Identifier: Apache-2.0
// What the two answers of /v1/watch share. For feed_get.c and feed_stream.c.
#ifndef POD_API_FEED_GET_H
#define POD_API_FEED_GET_H

#include "api/feed_reader.h"
#include "api/live.h"

// In the order of the types that Accept is held against.
enum feed_form { FEED_LINES, FEED_SSE, FEED_PAGE };

// A request for the stream. Lives in the request's memory.
struct feed_watch {
    enum feed_form form;
    struct feed_reader reader;
    // A page:
    int64_t wait_ns;
    int64_t until_ns;
    // A stream: the message that is being written, owned, and how far.
    struct feed_message *message;
    size_t written;
    int64_t bookmark_ns; // when the next is due
    bool greeted;
    bool over;
};

// Replies with a stream of `type`, or a problem.
void feed_stream_start(struct api_request *req, struct feed_watch *watch,
                       const char *type);

#endif
