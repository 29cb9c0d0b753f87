"""The bridge between drover and the client of NVIDIA's Resiliency Extension (nvidia-resiliency-ext).

    ft_bridge.py CONFIG RANKS     (drover starts it)
    ft_bridge.py --check          (status 0 if the extension is installed, else 1)

A rank's RankMonitorClient connects to the socket that FT_RANK_MONITOR_IPC_SOCKET names, and sends pickled objects, each
after its length as 4 bytes, most significant first. Each gets one answer. This process passes on sections, heartbeats
and time limits as packets of drover's report channel (docs/libdrover.md).

The listening sockets of the ranks are the descriptors from 3 on, their report channels are those after them. CONFIG is
a mapping of the extension's settings as JSON. drover starts the process when the first rank has connected, and ends it
with the job."""
import importlib.util
import json
import os
import pickle
import selectors
import signal
import socket
import sys
import time

FIRST_FD = 3
MESSAGE_MAX = 16 << 20


def is_installed():
    try:
        return importlib.util.find_spec("nvidia_resiliency_ext.fault_tolerance") is not None
    except ImportError:
        return False


def seconds_or_none(value):
    """A time limit as drover takes it: more than 0, or None."""
    return float(value) if value is not None and value > 0 else None


class Rank:
    """One rank: its report channel, its sections, and its settings."""

    def __init__(self, channel, cfg):
        self.channel = channel
        self.cfg = cfg
        self.sections = {}  # name: when it began
        self.client = None  # the connection that counts

    def send(self, kind, **fields):
        self.channel.send(json.dumps({"kind": kind, **fields}).encode(), socket.MSG_NOSIGNAL)

    def send_limits(self):
        cfg = self.cfg
        self.send("limits", sections={name: seconds_or_none(s) for name, s in cfg.rank_section_timeouts.items()},
                  out_of_section=seconds_or_none(cfg.rank_out_of_section_timeout),
                  heartbeat=seconds_or_none(cfg.rank_heartbeat_timeout),
                  initial_heartbeat=seconds_or_none(cfg.initial_rank_heartbeat_timeout))

    def connect(self):
        self.sections.clear()
        self.send_limits()
        self.send("connect")

    def disconnect(self):
        self.sections.clear()
        self.send("disconnect")

    def update(self, heartbeats, sections):
        if heartbeats is not None:
            self.cfg.initial_rank_heartbeat_timeout = heartbeats.initial
            self.cfg.rank_heartbeat_timeout = heartbeats.subsequent
        if sections is not None:
            self.cfg.rank_section_timeouts = dict(sections.section)
            self.cfg.rank_out_of_section_timeout = sections.out_of_section
        self.send_limits()

    def begin(self, name):
        """Returns why this cannot be done, or None."""
        if name in self.sections:
            return f"section '{name}' is already open"
        self.sections[name] = time.monotonic()
        self.send("section_begin", section=name)
        return None

    def end(self, name):
        if name not in self.sections:
            return f"section '{name}' is not open"
        self.send("section_end", section=name, s=time.monotonic() - self.sections.pop(name))
        return None

    def end_all(self):
        for name in list(self.sections):
            self.end(name)


class Connection:
    """A client's connection: cuts the bytes into messages and answers them."""

    def __init__(self, sock, rank, data):
        self.sock = sock
        self.rank = rank
        self.data = data  # the extension's module with the classes of messages
        self.received = bytearray()

    def read(self):
        """Reads what has arrived. Returns False if the client has closed the connection."""
        block = self.sock.recv(1 << 16)
        self.received += block
        while len(self.received) >= 4:
            size = int.from_bytes(self.received[:4], "big")
            if size > MESSAGE_MAX:
                raise ValueError(f"a message of {size} bytes")
            if len(self.received) < 4 + size:
                break
            # Only this user can connect, and its ranks run as this user, too.
            message = pickle.loads(bytes(self.received[4:4 + size]))
            del self.received[:4 + size]
            answer = pickle.dumps(self.answer(message))
            self.sock.sendall(len(answer).to_bytes(4, "big") + answer)
        return bool(block)

    def answer(self, message):
        data, rank = self.data, self.rank
        if isinstance(message, data.AuthkeyMsg):  # for objects of multiprocessing, which no message contains
            return data.OkMsg()
        if isinstance(message, data.InitMsg):
            rank.client = self
            rank.connect()
            return data.OkMsg(cfg=rank.cfg)
        if isinstance(message, data.HeartbeatMsg):
            rank.send("heartbeat")
            return data.OkMsg()
        if isinstance(message, data.UpdateConfigMsg):
            rank.update(message.hb_timeouts, message.section_timeouts)
            return data.OkMsg()
        if isinstance(message, data.SectionMsg):
            return self.answer_section(message)
        return data.ErrorMsg(cause=f"{type(message).__name__} is not supported by drover")

    def answer_section(self, message):
        data, rank = self.data, self.rank
        why = None
        if message.action is data.SectionAction.OPEN:
            why = rank.begin(message.section)
        elif message.action is data.SectionAction.CLOSE:
            why = rank.end(message.section)
        else:
            rank.end_all()
        return data.ErrorMsg(cause=why) if why else data.OkMsg()


class Bridge:
    def __init__(self, config, ranks):
        from nvidia_resiliency_ext.fault_tolerance import FaultToleranceConfig, data  # imports torch, in seconds
        self.data = data
        self.selector = selectors.DefaultSelector()
        for i in range(ranks):
            listener = socket.socket(fileno=FIRST_FD + i)
            channel = socket.socket(fileno=FIRST_FD + ranks + i)
            listener.setblocking(False)
            rank = Rank(channel, FaultToleranceConfig.from_kwargs(**config))
            self.selector.register(listener, selectors.EVENT_READ, lambda s, r=rank: self.accept(s, r))
            self.selector.register(channel, selectors.EVENT_READ, self.on_channel)

    def accept(self, listener, rank):
        try:
            sock = listener.accept()[0]
        except BlockingIOError:
            return
        sock.setblocking(True)
        connection = Connection(sock, rank, self.data)
        self.selector.register(sock, selectors.EVENT_READ, lambda s: self.read(connection))

    def read(self, connection):
        try:
            if connection.read():
                return
        except ConnectionError:
            pass
        except Exception as e:  # whatever a message does when it is read, the other ranks need this process
            print(f"drover: ft_bridge.py: closes a connection: {type(e).__name__}: {e}", file=sys.stderr)
        self.selector.unregister(connection.sock)
        connection.sock.close()
        if connection.rank.client is connection:
            connection.rank.client = None
            connection.rank.disconnect()

    @staticmethod
    def on_channel(channel):
        """drover sends nothing that matters here, but closes its end when the job ends."""
        if not channel.recv(4096):
            sys.exit(0)

    def run(self):
        while True:
            for key, _ in self.selector.select():
                if key.fd >= 0 and key.fileobj.fileno() >= 0:  # not closed in this round
                    key.data(key.fileobj)


def main():
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if is_installed() else 1)
    try:
        Bridge(json.loads(sys.argv[1]), int(sys.argv[2])).run()
    except ConnectionError:
        pass  # drover has ended
    except ImportError as e:
        sys.exit(f"drover: ft_bridge.py: {sys.executable}: {e} (try: pip install nvidia-resiliency-ext)")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # it computes nothing
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for drover, which ends this process with the job
    main()
