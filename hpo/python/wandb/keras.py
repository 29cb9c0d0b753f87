"""The older place of wandb.integration.keras."""
from wandb.integration.keras import *  # the same names
