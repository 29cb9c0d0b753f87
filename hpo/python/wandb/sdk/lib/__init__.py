from wandb.sdk.lib import config_util, preinit


class RunDisabled:
    """A class for isinstance() in loggers. No run is an instance."""
