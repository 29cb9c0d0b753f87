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
