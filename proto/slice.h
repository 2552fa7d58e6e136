// SPDX-License-Identifier: Apache-2.0
// The slice a worker belongs to: chips in a mesh, dealt to hosts.
//
// Chips are numbered row by row: id = x + X * (y + Y * z); a core's id in the
// slice is its chip's id times the cores of a chip, plus its place on the chip.
// The chips of a host are a run of ids, or, when hosts own blocks of the mesh,
// those of one block (blocks are numbered like chips), so that a host's core
// ids need not be contiguous, as in TPU slices.
#ifndef POD_PROTO_SLICE_H
#define POD_PROTO_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

enum {
    WORKER_SLICE_MAX_CHIPS = 4096,
    WORKER_SLICE_MAX_CORES_PER_CHIP = 64,
};

struct worker_slice {
    uint32_t x, y, z;                   // chips along each axis
    uint32_t block_x, block_y, block_z; // of one host; 0: dealt in id order
    uint32_t cores_per_chip;
    uint32_t host_id;
    uint32_t hosts;
    uint64_t hbm_bytes; // of each core
};

// BAD_VALUE: beyond a limit, hosts that do not divide the chips, blocks that do
// not tile the mesh or are not as many as the hosts, a host id that is not
// below the number of hosts.
enum pod_code worker_slice_check(const struct worker_slice *slice,
                                 struct pod_err *err)
    __attribute__((warn_unused_result));

uint32_t worker_slice_chips(const struct worker_slice *slice);
uint32_t worker_slice_cores(const struct worker_slice *slice);
// Chips of each host.
uint32_t worker_slice_share(const struct worker_slice *slice);
uint32_t worker_slice_host(const struct worker_slice *slice, uint32_t chip);
// The index-th chip of this worker's host, by rising id.
uint32_t worker_slice_own_chip(const struct worker_slice *slice,
                               uint32_t index);
// A core of the slice as this host numbers it (0..n-1, by rising id); false: it
// belongs to another host, or does not exist.
bool worker_slice_own_core(const struct worker_slice *slice, uint32_t core,
                           uint32_t *out_local);

#endif
