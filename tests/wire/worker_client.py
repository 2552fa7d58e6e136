# SPDX-License-Identifier: Apache-2.0
"""A client of podworker on another gRPC implementation, for the tests."""
import queue
import subprocess
import sys
import tempfile
import threading

import grpc
from pod_processes import LIMIT, Failed, Program

GENERATED = tempfile.TemporaryDirectory(prefix="podd-test-")
PROTOS = ["tpu_driver", "tpu_service", "xla", "pod_worker"]
subprocess.run(
    ["protoc", "--proto_path=proto", "--python_out=" + GENERATED.name]
    + [f"proto/{name}.proto" for name in PROTOS],
    check=True,
)
sys.path.insert(0, GENERATED.name)
import pod_worker_pb2 as W  # noqa: E402
import tpu_service_pb2 as S  # noqa: E402
import xla_pb2 as X  # noqa: E402

E = S.StreamRequest.Entry
OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]


def equal(got, want, what=""):
    if got != want:
        raise Failed(f"{what}: got {got!r}, want {want!r}")


class Worker(Program):
    """A podworker process."""

    def __init__(self, *flags):
        if "--listen" not in flags:
            flags += ("--listen", "127.0.0.1:0")
        super().__init__("podworker", "--log-level", "error", *flags)


def raw(message):
    return message


class Stream:
    """One bidirectional stream; answers are collected by a thread."""

    def __init__(self, channel, method, parse):
        self.sending = queue.Queue()
        self.parse = parse
        self.answers = queue.Queue()
        self.messages = 0
        self.code = None
        self.over = False
        self.call = channel.stream_stream(method, raw, raw)(
            iter(self.sending.get, None)
        )
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        try:
            for message in self.call:
                self.messages += 1
                for answer in self.parse(message):
                    self.answers.put(answer)
            self.code = grpc.StatusCode.OK
        except grpc.RpcError as error:
            self.code = error.code()
        self.answers.put(None)

    def half_close(self):
        self.sending.put(None)

    def ended(self):
        """The status of the stream; what came before is dropped."""
        while not self.over:
            self.over = self.answers.get(timeout=LIMIT) is None
        return self.code

    def take(self, count):
        got = [self.answers.get(timeout=LIMIT) for _ in range(count)]
        if None in got:
            raise Failed(f"the stream ended with {self.code}")
        return got


class Client:
    """A client of tpu_driver.CloudTpuDriver."""

    def __init__(self, worker, channel=None):
        self.channel = channel or grpc.insecure_channel(
            worker.address, options=OPTIONS
        )
        reply = S.OpenResponse.FromString(self.unary("Open", b""))
        self.id = reply.client_id
        self.idle = reply.max_idle_time_seconds
        self.last = 0
        self.streams = []

    def unary(self, method, request):
        path = "/tpu_driver.CloudTpuDriver/" + method
        call = self.channel.unary_unary(path, raw, raw)
        return call(request, timeout=LIMIT)

    def info(self):
        reply = self.unary("QuerySystemInfo", b"")
        return S.QuerySystemInfoResponse.FromString(reply).system_info

    def full(self, number):
        value = self.id << 44 | number
        return value - (1 << 64) if value >= 1 << 63 else value

    def number(self):
        self.last += 1
        return self.last

    def stream(self):
        path = "/tpu_driver.CloudTpuDriver/StreamExecute"
        stream = Stream(
            self.channel, path, lambda m: S.StreamResponse.FromString(m).entry
        )
        self.streams.append(stream)
        return stream

    def entry(self, number, waits=(), **body):
        return E(
            operation_id=self.full(number),
            wait_for_id=[self.full(w) for w in waits],
            **body,
        )

    def send(self, stream, *entries):
        request = S.StreamRequest(entry=entries)
        stream.sending.put(request.SerializeToString())

    def answers(self, stream, count):
        """Answers by operation number."""
        got = {}
        for answer in stream.take(count):
            number = answer.operation_id & ((1 << 44) - 1)
            equal(self.full(number), answer.operation_id, "client of answer")
            equal(number in got, False, f"second answer for {number}")
            got[number] = answer
        return got

    def run(self, stream, *entries):
        self.send(stream, *entries)
        return self.answers(stream, len(entries))

    def close(self):
        request = S.CloseRequest(client_id=self.id)
        self.unary("Close", request.SerializeToString())
        for stream in self.streams:
            stream.half_close()
            equal(stream.ended(), grpc.StatusCode.OK, "stream after Close")
        self.channel.close()

    # Requests.
    def alloc(self, number, size, core=0, waits=()):
        body = S.AllocateRequest(core_id=core, region=1, num_bytes=size)
        return self.entry(number, waits, alloc=body)

    def alloc_shape(self, number, shape, core=0, waits=()):
        body = S.AllocateRequest(
            core_id=core, region=1, shape=shape.SerializeToString()
        )
        return self.entry(number, waits, alloc=body)

    def tuple(self, number, children, core=0, waits=()):
        body = S.AllocateTupleRequest(
            core_id=core, region=1, children=[self.full(c) for c in children]
        )
        return self.entry(number, waits, alloc_tuple=body)

    def write(self, number, handle, data, waits=()):
        body = S.TransferToDeviceRequest(
            target_handle=self.full(handle), data=data
        )
        return self.entry(number, waits, transfer_to=body)

    def read(self, number, handle, waits=()):
        body = S.TransferFromDeviceRequest(source_handle=self.full(handle))
        return self.entry(number, waits, transfer_from=body)

    def copy(self, number, source, target, waits=()):
        body = S.TransferFromDeviceToDeviceRequest(
            source_handle=self.full(source), target_handle=self.full(target)
        )
        return self.entry(number, waits, transfer_from_to=body)

    def free(self, number, handle, waits=()):
        body = S.DeallocateRequest(handle=self.full(handle))
        return self.entry(number, waits, dealloc=body)

    def compile(self, number, program, replicas=1, waits=()):
        body = S.CompileRequest(
            hlo_program=program.SerializeToString(), num_replicas=replicas
        )
        return self.entry(number, waits, compile=body)

    def load(self, number, program, core=0, waits=()):
        body = S.LoadProgramRequest(
            core_id=core, compiled_program_handle=self.full(program)
        )
        return self.entry(number, waits, load=body)

    def unload(self, number, loaded, waits=()):
        body = S.UnloadProgramRequest(loaded_program_handle=self.full(loaded))
        return self.entry(number, waits, unload=body)

    def execute(self, number, loaded, inputs, outputs, cores=None, waits=()):
        body = S.ExecuteRequest(
            loaded_program_handle=self.full(loaded),
            input_handle=[self.full(i) for i in inputs],
            output_handle=[self.full(o) for o in outputs],
        )
        if cores is not None:
            device = X.DeviceAssignmentProto.ComputationDevice(
                replica_device_ids=cores
            )
            body.device_assignment = X.DeviceAssignmentProto(
                replica_count=len(cores),
                computation_count=1,
                computation_devices=[device],
            ).SerializeToString()
        return self.entry(number, waits, execute=body)


def f32(*dims):
    layout = X.LayoutProto(minor_to_major=list(reversed(range(len(dims)))))
    return X.ShapeProto(element_type=11, dimensions=dims, layout=layout)


def program(name, parameters, result, instructions):
    """An HloProto with one computation; instructions: (opcode, fields)."""
    made = []
    for index, (opcode, fields) in enumerate(instructions, 1):
        made.append(
            X.HloInstructionProto(
                name=f"{opcode}.{index}", opcode=opcode, id=index, **fields
            )
        )
    signature = X.ProgramShapeProto(
        parameters=parameters,
        result=result,
        parameter_names=[f"p{i}" for i in range(len(parameters))],
    )
    main = X.HloComputationProto(
        name="main",
        id=1,
        root_id=len(made),
        instructions=made,
        program_shape=signature,
    )
    module = X.HloModuleProto(
        name=name,
        entry_computation_name="main",
        entry_computation_id=1,
        id=1,
        computations=[main],
        host_program_shape=signature,
    )
    return X.HloProto(hlo_module=module)


def add_program(shape):
    parameter = [
        ("parameter", {"shape": shape, "parameter_number": i}) for i in (0, 1)
    ]
    add = ("add", {"shape": shape, "operand_ids": [1, 2]})
    return program("add", [shape, shape], shape, parameter + [add])


def sum_over_replicas(shape):
    """all-reduce with addition."""
    whole = program(
        "sum",
        [shape],
        shape,
        [
            ("parameter", {"shape": shape, "parameter_number": 0}),
            (
                "all-reduce",
                {"shape": shape, "operand_ids": [1], "called_computation_ids": [2]},
            ),
        ],
    )
    adder = add_program(f32()).hlo_module.computations[0]
    adder.id = 2
    adder.name = "adder"
    for index, instruction in enumerate(adder.instructions):
        instruction.id += 10
        instruction.name = f"a.{index}"
        for k, operand in enumerate(instruction.operand_ids):
            instruction.operand_ids[k] = operand + 10
    adder.root_id += 10
    whole.hlo_module.computations.insert(0, adder)
    return whole


class Session:
    """A session of pod.worker.v1.PodWorker."""

    def __init__(self, worker, version=(1, 1), replaces=0, joins=False):
        self.joins = joins
        self.channel = grpc.insecure_channel(worker.address, options=OPTIONS)
        request = W.HelloRequest(
            min_version=version[0],
            max_version=version[1],
            client="test",
            replaces=replaces,
        )
        reply = self.unary("Hello", request)
        self.hello = W.HelloResponse.FromString(reply)
        self.id = self.hello.session
        self.last = 0
        self.control = self.stream(W.CONTROL)
        self.data = self.stream(W.DATA)
        # Both streams are known to be the session's once this is answered.
        self.run(self.alloc(1 << 42, 0), stream=self.control)
        self.run(self.alloc((1 << 42) + 1, 0), stream=self.data)

    def unary(self, method, request):
        path = "/pod.worker.v1.PodWorker/" + method
        call = self.channel.unary_unary(path, raw, raw)
        return call(request.SerializeToString(), timeout=LIMIT)

    def stream(self, role):
        path = "/pod.worker.v1.PodWorker/Session"
        stream = Stream(
            self.channel,
            path,
            lambda m: W.SessionResponse.FromString(m).outcomes,
        )
        first = W.SessionRequest(session=self.id, role=role, joins=self.joins)
        stream.sending.put(first.SerializeToString())
        return stream

    def beat(self):
        request = W.HeartbeatRequest(session=self.id)
        reply = self.unary("Heartbeat", request)
        return W.HeartbeatResponse.FromString(reply)

    def entry(self, op, waits=(), orders=(), started=False, **what):
        return W.Entry(
            op=op, waits=waits, orders=orders, want_started=started, **what
        )

    def send(self, *entries, stream=None, forget=0):
        request = W.SessionRequest(entries=entries, forget_below=forget)
        (stream or self.control).sending.put(request.SerializeToString())

    def outcomes(self, count, stream=None):
        got = (stream or self.control).take(count)
        equal(len({(o.op, o.started) for o in got}), count, "outcomes")
        return {o.op: o for o in got}

    def run(self, *entries, stream=None):
        self.send(*entries, stream=stream)
        return self.outcomes(len(entries), stream)

    def close(self):
        self.control.half_close()
        equal(self.control.ended(), grpc.StatusCode.OK, "control stream")
        equal(self.data.ended(), grpc.StatusCode.OK, "data stream")
        self.channel.close()

    # Entries.
    def alloc(self, op, size, core=0, **more):
        body = W.Allocate(core=core, raw_bytes=size)
        return self.entry(op, allocate=body, **more)

    def write(self, op, buffer, data, offset=0, **more):
        body = W.Write(buffer=buffer, offset=offset, data=data)
        return self.entry(op, write=body, **more)

    def read(self, op, buffer, count, offset=0, **more):
        body = W.Read(buffer=buffer, offset=offset, count=count)
        return self.entry(op, read=body, **more)
