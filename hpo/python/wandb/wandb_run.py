"""Where Lightning looks for the class."""
from wandb.sdk.wandb_run import Run

__all__ = ["Run"]
