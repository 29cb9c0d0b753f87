"""The functions of W&B's wandb.util that scripts and loggers use, and messages to the user."""
import math
import re
import secrets
import string
import sys
from collections.abc import Mapping, Sequence

_printed = set()


def log(text, repeat=True):
    """Prints a line on stderr; without `repeat`, once per process."""
    if repeat or text not in _printed:
        print(f"wandb: {text}", file=sys.stderr, flush=True)
    if not repeat:
        _printed.add(text)


def missing(name):
    """The message for a name of W&B's module that this one does not have."""
    return (f"drover's stand-in for wandb has no '{name}'; for W&B's own module set `drover: {{wandb: real}}` in the "
            "sweep file, and report the metric by drover.report(), too")


def generate_id(length=8):
    return "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(length))


def make_artifact_name_safe(name):
    return re.sub(r"[^a-zA-Z0-9_\-.]", "_", name)[:128]


def make_safe_for_json(value):
    """The value with dicts, lists, and words for numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {key: make_safe_for_json(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [make_safe_for_json(item) for item in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def number(value):
    """Converts a value to a float or int, also numpy scalars and tensors with one element. None: not a number."""
    kind = type(value)
    if kind is float or kind is int and abs(value) < 1 << 1023:
        return value
    if kind is bool or kind is str or value is None:
        return None
    try:
        item = value.item() if hasattr(value, "item") else value
        if isinstance(item, (bool, str, bytes)) or not hasattr(item, "__float__"):
            return None
        return float(item)
    except Exception:  # an array of several elements, or an object of the script, may raise anything
        return None


def numbers(data, prefix=""):
    """Returns the numbers of a mapping as {name: number}, with dotted names for nested ones. Skips other values."""
    found = {}
    for key, value in data.items():
        if type(value) is float:
            found[f"{prefix}{key}"] = value
        elif isinstance(value, dict):
            found.update(numbers(value, f"{prefix}{key}."))
        else:
            x = number(value)
            if x is not None:
                found[f"{prefix}{key}"] = x
    return found
