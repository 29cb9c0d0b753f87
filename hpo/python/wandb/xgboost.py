"""The older name of wandb.integration.xgboost."""
from wandb.integration.xgboost import *  # the same names
