// SPDX-License-Identifier: Apache-2.0
#include "api/digest.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <nettle/base16.h>
#include <nettle/base64.h>
#include <nettle/sha2.h>

#include "api/crc32c.h"

static void digest_end_sha256(struct api_digest *digest, uint8_t *out)
{
    struct sha256_ctx context = digest->sha256;
    sha256_digest(&context, SHA256_DIGEST_SIZE, out);
}

static void digest_end_sha512(struct api_digest *digest, uint8_t *out)
{
    struct sha512_ctx context = digest->sha512;
    sha512_digest(&context, SHA512_DIGEST_SIZE, out);
}

static void digest_end_crc32c(struct api_digest *digest, uint8_t *out)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(digest->crc32c >> (24 - 8 * i));
}

enum digest_kind { DIGEST_SHA256, DIGEST_SHA512, DIGEST_CRC32C };

static const struct digest_algorithm {
    enum digest_kind kind;
    const char *name;
    size_t size;
    void (*end)(struct api_digest *digest, uint8_t *out);
} digest_algorithms[] = {
    {DIGEST_SHA256, "sha-256", SHA256_DIGEST_SIZE, digest_end_sha256},
    {DIGEST_SHA512, "sha-512", SHA512_DIGEST_SIZE, digest_end_sha512},
    {DIGEST_CRC32C, "crc32c", 4, digest_end_crc32c},
};

void api_digest_name(const void *data, size_t size,
                     char out_name[API_DIGEST_NAME_BYTES])
{
    uint8_t digest[SHA256_DIGEST_SIZE];
    struct sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, size, data);
    sha256_digest(&context, sizeof(digest), digest);
    static const char prefix[] = "sha256:";
    size_t at = sizeof(prefix) - 1;
    memcpy(out_name, prefix, at);
    base16_encode_update(out_name + at, sizeof(digest), digest);
    out_name[at + BASE16_ENCODE_LENGTH(sizeof(digest))] = '\0';
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
        BASE64_ENCODE_RAW_LENGTH(API_DIGEST_BYTES))];
    if (member->value_length > BASE64_ENCODE_RAW_LENGTH(API_DIGEST_BYTES))
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

// Takes one member up; one of an unknown algorithm is passed over.
static enum pod_code digest_take(struct api_digest *digest,
                                 const struct digest_member *member,
                                 struct pod_err *err)
{
    const struct digest_algorithm *algorithm =
        digest_find(member->name, member->name_length);
    if (algorithm == NULL)
        return POD_OK;
    if (digest->count == API_DIGEST_MAX)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "Content-Digest has more than %d digests",
                           API_DIGEST_MAX);
    if (!digest_decode(member, algorithm->size, digest->wanted[digest->count]))
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "Content-Digest: %s is not %zu bytes in base64",
                           algorithm->name, algorithm->size);
    digest->algorithms[digest->count++] = algorithm;
    return POD_OK;
}

enum pod_code api_digest_begin(struct api_digest *digest, const char *header,
                               struct pod_err *err)
{
    const char *at = digest_skip_blanks(header);
    *digest = (struct api_digest){.count = 0};
    sha256_init(&digest->sha256);
    sha512_init(&digest->sha512);
    do {
        struct digest_member member;
        if (!digest_next(&at, &member))
            return pod_err_set(err, POD_REASON_BAD_VALUE,
                               "Content-Digest is not a list of "
                               "name=:base64:");
        enum pod_code code = digest_take(digest, &member, err);
        if (code != POD_OK)
            return code;
    } while (*at != '\0');
    if (digest->count == 0)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "Content-Digest names none of sha-256, sha-512, "
                           "crc32c");
    return POD_OK;
}

static bool digest_wants(const struct api_digest *digest, enum digest_kind kind)
{
    for (size_t i = 0; i < digest->count; i++) {
        if (digest->algorithms[i]->kind == kind)
            return true;
    }
    return false;
}

void api_digest_update(struct api_digest *digest, const void *data, size_t size)
{
    if (digest_wants(digest, DIGEST_SHA256))
        sha256_update(&digest->sha256, size, data);
    if (digest_wants(digest, DIGEST_SHA512))
        sha512_update(&digest->sha512, size, data);
    if (digest_wants(digest, DIGEST_CRC32C))
        digest->crc32c = api_crc32c(digest->crc32c, data, size);
}

enum pod_code api_digest_end(struct api_digest *digest, struct pod_err *err)
{
    for (size_t i = 0; i < digest->count; i++) {
        const struct digest_algorithm *algorithm = digest->algorithms[i];
        uint8_t found[API_DIGEST_BYTES];
        algorithm->end(digest, found);
        if (memcmp(digest->wanted[i], found, algorithm->size) != 0)
            return pod_err_set(err, POD_REASON_DIGEST_MISMATCH,
                               "the body's %s is not that of Content-Digest",
                               algorithm->name);
    }
    return POD_OK;
}
