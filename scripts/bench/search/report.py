"""The tables of scripts/bench/regret, as markdown."""
import numpy as np

from . import scores


def bold_lowest(values, texts):
    low = min((v for v in values if v is not None), default=None)
    return [f"**{t}**" if v is not None and v == low else t for v, t in zip(values, texts)]


def line(cells):
    return "| " + " | ".join(cells) + " |"


def regret_table(table, columns, who, names):
    """A row for each problem: median / mean (seeds). Those of `who` on the seeds that they share, the other columns on
    what they have."""
    shared = scores.common(table, who, names)
    out = [line(["problem", *columns]), "|---" * (len(columns) + 1) + "|"]
    for p in names:
        values = []
        for w in columns:
            if w in who and p in shared:
                values.append(shared[p][who.index(w)])
            else:
                values.append(np.array(list(table.get((w, p), {}).values())))
        medians = [float(np.median(v)) if len(v) else None for v in values]
        texts = [f"{np.median(v):.2g} / {v.mean():.2g} ({len(v)})" if len(v) else "" for v in values]
        out.append(line([p, *bold_lowest(medians, texts)]))
    return out


def score_rows(scored, columns):
    out = []
    for title, field, form in (("mean rank, paired by seed", "rank", ".2f"), ("mean rank of the medians", "rank_median", ".2f"),
                               ("geometric mean", "geometric", ".4g"), ("arithmetic mean", "mean", ".3f")):
        values = [scored[w][field] if w in scored else None for w in columns]
        texts = ["" if v is None else format(v, form) for v in values]
        out.append(line([f"**{title}**", *bold_lowest(values, texts)]))
    return out


def cell(c, other):
    if c is None:
        return [other or "none", "", "", ""]
    return [f"{other} ({c['n']})", f"{c['ours']:.2g} : {c['other']:.2g}", f"{c['low']:+.2g} … {c['high']:+.2g}",
            "**yes**" if c["worse"] else "no"]


def versus(table, ours, who, rival, names):
    """Ours against the second overall, and against whoever is strongest on each problem."""
    out = [line(["problem", "second (seeds)", "mean regrets", "difference, 90 %", "worse", "strongest here (seeds)",
                 "mean regrets", "difference, 90 %", "worse"]), "|---" * 9 + "|"]
    worse = [[], []]
    for p in names:
        best = scores.strongest(table, ours, who, p)
        both = [(rival, scores.compare(table, ours, rival, p) if rival else None),
                (best, scores.compare(table, ours, best, p) if best else None)]
        if both[1][1] is None:
            continue
        for i, (_, c) in enumerate(both):
            if c and c["worse"]:
                worse[i].append(p)
        out.append(line([p, *cell(both[0][1], rival), *cell(both[1][1], best)]))
    return out, worse


def report(rows, problems, ours, batch, mark, min_seeds, wanted):
    """The lines of one mark's tables, and whether ours is behind: True, False, or None where nothing can be said."""
    table = scores.regrets(rows, problems, batch, mark)
    names = [p.name for p in problems if any(q == p.name for _, q in table)]
    if ours and any(w == ours for w, _ in table):
        names = [p for p in names if (ours, p) in table]
    if not names:
        return []
    columns = [w for w in (wanted or sorted({w for w, _ in table})) if any((w, p) in table for p in names)]
    if ours in columns:
        columns.insert(0, columns.pop(columns.index(ours)))
    who = scores.contestants(table, names, min_seeds, columns)
    scored = scores.summary(table, who, names)
    out = [f"### {mark} trials, {'one at a time' if batch == 1 else f'{batch} at a time'}: regret, median / mean (seeds)", ""]
    out += regret_table(table, columns, who, names) + score_rows(scored, columns)
    out += ["", f"Ranked: those with {min_seeds} or more seeds on each of the {len(names)} problems, on the seeds that all of "
                f"them ran. Geometric mean with regrets below {scores.FLOOR:g} taken as that.", ""]
    if ours in columns and len(columns) > 1:
        rival = scores.second(scored, ours) if ours in scored else None
        lines, (to_second, to_any) = versus(table, ours, columns, rival, names)
        out += [f"{ours} against the second by mean rank ({rival or 'none is ranked'}), and against the strongest on each problem "
                f"(paired bootstrap of the mean difference, {scores.RESAMPLES} resamples):", "", *lines, "",
                f"Significantly worse than the second: {', '.join(to_second) or 'nowhere'}; than the strongest: "
                f"{', '.join(to_any) or 'nowhere'}.", ""]
    return out
