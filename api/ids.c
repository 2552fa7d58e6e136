// SPDX-License-Identifier: Apache-2.0
#include "api/ids.h"

#include <string.h>

#include "api/digits.h"
#include "core/base/str.h"

static const struct {
    enum pod_ref_kind kind;
    const char *word;
} ids_kinds[] = {
    {POD_REF_OP, "op"},     {POD_REF_BUFFER, "buf"},  {POD_REF_PROGRAM, "prog"},
    {POD_REF_LOAD, "load"}, {POD_REF_GRAPH, "graph"},
};

enum { IDS_KIND_COUNT = sizeof(ids_kinds) / sizeof(ids_kinds[0]) };

bool api_id_parse(const char *text, size_t length, struct pod_ref *out)
{
    for (size_t i = 0; i < IDS_KIND_COUNT; i++) {
        size_t word = strlen(ids_kinds[i].word);
        if (length <= word || text[word] != '-' ||
            memcmp(text, ids_kinds[i].word, word) != 0)
            continue;
        uint64_t number = 0;
        if (!pod_parse_number(text + word + 1, length - word - 1, &number))
            return false;
        *out = (struct pod_ref){.kind = ids_kinds[i].kind, .number = number};
        return true;
    }
    return false;
}

bool api_id_parse_kind(const char *text, enum pod_ref_kind kind,
                       uint64_t *out_number)
{
    struct pod_ref ref = {0};
    if (!api_id_parse(text, strlen(text), &ref) || ref.kind != kind)
        return false;
    *out_number = ref.number;
    return true;
}

const char *api_id_print(enum pod_ref_kind kind, uint64_t number,
                         char buffer[API_ID_BYTES])
{
    const char *word = "op";
    for (size_t i = 0; i < IDS_KIND_COUNT; i++) {
        if (ids_kinds[i].kind == kind)
            word = ids_kinds[i].word;
    }
    char *at = api_put_text(buffer, word);
    *at++ = '-';
    *api_put_u64(at, number) = '\0';
    return buffer;
}
