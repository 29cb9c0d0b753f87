"""A run's configuration: values from the script, and the trial's parameters, which the script cannot change."""
from collections.abc import MutableMapping

from wandb import util
from wandb.sdk.lib import config_util


def _merged(base, over):
    """Returns `over`, merged into `base` if both are mappings."""
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    return {**base, **{k: _merged(base.get(k), v) for k, v in over.items()}}


class Config(MutableMapping):
    """Items are attributes, too. Parameters of the sweep are locked: a change is ignored with a warning."""

    def __init__(self, items=None, locked=()):
        object.__setattr__(self, "_items", dict(items or {}))
        object.__setattr__(self, "_locked", frozenset(locked))

    def lock(self, params):
        """Sets and locks the parameters of the sweep."""
        for name, value in params.items():
            self._items[name] = _merged(self._items.get(name), value)
        object.__setattr__(self, "_locked", self._locked | frozenset(params))

    def _set(self, key, value, allow_val_change):
        key = key.strip("-")
        if key in self._locked:
            if self._items[key] != value:
                util.log(f"WARNING Config item '{key}' was locked by 'sweep' (ignored update).", repeat=False)
            return
        if not allow_val_change and key in self._items and self._items[key] != value:
            raise config_util.ConfigError(
                f'Attempted to change value of key "{key}" from {self._items[key]} to {value}\n'
                "If you really want to do this, pass allow_val_change=True to config.update()")
        self._items[key] = value

    def update(self, d=None, allow_val_change=None, exclude_keys=None, include_keys=None, **more):
        for key, value in {**config_util.as_dict(d, include_keys, exclude_keys), **more}.items():
            self._set(key, value, allow_val_change)

    def setdefaults(self, d):
        for key, value in config_util.as_dict(d).items():
            self._items.setdefault(key.strip("-"), value)

    def as_dict(self):
        return dict(self._items)

    def persist(self):
        """Has no effect: the configuration is not stored elsewhere."""

    def __getitem__(self, key):
        return self._items[key]

    def __setitem__(self, key, value):
        self._set(key, value, False)

    def __delitem__(self, key):
        if key not in self._locked:
            del self._items[key]

    def __iter__(self):
        return iter(self._items)

    def __len__(self):
        return len(self._items)

    def __getattr__(self, key):
        if key.startswith("__"):
            raise AttributeError(key)
        try:
            return self._items[key]
        except KeyError:
            raise AttributeError(f"{type(self)!r} object has no attribute {key!r}") from None

    def __setattr__(self, key, value):
        self[key] = value

    def __repr__(self):
        return repr(self._items)

    def __reduce__(self):
        return Config, (self._items, self._locked)
