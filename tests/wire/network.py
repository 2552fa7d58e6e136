# SPDX-License-Identifier: Apache-2.0
"""Hosts of a test in network namespaces, and the network between them.

Each host has a TUN device; the other ends are held by a switch, a process of
its own, that delays, throttles and drops packets as it is told, for each pair
of hosts and each way. Needs root. Namespaces have no names: they go with the
processes in them, however the test ends.
"""
import atexit
import ctypes
import fcntl
import heapq
import json
import os
import select
import signal
import socket
import struct
import subprocess
import time
import traceback

CLONE_NEWNET = 0x40000000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
PACKET = 9000
QUEUE_SECONDS = 0.2  # what a throttled way holds back; beyond it drops
LIBC = ctypes.CDLL(None, use_errno=True)


def _libc(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def enter(namespace):
    """This thread, and what it starts from now on."""
    _libc(LIBC.setns(namespace, CLONE_NEWNET))


class Host:
    """A namespace with an address; the calling thread is in it afterwards."""

    def __init__(self, number):
        self.address = f"10.77.0.{number + 1}"
        _libc(LIBC.unshare(CLONE_NEWNET))
        self.namespace = os.open("/proc/self/ns/net", os.O_RDONLY)
        self.tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(self.tun, TUNSETIFF,
                    struct.pack("16sH14x", b"wire", IFF_TUN | IFF_NO_PI))
        self.ip("link", "set", "lo", "up")
        self.ip("link", "set", "wire", "mtu", str(PACKET), "up")
        self.ip("address", "add", self.address + "/24", "dev", "wire")

    def ip(self, *arguments):
        subprocess.run(["ip", *arguments], check=True,
                       preexec_fn=lambda: enter(self.namespace))

    def cut(self):
        self.ip("link", "set", "wire", "down")

    def mend(self):
        self.ip("link", "set", "wire", "up")


class Way:
    """From one host to another."""

    def __init__(self):
        self.delay = self.free_at = 0
        self.rate = None  # bytes per second
        self.drop = False
        self.lose = 0  # every n-th packet, 0: none
        self.packets = self.bytes = 0

    def due(self, size, now):
        """When a packet arrives; None: never."""
        self.packets += 1
        self.bytes += size
        if self.drop or self.lose and self.packets % self.lose == 0:
            return None
        if self.rate:
            start = max(now, self.free_at)
            if start > now + QUEUE_SECONDS:
                return None
            now = self.free_at = start + size / self.rate
        return now + self.delay


class Switch:
    """The process that moves the packets."""

    def __init__(self, tuns, control):
        self.tuns, self.socket = tuns, control
        self.control = control.makefile("rw")
        self.ways = {(a, b): Way() for a in range(len(tuns))
                     for b in range(len(tuns))}
        self.queue, self.order = [], 0

    def take(self, source):
        try:
            packet = os.read(self.tuns[source], PACKET)
        except OSError:  # its link is down
            return
        to = packet[19] - 1  # the last byte of an IPv4 destination
        if packet[0] >> 4 != 4 or to >= len(self.tuns):
            return
        due = self.ways[source, to].due(len(packet), time.monotonic())
        if due is not None:
            self.order += 1
            heapq.heappush(self.queue, (due, self.order, to, packet))

    def deliver(self):
        while self.queue and self.queue[0][0] <= time.monotonic():
            _, _, to, packet = heapq.heappop(self.queue)
            try:
                os.write(self.tuns[to], packet)
            except OSError:  # its link is down
                pass

    def obey(self):
        """False: the test has gone."""
        line = self.control.readline()
        if not line:
            return False
        pairs, settings = json.loads(line)
        for pair in pairs:
            for name, value in settings.items():
                setattr(self.ways[tuple(pair)], name, value)
        counts = [[way.packets, way.bytes]
                  for way in (self.ways[tuple(pair)] for pair in pairs)]
        self.control.write(json.dumps(counts) + "\n")
        self.control.flush()
        return True

    def run(self):
        poll = select.epoll()
        for descriptor in (*self.tuns, self.socket.fileno()):
            poll.register(descriptor, select.EPOLLIN)
        while True:
            wait = self.queue[0][0] - time.monotonic() if self.queue else 1
            for descriptor, _ in poll.poll(max(0, wait)):
                if descriptor in self.tuns:
                    self.take(self.tuns.index(descriptor))
                elif not self.obey():
                    return
            self.deliver()


class Network:
    """Hosts 0 to count - 1; the calling thread ends up in host 0."""

    def __init__(self, count):
        self.hosts = [Host(number) for number in range(count)]
        ours, theirs = socket.socketpair()
        self.switch = os.fork()
        if self.switch == 0:
            ours.close()
            self.serve(theirs)
        theirs.close()
        self.control = ours.makefile("rw")
        ours.close()
        atexit.register(os.kill, self.switch, signal.SIGKILL)
        for host in self.hosts:
            os.close(host.tun)
        enter(self.hosts[0].namespace)

    def serve(self, control):
        """The process of the switch; does not return."""
        try:
            Switch([host.tun for host in self.hosts], control).run()
        except BaseException:  # pylint: disable=broad-except
            traceback.print_exc()
        os._exit(0)

    def set(self, pairs, **settings):
        """Settings of ways, (from, to) each; their [packets, bytes] so far."""
        self.control.write(json.dumps([pairs, settings]) + "\n")
        self.control.flush()
        return json.loads(self.control.readline())

    def between(self, first, second, **settings):
        """The same both ways."""
        return self.set([(first, second), (second, first)], **settings)

    def bytes(self, source, to):
        return self.set([(source, to)])[0][1]
