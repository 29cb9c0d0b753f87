"""Search spaces as the ask/tell lines carry them, and problems on them.

A space is a list of parameters, parents before children:
    {"name": "lr", "type": "float", "low": 1e-4, "high": 0.1, "log": true}
    {"name": "layers", "type": "int", "low": 1, "high": 3}
    {"name": "act", "type": "cat", "choices": ["relu", "tanh"], "when": {"param": "layers", "in": [2, 3]}}"""
import math
import zlib

import numpy as np


def real(name, low, high, log=False, when=None):
    return _under(when, name=name, type="float", low=low, high=high, log=log)


def integer(name, low, high, log=False, when=None):
    return _under(when, name=name, type="int", low=low, high=high, log=log)


def choice(name, *choices, when=None):
    return _under(when, name=name, type="cat", choices=list(choices))


def _under(when, **p):
    if when:
        p["when"] = {"param": when[0], "in": list(when[1:])}
    return p


def box(d, low, high):
    return [real(f"x{i}", low, high) for i in range(d)]


def active(space, params):
    """Those parameters whose conditions hold."""
    out = {}
    for p in space:
        w = p.get("when")
        if w is None or (w["param"] in out and out[w["param"]] in w["in"]):
            out[p["name"]] = params[p["name"]]
    return out


def from_unit(p, u):
    u = min(max(float(u), 0.0), 1.0)
    if p["type"] == "cat":
        return p["choices"][min(int(u * len(p["choices"])), len(p["choices"]) - 1)]
    low, high = p["low"], p["high"]
    if p["type"] == "int":  # every integer has its share, the ends too
        a, b = low - 0.5, high + 0.5
        v = a * (b / a) ** u if p.get("log") else a + u * (b - a)
        return int(min(max(round(v), low), high))
    return math.exp(math.log(low) + u * math.log(high / low)) if p.get("log") else low + u * (high - low)


def to_unit(p, v):
    if p["type"] == "cat":
        return (p["choices"].index(v) + 0.5) / len(p["choices"])
    low, high = (p["low"] - 0.5, p["high"] + 0.5) if p["type"] == "int" else (p["low"], p["high"])
    return math.log(v / low) / math.log(high / low) if p.get("log") else (v - low) / (high - low)


def sample(space, rng):
    return active(space, {p["name"]: from_unit(p, rng.random()) for p in space})


def encode(space, params):
    """Numbers of a fixed length: units, categories one-hot, inactive ones 0.5 or zeros."""
    x = []
    for p in space:
        on = p["name"] in params
        if p["type"] == "cat":
            x += [1.0 if on and params[p["name"]] == c else 0.0 for c in p["choices"]]
        else:
            x.append(to_unit(p, params[p["name"]]) if on else 0.5)
    return np.array(x)


def check(space, params):
    """An answer outside of the space is an error, not a bad score."""
    want = {p["name"]: p for p in space}
    if set(active(space, {**{k: None for k in want}, **params})) != set(params):
        raise ValueError(f"{sorted(params)} are not the active parameters")
    for name, v in params.items():
        p = want[name]
        if p["type"] == "cat":
            good = v in p["choices"]
        else:
            slack = 1e-9 * max(1.0, abs(p["low"]), abs(p["high"]))
            if p.get("log"):
                slack = 1e-9 * p["low"]
            good = p["low"] - slack <= v <= p["high"] + slack and (p["type"] == "float" or int(v) == v)
        if not good:
            raise ValueError(f"{name}={v!r} is not in {p}")


def stream(*what):
    """A generator that depends on these words and numbers alone."""
    return np.random.default_rng([zlib.crc32(w.encode()) if isinstance(w, str) else w for w in what])


class Problem:
    """Something to minimise. `make(seed)` gives its function for one seed, params -> float, and where its optimum lies
    (None: not known); so each seed may have a shift and a rotation of its own. `best` is the optimum's value,
    `reference` the median of random trials: a regret of 1. `noise` is the standard deviation of what an optimiser
    is told, as a share of reference - best."""

    def __init__(self, name, group, space, make, best=None, noise=0.0, needs=None):
        self.name, self.group, self.space, self.make = name, group, space, make
        self.best, self.noise, self.needs, self.reference = best, noise, needs, None

    def regret(self, value):
        return max(value - self.best, 0.0) / (self.reference - self.best)

    def at(self, seed):
        """(true, told): the function, and what an optimiser is told of it, whose noise is the k-th call's own."""
        true, _ = self.make(seed)
        if not self.noise:
            return true, true
        rng, sd = stream(self.name, seed, 1), self.noise * (self.reference - self.best)
        return true, lambda params: true(params) + sd * rng.standard_normal()
