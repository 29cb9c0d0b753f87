"""Other users of the machine: what a sweep's files permit, whatever the umask, and what the owner may open."""
import os
import stat
import subprocess
import textwrap

import pytest
from sweep_kit import DROVER, Place
from waiting import wait_until

OTHER = 12345
# What the program of a trial and the coordinator's user see; all else is drover's alone.
OPEN_FILES = {"params.json", "config.yaml", "stdout", "stderr", "mine"}


def two_trials(path):
    """A place with a sweep file, whose trials wait for the file "go"."""
    p = Place(path)
    p.script("t.sh", 'echo hello; umask; touch mine "$DROVER_CKPT_DIR/mine"; '
                     "echo '{\"loss\": 0.5}'; while [ ! -e ../go ] && [ ! -e go ]; do sleep 0.05; done\n")
    p.sweep("method: grid\nmetric: {name: loss}\nparameters: {x: {values: [1, 2]}}\n")
    return p


@pytest.fixture
def place(tmp_path):
    p = two_trials(tmp_path)
    yield p
    p.clean_up()


def modes(root):
    """{path below root: (is a directory, mode)} of all files, sockets and directories."""
    found = {}
    for at, dirs, files in os.walk(root):
        for name in dirs + files:
            path = os.path.join(at, name)
            st = os.lstat(path)
            found[os.path.relpath(path, root)] = (stat.S_ISDIR(st.st_mode), stat.S_IMODE(st.st_mode))
    return found


def run_with_umask(place, mask, *args):
    """Starts a sweep with a worker socket, keys and a command; returns the modes while it runs. Its trials wait for let_end()."""
    old = os.umask(mask)
    try:
        p = place.start("s.yaml", "--listen", "127.0.0.1:0", *args)
    finally:
        os.umask(old)
    sweep = place.path / "sweeps/s"
    wait_until(lambda: list(sweep.glob("trials/*/*/stdout")) and (sweep / "worker.key").exists(), place.said)
    os.umask(mask)
    try:
        subprocess.run([DROVER, "sweep", "pause", "s"], cwd=place.path, env=place.env, capture_output=True)
    finally:
        os.umask(old)
    return p, modes(place.path / "sweeps")


def let_end(place, p):
    (place.path / "go").touch()
    place.run("resume", "s")
    assert p.wait(60) == 0, place.said()


@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_only_the_user_can_write_and_control_files_are_private(place, mask):
    p, found = run_with_umask(place, mask)
    names = {os.path.basename(path) for path in found}
    assert {"sweep.db", "sweep.db-wal", "lock", "coord.sock", "endpoint", "owner", "commands", "server.key", "worker.key",
            "listen", "sweep.yaml"} <= names, names
    for path, (is_dir, mode) in found.items():
        name = os.path.basename(path)
        if is_dir:
            assert mode == 0o755 & ~mask, (path, oct(mode))
        elif name == "mine":
            assert mode == 0o666 & ~mask, (path, oct(mode))  # the trial's own file: its umask is the user's
        elif name in OPEN_FILES:
            assert mode == 0o644 & ~mask, (path, oct(mode))
        else:
            assert mode & 0o077 == 0, (path, oct(mode))
    let_end(place, p)


def as_other(place, code):
    """Runs Python code as another user; returns what it printed."""
    drop = f"import os, subprocess, socket\nos.setgroups([]); os.setresgid({OTHER}, {OTHER}, {OTHER})\n" \
           f"os.setresuid({OTHER}, {OTHER}, {OTHER})\n"
    return subprocess.run(["/usr/bin/python3", "-c", drop + textwrap.dedent(code)], cwd=place.path, text=True,
                          capture_output=True, timeout=60)


@pytest.fixture
def reachable(open_path):
    """A place that is open to the other user."""
    p = two_trials(open_path)
    yield p
    p.clean_up()


SHOW = f"""
done = subprocess.run([{str(DROVER)!r}, "sweep", "show", "s", "--json"], text=True, capture_output=True)
print(done.returncode, done.stdout, done.stderr)
"""


def test_another_user_reads_a_sweep_only_if_its_owner_has_opened_it(reachable):
    place = reachable
    if as_other(place, f"print(os.access({str(DROVER)!r}, os.X_OK))").stdout.strip() != "True":
        pytest.skip("the other user cannot run the drover of this build")
    p, _ = run_with_umask(place, 0)
    sweep = place.path / "sweeps/s"
    refused = as_other(place, SHOW)
    assert "Permission denied" in refused.stdout, refused
    touched = as_other(place, f"""
    s = socket.socket(socket.AF_UNIX)
    for what in (lambda: s.connect({str(sweep / "coord.sock")!r}),
                 lambda: open({str(sweep / "asks")!r}, "a"),
                 lambda: open({str(sweep / "x")!r}, "w")):
        try:
            what()
            print("permitted")
        except PermissionError:
            print("refused")
    """)
    assert touched.stdout.split() == ["refused"] * 3, touched
    for f in [*sweep.glob("sweep.db*"), sweep / "lock"]:
        f.chmod(0o644)
    opened = as_other(place, SHOW)
    assert opened.stdout.startswith("0 ") and '"trials"' in opened.stdout, opened
    let_end(place, p)
    assert stat.S_IMODE((sweep / "sweep.db").stat().st_mode) == 0o644  # it stays open
    ended = as_other(place, SHOW)
    assert ended.stdout.startswith("0 ") and '"trials"' in ended.stdout, ended
