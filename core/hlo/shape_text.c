// SPDX-License-Identifier: Apache-2.0
// Shapes as text: a scanner that goes once over its input, and the printer.
#include "core/hlo/shape.h"

#include "core/base/mem.h"

#include <inttypes.h>
#include <string.h>

// ---------------------------------------------------------------- scanning

struct scan {
    const char *text;
    size_t length;
    size_t at;
    size_t nodes; // of the whole shape so far
    struct pod_err *err;
};

static bool scan_is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool scan_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static enum pod_code scan_fail(struct scan *scan, const char *what)
{
    return pod_err_set(scan->err, POD_REASON_BAD_SHAPE, "%s", what);
}

static void scan_skip_comment(struct scan *scan)
{
    scan->at += 2;
    while (scan->at < scan->length) {
        if (scan->text[scan->at] == '*' && scan->at + 1 < scan->length &&
            scan->text[scan->at + 1] == '/') {
            scan->at += 2;
            return;
        }
        scan->at++;
    }
}

static void scan_skip_blanks(struct scan *scan)
{
    while (scan->at < scan->length) {
        char c = scan->text[scan->at];
        if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
            scan->at++;
        else if (c == '/' && scan->at + 1 < scan->length &&
                 scan->text[scan->at + 1] == '*')
            scan_skip_comment(scan);
        else
            return;
    }
}

// The next character that counts, or 0 at the end.
static char scan_peek(struct scan *scan)
{
    scan_skip_blanks(scan);
    return scan->at < scan->length ? scan->text[scan->at] : '\0';
}

static bool scan_take(struct scan *scan, char c)
{
    if (scan_peek(scan) != c)
        return false;
    scan->at++;
    return true;
}

static enum pod_code scan_integer(struct scan *scan, int64_t *out)
{
    int64_t value = 0;
    if (!scan_is_digit(scan_peek(scan)))
        return scan_fail(scan, "expected a number");
    for (; scan->at < scan->length && scan_is_digit(scan->text[scan->at]);
         scan->at++) {
        int64_t digit = scan->text[scan->at] - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return scan_fail(scan, "number does not fit 64 bits");
    }
    *out = value;
    return POD_OK;
}

// One dimension: 8, <=8; "?" has no bound and no size.
static enum pod_code scan_dimension(struct scan *scan, int64_t *out,
                                    bool *out_dynamic)
{
    *out_dynamic = false;
    if (scan_peek(scan) == '?')
        return scan_fail(scan, "unbounded dimensions are not supported");
    if (scan_take(scan, '<')) {
        if (scan->at >= scan->length || scan->text[scan->at] != '=')
            return scan_fail(scan, "expected \"<=\"");
        scan->at++;
        *out_dynamic = true;
    }
    return scan_integer(scan, out);
}

static enum pod_code scan_dimensions(struct scan *scan, enum pod_type type,
                                     struct pod_shape *out)
{
    int64_t dims[POD_SHAPE_MAX_RANK];
    uint32_t dynamic = 0;
    size_t rank = 0;
    enum pod_code code;
    if (!scan_take(scan, '['))
        return scan_fail(scan, "expected \"[\"");
    while (scan_peek(scan) != ']') {
        bool is_dynamic;
        if (rank > 0 && !scan_take(scan, ','))
            return scan_fail(scan, "expected \",\" or \"]\"");
        if (rank == POD_SHAPE_MAX_RANK)
            return scan_fail(scan, "shape has more than 32 dimensions");
        code = scan_dimension(scan, &dims[rank], &is_dynamic);
        if (code != POD_OK)
            return code;
        dynamic |= is_dynamic ? UINT32_C(1) << rank : 0;
        rank++;
    }
    if (!pod_type_is_array(type)) {
        if (rank > 0)
            return scan_fail(scan, "expected \"]\"");
        *out = (struct pod_shape){.type = type};
    } else {
        code = pod_shape_array(out, type, rank, dims, scan->err);
        if (code != POD_OK)
            return code;
        out->dynamic = dynamic;
    }
    scan->at++;
    return POD_OK;
}

// Reads over "( ... )" with whatever is inside.
static enum pod_code scan_skip_parens(struct scan *scan)
{
    size_t depth = 0;
    do {
        if (scan->at >= scan->length)
            return scan_fail(scan, "expected \")\"");
        if (scan->text[scan->at] == '(')
            depth++;
        else if (scan->text[scan->at] == ')')
            depth--;
        scan->at++;
    } while (depth > 0);
    return POD_OK;
}

// One part of a layout behind the colon: "T(8,128)(2,1)", "S(5)", "E(4)" ...
static enum pod_code scan_layout_part(struct scan *scan)
{
    char c = scan_peek(scan);
    size_t start = scan->at;
    if (!scan_is_letter(c) && c != '*' && c != '#')
        return scan_fail(scan, "expected a part of a layout or \"}\"");
    while (scan->at < scan->length && scan_is_letter(scan->text[scan->at]))
        scan->at++;
    if (scan->at == start)
        scan->at++;
    bool space = c == 'S' && scan->at == start + 1;
    if (scan_peek(scan) != '(')
        return scan_fail(scan, "expected \"(\"");
    if (space) {
        size_t open = scan->at++;
        if (scan_peek(scan) != '0')
            return scan_fail(scan, "memory spaces are not supported");
        scan->at = open;
    }
    while (scan_peek(scan) == '(') {
        enum pod_code code = scan_skip_parens(scan);
        if (code != POD_OK)
            return code;
    }
    return POD_OK;
}

static enum pod_code scan_minor_to_major(struct scan *scan,
                                         struct pod_shape *shape)
{
    uint32_t seen = 0;
    uint32_t count = 0;
    while (scan_is_digit(scan_peek(scan)) || count > 0) {
        int64_t dim;
        enum pod_code code = scan_integer(scan, &dim);
        if (code != POD_OK)
            return code;
        if (dim >= shape->rank || (seen >> dim & 1) != 0)
            return scan_fail(scan,
                             "layout is not a permutation of the dimensions");
        seen |= UINT32_C(1) << dim;
        shape->minor_to_major[count++] = (uint8_t)dim;
        if (!scan_take(scan, ','))
            break;
    }
    if (count != shape->rank)
        return scan_fail(scan, "layout does not name every dimension once");
    return POD_OK;
}

// A brace opens a layout only if a number or a colon follows: else it is the
// body of a computation.
static enum pod_code scan_layout(struct scan *scan, struct pod_shape *shape)
{
    enum pod_code code;
    size_t before = scan->at;
    if (!scan_take(scan, '{')) {
        scan->at = before;
        return POD_OK;
    }
    if (!scan_is_digit(scan_peek(scan)) && scan_peek(scan) != ':') {
        scan->at = before;
        return POD_OK;
    }
    code = scan_minor_to_major(scan, shape);
    if (code != POD_OK)
        return code;
    if (scan_take(scan, ':')) {
        while (scan_peek(scan) != '}') {
            code = scan_layout_part(scan);
            if (code != POD_OK)
                return code;
        }
    }
    if (!scan_take(scan, '}'))
        return scan_fail(scan, "expected \"}\"");
    shape->has_layout = pod_shape_is_array(shape);
    return POD_OK;
}

static enum pod_code scan_shape(struct scan *scan, unsigned depth,
                                struct pod_shape *out);

struct scan_list {
    struct pod_shape *items;
    size_t count;
    size_t capacity;
};

static enum pod_code scan_list_grow(struct scan *scan, struct scan_list *list)
{
    size_t capacity = list->capacity == 0 ? 4 : list->capacity * 2;
    struct pod_shape *items =
        pod_realloc(list->items, capacity, sizeof(*items));
    if (items == NULL)
        return pod_err_set(scan->err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for a shape");
    list->items = items;
    list->capacity = capacity;
    return POD_OK;
}

static enum pod_code scan_children(struct scan *scan, unsigned depth,
                                   struct scan_list *list)
{
    while (scan_peek(scan) != ')') {
        enum pod_code code = POD_OK;
        if (list->count > 0 && !scan_take(scan, ','))
            return scan_fail(scan, "expected \",\" or \")\"");
        if (list->count == list->capacity)
            code = scan_list_grow(scan, list);
        if (code == POD_OK)
            code = scan_shape(scan, depth + 1, &list->items[list->count]);
        if (code != POD_OK)
            return code;
        list->count++;
    }
    scan->at++;
    return POD_OK;
}

static void scan_list_fini(struct scan_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        pod_shape_fini(&list->items[i]);
    pod_free(list->items);
}

static enum pod_code scan_tuple(struct scan *scan, unsigned depth,
                                struct pod_shape *out)
{
    struct scan_list list = {.items = NULL};
    size_t start = scan->at;
    enum pod_code code;
    if (depth == POD_SHAPE_MAX_DEPTH)
        return scan_fail(scan, "tuples are nested more than 32 deep");
    scan->at++;
    code = scan_children(scan, depth, &list);
    if (code == POD_OK) {
        code = pod_shape_tuple(out, list.count, list.items, scan->err);
        if (code != POD_OK)
            scan->at = start;
    }
    if (code != POD_OK)
        scan_list_fini(&list);
    return code;
}

// "b(" shape ")": a mutable buffer of the shape inside.
static enum pod_code scan_buffer(struct scan *scan, unsigned depth,
                                 struct pod_shape *out)
{
    enum pod_code code = scan_tuple(scan, depth, out);
    if (code != POD_OK)
        return code;
    if (out->child_count != 1 || !pod_shape_is_array(out->children)) {
        pod_shape_fini(out);
        return scan_fail(scan, "a buffer holds one array");
    }
    out->type = POD_TYPE_BUFFER;
    return POD_OK;
}

static enum pod_code scan_shape(struct scan *scan, unsigned depth,
                                struct pod_shape *out)
{
    enum pod_type type;
    enum pod_code code;
    size_t start;
    if (++scan->nodes > POD_SHAPE_MAX_NODES)
        return scan_fail(scan, "tuple has too many parts");
    if (scan_peek(scan) == '(')
        return scan_tuple(scan, depth, out);
    start = scan->at;
    while (scan->at < scan->length && (scan_is_letter(scan->text[scan->at]) ||
                                       scan_is_digit(scan->text[scan->at])))
        scan->at++;
    if (scan->at == start + 1 && scan->text[start] == 'b' &&
        scan_peek(scan) == '(')
        return scan_buffer(scan, depth, out);
    type = pod_type_parse(scan->text + start, scan->at - start);
    if (type == POD_TYPE_INVALID) {
        scan->at = start;
        return scan_fail(scan, "expected a shape such as f32[2,3]");
    }
    code = scan_dimensions(scan, type, out);
    return code == POD_OK ? scan_layout(scan, out) : code;
}

enum pod_code pod_shape_scan(const char *text, size_t length, size_t *out_used,
                             struct pod_shape *out, struct pod_err *err)
{
    struct scan scan = {.text = text, .length = length, .err = err};
    enum pod_code code = scan_shape(&scan, 0, out);
    if (code != POD_OK)
        *out = (struct pod_shape){.type = POD_TYPE_INVALID};
    *out_used = scan.at;
    return code;
}

// Puts the place of a fault into the error, and the text in front.
static enum pod_code shape_parse_fail(const char *text, size_t length,
                                      size_t at, struct pod_err *err)
{
    int line = 1;
    int column = 1;
    if (err == NULL)
        return POD_INVALID_ARGUMENT;
    for (size_t i = 0; i < at && i < length; i++) {
        column = text[i] == '\n' ? 1 : column + 1;
        line += text[i] == '\n';
    }
    err->line = line;
    err->column = column;
    pod_err_wrap(err, "shape \"%.*s\"", (int)pod_utf8_clip(text, length, 120),
                 text);
    return err->code;
}

enum pod_code pod_shape_parse(const char *text, size_t length,
                              struct pod_shape *out, struct pod_err *err)
{
    struct scan scan = {.text = text, .length = length, .err = err};
    struct pod_shape shape = {.type = POD_TYPE_INVALID};
    enum pod_code code = scan_shape(&scan, 0, &shape);
    if (code == POD_OK && (scan_peek(&scan), scan.at < length)) {
        pod_shape_fini(&shape);
        code = scan_fail(&scan, "expected nothing more");
    }
    if (code == POD_INVALID_ARGUMENT)
        return shape_parse_fail(text, length, scan.at, err);
    if (code == POD_OK)
        *out = shape;
    return code;
}

// ---------------------------------------------------------------- printing

static void shape_print_layout(const struct pod_shape *shape,
                               struct pod_str *str)
{
    pod_str_puts(str, "{");
    for (uint32_t i = 0; i < shape->rank; i++)
        pod_str_printf(str, i == 0 ? "%u" : ",%u",
                       (unsigned)shape->minor_to_major[i]);
    pod_str_puts(str, "}");
}

static void shape_print_array(const struct pod_shape *shape, bool layouts,
                              struct pod_str *str)
{
    pod_str_puts(str, pod_type_name(shape->type));
    pod_str_puts(str, "[");
    for (uint32_t i = 0; i < shape->rank; i++)
        pod_str_printf(str, "%s%s%" PRId64, i == 0 ? "" : ",",
                       (shape->dynamic >> i & 1) != 0 ? "<=" : "",
                       shape->dims[i]);
    pod_str_puts(str, "]");
    // XLA prints no layout for scalars: there is nothing to say.
    if (layouts && shape->has_layout && shape->rank > 0)
        shape_print_layout(shape, str);
}

void pod_shape_print(const struct pod_shape *shape, bool layouts,
                     struct pod_str *str)
{
    if (shape->type != POD_TYPE_TUPLE && shape->type != POD_TYPE_BUFFER) {
        shape_print_array(shape, layouts, str);
        return;
    }
    pod_str_puts(str, shape->type == POD_TYPE_BUFFER ? "b(" : "(");
    for (size_t i = 0; i < shape->child_count; i++) {
        if (i > 0)
            pod_str_puts(str, ", ");
        pod_shape_print(&shape->children[i], layouts, str);
    }
    pod_str_puts(str, ")");
}

const char *pod_shape_brief(const struct pod_shape *shape, char *buffer,
                            size_t size)
{
    struct pod_str str = {.data = NULL};
    pod_shape_print(shape, true, &str);
    if (str.failed || str.data == NULL) {
        // An error message goes on without the shape.
        buffer[0] = '?';
        buffer[1] = '\0';
    } else if (str.length < size) {
        memcpy(buffer, str.data, str.length + 1);
    } else {
        memcpy(buffer, str.data, size - 4);
        memcpy(buffer + size - 4, "...", 4);
    }
    pod_str_fini(&str);
    return buffer;
}

void pod_program_shape_print(const struct pod_program_shape *shape,
                             bool layouts, struct pod_str *str)
{
    pod_str_puts(str, "(");
    for (size_t i = 0; i < shape->count; i++) {
        if (i > 0)
            pod_str_puts(str, ", ");
        pod_shape_print(&shape->parameters[i], layouts, str);
    }
    pod_str_puts(str, ") -> ");
    pod_shape_print(&shape->result, layouts, str);
}
