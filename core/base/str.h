// SPDX-License-Identifier: Apache-2.0
// Growing text, and checks of text from outside.
#ifndef POD_BASE_STR_H
#define POD_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Text that grows. Zero-initialise it; `data` is NULL or NUL-terminated. Once
// an allocation has failed, `failed` stays true and appends do nothing, so a
// caller can check once at the end.
struct pod_str {
    char *data;
    size_t length;
    size_t capacity;
    bool failed;
};

void pod_str_fini(struct pod_str *str);
void pod_str_append(struct pod_str *str, const char *bytes, size_t length);
void pod_str_puts(struct pod_str *str, const char *text);
void pod_str_printf(struct pod_str *str, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Hands the text over (free with pod_free) and empties `str`; NULL if failed.
char *pod_str_take(struct pod_str *str);

// Whether the bytes are well-formed UTF-8 (RFC 3629: no surrogates, nothing
// overlong). NUL is allowed.
bool pod_utf8_valid(const char *bytes, size_t length);
// The longest prefix of at most `limit` bytes that cuts no character.
size_t pod_utf8_clip(const char *bytes, size_t length, size_t limit);
// Whether the text has a control character (U+0000..1F, 7F..9F).
bool pod_text_has_control(const char *bytes, size_t length);

// Decimal digits only, no sign, no leading zero, 0 < value <= INT64_MAX.
bool pod_parse_number(const char *text, size_t length, uint64_t *out_value);
// A size: digits, then nothing, or KiB MiB GiB TiB (powers of 1024), or
// KB MB GB TB (powers of 1000). False when malformed or above INT64_MAX.
bool pod_parse_bytes(const char *text, size_t length, uint64_t *out_bytes);
// A duration: "30s", "250ms", "1.5", "10us", "5m", "24h"; a bare number is
// seconds. False when malformed, negative or not finite. Capped at POD_NEVER.
bool pod_parse_duration(const char *text, size_t length, int64_t *out_ns);

#endif
