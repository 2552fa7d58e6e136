// SPDX-License-Identifier: Apache-2.0
// Messages of the stream of changes, encoded once for all who watch.
//
// A message is kept as one text, laid out so that all three forms are parts of
// it: the whole is the SSE frame, the line after "data: " is the NDJSON one,
// and that without its end stands in a JSON page.
#ifndef POD_API_FEED_MESSAGE_H
#define POD_API_FEED_MESSAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/cursor.h"
#include "core/base/list.h"
#include "core/pod/changes.h"
#include "core/pod/pod.h"

// Counted; for the loop's thread alone.
struct feed_message {
    long refs;
    struct pod_list link; // of its owner
    uint64_t sequence;    // 0: not of a change
    bool needless;        // a later change tells the same: not to be sent
    size_t label_count;
    size_t frame_length; // of the SSE frame, which is text[0...]
    size_t json_start;
    size_t json_length; // followed by a line feed in the frame
    size_t bytes;       // in all
    char text[];        // the frame, then the labels: key, NUL, value, NUL
};

// The name of a change's kind, which is its topic without the "s".
const char *feed_kind_name(enum pod_change_kind kind);

// What a change has become: an operation as it was when it came to the entry's
// revision, anything else as it is now. A thing that is kept no longer is shown
// by its id alone (and the state of the entry). The cursor is at the change.
// NULL: no memory.
struct feed_message *feed_message_of_change(struct pod *pod,
                                            const struct api_cursor *cursor,
                                            const struct pod_change *change);
// An object of a snapshot. The object is taken over (NULL: no memory); labels
// are those of its operation.
struct feed_message *
feed_message_of_object(struct pod *pod, enum pod_change_kind kind,
                       const struct api_cursor *cursor, json_t *owned_object,
                       const struct pod_label *labels, size_t label_count);
// bookmark, synced, resync, goodbye: with the time, and for a goodbye the wait
// before another try (0: none).
struct feed_message *feed_message_of_word(struct pod *pod, const char *type,
                                          const struct api_cursor *cursor,
                                          int64_t now_wall_ns,
                                          unsigned retry_ms);

struct feed_message *feed_message_ref(struct feed_message *message);
void feed_message_unref(struct feed_message *message); // NULL is allowed

// Whether all labels hold.
bool feed_message_has(const struct feed_message *message,
                      const struct pod_label *labels, size_t count);

#endif
