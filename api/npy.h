// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files, versions 1 to 3 (numpy.lib.format's documentation).
//
// A file is a magic, a version, the length of a header, the header (a Python
// dict literal with the keys descr, fortran_order and shape), and the array's
// bytes. Read as data from strangers: nothing is evaluated, every length is
// checked. Types that NumPy lacks travel as void of their size: bf16 as <V2,
// f8 and narrower ones as |V1; which of them it is must be said from outside.
// Pure functions.
#ifndef POD_API_NPY_H
#define POD_API_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/str.h"
#include "core/hlo/shape.h"

struct api_npy {
    // POD_TYPE_INVALID for <V2 and |V1, which do not say what they hold.
    enum pod_type type;
    size_t item_bytes;
    bool big_endian;
    bool fortran_order;
    size_t rank;
    int64_t dims[POD_SHAPE_MAX_RANK];
    size_t data_offset; // where the array's bytes begin
    size_t data_bytes;  // how many there are; checked against the file's size
};

// Reads the header of a whole file. Errors: BAD_NPY (malformed, cut, or longer
// or shorter than its shape says, a shape that overflows), NPY_DTYPE (object,
// string, structured and other types that no buffer holds).
enum pod_code api_npy_read(const void *file, size_t size, struct api_npy *out,
                           struct pod_err *err)
    __attribute__((warn_unused_result));

// The shape of the array. `said` is the element type that was said from
// outside (a buffer's, or a parameter's), or POD_TYPE_INVALID. Errors:
// NPY_DTYPE when the file does not say its type and nobody else does,
// SHAPE_MISMATCH when both do and differ, BAD_SHAPE.
enum pod_code api_npy_shape(const struct api_npy *npy, enum pod_type said,
                            struct pod_shape *out, struct pod_err *err)
    __attribute__((warn_unused_result));

// Whether the file's bytes are already dense, row-major and little-endian.
bool api_npy_is_plain(const struct api_npy *npy);

// Writes them so: `data` is what follows the header, `out` has room for
// data_bytes and does not overlap it.
void api_npy_to_plain(const struct api_npy *npy, const void *data, void *out);

// Appends the header of a version 1 file (always a multiple of 64 bytes) that
// the dense bytes of `shape`, an array, follow.
void api_npy_print_header(const struct pod_shape *shape, struct pod_str *out);

#endif
