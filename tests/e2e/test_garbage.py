"""A process of the same user sends garbage to the ports of a job or a sweep: the connections are closed, and the job ends
as it would without them."""
import os
import random
import socket
import struct

from sweep_kit import Place
from test_interpose import build_mpi_program  # noqa: F401  a fixture
from test_run_mpi import RUN
from test_run_ssh import make_ssh  # noqa: F401  a fixture
from test_strangers import listening_ports
from test_torchrun_rendezvous import Meeting
from waiting import wait_until

MESSAGES = 200
WAIT = "[ -e go ] || touch ready.$RANK; until [ -e go ]; do sleep 0.02; done; "


def send(port, data, answer_s=0.02):
    """-> whether the other end has closed the connection, or is silent."""
    with socket.create_connection(("127.0.0.1", int(port)), 5) as s:
        s.settimeout(answer_s)
        try:
            s.sendall(data)
            while s.recv(4096):
                pass
            return True
        except TimeoutError:
            return False
        except OSError:
            return True


def garbage(rng):
    """A message of no protocol, or with the first bytes of one."""
    rest = rng.randbytes(rng.randrange(300))
    size = rng.choice([0, 1, len(rest), 2**31, 2**32 - 1])
    return rng.choice([b"",
                       struct.pack("<II", size, rng.choice([0, len(rest), 2**32 - 1])),  # a control frame
                       struct.pack("<II", 2, 0) + b"{}",
                       b"\xff" * 8 + struct.pack("<Q", size),  # a greeting of PMIx
                       b"\xff" + b"\0" * 8 + b"\x7f\3\0NULL" + b"\0" * 16,  # ZeroMQ
                       b"GET / HTTP/1.1\r\n"]) + rest


def barrage(ports, seed=1):
    rng = random.Random(seed)
    assert ports
    for port in ports:
        for _ in range(MESSAGES):
            send(port, garbage(rng), 0.002)


def greeting(rng, namespace):
    """The greeting of rank 0 to libpmix 4.2, with one part that is wrong."""
    parts = {"security": b"native\0", "size": struct.pack(">I", 8), "credential": struct.pack("=II", os.geteuid(), os.getegid()),
             "kind": b"\0", "namespace": namespace + b"\0", "rank": struct.pack(">I", 0), "version": b"4.2.2\0",
             "bfrops": b"v41\0", "buffers": b"\1", "gds": b"hash\0"}
    wrong = rng.choice([{"security": b"none\0"}, {"security": b"munge\0"}, {"size": struct.pack(">I", 2**32 - 1)},
                        {"size": struct.pack(">I", 0), "credential": b""}, {"credential": rng.randbytes(8)},
                        {"kind": bytes([rng.randrange(1, 256)])}, {"namespace": b"x" * 300 + b"\0"}, {"namespace": b"\0"},
                        {"rank": struct.pack(">I", rng.randrange(1, 2**32))}, {"version": b"\0"}, {"version": b"4"},
                        {"bfrops": b"v99\0"}, {"gds": b"hash"}, {"gds": b""}])
    payload = b"".join((parts | wrong).values())
    return b"\xff" * 8 + struct.pack("=Q", len(payload)) + payload


def end_well(job, tmp_path):
    (tmp_path / "go").touch()
    out, err = job.communicate(timeout=60)
    assert job.returncode == 0, err
    return out


def test_pmix(drover, mpi_program, tmp_path):  # noqa: F811
    """The ranks call MPI_Init after the garbage. libpmix's server has started because of it."""
    job = drover.start(*RUN, "-np", "2", "sh", "-c", f'echo "$PMIX_SERVER_URI4 $PMIX_NAMESPACE" >uri.$RANK; {WAIT} exec {mpi_program}')
    wait_until(lambda: (tmp_path / "ready.0").exists() and (tmp_path / "ready.1").exists(), "both ranks")
    uri, namespace = (tmp_path / "uri.0").read_text().split()
    port = uri.rsplit(":", 1)[1]
    rng = random.Random(2)
    # libpmix itself rejects an unknown rank or namespace.
    closed = [send(port, greeting(rng, namespace.encode()), 5) for _ in range(MESSAGES)]
    assert all(closed)
    barrage([port])
    assert end_well(job, tmp_path).count(b"/2 from ") == 2
    drover.nothing_left()


def test_the_control_port_of_agents(drover, ssh, tmp_path):
    job = ssh(2, "sh", "-c", WAIT + "echo up")
    wait_until(lambda: (tmp_path / "ready.0").exists() and (tmp_path / "ready.1").exists(), "both ranks")
    barrage(listening_ports([job.pid]))
    assert end_well(job, tmp_path) == b"up\nup\n"
    drover.nothing_left()


def test_the_rendezvous_of_torchrun(drover, tmp_path):
    meeting = Meeting(drover)
    meeting.node()
    wait_until(lambda: str(meeting.port) in listening_ports(drover.left()), "the rendezvous")
    barrage([meeting.port])
    meeting.node(text=WAIT)
    wait_until(lambda: (tmp_path / "ready.1").exists() or (tmp_path / "ready.0").exists(), "the rank")
    barrage([meeting.port])
    (tmp_path / "go").touch()
    assert [e[0] for e in meeting.ends()] == [0, 0]


def test_the_coordinator_of_a_sweep(open_path):
    place = Place(open_path)
    place.script("t.sh", 'echo "{\\"loss\\":$x}"; until [ -e go ]; do sleep 0.02; done\n')
    sweep = place.sweep("method: grid\nmetric: {name: loss}\nparameters: {x: {value: 1}}\n")
    try:
        coordinator = place.start(sweep, "--listen", "127.0.0.1:")
        wait_until(lambda: place.records("report") and (open_path / "sweeps/s/listen").exists(), place.said)
        barrage([(open_path / "sweeps/s/listen").read_text().split()[0].rsplit(":", 1)[1]])
        (open_path / "go").touch()
        assert coordinator.wait(60) == 0, place.said()
    finally:
        place.clean_up()
