// SPDX-License-Identifier: Apache-2.0
// A worker of one core, as far as it must answer for a driver to become ready:
// on top of fake_rpc.h.
#ifndef POD_TESTS_FUZZ_FAKE_HOST_H
#define POD_TESTS_FUZZ_FAKE_HOST_H

#include "tests/fuzz/lib/fake_rpc.h"

enum { FAKE_HOST_CLIENT = 1 }; // of the original protocol

// Answers a unary method as such a worker does. `plain`: it knows the original
// protocol only. Takes the call over.
void fake_host_called(bool plain, const char *method,
                      struct rpc_call *owned_call);

#endif
