"""wandb.sklearn.plot_classifier, plot_roc, …: plots are accepted and not drawn."""
from wandb.plot import CustomChart


def __getattr__(name):
    if not name.startswith("plot_"):
        raise AttributeError(name)
    return lambda *args, **kwargs: CustomChart()
