"""`drover sweep` on GPUs: whole ones, fractions, and those of foreign processes. The driver is tests/fake/nvml.c."""
import os
from collections import Counter

import pytest
from sweep_kit import BUILD, DROVER, Place
from waiting import wait_until

NVML = BUILD / "tests/fake/libnvidia-ml.so.1"
pytestmark = pytest.mark.skipif(not DROVER.exists() or not NVML.exists(), reason="drover or its tests are not built")
# Writes its GPUs, and waits for a file before it ends.
TRIAL = 'echo "$CUDA_VISIBLE_DEVICES" > "on.$x"\nwhile ! test -e go; do sleep 0.02; done\necho "{\\"loss\\":$x}"\n'


class Gpus(Place):
    def __init__(self, path):
        super().__init__(path)
        self.users = path / "users"
        self.users.write_text("")
        self.env.update(DROVER_NVML_LIB=str(NVML), DROVER_FAKE_GPU_USERS=str(self.users),
                        DROVER_FAKE_GPUS="GPU-aa,H100,1b,40960,40960;GPU-bb,H100,43,40960,40960")
        self.env.pop("CUDA_VISIBLE_DEVICES", None)
        self.script("t.sh", TRIAL)

    def grid(self, n, resources):
        return self.sweep(f"method: grid\nmetric: {{name: loss}}\nparameters: {{x: {{values: {list(range(n))}}}}}\n"
                          f"drover: {{resources: {resources}}}\n")

    def on(self):
        """The GPUs of each trial that has started."""
        return [f.read_text().strip() for f in sorted(self.path.glob("on.*"), key=lambda f: f.stat().st_mtime_ns)]

    def workers(self, places):
        """The only worker, once it is listed with this number of slots."""
        return wait_until(lambda: next((w for w in self.show()["workers"] if w["places"] == places), None), "the worker")

    def ends_well(self, coordinator, n):
        (self.path / "go").touch()
        assert coordinator.wait(40) == 0, self.said()
        assert self.states() == ["done"] * n


@pytest.fixture
def place(tmp_path):
    p = Gpus(tmp_path)
    yield p
    p.clean_up()


def test_parts_of_gpus_are_never_over_committed(place):
    """0.4 of 2 GPUs makes 4 slots, 2 per GPU; not 5."""
    coordinator = place.start(place.grid(7, "{gpus: 0.4}"), "--parallel", "7")
    wait_until(lambda: len(place.on()) == 4 and all(place.on()), "four trials to start")
    assert Counter(place.on()) == {"GPU-aa": 2, "GPU-bb": 2}
    worker = place.workers(4)
    assert (worker["running"], len(place.on())) == (4, 4)
    place.ends_well(coordinator, 7)


def test_every_rank_of_a_trial_sees_its_gpus_by_uuid(place):
    place.script("t.sh", 'echo "$RANK $CUDA_VISIBLE_DEVICES"\necho "{\\"loss\\":$x}"\n')
    (place.path / "go").touch()
    place.ends_well(place.start(place.grid(2, "{gpus: 2, ranks: 2}")), 2)
    for out in place.path.glob("sweeps/s/trials/*/*/stdout"):
        assert {"[0] 0 GPU-aa,GPU-bb", "[1] 1 GPU-aa,GPU-bb"} < set(out.read_text().splitlines())


def test_instances_of_a_divided_gpu_are_gpus(place):
    place.env["DROVER_FAKE_GPUS"] = "GPU-aa,H100,1b,40960,40960,MIG-5a1f;GPU-bb,H100,43,40960,40960"
    coordinator = place.start(place.grid(2, "{gpus: 1}"))
    wait_until(lambda: len(place.on()) == 2 and all(place.on()), "two trials to start")
    assert sorted(place.on()) == ["GPU-bb", "MIG-5a1f"]
    place.ends_well(coordinator, 2)


def test_a_gpu_of_a_foreign_process_is_skipped_and_used_again(place):
    place.users.write_text(f"GPU-aa {os.getpid()} 500\n")
    coordinator = place.start(place.grid(3, "{gpus: 1}"))
    wait_until(lambda: len(place.on()) == 1 and all(place.on()), "a trial to start")
    assert place.on() == ["GPU-bb"]
    assert f"GPU-aa is left out: process {os.getpid()} of " in place.said()
    place.workers(1)
    place.users.write_text("")
    wait_until(lambda: len(place.on()) == 2 and all(place.on()), "the other GPU to be taken up", 20)
    assert place.on() == ["GPU-bb", "GPU-aa"]
    assert "GPU-aa is used again" in place.said()
    place.ends_well(coordinator, 3)


def test_a_trial_continues_next_to_a_foreign_process_and_no_other_follows(place):
    coordinator = place.start(place.grid(4, "{gpus: 1}"))
    wait_until(lambda: len(place.on()) == 2 and all(place.on()), "two trials to start")
    place.users.write_text(f"GPU-aa {os.getpid()} 500\n")
    wait_until(lambda: "GPU-aa is left out" in place.said(), "the foreign process to be noticed", 20)
    assert len(place.alive()) > 0 and place.records("ended") == []
    place.ends_well(coordinator, 4)
    assert sorted(place.on()[:2]) == ["GPU-aa", "GPU-bb"] and place.on()[2:] == ["GPU-bb"] * 2
    assert place.records("requeued") == []  # no trial was sent to a blocked slot


def test_a_trial_that_no_node_holds_is_refused_at_once(place):
    done = place.run(place.grid(1, "{gpus: 3}"))
    assert done.returncode == 2 and "a trial needs 3 GPUs" in done.stderr, done.stderr
    done = place.run(place.grid(1, "{memory: 900T}"))
    assert done.returncode == 2 and "a trial needs 900 TiB of memory" in done.stderr, done.stderr


def test_a_worker_on_a_node_that_would_break_its_trials_takes_none_and_says_why(place):
    (place.path / "machine").write_text("gpus 2\ngpu 1 compute_mode 2\n")
    place.env["DROVER_FAKE_NVML"] = str(place.path / "machine")
    spec = place.grid(1, "{gpus: 1}")
    (place.path / "go").touch()
    done = place.run(spec)
    assert done.returncode == 1 and place.on() == []
    assert "gpu.mode: " in done.stderr and "prohibited" in done.stderr, done.stderr
    done = place.run("--restart", spec, "--no-preflight")
    assert done.returncode == 0 and len(place.on()) == 1, done.stderr
