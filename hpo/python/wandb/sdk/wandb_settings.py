"""Settings: all given values, as attributes."""


class Settings:
    def __init__(self, **given):
        self.__dict__.update(given)

    def update(self, given=None, **more):
        self.__dict__.update(vars(given) if isinstance(given, Settings) else given or {}, **more)

    def copy(self):
        return Settings(**vars(self))

    def __repr__(self):
        return f"Settings({vars(self)})"
