# SPDX-License-Identifier: Apache-2.0
"""Logs of podd and podworker processes. usage: logs.py CASE"""
import atexit
import json
import os
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request

from pod_processes import LIMIT, Failed, Program, run_case, until

FOLDER = tempfile.mkdtemp(prefix="podd-logs-")
atexit.register(shutil.rmtree, FOLDER, True)
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
ADD = """HloModule add
ENTRY main {
  a = f32[2] parameter(0)
  b = f32[2] parameter(1)
  ROOT c = f32[2] add(a, b)
}
"""
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z\Z")


def check(fact, *what):
    if not fact:
        raise Failed(" ".join(str(part) for part in what))


class Logged(Program):
    """A process whose log is kept in a file."""

    count = 0

    def __init__(self, name, *flags, form="json", level="debug"):
        Logged.count += 1
        self.path = f"{FOLDER}/{name}-{Logged.count}"
        with open(self.path, "wb") as log:
            super().__init__(name, "--listen", "127.0.0.1:0", "--log-format",
                             form, "--log-level", level, *flags, log=log)

    def text(self):
        with open(self.path, encoding="utf-8") as log:
            return log.read()

    def lines(self):
        found = []
        for line in self.text().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError as error:
                raise Failed(f"no JSON: {line!r}: {error}") from error
        return found


def ask(podd, method, path, body=None, kind="application/json", **headers):
    """The status and the body of an answer."""
    data = body if isinstance(body, (bytes, type(None))) else (
        body.encode() if isinstance(body, str) else json.dumps(body).encode())
    request = urllib.request.Request(
        f"http://{podd.address}{path}", data=data, method=method)
    if data is not None:
        request.add_header("Content-Type", kind)
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    try:
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read(), error.headers


def submit(podd, path, body, name, kind="application/json"):
    """An event that has ended, of a request with this id and the trace."""
    joint = "&" if "?" in path else "?"
    status, answer, headers = ask(
        podd, "POST", f"{path}{joint}wait=50s", body, kind, X_Request_Id=name,
        traceparent=f"00-{TRACE}-{PARENT}-01", tracestate="vendor=value")
    check(status in (200, 201), status, answer)
    check(headers["X-Request-Id"] == name, "X-Request-Id")
    event = json.loads(answer)
    check(event["done"], event)
    return event


def check_event(event, name):
    check(event["request_id"] == name, name, event)
    check(event["trace_id"] == TRACE, name, event)
    check(re.fullmatch("[0-9a-f]{16}", event["span_id"]), event)
    check(event["span_id"] not in (PARENT, "0" * 16), event)


def check_line(lines, event, worker):
    """The one line of an operation says what its event says."""
    # A worker takes part in an operation by as many entries as it needs.
    mine = [line for line in lines if line.get("operation") == event["id"]
            and line["event"] == "operation"]
    check(len(mine) == 1 or worker and mine, event, mine)
    for line in mine:
        for key in ("request_id", "trace_id", "span_id"):
            check(line[key] == event[key], key, line, event)
        bad = event["state"] == "FAILED"
        check(line["level"] == ("warn" if bad else "debug"), line)
        check(line["state"] == event["state"], line)
        for key in ("code", "reason") if bad else ():
            check(line[key] == event["error"][key], line, event)


def event_of(podd, operation):
    return json.loads(
        ask(podd, "GET", f"/v1/events/{operation}?wait=50s")[1])


def work(podd):
    """Operations of all kinds of submissions: their events by request id."""
    made = {}
    made["buf"] = [submit(podd, "/v1/buffers", {
        "core": 0, "shape": "f32[2]", "values": [1, 2]}, "buf")]
    buffer = made["buf"][0]["buffer"]
    compiled = submit(podd, "/v1/programs?load=0", ADD, "prog", "text/x-hlo")
    load = compiled["loads"][0]
    made["prog"] = [compiled, event_of(podd, load.replace("load", "op"))]
    run = submit(podd, "/v1/executions",
                 {"load": load, "inputs": [buffer, buffer]}, "run")
    made["run"] = [run] + [event_of(podd, output.replace("buf", "op"))
                           for output in run["outputs"]]
    graph = submit(podd, "/v1/graphs", {"ops": [
        {"ref": "a", "op": "allocate", "core": 0, "bytes": "64"},
        {"ref": "x", "op": "execute", "load": load,
         "inputs": [buffer, buffer]},
        {"ref": "f", "op": "free", "buffer": "$a", "after": ["$x"]}]}, "graph")
    numbers = [ref["op"] for ref in graph["refs"].values()] + [
        output.replace("buf", "op")
        for output in graph["refs"]["x"]["outputs"]]
    made["graph"] = [event_of(podd, number) for number in numbers]
    made["bad"] = [submit(podd, "/v1/programs", "HloModule bad\nENTRY",
                          "bad", "text/x-hlo")]
    check(made["bad"][0]["state"] == "FAILED", made["bad"])
    return made


def case_ids_reach_workers():
    worker = Logged("podworker", "--device", "reference")
    podd = Logged("podd", "--dev", "--pod", f"grpc+pod://{worker.address}")
    until(lambda: ask(podd, "GET", "/readyz")[0] == 200, "podd is ready")
    made = work(podd)
    podd.stop()
    worker.stop()
    check([line["state"] for line in worker.lines()
           if line["event"] == "client"] == ["OPENED"], "no client")
    spans = set()
    for name, events in made.items():
        for event in events:
            check_event(event, name)
            spans.add(event["span_id"])
            check_line(podd.lines(), event, False)
            check_line(worker.lines(), event, True)
    check(len(spans) == sum(map(len, made.values())), "spans are repeated")
    check(all("vendor" not in program.text() for program in (podd, worker)),
          "tracestate is in a log")


def case_ids_without_traces():
    podd = Logged("podd", "--dev")
    event = json.loads(ask(podd, "POST", "/v1/buffers?wait=50s", {
        "core": 0, "bytes": "8"}, X_Request_Id="a b")[1])
    check(re.fullmatch("[0-9a-f]{16}", event["request_id"]), event)
    check("trace_id" not in event and "span_id" not in event, event)
    malformed = json.loads(ask(podd, "POST", "/v1/buffers?wait=50s", {
        "core": 0, "bytes": "8"}, traceparent=f"00-{'0' * 32}-{PARENT}-01")[1])
    check("trace_id" not in malformed, malformed)
    podd.stop()
    check("trace_id" not in podd.text(), "a trace that nobody began")


def table(title):
    """The rows of a table of server/README.md, cells with their words."""
    with open("server/README.md", encoding="utf-8") as readme:
        rows = readme.read().split(f"| {title} |")[1].splitlines()[2:]
    for row in rows:
        if not row.startswith("|"):
            return
        yield [re.findall("`([a-z_0-9]+)`", cell)
               for cell in row.strip("|").split(" | ")]


def busy(podd, token):
    headers = {"Authorization": f"Bearer {token}"}
    for path in ("/v1/pod", "/v1/nothing%0a%22", "/healthz", "/metrics",
                 "/v1/events?label=a%0Ab=c", "/%ff%c3"):
        ask(podd, "GET", path, **headers)
    ask(podd, "GET", "/v1/pod", Authorization="Bearer wrong-secret")
    for count in range(50):
        ask(podd, "POST", "/v1/buffers", {
            "core": count % 4, "shape": "u8[4]", "values": [115, 101, 99, 0],
            "name": "bodies are secret"}, **headers)
    ask(podd, "POST", "/v1/programs", "HloModule \x01\u2028\U0001F600",
        "text/x-hlo", **headers)
    ask(podd, "POST", "/v1/hosts/1:cordon", **headers)
    ask(podd, "POST", "/v1/pod:reset?wait=50s", **headers)


def case_lines():
    tokens = f"{FOLDER}/tokens"
    made = subprocess.run(
        [os.path.join(os.environ["POD_BUILD"], "podd"), "token", "add",
         "--scope", "admin", "--token-file", tokens], check=True,
        stdout=subprocess.PIPE, text=True)
    token = made.stdout.split()[-1]
    podd = Logged("podd", "--token-file", tokens)
    busy(podd, token)
    podd.stop()
    check(token not in podd.text() and "secret" not in podd.text(), "secrets")
    described = {}
    for cells in table("event"):
        described.setdefault(cells[0][0], set()).update(cells[-1])
    keys = {key for cells in table("key") for key in cells[0]}
    seen = set()
    for line in podd.lines():
        head = list(line)[:3]
        check(head == ["time", "level", "event"], line)
        check(TIME.match(line["time"]), line)
        check(line["level"] in ("error", "warn", "info", "debug"), line)
        check(set(line) - set(head) <= described[line["event"]], line)
        check(set(line) - set(head) <= keys, line)
        seen.add(line["event"])
    for event in ("start", "listening", "drain", "stop", "request",
                  "operation", "host"):
        check(event in seen, "there was no", event)
    audits = [line for line in podd.lines() if line.get("audit")]
    check(len(audits) == 54, len(audits))
    check({line["level"] for line in audits} == {"info"}, audits)
    check({line["host"] for line in podd.lines() if line["event"] == "host" and
           line["state"] == "CORDONED"} == {1}, "cordon")


def case_closed_sets():
    """What the README describes is what there is."""
    with open("core/base/log.h", encoding="utf-8") as header:
        source = header.read()
    lists = {name: set(re.findall(r'X\(\w+, "(\w+)"\)', body)) for name, body
             in re.findall(r"#define POD_LOG_(\w+)\(X\)((?:.*\\\n)+.*\n)",
                           source)}
    events = {cells[0][0] for cells in table("event")}
    used = {key for cells in table("event") for key in cells[-1]}
    keys = {key for cells in table("key") for key in cells[0]}
    check(events == lists["EVENTS"], events ^ lists["EVENTS"])
    check(keys == lists["KEYS"], keys ^ lists["KEYS"])
    check(used == keys, used ^ keys)


def case_text():
    podd = Logged("podd", "--dev", form="text")
    for path in ("/v1/a%0alevel=error", "/v1/pod?x=%22%20event=host"):
        ask(podd, "GET", path)
    podd.stop()
    for line in podd.text().splitlines():
        check(re.fullmatch(r'[0-9TZ:.-]+ level=\w+ event=\w+'
                           r'( \w+=("([^"\\]|\\.)*"|[\w.-]+))*', line), line)
    check(podd.text().count(" event=request ") == 2, podd.text())


def start_blind(stderr):
    """A podd that cannot write its log, not even its first line."""
    blind = subprocess.Popen(
        [os.path.join(os.environ["POD_BUILD"], "podd"), "--dev",
         "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=stderr,
        text=True)
    atexit.register(blind.kill)
    for line in blind.stdout:
        if line.startswith("listening on "):
            blind.address = line.split()[-1]
            return blind
    raise Failed(f"it ended with {blind.wait(LIMIT)}")


def case_levels():
    """By default readers leave no lines, and lines that are lost stop nobody."""
    podd = Logged("podd", "--dev", level="info")
    with open("/dev/full", "wb") as full:
        blinds = [start_blind(full)]
    reader, writer = os.pipe()
    os.close(reader)
    blinds.append(start_blind(writer))
    os.close(writer)
    for each in [podd, *blinds]:
        for _ in range(20):
            check(ask(each, "GET", "/v1/pod")[0] == 200, "no answer")
        check(ask(each, "POST", "/v1/programs?wait=50s", "HloModule x\nENTRY",
                  "text/x-hlo")[0] == 201, "no answer")
    podd.stop()
    for blind in blinds:
        blind.terminate()
        check(blind.wait(LIMIT) == 0, "exit code")
    events = [line["event"] for line in podd.lines()]
    # Hosts become ready while it starts to listen.
    check(sorted(events[1:4]) == ["host", "host", "listening"], events)
    check(events[:1] + events[4:] == ["start", "operation", "drain", "stop"],
          events)


if __name__ == "__main__":
    run_case(globals())
