# SPDX-License-Identifier: Apache-2.0
"""A client of podd as its OpenAPI document describes it.

Operations are called by their operationId; the document says the method, the
path and whether an Idempotency-Key may be sent. What is safe to repeat is
repeated with the same key when a connection breaks, when podd says that it is
too busy (Retry-After), or that the same request may succeed later (retryable).
"""
import collections
import http.client
import json
import random
import time
import urllib.parse

FIRST_PAUSE, LONGEST_PAUSE, MOST_TRIES = 0.005, 0.5, 30
SOCKET_SECONDS = 120
METHODS = ("get", "put", "post", "delete")

Answer = collections.namedtuple("Answer", "status headers body")
Route = collections.namedtuple("Route", "method path statuses repeatable keyed")


class Broken(Exception):
    """The answer did not arrive whole."""


class Problem(Exception):
    """podd refused: the problem document."""

    def __init__(self, status, document):
        super().__init__(f"{status} {document}")
        self.status, self.document = status, document


class Failed(Exception):
    """An operation did not succeed: its event."""


def is_keyed(item, operation):
    parameters = item.get("parameters", []) + operation.get("parameters", [])
    return any(p.get("$ref", "").endswith("/Idempotency-Key")
               or p.get("name") == "Idempotency-Key" for p in parameters)


def routes_of(document):
    """{operationId: Route} of an OpenAPI document."""
    routes = {}
    for path, item in document["paths"].items():
        for method in set(METHODS) & set(item):
            operation = item[method]
            keyed = is_keyed(item, operation)
            # HTTP itself lets GET, PUT and DELETE be repeated; podd's POST of
            # a wait changes nothing.
            repeatable = (keyed or method != "post"
                          or operation["operationId"] == "waitForEvents")
            statuses = {int(s) for s in operation["responses"]}
            routes[operation["operationId"]] = Route(
                method.upper(), path, statuses, repeatable, keyed)
    return routes


class Client:
    def __init__(self, host, port, seed):
        self.host, self.port = host, port
        self.random = random.Random(seed)
        self.connection = None
        self.keys = self.retries = self.replays = self.busy = 0
        self.on_busy = lambda: None
        self.routes = {"getContract": Route("GET", "/openapi.json", {200},
                                            True, False)}
        contract = self.call("getContract")
        self.routes = routes_of(json.loads(contract.body))

    # ------------------------------------------------------------ one request
    def _exchange(self, method, target, body, headers):
        """One try. Broken if the answer does not come, or not as a whole."""
        try:
            if self.connection is None:
                self.connection = http.client.HTTPConnection(
                    self.host, self.port, timeout=SOCKET_SECONDS)
            self.connection.request(method, target, body, headers)
            reply = self.connection.getresponse()
            answer = Answer(reply.status, reply.headers, reply.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise Broken(repr(error)) from error
        # http.client takes headers that break off for all headers.
        length = answer.headers.get("Content-Length")
        whole = (answer.status == 204 if length is None
                 else length == str(len(answer.body)))
        if not whole and answer.headers.get("Transfer-Encoding") != "chunked":
            self.close()
            raise Broken(f"{method} {target}: the headers broke off")
        return answer

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    # ---------------------------------------------------------------- retries
    def _pause(self, tries, least=0.0):
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** tries)
        time.sleep(max(least, self.random.uniform(0, longest)))

    def _refused(self, answer, route):
        """Raises if the same request need not be tried again; else how long
        to wait at least."""
        problem = json.loads(answer.body)
        if not (problem["retryable"] and route.repeatable):
            raise Problem(answer.status, problem)
        if "Retry-After" in answer.headers:
            self.busy += 1
            self.on_busy()
        return float(answer.headers.get("Retry-After", 0))

    def call(self, operation, body=None, content_type=None, accept=None,
             query=None, **path):
        """Calls an operation until it is answered; the Answer, of 2xx."""
        route = self.routes[operation]
        target = route.path.format(**path)
        if query:
            target += "?" + urllib.parse.urlencode(query, doseq=True)
        headers = {"Accept": accept} if accept else {}
        if content_type:
            headers["Content-Type"] = content_type
        if route.keyed:
            self.keys += 1
            headers["Idempotency-Key"] = f"trainer-{self.keys}"
        for tries in range(MOST_TRIES):
            try:
                answer = self._exchange(route.method, target, body, headers)
            except Broken:
                if not route.repeatable:
                    raise
                self.retries += 1
                self._pause(tries)
                continue
            if answer.status not in route.statuses:
                raise Problem(answer.status, f"{operation}: not documented")
            if answer.status < 400:
                self.replays += "Idempotency-Replayed" in answer.headers
                return answer
            self._pause(tries, self._refused(answer, route))
        raise Broken(f"{route.method} {target}: no answer in all tries")

    def json(self, operation, value=None, **more):
        """Calls with a JSON value, or none; the value of the answer."""
        if value is not None:
            more.update(body=json.dumps(value).encode(),
                        content_type="application/json")
        return json.loads(self.call(operation, **more).body)

    # ---------------------------------------------------------------- waiting
    def done(self, event):
        """The event of an operation that has succeeded, by long poll."""
        while not event["done"]:
            event = self.json("getEvent", op=event["id"],
                              query={"wait": "20s"})
        if event["state"] != "SUCCEEDED":
            raise Failed(event)
        return event

    def all_done(self, ids):
        """The events of operations that all have succeeded, by one wait."""
        while True:
            report = self.json("waitForEvents",
                               {"ids": ids, "mode": "ALL", "wait": "20s"})
            for event in report["events"]:
                if event["done"] and event["state"] != "SUCCEEDED":
                    raise Failed(event)
            if report["done"]:
                return report["events"]
