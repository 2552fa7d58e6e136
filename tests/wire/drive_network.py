# SPDX-License-Identifier: Apache-2.0
"""A pod whose hosts are in network namespaces, with links that fail.

usage: drive_network.py CASE
Times are printed, not compared, but for one that the network itself makes. Exits with 77 where namespaces cannot be made; never if CI is set. podd is in
host 0, a worker of two cores in each of the others.
"""
import os
import subprocess
import sys
import time
import traceback

from network import Network, enter
from pod_processes import (Client, Failed, Program, Refused,
                           all_reduce_program, expect, sum_program, until)

WORKERS, CORES, PORT = 3, 2, 8470
SKIPPED = 77
SLOW_RATE = 2_000_000 // 8  # bytes per second

# Runs until it is cancelled, or its host is gone.
ENDLESS = """HloModule endless
again {
  p = s32[] parameter(0)
  ROOT t = pred[] constant(true)
}
step {
  ROOT p = s32[] parameter(0)
}
ENTRY main {
  a = s32[] parameter(0)
  ROOT w = s32[] while(a), condition=again, body=step
}
"""

# A gang that sums until it is cancelled.
ENDLESS_GANG = """HloModule endless_gang
plus {
  x = s32[] parameter(0)
  y = s32[] parameter(1)
  ROOT z = s32[] add(x, y)
}
again {
  p = s32[] parameter(0)
  ROOT t = pred[] constant(true)
}
step {
  p = s32[] parameter(0)
  ROOT r = s32[] all-reduce(p), replica_groups={}, to_apply=plus
}
ENTRY main {
  a = s32[] parameter(0)
  ROOT w = s32[] while(a), condition=again, body=step
}
"""


class Pod:
    """podd and workers, each in its namespace. The number of a worker's host in
    the pod is one less than in the network."""

    def __init__(self):
        self.network = Network(WORKERS + 1)
        addresses = [f"{host.address}:{PORT}"
                     for host in self.network.hosts[1:]]
        self.workers = [self.start(number, address)
                        for number, address in enumerate(addresses)]
        self.podd = Program(
            "podd", "--dev", "--insecure", "--listen", "127.0.0.1:0",
            "--log-level", "error", "--pod",
            "grpc+pod://" + ",".join(addresses))
        self.client = Client(self.podd.address)
        for number in range(WORKERS):
            self.client.await_host(number)
        self.loads = {}
        self.prepare()

    def prepare(self):
        """A program on every core. Later ones are compiled on all hosts, so a
        host that goes meanwhile would spoil them."""
        program = self.client.program(sum_program(2))
        for core in range(WORKERS * CORES):
            self.loads[core] = self.client.load(program, core)
            self.works(core)

    def start(self, number, address):
        enter(self.network.hosts[number + 1].namespace)
        worker = Program("podworker", "--insecure", "--listen", address,
                         "--cores-per-chip", str(CORES), "--log-level", "error")
        enter(self.network.hosts[0].namespace)
        return worker

    def link(self, number):
        return self.network.hosts[number + 1]

    def incarnation(self, number):
        return self.client.host(number)["incarnation"]

    def incarnations(self):
        return [self.incarnation(number) for number in range(WORKERS)]

    def run_endless(self, core):
        """An execution that runs; its event's id."""
        load = self.client.load(self.client.program(ENDLESS), core)
        a, b = self.scalar(core), self.scalar(core)
        op = self.client.ask("POST", "/v1/executions", {
            "load": load, "inputs": [a], "outputs": [b]})["id"]
        self.await_running(op)
        return op

    def run_endless_gang(self, cores):
        program = self.client.program(ENDLESS_GANG, len(cores))
        launches = [{"load": self.client.load(program, core),
                     "inputs": [self.scalar(core)],
                     "outputs": [self.scalar(core)]} for core in cores]
        op = self.client.ask("POST", "/v1/executions", {
            "launches": launches, "device_assignment": [cores]})["id"]
        self.await_running(op)
        return op

    def scalar(self, core):
        return self.client.ask("POST", "/v1/buffers",
                               {"core": core, "shape": "s32[]",
                                "values": 1})["buffer"]

    def await_running(self, op):
        until(lambda: self.client.event(op)["state"] == "RUNNING",
              f"{op} is running")

    def works(self, core):
        """A sum on this core, of a host that was not lost since `prepare`."""
        load = self.loads[core]
        a = self.client.upload(core, [core, 2])
        out = self.client.allocate(core, 2)
        self.client.ask("POST", "/v1/executions", {
            "load": load, "inputs": [a, a], "outputs": [out]})
        expect(self.client.read(out) == [2 * core, 4], f"a sum on core {core}")

    def all_work(self):
        """Every core, and a gang over all hosts."""
        for number in range(WORKERS):
            self.client.await_host(number)
        self.prepare()
        self.gang_works()

    def gang_works(self):
        cores = list(range(0, WORKERS * CORES, CORES))
        program = self.client.program(all_reduce_program(1), len(cores))
        launches, outputs = [], []
        for core in cores:
            outputs.append(self.client.allocate(core, 1))
            launches.append({"load": self.client.load(program, core),
                             "inputs": [self.client.upload(core, [core])],
                             "outputs": outputs[-1:]})
        self.client.ask("POST", "/v1/executions",
                        {"launches": launches, "device_assignment": [cores]})
        for output in outputs:
            expect(self.client.read(output) == [sum(cores)], "a gang's sum")

    def passing(self, source, to, begin):
        """Begins an operation; its id when much of it is on the way between two
        hosts of the network."""
        sent = self.network.bytes(source, to)
        op = begin()
        until(lambda: self.network.bytes(source, to) > sent + 50_000,
              f"bytes of {op} pass")
        expect(not self.client.event(op)["done"], f"{op} is not done")
        return op

    def stop(self):
        self.podd.stop()
        for worker in self.workers:
            worker.stop()


def took(begun, what):
    print(f"{what} after {time.monotonic() - begun:.1f} s")


# ------------------------------------------------------------------------ cases

def link_cut_and_mended(pod):
    """What was there is lost, the others go on, it comes back as another."""
    client = pod.client
    kept = client.upload(2, [1, 2])
    client.read(kept)
    running, before = pod.run_endless(3), pod.incarnation(1)
    begun = time.monotonic()
    pod.link(1).cut()
    pod.works(0)
    event = client.done(running)
    took(begun, "the cut was seen")
    expect(event["state"] == "LOST", f"what ran there: {event}")
    expect(client.ask("GET", f"/v1/buffers/{kept}")["state"] == "LOST",
           "a buffer there")
    pod.works(5)
    pod.link(1).mend()
    begun = time.monotonic()
    client.await_host(1)
    took(begun, "it was back")
    expect(pod.incarnation(1) > before, "it is another")
    pod.all_work()


def cut_in_a_copy(pod):
    """From worker to worker: the receiver goes, then the sender."""
    client, values = pod.client, [7] * 2_000_000
    for cut, other in ((1, 0), (0, 1)):
        source = client.upload(0, values)
        to = client.allocate(2, len(values))
        client.read(source)
        pod.network.between(1, 2, rate=SLOW_RATE)
        copy = pod.passing(1, 2, lambda s=source, t=to: client.copy(s, t))
        begun = time.monotonic()
        pod.link(cut).cut()
        event = client.done(copy)
        took(begun, f"the copy ended {event['state']}")
        expect(event["state"] in ("LOST", "FAILED"), f"the copy: {event}")
        pod.works(CORES * other)
        pod.network.between(1, 2, rate=None)
        pod.link(cut).mend()
        client.await_host(cut)
        pod.all_work()


def workers_parted(pod):
    """Both see podd, not each other: a copy that runs ends, a new one too."""
    client, values = pod.client, [9] * 2_000_000
    before = pod.incarnations()
    source = client.upload(0, values)
    to = client.allocate(2, len(values))
    client.read(source)
    pod.network.between(1, 2, rate=SLOW_RATE)
    copy = pod.passing(1, 2, lambda: client.copy(source, to))
    pod.network.between(1, 2, drop=True, rate=None)
    begun = time.monotonic()
    event = client.done(copy)
    took(begun, f"the copy ended {event['state']}")
    if event["state"] == "SUCCEEDED":  # by way of podd
        expect(client.read(to) == values, "the copy's values")
    again = client.allocate(2, len(values))
    event = client.done(client.copy(source, again))
    took(begun, f"the next copy ended {event['state']}")
    if event["state"] == "SUCCEEDED":
        expect(client.read(again) == values, "the next copy's values")
    expect(pod.incarnations() == before, "no host was lost")
    pod.network.between(1, 2, drop=False)
    pod.all_work()


def cut_in_a_gang(pod):
    """It ends as a whole, and frees all its cores."""
    gang = pod.run_endless_gang([0, 2, 4])
    begun = time.monotonic()
    pod.link(2).cut()
    event = pod.client.done(gang)
    took(begun, f"the gang ended {event['state']}")
    expect(event["state"] in ("LOST", "FAILED"), f"the gang: {event}")
    expect(event["error"]["root_cause"]["host"] == 2, f"the cause: {event}")
    pod.works(0)
    pod.works(2)
    pod.link(2).mend()
    pod.all_work()


def workers_parted_in_a_gang(pod):
    """The same while podd sees all of them."""
    before = pod.incarnations()
    gang = pod.run_endless_gang([0, 2, 4])
    pod.network.between(1, 2, drop=True)
    begun = time.monotonic()
    event = pod.client.done(gang)
    took(begun, f"the gang ended {event['state']}")
    expect(event["state"] in ("LOST", "FAILED"), f"the gang: {event}")
    for core in (0, 2, 4):
        pod.works(core)
    expect(pod.incarnations() == before, "no host was lost")
    pod.network.between(1, 2, drop=False)
    pod.all_work()


def gangs_after_workers_parted(pod):
    """A gang may begin before a worker knows that a connection is dead."""
    for _ in range(5):
        gang = pod.run_endless_gang([0, 2, 4])
        pod.network.between(1, 2, drop=True)
        pod.client.done(gang)
        pod.network.between(1, 2, drop=False)
        pod.gang_works()


def far_away(pod):
    """A chain of 200 operations does not take 200 ways there and back."""
    client = pod.client
    buffers = [client.upload(0, [number, 5]) for number in range(201)]
    client.read(buffers[-1])
    pod.network.between(0, 1, delay=0.1)
    begun = time.monotonic()
    client.succeeded(client.ask("POST", "/v1/graphs", {"ops": [
        {"op": "copy", "from": source, "to": to}
        for source, to in zip(buffers, buffers[1:])]})["id"])
    took(begun, "200 copies, 100 ms away, ended")
    # The way alone takes 40 s if each waits for the one before.
    expect(time.monotonic() - begun < 20, "it waited for each")
    expect(client.read(buffers[-1]) == [0, 5], "the chain's value")


def beside(pod, source, to, begin, others):
    """The values of a transfer between two hosts of the network, on a way of
    2 Mbit/s, that goes on while others work. Where all is slow they need a
    longer one than 5 s."""
    count = 320_000
    for _ in range(4):
        values = list(range(count))
        op = pod.passing(source, to, begin(values))
        begun = time.monotonic()
        for core in others:
            pod.works(core)
        beside_it = not pod.client.event(op)["done"]
        pod.client.succeeded(op)
        took(begun, f"{4 * count} bytes were there")
        if beside_it:
            return values
        count *= 2
    raise Failed("others were delayed")


def narrow(pod):
    """A transfer that takes longer than a silent worker is kept delays neither
    signs of life nor others."""
    client, before = pod.client, pod.incarnations()
    pod.network.between(0, 1, rate=SLOW_RATE)
    buffers = []

    def write(values):
        buffers.append(client.allocate(0, len(values)))
        return lambda: client.write(buffers[-1], values)

    values = beside(pod, 0, 1, write, [2, 4] * 5)
    begun = time.monotonic()
    expect(client.read(buffers[-1]) == values, "the values")
    took(begun, "they were read")
    expect(pod.incarnations() == before, "no host was lost")


def narrow_between_workers(pod):
    """The same for a copy from worker to worker."""
    client, before = pod.client, pod.incarnations()
    pod.network.between(1, 2, rate=SLOW_RATE)
    buffers = []

    def copy(values):
        source = client.upload(0, values)
        buffers.append(client.allocate(2, len(values)))
        client.read(source)
        return lambda: client.copy(source, buffers[-1])

    values = beside(pod, 1, 2, copy, range(WORKERS * CORES))
    expect(client.read(buffers[-1]) == values, "the values")
    expect(pod.incarnations() == before, "no host was lost")


def one_way(pod):
    """A link that carries one way only is none."""
    for pair in ((1, 0), (0, 1)):
        before = pod.incarnation(0)
        running = pod.run_endless(0)
        begun = time.monotonic()
        pod.network.set([pair], drop=True)
        expect(pod.client.done(running)["state"] == "LOST", "what ran there")
        took(begun, "it was seen")
        pod.works(2)
        pod.network.set([pair], drop=False)
        begun = time.monotonic()
        pod.client.await_host(0)
        took(begun, "it was back")
        expect(pod.incarnation(0) > before, "it is another")
    pod.all_work()


def packets_lost(pod):
    """Every 30th packet: slower, not wrong, and nobody is given up."""
    before = pod.incarnations()
    for pair in ((0, 1), (0, 2), (1, 2)):
        pod.network.between(*pair, lose=30)
    values = list(range(300_000))
    source, to = pod.client.upload(0, values), pod.client.allocate(2, 300_000)
    pod.client.succeeded(pod.client.copy(source, to))
    expect(pod.client.read(to) == values, "the values")
    pod.all_work()
    expect(pod.incarnations() == before, "no host was lost")


CASES = [link_cut_and_mended, cut_in_a_copy, workers_parted, cut_in_a_gang,
         workers_parted_in_a_gang, gangs_after_workers_parted, far_away,
         narrow, narrow_between_workers, one_way, packets_lost]


def main():
    case, = (case for case in CASES if case.__name__ == sys.argv[1])
    try:
        pod = Pod()
    except (OSError, subprocess.SubprocessError) as error:
        if os.environ.get("CI"):
            raise
        print(f"skipped: no network namespaces here: {error}")
        return SKIPPED
    try:
        case(pod)
        pod.stop()
    except (Failed, Refused):
        traceback.print_exc()
        return 1
    print(f"{case.__name__}: well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
