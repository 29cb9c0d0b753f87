"""What other libraries call of W&B's module, under `drover sweep`: Hugging Face's, Lightning's and more."""
import ast
import sys

import pytest
from sweep_kit import DROVER, ONE, ROOT, use_scripts  # noqa: F401  a fixture

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")


def test_what_hugging_faces_callback_calls(place):
    """The calls that transformers 4.40's WandbCallback makes in a training of 4 steps, in their order."""
    (trial,) = place.train("""
        import importlib.util, numbers, tempfile
        assert importlib.util.find_spec("wandb") is not None
        import wandb
        assert hasattr(wandb, "run") and wandb.run is None
        from wandb.sdk.lib.config_util import ConfigError
        wandb.init(project="huggingface", name="out")
        args = {"learning_rate": 0.1, "lr": 77, "label_names": None, "fsdp_config": {"min": 0}}
        wandb.config.update(args, allow_val_change=True)
        assert getattr(wandb, "define_metric", None)
        wandb.define_metric("train/global_step")
        wandb.define_metric("*", step_metric="train/global_step", step_sync=True)
        wandb.watch(object(), log="gradients", log_freq=100)
        wandb.run._label(code="transformers_trainer")
        try:
            wandb.config["model/num_parameters"] = 12
        except ConfigError:
            raise SystemExit(1)
        for step in range(1, 5):
            wandb.log({"train/loss": wandb.config.lr / step, "train/epoch": step / 2, "train/global_step": step})
            if step % 2 == 0:
                wandb.log({"eval/loss": 2 / step, "train/global_step": step})
        wandb.run.summary["train_runtime"] = 1.5
        wandb.log({"train/epoch": 2.0, "train/global_step": 4})
        metadata = {k: v for k, v in dict(wandb.summary).items()
                    if isinstance(v, numbers.Number) and not k.startswith("_")}
        assert metadata["eval/loss"] == 0.5 and metadata["train_runtime"] == 1.5
        artifact = wandb.Artifact(name=f"model-{wandb.run.id}", type="model", metadata={**metadata, "final": True})
        with tempfile.TemporaryDirectory() as d:
            artifact.add_dir(d)
        wandb.run.log_artifact(artifact, aliases=["last"])
        wandb.termwarn("x", repeat=False)
        print(f"{wandb.run.url} {wandb.run.name}")
    """, ONE.replace("name: loss", "name: eval/loss"))
    assert trial["value"] == 0.5
    assert [s for s, v in place.reports() if "eval/loss" in v] == [2, 4]
    assert trial["metrics"]["train_runtime"] == 1.5


def test_what_lightnings_logger_calls(place):
    """The calls that pytorch-lightning 2.1's WandbLogger makes, a copy in another process included."""
    (trial,) = place.train("""
        import importlib.metadata
        assert tuple(int(p) for p in importlib.metadata.version("wandb").split("+")[0].split(".")) >= (0, 12, 10)
        import wandb
        from wandb import Artifact
        from wandb.sdk.lib import RunDisabled
        from wandb.wandb_run import Run
        wandb.require("service")
        assert wandb.run is None
        run = wandb.init(name=None, project="lightning_logs", dir=".", id=None, resume="allow", anonymous=None)
        assert isinstance(run, (Run, RunDisabled)) and getattr(run, "define_metric", None)
        run.define_metric("trainer/global_step")
        run.define_metric("*", step_metric="trainer/global_step", step_sync=True)
        run.config.update({"lr": 9, "batch_size": 4}, allow_val_change=True)
        run.watch(object(), log="gradients", log_freq=100, log_graph=True)
        for step in range(0, 30, 10):
            run.log({"train_loss": 3 / (step + 1), "epoch": step // 10, "trainer/global_step": step})
            run.log({"val_loss": run.config.lr / (step + 1), "epoch": step // 10, "trainer/global_step": step})
        run.log({"samples": wandb.Table(columns=["a"], data=[["b"]], dataframe=None)})
        run.log({"images": [wandb.Image("x.png", caption="tree")], "trainer/global_step": 29})
        state = {"_id": getattr(run, "id", None), "_attach_id": getattr(run, "_attach_id", None), "_name": run.name}
        assert wandb._attach(state["_attach_id"]) is run
        artifact = Artifact(name=f"model-{run.id}", type="model", metadata={"score": 1, "original_filename": "e.ckpt"})
        artifact.add_file(__file__, name="model.ckpt")
        run.log_artifact(artifact, aliases=["latest", "best"])
        wandb.finish()
    """, ONE.replace("name: loss", "name: val_loss"))
    assert trial["value"] == 0.5 / 21
    assert [s for s, v in place.reports() if "val_loss" in v] == [0, 10, 20]


def test_the_callbacks_of_keras_xgboost_and_lightgbm_report(place):
    """As these libraries call them: Keras 3, XGBoost 3 and LightGBM 4 were watched doing so."""
    (place.path / "keras.py").write_text(
        "class callbacks:\n    class Callback: pass\n    class ModelCheckpoint(Callback):\n"
        "        def __init__(self, filepath, **kw): pass\n")
    (place.path / "xgboost.py").write_text("class callback:\n    class TrainingCallback: pass\n")
    (trial,) = place.train("""
        import types
        import wandb
        from wandb.integration.keras import WandbMetricsLogger, WandbModelCheckpoint
        from wandb.xgboost import WandbCallback
        from wandb.lightgbm import wandb_callback
        wandb.init()
        k = WandbMetricsLogger(log_freq="epoch")
        k.model = types.SimpleNamespace(optimizer=types.SimpleNamespace(learning_rate=0.1))
        WandbModelCheckpoint("m.keras")
        k.on_train_batch_end(0, {"loss": 9})
        k.on_epoch_end(0, {"loss": 2.0, "val_loss": 3.0})
        booster = types.SimpleNamespace(save_config=lambda: '{"learner": {"lr": 3}}', attr={"best_score": "1.5",
                                                                                           "best_iteration": "4"}.get)
        x = WandbCallback(log_model=True)
        x.after_training(x.before_training(booster))
        assert x.after_iteration(booster, 0, {"validation_0": {"rmse": [5, 4.0]}}) is False
        l = wandb_callback()
        l(types.SimpleNamespace(iteration=0, begin_iteration=0, params={"eta": 1, "lr": 4},
                                evaluation_result_list=[("v", "l2", 6.0, False), ("cv", "l1", 7.0, False, 0.5)]))
        assert wandb.config.learner == {"lr": 3} and (wandb.config.eta, wandb.config.lr) == (1, 0.5)
    """, ONE.replace("name: loss", "name: epoch/val_loss"))
    assert trial["value"] == 3 and trial["metrics"] == {
        "epoch/loss": 2, "epoch/val_loss": 3, "epoch/epoch": 0, "epoch/learning_rate": 0.1, "best_score": 1.5,
        "best_iteration": 4, "validation_0-rmse": 4, "epoch": 0, "v_l2": 6, "cv_l1-mean": 7, "cv_l1-stdv": 0.5,
        "iteration": 0}


def test_the_stand_in_needs_no_more_than_python_3_8_and_its_library():
    """Its syntax, and what it imports at its top."""
    wandb = ROOT / "hpo/python/wandb"
    files = [ROOT / "launcher/client/drover.py", *(f for f in wandb.rglob("*.py") if f.parent.name != "integration")]
    assert len(files) > 10
    for f in files:
        tree = ast.parse(f.read_text(), feature_version=(3, 8))
        for node in tree.body:
            names = ([a.name for a in node.names] if isinstance(node, ast.Import)
                     else [node.module] if isinstance(node, ast.ImportFrom) else [])
            for name in names:
                assert name.split(".")[0] in {*sys.stdlib_module_names, "wandb", "drover"}, (f, name)
