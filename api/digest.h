// SPDX-License-Identifier: Apache-2.0
// Digests of bodies: Content-Digest (RFC 9530) and the names of programs.
#ifndef POD_API_DIGEST_H
#define POD_API_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include <nettle/sha2.h>

#include "core/base/err.h"

// "sha256:", 64 hex digits, and a NUL.
enum { API_DIGEST_NAME_BYTES = 72 };

enum { API_DIGEST_MAX = 8, API_DIGEST_BYTES = 64 };

// Writes "sha256:..." of the bytes.
void api_digest_name(const void *data, size_t size,
                     char out_name[API_DIGEST_NAME_BYTES]);

// A check of bytes that come piece by piece against a Content-Digest header, a
// dictionary such as "sha-256=:...:, crc32c=:...:". sha-256, sha-512 and crc32c
// are known; every known one must match, others are passed over.
struct api_digest {
    const struct digest_algorithm *algorithms[API_DIGEST_MAX];
    uint8_t wanted[API_DIGEST_MAX][API_DIGEST_BYTES];
    size_t count;
    // One of each kind is enough: one algorithm sees the same bytes.
    struct sha256_ctx sha256;
    struct sha512_ctx sha512;
    uint32_t crc32c;
};

// BAD_VALUE when the header is malformed, or names no algorithm that is known
// (bytes that somebody wanted verified are never taken unverified).
enum pod_code api_digest_begin(struct api_digest *digest, const char *header,
                               struct pod_err *err)
    __attribute__((warn_unused_result));
void api_digest_update(struct api_digest *digest, const void *data,
                       size_t size);
// DIGEST_MISMATCH.
enum pod_code api_digest_end(struct api_digest *digest, struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
