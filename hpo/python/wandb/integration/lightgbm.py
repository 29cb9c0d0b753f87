"""LightGBM's callback with W&B's name. Metrics are DATA_METRIC, as `valid_0_l2`; of cv(), with -mean and -stdv."""
import wandb


def wandb_callback(log_params=True, define_metric=True):
    def after_iteration(env):
        if log_params and env.iteration == env.begin_iteration:
            wandb.config.update(env.params, allow_val_change=True)
        row = {"iteration": env.iteration}
        for data, name, value, _, *spread in env.evaluation_result_list:
            if spread:
                of, name = name.split() if " " in name else (data, name)
                row[f"{of}_{name}-mean"], row[f"{of}_{name}-stdv"] = value, spread[0]
            else:
                row[f"{data}_{name}"] = value
        wandb.log(row)

    after_iteration.order = 20  # after LightGBM's own callbacks, before early stopping
    return after_iteration


def log_summary(model, feature_importance=True, save_model_checkpoint=False):
    """Logs the best iteration and scores."""
    wandb.run.summary["best_iteration"] = model.best_iteration
    for data, found in (model.best_score or {}).items():
        for name, value in found.items():
            wandb.run.summary[f"{data}_{name}"] = value
