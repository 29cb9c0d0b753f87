"""`drover run` over three nodes: names and networks that are not what they seem, starts that go wrong, disks that are full."""
import os
import re
import signal
import time

import pytest
from conftest import BUILD
from test_kills import find
from waiting import wait_until

RUN = [BUILD / "bin/drover", "run"]
VARIABLES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
MUTE = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("", 53))
print("up", flush=True)
s.recv(512)
print("asked", flush=True)
while True:
    s.recv(512)
"""


def test_ranks_are_told_the_interface_that_joins_the_nodes_unless_the_user_says_another(engine):
    show = ["sh", "-c", "echo " + " ".join(f"${v}" for v in VARIABLES)]
    status, out, err = engine.run("-np", "3", "-N", "1", *show)
    assert (status, out) == (0, "eth0 eth0 eth0\n" * 3), err
    status, out, err = engine.run("-np", "3", "-N", "1", "-x", "TP_SOCKET_IFNAME=mine", *show,
                                  env={"GLOO_SOCKET_IFNAME": "lo"})
    assert (status, out) == (0, "eth0 lo mine\n" * 3), err


def test_a_name_that_only_ssh_knows_is_a_host_as_for_mpirun(cluster):
    config = cluster.home / ".ssh/config"
    config.parent.mkdir(mode=0o700, exist_ok=True)
    config.write_text("Host far\n    HostName node3\n")
    config.chmod(0o600)
    try:
        status, out, err = cluster.head.run(*RUN, "--host", "node1:1,far:1", "--tag", "none", "sh", "-c",
                                            "echo $RANK $(hostname) $MASTER_ADDR")
    finally:
        config.unlink()
    assert status == 0, err
    assert sorted(out.splitlines()) == ["0 node1 10.77.0.1", "1 node3 10.77.0.1"]
    cluster.nothing_left()


def test_ctrl_c_ends_a_start_at_once_while_no_name_server_answers(cluster, tmp_path):
    (tmp_path / "resolv.conf").write_text(f"nameserver {cluster.nodes[1].address}\noptions timeout:30 attempts:1\n")
    cluster.head.check("mount", "--bind", tmp_path / "resolv.conf", "/etc/resolv.conf")
    server = cluster.nodes[1].start_job("/usr/bin/python3", "-c", MUTE)
    try:
        assert server.stdout.readline() == b"up\n"
        job = cluster.head.start_job(*RUN, "--host", "node1:1,slow.example:1", "true",
                                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        assert server.stdout.readline() == b"asked\n"
        began = time.monotonic()
        job.kill(signal.SIGINT)
        assert job.end(20)[0] != 0
        assert time.monotonic() - began < 1
    finally:
        cluster.head.check("umount", "/etc/resolv.conf")
        server.kill()
    server.end()
    cluster.nothing_left()


@pytest.mark.parametrize("more", [[], ["-v"]])
def test_what_ssh_says_is_told_in_our_words_and_stands_there_once(cluster, more):
    status, _, err = cluster.head.run(*RUN, *more, "--host", "node1:1,gone:1", "true")
    assert status not in (0, 124)
    assert len(re.findall("port 22: ", err)) == len(more), err
    assert len(re.findall("unable to reliably start|ORTE was unable", err)) == len(more), err
    assert re.search(r"host gone: connect: .*; try: ping gone", err), err


def test_a_rank_on_another_node_than_planned_is_an_error_that_names_both(cluster):
    cluster.nodes[1].check("hostname", "node3")
    try:
        status, out, err = cluster.head.run(*RUN, "--hostfile", cluster.hostfile(1), "sh", "-c", "echo started")
    finally:
        cluster.nodes[1].check("hostname", "node2")
    assert (status, out) == (2, ""), err
    assert "planned on node2, but its agent was started on node3" in err
    cluster.nothing_left()


def leavings(cluster):
    return {n.name: n.run("find", "/tmp", "-path", "*ompi*", "-o", "-path", "*/run-*")[1] for n in cluster.nodes}


@pytest.mark.parametrize("how", ["exit 3", "sleep 100"])
def test_no_node_keeps_a_session_directory(cluster, how):
    job = cluster.head.start_job(*RUN, "--hostfile", cluster.hostfile(1), "--grace", "1", "sh", "-c", f"echo up; {how}")
    for _ in range(3):
        job.stdout.readline()
    if how == "sleep 100":
        os.kill(find(cluster.running(), "mpirun", job)[0].pid, signal.SIGKILL)
    job.end()
    wait_until(lambda: not any(leavings(cluster).values()), lambda: f"an empty /tmp, not {leavings(cluster)}", 5)


def test_a_full_disk_ends_a_file_and_is_said_but_ends_no_job(engine):
    head, full = engine.cluster.head, engine.cluster.home / "full"
    full.mkdir(exist_ok=True)
    head.check("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", full)
    try:
        status, out, err = engine.run("-np", "3", "-N", "1", "--output-filename", full, "seq", "100000")
    finally:
        head.check("umount", full)
    assert status == 0 and len(out.splitlines()) == 300000
    said = re.findall(r"rank \d's stdout: the output file is incomplete: No space left on device", err)
    assert len(said) == len(set(said)) >= 1, err
    engine.cluster.nothing_left()
