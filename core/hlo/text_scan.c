// SPDX-License-Identifier: Apache-2.0
#include "core/hlo/text_internal.h"

#include "core/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool text_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool text_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool text_is_word(char c)
{
    return text_is_letter(c) || text_is_digit(c) || c == '.' || c == '-';
}

// -------------------------------------------------------------------- errors

void pod_text_place(struct text *t, size_t at, int *line, int *column)
{
    while (t->mark_at < at) {
        const char *from = t->data + t->mark_at;
        const char *end = memchr(from, '\n', at - t->mark_at);
        if (end == NULL) {
            t->mark_at = at;
            break;
        }
        t->mark_at = (size_t)(end - t->data) + 1;
        t->mark_line_start = t->mark_at;
        t->mark_line++;
    }
    *line = t->mark_line;
    *column = (int)(at - t->mark_line_start) + 1;
}

static enum pod_code text_set_place(struct text *t, size_t at,
                                    enum pod_code code)
{
    // An error ends the reading, so starting over costs one more pass.
    t->mark_at = 0;
    t->mark_line_start = 0;
    t->mark_line = 1;
    pod_text_place(t, at, &t->err->line, &t->err->column);
    return code;
}

enum pod_code pod_text_fail_at(struct text *t, size_t at, const char *format,
                               ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return text_set_place(
        t, at, pod_err_set(t->err, POD_REASON_INVALID_PROGRAM, "%s", text));
}

enum pod_code pod_text_unsupported_at(struct text *t, size_t at,
                                      const char *what)
{
    return text_set_place(t, at,
                          pod_err_set(t->err, POD_REASON_UNIMPLEMENTED,
                                      "%s not supported", what));
}

enum pod_code pod_text_expected(struct text *t, const char *what)
{
    size_t end;
    (void)pod_text_peek(t);
    end = t->at;
    if (end == t->length)
        return pod_text_fail_at(t, end,
                                "expected %s, found the end of the text", what);
    while (end < t->length && end < t->at + 40 && text_is_word(t->data[end]))
        end++;
    if (end == t->at && t->data[end] >= ' ' && t->data[end] < 0x7f)
        end++;
    return pod_text_fail_at(t, t->at, "expected %s, found \"%.*s\"", what,
                            (int)(end - t->at), t->data + t->at);
}

enum pod_code pod_text_no_memory(struct text *t)
{
    if (t->arena != NULL && t->arena->failed)
        return pod_hlo_arena_fail(t->arena, t->err);
    return pod_err_set(t->err, POD_REASON_OUT_OF_MEMORY,
                       "no memory to read the program");
}

// -------------------------------------------------------- blanks, characters

// The offset behind the comment at `at`, or `at` itself if there is none or it
// does not end.
static size_t text_comment_end(const struct text *t, size_t at)
{
    const char *end;
    if (t->length - at < 2 || t->data[at] != '/')
        return at;
    if (t->data[at + 1] == '/') {
        end = memchr(t->data + at, '\n', t->length - at);
        return end == NULL ? t->length : (size_t)(end - t->data);
    }
    if (t->data[at + 1] != '*')
        return at;
    end = memmem(t->data + at + 2, t->length - at - 2, "*/", 2);
    return end == NULL ? at : (size_t)(end - t->data) + 2;
}

char pod_text_peek(struct text *t)
{
    while (t->at < t->length) {
        char c = t->data[t->at];
        size_t end = t->at + 1;
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
            end = text_comment_end(t, t->at);
        if (end == t->at)
            return c;
        t->at = end;
    }
    return '\0';
}

bool pod_text_take(struct text *t, char c)
{
    if (pod_text_peek(t) != c || t->at == t->length)
        return false;
    t->at++;
    return true;
}

bool pod_text_take_joint(struct text *t, char c)
{
    if (t->at == t->length || t->data[t->at] != c)
        return false;
    t->at++;
    return true;
}

bool pod_text_take_string(struct text *t, const char *string)
{
    size_t length = strlen(string);
    (void)pod_text_peek(t);
    if (t->length - t->at < length ||
        memcmp(t->data + t->at, string, length) != 0)
        return false;
    t->at += length;
    return true;
}

enum pod_code pod_text_need(struct text *t, char c)
{
    char what[] = "\"?\"";
    if (pod_text_take(t, c))
        return POD_OK;
    what[1] = c;
    return pod_text_expected(t, what);
}

// --------------------------------------------------------------- words, names

struct text_span pod_text_word(struct text *t)
{
    struct text_span word;
    (void)pod_text_peek(t);
    word.text = t->data + t->at;
    if (t->at < t->length && text_is_letter(t->data[t->at]))
        while (t->at < t->length && text_is_word(t->data[t->at]))
            t->at++;
    word.length = (size_t)(t->data + t->at - word.text);
    return word;
}

bool pod_text_span_is(struct text_span span, const char *string)
{
    return strlen(string) == span.length &&
           memcmp(span.text, string, span.length) == 0;
}

bool pod_text_take_word(struct text *t, const char *word)
{
    struct text_span found;
    size_t before;
    (void)pod_text_peek(t);
    before = t->at;
    found = pod_text_word(t);
    if (pod_text_span_is(found, word))
        return true;
    t->at = before;
    return false;
}

enum pod_code pod_text_name(struct text *t, const char *what,
                            struct text_span *out)
{
    if (pod_text_take(t, '%')) {
        size_t start = t->at;
        while (t->at < t->length && text_is_word(t->data[t->at]))
            t->at++;
        *out = (struct text_span){t->data + start, t->at - start};
    } else {
        *out = pod_text_word(t);
    }
    return out->length > 0 ? POD_OK : pod_text_expected(t, what);
}

enum pod_code pod_text_bool(struct text *t, bool *out)
{
    if (pod_text_take_word(t, "true"))
        *out = true;
    else if (pod_text_take_word(t, "false"))
        *out = false;
    else
        return pod_text_expected(t, "true or false");
    return POD_OK;
}

// -------------------------------------------------------------------- strings

// The character an escape stands for; hexadecimal and octal ones too.
static bool text_escape(struct text *t, char *out)
{
    static const char letters[] = "abfnrtv\\'\"?";
    static const char values[] = "\a\b\f\n\r\t\v\\'\"?";
    char c = t->data[t->at++];
    const char *found = c == '\0' ? NULL : strchr(letters, c);
    unsigned value = 0;
    if (found != NULL) {
        *out = values[found - letters];
        return true;
    }
    if (c == 'x') {
        size_t digits = 0;
        for (; digits < 2 && t->at < t->length; digits++, t->at++) {
            c = t->data[t->at];
            if (text_is_digit(c))
                value = value * 16 + (unsigned)(c - '0');
            else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
                value = value * 16 + (unsigned)((c | 0x20) - 'a') + 10;
            else
                break;
        }
        *out = (char)(unsigned char)value;
        return digits > 0;
    }
    if (c < '0' || c > '7')
        return false;
    value = (unsigned)(c - '0');
    for (int i = 0; i < 2 && t->at < t->length && t->data[t->at] >= '0' &&
                    t->data[t->at] <= '7';
         i++)
        value = value * 8 + (unsigned)(t->data[t->at++] - '0');
    *out = (char)(unsigned char)value;
    return value < 256;
}

// The offset of the quote that ends the string opened at t->at.
static bool text_string_end(const struct text *t, size_t *out)
{
    char quote = t->data[t->at];
    for (size_t i = t->at + 1; i < t->length; i++) {
        if (t->data[i] == quote) {
            *out = i;
            return true;
        }
        if (t->data[i] == '\\')
            i++;
    }
    return false;
}

enum pod_code pod_text_string(struct text *t, ProtobufCBinaryData *out)
{
    char quote = pod_text_peek(t);
    size_t start = t->at;
    size_t end;
    char *copy;
    size_t length = 0;
    if (quote != '"' && quote != '\'')
        return pod_text_expected(t, "a string");
    if (!text_string_end(t, &end))
        return pod_text_fail_at(t, start, "string does not end");
    copy = pod_hlo_arena_alloc(t->arena, end - start, 1);
    if (copy == NULL)
        return pod_text_no_memory(t);
    t->at++;
    while (t->at < end) {
        char c = t->data[t->at++];
        if (c == '\\' && !text_escape(t, &c))
            return pod_text_fail_at(t, t->at - 1, "escape is not known");
        copy[length++] = c;
    }
    t->at = end + 1;
    *out = (ProtobufCBinaryData){.len = length, .data = (uint8_t *)copy};
    return POD_OK;
}

// ------------------------------------------------------------- reading over

static enum pod_code text_skip_brackets(struct text *t)
{
    size_t start = t->at;
    size_t depth = 0;
    do {
        char c = pod_text_peek(t);
        size_t end;
        if (t->at == t->length)
            return pod_text_fail_at(t, start, "bracket is not closed");
        if (c == '"' || c == '\'') {
            if (!text_string_end(t, &end))
                return pod_text_fail_at(t, t->at, "string does not end");
            t->at = end;
        }
        if (c == '{' || c == '(' || c == '[')
            depth++;
        else if (c == '}' || c == ')' || c == ']')
            depth--;
        t->at++;
    } while (depth > 0);
    return POD_OK;
}

enum pod_code pod_text_skip_value(struct text *t)
{
    char c = pod_text_peek(t);
    size_t end;
    size_t start = t->at;
    if (c == '{' || c == '(' || c == '[')
        return text_skip_brackets(t);
    if (c == '"' || c == '\'') {
        if (!text_string_end(t, &end))
            return pod_text_fail_at(t, start, "string does not end");
        t->at = end + 1;
        return POD_OK;
    }
    while (t->at < t->length &&
           (text_is_word(t->data[t->at]) || t->data[t->at] == '%'))
        t->at++;
    return t->at > start ? POD_OK : pod_text_expected(t, "a value");
}

// --------------------------------------------------------------------- shapes

enum pod_code pod_text_shape(struct text *t, const struct pod_shape **out)
{
    struct pod_shape shape;
    size_t used;
    size_t start;
    enum pod_code code;
    (void)pod_text_peek(t);
    start = t->at;
    code = pod_shape_scan(t->data + start, t->length - start, &used, &shape,
                          t->err);
    t->at = start + used;
    if (code == POD_INVALID_ARGUMENT) {
        t->err->reason = POD_REASON_INVALID_PROGRAM;
        return text_set_place(t, t->at, code);
    }
    if (code != POD_OK)
        return code;
    pod_shape_set_default_layout(&shape);
    *out = pod_hlo_arena_shape(t->arena, &shape);
    return *out == NULL ? pod_text_no_memory(t) : POD_OK;
}

bool pod_text_shape_ahead(struct text *t)
{
    struct text_span word;
    size_t before;
    bool ahead;
    if (pod_text_peek(t) == '(')
        return true;
    before = t->at;
    word = pod_text_word(t);
    ahead = word.length > 0 && pod_text_peek(t) == '[' &&
            pod_type_parse(word.text, word.length) != POD_TYPE_INVALID;
    t->at = before;
    return ahead;
}

// ------------------------------------------------------------------ collecting

bool pod_text_push(struct text_stack *stack, const void *item, size_t size)
{
    if (stack->count == stack->capacity) {
        size_t capacity = stack->capacity == 0 ? 64 : stack->capacity * 2;
        void *items = pod_realloc(stack->items, capacity, size);
        if (items == NULL)
            return false;
        stack->items = items;
        stack->capacity = capacity;
    }
    memcpy((char *)stack->items + stack->count * size, item, size);
    stack->count++;
    return true;
}

bool pod_text_push_int(struct text *t, int64_t value)
{
    return pod_text_push(&t->ints, &value, sizeof(value));
}

bool pod_text_push_pointer(struct text *t, void *pointer)
{
    return pod_text_push(&t->pointers, &pointer, sizeof(pointer));
}

static enum pod_code text_pop(struct text *t, struct text_stack *stack,
                              size_t base, size_t size, size_t *out_count,
                              void **out)
{
    size_t count = stack->count - base;
    void *copy = NULL;
    stack->count = base;
    if (count > 0) {
        copy = pod_hlo_arena_alloc(t->arena, count, size);
        if (copy == NULL)
            return pod_text_no_memory(t);
        memcpy(copy, (char *)stack->items + base * size, count * size);
    }
    *out_count = count;
    *out = copy;
    return POD_OK;
}

enum pod_code pod_text_pop_ints(struct text *t, size_t base, size_t *out_count,
                                int64_t **out)
{
    void *copy = NULL;
    enum pod_code code =
        text_pop(t, &t->ints, base, sizeof(int64_t), out_count, &copy);
    if (code == POD_OK)
        *out = copy;
    return code;
}

enum pod_code pod_text_pop_pointers(struct text *t, size_t base,
                                    size_t *out_count, void *out)
{
    void *copy = NULL;
    enum pod_code code =
        text_pop(t, &t->pointers, base, sizeof(void *), out_count, &copy);
    if (code == POD_OK)
        memcpy(out, &copy, sizeof(copy));
    return code;
}

enum pod_code pod_text_messages(struct text *t,
                                const ProtobufCMessageDescriptor *type,
                                pod_text_read_fn *read, size_t *out_count,
                                void *out)
{
    size_t base = t->pointers.count;
    enum pod_code code = pod_text_need(t, '{');
    if (code != POD_OK || pod_text_take(t, '}'))
        return code;
    do {
        void *message = pod_text_message(t, type);
        if (message == NULL || !pod_text_push_pointer(t, message))
            return pod_text_no_memory(t);
        code = read(t, message);
    } while (code == POD_OK && pod_text_take(t, ','));
    if (code == POD_OK)
        code = pod_text_need(t, '}');
    return code == POD_OK ? pod_text_pop_pointers(t, base, out_count, out)
                          : code;
}

enum pod_code pod_text_ints_joined(struct text *t, char by, size_t *out_count,
                                   int64_t **out)
{
    size_t base = t->ints.count;
    do {
        int64_t value;
        enum pod_code code = pod_text_integer(t, &value);
        if (code != POD_OK)
            return code;
        if (!pod_text_push_int(t, value))
            return pod_text_no_memory(t);
    } while (pod_text_take(t, by));
    return pod_text_pop_ints(t, base, out_count, out);
}

enum pod_code pod_text_int_list(struct text *t, char open, char close,
                                size_t *out_count, int64_t **out)
{
    enum pod_code code = pod_text_need(t, open);
    *out_count = 0;
    *out = NULL;
    if (code != POD_OK || pod_text_take(t, close))
        return code;
    code = pod_text_ints_joined(t, ',', out_count, out);
    return code == POD_OK ? pod_text_need(t, close) : code;
}

void *pod_text_message(struct text *t, const ProtobufCMessageDescriptor *type)
{
    void *message = pod_hlo_arena_alloc(t->arena, 1, type->sizeof_message);
    if (message != NULL)
        type->message_init(message);
    return message;
}
