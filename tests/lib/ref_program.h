// SPDX-License-Identifier: Apache-2.0
// Small programs on the reference device, for tests that know their results.
#ifndef POD_TESTS_REF_PROGRAM_H
#define POD_TESTS_REF_PROGRAM_H

#include "core/device/device.h"
#include "core/device/reference/reference.h"

enum { REF_CORES = 4, REF_MAX_VALUES = 16 };

// An array: its type (a float NaN equals any NaN) and its data.
struct ref_array {
    enum pod_type type;
    const void *data;
    size_t bytes;
};

#define REF(type, array)                                                       \
    (struct ref_array)                                                         \
    {                                                                          \
        POD_TYPE_##type, (array), sizeof(array)                                \
    }

// The device of the tests: REF_CORES cores of 16 MiB. cmocka fixtures; the
// second one fails if memory is lost.
int ref_setup(void **state);
int ref_teardown(void **state);
struct pod_device *ref_device(void);
// Another one.
struct pod_device *ref_make_device(struct pod_reference_options options);
// Memory of a core that is in use.
uint64_t ref_used(struct pod_device *of, uint32_t core);

// From this size on memory is taken over rather than copied.
enum { REF_ADOPTED = 64 * 1024 };
// Bytes of that value for a device to take over.
struct pod_blob *ref_given_up(size_t size, int value);

// Compiles text; a failure fails the test.
struct pod_device_program *ref_compile(const char *text, uint32_t replicas);
// Compiles text that must be refused; returns the code.
enum pod_code ref_refused(const char *text, uint32_t replicas,
                          struct pod_err *err);

// Runs text with arrays as inputs and compares the arrays of its result, depth
// first, to the bit.
void ref_check(const char *text, const struct ref_array *inputs,
               size_t input_count, const struct ref_array *wanted,
               size_t wanted_count);
// The same for floats that may be off by a factor of 1 +- rtol.
void ref_check_close(const char *text, const struct ref_array *inputs,
                     size_t input_count, const struct ref_array *wanted,
                     size_t wanted_count, double rtol);

// A program of one instruction with array operands a, b, c as the inputs are;
// `instr` is such as "add(a, b)". The result has one array.
void ref_check_op(const char *instr, const struct ref_array *inputs,
                  size_t input_count, struct ref_array wanted);
void ref_check_op_close(const char *instr, const struct ref_array *inputs,
                        size_t input_count, struct ref_array wanted,
                        double rtol);

// Fails the test at the first element that is wrong.
void ref_compare(const struct ref_array *got, const struct ref_array *wanted,
                 double rtol, const char *text);

#endif
