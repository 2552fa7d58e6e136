# SPDX-License-Identifier: Apache-2.0
"""Loads traces of podd into Perfetto's own trace processor.

usage: perfetto_check.py PORT          all that an event can tell of
       perfetto_check.py PORT COUNT [PID]    so many operations; with podd's
                                      process also what memory it takes

What Perfetto then says by SQL is compared with what the events say. Prints a
line for each fault and one at the end.
"""
import collections
import datetime
import http.client
import json
import sys

from busy_pod import BusyPod
from perfetto_engine import Perfetto
from podd_client import Client

NS = 1000  # in a microsecond
GRAPH = 1000  # operations of one, in a large trace
# The threads of a process from the top down; a core has its own.
TRACKS = ("graphs", "core", "transfers", "programs", "memory")
TRACK_OF_KIND = {
    "GRAPH": "graphs", "RESET": "graphs", "WRITE": "transfers",
    "READ": "transfers", "COPY": "transfers", "COMPILE": "programs",
    "LOAD": "programs", "UNLOAD": "programs", "ALLOCATE": "memory",
    "ALLOCATE_TUPLE": "memory", "FREE": "memory"}
KINDS = set(TRACK_OF_KIND) | {"EXECUTE"}
STATES = {"SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED", "LOST", "RUNNING",
          "WAITING", "READY"}
ARGS = {"state": "state", "graph": "graph", "load": "load",
        "program": "program", "buffer": "buffer", "input": "inputs[0]",
        "output": "outputs[0]", "bytes": "bytes", "priority": "priority",
        "waiting": "waiting", "ready": "ready", "reason": "error.reason",
        "root": "error.root_cause", "request_id": "request_id"}
FLOWS = """
  select extract_arg(o.arg_set_id, 'args.operation') as from_operation,
    extract_arg(i.arg_set_id, 'args.operation') as to_operation
  from flow join slice o on slice_out = o.id join slice i on slice_in = i.id"""
FAULTY = b"""{"traceEvents":[
{"ph":"X","name":"a","pid":1,"tid":2,"ts":1.000,"dur":2.000},
{"ph":"X","name":"b","pid":1,"tid":2,"ts":2.999,"dur":2.000}]}"""

faults = []


def check(good, text):
    if not good:
        faults.append(text)


def time_us(text):
    """Microseconds since 1970 of RFC 3339."""
    time = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return (time - epoch) // datetime.timedelta(microseconds=1)


# ------------------------------------------------------------------ any trace
def all_slices(perfetto, args=()):
    """Track by track, each by its start; with some of ARGS."""
    return perfetto.rows(f"""
      select s.ts, s.dur, s.depth, s.name, s.category, s.track_id,
        t.name as thread, t.is_main_thread as is_main, p.name as process,
        extract_arg(s.arg_set_id, 'args.operation') as operation
        {"".join(f", extract_arg(s.arg_set_id, 'args.{ARGS[name]}') as {name}"
                 for name in args)}
      from slice s join thread_track tt on s.track_id = tt.id
      join thread t using (utid) join process p using (upid)
      order by p.pid, t.tid, s.ts""")


def bad_stats(perfetto):
    """What Perfetto had to complain of, by name."""
    rows = perfetto.rows("select name, severity, value from stats")
    assert {row.severity for row in rows} == {"info", "error", "data_loss"}
    return {row.name: row.value for row in rows
            if row.severity != "info" and row.value != 0}


def check_statistics_tell():
    """Perfetto does complain of slices that overlap by a nanosecond."""
    with Perfetto(FAULTY) as perfetto:
        found = bad_stats(perfetto)
    check(found == {"slice_drop_overlapping_complete_event": 1},
          f"of overlapping slices Perfetto said {found}")


def check_lanes(perfetto, slices):
    """No slice lies over or within another, and none is left out."""
    bad = bad_stats(perfetto)
    check(not bad, f"Perfetto complains: {bad}")
    check(len(slices) == perfetto.value("select count(*) from slice"),
          "there are slices of no thread")
    for before, after in zip(slices, slices[1:]):
        if before.track_id == after.track_id:
            check(before.ts + before.dur <= after.ts, f"{before} and {after}")
    check(all(row.depth == 0 for row in slices), "slices lie within slices")
    check(not any(row.is_main for row in slices), "some thread is the main one")


# ------------------------------------------------------------ of a busy pod
class Expected:
    """What the trace must show of an event on one core, or off the cores."""

    def __init__(self, event, launch, host_of_core):
        target = event["target"] or {"host": None, "core": None}
        self.event = event
        self.core = launch["core"] if launch else target["core"]
        self.load = (launch or event).get("load")
        self.outputs = (launch or event).get("outputs", [])
        self.host = target["host"]
        self.track = TRACK_OF_KIND.get(event["kind"])
        if event["kind"] == "EXECUTE":
            self.host = host_of_core[self.core]
            self.track = f"core {self.core}"

    @property
    def process(self):
        return "pod" if self.host is None else f"host {self.host}"

    @property
    def name(self):
        kind = self.event["kind"]
        plain = f"{kind} {self.load}" if kind == "EXECUTE" else kind
        return self.event.get("name", plain)

    def members(self):
        event, error = self.event, self.event.get("error", {})
        size = event.get("bytes")
        return {
            "name": self.name, "category": event["kind"], "depth": 0,
            "state": event["state"], "process": self.process,
            "graph": None if event["kind"] == "GRAPH" else event.get("graph"),
            "load": self.load, "program": event.get("program"),
            "buffer": event.get("buffer"),
            "input": event.get("inputs", [None])[0],
            "output": self.outputs[0] if self.outputs else None,
            "bytes": None if size is None else int(size),
            "priority": event.get("priority"), "reason": error.get("reason"),
            "root": error.get("root_cause", {}).get("operation"),
            "request_id": event["request_id"]}

    def compare(self, row, since, until):
        what = f"{self.event['id']} on {self.process}/{self.track}"
        for name, value in self.members().items():
            check(getattr(row, name) == value,
                  f"{what}: {name} {getattr(row, name)!r}, not {value!r}")
        thread = row.thread.split(" (")[0]
        check(thread == self.track, f"{what}: it is in {row.thread}")
        start, end = row.ts // NS + since, (row.ts + row.dur) // NS + since
        check(start == time_us(self.event["running"]), f"{what}: start {start}")
        if self.event["done"]:
            check(end == time_us(self.event["finished"]), f"{what}: end {end}")
            durations = self.event["durations"]
            check(f"{row.dur // NS / 1e6:.6f}s" == durations["running"],
                  f"{what}: {row.dur} ns, not {durations}")
            check((row.waiting, row.ready)
                  == (durations["waiting"], durations["ready"]),
                  f"{what}: {row.waiting} {row.ready}, not {durations}")
        else:
            check(end == until, f"{what}: it runs until {end}")


def expected_slices(events, host_of_core):
    for event in events:
        if "running" in event:
            for launch in event.get("launches", [None]):
                yield Expected(event, launch, host_of_core)


def all_events(client):
    events, query = [], {"page_size": 1000}
    while True:
        page = client.json("listEvents", query=query)
        events += page["events"]
        if "next_page_token" not in page:
            return events
        query["page_token"] = page["next_page_token"]


def check_slices(slices, expected, other):
    rows = {(row.operation, row.process, row.thread.split(" (")[0]): row
            for row in slices}
    check(len(rows) == len(slices) == len(expected),
          f"{len(slices)} slices, expected are {len(expected)}")
    since, until = time_us(other["since"]), time_us(other["until"])
    for want in expected:
        row = rows.get((want.event["id"], want.process, want.track))
        check(row is not None, f"{want.event['id']} is not in {want.track}")
        if row is not None:
            want.compare(row, since, until)


def thread_key(name):
    """Where a thread belongs in its process: its track, its lane."""
    track, _, lane = name.partition(" (")
    kind, _, core = track.partition(" ")
    return (TRACKS.index(kind), int(core or 0), int(lane.rstrip(")") or 1))


def check_order(perfetto):
    """Perfetto shows the threads of a process by their ids."""
    threads = collections.defaultdict(list)
    for row in perfetto.rows(
            "select p.name as process, t.name from thread t join process p "
            "using (upid) where t.name is not null order by p.pid, t.tid"):
        threads[row.process].append(thread_key(row.name))
    check(list(threads) == ["pod", "host 0", "host 1"], f"{list(threads)}")
    for process, keys in threads.items():
        check(keys == sorted(set(keys)), f"order of {process}: {keys}")
        for before, after in zip(keys, keys[1:]):
            check(after[2] == 1 or after == before[:2] + (before[2] + 1,),
                  f"lanes of {process}: {keys}")


def check_flows(perfetto, client, slices):
    """From all that an operation waited for, where both have a length."""
    first, expected = {}, collections.Counter()
    for row in slices:
        first.setdefault(row.operation, row)
    for operation, row in first.items():
        before = client.json("listDependencies", op=operation)["events"]
        for name in (event["id"] for event in before):
            cause = first.get(name)
            if cause and cause.ts <= row.ts and cause.dur and row.dur:
                expected[name, operation] += 1
    found = collections.Counter((row.from_operation, row.to_operation)
                                for row in perfetto.rows(FLOWS))
    check(found == expected, f"flows: too many {found - expected}, "
                             f"missing {expected - found}")
    check(len(found) > 50, f"only {len(found)} flows")


def check_busy_pod(client):
    busy = BusyPod(client)
    left = busy.run()
    text = client.call("getTrace", query={"window": "1h"}).body
    events = all_events(client)
    cores = client.json("listCores")["cores"]
    host_of_core = {core["id"]: core["host"] for core in cores}
    expected = list(expected_slices(events, host_of_core))
    with Perfetto(text) as perfetto:
        slices = all_slices(perfetto, ARGS)
        check_lanes(perfetto, slices)
        check_slices(slices, expected, json.loads(text)["otherData"])
        check_order(perfetto)
        check_flows(perfetto, client, slices)
    for event in left:
        busy.cancel(event)
    check({event["kind"] for event in events} == KINDS, "some kind is missing")
    states = {event["state"] for event in events}
    check(STATES - states <= {"WAITING", "READY"}, f"there were but {states}")
    return len(slices)


# -------------------------------------------------------------- a large one
def graph_text(count):
    """Lines of a graph: eight chains over the buffers of eight cores."""
    lines = []
    for i in range(count // 4):
        after = f', "after": ["$b{i - 8}"]' if i >= 8 else ""
        lines += [
            f'{{"op":"allocate","ref":"b{i}","core":{i % 8},'
            f'"shape":"f32[4]","name":"weights {i}"{after}}}',
            f'{{"op":"write","buffer":"$b{i}","values":[1,2,3,4]}}',
            f'{{"op":"read","buffer":"$b{i}"}}',
            f'{{"op":"free","buffer":"$b{i}"}}']
    return "\n".join(lines).encode()


def peak_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields["VmHWM"].split()[0])


def read_trace(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", "/v1/trace?window=1h")
    reply = connection.getresponse()
    assert reply.status == 200, reply.status
    text = reply.read()
    connection.close()
    return text


def read_trace_in_little_memory(port, pid):
    with open(f"/proc/{pid}/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # the peak is what it is now
    before = peak_kib(pid)
    text = read_trace(port)
    grown = peak_kib(pid) - before
    print(f"a trace of {len(text) >> 20} MiB took {grown} KiB")
    check(grown < 16 * 1024, f"podd grew by {grown} KiB")
    return text


def check_large(client, count, pid=None):
    nodes, graphs = graph_text(GRAPH), count // GRAPH
    # One large graph would leave free memory behind, in which a trace fits.
    for _ in range(graphs):
        client.done(client.json("submitGraph", body=nodes,
                                content_type="application/x-ndjson"))
    text = read_trace_in_little_memory(client.port, pid) if pid else \
        read_trace(client.port)
    check(json.loads(text)["otherData"]["complete"], "it is not complete")
    with Perfetto(text) as perfetto:
        slices = all_slices(perfetto)
        check_lanes(perfetto, slices)
        flows = perfetto.value("select count(*) from flow")
    # Graphs and their operations have all numbers from 1 on.
    check(sorted(int(row.operation.partition("-")[2]) for row in slices)
          == list(range(1, graphs * (GRAPH + 1) + 1)), f"{len(slices)} slices")
    check(flows > count, f"{flows} flows")
    return len(slices)


def main():
    port, *large = (int(argument) for argument in sys.argv[1:])
    client = Client("127.0.0.1", port, 1)
    check_statistics_tell()
    count = check_large(client, *large) if large else check_busy_pod(client)
    for fault in faults[:40]:
        print(fault)
    print(f"{count} slices, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
