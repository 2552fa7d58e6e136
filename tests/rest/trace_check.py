# SPDX-License-Identifier: Apache-2.0
"""Checks a trace: usage trace_check.py FILE. Prints how many slices there are
of each thread, and fails if it is not what tracing UIs take: slices of one
thread that overlap, threads without names, times that are no numbers."""
import collections
import decimal
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    trace = json.load(file, parse_float=decimal.Decimal)

assert trace["otherData"]["complete"] is True
threads, processes = {}, {}
slices = collections.defaultdict(list)
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
    assert event["ph"] == "X", event
    assert key in threads and event["pid"] in processes, event
    assert isinstance(event["name"], str) and event["name"], event
    start, duration = event["ts"], event["dur"]
    assert isinstance(start, decimal.Decimal) and start >= 0, event
    assert isinstance(duration, decimal.Decimal) and duration >= 0, event
    slices[key].append((start, start + duration, event["name"]))

for key, spans in slices.items():
    spans.sort()
    for before, after in zip(spans, spans[1:]):
        assert before[1] <= after[0], f"{key}: {before} overlaps {after}"
    print(processes[key[0]], "/", threads[key], ":", len(spans), sep="")
