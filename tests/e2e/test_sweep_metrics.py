"""A value per metric: any sequence of reports means the same in the store, `show`, CSV, the exports and the page's API."""
import csv
import io
import json
import math
import random

import pytest
import test_exchange
from serve_kit import Server
from sweep_kit import Place

METRICS = {"loss": "minimize", "acc": "maximize", "train": None}


def reports(rng):
    """Reports of metrics with steps of their own, which repeat, fall and grow; some values are not finite."""
    at = {name: rng.randrange(20) for name in METRICS}
    out = []
    for _ in range(rng.randrange(8, 40)):
        for name in rng.sample(sorted(METRICS), rng.choice((1, 1, 1, 2))):
            at[name] = max(0, at[name] + rng.choice((1, 1, 1, 0, -1, -3)))
            value = rng.choice((math.nan, math.inf)) if rng.random() < .1 else rng.randrange(1, 1000) / 8
            out.append((at[name], name, value))
    return out + [(3, "loss", rng.randrange(1, 1000) / 8), (4, "acc", 0.5)]  # so that the trial is done


class Reference:
    """The rule: each report counts, and a step of the curve has its newest report."""

    def __init__(self, all_reports):
        self.last, self.curve, self.seen, self.newest = {}, {}, {}, {}
        for step, name, value in all_reports:
            self.last[name] = value
            if math.isfinite(value):
                self.curve.setdefault(name, {})[step] = value
                seen = self.seen.setdefault(name, [])
                seen[len(seen) - (step == self.newest.get(name)):] = [value]  # the newest step again: a correction
                self.newest[name] = step

    def points(self, name):
        return [[float(s), v] for s, v in sorted(self.curve.get(name, {}).items())]

    def value(self, of):
        return min(self.seen["loss"]) if of == "best" else self.seen["loss"][-1]


def number(x):
    return float(x) if isinstance(x, str) else x


def same(a, b):
    return a == b or (math.isnan(a) and math.isnan(b))


def agrees(want, trial, of):
    assert trial["value"] == want.value(of)
    assert set(trial["metrics"]) == set(want.last)
    assert all(same(number(trial["metrics"][name]), value) for name, value in want.last.items())
    assert trial["steps"] == len(want.points("loss"))


@pytest.fixture(name="place")
def a_place(tmp_path):
    p = Place(tmp_path)
    yield p
    p.clean_up()


@pytest.mark.parametrize("of", ("best", "last"))
def test_every_view_has_the_last_the_best_and_the_curve_of_each_metric(tmp_path, place, of):
    rng = random.Random(of)
    all_trials = [reports(rng) for _ in range(8)]
    wants = [Reference(t) for t in all_trials]
    (tmp_path / "r.json").write_text(json.dumps(all_trials))
    (tmp_path / "t.py").write_text("import json, sys\nfor step, name, value in json.load(open('r.json'))[int(sys.argv[1].split('=')[1])]:\n"
                                   "    print(json.dumps({'step': step, name: value}))\n")
    (tmp_path / "s.yaml").write_text(
        "command: [python3, t.py, '${args}']\nmethod: grid\nmetrics: [{name: loss}, {name: acc, goal: maximize}]\n"
        f"drover: {{value: {of}}}\nparameters: {{x: {{values: [0, 1, 2, 3, 4, 5, 6, 7]}}}}\n")
    done = place.run("s.yaml")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("again at step") == 1, done.stderr
    shown = place.show("s")
    for t in shown["trials"]:
        assert t["state"] == "done"
        agrees(wants[t["params"]["x"]], t, of)
    best = min(range(8), key=lambda i: wants[i].value(of))
    assert shown["best"]["value"] == wants[best].value(of)
    x_of = {t["id"]: t["params"]["x"] for t in shown["trials"]}
    for i in range(8):
        one = json.loads(place.run("show", "s", str(i), "--json").stdout)
        want = wants[x_of[i]]
        agrees(want, one, of)
        assert {name: [[float(s), v] for s, v in c] for name, c in one["curves"].items() if c} == \
            {name: want.points(name) for name in METRICS if want.points(name)}
    rows = list(csv.DictReader(io.StringIO(place.run("show", "s", "--csv").stdout)))
    for row in rows:
        want = wants[x_of[int(row["trial"])]]
        assert float(row["value"]) == want.value(of)
        assert all(same(float(row[name]), value) for name, value in want.last.items())
        assert int(row["steps"]) == len(want.points("loss"))
    lines_agree(place, wants, x_of, of)
    served_agrees(place, wants, x_of, of)


def lines_agree(place, wants, x_of, of):
    """`drover export --jsonl`, and what comes back from it by `drover import`."""
    test_exchange.drover(place, "export", "s", "--jsonl", "l.jsonl")
    lines = [json.loads(line) for line in (place.path / "l.jsonl").read_text().splitlines()]
    for t in lines:
        agrees(wants[x_of[t["id"]]], t, of)
    test_exchange.drover(place, "import", "--jsonl", "l.jsonl", "--name", "back")
    for t in place.show("back")["trials"]:
        agrees(wants[t["params"]["x"]], t, of)


def served_agrees(place, wants, x_of, of):
    server = Server(place, "s")
    head, c = server.columns("/api/s/cols")
    for row, trial in enumerate(c["id"]):
        want = wants[x_of[trial]]
        assert c["value"][row] == want.value(of)
        assert c["steps"][row] == len(want.points("loss"))
        for k, name in enumerate(head["metrics"]):
            seen = want.seen.get(name, [])
            got = [c[f"m{k}.{part}"][row] for part in ("min", "max", "last")]
            expect = [min(seen, default=math.nan), max(seen, default=math.nan), want.last.get(name, math.nan)]
            assert all(map(same, got, expect)), (trial, name, got, expect)
