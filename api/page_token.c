// SPDX-License-Identifier: Apache-2.0
#include "api/page_token.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <nettle/base64.h>

#include "api/crc32c.h"

// Layout: place (8 bytes, little-endian), scope (8), crc32c of both (4).
enum {
    PAGE_TOKEN_RAW = 20,
    PAGE_TOKEN_TEXT = 27, // base64url of that, without padding
};
_Static_assert((int)PAGE_TOKEN_TEXT < (int)API_PAGE_TOKEN_BYTES,
               "room for the NUL");

static void page_token_put(uint8_t *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t page_token_get(const uint8_t *in, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)in[i] << (8 * i);
    return value;
}

uint64_t api_page_scope(uint64_t scope, const char *text)
{
    // FNV-1a with 64 bits, the NUL hashed too as the border.
    uint64_t hash = scope ^ UINT64_C(0xcbf29ce484222325);
    size_t length = strlen(text) + 1;
    for (size_t i = 0; i < length; i++) {
        hash ^= (unsigned char)text[i];
        hash *= UINT64_C(0x100000001b3);
    }
    return hash;
}

const char *api_page_token_print(uint64_t scope, uint64_t place,
                                 char buffer[API_PAGE_TOKEN_BYTES])
{
    uint8_t raw[PAGE_TOKEN_RAW];
    page_token_put(raw, place, 8);
    page_token_put(raw + 8, scope, 8);
    page_token_put(raw + 16, api_crc32c(0, raw, 16), 4);

    struct base64_encode_ctx context;
    base64url_encode_init(&context);
    size_t length = base64_encode_update(&context, buffer, sizeof(raw), raw);
    length += base64_encode_final(&context, buffer + length);
    while (length > 0 && buffer[length - 1] == '=')
        length--;
    buffer[length] = '\0';
    return buffer;
}

static bool page_token_decode(const char *text, uint8_t raw[PAGE_TOKEN_RAW])
{
    uint8_t decoded[BASE64_DECODE_LENGTH(PAGE_TOKEN_TEXT + 1)];
    if (strlen(text) != PAGE_TOKEN_TEXT)
        return false;
    struct base64_decode_ctx context;
    base64url_decode_init(&context);
    size_t length = sizeof(decoded);
    if (!base64_decode_update(&context, &length, decoded, PAGE_TOKEN_TEXT,
                              text) ||
        length != PAGE_TOKEN_RAW)
        return false;
    memcpy(raw, decoded, PAGE_TOKEN_RAW);
    return page_token_get(raw + 16, 4) == api_crc32c(0, raw, 16);
}

enum pod_code api_page_token_parse(const char *text, uint64_t scope,
                                   uint64_t *out_place, struct pod_err *err)
{
    uint8_t raw[PAGE_TOKEN_RAW];
    if (!page_token_decode(text, raw))
        return pod_err_set(err, POD_REASON_BAD_PAGE_TOKEN,
                           "page_token was not issued by this server");
    if (page_token_get(raw + 8, 8) != scope)
        return pod_err_set(err, POD_REASON_BAD_PAGE_TOKEN,
                           "page_token belongs to another collection, other "
                           "filters or another run");
    *out_place = page_token_get(raw, 8);
    return POD_OK;
}
