from wandb.sdk.lib import config_util, preinit


class RunDisabled:
    """Loggers ask whether a run is one; none is."""
