# SPDX-License-Identifier: Apache-2.0
"""Checks a trace: usage trace_check.py FILE. Prints how many slices there are
of each thread and which operations are joined by flows, and fails if it is not
what tracing UIs take: slices of one thread that overlap, threads without names,
times that are no numbers, flows that have not two ends or go back in time, ends
that lie in no slice of their thread."""
import bisect
import collections
import decimal
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    trace = json.load(file, parse_float=decimal.Decimal)

assert trace["otherData"]["complete"] is True
threads, processes = {}, {}
slices = collections.defaultdict(list)
flows = collections.defaultdict(dict)
for event in trace["traceEvents"]:
    key = (event["pid"], event["tid"])
    if event["ph"] == "M":
        if event["name"] == "thread_name":
            assert key not in threads, f"{key} is named twice"
            threads[key] = event["args"]["name"]
        else:
            assert event["name"] == "process_name", event
            processes[event["pid"]] = event["args"]["name"]
        continue
    if event["ph"] in ("s", "f"):
        assert event["ph"] not in flows[event["id"]], f"{event} is there twice"
        assert event["ph"] == "s" or event["bp"] == "e", event
        flows[event["id"]][event["ph"]] = event
        continue
    assert event["ph"] == "X", event
    assert key in threads and event["pid"] in processes, event
    assert isinstance(event["name"], str) and event["name"], event
    start, duration = event["ts"], event["dur"]
    assert isinstance(start, decimal.Decimal) and start >= 0, event
    assert isinstance(duration, decimal.Decimal) and duration >= 0, event
    slices[key].append((start, start + duration, event["args"]["operation"]))

for key, spans in slices.items():
    spans.sort()
    for before, after in zip(spans, spans[1:]):
        assert before[1] <= after[0], f"{key}: {before} overlaps {after}"
    print(processes[key[0]], "/", threads[key], ":", len(spans), sep="")


def bound(end):
    """The operation whose slice an end of a flow lies in."""
    spans = slices[(end["pid"], end["tid"])]
    at = bisect.bisect_right(spans, end["ts"], key=lambda span: span[0]) - 1
    assert at >= 0 and end["ts"] < spans[at][1], f"{end} is in no slice"
    return spans[at][2]


for flow in flows.values():
    assert len(flow) == 2, f"{flow} has one end"
    assert flow["s"]["ts"] <= flow["f"]["ts"], f"{flow} goes back"
    assert flow["s"]["cat"] == flow["f"]["cat"] and \
        flow["s"]["name"] == flow["f"]["name"], flow
    print(bound(flow["s"]), ">", bound(flow["f"]))
