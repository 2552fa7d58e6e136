// SPDX-License-Identifier: Apache-2.0
// Page tokens: opaque text that says where a walk over a collection goes on.
//
// A token holds the place, a hash of the run's instance, the collection and the
// filters of the walk, and a checksum. It is neither a secret nor a capability:
// it only keeps walks from being mixed up. Pure functions.
#ifndef POD_API_PAGE_TOKEN_H
#define POD_API_PAGE_TOKEN_H

#include <stdint.h>

#include "core/base/err.h"

enum { API_PAGE_TOKEN_BYTES = 40 };

// What a walk is about, as a hash that is built up text by text. Start with 0.
// The texts' borders count: ("ab", "c") is not ("a", "bc").
uint64_t api_page_scope(uint64_t scope, const char *text);

// Writes the token of the place into the buffer and returns it.
const char *api_page_token_print(uint64_t scope, uint64_t place,
                                 char buffer[API_PAGE_TOKEN_BYTES]);

// BAD_PAGE_TOKEN when it is not a token, was cut or altered, or belongs to
// another scope.
enum pod_code api_page_token_parse(const char *text, uint64_t scope,
                                   uint64_t *out_place, struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
