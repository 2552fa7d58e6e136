// SPDX-License-Identifier: Apache-2.0
// Hosts, chips and cores: their present state, and what can be done with hosts
// while the pod runs.
#ifndef POD_POD_HOSTS_H
#define POD_POD_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/driver/driver.h"
#include "core/pod/conditions.h"
#include "core/pod/kinds.h"

struct pod;
struct pod_waiter;

const char *pod_host_state_name(enum pod_host_state state);

// The load of a host as it reports it itself, for all its clients.
struct pod_host_load {
    bool known;
    uint64_t open_operations;
    uint64_t memory_used; // by buffers, on all its cores
    uint64_t queued;      // executions it has and has not done
    uint32_t cores_busy;
};

// The operation that has been stalled longest.
struct pod_stalled_view {
    uint64_t operation; // 0: none
    enum pod_kind kind;
    uint32_t host;
};

struct pod_host_view {
    uint32_t id;
    const char *address;
    enum pod_host_state state;
    uint32_t incarnation;
    int64_t heartbeat_wall_ns; // 0: none yet
    const char *error;         // NULL: none
    const char *platform;      // NULL: not known yet
    const char *version;
    unsigned accepts;
    uint32_t chip_count;
    uint32_t core_count;
    uint64_t open_operations; // that it has a part in
    uint64_t finished_operations;
    uint64_t buffers;
    struct pod_host_load load;
    struct pod_condition conditions[POD_CONDITION_COUNT]; // by type
    struct pod_stalled_view oldest_stall;                 // on it
};

struct pod_chip_view {
    uint32_t id;
    uint32_t host;
    int32_t x, y, z;
    uint32_t first_core; // its cores are first_core .. + core_count - 1
    uint32_t core_count;
};

struct pod_core_view {
    uint32_t id;
    uint32_t host;
    uint32_t chip;
    uint32_t worker_core;
    uint64_t memory_total;
    uint64_t memory_used;
    uint32_t queue_depth;
    uint64_t running[8]; // operations that run on it now
    size_t running_count;
};

struct pod_link_view {
    uint32_t from; // chip ids, from < to
    uint32_t to;
};

// Hosts, chips and cores in the order of their ids, without those of hosts that
// were removed: their ids are not used again.
struct pod_topology_view {
    const struct pod_host_view *hosts;
    size_t host_count;
    uint32_t host_ids; // those that were given are below these
    uint32_t core_ids;
    struct pod_condition ready; // of the pod as a whole
    struct pod_condition stalled;
    struct pod_stalled_view oldest_stall;
    uint64_t open_operations; // of the pod
    const struct pod_chip_view *chips;
    size_t chip_count;
    const struct pod_core_view *cores;
    size_t core_count;
    const struct pod_link_view *links;
    size_t link_count;
    void *memory;
};

enum pod_code pod_get_topology(struct pod *pod,
                               struct pod_topology_view *out_view,
                               struct pod_err *err)
    __attribute__((warn_unused_result));
void pod_topology_view_fini(struct pod_topology_view *view);

// The host or core with that id; NULL: there is none, or it was removed.
const struct pod_host_view *
pod_topology_host(const struct pod_topology_view *view, uint32_t id);
const struct pod_core_view *
pod_topology_core(const struct pod_topology_view *view, uint32_t id);

// Errors of every function that names a host: NOT_FOUND, EXPIRED (it was
// removed).
enum pod_code pod_cordon(struct pod *pod, uint32_t id, bool cordon,
                         struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code pod_reconnect(struct pod *pod, uint32_t id, struct pod_err *err)
    __attribute__((warn_unused_result));

// Registers the waiter and returns true, unless the host is drained (DRAINED is
// TRUE), was removed, or the pod is draining. A registered waiter is woken
// once, when one of these becomes true; pod_wait_remove and pod_take_woken work
// for it as for any other.
bool pod_wait_drained(struct pod *pod, struct pod_waiter *waiter, uint32_t id);

// ---------------------------------------------------------- hosts at run time

enum { POD_MAX_HOSTS = 1024 }; // that are there at one time

// Makes the driver of a host that is to be added. Called without the engine's
// lock, one addition at a time, so it may take long.
struct pod_driver_maker {
    enum pod_code (*make)(void *arg, uint32_t host,
                          struct pod_driver **out_driver, struct pod_err *err);
    void *arg;
};

// Adds a host to a running pod (`address` NULL: it is called local:ID). It gets
// the next id, is CONNECTING, and becomes READY by itself. Its chips and cores
// get the ids after all others. Errors: HOST_EXISTS (another host has the
// address), TOO_MANY_HOSTS, DRAINING, OUT_OF_MEMORY, those of the maker.
enum pod_code pod_join_host(struct pod *pod, const char *address,
                            const struct pod_driver_maker *maker,
                            uint32_t *out_id, struct pod_err *err)
    __attribute__((warn_unused_result));

// Removes a host for good. Does not wait for its driver, which is closed by a
// thread of the host's own. Refused with IN_USE while operations are open on it
// or buffers or loads live there, unless `force`: then it is as if the host had
// been lost.
enum pod_code pod_remove_host(struct pod *pod, uint32_t id, bool force,
                              struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
