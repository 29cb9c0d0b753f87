"""What is made of regrets: paired ranks, means, and who is worse beyond chance.

Regret is (objective - optimum) / (median random trial - optimum). `table`: {(optimiser, problem): {seed: regret}}."""
import numpy as np

FLOOR = 1e-6  # in geometric means: below it two regrets are alike, and an exact 0 has a logarithm
RESAMPLES, LEVEL = 10_000, 0.90
FEW = 5  # shared seeds: below it a comparison says nothing


def regrets(rows, problems, batch, mark):
    """The table of one batch size after `mark` trials."""
    some, table = {p.name: p for p in problems}, {}
    for r in rows:
        if r["batch"] == batch and mark in r and r["problem"] in some:
            table.setdefault((r["peer"], r["problem"]), {})[r["seed"]] = some[r["problem"]].regret(r[mark])
    return table


def ranks(values):
    """Ranks along the first axis, 1 the lowest; equals share their mean."""
    v = np.asarray(values, float)
    below = (v[None] < v[:, None]).sum(1)
    same = (v[None] == v[:, None]).sum(1)
    return 1 + below + (same - 1) / 2


def geometric(values):
    return float(np.exp(np.mean(np.log(np.maximum(values, FLOOR)))))


def bootstrap(differences, level=LEVEL, resamples=RESAMPLES, seed=0):
    """(low, high): the percentile interval of the mean (Efron & Tibshirani 1993, chapter 13)."""
    d = np.asarray(differences, float)
    picks = np.random.default_rng(seed).integers(0, len(d), (resamples, len(d)))
    low, high = np.quantile(d[picks].mean(1), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def paired(table, a, b, problem):
    """(regrets of a, regrets of b) on the seeds that both have, in one order."""
    seeds = sorted(set(table.get((a, problem), ())) & set(table.get((b, problem), ())))
    return tuple(np.array([table[who, problem][s] for s in seeds]) for who in (a, b))


def contestants(table, problems, min_seeds, who):
    """Those of `who` that have enough seeds on each of the problems."""
    return [w for w in who if all(len(table.get((w, p), ())) >= min_seeds for p in problems)]


def common(table, who, problems):
    """{problem: array (optimisers x seeds)} on the seeds that all of `who` have; without a problem that has none."""
    out = {}
    for p in problems:
        seeds = sorted(set.intersection(*(set(table.get((w, p), ())) for w in who))) if who else []
        if seeds:
            out[p] = np.array([[table[w, p][s] for s in seeds] for w in who])
    return out


def summary(table, who, problems):
    """{optimiser: {"rank", "rank_median", "geometric", "mean"}}. rank: its mean over seeds and then problems, of paired
    runs; rank_median: the rank of the problems' medians; geometric and mean: over problems, of the mean over seeds."""
    held = common(table, who, problems)
    if not held:
        return {}
    by_seed = np.mean([ranks(v).mean(1) for v in held.values()], 0)
    by_median = np.mean([ranks(np.median(v, 1)) for v in held.values()], 0)
    means = np.array([v.mean(1) for v in held.values()])
    return {w: {"rank": float(by_seed[i]), "rank_median": float(by_median[i]), "geometric": geometric(means[:, i]),
                "mean": float(means[:, i].mean())} for i, w in enumerate(who)}


def second(scores, ours):
    """The best of the others by mean rank; None where there is none."""
    others = [w for w in scores if w != ours]
    return min(others, key=lambda w: scores[w]["rank"]) if others else None


def strongest(table, ours, who, problem):
    """Who else has the lowest mean regret here, on the seeds shared with ours; None where nobody shares FEW."""
    means = {w: paired(table, ours, w, problem)[1] for w in who if w != ours}
    means = {w: v.mean() for w, v in means.items() if len(v) >= FEW}
    return min(means, key=means.get) if means else None


def compare(table, ours, other, problem):
    """{"n", "ours", "other": means, "low", "high" of ours - other, "worse": beyond chance}; None: no shared seeds."""
    a, b = paired(table, ours, other, problem)
    if not len(a):
        return None
    low, high = bootstrap(a - b)
    return {"n": len(a), "ours": float(a.mean()), "other": float(b.mean()), "low": low, "high": high, "worse": low > 0}
