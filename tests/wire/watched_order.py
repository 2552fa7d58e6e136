# SPDX-License-Identifier: Apache-2.0
"""What those who watch see of operations on workers that answer many at once:
each goes forward only, and none runs before what it waits for has succeeded.

usage: watched_order.py    Environment: POD_BUILD

Which operation waits for which is worked out here, from what each reads and
writes. A watcher who is slow is not told of each state, so states may be left
out, but their order stays.
"""
import http.client
import json
import random
import threading

from pod_processes import LIMIT, Client, Program, expect

GRAPHS = 4
OPERATIONS = 800  # of a graph
BUFFERS = 12
STATES = ["WAITING", "READY", "RUNNING", "SUCCEEDED"]


class Watch(threading.Thread):
    """Messages on operations, until one says that `last` of them succeeded."""

    def __init__(self, address, last):
        super().__init__()
        self.connection = http.client.HTTPConnection(address,
                                                     timeout=2 * LIMIT)
        self.connection.request("GET", "/v1/watch?since=now&topics=events",
                                headers={"Accept": "application/x-ndjson"})
        self.stream = self.connection.getresponse()
        self.left, self.seen = last, []
        self.start()

    def run(self):
        while self.left > 0:
            message = json.loads(self.stream.readline())
            if message["type"] != "event":
                continue
            event = message["object"]
            self.seen.append((int(event["revision"]), event["id"],
                              event["state"]))
            self.left -= event["state"] == "SUCCEEDED"
        self.connection.close()


class Graph:
    """Random operations, and the pairs (cause, effect) of their places."""

    def __init__(self, chance, cores):
        self.chance, self.ops, self.pairs = chance, [], []
        self.writer, self.readers = {}, {}
        for buffer in range(BUFFERS):
            self.add({"ref": f"b{buffer}", "op": "allocate", "shape": "s32[2]",
                      "core": chance.randrange(cores)}, writes=buffer)
        while len(self.ops) < OPERATIONS - BUFFERS:
            self.add_any()
        for buffer in range(BUFFERS):
            self.add({"op": "free", "buffer": f"$b{buffer}"}, writes=buffer)

    def add_any(self):
        one, other = self.chance.sample(range(BUFFERS), 2)
        kind = self.chance.random()
        if kind < 0.6:
            self.add({"op": "copy", "from": f"$b{one}", "to": f"$b{other}"},
                     reads=one, writes=other)
        elif kind < 0.9:
            self.add({"op": "write", "buffer": f"$b{one}", "values": [1, 2]},
                     writes=one)
        else:
            self.add({"op": "read", "buffer": f"$b{one}"}, reads=one)

    def add(self, operation, reads=None, writes=None):
        place = len(self.ops)
        self.ops.append(operation)
        if reads is not None:
            self.pairs.append((self.writer[reads], place))
            self.readers[reads].append(place)
        if writes is None:
            return
        before = self.readers.get(writes) or [self.writer.get(writes)]
        self.pairs += [(cause, place) for cause in before if cause is not None]
        self.writer[writes], self.readers[writes] = place, []


def check_messages(seen):
    """{operation: {state: when}}"""
    found, newest = {}, 0
    for when, (revision, op, state) in enumerate(seen):
        expect(revision > newest, f"{op}: {revision} after {newest}")
        newest = revision
        states = found.setdefault(op, {})
        expect(state in STATES, f"{op} is {state}")
        at = STATES.index(state)
        expect(all(STATES.index(before) < at for before in states),
               f"{op} is {state} after {list(states)}")
        states[state] = when
    return found


def check_pair(found, events, cause, effect):
    ended, states = found[cause]["SUCCEEDED"], found[effect]
    begun = min(states[state] for state in ("RUNNING", "SUCCEEDED")
                if state in states)
    expect(ended < begun, f"{effect} ran before {cause} had succeeded: "
           f"{states}, {found[cause]}")
    expect(events[cause]["finished"] <= events[effect]["running"],
           f"{events[cause]}\n{events[effect]}")


def main():
    workers = [Program("podworker", "--listen", "127.0.0.1:0",
                       "--cores-per-chip", "2", "--log-level", "error")
               for _ in range(2)]
    podd = Program("podd", "--dev", "--listen", "127.0.0.1:0", "--log-level",
                   "error", "--pod", "grpc+pod://"
                   + ",".join(worker.address for worker in workers))
    client = Client(podd.address)
    for host in range(len(workers)):
        client.await_host(host)
    cores = len(client.collection("cores"))
    watch = Watch(podd.address, GRAPHS * (OPERATIONS + 1))
    pairs = []
    for seed in range(GRAPHS):
        graph = Graph(random.Random(seed), cores)
        answer = client.ask("POST", "/v1/graphs", {"ops": graph.ops})
        first = int(answer["graph"].split("-")[1]) + 1
        pairs += [(f"op-{first + cause}", f"op-{first + effect}")
                  for cause, effect in graph.pairs]
    watch.join()
    found = check_messages(watch.seen)
    events = {event["id"]: event for event in client.collection("events")}
    for cause, effect in pairs:
        check_pair(found, events, cause, effect)
    expect(len(pairs) > GRAPHS * OPERATIONS, f"{len(pairs)} pairs")
    podd.stop()
    for worker in workers:
        worker.stop()


if __name__ == "__main__":
    main()
