"""The older name of wandb.integration.keras."""
from wandb.integration.keras import *  # the same names
