// SPDX-License-Identifier: Apache-2.0
// Names to positions: what an instruction's or a computation's name stands for.
// Names are bytes, so that ids can be names too.
// For the readers in this folder. Not thread-safe.
#ifndef POD_HLO_NAMES_H
#define POD_HLO_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pod_hlo_name;

// Zero-initialise it. The texts are borrowed.
struct pod_hlo_names {
    struct pod_hlo_name *slots;
    size_t capacity;
    size_t count;
};

enum pod_hlo_names_result {
    POD_HLO_NAMES_ADDED,
    POD_HLO_NAMES_TAKEN, // it is there already and stays as it was
    POD_HLO_NAMES_NO_MEMORY,
};

enum pod_hlo_names_result pod_hlo_names_add(struct pod_hlo_names *names,
                                            const char *text, size_t length,
                                            uint32_t position);
bool pod_hlo_names_find(const struct pod_hlo_names *names, const char *text,
                        size_t length, uint32_t *out_position);
// Frees it and makes it empty.
void pod_hlo_names_fini(struct pod_hlo_names *names);

#endif
