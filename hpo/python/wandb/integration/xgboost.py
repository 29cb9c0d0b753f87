"""XGBoost's callback with W&B's name. Metrics are DATA-METRIC, as `validation_0-rmse`."""
import json

import wandb
import xgboost


class WandbCallback(xgboost.callback.TrainingCallback):
    def __init__(self, log_model=False, log_feature_importance=True, importance_type="gain", define_metric=True):
        if wandb.run is None:
            raise wandb.Error("You must call wandb.init() before WandbCallback()")

    def before_training(self, model):
        wandb.config.update(json.loads(model.save_config()), allow_val_change=True)
        return model

    def after_iteration(self, model, epoch, evals_log):
        row = {f"{data}-{name}": values[-1] for data, found in evals_log.items() for name, values in found.items()}
        wandb.log({**row, "epoch": epoch})
        return False

    def after_training(self, model):
        if model.attr("best_score") is not None:
            wandb.log({"best_score": float(model.attr("best_score")),
                       "best_iteration": int(model.attr("best_iteration"))})
        return model
