"""Lightning imports the class from here."""
from wandb.sdk.wandb_run import Run

__all__ = ["Run"]
