// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/lib/numbers.h"

#include <assert.h>
#include <stdlib.h>

static int numbers_compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

void bench_sort(double *values, size_t count)
{
    qsort(values, count, sizeof(values[0]), numbers_compare);
}

double bench_median_of(double *values, size_t count)
{
    bench_sort(values, count);
    return values[count / 2];
}

void bench_add(struct bench_numbers *numbers, double value)
{
    assert(numbers->count < BENCH_NUMBERS_MAX);
    numbers->values[numbers->count++] = value;
}

double bench_median(struct bench_numbers *numbers)
{
    return bench_median_of(numbers->values, numbers->count);
}
