# SPDX-License-Identifier: Apache-2.0
"""podd and podworkers as processes, and a client that checks every answer."""
import atexit
import ctypes
import http.client
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

LIMIT = 60  # seconds for anything that should come soon, on a busy machine
DONE = {"SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED", "LOST"}
OPEN = {"WAITING", "READY", "RUNNING"}
PROBLEM = {"type": str, "title": str, "status": int, "detail": str,
           "code": str, "reason": str, "retryable": bool, "request_id": str}


class Failed(Exception):
    pass


def expect(good, text):
    if not good:
        raise Failed(text)


def run_case(cases):
    """Runs the case that the command line names, of a script's globals()."""
    case = cases.get("case_" + sys.argv[1])
    if case is None:
        sys.exit(f"no case {sys.argv[1]}")
    try:
        case()
    except Failed as failure:
        sys.exit(f"{sys.argv[1]}: {failure}")


def until(condition, what, limit=LIMIT):
    """Looks until the condition holds; its value."""
    end = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed(f"not in {limit} s: {what}")
        time.sleep(0.02)


def _end_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def own_address():
    """Of loopback, at which no other test listens: a port is still free there
    when what listened at it comes back."""
    return "127.{}.{}.{}".format(*(os.getpid() + (1 << 16)).to_bytes(3, "big"))


def binary(name):
    """The path of a program that was built."""
    return os.path.join(os.environ.get("POD_BUILD", "build"), name)


class Program:
    """podd or podworker. `prefix` is a command that runs it; `log` a file for
    its stderr."""

    def __init__(self, name, *flags, prefix=(), log=None):
        self.name = name
        self.process = subprocess.Popen(
            [*prefix, binary(name), *flags], stdout=subprocess.PIPE, stderr=log,
            text=True, preexec_fn=_end_with_parent)
        atexit.register(self.kill)
        self.address = None
        for line in self.process.stdout:
            if line.startswith("listening on "):
                self.address = line.split()[-1]
                break
        expect(self.address, f"{name} ended with {self.process.poll()}")

    def signal(self, number):
        os.kill(self.process.pid, number)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self):
        self.process.terminate()
        try:
            code = self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} did not end in {LIMIT} s of SIGTERM; "
                         f"its threads:\n{self.threads()}") from None
        expect(code == 0, f"{self.name} ended with {code} after SIGTERM")

    def threads(self):
        """Each thread's name and what it waits for; stacks if there is gdb."""
        pid, lines = self.process.pid, []
        for task in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
            words = [task]
            for file in ("comm", "wchan", "syscall"):
                try:
                    with open(f"/proc/{pid}/task/{task}/{file}") as text:
                        words.append(text.read().strip())
                except OSError:
                    words.append("?")
            lines.append(" ".join(words))
        if shutil.which("gdb"):
            lines.append(subprocess.run(
                ["gdb", "-p", str(pid), "-batch", "-ex",
                 "thread apply all bt 12"], capture_output=True, text=True,
                timeout=LIMIT).stdout)
        return "\n".join(lines)

    def status(self, key):
        """A number of /proc/PID/status."""
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(rf"^{key}:\s+(\d+)", file.read(), re.M)[1])

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class Refused(Exception):
    """podd answered with a problem document."""

    def __init__(self, what, problem):
        super().__init__(f"{what}: {problem}")
        self.status, self.reason = problem["status"], problem["reason"]


class Client:
    """One connection to podd; of one thread. Every answer must be well-formed,
    and with a status of `statuses` if it is none of 2xx."""

    def __init__(self, address, statuses=()):
        self.address, self.statuses = address, statuses
        self.connection = None
        self.answers = 0

    def ask(self, method, path, body=None, accept=None, content_type=None):
        """The bytes of an answer, or its JSON value."""
        if self.connection is None:
            self.connection = http.client.HTTPConnection(self.address,
                                                         timeout=2 * LIMIT)
        headers = {"Accept": accept} if accept else {}
        if isinstance(body, (dict, list)):
            body, content_type = json.dumps(body), "application/json"
        if content_type:
            headers["Content-Type"] = content_type
        self.connection.request(method, path, body, headers)
        reply = self.connection.getresponse()
        data, kind = reply.read(), reply.headers.get("Content-Type", "")
        self.answers += 1
        what = f"{method} {path}: {reply.status}"
        if reply.status >= 300:
            self.refuse(what, reply.status, kind, data)
        return json.loads(data) if "json" in kind else data

    def refuse(self, what, status, kind, data):
        expect(kind == "application/problem+json", f"{what}: {kind} {data}")
        problem = json.loads(data)
        for name, wanted in PROBLEM.items():
            expect(isinstance(problem.get(name), wanted), f"{what}: {data}")
        expect(problem["status"] == status, f"{what}: {data}")
        refused = Refused(what, problem)
        expect(not self.statuses or status in self.statuses, str(refused))
        raise refused

    # ------------------------------------------------------------- operations
    def allocate(self, core, count):
        return self.ask("POST", "/v1/buffers",
                        {"core": core, "shape": f"s32[{count}]"})["buffer"]

    def write(self, buffer, values):
        return self.ask("PUT", f"/v1/buffers/{buffer}/data", pack(values),
                        content_type="application/octet-stream")["id"]

    def upload(self, core, values):
        buffer = self.allocate(core, len(values))
        self.write(buffer, values)
        return buffer

    def read(self, buffer):
        return unpack(self.ask("GET", f"/v1/buffers/{buffer}/data?wait=55s",
                               accept="application/octet-stream"))

    def copy(self, source, to):
        return self.ask("POST", f"/v1/buffers/{source}:copy", {"to": to})["id"]

    def free(self, buffer):
        return self.ask("DELETE", f"/v1/buffers/{buffer}")["id"]

    def program(self, text, replicas=1):
        return self.ask("POST", f"/v1/programs?replicas={replicas}", text,
                        content_type="text/x-hlo")["program"]

    def load(self, program, core):
        return self.ask("POST", "/v1/loads",
                        {"program": program, "core": core})["load"]

    def event(self, op, wait=None):
        return self.ask("GET", f"/v1/events/{op}"
                        + (f"?wait={wait}" if wait else ""))

    def done(self, op):
        """The event of an operation when it is done; None: it has expired."""
        end = time.monotonic() + 2 * LIMIT
        while time.monotonic() < end:
            event = self.event(op, "20s")
            if event["done"]:
                expect(event["state"] in DONE, f"{op} ended {event}")
                return event
        raise Failed(f"{op} never ended: {self.event(op)}")

    def succeeded(self, op):
        event = self.done(op)
        expect(event["state"] == "SUCCEEDED", f"{op}: {event}")
        return event

    def host(self, number):
        return self.ask("GET", f"/v1/hosts/{number}")

    def await_host(self, number, good=lambda state: state == "READY"):
        until(lambda: good(self.host(number)["state"]),
              f"host {number} as wanted: {self.host(number)}")

    def metrics(self):
        """{name with labels: value}"""
        lines = self.ask("GET", "/metrics").decode().splitlines()
        return {name: float(value) for name, _, value in
                (line.rpartition(" ") for line in lines
                 if not line.startswith("#"))}

    def open_operations(self):
        states = self.ask("GET", "/v1/events:summary")["by_state"]
        return sum(int(states.get(state, 0)) for state in OPEN)

    def collection(self, name):
        """All of a collection, over its pages."""
        found, token = [], ""
        while True:
            page = self.ask("GET", f"/v1/{name}?page_size=1000" + token)
            found += page[name]
            if not page.get("next_page_token"):
                return found
            token = "&page_token=" + page["next_page_token"]


def pack(values):
    return struct.pack(f"<{len(values)}i", *values)


def unpack(data):
    return list(struct.unpack(f"<{len(data) // 4}i", data))


def sum_program(count):
    """(a, b) -> a + b"""
    return f"""HloModule sum
ENTRY main {{
  a = s32[{count}] parameter(0)
  b = s32[{count}] parameter(1)
  ROOT c = s32[{count}] add(a, b)
}}
"""


def all_reduce_program(count):
    """a -> the sum over all replicas"""
    return f"""HloModule total
plus {{
  x = s32[] parameter(0)
  y = s32[] parameter(1)
  ROOT z = s32[] add(x, y)
}}
ENTRY main {{
  a = s32[{count}] parameter(0)
  ROOT r = s32[{count}] all-reduce(a), replica_groups={{}}, to_apply=plus
}}
"""
