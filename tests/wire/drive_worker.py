#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Drives podworker through tpu_driver.CloudTpuDriver. usage: CASE"""
import os
import struct
import subprocess
import tempfile
import threading
import time

import grpc
from pod_processes import run_case, until
from worker_client import (
    LIMIT,
    Client,
    E,
    Failed,
    S,
    Stream,
    Worker,
    X,
    add_program,
    equal,
    f32,
    sum_over_replicas,
)

OK = grpc.StatusCode.OK
INVALID, NOT_FOUND, EXHAUSTED, PRECONDITION = 3, 5, 8, 9
ABORTED, UNIMPLEMENTED, CANCELLED = 10, 12, 1


def codes(answers):
    return {number: answer.status.code for number, answer in answers.items()}


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


# ------------------------------------------------------------------- replaying

HANDLES = {
    "alloc_tuple": ["children"],
    "dealloc": ["handle"],
    "transfer_to": ["target_handle"],
    "transfer_from": ["source_handle"],
    "load": ["compiled_program_handle"],
    "unload": ["loaded_program_handle"],
    "execute": ["loaded_program_handle", "input_handle", "output_handle"],
    "transfer_from_to": ["source_handle", "target_handle"],
}


def renumber(message, change):
    """Changes every id in a message, the field named one or many times."""
    for name in change["names"]:
        value = getattr(message, name)
        if isinstance(value, int):
            setattr(message, name, change["to"](value))
        else:
            value[:] = [change["to"](v) for v in value]


def rewrite(raw, client):
    """A recorded request with the ids of this client."""
    request = S.StreamRequest.FromString(raw)
    equal(request.SerializeToString(), raw, "the request packed again")

    def to(value):
        return client.full(value & ((1 << 44) - 1))

    for entry in request.entry:
        names = ["operation_id", "wait_for_id"]
        renumber(entry, {"names": names, "to": to})
        kind = entry.WhichOneof("request")
        body = getattr(entry, kind)
        renumber(body, {"names": HANDLES.get(kind, []), "to": to})
    return request.SerializeToString()


class Replay:
    """One worker's calls of a recording."""

    def __init__(self, worker, which, lines):
        self.lines = [line for line in lines if line[0] == which]
        self.client = Client(worker)
        self.streams = {}
        self.expected = {}
        self.got = {}

    def expect(self, raw, call, paced):
        answers = S.StreamResponse.FromString(raw).entry
        for answer in answers:
            number = answer.operation_id & ((1 << 44) - 1)
            self.expected[number] = answer
        if paced:
            self.collect(call, len(answers))

    def collect(self, call, count):
        self.got.update(self.client.answers(self.streams[call], count))

    def run(self, paced):
        counts = {}
        for _, call, way, method, text in self.lines:
            raw = b"" if text in ("*", '""') else bytes.fromhex(text)
            if method != "StreamExecute":
                continue
            if way == "+":
                self.streams[call] = self.client.stream()
            elif way == ">":
                self.streams[call].sending.put(rewrite(raw, self.client))
            elif way == "<":
                self.expect(raw, call, paced)
                entries = len(S.StreamResponse.FromString(raw).entry)
                counts[call] = counts.get(call, 0) + entries
        for call, count in counts.items():
            if not paced:
                self.collect(call, count)

    def compare(self, different):
        equal(sorted(self.got), sorted(self.expected), "operations answered")
        for number, want in self.expected.items():
            got = self.got[number]
            code = different.get(number, want.status.code)
            equal(got.status.code, code, f"code of {number} ({got.status})")
            if code == 0 and want.WhichOneof("response") == "transfer_from":
                equal(got.transfer_from, want.transfer_from, f"read {number}")
            if code == 0 and want.WhichOneof("response") == "compile":
                compare_shapes(got.compile, want.compile)


def outline(shape):
    """What a client of any year reads of an array's shape."""
    layout = shape.layout.minor_to_major
    return shape.element_type, list(shape.dimensions), list(layout)


def compare_shapes(got, want):
    a = X.ProgramShapeProto.FromString(got.metadata.program_shape)
    b = X.ProgramShapeProto.FromString(want.metadata.program_shape)
    equal(
        [outline(p) for p in a.parameters],
        [outline(p) for p in b.parameters],
        "parameters",
    )
    equal(outline(a.result), outline(b.result), "result")


def replay(name, workers, different=({}, {})):
    with open(f"tests/data/original/{name}.txt") as file:
        lines = [line.split() for line in file if not line.startswith("#")]
    for paced in (True, False):
        replays = [
            Replay(worker, f"W{i}", lines) for i, worker in enumerate(workers)
        ]
        for one, other in zip(replays, different):
            one.run(paced)
            one.compare(other)
            one.client.close()
    for worker in workers:
        worker.stop()


def case_replay_single_worker():
    replay(
        "single-worker-tour",
        [Worker("--cores-per-chip", "2", "--hbm", "512")],
    )


def case_replay_pod_of_two():
    flags = ["--chips", "2x1x1", "--cores-per-chip", "2", "--hosts", "2"]
    workers = [
        Worker(*flags, "--hbm", "512", "--host-id", str(i)) for i in (0, 1)
    ]
    replay("pod-two-hosts-tour", workers)


def case_replay_errors_and_reset():
    # The recording's server refused 666 bytes, took 888, and refused the
    # program; a core of 600 bytes refuses 888 too, and what depends on it.
    with open("tests/data/original/errors-and-reset.txt") as file:
        lines = [line.split() for line in file if not line.startswith("#")]
    worker = Worker("--cores-per-chip", "2", "--hbm", "600")
    one = Replay(worker, "W0", lines)
    one.run(True)
    one.compare({5: EXHAUSTED, 6: EXHAUSTED, 7: EXHAUSTED, 8: 0, 9: 0})
    one.client.unary("Reset", b"")
    for stream in one.client.streams:
        stream.half_close()
        equal(stream.ended(), OK, "stream after Reset")
    one.client.close()  # answered with success all the same
    worker.stop()


# ------------------------------------------------------------- every operation


def case_every_operation():
    worker = Worker("--cores-per-chip", "2")
    c = Client(worker)
    s = c.stream()
    one, two = floats(1, 2, 3), floats(10, 20, 30)
    got = c.run(
        s,
        c.alloc_shape(1, f32(3)),
        c.alloc(2, 12),
        c.write(3, 1, one),
        c.write(4, 2, two),
        c.compile(5, add_program(f32(3))),
        c.load(6, 5),
        c.alloc_shape(7, f32(3)),
        c.execute(8, 6, [1, 2], [7], waits=[3, 4]),
        c.read(9, 7, waits=[8]),
        c.alloc(10, 12, core=1),
        c.copy(11, 7, 10, waits=[8]),
        c.read(12, 10, waits=[11]),
        c.tuple(13, [1, 2]),
        c.write(14, 13, b""),
        c.read(15, 13),
        c.unload(16, 6, waits=[8]),
        c.free(17, 13),
        c.free(18, 1),
    )
    equal(set(codes(got).values()), {0}, f"codes {codes(got)}")
    equal(got[9].transfer_from.data, floats(11, 22, 33), "sum")
    equal(got[12].transfer_from.data, floats(11, 22, 33), "sum on core 1")
    equal(got[15].transfer_from.data, b"", "a tuple has no bytes")
    equal(got[15].HasField("transfer_from"), True, "payload of a tuple read")
    shape = X.ProgramShapeProto.FromString(
        got[5].compile.metadata.program_shape
    )
    equal(list(shape.result.dimensions), [3], "result shape")
    equal(shape.result.layout.minor_to_major, [0], "result layout")
    got = c.run(s, c.read(19, 1), c.execute(20, 6, [1, 2], [7]))
    equal(codes(got), {19: NOT_FOUND, 20: NOT_FOUND}, "freed handles")
    c.close()
    worker.stop()


def case_refusals():
    worker = Worker("--cores-per-chip", "2", "--hbm", "1KiB")
    c, other = Client(worker), Client(worker)
    s = c.stream()
    foreign = E(
        operation_id=c.full(6),
        dealloc=S.DeallocateRequest(handle=other.full(1)),
    )
    got = c.run(
        s,
        c.alloc(1, -5),
        c.alloc(2, 8, core=2),
        c.alloc(3, 2048),
        c.alloc(4, 8),
        c.write(5, 4, b"123456789"),
        foreign,
        c.load(7, 4),
        c.compile(8, add_program(f32(3)), replicas=0),
        c.execute(9, 4, [], []),
        E(operation_id=c.full(10)),
        c.read(11, 2),
        c.alloc(12, 8, core=-1),
        c.free(13, 3),
    )
    want = {
        1: INVALID,
        2: NOT_FOUND,
        3: EXHAUSTED,
        4: 0,
        5: INVALID,
        6: INVALID,
        7: NOT_FOUND,
        8: INVALID,
        9: NOT_FOUND,
        10: UNIMPLEMENTED,
        11: NOT_FOUND,
        12: NOT_FOUND,
        13: EXHAUSTED,
    }
    equal(codes(got), want, "codes")
    # A number may be used once.
    got = c.run(s, c.alloc(4, 8))
    equal(codes(got), {4: INVALID}, "number used again")
    # A client that is not open.
    gone = Client(worker)
    gone.close()
    lost = E(
        operation_id=gone.full(1),
        alloc=S.AllocateRequest(core_id=0, region=1, num_bytes=8),
    )
    c.send(s, lost)
    (answer,) = s.take(1)
    equal(answer.operation_id, gone.full(1), "id of the answer")
    equal(answer.status.code, PRECONDITION, "client that is not open")
    c.close()
    other.close()
    worker.stop()


def case_malformed_messages_end_the_stream():
    worker = Worker()
    c = Client(worker)
    for garbage in (b"\xf2\x01\x05abc", b"\xff", b"\xf2\x01\x00"):
        s = c.stream()
        s.sending.put(garbage)
        equal(s.ended(), grpc.StatusCode.INVALID_ARGUMENT, repr(garbage))
    c.streams.clear()
    # Fields nobody knows are read over.
    s = c.stream()
    raw = S.StreamRequest(entry=[c.alloc(1, 8)]).SerializeToString()
    s.sending.put(b"\x08\x01" + raw + b"\xba\x3e\x03abc")
    equal(codes(c.answers(s, 1)), {1: 0}, "unknown fields")
    c.close()
    worker.stop()


# ------------------------------------------------------------------------ order


def case_forward_references():
    worker = Worker("--cores-per-chip", "2")
    c = Client(worker)
    first, second = c.stream(), c.stream()
    # On one stream everything that needs the other stream's operations.
    c.send(
        first,
        c.load(12, 11, core=1),
        c.read(5, 1, waits=[4]),
        c.copy(6, 1, 3, waits=[4]),
        c.read(7, 3, waits=[6]),
        c.alloc(8, 4, core=1, waits=[2]),
    )
    c.send(second, c.alloc(3, 4, core=1))
    equal(codes(c.answers(second, 1)), {3: 0}, "allocation")
    c.send(
        second,
        c.alloc(1, 4),
        c.alloc(2, 4),
        c.write(4, 1, b"abcd"),
        c.compile(11, add_program(f32(2))),
    )
    equal(
        codes(c.answers(second, 4)), {1: 0, 2: 0, 4: 0, 11: 0}, "what came late"
    )
    got = c.answers(first, 5)
    equal(codes(got), {12: 0, 5: 0, 6: 0, 7: 0, 8: 0}, "what waited")
    equal(got[5].transfer_from.data, b"abcd", "read")
    equal(got[7].transfer_from.data, b"abcd", "read of the copy")
    # Waits for what ended long ago, in any order and more than once.
    got = c.run(first, c.read(20, 1, waits=[8, 1, 4, 4, 11, 2]))
    equal(codes(got), {20: 0}, "long finished")
    c.close()
    worker.stop()


def case_failures_pass_on():
    worker = Worker("--hbm", "1KiB")
    c = Client(worker)
    s = c.stream()
    got = c.run(
        s,
        c.alloc(1, 4096),
        c.alloc(2, 16, waits=[1]),
        c.write(3, 2, b"x" * 16),
        c.read(4, 2, waits=[3]),
        c.alloc(5, 16),
        c.write(6, 5, b"y" * 16, waits=[4]),
        c.read(7, 5),
    )
    want = {n: EXHAUSTED for n in (1, 2, 3, 4, 6)}
    equal(codes(got), {**want, 5: 0, 7: 0}, "codes")
    for number in want:
        equal(got[number].status.message, got[1].status.message, "root cause")
    # The write that failed had no effect.
    equal(got[7].transfer_from.data, bytes(16), "untouched buffer")
    # Failures are remembered.
    got = c.run(s, c.alloc(9, 16, waits=[6]))
    equal(codes(got), {9: EXHAUSTED}, "failure of long ago")
    equal(got[9].HasField("transfer_from"), False, "payload of a failure")
    c.close()
    worker.stop()


def case_uses_of_a_buffer_keep_their_order():
    worker = Worker()
    c = Client(worker)
    s = c.stream()
    size = 3 << 20  # several turns of the transfer thread
    entries = [c.alloc(1, size)]
    for i in range(20):
        byte = bytes([65 + i])
        entries.append(c.write(2 + 2 * i, 1, byte * size))
        entries.append(c.read(3 + 2 * i, 1))
    entries.append(c.free(100, 1))
    got = c.run(s, *entries)
    equal(set(codes(got).values()), {0}, "codes")
    for i in range(20):
        data = got[3 + 2 * i].transfer_from.data
        equal(data == bytes([65 + i]) * size, True, f"read {i}")
    c.close()
    worker.stop()


# --------------------------------------------------------------------- amounts


def case_many_entries_in_a_message():
    worker = Worker()
    c = Client(worker)
    s = c.stream()
    count = 20000
    entries = [c.alloc(1, 8)]
    for number in range(2, count):
        entries.append(c.write(number, 1, struct.pack("<q", number)))
    entries.append(c.read(count, 1))
    got = c.run(s, *entries)
    equal(len(got), count, "answers")
    equal(set(codes(got).values()), {0}, "codes")
    last = struct.pack("<q", count - 1)
    equal(got[count].transfer_from.data, last, "the last write is seen")
    # Answers travel together too.
    equal(s.messages < count, True, f"{s.messages} messages of answers")
    c.close()
    worker.stop()


def case_large_transfer():
    worker = Worker("--hbm", "1GiB")
    c = Client(worker)
    s = c.stream()
    data = bytes(range(256)) * (1 << 18)  # 64 MiB
    got = c.run(
        s, c.alloc(1, len(data)), c.write(2, 1, data), c.read(3, 1, waits=[2])
    )
    equal(codes(got), {1: 0, 2: 0, 3: 0}, "codes")
    equal(got[3].transfer_from.data == data, True, "64 MiB")
    c.close()
    worker.stop()


def case_staging_is_bounded():
    worker = Worker("--staging-bytes", "1MiB")
    c = Client(worker)
    s = c.stream()
    data = bytes(600 << 10)
    c.run(s, c.alloc(1, len(data)))
    c.send(
        s,
        c.write(2, 1, data, waits=[4]),
        c.alloc(20, 8, waits=[3]),
        c.write(3, 1, data),
        c.alloc(21, 8, waits=[3]),
    )
    refused = {3: EXHAUSTED, 20: EXHAUSTED, 21: EXHAUSTED}
    equal(codes(c.answers(s, 3)), refused, "more than the bound, at once")
    c.send(s, c.alloc(4, 8))
    equal(codes(c.answers(s, 2)), {2: 0, 4: 0}, "what waited")
    until = time.monotonic() + LIMIT
    number = 5
    # What an operation held is given back soon after its answer.
    while codes(c.run(s, c.write(number, 1, data))) != {number: 0}:
        if time.monotonic() > until:
            raise Failed("staging is not given back")
        number += 1
    c.close()
    worker.stop()


class LateStream(Stream):
    """A stream whose answers are not taken before they are asked for."""

    def __init__(self, client):
        self.wanted = threading.Event()
        path = "/tpu_driver.CloudTpuDriver/StreamExecute"
        super().__init__(client.channel, path,
                         lambda m: S.StreamResponse.FromString(m).entry)
        client.streams.append(self)

    def read(self):
        self.wanted.wait()
        super().read()


def case_what_was_read_is_staged_until_it_has_left():
    worker = Worker("--staging-bytes", "1MiB")
    c, size = Client(worker), 600 << 10
    s, late = c.stream(), LateStream(c)
    c.run(s, c.alloc(c.number(), size))

    def read():
        number = c.number()
        status = c.run(s, c.read(number, 1))[number].status
        if status.code:
            equal(status.code, EXHAUSTED, status.message)
        return status.code

    equal(read(), 0, "a read that is taken")
    first = c.last + 1

    def refused():
        """Some are on their way before the client has to take one."""
        c.send(late, c.read(c.number(), 1))
        return read() == EXHAUSTED

    until(refused, "what is not taken counts", LIMIT)
    late.wanted.set()
    sent = (c.last + 1 - first) // 2
    got = set(codes(c.answers(late, sent)).values())
    equal(got <= {0, EXHAUSTED}, True, f"the late ones: {got}")
    until(lambda: read() == 0, "what was taken does not count", LIMIT)
    c.close()
    worker.stop()


def refused_together(answers):
    """The numbers that were refused because all clients keep too much."""
    found = [n for n, answer in answers.items() if answer.status.code]
    for number in found:
        status = answers[number].status
        equal(status.code, EXHAUSTED, status.message)
        if "all clients of this worker" not in status.message:
            raise Failed(status.message)
    return found


def case_clients_are_bounded_together():
    """What waits for one client, and the handles of another, are too much."""
    pending, step = 600, 100
    worker = Worker("--client-bytes", "2MiB")
    a, b = Client(worker), Client(worker)
    sa, sb = a.stream(), b.stream()
    never = 1 << 20
    a.send(sa, *(a.alloc(n, 8, waits=[never]) for n in range(1, pending)))
    # They have come when this one has: alone, they are no more than may be.
    equal(codes(a.run(sa, a.alloc(pending, 8))), {pending: 0}, "a alone")
    made, refused = 0, []
    while not refused:
        equal(made < 10 * pending, True, "the second client has a bound")
        numbers = range(made + 1, made + step + 1)
        refused = refused_together(b.run(sb, *(b.alloc(n, 8) for n in numbers)))
        made += step
    equal(made > step, True, "the second client has something")
    # The first is told the same.
    equal(refused_together(a.run(sa, a.alloc(pending + 1, 8))), [pending + 1])
    # Who frees things is heard, and can then go on.
    freed = [b.free(made + n, n) for n in range(1, step + 1)]
    equal(refused_together(b.run(sb, *freed)), [], "frees")
    last = made + step + 1
    equal(codes(b.run(sb, b.alloc(last, 8))), {last: 0}, "after the frees")
    # What a client kept is given back when it goes, soon.
    a.close()
    b.last = last
    until(lambda: not refused_together(
        b.run(sb, *(b.alloc(b.number(), 8) for _ in range(2 * step)))),
        "the room of a closed client", LIMIT)
    b.close()
    worker.stop()


def case_frees_are_heard_by_a_full_worker():
    """All at once, and each handle's once."""
    worker, step = Worker("--client-bytes", "1MiB"), 100
    c = Client(worker)
    s = c.stream()

    def fill():
        """The handles that could be made."""
        handles = []
        while True:
            answers = c.run(s, *(c.alloc(c.number(), 8) for _ in range(step)))
            refused = refused_together(answers)
            handles += sorted(set(answers) - set(refused))
            if refused:
                return handles

    handles = fill()
    equal(len(handles) > step, True, "handles of a full worker")
    # All wait for the first one, which comes last.
    first = c.last + 3 * len(handles)
    frees = [c.free(c.number(), handle, waits=[first])
             for handle in handles[1:]]
    c.send(s, *frees)
    again = c.run(s, c.free(c.number(), handles[1], waits=[first]))
    equal(refused_together(again), [c.last], "a second free of a handle")
    c.send(s, c.free(first, handles[0]))
    freed = c.answers(s, len(handles))
    equal(refused_together(freed), [], "frees")
    c.last = first
    more = fill()
    equal(abs(len(more) - len(handles)) < step, True,
          f"{len(more)} handles after all {len(handles)} were freed")
    c.close()
    worker.stop()


# --------------------------------------------------------------------- sessions


def case_clients_side_by_side():
    worker = Worker("--hbm", "1KiB")
    a, b = Client(worker), Client(worker)
    equal(a.id != b.id, True, "ids differ")
    sa, sb = a.stream(), b.stream()
    got = a.run(sa, a.alloc(1, 600), a.write(2, 1, b"a" * 600))
    equal(codes(got), {1: 0, 2: 0}, "first client")
    got = b.run(sb, b.alloc(1, 600), b.alloc(2, 300))
    equal(codes(got), {1: EXHAUSTED, 2: 0}, "second client")
    got = b.run(sb, b.write(3, 2, b"b" * 300), b.read(4, 2, waits=[3]))
    equal(got[4].transfer_from.data, b"b" * 300, "own data")
    a.close()
    # What the first had is free, soon.
    until = time.monotonic() + LIMIT
    number = 5
    while True:
        got = b.run(sb, b.alloc(number, 600))
        if codes(got) == {number: 0}:
            break
        if time.monotonic() > until:
            raise Failed("the memory of a closed client is not freed")
        number += 1
    got = b.run(sb, b.read(number + 1, 2))
    equal(got[number + 1].transfer_from.data, b"b" * 300, "data kept")
    b.close()
    worker.stop()


def case_close_ends_what_is_pending():
    worker = Worker()
    c = Client(worker)
    s = c.stream()
    c.send(s, c.alloc(1, 8, waits=[50]), c.alloc(2, 8))
    equal(codes(c.answers(s, 1)), {2: 0}, "what can run")
    request = S.CloseRequest(client_id=c.id)
    c.unary("Close", request.SerializeToString())
    got = c.answers(s, 1)
    equal(codes(got), {1: CANCELLED}, "what was pending")
    equal(s.ended(), OK, "the stream ends without half-close")
    c.streams.clear()
    c.close()
    worker.stop()


def case_half_close_waits_for_answers():
    worker = Worker()
    c = Client(worker)
    first, second = c.stream(), c.stream()
    c.send(first, c.alloc(1, 8, waits=[2]))
    first.half_close()
    c.send(second, c.alloc(2, 8))
    equal(codes(c.answers(second, 1)), {2: 0}, "second stream")
    equal(codes(c.answers(first, 1)), {1: 0}, "answer after half-close")
    equal(first.ended(), OK, "first stream")
    c.close()
    worker.stop()


def case_idle_client_is_given_up():
    worker = Worker("--max-idle", "1s")
    c = Client(worker)
    equal(c.idle, 1, "max_idle_time_seconds")
    s = c.stream()
    c.run(s, c.alloc(1, 8))
    s.half_close()
    equal(s.ended(), OK, "stream")
    until = time.monotonic() + LIMIT
    number = 2
    while time.monotonic() < until:
        time.sleep(1.5)  # it must be left alone to become idle
        s = c.stream()
        got = c.run(s, c.alloc(number, 8))
        s.half_close()
        equal(s.ended(), OK, "stream")
        if codes(got) == {number: PRECONDITION}:
            break
        number += 1
    else:
        raise Failed("an idle client stays")
    worker.stop()


def case_clients_are_bounded():
    most = 4096
    worker = Worker()
    c = Client(worker)
    opening = c.channel.unary_unary("/tpu_driver.CloudTpuDriver/Open")
    calls = [opening.future(b"", timeout=LIMIT) for _ in range(most - 1)]
    ids = {S.OpenResponse.FromString(call.result()).client_id for call in calls}
    equal(len(ids | {c.id}), most, "clients with ids of their own")

    def one_more():
        try:
            return Client(worker)
        except grpc.RpcError as error:
            equal(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED, "one more")
            equal(f"{most} clients" in error.details(), True, error.details())
        return None

    equal(one_more(), None, "one more")
    request = S.CloseRequest(client_id=ids.pop())
    c.unary("Close", request.SerializeToString())
    other = until(one_more, "a free place")
    s = other.stream()
    equal(codes(other.run(s, other.alloc(1, 4))), {1: 0}, "in a free place")
    other.close()
    c.close()
    worker.stop()


def case_client_ids_differ():
    workers = [Worker() for _ in range(4)]
    ids = [Client(worker).id for worker in workers]
    equal(len(set(ids)), 4, f"ids of four workers {ids}")
    for client in ids:
        equal(0 < client < 1 << 20, True, f"id {client}")
    for worker in workers:
        worker.stop()


# ---------------------------------------------------------------------- program


def refused(*flags):
    """What podworker says about flags that it does not take."""
    binary = os.path.join(os.environ["POD_BUILD"], "podworker")
    run = subprocess.run(
        [binary, *flags], capture_output=True, text=True, timeout=LIMIT
    )
    equal(run.returncode, 2, f"exit code for {flags}")
    equal(run.stdout, "", f"output for {flags}")
    lines = run.stderr.splitlines()
    equal(len(lines), 1, f"lines for {flags}: {lines}")
    return lines[0]


def case_wrong_flags():
    for flags, words in (
        (["--listen", "nowhere"], ["listen", "nowhere"]),
        (["--listen", "0.0.0.0:0"], ["--listen", "0.0.0.0:0", "--insecure"]),
        (["--chips", "2by2"], ["--chips", "2by2"]),
        (["--chips", "3x1x1", "--hosts", "2"], ["--chips", "3x1x1"]),
        (["--host-id", "1"], ["--host-id", "1"]),
        (["--hosts", "4097"], ["--hosts", "4097"]),
        (["--cores-per-chip", "65"], ["--cores-per-chip", "65"]),
        (["--device", "abacus"], ["device", "abacus"]),
        (["--tls-cert", "nothing"], ["--tls-cert", "--tls-key"]),
        (["--no-such-flag"], ["no-such-flag"]),
    ):
        line = refused(*flags)
        for word in words:
            equal(word in line, True, f"{word!r} in {line!r}")
    missing = ["--tls-cert", "/nowhere/a", "--tls-key", "/nowhere/b"]
    for check in ([], ["--check-config"]):
        line = refused(*missing, *check)
        equal("--tls-cert '/nowhere/a'" in line, True, line)


def case_listens_beyond_loopback_if_asked():
    worker = Worker("--listen", "0.0.0.0:0", "--insecure")
    equal(worker.address.startswith("0.0.0.0:"), True, worker.address)
    worker.stop()


def case_unix_socket():
    with tempfile.TemporaryDirectory(prefix="podd-test-") as folder:
        address = f"unix:{folder}/worker"
        worker = Worker("--listen", address)
        equal(worker.address, address, "address")
        c = Client(worker)
        s = c.stream()
        equal(codes(c.run(s, c.alloc(1, 8))), {1: 0}, "allocate")
        c.close()
        worker.stop()


def certificate(folder, name, *signer):
    """A key and a certificate for a name, in two files."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"]
        + ["-pkeyopt", "ec_paramgen_curve:P-256", "-subj", "/CN=" + name]
        + ["-addext", f"subjectAltName=DNS:{name},IP:127.0.0.1"]
        + ["-keyout", f"{name}.key", "-out", f"{name}.crt", *signer],
        cwd=folder,
        check=True,
        capture_output=True,
    )


def case_mutual_tls():
    with tempfile.TemporaryDirectory(prefix="podd-test-") as folder:

        def pem(name):
            with open(os.path.join(folder, name), "rb") as file:
                return file.read()

        by_ca = ["-CA", "ca.crt", "-CAkey", "ca.key"]
        by_ca += ["-addext", "basicConstraints=critical,CA:FALSE"]
        certificate(folder, "ca", "-addext", "keyUsage=keyCertSign")
        certificate(folder, "worker", *by_ca)
        certificate(folder, "client", *by_ca)
        certificate(folder, "stranger")
        worker = Worker(
            *("--tls-cert", f"{folder}/worker.crt"),
            *("--tls-key", f"{folder}/worker.key"),
            *("--tls-client-ca", f"{folder}/ca.crt"),
        )

        def client(name):
            own = (pem(name + ".key"), pem(name + ".crt")) if name else ()
            credentials = grpc.ssl_channel_credentials(pem("ca.crt"), *own)
            return Client(
                worker, grpc.secure_channel(worker.address, credentials)
            )

        c = client("client")
        equal(codes(c.run(c.stream(), c.alloc(1, 8))), {1: 0}, "allocate")
        c.close()
        for name in ("stranger", None):
            try:
                client(name)
                raise Failed(f"{name} was served")
            except grpc.RpcError as error:
                unavailable = grpc.StatusCode.UNAVAILABLE
                equal(error.code(), unavailable, f"as {name}")
        worker.stop()


# ------------------------------------------------------------- gangs and slices


def case_circles_are_found():
    worker = Worker("--cores-per-chip", "2")
    c = Client(worker)
    first, second = c.stream(), c.stream()
    # Two that wait for each other, and one that waits for them.
    c.send(first, c.alloc(1, 4, waits=[2]), c.alloc(3, 4, waits=[1]))
    got = c.run(second, c.alloc(2, 4, waits=[1]))
    got.update(c.answers(first, 2))
    equal(codes(got), {1: INVALID, 2: INVALID, 3: INVALID}, "two")
    for number in got:
        text = got[number].status.message
        equal("wait for each other" in text, True, text)
    # A ring of many, closed by the first of them that comes last.
    ring = list(range(1000, 1300))
    for number in reversed(ring[1:]):
        c.send(first, c.alloc(number, 4, waits=[number - 1]))
    c.send(first, c.alloc(1000, 4, waits=[1299]))
    got = c.answers(first, len(ring))
    equal(codes(got), {number: INVALID for number in ring}, "ring")
    # Through what they make.
    got = c.run(first, c.tuple(10, [11]), c.tuple(11, [10]))
    equal(codes(got), {10: INVALID, 11: INVALID}, "tuples in each other")
    got = c.run(first, c.tuple(12, [12]))
    equal(codes(got), {12: INVALID}, "tuple in itself")
    # A read says that it comes after a later write: it gets its way.
    got = c.run(
        first,
        c.alloc(20, 4),
        c.read(21, 20, waits=[22]),
        c.write(22, 20, b"abcd"),
        c.read(23, 20),
    )
    equal(codes(got), {20: 0, 21: 0, 22: 0, 23: 0}, "a write that is later")
    equal(got[21].transfer_from.data, b"abcd", "what was read")
    # What a later one makes can be used, too.
    got = c.run(first, c.read(30, 31), c.alloc(31, 4))
    equal(codes(got), {30: 0, 31: 0}, "a buffer that is later")
    # Replicas begin together, so none can wait for another, or what does.
    shape = f32(2)
    c.run(first, c.compile(40, sum_over_replicas(shape), replicas=2))
    for core in (0, 1):
        got = c.run(
            first,
            c.load(41 + core, 40, core),
            c.alloc_shape(43 + core, shape, core),
            c.alloc_shape(45 + core, shape, core),
        )
        equal(set(codes(got).values()), {0}, "set up")
    got = c.run(
        first,
        c.execute(50, 41, [43], [45], [0, 1]),
        c.alloc(51, 4, waits=[50]),
        c.execute(52, 42, [44], [46], [0, 1], waits=[51]),
    )
    equal(got[52].status.code, INVALID, "replica that waits for the other")
    equal(got[50].status.code, ABORTED, "the other")
    equal(got[51].status.code, ABORTED, "what waits for it")
    # All of that left nothing behind.
    got = c.run(
        first,
        c.execute(60, 41, [43], [45], [0, 1]),
        c.execute(61, 42, [44], [46], [0, 1]),
    )
    equal(codes(got), {60: 0, 61: 0}, "the same in order")
    c.close()
    worker.stop()


def case_tuples_are_bounded():
    """A few bytes that name buffers without number hold up nobody."""
    worker = Worker()
    c = Client(worker)
    s = c.stream()
    got = c.run(s, c.compile(60, add_program(f32(1))), c.load(61, 60))
    equal(codes(got), {60: 0, 61: 0}, "program")
    # The buffer waits, so the device has seen none of it yet.
    c.send(s, c.alloc(1, 4, waits=[5000]), c.tuple(2, [1, 1]))
    c.send(s, *[c.tuple(n, [n - 1, n - 1]) for n in range(3, 40)])
    c.send(s, c.read(50, 39), c.read(51, 16))
    c.send(s, c.execute(52, 61, [16] * 9, [1]))
    got = c.answers(s, 25)
    # 2^n - 1 nodes, up to 65536.
    refused = {n: INVALID for n in range(17, 40)}
    equal(codes(got), {**refused, 50: INVALID, 52: INVALID}, "refused")
    equal("at most 65536 nodes" in got[17].status.message, True, "tuple")
    equal("at most 262144 buffers" in got[52].status.message, True, "uses")
    other = Client(worker)
    t = other.stream()
    equal(codes(other.run(t, other.alloc(1, 4))), {1: 0}, "another client")
    other.close()
    got = c.run(s, c.alloc(5000, 4))
    got.update(c.answers(s, 17))
    equal(set(codes(got)), {*range(1, 17), 51, 5000}, "what was sound")
    c.close()
    worker.stop()


def case_gang_on_two_cores():
    worker = Worker("--cores-per-chip", "2")
    c = Client(worker)
    streams = [c.stream(), c.stream()]
    shape = f32(2)
    c.run(streams[0], c.compile(1, sum_over_replicas(shape), replicas=2))
    number = 2
    for core in (0, 1):
        got = c.run(
            streams[core],
            c.load(10 + core, 1, core),
            c.alloc_shape(20 + core, shape, core),
            c.alloc_shape(30 + core, shape, core),
        )
        equal(set(codes(got).values()), {0}, "set up")
    for round in range(50):
        base = 100 + 10 * round
        for core in (1, 0):
            c.send(
                streams[core],
                c.write(base + core, 20 + core, floats(round, core + 1)),
                c.execute(
                    base + 2 + core,
                    10 + core,
                    [20 + core],
                    [30 + core],
                    [0, 1],
                    waits=[base, base + 1],
                ),
                c.read(base + 4 + core, 30 + core, waits=[base + 2 + core]),
            )
        for core in (0, 1):
            got = c.answers(streams[core], 3)
            equal(set(codes(got).values()), {0}, f"round {round}")
            data = got[base + 4 + core].transfer_from.data
            equal(data, floats(2 * round, 3), f"sum of round {round}")
    # One replica fails: the other ends with that cause.
    c.send(
        streams[0],
        c.execute(900, 10, [20], [30], [0, 1], waits=[902]),
        c.alloc(902, 1 << 50),
    )
    c.send(streams[1], c.execute(901, 11, [21], [31], [0, 1]))
    equal(codes(c.answers(streams[0], 2)), {900: 8, 902: 8}, "cause")
    equal(codes(c.answers(streams[1], 1)), {901: ABORTED}, "other replica")
    # An assignment that is none.
    got = c.run(
        streams[0],
        c.execute(910, 10, [20], [30], [0, 0]),
        c.execute(911, 10, [20], [30], [0, 7]),  # the sum needs core 7
        c.execute(912, 10, [20], [30], [1, 1]),
    )
    equal(
        codes(got), {910: INVALID, 911: UNIMPLEMENTED, 912: INVALID}, "refused"
    )
    c.close()
    worker.stop()


def case_slice_in_blocks():
    # 4x4 chips of two cores; four hosts own blocks of 2x2: the ids of v2-32.
    flags = ["--chips", "4x4", "--cores-per-chip", "2", "--hosts", "4"]
    own = {
        0: [0, 1, 2, 3, 8, 9, 10, 11],
        3: [20, 21, 22, 23, 28, 29, 30, 31],
    }
    for host, ids in own.items():
        worker = Worker(*flags, "--host-block", "2x2", "--host-id", str(host))
        c = Client(worker)
        info = c.info()
        equal([core.id for core in info.local_core], ids, f"host {host}")
        equal(
            [core.core_on_host_index for core in info.local_core],
            list(range(8)),
            "index on host",
        )
        chips = info.tpu_chip
        listed = [core.id for chip in chips for core in chip.core]
        equal(listed, list(range(32)), "all cores of the slice")
        places = [
            (p.x, p.y, p.z) for p in (chip.chip_coord for chip in chips)
        ]
        mesh = [(x, y, 0) for y in range(4) for x in range(4)]
        equal(places, mesh, "coordinates")
        equal(
            (info.host_id, info.host_count, info.chip_count, info.core_count),
            (host, 4, 16, 32),
            "counts",
        )
        s = c.stream()
        got = c.run(s, c.alloc(1, 8, core=ids[-1]), c.alloc(2, 8, core=4))
        equal(codes(got), {1: 0, 2: NOT_FOUND}, "own and foreign core")
        c.close()
        worker.stop()


if __name__ == "__main__":
    run_case(globals())
