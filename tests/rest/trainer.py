# SPDX-License-Identifier: Apache-2.0
"""Trains a small network through podd while connections are cut at random.

usage: trainer.py PORT STAGING_BYTES
Environment: POD_TRAINER_OPS (10000), POD_TRAINER_SEED (1). podd must be fresh,
with two hosts and the staging budget given.

A step uploads a batch, or copies one from the other host, and executes one
program that updates the parameters in place, so a step that ran twice or not
at all spoils everything after it. NumPy does the same steps. Compared are every
loss, the final parameters, a counter that the device itself raises, and podd's
own counts of operations by kind with those that were asked for.
"""
import collections
import io
import os
import random
import socket
import sys
import time

import numpy as np

from cutting_proxy import CuttingProxy
from podd_client import Client

PORT, STAGING_BYTES = int(sys.argv[1]), int(sys.argv[2])
OPERATIONS = int(os.environ.get("POD_TRAINER_OPS", "10000"))
SEED = int(os.environ.get("POD_TRAINER_SEED", "1"))
CUT_PROBABILITY = 0.08
TRAINER, STORE = 0, 2  # cores of the two hosts
BATCH, FEATURES, HIDDEN, BATCHES, AT_ONCE = 32, 4, 16, 8, 6
RATE = np.float32(0.1)
STATE = ("w1", "b1", "w2", "b2", "count")

STEP = f"""
HloModule step
add {{
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT sum = f32[] add(p, q)
}}
ENTRY main {{
  w1 = f32[4,16] parameter(0)
  b1 = f32[16] parameter(1)
  w2 = f32[16,1] parameter(2)
  b2 = f32[1] parameter(3)
  count = s32[] parameter(4)
  x = f32[32,4] parameter(5)
  y = f32[32,1] parameter(6)
  zero = f32[] constant(0)
  one = f32[] constant(1)
  mean = f32[] constant({1 / BATCH})
  slope = f32[] constant({2 / BATCH})
  rate = f32[] constant({RATE})
  xw = f32[32,16] dot(x, w1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  b1s = f32[32,16] broadcast(b1), dimensions={{1}}
  z = f32[32,16] add(xw, b1s)
  h = f32[32,16] tanh(z)
  hw = f32[32,1] dot(h, w2), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  b2s = f32[32,1] broadcast(b2), dimensions={{1}}
  o = f32[32,1] add(hw, b2s)
  e = f32[32,1] subtract(o, y)
  ee = f32[32,1] multiply(e, e)
  total = f32[] reduce(ee, zero), dimensions={{0,1}}, to_apply=add
  loss = f32[] multiply(total, mean)
  slopes = f32[32,1] broadcast(slope), dimensions={{}}
  g = f32[32,1] multiply(e, slopes)
  gw2 = f32[16,1] dot(h, g), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  gb2 = f32[1] reduce(g, zero), dimensions={{0}}, to_apply=add
  gh = f32[32,16] dot(g, w2), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}
  ones = f32[32,16] broadcast(one), dimensions={{}}
  hh = f32[32,16] multiply(h, h)
  dh = f32[32,16] subtract(ones, hh)
  gz = f32[32,16] multiply(gh, dh)
  gw1 = f32[4,16] dot(x, gz), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  gb1 = f32[16] reduce(gz, zero), dimensions={{0}}, to_apply=add
  rw1 = f32[4,16] broadcast(rate), dimensions={{}}
  rb1 = f32[16] broadcast(rate), dimensions={{}}
  rw2 = f32[16,1] broadcast(rate), dimensions={{}}
  rb2 = f32[1] broadcast(rate), dimensions={{}}
  dw1 = f32[4,16] multiply(gw1, rw1)
  db1 = f32[16] multiply(gb1, rb1)
  dw2 = f32[16,1] multiply(gw2, rw2)
  db2 = f32[1] multiply(gb2, rb2)
  new_w1 = f32[4,16] subtract(w1, dw1)
  new_b1 = f32[16] subtract(b1, db1)
  new_w2 = f32[16,1] subtract(w2, dw2)
  new_b2 = f32[1] subtract(b2, db2)
  next = s32[] constant(1)
  new_count = s32[] add(count, next)
  ROOT t = (f32[4,16], f32[16], f32[16,1], f32[1], s32[], f32[]) tuple(new_w1, new_b1, new_w2, new_b2, new_count, loss)
}}
"""


def numpy_step(state, x, y):
    """The same step in float32; the loss before it."""
    h = np.tanh(x @ state["w1"] + state["b1"])
    e = h @ state["w2"] + state["b2"] - y
    g = e * np.float32(2 / BATCH)
    gz = (g @ state["w2"].T) * (1 - h * h)
    state["w1"] -= RATE * (x.T @ gz)
    state["b1"] -= RATE * gz.sum(axis=0)
    state["w2"] -= RATE * (h.T @ g)
    state["b2"] -= RATE * g.sum(axis=0)
    state["count"] += 1
    return (e * e).mean()


class Trainer:
    def __init__(self, client):
        self.client = client
        self.asked = collections.Counter()  # operations by kind
        self.numbers = np.random.default_rng(SEED)
        self.expected, self.losses, self.faults = [], {}, []
        self.state = {
            "w1": self.array(FEATURES, HIDDEN), "b1": self.array(HIDDEN),
            "w2": self.array(HIDDEN, 1), "b2": self.array(1),
            "count": np.array(0, np.int32)}
        self.buffers = {name: self.upload(TRAINER, array)
                        for name, array in self.state.items()}
        self.buffers["loss"] = self.client.json(
            "allocateBuffer", {"core": TRAINER, "shape": "f32[]"})["buffer"]
        compiled = self.client.json(
            "compileProgram", body=STEP.encode(), content_type="text/x-hlo",
            query={"load": TRAINER, "wait": "20s"})
        self.client.done(compiled)
        self.program, self.load = compiled["program"], compiled["loads"][0]
        self.asked.update(ALLOCATE=1, COMPILE=1, LOAD=1)
        self.store = [self.store_batch() for _ in range(BATCHES)]
        self.in_flight = []  # (step, graph operation, read operation)

    # ---------------------------------------------------------------- batches
    def array(self, *dimensions):
        return self.numbers.standard_normal(dimensions, np.float32)

    def batch(self):
        x = self.array(BATCH, FEATURES)
        y = np.sin(x[:, :1]) + x[:, 1:2] * np.float32(0.5)
        return x, y

    def upload(self, core, array):
        file = io.BytesIO()
        np.save(file, array)
        self.asked.update(ALLOCATE=1, WRITE=1)
        return self.client.json(
            "allocateBuffer", body=file.getvalue(),
            content_type="application/x-npy", query={"core": core})["buffer"]

    def download(self, buffer):
        answer = self.client.call("readBuffer", id=buffer,
                                  accept="application/x-npy")
        self.asked.update(READ=1)
        return np.load(io.BytesIO(answer.body))

    def store_batch(self):
        x, y = self.batch()
        return x, y, self.upload(STORE, x), self.upload(STORE, y)

    def free(self, buffer):
        self.asked.update(FREE=1)
        return self.client.json("freeBuffer", id=buffer)

    # ------------------------------------------------------------------ steps
    def launch(self, x, y):
        """The members of an execution on the batch of two buffers."""
        state = [self.buffers[name] for name in STATE]
        self.asked.update(EXECUTE=1)
        return {"load": self.load, "inputs": state + [x, y],
                "outputs": state + [self.buffers["loss"]]}

    def expect(self, x, y):
        self.expected.append(numpy_step(self.state, x, y))
        return len(self.expected) - 1

    def plain_step(self, look):
        """One request for each part of it."""
        x, y = self.batch()
        step = self.expect(x, y)
        x, y = self.upload(TRAINER, x), self.upload(TRAINER, y)
        event = self.client.json("execute", self.launch(x, y))
        if look:
            self.client.done(event)
            self.losses[step] = self.download(self.buffers["loss"])
        self.free(x)
        self.free(y)

    def graph_step(self):
        """One graph: a stored batch is copied over from the other host."""
        x, y, stored_x, stored_y = self.store[len(self.expected) % BATCHES]
        step = self.expect(x, y)
        ops = [
            {"ref": "x", "op": "allocate", "core": TRAINER,
             "shape": "f32[32,4]"},
            {"ref": "y", "op": "allocate", "core": TRAINER,
             "shape": "f32[32,1]"},
            {"op": "copy", "from": stored_x, "to": "$x"},
            {"op": "copy", "from": stored_y, "to": "$y"},
            {"op": "execute", **self.launch("$x", "$y")},
            {"ref": "loss", "op": "read", "buffer": self.buffers["loss"]},
            {"op": "free", "buffer": "$x"},
            {"op": "free", "buffer": "$y"}]
        event = self.client.json("submitGraph", {"ops": ops})
        self.asked.update(GRAPH=1, ALLOCATE=2, COPY=2, READ=1, FREE=2)
        self.in_flight.append((step, event["id"], event["refs"]["loss"]["op"]))
        if len(self.in_flight) == AT_ONCE:
            self.collect()

    def collect(self):
        """Waits for the graphs in flight and takes their losses."""
        if self.in_flight:
            self.client.all_done([graph for _, graph, _ in self.in_flight])
        for step, _, read in self.in_flight:
            answer = self.client.call("getReadData", op=read,
                                      accept="application/octet-stream")
            self.losses[step] = np.frombuffer(answer.body, "<f4")[0]
        self.in_flight = []

    def train(self):
        dice = random.Random(SEED)
        while sum(self.asked.values()) < OPERATIONS:
            if dice.random() < 0.5:
                self.graph_step()
            else:
                self.plain_step(look=dice.random() < 0.1)
        self.collect()

    # ----------------------------------------------------------------- checks
    def check(self, good, text):
        if not good:
            self.faults.append(text)

    def check_numbers(self):
        for name in STATE:
            got, want = self.download(self.buffers[name]), self.state[name]
            self.check(np.allclose(got, want, rtol=1e-3, atol=1e-4),
                       f"{name}: {got} is not {want}")
        steps = len(self.expected)
        self.check(int(self.state["count"]) == steps, "the count of NumPy")
        for step, loss in self.losses.items():
            self.check(np.isclose(loss, self.expected[step], rtol=1e-3,
                                  atol=1e-4),
                       f"step {step}: loss {loss}, not {self.expected[step]}")
        tenth = max(1, steps // 10)
        self.check(np.mean(self.expected[-tenth:])
                   < np.mean(self.expected[:tenth]), "it learned nothing")

    def end(self):
        """Frees all; then nothing is left on the device."""
        for _, _, x, y in self.store:
            self.free(x)
            self.free(y)
        for buffer in self.buffers.values():
            self.free(buffer)
        self.client.done(self.client.json("unloadProgram", id=self.load))
        self.client.done(self.client.json("freeProgram", id=self.program))
        self.asked.update(UNLOAD=1, FREE=1)

    def wait_for_all(self):
        """The summary once everything has ended."""
        limit = time.monotonic() + 60
        while True:
            summary = self.client.json("getSummary")
            states = {s: int(n) for s, n in summary["by_state"].items()}
            kinds = {k: int(n) for k, n in summary["by_kind"].items()}
            if not any(states.get(s) for s in ("WAITING", "READY", "RUNNING")):
                return states, kinds
            if time.monotonic() > limit:
                raise TimeoutError(summary)
            time.sleep(0.05)

    def check_counts(self):
        states, kinds = self.wait_for_all()
        # A read changes nothing and takes no key: repeated ones are more.
        self.check(kinds.pop("READ") >= self.asked.pop("READ"), "reads")
        kinds = {kind: n for kind, n in kinds.items() if n}
        self.check(kinds == dict(self.asked),
                   f"podd did {kinds}, asked were {dict(self.asked)}")
        # The read of a client that hangs up is cancelled; nothing else is.
        gone = self.client.json("listEvents", query={
            "state": "CANCELLED", "page_size": 1000, "fields": "kind"})
        self.check(all(event["kind"] == "READ" for event in gone["events"]),
                   f"cancelled {gone}")
        self.check({s for s, n in states.items() if n}
                   <= {"SUCCEEDED", "CANCELLED"}, f"states {states}")
        for core in self.client.json("listCores")["cores"]:
            self.check(core["memory"]["used"] == "0", f"memory of {core}")


def hold_staging(client):
    """Holds all of the staging budget by an upload that never ends, until the
    client is told that podd is busy. Tried until no other upload is held."""
    answer = b""
    while not answer.startswith(b"HTTP/1.1 100 "):
        holder = socket.create_connection(("127.0.0.1", PORT))
        holder.sendall(
            b"POST /v1/buffers?core=0 HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/x-npy\r\nExpect: 100-continue\r\n"
            b"Content-Length: %d\r\n\r\n" % STAGING_BYTES)
        answer = holder.recv(4096)
        client.on_busy = holder.close


def main():
    started = time.monotonic()
    proxy = CuttingProxy(PORT, SEED, CUT_PROBABILITY)
    client = Client("127.0.0.1", proxy.port, SEED)
    trainer = Trainer(client)
    hold_staging(client)
    trainer.train()
    trainer.check_numbers()
    trainer.end()
    operations = sum(trainer.asked.values())
    trainer.check_counts()
    trainer.check(client.busy > 0, "podd was never busy")
    trainer.check(client.replays > 0, "no answer was lost")
    trainer.check(len(proxy.cuts) == 7, "a place was never cut")
    for fault in trainer.faults:
        print(fault)
    print(f"{client.retries} retries, {client.replays} replays, "
          f"{client.busy} times busy, {time.monotonic() - started:.1f} s; "
          f"cuts {dict(sorted(proxy.cuts.items()))}")
    print(f"{operations} operations, {len(trainer.expected)} steps, "
          f"{sum(proxy.cuts.values())} cuts, {len(trainer.faults)} faults")
    return 1 if trainer.faults else 0


if __name__ == "__main__":
    sys.exit(main())
