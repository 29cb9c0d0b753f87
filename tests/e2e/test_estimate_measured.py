"""`drover estimate` against measured trainings: docs/measurements/estimate.md has the table, which this test holds against the code."""
import json
import re

import pytest
from kit_ranks import ROOT

GIB = 1 << 30
HERE = ROOT / "tests/e2e"
CONFIGS = {line["model"]: line["config"] for line in map(json.loads, (HERE / "estimate_models.jsonl").read_text().splitlines())}
TEXT = (ROOT / "docs/measurements/estimate.md").read_text()
ROWS = re.findall(r"^\| ([HTPA]) \| (\S+) \| `(.*)` \| (\S+) \| (\S+) \| (\S+) \| (\S+) \| (\S+) % \|$", TEXT, re.M)
WITHOUT = {"T": ("CUDA context", "fragmentation"), "A": ("CUDA context",)}


@pytest.mark.parametrize("row", ROWS, ids=[f"{r[0]}-{r[1]}-{i}" for i, r in enumerate(ROWS)])
def test_the_table_is_that_of_the_code(drover, tmp_path, row):
    source, model, options, *figures = row
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS[model]))
    done = drover.run("estimate", tmp_path / "config.json", *options.split(), "--gpu", "80G", "--json")
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    ends = [(got[end] - sum(p[end] for p in got["parts"] if p["name"] in WITHOUT.get(source, ()))) / GIB
            for end in ("low_bytes", "expected_bytes", "high_bytes")]
    measured, *told, error = map(float, figures)
    assert ends == pytest.approx(told, abs=0.006) and error == pytest.approx(100 * (ends[1] / measured - 1), abs=0.06)
    assert ends[0] <= measured <= ends[2]


def test_expected_is_near_most_measurements():
    errors = sorted(abs(float(row[-1])) for row in ROWS)
    assert len(errors) >= 31 and errors[len(errors) * 2 // 3] <= 10
    within = [sum(e <= limit for e in errors) for limit in (10, 15)]
    assert f"within 10 % for {within[0]} and within\n15 % for {within[1]} of them" in TEXT and within[1] >= 0.85 * len(errors)
