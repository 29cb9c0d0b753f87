"""Several `drover torchrun`s that meet at --rdzv-endpoint: one world, whoever fails, is lost or comes later. Two or three
of them on this machine stand for as many nodes; tests/e2e/cluster/test_meet.py has real ones."""
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest
from conftest import DROVER
from waiting import wait_until, without_waits

SHOW = "echo $TORCHELASTIC_RESTART_COUNT $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_WORLD_SIZE $MASTER_PORT"
DDP = """
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
x = torch.tensor([float(dist.get_rank())])
dist.all_reduce(x)
print(dist.get_rank(), dist.get_world_size(), int(x.item()), flush=True)
dist.destroy_process_group()
"""


class Meeting:
    def __init__(self, runner):
        self.runner = runner
        with socket.socket() as s:  # of this machine's own choice; nobody else asks for it meanwhile
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.nodes = []

    def node(self, *options, nnodes="2", text=SHOW, program=None, job="j", endpoint="localhost"):
        p = self.runner.start("torchrun", "--nnodes", nnodes, "--rdzv-id", job, "--rdzv-backend", "c10d",
                              "--rdzv-endpoint", f"{endpoint}:{self.port}", "--grace", "5",
                              *([] if program else ["--no-python"]), *options, *(program or ["sh", "-c", text]))
        self.nodes.append(p)
        return p

    def ends(self):
        """(status, stdout's lines, stderr) of each."""
        ends = []
        for p in self.nodes:
            out, err = p.communicate(timeout=60)
            ends.append((p.returncode, out.decode().splitlines(), without_waits(err.decode())))
        self.runner.nothing_left()
        return ends


@pytest.fixture
def meeting(drover):
    return Meeting(drover)


def worlds(ends):
    """{attempt: the ranks of all nodes as (rank, world size, master port), sorted}."""
    found = {}
    for _, out, _ in ends:
        for line in out:
            attempt, rank, _, world, _, _, port = map(int, line.split())
            found.setdefault(attempt, []).append((rank, world, port))
    return {a: sorted(v) for a, v in found.items()}


def one_world(ranks, size):
    assert [r[0] for r in ranks] == list(range(size)) and {r[1] for r in ranks} == {size}, ranks
    assert len({r[2] for r in ranks}) == 1, ranks


def test_nodes_are_one_world_also_with_different_numbers_of_ranks(meeting):
    meeting.node("--nproc-per-node", "2")
    meeting.node("--nproc-per-node", "3")
    ends = meeting.ends()
    assert [e[0] for e in ends] == [0, 0], ends
    one_world(worlds(ends)[0], 5)


def test_pytorch_finds_its_peers(meeting, drover, tmp_path):
    if os.system("/usr/bin/python3 -c 'import torch.distributed as d; assert d.is_gloo_available()' 2>/dev/null"):
        pytest.skip("no PyTorch with gloo for /usr/bin/python3")
    (tmp_path / "ddp.py").write_text(DDP)
    drover.env["PYTHON_EXEC"] = "/usr/bin/python3"
    for _ in range(2):
        meeting.node("--nproc-per-node", "2", program=["ddp.py"])
    ends = meeting.ends()
    assert sorted(line for e in ends for line in e[1]) == [f"{r} 4 6" for r in range(4)], ends


def test_a_failure_on_one_node_ends_all_and_says_where(meeting):
    text = "echo $RANK; [ $RANK = 1 ] && exit 7; sleep 60"
    for _ in range(2):
        meeting.node(text=text)
    ends = meeting.ends()
    assert sorted(e[0] for e in ends) == [1, 7], ends
    (told,) = [e[2] for e in ends if e[0] == 1]
    assert "rank 1 exited with status 7: stopping the ranks of this node" in told
    (own,) = [e[2] for e in ends if e[0] == 7]
    assert "rank 1" in own and "exited with status 7" in own


def test_a_failure_starts_all_nodes_again_also_where_ranks_had_ended_well(meeting):
    text = f"{SHOW}; [ $TORCHELASTIC_RESTART_COUNT$RANK = 01 ] || exit 0; sleep 0.3; exit 7"
    for _ in range(2):
        meeting.node("--max-restarts", "1", text=text)
    ends = meeting.ends()
    assert [e[0] for e in ends] == [0, 0], ends
    found = worlds(ends)
    one_world(found[0], 2)
    one_world(found[1], 2)
    assert found[0][0][2] != found[1][0][2]  # a new MASTER_PORT


@pytest.mark.parametrize("rank", [0, 1])
def test_a_failure_that_a_restart_does_not_cure_ends_the_job_on_all_nodes(meeting, rank):
    for _ in range(2):
        meeting.node("--max-restarts", "3", text=f"[ $RANK = {rank} ] || exec sleep 60; exec /usr/bin/python3 -c undefined")
    ends = meeting.ends()  # the other node does not wait for --rdzv-conf join_timeout
    assert [e[0] for e in ends] == [1, 1], ends
    (told,) = [e[2] for e in ends if "not restarted" in e[2]]
    assert "not restarted: a restart does not cure this (NameError)" in told
    assert sum("the job has ended" in e[2] for e in ends) <= 1


@pytest.mark.parametrize("who", ["host", "other"])
def test_a_node_that_is_killed_ends_the_others_in_time(meeting, drover, tmp_path, who):
    go = tmp_path / "started"
    text = f"echo x >>{go}; sleep 60"
    for _ in range(2):
        meeting.node(text=text)
    wait_until(lambda: go.exists() and len(go.read_text()) == 4, "both ranks")
    host = next(i for i, p in enumerate(meeting.nodes) if listens(p.pid, meeting.port))
    victim = meeting.nodes.pop(host if who == "host" else 1 - host)
    victim.kill()
    victim.communicate(timeout=20)
    ((status, _, err),) = meeting.ends()
    assert status == 1 and ("its server disconnected" if who == "host" else "stopping the ranks of this node") in err, err


def listens(pid, port):
    inodes = {line.split()[9] for f in ("/proc/net/tcp", "/proc/net/tcp6") for line in open(f).readlines()[1:]
              if line.split()[3] == "0A" and int(line.split()[1].rsplit(":", 1)[1], 16) == port}
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{fd}") in {f"socket:[{i}]" for i in inodes}
                   for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def test_a_node_that_comes_later_is_taken_in_without_counting_as_a_restart(meeting, tmp_path):
    log, done = tmp_path / "log", tmp_path / "done"
    text = f"{SHOW}; echo $WORLD_SIZE >>{log}; until [ -e {done} ]; do sleep 0.05; done"
    options = ["--rdzv-conf", "last_call_timeout=0"]
    meeting.node(*options, nnodes="1:2", text=text)
    wait_until(lambda: log.exists() and log.read_text() == "1\n", "the first node alone")
    meeting.node(*options, nnodes="1:2", text=text)
    wait_until(lambda: log.read_text().count("2\n") == 2, "both")
    done.touch()
    ends = meeting.ends()
    assert [e[0] for e in ends] == [0, 0], ends
    assert "joined: stopping the ranks of this node" in ends[0][2]
    assert set(worlds(ends)) == {0}  # no restart was counted


def test_who_is_not_of_the_job_is_refused(meeting):
    first = meeting.node()
    wait_until(lambda: listens(first.pid, meeting.port), "the host")
    other = meeting.node(job="another")
    more = meeting.node(nnodes="3")
    assert other.wait(20) == 1 and b"this rendezvous belongs to another job" in other.stderr.read()
    assert more.wait(20) == 1 and b"--nnodes 2:2" in more.stderr.read()
    meeting.nodes = [first]
    meeting.node()
    assert [e[0] for e in meeting.ends()] == [0, 0]


def test_garbage_at_the_endpoint_does_no_harm(meeting):
    first = meeting.node()
    wait_until(lambda: listens(first.pid, meeting.port), "the host")
    held = []
    for text in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100, b"\xff" * 5000, b'\2\0\0\0\0\0\0\0{}', b""):
        s = socket.create_connection(("127.0.0.1", meeting.port), 5)
        s.sendall(text)
        held.append(s)
    meeting.node()
    assert [e[0] for e in meeting.ends()] == [0, 0]
    for s in held:
        s.close()


def said(kind, **fields):
    head = json.dumps({"t": kind, **fields}).encode()
    return struct.pack("<II", len(head), 0) + head


def test_what_a_host_says_out_of_turn_or_wrongly_does_no_harm(meeting, tmp_path):
    place = {"node": 0, "nodes": 2, "first": 0, "world": 2, "address": "localhost", "port": 4000}
    go, done = tmp_path / "started", tmp_path / "done"
    for late, status, words in (([said("assignment", **place), said("job_done")], 0, "unexpected 'assignment' (dropped)"),
                                ([said("assignment", **{**place, "world": 1 << 40})], 1, "invalid message from its server")):
        with socket.create_server(("127.0.0.1", meeting.port)) as host:
            meeting.node("--rdzv-conf", "is_host=0", text=f"touch {go}; until [ -e {done} ]; do sleep 0.05; done")
            link, _ = host.accept()
            if status == 0:
                link.sendall(said("assignment", **place))
                wait_until(go.exists, "its rank")
            link.sendall(b"".join(late))
            if status == 0:
                done.touch()
                link.settimeout(20)
                heard = b""
                while b'"ended"' not in heard:
                    more = link.recv(4096)
                    assert more, heard
                    heard += more
                link.sendall(said("job_done"))
            ((got, _, err),) = meeting.ends()
            assert got == status and words in err, err
            link.close()
        meeting.nodes.clear()


def test_a_name_of_any_bytes_names_the_job(meeting):
    for _ in range(2):
        meeting.node(job="caf\udce9")
    assert [e[0] for e in meeting.ends()] == [0, 0]


def test_the_user_who_ends_a_node_ends_it_also_where_another_has_just_come(meeting, tmp_path):
    log, asked = tmp_path / "log", tmp_path / "asked"
    text = f"trap 'touch {asked}' TERM; echo x >>{log}; while :; do sleep 0.05; done"
    options = ["--rdzv-conf", "last_call_timeout=0"]
    meeting.node(*options, "--grace", "2", nnodes="1:2", text=text)
    wait_until(lambda: log.exists(), "the first node alone")
    meeting.node(*options, nnodes="1:2", text=text)
    wait_until(asked.exists, "that its ranks are ended")
    meeting.nodes[0].send_signal(signal.SIGINT)
    assert meeting.nodes[0].wait(20) == 130
    meeting.nodes[1].send_signal(signal.SIGINT)
    meeting.ends()
    assert log.read_text() == "x\n"


def test_a_setting_is_known_by_its_whole_name(meeting):
    node = meeting.node("--rdzv-conf", "j=0,l=0,i=0")
    wait_until(lambda: listens(node.pid, meeting.port), "the host")
    meeting.node()
    assert [e[0] for e in meeting.ends()] == [0, 0]


def test_too_few_nodes_are_told_after_the_join_timeout(meeting):
    meeting.node("--rdzv-conf", "join_timeout=1")
    ((status, _, err),) = meeting.ends()
    assert status == 1 and "1 of 2 nodes joined in 1 s" in err, err
    meeting.nodes.clear()
    meeting.node("--rdzv-conf", "join_timeout=1,is_host=0")
    ((status, _, err),) = meeting.ends()
    assert status == 1 and "no server in 1 s: connection refused" in err, err
    meeting.nodes.clear()
    meeting.node("--rdzv-conf", "join_timeout=1", endpoint="no.such.host.invalid")
    ((status, _, err),) = meeting.ends()
    assert status == 1 and "rendezvous at no.such.host.invalid:" in err and "no server in 1 s: " in err, err
    # No more lines than one, and none where the name server itself needs longer
    assert err.count("no server yet") <= 1, err


SILENT_NAME_SERVER = """
import os, socket, subprocess, sys
subprocess.run(["mount", "--bind", sys.argv[1], "/etc/resolv.conf"], check=True)
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 53))
os.set_inheritable(silent.fileno(), True)
os.execvp(sys.argv[2], sys.argv[2:])
"""


ALONE = ["unshare", "--net", "--mount"]


@pytest.mark.skipif(subprocess.run([*ALONE, "ip", "link"], capture_output=True, check=False).returncode != 0,
                    reason="no network and mount namespaces, or no ip")
def test_a_name_server_without_an_answer_ends_with_the_join_timeout(tmp_path):
    """A lookup that is never answered takes 10 s, and torchrun's default waits for 15 minutes."""
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    began = time.monotonic()
    done = subprocess.run(
        [*ALONE, sys.executable, "-c", SILENT_NAME_SERVER, tmp_path / "resolv.conf", DROVER, "torchrun",
         "--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "no.such.host.example:4000",
         "--rdzv-conf", "join_timeout=3", "--no-python", "true"],
        capture_output=True, text=True, timeout=60)  # fmt: skip
    assert done.returncode == 1 and "no server in 3 s: no answer yet" in done.stderr, done.stderr
    assert "waiting 2 s: rendezvous at no.such.host.example:4000: no server yet: no answer yet" in done.stderr, done.stderr
    assert time.monotonic() - began < 9, done.stderr


def test_who_waits_can_be_interrupted(meeting):
    first = meeting.node()
    wait_until(lambda: listens(first.pid, meeting.port), "the host")
    first.send_signal(signal.SIGINT)
    assert [e[0] for e in meeting.ends()] == [130]


def test_an_interrupt_on_one_node_ends_all(meeting, tmp_path):
    go = tmp_path / "started"
    for _ in range(2):
        meeting.node("--max-restarts", "3", text=f"echo x >>{go}; sleep 60")
    wait_until(lambda: go.exists() and len(go.read_text()) == 4, "both ranks")
    host = next(p for p in meeting.nodes if listens(p.pid, meeting.port))
    (other,) = [p for p in meeting.nodes if p is not host]
    other.send_signal(signal.SIGINT)
    assert other.wait(20) == 130
    host.send_signal(signal.SIGINT)  # it has restarts left, and waits for another node
    assert host.wait(20) in (1, 130)
    meeting.ends()


def test_least_one_node_runs_alone_where_nobody_else_can_come(drover):
    for endpoint in ([], ["--rdzv-endpoint", "localhost:0"]):
        done = drover.run("torchrun", "--nnodes", "1:4", *endpoint, "--no-python", "sh", "-c", SHOW)
        assert done.returncode == 0 and done.stdout.split()[1:6] == ["0", "0", "1", "1", "1"], done.stderr


def test_what_watches_an_attempt_ends_with_it_also_where_the_next_counts_as_no_restart(meeting, tmp_path):
    """Looks for ranks that do not find each other begin 1 s after an attempt's start: past the end of the first one here."""
    log, done = tmp_path / "log", tmp_path / "done"
    text = f"echo $WORLD_SIZE >>{log}; until [ -e {done} ]; do sleep 0.05; done"
    options = ["--nproc-per-node", "2", "--rdzv-conf", "last_call_timeout=0"]
    meeting.node(*options, nnodes="1:2", text=text)
    wait_until(lambda: log.exists() and log.read_text() == "2\n2\n", "the first node alone")
    meeting.node(*options, nnodes="1:2", text=text)
    wait_until(lambda: log.read_text().count("4\n") == 4, "both")
    with pytest.raises(subprocess.TimeoutExpired):
        meeting.nodes[0].wait(3)
    done.touch()
    assert [e[0] for e in meeting.ends()] == [0, 0]
