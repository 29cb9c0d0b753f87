"""Every optimiser behind one interface, each at its own defaults.

    o = make("optuna_tpe", space, seed, budget, batch)
    o.ask(k) -> [(id, params)]     o.tell([(id, params, value)])     o.best() -> id of the reported best, or None

An id that is None in tell() stands for an observation that the optimiser did not ask for. A package is imported when
something of its own is made: Optuna, BoTorch, HEBO (with numpy < 2), scikit-optimize, SciPy for Sobol points."""
import json
import shlex
import subprocess

import numpy as np

from .spaces import active, encode, from_unit, sample


class Random:
    def __init__(self, space, seed, budget, batch):
        self.space, self.rng, self.n = space, np.random.default_rng(seed), 0

    def ask(self, k):
        out = [(self.n + i, sample(self.space, self.rng)) for i in range(k)]
        self.n += k
        return out

    def tell(self, results):
        pass

    def best(self):
        return None

    def close(self):
        pass


class Sobol(Random):
    def __init__(self, space, seed, budget, batch):
        super().__init__(space, seed, budget, batch)
        from scipy.stats import qmc
        self.points = qmc.Sobol(len(space), scramble=True, seed=seed)

    def ask(self, k):
        rows = self.points.random(k)
        self.n += k
        return [(self.n - k + i, active(self.space, {p["name"]: from_unit(p, u) for p, u in zip(self.space, row)}))
                for i, row in enumerate(rows)]


class Optuna(Random):
    """Conditions are its own: parameters are asked for as they become active."""

    def __init__(self, space, seed, budget, batch, kind):
        super().__init__(space, seed, budget, batch)
        import optuna
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        of = optuna.samplers
        sampler = {"tpe": lambda: of.TPESampler(seed=seed), "gp": lambda: of.GPSampler(seed=seed),
                   "tpe_group": lambda: of.TPESampler(seed=seed, multivariate=True, group=True),
                   "tpe_uni": lambda: of.TPESampler(seed=seed, multivariate=False),
                   "cmaes": lambda: of.CmaEsSampler(seed=seed)}[kind]()
        self.optuna, self.study, self.live = optuna, optuna.create_study(sampler=sampler), {}

    def _distribution(self, p):
        d = self.optuna.distributions
        if p["type"] == "cat":
            return d.CategoricalDistribution(p["choices"])
        kind = d.IntDistribution if p["type"] == "int" else d.FloatDistribution
        return kind(p["low"], p["high"], log=bool(p.get("log")))

    def _params(self, t):
        got = {}
        for p in self.space:
            w = p.get("when")
            if w is None or got.get(w["param"]) in w["in"]:
                if p["type"] == "cat":
                    got[p["name"]] = t.suggest_categorical(p["name"], p["choices"])
                else:
                    suggest = t.suggest_int if p["type"] == "int" else t.suggest_float
                    got[p["name"]] = suggest(p["name"], p["low"], p["high"], log=bool(p.get("log")))
        return got

    def ask(self, k):
        out = []
        for _ in range(k):
            t = self.study.ask()
            out.append((t.number, self._params(t)))
            self.live[t.number] = t
        return out

    def tell(self, results):
        for i, params, y in results:
            if i in self.live:
                self.study.tell(self.live.pop(i), y)
                continue
            kinds = {p["name"]: self._distribution(p) for p in self.space if p["name"] in params}
            self.study.add_trial(self.optuna.trial.create_trial(params=params, distributions=kinds, value=y))

    def best(self):
        return self.study.best_trial.number


class BoTorch(Sobol):
    """SingleTaskGP + LogEI (qLogEI for batches). Categories are relaxed to one-hot and rounded, inactive parameters
    filled in: the usual recipe. First 2d Sobol points, at least 5, at most 10."""

    def __init__(self, space, seed, budget, batch):
        super().__init__(space, seed, budget, batch)
        import torch
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self.torch, self.x, self.y = torch, [], []
        self.first = min(10, max(5, 2 * len(space)))
        self.width = sum(len(p["choices"]) if p["type"] == "cat" else 1 for p in space)

    def _decode(self, x):
        params, i = {}, 0
        for p in self.space:
            wide = len(p["choices"]) if p["type"] == "cat" else 1
            params[p["name"]] = p["choices"][int(np.argmax(x[i:i + wide]))] if wide > 1 else from_unit(p, x[i])
            i += wide
        return active(self.space, params)

    def ask(self, k):
        if len(self.y) < self.first:
            return super().ask(k)
        from botorch.acquisition import LogExpectedImprovement, qLogExpectedImprovement
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import SingleTaskGP
        from botorch.optim import optimize_acqf
        from gpytorch.mlls import ExactMarginalLogLikelihood
        t = self.torch
        x, y = t.tensor(np.array(self.x), dtype=t.double), -t.tensor(self.y, dtype=t.double)[:, None]
        model = SingleTaskGP(x, y)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        gain = (LogExpectedImprovement if k == 1 else qLogExpectedImprovement)(model, best_f=y.max())
        sides = t.tensor([[0.0] * self.width, [1.0] * self.width], dtype=t.double)
        found, _ = optimize_acqf(gain, sides, q=k, num_restarts=10, raw_samples=512, sequential=True)
        self.n += k
        return [(self.n - k + i, self._decode(found[i].numpy())) for i in range(k)]

    def tell(self, results):
        for _, params, y in results:
            self.x.append(encode(self.space, params))
            self.y.append(y)


class Hebo(Random):
    def __init__(self, space, seed, budget, batch):
        super().__init__(space, seed, budget, batch)
        import pandas
        import torch
        from hebo.design_space.design_space import DesignSpace
        from hebo.optimizers.hebo import HEBO
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        np.random.seed(seed)
        kinds = {("float", False): "num", ("float", True): "pow", ("int", False): "int", ("int", True): "pow_int"}

        def one(p):
            if p["type"] == "cat":
                return {"name": p["name"], "type": "cat", "categories": p["choices"]}
            kind = kinds[p["type"], bool(p.get("log"))]
            base = {"base": 10} if p.get("log") else {}
            return {"name": p["name"], "type": kind, "lb": p["low"], "ub": p["high"], **base}

        self.frame, self.full = pandas.DataFrame, {}
        self.search = HEBO(DesignSpace().parse([one(p) for p in space]), scramble_seed=seed)

    def ask(self, k):
        out, plain = [], {"int": int, "float": float}
        for _, row in self.search.suggest(n_suggestions=k).iterrows():
            self.full[self.n] = {p["name"]: plain.get(p["type"], lambda v: v)(row[p["name"]]) for p in self.space}
            out.append((self.n, active(self.space, self.full[self.n])))
            self.n += 1
        return out

    def tell(self, results):
        rows = [self.full.get(i, params) for i, params, _ in results]
        self.search.observe(self.frame(rows), np.array([[y] for _, _, y in results]))


class Skopt(Random):
    """What gp_minimize runs: Optimizer("GP"), gp_hedge, 10 first points; batches by its default, cl_min."""

    def __init__(self, space, seed, budget, batch):
        super().__init__(space, seed, budget, batch)
        from skopt import Optimizer
        from skopt.space import Categorical, Integer, Real

        def one(p):
            if p["type"] == "cat":
                return Categorical(p["choices"])
            prior = "log-uniform" if p.get("log") else "uniform"
            return (Integer if p["type"] == "int" else Real)(p["low"], p["high"], prior=prior)

        self.full, self.search = {}, Optimizer([one(p) for p in space], "GP", n_initial_points=10, random_state=seed)

    def ask(self, k):
        out = []
        for x in [self.search.ask()] if k == 1 else self.search.ask(n_points=k):
            self.full[self.n] = x
            plain = [v.item() if hasattr(v, "item") else v for v in x]
            out.append((self.n, active(self.space, {p["name"]: v for p, v in zip(self.space, plain)})))
            self.n += 1
        return out

    def tell(self, results):
        self.search.tell([self.full.get(i) or [params[p["name"]] for p in self.space] for i, params, _ in results],
                         [y for _, _, y in results])


class Ours:
    """`drover suggest`, or another program that speaks its lines: one process a search."""

    def __init__(self, command, space, seed, budget, batch, method, **more):
        self.process = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.call(op="init", space=space, seed=seed, budget=budget, batch=batch, goal="minimize", method=method,
                  **more)

    def call(self, **message):
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(f"it ended at '{message['op']}' with status {self.process.wait(10)}")
        reply = json.loads(line)
        if "error" in reply:
            raise RuntimeError(f"it answered '{message['op']}' with: {reply['error']}")
        return reply

    def ask(self, k):
        return [(t["id"], t["params"]) for t in self.call(op="ask", n=k)["trials"]]

    def tell(self, results):
        self.call(op="tell", results=[({"id": i} if i is not None else {"params": params}) | {"value": y}
                                      for i, params, y in results])

    def best(self):
        best = self.call(op="best")["best"]
        return best and best["id"]

    def memory_mib(self):
        """The most that the process has held so far."""
        with open(f"/proc/{self.process.pid}/status") as f:
            return next(int(line.split()[1]) / 1024 for line in f if line.startswith("VmHWM"))

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(10)


def _optuna(kind):
    return lambda *a: Optuna(*a, kind)


PEERS = {"random": Random, "sobol": Sobol, "optuna_tpe": _optuna("tpe"), "optuna_gp": _optuna("gp"),
         "optuna_tpe_group": _optuna("tpe_group"), "optuna_tpe_uni": _optuna("tpe_uni"),
         "optuna_cmaes": _optuna("cmaes"), "botorch": BoTorch, "hebo": Hebo, "skopt": Skopt}
GAUSSIAN = ("optuna_gp", "botorch", "hebo", "skopt")


def make(who, space, seed, budget, batch):
    """`who` is a peer's name, or (command, method) of ours."""
    if isinstance(who, str):
        return PEERS[who](space, seed, budget, batch)
    return Ours(who[0], space, seed, budget, batch, who[1])
