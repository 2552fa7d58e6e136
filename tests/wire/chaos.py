# SPDX-License-Identifier: Apache-2.0
"""Workers die, freeze and leave under load; the pod must not notice for long.

usage: chaos.py
Environment: POD_BUILD, POD_CHAOS_ROUNDS (100; 24 with POD_SLOW), POD_CHAOS_SEED
(1), POD_SLOW: a build with sanitizers, whose memory says nothing.

Several clients run stories: each makes what it needs, computes, reads back what
it can compare, and frees. A story may fail because a worker did, but podd
must say so, and what succeeded must be right. Meanwhile each worker meets
what its part of the deck says. After all, nothing may be left.
"""
import collections
import os
import random
import signal
import sys
import threading
import time
import traceback

from pod_processes import (Client, Program, Refused, all_reduce_program,
                           expect, own_address, sum_program, until)

SLOW = "POD_SLOW" in os.environ
ROUNDS = int(os.environ.get("POD_CHAOS_ROUNDS", "24" if SLOW else "100"))
SEED = int(os.environ.get("POD_CHAOS_SEED", "1"))
WORKERS, CORES, CLIENTS = 4, 2, 5
# Of 20 rounds.
DECK = ["kill"] * 8 + ["stop short"] * 5 + ["stop long"] * 3 + ["leave"] * 4
SHORT = 0.5  # seconds; a silent worker is given up after 4
WARM_UP = 60 if SLOW else 200  # stories
LONGEST_STORY = 90
# What podd may answer when a worker has failed, or is not there; conflict, what
# became of it, unavailable, too late.
STATUSES = {409, 429, 502, 503, 504}
# Beyond what the warm-up took: threads of gRPC come and go.
MORE_FILES, MORE_THREADS, MORE_MEMORY_KIB = 12, 8, 48 << 10


# ------------------------------------------------------------------ the workers

class Host:
    """A podworker that is started anew at the same address."""

    def __init__(self, number):
        self.number = number
        self.flags = ["--cores-per-chip", str(CORES), "--latency", "1ms",
                      "--log-level", "error"]
        self.longest = 0  # until the pod saw that it was stopped, seconds
        self.program = self.start(own_address() + ":0")
        self.address = self.program.address

    def start(self, listen):
        return Program("podworker", "--listen", listen, *self.flags)

    def kill(self):
        self.program.signal(signal.SIGKILL)
        self.program.process.wait()
        self.program = self.start(self.address)

    def leave(self):
        self.program.stop()
        self.program = self.start(self.address)

    def stop_for_a_while(self):
        self.program.signal(signal.SIGSTOP)
        time.sleep(SHORT)
        self.program.signal(signal.SIGCONT)

    def stop_until_seen(self, client):
        self.program.signal(signal.SIGSTOP)
        begun = time.monotonic()
        client.await_host(self.number, lambda state: state != "READY")
        self.longest = max(self.longest, time.monotonic() - begun)
        self.program.signal(signal.SIGCONT)

    def suffer(self, way, client):
        """And is back; but for a short stop it is another then."""
        before = client.host(self.number)["incarnation"]
        if way == "stop short":
            self.stop_for_a_while()
            return
        if way == "kill":
            self.kill()
        elif way == "leave":
            self.leave()
        else:
            self.stop_until_seen(client)
        until(lambda: client.host(self.number)["incarnation"] > before,
              f"host {self.number} is another")
        client.await_host(self.number)


# ---------------------------------------------------------------------- stories

class Story:
    """Runs one after the other, from a seed."""

    def __init__(self, address, seed):
        self.client = Client(address, STATUSES)
        self.dice = random.Random(seed)
        self.counts = collections.Counter()
        self.made = []  # (kind, id): what is to be freed

    def core(self):
        return self.dice.randrange(WORKERS * CORES)

    def values(self, count):
        return [self.dice.randrange(-1000, 1000) for _ in range(count)]

    def buffer(self, core, values):
        buffer = self.client.allocate(core, len(values))
        self.made.append(("buffers", buffer))
        self.client.write(buffer, values)
        return buffer

    def program(self, text, cores):
        program = self.client.program(text, len(cores))
        self.made.append(("programs", program))
        loads = []
        for core in cores:
            loads.append(self.client.load(program, core))
            self.made.append(("loads", loads[-1]))
        return loads

    def compare(self, buffer, values):
        got = self.client.read(buffer)
        expect(got == values, f"{buffer}: {got[:8]} is not {values[:8]}")

    def keep(self):
        """Writes and reads of one core."""
        core, values = self.core(), self.values(self.dice.choice([4, 1000]))
        buffer = self.buffer(core, values)
        self.compare(buffer, values)
        again = self.values(len(values))
        self.client.write(buffer, again)
        self.compare(buffer, again)

    def bulk(self):
        """A buffer of several pieces, moved to another host."""
        values = self.values(1000) * 1200
        source = self.buffer(self.core(), values)
        to = self.buffer(self.core(), [0] * len(values))
        self.client.copy(source, to)
        self.compare(to, values)

    def chain(self):
        """Sums on one core, each on the one before."""
        core, values = self.core(), self.values(16)
        load, = self.program(sum_program(16), [core])
        first, last = self.buffer(core, values), self.buffer(core, values)
        steps = self.dice.randrange(1, 20)
        for _ in range(steps):
            self.client.ask("POST", "/v1/executions",
                            {"load": load, "inputs": [first, last],
                             "outputs": [last]})
        self.compare(last, [(1 + steps) * value for value in values])

    def around(self):
        """Copies over all hosts."""
        values = self.values(100)
        cores = list(range(0, WORKERS * CORES, CORES))
        self.dice.shuffle(cores)
        buffers = [self.buffer(core, [0] * 100) for core in cores]
        self.client.write(buffers[0], values)
        for source, to in zip(buffers, buffers[1:]):
            self.client.copy(source, to)
        self.compare(buffers[-1], values)

    def gang(self):
        """An all-reduce over several hosts."""
        hosts = self.dice.sample(range(WORKERS), self.dice.choice([2, 3]))
        cores = [CORES * host + self.dice.randrange(CORES) for host in hosts]
        loads = self.program(all_reduce_program(8), cores)
        inputs = [self.values(8) for _ in cores]
        launches, outputs = [], []
        for load, core, values in zip(loads, cores, inputs):
            outputs.append(self.buffer(core, [0] * 8))
            launches.append({"load": load, "outputs": outputs[-1:],
                             "inputs": [self.buffer(core, values)]})
        self.client.ask("POST", "/v1/executions",
                        {"launches": launches, "device_assignment": [cores]})
        total = [sum(column) for column in zip(*inputs)]
        for output in outputs:
            self.compare(output, total)

    def graph(self):
        """Values, a sum and a copy to another core, at once."""
        core, other, values = self.core(), self.core(), self.values(16)
        event = self.client.ask("POST", "/v1/graphs", {"ops": [
            {"ref": "a", "op": "allocate", "core": core, "shape": "s32[16]",
             "values": values},
            {"ref": "p", "op": "compile", "hlo": sum_program(16)},
            {"ref": "l", "op": "load", "program": "$p", "core": core},
            {"ref": "x", "op": "execute", "load": "$l", "inputs": ["$a", "$a"]},
            {"ref": "b", "op": "allocate", "core": other, "shape": "s32[16]"},
            {"ref": "c", "op": "copy", "from": "$x.outputs[0]", "to": "$b"}]})
        refs = event["refs"]
        self.made += [("programs", refs["p"]["program"]),
                      ("loads", refs["l"]["load"]),
                      ("buffers", refs["a"]["buffer"]),
                      ("buffers", refs["x"]["outputs"][0]),
                      ("buffers", refs["b"]["buffer"])]
        state = self.client.done(event["id"])["state"]
        if state == "SUCCEEDED":
            self.compare(refs["b"]["buffer"], [2 * value for value in values])

    def run(self):
        tell = self.dice.choice([self.keep, self.keep, self.chain, self.around,
                                 self.gang, self.graph, self.bulk])
        begun = time.monotonic()
        try:
            tell()
            self.counts[tell.__name__] += 1
        except Refused as refused:
            self.counts[refused.reason] += 1
        self.free()
        took = time.monotonic() - begun
        expect(took < LONGEST_STORY, f"{tell.__name__} took {took} s")

    def free(self):
        """A program after its loads, last made first."""
        ops = []
        while self.made:
            kind, handle = self.made.pop()
            try:
                ops.append(self.client.ask("DELETE", f"/v1/{kind}/{handle}"))
            except Refused as refused:
                # A program stays in use while the end of its loads is refused.
                self.counts["not freed, " + refused.reason] += 1


# ----------------------------------------------------------------- the whole run

class Chaos:
    def __init__(self):
        self.hosts = [Host(number) for number in range(WORKERS)]
        self.podd = Program(
            "podd", "--dev", "--listen", "127.0.0.1:0", "--log-level", "error",
            "--history-count", "2000", "--staging-bytes", "256MiB", "--pod",
            "grpc+pod://" + ",".join(host.address for host in self.hosts))
        self.client = Client(self.podd.address)
        for number in range(WORKERS):
            self.client.await_host(number)
        self.faults, self.counts = [], collections.Counter()
        self.over = threading.Event()
        self.warm = threading.Semaphore(0)
        self.tormented = threading.Semaphore(0)
        self.closing = threading.Event()
        self.ways = collections.Counter()

    def guard(self, work, *args):
        """Of a thread: whatever it raises is a fault."""
        try:
            work(*args)
        except Exception:  # pylint: disable=broad-except
            self.faults.append(traceback.format_exc())
            self.over.set()
            self.warm.release(WARM_UP)
            self.tormented.release()

    def tell_stories(self, seed):
        story = Story(self.podd.address, seed)
        while not self.over.is_set():
            story.run()
            self.warm.release()
        self.counts.update(story.counts)
        self.counts["answers"] += story.client.answers

    def torment(self, host, ways, seed):
        dice, client = random.Random(seed), Client(self.podd.address)
        for way in ways:
            if self.over.is_set():
                break
            host.suffer(way, client)
            self.ways[way] += 1
            time.sleep(dice.uniform(0, 0.5))  # part of the load's random mix
        self.tormented.release()
        # A worker ends with the thread that started it.
        self.closing.wait()

    def threads(self, work, arguments):
        threads = [threading.Thread(target=self.guard, args=(work, *args))
                   for args in arguments]
        for thread in threads:
            thread.start()
        return threads

    def torment_all(self):
        """Deals the rounds, while stories are told."""
        deck = (DECK * (ROUNDS // len(DECK) + 1))[:ROUNDS]
        random.Random(SEED).shuffle(deck)
        self.threads(self.torment, [
            (host, deck[host.number::WORKERS], 1000 * SEED + 500 + host.number)
            for host in self.hosts])
        for _ in self.hosts:
            self.tormented.acquire()

    def run(self):
        stories = self.threads(self.tell_stories, [
            (1000 * SEED + number,) for number in range(CLIENTS)])
        for _ in range(WARM_UP):
            self.warm.acquire()
        before = self.usage()
        self.torment_all()
        self.over.set()
        for thread in stories:
            thread.join()
        if self.faults:
            return
        self.check_end()
        self.check_usage(before)
        for host in self.hosts:
            host.program.stop()
        self.podd.stop()

    def usage(self):
        return (self.podd.files(), self.podd.status("Threads"),
                self.podd.status("VmRSS"))

    def free_all(self):
        for name in ("loads", "programs", "buffers"):
            for thing in self.client.collection(name):
                if thing["state"] == "FREED":
                    continue
                event = self.client.ask("DELETE", f"/v1/{name}/{thing['id']}")
                self.client.done(event["id"])

    def check_end(self):
        self.client = Client(self.podd.address)  # the first was idle for long
        for host in self.hosts:
            self.client.await_host(host.number)
        until(lambda: self.client.open_operations() == 0,
              "all operations have ended")
        self.free_all()
        until(lambda: self.client.open_operations() == 0, "the last have ended")
        for core in self.client.collection("cores"):
            expect(core["memory"]["used"] == "0", f"memory of {core}")
            expect(core["queue_depth"] == 0, f"queue of {core}")
        until(lambda: self.client.metrics()["podd_staging_used_bytes"] == 0,
              "staging is in use")
        metrics = self.client.metrics()
        for name, value in metrics.items():
            if name.startswith("podd_operations_open"):
                expect(value == 0, f"{name} {value}")
        for core in range(WORKERS * CORES):  # and all of it works
            buffer = self.client.upload(core, [core, 2])
            expect(self.client.read(buffer) == [core, 2], f"core {core}")
            self.client.done(self.client.free(buffer))

    def check_usage(self, before):
        until(lambda: self.podd.files() <= before[0] + MORE_FILES,
              "files were closed")
        until(lambda: self.podd.status("Threads") <= before[1] + MORE_THREADS,
              "threads have ended")
        after = self.usage()
        print(f"files, threads, KiB: {before} before, {after} after")
        expect(SLOW or after[2] <= before[2] + MORE_MEMORY_KIB,
               f"memory {before[2]} KiB became {after[2]} KiB")


def main():
    begun = time.monotonic()
    chaos = Chaos()
    chaos.guard(chaos.run)
    chaos.closing.set()
    for fault in chaos.faults:
        print(fault)
    print(f"seen after {max(host.longest for host in chaos.hosts):.1f} s at most; "
          f"{dict(chaos.ways)}; {dict(sorted(chaos.counts.items()))}")
    print(f"{sum(chaos.ways.values())} rounds, {len(chaos.faults)} faults, "
          f"{time.monotonic() - begun:.0f} s")
    return 1 if chaos.faults else 0


if __name__ == "__main__":
    sys.exit(main())
