# SPDX-License-Identifier: Apache-2.0
"""Holds the contract (/openapi.json) against running servers.

usage: contract.py ROUTES    (a file with lines "METHOD PATTERN")
Environment: POD_BUILD, the folder with podd.

Every operation of the contract is called so that every status it names comes;
each answer is checked against it: status, media type, headers, and schema, with
members that the contract does not know taken as faults. What cannot be brought
about from outside is listed in `beyond`. Prints a line for each fault; exits 1
if there was one.
"""
import copy
import http.client
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile

import jsonschema
import numpy

from busy_pod import ENDLESS

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "wire"))
from pod_processes import Program, binary

METHODS = ("get", "put", "post", "delete")
NEVER = 999999999  # a number that no operation will get
LONG = 9000 * "x"  # more than a request line or headers may have
ADD = """HloModule add
ENTRY main {
  a = s32[] parameter(0)
  ROOT r = s32[] add(a, a)
}
"""


def beyond(method, path, status):
    """Why a status cannot be brought about here, or None."""
    if status == "500":
        return "a bug of ours"
    if status == "503" and path != "/readyz" and not CONTRACT.submits(method, path):
        return "no memory"
    if status == "502" and path == "/v1/programs/{id}/shape":
        return "a host that is lost while it compiles"
    if status == "409" and (method, path) in (
            ("POST", "/v1/pod:reset"), ("POST", "/v1/graphs"),
            ("DELETE", "/v1/loads/{id}")):
        return "an Idempotency-Key whose first request does not end in time"
    if status in ("410", "504") and (method, path) == ("POST", "/v1/hosts"):
        return "a host that takes a minute to make, or is removed meanwhile"
    if status == "410" and path == "/v1/watch":
        return "more changes than are kept: test_rest_watch.c"
    return None


# ------------------------------------------------------------------- contract

class Contract:
    """The document, and what has been seen of it."""

    def __init__(self, text):
        self.document = json.loads(text)
        self.strict = self.close(copy.deepcopy(self.document))
        self.seen = set()

    def close(self, node):
        """Objects with listed members take no others."""
        if isinstance(node, dict):
            if "properties" in node and "additionalProperties" not in node \
                    and isinstance(node["properties"], dict):
                node["additionalProperties"] = False
            for value in node.values():
                self.close(value)
        elif isinstance(node, list):
            for value in node:
                self.close(value)
        return node

    def operations(self):
        for path, item in self.document["paths"].items():
            for method in METHODS:
                if method in item:
                    yield method.upper(), path

    def operation(self, method, path):
        return self.document["paths"][path][method.lower()]

    def submits(self, method, path):
        return "202" in self.operation(method, path)["responses"] \
            and not path.endswith(":cancel") and method != "GET"

    def resolve(self, node, document=None):
        while "$ref" in node:
            target = document or self.document
            for part in node["$ref"][2:].split("/"):
                target = target[part.replace("~1", "/").replace("~0", "~")]
            node = target
        return node

    def check(self, method, path, status, headers, body):
        """Faults of an answer."""
        responses = self.strict["paths"][path][method.lower()]["responses"]
        if str(status) not in responses:
            return [f"undocumented status {status}: {body[:200]!r}"]
        self.seen.add((method, path, str(status)))
        response = self.resolve(responses[str(status)], self.strict)
        faults = self.check_headers(response, headers)
        media = headers.get("Content-Type", "").split(";")[0]
        content = response.get("content", {})
        if not content:
            return faults + ([f"{status} has a body"] if body else [])
        if media not in content:
            return faults + [f"{status} came as {media!r}"]
        return faults + self.check_body(content[media]["schema"], media, body)

    def check_headers(self, response, headers):
        faults = [] if headers.get("X-Request-Id") else ["no X-Request-Id"]
        for name, header in response.get("headers", {}).items():
            header = self.resolve(header, self.strict)
            value = headers.get(name)
            if value is not None:
                pattern = header["schema"].get("pattern", "")
                if not re.search(pattern, value):
                    faults.append(f"{name}: {value} is not as documented")
            elif header.get("required"):
                faults.append(f"no {name}")
        return faults

    def check_body(self, schema, media, body):
        if media not in ("application/json", "application/problem+json"):
            return []
        root = {"components": self.strict["components"], **schema}
        validator = jsonschema.Draft202012Validator(root)
        return [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:300]}"
                for e in validator.iter_errors(json.loads(body))]

    def missing(self):
        for method, path in self.operations():
            for status in self.operation(method, path)["responses"]:
                if (method, path, status) not in self.seen \
                        and not beyond(method, path, status):
                    yield f"{method} {path}: {status} was not brought about"


CONTRACT = None
FAULTS = []


def fault(text):
    FAULTS.append(text)
    print(text)


# -------------------------------------------------------------------- servers

class Server(Program):
    """A podd of our own."""

    def __init__(self, *arguments):
        super().__init__("podd", "--listen", "127.0.0.1:0", "--log-level",
                         "error", *arguments)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.process.stdout.close()

    def raw(self, method, target, headers=None, body=None):
        """(status, headers, body) without a look at the contract."""
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            connection.request(method, target, body=body, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def ask(self, method, path, query="", headers=None, body=None, kind=None,
            expect=None, n=0, op=f"op-{NEVER}", **ids):
        """One request of an operation, checked against the contract."""
        headers = dict(headers or {})
        if path == "/v1/watch":
            headers.setdefault("Accept", "application/json")
        if isinstance(body, (dict, list)):
            body, kind = json.dumps(body).encode(), kind or "application/json"
        if kind:
            headers["Content-Type"] = kind
        values = {"n": n, "op": op, "id": default_id(path), **ids}
        target = re.sub(r"\{(\w+)\}", lambda m: str(values[m.group(1)]), path)
        status, got, text = self.raw(method, target + query, headers, body)
        for found in CONTRACT.check(method, path, status, got, text):
            fault(f"{method} {target}{query[:60]}: {found}")
        if expect is not None and status != expect:
            fault(f"{method} {target}{query[:60]}: {status}, not {expect}: "
                  f"{text[:200]!r}")
        is_json = "json" in got.get("Content-Type", "")
        return json.loads(text) if is_json and text else text


def default_id(path):
    for word, kind in (("buffers", "buf"), ("programs", "prog"),
                       ("loads", "load"), ("graphs", "graph")):
        if f"/{word}/" in path:
            return f"{kind}-{NEVER}"
    return ""


# ------------------------------------------------------------ every operation

def a_body(method, path):
    """(body, type) that an operation takes in form."""
    request = CONTRACT.operation(method, path).get("requestBody")
    if request is None:
        return None, None
    if "application/json" in request["content"]:
        return b"{}", "application/json"
    return b"x", next(iter(request["content"]))


def documented(status):
    for method, path in list(CONTRACT.operations()):
        if str(status) in CONTRACT.operation(method, path)["responses"]:
            yield method, path


def walk_common(podd):
    """What any operation may answer, at a server without tokens."""
    for method, path in documented(421):
        podd.ask(method, path, headers={"Host": "evil.example"}, expect=421)
    for method, path in documented(400):
        body, kind = a_body(method, path)
        podd.ask(method, path, query="?nonsense=1", body=body, kind=kind,
                 **real_ids(path))
        if (method, path, "400") not in CONTRACT.seen:
            podd.ask(method, path, body=b"{", kind="application/json",
                     **real_ids(path))
    for method, path in documented(404):
        body, kind = a_body(method, path)
        podd.ask(method, path, body=body, kind=kind, n=NEVER, expect=404)
    for method, path in documented(414):
        podd.ask(method, path, query="?q=" + LONG, expect=414)
    for method, path in documented(431):
        podd.ask(method, path, headers={"X-Long": LONG}, expect=431)
    for method, path in documented(415):
        podd.ask(method, path, body=b"x", kind="image/png", **real_ids(path))
    for method, path in documented(413):
        _, kind = a_body(method, path)
        podd.ask(method, path, headers={"Content-Length": str(1 << 40)},
                 kind=kind, **real_ids(path), expect=413)


REAL = {}


def real_ids(path):
    """Ids of things that are there, for an operation's path."""
    ids = {"n": 0}
    if "{op}" in path:
        ids["op"] = REAL["op"]
    for word in ("buffers", "programs", "loads", "graphs"):
        if f"/{word}/" in path:
            ids["id"] = REAL[word]
    return ids


def walk_methods(podd):
    """OPTIONS tells what the contract tells; nothing else is taken."""
    for path, item in CONTRACT.document["paths"].items():
        target = re.sub(r"\{\w+\}", "op-1", path)
        _, headers, _ = podd.raw("OPTIONS", target)
        told = set(headers.get("Allow", "").split(", "))
        want = {m.upper() for m in METHODS if m in item} | {"OPTIONS"}
        want |= {"HEAD"} if "get" in item else set()
        if told != want:
            fault(f"{path}: takes {sorted(told)}, documented {sorted(want)}")
        status, headers, body = podd.raw("PATCH", target)
        if status != 405 or json.loads(body)["reason"] != "METHOD_NOT_ALLOWED":
            fault(f"PATCH {path}: {status}, not 405")


def walk_tokens(folder):
    """401, 403, and 429 for every operation that has them."""
    tokens = os.path.join(folder, "tokens")
    read = subprocess.run([binary("podd"), "token", "add", "--scope", "read",
                           "--token-file", tokens], check=True, text=True,
                          capture_output=True).stdout.strip()
    with Server("--token-file", tokens) as podd:
        for method, path in documented(401):
            body, kind = a_body(method, path)
            if path == "/ui/session":
                body = b'{"token":"no"}'
            podd.ask(method, path, body=body, kind=kind, expect=401)
        for method, path in documented(403):
            body, kind = a_body(method, path)
            headers = {"Authorization": f"Bearer {read}",
                       "Origin": "https://evil.example"}
            podd.ask(method, path, headers=headers, body=body, kind=kind,
                     expect=403)
    with Server("--dev", "--rate-limit", "1") as podd:
        for method, path in documented(429):
            for _ in range(20):
                podd.ask(method, path)
                if (method, path, "429") in CONTRACT.seen:
                    break


def walk_expired():
    """410: a history of one operation."""
    with Server("--dev", "--history-count", "1") as podd:
        for _ in range(4):
            buffer = podd.ask("POST", "/v1/buffers", "?wait=50s",
                              body={"core": 0, "bytes": 4})["buffer"]
            podd.ask("DELETE", "/v1/buffers/{id}", "?wait=50s", id=buffer)
        host = podd.ask("POST", "/v1/hosts", expect=201)["id"]
        core = await_core(podd, host)
        podd.ask("DELETE", "/v1/hosts/{n}", n=host, expect=204)
        for method, path in documented(410):
            number = core if path == "/v1/cores/{n}" else host
            body, kind = a_body(method, path)
            if path == "/v1/buffers/{id}:copy":
                body = json.dumps({"to": buffer}).encode()
            word = default_id(path).split("-")[0]
            podd.ask(method, path, body=body, kind=kind, op="op-1",
                     id=f"{word}-1", n=number)


def await_core(podd, host):
    """A core of a host that has just been added."""
    while True:
        for core in podd.ask("GET", "/v1/cores", "?page_size=1000")["cores"]:
            if core["host"] == host:
                return core["id"]


# ------------------------------------------------------------------ by resource

def make(podd):
    """Things that the rest of the walk works on."""
    podd.buffer = podd.ask("POST", "/v1/buffers", "?wait=50s", expect=201, body={
        "core": 0, "shape": "s32[]", "values": 7, "name": "seven",
        "labels": {"k": "v"}})["buffer"]
    compiled = podd.ask("POST", "/v1/programs", "?wait=50s&load=0&name=add",
                        body=ADD.encode(), kind="text/x-hlo", expect=201)
    podd.program, podd.load = compiled["program"], compiled["loads"][0]
    podd.graph = podd.ask("POST", "/v1/graphs", "?wait=50s", expect=201, body={
        "ops": [{"ref": "a", "op": "allocate", "core": 0, "bytes": "8"}]
    })["graph"]
    spin = podd.ask("POST", "/v1/programs", "?wait=50s&load=0",
                    body=ENDLESS.encode(), kind="text/x-hlo")
    podd.spin = spin["loads"][0]
    REAL.update(op="op-1", buffers=podd.buffer, programs=podd.program,
                loads=podd.load, graphs=podd.graph)


def start_spin(podd):
    """An operation that runs until it is cancelled."""
    return await_running(podd, podd.ask("POST", "/v1/executions", expect=202,
                                        body={"load": podd.spin,
                                              "inputs": [podd.buffer]}))


def await_running(podd, event):
    etag = None
    while event["state"] != "RUNNING":
        if event["done"]:
            sys.exit(f"it does not spin: {event}")
        # A wait is for a change of what has this tag; without one it would be
        # for the end.
        wait = "?wait=5s" if etag else ""
        _, headers, text = podd.raw("GET", f"/v1/events/{event['id']}{wait}",
                                    {"If-None-Match": etag} if etag else {})
        etag = headers.get("ETag")
        event = json.loads(text) if text else event
    return event


def walk_server(podd):
    for path in ("/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/ui/",
                 "/ui/sign-in.js", "/v1", "/v1/pod", "/v1/events:summary",
                 "/v1/trace"):
        if path in CONTRACT.document["paths"]:
            podd.ask("GET", path, expect=200)
    podd.ask("GET", "/", headers={"Accept": "text/html"}, expect=302)
    podd.ask("GET", "/ui", expect=308)
    podd.ask("GET", "/ui/events/{op}", op="op-1", expect=200)
    podd.ask("POST", "/ui/session", body={"token": "any"}, expect=204)
    podd.ask("DELETE", "/ui/session", expect=204)
    podd.ask("GET", "/v1/pod", "?view=flat", expect=200)
    status, headers, body = podd.raw("GET", "/openapi.json")
    if json.loads(body) != CONTRACT.document or status != 200:
        fault("/openapi.json changes")


def walk_lists(podd):
    for path in ("hosts", "cores", "buffers", "programs", "loads", "graphs",
                 "events"):
        podd.ask("GET", f"/v1/{path}", expect=200)
        podd.ask("GET", f"/v1/{path}", "?fields=id&page_size=1", expect=200)
    podd.ask("GET", "/v1/events", "?state=SUCCEEDED,FAILED&kind=ALLOCATE"
             "&host=0&core=0&label=k=v&since=op-1", expect=200)
    for path, index in (("/v1/hosts/{n}", 0), ("/v1/cores/{n}", 1)):
        podd.ask("GET", path, n=index, expect=200)
    for verb in ("cordon", "drain", "uncordon"):
        podd.ask("POST", f"/v1/hosts/{{n}}:{verb}", n=1, expect=200)


def walk_hosts(podd):
    host = podd.ask("POST", "/v1/hosts", body={"address": "local"},
                    expect=201)["id"]
    podd.ask("POST", "/v1/hosts", body={"address": "other:1"}, expect=422)
    core = await_core(podd, host)
    podd.ask("POST", "/v1/buffers", "?wait=50s", expect=201,
             body={"core": core, "bytes": 4})
    podd.ask("DELETE", "/v1/hosts/{n}", n=host, expect=409)
    podd.ask("DELETE", "/v1/hosts/{n}", "?force=true", n=host, expect=204)
    podd.ask("GET", "/v1/watch", "?since=snapshot&topics=hosts", expect=200)


def walk_workers():
    """A pod of workers, none of which is there."""
    with Server("--dev", "--pod", "grpc+pod://127.0.0.1:1") as podd:
        podd.ask("POST", "/v1/hosts", body={}, expect=400)
        podd.ask("POST", "/v1/hosts", body={"address": "127.0.0.1:1"},
                 expect=409)
        for address in ("a:b:c", "10.1.2.3:1", "far.example"):
            podd.ask("POST", "/v1/hosts", body={"address": address}, expect=422)
        podd.ask("POST", "/v1/hosts", body={"address": "127.0.0.1:2"},
                 expect=201)
        podd.ask("GET", "/v1/pod", expect=200)
        podd.ask("DELETE", "/v1/hosts/{n}", n=1, expect=204)


def walk_buffers(podd):
    octets = "application/octet-stream"
    buffers, one, data = "/v1/buffers", "/v1/buffers/{id}", "/v1/buffers/{id}/data"
    podd.ask("POST", buffers, body={"core": 0, "bytes": 16}, expect=202)
    podd.ask("POST", buffers, body={"core": 0, "shape": "f32["}, expect=422)
    npy = io.BytesIO()
    numpy.save(npy, numpy.arange(4, dtype=numpy.float32))
    podd.ask("POST", buffers, "?core=0&wait=50s", body=npy.getvalue(),
             kind="application/x-npy", expect=201)
    other = podd.ask("POST", buffers, "?wait=50s", body={
        "core": 1, "shape": {"element_type": "S32", "dimensions": []},
        "fill": 3})["buffer"]
    pair = podd.ask("POST", buffers, "?wait=50s", expect=201,
                    body={"tuple": [podd.buffer]})["buffer"]
    podd.ask("GET", one, id=pair, expect=200)
    podd.ask("GET", data, id=pair, expect=422)
    podd.ask("DELETE", one, id=podd.buffer, expect=409)
    podd.ask("DELETE", one, "?wait=50s", id=pair, expect=200)
    podd.ask("POST", one + ":copy", body={"to": other}, id=podd.buffer, expect=202)
    podd.ask("POST", one + ":copy", "?wait=50s", body={"to": other},
             id=podd.buffer, expect=200)
    podd.ask("POST", one + ":copy", body={"to": f"buf-{NEVER}"}, id=podd.buffer,
             expect=422)
    podd.ask("PUT", data, id=other, body=bytes(4), kind=octets, expect=202)
    podd.ask("PUT", data, "?wait=50s", id=other, body={"values": 5}, expect=200)
    podd.ask("PUT", data, id=other, body={"values": 1 << 40}, expect=422)
    walk_data(podd, data, podd.buffer)
    podd.ask("DELETE", one, id=other, query=f"?after=op-{NEVER}", expect=422)
    podd.ask("DELETE", one, id=other, expect=202)
    podd.ask("DELETE", one, "?wait=50s", id=other, expect=200)
    podd.ask("PUT", data, id=other, body=bytes(4), kind=octets, expect=409)
    podd.ask("POST", one + ":copy", body={"to": podd.buffer}, id=other, expect=409)
    podd.ask("GET", data, id=other, expect=409)


def walk_data(podd, data, buffer):
    accept = {"Accept": "application/json"}
    podd.ask("GET", data, id=buffer, expect=200)
    podd.ask("GET", data, id=buffer, headers=accept, expect=200)
    podd.ask("GET", data, id=buffer, headers={"Accept": "application/x-npy"},
             expect=200)
    podd.ask("GET", data, id=buffer, headers={"Accept": "image/png"}, expect=406)
    podd.ask("GET", data, id=buffer, headers={"Range": "bytes=0-1"}, expect=206)
    podd.ask("GET", data, id=buffer, headers={"Range": "bytes=99-"}, expect=416)
    podd.ask("GET", data, id=buffer, headers={"If-None-Match": "*"}, expect=304)
    other = {"If-Match": '"other"'}
    podd.ask("GET", data, id=buffer, headers=other, expect=412)
    podd.ask("PUT", data, id=buffer, body=bytes(4), headers=other, expect=412,
             kind="application/octet-stream")
    event = podd.ask("GET", data, id=buffer, expect=202,
                     headers={"Prefer": "respond-async"})
    kept, op = "/v1/events/{op}/data", event["id"]
    podd.ask("GET", kept, op=op, headers=other, expect=412)
    podd.ask("GET", kept, op=op, headers={"If-None-Match": "*"}, expect=304)
    podd.ask("GET", kept, op=op, expect=200)
    podd.ask("GET", kept, op=op, headers=accept, expect=200)
    podd.ask("GET", kept, op=op, headers={"Accept": "image/png"}, expect=406)
    podd.ask("GET", kept, op=op, headers={"Range": "bytes=0-1"}, expect=206)
    podd.ask("GET", kept, op=op, headers={"Range": "bytes=99-"}, expect=416)
    podd.ask("GET", "/v1/events/{op}", op=op, expect=200)
    podd.ask("DELETE", kept, op=op, expect=204)
    podd.ask("GET", kept, op=op, expect=410)


def walk_programs(podd):
    programs, one = "/v1/programs", "/v1/programs/{id}"
    podd.ask("GET", one, id=podd.program, expect=200)
    podd.ask("GET", one + "/shape", id=podd.program, expect=200)
    podd.ask("DELETE", one, id=podd.program, expect=409)
    bad = podd.ask("POST", programs, "?wait=50s", body=b"HloModule",
                   kind="text/x-hlo", expect=201)
    podd.ask("GET", one + "/shape", id=bad["program"], expect=409)
    late = podd.ask("POST", programs, body=ADD.replace("add", "late", 1).encode(),
                    kind="text/x-hlo", query=f"?after={podd.running}",
                    expect=202)
    podd.ask("GET", one + "/shape", "?wait=0", id=late["program"], expect=504)
    podd.ask("POST", programs, f"?after=op-{NEVER}", body=ADD.encode(),
             kind="text/x-hlo", expect=422)
    podd.ask("DELETE", one, f"?after=op-{NEVER}", id=bad["program"], expect=422)
    podd.ask("DELETE", one, id=bad["program"], expect=202)
    podd.ask("DELETE", one, "?wait=50s", id=bad["program"], expect=200)


def walk_loads(podd):
    loads, one = "/v1/loads", "/v1/loads/{id}"
    request = {"program": podd.program, "core": 1}
    podd.ask("POST", loads, body=request, expect=202)
    load = podd.ask("POST", loads, "?wait=50s", body=request, expect=201)["load"]
    podd.ask("POST", loads, body={"program": f"prog-{NEVER}", "core": 0},
             expect=422)
    podd.ask("GET", one, id=load, expect=200)
    podd.ask("DELETE", one, f"?after=op-{NEVER}", id=load, expect=422)
    podd.ask("DELETE", one, id=load, expect=202)
    podd.ask("DELETE", one, "?wait=50s", id=load, expect=200)
    podd.ask("POST", "/v1/executions", body={"load": load}, expect=409)


def walk_executions(podd):
    path = "/v1/executions"
    request = {"load": podd.load, "inputs": [podd.buffer]}
    gang = {"launches": [request], "device_assignment": [[0]]}
    podd.ask("POST", path, body=request, expect=202)
    podd.ask("POST", path, body=gang, expect=202)
    podd.ask("POST", path, body={"load": podd.load}, expect=422)


def walk_graphs(podd):
    path = "/v1/graphs"
    ops = [{"ref": "a", "op": "allocate", "core": 0, "bytes": "8"},
           {"ref": "f", "op": "free", "buffer": "$a"}]
    podd.ask("POST", path, body={"ops": ops}, expect=202)
    lines = "".join(json.dumps(op) + "\n" for op in ops).encode()
    podd.ask("POST", path, "?name=lines", body=lines,
             kind="application/x-ndjson", expect=202)
    podd.ask("POST", path, "?validate_only=true", body={"ops": ops}, expect=200)
    podd.ask("POST", path, body={"ops": ops[1:]}, expect=422)
    podd.ask("GET", path + "/{id}", id=podd.graph, expect=200)
    podd.ask("POST", path + "/{id}:cancel", id=podd.graph, expect=409)
    held = podd.ask("POST", path, body={"ops": ops, "after": [podd.running]},
                    expect=202)["graph"]
    for _ in range(2):
        podd.ask("POST", path + "/{id}:cancel", id=held, body={"reason": "x"})
    podd.ask("POST", path + "/{id}:cancel", id=held, body={"reason": "\n"},
             expect=422)


def walk_events(podd):
    one, many = "/v1/events/{op}", "/v1/events:wait"
    podd.ask("GET", one, op="op-1", headers={"If-None-Match": "*"}, expect=304)
    podd.ask("GET", one + "/dependencies", "?direction=down&depth=9", op="op-1",
             expect=200)
    podd.ask("GET", one + "/dependencies", op=podd.program.replace("prog", "op"),
             expect=200)
    podd.ask("POST", many, body={"ids": ["op-1", podd.buffer], "mode": "ANY",
                                 "wait": "1s"}, expect=200)
    podd.ask("POST", many, body={"ids": [f"op-{NEVER}"]}, expect=422)
    podd.ask("POST", one + ":cancel", op="op-1", expect=409)
    podd.ask("POST", one + ":cancel", op=podd.running, body={"reason": "\n"},
             expect=422)
    podd.ask("GET", "/v1/watch", "?since=snapshot", expect=200)


def walk_waits(podd):
    """What is still running cannot be had."""
    out = podd.ask("GET", "/v1/events/{op}", op=podd.running)["outputs"][0]
    read = podd.ask("GET", "/v1/buffers/{id}/data", id=out, expect=202,
                    headers={"Prefer": "respond-async"})["id"]
    podd.ask("GET", "/v1/buffers/{id}/data", "?wait=0", id=out, expect=504)
    podd.ask("GET", "/v1/events/{op}/data", "?wait=0", op=read, expect=504)
    podd.ask("DELETE", "/v1/events/{op}/data", op=read, expect=504)
    podd.ask("GET", "/v1/events/{op}", op=read, expect=200)
    podd.ask("POST", "/v1/events/{op}:cancel", op=podd.running, expect=202)
    podd.ask("POST", "/v1/events/{op}:cancel", op=podd.running, expect=200)
    podd.ask("GET", "/v1/events/{op}", "?wait=50s", op=podd.running, expect=200)
    podd.ask("GET", "/v1/events/{op}", "?wait=50s", op=read, expect=200)
    podd.ask("GET", "/v1/events/{op}/data", op=read, expect=409)
    podd.ask("DELETE", "/v1/events/{op}/data", op=read)
    walk_running_graph(podd)


def walk_running_graph(podd):
    """It is told with 202 that it is to end, or with 200 that it has ended by
    then, which is seldom."""
    spin = {"ref": "s", "op": "execute", "load": podd.spin,
            "inputs": [podd.buffer]}
    cancel = "/v1/graphs/{id}:cancel"
    for _ in range(20):
        graph = podd.ask("POST", "/v1/graphs", body={"ops": [spin]}, expect=202)
        await_running(podd, podd.ask("GET", "/v1/events/{op}",
                                     op=graph["refs"]["s"]["op"], expect=200))
        podd.ask("POST", cancel, id=graph["graph"])
        if ("POST", cancel, "202") in CONTRACT.seen:
            break


def walk_loss(podd):
    """A host goes away with what it has."""
    execute = podd.ask("POST", "/v1/executions", "?wait=50s", expect=200, body={
        "load": podd.load, "inputs": [podd.buffer]})
    read = podd.ask("GET", "/v1/buffers/{id}/data", id=podd.buffer, expect=202,
                    headers={"Prefer": "respond-async"})["id"]
    podd.ask("GET", "/v1/events/{op}/data", op=read, expect=200)
    podd.ask("POST", "/v1/hosts/{n}:cordon", n=0, expect=200)
    podd.ask("POST", "/v1/buffers", body={"core": 0, "bytes": 4}, expect=409)
    podd.ask("POST", "/v1/loads", body={"program": podd.program, "core": 0},
             expect=409)
    podd.ask("POST", "/v1/programs", "?load=0", body=ADD.encode(),
             kind="text/x-hlo", expect=409)
    running = start_spin(podd)["id"]
    podd.ask("POST", "/v1/hosts/{n}:reconnect", n=0, expect=200)
    podd.ask("GET", "/v1/events/{op}", "?wait=50s", op=running, expect=200)
    out = execute["outputs"][0]
    podd.ask("GET", "/v1/buffers/{id}/data", id=out, expect=502)
    read = podd.ask("GET", "/v1/buffers/{id}/data", "?wait=50s", id=out,
                    headers={"Prefer": "respond-async"})["id"]
    podd.ask("GET", "/v1/events/{op}/data", op=read, expect=502)
    podd.ask("DELETE", "/v1/loads/{id}", "?wait=50s", id=podd.load)
    podd.ask("DELETE", "/v1/loads/{id}", id=podd.load)


def walk_reset(podd):
    podd.ask("POST", "/v1/pod:reset", body={"labels": {"": "x"}}, expect=422)
    podd.ask("POST", "/v1/pod:reset", expect=202)
    podd.ask("POST", "/v1/pod:reset", "?wait=50s", expect=200)
    for path in ("buffers", "programs", "loads", "graphs", "events"):
        podd.ask("GET", f"/v1/{path}", expect=200)


def walk_drain():
    """503: no operation is taken while it drains."""
    with Server("--dev", "--drain-timeout", "1h") as podd:
        make(podd)
        start_spin(podd)
        podd.process.send_signal(signal.SIGTERM)
        while podd.raw("GET", "/readyz")[0] != 503:
            pass
        podd.ask("GET", "/readyz", expect=503)
        for (method, path), (query, body, kind) in SOUND(podd).items():
            podd.ask(method, path, query, body=body, kind=kind,
                     **real_ids(path), expect=503)


def SOUND(podd):
    """A sound request of every operation that submits."""
    hlo, octets = (ADD.encode(), "text/x-hlo"), (bytes(4), "application/octet-stream")
    return {
        ("POST", "/v1/pod:reset"): ("", {}, None),
        ("POST", "/v1/buffers"): ("", {"core": 0, "bytes": 4}, None),
        ("DELETE", "/v1/buffers/{id}"): ("", None, None),
        ("PUT", "/v1/buffers/{id}/data"): ("", *octets),
        ("POST", "/v1/buffers/{id}:copy"): ("", {"to": podd.buffer}, None),
        ("POST", "/v1/programs"): ("", *hlo),
        ("DELETE", "/v1/programs/{id}"): ("", None, None),
        ("POST", "/v1/loads"): ("", {"program": podd.program, "core": 0}, None),
        ("DELETE", "/v1/loads/{id}"): ("", None, None),
        ("POST", "/v1/executions"):
            ("", {"load": podd.load, "inputs": [podd.buffer]}, None),
        ("POST", "/v1/graphs"): ("", {"ops": [
            {"op": "allocate", "core": 0, "bytes": "4"}]}, None),
    }


# --------------------------------------------------------------- the document

def check_document(routes):
    """Every route is documented, every reference leads somewhere."""
    known = set(CONTRACT.operations())
    served = {tuple(line.split()) for line in open(routes, encoding="utf-8")}
    for method, path in sorted(served - known):
        fault(f"{method} {path} is served and not documented")
    for method, path in sorted(known - served):
        fault(f"{method} {path} is documented and not served")
    names = [CONTRACT.operation(*o)["operationId"] for o in known]
    if len(set(names)) != len(names):
        fault("an operationId stands twice")
    for schema in CONTRACT.document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for ref in set(re.findall(r'"\$ref": "([^"]*)"',
                              json.dumps(CONTRACT.document))):
        CONTRACT.resolve({"$ref": ref})


def walk(routes):
    global CONTRACT
    with tempfile.TemporaryDirectory() as folder, \
            Server("--dev", "--staging-bytes", "1MiB") as podd:
        CONTRACT = Contract(podd.raw("GET", "/openapi.json")[2])
        check_document(routes)
        make(podd)
        walk_methods(podd)
        walk_common(podd)
        walk_server(podd)
        walk_lists(podd)
        walk_hosts(podd)
        podd.running = start_spin(podd)["id"]
        for part in (walk_programs, walk_graphs, walk_events, walk_waits,
                     walk_buffers, walk_loads, walk_executions, walk_loss,
                     walk_reset):
            part(podd)
        walk_tokens(folder)
    walk_expired()
    walk_workers()
    walk_drain()
    for text in CONTRACT.missing():
        fault(text)
    print(f"{len(CONTRACT.seen)} statuses of {len(list(CONTRACT.operations()))} "
          f"operations, {len(FAULTS)} faults")


if __name__ == "__main__":
    walk(sys.argv[1])
    sys.exit(1 if FAULTS else 0)
