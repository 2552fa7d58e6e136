// SPDX-License-Identifier: Apache-2.0
#include "api/tokens.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <nettle/base16.h>
#include <nettle/base64.h>
#include <nettle/memops.h>
#include <nettle/sha2.h>

#include "core/base/mem.h"

enum { TOKEN_RANDOM_BYTES = 32 };

static const char token_prefix[] = "podd_";
static const char hash_prefix[] = "sha256:";

static const char *const scope_names[] = {
    [API_SCOPE_NONE] = "none",
    [API_SCOPE_READ] = "read",
    [API_SCOPE_WRITE] = "write",
    [API_SCOPE_ADMIN] = "admin",
};

enum api_scope api_scope_parse(const char *text, size_t length)
{
    for (int i = API_SCOPE_READ; i <= API_SCOPE_ADMIN; i++) {
        if (strlen(scope_names[i]) == length &&
            memcmp(scope_names[i], text, length) == 0)
            return (enum api_scope)i;
    }
    return API_SCOPE_NONE;
}

const char *api_scope_name(enum api_scope scope)
{
    return scope_names[scope];
}

bool api_token_make(char out_token[API_TOKEN_TEXT_BYTES])
{
    uint8_t bytes[TOKEN_RANDOM_BYTES];
    struct base64_encode_ctx base64;
    char *at = out_token + strlen(token_prefix);

    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return false;
    memcpy(out_token, token_prefix, strlen(token_prefix));
    base64url_encode_init(&base64);
    at += base64_encode_update(&base64, at, sizeof(bytes), bytes);
    // 32 bytes leave one "=" of padding, which a token does without.
    char tail[BASE64_ENCODE_FINAL_LENGTH];
    size_t rest = base64_encode_final(&base64, tail);
    for (size_t i = 0; i < rest && tail[i] != '='; i++)
        *at++ = tail[i];
    *at = '\0';
    return true;
}

void api_token_hash(const char *token, size_t length,
                    uint8_t out_hash[API_TOKEN_HASH_BYTES])
{
    struct sha256_ctx digest;

    sha256_init(&digest);
    sha256_update(&digest, length, (const uint8_t *)token);
    sha256_digest(&digest, API_TOKEN_HASH_BYTES, out_hash);
}

static void tokens_print_hash(const uint8_t *hash, size_t bytes, char *out)
{
    base16_encode_update(out, bytes, hash);
    out[BASE16_ENCODE_LENGTH(bytes)] = '\0';
}

void api_token_line(const char *token, enum api_scope scope,
                    char out_line[API_TOKEN_LINE_BYTES])
{
    uint8_t hash[API_TOKEN_HASH_BYTES];
    char text[BASE16_ENCODE_LENGTH(API_TOKEN_HASH_BYTES) + 1];

    api_token_hash(token, strlen(token), hash);
    tokens_print_hash(hash, sizeof(hash), text);
    (void)snprintf(out_line, API_TOKEN_LINE_BYTES, "%s %s%s\n",
                   api_scope_name(scope), hash_prefix, text);
}

// ------------------------------------------------------------------- parsing

// The next word of a line; length 0 at its end.
static size_t tokens_word(const char **cursor, const char *end,
                          const char **out_word)
{
    while (*cursor < end && isblank((unsigned char)**cursor))
        ++*cursor;
    *out_word = *cursor;
    while (*cursor < end && !isspace((unsigned char)**cursor))
        ++*cursor;
    return (size_t)(*cursor - *out_word);
}

static bool tokens_parse_hash(const char *word, size_t length, uint8_t *out)
{
    struct base16_decode_ctx base16;
    size_t prefix = strlen(hash_prefix);
    size_t digits = (size_t)2 * API_TOKEN_HASH_BYTES;
    size_t written = API_TOKEN_HASH_BYTES;

    if (length != prefix + digits || memcmp(word, hash_prefix, prefix) != 0)
        return false;
    base16_decode_init(&base16);
    return base16_decode_update(&base16, &written, out, digits,
                                word + prefix) == 1 &&
           written == API_TOKEN_HASH_BYTES && base16_decode_final(&base16) == 1;
}

// One line, without its end. False: malformed. Sets scope NONE when it is
// blank or a remark.
static bool tokens_parse_line(const char *line, const char *end,
                              struct api_token *out)
{
    const char *word;
    size_t length = tokens_word(&line, end, &word);

    out->scope = API_SCOPE_NONE;
    if (length == 0 || *word == '#')
        return true;
    enum api_scope scope = api_scope_parse(word, length);
    length = tokens_word(&line, end, &word);
    if (scope == API_SCOPE_NONE || !tokens_parse_hash(word, length, out->hash))
        return false;
    length = tokens_word(&line, end, &word);
    if (length > 0 && *word != '#')
        return false;
    out->scope = scope;
    tokens_print_hash(out->hash, (API_TOKEN_NAME_BYTES - 1) / 2, out->name);
    return true;
}

static void tokens_put(struct api_tokens *tokens, const struct api_token *token)
{
    for (size_t i = 0; i < tokens->count; i++) {
        if (memcmp(tokens->items[i].hash, token->hash, sizeof(token->hash)) ==
            0) {
            tokens->items[i] = *token;
            return;
        }
    }
    tokens->items[tokens->count++] = *token;
}

static enum pod_code tokens_parse_into(const char *text, size_t length,
                                       struct api_tokens *tokens,
                                       struct pod_err *err)
{
    const char *end = text + length;

    for (int number = 1; text < end; number++) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        struct api_token token;
        if (line_end == NULL)
            line_end = end;
        const char *stop = line_end;
        if (stop > text && stop[-1] == '\r')
            stop--;
        if (!tokens_parse_line(text, stop, &token))
            return pod_err_set(err, POD_REASON_BAD_VALUE,
                               "line %d is not \"read|write|admin "
                               "sha256:HEX\"",
                               number);
        if (token.scope != API_SCOPE_NONE && tokens->count == API_TOKENS_MAX)
            return pod_err_set(err, POD_REASON_BAD_VALUE, "more than %d tokens",
                               API_TOKENS_MAX);
        if (token.scope != API_SCOPE_NONE)
            tokens_put(tokens, &token);
        text = line_end + 1;
    }
    return POD_OK;
}

enum pod_code api_tokens_parse(const char *text, size_t length,
                               struct api_tokens *tokens, struct pod_err *err)
{
    struct api_tokens read = {
        .items = pod_calloc(API_TOKENS_MAX, sizeof(struct api_token))};

    if (read.items == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for the tokens");
    enum pod_code code = tokens_parse_into(text, length, &read, err);
    if (code != POD_OK) {
        pod_free(read.items);
        return code;
    }
    api_tokens_fini(tokens);
    *tokens = read;
    return POD_OK;
}

enum pod_code api_tokens_load(const char *path, struct api_tokens *tokens,
                              struct api_file_stamp *out_stamp,
                              struct pod_err *err)
{
    char *text = NULL;
    size_t length = 0;

    enum pod_code code = api_file_read(path, API_TOKENS_FILE_BYTES, true, &text,
                                       &length, out_stamp, err);
    if (code != POD_OK)
        return code;
    code = api_tokens_parse(text, length, tokens, err);
    if (code != POD_OK)
        pod_err_wrap(err, "%s", path);
    pod_free(text);
    return code;
}

void api_tokens_fini(struct api_tokens *tokens)
{
    pod_free(tokens->items);
    *tokens = (struct api_tokens){.items = NULL};
}

const struct api_token *
api_tokens_find(const struct api_tokens *tokens,
                const uint8_t hash[API_TOKEN_HASH_BYTES])
{
    const struct api_token *found = NULL;

    for (size_t i = 0; i < tokens->count; i++) {
        if (memeql_sec(tokens->items[i].hash, hash, API_TOKEN_HASH_BYTES))
            found = &tokens->items[i];
    }
    return found;
}
