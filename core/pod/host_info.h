// SPDX-License-Identifier: Apache-2.0
// What a host said about itself: checked and kept. For core/pod alone.
//
// A worker is another program and may say anything: what cannot be is refused
// with a text that names it, and nothing later needs to doubt it.
#ifndef POD_POD_HOST_INFO_H
#define POD_POD_HOST_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/driver/driver.h"
#include "core/pod/pod.h"

enum {
    POD_HOST_MAX_CORES = 4096,
    POD_HOST_MAX_CHIPS = 65536, // a host may list the chips of its whole slice
    POD_HOST_TEXT_BYTES = 256,  // of platform and version
};

// Never changed.
struct pod_host_info {
    const char *platform;
    const char *version;
    unsigned accepts;
    unsigned features;
    // The host's place in a slice of several; 0 of 1 when it stands alone.
    int32_t slice_host;
    int32_t slice_hosts;
    uint64_t worker; // the process, 0: not known
    // Its own chips, and its cores, by chip and then by worker_core:
    // cores[i].chip is an index of these chips.
    const struct pod_driver_core *cores;
    size_t core_count;
    const struct pod_driver_chip *chips;
    size_t chip_count;
};

// Checks what a driver reports and copies it, leaving out chips that the host
// itself says are another host's. Text is clipped, and bytes that are not
// printable UTF-8 become '?'. NULL with err set: WORKER_ERROR (it cannot be) or
// OUT_OF_MEMORY.
struct pod_host_info *pod_host_info_new(const struct pod_driver_info *from,
                                        struct pod_err *err);
void pod_host_info_free(struct pod_host_info *info); // NULL is allowed

// Whether a host that came back is the machine it was: the same cores on the
// same chips (their memory may have changed). Else WORKER_ERROR that says what
// differs.
enum pod_code pod_host_info_same(const struct pod_host_info *before,
                                 const struct pod_host_info *now,
                                 struct pod_err *err)
    __attribute__((warn_unused_result));

// Which slice a host belongs to. Chips of hosts with equal keys share one
// system of coordinates.
struct pod_slice_key {
    int32_t hosts;
    int64_t base;
};

// Hosts of one slice stand next to each other in the pod's list, in the order
// of their places; if the slice is the whole pod any order will do. `index` is
// the host's number in the pod.
struct pod_slice_key pod_slice_key(const struct pod_host_info *info,
                                   uint32_t index, size_t pod_hosts);

static inline bool pod_slice_equal(struct pod_slice_key a,
                                   struct pod_slice_key b)
{
    return a.hosts == b.hosts && a.base == b.base;
}

// A chip with its place; `id` is the pod's.
struct pod_site {
    struct pod_slice_key slice;
    int32_t x, y, z;
    uint32_t id;
};

// Finds the chips that are next to each other: of one slice, their coordinates
// differing by one in one axis. Sorts `sites`. `out_links` has room for
// 3 * count; returns how many there are, by rising from, then to. Of chips that
// claim one place only one is linked.
size_t pod_sites_link(struct pod_site *sites, size_t count,
                      struct pod_link_view *out_links);

#endif
