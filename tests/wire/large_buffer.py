# SPDX-License-Identifier: Apache-2.0
"""Buffers beyond 4 GiB on a worker: parts at both ends and over the edge of
32 bits, in little memory, for only what is written takes some.

usage: large_buffer.py    Environment: POD_BUILD, POD_SLOW (sanitizers take
memory for all of a buffer: skipped).
"""
import http.client
import os
import sys

from pod_processes import Client, Program, expect

SIZE = (4 << 30) + 4096
OCTETS = "application/octet-stream"
PARTS = {0: b"first", (4 << 30) - 3: b"over the edge", SIZE - 4: b"last"}
LITTLE = 512 << 10  # KiB that podd or a worker may have taken at most
SKIPPED = 77


def ask(podd, method, buffer, body=None, **headers):
    """The status and body of an answer."""
    connection = http.client.HTTPConnection(podd.address, timeout=60)
    connection.request(
        method, f"/v1/buffers/{buffer}/data?wait=50s", body,
        {name.replace("_", "-"): value for name, value in headers.items()})
    reply = connection.getresponse()
    return reply.status, reply.read()


def write(podd, buffer, offset, data):
    end = offset + len(data) - 1
    status, body = ask(podd, "PUT", buffer, data, Content_Type=OCTETS,
                       Content_Range=f"bytes {offset}-{end}/{SIZE}")
    expect(status == 200, f"write at {offset}: {status} {body}")


def read(podd, buffer, offset, count):
    status, body = ask(podd, "GET", buffer, Accept=OCTETS,
                       Range=f"bytes={offset}-{offset + count - 1}")
    expect(status == 206, f"read at {offset}: {status} {body}")
    return body


def main():
    if os.environ.get("POD_SLOW"):
        sys.exit(SKIPPED)
    worker = Program("podworker", "--listen", "127.0.0.1:0", "--hbm", "16GiB",
                     "--log-level", "error")
    podd = Program("podd", "--dev", "--listen", "127.0.0.1:0", "--log-level",
                   "error", "--pod", "grpc+pod://" + worker.address)
    client = Client(podd.address)
    client.await_host(0)
    # Another one, so that places are not those from the start of memory.
    shape = {"core": 0, "shape": f"u8[{SIZE}]"}
    other, buffer = (client.ask("POST", "/v1/buffers", shape)["buffer"]
                     for _ in range(2))
    for offset, data in PARTS.items():
        write(podd, buffer, offset, data)
    for offset, data in PARTS.items():
        got = read(podd, buffer, offset, len(data))
        expect(got == data, f"{got} at {offset}, not {data}")
        got = read(podd, other, offset, len(data))
        expect(got == bytes(len(data)), f"{got} at {offset} of the other")
    # What 32 bits would make of these places was not written.
    got = read(podd, buffer, 5, 64)
    expect(got == bytes(64), f"{got} after the first part")
    used = client.ask("GET", "/v1/cores/0")["memory"]["used"]
    expect(int(used) == 2 * SIZE, f"{used} bytes are used")
    for program in (podd, worker):
        most = program.status("VmHWM")
        expect(most < LITTLE, f"{program.name} took {most} KiB")
    client.succeeded(client.free(buffer))
    client.succeeded(client.free(other))
    podd.stop()
    worker.stop()


if __name__ == "__main__":
    main()
