"""Keras callbacks with W&B's names. Metrics are `epoch/loss`, `epoch/val_loss`, … or `batch/…`; those of the old
callback have no prefix."""
import wandb

try:
    from tensorflow.keras import callbacks
except ImportError:
    from keras import callbacks


class WandbMetricsLogger(callbacks.Callback):
    """Logs metrics. log_freq: "epoch", "batch" or a number of batches."""

    def __init__(self, log_freq="epoch", initial_global_step=0, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if wandb.run is None:
            raise wandb.Error("You must call `wandb.init()` before WandbMetricsLogger()")
        self._every = {"epoch": None, "batch": 1}.get(log_freq, log_freq)
        self._batches = initial_global_step
        prefix, axis = ("batch", "batch/batch_step") if self._every else ("epoch", "epoch/epoch")
        wandb.define_metric(axis)
        wandb.define_metric(f"{prefix}/*", step_metric=axis)

    def _log(self, prefix, logs, axis, value):
        row = {f"{prefix}/{name}": x for name, x in (logs or {}).items()}
        rate = getattr(getattr(self.model, "optimizer", None), "learning_rate", None)
        wandb.log({**row, axis: value, f"{prefix}/learning_rate": rate.numpy() if hasattr(rate, "numpy") else rate})

    def on_epoch_end(self, epoch, logs=None):
        self._log("epoch", logs, "epoch/epoch", epoch)

    def on_train_batch_end(self, batch, logs=None):
        if self._every and batch % self._every == 0:
            self._log("batch", logs, "batch/batch_step", self._batches)
        self._batches += 1


class WandbModelCheckpoint(callbacks.ModelCheckpoint):
    """The callback of Keras: the files stay where it writes them."""


class WandbCallback(callbacks.Callback):
    """The old callback. It saves no models."""

    def __init__(self, *args, **kwargs):
        super().__init__()

    def on_epoch_end(self, epoch, logs=None):
        wandb.log({"epoch": epoch, **(logs or {})})
