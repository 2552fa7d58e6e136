// SPDX-License-Identifier: Apache-2.0
#include "api/npy.h"

#include <inttypes.h>
#include <string.h>

#include "core/hlo/layout.h"

static const char npy_magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

enum {
    NPY_PREFIX_V1 = 10, // magic, version, 2 bytes of length
    NPY_PREFIX_V2 = 12, // the same with 4 bytes
    NPY_ALIGN = 64,
    // Far above what an array of 32 dimensions needs.
    NPY_HEADER_MAX = 64 * 1024,
};

// Types that NumPy has, by the kind and size of its descr.
static const struct {
    char kind;
    size_t bytes;
    enum pod_type type;
} npy_types[] = {
    {'b', 1, POD_TYPE_PRED}, {'i', 1, POD_TYPE_S8},    {'i', 2, POD_TYPE_S16},
    {'i', 4, POD_TYPE_S32},  {'i', 8, POD_TYPE_S64},   {'u', 1, POD_TYPE_U8},
    {'u', 2, POD_TYPE_U16},  {'u', 4, POD_TYPE_U32},   {'u', 8, POD_TYPE_U64},
    {'f', 2, POD_TYPE_F16},  {'f', 4, POD_TYPE_F32},   {'f', 8, POD_TYPE_F64},
    {'c', 8, POD_TYPE_C64},  {'c', 16, POD_TYPE_C128},
};

enum { NPY_TYPE_COUNT = sizeof(npy_types) / sizeof(npy_types[0]) };

// ------------------------------------------------------------ the literal
// A cursor over the header's text.

struct npy_cursor {
    const char *at;
    const char *end;
};

static void npy_skip_blanks(struct npy_cursor *cursor)
{
    while (cursor->at < cursor->end &&
           (*cursor->at == ' ' || *cursor->at == '\t' || *cursor->at == '\n' ||
            *cursor->at == '\r'))
        cursor->at++;
}

// Takes a character if it is the next one after blanks.
static bool npy_take(struct npy_cursor *cursor, char c)
{
    npy_skip_blanks(cursor);
    if (cursor->at == cursor->end || *cursor->at != c)
        return false;
    cursor->at++;
    return true;
}

static bool npy_take_word(struct npy_cursor *cursor, const char *word)
{
    npy_skip_blanks(cursor);
    size_t length = strlen(word);
    if ((size_t)(cursor->end - cursor->at) < length ||
        memcmp(cursor->at, word, length) != 0)
        return false;
    cursor->at += length;
    return true;
}

// A string without escapes, in quotes of either kind.
static bool npy_take_string(struct npy_cursor *cursor, const char **out_text,
                            size_t *out_length)
{
    npy_skip_blanks(cursor);
    if (cursor->at == cursor->end ||
        (*cursor->at != '\'' && *cursor->at != '"'))
        return false;
    const char *text = cursor->at + 1;
    const char *close = memchr(text, *cursor->at, (size_t)(cursor->end - text));
    if (close == NULL || memchr(text, '\\', (size_t)(close - text)) != NULL)
        return false;
    *out_text = text;
    *out_length = (size_t)(close - text);
    cursor->at = close + 1;
    return true;
}

// A dimension: digits, perhaps with the L that Python 2 wrote.
static bool npy_take_dimension(struct npy_cursor *cursor, int64_t *out)
{
    npy_skip_blanks(cursor);
    const char *start = cursor->at;
    int64_t value = 0;
    while (cursor->at < cursor->end && *cursor->at >= '0' &&
           *cursor->at <= '9') {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *cursor->at - '0', &value))
            return false;
        cursor->at++;
    }
    if (cursor->at == start)
        return false;
    if (cursor->at < cursor->end && *cursor->at == 'L')
        cursor->at++;
    *out = value;
    return true;
}

// A tuple of dimensions: (), (3,), (3, 4), (3, 4,). Not (3), a mere number.
static bool npy_take_shape(struct npy_cursor *cursor, struct api_npy *out)
{
    out->rank = 0;
    if (!npy_take(cursor, '('))
        return false;
    bool comma = false;
    while (!npy_take(cursor, ')')) {
        if ((out->rank > 0 && !comma) || out->rank == POD_SHAPE_MAX_RANK ||
            !npy_take_dimension(cursor, &out->dims[out->rank]))
            return false;
        out->rank++;
        comma = npy_take(cursor, ',');
    }
    return out->rank != 1 || comma;
}

// -------------------------------------------------------------- the header

static enum pod_code npy_bad_dtype(const char *text, size_t length,
                                   struct pod_err *err)
{
    int shown = (int)pod_utf8_clip(text, length, 64);
    return pod_err_set(err, POD_REASON_NPY_DTYPE,
                       "arrays of NumPy's dtype '%.*s' are not supported",
                       shown, text);
}

// The number behind the kind: 1 to 16 in at most two digits, else 0.
static size_t npy_item_bytes(const char *digits, size_t length)
{
    if (length == 1 && digits[0] >= '1' && digits[0] <= '9')
        return (size_t)(digits[0] - '0');
    if (length == 2 && memcmp(digits, "16", 2) == 0)
        return 16;
    return 0;
}

static enum pod_code npy_read_descr(const char *text, size_t length,
                                    struct api_npy *out, struct pod_err *err)
{
    if (length < 3 || memchr("<>|", text[0], 3) == NULL)
        return npy_bad_dtype(text, length, err);
    size_t bytes = npy_item_bytes(text + 2, length - 2);
    bool order_counts = bytes > 1;
    if (bytes == 0 || (text[0] == '|' && order_counts && text[1] != 'V'))
        return npy_bad_dtype(text, length, err);
    out->item_bytes = bytes;
    out->big_endian = text[0] == '>' && order_counts;
    out->type = POD_TYPE_INVALID;
    if (text[1] == 'V' && bytes <= 2)
        return POD_OK;
    for (size_t i = 0; i < NPY_TYPE_COUNT; i++) {
        if (npy_types[i].kind == text[1] && npy_types[i].bytes == bytes) {
            out->type = npy_types[i].type;
            return POD_OK;
        }
    }
    return npy_bad_dtype(text, length, err);
}

enum { NPY_DESCR = 1, NPY_ORDER = 2, NPY_SHAPE = 4, NPY_ALL = 7 };

static enum pod_code npy_bad_header(struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_BAD_NPY,
                       "the .npy header is not a dict of descr, fortran_order "
                       "and shape");
}

static enum pod_code npy_read_descr_value(struct npy_cursor *cursor,
                                          struct api_npy *out,
                                          struct pod_err *err)
{
    const char *text = NULL;
    size_t length = 0;
    if (npy_take_string(cursor, &text, &length))
        return npy_read_descr(text, length, out, err);
    if (npy_take(cursor, '[') || npy_take(cursor, '('))
        return pod_err_set(err, POD_REASON_NPY_DTYPE,
                           "arrays of a structured dtype are not supported");
    return npy_bad_header(err);
}

// One key and its value. *out_key is the key's bit.
static enum pod_code npy_read_member(struct npy_cursor *cursor,
                                     struct api_npy *out, unsigned *out_key,
                                     struct pod_err *err)
{
    const char *key = NULL;
    size_t length = 0;
    if (!npy_take_string(cursor, &key, &length) || !npy_take(cursor, ':'))
        return npy_bad_header(err);
    if (length == 5 && memcmp(key, "descr", 5) == 0) {
        *out_key = NPY_DESCR;
        return npy_read_descr_value(cursor, out, err);
    }
    if (length == 13 && memcmp(key, "fortran_order", 13) == 0) {
        *out_key = NPY_ORDER;
        out->fortran_order = npy_take_word(cursor, "True");
        if (out->fortran_order || npy_take_word(cursor, "False"))
            return POD_OK;
    }
    if (length == 5 && memcmp(key, "shape", 5) == 0) {
        *out_key = NPY_SHAPE;
        if (npy_take_shape(cursor, out))
            return POD_OK;
    }
    return npy_bad_header(err);
}

static enum pod_code npy_read_dict(struct npy_cursor *cursor,
                                   struct api_npy *out, struct pod_err *err)
{
    unsigned seen = 0;
    if (!npy_take(cursor, '{'))
        return npy_bad_header(err);
    bool comma = true;
    while (!npy_take(cursor, '}')) {
        unsigned key = 0;
        if (!comma)
            return npy_bad_header(err);
        enum pod_code code = npy_read_member(cursor, out, &key, err);
        if (code != POD_OK)
            return code;
        if (seen & key)
            return npy_bad_header(err);
        seen |= key;
        comma = npy_take(cursor, ',');
    }
    npy_skip_blanks(cursor);
    if (seen != NPY_ALL || cursor->at != cursor->end)
        return npy_bad_header(err);
    return POD_OK;
}

// The bytes that the shape asks for; false if they overflow.
static bool npy_count_bytes(struct api_npy *npy)
{
    // A dimension of 0 makes the array empty, but the others are checked all
    // the same, so that the order of dimensions does not matter.
    size_t bytes = npy->item_bytes;
    bool empty = false;
    for (size_t i = 0; i < npy->rank; i++) {
        if (npy->dims[i] == 0)
            empty = true;
        else if (__builtin_mul_overflow(bytes, (size_t)npy->dims[i], &bytes) ||
                 bytes > (size_t)INT64_MAX)
            return false;
    }
    npy->data_bytes = empty ? 0 : bytes;
    return true;
}

// Finds the header's text: *out_start and its length.
static enum pod_code npy_find_header(const unsigned char *file, size_t size,
                                     size_t *out_start, size_t *out_length,
                                     struct pod_err *err)
{
    if (size < NPY_PREFIX_V1 || memcmp(file, npy_magic, sizeof(npy_magic)) != 0)
        return pod_err_set(err, POD_REASON_BAD_NPY, "this is not an .npy file");
    unsigned major = file[6];
    if (major < 1 || major > 3 || file[7] != 0)
        return pod_err_set(
            err, POD_REASON_BAD_NPY,
            ".npy version %u.%u is not supported (1.0 to 3.0 are)", major,
            file[7]);
    size_t start = major == 1 ? NPY_PREFIX_V1 : NPY_PREFIX_V2;
    if (size < start)
        return pod_err_set(err, POD_REASON_BAD_NPY,
                           "the .npy file ends too early");
    size_t length = (size_t)file[8] | (size_t)file[9] << 8;
    if (major > 1)
        length |= (size_t)file[10] << 16 | (size_t)file[11] << 24;
    if (length > NPY_HEADER_MAX)
        return pod_err_set(err, POD_REASON_BAD_NPY,
                           "the .npy header is longer than %d bytes",
                           NPY_HEADER_MAX);
    if (length > size - start)
        return pod_err_set(err, POD_REASON_BAD_NPY,
                           "the .npy file ends inside its header");
    *out_start = start;
    *out_length = length;
    return POD_OK;
}

enum pod_code api_npy_read(const void *file, size_t size, struct api_npy *out,
                           struct pod_err *err)
{
    size_t start = 0;
    size_t length = 0;
    enum pod_code code = npy_find_header(file, size, &start, &length, err);
    if (code != POD_OK)
        return code;
    struct npy_cursor cursor = {.at = (const char *)file + start};
    cursor.end = cursor.at + length;
    struct api_npy npy = {.data_offset = start + length};
    code = npy_read_dict(&cursor, &npy, err);
    if (code != POD_OK)
        return code;
    if (!npy_count_bytes(&npy))
        return pod_err_set(err, POD_REASON_BAD_NPY,
                           "the .npy header's shape overflows");
    if (npy.data_bytes != size - npy.data_offset)
        return pod_err_set(err, POD_REASON_BAD_NPY,
                           "the .npy header promises %zu bytes of data, the "
                           "file has %zu",
                           npy.data_bytes, size - npy.data_offset);
    *out = npy;
    return POD_OK;
}

// ---------------------------------------------------------- shape and data

enum pod_code api_npy_shape(const struct api_npy *npy, enum pod_type said,
                            struct pod_shape *out, struct pod_err *err)
{
    enum pod_type type = npy->type;
    if (type == POD_TYPE_INVALID) {
        if (said == POD_TYPE_INVALID)
            return pod_err_set(err, POD_REASON_NPY_DTYPE,
                               "the .npy file does not say what its %zu-byte "
                               "elements are: add element_type",
                               npy->item_bytes);
        type = said;
    }
    if ((said != POD_TYPE_INVALID && said != type) ||
        pod_type_bytes(type) != npy->item_bytes)
        return pod_err_set(err, POD_REASON_SHAPE_MISMATCH,
                           "the .npy file's elements (%s, %zu bytes) are not "
                           "%s",
                           pod_type_name(npy->type), npy->item_bytes,
                           pod_type_name(said));
    return pod_shape_array(out, type, npy->rank, npy->dims, err);
}

bool api_npy_is_plain(const struct api_npy *npy)
{
    bool reordered = npy->fortran_order && npy->rank > 1 && npy->data_bytes > 0;
    return !npy->big_endian && !reordered;
}

// Reverses the bytes of each part: of each number, of complex ones both.
static void npy_swap(const struct api_npy *npy, unsigned char *data)
{
    size_t part = npy->item_bytes;
    if (pod_type_is_complex(npy->type))
        part /= 2;
    for (size_t at = 0; at < npy->data_bytes; at += part) {
        for (size_t i = 0; i < part / 2; i++) {
            unsigned char byte = data[at + i];
            data[at + i] = data[at + part - 1 - i];
            data[at + part - 1 - i] = byte;
        }
    }
}

void api_npy_to_plain(const struct api_npy *npy, const void *data, void *out)
{
    if (npy->data_bytes == 0)
        return;
    if (npy->fortran_order) {
        int64_t strides[POD_SHAPE_MAX_RANK];
        int64_t stride = 1;
        for (size_t i = 0; i < npy->rank; i++) {
            strides[i] = stride;
            stride *= npy->dims[i];
        }
        pod_layout_gather(npy->item_bytes, npy->rank, npy->dims, strides, data,
                          out);
    } else {
        memcpy(out, data, npy->data_bytes);
    }
    if (npy->big_endian)
        npy_swap(npy, out);
}

// ---------------------------------------------------------------- writing

static void npy_print_descr(enum pod_type type, struct pod_str *out)
{
    size_t bytes = pod_type_bytes(type);
    char kind = 'V';
    for (size_t i = 0; i < NPY_TYPE_COUNT; i++) {
        if (npy_types[i].type == type)
            kind = npy_types[i].kind;
    }
    pod_str_printf(out, "%c%c%zu", bytes > 1 ? '<' : '|', kind, bytes);
}

void api_npy_print_header(const struct pod_shape *shape, struct pod_str *out)
{
    struct pod_str dict = {0};
    pod_str_puts(&dict, "{'descr': '");
    npy_print_descr(shape->type, &dict);
    pod_str_puts(&dict, "', 'fortran_order': False, 'shape': (");
    for (uint32_t i = 0; i < shape->rank; i++)
        pod_str_printf(&dict, "%s%" PRId64, i == 0 ? "" : ", ", shape->dims[i]);
    pod_str_puts(&dict, shape->rank == 1 ? ",), }" : "), }");

    // Blanks and a newline fill the header up.
    size_t whole = NPY_PREFIX_V1 + dict.length + 1;
    size_t padding = (NPY_ALIGN - whole % NPY_ALIGN) % NPY_ALIGN;
    size_t length = dict.length + padding + 1;
    const char version_and_length[4] = {1, 0, (char)(length & 0xFF),
                                        (char)(length >> 8)};
    pod_str_append(out, npy_magic, sizeof(npy_magic));
    pod_str_append(out, version_and_length, sizeof(version_and_length));
    if (dict.failed)
        out->failed = true;
    else
        pod_str_append(out, dict.data, dict.length);
    pod_str_printf(out, "%*s\n", (int)padding, "");
    pod_str_fini(&dict);
}
