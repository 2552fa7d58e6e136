// SPDX-License-Identifier: Apache-2.0
// The settings of podd: what there are, and what they mean together.
#ifndef POD_SERVER_SETTINGS_H
#define POD_SERVER_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "server/config.h"

struct podd_settings {
    bool help;
    bool version;
    bool check_config;
    bool dev;
    bool insecure;
    char *config;
    char *listen;
    char *token_file;
    char *tls_cert;
    char *tls_key;
    uint64_t rate_limit;
    uint64_t connections_per_address;
    uint64_t requests_per_token;
    char *pod;
    char *worker_tls_ca;
    char *worker_tls_cert;
    char *worker_tls_key;
    bool trust_worker_order;
    struct pod_setting_list allowed_hosts;
    struct pod_setting_list allowed_origins;
    uint64_t staging_bytes;
    uint64_t history_count;
    int64_t history_age_ns;
    int64_t drain_timeout_ns;
    int64_t stall_after_ns;
    char *log_format;
    char *log_level;
};

// Sets the defaults, then what flags, environment and file say. The error is
// one line.
enum pod_code podd_settings_read(int argc, const char *const *argv,
                                 struct podd_settings *settings,
                                 struct pod_err *err)
    __attribute__((warn_unused_result));
// Also after a failed read.
void podd_settings_fini(struct podd_settings *settings);
// The settings for the log (pod_config_text).
void podd_settings_text(const struct podd_settings *settings,
                        struct pod_str *out_text);
// Prints the table for --help.
void podd_settings_help(void);

// What the settings mean together: who is let in from where, and whether the
// files are fit. The error is one line.
enum pod_code podd_settings_check(const struct podd_settings *settings,
                                  struct pod_err *err)
    __attribute__((warn_unused_result));

// Where to listen and what pod to drive, the defaults included.
const char *podd_settings_listen(const struct podd_settings *settings);
const char *podd_settings_pod(const struct podd_settings *settings);
// Whether the pod is made of workers and not embedded.
bool podd_settings_is_remote(const struct podd_settings *settings);

#endif
