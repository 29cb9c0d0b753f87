"""Functions with a known optimum.

`core` are the ones that results are usually shown on. `held` are others, so that nobody tunes to the first: each seed
moves the optimum (and rotates some, or bends their axes), or draws another instance of the family. Formulas are those
of Jamil & Yang, "A literature survey of benchmark functions" (2013); Goldstein-Price is taken as its logarithm."""
import itertools
import math

import numpy as np

from .spaces import Problem, active, box, choice, from_unit, integer, real, stream, to_unit

# ---- the functions, of an array ------------------------------------------------------------------


def branin(x):
    b, c, t = 5.1 / (4 * np.pi**2), 5 / np.pi, 1 / (8 * np.pi)
    return (x[1] - b * x[0] ** 2 + c * x[0] - 6) ** 2 + 10 * (1 - t) * np.cos(x[0]) + 10


HARTMANN = np.array([1, 1.2, 3, 3.2])
A3 = np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
P3 = 1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
A6 = np.array([[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8],
               [17, 8, 0.05, 10, 0.1, 14]])
P6 = 1e-4 * np.array([[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
                      [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]])
X6 = np.array([0.2016895114, 0.1500106896, 0.4768739727, 0.2753324294, 0.3116516164, 0.6573005336])
HARTMANN6_MIN = -3.322368011415515


def hartmann3(x):
    return -HARTMANN @ np.exp(-(A3 * (x - P3) ** 2).sum(1))


def hartmann6(x):
    return -HARTMANN @ np.exp(-(A6 * (x - P6) ** 2).sum(1))


def ackley(x):
    return -20 * np.exp(-0.2 * np.sqrt((x**2).mean())) - np.exp(np.cos(2 * np.pi * x).mean()) + 20 + np.e


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def levy(x):
    w = 1 + (x - 1) / 4
    return (np.sin(np.pi * w[0]) ** 2 + ((w[:-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:-1] + 1) ** 2)).sum()
            + (w[-1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[-1]) ** 2))


def michalewicz(x):
    i = np.arange(1, len(x) + 1)
    return -(np.sin(x) * np.sin(i * x**2 / np.pi) ** 20).sum()


def styblinski_tang(x):
    return (x**4 - 16 * x**2 + 5 * x).sum() / 2


def griewank(x):
    return (x**2).sum() / 4000 - np.cos(x / np.sqrt(np.arange(1, len(x) + 1))).prod() + 1


def rastrigin(x):
    return 10 * len(x) + (x**2 - 10 * np.cos(2 * np.pi * x)).sum()


def dixon_price(x):
    return (x[0] - 1) ** 2 + (np.arange(2, len(x) + 1) * (2 * x[1:] ** 2 - x[:-1]) ** 2).sum()


def powell(x):
    a, b, c, d = x.reshape(-1, 4).T
    return ((a + 10 * b) ** 2 + 5 * (c - d) ** 2 + (b - 2 * c) ** 4 + 10 * (a - d) ** 4).sum()


def camel(x):
    a, b = x
    return (4 - 2.1 * a**2 + a**4 / 3) * a**2 + a * b + (4 * b**2 - 4) * b**2


def log_goldstein_price(x):
    a, b = x
    one = 1 + (a + b + 1) ** 2 * (19 - 14 * a + 3 * a**2 - 14 * b + 6 * a * b + 3 * b**2)
    two = 30 + (2 * a - 3 * b) ** 2 * (18 - 32 * a + 12 * a**2 + 48 * b - 36 * a * b + 27 * b**2)
    return math.log(one * two)


SHEKEL_C = np.array([1, 2, 2, 4, 4, 6, 3, 7, 5, 5]) / 10
SHEKEL_A = np.array([[4, 4, 4, 4], [1, 1, 1, 1], [8, 8, 8, 8], [6, 6, 6, 6], [3, 7, 3, 7], [2, 9, 2, 9], [5, 5, 3, 3],
                     [8, 1, 8, 1], [6, 2, 6, 2], [7, 3.6, 7, 3.6]])


def shekel(x):
    return -(1 / (((x - SHEKEL_A) ** 2).sum(1) + SHEKEL_C)).sum()


def cosine_mixture(x):
    return (x**2).sum() - 0.1 * np.cos(5 * np.pi * x).sum()


def alpine1(x):
    return np.abs(x * np.sin(x) + 0.1 * x).sum()


def schwefel(x):
    return 418.98288727243369 * len(x) - (x * np.sin(np.sqrt(np.abs(x)))).sum()


def beale(x):
    a, b = x
    return (1.5 - a + a * b) ** 2 + (2.25 - a + a * b**2) ** 2 + (2.625 - a + a * b**3) ** 2


def step(x):
    return (np.floor(x + 0.5) ** 2).sum()


# ---- their instances: make(seed) -> (function of the parameters, the optimum's parameters) -----------


def array(params):
    return np.array([params[f"x{i}"] for i in range(len(params))], float)


def named(x):
    return {f"x{i}": float(v) for i, v in enumerate(x)}


def fixed(fn):
    return lambda seed: ((lambda params: float(fn(array(params)))), None)


def rotation(d, rng):
    q, r = np.linalg.qr(rng.standard_normal((d, d)))
    return q * np.sign(np.diag(r))


def moved(name, fn, low, high, optimum, rotate=False):
    """The optimum anywhere in the middle 70 % of each side. Only for functions that have no lower value outside of
    their box, since the shift brings in a strip of that."""
    z0, d = np.asarray(optimum, float), len(optimum)

    def make(seed):
        rng = stream(name, seed)
        at = (low + high) / 2 + (rng.random(d) - 0.5) * 0.7 * (high - low)
        turn = rotation(d, rng) if rotate else np.eye(d)
        return (lambda params: float(fn(z0 + turn @ (array(params) - at)))), named(at)

    return make


def bent(name, fn, sides, optimum):
    """Each axis mirrored or not, and bent by u -> u e^c / (1 + u (e^c - 1)), |c| <= 1: [0, 1] onto itself, so nothing
    from outside of the box comes in."""
    low, high = np.array(sides, float).T
    z0 = (np.asarray(optimum, float) - low) / (high - low)

    def make(seed):
        rng = stream(name, seed)
        bend, flip = np.exp(rng.uniform(-1, 1, len(z0))), rng.random(len(z0)) < 0.5

        def f(params):
            u = array(params)
            u = np.where(flip, 1 - u, u)
            return float(fn(low + (high - low) * (u * bend / (1 + u * (bend - 1)))))

        back = z0 / (bend - z0 * (bend - 1))
        return f, named(np.where(flip, 1 - back, back))

    return make


def log_squares(seed):
    at = stream("sumsquares10", seed).uniform(-4.5, 0.5, 10)
    weight = np.arange(1, 11)
    return (lambda params: float((weight * (np.log10(array(params)) - at) ** 2).sum())), named(10**at)


MIXED = ([real(f"x{i}", -5, 5) for i in range(5)] + [integer(f"n{i}", -5, 5) for i in range(3)]
         + [choice(f"c{i}", "red", "green", "blue", "black") for i in range(2)])


def mixed_ackley(seed):
    """Ackley in 10 dimensions: 5 real, 3 of integers, 2 whose value stands behind a category."""
    rng = stream("mixed_ackley", seed)
    best = {p["name"]: rng.uniform(-3.5, 3.5) for p in MIXED[:5]}
    best |= {p["name"]: int(rng.integers(-4, 5)) for p in MIXED[5:8]}
    meaning = {p["name"]: dict(zip(p["choices"], rng.permutation([0.0, 1.0, 2.0, 4.0]))) for p in MIXED[8:]}
    best |= {name: min(words, key=words.get) for name, words in meaning.items()}

    def f(params):
        return float(ackley(np.array([meaning[k][v] if k in meaning else v - best[k] for k, v in params.items()])))

    return f, best


INTS = [integer(f"x{i}", 0, 20) for i in range(8)]


def integer_quadratic(seed):
    rng = stream("intquad8", seed)
    at = rng.integers(2, 19, 8)
    turn = rotation(8, rng)
    a = turn @ np.diag(np.geomspace(1, 30, 8)) @ turn.T

    def f(params):
        return float((array(params) - at) @ a @ (array(params) - at))

    return f, {f"x{i}": int(v) for i, v in enumerate(at)}


WORDS = [choice(f"x{i}", "a", "b", "c", "d") for i in range(6)]


def categories(seed):
    """One term for each of 6 categories and one, smaller, for each pair of them."""
    rng = stream("cats6", seed)
    one = rng.standard_normal((6, 4))
    two = {(i, j): 0.5 * rng.standard_normal((4, 4)) for i in range(6) for j in range(i)}

    def at(k):
        return sum(one[i, k[i]] for i in range(6)) + sum(t[k[i], k[j]] for (i, j), t in two.items())

    low, best = min((at(k), k) for k in itertools.product(range(4), repeat=6))
    return (lambda params: float(at(["abcd".index(params[f"x{i}"]) for i in range(6)]) - low)), \
        {f"x{i}": "abcd"[v] for i, v in enumerate(best)}


SGD, ADAM = ("opt", "sgd"), ("opt", "adam")
TREE = [choice("model", "linear", "net", "forest"), real("penalty", 1e-4, 10, True, ("model", "linear")),
        real("mix", 0, 1, False, ("model", "linear")), integer("width", 8, 512, True, ("model", "net")),
        choice("opt", "sgd", "adam", when=("model", "net")), real("lr", 1e-5, 1, True, ("model", "net")),
        real("momentum", 0, 0.99, False, SGD), real("beta", 0.8, 0.999, False, ADAM),
        integer("depth", 1, 16, False, ("model", "forest")), integer("leaf", 1, 100, True, ("model", "forest")),
        real("share", 0.05, 1, False, ("model", "forest"))]


def conditional(seed):
    """A valley in each branch of a tree of conditions; its bottom is another height in each, and 0 in one."""
    rng = stream("tree", seed)
    base = dict(zip(rng.permutation(["linear", "net", "forest"]), (0.0, 0.15, 0.3)))
    base |= dict(zip(rng.permutation(["sgd", "adam"]), (0.0, 0.1)))
    space, at = {p["name"]: p for p in TREE}, {}
    for p in TREE:
        if p["type"] == "int":
            at[p["name"]] = int(rng.integers(p["low"] + 1, p["high"]))
        elif p["type"] == "float":
            at[p["name"]] = from_unit(p, rng.uniform(0.15, 0.85))

    def f(params):
        total = 0.0
        for k, v in params.items():
            total += base[v] if isinstance(v, str) else 4 * (to_unit(space[k], v) - to_unit(space[k], at[k])) ** 2
        return float(total)

    best = at | {k: min((w for w in space[k]["choices"]), key=base.get) for k in ("model", "opt")}
    return f, active(TREE, best)


# ---- the list -------------------------------------------------------------------------------------

CAMEL = -1.0316284534898774
STYBLINSKI = -2.9035340277711770
SHEKEL_AT, SHEKEL_MIN = [4.0007465313, 4.0005929354, 3.9996633999, 3.9995098018], -10.536409816692045


def core():
    sides = [real("x0", -5, 10), real("x1", 0, 15)]
    some = [("branin", sides, branin, 0.39788735772973816), ("hartmann3", box(3, 0, 1), hartmann3, -3.862779787332663),
            ("hartmann6", box(6, 0, 1), hartmann6, HARTMANN6_MIN), ("ackley10", box(10, -10, 30), ackley, 0.0),
            ("rosenbrock5", box(5, -5, 10), rosenbrock, 0.0), ("levy8", box(8, -10, 10), levy, 0.0),
            ("michalewicz5", box(5, 0, math.pi), michalewicz, -4.687658179)]
    return [Problem(name, "core", space, fixed(fn), best) for name, space, fn, best in some]


def held():
    def move(name, fn, low, high, optimum, best=0.0, noise=0.0, rotate=False):
        make = moved(name, fn, low, high, optimum, rotate)
        return Problem(name, "held", box(len(optimum), low, high), make, best, noise)

    def bend(name, fn, sides, optimum, best, noise=0.0):
        return Problem(name, "held", box(len(sides), 0, 1), bent(name, fn, sides, optimum), best, noise)

    price = [2 ** -((2**i - 2) / 2**i) for i in range(1, 7)]
    return [
        move("styblinski6", styblinski_tang, -5, 5, [STYBLINSKI] * 6, 6 * -39.166165703771412),
        move("griewank6", griewank, -60, 60, [0] * 6, rotate=True),
        move("rastrigin4", rastrigin, -5.12, 5.12, [0] * 4),
        move("rastrigin4_turned", rastrigin, -5.12, 5.12, [0] * 4, rotate=True),
        move("dixonprice6", dixon_price, -10, 10, price),
        move("powell8", powell, -4, 5, [0] * 8, rotate=True),
        move("camel2", camel, -2, 2, [0.089842013683, -0.712656403270], CAMEL),
        bend("goldstein2", log_goldstein_price, [(-2, 2)] * 2, [0, -1], math.log(3)),
        move("shekel4", shekel, 0, 10, SHEKEL_AT, SHEKEL_MIN),
        move("cosine5", cosine_mixture, -1, 1, [0] * 5, -0.5),
        move("alpine6", alpine1, -10, 10, [0] * 6),
        bend("schwefel3", schwefel, [(-500, 500)] * 3, [420.96874635998] * 3, 0.0),
        move("beale2", beale, -4.5, 4.5, [3, 0.5]),
        Problem("sumsquares10", "held", [real(f"x{i}", 1e-5, 10, True) for i in range(10)], log_squares, 0.0),
        Problem("mixed_ackley", "held", MIXED, mixed_ackley, 0.0),
        move("step6", step, -5, 5, [0] * 6),
        Problem("intquad8", "held", INTS, integer_quadratic, 0.0),
        Problem("cats6", "held", WORDS, categories, 0.0),
        Problem("tree", "held", TREE, conditional, 0.0),
        bend("noisy_branin", branin, [(-5, 10), (0, 15)], [math.pi, 2.275], 0.39788735772973816, 0.05),
        bend("noisy_hartmann6", hartmann6, [(0, 1)] * 6, X6, HARTMANN6_MIN, 0.05),
        move("noisy_levy4", levy, -10, 10, [1] * 4, noise=0.05),
        Problem("noisy_mixed", "held", MIXED, mixed_ackley, 0.0, 0.05),
    ]
