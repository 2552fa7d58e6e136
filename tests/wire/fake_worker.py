#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A worker on another gRPC implementation, which may misbehave on purpose.

usage: fake_worker.py FOLDER-OF-PROTOS MODE [ADDRESS [CERT KEY [CLIENT-CA]]]

It keeps buffers as bytes, compiles everything to (f32[2]) -> f32[2], and
executes by copying the first input to the first output. Prints "listening on
PORT". SIGTERM ends it. With certificates it speaks TLS only.
"""
import ctypes
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent import futures

import grpc

ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: as the test ends

protos, mode = sys.argv[1:3]
address = sys.argv[3] if len(sys.argv) > 3 else "127.0.0.1:0"

with tempfile.TemporaryDirectory() as folder:
    files = ["pod_worker.proto", "tpu_driver.proto", "tpu_service.proto"]
    subprocess.run(["protoc", f"--proto_path={protos}",
                    f"--python_out={folder}", *files], check=True)
    sys.path.insert(0, folder)
    pw = importlib.import_module("pod_worker_pb2")
    tpu = importlib.import_module("tpu_service_pb2")

# xla.ProgramShapeProto of (f32[2]) -> f32[2]: element type 11, dimensions [2],
# layout {0}.
SHAPE = bytes.fromhex("100b1a01022a030a0100")
PROGRAM = b"\x0a" + bytes([len(SHAPE)]) + SHAPE + b"\x12" + \
    bytes([len(SHAPE)]) + SHAPE

lock = threading.Lock()
sessions = {}
counts = {"hello": 0}
GOOD, NOT_FOUND, CANCELLED = 0, 5, 1


class Session:
    def __init__(self):
        self.objects = {}
        self.failed = set()
        self.joins = False


def status_of(outcome, code, reason="", message=""):
    outcome.status.code = code
    outcome.status.reason = reason
    outcome.status.message = message


def shape_bytes(data):
    """Of f32[n] as podd serializes it: enough for the tests."""
    at, count = 0, 1
    while at < len(data):
        tag, at = data[at], at + 1
        if tag & 7 == 0:
            while data[at] & 128:
                at += 1
            at += 1
        else:
            size, at = data[at], at + 1
            if tag == 0x1a:
                value, shift = 0, 0
                for byte in data[at:at + size]:
                    value |= (byte & 127) << shift
                    shift += 7
                    if byte < 128:
                        count, value, shift = count * value, 0, 0
            at += size
    return 4 * count


def perform(session, entry, outcome):
    kind = entry.WhichOneof("what")
    what = getattr(entry, kind)
    objects = session.objects
    if any(w in session.failed for w in entry.waits):
        outcome.status.root = entry.waits[0]
        return status_of(outcome, 9, "WORKER_ERROR", "waited for a failure")
    if kind == "allocate":
        size = what.raw_bytes if what.WhichOneof("size") == "raw_bytes" \
            else shape_bytes(what.shape)
        objects[entry.op] = bytearray(size)
    elif kind == "allocate_tuple":
        objects[entry.op] = [objects[c] for c in what.children]
    elif kind in ("deallocate", "free_program", "unload"):
        del objects[{"deallocate": lambda: what.buffer,
                     "free_program": lambda: what.program,
                     "unload": lambda: what.load}[kind]()]
    elif kind == "write":
        objects[what.buffer][what.offset:what.offset + len(what.data)] = \
            what.data
    elif kind == "read":
        outcome.data = bytes(
            objects[what.buffer][what.offset:what.offset + what.count])
        if mode == "wrong-length":
            outcome.data = outcome.data[:-1]
    elif kind == "copy":
        objects[what.to][:] = objects[getattr(what, "from")]
    elif kind == "copy_from_peer":
        return status_of(outcome, 14, "HOST_UNAVAILABLE", "no way to the peer")
    elif kind == "compile":
        objects[entry.op] = bytes(what.program)
        outcome.program_shape = PROGRAM
    elif kind == "load":
        objects[entry.op] = objects[what.program]
    elif kind == "execute":
        for launch in what.launches:
            objects[launch.load]
            objects[launch.outputs[0]][:] = objects[launch.inputs[0]]
    elif kind == "reset":
        objects.clear()
    return status_of(outcome, GOOD)


def answers(session, entry):
    """The outcomes of an entry."""
    if entry.WhichOneof("what") == "cancel":
        return
    joined = mode == "joins" and session.joins and entry.want_started
    if entry.want_started and not joined:
        yield pw.Outcome(op=entry.op, started=True)
    outcome = pw.Outcome(op=entry.op, started=joined)
    try:
        perform(session, entry, outcome)
    except KeyError as error:
        session.failed.add(entry.op)
        status_of(outcome, NOT_FOUND, "UNKNOWN_HANDLE", f"no handle {error}")
    if mode == "bad-text":
        status_of(outcome, 3, "NO SUCH REASON", "bell \x07 and \u202e")
    yield outcome
    if mode == "duplicates":
        yield outcome
        yield pw.Outcome(op=entry.op, started=True)
    if mode == "unknown-ids":
        yield pw.Outcome(op=entry.op + 1000000)
        yield pw.Outcome(op=0)


def replies(session, request):
    for entry in request.entries:
        if mode in ("silence", "frozen"):
            continue
        if mode == "early-end":
            return
        if mode == "garbage":
            yield b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"
        elif mode == "garbage-inside":
            yield b"\x0a\x03\x08\xff\xff"
        elif mode == "huge":
            yield pw.SessionResponse(outcomes=[pw.Outcome(
                op=entry.op, data=bytes(100 << 20))]).SerializeToString()
        with lock:
            out = list(answers(session, entry))
        yield pw.SessionResponse(outcomes=out).SerializeToString()


def hello(request, context):
    if mode == "no-pod":
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "no such service")
    if mode == "not-ready":
        time.sleep(60)
    with lock:
        counts["hello"] += 1
        number = counts["hello"]
        sessions[number] = Session()
    if mode == "empty-hello":
        return b""
    if mode == "garbage-hello":
        return b"\xff\xff\xff"
    return pw.HelloResponse(
        version=2 if mode == "version" else 1, session=number,
        incarnation=77, worker="fake", platform="fake", platform_version="1",
        accepts=15, host_id=0, host_count=1,
        chips=[pw.Chip(x=0, y=0, z=0, host_id=0)],
        cores=[pw.Core(worker_core=i, chip=0, memory_bytes=1 << 30)
               for i in range(2)],
        chunk_bytes=1 << 10 if mode == "small-chunks" else 8 << 20,
    ).SerializeToString()


def session_stream(requests, context):
    session = None
    for data in requests:
        request = pw.SessionRequest.FromString(data)
        if session is None:
            session = sessions[request.session]
            session.joins = request.joins
        yield from replies(session, request)
        if mode == "early-end" and request.entries:
            return
    return


def heartbeat(data, context):
    if mode == "frozen":
        time.sleep(60)
    request = pw.HeartbeatRequest.FromString(data)
    del request
    return pw.HeartbeatResponse(
        incarnation=78 if mode == "restarted" else 77).SerializeToString()


# ------------------------------------------------ the plain TPU driver protocol

# Modes plain and plain-slice: a stand-alone system of one chip with two cores,
# or host 1 of a slice of two, whose cores have the numbers 2 and 3. Mode
# plain-slice-0 is host 0 of that. Mode plain-held answers nothing until three
# operations have come.
SLICE = [(0, [0, 1]), (1, [2, 3])]
CORES_OF_CHIP = {"plain": [(0, [0, 1])], "plain-slice": SLICE,
                 "plain-slice-0": SLICE}
# DeviceAssignmentProto: replica_count 2, computation_count 1, and the devices
# {[2, 3]} or {[0, 2]}.
ASSIGNMENTS = ("080210011a040a020203", "080210011a040a020002")
HELD = 3


def plain_open(request, context):
    with lock:
        counts["hello"] += 1
        number = 1000000 if mode.startswith("plain-slice") else 5
        number += counts["hello"]
        sessions[number] = Session()
    return tpu.OpenResponse(
        client_id=(1 << 20) if mode == "plain-big-client" else number
    ).SerializeToString()


def plain_close(data, context):
    request = tpu.CloseRequest.FromString(data)
    with lock:
        del sessions[request.client_id]
    return b""


def plain_info(data, context):
    response = tpu.QuerySystemInfoResponse()
    info = response.system_info
    for x, (host, cores) in enumerate(CORES_OF_CHIP.get(mode,
                                                        [(0, [0, 1])])):
        chip = info.tpu_chip.add(host_id=host)
        chip.chip_coord.x, chip.chip_coord.y, chip.chip_coord.z = x, 0, 0
        for core in cores:
            chip.core.add(id=core, hbm_bytes_available=1 << (
                24 if mode == "plain" else 20))
    info.host_id = 0 if mode.endswith("-0") else len(info.tpu_chip) - 1
    info.host_count = len(info.tpu_chip)
    info.chip_count = len(info.tpu_chip)
    info.core_count = 2 * len(info.tpu_chip)
    info.cpu.num_cpu_cores = 1
    info.cpu.cpu_load_average_1min = 0
    info.cpu.ram_bytes_total = info.cpu.ram_bytes_available = 1
    for core in info.tpu_chip[info.host_id].core:
        info.local_core.add(id=core.id)
    return response.SerializeToString()


def plain_perform(session, entry, answer):
    kind = entry.WhichOneof("request")
    what = getattr(entry, kind)
    objects = session.objects
    assert not any(w in session.failed for w in entry.wait_for_id)
    if kind == "alloc":
        objects[entry.operation_id] = bytearray(
            what.num_bytes if what.WhichOneof("size") == "num_bytes"
            else shape_bytes(what.shape))
    elif kind == "alloc_tuple":
        objects[entry.operation_id] = [objects[c] for c in what.children]
    elif kind == "dealloc":
        del objects[what.handle]
    elif kind == "transfer_to":
        assert len(objects[what.target_handle]) == len(what.data)
        objects[what.target_handle][:] = what.data
    elif kind == "transfer_from":
        answer.transfer_from.data = bytes(objects[what.source_handle])
    elif kind == "transfer_from_to":
        objects[what.target_handle][:] = objects[what.source_handle]
    elif kind == "compile":
        # The first field of an HloProto is the module.
        assert what.hlo_program[:1] == b"\x0a" and what.num_replicas > 0
        objects[entry.operation_id] = what.hlo_program
        answer.compile.metadata.program_shape = PROGRAM
    elif kind == "load":
        objects[entry.operation_id] = objects[what.compiled_program_handle]
    elif kind == "unload":
        del objects[what.loaded_program_handle]
    elif kind == "execute":
        objects[what.loaded_program_handle]
        if len(what.device_assignment) > 8:
            assert what.device_assignment.hex() in ASSIGNMENTS
        objects[what.output_handle[0]][:] = objects[what.input_handle[0]]


def plain_stream(requests, context):
    held, count = [], 0
    for data in requests:
        response = tpu.StreamResponse()
        for entry in tpu.StreamRequest.FromString(data).entry:
            number = entry.operation_id
            session = sessions[(number & ((1 << 64) - 1)) >> 44]
            answer = response.entry.add(operation_id=number)
            answer.status.code = 0
            try:
                with lock:
                    plain_perform(session, entry, answer)
            except (KeyError, AssertionError) as error:
                session.failed.add(number)
                answer.status.code = NOT_FOUND
                answer.status.message = repr(error)
        held.append(response.SerializeToString())
        count += len(response.entry)
        if mode == "plain-held" and count < HELD:
            continue
        yield from held
        held.clear()


class Handlers(grpc.GenericRpcHandler):
    def service(self, details):
        if mode.startswith("plain"):
            unary = grpc.unary_unary_rpc_method_handler
            return {
                "/tpu_driver.CloudTpuDriver/Open": unary(plain_open),
                "/tpu_driver.CloudTpuDriver/Close": unary(plain_close),
                "/tpu_driver.CloudTpuDriver/QuerySystemInfo":
                    unary(plain_info),
                "/tpu_driver.CloudTpuDriver/StreamExecute":
                    grpc.stream_stream_rpc_method_handler(plain_stream),
            }.get(details.method)
        return {
            "/pod.worker.v1.PodWorker/Hello":
                grpc.unary_unary_rpc_method_handler(hello),
            "/pod.worker.v1.PodWorker/Session":
                grpc.stream_stream_rpc_method_handler(session_stream),
            "/pod.worker.v1.PodWorker/Heartbeat":
                grpc.unary_unary_rpc_method_handler(heartbeat),
        }.get(details.method)


server = grpc.server(futures.ThreadPoolExecutor(32), options=[
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)])
server.add_generic_rpc_handlers((Handlers(),))


def read(path):
    with open(path, "rb") as file:
        return file.read()


if len(sys.argv) > 5:
    pair = (read(sys.argv[5]), read(sys.argv[4]))
    ca = read(sys.argv[6]) if len(sys.argv) > 6 else None
    port = server.add_secure_port(address, grpc.ssl_server_credentials(
        [pair], root_certificates=ca, require_client_auth=ca is not None))
else:
    port = server.add_insecure_port(address)
server.start()
print("listening on", port, flush=True)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
while True:
    signal.pause()
