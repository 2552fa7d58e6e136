// SPDX-License-Identifier: Apache-2.0
// Small files that are read again when they change: tokens, certificates.
#ifndef POD_API_FILE_H
#define POD_API_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#include "core/base/err.h"

// Which state of a file was read.
struct api_file_stamp {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
};

// Whether the file is as it was; false too when it cannot be looked at.
bool api_file_is(const char *path, const struct api_file_stamp *stamp);
// The state of a file (or socket) as it is now; false: it cannot be seen.
bool api_file_look(const char *path, struct api_file_stamp *out_stamp);
// Reads a file of at most `max` bytes; the text (NUL-terminated) is the
// caller's (pod_free). `secret`: only its owner may have access.
enum pod_code api_file_read(const char *path, size_t max, bool secret,
                            char **out_text, size_t *out_length,
                            struct api_file_stamp *out_stamp,
                            struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
