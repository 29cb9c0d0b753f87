"""All problems by name, each with its optimum and its regret's unit."""
import functools
import importlib.util
import json
from pathlib import Path

import numpy as np

from . import functions, tasks
from .spaces import sample, stream
from .start import die

DATA = Path(__file__).resolve().parents[1] / "data"
GROUPS = ("core", "hpo", "held", "trained")


@functools.lru_cache(None)
def _tables():
    with np.load(DATA / "tables.npz") as t:
        return dict(t)


def _stored(name):
    path = DATA / name
    return json.loads(path.read_text()) if path.exists() else {}


@functools.lru_cache(None)
def problems():
    """{name: Problem}, in the order in which they are shown."""
    optima, reference, out = _stored("optima.json"), _stored("reference.json"), {}
    for p in functions.core() + tasks.tasks(_tables) + functions.held():
        p.best = optima.get(p.name, p.best)
        p.reference = reference.get(p.name)
        out[p.name] = p
    return out


def select(words):
    """The problems that a comma-separated list of groups and names stands for."""
    every, out = problems(), {}
    for word in words.split(","):
        some = [p for p in every.values() if word in ("all", p.group, p.name)]
        if not some:
            die(f"no problem or group '{word}'", ", ".join(("all", *GROUPS, *every)))
        out.update((p.name, p) for p in some)
    return list(out.values())


def runnable(some):
    """(those that can run here, names of those that cannot)"""
    can = [p for p in some if p.needs is None or importlib.util.find_spec(p.needs)]
    return can, [p.name for p in some if p not in can]


def random_median(p, n):
    """The median of n random trials, over 20 seeds' instances: what a regret of 1 stands for."""
    rng, values = stream(p.name, 99), []
    for seed in range(20):
        f, _ = p.make(seed)
        values += [f(sample(p.space, rng)) for _ in range(n // 20)]
    return float(np.median(values))
