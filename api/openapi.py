#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes C of the contract: openapi.py OPENAPI.YAML > OPENAPI.C

Anchors and merge keys are expanded, and the members that only hold them are
left out. The bytes are written as numbers: a string literal that long is more
than C compilers need to take.
"""
import json
import sys

import yaml

HEAD = """// Generated from the contract by api/openapi.py.
#include "api/contract.h"

const unsigned char api_contract[] = {
"""


def contract(path):
    with open(path, encoding="utf-8") as file:
        document = yaml.safe_load(file)
    for name in [n for n in document if n.startswith("x-")]:
        del document[name]
    return document


def main():
    text = json.dumps(contract(sys.argv[1]), separators=(",", ":"))
    data = text.encode() + b"\n"
    sys.stdout.write(HEAD)
    for start in range(0, len(data), 16):
        row = data[start:start + 16]
        sys.stdout.write("    " + " ".join(f"{b}," for b in row) + "\n")
    sys.stdout.write(f"}};\nconst size_t api_contract_size = {len(data)};\n")


if __name__ == "__main__":
    main()
