from wandb.sdk import artifacts, lib, wandb_config, wandb_metric, wandb_run, wandb_settings, wandb_summary

__all__ = ["artifacts", "lib", "wandb_config", "wandb_metric", "wandb_run", "wandb_settings", "wandb_summary"]
