# SPDX-License-Identifier: Apache-2.0
"""Makes a pod do all that an event can tell of: every kind of operation, every
state that one can end in, and some that have not ended.

For a pod of two hosts with four cores each, of which host 1 dies at its 20th
execution, and host 0 fails its seventh read, which is the first after the six
copies of the graph.
"""
import time

DOUBLE = """HloModule double
ENTRY main {
  a = f32[256] parameter(0)
  ROOT b = f32[256] add(a, a)
}
"""
SUM_OVER_CORES = """HloModule sum, replica_count=4
add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}
ENTRY main {
  a = f32[256] parameter(0)
  ROOT b = f32[256] all-reduce(a), replica_groups={}, to_apply=add
}
"""
ENDLESS = """HloModule endless
cond {
  p = s32[] parameter(0)
  ROOT t = pred[] constant(true)
}
body {
  p = s32[] parameter(0)
  ROOT r = s32[] add(p, p)
}
ENTRY main {
  a = s32[] parameter(0)
  ROOT w = s32[] while(a), condition=cond, body=body
}
"""
NOT_IMPLEMENTED = """HloModule bad
ENTRY main {
  a = f32[2,2] parameter(0)
  ROOT c = f32[2,2] cholesky(a), lower=true
}
"""


class BusyPod:
    def __init__(self, client):
        self.client = client
        self.endless = {}  # (load, input) by core

    # ---------------------------------------------------------------- helpers
    def ended(self, event):
        """The event once it has ended, in whichever state."""
        while not event["done"]:
            event = self.client.json("getEvent", op=event["id"],
                                     query={"wait": "20s"})
        return event

    def started(self, event):
        """The event once it runs."""
        limit = time.monotonic() + 60
        while event["state"] != "RUNNING":
            if event["done"] or time.monotonic() > limit:
                raise RuntimeError(event)
            event = self.client.json("getEvent", op=event["id"])
        return event

    def compile(self, text, cores, **more):
        return self.client.json(
            "compileProgram", body=text.encode(), content_type="text/x-hlo",
            query={"load": ",".join(str(core) for core in cores), **more})

    def allocate(self, core, **more):
        value = {"core": core, "shape": "f32[256]", **more}
        return self.client.json("allocateBuffer", value)["buffer"]

    def execute(self, load, buffer, **more):
        return self.client.json("execute",
                                {"load": load, "inputs": [buffer], **more})

    def run_endless(self, core, **more):
        if core not in self.endless:
            event = self.client.done(self.compile(ENDLESS, [core]))
            buffer = self.allocate(core, shape="s32[]", values=1)
            self.endless[core] = event["loads"][0], buffer
        return self.started(self.execute(*self.endless[core], **more))

    def cancel(self, event):
        self.client.json("cancelOperation", {"reason": "enough"},
                         op=event["id"])
        return self.ended(event)

    # -------------------------------------------------------------- the parts
    def graph(self, near, far):
        """Steps on one host, of which each is sent to the other."""
        state = self.allocate(0, fill=1, name="state")
        ops = []
        for i in range(6):
            ops += [
                {"op": "execute", "ref": f"near{i}", "load": near,
                 "inputs": [state], "name": f"step {i}"},
                {"op": "allocate", "ref": f"room{i}", "core": 4,
                 "shape": "f32[256]"},
                {"op": "copy", "from": f"$near{i}.outputs[0]",
                 "to": f"$room{i}", "name": f"send {i}"},
                {"op": "execute", "ref": f"far{i}", "load": far,
                 "inputs": [f"$room{i}"], "name": f"far {i}", "priority": i},
                {"op": "read", "buffer": f"$far{i}.outputs[0]"},
                {"op": "free", "buffer": f"$room{i}"}]
            state = f"$near{i}.outputs[0]"
        self.client.done(self.client.json("submitGraph",
                                          {"ops": ops, "name": "training"}))

    def gang(self):
        cores = [0, 1, 4, 5]
        loads = self.client.done(self.compile(SUM_OVER_CORES, cores,
                                              replicas=4))["loads"]
        launches = [{"load": load, "inputs": [self.allocate(core, fill=1)]}
                    for load, core in zip(loads, cores)]
        self.client.done(self.client.json(
            "execute", {"launches": launches, "name": "all-reduce"}))

    def failures(self):
        """What fails and what depends on it, with names that need care."""
        bad = self.compile(NOT_IMPLEMENTED, [0], name='needs "care" \\ \u00e9')
        self.ended(self.execute(bad["loads"][0],
                                self.allocate(0, shape="f32[2,2]")))
        event = self.client.json("submitGraph", {"ops": [
            {"op": "allocate", "ref": "a", "core": 0, "shape": "f32[256]"},
            {"op": "read", "ref": "r", "buffer": "$a"},
            {"op": "free", "buffer": "$a", "after": ["$r"]}]})
        assert self.ended(event)["state"] == "FAILED"

    def queue(self, program):
        """A busy core: by priority, or too late; then it is cancelled."""
        load = self.client.done(self.client.json(
            "loadProgram", {"program": program, "core": 1}))["load"]
        buffer = self.allocate(1, fill=1)
        busy = self.run_endless(1, name="busy")
        waiting = [self.execute(load, buffer, priority=p) for p in (-5, 0, 5)]
        late = self.execute(load, buffer, deadline="20ms", name="too late")
        assert self.ended(late)["state"] == "FAILED"
        assert self.cancel(busy)["state"] == "CANCELLED"
        for event in waiting:
            self.client.done(event)
        self.client.done(self.client.json("unloadProgram", id=load))

    def memory(self):
        parts = [self.allocate(core % 4, fill=core, name=f"part {core}")
                 for core in range(12)]
        self.client.json("allocateBuffer", {"tuple": [parts[0], parts[4]]})
        self.client.json("writeBuffer", {"values": [2.0] * 256}, id=parts[1])
        self.client.done(self.client.json("freeBuffer", id=parts[2]))

    def lost_host(self, far):
        """Executes on host 1 until it dies, and something that runs there."""
        running = self.run_endless(5, name="lost with its host")
        buffer = self.allocate(4, fill=1)
        for _ in range(30):
            if self.ended(self.execute(far, buffer))["state"] != "SUCCEEDED":
                break
        assert self.ended(running)["state"] == "LOST"

    def quiet_but_for(self, left):
        """Waits for the end of what is open beside these."""
        opened = self.client.json("listEvents", query={
            "state": "WAITING,READY,RUNNING", "page_size": 1000})["events"]
        ids = {event["id"] for event in opened} - {event["id"] for event in left}
        for name in ids:
            self.ended(self.client.json("getEvent", op=name))

    def run(self):
        """All of them. What it gives back has not ended: cancel that."""
        self.client.done(self.client.json("resetPod", {}))
        event = self.client.done(self.compile(DOUBLE, [0, 4], name="double"))
        near, far = event["loads"]
        self.graph(near, far)
        self.gang()
        self.failures()
        self.queue(event["program"])
        self.memory()
        self.lost_host(far)
        running = self.run_endless(2, name="runs still")
        waiting = self.execute(*self.endless[2], name="waits still")
        self.quiet_but_for([waiting, running])
        return [waiting, running]
