// SPDX-License-Identifier: Apache-2.0
// Programs from HLO text.
#ifndef POD_HLO_TEXT_H
#define POD_HLO_TEXT_H

#include "core/hlo/module.h"

// Parses and verifies a module as XLA prints it. On success `*out` is the
// caller's. Errors carry the line and column at fault and say what was
// expected: INVALID_PROGRAM; UNIMPLEMENTED for what XLA can parse and podd
// leaves out (mesh shardings, async sugar, domains); OUT_OF_MEMORY;
// RESOURCE_EXHAUSTED for a text that is longer than POD_HLO_MAX_BYTES or
// unfolds to too much (module.h). Time and memory are linear in the
// text; recursion is bounded; nothing is allocated for elements that are not
// there. The text needs no NUL at its end and may be freed afterwards.
//
// Differences from XLA: operands need no shape, but every instruction needs
// one; metadata, statistics and origins are read over; a shape's tiles too. A
// literal must have all values of its shape, in braces to its rank; -0 is the
// negative zero as which XLA prints it; integers may be of any size where a
// float is wanted; each part of a complex number may be a NaN of its own.
enum pod_code pod_hlo_parse_text(const char *text, size_t length,
                                 struct pod_hlo_module **out,
                                 struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
