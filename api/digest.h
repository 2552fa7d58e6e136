// SPDX-License-Identifier: Apache-2.0
// Digests of bodies: Content-Digest (RFC 9530) and the names of programs.
#ifndef POD_API_DIGEST_H
#define POD_API_DIGEST_H

#include <stddef.h>

#include "core/base/err.h"

// "sha256:", 64 hex digits, and a NUL.
enum { API_DIGEST_NAME_BYTES = 72 };

// Writes "sha256:..." of the bytes.
void api_digest_name(const void *data, size_t size,
                     char out_name[API_DIGEST_NAME_BYTES]);

// Checks the bytes against a Content-Digest header, a dictionary such as
// "sha-256=:...:, crc32c=:...:". sha-256, sha-512 and crc32c are known; every
// known one must match, others are passed over. Errors: DIGEST_MISMATCH;
// BAD_VALUE when the header is malformed, or names none that is known (bytes
// that somebody wanted verified are never taken unverified).
enum pod_code api_digest_check(const char *header, const void *data,
                               size_t size, struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
