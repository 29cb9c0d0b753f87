"""`drover sweep` from the command line: whole sweeps of tiny programs, and what happens when things end early."""
import os
import signal
import sqlite3
import subprocess

import pytest
from sweep_kit import DROVER, ROOT, rss_mib, use_place  # noqa: F401  a fixture
from waiting import request_again, wait_until

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")
GRID = """
method: grid
metric: {name: loss, goal: minimize}
parameters:
  x: {values: [3, 1, 2]}
  y: {values: [10, 20]}
"""
TRIAL = 'echo "{\\"step\\":1,\\"loss\\":$((x + y))}"\n'


# ---- sweeps that go well ------------------------------------------------------------------------


def test_a_grid_is_run_and_the_best_named(place):
    done = place.run(place.sweep(GRID), "--parallel", "3")
    assert done.returncode == 0, done.stderr
    table = done.stdout.splitlines()
    assert table[0].split() == ["rank", "trial", "state", "value", "x", "y"]
    assert table[1].split()[2:] == ["done", "11", "1", "10"]
    assert "6 of 6 trials: 6 done" in done.stdout
    assert "best: trial" in done.stdout and "./t.sh --x=1 --y=10" in done.stdout
    assert sorted((t["params"]["x"], t["params"]["y"]) for t in place.show()["trials"]) == [
        (x, y) for x in (1, 2, 3) for y in (10, 20)]
    place.nothing_runs()


def test_what_show_prints_for_programs(place):
    done = place.run(place.sweep(GRID), "--json")
    assert done.returncode == 0, done.stderr
    shown = place.show()
    assert list(shown) == ["name", "method", "state", "reason", "best", "importance", "trials", "workers"]
    assert (shown["name"], shown["method"], shown["state"]) == ("s", "grid", "finished")
    assert shown["best"]["value"] == 11 and shown["best"]["params"] == {"x": 1, "y": 10}
    for t in shown["trials"]:
        assert {"id", "state", "params", "value", "steps", "node", "seconds"} <= set(t)
        assert t["state"] == "done" and t["value"] == t["params"]["x"] + t["params"]["y"] and t["seconds"] > 0
    assert done.stdout == place.run("show", "s", "--json").stdout


def test_show_tells_which_parameters_decide(place):
    place.script("t.sh", 'echo "{\\"loss\\":$x}"\n')
    grid = "method: grid\nmetric: {name: loss}\nparameters: {x: {values: [0, 1, 2, 3]}, y: {values: [a, b]}}\n"
    assert place.run(place.sweep(grid)).returncode == 0
    assert place.show()["importance"] is None  # of 8 trials it says nothing
    more = grid.replace("[a, b]", "[a, b, c, d]")
    assert place.run(place.sweep(more, name="more")).returncode == 0
    shown = place.show("more")["importance"]
    assert list(shown) == ["x", "y"] and shown["x"] > 0.999
    assert "\nimportance  x 1.00\n" in place.run("show", "more").stdout


def test_several_objectives_have_a_pareto_set(place):
    place.script("t.sh", 'echo "{\\"loss\\":$((x + z)),\\"accuracy\\":$x}"\n')
    done = place.run(place.sweep("method: grid\nmetrics: [{name: loss}, {name: accuracy, goal: maximize}]\n"
                                 "parameters: {x: {values: [1, 2, 3]}, z: {values: [0, 5]}}\n"))
    assert done.returncode == 0, done.stderr
    shown = place.show()
    ids = {t["id"]: (t["params"]["x"], t["params"]["z"]) for t in shown["trials"]}
    assert [ids[i] for i in shown["pareto"]] == [(1, 0), (2, 0), (3, 0)]
    for table in (done.stdout, place.run("show", "s").stdout):
        rows = [line.split() for line in table.splitlines()]
        start = rows.index(["rank", "trial", "state", "loss", "accuracy", "x", "z"])
        assert [r[0] for r in rows[start + 1:start + 7]] == ["*", "*", "*", "4", "5", "6"]
        assert rows[start + 1][2:] == ["done", "1", "1", "1", "0"]


def test_a_sobol_sweep_tries_each_point_of_a_finite_space_once(place):
    done = place.run(place.sweep(GRID.replace("grid", "sobol")), "--parallel", "3")
    assert done.returncode == 0, done.stderr
    assert sorted((t["params"]["x"], t["params"]["y"]) for t in place.show()["trials"]) == [
        (x, y) for x in (1, 2, 3) for y in (10, 20)]


def test_a_sweep_leaves_parameters_and_output_of_each_trial(place):
    place.script("t.sh", TRIAL + 'echo "$x to stderr" >&2; echo "$DROVER_SWEEP $DROVER_TRIAL_ID $WANDB_SWEEP_ID"\n'
                 'test -d "$DROVER_CKPT_DIR" && test "$PWD/" = "${DROVER_TRIAL_DIR%sweeps*}" && '
                 'test -s "$WANDB_SWEEP_PARAM_PATH" && test -z "$DROVER_RESUME" && echo env is right\n')
    assert place.run(place.sweep(GRID)).returncode == 0
    for trial in place.show()["trials"]:
        d = place.path / "sweeps/s/trials" / f"{trial['id']:06d}"
        x, y = trial["params"]["x"], trial["params"]["y"]
        assert (d / "params.json").read_text() == f'{{"x": {x}, "y": {y}}}\n'
        (lease,) = [p for p in d.iterdir() if p.is_dir()]
        assert (lease / "stdout").read_text() == (f'{{"step":1,"loss":{x + y}}}\ns {trial["id"]} s\nenv is right\n')
        assert (lease / "stderr").read_text() == f"{x} to stderr\n"


def test_worker_and_coordinator_give_way_to_trials(place):
    place.script("t.sh", "exec python3 policies.py\n")
    (place.path / "policies.py").write_text("""
import json, os
pid, policies = os.getpid(), []
while pid > 1 and len(policies) < 6:
    policies.append(os.sched_getscheduler(pid))
    pid = int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
print(json.dumps({"loss": 1}))
print("policies", *policies)
""")
    done = place.run(place.sweep(GRID), "--parallel", "1")
    assert done.returncode == 0, done.stderr
    for out in place.path.glob("sweeps/s/trials/*/*/stdout"):
        (line,) = [line.split() for line in out.read_text().splitlines() if line.startswith("policies")]
        policies = [int(word) for word in line[1:]]
        batch = policies.index(os.SCHED_BATCH)
        assert policies[:batch] == [os.SCHED_OTHER] * batch and batch >= 2, policies  # itself, its guardian
        assert policies[batch:batch + 2] == [os.SCHED_BATCH] * 2, policies  # the worker, the coordinator


def test_a_random_sweep_is_the_same_for_the_same_seed(place):
    text = """
method: random
run_cap: 10
metric: {name: loss}
parameters:
  x: {min: 1, max: 1000000}
  y: {value: 3}
"""
    drawn = []
    for name, seed in (("a", "5"), ("b", "5"), ("c", "6")):
        done = place.run(place.sweep(text), "--name", name, "--seed", seed, "--parallel", "4")
        assert done.returncode == 0, done.stderr
        trials = place.show(name)["trials"]
        assert [t["state"] for t in trials] == ["done"] * 10
        drawn.append([t["params"]["x"] for t in trials])
    assert drawn[0] == drawn[1] != drawn[2]
    assert [line.split()[0] for line in place.run("ls").stdout.splitlines()] == ["a", "b", "c"]


def test_a_finished_sweep_has_nothing_left_to_do(place):
    sweep = place.sweep(GRID)
    first = place.run(sweep)
    leased = place.records("leased")
    again = place.run(sweep)
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert place.records("leased") == leased and len(leased) == 6


def test_no_more_trials_at_once_than_asked_for(place):
    place.script("t.sh", 'touch now.$$; ls now.* | wc -l >> counts; sleep 0.1; rm now.$$\n' + TRIAL)
    assert place.run(place.sweep(GRID), "--parallel", "2").returncode == 0
    counts = [int(n) for n in (place.path / "counts").read_text().split()]
    assert len(counts) == 6 and max(counts) <= 2


def test_each_way_of_reporting_is_understood(place):
    import_drover = f"import sys; sys.path.insert(0, '{ROOT}/launcher/client'); import drover; "
    place.script("channel.sh", f'/usr/bin/python3 -c "{import_drover}'
                 'drover.report(step=1, loss=4); drover.report(step=2, loss=2)"; echo \'{"loss": -99}\'\n')
    place.script("pattern.sh", 'echo "epoch 1 loss=3.5 acc=9"\n')
    place.script("lines.sh", 'echo \'{"loss": 7, "note": "x"}\'; echo \'{"loss": NaN}\'; echo \'{"loss": 6}\'\n')
    metric = "method: grid\nparameters: {x: {values: [1]}}\nmetric: {name: loss, pattern: 'loss=([0-9.]+)'}\n"
    for program, value in (("channel", 2), ("pattern", 3.5), ("lines", 6)):
        done = place.run(place.sweep(metric, program=f"{program}.sh", name=program))
        assert done.returncode == 0, done.stderr
        (trial,) = place.show(program)["trials"]
        assert trial["value"] == value


def test_conditions_constraints_and_repeats_decide_which_trials_there_are(place):
    """A trial gets the active parameters alone, and is run as often as `repeats` says; patterns find both metrics."""
    place.script("t.sh", 'echo "$#: loss=$n acc=0.$n"\n')
    text = """
method: random
metrics: [{name: loss, pattern: 'loss=([0-9.]+)'}, {name: acc, goal: maximize, pattern: 'acc=([0-9.]+)'}]
parameters:
  solver: {values: [sgd, adam]}
  momentum: {values: [0.8, 0.9]}
  n: {distribution: int_log_uniform, min: 1, max: 4}
drover:
  when: {momentum: {param: solver, in: [sgd]}}
  constraints: [n != 3, "n < 4 or solver == 'adam'"]
  repeats: 2
"""
    done = place.run(place.sweep(text))
    assert done.returncode == 0, done.stderr
    trials = place.show()["trials"]
    sets = [tuple(sorted(t["params"].items())) for t in trials]
    adam = [(("n", n), ("solver", "adam")) for n in (1, 2, 4)]
    sgd = [(("momentum", m), ("n", n), ("solver", "sgd")) for m in (0.8, 0.9) for n in (1, 2)]
    assert sorted(sets[:7]) == sorted(sets[7:]) == sorted(adam + sgd)
    assert all(t["metrics"] == {"loss": t["params"]["n"], "acc": t["params"]["n"] / 10} for t in trials)
    (out,) = (place.path / f"sweeps/s/trials/{sets.index(adam[0]):06}").glob("*/stdout")
    assert out.read_text() == "2: loss=1 acc=0.1\n"


def test_a_trial_of_several_ranks(place):
    """Every rank has the same parameters; rank 0 reports; an early stop ends them all."""
    place.script("t.sh", 'echo "rank $RANK of $WORLD_SIZE has $x"\n'
                 'echo "{\\"step\\":1,\\"loss\\":$((x + 100 * RANK))}"\n'
                 'test $x -lt 9 || exec sleep 60\n')
    text = """
method: grid
metric: {name: loss}
early_terminate: {type: median, min_iter: 1, min_trials: 2}
parameters: {x: {values: [2, 1, 9]}}
drover: {parallel: 1, resources: {ranks: 3}}
"""
    done = place.run(place.sweep(text), limit_s=40)
    assert done.returncode == 0, done.stderr
    trials = place.show()["trials"]
    assert [(t["state"], t["value"]) for t in trials] == [("done", 2), ("done", 1), ("pruned", 9)]
    (out,) = (place.path / "sweeps/s/trials/000001").glob("*/stdout")
    lines = out.read_text().splitlines()
    assert {f"[{r}] rank {r} of 3 has 1" for r in range(3)} < set(lines) and len(lines) == 6
    place.nothing_runs()


def test_a_rank_that_fails_ends_the_others_of_its_trial(place):
    place.script("t.sh", 'test $RANK != 1 || { echo "out of luck" >&2; exit 3; }\nexec sleep 60\n')
    text = "method: grid\nmetric: {name: loss}\nparameters: {x: {values: [1]}}\ndrover: {resources: {ranks: 3}}\n"
    done = place.run(place.sweep(text), limit_s=40)
    assert done.returncode == 1, done.stderr
    (trial,) = place.show()["trials"]
    assert trial["state"] == "failed" and trial["error"] == "rank 1: exit status 3: out of luck", trial
    place.nothing_runs()


def test_a_dry_run_prints_the_commands_and_makes_nothing(place):
    done = place.run(place.sweep(GRID), "--dry-run", "--parallel", "3")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and all(line.startswith("./t.sh --x=") for line in lines)
    assert not (place.path / "sweeps").exists()


# ---- trials that do not go well -------------------------------------------------------------------


def test_a_trial_that_is_stopped_early_is_gone(place):
    """The last of the grid is bad and would run for a minute."""
    place.script("t.sh", 'test $x -lt 100 || echo $$ > bad.pid\n'
                 'for i in 1 2 3 4 5 6; do echo "{\\"step\\":$i,\\"loss\\":$x}"; done\n'
                 'test $x -lt 100 || exec sleep 60\n')
    text = """
method: grid
metric: {name: loss}
early_terminate: {type: median, min_iter: 2, min_trials: 3}
parameters:
  x: {values: [5, 4, 3, 2, 1, 100]}
"""
    done = place.run(place.sweep(text), "--parallel", "1", limit_s=40)
    assert done.returncode == 0, done.stderr
    trials = place.show()["trials"]
    assert [t["state"] for t in trials] == ["done"] * 5 + ["pruned"]
    assert not place.carries_mark(int((place.path / "bad.pid").read_text()))
    place.nothing_runs()


def test_a_trial_that_never_reports_the_metric_is_invalid(place):
    place.script("t.sh", 'echo "{\\"step\\":1,\\"los\\":$x,\\"acc\\":2}"\n')
    done = place.run(place.sweep(GRID), "--parallel", "2")
    assert done.returncode == 1
    trials = place.show()["trials"]
    assert trials and all(t["state"] == "invalid" and t["value"] is None for t in trials)
    assert "los" in trials[0]["error"]


def test_a_failed_trial_says_why_and_the_others_go_on(place):
    place.script("t.sh", 'test $x != 2 || { echo "no such thing" >&2; exit 3; }\n' + TRIAL)
    done = place.run(place.sweep(GRID), "--parallel", "2")
    assert done.returncode == 0, done.stderr
    trials = place.show()["trials"]
    assert sorted(t["state"] for t in trials) == ["done"] * 4 + ["failed"] * 2
    assert {t["error"] for t in trials if t["state"] == "failed"} == {"exit status 3: no such thing"}
    assert "exit status 3: no such thing" in done.stderr


def test_a_sweep_without_any_value_has_failed(place):
    place.script("t.sh", "exit 1\n")
    assert place.run(place.sweep(GRID)).returncode == 1
    place.nothing_runs()


# ---- what is wrong before anything starts ------------------------------------------------------------


@pytest.mark.parametrize("text, said", [
    ("method: grid\nparameters:\n  x: {values: [1}\n", "s.yaml:5:"),
    ("method: grid\nparameters:\n  x: {distribution: unifrom, min: 0, max: 1}\n", "s.yaml:5:"),
    ("method: gird\nparameters: {x: {values: [1]}}\n", "s.yaml:3:"),
    ("method: grid\nparameters: {x: {values: [1]}}\nmetric: {name: a, pattern: '('}\n", "s.yaml:5:"),
])
def test_a_wrong_file_is_refused_with_its_place(place, text, said):
    done = place.run(place.sweep(text))
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert not (place.path / "sweeps").exists()


def test_a_wrong_command_line_is_refused(place):
    sweep = place.sweep(GRID)
    os.mkfifo(place.path / "sweeps")  # where the directory should be
    for args, said in ((["no.yaml"], "no.yaml"), ([], "no sweep file"), ([sweep, "more"], "more"),
                       ([sweep, "--seed", "x"], "--seed"), ([sweep, "--name", "a/b"], "--name"),
                       ([sweep, "--parallel", "-1"], "--parallel"), ([sweep, "--here", "-1"], "'--here': -1"),
                       ([sweep, "--paralel", "1"], "--parallel"),
                       ([place.sweep(GRID, program="missing.sh", name="m")], "missing.sh"),
                       ([sweep], "sweeps"), ([sweep, "--dir", "/proc/none"], "/proc/none")):
        done = place.run(*args)
        assert done.returncode == 2 and said in done.stderr, (args, done.stderr)
    assert not place.alive()


def test_another_file_under_the_same_name_is_refused(place):
    assert place.run(place.sweep(GRID)).returncode == 0
    done = place.run(place.sweep(GRID.replace("20", "30")), "--name", "s")
    assert done.returncode == 2 and "--name" in done.stderr and "drover sweep resume s" in done.stderr
    done = place.run("--name", "s", "--resume")
    assert done.returncode == 0 and "6 of 6" in done.stdout
    done = place.run("--name", "t", "--resume")
    assert done.returncode == 2 and "'t'" in done.stderr


# ---- sweeps that are interrupted -----------------------------------------------------------------------

# Says that it was started, saves what it has when it is told to end, and waits for the file "go".
PATIENT = """
echo "$DROVER_TRIAL_ID ${DROVER_RESUME:-0} $(cat "$DROVER_CKPT_DIR/saved" 2>/dev/null)" >> started
trap 'echo $x > "$DROVER_CKPT_DIR/saved"; exit 0' TERM
while ! test -e go; do sleep 0.02; done
""" + TRIAL


def started(place, n):
    path = place.path / "started"
    lines = path.read_text().splitlines() if path.exists() else []
    return lines if len(lines) >= n else None


def test_control_c_stops_in_good_order_and_the_next_run_goes_on(place):
    place.script("t.sh", PATIENT)
    p = place.start(place.sweep(GRID), "--parallel", "2")
    wait_until(lambda: started(place, 2), "two trials")
    p.send_signal(signal.SIGINT)
    assert p.wait(30) == 130
    assert "drover sweep resume s" in place.said()
    place.nothing_runs()
    assert place.states().count("waiting") == 2
    (place.path / "go").touch()
    done = place.run("--name", "s", "--resume", "--parallel", "2")
    assert done.returncode == 0, done.stderr
    assert place.states() == ["done"] * 6
    lines = sorted(started(place, 8))
    again = [line.split() for line in lines if line.split()[1] == "1"]
    assert len(lines) == 8 and [w[0] for w in again] == ["0", "1"]
    assert all(len(w) == 3 for w in again)  # their checkpoints were there


def test_control_c_twice_kills(place):
    place.script("t.sh", "trap '' TERM INT\necho x >> started\nwhile :; do sleep 0.1; done\n")
    p = place.start(place.sweep(GRID), "--parallel", "2")
    wait_until(lambda: started(place, 2), "two trials")
    p.send_signal(signal.SIGINT)
    wait_until(lambda: "running trials return to the queue" in place.said(), "the first answer")
    request_again(p, signal.SIGINT)
    assert p.wait(10) == 130 and "killing the running trials" in place.said()
    place.nothing_runs()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_that_arrives_twice_at_once_lets_trials_save(place, number):
    place.script("t.sh", PATIENT.replace("echo $x >", "sleep 0.3; echo $x >"))
    p = place.start(place.sweep(GRID), "--parallel", "2")
    wait_until(lambda: started(place, 2), "two trials")
    p.send_signal(number)
    p.send_signal(signal.SIGTERM)
    assert p.wait(30) == 128 + number and "killing" not in place.said()
    (place.path / "go").touch()
    done = place.run("--name", "s", "--resume", "--parallel", "2")
    assert done.returncode == 0, done.stderr
    again = [line.split() for line in started(place, 8) if line.split()[1] == "1"]
    assert len(again) == 2 and all(len(w) == 3 for w in again)  # their checkpoints were there


def patient(place, n):
    """A sweep of which n trials run, until the file "go" is there: (its file, the coordinator, the worker's pid)."""
    place.script("t.sh", PATIENT)
    sweep = place.sweep(GRID)
    p = place.start(sweep, "--parallel", str(n))
    wait_until(lambda: started(place, n), f"{n} trials")
    return sweep, p, place.worker_pid()


def test_a_killed_worker_is_started_again_and_its_trials_run_again(place):
    _, p, first = patient(place, 3)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: started(place, 6), "them again")
    assert place.worker_pid() not in (0, first)
    (place.path / "go").touch()
    assert p.wait(30) == 0, place.said()
    assert place.states() == ["done"] * 6
    assert len(place.records("ended")) == 6
    assert {d["why"] for _, _, d in place.records("requeued")} == {"lost"}
    place.nothing_runs()


def test_trials_run_on_while_the_coordinator_is_gone(place):
    sweep, p, worker = patient(place, 6)
    p.kill()
    p.wait()
    (place.path / "go").touch()  # they end with nobody there to hear
    outputs = list((place.path / "sweeps/s/trials").glob("*/*/stdout"))
    wait_until(lambda: len(outputs) == 6 and all(o.read_text() for o in outputs), "their output")
    assert place.worker_pid() == worker
    done = place.run(sweep, "--parallel", "6")
    assert done.returncode == 0, done.stderr
    assert place.states() == ["done"] * 6
    assert len(place.records("leased")) == 6 and len(started(place, 6)) == 6  # none was run twice
    place.nothing_runs()


def test_when_both_are_killed_the_next_run_goes_on_at_once(place):
    sweep, p, worker = patient(place, 3)
    p.kill()
    os.kill(worker, signal.SIGKILL)
    p.wait()
    place.nothing_runs()
    (place.path / "go").touch()
    done = place.run(sweep, "--parallel", "3", limit_s=30)
    assert done.returncode == 0, done.stderr
    assert place.states() == ["done"] * 6 and len(place.records("ended")) == 6


def test_a_second_coordinator_is_refused(place):
    place.script("t.sh", PATIENT)
    sweep = place.sweep(GRID)
    p = place.start(sweep)
    wait_until(lambda: started(place, 1), "a trial")
    done = place.run(sweep)
    assert done.returncode == 2 and f"process {p.pid}" in done.stderr
    assert place.show()["state"] == "running"
    (place.path / "go").touch()
    assert p.wait(30) == 0
    with sqlite3.connect(place.db()) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_worker_that_is_told_to_end_gives_its_trials_back(place):
    place.script("t.sh", PATIENT)
    p = place.start(place.sweep(GRID), "--parallel", "2")
    wait_until(lambda: started(place, 2), "two trials")
    os.kill(place.worker_pid(), signal.SIGTERM)
    wait_until(lambda: started(place, 4), "them again")
    (place.path / "go").touch()
    assert p.wait(30) == 0, place.said()
    assert place.states() == ["done"] * 6
    assert {d["why"] for _, _, d in place.records("requeued")} == {"preempted"}


def test_what_trials_said_while_no_coordinator_came_back_is_not_lost(place):
    """A worker that gave up leaves it in a file; the next coordinator reads that first."""
    place.script("t.sh", PATIENT)
    sweep = place.sweep(GRID)
    home = place.path / "sweeps/s"
    home.mkdir(parents=True)
    lock = home / f"worker.{os.uname().nodename}.lock"
    impatient = subprocess.Popen([DROVER, "worker", f"ipc://{home}/coord.sock", "--places", "6", "--lock", lock,
                                  "--patience", "2", "--left", lock.with_suffix(".left")],
                                 cwd=place.path, env=place.env)
    place.started.append(impatient)
    wait_until(lambda: place.worker_pid() == impatient.pid, "the worker")
    p = place.start(sweep)
    wait_until(lambda: started(place, 6), "six trials at the worker that was there")
    p.kill()
    p.wait()
    (place.path / "go").touch()
    assert impatient.wait(20) == 1
    assert lock.with_suffix(".left").exists()
    done = place.run(sweep)
    assert done.returncode == 0, done.stderr
    assert place.states() == ["done"] * 6
    assert len(started(place, 6)) == 6 and not lock.with_suffix(".left").exists()
    place.nothing_runs()


def test_a_worker_of_a_finished_sweep_is_told_to_end(place):
    place.script("t.sh", PATIENT)
    sweep = place.sweep(GRID)
    p = place.start(sweep, "--parallel", "6")
    wait_until(lambda: started(place, 6), "six trials")
    os.kill(place.worker_pid(), signal.SIGSTOP)
    (place.path / "go").touch()
    p.kill()
    p.wait()
    with sqlite3.connect(place.db()) as db:  # as if their ends had been stored just before
        for trial, lease, _ in place.records("leased"):
            db.execute("INSERT INTO record(at_ms, kind, trial, lease, msg, data) VALUES(0, 'ended', ?, ?, 0, ?)",
                       (trial, lease, '{"state":"done","value":1,"seconds":1}'))
    os.kill(place.worker_pid(), signal.SIGCONT)
    done = place.run(sweep)
    assert "6 of 6 trials: 6 done" in done.stdout and len(started(place, 6)) == 6
    place.nothing_runs()


def test_a_coordinator_that_hangs_neither_stops_a_trial_nor_makes_its_worker_grow(place):
    """40,000 reports through the channel while nobody listens: all are there in the end."""
    (place.path / "many.py").write_text("""
import os, time, drover
while not os.path.exists("begin"):
    time.sleep(0.01)
for i in range(40000):
    drover.report(step=i, loss=i, **{f"value{k}": i + 0.125 for k in range(8)})
open("said", "w").close()
""")
    place.script("t.sh", "touch there\nexec python3 many.py\n")
    p = place.start(place.sweep("method: grid\nmetric: {name: loss}\nparameters: {x: {values: [1]}}\n"))
    wait_until(lambda: (place.path / "there").exists(), "the trial")
    worker = place.worker_pid()
    before = rss_mib(worker)
    p.send_signal(signal.SIGSTOP)
    (place.path / "begin").touch()
    wait_until(lambda: (place.path / "said").exists(), "all reports to be made")
    grown = rss_mib(worker) - before
    p.send_signal(signal.SIGCONT)
    assert p.wait(50) == 0, place.said()
    assert [d["step"] for _, _, d in place.records("report")] == list(range(40000))
    assert place.states() == ["done"]
    print(f"grown by {grown:.1f} MiB")
    assert grown < 50, grown
    assert not list((place.path / "sweeps/s/trials").glob("*/*/outbox"))


# ---- how programs report the metric -------------------------------------------------------------

NO_METRIC = """
method: grid
metric: {name: val/loss}
parameters: {x: {values: [1, 2]}}
"""


def test_a_sweep_without_its_metric_shows_a_pattern_that_can_be_pasted(place):
    place.script("t.sh", "echo \"epoch 1 train loss: 9 val loss = $x\"\n")
    done = place.run(place.sweep(NO_METRIC), "--parallel", "1")  # so that trial 0 is the first to end
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    at = lines.index("this line of its output looks like the metric:")
    assert lines[at + 1].strip() == "epoch 1 train loss: 9 val loss = 1"
    assert done.stderr.count("a trial reports 'val/loss' in one of three ways:") == 1
    pasted = lines[at + 3].split("    in the sweep file")[0].strip()
    again = place.run(place.sweep(NO_METRIC.replace("metric: {name: val/loss}", pasted), name="again"))
    assert again.returncode == 0, again.stderr
    assert [t["value"] for t in place.show("again")["trials"]] == [1, 2]


def test_a_program_can_be_a_python_module(place):
    pkg = place.path / "pkg"
    pkg.mkdir()
    (pkg / "__init__.py").touch()
    (pkg / "main.py").write_text("print({'eval_loss': 0.25, 'epoch': 1.0})\n")
    (place.path / "s.yaml").write_text("""
program: pkg.main
command: [python3, -m, "${program}", "${args}"]
method: grid
metric: {name: eval_loss}
parameters: {x: {values: [1]}}
""")
    done = place.run("s.yaml")
    assert done.returncode == 0, done.stderr
    assert place.show()["trials"][0]["value"] == 0.25


def test_the_output_of_a_python_trial_is_seen_while_it_runs(place):
    """The worse trial never ends by itself: it must be stopped for what it has printed."""
    (place.path / "t.py").write_text("""
import sys, time
bad = sys.argv[1] == "--x=2"
step = 0
while bad or step < 4:
    print('{"loss": %d}' % (5 if bad else 1))
    time.sleep(0.05)
    step += 1
""")
    (place.path / "s.yaml").write_text("""
command: [python3, t.py, "${args}"]
method: grid
metric: {name: loss}
parameters: {x: {values: [1, 2]}}
early_terminate: {type: hyperband, min_iter: 3}
""")
    place.env.pop("PYTHONUNBUFFERED", None)
    done = place.run("s.yaml", "--parallel", "1")
    assert done.returncode == 0, done.stderr
    assert [t["state"] for t in place.show()["trials"]] == ["done", "pruned"]
