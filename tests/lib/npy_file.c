// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/npy_file.h"

char *whole_file_read(const char *path, size_t *out_size)
{
    FILE *file = fopen(path, "rb");
    long size;
    char *text;

    if (file == NULL)
        fail_msg("cannot open %s", path);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size = ftell(file);
    assert_true(size >= 0);
    rewind(file);
    text = calloc(1, (size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), size);
    fclose(file);
    *out_size = (size_t)size;
    return text;
}

void npy_file_read(const char *path, struct npy_file *out_file)
{
    size_t size;
    char *all = whole_file_read(path, &size);
    const unsigned char *bytes = (const unsigned char *)all;
    size_t header;
    const char *descr;

    assert_true(size >= 10 && memcmp(all, "\x93NUMPY\x01", 7) == 0);
    header = 10 + (size_t)bytes[8] + ((size_t)bytes[9] << 8);
    assert_true(header <= size);
    all[header - 1] = '\0';
    descr = strstr(all + 10, "'descr': '");
    assert_non_null(descr);
    assert_non_null(strstr(all + 10, "'fortran_order': False"));
    assert_int_equal(sscanf(descr, "'descr': '%7[^']", out_file->type), 1);
    assert_true(out_file->type[0] == '<' || out_file->type[0] == '|');
    out_file->bytes = size - header;
    out_file->data = malloc(out_file->bytes + 1);
    assert_non_null(out_file->data);
    memcpy(out_file->data, all + header, out_file->bytes);
    free(all);
}

void npy_file_free(struct npy_file *file)
{
    free(file->data);
    file->data = NULL;
}
