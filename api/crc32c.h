// SPDX-License-Identifier: Apache-2.0
// The Castagnoli CRC of RFC 3720 (iSCSI), as Content-Digest's crc32c uses it.
#ifndef POD_API_CRC32C_H
#define POD_API_CRC32C_H

#include <stddef.h>
#include <stdint.h>

// Goes on from `crc`, the result for the bytes before; 0 at the start.
// Thread-safe.
uint32_t api_crc32c(uint32_t crc, const void *data, size_t size);

#endif
