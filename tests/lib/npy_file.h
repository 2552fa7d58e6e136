// SPDX-License-Identifier: Apache-2.0
// Reads the .npy files of the test programs.
#ifndef POD_TESTS_NPY_FILE_H
#define POD_TESTS_NPY_FILE_H

#include <stddef.h>

struct npy_file {
    unsigned char *data; // dense, row-major
    size_t bytes;
    char type[8]; // "<f4"
};

// Fails the test if the file is missing or not a little-endian C-order array.
void npy_file_read(const char *path, struct npy_file *out_file);
void npy_file_free(struct npy_file *file);

// A whole file with a NUL behind it, to be freed with free(). Fails the test
// if it cannot be read.
char *whole_file_read(const char *path, size_t *out_size);

#endif
