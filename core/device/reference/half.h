// SPDX-License-Identifier: Apache-2.0
// The 16-bit floats as bits: widening is exact, narrowing rounds to nearest,
// ties to even, whatever the source. NaN stays NaN and keeps its sign.
#ifndef POD_DEVICE_REFERENCE_HALF_H
#define POD_DEVICE_REFERENCE_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t pod_ref_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float pod_ref_from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline float pod_ref_from_bf16(uint16_t half)
{
    return pod_ref_from_bits((uint32_t)half << 16);
}

static inline uint16_t pod_ref_to_bf16(float value)
{
    uint32_t bits = pod_ref_bits(value);

    if (value != value)
        return (uint16_t)((bits >> 16) | 0x40U);
    return (uint16_t)((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

static inline float pod_ref_from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000U) << 16;
    uint32_t exponent = (half >> 10) & 31U;
    uint32_t mantissa = half & 0x3ffU;

    if (exponent == 31)
        return pod_ref_from_bits(sign | 0x7f800000U | (mantissa << 13));
    if (exponent == 0) // zero or subnormal: mantissa * 2^-24, exact
        return pod_ref_from_bits(sign |
                                 pod_ref_bits((float)mantissa * 0x1p-24F));
    return pod_ref_from_bits(sign | ((exponent + 112) << 23) |
                             (mantissa << 13));
}

static inline uint16_t pod_ref_to_f16(float value)
{
    uint32_t bits = pod_ref_bits(value);
    uint32_t sign = (bits >> 16) & 0x8000U;
    uint32_t size = bits & 0x7fffffffU;

    if (size > 0x7f800000U)
        return (uint16_t)(sign | 0x7e00U);
    if (size >= 0x477ff000U) // 65520, half way from the greatest to 2^16
        return (uint16_t)(sign | 0x7c00U);
    // Below 2^-14: the units in the last place of 0.5 are those of subnormal
    // halves, so the addition rounds.
    if (size < 0x38800000U)
        return (uint16_t)(sign | (pod_ref_bits(pod_ref_from_bits(size) + 0.5F) -
                                  pod_ref_bits(0.5F)));
    size += 0xfffU + ((size >> 13) & 1U);
    return (uint16_t)(sign | ((size >> 13) - (112U << 10)));
}

// The double as a float whose last bit is set if it is not exact ("round to
// odd"); rounding that to a half gives what rounding once would.
static inline float pod_ref_to_odd(double value)
{
    float near = (float)value;
    uint32_t bits = pod_ref_bits(near);

    if (value != value || isinf(near) || (double)near == value)
        return near;
    if (fabs((double)near) > fabs(value))
        bits--;
    return pod_ref_from_bits(bits | 1U);
}

#endif
