"""The limits of a job or a sweep, and when a job starts: --timeout, --deadline, --budget, --start-when."""
import re
import signal

import pytest
from sweep_kit import BUILD, Place
from waiting import wait_until

NVML = BUILD / "tests/fake/libnvidia-ml.so.1"
GPU = {"DROVER_NVML_LIB": str(NVML), "DROVER_FAKE_GPUS": "GPU-aa,H100,1b,40960,40960"}
SAVES = "trap 'echo saved >checkpoint; exit 0' TERM; while :; do sleep 0.02; done"


@pytest.mark.parametrize("options, text, env", [
    (["--timeout", "0.5"], "after 0.5 s (--timeout)", {}),
    (["--deadline", "0.5"], "at its deadline (--deadline 0.5)", {}),
    (["--budget", "0.0002gpuh"], "at its budget (--budget 0.0002gpuh): it has used 0.0002", GPU),
    (["--budget", "0.01", "--price", "50"], "at its budget (--budget 0.01): it has used 0.0002", GPU)])
def test_a_job_at_its_limit_saves_its_checkpoint(drover, tmp_path, options, text, env):
    done = drover.run("run", "-np", "1", *options, "sh", "-c", SAVES, env=env)
    assert done.returncode == 124
    assert f"drover run: the job was stopped {text}" in done.stderr
    assert (tmp_path / "checkpoint").read_text() == "saved\n"
    drover.nothing_left()


def test_the_message_says_how_late_the_job_ended(drover):
    done = drover.run("run", "-np", "1", "--deadline", "0.3", "--grace", "0.5", "sh", "-c", "trap '' TERM; sleep 100")
    late = re.search(r"\(--deadline 0.3\) and ended (\d+\.\d) s later", done.stderr)
    assert done.returncode == 124 and late and float(late.group(1)) >= 0.4


def test_restarts_count_against_the_same_budget(drover, tmp_path):
    """1.5 GPU seconds: one attempt, a part of the second. The pause of a second between them is free."""
    done = drover.run("run", "-np", "1", "--max-restarts", "9", "--budget", "0.000416gpuh", "sh", "-c",
                      "echo x >>attempts; sleep 1; exit 3", env=GPU)
    assert done.returncode == 124
    assert (tmp_path / "attempts").read_text() == "x\n" * 2
    assert "at its budget" in done.stderr


def test_a_limit_that_is_reached_between_two_attempts_ends_the_job(drover, tmp_path):
    done = drover.run("run", "-np", "1", "--max-restarts", "9", "--timeout", "0.8", "sh", "-c", "echo x >>attempts; exit 3")
    assert done.returncode == 124
    assert (tmp_path / "attempts").read_text() == "x\n" * 2  # the first restart is at once, the next one 1 s later
    assert "the job was stopped after 0.8 s (--timeout)\n" in done.stderr


@pytest.mark.parametrize("options, text", [
    (["--deadline", "yesterday"], "--deadline: 'yesterday' is not a time"),
    (["--deadline", "2020-01-01"], "--deadline: '2020-01-01' has passed"),
    (["--budget", "12h"], "--budget: '12h' is not a budget"),
    (["--budget", "12"], "--budget: '12': an amount of money needs the price of a GPU hour"),
    (["--budget", "1gpuh"], "--budget 1gpuh: the job uses no GPU"),
    (["--price", "free"], "--price"),
    (["--start-when", "no-such-command"], "--start-when 'no-such-command': the shell cannot find the command"),
    (["--start-when", "./notes"], "--start-when './notes': the shell cannot execute the command")])
def test_what_is_wrong_is_refused_before_the_job_starts(drover, tmp_path, options, text):
    (tmp_path / "notes").write_text("")
    done = drover.run("run", "-np", "1", "--gpus", "", *options, "touch", "started")
    assert done.returncode == 2 and text in done.stderr, done.stderr
    assert not (tmp_path / "started").exists()


def test_a_job_starts_when_its_condition_is_true(drover, tmp_path):
    job = drover.start("run", "-np", "1", "--start-when", "echo x >>tries; test -e cheap", "--start-when-interval", "20ms",
                       "touch", "started")
    wait_until(lambda: (tmp_path / "tries").exists() and (tmp_path / "tries").read_text().count("x") >= 3, "three tries")
    assert not (tmp_path / "started").exists()
    (tmp_path / "cheap").touch()
    out, err = job.communicate(timeout=30)
    assert (job.returncode, out) == (0, b"")
    assert err.decode() == "drover run: waiting until 'echo x >>tries; test -e cheap' succeeds; its status is 1 now\n"
    assert (tmp_path / "started").exists()


def test_a_true_condition_and_a_dry_run_wait_for_nothing(drover):
    done = drover.run("run", "-np", "1", "--start-when", "true", "echo", "started")
    assert (done.returncode, done.stdout, done.stderr) == (0, "started\n", "")
    assert drover.run("run", "-np", "1", "--dry-run", "--start-when", "false", "true").returncode == 0


def test_the_pause_between_two_tries_grows(drover, tmp_path):
    tries = tmp_path / "tries"
    job = drover.start("run", "-np", "1", "--start-when", "date +%s.%N >>tries; false", "true")
    wait_until(lambda: tries.exists() and tries.read_text().count("\n") == 3, "three tries")
    job.send_signal(signal.SIGINT)
    job.wait(20)
    first, second, third = map(float, tries.read_text().split())
    assert second - first > 0.95 and third - second > 1.95


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["touch waits; sleep 1000; true", "touch waits; false"])
def test_a_signal_ends_the_wait(drover, tmp_path, number, command):
    job = drover.start("run", "-np", "1", "--start-when", command, "touch", "started")
    wait_until((tmp_path / "waits").exists, "the condition")
    job.send_signal(number)
    assert job.wait(20) == 128 + number
    assert not (tmp_path / "started").exists()
    drover.nothing_left()


@pytest.mark.parametrize("command", ["false", "sleep 1000"])
def test_the_deadline_ends_the_wait(drover, tmp_path, command):
    done = drover.run("run", "-np", "1", "--deadline", "0.3", "--start-when", command, "touch", "started")
    assert done.returncode == 124
    assert f"the job was not started: '{command}' had not succeeded at the deadline (0.3)" in done.stderr
    assert not (tmp_path / "started").exists()
    drover.nothing_left()


@pytest.fixture
def place(tmp_path):
    p = Place(tmp_path)
    p.script("t.sh", 'echo "{\\"loss\\":1}"\n' + SAVES)
    yield p
    p.clean_up()


def test_a_sweep_at_its_limit_requeues_its_trials_and_can_continue(place):
    place.env.update(GPU)
    sweep = place.sweep("method: grid\nmetric: {name: loss}\nparameters: {x: {values: [1, 2]}}\n"
                        "drover: {resources: {gpus: 1}}\n")
    done = place.run(sweep, "--deadline", "0.8")
    assert done.returncode == 124, done.stderr
    assert "drover sweep: the sweep was stopped at its deadline (--deadline 0.8)" in done.stderr
    assert "continue with: drover sweep resume s" in done.stderr
    assert place.states()[0] == "waiting" and len(place.records("requeued")) == 1
    done = place.run("resume", "s", "--budget", "0.0002gpuh")
    assert done.returncode == 124, done.stderr
    assert "the sweep was stopped at its budget (--budget 0.0002gpuh): it has used 0.0002" in done.stderr
    assert len(place.records("requeued")) == 2
    place.nothing_runs()


def test_a_sweep_without_gpus_says_that_a_budget_has_no_effect(place):
    place.env["DROVER_NVML_LIB"] = str(NVML)
    place.script("t.sh", 'echo "{\\"loss\\":1}"\n')
    done = place.run(place.sweep("method: grid\nmetric: {name: loss}\nparameters: {x: {values: [1, 2]}}\n"), "--budget", "1gpuh")
    assert done.returncode == 0
    assert done.stderr.count("--budget 1gpuh has no effect: no worker has a GPU") == 1
    done = place.run("s.yaml", "--restart", "--budget", "1")
    assert done.returncode == 2 and "needs the price of a GPU hour" in done.stderr
