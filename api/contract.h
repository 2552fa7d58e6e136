// SPDX-License-Identifier: Apache-2.0
// The contract, openapi.yaml, as JSON in the program; made when it is built
// (openapi.py).
#ifndef POD_API_CONTRACT_H
#define POD_API_CONTRACT_H

#include <stddef.h>

extern const unsigned char api_contract[];
extern const size_t api_contract_size;

#endif
