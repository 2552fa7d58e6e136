# SPDX-License-Identifier: Apache-2.0
"""Writes seeds for the fuzzers of messages, from the protocol's own files.

usage: wire_seeds.py fuzz_worker_plain|fuzz_worker_pod|fuzz_driver_answers FOLDER
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../wire"))
from worker_client import S, W, add_program, f32, sum_over_replicas  # noqa: E402

fuzzer, folder = sys.argv[1:]
HLO_TEXT, ADD = 0, b"""HloModule m
ENTRY e { a = s32[2] parameter(0) ROOT c = s32[2] add(a, a) }
"""
SPIN = b"""HloModule m
c { i = s32[2] parameter(0) ROOT p = pred[] constant(true) }
b { ROOT i = s32[2] parameter(0) }
ENTRY e { a = s32[2] parameter(0) ROOT w = s32[2] while(a), condition=c, body=b }
"""
SUM = b"""HloModule m
p { x = s32[] parameter(0) y = s32[] parameter(1) ROOT z = s32[] add(x, y) }
ENTRY e { a = s32[2] parameter(0)
  ROOT r = s32[2] all-reduce(a), replica_groups={}, to_apply=p }
"""
SHAPE = bytes.fromhex("10041a01022a030a0100")  # s32[2]{0}
PROGRAM_SHAPE = b"\x0a\x0a" + SHAPE + b"\x12\x0a" + SHAPE
E = S.StreamRequest.Entry


def write(name, data):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


# ------------------------------------------------------------ the plain protocol

def plain(number, **what):
    return E(operation_id=1 << 44 | number, **what)


def handle(number):
    return 1 << 44 | number


def plain_seeds():
    raw = S.AllocateRequest(core_id=0, region=1, num_bytes=8)
    add = add_program(f32(2)).SerializeToString()
    total = sum_over_replicas(f32(2)).SerializeToString()
    entries = {
        "alloc": [plain(1, alloc=raw)],
        "tuple": [plain(1, alloc=raw), plain(2, alloc_tuple=S.AllocateTupleRequest(
            core_id=0, region=1, children=[handle(1)])),
            plain(3, dealloc=S.DeallocateRequest(handle=handle(2)))],
        "moves": [
            plain(1, alloc=raw), plain(2, alloc=raw),
            plain(3, wait_for_id=[handle(1)], transfer_to=S.TransferToDeviceRequest(
                target_handle=handle(1), data=bytes(8))),
            plain(4, transfer_from_to=S.TransferFromDeviceToDeviceRequest(
                source_handle=handle(1), target_handle=handle(2))),
            plain(5, transfer_from=S.TransferFromDeviceRequest(
                source_handle=handle(2)))],
        "forward": [plain(2, wait_for_id=[handle(1)], alloc=raw),
                    plain(1, alloc=raw)],
        "program": [
            plain(1, compile=S.CompileRequest(hlo_program=add,
                                              num_replicas=1)),
            plain(2, load=S.LoadProgramRequest(
                core_id=0, compiled_program_handle=handle(1))),
            plain(3, alloc=raw), plain(4, alloc=raw),
            plain(5, execute=S.ExecuteRequest(
                loaded_program_handle=handle(2), input_handle=[handle(3), handle(4)],
                output_handle=[handle(4)])),
            plain(6, unload=S.UnloadProgramRequest(
                loaded_program_handle=handle(2))),
            plain(7, transfer_from=S.TransferFromDeviceRequest(
                source_handle=handle(4)))],
        # Two replicas, each an execution of its own.
        "gang": [
            plain(1, compile=S.CompileRequest(hlo_program=total,
                                              num_replicas=2)),
            *(entry for core in (0, 1) for entry in (
                plain(10 + core, load=S.LoadProgramRequest(
                    core_id=core, compiled_program_handle=handle(1))),
                plain(20 + core, alloc=S.AllocateRequest(
                    core_id=core, region=1, num_bytes=8)),
                plain(30 + core, execute=S.ExecuteRequest(
                    loaded_program_handle=handle(10 + core),
                    input_handle=[handle(20 + core)],
                    output_handle=[handle(20 + core)],
                    # replica_count 2, computation_count 1, devices {[0, 1]}
                    device_assignment=bytes.fromhex(
                        "080210011a040a020001")))))],
    }
    for name, list_ in entries.items():
        write(name, S.StreamRequest(entry=list_).SerializeToString())


# ------------------------------------------------------------------- our own one

def session(*entries, **more):
    return W.SessionRequest(entries=entries, **more).SerializeToString()


def pod_program(text, replicas=1, launches=None, **execute):
    allocate = W.Allocate(core=0, shape=SHAPE)
    launches = launches or [W.Launch(load=2, inputs=[3], outputs=[4])]
    return session(
        W.Entry(op=1, compile=W.Compile(format=HLO_TEXT, program=text,
                                        replicas=replicas)),
        W.Entry(op=2, waits=[1], load=W.Load(core=0, program=1)),
        W.Entry(op=3, allocate=allocate), W.Entry(op=4, allocate=allocate),
        W.Entry(op=5, waits=[2], want_started=True,
                execute=W.Execute(launches=launches, **execute)),
        W.Entry(op=6, orders=[5], read=W.Read(buffer=4, offset=0, count=8)),
        W.Entry(op=7, orders=[6], unload=W.Unload(load=2)),
        W.Entry(op=8, orders=[7], free_program=W.FreeProgram(program=1)))


def pod_seeds():
    raw = W.Allocate(core=1, raw_bytes=8)
    moves = session(
        W.Entry(op=1, allocate=raw), W.Entry(op=2, allocate=raw),
        W.Entry(op=3, write=W.Write(buffer=1, offset=2, data=b"abcd")),
        W.Entry(op=4, copy=W.Copy(**{"from": 1, "to": 2})),
        W.Entry(op=5, read=W.Read(buffer=2, offset=0, count=8)),
        W.Entry(op=6, allocate_tuple=W.AllocateTuple(core=1, children=[1, 2])),
        W.Entry(op=7, deallocate=W.Deallocate(buffer=6)), forget_below=3)
    fetch = session(
        W.Entry(op=1, allocate=raw),
        W.Entry(op=2, copy_from_peer=W.CopyFromPeer(
            address="a:1", peer_session=5, to=1, **{"from": 3})))
    gang = pod_program(SUM, 2, gang=9, members=[
        W.Member(host=0, core=0), W.Member(host=1, core=5)], peers=[
            W.Peer(host=1, address="a:1", session=7)])
    steps = W.ExchangeRequest(gang=9, from_host=1, steps=[
        W.ExchangeStep(replica=1, kind=W.ExchangeStep.ARRIVED),
        W.ExchangeStep(replica=1, kind=W.ExchangeStep.PART, group=[0, 1],
                       sequence=0, total_bytes=8, offset=0, data=bytes(8)),
        W.ExchangeStep(replica=1, kind=W.ExchangeStep.LEFT)])
    both = pod_program(SUM, 2, [
        W.Launch(load=2, inputs=[3], outputs=[4], replica=replica)
        for replica in (0, 1)])
    seeds = {
        "moves": b"\0" + moves, "moves_data": b"\1" + moves,
        "program": b"\0" + pod_program(ADD),
        "endless": b"\0" + pod_program(SPIN) + session(
            W.Entry(op=9, cancel=W.Cancel(op=5))),
        "both": b"\0" + both,
        "reset": b"\0" + moves + session(W.Entry(op=8, reset=W.Reset())),
        "fetch": b"\4" + fetch + filled(
            W.FetchResponse(data=bytes(4)).SerializeToString(), len(fetch)),
        "fetched": b"\7" + moves + filled(W.FetchRequest(
            buffer=2, count=8).SerializeToString(), len(moves)),
        "exchange": b"\2" + steps.SerializeToString(),
        # Halves of one size: an unknown field fills the second.
        "gang": b"\6" + gang + filled(steps.SerializeToString(), len(gang)),
    }
    for name, data in seeds.items():
        write(name, data)


def filled(data, size):
    """With a field that nobody knows, up to that size."""
    left = size - len(data)
    if left < 4:
        return data
    return data + b"\xfa\x07" + bytes([left - 4 & 127 | 128, left - 4 >> 7]) \
        + bytes(left - 4)


# ------------------------------------------------------------ what podd is told

def answer_seeds():
    good = W.SessionResponse(outcomes=[
        W.Outcome(op=1), W.Outcome(op=2, started=True), W.Outcome(op=2),
        W.Outcome(op=3, data=bytes(8)),
        W.Outcome(op=4, program_shape=PROGRAM_SHAPE),
        W.Outcome(op=5, status=W.Status(code=5, reason="UNKNOWN_HANDLE",
                                        message="op-4", root=4, line=1)),
        *(W.Outcome(op=op) for op in range(6, 10))]).SerializeToString()
    hello = W.HelloResponse(
        version=1, session=1 << 63, incarnation=1, worker="w", platform="p",
        platform_version="1", accepts=3, host_id=0, host_count=1,
        chips=[W.Chip(x=1)], cores=[W.Core(memory_bytes=9)],
        chunk_bytes=8 << 20).SerializeToString()
    beat = W.HeartbeatResponse(
        incarnation=1, cores=[W.CoreLoad(memory_used=1, queued=2, running=6)],
        open_operations=3).SerializeToString()
    response = S.StreamResponse()
    for number in range(1, 9):
        entry = response.entry.add(operation_id=1 << 44 | number)
        entry.status.code = 5 if number == 7 else 0
        if number == 3:
            entry.transfer_from.data = bytes(8)
        if number == 4:
            entry.compile.metadata.program_shape = PROGRAM_SHAPE
    system = S.QuerySystemInfoResponse()
    info = system.system_info
    chip = info.tpu_chip.add(host_id=0)
    chip.chip_coord.x = 0
    chip.core.add(id=0, hbm_bytes_available=9)
    info.local_core.add(id=0)
    for name, data in {
            "outcomes": b"\0" + good, "outcomes_data": b"\x08" + good,
            "outcomes_apart": b"\x10" + good,
            "hello": b"\2" + hello, "beat": b"\4" + beat,
            "plain": b"\1" + response.SerializePartialToString(),
            "plain_data": b"\x09" + response.SerializePartialToString(),
            "plain_apart": b"\x11" + response.SerializePartialToString(),
            "plain_info": b"\3" + system.SerializePartialToString()}.items():
        write(name, data)


os.makedirs(folder, exist_ok=True)
{"fuzz_worker_plain": plain_seeds, "fuzz_worker_pod": pod_seeds,
 "fuzz_driver_answers": answer_seeds}[fuzzer]()
