// SPDX-License-Identifier: Apache-2.0
// The checks by kind of request, for check*.c alone. Each checks one item of a
// batch against the state, marks what it will do to handles, and fills in its
// record. An error is set in the batch with its place, and has marked nothing.
#ifndef POD_POD_CHECK_H
#define POD_POD_CHECK_H

#include "core/pod/submit.h"

// check_buffer.c
enum pod_code pod_check_allocate_locked(struct pod_batch *batch, size_t item)
    __attribute__((warn_unused_result));
enum pod_code pod_check_tuple_locked(struct pod_batch *batch, size_t item)
    __attribute__((warn_unused_result));
enum pod_code pod_check_write_locked(struct pod_batch *batch, size_t item)
    __attribute__((warn_unused_result));
enum pod_code pod_check_read_locked(struct pod_batch *batch, size_t item)
    __attribute__((warn_unused_result));
enum pod_code pod_check_copy_locked(struct pod_batch *batch, size_t item)
    __attribute__((warn_unused_result));
enum pod_code pod_check_free_buffer_locked(struct pod_batch *batch, size_t item,
                                           struct pod_buffer *buffer)
    __attribute__((warn_unused_result));

// check_program.c
enum pod_code pod_check_compile_locked(struct pod_batch *batch, size_t item)
    __attribute__((warn_unused_result));
enum pod_code pod_check_load_locked(struct pod_batch *batch, size_t item)
    __attribute__((warn_unused_result));
enum pod_code pod_check_unload_locked(struct pod_batch *batch, size_t item)
    __attribute__((warn_unused_result));
enum pod_code pod_check_free_program_locked(struct pod_batch *batch,
                                            size_t item,
                                            struct pod_program *program)
    __attribute__((warn_unused_result));
// Takes the marks of an unloading back.
void pod_check_undo_unload_locked(struct pod_loaded *load);

#endif
