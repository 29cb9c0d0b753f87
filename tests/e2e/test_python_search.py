"""drover.Study: the search from Python."""
import pytest
from sweep_kit import DROVER, use_scripts  # noqa: F401

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")


def test_python_searches(place):
    best, refused, closed, elsewhere = place.python("""
from math import inf
with drover.Study({"x": {"min": -1.0, "max": 1.0}}, goal="minimize", seed=3, early_terminate={"type": "median"}) as study:
    elsewhere = study.tell({"x": 0.9}, 0.81)
    for _ in range(12):
        for trial in study.ask():
            assert study.report(trial["id"], 2.0, step=1) in ("go", "stop")
            study.tell(trial["id"], trial["params"]["x"] ** 2)
    best = study.best()
    try:
        study.tell(best["id"], 1.0)
    except ValueError as error:
        refused = str(error)
try:
    study.ask()
except ValueError as error:
    closed = str(error)
print(json.dumps([best, refused, closed, elsewhere]))
""")
    assert best["value"] == best["params"]["x"] ** 2 < 0.05 and elsewhere == 0
    assert str(best["id"]) in refused and closed == "the study is closed"
    wrong = place.python("""
try:
    drover.Study({"x": {"min": 2, "max": 1}})
except ValueError as error:
    print(json.dumps(str(error)))
""")
    assert "x" in wrong


def test_python_searches_with_an_outcome_constraint(place):
    best, none = place.python("""
bounds = [{"metric": "ms", "max": 70}]
space = {"x": {"min": 0.0, "max": 1.0}, "y": {"min": 0.0, "max": 1.0}}
with drover.Study(space, seed=3, outcome_constraints=bounds) as study:
    for trial in (t for _ in range(24) for t in study.ask()):
        x, y = trial["params"]["x"], trial["params"]["y"]
        study.tell(trial, x + y, values={"ms": 100 - 100 * x * y})
    best = study.best()
    assert study.note is None
with drover.Study(space, metrics=[{"name": "loss"}], outcome_constraints=bounds) as study:
    for trial in study.ask(9):
        study.tell(trial, {"loss": 1.0, "ms": 90})
    none = study.best()
    study.ask()
    assert "no trial is feasible yet" in study.note or "exploring" in study.note, study.note
print(json.dumps([best, none]))
""")
    assert best["params"]["x"] * best["params"]["y"] >= 0.3 and best["value"] < 1.15 and none == []


def test_python_takes_numbers_of_any_type_and_the_trial_it_gave(place):
    assert place.python("""
class Int64:
    def __init__(self, v): self.v = v
    def __index__(self): return self.v
    def __float__(self): return float(self.v)
class Float32:
    def __init__(self, v): self.v = v
    def __float__(self): return self.v
class Array:
    def tolist(self): return [64, 32]
class Bool:
    def tolist(self): return True
space = {"x": {"min": 0.0, "max": 1.0}, "k": {"min": Int64(1), "max": Int64(9)}, "l": {"values": [Array(), [1]]}, "b": {"values": [Bool(), False]}}
with drover.Study(space, seed=Int64(3), budget=Int64(9)) as study:
    ids = [t["id"] for t in study.ask(Int64(2))]
    study.report(Int64(0), Float32(0.5), step=Int64(1))
    study.tell(Int64(0), Float32(0.5))
    elsewhere = study.tell({"x": Float32(0.25), "k": Int64(3), "l": Array(), "b": Bool()}, Int64(7))
    trial = study.ask()[0]
    study.report(trial, 0.25, step=1)
    told = study.tell(trial, 0.125)
    try:
        study.tell(study.best(), 1.0)
    except ValueError as error:
        again = str(error)
    try:
        study.tell({"x": object()}, 1.0)
    except TypeError as error:
        unknown = str(error)
    print(json.dumps([ids, elsewhere, told == trial["id"], study.best()["id"] == told, "ended" in again, "not a value" in unknown]))
""") == [[0, 1], 2, True, True, True, True]
