"""Those who look at a sweep: on a network file system, in a copy, on a read-only mount, as another user. They write
nothing, and they see what a reader next to the coordinator sees."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from sweep_kit import DROVER, Place
from waiting import skip_unless_reachable, wait_until

OTHER = 12345
SWEEP = """
method: grid
metric: {name: loss}
parameters: {x: {values: [1, 2, 3, 4]}}
drover: {parallel: 1}
"""
# The first two trials end; the third waits for a file.
TRIAL = 'echo "{\\"loss\\": $x}"; [ "$x" -lt 3 ] || while [ ! -e go ]; do sleep 0.05; done\n'
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts and other users need root")


def start(place):
    """A sweep of which two trials have ended and one runs."""
    place.script("t.sh", TRIAL)
    sweep = place.start(place.sweep(SWEEP))
    wait_until(lambda: len(place.records("ended")) == 2 and len(place.records("leased")) == 3, place.said)
    return sweep


def looks(root, cwd, user=None):
    """What `ls` and `show` print for the sweeps in `root`."""
    seen = []
    for words in (["ls", "--dir", root], ["show", "s", "--dir", root], ["show", "s", "--dir", root, "--json"]):
        command = [DROVER, "sweep", *words]
        if user:
            command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
        done = subprocess.run(command, cwd=cwd, text=True, capture_output=True, timeout=30)
        assert done.returncode == 0 and not done.stderr, (words, done.stderr)
        seen.append(done.stdout)
    return seen


def files(root):
    return sorted((str(p.relative_to(root)), p.stat().st_size, p.stat().st_mtime_ns) for p in Path(root).rglob("*"))


def test_a_copy_of_a_running_sweep_is_read_and_not_changed(place, tmp_path):
    sweep = start(place)
    copy = tmp_path / "copy"
    (copy / "s").mkdir(parents=True)
    for name in ("sweep.db", "sweep.db-wal", "sweep.db-mark", "sweep.yaml"):
        shutil.copy(place.path / "sweeps/s" / name, copy / "s")
    before = files(copy)
    ls, show, _ = looks(copy, tmp_path)
    assert "2 done" in ls and "stopped" in ls and "2 done" in show
    assert files(copy) == before
    (place.path / "go").touch()
    assert sweep.wait(30) == 0


@needs_root
def test_a_sweep_on_a_read_only_mount_is_read(place, tmp_path):
    sweep = start(place)
    mount = tmp_path / "mount"
    mount.mkdir()
    subprocess.run(["mount", "--bind", "-o", "ro", place.path / "sweeps", mount], check=True)
    try:
        ls, _, _ = looks(mount, tmp_path)  # while it runs
        assert "2 done" in ls and "running" in ls
        (place.path / "go").touch()
        assert sweep.wait(30) == 0
        ls, show, _ = looks(mount, tmp_path)
        assert "4 done" in ls and "finished" in ls and "4 done" in show
    finally:
        subprocess.run(["umount", mount], check=True)


@pytest.fixture
def open_place(open_path):
    p = Place(open_path)
    yield p
    p.clean_up()


def test_another_user_reads_a_sweep_that_its_owner_has_opened(open_place):
    skip_unless_reachable(DROVER)
    sweep = start(open_place)
    directory = open_place.path / "sweeps/s"
    (open_place.path / "sweeps").chmod(0o755)
    directory.chmod(0o755)
    for name in ("sweep.db", "sweep.db-wal", "sweep.db-shm", "sweep.db-mark", "lock"):
        (directory / name).chmod(0o644)
    ls, show, _ = looks(open_place.path / "sweeps", "/", user=OTHER)
    assert "2 done" in ls and "running" in ls and "2 done" in show
    (open_place.path / "go").touch()
    assert sweep.wait(30) == 0
    (directory / "sweep.db").chmod(0o644)
    ls, _, _ = looks(open_place.path / "sweeps", "/", user=OTHER)
    assert "4 done" in ls and "finished" in ls


@needs_root
@pytest.mark.skipif(not shutil.which("bindfs") or not os.path.exists("/dev/fuse"),
                    reason="a network file system is simulated by bindfs and FUSE, which are not here")
def test_a_sweep_on_a_network_file_system_is_read_while_it_runs(tmp_path):
    """FUSE counts as a network file system: the store is locked, and readers use its feed."""
    (tmp_path / "real").mkdir()
    mount = tmp_path / "net"
    mount.mkdir()
    if subprocess.run(["bindfs", tmp_path / "real", mount]).returncode != 0:
        pytest.skip("FUSE file systems cannot be mounted here")
    place = Place(mount)
    try:
        place.script("t.sh", TRIAL)
        sweep = place.start(place.sweep(SWEEP))
        wait_until(lambda: (mount / "sweeps/s/trials/000002").exists(), place.said)
        assert (mount / "sweeps/s/sweep.db.feed").exists()
        wait_until(lambda: "2 done" in looks(mount / "sweeps", tmp_path)[0], "two trials in the feed")
        assert "running" in looks(mount / "sweeps", tmp_path)[0]
        (mount / "go").touch()
        assert sweep.wait(30) == 0
        ls, show, _ = looks(mount / "sweeps", tmp_path)
        assert "4 done" in ls and "finished" in ls and "4 done" in show
        assert not (mount / "sweeps/s/sweep.db.feed").exists()
    finally:
        place.clean_up()
        subprocess.run(["umount", mount], check=True)
