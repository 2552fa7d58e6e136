// SPDX-License-Identifier: Apache-2.0
#include "api/crc32c.h"

#include <pthread.h>

// The polynomial 0x1EDC6F41 with its bits reversed.
static const uint32_t crc32c_polynomial = 0x82F63B78U;

// crc32c_table[k][b]: what byte b contributes when k more bytes follow it, so
// that eight bytes are taken in one step.
static uint32_t crc32c_table[8][256];
static pthread_once_t crc32c_once = PTHREAD_ONCE_INIT;

static void crc32c_fill(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ ((crc & 1) ? crc32c_polynomial : 0);
        crc32c_table[0][byte] = crc;
    }
    for (size_t k = 1; k < 8; k++) {
        for (size_t byte = 0; byte < 256; byte++) {
            uint32_t crc = crc32c_table[k - 1][byte];
            crc32c_table[k][byte] = (crc >> 8) ^ crc32c_table[0][crc & 0xFF];
        }
    }
}

static uint32_t crc32c_eight(uint32_t crc, const unsigned char *bytes)
{
    uint32_t low = crc ^ ((uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 |
                          (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24);
    return crc32c_table[7][low & 0xFF] ^ crc32c_table[6][(low >> 8) & 0xFF] ^
           crc32c_table[5][(low >> 16) & 0xFF] ^ crc32c_table[4][low >> 24] ^
           crc32c_table[3][bytes[4]] ^ crc32c_table[2][bytes[5]] ^
           crc32c_table[1][bytes[6]] ^ crc32c_table[0][bytes[7]];
}

uint32_t api_crc32c(uint32_t crc, const void *data, size_t size)
{
    (void)pthread_once(&crc32c_once, crc32c_fill);
    const unsigned char *bytes = data;
    crc = ~crc;
    for (; size >= 8; size -= 8, bytes += 8)
        crc = crc32c_eight(crc, bytes);
    for (; size > 0; size--, bytes++)
        crc = (crc >> 8) ^ crc32c_table[0][(crc ^ *bytes) & 0xFF];
    return ~crc;
}
