"""A configuration from what people pass as one."""
import json
import os
from collections.abc import Mapping

from wandb import errors


class ConfigError(errors.Error):
    """A value would be changed by accident."""


def from_file(path):
    """W&B's form {name: {value: x}} or plain values; YAML where PyYAML is there, else JSON."""
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
            raise errors.UsageError(f"config file '{path}' is YAML, and PyYAML is not there: pip install pyyaml") from None
        found = yaml.safe_load(text) or {}
    if not isinstance(found, dict):
        raise errors.UsageError(f"config file '{path}' is no mapping")
    return {k: v["value"] if isinstance(v, dict) and "value" in v else v for k, v in found.items()
            if k not in ("wandb_version", "_wandb")}


def as_dict(given, include=None, exclude=None):
    """A dict of a mapping, a Namespace, absl's flags, an object with attributes, or the name of a file."""
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
        raise errors.UsageError(f"a config is a dict, a Namespace or the name of a file, not {type(given).__name__}")
    if include:
        found = {k: v for k, v in found.items() if k in include}
    return {k: v for k, v in found.items() if k not in (exclude or ())}
