"""Placeholders for wandb.config, wandb.log, … before there is a run."""
from wandb import errors


class PreInitObject:
    def __init__(self, name):
        object.__setattr__(self, "_name", name)

    def __getattr__(self, key):
        if key.startswith("_"):  # copy, pickle and inspect look for these
            raise AttributeError(key)
        raise errors.Error(f"You must call wandb.init() before {self._name}.{key}")

    def __setattr__(self, key, value):
        raise errors.Error(f"You must call wandb.init() before {self._name}.{key}")

    def __getitem__(self, key):
        raise errors.Error(f"You must call wandb.init() before {self._name}[{key!r}]")

    def __setitem__(self, key, value):
        raise errors.Error(f"You must call wandb.init() before {self._name}[{key!r}]")


def pre_init_call(name):
    def refuse(*args, **kwargs):
        raise errors.Error(f"You must call wandb.init() before {name}()")

    return refuse
