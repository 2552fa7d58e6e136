# SPDX-License-Identifier: Apache-2.0
"""Workers that come and go while podd runs.

usage: hosts.py CASE    Environment: POD_BUILD.
"""
import resource
import signal
import time

from pod_processes import (Client, Program, Refused, all_reduce_program,
                           expect, own_address, run_case, until)

ASKED, SILENT = 1, 4  # seconds: podd asks, and gives up who does not answer
ROUNDS = 10  # of adding and removing; each adds threads that must end
MORE_THREADS = 8  # of gRPC, which come and go
FLAGS = ("--cores-per-chip", "1", "--log-level", "error")
WORKER = ("--listen", "127.0.0.1:0", *FLAGS)
RETURNS = ("--listen", own_address() + ":0", *FLAGS)


def refused(status, reason, ask):
    try:
        ask()
    except Refused as refusal:
        expect((refusal.status, refusal.reason) == (status, reason),
               f"{refusal} is not {status} {reason}")
        return
    expect(False, f"it was not refused with {status} {reason}")


def condition(host, kind):
    found = [c for c in host["conditions"] if c["type"] == kind]
    return found[0]["status"], found[0]["reason"]


def core_of(client, host):
    return next(core["id"] for core in client.collection("cores")
                if core["host"] == host)


def gang(client, program, cores):
    """An all-reduce over the cores: the sum of 1, 2, 3, ..."""
    launches, outputs = [], []
    for part, core in enumerate(cores):
        outputs.append(client.upload(core, [0, 0]))
        launches.append({"load": client.load(program, core),
                         "inputs": [client.upload(core, [part + 1, 10])],
                         "outputs": outputs[-1:]})
    client.succeeded(client.ask("POST", "/v1/executions",
                                {"launches": launches})["id"])
    total = [sum(range(1, len(cores) + 1)), 10 * len(cores)]
    for output in outputs:
        expect(client.read(output) == total, f"{output} is not {total}")


def last_message(address, cursor, host):
    """What a watcher is told of a host in the end."""
    client = Client(address)
    page = client.ask("GET", f"/v1/watch?since={cursor}&topics=hosts&wait=50s",
                      accept="application/json")
    told = [change["object"] for change in page["changes"]
            if change["object"]["id"] == host]
    return told[-1] if told else None


def join(client, worker, number):
    made = client.ask("POST", "/v1/hosts", {"address": worker.address})
    expect(made["id"] == number, f"{made} is not host {number}")
    refused(409, "HOST_EXISTS", lambda: client.ask(
        "POST", "/v1/hosts", {"address": worker.address}))
    client.await_host(number)
    return core_of(client, number)


def work(client, program, core):
    """Copies to the new host and back, and a gang of all three."""
    values = list(range(1000))
    source, there, back = (client.upload(0, values), client.allocate(core, 1000),
                           client.allocate(1, 1000))
    client.copy(source, there)
    copied = client.succeeded(client.copy(there, back))
    expect("running" in copied, f"it ran at no time: {copied}")
    expect(client.read(back) == values, "the copies differ")
    gang(client, program, [0, 1, core])
    return there


def lose_by_delete(client, podd, number, core, kept):
    refused(409, "IN_USE",
            lambda: client.ask("DELETE", f"/v1/hosts/{number}"))
    drained = client.ask("POST", f"/v1/hosts/{number}:drain?wait=50s")
    expect(condition(drained, "DRAINED") == ("TRUE", "IDLE"), f"{drained}")
    expect(condition(drained, "SCHEDULABLE") == ("FALSE", "CORDONED"),
           f"{drained}")
    cursor = client.ask("GET", "/v1/watch?since=now&topics=hosts&wait=0",
                        accept="application/json")["cursor"]
    client.ask("DELETE", f"/v1/hosts/{number}?force=true")
    for path in (f"hosts/{number}", f"cores/{core}"):
        refused(410, "EXPIRED", lambda: client.ask("GET", f"/v1/{path}"))
    expect(all(host["id"] != number for host in client.collection("hosts")),
           "it is in the list")
    expect(client.ask("GET", f"/v1/buffers/{kept}")["state"] == "LOST",
           f"{kept} is not lost")
    told = last_message(podd.address, cursor, number)
    expect(told == {"id": number, "state": "LOST", "removed": True}, f"{told}")


def kill_and_return(client, number):
    """kill -9 of an added worker, which then comes back at its address."""
    worker = Program("podworker", *RETURNS)
    core = join(client, worker, number)
    lost = client.upload(core, [1, 2, 3])
    expect(client.read(lost) == [1, 2, 3], "it does not keep data")
    worker.signal(signal.SIGKILL)
    worker.process.wait()
    client.await_host(number, lambda state: state == "LOST")
    host = client.host(number)
    expect(condition(host, "READY") == ("FALSE", "HOST_LOST"), f"{host}")
    pod = client.ask("GET", "/v1/pod")
    expect(condition(pod, "READY") == ("FALSE", "HOSTS_MISSING"),
           f"{pod['conditions']}")
    again = Program("podworker", "--listen", worker.address, *FLAGS)
    client.await_host(number)
    expect(core_of(client, number) == core, "its core has another number")
    expect(client.read(client.upload(core, [4])) == [4], "it is of no use")
    return again


def drain(client, number):
    """It goes on when it is uncordoned; a buffer does not keep it."""
    core = core_of(client, number)
    first = client.allocate(core, 4)
    host = client.ask("POST", f"/v1/hosts/{number}:drain?wait=50s")
    expect(condition(host, "DRAINED") == ("TRUE", "IDLE"), f"{host}")
    refused(409, "HOST_CORDONED", lambda: client.allocate(core, 4))
    client.succeeded(client.free(first))
    host = client.ask("POST", f"/v1/hosts/{number}:uncordon")
    expect(condition(host, "DRAINED") == ("FALSE", "NOT_CORDONED"), f"{host}")
    client.allocate(core, 4)


ENDLESS = """HloModule endless
cond {
  i = s32[1] parameter(0)
  ROOT p = pred[] constant(true)
}
body {
  ROOT i = s32[1] parameter(0)
}
ENTRY main {
  i = s32[1] parameter(0)
  ROOT w = s32[1] while(i), condition=cond, body=body
}
"""


def end_at_work(client, number, how, code):
    """What runs on a worker that ends says how that went; the words."""
    worker = Program("podworker", *WORKER)
    core = join(client, worker, number)
    load = client.load(client.program(ENDLESS), core)
    run = client.ask("POST", "/v1/executions",
                     {"load": load, "inputs": [client.upload(core, [0])]})
    until(lambda: client.event(run["id"])["state"] == "RUNNING", "it runs")
    worker.signal(how)
    got = worker.process.wait(60)
    expect(got == code, f"exit code {got} after signal {how}")
    event = client.done(run["id"])
    expect(event["state"] == "LOST", f"{event}")
    client.ask("DELETE", f"/v1/hosts/{number}?force=true")
    return event["error"]["detail"]


def stop_at_work(client, number):
    """It is known that the worker was stopped, unless podd has to write to it
    before it gets to read; the next number."""
    said = ""
    while "the worker was stopped" not in said:
        expect("the connection broke" in said or not said, said)
        expect(number < 16 + ROUNDS, f"it is never known: {said}")
        said = end_at_work(client, number, signal.SIGTERM, 0)
        number += 1
    return number


def kill_at_work(client, number):
    said = end_at_work(client, number, signal.SIGKILL, -signal.SIGKILL)
    expect("the connection broke" in said, said)


def two_names(client, worker, first, number):
    """A worker serves one host, the first, whatever it is called."""
    port = worker.address.rsplit(":", 1)[1]
    made = client.ask("POST", "/v1/hosts", {"address": f"localhost:{port}"})
    expect(made["id"] == number, f"{made} is not host {number}")
    client.await_host(number, lambda state: state == "LOST")
    error = client.host(number)["error"]
    expect(f"this worker already serves host {first}, which has the address "
           f"{worker.address}" in str(error), f"{error}")
    client.ask("DELETE", f"/v1/hosts/{number}")
    expect(client.host(first)["state"] == "READY", "the first is lost")


def case_no_descriptor_left():
    """podd has none for its only worker, which has just come back."""
    worker = Program("podworker", *RETURNS)
    podd = Program("podd", "--dev", "--listen", "127.0.0.1:0", "--log-level",
                   "error", "--pod", "grpc+pod://" + worker.address)
    client = Client(podd.address)
    client.await_host(0)
    worker.kill()
    client.await_host(0, lambda state: state == "LOST")
    files = (podd.process.pid, resource.RLIMIT_NOFILE)
    before = resource.prlimit(*files)
    resource.prlimit(*files, (3, before[1]))
    again = Program("podworker", "--listen", worker.address, *FLAGS)
    until(lambda: "open files" in str(client.host(0)["error"]),
          "podd has no descriptor")
    resource.prlimit(*files, before)
    client.await_host(0)
    podd.stop()
    again.stop()


def stand_still(client, podd, worker):
    """Both do, until a sign of life that was asked for is long overdue. False:
    the worker alone did so for too long."""
    begun = time.monotonic()
    worker.signal(signal.SIGSTOP)
    time.sleep(1.5 * ASKED)
    before = client.host(0)["last_heartbeat"]
    podd.signal(signal.SIGSTOP)
    alone = time.monotonic() - begun
    time.sleep(SILENT)
    worker.signal(signal.SIGCONT)
    podd.signal(signal.SIGCONT)
    until(lambda: client.host(0)["last_heartbeat"] != before, "a sign of life")
    return alone < SILENT - ASKED


def case_machine_stands_still():
    """Nobody is lost because podd did not hear of a worker meanwhile."""
    worker = Program("podworker", *WORKER)
    podd = Program("podd", "--dev", "--listen", "127.0.0.1:0", "--log-level",
                   "error", "--pod", "grpc+pod://" + worker.address)
    client = Client(podd.address)
    before = after = None
    for _ in range(10):
        client.await_host(0)
        before = client.host(0)["incarnation"]
        if stand_still(client, podd, worker):
            after = client.host(0)["incarnation"]
            break
    expect(before == after, f"{before} became {after}")
    podd.stop()
    worker.stop()


def case_come_and_go():
    """A pod of two gets a third, works with it, and loses it."""
    workers = [Program("podworker", *WORKER) for _ in range(3)]
    podd = Program("podd", "--dev", "--listen", "127.0.0.1:0", "--log-level",
                   "error", "--pod", "grpc+pod://"
                   + ",".join(worker.address for worker in workers[:2]))
    client = Client(podd.address)
    for number in range(2):
        client.await_host(number)
    # Compiled before the third comes.
    program = client.program(all_reduce_program(2), 3)
    core = join(client, workers[2], 2)
    threads = podd.status("Threads")
    kept = work(client, program, core)
    lose_by_delete(client, podd, 2, core, kept)
    # The same worker again is another host.
    core = join(client, workers[2], 3)
    work(client, program, core)
    client.ask("DELETE", "/v1/hosts/3?force=true")
    for number in range(4, 4 + ROUNDS):
        join(client, workers[2], number)
        client.ask("DELETE", f"/v1/hosts/{number}")
    until(lambda: podd.status("Threads") <= threads + MORE_THREADS,
          "threads end")
    again = kill_and_return(client, 4 + ROUNDS)
    drain(client, 4 + ROUNDS)
    two_names(client, workers[1], 1, 5 + ROUNDS)
    kill_at_work(client, stop_at_work(client, 6 + ROUNDS))
    refused(422, "BAD_TEXT", lambda: client.ask(
        "POST", "/v1/hosts", {"address": "10.1.2.3:8470"}))
    expect(client.metrics()['podd_hosts{state="READY"}'] == 3, "metrics")
    podd.stop()
    for worker in (*workers, again):
        worker.stop()


if __name__ == "__main__":
    run_case(globals())
