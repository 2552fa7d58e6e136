# SPDX-License-Identifier: Apache-2.0
"""Runs the test programs through REST, from text and from protos.

usage: programs.py PORT FOLDER      (the unpacked tests/data/programs.tar.xz)
Every program of the short list must give the expected results, every bad one
must be refused. Prints a line for each fault, then how many were run.
"""
import io
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np

PORT, FOLDER = sys.argv[1], sys.argv[2]
FORMATS = ((".hlo.txt", "text/x-hlo"), (".hlo.pb", "application/x-hlo-proto"))


def ask(method, path, body=None, kind=None, accept=None):
    """(status, body) of one request."""
    headers = {}
    if kind:
        headers["Content-Type"] = kind
    if accept:
        headers["Accept"] = accept
    if isinstance(body, dict):
        body, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", body,
                                     headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def submit(method, path, body=None, kind=None):
    status, text = ask(method, path, body, kind)
    if status not in (200, 201, 202):
        raise RuntimeError(f"{method} {path}: {status} {text[:300]!r}")
    return json.loads(text)


def done(event):
    while True:
        status, text = ask("GET", f"/v1/events/{event['id']}?wait=50s")
        event = json.loads(text)
        if status != 200:
            raise RuntimeError(f"{event}")
        if event["done"]:
            return event


def upload(core, array, shape):
    """A buffer of the shape with the array's bytes; bf16 comes as uint16."""
    if shape.startswith("bf16"):
        made = submit("POST", "/v1/buffers", {"core": core, "shape": shape})
        submit("PUT", f"/v1/buffers/{made['buffer']}/data", array.tobytes(),
               "application/octet-stream")
        return made["buffer"]
    file = io.BytesIO()
    np.save(file, array)
    return submit("POST", f"/v1/buffers?core={core}", file.getvalue(),
                  "application/x-npy")["buffer"]


def parse_tuple(text):
    """"(a, (b, c))" as nested lists of texts."""
    text = text.strip()
    if not text.startswith("("):
        return text
    parts, depth, start = [], 0, 1
    for i, c in enumerate(text):
        inside = c in "([{"
        depth += inside - (c in ")]}")
        if (c == "," and depth == 1) or (depth == 0 and i > start):
            parts.append(text[start:i])
            start = i + 1
    return [parse_tuple(p) for p in parts]


def build(tree, leaves):
    """The buffer of a parameter: a leaf, or a tuple of what is in it."""
    if isinstance(tree, str):
        return leaves.pop(0)
    children = [build(t, leaves) for t in tree]
    return submit("POST", "/v1/buffers", {"tuple": children})["buffer"]


def split_parameters(text):
    return parse_tuple("(" + text + ")")


def compare(got, want, tolerance, is_bf16):
    """None, or what is wrong. `got` are octets."""
    if len(got) != want.nbytes:
        return f"{len(got)} bytes, expected {want.nbytes}"
    got = np.frombuffer(got, want.dtype).reshape(want.shape)
    if is_bf16:
        got, want = ((x.astype(np.uint32) << 16).view(np.float32)
                     for x in (got, want))
    if want.dtype.kind not in "fc":
        return None if np.array_equal(got, want) else "differs"
    nan = np.isnan(want)
    if not np.array_equal(np.isnan(got), nan):
        return "NaN elsewhere"
    got, want = got[~nan], want[~nan]
    if tolerance["mode"] == "exact":
        same = np.array_equal(got, want) and \
            np.array_equal(np.signbit(got), np.signbit(want))
        return None if same else "not exactly equal"
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite]):
        return "infinities differ"
    off = np.abs(got[finite].astype(np.float64) - want[finite]) > \
        tolerance["atol"] + tolerance["rtol"] * np.abs(want[finite].astype(np.float64))
    return f"{off.sum()} elements are off" if off.any() else None


class Program:
    def __init__(self, name):
        self.name = name
        self.base = os.path.join(FOLDER, name, name)
        with open(self.base + ".json", encoding="utf-8") as file:
            self.about = json.load(file)
        self.replicas = self.about["replicas"]

    def array(self, replica, which):
        prefix = f".r{replica}" if self.replicas > 1 else ""
        return np.load(f"{self.base}{prefix}.{which}.npy")

    def inputs(self, replica):
        shapes = [s.split("{")[0] for s in self.about["parameters"]]
        leaves = [upload(replica, self.array(replica, f"in{i}"), s)
                  for i, s in enumerate(shapes)]
        trees = self.about.get("parameter_tuples")
        if not trees:
            return leaves
        trees = split_parameters(trees) if isinstance(trees, str) else \
            [parse_tuple(t) for t in trees]
        return [build(t, leaves) for t in trees]

    def execute(self, loads):
        launches = [{"load": load, "inputs": self.inputs(r)}
                    for r, load in enumerate(loads)]
        body = launches[0] if self.replicas == 1 else {"launches": launches}
        event = done(submit("POST", "/v1/executions", body))
        if event["state"] != "SUCCEEDED":
            raise RuntimeError(f"{event['state']}: {event['error']['detail']}")
        return [event["outputs"]] if self.replicas == 1 else \
            [launch["outputs"] for launch in event["launches"]]

    def leaves(self, outputs):
        """Buffers with data: tuples are taken apart, depth first."""
        found = []
        for output in outputs:
            buffer = json.loads(ask("GET", f"/v1/buffers/{output}")[1])
            found += self.leaves(buffer["tuple"]) if buffer["tuple"] else [output]
        return found

    def check(self, replica, outputs):
        results = self.about["results"]
        outputs = self.leaves(outputs)
        if len(outputs) != len(results):
            return f"{len(outputs)} results, expected {len(results)}"
        for i, (buffer, shape) in enumerate(zip(outputs, results)):
            status, data = ask("GET", f"/v1/buffers/{buffer}/data")
            if status != 200:
                return f"out{i}: {status} {data[:200]!r}"
            fault = compare(data, self.array(replica, f"out{i}"),
                            self.about["tolerance"][i],
                            shape.startswith("bf16"))
            if fault:
                return f"out{i} of replica {replica}: {fault}"
        return None

    def run(self, suffix, kind):
        with open(self.base + suffix, "rb") as file:
            text = file.read()
        cores = ",".join(str(r) for r in range(self.replicas))
        event = done(submit("POST", f"/v1/programs?replicas={self.replicas}"
                            f"&load={cores}", text, kind))
        if event["state"] != "SUCCEEDED":
            return f"{event['state']}: {event['error']['detail']}"
        for replica, outputs in enumerate(self.execute(event["loads"])):
            fault = self.check(replica, outputs)
            if fault:
                return fault
        return None


def bad_text(about):
    folder = os.path.join(FOLDER, "bad")
    if "file" in about:
        with open(os.path.join(folder, about["file"]), "rb") as file:
            return file.read()
    command = about["generate"].split(">")[0].split()
    command[0] = sys.executable
    # A Python that does not buffer loses what a pipe does not take at once.
    env = {**os.environ, "PYTHONUNBUFFERED": ""}
    return subprocess.run(command, cwd=folder, check=True, env=env,
                          stdout=subprocess.PIPE).stdout


def check_bad(about):
    kind = FORMATS[about["format"] == "hlo-proto"][1]
    event = done(submit("POST", "/v1/programs", bad_text(about), kind))
    if event["state"] != "FAILED":
        return f"{event['state']}, must be refused"
    lines = [int(n) for n in re.findall(r"\d+", about["where"])] \
        if about["where"].startswith("line ") else []
    line = event["error"].get("metadata", {}).get("line")
    if lines and line is not None and int(line) not in lines:
        return f"line {line}, expected {about['where']}: {event['error']}"
    return None


def main():
    faults = run = refused = 0
    for name in sorted(os.listdir(FOLDER)):
        if not os.path.isfile(os.path.join(FOLDER, name, name + ".json")):
            continue
        program = Program(name)
        for suffix, kind in FORMATS if program.about["short_list"] else ():
            run += 1
            try:
                fault = program.run(suffix, kind)
            except (RuntimeError, KeyError) as error:
                fault = f"{type(error).__name__} {error}"
            if fault:
                print(f"{name}{suffix}: {fault}")
                faults += 1
        # What is made by one program must not crowd out the next one.
        ask("POST", "/v1/pod:reset")
    bad = os.path.join(FOLDER, "bad")
    for name in sorted(n for n in os.listdir(bad) if n.endswith(".json")):
        with open(os.path.join(bad, name), encoding="utf-8") as file:
            fault = check_bad(json.load(file))
        refused += 1
        if fault:
            print(f"bad/{name}: {fault}")
            faults += 1
    print(f"{run} runs, {refused} refusals, {faults} faults")
    return 1 if faults else 0


sys.exit(main())
