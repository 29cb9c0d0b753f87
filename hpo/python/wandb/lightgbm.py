"""The older name of wandb.integration.lightgbm."""
from wandb.integration.lightgbm import *  # the same names
