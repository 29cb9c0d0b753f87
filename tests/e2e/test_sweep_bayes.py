"""Sweeps with `method: bayes`: what they find, with what they combine, and that a SIGKILL makes no difference."""
import pytest
from sweep_kit import DROVER
from waiting import wait_until

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")
# The best: lr = 0.01, width 64, adam; then the loss is 0.
LOSS = """
loss=$(awk -v lr=$lr -v w=$width -v s=$solver 'BEGIN {
    a = log(lr) / log(10) + 2; b = log(w / 64) / log(2)
    printf "%.17g", a * a + b * b / 4 + (s == "adam" ? 0 : 1) }')
"""
SAY = 'echo "{\\"loss\\": $loss}"\n'
SWEEP = """
method: bayes
metric: {name: loss}
run_cap: 30
parameters:
  lr: {distribution: log_uniform_values, min: 0.00001, max: 1}
  width: {values: [16, 32, 64, 128, 256]}
  solver: {values: [sgd, adam, lbfgs]}
"""


def params(place, name="s"):
    return [t["params"] for t in place.show(name)["trials"]]


def test_thirty_trials_two_at_a_time_find_the_best(place):
    place.script("t.sh", LOSS + SAY)
    done = place.run(place.sweep(SWEEP + "drover: {parallel: 2, seed: 1}\n"))
    assert done.returncode == 0, done.stderr
    shown = place.show()
    best = min(shown["trials"], key=lambda t: t["value"])
    print(f"best of 30: {best['value']:.3g}")
    assert [t["state"] for t in shown["trials"]] == ["done"] * 30
    assert best["value"] < 0.05 and best["params"]["width"] == 64 and best["params"]["solver"] == "adam"
    assert len({str(p) for p in params(place)}) == 30
    place.nothing_runs()


def test_killed_and_resumed_it_makes_the_same_suggestions(place):
    """With one trial at a time, so that the order of the results is the same."""
    place.script("t.sh", LOSS + SAY + "sleep 0.05\n")
    text = SWEEP.replace("30", "24") + "drover: {parallel: 1, seed: 3, retries: 100}\n"
    assert place.run(place.sweep(text, name="undisturbed")).returncode == 0
    sweep = place.sweep(text, name="killed")
    for n in (5, 11, 12, 19):
        p = place.start(*([sweep] if n == 5 else ["--name", "killed", "--resume"]))
        wait_until(lambda n=n: len(place.records("ended", "killed")) >= n, f"{n} ends")
        p.kill()
        p.wait()
    done = place.run("--name", "killed", "--resume")
    assert done.returncode == 0, done.stderr
    want, got = params(place, "undisturbed"), params(place, "killed")
    assert len(want) == 24
    for i, (a, b) in enumerate(zip(want, got)):
        assert a == b, f"trial {i}"
    assert got == want
    place.nothing_runs()


# A curve that goes down to the loss; what is bad is seen to be so early.
CURVE = LOSS + """
for step in 1 2 3 4 5 6 7 8 9; do
    echo "{\\"step\\": $step, \\"loss\\": $(awk -v l=$loss -v s=$step 'BEGIN { printf "%.17g", l + 0.01 + 1 / s }')}"
    sleep 0.02
done
"""


@pytest.mark.parametrize("rule", ["{type: asha, min_iter: 1, eta: 3}", "{type: curve, min_iter: 1, max_iter: 9}"])
def test_it_learns_from_trials_that_are_stopped_early(place, rule):
    place.script("t.sh", CURVE)
    done = place.run(place.sweep(SWEEP + f"early_terminate: {rule}\ndrover: {{parallel: 2, seed: 2}}\n"))
    assert done.returncode == 0, done.stderr
    trials = place.show()["trials"]
    states = [t["state"] for t in trials]
    steps = sum(t["steps"] for t in trials)
    best = min(t["value"] for t in trials if t["state"] == "done")
    print(f"{states.count('pruned')} of {len(states)} stopped, {steps} of {9 * len(states)} steps, best {best:.3g}")
    assert set(states) == {"done", "pruned"} and len(states) == 30
    assert steps < 0.8 * 9 * 30
    assert best < 0.01 + 1 / 9 + 0.3
    place.nothing_runs()


def test_trials_that_fail_do_not_end_it(place):
    place.script("t.sh", 'test $width -lt 128 || { echo "CUDA out of memory" >&2; exit 1; }\n' + LOSS + SAY)
    done = place.run(place.sweep(SWEEP + "drover: {parallel: 2, seed: 4, give_up_after: 0}\n"))
    assert done.returncode == 0, done.stderr
    trials = place.show()["trials"]
    failed = [t for t in trials if t["state"] != "done"]
    print(f"{len(failed)} failed; {sum(t['id'] >= 15 for t in failed)} of the last 15")
    assert len(trials) == 30 and 0 < len(failed) < 20
    assert min(t["value"] for t in trials if t["state"] == "done") < 1.5


def test_two_metrics_have_a_pareto_set(place):
    place.script("t.sh", LOSS + 'echo "{\\"loss\\": $loss, \\"speed\\": $((1000 - width))}"\n')
    text = SWEEP.replace("metric: {name: loss}", "metrics: [{name: loss}, {name: speed, goal: maximize}]")
    done = place.run(place.sweep(text + "drover: {parallel: 2, seed: 5}\n"))
    assert done.returncode == 0, done.stderr
    shown = place.show()
    trials = {t["id"]: t["metrics"] for t in shown["trials"]}
    front = [trials[i] for i in shown["pareto"]]
    assert len(trials) == 30 and front

    def better(a, b):
        return a["loss"] <= b["loss"] and a["speed"] >= b["speed"] and a != b

    assert not any(better(a, b) for b in front for a in trials.values())
    assert all(any(better(a, b) or a == b for a in front) for b in trials.values())
    assert [f["loss"] for f in front] == sorted(f["loss"] for f in front)
    print([(round(f["loss"], 4), f["speed"]) for f in front])
    assert front[0]["loss"] < 0.3 and len({f["speed"] for f in front}) >= 2
    table = place.run("show", "s").stdout
    assert sum("*" in line for line in table.splitlines()) >= min(2, len(front))


def test_a_search_on_a_plateau_says_that_it_explores(place):
    place.script("t.sh", 'echo "{\\"loss\\":2.3}"\n')
    flat = "method: bayes\nmetric: {name: loss}\nparameters: {x: {min: 0.0, max: 1.0}}\nrun_cap: 12\n"
    done = place.run(place.sweep(flat))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("values are equal: exploring") == 1
    assert "\nsearch  the first 12 values are equal: exploring\n" in place.run("show", "s").stdout


def test_what_mattered_is_about_the_space_not_about_where_the_search_went(place):
    place.script("t.sh", """
loss=$(awk -v x=$x -v y=$y -v z=$z 'BEGIN { print 10 * (x - 0.4) ^ 2 + 0.3 * (y - 0.5) ^ 2 + 0.01 * z }')
echo "{\\"loss\\": $loss}"
""")
    sides = ", ".join(f"{name}: {{min: 0.0, max: 1.0}}" for name in "xyz")
    done = place.run(place.sweep(f"method: bayes\nmetric: {{name: loss}}\nrun_cap: 40\nparameters: {{{sides}}}\n"
                                 "drover: {parallel: 1, seed: 7}\n"))
    assert done.returncode == 0, done.stderr
    shares = place.show()["importance"]
    assert next(iter(shares)) == "x" and shares["x"] > 0.95 and max(shares["y"], shares["z"]) < 0.1


SLOW = """
loss=$(awk -v x=$x -v y=$y 'BEGIN { printf "%.17g", x + y }')
ms=$(awk -v x=$x -v y=$y 'BEGIN { printf "%.17g", 100 - 100 * x * y }')
"""
SIDES = "parameters: {x: {min: 0.0, max: 1.0}, y: {min: 0.0, max: 1.0}}\nmetric: {name: loss}\n"
FAST = "outcome_constraints: [{metric: ms, max: 70}]"  # x y >= 0.3: the best is 1.0954, without the constraint 0


@pytest.mark.parametrize("method,run_cap,near", [("bayes", 30, 1.15), ("random", 40, 1.5), ("grid", 25, 1.31)])
def test_the_best_trial_satisfies_the_outcome_constraints(place, method, run_cap, near):
    place.script("t.sh", SLOW + 'echo "{\\"loss\\": $loss, \\"ms\\": $ms}"\n')
    sides = SIDES if method != "grid" else "metric: {name: loss}\nparameters: {x: {values: [0.1, 0.3, 0.5, 0.7, 0.9]}, " \
        "y: {values: [0.1, 0.3, 0.5, 0.7, 0.9]}}\n"
    done = place.run(place.sweep(f"method: {method}\nrun_cap: {run_cap}\n{sides}drover: {{parallel: 2, seed: 2, {FAST}}}\n"))
    assert done.returncode == 0, done.stderr
    shown = place.show()
    trials = {t["id"]: t for t in shown["trials"]}
    good = [t for t in trials.values() if t["metrics"]["ms"] <= 70]
    assert min(t["value"] for t in trials.values()) < min(t["value"] for t in good)  # it matters
    assert [t["id"] for t in trials.values() if t["feasible"]] == [t["id"] for t in good]
    assert shown["best"]["value"] == min(t["value"] for t in good) < near
    assert f"best: trial {shown['best']['id']}," in done.stdout and "infeasible" in done.stderr
    rows = place.run("show", "s").stdout.splitlines()
    first = next(k for k, line in enumerate(rows) if line.split()[:1] == ["1"])
    assert int(rows[first].split()[1]) == shown["best"]["id"]
    marks = ["infeasible" in line for line in rows[first:first + min(20, len(trials))]]
    assert marks == sorted(marks) and sum(not m for m in marks) == min(20, len(good))
    assert place.run("best", "s", "--json").stdout.startswith(f'{{"id":{shown["best"]["id"]},')
    worst = next(i for i, t in trials.items() if not t["feasible"])
    assert place.run("show", "s", str(worst)).stdout.startswith(f"trial {worst}  done, infeasible  ")
    table = place.run("show", "s", "--csv").stdout.splitlines()
    column = table[0].split(",").index("feasible")
    assert [line.split(",")[column] == "true" for line in table[1:]] == [t["feasible"] for t in trials.values()]


def test_with_constraints_a_sweep_that_is_killed_continues_as_it_would_have(place):
    place.script("t.sh", SLOW + 'echo "{\\"loss\\": $loss, \\"ms\\": $ms}"; sleep 0.05\n')
    text = f"method: bayes\nrun_cap: 18\n{SIDES}drover: {{parallel: 1, seed: 4, retries: 100, {FAST}}}\n"
    assert place.run(place.sweep(text, name="undisturbed")).returncode == 0
    sweep = place.sweep(text, name="killed")
    for n in (9, 13):
        p = place.start(*([sweep] if n == 9 else ["--name", "killed", "--resume"]))
        wait_until(lambda n=n: len(place.records("ended", "killed")) >= n, f"{n} ends")
        p.kill()
        p.wait()
    done = place.run("--name", "killed", "--resume")
    assert done.returncode == 0, done.stderr
    assert params(place, "killed") == params(place, "undisturbed")
    assert place.show("killed")["best"] == place.show("undisturbed")["best"]


def test_two_objectives_with_a_constraint_have_a_feasible_front(place):
    place.script("t.sh", SLOW + 'echo "{\\"loss\\": $loss, \\"ms\\": $ms, \\"x\\": $x}"\n')
    sides = SIDES.replace("metric: {name: loss}", "metrics: [{name: loss}, {name: x, goal: maximize}]")
    done = place.run(place.sweep(f"method: bayes\nrun_cap: 24\n{sides}drover: {{parallel: 2, seed: 3, {FAST}}}\n"))
    assert done.returncode == 0, done.stderr
    shown = place.show()
    trials = {t["id"]: t for t in shown["trials"]}
    assert shown["pareto"] and all(trials[i]["feasible"] for i in shown["pareto"])
    assert not all(t["feasible"] for t in trials.values())


def test_if_no_trial_is_feasible_there_is_no_best_one_and_why(place):
    place.script("t.sh", 'echo "{\\"loss\\": $x}"\n')
    done = place.run(place.sweep(f"method: bayes\nrun_cap: 10\n{SIDES}drover: {{parallel: 1, {FAST}}}\n"))
    assert done.returncode == 1, done.stderr  # as without any value: there is no result
    why = "no trial satisfies outcome_constraints: the metric 'ms' was never reported; reported: 'loss'"
    assert f"best: none, since {why}\n" in done.stdout
    once = "outcome_constraints: trial 0 is infeasible: the metric 'ms' was never reported; reported: 'loss'\n"
    assert once in done.stderr and done.stderr.count("outcome_constraints") == 1
    assert "search: no trial is feasible: none has reported 'ms'\n" in done.stderr
    assert place.show()["best"] is None
    best = place.run("best", "s")
    assert best.returncode == 1 and why in best.stderr and why in place.run("show", "s").stdout


def test_if_all_trials_failed_the_constraints_are_not_the_reason(place):
    place.script("t.sh", "exit 1\n")
    done = place.run(place.sweep(f"method: random\nrun_cap: 2\n{SIDES}drover: {{parallel: 1, {FAST}}}\n"))
    assert done.returncode == 1 and "outcome_constraints" not in done.stdout + done.stderr
    assert "no trial has a value yet\n" in place.run("best", "s").stderr


def test_a_prior_sweep_brings_what_its_trials_have_measured(place):
    place.script("t.sh", SLOW + 'echo "{\\"loss\\": $loss, \\"ms\\": $ms}"\n')
    first = f"method: sobol\nrun_cap: 16\n{SIDES}"
    assert place.run(place.sweep(first, name="first")).returncode == 0
    text = f"method: bayes\nrun_cap: 6\n{SIDES}drover: {{parallel: 1, seed: 1, {FAST}}}\n"
    done = place.run(place.sweep(text, name="second"), "--prior", "first")
    assert done.returncode == 0, done.stderr
    assert place.show("second")["best"]["value"] < 1.2


@pytest.mark.parametrize("value,said", [
    ("[{metric: ms}]", "the outcome constraint of 'ms' has neither 'min' nor 'max'"),
    ("[{metric: ms, min: 3, max: 2}]", "'min' must not be above 'max'"),
    ("[{metric: ms, most: 2}]", "unknown key 'most'"), ("{metric: ms, max: 2}", "must be a list")])
def test_a_wrong_outcome_constraint_is_refused(place, value, said):
    place.script("t.sh", "echo loss=1\n")
    done = place.run(place.sweep(f"method: random\nrun_cap: 2\n{SIDES}drover: {{outcome_constraints: {value}}}\n"))
    assert done.returncode == 2 and said in done.stderr and "s.yaml:" in done.stderr
    top = place.run(place.sweep(f"method: random\nrun_cap: 2\n{SIDES}outcome_constraints: []\n"))
    assert top.returncode == 2 and "try: drover: {outcome_constraints:" in top.stderr
