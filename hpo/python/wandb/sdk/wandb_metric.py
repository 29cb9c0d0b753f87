"""Definitions by define_metric(): the x-axis of a metric, and the values that the summary keeps."""
import math

from wandb import errors

SUMMARIES = ("min", "max", "mean", "best", "last", "first", "copy", "none")


class Metric:
    def __init__(self, name, step_metric, summary, goal):
        self.name, self.step_metric, self.summary, self.goal = name, step_metric, summary, goal


class Aggregate:
    """Aggregates a metric's finite values: min, max, mean, …"""

    def __init__(self, metric):
        best = "max" if (metric.goal or "").startswith("max") else "min"
        self.wanted = [(word, best if word == "best" else word) for word in metric.summary]
        self.n, self.known = 0, {}

    def add(self, x):
        """Adds a value. Returns the aggregates for the summary."""
        if math.isfinite(x):
            self.n += 1
            k = self.known
            k["first"] = k.get("first", x)
            k["min"], k["max"] = min(k.get("min", x), x), max(k.get("max", x), x)
            k["mean"] = k.get("mean", 0.0) + (x - k.get("mean", 0.0)) / self.n
        self.known["last"] = self.known["copy"] = x
        return {word: self.known[from_] for word, from_ in self.wanted if from_ in self.known}


class Metrics:
    """All definitions. An exact name precedes a glob, a longer glob precedes a shorter one."""

    def __init__(self):
        self.defined, self.found, self.axes, self.sums = {}, {}, set(), {}

    def define(self, name, step_metric, summary, goal, overwrite):
        if not isinstance(name, str) or not name:
            raise errors.Error("Unhandled define_metric() arg: name")
        if "*" in name[:-1]:
            raise errors.Error("Unhandled define_metric() arg: name (glob suffixes only): " + name)
        if isinstance(step_metric, Metric):
            step_metric = step_metric.name
        words = [w.strip() for w in summary.split(",")] if summary else []
        for word in words:
            if word not in SUMMARIES:
                raise errors.Error(f"Unhandled define_metric() arg: summary op: {word}")
        if goal and goal[:3] not in ("min", "max"):
            raise errors.Error(f"Unhandled define_metric() arg: goal: {goal}")
        old = None if overwrite else self.defined.get(name)
        m = Metric(name, step_metric or old and old.step_metric, words or (old.summary if old else []),
                   goal or old and old.goal)
        self.defined[name] = m
        self.found.clear()
        if step_metric:
            self.axes.add(step_metric)
        return m

    def of(self, name):
        if name not in self.found:
            globs = [d for d in self.defined if d.endswith("*") and name.startswith(d[:-1])]
            best = name if name in self.defined else max(globs, key=len, default=None)
            self.found[name] = self.defined.get(best)
        return self.found[name]

    def axis(self, name):
        """Returns the name of a metric's x-axis; None: the step of the run. An axis is its own axis."""
        if name in self.axes:
            return name
        m = self.of(name)
        return m.step_metric if m else None

    def summary(self, name, x):
        """Returns what the summary keeps of a metric after the value `x`."""
        m = self.of(name)
        if not m or not m.summary:
            return x
        if name not in self.sums:
            self.sums[name] = Aggregate(m)
        return self.sums[name].add(x)
