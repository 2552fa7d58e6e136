// SPDX-License-Identifier: Apache-2.0
// JSON from clients: strict parsing and typed reading of members.
#ifndef POD_API_JSON_H
#define POD_API_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct api_memory;

struct api_json_limits {
    unsigned depth;
    size_t values;
    bool any; // a value that is neither object nor array may stand alone
};

// Parses a text. Depth and number of values are checked before anything is
// built; duplicate keys, text after the value, and bytes that are not UTF-8
// are refused. Errors: BAD_JSON with line and column, BODY_TOO_LARGE for the
// limits. The value lives in `memory` and ends with it, whether references to
// it are dropped or not; it must not be changed.
//
// Integers that do not fit an int64 become strings that api_json_big_integer
// recognises: nothing is rounded.
enum pod_code api_json_parse(const char *text, size_t length,
                             const struct api_json_limits *limits,
                             struct api_memory *memory, json_t **out_json,
                             struct pod_err *err)
    __attribute__((warn_unused_result));

// Whether a value is an integer too large for json_int_t; *out_digits are its
// characters ("-"? digits), borrowed from the value.
bool api_json_big_integer(const json_t *value, const char **out_digits);

// ------------------------------------------------------------------ members
// A reader of one object. Each api_read_* reads one member and marks it as
// known; api_read_end then finds the members that are not known. null is as if
// absent. Errors: WRONG_TYPE (400), BAD_VALUE (400), OUT_OF_RANGE (422),
// BAD_TEXT (422), each with the member's pointer.

enum { API_READER_MEMBERS = 32 };

struct api_names;

struct api_member {
    const char *name;
    const json_t *value;
    bool known; // an api_read_* asked for it
};

// All borrowed from the object. There is room for more members than any form
// knows, so if one does not fit there is an unknown one among them.
struct api_reader {
    const json_t *object;
    struct api_names *names; // what "$ref" may stand for (names.h), or NULL
    // Of the object itself, "" at the top; or of the list that it is an item
    // of.
    const char *pointer;
    size_t index; // in that list; SIZE_MAX: it is not an item
    struct api_member members[API_READER_MEMBERS];
    size_t count;
    uint32_t initials; // a bit for each first letter, modulo 32
};

// `value` must be an object (else WRONG_TYPE). `pointer` must live as long as
// the reader.
enum pod_code api_read_begin(struct api_reader *reader, const json_t *value,
                             const char *pointer, struct pod_err *err)
    __attribute__((warn_unused_result));
// The same for an item of the list at `pointer`.
enum pod_code api_read_begin_item(struct api_reader *reader,
                                  const json_t *value, const char *pointer,
                                  size_t index, struct pod_err *err)
    __attribute__((warn_unused_result));
// The pointer of the object, printed when it is needed.
const char *api_read_pointer(const struct api_reader *reader,
                             char buffer[POD_ERR_POINTER_BYTES]);

// The member of any type, borrowed; NULL: absent or null. May be called first
// to see which form a request has.
const json_t *api_read_any(struct api_reader *reader, const char *name);

// *out_text is borrowed from the object; NULL when absent. Any UTF-8.
enum pod_code api_read_string(struct api_reader *reader, const char *name,
                              const char **out_text, struct pod_err *err)
    __attribute__((warn_unused_result));
// The same without control characters, min_bytes to max_bytes long: BAD_TEXT.
enum pod_code api_read_text(struct api_reader *reader, const char *name,
                            size_t min_bytes, size_t max_bytes,
                            const char **out_text, struct pod_err *err)
    __attribute__((warn_unused_result));
// *out_value keeps what it held when the member is absent (set the default
// first); so with the ones below. A number without fraction: 1 but not 1.0.
enum pod_code api_read_integer(struct api_reader *reader, const char *name,
                               int64_t min, int64_t max, int64_t *out_value,
                               struct pod_err *err)
    __attribute__((warn_unused_result));
// 64-bit quantities: "4096" or 4096; never negative. *out_given may be NULL.
enum pod_code api_read_u64(struct api_reader *reader, const char *name,
                           uint64_t *out_value, bool *out_given,
                           struct pod_err *err)
    __attribute__((warn_unused_result));
// "30s", "250ms", "1.5", or a number of seconds. BAD_VALUE when malformed.
enum pod_code api_read_duration(struct api_reader *reader, const char *name,
                                int64_t *out_ns, struct pod_err *err)
    __attribute__((warn_unused_result));
// One of `count` names; *out_index is kept when absent. BAD_VALUE names them.
enum pod_code api_read_enum(struct api_reader *reader, const char *name,
                            const char *const *names, size_t count,
                            size_t *out_index, struct pod_err *err)
    __attribute__((warn_unused_result));
// Borrowed; NULL when absent. More than `max` elements: OUT_OF_RANGE.
enum pod_code api_read_array(struct api_reader *reader, const char *name,
                             size_t max, const json_t **out_array,
                             struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code api_read_object(struct api_reader *reader, const char *name,
                              const json_t **out_object, struct pod_err *err)
    __attribute__((warn_unused_result));

// Refuses members that no api_read_* named: UNKNOWN_MEMBER with its pointer.
enum pod_code api_read_end(const struct api_reader *reader, struct pod_err *err)
    __attribute__((warn_unused_result));

// MISSING_MEMBER with the member's pointer; never OK.
enum pod_code api_read_missing(const struct api_reader *reader,
                               const char *name, struct pod_err *err);

// Sets err.pointer to the reader's pointer, "/", and the escaped name.
void api_read_at(const struct api_reader *reader, const char *name,
                 struct pod_err *err);

// WRONG_TYPE, always worded alike: "<what> must be <wanted>, not a string".
enum pod_code api_json_wrong_type(const json_t *value, const char *what,
                                  const char *wanted, struct pod_err *err);

#endif
