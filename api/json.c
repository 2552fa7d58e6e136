// SPDX-License-Identifier: Apache-2.0
// Parsing: one pass of our own counts depth and values before jansson builds
// anything, and finds integers that jansson could not hold. Texts that are
// short enough are seen at a glance to need none.
#include "api/json.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/json_memory.h"
#include "core/base/str.h"

// Goes before the digits of a large integer that was made a string. A client
// that writes it itself gets the integer it wrote.
static const char json_mark[] = "\\u0001";
enum { JSON_MARK_CHAR = 1 };

struct json_scan {
    const char *text;
    size_t length;
    size_t at;
    unsigned depth;
    size_t values;
    bool has_big;
    struct pod_str *rewritten; // NULL in the pass that only looks
};

// What a character begins; 0: nothing.
enum json_class {
    JSON_NUMBER_IS = 1,
    JSON_STRING_IS,
    JSON_KEY_WAS, // the string before a colon
    JSON_OPENS,
    JSON_CLOSES,
    JSON_WORD_IS,
};

static const unsigned char json_classes[256] = {
    ['-'] = JSON_NUMBER_IS, ['0'] = JSON_NUMBER_IS, ['1'] = JSON_NUMBER_IS,
    ['2'] = JSON_NUMBER_IS, ['3'] = JSON_NUMBER_IS, ['4'] = JSON_NUMBER_IS,
    ['5'] = JSON_NUMBER_IS, ['6'] = JSON_NUMBER_IS, ['7'] = JSON_NUMBER_IS,
    ['8'] = JSON_NUMBER_IS, ['9'] = JSON_NUMBER_IS, ['"'] = JSON_STRING_IS,
    [':'] = JSON_KEY_WAS,   ['{'] = JSON_OPENS,     ['['] = JSON_OPENS,
    ['}'] = JSON_CLOSES,    [']'] = JSON_CLOSES,    ['t'] = JSON_WORD_IS,
    ['f'] = JSON_WORD_IS,   ['n'] = JSON_WORD_IS,
};

static const uint64_t json_each = UINT64_C(0x0101010101010101);

// The high bit of each byte that is 0, up to the first such byte.
static uint64_t json_zero_bytes(uint64_t word)
{
    return (word - json_each) & ~word & json_each * 0x80;
}

// The next quote or backslash, or the end. Strings are short and of any
// length: eight characters are looked at without a branch.
static size_t json_string_stop(const struct json_scan *scan, size_t at)
{
    uint64_t word;

    for (; scan->length - at >= sizeof(word); at += sizeof(word)) {
        memcpy(&word, scan->text + at, sizeof(word));
        word = le64toh(word);
        uint64_t found = json_zero_bytes(word ^ json_each * '"') |
                         json_zero_bytes(word ^ json_each * '\\');
        if (found != 0)
            return at + (size_t)__builtin_ctzll(found) / 8;
    }
    while (at < scan->length && scan->text[at] != '"' && scan->text[at] != '\\')
        at++;
    return at;
}

// The end of the string that starts at `at` (a quote).
static size_t json_string_end(const struct json_scan *scan, size_t at)
{
    at = json_string_stop(scan, at + 1);
    while (at + 1 < scan->length && scan->text[at] == '\\')
        at = json_string_stop(scan, at + 2);
    return at < scan->length ? at + 1 : scan->length;
}

static bool json_is_of_number(char c)
{
    return json_classes[(unsigned char)c] == JSON_NUMBER_IS || c == '.' ||
           c == '+' || c == 'e' || c == 'E';
}

static size_t json_number_end(const struct json_scan *scan, size_t at)
{
    while (at < scan->length && json_is_of_number(scan->text[at]))
        at++;
    return at;
}

static bool json_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

// An integer in JSON's own notation that no int64 holds.
static bool json_is_big(const char *text, size_t length)
{
    size_t sign = text[0] == '-';
    size_t digits = length - sign;
    char copy[24];

    if (digits < 19 || text[sign] == '0')
        return false;
    for (size_t i = sign; i < length; i++) {
        if (!json_is_digit(text[i]))
            return false;
    }
    if (digits > 19)
        return true;
    memcpy(copy, text, length);
    copy[length] = '\0';
    errno = 0;
    (void)strtoll(copy, NULL, 10);
    return errno == ERANGE;
}

static bool json_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// Whether what ends at `at` stands where a member's name does, which no number
// may be: as a string it would be one.
static bool json_is_name(const struct json_scan *scan, size_t at)
{
    while (at < scan->length && json_is_space(scan->text[at]))
        at++;
    return at < scan->length && scan->text[at] == ':';
}

static void json_number(struct json_scan *scan)
{
    size_t end = json_number_end(scan, scan->at);
    const char *text = scan->text + scan->at;
    size_t length = end - scan->at;
    bool big = json_is_big(text, length) && !json_is_name(scan, end);

    scan->values++;
    scan->has_big |= big;
    scan->at = end;
    if (scan->rewritten == NULL)
        return;
    if (big) {
        pod_str_puts(scan->rewritten, "\"");
        pod_str_puts(scan->rewritten, json_mark);
    }
    pod_str_append(scan->rewritten, text, length);
    if (big)
        pod_str_puts(scan->rewritten, "\"");
}

// One token that is no number; returns where it ends. What is malformed is
// left for jansson to say so.
static size_t json_token(struct json_scan *scan)
{
    switch (json_classes[(unsigned char)scan->text[scan->at]]) {
    case JSON_STRING_IS:
        scan->values++;
        return json_string_end(scan, scan->at);
    case JSON_KEY_WAS:
        scan->values -= scan->values > 0;
        break;
    case JSON_OPENS:
        scan->values++;
        scan->depth++;
        break;
    case JSON_CLOSES:
        scan->depth -= scan->depth > 0;
        break;
    case JSON_WORD_IS:
        scan->values++;
        while (scan->at + 1 < scan->length && scan->text[scan->at + 1] >= 'a' &&
               scan->text[scan->at + 1] <= 'z')
            scan->at++;
        break;
    default:
        break;
    }
    return scan->at + 1;
}

static enum pod_code json_scan_run(struct json_scan *scan,
                                   const struct api_json_limits *limits,
                                   struct pod_err *err)
{
    while (scan->at < scan->length) {
        unsigned char c = (unsigned char)scan->text[scan->at];
        if (json_classes[c] == JSON_NUMBER_IS) {
            json_number(scan);
        } else {
            size_t start = scan->at;
            scan->at = json_token(scan);
            if (scan->rewritten != NULL)
                pod_str_append(scan->rewritten, scan->text + start,
                               scan->at - start);
        }
        if (scan->depth > limits->depth)
            return pod_err_set(err, POD_REASON_BODY_TOO_LARGE,
                               "the JSON is nested deeper than %u",
                               limits->depth);
        if (scan->values > limits->values)
            return pod_err_set(err, POD_REASON_BODY_TOO_LARGE,
                               "the JSON has more than %zu values",
                               limits->values);
    }
    return POD_OK;
}

// Whether there may be an integer that no int64 holds: a run of so many digits
// covers one of the places that are looked at.
static bool json_has_long_run(const char *text, size_t length)
{
    enum { JSON_RUN = 19 };

    for (size_t at = JSON_RUN - 1; at < length; at += JSON_RUN) {
        size_t start = at;
        size_t end = at;
        while (end < length && json_is_digit(text[end]))
            end++;
        while (start > 0 && end > at && json_is_digit(text[start - 1]))
            start--;
        if (end - start >= JSON_RUN)
            return true;
    }
    return false;
}

// How many of eight bytes open an array or an object: '[' and '{' differ from
// each other in one bit. More than there are where such bytes stand in a row.
static unsigned json_openers(uint64_t word)
{
    uint64_t other = (word | json_each * 0x20) ^ json_each * '{';
    uint64_t found = json_zero_bytes(other) >> 7;

    return (unsigned)((found * json_each) >> 56);
}

// Whether a text is so short that it keeps the limits and has no integer that
// jansson could not hold. Lines of a graph are, and need no pass of their own.
static bool json_is_plain(const char *text, size_t length,
                          const struct api_json_limits *limits)
{
    size_t depth = 0;
    uint64_t word = 0;

    if (length > limits->values || json_has_long_run(text, length))
        return false;
    for (; length >= sizeof(word); length -= sizeof(word)) {
        memcpy(&word, text, sizeof(word));
        depth += json_openers(word);
        text += sizeof(word);
    }
    word = 0;
    memcpy(&word, text, length);
    return depth + json_openers(word) <= limits->depth;
}

// Without memory jansson calls a text malformed or nothing at all, or goes on
// without the characters it had no room for.
static enum pod_code json_fault(const struct api_memory *memory,
                                const json_error_t *fault, struct pod_err *err)
{
    if (memory->failed)
        return api_memory_error(memory, err);
    bool nul = json_error_code(fault) == json_error_null_character;
    enum pod_code code =
        pod_err_set(err, POD_REASON_BAD_JSON, "malformed JSON: %s",
                    nul ? "\\u0000 is not allowed in text" : fault->text);
    if (err != NULL) {
        err->line = fault->line > 0 ? fault->line : 1;
        err->column = fault->column > 0 ? fault->column : 1;
    }
    return code;
}

static enum pod_code json_load(const char *text, size_t length, size_t flags,
                               struct api_memory *memory, json_t **out_json,
                               struct pod_err *err)
{
    json_error_t fault;
    struct api_memory *before = api_json_memory_begin(memory);
    json_t *json = json_loadb(text, length, flags, &fault);

    api_json_memory_end(before);
    if (json == NULL || memory->failed)
        return json_fault(memory, &fault, err);
    api_json_memory_last(json);
    *out_json = json;
    return POD_OK;
}

enum pod_code api_json_parse(const char *text, size_t length,
                             const struct api_json_limits *limits,
                             struct api_memory *memory, json_t **out_json,
                             struct pod_err *err)
{
    struct json_scan scan = {.text = text, .length = length};
    struct pod_str rewritten = {.data = NULL};
    size_t flags = JSON_REJECT_DUPLICATES;

    if (limits->any)
        flags |= JSON_DECODE_ANY;
    enum pod_code code = json_is_plain(text, length, limits)
                             ? POD_OK
                             : json_scan_run(&scan, limits, err);
    if (code != POD_OK)
        return code;
    if (scan.has_big) {
        scan = (struct json_scan){
            .text = text, .length = length, .rewritten = &rewritten};
        code = json_scan_run(&scan, limits, err);
        if (code == POD_OK && rewritten.failed)
            code = pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                               "no memory for the JSON");
        text = rewritten.data;
        length = rewritten.length;
    }
    if (code == POD_OK)
        code = json_load(text, length, flags, memory, out_json, err);
    pod_str_fini(&rewritten);
    return code;
}

bool api_json_big_integer(const json_t *value, const char **out_digits)
{
    const char *text = json_string_value(value);

    if (text == NULL || text[0] != JSON_MARK_CHAR)
        return false;
    *out_digits = text + 1;
    return true;
}
