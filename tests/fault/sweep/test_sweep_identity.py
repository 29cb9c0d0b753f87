"""A sweep is removed and started anew under its name, several times, while its workers live on: no result of an earlier
one is ever recorded. DROVER_TEST_SEED says when, and what is left of the directory."""
import os
import random
import shutil
import subprocess
import time

import pytest
from sweep_kit import DROVER, Place
from waiting import wait_until

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")
SWEEPS = int(os.environ.get("DROVER_TEST_SWEEPS", 6))
TRIALS = 6
# Its value is the number of its sweep. Those of the last sweep wait until the workers of the first one have joined.
TRIAL = """
for step in 1 2 3 4 5 6; do
    echo "{{\\"step\\":$step,\\"loss\\":{0}}}"
    sleep 0.0$((2 + $$ % 7))
done
while test {0} = {1} && ! test -e go; do sleep 0.02; done
"""


class Identities:
    def __init__(self, place, rng):
        self.place, self.rng = place, rng
        self.workers, self.coordinator, self.number = [], None, 0

    def start(self):
        """The next sweep of the name, with a worker of its own and one that joins."""
        self.number += 1
        self.place.script(f"t{self.number}.sh", TRIAL.format(self.number, SWEEPS))
        file = self.place.sweep(f"method: random\nrun_cap: {TRIALS if self.number == SWEEPS else 10000}\nmetric: {{name: loss}}\n"
                                "parameters: {x: {min: 0.0, max: 1.0}}\n"
                                "drover: {retries: 1000, grace: 1}\n", f"t{self.number}.sh", f"f{self.number}")
        self.coordinator = self.place.start(file, "--name", "s", "--here", "2")
        endpoint = self.place.path / "sweeps/s/endpoint"
        wait_until(lambda: endpoint.exists() and endpoint.read_text().strip(), "the endpoint")
        if self.number == 1:
            for i in range(2):
                self.join(endpoint.read_text().strip(), i)
            self.both_say("joined sweep")
        wait_until(lambda: self.place.records("leased"), "a lease")

    def join(self, endpoint, i):
        with open(self.place.path / f"joined{i}.txt", "a") as log:
            p = subprocess.Popen([DROVER, "worker", endpoint, "--places", "2"], cwd=self.place.path, env=self.place.env,
                                 stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        self.workers.append(p)
        self.place.started.append(p)

    def both_say(self, what):
        logs = [self.place.path / f"joined{i}.txt" for i in range(2)]
        wait_until(lambda: all(what in log.read_text() for log in logs), what)

    def own_results_only(self):
        values = {v for _, _, d in self.place.records("report") for v in d["values"].values()}
        assert values <= {self.number}, (self.number, values)

    def remove(self):
        """Kills the coordinator; the directory goes, or only the store and the trials."""
        self.own_results_only()
        self.coordinator.kill()
        self.coordinator.wait()
        time.sleep(self.rng.uniform(0, 0.4))  # trials may end, and more so with the time
        self.own_results_only()
        sweep = self.place.path / "sweeps/s"
        if self.rng.random() < 0.5:
            while sweep.exists():  # trials that run may write into it
                shutil.rmtree(sweep, ignore_errors=True)
            return
        for f in sweep.glob("sweep.*"):
            f.unlink()
        while (sweep / "trials").exists():
            shutil.rmtree(sweep / "trials", ignore_errors=True)
        (sweep / "endpoint").unlink(missing_ok=True)


def test_no_result_of_a_removed_sweep_is_recorded(tmp_path):
    seed = int(os.environ.get("DROVER_TEST_SEED", time.time_ns() % (1 << 30)))
    print(f"DROVER_TEST_SEED={seed} DROVER_TEST_SWEEPS={SWEEPS}")
    place = Place(tmp_path)
    t = Identities(place, random.Random(seed))
    try:
        t.start()
        for _ in range(SWEEPS - 1):
            time.sleep(t.rng.uniform(0.01, 0.8))  # the moments are the subject of the test
            t.remove()
            t.start()
        t.both_say("joins anew")
        (tmp_path / "go").touch()
        assert t.coordinator.wait(90) == 0, place.said()[-3000:]
        t.own_results_only()
        trials = place.show()["trials"]
        assert [(x["state"], x["value"]) for x in trials] == [("done", SWEEPS)] * TRIALS
        assert "has served another sweep that was here: its results are refused" in place.said()
        for i, worker in enumerate(t.workers):
            assert worker.wait(30) == 0, (tmp_path / f"joined{i}.txt").read_text()[-3000:]
        place.nothing_runs()
    finally:
        place.clean_up()
