"""Searches, many at a time, and the file of their results.

A row is one search: optimiser, problem, seed, batch, budget, seconds spent inside of the optimiser, and for each mark
the objective of the best trial among the first so many (under noise: the true objective of the one that the optimiser
reports, else of the one that looked best). Of two rows of one search that with the larger budget counts, else the
later."""
import collections
import csv
import multiprocessing
import sys
import time
from pathlib import Path

from . import peers
from .problems import problems
from .spaces import check

GIVE_UP = 5
MARKS = (10, 24, 25, 48, 50, 96, 100)
KEYS = ("peer", "problem", "seed", "batch", "budget", "seconds")


def search(who, name, seed, budget, batch):
    """({mark: objective of the best so far}, seconds inside of the optimiser)"""
    problem = problems()[name]
    true, told = problem.at(seed)
    seen, best, at_mark, inside = {}, None, {}, 0.0

    def timed(f, *args):
        nonlocal inside
        began = time.perf_counter()
        out = f(*args)
        inside += time.perf_counter() - began
        return out

    o = timed(peers.make, who, problem.space, seed, budget, batch)
    n = 0
    while n < budget:
        results, trials = [], timed(o.ask, min(batch, budget - n))
        if not trials:  # a finite space is exhausted
            break
        for i, params in trials:
            check(problem.space, params)
            y = told(params)
            results.append((i, params, y))
            seen[i] = y, params
            n += 1
            if best is None or y < seen[best][0]:
                best = i
            at_mark[n] = best
        timed(o.tell, results)
        if problem.noise and n in MARKS:
            reported = o.best()
            at_mark[n] = best if reported is None else reported
    o.close()
    return {m: true(seen[at_mark[min(m, n)]][1]) for m in MARKS if m <= budget}, inside


def _one(job):
    label, who, name, seed, budget, batch = job
    row = {"peer": label, "problem": name, "seed": seed, "batch": batch, "budget": budget}
    try:
        values, inside = search(who, name, seed, budget, batch)
    except Exception as e:  # a peer that fails is a result too, and others go on
        return row, f"{type(e).__name__}: {e}"
    return row | {"seconds": f"{inside:.3f}"} | {f"b{m}": f"{v:.12g}" for m, v in values.items()}, None


def run(jobs, path, workers, minutes):
    """Does the jobs, (label, who, problem, seed, budget, batch) each, and appends a row for each to the file. Returns
    how many failed; each of those is told on stderr, and GIVE_UP of an optimiser before any that ended well stop it
    all. What runs after so many minutes is ended."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = not path.exists() or path.stat().st_size == 0
    fields = list(KEYS) + [f"b{m}" for m in MARKS]
    if not fresh:
        with open(path, newline="") as f:
            fields = next(csv.reader(f))
    end, failed, ended = time.monotonic() + 60 * minutes, collections.Counter(), set()
    processes = multiprocessing.get_context("fork")
    with open(path, "a", newline="") as f, processes.Pool(workers, maxtasksperchild=10) as pool:
        out = csv.DictWriter(f, fields, restval="", extrasaction="ignore")
        if fresh:
            out.writeheader()
        for row, error in pool.imap_unordered(_one, jobs):
            if error:
                failed[row["peer"]] += 1
                print(f"failed: {row['peer']} on {row['problem']}, seed {row['seed']}: {error}", file=sys.stderr)
            else:
                ended.add(row["peer"])
                out.writerow(row)
                f.flush()
            if time.monotonic() > end or (failed[row["peer"]] >= GIVE_UP and row["peer"] not in ended):
                break
    return failed.total()


def read(paths):
    """Rows of all files that there are, the one that counts for each search, numbers as numbers."""
    rows = {}
    for path in map(Path, paths):
        if not path.exists():
            continue
        with open(path, newline="") as f:
            for r in csv.DictReader(f):
                row = {"peer": r["peer"], "problem": r["problem"], "seed": int(r["seed"]), "batch": int(r["batch"]),
                       "budget": int(r["budget"]), "seconds": float(r["seconds"])}
                row |= {m: float(r[f"b{m}"]) for m in MARKS if r.get(f"b{m}")}
                old = rows.get(key(row))
                if old is None or row["budget"] >= old["budget"]:
                    rows[key(row)] = row
    return list(rows.values())


def write(path, rows):
    """The rows in a fixed order, numbers with 9 digits: a file to keep."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as f:
        out = csv.writer(f)
        out.writerow([*KEYS, *(f"b{m}" for m in MARKS)])
        for r in sorted(rows, key=key):
            out.writerow([r[k] for k in KEYS] + [format(r[m], ".9g") if m in r else "" for m in MARKS])


def key(row):
    return row["peer"], row["problem"], row["seed"], row["batch"]


def forget(path, label, names, batch):
    """Takes the rows of one optimiser on some problems out of a file: they are about to be made anew."""
    if not path.exists():
        return
    with open(path, newline="") as f:
        reader = csv.DictReader(f)
        rows, fields = list(reader), reader.fieldnames
    keep = [r for r in rows if not (r["peer"] == label and r["problem"] in names and int(r["batch"]) == batch)]
    if len(keep) < len(rows):
        with open(path, "w", newline="") as f:
            out = csv.DictWriter(f, fields)
            out.writeheader()
            out.writerows(keep)
