// SPDX-License-Identifier: Apache-2.0
// What benchmarks make of the numbers of their rounds.
#ifndef POD_TESTS_BENCH_LIB_NUMBERS_H
#define POD_TESTS_BENCH_LIB_NUMBERS_H

#include <stddef.h>

// Sorts them, least first.
void bench_sort(double *values, size_t count);
// Sorts them, and returns the one in the middle; `count` is at least 1.
double bench_median_of(double *values, size_t count);

enum { BENCH_NUMBERS_MAX = 16 };

// One number of each round.
struct bench_numbers {
    double values[BENCH_NUMBERS_MAX];
    size_t count;
};

// At most BENCH_NUMBERS_MAX times.
void bench_add(struct bench_numbers *numbers, double value);
// Sorts the values: values[0] is the least afterwards.
double bench_median(struct bench_numbers *numbers);

#endif
