"""`drover run --engine ssh` with a program in place of ssh, which runs the commands of "other nodes" on this machine. The
tests of tests/e2e/cluster have real nodes and a real sshd."""
import contextlib
import os
import pty
import re
import signal
import socket
import time
from pathlib import Path

import pytest
from waiting import wait_until, without_waits

# The node is the argument of -l. The last argument is the command for the login shell, which has the same stdin.
SSH = """#!/bin/sh
for word; do [ "$before" = -l ] && node=$word; before=$word; done
printf '%s\\n' "$0 $*" >>{log}/lines
tr '\\0' '\\n' </proc/$$/environ >>{log}/environ
case $node in {special} esac
sh -c "$before"
"""
TOKEN = r"\b[0-9a-f]{64}\b"


@pytest.fixture(name="ssh")
def make_ssh(drover, tmp_path):
    """start(number of nodes, *args, special="NODE) commands;;") -> Popen"""
    (tmp_path / "log").mkdir()

    def start(nodes, *args, special="", **kw):
        program = tmp_path / "ssh"
        program.write_text(SSH.format(log=tmp_path / "log", special=special))
        program.chmod(0o755)
        hosts = ",".join(f"n{i}@127.0.0.1:1" for i in range(nodes))
        return drover.start("run", "--engine", "ssh", "--mca", "plm_rsh_agent", str(program), "-H", hosts, "--tag", "none",
                            "--no-preflight", *args, **kw)
    return start


def end(job, timeout=60):
    out, err = job.communicate(timeout=timeout)
    return job.returncode, out.decode(), without_waits(err.decode())


def test_ranks_run_on_each_node_and_the_token_is_on_no_command_line(drover, ssh, tmp_path):
    status, out, err = end(ssh(3, "sh", "-c", "echo $RANK of $WORLD_SIZE"))
    assert (status, sorted(out.splitlines()), err) == (0, ["0 of 3", "1 of 3", "2 of 3"], "")
    lines = (tmp_path / "log/lines").read_text()
    assert len(lines.splitlines()) == 3 and lines.count("BatchMode=yes") == 3, lines
    assert not re.search(TOKEN, lines + (tmp_path / "log/environ").read_text())
    drover.nothing_left()


def test_arguments_of_the_user_come_first(ssh, tmp_path):
    status, _, err = end(ssh(1, "--ssh-args", "-p 2222 -o X=y", "true"))
    assert status == 0, err
    assert "/ssh -p 2222 -o X=y -T -o BatchMode=yes" in (tmp_path / "log/lines").read_text()


@pytest.mark.parametrize("command", [["doctor", "--quick"], ["topo"], ["top", "--once"]], ids=lambda words: words[0])
def test_commands_that_ask_nodes_pass_arguments_to_ssh(drover, tmp_path, command):
    (tmp_path / "log").mkdir()
    program = tmp_path / "ssh"
    program.write_text(SSH.format(log=tmp_path / "log", special=""))
    program.chmod(0o755)
    done = drover.run(*command, "-H", "n0@127.0.0.1:1", "--ssh-args", "-p 2222 -o X=y",
                      env={"OMPI_MCA_plm_rsh_agent": str(program)})
    assert done.stderr == "", done
    assert "/ssh -p 2222 -o X=y -T -o BatchMode=yes" in (tmp_path / "log/lines").read_text()


@pytest.mark.parametrize("special, status, words", [
    ("n1) echo 'ssh: connect to host n1 port 22: Connection refused' >&2; exit 255;;", 126,
     "host n1: connect: no sshd listens on that port; try: ssh n1"),
    ("n1) echo 'Host key verification failed.' >&2; exit 255;;", 126,
     "host n1@127.0.0.1: key: a host key is unknown on this machine"),
    ("n1) exec env DROVER_AGENT_NODE=1 /nonexist/drover agent;;", 126,
     "host n1@127.0.0.1: exec: drover is not installed at the same path; try: install drover on n1@127.0.0.1"),
    ("n1) cat >/dev/null;;", 126, "host n1@127.0.0.1: start: a start-up file of the login shell reads stdin"),
    ("n1) echo 'what is this' >&2; exit 7;;", 126, "host n1@127.0.0.1: ssh exited with status 7"),
    ("n1) kill -9 $$;;", 126, "host n1@127.0.0.1: ssh was killed by signal 9"),
])
def test_a_node_that_cannot_be_reached_is_named_with_the_cause(drover, ssh, special, status, words):
    began = time.monotonic()
    got, out, err = end(ssh(3, "echo", "hi", special=special))
    assert (got, out) == (status, ""), err
    assert words in err and "rank 1 on n1@127.0.0.1" in err, err
    assert time.monotonic() - began < 10
    drover.nothing_left()


def test_what_a_login_shell_prints_does_no_harm(ssh):
    status, out, err = end(ssh(2, "echo", "hi", special="*) echo welcome; echo news >&2;;"))
    assert (status, out, err) == (0, "hi\nhi\n", "")


def test_as_many_nodes_as_64_are_contacted_at_once_and_all_run(drover, ssh, tmp_path):
    """Each ssh waits until 64 of them run, or for 2 s: the 65th starts when an agent has connected."""
    special = (f"*) mkdir {tmp_path}/log/$node; i=0; while [ $i -lt 20 ]; do set -- {tmp_path}/log/n*; [ $# -ge 64 ] && break;"
               f" sleep 0.1; i=$((i + 1)); done; [ $i -lt 20 ] || touch {tmp_path}/log/late; echo $# >>{tmp_path}/log/counts;;")
    status, out, err = end(ssh(70, "echo", "hi", special=special), 120)
    assert (status, out.count("hi\n")) == (0, 70), err
    counts = [int(x) for x in (tmp_path / "log/counts").read_text().split()]
    assert len(counts) == 70 and min(counts) == 64, sorted(counts)
    assert not (tmp_path / "log/late").exists()
    drover.nothing_left(5)


def test_ctrl_c_ends_a_start_that_waits(drover, ssh, tmp_path):
    job = ssh(3, "true", special=f"n1) touch {tmp_path}/log/up; exec sleep 100;;")
    while not (tmp_path / "log/up").exists():
        time.sleep(0.01)
        assert job.poll() is None
    job.send_signal(signal.SIGINT)
    assert end(job, 10)[0] == 130
    drover.nothing_left()


def test_a_program_that_is_not_there_is_named(drover):
    done = drover.run("run", "--engine", "ssh", "--mca", "plm_rsh_agent", "no-such-ssh -q", "-H", "n1@127.0.0.1", "true")
    assert done.returncode == 2 and "no-such-ssh: not found in PATH" in done.stderr, done.stderr


def test_the_job_ends_if_an_ssh_ends(drover, ssh, tmp_path):
    job = ssh(3, "--grace", "1", "sh", "-c", "echo up; exec sleep 100",
              special=f"n1) echo $$ >{tmp_path}/log/pid;;")
    for _ in range(3):
        assert job.stdout.readline() == b"up\n"
    pid = int((tmp_path / "log/pid").read_text())
    os.kill(pid, signal.SIGKILL)
    status, _, err = end(job, 30)
    assert status != 0 and "n1@127.0.0.1" in err, err
    drover.nothing_left(5)


def freeze(process, seconds):
    process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    process.send_signal(signal.SIGCONT)


def test_a_job_survives_a_frozen_launcher(drover, ssh, tmp_path):
    """The launcher stands still for longer than --lost-after, while the ranks fill its buffers."""
    job = ssh(2, "--lost-after", "1", "sh", "-c", f"touch {tmp_path}/up.$RANK; while [ ! -e {tmp_path}/go ]; do head -c 99999 "
              "/dev/zero; echo; done; echo done $RANK")
    wait_until(lambda: len(list(tmp_path.glob("up.?"))) == 2, "two ranks")
    freeze(job, 7)
    (tmp_path / "go").touch()
    status, out, err = end(job)
    assert status == 0 and "done 0" in out and "done 1" in out, err
    assert re.fullmatch(r"drover run: warn: drover was suspended for \d+ s\n", err), err
    drover.nothing_left()


def test_a_launcher_that_is_killed_while_it_is_frozen_leaves_no_rank(drover, ssh, tmp_path):
    job = ssh(2, "--lost-after", "1", "--grace", "1", "sh", "-c", f"touch {tmp_path}/up.$RANK; exec sleep 100")
    wait_until(lambda: len(list(tmp_path.glob("up.?"))) == 2, "two ranks")
    job.send_signal(signal.SIGSTOP)
    time.sleep(3)
    assert sum(c.startswith("sleep 100") for c in drover.left().values()) == 2
    job.kill()
    job.wait()
    drover.nothing_left()


def test_a_frozen_launcher_does_not_use_up_the_start_limit(ssh, tmp_path):
    log = tmp_path / "log"
    job = ssh(2, "--start-timeout", "5", "true", special=f"n1) touch {log}/up; while [ ! -e {log}/go ]; do sleep 0.1; done;;")
    wait_until((log / "up").exists, "the agent's start")
    freeze(job, 8)
    (log / "go").touch()
    status, _, err = end(job)
    assert status == 0, err


@pytest.mark.parametrize("terminal", [False, True])
def test_a_start_that_waits_says_for_whom(drover, ssh, tmp_path, terminal):
    """In a file there are lines; a terminal has one line, which disappears when the job starts."""
    head, tail = pty.openpty() if terminal else os.pipe()
    job = ssh(2, "echo", "up", special=f"n1) while [ ! -e {tmp_path}/go ]; do sleep 0.1; done;;", stderr=tail,
              env={**drover.env, "TERM": "xterm"})
    os.close(tail)
    said = b""
    while said.count(b"waiting ") < 2:
        said += os.read(head, 1000)
    (tmp_path / "go").touch()
    assert job.communicate(timeout=60)[0] == b"up\nup\n"
    with contextlib.suppress(OSError):  # a terminal without its other end
        while more := os.read(head, 1000):
            said += more
    os.close(head)
    text = said.decode()
    line = r"drover run: %swaiting \d+ s: no agent has connected from n1@127.0.0.1"
    if terminal:
        assert re.match(rf"(\r\033\[K{line % ''}[^\n]*)+\r\033\[K$", text), text
    else:
        assert all(re.match(line % "warn: ", one) for one in text.splitlines()), text


def free_ports(count):
    """The first of `count` ports in a row on which nothing listens."""
    for _ in range(1000):
        with contextlib.ExitStack() as open_sockets:
            first = open_sockets.enter_context(socket.create_server(("", 0))).getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                for port in range(first + 1, first + count):
                    open_sockets.enter_context(socket.create_server(("", port)))
                return first
    raise AssertionError("no free ports in a row")


def listening(pids):
    """The ports at which these processes listen, other than on the loopback device."""
    ports = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            words = line.split()
            host, port = words[1].split(":")
            if words[3] == "0A" and not int(host, 16):
                ports[f"socket:[{words[9]}]"] = int(port, 16)
    found = set()
    for pid in pids:
        for fd in Path(f"/proc/{pid}/fd").glob("*"):
            with contextlib.suppress(OSError):
                found.add(ports.get(os.readlink(fd)))
    return sorted(found - {None})


def test_all_ports_of_a_job_lie_in_the_range(drover, ssh, tmp_path):
    """The launcher, the two agents that have one below them in the tree, and rank 0."""
    first = free_ports(4)
    job = ssh(3, "--port-range", f"{first}-{first + 3}", "--tree-radix", "1", "sh", "-c",
              f"touch {tmp_path}/up.$RANK; while [ ! -e {tmp_path}/go ]; do sleep 0.1; done; echo $MASTER_PORT")
    wait_until(lambda: len(list(tmp_path.glob("up.?"))) == 3, "three ranks")
    used = listening([job.pid, *drover.left()])
    (tmp_path / "go").touch()
    status, out, err = end(job)
    assert status == 0, err
    assert len(used) == 3 and len(set(out.split())) == 1, (used, out)
    assert sorted([*used, int(out.split()[0])]) == list(range(first, first + 4))


@pytest.mark.parametrize("taken", [1, 2])
def test_a_range_that_is_used_up_is_named_with_its_user(drover, ssh, taken):
    """Of two ports: the launcher finds none, or rank 0's node."""
    first = free_ports(2)
    with contextlib.ExitStack() as open_sockets:
        for port in range(first + 2 - taken, first + 2):
            open_sockets.enter_context(socket.create_server(("", port)))
        status, _, err = end(ssh(2, "--port-range", f"{first}-{first + 1}", "true"))
    assert status not in (0, None), err
    assert f"--port-range {first}-{first + 1}: no free port: {first + 1}: in use by process {os.getpid()} " in err
    assert "wider range" in err
    drover.nothing_left()


def test_a_local_job_has_its_port_in_the_range(drover):
    first = free_ports(1)
    for words in (["run", "-np", "2"], ["torchrun", "--nproc-per-node", "2", "--no-python"]):
        done = drover.run(*words, "--port-range", str(first), "sh", "-c", "echo $MASTER_PORT")
        assert done.stdout.split() == [str(first)] * 2, done


@pytest.mark.parametrize("command", ["run", "torchrun"])
@pytest.mark.parametrize("text, cause", [("0-5", "is not a range of ports"), ("9-8", "minimum exceeds maximum"),
                                         ("1-70000", "is not a range of ports"), ("a", "is not a range of ports")])
def test_a_wrong_range_is_an_error_before_the_start(drover, command, text, cause):
    done = drover.run(command, "--port-range", text, "touch", "f")
    assert done.returncode == 2 and "--port-range" in done.stderr and cause in done.stderr, done
    assert not (Path(drover.cwd) / "f").exists()


def test_a_node_that_fails_while_its_ranks_run_is_not_said_to_have_failed_at_the_start(drover, ssh, tmp_path):
    job = ssh(1, "--grace", "1", "sh", "-c", f"touch {tmp_path}/up; exec sleep 100", special=
              f"n0) exec 3<&0; sh -c \"$before\" <&3 & while [ ! -e {tmp_path}/up ]; do sleep 0.1; done; "
              "echo 'srun: error: Node failure on n0' >&2; exit 1;;")
    status, _, err = end(job)
    assert status != 0 and "host n0: Slurm lost the node; try: sinfo -n n0" in err and "start" not in err, err
    drover.nothing_left(5)


def test_a_killed_guardian_of_an_agent_is_named_with_its_node_and_no_rank(drover, ssh):
    job = ssh(2, "--grace", "1", "sh", "-c", "exec sleep 100")
    wait_until(lambda: sum(c.startswith("sleep 100") for c in drover.left().values()) == 2, drover.left)
    (rank,) = [pid for pid, command in drover.left().items() if command.startswith("sleep 100") and
               b"\0RANK=1\0" in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()]
    guardian = int(Path(f"/proc/{rank}/stat").read_text().rpartition(")")[2].split()[1])
    assert Path(f"/proc/{guardian}/comm").read_text() == "drover-guardian\n"
    os.kill(guardian, signal.SIGKILL)
    status, _, err = end(job)
    assert "the job was stopped: host n1@127.0.0.1: drover's guardian process was killed" in err, err
    assert status != 0 and "drover run: rank" not in err, err
    drover.nothing_left()
