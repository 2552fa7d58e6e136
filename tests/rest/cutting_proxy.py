# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that cuts connections at random places."""
import collections
import random
import select
import socket
import struct
import threading

PIECE = 1 << 16
# How much of the piece at hand is still passed on when it is cut.
PARTS = {
    "none": lambda dice, size: 0,
    "part": lambda dice, size: dice.randrange(size),
    "all": lambda dice, size: size,
}


class CuttingProxy:
    """Listens on a free port of 127.0.0.1 and forwards to another one.

    Each connection is cut when it is accepted, and each piece of it when it
    arrives, with the given probability: before, within or after the piece, by
    an orderly end or by a reset of both sides. So requests are lost before and
    after podd has taken them, and answers as a whole or in part. `cuts` counts
    the places: "accept", or "request" or "answer" with the part passed on.
    """

    def __init__(self, port, seed, probability):
        self.port_behind, self.probability = port, probability
        self.random = random.Random(seed)
        self.cuts = collections.Counter()
        self.lock = threading.Lock()  # of random and cuts
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _draw(self, place, size):
        """How much of a piece to pass on before the cut, and whether to reset;
        None for no cut."""
        with self.lock:
            if self.random.random() >= self.probability:
                return None
            part = self.random.choice(sorted(PARTS)) if size else None
            self.cuts[f"{place} {part}" if part else place] += 1
            passed = PARTS[part](self.random, size) if part else 0
            return passed, self.random.random() < 0.5

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self._serve, args=(client,),
                             daemon=True).start()

    def _serve(self, client):
        cut = self._draw("accept", 0)
        if cut:
            end((client,), cut[1])
            return
        server = socket.create_connection(("127.0.0.1", self.port_behind))
        for side in (client, server):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reset = True
        try:
            reset = self._forward(client, server)
        except OSError:
            pass  # the other side cut it
        end((client, server), reset)

    def _forward(self, client, server):
        """Until one side ends it or it is cut; whether to reset."""
        while True:
            for side in select.select((client, server), (), ())[0]:
                piece = side.recv(PIECE)
                if not piece:
                    return False
                asks = side is client
                cut = self._draw("request" if asks else "answer", len(piece))
                other = server if asks else client
                other.sendall(piece[:cut[0]] if cut else piece)
                if cut:
                    return cut[1]


def end(sides, reset):
    for side in sides:
        if reset:
            side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                            struct.pack("ii", 1, 0))
        side.close()
