// SPDX-License-Identifier: Apache-2.0
// Tokens and the file that lists them.
//
// A token is "podd_" and 43 characters of base64url: 256 random bits, so a
// plain SHA-256 is hash enough. The file holds hashes only, a line each:
//
//   write sha256:<64 hex digits>   # a remark
//
// Blank lines and # lines are passed over. Whoever else could read or write the
// file could make himself a token, so only its owner may (mode 0600).
#ifndef POD_API_TOKENS_H
#define POD_API_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/file.h"
#include "api/route.h"
#include "core/base/err.h"

enum {
    API_TOKEN_HASH_BYTES = 32,
    API_TOKEN_TEXT_BYTES = 49, // with the NUL
    API_TOKEN_LINE_BYTES = 96,
    API_TOKEN_NAME_BYTES = 17, // 16 hex digits of the hash, and a NUL
    API_TOKENS_MAX = 1000,
    API_TOKENS_FILE_BYTES = 1 << 20,
};

struct api_token {
    uint8_t hash[API_TOKEN_HASH_BYTES];
    enum api_scope scope;
    char name[API_TOKEN_NAME_BYTES]; // how logs call it
};

// Zero-initialise it.
struct api_tokens {
    struct api_token *items;
    size_t count;
};

// A new token; false: no random bytes.
bool api_token_make(char out_token[API_TOKEN_TEXT_BYTES])
    __attribute__((warn_unused_result));
void api_token_hash(const char *token, size_t length,
                    uint8_t out_hash[API_TOKEN_HASH_BYTES]);
// Its line for the file, with the line end.
void api_token_line(const char *token, enum api_scope scope,
                    char out_line[API_TOKEN_LINE_BYTES]);

// "read", "write", "admin"; API_SCOPE_NONE for anything else.
enum api_scope api_scope_parse(const char *text, size_t length);
const char *api_scope_name(enum api_scope scope);

// Replaces what `tokens` held. Error: BAD_VALUE with the line, nothing changed.
// More than API_TOKENS_MAX are refused; a hash that stands twice has the scope
// of its last line.
enum pod_code api_tokens_parse(const char *text, size_t length,
                               struct api_tokens *tokens, struct pod_err *err)
    __attribute__((warn_unused_result));
// The same from a file. Errors: BAD_VALUE with the path and why (missing, too
// large, open to others than its owner, owned by somebody else than us or
// root, malformed).
enum pod_code api_tokens_load(const char *path, struct api_tokens *tokens,
                              struct api_file_stamp *out_stamp,
                              struct pod_err *err)
    __attribute__((warn_unused_result));
void api_tokens_fini(struct api_tokens *tokens);

// Every hash is compared to its end, whichever fits. NULL: none.
const struct api_token *
api_tokens_find(const struct api_tokens *tokens,
                const uint8_t hash[API_TOKEN_HASH_BYTES]);

#endif
