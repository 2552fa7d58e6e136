// SPDX-License-Identifier: Apache-2.0
// What --pod says: which hosts a pod has and how they are reached.
//
//   local:2x2x1,hosts=2,cores=2,hbm=1GiB,device=reference
//
// An embedded pod: chips x*y*z, dealt to the hosts in id order; every host is
// an in-process driver with threads of its own. Options, all optional:
//   hosts=N          must divide the chips (default 1)
//   cores=N          cores of each chip (default 1)
//   hbm=SIZE         memory of each core (default 1GiB)
//   device=auto|reference
//   latency=DURATION bandwidth=SIZE[/s] flops=NUMBER
//                    the reference device takes as long as such a chip would
//   fault=SCRIPT     things that go wrong, for tests: core/driver/fault.h
#ifndef POD_SERVER_POD_SPEC_H
#define POD_SERVER_POD_SPEC_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/pod/pod.h"

enum {
    POD_SPEC_MAX_SIDE = 1024, // chips along one axis
    POD_SPEC_MAX_CHIPS = 4096,
    POD_SPEC_MAX_HOSTS = 1024,
    POD_SPEC_MAX_CORES_PER_CHIP = 64,
};

struct pod_spec {
    uint32_t x, y, z;
    uint32_t hosts;
    uint32_t cores_per_chip;
    uint64_t hbm_bytes;
    int64_t latency_ns;
    uint64_t bandwidth; // bytes per second; 0: not simulated
    double flops;       // operations per second; 0: not simulated
    char fault[256];    // empty: none
};

// An error names the faulty piece of the text.
enum pod_code pod_spec_parse(const char *text, struct pod_spec *out_spec,
                             struct pod_err *err)
    __attribute__((warn_unused_result));

// What the hosts of an embedded pod share; outlives the pod.
struct pod_spec_shared;

// Makes the hosts and adds them to the pod. *out_shared is freed, with
// pod_spec_shared_free, after the pod.
enum pod_code pod_spec_add_hosts(const struct pod_spec *spec, struct pod *pod,
                                 struct pod_spec_shared **out_shared,
                                 struct pod_err *err)
    __attribute__((warn_unused_result));
// Adds one more host like the others, beside them, to the running pod (an
// api_join_fn of `arg`, the struct pod_spec_shared). `address` is NULL or
// "local". Errors: BAD_TEXT, those of pod_join_host.
enum pod_code pod_spec_join(void *arg, const char *address, uint32_t *out_host,
                            struct pod_err *err)
    __attribute__((warn_unused_result));
void pod_spec_shared_free(struct pod_spec_shared *shared);

#endif
