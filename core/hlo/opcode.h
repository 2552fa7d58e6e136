// SPDX-License-Identifier: Apache-2.0
// The opcodes of XLA's HLO, by number, name and operand count.
#ifndef POD_HLO_OPCODE_H
#define POD_HLO_OPCODE_H

#include <stddef.h>

// All opcodes XLA knew in August 2026, in alphabetical order of their text
// (the lookup relies on it). Columns: name, text, operands (-1: any number),
// computations it calls (-1: any number; text form names them by attributes).
#define POD_OPCODES(X)                                                         \
    X(ABS, "abs", 1, 0)                                                        \
    X(ACOS, "acos", 1, 0)                                                      \
    X(ACOSH, "acosh", 1, 0)                                                    \
    X(ADD, "add", 2, 0)                                                        \
    X(ADD_DEPENDENCY, "add-dependency", 2, 0)                                  \
    X(AFTER_ALL, "after-all", -1, 0)                                           \
    X(ALL_GATHER, "all-gather", -1, 0)                                         \
    X(ALL_GATHER_DONE, "all-gather-done", 1, 0)                                \
    X(ALL_GATHER_START, "all-gather-start", -1, 0)                             \
    X(ALL_REDUCE, "all-reduce", -1, 1)                                         \
    X(ALL_REDUCE_DONE, "all-reduce-done", 1, 0)                                \
    X(ALL_REDUCE_START, "all-reduce-start", -1, 1)                             \
    X(ALL_TO_ALL, "all-to-all", -1, 0)                                         \
    X(AND, "and", 2, 0)                                                        \
    X(ASIN, "asin", 1, 0)                                                      \
    X(ASINH, "asinh", 1, 0)                                                    \
    X(ASYNC_DONE, "async-done", -1, -1)                                        \
    X(ASYNC_START, "async-start", -1, -1)                                      \
    X(ASYNC_UPDATE, "async-update", -1, -1)                                    \
    X(ATAN2, "atan2", 2, 0)                                                    \
    X(ATANH, "atanh", 1, 0)                                                    \
    X(BATCH_NORM_GRAD, "batch-norm-grad", 5, 0)                                \
    X(BATCH_NORM_INFERENCE, "batch-norm-inference", 5, 0)                      \
    X(BATCH_NORM_TRAINING, "batch-norm-training", 3, 0)                        \
    X(BITCAST, "bitcast", 1, 0)                                                \
    X(BITCAST_CONVERT, "bitcast-convert", 1, 0)                                \
    X(BROADCAST, "broadcast", 1, 0)                                            \
    X(CALL, "call", -1, 1)                                                     \
    X(CBRT, "cbrt", 1, 0)                                                      \
    X(CEIL, "ceil", 1, 0)                                                      \
    X(CHOLESKY, "cholesky", 1, 0)                                              \
    X(CLAMP, "clamp", 3, 0)                                                    \
    X(COLLECTIVE_BROADCAST, "collective-broadcast", -1, 0)                     \
    X(COLLECTIVE_PERMUTE, "collective-permute", -1, 0)                         \
    X(COLLECTIVE_PERMUTE_DONE, "collective-permute-done", 1, 0)                \
    X(COLLECTIVE_PERMUTE_START, "collective-permute-start", -1, 0)             \
    X(COMPARE, "compare", 2, 0)                                                \
    X(COMPLEX, "complex", 2, 0)                                                \
    X(CONCATENATE, "concatenate", -1, 0)                                       \
    X(CONDITIONAL, "conditional", -1, -1)                                      \
    X(CONSTANT, "constant", 0, 0)                                              \
    X(CONVERT, "convert", 1, 0)                                                \
    X(CONVOLUTION, "convolution", -1, 0)                                       \
    X(COPY, "copy", 1, 0)                                                      \
    X(COPY_DONE, "copy-done", 1, 0)                                            \
    X(COPY_START, "copy-start", 1, 0)                                          \
    X(COSH, "cosh", 1, 0)                                                      \
    X(COSINE, "cosine", 1, 0)                                                  \
    X(COUNT_LEADING_ZEROS, "count-leading-zeros", 1, 0)                        \
    X(CUSTOM_CALL, "custom-call", -1, -1)                                      \
    X(DIVIDE, "divide", 2, 0)                                                  \
    X(DOMAIN, "domain", 1, 0)                                                  \
    X(DOT, "dot", 2, 0)                                                        \
    X(DYNAMIC_RESHAPE, "dynamic-reshape", -1, 0)                               \
    X(DYNAMIC_SLICE, "dynamic-slice", -1, 0)                                   \
    X(DYNAMIC_UPDATE_SLICE, "dynamic-update-slice", -1, 0)                     \
    X(ERF, "erf", 1, 0)                                                        \
    X(EXPONENTIAL, "exponential", 1, 0)                                        \
    X(EXPONENTIAL_MINUS_ONE, "exponential-minus-one", 1, 0)                    \
    X(FFT, "fft", 1, 0)                                                        \
    X(FLOOR, "floor", 1, 0)                                                    \
    X(FUSION, "fusion", -1, 1)                                                 \
    X(GATHER, "gather", 2, 0)                                                  \
    X(GET_DIMENSION_SIZE, "get-dimension-size", 1, 0)                          \
    X(GET_TUPLE_ELEMENT, "get-tuple-element", 1, 0)                            \
    X(IMAG, "imag", 1, 0)                                                      \
    X(INFEED, "infeed", 1, 0)                                                  \
    X(IOTA, "iota", 0, 0)                                                      \
    X(IS_FINITE, "is-finite", 1, 0)                                            \
    X(LOG, "log", 1, 0)                                                        \
    X(LOG_PLUS_ONE, "log-plus-one", 1, 0)                                      \
    X(LOGISTIC, "logistic", 1, 0)                                              \
    X(MAP, "map", -1, 1)                                                       \
    X(MAXIMUM, "maximum", 2, 0)                                                \
    X(MINIMUM, "minimum", 2, 0)                                                \
    X(MULHI, "mulhi", 2, 0)                                                    \
    X(MULTIPLY, "multiply", 2, 0)                                              \
    X(NEGATE, "negate", 1, 0)                                                  \
    X(NOT, "not", 1, 0)                                                        \
    X(OPT_BARRIER, "opt-barrier", 1, 0)                                        \
    X(OR, "or", 2, 0)                                                          \
    X(OUTFEED, "outfeed", 2, 0)                                                \
    X(PAD, "pad", 2, 0)                                                        \
    X(PARAMETER, "parameter", 0, 0)                                            \
    X(PARTITION_ID, "partition-id", 0, 0)                                      \
    X(POPCNT, "popcnt", 1, 0)                                                  \
    X(POWER, "power", 2, 0)                                                    \
    X(RAGGED_ALL_TO_ALL, "ragged-all-to-all", 6, 0)                            \
    X(RAGGED_DOT, "ragged-dot", 3, 0)                                          \
    X(REAL, "real", 1, 0)                                                      \
    X(RECV, "recv", 1, 0)                                                      \
    X(RECV_DONE, "recv-done", 1, 0)                                            \
    X(REDUCE, "reduce", -1, 1)                                                 \
    X(REDUCE_PRECISION, "reduce-precision", 1, 0)                              \
    X(REDUCE_SCATTER, "reduce-scatter", -1, 1)                                 \
    X(REDUCE_WINDOW, "reduce-window", -1, 1)                                   \
    X(REMAINDER, "remainder", 2, 0)                                            \
    X(REPLICA_ID, "replica-id", 0, 0)                                          \
    X(RESHAPE, "reshape", 1, 0)                                                \
    X(REVERSE, "reverse", 1, 0)                                                \
    X(RNG, "rng", -1, 0)                                                       \
    X(RNG_BIT_GENERATOR, "rng-bit-generator", 1, 0)                            \
    X(RNG_GET_AND_UPDATE_STATE, "rng-get-and-update-state", 0, 0)              \
    X(ROUND_NEAREST_AFZ, "round-nearest-afz", 1, 0)                            \
    X(ROUND_NEAREST_EVEN, "round-nearest-even", 1, 0)                          \
    X(RSQRT, "rsqrt", 1, 0)                                                    \
    X(SCALED_DOT, "scaled-dot", 4, 0)                                          \
    X(SCAN, "scan", -1, 1)                                                     \
    X(SCATTER, "scatter", -1, 1)                                               \
    X(SELECT, "select", 3, 0)                                                  \
    X(SELECT_AND_SCATTER, "select-and-scatter", 3, 2)                          \
    X(SEND, "send", 2, 0)                                                      \
    X(SEND_DONE, "send-done", 1, 0)                                            \
    X(SET_DIMENSION_SIZE, "set-dimension-size", 2, 0)                          \
    X(SHIFT_LEFT, "shift-left", 2, 0)                                          \
    X(SHIFT_RIGHT_ARITHMETIC, "shift-right-arithmetic", 2, 0)                  \
    X(SHIFT_RIGHT_LOGICAL, "shift-right-logical", 2, 0)                        \
    X(SIGN, "sign", 1, 0)                                                      \
    X(SINE, "sine", 1, 0)                                                      \
    X(SINH, "sinh", 1, 0)                                                      \
    X(SLICE, "slice", 1, 0)                                                    \
    X(SORT, "sort", -1, 1)                                                     \
    X(SQRT, "sqrt", 1, 0)                                                      \
    X(STOCHASTIC_CONVERT, "stochastic-convert", 2, 0)                          \
    X(SUBTRACT, "subtract", 2, 0)                                              \
    X(TAN, "tan", 1, 0)                                                        \
    X(TANH, "tanh", 1, 0)                                                      \
    X(TOPK, "topk", 1, 0)                                                      \
    X(TRANSPOSE, "transpose", 1, 0)                                            \
    X(TRIANGULAR_SOLVE, "triangular-solve", 2, 0)                              \
    X(TUPLE, "tuple", -1, 0)                                                   \
    X(WHILE, "while", 1, 2)                                                    \
    X(XOR, "xor", 2, 0)

enum pod_opcode {
#define X(name, text, operands, calls) POD_OP_##name,
    POD_OPCODES(X)
#undef X
        POD_OP_COUNT
};

// "get-tuple-element".
const char *pod_opcode_name(enum pod_opcode opcode);
// POD_OP_COUNT if there is no such opcode.
enum pod_opcode pod_opcode_find(const char *text, size_t length);
// How many operands, or -1 if it varies.
int pod_opcode_operands(enum pod_opcode opcode);
// How many computations it calls, or -1 if it varies.
int pod_opcode_calls(enum pod_opcode opcode);

#endif
