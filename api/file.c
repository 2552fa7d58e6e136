// SPDX-License-Identifier: Apache-2.0
// Small files that are read again when they change: tokens, certificates.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/file.h"
#include "core/base/mem.h"

static void file_stamp(const struct stat *info, struct api_file_stamp *out)
{
    *out = (struct api_file_stamp){.device = info->st_dev,
                                   .inode = info->st_ino,
                                   .size = info->st_size,
                                   .changed = info->st_ctim};
}

bool api_file_is(const char *path, const struct api_file_stamp *stamp)
{
    struct stat info;

    return stat(path, &info) == 0 && info.st_dev == stamp->device &&
           info.st_ino == stamp->inode && info.st_size == stamp->size &&
           info.st_ctim.tv_sec == stamp->changed.tv_sec &&
           info.st_ctim.tv_nsec == stamp->changed.tv_nsec;
}

bool api_file_look(const char *path, struct api_file_stamp *out_stamp)
{
    struct stat info;

    if (stat(path, &info) != 0)
        return false;
    file_stamp(&info, out_stamp);
    return true;
}

static enum pod_code file_check(const char *path, const struct stat *info,
                                size_t max, bool secret, struct pod_err *err)
{
    unsigned mode = info->st_mode & 07777;

    if (!S_ISREG(info->st_mode))
        return pod_err_set(err, POD_REASON_BAD_VALUE, "%s: not a file", path);
    if (info->st_size < 0 || (size_t)info->st_size > max)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "%s: larger than %zu bytes", path, max);
    if (!secret)
        return POD_OK;
    if ((mode & 077) != 0)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "%s: mode %04o lets others in: chmod 600 %s", path,
                           mode, path);
    if (info->st_uid != geteuid() && info->st_uid != 0)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "%s: belongs to user %u, not to us", path,
                           (unsigned)info->st_uid);
    return POD_OK;
}

// Up to `size` bytes; how many, or -1.
static ssize_t file_fill(int fd, char *text, size_t size)
{
    size_t used = 0;

    while (used < size) {
        ssize_t got = read(fd, text + used, size - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        used += (size_t)got;
    }
    return (ssize_t)used;
}

static enum pod_code file_take(int fd, const char *path, size_t max,
                               bool secret, char **out_text, size_t *out_length,
                               struct api_file_stamp *out_stamp,
                               struct pod_err *err)
{
    struct stat info;

    if (fstat(fd, &info) != 0)
        return pod_err_set(err, POD_REASON_BAD_VALUE, "%s: %s", path,
                           strerror(errno));
    enum pod_code code = file_check(path, &info, max, secret, err);
    if (code != POD_OK)
        return code;
    char *text = pod_malloc((size_t)info.st_size + 1);
    if (text == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "%s: no memory",
                           path);
    ssize_t length = file_fill(fd, text, (size_t)info.st_size);
    if (length < 0) {
        pod_free(text);
        return pod_err_set(err, POD_REASON_BAD_VALUE, "%s: %s", path,
                           strerror(errno));
    }
    text[length] = '\0';
    file_stamp(&info, out_stamp);
    *out_text = text;
    *out_length = (size_t)length;
    return POD_OK;
}

enum pod_code api_file_read(const char *path, size_t max, bool secret,
                            char **out_text, size_t *out_length,
                            struct api_file_stamp *out_stamp,
                            struct pod_err *err)
{
    // A pipe must not hold us up: it is opened at once and then refused.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return pod_err_set(err, POD_REASON_BAD_VALUE, "%s: %s", path,
                           strerror(errno));
    enum pod_code code =
        file_take(fd, path, max, secret, out_text, out_length, out_stamp, err);
    (void)close(fd);
    return code;
}
