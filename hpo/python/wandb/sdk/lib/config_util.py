"""Converts the objects that scripts pass as a configuration."""
import json
import os
from collections.abc import Mapping

from wandb import errors


class ConfigError(errors.Error):
    """The call would change a value by accident."""


def from_file(path):
    """Reads a file with W&B's form {name: {value: x}} or plain values: JSON, or YAML if PyYAML is installed."""
    if not os.path.exists(path):
        raise errors.UsageError(f"config file '{path}': no such file")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    try:
        found = json.loads(text)
    except ValueError:
        try:
            import yaml
        except ImportError:
            raise errors.UsageError(f"config file '{path}' is YAML, but PyYAML is not installed: "
                                    "pip install pyyaml") from None
        found = yaml.safe_load(text) or {}
    if not isinstance(found, dict):
        raise errors.UsageError(f"config file '{path}' is not a mapping")
    return {k: v["value"] if isinstance(v, dict) and "value" in v else v for k, v in found.items()
            if k not in ("wandb_version", "_wandb")}


def as_dict(given, include=None, exclude=None):
    """Converts a mapping, a Namespace, absl's flags, an object with attributes, or a file name to a dict."""
    if include and exclude:
        raise errors.UsageError("expected at most only one of exclude or include")
    if given is None:
        found = {}
    elif isinstance(given, str):
        found = from_file(given)
    elif isinstance(given, Mapping):
        found = dict(given)
    elif hasattr(given, "flag_values_dict"):
        found = given.flag_values_dict()
    elif hasattr(given, "__dict__"):
        found = dict(vars(given))
    else:
        raise errors.UsageError(f"a config must be a dict, a Namespace or a file name, not {type(given).__name__}")
    if include:
        found = {k: v for k, v in found.items() if k in include}
    return {k: v for k, v in found.items() if k not in (exclude or ())}
