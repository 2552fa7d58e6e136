// SPDX-License-Identifier: Apache-2.0
// Decimal digits without printf, for what every answer is full of. (A library
// in the process may hook printf, which then takes its slow path for all.)
#ifndef POD_API_DIGITS_H
#define POD_API_DIGITS_H

#include <stdint.h>

enum { API_DIGITS_MAX = 20 };

// Writes a number and returns where the text goes on; no NUL.
char *api_put_u64(char *at, uint64_t value);
// Its last `width` digits, with zeros in front.
char *api_put_padded(char *at, uint64_t value, int width);
// All 16 hexadecimal digits.
char *api_put_hex(char *at, uint64_t value);
// A text, without its NUL.
char *api_put_text(char *at, const char *text);

#endif
