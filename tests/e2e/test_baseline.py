"""`drover run --baseline NAME`: a run's speed against the stored one, and `drover ps --baselines`."""
import json
import os
import re
import signal

import pytest
from conftest import BUILD, ROOT, compile_c
from waiting import wait_until

NVML = BUILD / "tests/fake/libnvidia-ml.so.1"
# Reports a throughput within 10 % of the first argument, whatever the time of a step is. It changes every three reports:
# two that arrive at the same time give the mean no other weight than in another run.
RATES = """import json, sys, time
for i in range(60):
    time.sleep(0.002)
    print(json.dumps({"step": i, "loss": 1 / (i + 1), "tokens_per_s": float(sys.argv[1]) * (1.1 if i // 3 % 2 else 0.9)}))
"""
# Reports steps that begin at fixed times, so that a late one does not delay the others.
STEPS = """import sys, time
begin, step_s = time.monotonic(), float(sys.argv[1])
for i in range(30):
    time.sleep(max(0, begin + i * step_s - time.monotonic()))
    print({"step": i}, flush=True)
"""
INTERVAL = re.compile(r"95 % interval (-?[\d.]+) to (-?[\d.]+) %")


@pytest.fixture(autouse=True)
def place(drover, tmp_path):
    (tmp_path / "rates.py").write_text(RATES)
    (tmp_path / "steps.py").write_text(STEPS)
    drover.env["XDG_STATE_HOME"] = str(tmp_path / "state")
    drover.env["PYTHONUNBUFFERED"] = "1"


def run(drover, *args, name="train", status=0, **kw):
    """The line of the baseline; "" if there is none."""
    done = drover.run("run", "--oversubscribe", "-np", 1, "--baseline", name, *args, **kw)
    assert done.returncode == status, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("drover run: baseline ")]
    assert len(lines) <= 1, done.stderr
    return lines[0] if lines else ""


def stored(drover):
    done = drover.run("ps", "--baselines", "--json")
    assert done.returncode == 0 and done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def interval(line):
    found = INTERVAL.search(line)
    assert found, line
    return float(found[1]), float(found[2])


def test_a_slower_run_is_below_the_stored_one(drover):
    first = run(drover, "rates.py", 12800)
    assert first.endswith(", stored") and " tokens/s, " in first, first
    line = run(drover, "rates.py", 6400)
    assert " % below the stored 1" in line and " 1 rank on 1 x " in line, line
    low, high = interval(line)
    assert -65 < low < -50 < high < -35


def test_a_run_of_the_same_speed_has_no_difference(drover):
    run(drover, "rates.py", 12800)
    line = run(drover, "rates.py", 12800)
    assert "no difference found from the stored 1" in line, line
    low, high = interval(line)
    assert low < 0 < high


def test_without_a_throughput_steps_per_second_are_compared(drover):
    assert " steps/s, " in run(drover, "steps.py", "0.02")
    line = run(drover, "steps.py", "0.06")
    assert " % below the stored " in line and " per step" in line, line
    assert interval(line)[1] < 0


def test_without_reports_the_durations_are_compared(drover):
    assert "rank 0 reported no steps, the job took " in run(drover, "true")
    line = run(drover, "true")
    assert "the stored " in line and "(one run each)" in line and not INTERVAL.search(line), line
    assert [(b["unit"], b["throughput"], b["step_s"]) for b in stored(drover)] == [(None, None, None)]
    assert stored(drover)[0]["seconds"] > 0


def test_another_unit_is_not_compared(drover):
    run(drover, "rates.py", 12800)
    assert "not compared: the stored one has another unit, tokens/s" in run(drover, "steps.py", "0.001")


def test_reports_on_the_channel_replace_lines(drover, tmp_path):
    text = """#include <drover.h>
#include <stdio.h>
int main(void)
{
    struct drover *d;
    if (drover_init(&d) < 0)
        return 1;
    for (int i = 0; i < 40; i++) {
        struct drover_metric m = {"samples_per_s", 500};
        printf("{\\"tokens_per_s\\": 7}\\n");
        fflush(stdout);
        if (drover_report(d, i, &m, 1) != DROVER_GO)
            return 2;
    }
    drover_close(d);
    return 0;
}
"""
    compile_c(tmp_path, "p", text, "cc", f"-I{ROOT}/collectives", f"-I{ROOT}/launcher/client", f"-L{BUILD}/lib",
              f"-Wl,-rpath,{BUILD.resolve()}/lib", "-ldrover")
    assert "baseline train: 500 samples/s, " in run(drover, "./p")
    python = f"import sys; sys.path.insert(0, {str(ROOT / 'launcher/client')!r})\n" \
             "import drover\nfor i in range(40): drover.report(step=i, samples_per_s=500)\n"
    (tmp_path / "p.py").write_text(python)
    assert "no difference found from the stored 500" in run(drover, "p.py")


def test_only_rank_0_counts(drover, tmp_path):
    (tmp_path / "r.py").write_text("import os\nfor i in range(9): print({'it/s': 3 + int(os.environ['RANK'])})\n")
    assert "baseline train: 3 it/s, " in run(drover, "-np", 3, "r.py")


@pytest.mark.parametrize("how", ["failed", "stopped", "too late"])
def test_a_job_without_success_stores_nothing(drover, tmp_path, how):
    (tmp_path / "bad.py").write_text(RATES + "print('steps done')\nsys.exit(3)\n")
    (tmp_path / "long.py").write_text(RATES + "import signal\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
                                      "open('ready', 'w').close()\ntime.sleep(1000)\n")
    if how == "failed":
        assert run(drover, "bad.py", 1, status=3) == ""
    elif how == "too late":
        assert run(drover, "--timeout", "1", "long.py", 1, status=124) == ""
    else:
        p = drover.start("run", "-np", 1, "--baseline", "train", "long.py", 1)
        wait_until((tmp_path / "ready").exists, "the steps")
        p.send_signal(signal.SIGTERM)
        assert p.wait(30) == 0 and b"baseline" not in p.communicate()[1]
    assert stored(drover) == []
    assert {f.name for f in (tmp_path / "state/drover").iterdir()} <= {"runs"}  # the logs, and no history


def test_the_attempt_that_succeeds_counts(drover, tmp_path):
    (tmp_path / "again.py").write_text("import os, sys\nfirst = os.environ['TORCHELASTIC_RESTART_COUNT'] == '0'\n"
                                       "for i in range(30): print({'it/s': 5 if first else 8})\nsys.exit(first)\n")
    assert "baseline train: 8 it/s, " in run(drover, "--max-restarts", 1, "again.py")


def test_other_hardware_has_a_baseline_of_its_own(drover):
    if not NVML.exists():
        pytest.skip("the stand-in for NVML is not built")
    run(drover, "rates.py", 12800)
    gpu = {"DROVER_NVML_LIB": str(NVML), "DROVER_FAKE_GPUS": "GPU-aa,NVIDIA H100,1b,81920,81920"}
    line = run(drover, "rates.py", 6400, env=gpu)
    assert " with 1 x NVIDIA H100, " in line and line.endswith(", no baseline on this hardware, stored"), line
    assert "no difference found" in run(drover, "rates.py", 6400, env=gpu)
    assert "no difference found" in run(drover, "rates.py", 12800)
    assert len({b["hardware"] for b in stored(drover)}) == len(stored(drover)) == 2


def test_update_replaces_the_stored_one(drover):
    assert run(drover, "--baseline-update", "rates.py", 100).endswith(", stored")
    assert run(drover, "--baseline-update", "rates.py", 50).endswith(", replaced the stored one")
    assert "no difference found" in run(drover, "rates.py", 50)
    run(drover, "rates.py", 25)  # compared, and not stored
    assert "no difference found" in run(drover, "rates.py", 50)


def test_ps_lists_baselines(drover):
    assert stored(drover) == []
    assert drover.run("ps", "--baselines").stdout.split() == "NAME THROUGHPUT STEP CPU GPU AGE HARDWARE".split()
    run(drover, "rates.py", 12800, name="b")
    run(drover, "true", name="a")
    assert [b["name"] for b in stored(drover)] == ["a", "b"]
    b = stored(drover)[1]
    assert b["unit"] == "tokens/s" and abs(b["throughput"] / 12800 - 1) <= 0.1 and b["blocks"] == 20
    assert b["step_s"] > 0.002 and b["deviation"] > 0 and b["stored_ms"] > 0
    lines = drover.run("ps", "--baselines").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "a", "b"] and "tokens/s" in lines[2]


def test_cpu_time_of_busy_ranks_is_their_utilisation(drover, tmp_path):
    (tmp_path / "busy.py").write_text("import time\nend = time.process_time() + 1.5\ni = 0\n"
                                      "while time.process_time() < end:\n    i += 1\n"
                                      "    if i % 20000 == 0: print({'step': i}, flush=True)\n")
    run(drover, "--bind-to", "core", "busy.py")
    assert stored(drover)[0]["cpu"] > 0


def test_the_load_of_gpus_is_sampled(drover, tmp_path):
    if not NVML.exists():
        pytest.skip("the stand-in for NVML is not built")
    (tmp_path / "long.py").write_text("import time\nfor i in range(25): print({'step': i}); time.sleep(0.1)\n")
    gpu = {"DROVER_NVML_LIB": str(NVML.resolve()), "DROVER_FAKE_GPUS": "GPU-aa,H100,1b,9,9;GPU-bb,H100,43,9,9"}
    assert ", GPU 37 %, " in run(drover, "long.py", env={**gpu, "DROVER_FAKE_GPU_BUSY": "37"})
    assert [b["gpu"] for b in stored(drover)] == [0.37]
    line = run(drover, "long.py", env=gpu)  # the driver does not report it
    assert ", GPU " not in line and " with 1 x H100, " in line, line


def test_the_event_has_both_measurements(drover, tmp_path):
    run(drover, "rates.py", 200)
    run(drover, "--events", "events", "rates.py", 100)
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    event = events[-1]
    assert event["event"] == "baseline" and event["result"] == "compared" and event["job"] == events[0]["job"]
    assert -0.65 < event["low"] < event["change"] < event["high"] < -0.35
    assert event["now"]["unit"] == event["stored"]["unit"] == "tokens/s"


@pytest.mark.parametrize("args, message", [
    (["--baseline", ""], "invalid baseline name ''"),
    (["--baseline", "a b"], "invalid baseline name 'a b'"),
    (["--baseline", "../x"], "invalid baseline name '../x'"),
    (["--baseline", "n" * 65], "invalid baseline name"),
    (["--baseline-update"], "--baseline-update needs --baseline NAME"),
])
@pytest.mark.parametrize("command", ["run", "torchrun"])
def test_a_wrong_name_starts_nothing(drover, tmp_path, command, args, message):
    no_python = ["--no-python"] if command == "torchrun" else []
    done = drover.run(command, *args, *no_python, "touch", "started")
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert not (tmp_path / "started").exists()


def test_torchrun_has_baselines(drover):
    done = drover.run("torchrun", "--baseline", "train", "rates.py", 100)
    assert done.returncode == 0 and ", stored" in done.stderr, done.stderr
    assert "no difference found" in drover.run("torchrun", "--baseline", "train", "rates.py", 100).stderr


@pytest.mark.parametrize("damage", ["text", "no directory", "others' directory"])
def test_a_store_that_cannot_be_used_does_not_fail_the_job(drover, tmp_path, damage):
    run(drover, "true")
    directory = tmp_path / "state/drover"
    if damage == "text":
        (directory / "baselines.db").write_text("not a database, but a text of more than a few bytes" * 9)
    elif damage == "no directory":
        os.rename(directory, tmp_path / "elsewhere")
        directory.write_text("")
    else:
        directory.chmod(0o777)
    done = drover.run("run", "-np", 1, "--baseline", "train", "true")
    assert done.returncode == 0 and "drover run: warn: " in done.stderr, done.stderr
    if damage == "text":
        assert (directory / "baselines.db.damaged").exists()
        assert len(stored(drover)) == 1
    else:
        assert "baseline train: not stored: " in done.stderr
        assert drover.run("ps", "--baselines").returncode == 1
