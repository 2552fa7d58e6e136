// SPDX-License-Identifier: Apache-2.0
// Elements of arrays as numbers: bytes to and from values of every type.
// Pure functions.
#ifndef POD_API_NUMBER_H
#define POD_API_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/hlo/shape.h"

// The least and the greatest value of an integer type (s1 ... s64, u1 ... u64).
void api_number_limits(enum pod_type type, int64_t *out_least,
                       uint64_t *out_greatest);

// Writes an integer that is within those limits as the type's bytes. Types
// narrower than a byte take one, sign-extended.
void api_number_put_integer(enum pod_type type, uint64_t twos_complement,
                            unsigned char *out);
// Reads one; unsigned types zero-extended, signed ones sign-extended.
uint64_t api_number_get_integer(enum pod_type type, const unsigned char *in);

// Rounds to the nearest value of a floating type (f64 ... f4), ties to even,
// and writes its bytes. False when there is none: a finite value beyond the
// type's greatest, an infinity or NaN of a type that has none.
bool api_number_put_float(enum pod_type type, double value, unsigned char *out);

enum { API_NUMBER_TEXT_BYTES = 32 };

// Prints the float with the fewest digits that read back as the same element,
// as JSON text; "NaN", "Infinity" and "-Infinity" come in quotes. The calling
// thread's locale must have a decimal point (uselocale).
void api_number_print_float(enum pod_type type, const unsigned char *in,
                            char out[API_NUMBER_TEXT_BYTES]);

#endif
