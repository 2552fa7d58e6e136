// SPDX-License-Identifier: Apache-2.0
// gRPC's own messages in our log.
//
// A client with a bad certificate tries again and again, and gRPC logs it each
// time. The same text is logged only once a minute.
#include <grpc/support/log.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/lock.h"
#include "core/base/log.h"
#include "proto/rpc_internal.h"

enum {
    LOG_TOLD = 16,        // texts that are remembered
    LOG_TEXT_BYTES = 256, // of each
    LOG_AGAIN_S = 60,
};

struct log_told {
    char text[LOG_TEXT_BYTES];
    int64_t at_ns; // 0: none yet
};

static struct pod_mutex log_lock; // guards log_told
static struct log_told log_told[LOG_TOLD];

// Whether the text was logged not long ago. If not, it replaces the text that
// was logged longest ago.
static bool log_is_old_locked(const char *text, int64_t now_ns)
{
    struct log_told *oldest = &log_told[0];
    for (size_t i = 0; i < LOG_TOLD; i++) {
        struct log_told *told = &log_told[i];
        bool fresh = told->at_ns != 0 &&
                     now_ns - told->at_ns < LOG_AGAIN_S * POD_NS_PER_S;
        if (fresh && strncmp(told->text, text, LOG_TEXT_BYTES - 1) == 0)
            return true;
        if (told->at_ns < oldest->at_ns)
            oldest = told;
    }
    size_t length = strnlen(text, LOG_TEXT_BYTES - 1);
    memcpy(oldest->text, text, length);
    oldest->text[length] = '\0';
    oldest->at_ns = now_ns;
    return false;
}

bool rpc_log_is_old(const char *text, int64_t now_ns)
{
    pod_mutex_lock(&log_lock);
    bool old = log_is_old_locked(text, now_ns);
    pod_mutex_unlock(&log_lock);
    return old;
}

// Its errors are ours only as far as a call fails.
static void log_take(gpr_log_func_args *args)
{
    int64_t now_ns = pod_clock_mono(&pod_clock_system);
    bool loud = args->severity == GPR_LOG_SEVERITY_ERROR &&
                !rpc_log_is_old(args->message, now_ns);
    pod_log(loud ? POD_LOG_WARN : POD_LOG_DEBUG, "grpc", "%s", args->message);
}

void rpc_log_setup(void)
{
    pod_mutex_init(&log_lock, POD_RANK_LOG, "grpc log");
    gpr_set_log_function(log_take);
}
