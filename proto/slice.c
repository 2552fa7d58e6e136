// SPDX-License-Identifier: Apache-2.0
#include "proto/slice.h"

#include <inttypes.h>

static enum pod_code slice_check_blocks(const struct worker_slice *slice,
                                        struct pod_err *err)
{
    if (slice->block_x == 0 && slice->block_y == 0 && slice->block_z == 0)
        return POD_OK;
    if (slice->block_x == 0 || slice->block_y == 0 || slice->block_z == 0 ||
        slice->x % slice->block_x != 0 || slice->y % slice->block_y != 0 ||
        slice->z % slice->block_z != 0)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "blocks of %" PRIu32 "x%" PRIu32 "x%" PRIu32
                           " do not tile the mesh",
                           slice->block_x, slice->block_y, slice->block_z);
    if (slice->x / slice->block_x * (slice->y / slice->block_y) *
            (slice->z / slice->block_z) !=
        slice->hosts)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "there are not as many blocks as hosts");
    return POD_OK;
}

enum pod_code worker_slice_check(const struct worker_slice *slice,
                                 struct pod_err *err)
{
    uint64_t chips = (uint64_t)slice->x * slice->y;
    if (slice->x == 0 || slice->y == 0 || slice->z == 0 ||
        chips > WORKER_SLICE_MAX_CHIPS || slice->z > WORKER_SLICE_MAX_CHIPS ||
        chips * slice->z > WORKER_SLICE_MAX_CHIPS)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "a slice has 1 to %d chips", WORKER_SLICE_MAX_CHIPS);
    if (slice->cores_per_chip == 0 ||
        slice->cores_per_chip > WORKER_SLICE_MAX_CORES_PER_CHIP)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "a chip has 1 to %d cores",
                           WORKER_SLICE_MAX_CORES_PER_CHIP);
    if (slice->hosts == 0 || chips * slice->z % slice->hosts != 0)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "%" PRIu32 " hosts do not divide %" PRIu64 " chips",
                           slice->hosts, chips * slice->z);
    if (slice->host_id >= slice->hosts)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "there is no host %" PRIu32
                           " in a slice of %" PRIu32,
                           slice->host_id, slice->hosts);
    return slice_check_blocks(slice, err);
}

uint32_t worker_slice_chips(const struct worker_slice *slice)
{
    return slice->x * slice->y * slice->z;
}

uint32_t worker_slice_cores(const struct worker_slice *slice)
{
    return worker_slice_chips(slice) * slice->cores_per_chip;
}

uint32_t worker_slice_share(const struct worker_slice *slice)
{
    return worker_slice_chips(slice) / slice->hosts;
}

uint32_t worker_slice_host(const struct worker_slice *slice, uint32_t chip)
{
    if (slice->block_x == 0)
        return chip / worker_slice_share(slice);
    uint32_t x = chip % slice->x / slice->block_x;
    uint32_t y = chip / slice->x % slice->y / slice->block_y;
    uint32_t z = chip / slice->x / slice->y / slice->block_z;
    uint32_t across = slice->x / slice->block_x;
    return x + across * (y + slice->y / slice->block_y * z);
}

uint32_t worker_slice_own_chip(const struct worker_slice *slice, uint32_t index)
{
    uint32_t chip = 0;
    for (uint32_t left = index;; chip++) {
        if (worker_slice_host(slice, chip) != slice->host_id)
            continue;
        if (left-- == 0)
            return chip;
    }
}

bool worker_slice_own_core(const struct worker_slice *slice, uint32_t core,
                           uint32_t *out_local)
{
    uint32_t chip = core / slice->cores_per_chip;
    uint32_t before = 0;
    if (core >= worker_slice_cores(slice) ||
        worker_slice_host(slice, chip) != slice->host_id)
        return false;
    for (uint32_t i = 0; i < chip; i++)
        before += worker_slice_host(slice, i) == slice->host_id ? 1 : 0;
    *out_local = before * slice->cores_per_chip + core % slice->cores_per_chip;
    return true;
}
