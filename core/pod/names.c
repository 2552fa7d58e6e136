// SPDX-License-Identifier: Apache-2.0
// The names that users see.
#include "core/pod/pod.h"

const char *pod_kind_name(enum pod_kind kind)
{
    static const char *const names[] = {
#define X(name) [POD_KIND_##name] = #name,
        POD_KINDS(X)
#undef X
    };

    return (size_t)kind < POD_KIND_COUNT ? names[kind] : "UNKNOWN";
}

const char *pod_pending_name(enum pod_pending pending)
{
    static const char *const names[] = {
#define X(name) [POD_PENDING_##name] = #name,
        POD_PENDINGS(X)
#undef X
    };

    return (size_t)pending < sizeof(names) / sizeof(names[0]) ? names[pending]
                                                              : "UNKNOWN";
}

const char *pod_handle_state_name(enum pod_handle_state state)
{
    switch (state) {
    case POD_HANDLE_PENDING:
        return "PENDING";
    case POD_HANDLE_READY:
        return "READY";
    case POD_HANDLE_FREED:
        return "FREED";
    case POD_HANDLE_LOST:
        return "LOST";
    case POD_HANDLE_FAILED:
        return "FAILED";
    }
    return "UNKNOWN";
}

const char *pod_awaited_state_name(enum pod_awaited_state state)
{
    switch (state) {
    case POD_AWAITED_QUEUED:
        return "QUEUED";
    case POD_AWAITED_SENT:
        return "SENT";
    case POD_AWAITED_BEGUN:
        break;
    }
    return "BEGUN";
}

const char *pod_host_state_name(enum pod_host_state state)
{
    switch (state) {
    case POD_HOST_CONNECTING:
        return "CONNECTING";
    case POD_HOST_READY:
        return "READY";
    case POD_HOST_CORDONED:
        return "CORDONED";
    case POD_HOST_LOST:
        return "LOST";
    }
    return "UNKNOWN";
}
