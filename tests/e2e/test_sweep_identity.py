"""A sweep is removed and another one of its name starts, while what belongs to the first one lives on."""
import json
import os
import shutil
import signal
import subprocess

import pytest
from sweep_kit import DROVER, use_place  # noqa: F401  a fixture
from waiting import wait_until

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")
SWEEP = "method: grid\nmetric: {name: loss, goal: minimize}\nparameters: {x: {values: [1, 2, 3, 4]}}\ndrover: {grace: 2}\n"
# A trial of the first sweep reports -111, waits for `end` and reports again; one of the second one reports 5.
TRIAL = """
echo "{\\"step\\":1,\\"loss\\":-111}"
while ! test -e end; do sleep 0.02; done
echo "{\\"step\\":2,\\"loss\\":-111}"
touch "ended.$x"
"""
SECOND = 'echo "{\\"step\\":1,\\"loss\\":5}"\n'


def kill(coordinator):
    coordinator.kill()
    coordinator.wait()


def start_second(place, *options):
    place.script("second.sh", SECOND)
    return place.start(place.sweep(SWEEP, "second.sh", "second"), "--name", "s", *options)


def has_its_own_results(place, coordinator):
    assert coordinator.wait(60) == 0, place.said()
    trials = place.show()["trials"]
    assert [t["state"] for t in trials] == ["done"] * 4 and {t["value"] for t in trials} == {5}
    assert {d["values"]["loss"] if "values" in d else d["loss"] for _, _, d in place.records("report")} == {5}


def join(place):
    """A worker on the sweep's socket; its places are two."""
    endpoint = place.path / "sweeps/s/endpoint"
    wait_until(endpoint.exists, "the endpoint")
    with open(place.path / "joined.txt", "a") as log:
        p = subprocess.Popen([DROVER, "worker", endpoint.read_text().strip(), "--places", "2"], cwd=place.path,
                             env=place.env, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    place.started.append(p)
    return p


@pytest.mark.parametrize("trials", ["have ended", "still run"])
def test_a_worker_of_a_removed_sweep_drops_its_results_and_joins_the_new_one(place, trials):
    coordinator = place.start(place.sweep(SWEEP), "--here", "0", "--listen", "127.0.0.1:")
    worker = join(place)
    wait_until(lambda: len(place.records("report")) == 2, "two trials")
    kill(coordinator)
    if trials == "have ended":
        (place.path / "end").touch()
        wait_until(lambda: len(list(place.path.glob("ended.*"))) == 2, "the ends of the trials")
    shutil.rmtree(place.path / "sweeps")
    has_its_own_results(place, start_second(place, "--here", "0", "--listen", "127.0.0.1:"))
    assert worker.wait(20) == 0
    assert "has served another sweep that was here: its results are refused" in place.said()
    assert "is another one now; its trials are stopped, and this worker joins anew" in (place.path / "joined.txt").read_text()
    assert len(list(place.path.glob("ended.*"))) == (2 if trials == "have ended" else 0)
    place.nothing_runs()


def test_the_worker_on_the_host_ends_with_a_sweep_that_is_removed(place):
    """It waits a minute for a coordinator that was only killed."""
    coordinator = place.start(place.sweep(SWEEP))
    wait_until(lambda: place.records("report"), "a trial")
    kill(coordinator)
    while (place.path / "sweeps/s").exists():  # trials that run may write into it
        shutil.rmtree(place.path / "sweeps/s", ignore_errors=True)
    place.nothing_runs(30)


def remove_store(place):
    """Removes the store and the trials; what the sweep's processes have left behind stays."""
    for f in (place.path / "sweeps/s").glob("sweep.*"):
        f.unlink()
    shutil.rmtree(place.path / "sweeps/s/trials")


def asked_again(place, worker):
    """Whether the worker lives; a request to stop counts as another one after a second."""
    if place.carries_mark(worker):
        os.kill(worker, signal.SIGTERM)
        return True
    return False


def test_what_a_worker_has_left_for_a_removed_sweep_is_dropped(place):
    coordinator = place.start(place.sweep(SWEEP), "--here", "2")
    wait_until(lambda: len(place.records("report")) == 2, "two trials")
    kill(coordinator)
    worker = place.worker_pid()
    (place.path / "end").touch()
    wait_until(lambda: len(list(place.path.glob("ended.*"))) == 2, "the ends of the trials")
    os.kill(worker, signal.SIGTERM)
    wait_until(lambda: "signal 15" in next((place.path / "sweeps/s").glob("worker.*.log")).read_text(), "the worker to stop")
    wait_until(lambda: not asked_again(place, worker), "its end")  # it waits for a coordinator only until then
    left, = (place.path / "sweeps/s").glob("worker.*.left")
    assert any(json.loads(line)["kind"] == "done" for line in left.read_text().splitlines())
    remove_store(place)
    has_its_own_results(place, start_second(place, "--here", "2"))
    assert "of another sweep that was here" in place.said()
    assert not left.exists()
    place.nothing_runs()


def test_a_command_for_a_removed_sweep_is_not_carried_out(place):
    coordinator = place.start(place.sweep(SWEEP), "--here", "2")
    wait_until(lambda: len(place.records("report")) == 2, "two trials")
    coordinator.send_signal(signal.SIGSTOP)
    asked = place.run("stop", "s")
    assert asked.returncode == 1 and "does not answer" in asked.stderr, asked
    os.kill(place.worker_pid(), signal.SIGKILL)
    kill(coordinator)
    remove_store(place)
    has_its_own_results(place, start_second(place, "--here", "2"))
    assert "the command was for another sweep that was here" in place.said()
    place.nothing_runs()


def test_trials_without_their_store_are_not_taken_for_those_of_a_new_sweep(place):
    coordinator = place.start(place.sweep(SWEEP), "--here", "2")
    wait_until(lambda: len(place.records("report")) == 2, "two trials")
    os.kill(place.worker_pid(), signal.SIGKILL)
    kill(coordinator)
    for f in (place.path / "sweeps/s").glob("sweep.*"):
        f.unlink()
    done = start_second(place, "--here", "2")
    assert done.wait(20) == 2
    assert "has trials of a sweep whose store is gone" in place.said()
    assert not place.db().exists()
    shutil.rmtree(place.path / "sweeps/s/trials")
    has_its_own_results(place, start_second(place, "--here", "2"))


def test_a_command_says_that_it_watches_an_owner_that_it_cannot_see(place):
    coordinator = place.start(place.sweep(SWEEP), "--here", "2")
    wait_until(lambda: len(place.records("report")) == 2, "two trials")
    os.kill(place.worker_pid(), signal.SIGKILL)
    kill(coordinator)
    owner = place.path / "sweeps/s/owner"
    number, count, pid, start, _, *rest = owner.read_text().split()
    owner.write_text(" ".join([number, count, pid, start, "other-boot", *rest]) + "\n")
    done = place.run("cancel", "s")
    assert done.returncode == 0 and "waiting 2 s: sweep 's': another machine may work on it" in done.stderr, done
