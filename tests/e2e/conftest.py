"""What the tests of the command line share: the built programs, small C programs, and who is left of a job."""
import os
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

import pytest
from cluster_kit import start_cluster, start_slurm, use_cluster, use_engine, use_slurm  # noqa: F401  fixtures
from sweep_kit import Place
from waiting import HEARD, hear_signals, use_seed, wait_until, without_waits  # noqa: F401  a fixture; HEARD is for tests

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("DROVER_BUILD", "build/dev")
DROVER = str(BUILD / "bin/drover")
MARK = "DROVER_TEST_MARK"


def marked(value):
    """Processes whose environment has the mark: {pid: command}. Zombies have none and do not count."""
    want = f"{MARK}={value}".encode()
    found = {}
    for p in Path("/proc").iterdir():
        if not p.name.isdigit():
            continue
        try:
            if want in (p / "environ").read_bytes().split(b"\0"):
                found[int(p.name)] = (p / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            pass
    return found


class Runner:
    """Starts drover with a mark of its own in the environment, by which all that descends from it is found."""

    def __init__(self, cwd):
        self.mark = uuid.uuid4().hex
        self.cwd = cwd
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMIX_", "DROVER_", "MAKE"))}
        self.env[MARK] = self.mark
        self.env["XDG_STATE_HOME"] = str(cwd.parent / f"state-{self.mark}")  # not the logs of this user's own runs
        if "san-" in BUILD.name:  # libpmix 4.2 forgets a little of each start and request
            (cwd / "lsan.txt").write_text("leak:PMIx_server_init\nleak:pmix_server_message_handler\n")
            self.env["ASAN_OPTIONS"] = "fast_unwind_on_malloc=0"  # else the stack ends inside libpmix
            self.env["LSAN_OPTIONS"] = f"suppressions={cwd}/lsan.txt:print_suppressions=0"

    def run(self, *args, timeout=60, env=None, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        done = subprocess.run([DROVER, *map(str, args)], cwd=self.cwd, text=True, timeout=timeout, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**self.env, **(env or {})}, **kw)
        done.stderr = without_waits(done.stderr)
        return done

    def start(self, *args, env=None, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        kw.setdefault("preexec_fn", hear_signals)
        kw.setdefault("bufsize", 0)  # communicate() forgets what a buffered read has read ahead
        return subprocess.Popen([DROVER, *map(str, args)], cwd=self.cwd, env={**self.env, **(env or {})}, **kw)

    def left(self):
        return marked(self.mark)

    def nothing_left(self, limit_s=1.0):
        wait_until(lambda: not self.left(), lambda: f"the end of {self.left()}", limit_s)


@pytest.fixture
def drover(tmp_path):
    r = Runner(tmp_path)
    yield r
    for pid in r.left():  # a failed test's
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            pass


@pytest.fixture
def open_path():
    """A directory that other users can enter. It is not in pytest's, which each start of pytest closes to other users."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv, to become another user")
    with tempfile.TemporaryDirectory(prefix="drover-test-") as d:
        os.chmod(d, 0o755)
        yield Path(d)


@pytest.fixture
def place(tmp_path):
    """A directory for sweeps. A file of tests that needs more than an empty one has a fixture of the same name."""
    p = Place(tmp_path)
    yield p
    p.clean_up()


def compile_c(directory, name, text, compiler="cc", *flags):
    source = directory / f"{name}.c"
    source.write_text(text)
    done = subprocess.run([compiler, "-O1", "-Wall", "-o", str(directory / name), str(source), *flags], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout
    return str(directory / name)
