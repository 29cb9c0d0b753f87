"""A peer of a sweep's coordinator that says what a test wants."""
import json
import socket
import struct

WIRE = 8  # version of the protocol
GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\3\0" + b"NULL".ljust(20, b"\0") + bytes(32)


def frame(body):
    return (b"\2" + struct.pack(">Q", len(body)) if len(body) > 255 else b"\0" + bytes([len(body)])) + body


def message(kind, data=None, **more):
    text = json.dumps({"v": WIRE, "kind": kind, "conn": 1, **more, **({"data": data} if data is not None else {})})
    return frame(text.encode())


class Raw:
    """A peer that speaks ZMTP 3.0 (rfc.zeromq.org/spec/23) by hand, without keys."""

    def __init__(self, endpoint, name=b"raw", instance=0):
        self.instance = instance  # of the sweep
        host, port = endpoint.removeprefix("tcp://").rsplit(":", 1)
        self.s = socket.create_connection((host, int(port)), 10)
        self.s.settimeout(10)
        self.s.sendall(GREETING)
        self.take(64)
        ready = b"\5READY" + b"".join(bytes([len(k)]) + k + struct.pack(">I", len(v)) + v
                                      for k, v in ((b"Socket-Type", b"DEALER"), (b"Identity", name)))
        self.s.sendall(b"\4" + bytes([len(ready)]) + ready)
        self.frame()

    def take(self, n):
        got = b""
        while len(got) < n:
            some = self.s.recv(n - len(got))
            if not some:
                raise ConnectionError("closed")
            got += some
        return got

    def frame(self):
        flags, = self.take(1)
        size, = struct.unpack(">Q", self.take(8)) if flags & 2 else self.take(1)
        return flags, self.take(size)

    def say(self, kind, data=None, **more):
        self.s.sendall(message(kind, data, **more))

    def hello(self, places, running=(), **more):
        self.say("hello", {"node": "raw", "slots": places, "running": [*running], "cpus": 1, "gpus": 0, "ping_ms": 5000},
                 **more)

    def report(self, lease, seq, **more):
        self.say("report", {"step": seq, "loss": 0.5}, instance=self.instance, lease=lease, seq=seq, **more)

    def report_all(self, lease, n):
        self.s.sendall(b"".join(message("report", {"step": i, "loss": 0.5}, instance=self.instance, lease=lease, seq=i + 1)
                                for i in range(n)))

    def done(self, lease, seq, **more):
        end = {"status": 0, "signal": 0, "oom": False, "seconds": 1.0}
        self.say("done", end, instance=self.instance, lease=lease, seq=seq, **more)

    def hear(self, *kinds):
        while True:
            flags, body = self.frame()
            said = {"kind": ""} if flags & 4 else json.loads(body)
            self.instance = said.get("instance", self.instance)
            if said["kind"] in kinds:
                return said
