"""What the tests of `drover sweep` share: files, processes, the store, and a look at what is left running."""
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import uuid
from pathlib import Path

import pytest
from waiting import hear_signals, wait_until

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("DROVER_BUILD", ROOT / "build/dev"))
BUILD = BUILD if BUILD.is_absolute() else ROOT / BUILD
DROVER = BUILD / "bin/drover"
LIMIT_S = 60


class Place:
    """A directory with trial programs and sweep files; all that is started in it carries a mark."""

    def __init__(self, path):
        self.path = path
        self.mark = f"DROVER_TEST_MARK={uuid.uuid4().hex}"
        self.env = dict(os.environ, **dict([self.mark.split("=")]))
        self.started = []

    def script(self, name, text):
        """A shell program that has its parameters as variables: --x=1 is $x."""
        head = '#!/bin/sh\nfor a in "$@"; do a=${a#--}; export "${a%%=*}=${a#*=}"; done\n'
        (self.path / name).write_text(head + text)
        (self.path / name).chmod(0o755)
        return name

    def sweep(self, text, program="t.sh", name="s"):
        """A sweep file with a command that runs `program` with its parameters."""
        head = f'program: {program}\ncommand: ["./{program}", "${{args}}"]\n'
        (self.path / f"{name}.yaml").write_text(head + text)
        return f"{name}.yaml"

    def run(self, *args, limit_s=LIMIT_S):
        return subprocess.run([DROVER, "sweep", *args], cwd=self.path, env=self.env, text=True, errors="replace",
                              capture_output=True, timeout=limit_s, stdin=subprocess.DEVNULL)

    def start(self, *args):
        with open(self.path / "out.txt", "a") as out, open(self.path / "err.txt", "a") as err:
            p = subprocess.Popen([DROVER, "sweep", *args], cwd=self.path, env=self.env, stdout=out, stderr=err,
                                 stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=hear_signals)
        self.started.append(p)
        return p

    def worker(self, node, *args, wrap=()):
        """A worker that joins the sweep s on loopback; its trials have its name as $NODE."""
        key = self.path / "sweeps/s/worker.key"
        wait_until(key.exists, "worker.key")
        with open(self.path / f"{node}.txt", "a") as log:
            p = subprocess.Popen([*wrap, DROVER, "worker", "--key", key, "--places", "2", *args], cwd=self.path,
                                 env=dict(self.env, NODE=node), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                 start_new_session=True)
        self.started.append(p)
        return p

    @staticmethod
    def starve(pid):
        """Leaves two free descriptors to a worker: enough to connect again, too few to start a trial."""
        used = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        subprocess.run(["prlimit", "--pid", str(pid), f"--nofile={used + 2}"], check=True)

    def trials(self, name="s"):
        return str(self.path / "sweeps" / name / "trials")

    def small_disk(self, size):
        """For `wrap`: a program in it finds a disk of this size for the files of trials."""
        return ("unshare", "-m", "sh", "-c", f'mkdir -p "$1"; mount -t tmpfs -o size={size} none "$1" && shift && exec "$@"',
                "sh", self.trials())

    def said(self):
        return (self.path / "err.txt").read_text()

    def show(self, name="s"):
        done = self.run("show", name, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def states(self, name="s"):
        return [t["state"] for t in self.show(name)["trials"]]

    def db(self, name="s"):
        return self.path / "sweeps" / name / "sweep.db"

    def records(self, kind, name="s"):
        """(trial, lease, data) of each, in order; none before there is a store."""
        if not self.db(name).exists():
            return []
        with sqlite3.connect(f"file:{self.db(name)}?mode=ro", uri=True, timeout=10) as db:
            try:
                rows = db.execute("SELECT trial, lease, data FROM record WHERE kind=? ORDER BY seq", (kind,))
                return [(t, lease, json.loads(d)) for t, lease, d in rows]
            except sqlite3.OperationalError:
                return []

    def worker_pid(self, name="s"):
        """Of the worker on this host that lives; 0 where there is none."""
        for lock in (self.path / "sweeps" / name).glob("worker.*.lock"):
            word = lock.read_text().split()
            if word and self.carries_mark(int(word[0])):
                return int(word[0])
        return 0

    def carries_mark(self, pid):
        try:
            return self.mark.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return False

    def alive(self):
        """Pids of all that was started here and still runs."""
        return [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit() and self.carries_mark(int(p.name))]

    def running(self, program):
        """Pids of those that run this program."""
        found = []
        for pid in self.alive():
            with contextlib.suppress(OSError):  # it ends while this reads
                found += [pid] if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == program else []
        return found

    def nothing_runs(self, limit_s=10):
        wait_until(lambda: not self.alive(), lambda: f"the end of {[describe(p) for p in self.alive()]}", limit_s)

    def python(self, code):
        """What a program prints, as JSON, that imports drover."""
        done = subprocess.run([sys.executable, "-c", "import drover, json\n" + code], cwd=self.path, text=True, capture_output=True,
                              env=dict(self.env, PYTHONPATH=str(DROVER.parents[1] / "share/drover")), timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def clean_up(self):
        for p in self.started:
            p.kill()
            p.wait()
        wait_until(lambda: not kill_all(self.alive()), "what was started to be gone", 20)


use_ill_workers = pytest.mark.skipif(subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0,
                                     reason="no mount namespaces")


ONE = "method: grid\nmetric: {name: loss, goal: minimize}\nparameters: {lr: {values: [0.5]}}\n"


class Scripts(Place):
    """Trials in Python, with W&B's default command."""

    def __init__(self, path):
        super().__init__(path)
        self.env.pop("PYTHONPATH", None)

    def train(self, code, sweep=ONE, *options, name="s", status=0):
        """Runs the sweep of a script; its trials, as `show --json` has them."""
        (self.path / f"{name}.py").write_text(textwrap.dedent(code))
        (self.path / f"{name}.yaml").write_text(f"program: {name}.py\n" + sweep)
        done = self.run(f"{name}.yaml", *options)
        print(done.stderr, *(f.read_text() for f in (self.path / "sweeps" / name).glob("worker.*.log")))  # if it fails
        assert done.returncode == status, done.stderr + self.output(name, "stderr")
        return self.show(name)["trials"]

    def output(self, name="s", stream="stdout"):
        files = sorted((self.path / "sweeps" / name / "trials").glob(f"*/*/{stream}"))
        return "".join(f.read_text() for f in files)

    def reports(self, name="s"):
        return [(d["step"], d["values"]) for _, _, d in self.records("report", name)]


def rss_mib(pid):
    line, = [x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


@pytest.fixture(name="place")
def use_place(tmp_path, request):
    """Its trial t.sh is the test file's TRIAL."""
    p = Place(tmp_path)
    p.script("t.sh", request.module.TRIAL)
    yield p
    p.clean_up()


@pytest.fixture(name="place")
def use_scripts(tmp_path):
    p = Scripts(tmp_path)
    yield p
    p.clean_up()


def describe(pid):
    try:
        return pid, Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return pid, "gone"


def kill_all(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return pids
