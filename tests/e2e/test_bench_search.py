"""scripts/bench/regret: its arithmetic on results made by hand, its problems, and a run from searches to tables."""
import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "scripts/bench"
sys.path.insert(0, str(BENCH))
from search import report, runs, scores, spaces  # noqa: E402
from search.problems import problems, select  # noqa: E402


def bench(script, *args):
    return subprocess.run([sys.executable, str(BENCH / script), *map(str, args)], text=True, capture_output=True,
                          timeout=60, check=False, stdin=subprocess.DEVNULL)


def regret(*args):
    return bench("regret", *args)


def csv_of(path, rows):
    """(peer, problem, seed, value after 25 trials) each, as a file of results."""
    with open(path, "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(["peer", "problem", "seed", "batch", "budget", "seconds", "b25"])
        out.writerows([peer, problem, seed, 1, 25, 0.1, value] for peer, problem, seed, value in rows)
    return path


def objective(problem, share):
    """The value whose regret is `share`."""
    p = problems()[problem]
    return repr(p.best + share * (p.reference - p.best))


def table_of(tmp_path, regrets):
    """{(peer, problem): regrets of seeds 0, 1, …} -> the same, by way of a file."""
    path = csv_of(tmp_path / "r.csv", [(w, p, s, objective(p, v)) for (w, p), values in regrets.items()
                                       for s, v in enumerate(values)])
    return scores.regrets(runs.read([path]), select("core"), 1, 25)


def test_ranks_share_their_mean_where_values_are_equal():
    assert scores.ranks([[3.0, 1.0], [1.0, 1.0], [2.0, 5.0]]).tolist() == [[3, 1.5], [1, 1.5], [2, 3]]


def test_a_summary_made_by_hand(tmp_path):
    table = table_of(tmp_path, {("a", "branin"): [0.1, 0.3], ("b", "branin"): [0.2, 0.2],
                                ("a", "levy8"): [0.4, 0.4], ("b", "levy8"): [0.8, 0.9]})
    got = scores.summary(table, ["a", "b"], ["branin", "levy8"])
    assert got["a"]["rank"] == pytest.approx((1.5 + 1) / 2)  # branin: first, then second; levy8: first twice
    assert got["b"]["rank"] == pytest.approx((1.5 + 2) / 2)
    assert got["a"]["rank_median"] == pytest.approx((1.5 + 1) / 2)  # both medians on branin are 0.2
    assert got["a"]["geometric"] == pytest.approx((0.2 * 0.4) ** 0.5)
    assert got["a"]["mean"] == pytest.approx(0.3)
    assert got["b"]["geometric"] == pytest.approx((0.2 * 0.85) ** 0.5)


def test_only_seeds_that_both_ran_are_compared(tmp_path):
    table = table_of(tmp_path, {("a", "branin"): [0.1, 0.3, 0.9], ("b", "branin"): [0.2, 0.2]})
    assert scores.compare(table, "a", "b", "branin")["n"] == 2
    assert scores.summary(table, ["a", "b"], ["branin"])["a"]["mean"] == pytest.approx(0.2)
    assert scores.contestants(table, ["branin"], 3, ["a", "b"]) == ["a"]


def test_a_regret_of_nothing_is_taken_as_the_floor():
    assert scores.geometric([0.0, 1.0]) == pytest.approx(scores.FLOOR**0.5)


def test_a_bootstrap_interval_is_as_wide_as_theory_says():
    d = np.random.default_rng(3).normal(0.5, 1.0, 400)
    low, high = scores.bootstrap(d)
    wide = 1.6449 * d.std() / 400**0.5  # a normal mean's 90 %
    assert low == pytest.approx(d.mean() - wide, abs=0.1 * wide)
    assert high == pytest.approx(d.mean() + wide, abs=0.1 * wide)
    assert scores.bootstrap(np.full(20, 0.25)) == (0.25, 0.25)


def test_bootstrap_intervals_of_small_samples_cover_the_mean_nearly_as_often_as_they_say():
    rng = np.random.default_rng(5)
    some = (scores.bootstrap(rng.normal(0, 1, 20), resamples=1000) for _ in range(400))
    hits = sum(low <= 0 <= high for low, high in some)
    assert 0.82 <= hits / 400 <= 0.95


def test_worse_is_said_only_beyond_chance_and_pairing_is_what_shows_it(tmp_path):
    hard = np.linspace(0.1, 0.9, 20)  # seeds differ far more than the two do
    table = table_of(tmp_path, {("a", "branin"): hard + 0.01, ("b", "branin"): hard,
                                ("a", "levy8"): hard, ("b", "levy8"): hard + 0.01,
                                ("a", "ackley10"): hard, ("b", "ackley10"): hard[::-1]})
    assert scores.compare(table, "a", "b", "branin")["worse"]
    assert not scores.compare(table, "a", "b", "levy8")["worse"]
    assert not scores.compare(table, "a", "b", "ackley10")["worse"]


def test_the_report_names_the_problems_where_ours_is_worse(tmp_path):
    level = np.linspace(0.1, 0.2, 10)
    above = {("drover", "branin"): 0, ("drover", "levy8"): 0.1, ("x", "branin"): 0.1, ("x", "levy8"): 0,
             ("y", "branin"): 0.3, ("y", "levy8"): 0.3}
    table_of(tmp_path, {k: level + v for k, v in above.items()})
    text = report.report(runs.read([tmp_path / "r.csv"]), select("core"), "drover", 1, 25, 5)
    assert "Significantly worse than the second: levy8." in text
    assert any("second by mean rank (x)" in t for t in text)
    ranks = next(t for t in text if "paired by seed" in t)
    assert [c.strip(" *") for c in ranks.split("|")[2:5]] == ["1.50", "1.50", "3.00"]


def test_a_longer_run_counts_instead_of_a_shorter_one_and_a_later_one_of_an_earlier(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("peer,problem,seed,batch,budget,seconds,b25,b50\na,branin,0,1,50,1,5,4\na,branin,0,1,25,1,3,\n"
                    "a,branin,1,1,25,1,7,\na,branin,1,1,25,1,6,\n")
    got = {r["seed"]: r for r in runs.read([path, tmp_path / "none.csv"])}
    assert got[0][50] == 4 and got[0][25] == 5 and got[1][25] == 6


@pytest.mark.parametrize("name", [p.name for p in select("held")])
def test_an_optimum_is_where_it_is_said_to_be_and_nothing_is_below(name):
    p = problems()[name]
    for seed in range(3):
        f, at = p.make(seed)
        spaces.check(p.space, at)
        assert f(at) == pytest.approx(p.best, abs=1e-6 * (p.reference - p.best))
        rng, by = spaces.stream(name, seed, 4), {q["name"]: q for q in p.space}
        for _ in range(150):
            near = {k: spaces.from_unit(by[k], spaces.to_unit(by[k], v) + 0.01 * rng.standard_normal())
                    for k, v in at.items()}
            for params in (near, spaces.sample(p.space, rng)):
                assert f(params) >= p.best - 1e-9 * (p.reference - p.best)


def test_every_problem_has_its_regret_s_unit_and_a_regret_at_any_point():
    for p in problems().values():
        assert p.best < p.reference, p.name
        if p.needs is None:
            true, told = p.at(3)
            params = spaces.sample(p.space, spaces.stream(p.name, 8))
            assert p.regret(true(params)) > 0 and (told(params) == true(params)) == (p.noise == 0), p.name


def test_each_seed_has_its_own_optimum_and_always_the_same():
    for p in select("held"):
        assert p.make(0)[1] == p.make(0)[1] != p.make(1)[1], p.name


def test_under_noise_the_true_value_of_the_reported_trial_counts(monkeypatch):
    class Reports:
        """An optimiser that reports its first trial as the best, whatever it saw."""

        def __init__(self, *a):
            self.n, self.rng = 0, np.random.default_rng(2)

        def ask(self, k):
            self.n += k
            return [(self.n, spaces.sample(problems()["noisy_branin"].space, self.rng))]

        def tell(self, results):
            self.first = getattr(self, "first", results[0])

        def best(self):
            return self.first[0]

        def close(self):
            pass

    monkeypatch.setitem(runs.peers.PEERS, "reports", Reports)
    values, _ = runs.search("reports", "noisy_branin", 4, 25, 1)
    true, _ = problems()["noisy_branin"].make(4)
    first = true(spaces.sample(problems()["noisy_branin"].space, np.random.default_rng(2)))
    assert set(values.values()) == {first}


def test_an_answer_outside_of_the_space_is_an_error():
    space = [spaces.choice("c", "a", "b"), spaces.integer("n", 1, 3, when=("c", "a")), spaces.real("x", 0, 1)]
    spaces.check(space, {"c": "a", "n": 2, "x": 1.0})
    for bad in ({"c": "a", "x": 0.5}, {"c": "b", "n": 2, "x": 0.5}, {"c": "a", "n": 2.5, "x": 0.5},
                {"c": "b", "x": 1.01}, {"c": "z", "x": 0.5}, {"c": "b"}):
        with pytest.raises(ValueError):
            spaces.check(space, bad)


@pytest.mark.parametrize("method", ["random", "bayes"])
def test_a_run_of_drover_gives_rows_and_tables(tmp_path, method):
    path = tmp_path / "r.csv"
    args = ["--method", method, "--name", "ours", "--problems", "branin,tree", "--seeds", 2, "--budget", 25, "--csv",
            path]
    done = regret(*args)
    assert done.returncode == 0, done.stderr
    rows = runs.read([path])
    assert len(rows) == 4 and all(r[10] >= r[25] for r in rows)
    assert done.stdout.count("###") == 1  # no table where nothing of ours is
    assert "### 25 trials, one at a time" in done.stdout and "| branin |" in done.stdout
    assert runs.read([path]) == rows
    again = regret(*args, "--resume")  # nothing is left to run
    assert again.returncode == 0 and path.read_text().count("\n") == 5
    if method == "random":
        regret(*args)  # ours anew, in place of the old rows: the same seeds, the same trials
        assert [{**r, "seconds": 0} for r in runs.read([path])] == [{**r, "seconds": 0} for r in rows]


def test_peers_run_once_and_a_failing_program_is_told(tmp_path):
    path = tmp_path / "r.csv"
    args = ["--peers", "random", "--problems", "branin", "--seeds", 3, "--budget", 16, "--batch", 8, "--csv", path,
            "--with", tmp_path / "none.csv"]
    assert regret(*args).returncode == 0 and path.read_text().count("\n") == 4
    assert regret(*args).returncode == 0 and path.read_text().count("\n") == 4
    done = regret("--ours", "false", "--problems", "branin", "--seeds", 1, "--budget", 5, "--csv", path)
    assert done.returncode == 1 and "failed: drover on branin, seed 0" in done.stderr
    done = regret("--ours", "false", "--problems", "branin", "--seeds", 100, "--budget", 5, "--csv", path)
    assert done.stderr.count("failed: ") == 5  # it gives up
    done = regret("--problems", "branyn")
    assert done.returncode == 2 and "no problem or group 'branyn'" in done.stderr


def test_on_a_plateau_the_search_finds_what_even_points_find():
    done = bench("plateau", "--problems", "ball1,slab,words", "--seeds", 6, "--peers", "drover_bayes,drover_sobol")
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line[:3] in ("| b", "| s", "| w")]
    assert [r[0] for r in rows] == ["ball1", "slab", "words"]
    assert all(int(ours) >= int(even) - 1 for _, ours, even in rows), done.stdout
    assert bench("plateau", "--problems", "moon").returncode == 2


def test_with_outcome_constraints_the_search_comes_nearer_than_chance():
    done = bench("constrained", "--problems", "bend,corridor", "--seeds", 2, "--budget", 20)
    assert done.returncode == 0, done.stderr
    rows = {tuple(line.strip("| ").split(" | ")[:2]): float(line.split(" | ")[3]) for line in done.stdout.splitlines()[2:]}
    for problem in ("bend", "corridor"):
        assert rows[problem, "drover_bayes"] < 0.1 < rows[problem, "drover_random"], done.stdout
    assert bench("constrained", "--problems", "moon").returncode == 2


def test_the_best_feasible_points_of_the_problems_are_feasible_and_not_beaten():
    from search import constrained
    rng = np.random.default_rng(0)
    for space, bounds, measure, best, median in constrained.PROBLEMS.values():
        good = [value for value, got in (measure(spaces.sample(space, rng)) for _ in range(2000))
                if max(constrained.excesses(bounds, got)) <= 0]
        assert good and best < min(good) and abs(np.median(good) - median) < 0.15 * (median - best) + 3 * np.std(good) / len(good)**0.5


def test_latency_judges_by_its_limits(tmp_path):
    path = tmp_path / "l.csv"
    rows = [("drover", 20, 1000, 0.5, 0.05, 0.9, 0.09, 80), ("optuna_gp", 20, 1000, 5, 2, 6, 3, 900)]
    with open(path, "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(["peer", "dim", "n", "round", "asks", "first_s", "median_s", "worst_s", "mean_s", "rss_mib"])
        out.writerows([*r[:3], 0, 20, *r[3:]] for r in rows)
    done = bench("latency", "--table", "--csv", path)
    assert done.returncode == 0 and "NOT KEPT" not in done.stdout
    ours = next(x for x in done.stdout.splitlines() if "drover" in x)
    assert [c.strip() for c in ours.split("|")[-4:-1]] == ["10.0", "40.0", "33.3"]
    path.write_text(path.read_text().replace("0.9,0.09", "1.1,0.09"))
    done = bench("latency", "--table", "--csv", path)
    assert done.returncode == 1 and "1.1e+03 (limit 1000 ms: **NOT KEPT**)" in done.stdout


def test_latency_of_drover_is_measured(tmp_path):
    path = tmp_path / "l.csv"
    done = bench("latency", "--method", "random", "--dims", 3, "--n", 2000, "--asks", 4, "--rounds", 2, "--csv", path)
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    assert done.returncode == 0, done.stderr
    assert [r["asks"] for r in rows] == ["4", "4"] and all(1 < float(r["rss_mib"]) < 400 for r in rows)
