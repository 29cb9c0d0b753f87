"""A run's summary: the last (or smallest, …) value of each logged metric, and values that the script sets."""


class SummarySubDict(dict):
    """A dict whose items are attributes, too."""

    def __getattr__(self, key):
        if key.startswith("__"):
            raise AttributeError(key)
        try:
            return self[key]
        except KeyError:
            raise AttributeError(f"the summary has no '{key}'") from None

    def __setattr__(self, key, value):
        self[key] = value


class Summary(SummarySubDict):
    """`chosen`: the names that the script has set itself. They are reported when the run finishes."""

    def __init__(self):
        super().__init__()
        object.__setattr__(self, "chosen", set())

    def __setitem__(self, key, value):
        if isinstance(value, dict):
            value = SummarySubDict(value)
        super().__setitem__(key, value)
        self.chosen.add(key)

    def __delitem__(self, key):
        super().__delitem__(key)
        self.chosen.discard(key)

    def update(self, d=None, overwrite=True, **more):
        for key, value in {**(d or {}), **more}.items():
            self[key] = value

    def setdefault(self, key, value=None):
        if key not in self:
            self[key] = value
        return self[key]

    def logged(self, values):
        """Sets values of a log(). They replace the values that the script has set."""
        super().update((k, SummarySubDict(v) if type(v) is dict else v) for k, v in values.items())
        if self.chosen:
            self.chosen.difference_update(values)
