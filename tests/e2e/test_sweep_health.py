"""Workers whose node is ill: trials lose nothing by it, other workers get the work, and the sweep says what it waits for."""
import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest
from sweep_kit import DROVER, Place, use_ill_workers
from waiting import wait_until

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")
HEAD = "method: grid\nmetric: {name: loss}\n"
# Saves a checkpoint; if that fails, says much and ends. On node "a" it waits for the file "go".
TRIAL = """
head -c 20000 /dev/zero > "$DROVER_CKPT_DIR/state" || { yes 'cannot save' | head -n 4000; exit 1; }
while test "$NODE" = a && ! test -e go; do sleep 0.02; done
echo "$NODE" >> ended
echo "{\\"loss\\":$x}"
"""


def grid(n, more=""):
    return f"{HEAD}parameters: {{x: {{values: {list(range(n))}}}}}\n{more}"


@pytest.fixture
def place(tmp_path):
    p = Place(tmp_path)
    p.script("t.sh", TRIAL)
    yield p
    p.clean_up()


def costs_nothing(place):
    """No trial was charged for the fault of a node, and there were such faults."""
    requeued = [data for _, _, data in place.records("requeued")]
    assert any(d["why"] == "node" for d in requeued)
    assert not any(d["spent"] for d in requeued)


def test_a_sweep_whose_only_worker_cannot_start_a_trial_ends_with_the_cause_and_continues(place):
    place.env["NODE"] = "a"
    coordinator = place.start(place.sweep(grid(4)), "--parallel", "1")
    wait_until(lambda: place.records("leased"), "a lease")
    wait_until(lambda: list((place.path / "sweeps/s/trials").glob("*/*/ckpt/state")), "the first trial to run")
    place.starve(place.worker_pid())
    (place.path / "go").touch()
    assert coordinator.wait(60) == 1, place.said()
    said = place.said()
    assert "cannot run trials: " in said and "drover sweep resume s" in said
    assert "no worker is left that can start a trial: worker " in said and "open files" in said
    assert place.states()[0] == "done" and set(place.states()[1:]) == {"waiting"}
    shown = place.show()
    assert (shown["state"], shown["reason"]) == ("stopped", "no worker is left that can start a trial")
    costs_nothing(place)
    place.nothing_runs()
    assert place.run("resume", "s").returncode == 0
    assert place.states() == ["done"] * 4


@use_ill_workers
def test_a_worker_whose_disk_is_full_is_excluded_until_it_has_space(place):
    coordinator = place.start(place.sweep(grid(12)), "--here", "0", "--listen", "127.0.0.1")
    place.worker("a")
    full = place.worker("b", wrap=place.small_disk("64k"))

    def fault():
        return next((w["fault"] for w in place.show()["workers"] if "fault" in w), None)

    found = wait_until(lambda: (f := fault()) and f["failures"] >= 3 and f, "three failures of the worker")
    assert "No space left on device" in found["error"] and found["since_ms"] > 0 and found["state"] != "good"
    shown = place.run("show", "s").stdout
    assert "cannot run trials since 2" in shown and "No space left on device" in shown
    assert coordinator.poll() is None, place.said()
    subprocess.run(["nsenter", "-m", "-r", "-t", str(full.pid), "mount", "-o", "remount,size=64m", "tmpfs", place.trials()], check=True)
    wait_until(lambda: "has passed its self-test: it gets trials again" in place.said(), "the self-test", 60)
    wait_until(lambda: "runs trials again" in place.said(), "a trial on the worker that has space again")
    (place.path / "go").touch()
    assert coordinator.wait(60) == 0, place.said()
    assert place.states() == ["done"] * 12
    costs_nothing(place)


def test_a_worker_whose_guardian_is_killed_is_replaced_and_its_trials_cost_nothing(place):
    place.env["NODE"] = "a"
    coordinator = place.start(place.sweep(grid(4)), "--parallel", "2")
    wait_until(lambda: len(list((place.path / "sweeps/s/trials").glob("*/*/ckpt/state"))) == 2, "two trials to run")
    first = place.worker_pid()
    for pid in place.alive():
        with contextlib.suppress(OSError):  # it ends while this reads
            if Path(f"/proc/{pid}/comm").read_text().strip() in ("drover-guardian", "drover-monitor"):
                os.kill(pid, signal.SIGKILL)
    wait_until(lambda: place.worker_pid() not in (0, first), "another worker", 30)
    (place.path / "go").touch()
    assert coordinator.wait(60) == 0, place.said()
    assert place.states() == ["done"] * 4
    costs_nothing(place)
    place.nothing_runs()


def test_a_coordinator_says_which_worker_it_waits_for_and_can_be_stopped(place):
    coordinator = place.start(place.sweep(grid(4)), "--parallel", "2")
    place.env["NODE"] = "a"
    wait_until(lambda: place.records("leased"), "a lease")
    worker = place.worker_pid()
    coordinator.kill()
    coordinator.wait()
    (place.path / "sweeps").rename(place.path / "moved")  # the worker does not find the socket again
    coordinator = place.start("s.yaml", "--name", "s", "--dir", "moved", "--parallel", "2")
    wait_until(lambda: f"process {worker} on " in place.said(), "the notice", 30)
    assert "waiting for worker " in place.said() and f"kill -9 {worker}" in place.said()
    coordinator.send_signal(signal.SIGTERM)
    assert coordinator.wait(30) == 128 + signal.SIGTERM, place.said()  # lost_after is 120 s


def test_a_drain_does_not_wait_for_a_worker_that_is_silent(place):
    coordinator = place.start(place.sweep(grid(4)), "--here", "0", "--listen", "127.0.0.1")
    worker = place.worker("a", "--patience", "3")
    wait_until(lambda: place.records("leased"), "a lease")
    worker.send_signal(signal.SIGSTOP)
    coordinator.send_signal(signal.SIGTERM)
    assert coordinator.wait(30) == 128 + signal.SIGTERM, place.said()
    assert set(place.states()) == {"waiting"}
    assert not any(data["spent"] for _, _, data in place.records("requeued"))


def test_a_sweep_whose_worker_dies_with_each_trial_ends_with_the_cause_and_continues(place):
    place.script("t.sh", 'test -e go || kill -9 $PPID\necho "{\\"loss\\":$x}"\n')  # the parent is the worker's guardian
    coordinator = place.start(place.sweep(grid(3)), "--here", "2")
    assert coordinator.wait(60) == 1, place.said()
    assert "the worker on this host exits as soon as it is started: " in place.said()
    place.nothing_runs()
    (place.path / "go").touch()
    assert place.run("resume", "s").returncode == 0
    assert place.states() == ["done"] * 3
    costs_nothing(place)
