# SPDX-License-Identifier: Apache-2.0
"""What the fuzzer sends where a schema cannot say what is sound, and how it
reads bytes. Half of each kind is anything."""
import io
import re
import struct

import schemathesis
from hypothesis import strategies as st

ADD = b"""HloModule add
ENTRY main {
  a = f32[2] parameter(0)
  b = f32[2] parameter(1)
  ROOT c = f32[2] add(a, b)
}
"""
NOTHING = b"HloModule one\nENTRY main { ROOT c = f32[] constant(1) }\n"


def npy(descr, shape, data):
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}"
    head += " " * (-(10 + len(head) + 1) % 64) + "\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head))
            + head.encode() + data)


def kind(name, *sound):
    schemathesis.openapi.media_type(
        name, st.one_of(st.sampled_from(sound), st.binary(min_size=1, max_size=64)))


kind("text/x-hlo", ADD, NOTHING)
kind("text/x-mlir", b"module {}")
kind("application/x-mlir", b"ML\xefR")
kind("application/x-hlo-proto", b"\x0a\x02\x0a\x00")
kind("application/octet-stream", *(bytes(n) for n in (0, 1, 4, 8, 16)))
kind("application/x-npy", npy("<f4", "(2,)", bytes(8)), npy("|b1", "()", b"\1"),
     npy("<i8", "(0, 3)", b""), npy("|O", "(1,)", bytes(8)))
kind("application/x-ndjson", b"", b"\n",
     b'{"ref":"a","op":"allocate","core":0,"bytes":"8"}\n'
     b'{"op":"free","buffer":"$a"}\n',
     b'{"op":"allocate","core":0,"shape":"f32[2]","values":[1,2]}')


@schemathesis.deserializer("application/octet-stream")
def read_octets(ctx, response):
    return len(response.content)


@schemathesis.deserializer("application/x-npy")
def read_npy(ctx, response):
    if not io.BytesIO(response.content).read(6) == b"\x93NUMPY":
        raise ValueError("no NumPy file")
    return len(response.content)


# Numbers of things that do not exist tell little: most are brought to where
# some do. What a link gave is small already.
ID = re.compile(r"(op|buf|prog|load|graph)-([1-9][0-9]{3,})\Z")
SHAPES = ["f32[2]", "u8[8]", "s32[]", "pred[0,3]", "bf16[2,2]{0,1}"]


def nearer(value, name=None):
    if isinstance(value, dict):
        if "shape" in value and "values" in value:
            # No schema says how the two go together.
            value = {**value, "fill": 0}
            del value["values"]
        return {key: nearer(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [nearer(item, name) for item in value]
    if isinstance(value, str):
        found = ID.match(value)
        if found:
            return f"{found[1]}-{int(found[2]) % 64 + 1}"
        if name == "bytes" and value.isdecimal() and len(value) > 4:
            return str(int(value) % 4096)
        if name == "shape":
            return SHAPES[len(value) % len(SHAPES)]
    if name in ("core", "load") and type(value) is int and value > 8:
        return value % 6
    return value


def map_values(context, values):
    return nearer(values)


# Each parameter may refuse the whole request, and many are for some bodies
# alone: three of four queries have few.
RISKY = {"after", "label", "name", "deadline", "priority", "element_type",
         "on_dependency_failure", "on_error", "fields", "page_token"}


def map_query(context, query):
    query = nearer(query)
    if isinstance(query, dict) and len(str(query.get("wait", ""))) % 4:
        query = {**query, "wait": "50ms"}
    if isinstance(query, dict) and sum(map(len, map(str, query.values()))) % 4:
        return {key: value for key, value in query.items() if key not in RISKY}
    return query


for place in ("body", "path_parameters"):
    schemathesis.hook(f"map_{place}")(map_values)
schemathesis.hook(map_query)
