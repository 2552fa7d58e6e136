// SPDX-License-Identifier: Apache-2.0
// The lesser and the greater of two floats, as "minimum" and "maximum" of
// IEEE 754-2019: NaN if either is NaN, and -0 is below +0.
#ifndef POD_DEVICE_REFERENCE_MINMAX_H
#define POD_DEVICE_REFERENCE_MINMAX_H

#include "core/device/reference/half.h"

// Of equals, which differ in their signs at most, and of NaN and anything, the
// bits of both together are the answer.
static inline float pod_ref_minf(float x, float y)
{
    if (x < y)
        return x;
    if (y < x)
        return y;
    return pod_ref_from_bits(pod_ref_bits(x) | pod_ref_bits(y));
}

static inline double pod_ref_min(double x, double y)
{
    uint64_t bits[2];

    if (x < y)
        return x;
    if (y < x)
        return y;
    memcpy(&bits[0], &x, sizeof(x));
    memcpy(&bits[1], &y, sizeof(y));
    bits[0] |= bits[1];
    memcpy(&x, &bits[0], sizeof(x));
    return x;
}

static inline float pod_ref_maxf(float x, float y)
{
    return -pod_ref_minf(-x, -y);
}

static inline double pod_ref_max(double x, double y)
{
    return -pod_ref_min(-x, -y);
}

#endif
