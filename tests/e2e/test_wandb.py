"""Scripts for W&B's sweeps, in the style of its documentation, under `drover sweep`: unchanged, without an account."""
import os
import signal
import subprocess
import textwrap

import pytest
from sweep_kit import DROVER, ONE, use_scripts  # noqa: F401  a fixture
from waiting import wait_until

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")


# ---- parameters ---------------------------------------------------------------------------------


def test_a_script_with_argparse_has_its_parameters_and_their_values_count(place):
    trials = place.train("""
        import argparse
        import wandb

        parser = argparse.ArgumentParser()
        parser.add_argument("--lr", type=float, default=0.1)
        parser.add_argument("--batch-size", type=int, default=8)
        parser.add_argument("--epochs", type=int, default=3)
        args = parser.parse_args()

        wandb.init(project="my-project", entity="someone", config=vars(args), tags=["a"], notes="n", save_code=True)
        for epoch in range(args.epochs):
            wandb.log({"epoch": epoch, "loss": args.lr * args.batch_size / (epoch + 1)})
        print(wandb.config["batch-size"], wandb.config.batch_size)
    """, """
method: grid
metric: {name: loss, goal: minimize}
parameters: {lr: {values: [0.5, 0.25]}, batch-size: {values: [6, 12]}}
""")
    assert sorted((t["params"]["lr"], t["params"]["batch-size"], t["value"]) for t in trials) == [
        (0.25, 6, 0.5), (0.25, 12, 1.0), (0.5, 6, 1.0), (0.5, 12, 2.0)]
    assert sorted(place.output().split("\n")) == ["", "12 12", "12 12", "6 6", "6 6"]


def test_wandb_config_has_the_parameters_and_nested_ones_as_mappings(place):
    (trial,) = place.train("""
        import argparse, copy, json, pickle
        import wandb

        config = dict(lr=9.0, epochs=2, optimizer=dict(name="sgd", momentum=0.0))
        run = wandb.init(config=config)
        c = wandb.config
        assert c is run.config and (c.lr, c["lr"], c.get("lr"), c.get("no", 7)) == (0.5, 0.5, 0.5, 7)
        assert c.optimizer == {"name": "sgd", "momentum": 0.9} and c["optimizer"]["momentum"] == 0.9
        assert sorted(c) == sorted(c.keys()) == ["epochs", "lr", "optimizer"] and "epochs" in c and "nothing" not in c
        assert dict(**c) == c.as_dict() == dict(c.items()) and config["lr"] == 9.0
        assert pickle.loads(pickle.dumps(c)) == copy.deepcopy(c) == c
        c.update({"lr": 3, "layers": 4}, allow_val_change=True)
        c.lr = 5
        c.setdefaults({"epochs": 50, "width": 8})
        c.update(argparse.Namespace(seed=1))
        c.new, c["model/size"] = "x", 10
        assert (c.lr, c.layers, c.epochs, c.width, c.seed, c.new) == (0.5, 4, 2, 8, 1, "x")
        try:
            c.epochs = 3
            raise SystemExit("epochs was changed")
        except wandb.sdk.lib.config_util.ConfigError as e:
            assert "allow_val_change=True" in str(e)
        try:
            c.nothing
            raise SystemExit("there is something")
        except AttributeError:
            pass
        safe = wandb.util.make_safe_for_json({"a": (1, float("nan")), "b": [-float("inf"), float("inf"), 0.5, "text", None]})
        assert safe == {"a": [1, "NaN"], "b": ["-Infinity", "Infinity", 0.5, "text", None]}
        wandb.log({"loss": c.lr})
    """, ONE.replace("{lr:", "{optimizer: {parameters: {momentum: {value: 0.9}}}, lr:"))
    assert (trial["state"], trial["value"]) == ("done", 0.5), place.output(stream="stderr")
    assert place.output(stream="stderr").count("'lr' was locked by 'sweep' (ignored update)") == 1


def test_a_config_may_be_a_file(place):
    (place.path / "defaults.json").write_text('{"lr": {"value": 7}, "depth": {"desc": "layers", "value": 3}, "w": 2}')
    (trial,) = place.train("""
        import wandb
        wandb.init(config="defaults.json")
        wandb.log({"loss": wandb.config.depth + wandb.config.w + wandb.config.lr})
    """)
    assert trial["value"] == 5.5


# ---- metrics ------------------------------------------------------------------------------------


def test_log_ends_a_row_unless_it_is_told_not_to(place):
    place.train("""
        import wandb
        wandb.init()
        wandb.log({"loss": 4, "name": "x", "flag": True, "none": None, "list": [1, 2]})
        wandb.log({"loss": 3}, commit=False)
        wandb.log({"acc": 0.5}, commit=False)
        wandb.log({"val": {"loss": 2.5, "deep": {"f1": 1}}, "note": "y"})
        assert wandb.run.step == 2
        wandb.log({"loss": float("nan")})
        wandb.log({"loss": float("inf")})
        wandb.log({"text": "only"})
        wandb.log({"loss": 9})
    """)
    assert place.reports() == [(0, {"loss": 4}), (1, {"loss": 3, "acc": 0.5, "val.loss": 2.5, "val.deep.f1": 1}),
                               (2, {"loss": "nan"}), (3, {"loss": "inf"}), (5, {"loss": 9})]


def test_log_with_a_step_counts_at_once_and_the_last_value_at_a_step_counts(place):
    (trial,) = place.train("""
        import wandb
        run = wandb.init()
        for step in (0, 10, 20):
            run.log({"loss": 1}, step=step)
            run.log({"loss": 30 - step}, step=step)
            run.log({"acc": step}, step=step)
        run.log({"loss": -99}, step=5)
        run.log({"loss": 50}, step=30, commit=False)
    """)
    assert (trial["value"], trial["steps"]) == (10, 4)
    assert place.reports()[-3:] == [(20, {"loss": 10}), (20, {"acc": 20}), (30, {"loss": 50})]
    assert "less than the current step 20" in place.output(stream="stderr")


def test_numbers_of_other_kinds_are_numbers(place):
    (trial,) = place.train("""
        import fractions, wandb
        class Tensor:
            def __init__(self, *values): self.values = values
            def item(self):
                if len(self.values) != 1: raise RuntimeError("only one element tensors can be converted")
                return self.values[0]
        with wandb.init() as run:
            run.log({"loss": Tensor(0.25), "f": fractions.Fraction(1, 2), "many": Tensor(1, 2), "huge": 10 ** 400,
                     "step": 9, "x" * 300: 1, "b": b"7", "image": wandb.Image([[0]]), "h": wandb.Histogram([1, 2])})
            run.log({f"metric/{i:04}": i for i in range(1000)})
    """)
    assert trial["value"] == 0.25 and len(trial["metrics"]) == 1002 and trial["metrics"]["f"] == 0.5


def test_a_metric_that_is_only_in_the_summary_is_reported_at_the_end(place):
    (trial,) = place.train("""
        import wandb
        wandb.init()
        best = None
        for i in range(3):
            wandb.log({"train": i})
            wandb.run.summary["loss"] = 10 - i
            wandb.summary.update({"best": {"acc": 0.5}})
        assert wandb.run.summary["train"] == 2 and wandb.summary.best.acc == 0.5 and dict(wandb.summary)["loss"] == 8
    """)
    assert (trial["state"], trial["value"]) == ("done", 8)
    assert place.reports()[-1] == (3, {"loss": 8, "best.acc": 0.5})


def test_define_metric_gives_an_x_axis_and_a_summary(place):
    code = """
        import wandb
        run = wandb.init()
        wandb.define_metric("epoch")
        wandb.define_metric("val/*", step_metric="epoch")
        wandb.define_metric("acc", summary="max,mean", goal="maximize")
        for i in range(4):
            wandb.log({"acc": [1, 5, 2, 0][i]})
            if i % 2:
                wandb.log({"epoch": i * 10, "val/loss": 1 / i})
        assert run.summary["acc"] == {"max": 5, "mean": 2} and run.summary.acc.max == 5
        try:
            wandb.define_metric("a", summary="median")
            raise SystemExit("median is no summary")
        except wandb.Error as e:
            print(e)
    """
    (trial,) = place.train(code, ONE.replace("name: loss", "name: acc.max"))
    assert trial["value"] == 5
    assert [(s, v) for s, v in place.reports() if "val/loss" in v] == [
        (10, {"epoch": 10, "val/loss": 1}), (30, {"epoch": 30, "val/loss": 1 / 3})]
    assert "summary op: median" in place.output()


# ---- runs ---------------------------------------------------------------------------------------


def test_a_function_and_an_agent(place):
    """A script that makes the sweep itself: here that is the one that runs, and the function runs once a trial."""
    trials = place.train("""
        import wandb

        def main():
            run = wandb.init(project="my-first-sweep")
            wandb.log({"loss": wandb.config.x ** 3 + wandb.config.y})
            print("once")

        sweep_configuration = {"method": "random", "parameters": {"x": {"max": 0.1, "min": 0.01}}}
        wandb.login()
        sweep_id = wandb.sweep(sweep=sweep_configuration, project="my-first-sweep")
        assert sweep_id == "s"
        wandb.agent(sweep_id, function=main, count=10)
        assert wandb.run is None
    """, "method: grid\nmetric: {name: loss}\nparameters: {x: {values: [1, 2]}, y: {values: [1, 3]}}\n")
    assert sorted(t["value"] for t in trials) == [2, 4, 9, 11]
    assert place.output() == 4 * "once\n"


def test_a_run_that_fails_fails_its_trial(place):
    trials = place.train("""
        import sys, wandb
        with wandb.init() as run:
            run.log({"loss": 1})
            if run.config.how == "raise":
                raise ValueError("no such thing")
            if run.config.how == "leave":
                sys.exit(0)
            if run.config.how == "finish":
                run.finish(exit_code=3)
    """, "method: grid\nmetric: {name: loss}\nparameters: {how: {values: [raise, finish, leave, stay]}}\n")
    assert {t["params"]["how"]: t["state"] for t in trials} == {
        "raise": "failed", "finish": "failed", "leave": "done", "stay": "done"}
    assert "ValueError: no such thing" in trials[0]["error"] and "exit status 3" in trials[1]["error"]


def test_what_a_run_says_of_itself(place):
    place.train("""
        import os, wandb
        assert wandb.run is None
        for use in (lambda: wandb.config.lr, lambda: wandb.config["lr"], lambda: wandb.log({}),
                    lambda: wandb.summary["a"], lambda: wandb.save("x")):
            try:
                use()
                raise SystemExit("there is no run yet")
            except wandb.Error as e:
                assert str(e).startswith("You must call wandb.init() before wandb."), e
        run = wandb.init(project="p", entity="e", name="first", group="g", job_type="train", tags=("a", "b"), notes="n",
                         mode="offline", dir=".", id="mine", reinit=True, resume="allow", anonymous="allow", force=True,
                         monitor_gym=True, sync_tensorboard=True, magic=True, settings=wandb.Settings(silent=True))
        assert wandb.run is run and wandb.init() is run
        assert (run.id, run.project, run.entity, run.name, run.group, run.job_type) == ("s-000000", "p", "e", "first",
                                                                                       "g", "train")
        assert run.tags == ("a", "b") and run.notes == "n" and run.sweep_id == "s" and not run.resumed and run.step == 0
        assert run.path == "e/p/s-000000" and run.url.endswith("/trials/000000/1") and run.get_url() == run.url
        assert os.path.isdir(run.dir) and run.dir.startswith(os.environ["DROVER_CKPT_DIR"])
        run.name, run.tags = "second", run.tags + ("c",)
        wandb.watch(object(), log="all", log_freq=10); wandb.unwatch(); wandb.alert(title="t", text="x")
        table = wandb.Table(columns=["a", "b"], data=[[1, 2]])
        table.add_data(3, 4)
        assert table.get_column("b") == [2, 4]
        for kind in (wandb.Image, wandb.Video, wandb.Audio, wandb.Html, wandb.Graph, wandb.Object3D, wandb.Histogram):
            wandb.log({"media": kind([1]), "table": table})
        wandb.log({"chart": wandb.plot.line(table, "a", "b", title="t"),
                   "matrix": wandb.plot.confusion_matrix(y_true=[1], preds=[1], class_names=["x"])})
        artifact = wandb.Artifact("model", type="model", metadata={"a": 1})
        artifact.add_file(__file__)
        with artifact.new_file("config.txt", mode="wb") as f:
            f.write(b"x")
        assert run.log_artifact(artifact, aliases=["best"]).wait() is artifact
        for use in (lambda: wandb.use_artifact("data:latest"), lambda: wandb.Api().run("e/p/x")):
            try:
                use()
                raise SystemExit("an artifact came from nowhere")
            except wandb.errors.CommError as e:
                assert "drover: {wandb: real}" in str(e)
        assert not hasattr(wandb, "no_such_thing")
        wandb.log({"loss": 1})
        wandb.finish()
        assert wandb.run is None
        try:
            run.log({"loss": -1})
            raise SystemExit("a finished run was logged to")
        except wandb.errors.UsageError:
            pass
        wandb.setup(), wandb.teardown()
    """)


def test_a_trial_that_goes_on_finds_its_files_and_its_step(place):
    (trial,) = place.train("""
        import os, sys, wandb
        run = wandb.init(resume="allow")
        if not run.resumed:
            assert run.step == 0 and wandb.restore("state.txt") is None
            for i in range(3):
                run.log({"loss": 10 - i})
            with open("state.txt", "w") as f:
                f.write("2")
            wandb.save("state.txt")
            os.remove("state.txt")
            sys.exit(1)
        assert int(wandb.restore("state.txt").read()) == 2 and run.step == run.starting_step == 3
        run.log({"loss": 5})
    """, ONE + "drover: {retry_failed: true, retries: 1}\n")
    assert (trial["state"], trial["value"]) == ("done", 5)
    assert place.reports() == [(0, {"loss": 10}), (1, {"loss": 9}), (2, {"loss": 8}), (3, {"loss": 5})]


# ---- stops --------------------------------------------------------------------------------------


def test_early_terminate_stops_a_run_at_once(place):
    trials = place.train("""
        import itertools, time, wandb
        run = wandb.init()
        for epoch in itertools.count():
            wandb.log({"loss": wandb.config.x}, step=epoch)
            if wandb.config.x < 9 and epoch == 3:
                break
            if epoch >= 3:  # told to stop, it has nothing more to log than this: a second would be 50 lines
                time.sleep(0.02)
    """, """
method: grid
metric: {name: loss}
early_terminate: {type: median, min_iter: 1, min_trials: 2}
parameters: {x: {values: [1, 2, 9]}}
drover: {parallel: 1}
""")
    assert [t["state"] for t in trials] == ["done", "done", "pruned"]
    assert len([1 for trial, _, _ in place.records("report") if trial == 2]) < 25
    place.nothing_runs()


def test_a_script_that_handles_sigterm_is_signalled_by_the_launcher_once(place):
    trials = place.train("""
        import signal, sys, time, wandb
        got = []
        signal.signal(signal.SIGTERM, lambda *_: got.append(1))
        wandb.init()
        while not got and len(got) < 2:
            wandb.log({"loss": wandb.config.x})
            if wandb.config.x < 9:
                sys.exit()
            time.sleep(0.01)
        print("saved", len(got))
        sys.exit(1)
    """, """
method: grid
metric: {name: loss}
early_terminate: {type: median, min_iter: 1, min_trials: 2}
parameters: {x: {values: [1, 2, 9]}}
drover: {parallel: 1}
""")
    assert [t["state"] for t in trials] == ["done", "done", "pruned"]
    assert place.output() == "saved 1\n"


# ---- processes ----------------------------------------------------------------------------------


def test_ranks_other_than_0_are_harmless(place):
    (trial,) = place.train("""
        import os, wandb
        rank = int(os.environ["RANK"])
        run = wandb.init(group="ddp", mode="online" if rank == 0 else "disabled") if rank < 2 else wandb.init()
        for i in range(3):
            run.log({"loss": i - 100 * rank + 5})
        run.summary["loss"] = 7 - 100 * rank
    """, ONE + "drover: {resources: {ranks: 3}}\n")
    assert (trial["state"], trial["value"]) == ("done", 5)


def test_a_process_that_lost_the_channel_reports_by_its_output(place):
    """As torchrun, accelerate and multiprocessing's spawn start theirs; only rank 0 of them is heard."""
    (trial,) = place.train("""
        import multiprocessing as mp, os, sys, wandb

        def train(rank):
            os.environ.update(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2")
            with wandb.init() as run:
                for i in range(3):
                    sys.stdout.write("50 %")  # a progress bar without an end of line
                    sys.stdout.flush()
                    run.log({"loss": wandb.config.lr + i - 100 * rank})

        if __name__ == "__main__":
            spawn = mp.get_context("spawn")
            ps = [spawn.Process(target=train, args=(r,)) for r in range(2)]
            [p.start() for p in ps]
            [p.join() for p in ps]
            sys.exit(max(p.exitcode for p in ps))
    """)
    assert (trial["state"], trial["value"]) == ("done", 0.5)
    assert place.reports() == [(0, {"loss": 0.5}), (1, {"loss": 1.5}), (2, {"loss": 2.5})]


def test_forked_workers_and_runs_beside_the_sweeps_do_no_harm(place):
    """Cross-validation as in W&B's examples: folds are runs of their own, without the sweep's variables."""
    (trial,) = place.train("""
        import multiprocessing as mp, os, pickle
        import wandb

        def fold(queue, i):
            for name in [n for n in os.environ if n.startswith("WANDB_")]:
                del os.environ[name]
            run = wandb.init(group="folds", name=f"fold-{i}", config={"lr": 1}, reinit=True)
            assert run.sweep_id is None and run.config.lr == 1
            wandb.log({"loss": -100 - i})
            wandb.finish()
            queue.put(i)

        def load(queue):
            import wandb
            assert pickle.loads(pickle.dumps(wandb.run)).id == wandb.run.id
            queue.put(10)

        def main():
            run = wandb.init()
            queue = mp.get_context("fork").Queue()
            for i in range(3):
                p = mp.get_context("fork").Process(target=fold if i else load, args=(queue, i) if i else (queue,))
                p.start()
                p.join()
                assert p.exitcode == 0
            run.log({"loss": sum(queue.get() for _ in range(3))})

        main()
    """)
    assert (trial["state"], trial["value"]) == ("done", 13), trial
    assert len(place.reports()) == 1


def test_reports_wait_for_no_coordinator_and_none_is_lost(place):
    (place.path / "s.py").write_text(textwrap.dedent("""
        import os, time, wandb
        wandb.init()
        wandb.log({"loss": 10000})
        while not os.path.exists("go"):
            time.sleep(0.01)
        for i in range(5000):
            wandb.log({"loss": 5000 - i})
        open("all_said", "w").close()
    """))
    (place.path / "s.yaml").write_text("program: s.py\n" + ONE)
    p = place.start("s.yaml")
    wait_until(place.reports, "the first report")
    os.kill(p.pid, signal.SIGSTOP)
    try:
        (place.path / "go").touch()
        wait_until((place.path / "all_said").exists, "the trial to say all it has", 20)
    finally:
        os.kill(p.pid, signal.SIGCONT)
    assert p.wait(60) == 0, place.said()
    assert [s for s, _ in place.reports()] == list(range(5001))


def test_trials_that_report_in_bursts_run_once_and_lose_nothing(place):
    """8 at once. What a report costs: scripts/bench/report-cost."""
    trials = place.train("""
        import drover, wandb
        wandb.init()
        wandb.define_metric("*", step_metric="epoch")
        for i in range(2000):
            wandb.log({"loss": 0.5 + i, "acc": 0.25, "epoch": i})
        for i in range(2000, 4000):
            drover.report(step=i, loss=0.5 + i, acc=0.25)
        print("once")
    """, "method: grid\nmetric: {name: loss}\nparameters: {x: {values: [1, 2, 3, 4, 5, 6, 7, 8]}}\n", "--parallel", "8")
    assert place.output() == 8 * "once\n" and len(place.records("leased")) == 8
    assert [t["value"] for t in trials] == 8 * [0.5] and [t["steps"] for t in trials] == 8 * [4000]


# ---- which module -------------------------------------------------------------------------------


def test_the_real_module_is_left_alone_where_the_file_says_so(place):
    (place.path / "theirs").mkdir()
    (place.path / "theirs" / "wandb.py").write_text("def init(): print('theirs')\nlog = lambda x: print(x)\n")
    place.env["PYTHONPATH"] = str(place.path / "theirs")
    code = "import drover, wandb\nwandb.init()\nwandb.log({'loss': 3})\ndrover.report(loss=4)\n"
    (trial,) = place.train(code, ONE + "drover: {wandb: real}\n")
    assert place.output() == "theirs\n{'loss': 3}\n" and trial["value"] == 4
    (trial,) = place.train(code, ONE, name="ours")
    assert place.output("ours") == "" and trial["value"] == 3
    done = subprocess.run([DROVER, "run", "-np", "1", "/usr/bin/python3", "-c", "import wandb; wandb.init()"],
                          cwd=place.path, env=place.env, text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "theirs\n"), done.stderr


def test_another_word_for_wandb_is_an_error(place):
    (place.path / "s.yaml").write_text("program: s.py\n" + ONE + "drover: {wandb: reel}\n")
    done = place.run("s.yaml")
    assert done.returncode == 2 and "s.yaml:5:10: 'wandb' must be drover" in done.stderr, done.stderr


def test_plots_and_tables_are_accepted_and_what_is_missing_names_the_way_out(place):
    (trial,) = place.train("""
        import wandb
        import wandb.integration.sklearn
        from wandb.sklearn import plot_roc

        run = wandb.init()
        wandb.log({"loss": 0.5, "cm": wandb.sklearn.plot_confusion_matrix([0, 1], [0, 1], ["a", "b"]), "roc": plot_roc([], [])})
        wandb.sklearn.plot_classifier(None, [], [], [], [], [], [], ["a"], model_name="m", feature_names=None)
        wandb.log({"table": wandb.plot_table("wandb/line/v0", None, {}), "curve": wandb.integration.sklearn.plot_learning_curve()})
        for code in "wandb.nothing", "run.nothing", "import wandb.integration.sb3", "from wandb.fastai import WandbCallback":
            try:
                exec(code)
                raise SystemExit(f"{code} is there")
            except (AttributeError, ImportError) as e:
                assert "`drover: {wandb: real}`" in str(e) and "drover.report()" in str(e), e
        try:
            import wandb.sb3
        except ImportError:
            print("as without the package")
    """)
    assert (trial["state"], trial["value"]) == ("done", 0.5), place.output(stream="stderr")
    assert place.output() == "as without the package\n"


def test_a_metric_that_went_to_the_real_module_only_is_explained(place):
    (place.path / "wandb.py").write_text("def init(): pass\nlog = lambda x: None\n")
    (trial,) = place.train("import wandb\nwandb.init()\nwandb.log({'loss': 3})\n", ONE + "drover: {wandb: real}\n", status=1)
    assert trial["state"] == "invalid" and "wandb.log() reports to W&B only: call drover.report() too" in trial["error"]
    (trial,) = place.train("import wandb\nwandb.init()\n", name="ours", status=1)
    assert "reports to W&B" not in trial["error"]
