// SPDX-License-Identifier: Apache-2.0
// Settings of a program from flags, the environment and a file, in that order
// of precedence. One table says what settings there are.
#ifndef POD_SERVER_CONFIG_H
#define POD_SERVER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/str.h"

enum pod_setting_type {
    POD_SETTING_FLAG,     // bool: --dev, dev = true
    POD_SETTING_TEXT,     // char *, NULL when it is not given
    POD_SETTING_LIST,     // struct pod_setting_list: may be given again
    POD_SETTING_COUNT,    // uint64_t, decimal, at least 1
    POD_SETTING_BYTES,    // uint64_t: 4096, 1GiB
    POD_SETTING_DURATION, // int64_t nanoseconds: 30s, 24h
};

struct pod_setting_list {
    char **items;
    size_t count;
};

struct pod_setting {
    const char
        *name; // "staging-bytes"; PREFIX_STAGING_BYTES in the environment
    enum pod_setting_type type;
    size_t offset;    // of its variable in the settings struct
    const char *help; // what it is, and [its default]
    // Checks the value's meaning; NULL: none needed. The variable is set.
    enum pod_code (*check)(const void *settings, struct pod_err *err);
};

// Reads the settings into `settings`, which holds the defaults. `prefix` is
// the environment's ("PODD"). A setting named "config" of type TEXT, if there
// is one, names a file with lines `name = value`, # comments and blank lines.
// Texts are copies, kept until pod_config_fini. An error is one line that names
// the setting and its value; its reason is BAD_PARAMETER.
enum pod_code pod_config_read(const struct pod_setting *table, size_t count,
                              const char *prefix, int argc,
                              const char *const *argv, void *settings,
                              struct pod_err *err)
    __attribute__((warn_unused_result));

// Frees the texts and lists, also after a failed read.
void pod_config_fini(const struct pod_setting *table, size_t count,
                     void *settings);

// The settings that have a value, as "name=value name=value", for the log.
// Without memory there is less of it.
void pod_config_text(const struct pod_setting *table, size_t count,
                     const void *settings, struct pod_str *out_text);

// Prints the table for --help, wrapped to 80 columns.
void pod_config_help(const struct pod_setting *table, size_t count);

#endif
