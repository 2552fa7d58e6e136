#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Drives podworker through pod.worker.v1.PodWorker. usage: CASE"""
import os
import resource
import signal
import socket
import struct

import grpc
from pod_processes import run_case, until
from worker_client import (
    Failed,
    Session,
    Stream,
    W,
    Worker,
    add_program,
    equal,
    f32,
    sum_over_replicas,
)

OK = grpc.StatusCode.OK
HLO_TEXT, HLO_PROTO = 0, 1
SPIN = b"""HloModule spin

cond {
  i = s32[] parameter(0)
  ROOT p = pred[] constant(true)
}

body {
  i = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT n = s32[] add(i, one)
}

ENTRY main {
  i = s32[] parameter(0)
  ROOT w = s32[] while(i), condition=cond, body=body
}
"""


def codes(outcomes):
    return {op: outcome.status.code for op, outcome in outcomes.items()}


def reasons(outcomes):
    return {op: outcome.status.reason for op, outcome in outcomes.items()}


def loaded(c, program, core=0, first=1, replicas=1, format=HLO_PROTO):
    compile = W.Compile(format=format, program=program, replicas=replicas)
    load = W.Load(core=core, program=first)
    got = c.run(
        c.entry(first, compile=compile), c.entry(first + 1, load=load)
    )
    equal(set(codes(got).values()), {0}, f"compile and load {got}")
    return first + 1


def execute(c, op, load, inputs, outputs, **more):
    launch = W.Launch(load=load, inputs=inputs, outputs=outputs)
    return c.entry(op, execute=W.Execute(launches=[launch]), **more)


def most_memory(worker):
    """Resident bytes of the process, at most so far."""
    return worker.status("VmHWM") << 10


# -------------------------------------------------------------------- the basics


def case_hello():
    flags = ["--chips", "2x2", "--cores-per-chip", "2", "--hosts", "2"]
    worker = Worker(*flags, "--host-id", "1", "--hbm", "1MiB")
    c, other = Session(worker), Session(worker)
    hello = c.hello
    equal(hello.version, 1, "version")
    equal(hello.worker.split()[0], "podworker", "worker")
    equal(hello.platform, "reference", "platform")
    equal(hello.accepts & 3, 3, "HLO as text and as messages")
    equal((hello.host_id, hello.host_count), (1, 2), "host")
    chips = [(k.x, k.y, k.z, k.host_id) for k in hello.chips]
    equal(chips, [(0, 1, 0, 1), (1, 1, 0, 1)], "own chips")
    cores = [(k.worker_core, k.chip, k.memory_bytes) for k in hello.cores]
    equal(cores, [(i, i // 2, 1 << 20) for i in range(4)], "own cores")
    equal(other.hello.incarnation, hello.incarnation, "incarnation")
    equal(other.id != c.id, True, "session")
    try:
        Session(worker, (2, 9))
        raise Failed("version 2 was accepted")
    except grpc.RpcError as error:
        equal(error.code(), grpc.StatusCode.FAILED_PRECONDITION, "version 2")
    c.close()
    other.close()
    worker.stop()
    again = Worker(*flags)
    c = Session(again)
    equal(c.hello.incarnation != hello.incarnation, True, "new incarnation")
    c.close()
    again.stop()


def case_hello_replaces_a_session():
    worker = Worker("--hbm", "1MiB")
    c, other = Session(worker), Session(worker)
    load = loaded(c, SPIN, format=HLO_TEXT)
    whole = W.Allocate(core=0, raw_bytes=1 << 19)
    for s in (c, other):
        s.run(s.entry(10, allocate=whole))
    scalar = W.Allocate(core=0, raw_bytes=4)
    full = other.run(other.entry(11, allocate=whole))
    equal(codes(full), {11: 8}, "the memory is used")
    other.run(other.entry(12, deallocate=W.Deallocate(buffer=10)))
    c.run(c.entry(11, allocate=scalar), c.entry(12, allocate=scalar))
    c.send(execute(c, 13, load, [11], [12], started=True))
    equal(c.control.take(1)[0].started, True, "it runs")
    # One of nobody, and one of the other protocol, whose numbers are small.
    Session(worker, replaces=7).close()
    Session(worker, replaces=(1 << 63) | 7).close()
    new = Session(worker, replaces=c.id)
    equal(c.control.ended() is not None, True, "its stream ends")
    until(lambda: new.beat().open_operations == 0, "nothing runs")
    until(lambda: new.beat().cores[0].memory_used == 0, "all is free")
    equal(codes(other.run(other.entry(13, allocate=whole))), {13: 0}, "other")
    for s in (new, other):
        s.close()
    worker.stop()


def case_chunks():
    worker = Worker("--hbm", "64MiB")
    c = Session(worker)
    size = 10 << 20
    piece = 1 << 20
    got = c.run(c.alloc(1, size))
    equal(codes(got), {1: 0}, "allocate")
    data = bytes(range(256)) * (size // 256)
    writes = [
        c.write(2 + i, 1, data[i * piece : (i + 1) * piece], i * piece)
        for i in range(10)
    ]
    reads = [
        c.read(50 + i, 1, piece, i * piece, orders=[2 + i]) for i in range(10)
    ]
    got = c.run(*writes, *reads, stream=c.data)
    equal(set(codes(got).values()), {0}, "codes")
    back = b"".join(got[50 + i].data for i in range(10))
    equal(back == data, True, "bytes")
    got = c.run(
        c.read(90, 1, 1, size), c.read(91, 1, 64 << 20), c.read(92, 1, 0, size)
    )
    equal(
        reasons(got),
        {90: "OUT_OF_RANGE", 91: "BAD_LENGTH", 92: ""},
        "ranges",
    )
    c.close()
    worker.stop()


def case_entries_that_cannot_be():
    worker = Worker("--hbm", "1MiB")
    c = Session(worker)

    def compile(op, format=HLO_TEXT, replicas=1):
        what = W.Compile(format=format, program=SPIN, replicas=replicas)
        return c.entry(op, compile=what)

    def launches(op, count, **more):
        what = W.Execute(launches=[W.Launch(load=99)] * count, **more)
        return c.entry(op, execute=what)

    bad = c.run(
        c.entry(1),
        c.entry(2, allocate=W.Allocate(core=0)),
        c.entry(3, allocate=W.Allocate(core=9, raw_bytes=8)),
        compile(4, format=99),
        compile(5, replicas=0),
        compile(6, replicas=1 << 31),
        launches(7, 0),
        launches(8, 2),
    )
    equal(
        reasons(bad),
        {
            1: "UNIMPLEMENTED",
            2: "MISSING_MEMBER",
            3: "UNKNOWN_CORE",
            4: "UNIMPLEMENTED",
            5: "BAD_VALUE",
            6: "BAD_VALUE",
            7: "BAD_ASSIGNMENT",
            8: "BAD_ASSIGNMENT",
        },
        "what cannot be",
    )
    # A tuple has no bytes, and is gone before its parts.
    tuple = W.AllocateTuple(core=0, children=[20, 21])
    good = c.run(c.alloc(20, 8), c.alloc(21, 8), c.entry(22, allocate_tuple=tuple))
    equal(set(codes(good).values()), {0}, f"a tuple {good}")
    got = c.run(c.read(23, 22, 8))
    equal(reasons(got), {23: "IS_A_TUPLE"}, "no bytes of a tuple")
    equal(codes(c.run(c.read(24, 20, 8))), {24: 0}, "but of its part")
    c.close()
    worker.stop()


def case_order_and_failure():
    worker = Worker("--hbm", "1KiB")
    c = Session(worker)
    got = c.run(
        c.alloc(1, 4096),
        c.alloc(2, 16, waits=[1]),
        c.alloc(3, 16, orders=[1, 2]),
        c.write(4, 3, b"x" * 16, waits=[2]),
        c.alloc(1 << 43, 8),
    )
    equal(codes(got), {1: 8, 2: 8, 3: 0, 4: 8, 1 << 43: 3}, "codes")
    equal(got[1].status.root, 0, "own failure")
    equal(got[2].status.root, 1, "root of 2")
    equal(got[4].status.root, 1, "root of 4")
    equal(got[2].status.reason, "RESOURCE_EXHAUSTED", "reason")
    # Numbers that were forgotten count as done.
    c.send(c.alloc(10, 16, waits=[1]))
    equal(codes(c.outcomes(1)), {10: 8}, "failure of before")
    c.send(c.alloc(11, 16, waits=[1]), forget=5)
    equal(codes(c.outcomes(1)), {11: 8}, "entries come before forget")
    c.send(c.alloc(12, 16, waits=[1]))
    equal(codes(c.outcomes(1)), {12: 0}, "forgotten")
    c.close()
    worker.stop()


def case_order_across_streams():
    worker = Worker("--hbm", "1KiB")
    c = Session(worker)
    c.run(c.alloc(1, 8), c.write(2, 1, b"a" * 8))
    c.send(c.write(6, 1, b"b" * 8, orders=[2, 3, 4, 5]), stream=c.data)
    until(lambda: c.beat().open_operations == 1, "it has come")
    got = c.run(c.read(3, 1, 8), c.write(4, 1, b"c"), c.alloc(5, 4096))
    equal(codes(got), {3: 0, 4: 0, 5: 8}, "those before it")
    equal(got[3].data, b"a" * 8, "read before the write")
    equal(codes(c.outcomes(1, c.data)), {6: 0}, "the write")
    equal(c.run(c.read(7, 1, 8))[7].data, b"b" * 8, "written after the part")
    # What failed is not waited for, and no circle holds anybody.
    c.send(c.alloc(10, 8, orders=[5, 12]), c.alloc(11, 8, orders=[11]))
    c.send(c.alloc(12, 8, waits=[10]))
    got = c.outcomes(3)
    equal(
        reasons(got), {10: "", 11: "BAD_VALUE", 12: "CYCLE"}, "in a circle"
    )
    c.close()
    worker.stop()


def case_later_things_hold_nobody():
    worker = Worker()
    c = Session(worker)
    c.run(c.alloc(1, 8), c.alloc(2, 8))
    copy = W.Copy(to=2)
    setattr(copy, "from", 5)
    # The copy waits for the read, so the read is not put behind the copy.
    got = c.run(c.entry(4, copy=copy), c.read(5, 2, 8))
    equal(codes(got), {4: 5, 5: 0}, "a copy of what is no buffer")
    c.close()
    worker.stop()


def case_cancel():
    worker = Worker()
    c = Session(worker)
    load = loaded(c, SPIN, format=HLO_TEXT)
    c.run(c.alloc(10, 4), c.alloc(11, 4), c.write(12, 10, bytes(4)))
    c.send(
        execute(c, 13, load, [10], [11], started=True),
        execute(c, 14, load, [10], [11], waits=[13]),
        c.alloc(15, 4, orders=[13]),
    )
    (begun,) = c.control.take(1)
    equal((begun.op, begun.started), (13, True), "it has begun")
    equal(c.beat().cores[0].queued, 1, "queued on the core")
    c.send(c.entry(0, cancel=W.Cancel(op=13)))
    got = c.outcomes(3)
    equal(codes(got), {13: 1, 14: 1, 15: 0}, "codes")
    equal(got[14].status.root, 13, "root")
    # What waits for something that never comes can be cancelled too.
    c.send(c.alloc(20, 4, waits=[30]), c.entry(0, cancel=W.Cancel(op=20)))
    equal(codes(c.outcomes(1)), {20: 1}, "cancelled while it waited")
    c.close()
    worker.stop()


def case_begin_and_end_in_one():
    worker = Worker()
    plain, joins = Session(worker), Session(worker, joins=True)

    def copy(c, op, to, **more):
        body = W.Copy(to=to)
        setattr(body, "from", 1)
        return c.entry(op, copy=body, **more)

    for c in (plain, joins):
        c.run(c.alloc(1, 8), c.alloc(2, 8))
    plain.send(copy(plain, 3, 2, started=True))
    begun, ended = plain.control.take(2)
    equal((begun.op, begun.started), (3, True), "it has begun")
    equal(begun.HasField("status"), False, "and is not done")
    equal((ended.op, ended.started), (3, False), "it has ended")
    joins.send(copy(joins, 3, 2, started=True), copy(joins, 4, 2))
    both, ended = joins.control.take(2)
    equal((both.op, both.started), (3, True), "it has begun")
    equal(both.HasField("status"), True, "and has ended")
    equal((ended.op, ended.started), (4, False), "it was not asked for")
    # What fails before it begins does not begin.
    joins.send(copy(joins, 5, 3, started=True))
    (failed,) = joins.control.take(1)
    equal((failed.op, failed.started), (5, False), "it has not begun")
    # What takes long is told of when it begins.
    load = loaded(joins, SPIN, first=10, format=HLO_TEXT)
    joins.run(joins.alloc(20, 4), joins.alloc(21, 4))
    joins.send(execute(joins, 22, load, [20], [21], started=True))
    (begun,) = joins.control.take(1)
    equal((begun.op, begun.started), (22, True), "it runs")
    equal(begun.HasField("status"), False, "and goes on")
    joins.send(joins.entry(0, cancel=W.Cancel(op=22)))
    (ended,) = joins.control.take(1)
    equal((ended.op, ended.started), (22, False), "it was stopped")
    for c in (plain, joins):
        c.close()
    worker.stop()


def case_memory_and_reset():
    worker = Worker("--hbm", "1KiB")
    c = Session(worker)
    c.run(c.alloc(1, 1000))
    beat = c.beat()
    equal(beat.cores[0].memory_used, 1000, "used")
    equal(beat.incarnation, c.hello.incarnation, "incarnation")
    c.send(c.alloc(2, 8, waits=[9]), c.entry(3, reset=W.Reset()))
    got = c.outcomes(2)
    equal(codes(got), {2: 1, 3: 0}, "reset")
    equal(c.beat().cores[0].memory_used, 0, "after reset")
    got = c.run(c.alloc(4, 1000), c.read(5, 1, 8), c.alloc(1, 8))
    equal(
        codes(got), {4: 0, 5: 5, 1: 3}, "room, a handle of before, its number"
    )
    got = c.run(c.entry(6, deallocate=W.Deallocate(buffer=4)))
    equal(codes(got), {6: 0}, "free")
    equal(c.beat().cores[0].memory_used, 0, "freed")
    c.close()
    worker.stop()


def case_session_ends_with_its_control_stream():
    worker = Worker("--hbm", "1KiB")
    c, other = Session(worker), Session(worker)
    c.run(c.alloc(1, 1000))
    c.control.call.cancel()
    equal(c.data.ended(), OK, "data stream")
    until(lambda: other.beat().cores[0].memory_used == 0, "memory stays")
    try:
        c.beat()
        raise Failed("the session lives")
    except grpc.RpcError as error:
        equal(error.code(), grpc.StatusCode.NOT_FOUND, "heartbeat")
    other.close()
    worker.stop()


def case_huge_messages():
    """100 MB of garbage take no more memory than they must, and harm nobody."""
    worker = Worker()
    c = Session(worker)
    before = most_memory(worker)
    c.data.sending.put(b"\xff" * (100 << 20))
    equal(c.data.ended(), grpc.StatusCode.INVALID_ARGUMENT, "garbage")
    equal(most_memory(worker) - before < 300 << 20, True, "memory")
    equal(codes(c.run(c.alloc(1, 8))), {1: 0}, "the session lives")
    c.control.half_close()
    equal(c.control.ended(), OK, "control stream")
    worker.stop()


def case_strange_streams():
    worker = Worker()
    c = Session(worker)
    wrong = [
        W.SessionRequest(session=c.id ^ 1, role=W.DATA).SerializeToString(),
        W.SessionRequest(entries=[c.alloc(1, 8)]).SerializeToString(),
        b"\xff\xff",
        W.SessionRequest(session=c.id).SerializeToString() + b"\x1a\x02\x08",
    ]
    codes = (
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.INVALID_ARGUMENT,
    )
    for message, code in zip(wrong, codes):
        stream = open_raw(c, message)
        equal(stream.ended(), code, repr(message))
    c.control.half_close()
    worker.stop()


def open_raw(c, message):
    stream = Stream(
        c.channel, "/pod.worker.v1.PodWorker/Session", lambda m: [m]
    )
    stream.sending.put(message)
    return stream


# ------------------------------------------------------------- between workers


def next_byte(client):
    """What the worker sends it next: b"" if that has ended; None: nothing yet."""
    try:
        return client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    except ConnectionResetError:
        return b""


def case_no_descriptor_left():
    worker = Worker()
    folder = f"/proc/{worker.process.pid}/fd"
    address = worker.address.rsplit(":", 1)
    hard = resource.prlimit(worker.process.pid, resource.RLIMIT_NOFILE)[1]
    most = max(map(int, os.listdir(folder))) + 5
    resource.prlimit(worker.process.pid, resource.RLIMIT_NOFILE, (most, hard))
    clients = [
        socket.create_connection((address[0], int(address[1])))
        for _ in range(most + 10)
    ]
    until(
        lambda: None not in map(next_byte, clients),
        "each is greeted or turned away",
    )
    equal(b"" in map(next_byte, clients), True, "somebody is turned away")
    # The one with which it does that is there again a moment later.
    until(lambda: len(os.listdir(folder)) == most, "all are in use")
    for client in clients:
        client.close()
    # Who comes before is turned away, too.
    until(lambda: len(os.listdir(folder)) < most, "a descriptor is free")
    c = Session(worker)
    got = c.run(c.entry(1, allocate=W.Allocate(core=0, raw_bytes=8)))
    equal(codes(got), {1: 0}, "allocate")
    c.close()
    worker.stop()


def case_copy_from_peer():
    workers = [Worker("--hbm", "64MiB") for _ in range(2)]
    a, b = Session(workers[0]), Session(workers[1])
    size = (17 << 20) + 5
    data = bytes(range(251)) * (size // 251 + 1)
    piece = 1 << 20
    a.run(a.alloc(1, size))
    writes = [
        a.write(2 + i, 1, data[at : min(at + piece, size)], at)
        for i, at in enumerate(range(0, size, piece))
    ]
    a.run(*writes, stream=a.data)
    b.run(b.alloc(1, size))

    def copy(op, started=False, **more):
        body = W.CopyFromPeer(
            address=workers[0].address, peer_session=a.id, to=1, **more
        )
        return b.entry(op, started=started, copy_from_peer=body)

    b.send(copy(2, started=True, **{"from": 1}))
    begun, ended = b.control.take(2)
    equal((begun.op, begun.started), (2, True), "it has begun")
    equal((ended.op, ended.started), (2, False), "it has ended")
    equal(codes({2: ended}), {2: 0}, f"copy {ended}")
    reads = [
        b.read(100 + i, 1, min(piece, size - at), at)
        for i, at in enumerate(range(0, size, piece))
    ]
    got = b.run(*reads, stream=b.data)
    back = b"".join(got[100 + i].data for i in range(len(reads)))
    equal(back == data[:size], True, "bytes")
    # What cannot be had.
    got = b.run(copy(3, **{"from": 99}))
    equal(codes(got), {3: 5}, "no such buffer")
    a.run(a.alloc(90, 10))
    got = b.run(copy(4, **{"from": 90}))
    equal(codes(got), {4: 11}, "a smaller buffer")
    # A copy from one that does not answer can be cancelled.
    workers[0].signal(signal.SIGSTOP)
    b.send(copy(6, started=True, **{"from": 1}))
    (begun,) = b.control.take(1)
    equal((begun.op, begun.started), (6, True), "it has begun")
    b.send(b.entry(0, cancel=W.Cancel(op=6)))
    equal(reasons(b.outcomes(1)), {6: "CANCEL_REQUESTED"}, "it was cancelled")
    workers[0].signal(signal.SIGCONT)
    equal(codes(b.run(copy(7, **{"from": 1}))), {7: 0}, "the next one")
    workers[0].kill()
    got = b.run(copy(5, **{"from": 1}))
    equal(codes(got), {5: 14}, "nobody there")
    b.close()
    workers[1].stop()


def gang_entry(sessions, workers, op, gang, host, loads, inputs, outputs):
    """The part of one host in a gang with one replica a host."""
    launch = W.Launch(
        load=loads, inputs=inputs, outputs=outputs, replica=host
    )
    execute = W.Execute(
        launches=[launch],
        members=[W.Member(host=h, core=h) for h in range(len(workers))],
        peers=[
            W.Peer(host=h, address=w.address, session=s.id)
            for h, (w, s) in enumerate(zip(workers, sessions))
        ],
        gang=gang,
    )
    return sessions[host].entry(op, execute=execute)


def case_gang_over_three_workers():
    workers = [Worker() for _ in range(3)]
    sessions = [Session(worker) for worker in workers]
    count = 1 << 19  # parts of 2 MiB: more than a piece
    shape = f32(count)
    program = sum_over_replicas(shape).SerializeToString()
    for i, c in enumerate(sessions):
        loaded(c, program, replicas=3)
        c.run(c.alloc(10, 4 * count), c.alloc(11, 4 * count))
        value = struct.pack("<f", i + 1) * (count // 2)
        half = 2 * count
        got = c.run(
            c.write(12, 10, value),
            c.write(13, 10, value, half),
            stream=c.data,
        )
        equal(set(codes(got).values()), {0}, "set up")
    for round in range(5):
        for i, c in reversed(list(enumerate(sessions))):
            entry = gang_entry(
                sessions, workers, 20 + round, 70 + round, i, 2, [10], [11]
            )
            c.send(entry)
        for c in sessions:
            got = c.outcomes(1)
            equal(codes(got), {20 + round: 0}, f"gang {got}")
    for c in sessions:
        got = c.run(c.read(60, 11, 8), c.read(61, 11, 8, 4 * count - 8))
        six = struct.pack("<2f", 6, 6)
        equal([got[60].data, got[61].data], [six, six], "sum")
    # One replica fails before it begins: the others hear of it.
    for i, c in enumerate(sessions):
        entry = gang_entry(
            sessions, workers, 90, 90, i, 2, [10], [11 if i else 80]
        )
        c.send(c.alloc(80, 1 << 50), entry) if i == 0 else c.send(entry)
    got = sessions[0].outcomes(2)
    equal(got[90].status.root, 80, "root")
    for c in sessions[1:]:
        got = c.outcomes(1)
        equal(reasons(got), {90: "GANG_ABORTED"}, "the others")
    # A worker dies: the others end, soon.
    for i, c in list(enumerate(sessions))[1:]:
        c.send(gang_entry(sessions, workers, 95, 95, i, 2, [10], [11]))
    workers[0].kill()
    for c in sessions[1:]:
        equal(reasons(c.outcomes(1)), {95: "GANG_ABORTED"}, "a dead worker")
    for c, worker in list(zip(sessions, workers))[1:]:
        c.close()
        worker.stop()


def exchange(c, gang, host):
    stream = Stream(
        c.channel, "/pod.worker.v1.PodWorker/Exchange", lambda m: [m]
    )
    first = W.ExchangeRequest(gang=gang, from_host=host)
    stream.sending.put(first.SerializeToString())
    return stream


def case_streams_of_gangs():
    workers = [Worker() for _ in range(2)]
    sessions = [Session(worker) for worker in workers]
    program = sum_over_replicas(f32(2)).SerializeToString()
    for c in sessions:
        loaded(c, program, replicas=2)
        c.run(c.alloc(10, 8), c.alloc(11, 8))

    def send(op, *hosts):
        for h in hosts:
            args = sessions, workers, op, op, h, 2, [10], [11]
            sessions[h].send(gang_entry(*args))

    def works(op):
        send(op, 0, 1)
        for c in sessions:
            equal(codes(c.outcomes(1)), {op: 0}, f"gang {op}")

    c = sessions[0]
    works(20)
    late = exchange(c, 20, 1)
    equal(late.ended(), OK, "a stream that comes after the gang has ended")
    # One that waits for a gang which ends without having begun.
    waiting = exchange(c, 22, 1)
    args = sessions, workers, 22, 22, 0, 2, [10], [80]
    c.send(c.alloc(80, 1 << 50), gang_entry(*args))
    equal(set(codes(c.outcomes(2))), {22, 80}, "a gang that cannot begin")
    equal(waiting.ended(), OK, "a stream that waited")
    # A worker has one stream in a gang.
    send(30, 0)
    streams = [exchange(c, 30, 1), exchange(c, 30, 1)]
    until(lambda: any(s.call.done() for s in streams), "both streams go on")
    streams.sort(key=lambda s: s.call.done())
    equal(streams[1].ended(), grpc.StatusCode.ALREADY_EXISTS, "the second")
    stranger = exchange(c, 30, 2)
    equal(stranger.ended(), grpc.StatusCode.ALREADY_EXISTS, "a stranger")
    equal(streams[0].call.done(), False, "the first goes on")
    streams[0].call.cancel()
    equal(reasons(c.outcomes(1)), {30: "GANG_ABORTED"}, "its stream broke off")
    works(31)
    for c, worker in zip(sessions, workers):
        c.close()
        worker.stop()


if __name__ == "__main__":
    run_case(globals())
