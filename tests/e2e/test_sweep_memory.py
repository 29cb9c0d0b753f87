"""`drover: {resources: {memory: …}}`: how many trials a node takes, and what becomes of one that wants more than it asked for."""
import os
import subprocess
from pathlib import Path

import pytest
from sweep_kit import DROVER, use_place  # noqa: F401

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")
FILE = "method: grid\nmetric: {name: loss}\nparameters: {x: {values: [1, 300, 2]}}\ndrover: {resources: {memory: 64M}}\n"
# Has $x MiB for a moment.
TRIAL = 'python3 -c "b = bytearray($x << 20); print(\'{\\"loss\\":$x}\')"\n'


@pytest.fixture
def group():
    """A control group of version 2 with limits of memory, for the taking."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    roots = [Path(m[1]) for m in mounts if m[2] == "cgroup2"]
    own = [line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")]
    if not roots or not own:
        pytest.skip("no control groups of version 2")
    parent = roots[0] / own[0].lstrip("/")
    try:
        if "memory" not in (parent / "cgroup.subtree_control").read_text().split():
            pytest.skip(f"{parent} has no memory to hand on")
        group = parent / f"drover-test-{os.getpid()}"
        group.mkdir()
    except OSError as why:
        pytest.skip(f"no control group of version 2 that may be divided: {why}")
    yield group
    for below in (*group.glob("*/"), group):
        below.rmdir()


def test_without_control_groups_it_is_said_once_and_the_trials_run(place):
    if "0::" in Path("/proc/self/cgroup").read_text() and os.access("/sys/fs/cgroup/cgroup.subtree_control", os.W_OK):
        pytest.skip("control groups of version 2 are here")
    done = place.run(place.sweep(FILE))
    assert done.returncode == 0, done.stderr
    assert place.states() == ["done"] * 3
    assert done.stderr.count("the memory of trials is not limited") == 1 and "Delegate=yes" in done.stderr


def test_a_trial_over_its_memory_is_killed_told_apart_and_the_others_go_on(place, group):
    inside = ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh")
    done = subprocess.run([*inside, DROVER, "sweep", place.sweep(FILE)], cwd=place.path, env=place.env, text=True,
                          capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    trials = place.show()["trials"]
    assert [t["state"] for t in trials] == ["done", "oom", "done"], trials
    assert "out of memory" in trials[1]["error"]
    place.nothing_runs()


def test_a_trial_is_held_to_the_memory_and_processors_that_it_asked_for(place, group):
    if "cpu" not in (group / "cgroup.controllers").read_text().split():
        pytest.skip(f"{group} has no processors to hand on")
    place.script("t.sh", 'g=/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup); cat "$g"/memory.max "$g"/cpu.max > limits; '
                 'echo \'{"loss":1}\'\n')
    text = "method: grid\nmetric: {name: loss}\nparameters: {x: {values: [1]}}\ndrover: {resources: {memory: 64M, cpus: 1}}\n"
    inside = ("sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh")
    done = subprocess.run([*inside, DROVER, "sweep", place.sweep(text)], cwd=place.path, env=place.env, text=True,
                          capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    (limits,) = place.path.rglob("limits")
    assert limits.read_text().split() == [str(64 << 20), "100000", "100000"]
