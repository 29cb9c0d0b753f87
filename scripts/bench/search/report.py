"""The tables of scripts/bench/regret, as markdown."""
import numpy as np

from . import scores

SCORES = (("mean rank, paired by seed", "rank", ".2f"), ("mean rank of the medians", "rank_median", ".2f"),
          ("geometric mean", "geometric", ".4g"), ("arithmetic mean", "mean", ".3f"))


def bold_lowest(values, texts):
    """The lowest in bold; None takes no part."""
    low = min((v for v in values if v is not None), default=None)
    return [f"**{t}**" if v is not None and v == low else t for v, t in zip(values, texts)]


def line(cells):
    return "| " + " | ".join(cells) + " |"


def regret_table(table, columns, who, names):
    """A row for each problem: median / mean (seeds). Those of `who`, the lowest of them in bold, on the seeds that they
    share; the other columns on what they have."""
    shared = scores.common(table, who, names)
    out = [line(["problem", *columns]), "|---" * (len(columns) + 1) + "|"]
    for p in names:
        values = []
        for w in columns:
            if w in who and p in shared:
                values.append(shared[p][who.index(w)])
            else:
                values.append(np.array(list(table.get((w, p), {}).values())))
        medians = [float(np.median(v)) if w in who and len(v) else None for w, v in zip(columns, values)]
        texts = [f"{np.median(v):.2g} / {v.mean():.2g} ({len(v)})" if len(v) else "" for v in values]
        out.append(line([p, *bold_lowest(medians, texts)]))
    return out


def score_rows(scored, columns):
    out = []
    for title, field, form in SCORES:
        values = [scored[w][field] if w in scored else None for w in columns]
        texts = ["" if v is None else format(v, form) for v in values]
        out.append(line([f"**{title}**", *bold_lowest(values, texts)]))
    return out


def duel_cells(c, other):
    if c is None:
        return ["", "", "", ""]
    return [f"{other} ({c['n']})", f"{c['ours']:.2g} : {c['other']:.2g}", f"{c['low']:+.2g} … {c['high']:+.2g}",
            "**yes**" if c["worse"] else "no"]


def duels(table, ours, columns, rival, names):
    """Ours against `rival`, and against whoever is strongest on each problem."""
    out = [line(["problem", "second (seeds)", "means, ours : its", "difference, 90 %", "worse", "strongest (seeds)",
                 "means, ours : its", "difference, 90 %", "worse"]), "|---" * 9 + "|"]
    worse = {"second": [], "strongest": []}
    for p in names:
        cells = [p]
        for title, other in (("second", rival), ("strongest", scores.strongest(table, ours, columns, p))):
            c = scores.compare(table, ours, other, p) if other else None
            cells += duel_cells(c, other)
            if c and c["worse"]:
                worse[title].append(p)
        out.append(line(cells))
    return out + [""] + [f"Significantly worse than the {k}: {', '.join(v) or 'nowhere'}." for k, v in worse.items()]


def by_group(table, columns, problems, min_seeds):
    """Paired mean rank and geometric mean within each group of problems."""
    groups = {p.group: [q.name for q in problems if q.group == p.group] for p in problems}
    if len(groups) < 2:
        return []
    out = ["", line(["mean rank / geometric mean", *columns]), "|---" * (len(columns) + 1) + "|"]
    for group, names in groups.items():
        scored = scores.summary(table, scores.contestants(table, names, min_seeds, columns), names)
        values = [scored[w]["geometric"] if w in scored else None for w in columns]
        texts = [f"{scored[w]['rank']:.2f} / {scored[w]['geometric']:.4g}" if w in scored else "" for w in columns]
        out.append(line([f"{group} ({len(names)})", *bold_lowest(values, texts)]))
    return out


def report(rows, problems, ours, batch, mark, min_seeds, wanted=None):
    """The lines of one mark's tables, over those of the problems that ours (or, without any of its rows, someone) has
    run. `wanted`: the optimisers to show; all by default."""
    table = scores.regrets(rows, problems, batch, mark)
    runners = [ours] if any(w == ours for w, _ in table) else {w for w, _ in table}
    problems = [p for p in problems if any((w, p.name) in table for w in runners)]
    names = [p.name for p in problems]
    columns = sorted({w for w, p in table if p in names and (not wanted or w in wanted)}, key=lambda w: (w != ours, w))
    if not columns:
        return []
    who = scores.contestants(table, names, min_seeds, columns)
    scored = scores.summary(table, who, names)
    title = "one at a time" if batch == 1 else f"{batch} at a time"
    out = [f"### {mark} trials, {title}: regret, median / mean (seeds)", "", *regret_table(table, columns, who, names),
           *score_rows(scored, columns), *by_group(table, columns, problems, min_seeds), "",
           f"Ranked: those with {min_seeds} or more seeds on each problem, on the seeds that all of them ran. In "
           f"geometric means a regret below {scores.FLOOR:g} counts as that.", ""]
    if ours in columns and len(columns) > 1:
        rival = scores.second(scored, ours) if ours in scored else None
        out += [f"{ours} against the second by mean rank ({rival or 'nobody is ranked'}), and against the strongest of "
                f"each problem: paired bootstrap of the mean difference, {scores.RESAMPLES} resamples.", "",
                *duels(table, ours, columns, rival, names), ""]
    return out
