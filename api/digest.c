// SPDX-License-Identifier: Apache-2.0
#include "api/digest.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <nettle/base64.h>
#include <nettle/sha2.h>

#include "api/crc32c.h"

enum { DIGEST_MAX_BYTES = SHA512_DIGEST_SIZE };

static void digest_sha256(const void *data, size_t size, uint8_t *out)
{
    struct sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, size, data);
    sha256_digest(&context, SHA256_DIGEST_SIZE, out);
}

static void digest_sha512(const void *data, size_t size, uint8_t *out)
{
    struct sha512_ctx context;
    sha512_init(&context);
    sha512_update(&context, size, data);
    sha512_digest(&context, SHA512_DIGEST_SIZE, out);
}

static void digest_crc32c(const void *data, size_t size, uint8_t *out)
{
    uint32_t crc = api_crc32c(0, data, size);
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(crc >> (24 - 8 * i));
}

static const struct digest_algorithm {
    const char *name;
    size_t size;
    void (*compute)(const void *data, size_t size, uint8_t *out);
} digest_algorithms[] = {
    {"sha-256", SHA256_DIGEST_SIZE, digest_sha256},
    {"sha-512", SHA512_DIGEST_SIZE, digest_sha512},
    {"crc32c", 4, digest_crc32c},
};

void api_digest_name(const void *data, size_t size,
                     char out_name[API_DIGEST_NAME_BYTES])
{
    uint8_t digest[SHA256_DIGEST_SIZE];
    digest_sha256(data, size, digest);
    char *at = out_name + sprintf(out_name, "sha256:");
    for (size_t i = 0; i < sizeof(digest); i++)
        at += sprintf(at, "%02x", digest[i]);
}

static const struct digest_algorithm *digest_find(const char *name,
                                                  size_t length)
{
    size_t count = sizeof(digest_algorithms) / sizeof(digest_algorithms[0]);
    for (size_t i = 0; i < count; i++) {
        if (strlen(digest_algorithms[i].name) == length &&
            memcmp(digest_algorithms[i].name, name, length) == 0)
            return &digest_algorithms[i];
    }
    return NULL;
}

// One member of the dictionary, name=:base64:.
struct digest_member {
    const char *name;
    size_t name_length;
    const char *value; // between the colons
    size_t value_length;
};

static const char *digest_skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

// Reads one member and what separates it from the next; false if malformed.
static bool digest_next(const char **in_at, struct digest_member *out)
{
    const char *at = *in_at;
    out->name = at;
    out->name_length = strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789-_.*");
    at += out->name_length;
    if (out->name_length == 0 || at[0] != '=' || at[1] != ':')
        return false;
    out->value = at + 2;
    out->value_length = strcspn(out->value, ":");
    at = out->value + out->value_length;
    if (*at != ':')
        return false;
    at = digest_skip_blanks(at + 1);
    if (*at == ',') {
        at = digest_skip_blanks(at + 1);
        if (*at == '\0')
            return false;
    } else if (*at != '\0') {
        return false;
    }
    *in_at = at;
    return true;
}

static bool digest_decode(const struct digest_member *member, size_t size,
                          uint8_t *out)
{
    uint8_t decoded[BASE64_DECODE_LENGTH(
        BASE64_ENCODE_RAW_LENGTH(DIGEST_MAX_BYTES))];
    if (member->value_length > BASE64_ENCODE_RAW_LENGTH(DIGEST_MAX_BYTES))
        return false;
    struct base64_decode_ctx context;
    base64_decode_init(&context);
    size_t length = sizeof(decoded);
    if (!base64_decode_update(&context, &length, decoded, member->value_length,
                              member->value) ||
        !base64_decode_final(&context) || length != size)
        return false;
    memcpy(out, decoded, size);
    return true;
}

static enum pod_code digest_verify(const struct digest_algorithm *algorithm,
                                   const struct digest_member *member,
                                   const void *data, size_t size,
                                   struct pod_err *err)
{
    uint8_t wanted[DIGEST_MAX_BYTES];
    uint8_t found[DIGEST_MAX_BYTES];
    if (!digest_decode(member, algorithm->size, wanted))
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "Content-Digest: %s is not %zu bytes in base64",
                           algorithm->name, algorithm->size);
    algorithm->compute(data, size, found);
    if (memcmp(wanted, found, algorithm->size) != 0)
        return pod_err_set(err, POD_REASON_DIGEST_MISMATCH,
                           "the body's %s is not that of Content-Digest",
                           algorithm->name);
    return POD_OK;
}

enum pod_code api_digest_check(const char *header, const void *data,
                               size_t size, struct pod_err *err)
{
    const char *at = digest_skip_blanks(header);
    bool known = false;
    do {
        struct digest_member member;
        if (!digest_next(&at, &member))
            return pod_err_set(err, POD_REASON_BAD_VALUE,
                               "Content-Digest is not a list of "
                               "name=:base64:");
        const struct digest_algorithm *algorithm =
            digest_find(member.name, member.name_length);
        if (algorithm == NULL)
            continue;
        known = true;
        enum pod_code code = digest_verify(algorithm, &member, data, size, err);
        if (code != POD_OK)
            return code;
    } while (*at != '\0');
    if (!known)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "Content-Digest names none of sha-256, sha-512, "
                           "crc32c");
    return POD_OK;
}
