"""The preflight of `drover run`: what a job with GPUs reports of its node before it starts, and what stops it. The
GPUs are those of NVML's stand-in. Several nodes: cluster/test_preflight_nodes.py."""
import re

import pytest
from conftest import BUILD

HUNG = "gpu 2 temperature hang"
MISMATCH = "system init error 18"
HOT = "gpu 1 temperature 95"
CHECKS = "drv.", "gpu.", "link.", "host.", "soft.", "net."


@pytest.fixture(name="on_gpus")
def on_gpus_(drover, tmp_path):
    """Runs a job on a machine with eight GPUs and these faults."""
    def run(*args, faults=(), env=None):
        (tmp_path / "machine").write_text("\n".join(["gpus 8", *faults, ""]))
        return drover.run(*args, "touch", "started", env={
            "DROVER_NVML_LIB": str(BUILD / "tests/fake/libnvidia-ml.so.1"),
            "DROVER_FAKE_NVML": str(tmp_path / "machine"), "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7", **(env or {})})
    return run


def findings(done):
    return [line for line in done.stderr.splitlines() if any(f": {c}" in line for c in CHECKS)]


def test_a_healthy_machine_gives_no_line(on_gpus, tmp_path):
    done = on_gpus("run", "-np", 1)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "started").exists()


@pytest.mark.parametrize("command", [("run", "-np", 1), ("torchrun", "--no-python")])
@pytest.mark.parametrize("fault, check", [(HUNG, "gpu.answers"), (MISMATCH, "drv.match"), ("gpu 4 compute_mode 2", "gpu.mode")])
def test_what_certainly_breaks_the_job_stops_it(on_gpus, tmp_path, command, fault, check):
    done = on_gpus(*command, faults=[fault])
    assert done.returncode == 1, done.stderr
    assert [line.split(": ")[1] for line in findings(done)] == [check]
    assert "--no-preflight" in done.stderr and not (tmp_path / "started").exists()
    done = on_gpus(*command, "--no-preflight", faults=[fault])
    assert done.returncode == 0 and findings(done) == []
    assert (tmp_path / "started").exists()


def test_another_failure_is_one_line_and_the_job_runs(on_gpus, tmp_path):
    done = on_gpus("run", "-np", 1, faults=[HOT])
    assert done.returncode == 0 and (tmp_path / "started").exists()
    assert len(done.stderr.splitlines()) == 1 and len(findings(done)) == 1, done.stderr
    assert "gpu.temp: " in done.stderr and "; try: " in done.stderr


@pytest.mark.parametrize("options, env", [
    (["--gpus", "0,1,3"], {}), (["--gpus", ""], {}), ([], {"CUDA_VISIBLE_DEVICES": "4,5"}), ([], {"CUDA_VISIBLE_DEVICES": ""}),
])
def test_gpus_that_the_job_does_not_use_are_not_checked(on_gpus, options, env):
    done = on_gpus("run", "-np", 1, *options, faults=[HUNG], env=env)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_job_without_gpus_starts_although_the_driver_fails(on_gpus):
    done = on_gpus("run", "-np", 1, "--gpus", "", faults=[MISMATCH])
    assert done.returncode == 0 and findings(done) == []


def test_without_a_gpu_nothing_is_reported(drover):
    done = drover.run("run", "-np", 1, "sh", "-c", "ulimit -n", preexec_fn=few_files)
    assert (done.returncode, done.stdout, done.stderr) == (0, "256\n", "")


def few_files():
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))


def test_a_full_preflight_measures_first_and_stops_what_cannot_communicate(drover):
    done = drover.run("run", "--preflight", "full", "-np", 1, "echo", "started")
    assert (done.returncode, done.stdout, done.stderr) == (0, "started\n", "")
    done = drover.run("run", "--preflight", "full", "--mca", "btl", "none", "-np", 1, "echo", "started")
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    said = r"act\.allreduce: all-reduce: error: cause: rank [01]: MPI_Init failed"  # either may be the first
    assert re.search(said, done.stderr), done.stderr
    done = drover.run("run", "--preflight", "fast", "-np", 1, "true")
    assert done.returncode == 2 and "quick, full" in done.stderr


def test_a_sweep_starts_no_worker_on_an_excluded_node(drover, tmp_path):
    (tmp_path / "s.yaml").write_text("method: grid\nmetric: {name: loss}\nparameters: {x: {values: [1]}}\n"
                                     "command: [echo, '{\"loss\": 1}']\n")
    words = "sweep", "s.yaml", "-H", "localhost:1,no-such-node.invalid:1", "--exclude-file", "excluded"
    (tmp_path / "excluded").write_text("no-such-node.invalid - broken fan\n")
    done = drover.run(*words)
    assert done.returncode == 0 and "no-such-node.invalid is left out: broken fan (excluded)" in done.stderr, done.stderr
    assert "no worker" not in done.stderr
    (tmp_path / "excluded").write_text("no-such-node.invalid\n")
    done = drover.run(*words, "--restart")
    assert done.returncode == 2 and "excluded:1: the time is missing" in done.stderr, done.stderr
