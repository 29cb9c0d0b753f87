"""Sweeps that learn from other sweeps before their first trial."""
import pytest
from sweep_kit import DROVER, Place
from waiting import wait_until

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")
# The best is 0 at (0.3, 0.7). Trial 3 of a sweep that is called "stopped" waits for a file.
TRIAL = """
while test $DROVER_TRIAL_ID = 3 -a $DROVER_SWEEP = stopped -a ! -e go; do sleep 0.02; done
awk "BEGIN { printf \\"{\\\\\\"loss\\\\\\": %.6f, \\\\\\"size\\\\\\": %.6f}\\n\\", ($x - 0.3) ^ 2 + ($y - 0.7) ^ 2, $x }"
"""
HEAD = """
method: bayes
metric: {name: loss}
"""
SPACE = "parameters: {x: {min: 0.0, max: 1.0}, y: {min: 0.0, max: 1.0}}\n"
ONE = "drover: {parallel: 1}\n"


@pytest.fixture
def place(tmp_path):
    p = Place(tmp_path)
    p.script("t.sh", TRIAL)
    first = p.run(p.sweep(HEAD + SPACE + ONE + "run_cap: 12\n", name="first"), "--quiet")
    assert first.returncode == 0, first.stderr
    yield p
    p.clean_up()


def params(place, name):
    return [t["params"] for t in place.show(name)["trials"]]


def run_ok(place, *args):
    done = place.run(*args)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_second_sweep_goes_on_from_the_first_and_the_same_way_after_a_kill(place):
    file = place.sweep(HEAD + SPACE + ONE + "run_cap: 6\n")
    said = run_ok(place, file, "--name", "whole", "--prior", "first")
    assert said.count("prior first: 12 of 12 trials used\n") == 1
    whole = place.show("whole")
    assert len(whole["trials"]) == 6 and whole["trials"][0]["params"] != params(place, "first")[0]
    assert max(t["value"] for t in whole["trials"]) < 0.1  # nothing that fills the space
    assert whole["best"]["id"] >= 0 and whole["best"]["value"] < 0.005

    coordinator = place.start(file, "--name", "stopped", "--prior", "./sweeps/first")
    wait_until(lambda: [t for t, _, _ in place.records("ended", "stopped")] == [0, 1, 2]
             and len(place.records("leased", "stopped")) == 4, "the fourth trial")
    coordinator.kill()
    coordinator.wait()
    assert params(place, "stopped") == params(place, "whole")[:4]
    (place.path / "go").touch()
    assert "trials used" not in run_ok(place, file, "--name", "stopped", "--prior", "first")  # was, before
    assert params(place, "stopped") == params(place, "whole")
    place.nothing_runs()


def test_what_does_not_fit_is_counted_and_the_rest_is_taken(place):
    xs = sorted(p["x"] for p in params(place, "first"))
    file = place.sweep(HEAD + f"parameters: {{x: {{min: 0.0, max: {xs[8] + 1e-6}}}, y: {{min: 0.0, max: 1.0}}}}\n")
    assert "prior first: 9 of 12 trials used; 3 left out: 'x' is outside its range\n" in place.run(file, "--dry-run", "--prior", "first").stderr
    file = place.sweep("method: bayes\nmetric: {name: acc}\n" + SPACE)
    assert "prior first: 0 of 12 trials used; 12 left out: without a finite value of 'acc'\n" in place.run(file, "--dry-run", "--prior", "first").stderr
    file = place.sweep(HEAD + "parameters: {x: {min: 0.0, max: 1.0}, y: {min: 0.0, max: 1.0}, new: {min: 0.0, max: 1.0}}\n")
    assert "; 12 left out: the parameter 'new' is missing\n" in place.run(file, "--dry-run", "--prior", "first").stderr
    file = place.sweep("method: random\nmetric: {name: loss}\n" + SPACE)
    assert "--prior is ignored: method random does not learn" in place.run(file, "--dry-run", "--prior", "nowhere").stderr


def test_the_file_can_have_observations_too(place):
    seen = [{"params": t["params"], "value": t["value"]} for t in place.show("first")["trials"]]
    file = place.sweep(HEAD + SPACE + f"run_cap: 3\ndrover: {{parallel: 1, prior: {seen}}}\n")
    run_ok(place, file, "--name", "a")
    assert "trials used" in run_ok(place, place.sweep(HEAD + SPACE + "run_cap: 3\n" + ONE), "--name", "b", "--prior", "first")
    assert params(place, "a") == params(place, "b")


@pytest.mark.parametrize("args, text", [
    (["s.yaml", "--prior", "frist"], "try: first"),
    (["s.yaml", "--prior", "./nowhere"], "'./nowhere': No such file"),
    (["s.yaml", "--prior", "first", "--prior", "sweeps/first"], "'sweeps/first' is given twice"),
    (["--name", "first", "--resume", "--prior", "first"], "holds a sweep with no prior"),
])
def test_a_prior_that_is_wrong_changes_nothing(place, args, text):
    place.sweep(HEAD + SPACE + ONE + "run_cap: 2\n")
    before = place.show("first")
    done = place.run(*args)
    assert done.returncode == 2 and text in done.stderr
    assert not (place.path / "sweeps/s").exists() and place.show("first") == before


def test_another_prior_is_refused_later(place):
    file = place.sweep(HEAD + SPACE + ONE + "run_cap: 1\n")
    run_ok(place, file, "--prior", "first")
    run_ok(place, file, "--name", "t")
    done = place.run(file, "--resume", "--prior", "t")
    assert done.returncode == 2 and "holds a sweep with another prior" in done.stderr
