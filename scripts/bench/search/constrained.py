"""Four problems with constraints on what a trial measures, and the searches that know of them.

A problem is its space, the bounds {metric: [low or None, high or None]}, measure(params) -> (value, {metric: number}),
the value of its best feasible point, to which SciPy's differential evolution came from each of eight seeds, and the
median of 20,000 random trials that are feasible."""
import math

from . import peers
from .functions import branin
from .spaces import box, choice, integer, real


def bend(p):
    """A line over a wavy border: two constraints, and four local optima on them."""
    x, y = p["x0"], p["x1"]
    return x + y, {"a": x + 2 * y + math.sin(2 * math.pi * (x * x - 2 * y)) / 2, "b": x * x + y * y}


def corridor(p):
    """Both bounds of one metric count: 6 % of the space are allowed."""
    x = [p[f"x{i}"] for i in range(4)]
    return sum((v - 0.8) ** 2 for v in x), {"gap": x[0] - x[1] + 0.2 * math.sin(6 * x[2]), "sum": x[2] + x[3]}


def island(p):
    """Branin's function where 2 % of the plane are allowed, away from its three valleys."""
    return branin([p["x0"], p["x1"]]), {"d": math.dist((p["x0"], p["x1"]), (4.0, 9.0))}


def network(p):
    """A loss that falls with size, under limits on latency and memory."""
    size, half = p["width"] * p["width"] * p["depth"], p["type"] == "fp16"
    lr = math.log10(p["lr"]) + 2.2 + 0.1 * p["depth"] - 0.3
    loss = 4 * size ** -0.15 + 0.15 * lr * lr + 0.02 * half + 0.004 * (p["depth"] - 6) ** 2
    ms = 1 + 0.6 * p["depth"] + size / (60000 if half else 30000)
    return loss, {"ms": ms, "gib": size * (2 if half else 4) / 2e5 + 0.002 * p["batch"] * p["width"] / 16}


PROBLEMS = {
    "bend": (box(2, 0.0, 1.0), {"a": [1.5, None], "b": [None, 1.5]}, bend, 0.599788, 1.2504),
    "corridor": (box(4, 0.0, 1.0), {"gap": [-0.1, 0.1], "sum": [None, 0.8]}, corridor, 0.320512, 0.8967),
    "island": ([real("x0", -5.0, 10.0), real("x1", 0.0, 15.0)], {"d": [None, 1.2]}, island,
               34.922158, 56.334),
    "network": ([real("lr", 1e-5, 1.0, log=True), integer("width", 16, 1024, log=True), integer("depth", 1, 12),
                 integer("batch", 8, 512, log=True), choice("type", "fp32", "fp16")],
                {"ms": [None, 12.0], "gib": [None, 4.0]}, network, 0.603385, 1.3323),
}


def excesses(bounds, got):
    """By how much each bound is broken; 0 or less: it is kept."""
    return [max((v - high) if high is not None else -math.inf, (low - v) if low is not None else -math.inf)
            for name, (low, high) in bounds.items() for v in [got[name]]]


class Optuna(peers.Optuna):
    def __init__(self, space, bounds, seed, kind):
        super().__init__(space, seed, None, 1, kind)
        of = self.optuna.samplers
        sampler = {"gp": of.GPSampler, "tpe": of.TPESampler}[kind]
        self.study = self.optuna.create_study(sampler=sampler(seed=seed, constraints_func=lambda t: t.user_attrs["excess"]))
        self.bounds = bounds

    def tell_one(self, i, params, value, got):
        self.live[i].set_user_attr("excess", excesses(self.bounds, got))
        self.tell([(i, params, value)])


class Ax(peers.Random):
    """Ax's Client at its defaults. Its rules are read by sympy, which knows names such as `sum`."""

    def __init__(self, space, bounds, seed):
        super().__init__(space, seed, None, 1)
        import logging
        import torch
        from ax.api.client import Client
        from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
        torch.set_num_threads(1)
        logging.getLogger("ax").setLevel(logging.ERROR)
        self.client = Client(random_seed=seed)
        self.client.configure_experiment(parameters=[
            ChoiceParameterConfig(name=p["name"], values=p["choices"], parameter_type="str") if p["type"] == "cat" else
            RangeParameterConfig(name=p["name"], bounds=(p["low"], p["high"]), parameter_type=p["type"],
                                 scaling="log" if p.get("log") else "linear") for p in space])
        rules = [f"m_{name} {sign} {side}" for name, sides in bounds.items()
                 for sign, side in zip((">=", "<="), sides) if side is not None]
        self.client.configure_optimization(objective="-value", outcome_constraints=rules)

    def ask(self, k):
        return list(self.client.get_next_trials(max_trials=k).items())

    def tell_one(self, i, params, value, got):
        self.client.complete_trial(trial_index=i, raw_data={"value": value, **{f"m_{k}": v for k, v in got.items()}})


class Drover(peers.Ours):
    def __init__(self, command, space, bounds, seed, method):
        limits = [{"metric": name, **{k: v for k, v in zip(("min", "max"), sides) if v is not None}}
                  for name, sides in bounds.items()]
        super().__init__(command, space, seed, 1, 1, method, outcome_constraints=limits)

    def tell_one(self, i, params, value, got):
        self.call(op="tell", results=[{"id": i, "value": value, "values": got}])


def make(who, ours, space, bounds, seed):
    if who.startswith("drover_"):
        return Drover(ours, space, bounds, seed, who.removeprefix("drover_"))
    return Ax(space, bounds, seed) if who == "ax" else Optuna(space, bounds, seed, who.removeprefix("optuna_"))


def search(who, ours, name, seed, budget):
    """The regret after each trial, 1 if no trial was feasible or the best is no better than the median one; and the
    number of feasible trials."""
    space, bounds, measure, best, median = PROBLEMS[name]
    optimiser, least, out, feasible = make(who, ours, space, bounds, seed), math.inf, [], 0
    try:
        for _ in range(budget):
            (i, params), = optimiser.ask(1)
            value, got = measure(params)
            if max(excesses(bounds, got)) <= 0:
                feasible, least = feasible + 1, min(least, value)
            optimiser.tell_one(i, params, value, got)
            out.append(min(1.0, (least - best) / (median - best)))
    finally:
        optimiser.close()
    return out, feasible
