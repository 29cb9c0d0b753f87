from wandb.sklearn import __getattr__  # noqa: F401
