"""Problems on which nearly all values are equal, or only noise: a search finds a small place with better values.

Each place holds about 6.5 % of the space, so that one random trial in fifteen finds it. A seed moves it. A problem is
its space and make(seed), which gives `value(params, rng)`, smaller is better, and `inside(params)`."""
import math

from .spaces import box, choice, real, stream

SHARE = 0.065
RADIUS = {d: (SHARE * math.gamma(d / 2 + 1) / math.pi ** (d / 2)) ** (1 / d) for d in (1, 2, 3, 5)}


def numbers(params):
    return [v for v in params.values() if not isinstance(v, str)]


def centre(name, seed, d):
    return stream(name, seed).uniform(0.25, 0.75, d)


def ball(d):
    name = f"ball{d}"

    def make(seed):
        at = centre(name, seed, d)
        return lambda p, rng: min(math.dist(numbers(p), at) / RADIUS[d], 1.0), \
            lambda p: math.dist(numbers(p), at) < RADIUS[d]

    return name, box(d, 0.0, 1.0), make


def slab(d=4):
    """Only one of four parameters matters."""
    def make(seed):
        at, k = centre("slab", seed, 1)[0], seed % d
        return lambda p, rng: min(abs(p[f"x{k}"] - at) / (SHARE / 2), 1.0), \
            lambda p: abs(p[f"x{k}"] - at) < SHARE / 2

    return "slab", box(d, 0.0, 1.0), make


def ring():
    def make(seed):
        at, radius = centre("ring", seed, 2), 0.25
        width = SHARE / (4 * math.pi * radius)
        off = lambda p: abs(math.dist(numbers(p), at) - radius)  # noqa: E731
        return lambda p, rng: min(off(p) / width, 1.0), lambda p: off(p) < width

    return "ring", box(2, 0.0, 1.0), make


def noisy_window(d=3):
    """Each value has noise, so no two are equal; the window is ten standard deviations deep."""
    def make(seed):
        at, half = centre("noisy_window", seed, d), SHARE ** (1 / d) / 2
        inside = lambda p: max(abs(a - b) for a, b in zip(numbers(p), at)) < half  # noqa: E731
        return lambda p, rng: 0.02 * rng.standard_normal() + (0.8 if inside(p) else 1.0), inside

    return "noisy_window", box(d, 0.0, 1.0), make


def categories():
    """One of twelve pairs of words, and most of the range of a number."""
    space = [choice("a", "red", "green", "blue"), choice("b", "k", "l", "m", "n"), real("x", 0.0, 1.0)]

    def make(seed):
        rng = stream("categories", seed)
        a, b, low = rng.choice(space[0]["choices"]), rng.choice(space[1]["choices"]), rng.uniform(0, 1 - 12 * SHARE)
        inside = lambda p: p["a"] == a and p["b"] == b and 0 <= p["x"] - low < 12 * SHARE  # noqa: E731
        return lambda p, rng: 0.5 if inside(p) else 1.0, inside

    return "words", space, make


def cliff():
    """A ball on a plateau, with worse values, which differ, on the far side of a cliff."""
    def make(seed):
        at = stream("cliff", seed).uniform((0.25, 0.3, 0.3), (0.5, 0.7, 0.7))

        def value(p, rng):
            return 1 + 10 * (p["x0"] - 0.75) if p["x0"] > 0.75 else min(math.dist(numbers(p), at) / RADIUS[3], 1.0)

        return value, lambda p: p["x0"] <= 0.75 and math.dist(numbers(p), at) < RADIUS[3]

    return "cliff", box(3, 0.0, 1.0), make


def problems():
    """[(name, space, make)]"""
    return [*map(ball, (1, 2, 3, 5)), slab(), ring(), noisy_window(), categories(), cliff()]
