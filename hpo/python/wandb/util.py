"""What scripts and loggers take from W&B's wandb.util, and how we speak to the user."""
import re
import secrets
import string
import sys

_said = set()


def say(text, repeat=True):
    """A line on stderr; without `repeat` once a process."""
    if repeat or text not in _said:
        print(f"wandb: {text}", file=sys.stderr, flush=True)
    if not repeat:
        _said.add(text)


def generate_id(length=8):
    return "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(length))


def make_artifact_name_safe(name):
    return re.sub(r"[^a-zA-Z0-9_\-.]", "_", name)[:128]


def number(value):
    """The float or int that a value stands for: numpy's scalars, tensors of one element. None: it is no number."""
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
    except Exception:  # whatever an array of several elements, or an object of the user's, thinks of it
        return None


def numbers(data, prefix=""):
    """{name: number} of a mapping, names of those inside joined by dots; what is no number is left out."""
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
