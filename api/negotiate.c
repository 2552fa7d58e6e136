// SPDX-License-Identifier: Apache-2.0
// Headers by which client and server agree: Accept, ETags, ranges.
#include <string.h>
#include <strings.h>

#include "api/query.h"
#include "core/base/str.h"

bool api_etag_listed(const char *header, const char *etag, bool weak)
{
    const char *cursor = header;
    const char *piece;
    size_t length;
    bool star_only = header != NULL && strcmp(header, "*") == 0;

    if (star_only)
        return true;
    while (api_list_next(&cursor, &piece, &length)) {
        if (length > 2 && strncmp(piece, "W/", 2) == 0) {
            if (!weak)
                continue;
            piece += 2;
            length -= 2;
        }
        if (length == strlen(etag) && memcmp(piece, etag, length) == 0)
            return true;
    }
    return false;
}

// q=0.25 as thousandths; 1000 if there is none or it is malformed.
static int accept_quality(const char *parameters, size_t length)
{
    for (size_t i = 0; i + 2 < length; i++) {
        if (parameters[i] != ';')
            continue;
        size_t at = i + 1 + strspn(parameters + i + 1, " \t");
        if (at + 2 >= length + 1 || (parameters[at] | 0x20) != 'q' ||
            parameters[at + 1] != '=')
            continue;
        int quality = parameters[at + 2] == '1' ? 1000 : 0;
        int place = 100;
        for (size_t d = at + 4; d < length && place > 0 && quality < 1000 &&
                                parameters[d] >= '0' && parameters[d] <= '9';
             d++, place /= 10)
            quality += (parameters[d] - '0') * place;
        return quality;
    }
    return 1000;
}

// How exactly a range of Accept names a type: 0 not at all, 3 fully.
static int accept_specificity(const char *range, size_t length,
                              const char *type)
{
    const char *slash = strchr(type, '/');
    size_t major = slash ? (size_t)(slash - type) : strlen(type);

    if (length == 3 && memcmp(range, "*/*", 3) == 0)
        return 1;
    if (length == major + 2 && strncasecmp(range, type, major + 1) == 0 &&
        range[length - 1] == '*')
        return 2;
    if (length == strlen(type) && strncasecmp(range, type, length) == 0)
        return 3;
    return 0;
}

// The quality of one type: that of the most specific range that names it.
static int accept_score(const char *header, const char *type)
{
    const char *cursor = header;
    const char *piece;
    size_t length;
    int best = 0;
    int quality = 0;

    while (api_list_next(&cursor, &piece, &length)) {
        size_t range = 0;
        while (range < length && piece[range] != ';' && piece[range] != ' ')
            range++;
        int specificity = accept_specificity(piece, range, type);
        if (specificity > best) {
            best = specificity;
            quality = accept_quality(piece + range, length - range);
        }
    }
    return quality;
}

int api_accept(const struct api_request *req, const char *const *types,
               size_t count)
{
    const char *header = api_request_header(req, "Accept");
    int best = -1;
    int best_score = 0;

    if (header == NULL || *header == '\0')
        return 0;
    for (size_t i = 0; i < count; i++) {
        int score = accept_score(header, types[i]);
        if (score > best_score) {
            best_score = score;
            best = (int)i;
        }
    }
    return best;
}

// Digits up to something else; false if there are none or too many.
static bool range_number(const char **cursor, uint64_t *out_value)
{
    size_t length = strspn(*cursor, "0123456789");
    uint64_t value = 0;

    if (length == 0)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)((*cursor)[i] - '0'),
                                   &value))
            return false;
    }
    *cursor += length;
    *out_value = value;
    return true;
}

enum api_range api_range_parse(const char *header, uint64_t size,
                               uint64_t *out_offset, uint64_t *out_length)
{
    uint64_t first = 0;
    uint64_t last = UINT64_MAX;

    if (header == NULL || strncasecmp(header, "bytes=", 6) != 0 ||
        strchr(header, ',') != NULL)
        return API_RANGE_WHOLE;
    const char *cursor = header + 6;
    bool suffix = *cursor == '-';
    if (!suffix && !range_number(&cursor, &first))
        return API_RANGE_WHOLE;
    if (*cursor++ != '-')
        return API_RANGE_WHOLE;
    bool has_last = *cursor != '\0';
    if (has_last && (!range_number(&cursor, &last) || *cursor != '\0'))
        return API_RANGE_WHOLE;
    if (suffix) {
        if (!has_last)
            return API_RANGE_WHOLE;
        if (last == 0 || size == 0)
            return API_RANGE_BEYOND;
        first = last < size ? size - last : 0;
        last = size - 1;
    } else if (last < first) {
        return API_RANGE_WHOLE;
    }
    if (first >= size)
        return API_RANGE_BEYOND;
    if (last >= size)
        last = size - 1;
    *out_offset = first;
    *out_length = last - first + 1;
    return API_RANGE_PART;
}

bool api_content_range_parse(const char *header, uint64_t *out_offset,
                             uint64_t *out_length, uint64_t *out_total)
{
    uint64_t first;
    uint64_t last;
    uint64_t total = UINT64_MAX;

    if (strncasecmp(header, "bytes ", 6) != 0)
        return false;
    const char *cursor = header + 6;
    if (!range_number(&cursor, &first) || *cursor++ != '-' ||
        !range_number(&cursor, &last) || *cursor++ != '/')
        return false;
    if (*cursor == '*')
        cursor++;
    else if (!range_number(&cursor, &total))
        return false;
    if (*cursor != '\0' || last < first || last == UINT64_MAX || last >= total)
        return false;
    *out_offset = first;
    *out_length = last - first + 1;
    *out_total = total;
    return true;
}
