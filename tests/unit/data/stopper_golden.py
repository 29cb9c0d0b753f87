"""Makes stopper_golden.h: what Optuna, Ray and W&B's open engine decide on random curves.

    python stopper_golden.py --sets 100 > stopper_golden.h      (needs optuna, ray[tune], sweeps)

A set's curves, their order and its settings follow from its seed by splitmix64, here and in
test_stopper.c alike; what is stored are the settings and at which reports a trial was stopped.
"""

import argparse
import math
import warnings
from importlib.metadata import version

warnings.filterwarnings("ignore")


class Rng:
    def __init__(self, seed):
        self.s = seed

    def u64(self):
        self.s = (self.s + 0x9E3779B97F4A7C15) & (2**64 - 1)
        z = self.s
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        return z ^ (z >> 31)

    def unit(self):
        return (self.u64() >> 11) * 2.0**-53

    def below(self, n):
        return self.u64() % n


class Curves:
    """Who reports what next. Every report draws four numbers, so both sides stay in step."""

    def __init__(self, seed):
        r = self.r = Rng(seed)
        self.maximize = r.below(2) == 1
        self.trials = 4 + r.below(21)
        workers = 1 + r.below(8)
        self.last = 5 + r.below(160)
        self.ties = r.below(3) == 0
        self.nans = 0.1 * (r.below(4) == 0)
        self.first = r.below(2)
        self.strides = [1, 1, 4, 25][r.below(4)]
        self.made = 0
        self.active = []
        for _ in range(workers):
            self.start()

    def start(self):
        if self.made < self.trials:
            a, b = self.r.unit(), 4 * self.r.unit()
            self.active.append({"id": self.made, "step": -1, "a": a, "b": b})
            self.made += 1

    def report(self):
        r, t = self.r, self.active[self.r.below(len(self.active))]
        stride = 1 + r.below(self.strides)
        t["step"] = self.first if t["step"] < 0 else t["step"] + stride
        v = t["a"] + t["b"] / (1 + t["step"]) + 0.2 * (r.unit() - 0.5)
        if self.ties:
            v = math.floor(v * 10) / 10
        if self.maximize:
            v = -v
        return t, (math.nan if r.unit() < self.nans else v)

    def ended(self, t):
        self.active.remove(t)
        self.start()


class Optuna:
    origin = "Optuna " + version("optuna") + " SuccessiveHalvingPruner"

    def __init__(self, c, r):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.o = optuna
        self.rule = {"min_iter": [0, 0, 1, 2, 5][r.below(5)], "max_iter": 0, "s": r.below(3) % 2,
                     "eta": 2 + r.below(3), "strict": 0}
        pruner = optuna.pruners.SuccessiveHalvingPruner(
            min_resource=self.rule["min_iter"] or "auto", reduction_factor=self.rule["eta"],
            min_early_stopping_rate=self.rule["s"])
        self.study = optuna.create_study(direction="maximize" if c.maximize else "minimize",
                                         pruner=pruner)
        self.t = {}

    def report(self, i, step, v):
        if i not in self.t:
            self.t[i] = self.study.ask()
        self.t[i].report(v, step)
        return self.t[i].should_prune()

    def end(self, i, stopped):
        state = self.o.trial.TrialState
        if stopped:
            self.study.tell(self.t[i], state=state.PRUNED)
        else:
            self.study.tell(self.t[i], 0.0, state=state.COMPLETE)


class Ray:
    origin = "Ray " + version("ray") + " AsyncHyperBandScheduler, brackets=1"

    def __init__(self, c, r):
        from ray.tune.schedulers import AsyncHyperBandScheduler

        self.rule = {"min_iter": 1 + r.below(5), "max_iter": 20 + r.below(150), "s": 0,
                     "eta": 2 + r.below(3), "strict": 0}
        self.s = AsyncHyperBandScheduler(
            time_attr="t", metric="v", mode="max" if c.maximize else "min",
            max_t=self.rule["max_iter"], grace_period=self.rule["min_iter"],
            reduction_factor=self.rule["eta"])
        self.t = {}

    def report(self, i, step, v):
        if i not in self.t:
            self.t[i] = type("T", (), {"trial_id": str(i)})()
            self.s.on_trial_add(None, self.t[i])
        return self.s.on_trial_result(None, self.t[i], {"t": step, "v": v}) == "STOP"

    def end(self, i, stopped):
        pass


class Wandb:
    origin = "sweeps " + version("sweeps") + " hyperband_stop_runs"

    def __init__(self, c, r):
        from sweeps import hyperband_stopping, run

        self.h, self.run = hyperband_stopping, run
        eta = [2, 3, 4, 1.5, 7][r.below(5)]
        rule = {"eta": eta, "strict": r.below(2)}
        if r.below(2):
            rule["min_iter"] = 1 + r.below(6)
        else:
            rule |= {"max_iter": 10 + r.below(100), "s": 1 + r.below(4)}
        self.rule = {"min_iter": 0, "max_iter": 0, "s": 0} | rule
        self.config = {
            "method": "random", "parameters": {"a": {"values": [1]}},
            "metric": {"name": "v", "goal": "maximize" if c.maximize else "minimize"},
            "early_terminate": {"type": "hyperband", **rule, "strict": bool(rule["strict"])}}
        self.t = {}

    def report(self, i, step, v):
        if i not in self.t:
            self.t[i] = self.run.SweepRun(name=str(i), state="running", history=[])
        self.t[i].history.append({"v": v})
        try:
            gone = self.h.hyperband_stop_runs(list(self.t.values()), self.config)
        except ValueError:  # no band at all: W&B refuses, we let go
            return False
        return any(r.name == str(i) for r in gone)

    def end(self, i, stopped):
        self.t[i].state = self.run.RunState("finished")


def play(engine, seed):
    c = Curves(seed)
    peer = engine(c, Rng(seed + 2**32))
    n, stops = 0, []
    while c.active:
        t, v = c.report()
        stopped = peer.report(t["id"], t["step"], v)
        if stopped:
            stops.append(n)
        if stopped or t["step"] >= c.last:
            peer.end(t["id"], stopped)
            c.ended(t)
        n += 1
    return peer.rule, n, stops


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--sets", type=int, default=100)
    a.add_argument("--only", default="")
    o = a.parse_args()
    print("/* Made by stopper_golden.py; not to be edited. */")
    for name, engine in (("optuna", Optuna), ("ray", Ray), ("wandb", Wandb)):
        if o.only and o.only != name:
            continue
        print(f"/* {engine.origin} */\nstatic const struct golden {name}_golden[] = {{")
        for seed in range(o.sets):
            r, n, stops = play(engine, seed)
            text = " ".join(map(str, stops))
            print(f'    {{{r["min_iter"]}, {r["max_iter"]}, {r["s"]}, {r["eta"]}, {r["strict"]}, '
                  f'{n}, "{text}"}},')
        print("};")


if __name__ == "__main__":
    main()
