# SPDX-License-Identifier: Apache-2.0
"""Readers of a worker's buffer that do not take what they asked for: what podd
holds for them is in the staging budget, and more of them are refused.

usage: slow_readers.py    Environment: POD_BUILD
"""
import socket

from pod_processes import Client, Program, expect, until

SIZE = 4 << 20  # one piece
BUDGET = 4 * SIZE
SHARE = BUDGET // 16  # of a reader
MOST = BUDGET // SHARE


def ask(podd, buffer):
    """A connection on which the head of an answer has come, and its status."""
    host, port = podd.address.rsplit(":", 1)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((host, int(port)))
    connection.sendall((f"GET /v1/buffers/{buffer}/data HTTP/1.1\r\n"
                        "Host: localhost\r\nConnection: close\r\n\r\n").encode())
    head = connection.recv(12, socket.MSG_WAITALL)
    return connection, head[9:].decode()


def main():
    worker = Program("podworker", "--listen", "127.0.0.1:0", "--log-level",
                     "error")
    podd = Program("podd", "--dev", "--listen", "127.0.0.1:0", "--log-level",
                   "error", "--staging-bytes", str(BUDGET), "--pod",
                   "grpc+pod://" + worker.address)
    client = Client(podd.address)
    client.await_host(0)
    shape = {"core": 0, "shape": f"u8[{SIZE}]"}
    buffer = client.ask("POST", "/v1/buffers", shape)["buffer"]
    readers = [ask(podd, buffer) for _ in range(MOST + 1)]
    statuses = [status for _, status in readers]
    expect(statuses == ["200"] * MOST + ["429"], f"{statuses}")
    used = client.metrics()["podd_staging_used_bytes"]
    expect(used == BUDGET, f"{used} bytes of the budget are used")
    for connection, _ in readers:
        connection.close()
    until(lambda: client.metrics()["podd_staging_used_bytes"] == 0,
          "podd lets go of what they did not take")
    podd.stop()
    worker.stop()


if __name__ == "__main__":
    main()
