// SPDX-License-Identifier: Apache-2.0
// The names that the operations of a graph give themselves ("ref"), and the
// references to them: "$a", or "$x.outputs[0]".
//
// A name may be referred to before it is defined. Such references are kept
// aside and set when all operations are read.
#ifndef POD_API_NAMES_H
#define POD_API_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/memory.h"
#include "core/base/map.h"
#include "core/pod/pod.h"

struct api_name_use;
struct api_reader;

// Where a reference stands, to be printed when it is needed.
struct api_place {
    const struct api_reader *reader; // of the object
    const char *member;
    size_t index; // in a list, or SIZE_MAX
};

const char *api_place_print(const struct api_place *place,
                            char buffer[POD_ERR_POINTER_BYTES]);

struct api_names {
    struct api_memory *memory; // where everything lives but the map
    struct pod_map map; // hash -> struct api_name, those that meet linked
    uint64_t seed;      // so that nobody can make names meet
    size_t current;     // the operation that is being read
    struct api_name_use *uses; // of names not defined yet, newest first
};

void api_names_init(struct api_names *names, struct api_memory *memory);
void api_names_fini(struct api_names *names);

// A text that api_names_define will be called with before long; it is not
// copied.
struct api_name_text {
    const char *text;
    size_t length;
    uint64_t hash;
};

struct api_name_text api_names_expect(const struct api_names *names,
                                      const char *text);

// Operation `names->current` is called so and makes a thing of this kind
// (POD_REF_NONE: nothing that can be used). *out_text is a copy that lives as
// long as the memory of the names. BAD_VALUE: another one is.
enum pod_code api_names_define(struct api_names *names,
                               const struct api_name_text *text,
                               enum pod_ref_kind makes, const char **out_text,
                               struct pod_err *err)
    __attribute__((warn_unused_result));

// A reference, with its '$', that wants a thing of a kind (POD_REF_NONE: any
// operation). *out must stay where it is until the names are resolved.
// UNKNOWN_HANDLE.
enum pod_code api_names_refer(struct api_names *names, const char *text,
                              enum pod_ref_kind kind,
                              const struct api_place *place,
                              struct pod_ref *out, struct pod_err *err)
    __attribute__((warn_unused_result));

// All operations are read: sets what was kept aside. Calls `fault` with the
// operation and the error of each reference that means nothing.
void api_names_resolve(struct api_names *names,
                       void (*fault)(void *arg, size_t operation,
                                     const struct pod_err *err),
                       void *arg);

#endif
