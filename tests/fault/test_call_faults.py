"""One system call or allocation of a command fails, each in turn: the command neither hangs nor crashes, leaves nothing
behind, does not exit with 0 unless the work is done, and loses no trial.

DROVER_TEST_FAULTS_S says for how many seconds faults are tried (default: 30), DROVER_TEST_SEED which ones,
DROVER_TEST_FAULT="run malloc 17" repeats one."""
import errno
import os
import random
import re
import signal
import subprocess
import time

import pytest
from sweep_kit import BUILD, DROVER, Place

FAULTS_S = float(os.environ.get("DROVER_TEST_FAULTS_S", 30))
ONLY = os.environ.get("DROVER_TEST_FAULT")
LIMIT_S = 30  # of one command; without a fault it takes less than 2 s
ALL_UNTIL = 12  # each call up to this one fails in turn, then some

CALLS = {
    "open": errno.EMFILE, "openat": errno.EMFILE, "fopen": errno.EMFILE, "read": errno.ENOMEM, "write": errno.ENOSPC,
    "sendmsg": errno.ENOBUFS, "recvmsg": errno.ENOMEM, "fsync": errno.EIO, "ftruncate": errno.ENOSPC, "rename": errno.EIO,
    "mkdir": errno.ENOSPC, "pipe2": errno.EMFILE, "socket": errno.EMFILE, "socketpair": errno.EMFILE, "bind": errno.EADDRINUSE,
    "listen": errno.EADDRINUSE, "connect": errno.ECONNREFUSED, "epoll_create1": errno.EMFILE,
    "eventfd": errno.EMFILE, "memfd_create": errno.EMFILE, "mmap": errno.ENOMEM, "dup": errno.EMFILE, "fork": errno.EAGAIN,
    "clone": errno.EAGAIN, "pthread_create": errno.EAGAIN, "malloc": errno.ENOMEM, "calloc": errno.ENOMEM,
    "realloc": errno.ENOMEM,
}

SUGGEST = """{"op":"init","space":[{"name":"x","type":"float","low":0,"high":1}],"method":"bayes","budget":9,"goal":"minimize"}
{"op":"ask","n":3}
{"op":"tell","results":[{"id":0,"value":1.5},{"id":1,"value":0.5},{"id":2,"state":"failed"}]}
{"op":"ask","n":1}
{"op":"best"}
"""


class Command:
    """A command in a directory of its own, with a fault."""

    args, program, input = [], "drover", ""

    def __init__(self, path):
        path.mkdir()
        self.path = path
        self.place = Place(path)
        for name in ("tmp", "run"):
            (path / name).mkdir(mode=0o700)
        self.env = {k: v for k, v in self.place.env.items() if not k.startswith(("OMPI_", "PMIX_", "MAKE", "XDG_"))}
        self.env.update(TMPDIR=str(path / "tmp"), XDG_RUNTIME_DIR=str(path / "run"), HOME=str(path))

    def run(self, fault=None):
        env = {**self.env, **(fault or {})}
        p = subprocess.Popen([DROVER, *self.args], cwd=self.path, env=env, text=True, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        try:
            out, err = p.communicate(self.input, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            out, err = p.communicate()
            return None, out, err
        return p.returncode, out, err

    def fault(self, call, nth, times):
        return {"LD_PRELOAD": str(BUILD / "tests/fault/preload/fail_nth.so"), "FAIL_CALL": call, "FAIL_NTH": str(nth),
                "FAIL_TIMES": str(times), "FAIL_ERRNO": str(CALLS[call]), "FAIL_PROGRAM": self.program,
                "FAIL_COMMAND": self.command, "FAIL_LOG": str(self.path / "faults")}

    @property
    def command(self):
        return self.args[0]

    def done(self, out, err=""):
        """Is the work done that exit status 0 promises?"""
        raise NotImplementedError

    def check_after(self):
        """What holds after a failure too."""

    def wrong(self, call, nth, times):
        """(was the call reached, what is wrong)"""
        status, out, err = self.run(self.fault(call, nth, times))
        log = self.path / "faults"
        reached = log.read_text() if log.exists() else ""
        said = f"status {status}, {reached}\n{out[-600:]}\n{err[-1500:]}"
        if status is None:
            return reached, "hangs: " + said
        by_library = re.search("libhwloc|libpmix|libzmq", reached)
        if by_library and status in (-signal.SIGABRT, -signal.SIGSEGV):
            status = 1  # a library without a way to report this; what must hold then is checked below
            err = err or "a library ends the process"
        if status < 0 or status in (128 + signal.SIGSEGV, 128 + signal.SIGABRT):
            return reached, "crashes: " + said
        if status == 0 and not self.done(out, err):
            return reached, "exits with 0, but the work is not done: " + said
        if status != 0 and not err.strip():
            return reached, "fails without a message: " + said
        try:
            self.check_after()
            self.place.nothing_runs()
            self.run()  # removes session directories of processes that were killed, and ps their entries
            subprocess.run([DROVER, "ps"], env=self.env, check=True, capture_output=True)
            left = [str(f) for d in ("tmp", "run") for f in (self.path / d).glob("drover*/**/*")
                    if f.suffix in (".json", ".lines") or f.name.startswith("run-")]
            assert not left, f"left: {left}"
        except (AssertionError, subprocess.TimeoutExpired, ValueError) as e:
            return reached, f"afterwards: {e} {said}"
        return reached, None


class Run(Command):
    args = ["run", "-np", "2", "sh", "-c", "echo rank $RANK"]

    def done(self, out, err=""):
        return sorted(out.split("\n")) == ["", "rank 0", "rank 1"] or "the output is incomplete" in err


class Suggest(Command):
    args, program, input = ["suggest"], "drover-hpo", SUGGEST

    def done(self, out, err=""):
        return len(out.splitlines()) == 5 and "error" not in out


class Bench(Command):
    args, program = ["bench", "all_reduce", "-np", "2", "-b", "8", "-e", "16", "-f", "2", "-n", "2", "-w", "1"], "drover-bench"

    def done(self, out, err=""):
        return "Avg bus bandwidth" in out


class Sweep(Command):
    """The coordinator."""

    args, program, command = ["sweep", "s.yaml", "--here", "2"], "drover-hpo", "sweep"

    def __init__(self, path):
        super().__init__(path)
        self.place.env = self.env
        self.place.script("t.sh", 'echo "{\\"step\\":1,\\"loss\\":$x}"; echo "{\\"step\\":2,\\"loss\\":$x}"\n')
        self.place.sweep("method: grid\nmetric: {name: loss}\nparameters: {x: {values: [1, 2, 3]}}\n"
                         "drover: {lost_after: 3}\n")

    def done(self, out, err=""):
        return self.place.states() == ["done"] * 3

    def check_after(self):
        again = ["--name", "s", "--resume"] if self.place.db().exists() else ["s.yaml"]
        first = self.place.run(*again, limit_s=LIMIT_S)
        if first.returncode != 0 and not self.place.records("created"):
            first = self.place.run("s.yaml", "--resume", limit_s=LIMIT_S)  # the fault was before the first record
        ended = [t for t, _, _ in self.place.records("ended")]
        assert sorted(ended) == [0, 1, 2], f"{ended} {first}"
        if any(s != "done" for s in self.place.states()):  # the worker could not start it
            assert self.place.run("retry", "s", "--failed").returncode == 0
            assert self.place.run("--name", "s", "--resume", limit_s=LIMIT_S).returncode == 0
        assert self.place.states() == ["done"] * 3


class Worker(Sweep):
    """The worker of this host that the coordinator starts. A trial that it cannot start fails, with the reason."""

    command = "worker"

    def done(self, out, err=""):
        return len(self.place.states()) == 3 and set(self.place.states()) <= {"done", "failed"}


COMMANDS = {c.__name__.lower(): c for c in (Run, Suggest, Bench, Sweep, Worker)}
SHARES = {"run": 0.15, "suggest": 0.05, "bench": 0.2, "sweep": 0.25, "worker": 0.35}  # of the time


def try_faults(tmp_path, name, end, rng):
    """Tries faults of one command until `end`: a list of what is wrong, and how many were tried."""
    wrong, tried, count = [], 0, 0

    def one(call, nth, times):
        nonlocal tried, count
        count += 1
        c = COMMANDS[name](tmp_path / f"{name}{count}")
        reached, text = c.wrong(call, nth, times)
        c.place.clean_up()
        tried += bool(reached)
        if text:
            wrong.append(f"{name} {call} {nth} {times}: {text}")
            print(wrong[-1], flush=True)
        return reached

    calls = list(CALLS)
    rng.shuffle(calls)
    for nth in range(1, ALL_UNTIL):
        for call in list(calls):
            if time.monotonic() > end:
                return wrong, tried
            if not one(call, nth, rng.choice((1, 1, 20))):
                calls.remove(call)
    while calls and time.monotonic() < end:
        call = rng.choice(calls)
        nth = int(ALL_UNTIL * 2 ** rng.uniform(0, 10))
        one(call, nth, 1)
    return wrong, tried


@pytest.mark.parametrize("name", COMMANDS)
def test_a_call_that_fails_harms_nothing(tmp_path, seed, name):
    if ONLY:
        command, call, nth, *times = ONLY.split()
        c = COMMANDS[command](tmp_path / "one")
        print(c.wrong(call, int(nth), int(times[0]) if times else 1))
        return
    c = COMMANDS[name](tmp_path / "without")
    status, out, err = c.run()
    assert status == 0 and c.done(out), out + err
    wrong, tried = try_faults(tmp_path, name, time.monotonic() + FAULTS_S * SHARES[name], seed)
    print(tried, "faults")
    assert not wrong, "\n\n".join(wrong)
    assert tried > 0
