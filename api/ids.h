// SPDX-License-Identifier: Apache-2.0
// Ids as the API writes them: "op-17", "buf-17", "prog-18", "load-19",
// "graph-40". Pure functions.
#ifndef POD_API_IDS_H
#define POD_API_IDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/pod/pod.h"

enum { API_ID_BYTES = 32 };

// Reads an id of any kind. Ids are exact: the kind, a dash, 1..2^63-1 without
// sign or leading zeros. False (and *out untouched) for anything else.
bool api_id_parse(const char *text, size_t length, struct pod_ref *out);

// The same for an id that must be of one kind.
bool api_id_parse_kind(const char *text, enum pod_ref_kind kind,
                       uint64_t *out_number);

// Writes the id into the buffer and returns it.
const char *api_id_print(enum pod_ref_kind kind, uint64_t number,
                         char buffer[API_ID_BYTES]);

#endif
