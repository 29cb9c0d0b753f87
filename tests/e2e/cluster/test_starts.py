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


@pytest.mark.parametrize("more", [[], ["-v"], ["--engine", "ssh"], ["--engine", "ssh", "-v"]])
def test_what_ssh_says_is_told_in_our_words_and_stands_there_once(cluster, more):
    status, _, err = cluster.head.run(*RUN, *more, "--host", "node1:1,gone:1", "true")
    assert status not in (0, 124)
    shown = more.count("-v")
    assert len(re.findall("port 22: ", err)) == shown, err
    assert len(re.findall("unable to reliably start|ORTE was unable", err)) == (0 if "ssh" in more else shown), err
    assert re.search(r"host gone: connect: .*; try: ping gone", err), err


def keyless(cluster):
    """ssh as if the head had no key."""
    return ["--engine", "ssh", "--ssh-args", f"-o IdentityFile={cluster.work}/none -o PubkeyAuthentication=no"]


def unknown_host(cluster):
    return ["--engine", "ssh", "--ssh-args", "-o StrictHostKeyChecking=yes -o LogLevel=INFO"]


@pytest.mark.parametrize("args, words", [(keyless, "key: ssh has no key that the host accepts; try: ssh-copy-id node2"),
                                         (unknown_host, "key: its host key is unknown on this machine; try: ssh-keyscan node2")])
def test_a_key_that_ssh_or_sshd_does_not_know_is_said_with_the_node(cluster, args, words):
    status, _, err = cluster.head.run(*RUN, *args(cluster), "--host", "node1:1,node2:1", "true")
    assert status == 126 and f"host node2: {words}" in err, err
    cluster.nothing_left()


def test_ssh_needs_no_sshd_on_the_head_and_no_mpirun(cluster, tmp_path):
    for program in ("sh", "env", "ssh"):
        (tmp_path / program).symlink_to(f"/usr/bin/{program}")
    status, out, err = cluster.head.run("env", f"PATH={tmp_path}", *RUN, "-v", "--host", "node1:1,node2:1", "--tag", "none",
                                        "/usr/bin/hostname")
    assert (status, sorted(out.split())) == (0, ["node1", "node2"]), err
    assert "engine ssh starts the ranks on other nodes, since PATH has no mpirun" in err
    cluster.nothing_left()


def test_a_login_shell_that_speaks_does_no_harm_and_one_that_reads_is_named(cluster):
    bashrc = cluster.home / ".bashrc"
    line = [*RUN, "--engine", "ssh", "--host", "node1:1,node2:1", "--tag", "none", "echo", "hi"]
    try:
        bashrc.write_text("echo welcome; echo to you >&2\n")
        status, out, err = cluster.head.run(*line)
        assert (status, out, err) == (0, "hi\nhi\n", "")
        bashrc.write_text("cat >/dev/null\n")
        status, out, err = cluster.head.run(*line)
    finally:
        bashrc.unlink()
    assert status == 126 and "host node2: start: a start-up file of the login shell reads stdin" in err, err
    cluster.nothing_left()


def test_without_drover_at_its_path_the_node_is_named(cluster, tmp_path):
    """On node2 an empty directory covers the installation."""
    cluster.nodes[1].check("mount", "--bind", tmp_path, BUILD / "bin")
    try:
        status, _, err = cluster.head.run(*RUN, "--engine", "ssh", "--host", "node1:1,node2:1", "true")
    finally:
        cluster.nodes[1].check("umount", BUILD / "bin")
    assert status == 126 and "host node2: exec: drover is not installed at the same path" in err, err
    cluster.nothing_left()


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
    return {(n.name, line) for n in cluster.nodes for line in n.run("find", "/tmp", "-path", "*ompi*", "-o", "-path", "*/run-*")[1].split()}


@pytest.mark.parametrize("how", ["exit 3", "sleep 100"])
def test_no_node_keeps_a_session_directory(cluster, how):
    before = leavings(cluster)  # of a start that failed, which orted may leave
    job = cluster.head.start_job(*RUN, "--hostfile", cluster.hostfile(1), "--grace", "1", "sh", "-c", f"echo up; {how}")
    for _ in range(3):
        job.stdout.readline()
    if how == "sleep 100":
        os.kill(find(cluster.running(), "mpirun", job)[0].pid, signal.SIGKILL)
    job.end()
    wait_until(lambda: leavings(cluster) <= before, lambda: f"an empty /tmp, not {leavings(cluster) - before}", 5)


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
