// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "core/base/clock.h"
#include "core/base/str.h"
#include "core/driver/fault.h"

static const char *const fault_kinds[POD_FAULT_KIND_COUNT] = {
    [POD_FAULT_ALLOCATE] = "allocate", [POD_FAULT_FREE] = "free",
    [POD_FAULT_WRITE] = "write",       [POD_FAULT_READ] = "read",
    [POD_FAULT_COPY] = "copy",         [POD_FAULT_COMPILE] = "compile",
    [POD_FAULT_LOAD] = "load",         [POD_FAULT_UNLOAD] = "unload",
    [POD_FAULT_EXECUTE] = "execute",   [POD_FAULT_ANY] = "any",
};

enum fault_argument { FAULT_NO_ARGUMENT, FAULT_MAY, FAULT_MUST, FAULT_CODE };

static const struct {
    const char *name;
    enum pod_fault_action action;
    enum fault_argument argument;
} fault_actions[] = {
    {"delay", POD_FAULT_DELAY, FAULT_MUST},
    {"fail", POD_FAULT_FAIL, FAULT_CODE},
    {"drop", POD_FAULT_DROP, FAULT_NO_ARGUMENT},
    {"die", POD_FAULT_DIE, FAULT_MAY},
    {"stall", POD_FAULT_STALL, FAULT_MAY},
};

enum { FAULT_ACTION_COUNT = sizeof fault_actions / sizeof fault_actions[0] };

// A piece of the script.
struct fault_piece {
    const char *text;
    size_t length;
};

// What is read, for messages.
struct fault_reader {
    const char *script;
    struct pod_err *err;
};

static enum pod_code fault_wrong(struct fault_reader *reader,
                                 struct fault_piece piece, const char *what)
{
    int shown = piece.length < 64 ? (int)piece.length : 64;
    enum pod_code code =
        pod_err_set(reader->err, POD_REASON_BAD_VALUE,
                    "fault script: \"%.*s\" %s", shown, piece.text, what);

    if (reader->err != NULL) {
        reader->err->line = 1;
        reader->err->column = (int)(piece.text - reader->script) + 1;
    }
    return code;
}

static bool piece_is(struct fault_piece piece, const char *word)
{
    return piece.length == strlen(word) &&
           memcmp(piece.text, word, piece.length) == 0;
}

// Cuts at the first `mark`: what is before it stays in `piece`, what is behind
// it goes to `rest`. False: there is no mark, and `rest` is empty.
static bool piece_cut(struct fault_piece *piece, char mark,
                      struct fault_piece *rest)
{
    const char *at = memchr(piece->text, mark, piece->length);

    if (at == NULL) {
        *rest = (struct fault_piece){.text = piece->text + piece->length};
        return false;
    }
    size_t before = (size_t)(at - piece->text);
    rest->text = at + 1;
    rest->length = piece->length - before - 1;
    piece->length = before;
    return true;
}

static enum pod_code fault_read_host(struct fault_reader *reader,
                                     struct fault_piece piece,
                                     struct pod_fault_rule *rule)
{
    static const char word[] = "host";
    size_t skip = sizeof word - 1;
    uint64_t number = 0;

    if (piece.length <= skip || memcmp(piece.text, word, skip) != 0)
        return fault_wrong(reader, piece, "is not a host such as host1");
    // Zero is a host, but no number that pod_parse_number takes.
    bool zero = piece.length == skip + 1 && piece.text[skip] == '0';
    if (!zero &&
        (!pod_parse_number(piece.text + skip, piece.length - skip, &number) ||
         number > UINT32_MAX))
        return fault_wrong(reader, piece, "is not a host such as host1");
    rule->one_host = true;
    rule->host = (uint32_t)number;
    return POD_OK;
}

static enum pod_code fault_read_match(struct fault_reader *reader,
                                      struct fault_piece piece,
                                      struct pod_fault_rule *rule)
{
    struct fault_piece nth;
    bool counted = piece_cut(&piece, '#', &nth);
    size_t kind = 0;

    while (kind < POD_FAULT_KIND_COUNT && !piece_is(piece, fault_kinds[kind]))
        kind++;
    if (kind == POD_FAULT_KIND_COUNT)
        return fault_wrong(reader, piece, "is not a kind of call");
    rule->kind = (enum pod_fault_kind)kind;
    rule->first = 1;
    rule->last = UINT64_MAX;
    if (!counted)
        return POD_OK;
    size_t digits = nth.length;
    bool onwards = digits > 0 && nth.text[digits - 1] == '+';
    if (onwards)
        digits--;
    if (!pod_parse_number(nth.text, digits, &rule->first))
        return fault_wrong(reader, nth, "is not a count from 1 on");
    if (!onwards)
        rule->last = rule->first;
    return POD_OK;
}

static enum pod_code fault_read_code(struct fault_reader *reader,
                                     struct fault_piece piece,
                                     struct pod_fault_rule *rule)
{
    for (int code = POD_OK + 1; code <= POD_UNAUTHENTICATED; code++) {
        if (!piece_is(piece, pod_code_name((enum pod_code)code)))
            continue;
        rule->code = (enum pod_code)code;
        return POD_OK;
    }
    return fault_wrong(reader, piece, "is not a code such as UNAVAILABLE");
}

static enum pod_code fault_read_action(struct fault_reader *reader,
                                       struct fault_piece piece,
                                       struct pod_fault_rule *rule)
{
    struct fault_piece value;
    struct fault_piece whole = piece;
    bool given = piece_cut(&piece, ':', &value);
    size_t i = 0;

    while (i < FAULT_ACTION_COUNT && !piece_is(piece, fault_actions[i].name))
        i++;
    if (i == FAULT_ACTION_COUNT)
        return fault_wrong(reader, piece,
                           "is not an action (delay, fail, drop, die, stall)");
    enum fault_argument argument = fault_actions[i].argument;
    rule->action = fault_actions[i].action;
    rule->duration_ns = POD_NEVER;
    if (given && argument == FAULT_NO_ARGUMENT)
        return fault_wrong(reader, whole, "takes no value");
    if (!given && argument == FAULT_CODE)
        return fault_wrong(reader, whole, "needs a code, as fail:UNAVAILABLE");
    if (!given && argument == FAULT_MUST)
        return fault_wrong(reader, whole, "needs a duration, as delay:5ms");
    if (argument == FAULT_CODE)
        return fault_read_code(reader, value, rule);
    if (given &&
        !pod_parse_duration(value.text, value.length, &rule->duration_ns))
        return fault_wrong(reader, value, "is not a duration such as 5ms");
    return POD_OK;
}

static enum pod_code fault_read_rule(struct fault_reader *reader,
                                     struct fault_piece piece,
                                     struct pod_fault_rule *rule)
{
    struct fault_piece match = piece;
    struct fault_piece action;
    enum pod_code code = POD_OK;

    *rule = (struct pod_fault_rule){.one_host = false};
    if (!piece_cut(&match, '=', &action))
        return fault_wrong(reader, piece,
                           "is not a rule such as execute#3=die");
    struct fault_piece host = match;
    if (piece_cut(&host, ':', &match))
        code = fault_read_host(reader, host, rule);
    else
        match = host;
    if (code == POD_OK)
        code = fault_read_match(reader, match, rule);
    if (code == POD_OK)
        code = fault_read_action(reader, action, rule);
    return code;
}

enum pod_code pod_fault_parse(const char *text, size_t length,
                              struct pod_fault_script *out, struct pod_err *err)
{
    struct fault_reader reader = {.script = text, .err = err};
    struct fault_piece rest = {.text = text, .length = length};
    struct pod_fault_script script = {.count = 0};
    bool more = true;

    while (more) {
        struct fault_piece piece = rest;
        more = piece_cut(&piece, ';', &rest);
        if (script.count == POD_FAULT_MAX_RULES)
            return fault_wrong(&reader, piece, "is one rule too many");
        enum pod_code code =
            fault_read_rule(&reader, piece, &script.rules[script.count]);
        if (code != POD_OK)
            return code;
        script.count++;
    }
    *out = script;
    return POD_OK;
}
