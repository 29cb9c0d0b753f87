"""`drover run --engine ssh` with a program in place of ssh, which runs the commands of "other nodes" on this machine. The
tests of tests/e2e/cluster have real nodes and a real sshd."""
import os
import re
import signal
import time

import pytest

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
    return job.returncode, out.decode(), err.decode()


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
