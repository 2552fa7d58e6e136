// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/lib/far_pod.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FAR_HISTORY = 100000,
    FAR_STAGING_BYTES = 1 << 30,
};

#define FAR_WAIT_NS (120 * POD_NS_PER_S)

static void far_check(enum pod_code code, const char *what,
                      const struct pod_err *err)
{
    if (code == POD_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, err->text);
    exit(1);
}

static void far_notify(void *arg)
{
    struct far_pod *far = arg;

    pod_mutex_lock(&far->lock);
    far->woken = true;
    pod_mutex_unlock(&far->lock);
    pod_cond_signal(&far->changed);
}

static void far_add(struct far_pod *far, uint32_t host, const char *address)
{
    struct pod_grpc_options options = {
        .hub = far->hub,
        .host = host,
        .address = address,
        // All the workers of a big pod start at once on few cores.
        .connect_ns = FAR_WAIT_NS,
        .silence_ns = FAR_WAIT_NS,
    };
    struct pod_driver *driver = NULL;
    struct pod_err err = POD_ERR_NONE;

    far_check(pod_grpc_driver_new(&options, &driver, &err), "driver", &err);
    far_check(pod_add_host(far->pod, driver, address, &err), "host", &err);
}

static void far_await_hosts(struct far_pod *far)
{
    struct pod_topology_view view;
    struct pod_err err = POD_ERR_NONE;

    pod_await_hosts(far->pod, FAR_WAIT_NS);
    far_check(pod_get_topology(far->pod, &view, &err), "topology", &err);
    for (size_t i = 0; i < view.host_count; i++) {
        if (view.hosts[i].state != POD_HOST_READY) {
            fprintf(stderr, "host %zu is not ready: %s\n", i,
                    view.hosts[i].error != NULL ? view.hosts[i].error : "");
            exit(1);
        }
    }
    pod_topology_view_fini(&view);
}

void far_pod_open(struct far_pod *far, const char *const *addresses,
                  size_t count)
{
    struct pod_options options = {
        .clock = pod_clock_system,
        .instance = "bench",
        .history_count = FAR_HISTORY,
        .history_age_ns = POD_NEVER,
        .first_number = 1,
        .staging_bytes = FAR_STAGING_BYTES,
        .notify = far_notify,
        .notify_arg = far,
    };
    struct pod_err err = POD_ERR_NONE;

    memset(far, 0, sizeof(*far));
    pod_mutex_init(&far->lock, POD_RANK_PARKED, "bench");
    pod_cond_init(&far->changed);
    far_check(pod_grpc_hub_new(NULL, &far->hub, &err), "hub", &err);
    far->pod = pod_new(&options);
    if (far->pod == NULL)
        far_check(pod_err_set(&err, POD_REASON_OUT_OF_MEMORY, "no memory"),
                  "pod", &err);
    for (size_t i = 0; i < count; i++)
        far_add(far, (uint32_t)i, addresses[i]);
    far_check(pod_start(far->pod, &err), "start", &err);
    far_await_hosts(far);
}

void far_pod_close(struct far_pod *far)
{
    pod_stop(far->pod);
    pod_destroy(far->pod);
    pod_grpc_hub_free(far->hub);
    pod_cond_fini(&far->changed);
    pod_mutex_fini(&far->lock);
}

struct pod_request far_request(enum pod_kind kind)
{
    return (struct pod_request){.kind = kind, .deadline_ns = POD_NEVER};
}

struct pod_ref far_buffer(uint64_t number)
{
    return (struct pod_ref){.kind = POD_REF_BUFFER, .number = number};
}

uint64_t far_submit(struct far_pod *far, const struct pod_request *request)
{
    struct pod_err err = POD_ERR_NONE;
    uint64_t number = 0;

    far_check(pod_submit(far->pod, request, 1, &number, NULL, &err), "submit",
              &err);
    return number;
}

// Until the waiter is among those that were woken.
static void far_block(struct far_pod *far)
{
    struct pod_list woken;

    pod_list_init(&woken);
    while (pod_list_empty(&woken)) {
        pod_mutex_lock(&far->lock);
        while (!far->woken)
            pod_cond_wait(&far->changed, &far->lock);
        far->woken = false;
        pod_mutex_unlock(&far->lock);
        pod_take_woken(far->pod, &woken);
    }
}

void far_await(struct far_pod *far, uint64_t number)
{
    struct pod_waiter waiter = {.number = number};
    struct pod_event_view view;
    struct pod_err err = POD_ERR_NONE;

    if (pod_wait_add(far->pod, &waiter, number, 0))
        far_block(far);
    far_check(pod_get_event(far->pod, number, &view, &err), "event", &err);
    pod_wait_remove(far->pod, &waiter);
    if (view.state != POD_SCHED_SUCCEEDED) {
        fprintf(stderr, "op-%llu did not succeed: %s\n",
                (unsigned long long)number,
                view.has_error ? view.error.detail : "");
        exit(1);
    }
    pod_event_view_fini(&view);
}
