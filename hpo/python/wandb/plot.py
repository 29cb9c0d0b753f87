"""wandb.plot.line, bar, confusion_matrix, …: each gives a chart that nobody draws."""
from wandb.data_types import WBValue


class CustomChart(WBValue):
    pass


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    return CustomChart
