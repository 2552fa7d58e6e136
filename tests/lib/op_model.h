// SPDX-License-Identifier: Apache-2.0
// Random programs of operations, and what must come of them: a model that runs
// them one after the other, in the order of their submission.
//
// The programs are words of the fake device (tests/unit/fake_device.h).
#ifndef POD_TESTS_OP_MODEL_H
#define POD_TESTS_OP_MODEL_H

#include "core/pod/pod.h"

enum {
    MODEL_OPS = 200,
    MODEL_BUFFERS = 40,
    MODEL_LOADS = 24,
    MODEL_BATCH = 6,
};

enum model_word {
    MODEL_WORD_INCREMENT,
    MODEL_WORD_FAIL,
    MODEL_WORD_SUM,
    MODEL_WORD_BROKEN,
    MODEL_WORD_COUNT
};

struct model_op {
    uint64_t number;
    enum pod_kind kind;
    bool bad;              // ends in anything but SUCCEEDED
    bool skipped;          // because of others
    bool runs_anyway;      // in spite of failure
    bool roots[MODEL_OPS]; // that may be named as the cause: the first one wins
    unsigned char data[4]; // READ
    size_t data_size;
};

struct model_buffer {
    size_t maker; // index of an operation
    size_t writer;
    uint32_t core;
    bool automatic; // the output of an execution
    bool freed;
    unsigned char bytes[4];
};

struct model_load {
    size_t maker;
    enum model_word word;
    uint32_t core;
    bool freed;
};

struct model {
    struct pod *pod;
    uint64_t seed;
    uint32_t cores;
    bool no_programs; // buffers and bytes alone
    struct model_op ops[MODEL_OPS];
    size_t op_count;
    struct model_buffer buffers[MODEL_BUFFERS];
    size_t buffer_count;
    size_t programs[MODEL_WORD_COUNT]; // their COMPILEs
    struct model_load loads[MODEL_LOADS];
    size_t load_count;
    bool compiled; // all was compiled before the rest began
    bool graphs;   // batches are submitted as graphs

    // The batch that is being put together.
    struct pod_request requests[MODEL_BATCH];
    size_t makes[MODEL_BATCH]; // the operation of each
    size_t batch_count;
    struct pod_ref refs[MODEL_BATCH][8];
    struct pod_launch launches[MODEL_BATCH][2];
    struct pod_blob *blobs[MODEL_BATCH];
};

// A random number below `below`, which follows from the seed.
uint64_t model_pick(struct model *model, uint64_t below);

// Submits a whole program to model->pod, whose cores are model->cores: first
// compiles and loads, then `steps` random operations, and reads of all buffers
// that are left at the end. Works the model along. Everything that is
// submitted must be accepted (asserted).
void model_run(struct model *model, int steps);

#endif
