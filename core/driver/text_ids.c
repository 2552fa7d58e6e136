// SPDX-License-Identifier: Apache-2.0
#include "core/driver/text_ids.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/base/str.h"

struct text_kind {
    const char *prefix;
    const char *unknown;
};

static const struct text_kind text_kinds[] = {
    {"op-", "another operation"},
    {"buf-", "another buffer"},
    {"prog-", "another program"},
    {"load-", "another loaded program"},
};

// The kind of the id that begins here, or NULL.
static const struct text_kind *text_id(const char *at, uint64_t *out_number,
                                       size_t *out_length)
{
    for (size_t i = 0; i < sizeof(text_kinds) / sizeof(text_kinds[0]); i++) {
        size_t prefix = strlen(text_kinds[i].prefix);
        if (strncmp(at, text_kinds[i].prefix, prefix) != 0)
            continue;
        size_t digits = strspn(at + prefix, "0123456789");
        if (!pod_parse_number(at + prefix, digits, out_number))
            return NULL;
        *out_length = prefix + digits;
        return &text_kinds[i];
    }
    return NULL;
}

static bool text_in_word(char before)
{
    return (before >= 'a' && before <= 'z') ||
           (before >= 'A' && before <= 'Z') ||
           (before >= '0' && before <= '9') || before == '-' || before == '_';
}

static void text_put(char *out, size_t *used, const char *from, size_t length)
{
    size_t room = POD_ERR_TEXT_BYTES - 1 - *used;

    length = pod_utf8_clip(from, length, room);
    memcpy(out + *used, from, length);
    *used += length;
}

void pod_text_ids_replace(struct pod_err *err,
                          uint64_t (*number)(void *arg, uint64_t number),
                          void *arg)
{
    char out[POD_ERR_TEXT_BYTES];
    char id[64];
    size_t used = 0;
    int seen = 0;

    for (const char *at = err->text; *at != '\0';) {
        uint64_t old = 0;
        size_t length = 1;
        bool inside = at > err->text && text_in_word(at[-1]);
        const struct text_kind *kind =
            inside ? NULL : text_id(at, &old, &length);
        if (kind == NULL) {
            length = strcspn(at + 1, "obpl") + 1;
            text_put(out, &used, at, length);
        } else {
            uint64_t now = seen++ < POD_TEXT_IDS_MAX ? number(arg, old) : 0;
            if (now == 0)
                (void)snprintf(id, sizeof(id), "%s", kind->unknown);
            else
                (void)snprintf(id, sizeof(id), "%s%" PRIu64, kind->prefix, now);
            text_put(out, &used, id, strlen(id));
        }
        at += length;
    }
    out[used] = '\0';
    memcpy(err->text, out, used + 1);
}
