// SPDX-License-Identifier: Apache-2.0
// The reference device: a small evaluator of HLO on the host's processor, so
// that a fresh machine computes right answers with nothing but BLAS installed.
//
// Programs: HLO text and HLO messages.
// Types: pred s32 s64 u8 u32 f16 bf16 f32 f64.
// Instructions: parameter constant iota tuple get-tuple-element broadcast
// reshape transpose slice concatenate pad convert select clamp compare add
// subtract multiply divide exponential log logistic tanh sqrt rsqrt power floor
// ceil round-nearest-afz round-nearest-even sign abs negate and or xor not
// shift-left shift-right-arithmetic shift-right-logical remainder minimum
// maximum popcnt count-leading-zeros dot reduce while conditional call fusion
// dynamic-slice dynamic-update-slice all-reduce all-gather collective-permute
// replica-id partition-id copy.
// Anything else is UNIMPLEMENTED and named.
//
// Values are XLA's: integers wrap, x / 0 is -1, x % 0 is x, shifts by the width
// or more shift everything out, floats become integers saturating and NaN 0,
// minimum and maximum give NaN if either operand is and take -0 for less than
// +0. Halves are computed in float and rounded after each instruction; sums of
// floats (reduce, all-reduce) are accumulated in double, those of f64 together
// with what rounding takes from them; dot accumulates in float, or in double
// for f64, for two vectors, and now and then where few sums are long. A
// reduction by a computation of more than one operation is not accumulated like
// that, but combines its elements in pairs, those in pairs and so on. Denormals
// are kept.
#ifndef POD_DEVICE_REFERENCE_REFERENCE_H
#define POD_DEVICE_REFERENCE_REFERENCE_H

#include "core/device/device.h"

enum { POD_REF_MAX_CORES = 65536 };

struct pod_reference_options {
    uint32_t core_count;   // 1 to POD_REF_MAX_CORES
    uint64_t memory_bytes; // of each core
    // Memory that one execution may take for values between its inputs and
    // outputs; a program that needs more is RESOURCE_EXHAUSTED when it is
    // compiled. It does not count as memory of a core. 0: as much as
    // memory_bytes, but at least 4 GiB.
    uint64_t scratch_bytes;
    // Simulated time, for experiments with big pods; 0: none. A call lasts at
    // least latency_ns, plus, for a transfer, bytes / bandwidth, and for an
    // execution, operations / flops. A simulated execution can be interrupted.
    int64_t latency_ns;
    double bandwidth; // bytes in a second
    double flops;     // operations in a second
};

// The device; free it with device->ops->free when nothing uses it and all its
// buffers and programs are freed. BAD_VALUE, OUT_OF_MEMORY. Sets the number of
// OpenBLAS's threads to one for the whole process: each core has a thread of
// its own already.
enum pod_code
pod_reference_device_new(const struct pod_reference_options *options,
                         struct pod_device **out_device, struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
