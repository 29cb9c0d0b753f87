"""Exports that the other tools open with their own libraries, and imports of their files."""
import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sweep_kit import DROVER, Place

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")
PEERS = Path(__file__).resolve().parents[2] / "build/exchange/bin/python3"
WANDB = Path(__file__).resolve().parents[2] / "build/wandb/bin/python3"
SWEEP = """
method: bayes
metric: {name: loss}
run_cap: 8
parameters:
  lr: {distribution: log_uniform_values, min: 0.001, max: 0.1}
  layers: {min: 1, max: 4}
  solver: {values: [sgd, "a,\\"b\\"", 3]}
  opt: {parameters: {beta: {min: 0.5, max: 0.9}}}
"""
# Trial 2 fails; all others report twice.
TRIAL = """
test $DROVER_TRIAL_ID != 2 || exit 3
for step in 1 2; do echo "{\\"step\\": $step, \\"loss\\": $(awk "BEGIN { print $lr * 10 + $layers / $step }"), \\"acc\\": 0.$step}"; done
"""


@pytest.fixture(scope="module", name="place")
def finished(tmp_path_factory):
    p = Place(tmp_path_factory.mktemp("exchange"))
    p.script("t.sh", TRIAL)
    done = p.run(p.sweep(SWEEP), "--quiet")
    assert done.returncode == 0, done.stderr
    yield p
    p.clean_up()


def drover(place, *args, python=None, status=0):
    env = dict(place.env, **({"DROVER_PYTHON": str(python)} if python else {}))
    done = subprocess.run([DROVER, *args], cwd=place.path, env=env, text=True, capture_output=True, timeout=120)
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


def peer(place, code, *args, python=PEERS):
    """What a program of the other tool prints, as JSON."""
    done = subprocess.run([python, "-c", code, *map(str, args)], cwd=place.path, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def needs(python, module):
    found = python.exists() and subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0
    return pytest.mark.skipif(not found, reason=f"{module} of PyPI is not installed (scripts/setup --test)")


@pytest.fixture(name="trials")
def trials_of(place):
    return place.show("s")["trials"]


def by_id(trials):
    return {t["id"]: t for t in trials}


# ---- formats that need no library ---------------------------------------------------------------------------------------

def test_csv_and_lines_have_all_trials(place, trials):
    drover(place, "export", "s", "--csv", "s.csv", "--jsonl", "s.jsonl")
    rows = list(csv.DictReader(open(place.path / "s.csv")))
    lines = [json.loads(line) for line in open(place.path / "s.jsonl")]
    assert len(rows) == len(lines) == 8 and not list(place.path.glob("*.tmp"))
    known = by_id(trials)
    for row, line in zip(rows, lines):
        t = known[line["id"]]
        assert line["params"] == t["params"] and line["value"] == t["value"] and line["state"] == t["state"]
        assert float(row["lr"]) == t["params"]["lr"] and float(row["opt.beta"]) == t["params"]["opt"]["beta"]
    assert [len(line["curves"].get("loss", [])) for line in lines] == [0 if line["id"] == 2 else 2 for line in lines]
    assert drover(place, "export", "s", "--csv", "-").splitlines()[0] == ",".join(rows[0])


def test_bad_requests_change_nothing(place, tmp_path):
    assert "no format given" in drover(place, "export", "s", status=2)
    assert "no sweep" in drover(place, "export", "nosuch", "--csv", "-", status=2)
    (tmp_path / "full.csv").write_text("old")
    assert "Is a directory" in drover(place, "export", "s", "--csv", str(tmp_path), status=1)
    (tmp_path / "o.db").write_text("mine")
    assert "the file exists" in drover(place, "export", "s", "--optuna", str(tmp_path / "o.db"), status=2)
    assert (tmp_path / "o.db").read_text() == "mine"
    with open("/dev/full", "w") as full:
        done = subprocess.run([DROVER, "export", "s", "--csv", "-"], cwd=place.path, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "stdout: cannot be written" in done.stderr


def test_a_library_that_is_missing_is_named(place, tmp_path):
    (tmp_path / "pyarrow.py").write_text("raise ImportError('none here')")
    place.env["PYTHONPATH"] = str(tmp_path)
    said = drover(place, "export", "s", "--parquet", "x", python=sys.executable, status=2)
    del place.env["PYTHONPATH"]
    assert "needs the Python package pyarrow: none here" in said and "-m pip install pyarrow" in said
    assert "needs Python" in drover(place, "export", "s", "--parquet", "x", python="/no/python", status=2)


# ---- what the other tools read ------------------------------------------------------------------------------------------

OPTUNA = """
import json, sys, optuna
study = optuna.load_study(study_name=None, storage=sys.argv[1])
print(json.dumps([{"id": t.number, "state": t.state.name, "params": t.params, "value": t.value, "error": t.user_attrs.get("error"),
                   "curve": sorted(t.intermediate_values.items())} for t in study.trials]))
"""


@needs(PEERS, "optuna")
def test_optuna_opens_its_study(place, trials, tmp_path):
    drover(place, "export", "s", "--optuna", str(tmp_path / "s.db"), python=PEERS)
    found = peer(place, OPTUNA, f"sqlite:///{tmp_path}/s.db")
    known = by_id(trials)
    assert len(found) == 8
    for t in found:
        mine = known[t["id"]]
        flat = {**mine["params"], "opt.beta": mine["params"]["opt"]["beta"]}
        del flat["opt"]
        assert t["params"] == flat and t["value"] == mine["value"]
        assert t["state"] == {"done": "COMPLETE", "failed": "FAIL"}[mine["state"]]
        assert len(t["curve"]) == (0 if t["id"] == 2 else 2)
    assert found[2]["error"] == "exit status 3"


CONSTRAINED = """
import json, optuna, sys
study = optuna.load_study(study_name="s", storage=sys.argv[1])
print(json.dumps([study.best_trial.number, [t.system_attrs.get("constraints") for t in study.trials]]))
"""


@needs(PEERS, "optuna")
@needs(PEERS, "tensorboard")
def test_optuna_has_the_outcome_constraints_as_its_own(tmp_path):
    place = Place(tmp_path)
    place.script("t.sh", 'test $x = 3 && { echo "{\\"loss\\": 0}"; exit 0; }\necho "{\\"loss\\": $x, \\"ms\\": $((70 - 10 * x))}"\n')
    done = place.run(place.sweep("method: grid\nmetric: {name: loss}\nparameters: {x: {values: [1, 2, 3]}}\n"
                                 "drover: {parallel: 1, outcome_constraints: [{metric: ms, max: 55, min: 5}]}\n"))
    assert done.returncode == 0, done.stderr
    drover(place, "export", "s", "--optuna", str(tmp_path / "s.db"), python=PEERS)
    best, found = peer(place, CONSTRAINED, f"sqlite:///{tmp_path}/s.db")
    assert best == 1 and found[:2] == [[5.0], [-5.0]] and found[2][0] > 1e300
    lines = [json.loads(t) for t in drover(place, "export", "s", "--jsonl", "-").splitlines()]
    assert [t["feasible"] for t in lines] == [False, True, False]
    drover(place, "export", "s", "--tensorboard", "tb", python=PEERS)
    assert peer(place, "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator as E\n"
                       "print([E(f'tb/trial-{i}').Reload().Scalars('feasible')[0].value for i in range(3)])") == [0, 1, 0]


@pytest.mark.parametrize("metrics, best, front", [
    ("metric: {name: loss}", 1, None),
    ("metric: {name: acc, goal: maximize}", 5, None),
    ("metrics: [{name: loss}, {name: size}]", 1, [1, 2]),
    ("metrics: [{name: acc, goal: maximize}, {name: size, goal: maximize}]", 5, [5, 4]),
])
def test_outcome_constraints_come_back(tmp_path, metrics, best, front):
    place = Place(tmp_path)
    place.script("t.sh", 'echo "{\\"loss\\": $x, \\"size\\": $((x % 3)), \\"acc\\": 0.$x, \\"ms\\": $((70 - 10 * x))}"\n')
    done = place.run(place.sweep(f"method: grid\n{metrics}\nparameters: {{x: {{values: [1, 2, 3, 4, 5, 6]}}}}\n"
                                 "drover: {parallel: 1, outcome_constraints: [{metric: ms, max: 55, min: 5}]}\n"))
    assert done.returncode == 0, done.stderr
    first = place.show("s")
    assert (first["best"]["id"], first.get("pareto")) == (best, front)
    forms = ["csv", "jsonl", *(["optuna"] if PEERS.exists() else [])]
    drover(place, "export", "s", *(word for form in forms for word in (f"--{form}", f"t.{form}")), python=PEERS)
    for form in forms:
        drover(place, "import", f"--{form}", f"t.{form}", "--name", form, python=PEERS if form == "optuna" else None)
        again = place.show(form)
        assert (again["best"], again.get("pareto")) == (first["best"], front), form
        for a, b in zip(again["trials"], first["trials"]):
            assert all(a[key] == b[key] for key in ("id", "params", "feasible", *(["metrics"] if form != "optuna" else []))), form
    assert len({drover(place, "export", name, "--csv", "-").splitlines()[0] for name in ("s", "csv", "jsonl")}) == 1


def test_a_result_without_bounds_stays_a_result(place, tmp_path):
    (tmp_path / "t.csv").write_text("lr,feasible,loss\n0.1,False,0.1\n0.2,True,0.4\n0.3,True,0.5\n")
    (tmp_path / "t.json").write_text(json.dumps([{"config": {"lr": lr}, "summary": {"loss": loss, "drover_feasible": fits}}
                                                 for lr, loss, fits in ((0.1, 0.1, False), (0.2, 0.4, True), (0.3, 0.5, True))]))
    for form, file in (("csv", "t.csv"), ("wandb", "t.json")):
        drover(place, "import", f"--{form}", str(tmp_path / file), "--metric", "loss", "--name", f"result-{form}")
        show = place.show(f"result-{form}")
        assert show["best"] == {"id": 1, "value": 0.4, "params": {"lr": 0.2}}
        assert [t["feasible"] for t in sorted(show["trials"], key=lambda t: t["id"])] == [False, True, True]


def test_lines_with_two_sets_of_constraints_are_refused(place, tmp_path):
    lines = [{"state": "done", "params": {"x": x}, "metrics": {"loss": x}, "outcome_constraints": [{"metric": "ms", "max": x}]} for x in (1, 2)]
    (tmp_path / "two.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert "value 2: other outcome_constraints than" in drover(place, "import", "--jsonl", str(tmp_path / "two.jsonl"), "--metric", "loss", status=2)


PARQUET = """
import json, sys, pyarrow.parquet
rows = pyarrow.parquet.read_table(sys.argv[1]).to_pylist()
print(json.dumps([{k: v for k, v in r.items() if k not in ("created", "leased", "ended")} for r in rows]))
"""


@needs(PEERS, "pyarrow")
def test_pyarrow_reads_the_table(place, trials, tmp_path):
    drover(place, "export", "s", "--parquet", str(tmp_path / "s.parquet"), python=PEERS)
    rows = peer(place, PARQUET, tmp_path / "s.parquet")
    known = by_id(trials)
    assert len(rows) == 8
    for r in rows:
        assert r["param.lr"] == known[r["trial"]]["params"]["lr"] and r["value"] == known[r["trial"]]["value"]
        assert len(json.loads(r["curves"]).get("loss", [])) == (0 if r["trial"] == 2 else 2)


TENSORBOARD = """
import json, sys
from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
from tensorboard.plugins.hparams import metadata
m = EventMultiplexer().AddRunsFromDirectory(sys.argv[1])
m.Reload()
runs = {}
for run in m.Runs():
    a = m.GetAccumulator(run)
    plugin = a.PluginTagToContent(metadata.PLUGIN_NAME)
    start = plugin.get(metadata.SESSION_START_INFO_TAG)
    params = {k: v.number_value if v.WhichOneof("kind") == "number_value" else v.string_value
              for k, v in metadata.parse_session_start_info_plugin_data(start).hparams.items()} if start else None
    end = plugin.get(metadata.SESSION_END_INFO_TAG)
    runs[run] = [params, [[e.step, e.value] for e in a.Scalars("loss")] if "loss" in a.Tags()["scalars"] else [],
                 metadata.parse_session_end_info_plugin_data(end).status if end else None]
print(json.dumps(runs))
"""


@needs(PEERS, "tensorboard")
def test_tensorboard_reads_hparams_and_curves(place, trials, tmp_path):
    drover(place, "export", "s", "--tensorboard", str(tmp_path / "tb"), python=PEERS)
    runs = peer(place, TENSORBOARD, tmp_path / "tb")
    assert sorted(r for r in runs if r != ".") == [f"trial-{i}" for i in range(8)]
    for t in trials:
        params, curve, status = runs[f"trial-{t['id']}"]
        assert params["lr"] == t["params"]["lr"] and params["opt.beta"] == t["params"]["opt"]["beta"]
        assert [step for step, _ in curve] == ([] if t["id"] == 2 else [1, 2])
        assert status == (2 if t["id"] == 2 else 1)  # failure, success
        if curve:
            assert curve[-1][1] == pytest.approx(t["metrics"]["loss"], rel=1e-6)


MLFLOW = """
import json, sys
from mlflow.tracking import MlflowClient
c = MlflowClient(tracking_uri="sqlite:///" + sys.argv[1] + "/mlflow.db")
e = c.get_experiment_by_name("s")
print(json.dumps({r.info.run_name: [r.data.params, r.info.status, [[m.step, m.value] for m in c.get_metric_history(r.info.run_id, "loss")]
                                    if "loss" in r.data.metrics else []] for r in c.search_runs([e.experiment_id])}))
"""


@needs(PEERS, "mlflow")
def test_mlflow_reads_runs(place, trials, tmp_path):
    drover(place, "export", "s", "--mlflow", str(tmp_path / "ml"), python=PEERS)
    runs = peer(place, MLFLOW, tmp_path / "ml")
    assert len(runs) == 8
    for t in trials:
        params, status, curve = runs[f"trial-{t['id']}"]
        assert float(params["lr"]) == t["params"]["lr"] and status == ("FAILED" if t["id"] == 2 else "FINISHED")
        assert len(curve) == (0 if t["id"] == 2 else 2)


@needs(WANDB, "wandb")
def test_wandb_has_one_offline_run_per_trial(place, tmp_path):
    drover(place, "export", "s", "--wandb", str(tmp_path), python=WANDB)
    assert len(list(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))) == 8


# ---- imports ------------------------------------------------------------------------------------------------------------

def comparable(trials):
    return [(t["id"], t["state"], t["params"], t["value"]) for t in sorted(trials, key=lambda t: t["id"])]


@needs(PEERS, "optuna")
def test_an_exported_sweep_comes_back_and_is_learned_from(place, trials, tmp_path):
    drover(place, "export", "s", "--jsonl", str(tmp_path / "lines.jsonl"), "--optuna", str(tmp_path / "study.db"),
           "--csv", str(tmp_path / "table.csv"), python=PEERS)
    drover(place, "import", "--jsonl", str(tmp_path / "lines.jsonl"), "--metric", "loss")
    drover(place, "import", "--optuna", str(tmp_path / "study.db"), "--metric", "loss", python=PEERS)
    drover(place, "import", "--csv", str(tmp_path / "table.csv"), "--metric", "loss", "--params", "lr,layers,solver,opt.beta")
    for name in ("lines", "study", "table"):
        again = place.show(name)
        assert comparable(again["trials"]) == comparable(trials) and again["state"] == "finished"
    more = place.run(place.sweep(SWEEP, name="more"), "--prior", "study", "--dry-run")
    assert "prior study: 7 of 7 trials used" in more.stderr


def test_tables_of_other_tools(place, tmp_path):
    (tmp_path / "optuna.csv").write_text(
        "number,value,datetime_start,datetime_complete,duration,params_lr,params_opt,user_attrs_x,state\n"
        "0,0.5,2026-01-01 10:00:00,2026-01-01 10:00:09,0 days,0.1,adam,1,COMPLETE\n"
        "1,0.7,2026-01-01 10:00:00,,,0.2,sgd,1,RUNNING\n2,,,,,0.3,sgd,1,FAIL\n")
    assert "2 trials; 1 had not ended" in drover(place, "import", "--csv", str(tmp_path / "optuna.csv"), "--name", "oc")
    assert [(t["state"], t["params"]) for t in place.show("oc")["trials"]] == [
        ("done", {"lr": 0.1, "opt": "adam"}), ("failed", {"lr": 0.3, "opt": "sgd"})]

    (tmp_path / "runs.json").write_text(json.dumps([
        {"name": "a", "state": "finished", "config": {"lr": {"value": 0.1}, "_wandb": {"value": 1}, "opt": {"value": "adam"}},
         "summary": {"acc": 0.9, "_runtime": 12}, "history": [{"_step": 0, "acc": 0.5}, {"_step": 5, "acc": 0.9}]},
        {"name": "b", "state": "crashed", "config": {"lr": 0.3, "opt": "sgd"}, "summary": {}},
        {"name": "c", "state": "running", "config": {"lr": 0.3, "opt": "sgd"}, "summary": {}}]))
    drover(place, "import", "--wandb", str(tmp_path / "runs.json"), "--metric", "acc", "--goal", "maximize", "--name", "wb")
    show = place.show("wb")
    assert show["best"]["value"] == 0.9 and [t["state"] for t in sorted(show["trials"], key=lambda t: t["id"])] == ["done", "failed"]

    (tmp_path / "export.csv").write_text('"Name","State","Notes","User","Tags","Created","Runtime","Sweep","lr","acc"\n'
                                         '"run-1","finished","-","me","","2026","100","s1","0.1","0.8"\n'
                                         '"run-2","finished","-","me","","2026","100","s1","0.2","0.7"\n')
    drover(place, "import", "--wandb", str(tmp_path / "export.csv"), "--metric", "acc", "--goal", "maximize", "--name", "wc")
    assert place.show("wc")["best"] == {"id": 0, "value": 0.8, "params": {"lr": 0.1}}

    (tmp_path / "old.csv").write_text("trial,state,value,loss,acc,steps,seconds,node,why,error,lr\n"
                                      "0,done,0.5,0.5,0.7,3,1,n,,,0.1\n1,done,0.4,0.4,nan,3,1,n,,,0.2\n")
    drover(place, "import", "--csv", str(tmp_path / "old.csv"), "--name", "od")  # of a version without the column goals
    assert place.show("od")["best"] == {"id": 1, "value": 0.4, "params": {"lr": 0.2}}


@pytest.mark.parametrize("text, args, said", [
    ("lr,loss\n1,2\n3\n", ["--metric", "loss"], "line 3: 1 cells, the header has 2"),
    ("lr,loss\n1,2\n", [], "which column is the metric?"),
    ("lr,loss\n1,2\n", ["--metric", "los"], "there is no column 'los'"),
    ("lr,loss\n1,2\n", ["--metric", "loss", "--params", "rl"], "there is no column 'rl'"),
    ("lr,loss\n1,2\n", ["--metric", "loss", "--goal", "up"], "minimize or maximize"),
    ("lr,loss\n", ["--metric", "loss"], "no trial"),
    ("", ["--metric", "loss"], "empty"),
    ("lr,loss\n1,2\n", ["--metric", "loss", "--name", "s"], "there is a sweep 's'"),
    ("lr,loss\n1,2\n", ["--metric", "loss", "--name", "a/b"], "--name 'a/b'"),
])
def test_a_wrong_file_is_refused(place, tmp_path, text, args, said):
    (tmp_path / "t.csv").write_text(text)
    before = sorted(os.listdir(place.path / "sweeps"))
    assert said in drover(place, "import", "--csv", str(tmp_path / "t.csv"), *args, status=1 if "no trial" in said else 2)
    assert sorted(os.listdir(place.path / "sweeps")) == before


def test_names_and_columns_of_other_tools_have_their_meaning(place, tmp_path):
    (tmp_path / "ray.csv").write_text("loss,done,pid,config/lr,config/model/act\n0.5,True,1,0.01,relu\n0.4,True,2,0.1,gelu\n")
    drover(place, "import", "--csv", str(tmp_path / "ray.csv"), "--metric", "loss", "--name", "ray")
    assert place.show("ray")["best"]["params"] == {"lr": 0.1, "model": {"act": "gelu"}}
    (tmp_path / "page.csv").write_text('"Name","State","lr","a","a.b","val_loss","_step","_runtime"\n"r1","finished","0.1","1","2","0.3","100","9"\n'
                                       '"r2","finished","0.2","1","3","nan","100","9"\n')
    drover(place, "import", "--wandb", str(tmp_path / "page.csv"), "--metric", "val_loss", "--name", "page")
    trials = by_id(place.show("page")["trials"])
    assert trials[0]["params"] == {"lr": 0.1, "a": 1, "a.b": 2} and trials[0]["value"] == 0.3
    assert trials[1]["state"] == "invalid" and trials[1]["value"] is None
    runs = [{"config": {"lr": 0.1}, "summary": {"loss": loss}, "history": [{"_step": 0, "loss": 0.1}, {"_step": 1, "loss": loss}]}
            for loss in (0.3, float("nan"), float("inf"))]
    (tmp_path / "nan.json").write_text("\n".join(map(json.dumps, runs)))
    drover(place, "import", "--wandb", str(tmp_path / "nan.json"), "--metric", "loss", "--name", "nan")
    assert sorted(str(t["value"]) for t in place.show("nan")["trials"]) == ["0.3", "None", "None"]


def test_lines_keep_the_best_value_of_a_trial(place, tmp_path):
    place.script("dip.sh", 'for loss in 0.9 0.2$x 0.8; do echo "{\\"loss\\": $loss}"; done\n')
    assert place.run(place.sweep("method: grid\nmetric: {name: loss}\nparameters: {x: {values: [1, 2]}}\n", "dip.sh", name="dip"), "-q").returncode == 0
    drover(place, "export", "dip", "--jsonl", str(tmp_path / "l.jsonl"))
    drover(place, "import", "--jsonl", str(tmp_path / "l.jsonl"), "--name", "dip2")
    assert comparable(place.show("dip2")["trials"]) == comparable(place.show("dip")["trials"])
    assert place.show("dip2")["best"]["value"] == 0.21


def test_an_import_that_fails_leaves_the_reason_and_nothing_else(place, tmp_path):
    (tmp_path / "x.db").write_text("no database")
    before = sorted(os.listdir(place.path / "sweeps"))
    (tmp_path / "optuna.py").write_text("raise ImportError('none here')")
    place.env["PYTHONPATH"] = str(tmp_path)
    for args in (["import", "--optuna", str(tmp_path / "x.db")], ["export", "s", "--optuna", str(tmp_path / "new.db")]):
        assert "needs the Python package optuna: none here" in drover(place, *args, python=sys.executable, status=2)
    del place.env["PYTHONPATH"]
    assert "needs Python" in drover(place, "import", "--optuna", str(tmp_path / "x.db"), python="/no/python", status=2)
    assert "No such file" in drover(place, "import", "--csv", str(tmp_path / "none.csv"), "--metric", "a", status=2)
    assert sorted(os.listdir(place.path / "sweeps")) == before and not (tmp_path / "new.db").exists()
    assert (tmp_path / "x.db").read_text() == "no database"


@needs(PEERS, "optuna")
@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_steps_names_times_and_infinities_of_optuna(place, tmp_path, zone, monkeypatch):
    monkeypatch.setitem(place.env, "TZ", zone)
    monkeypatch.setenv("TZ", zone)
    peer(place, """
import datetime, optuna, sys
optuna.logging.set_verbosity(optuna.logging.ERROR)
s = optuna.create_study(storage=f"sqlite:///{sys.argv[1]}/own.db", study_name="own")
s.set_metric_names(["loss"])
d = {"units": optuna.distributions.IntDistribution(32, 512, step=32), "lr.head": optuna.distributions.FloatDistribution(1e-4, 1, log=True)}
for i, value in enumerate([0.5, float("inf"), 0.25]):
    t = optuna.trial.create_trial(value=value, params={"units": 64, "lr.head": 0.01}, distributions=d, intermediate_values={0: 0.1, 7: value})
    t.datetime_start = datetime.datetime(2026, 5, 1, 10 + i)
    t.datetime_complete = datetime.datetime(2026, 5, 1, 11 + i)
    s.add_trial(t)
print(s.trials[0].datetime_start.timestamp())
""", tmp_path)
    drover(place, "import", "--optuna", str(tmp_path / "own.db"), "--name", f"own-{zone[:4]}", python=PEERS)
    show = place.show(f"own-{zone[:4]}")
    assert [t["value"] for t in sorted(show["trials"], key=lambda t: t["id"])] == [0.5, None, 0.25] and show["best"]["params"]["lr"]["head"] == 0.01
    drover(place, "export", f"own-{zone[:4]}", "--optuna", str(tmp_path / "back.db"), python=PEERS)
    found = peer(place, """
import json, optuna, sys
s = optuna.load_study(study_name=None, storage=sys.argv[1])
print(json.dumps([s.metric_names, [str(t.datetime_start) for t in s.trials], s.trials[0].distributions["units"].step,
                  sorted(s.trials[2].intermediate_values.items()), [t.state.name for t in s.trials]]))
""", f"sqlite:///{tmp_path}/back.db")
    assert found == [["loss"], [f"2026-05-01 {h}:00:00" for h in (10, 11, 12)], 32, [[0, 0.1], [7, 0.25]], ["COMPLETE", "FAIL", "COMPLETE"]]


@needs(PEERS, "optuna")
def test_a_study_of_optuna_with_conditions_and_two_objectives(place, tmp_path):
    peer(place, """
import optuna, sys
optuna.logging.set_verbosity(optuna.logging.ERROR)
def objective(t):
    t.set_user_attr("x", 1)
    solver = t.suggest_categorical("solver", ["sgd", "adam"])
    lr = t.suggest_float("lr", 1e-5, 1e-1, log=True)
    if solver == "sgd":
        t.suggest_int("momentum", 1, 9, step=2)
    return lr, 1 - lr
s = optuna.create_study(storage=f"sqlite:///{sys.argv[1]}/two.db", study_name="a", directions=["minimize", "maximize"])
s.optimize(objective, n_trials=6)
optuna.create_study(storage=f"sqlite:///{sys.argv[1]}/two.db", study_name="b")
print("1")
""", tmp_path)
    said = drover(place, "import", "--optuna", str(tmp_path / "two.db"), python=PEERS, status=2)
    assert "several studies" in said and "--study 'a', --study 'b'" in said
    drover(place, "import", "--optuna", str(tmp_path / "two.db"), "--study", "a", "--metric", "loss", "--metric", "acc", python=PEERS)
    show = place.show("two")
    assert len(show["trials"]) == 6 and all(t["state"] == "done" for t in show["trials"]) and show["pareto"]


# Values of every type, in every format. Drawn at random; the seed is in the name of the test.
CHARACTERS = ["a", "b", " ", ",", '"', "'", "\\n", "\\\\", "é", "€", "😀", "#", ":", "-", "[", "{", "\\t", "%", "=", ";"]
TEXTS = ["1e5", "007", "1", "1.0", "nan", "inf", "-inf", "true", "False", "null", "None", "yes", "~", "", " a ", "0x1F", "12:30", "1_000", "-", "[1]", "{}"]


def random_sweep(random):
    def text():
        return random.choice(TEXTS) if random.random() < 0.5 else "".join(random.choice(CHARACTERS) for _ in range(random.randint(1, 8)))

    def value(depth=0):
        kind = random.randint(0, 7 if depth < 2 else 5)
        return (text() if kind < 3 else random.choice([True, False, None]) if kind == 3 else random.randint(-9, 9) if kind == 4 else
                random.choice([1e-7, 2.5, -0.125, 3.0, 1e17]) if kind == 5 else [value(depth + 1) for _ in range(random.randint(0, 3))] if kind == 6
                else {random.choice("abc"): value(depth + 1)})

    groups = {"k": {"min": -3, "max": 300}, "x": {"min": 1e-9, "max": 1e9}, "q": {"distribution": "q_uniform", "min": 0, "max": 9, "q": 0.1},
              "state": {"values": [value() for _ in range(6)]}, "value": {"value": value()}, "lr": {"min": 0.0, "max": 1.0},
              "opt": {"parameters": {"name": {"values": [value() for _ in range(6)]}, "deep": {"parameters": {"n1-x": {"values": [value(), value()]}}}}}}
    return {"method": "random", "run_cap": 12, "metrics": [{"name": "my/acc é", "goal": "maximize"}, {"name": "lr", "goal": "minimize"}],
            "parameters": groups, "drover": {"seed": random.randint(0, 99), "value": random.choice(["best", "last"]), "parallel": 4}}


def exactly(trials):
    return [json.dumps([t["id"], t["state"], t["params"], t["value"]], sort_keys=True) for t in sorted(trials, key=lambda t: t["id"])]


@pytest.mark.parametrize("seed", range(6))
def test_any_values_come_back_as_they_were(place, tmp_path, seed):
    import random
    rng, name = random.Random(seed), f"any{seed}"
    place.script("any.sh", """
for step in 1 2 3; do echo "{\\"step\\": $step, \\"my/acc é\\": $(( (DROVER_TRIAL_ID * 7 + step * 5) % 11 )).5, \\"lr\\": $step}"; done
""")
    text = json.dumps({**random_sweep(rng), "command": ["sh", "any.sh"]}, ensure_ascii=False)
    (place.path / f"{name}.yaml").write_text(text)
    done = place.run(f"{name}.yaml", "-q")
    assert done.returncode == 0, done.stderr
    before = place.show(name)
    drover(place, "export", name, "--jsonl", str(tmp_path / "l.jsonl"), "--csv", str(tmp_path / "c.csv"))
    for form, file in (("jsonl", "l.jsonl"), ("csv", "c.csv")):
        drover(place, "import", f"--{form}", str(tmp_path / file), "--name", f"{name}-{form}")
        again = place.show(f"{name}-{form}")
        assert exactly(again["trials"]) == exactly(before["trials"]), (seed, form)
        assert again["best"]["id"] == before["best"]["id"], (seed, form)
    lines = [json.loads(line) for line in drover(place, "export", f"{name}-jsonl", "--jsonl", "-").splitlines()]
    wanted = [json.loads(line) for line in open(tmp_path / "l.jsonl")]
    for key in ("curves", "metrics", "goals", "ended_ms", "seconds"):
        assert [t[key] for t in lines] == [t[key] for t in wanted], (seed, key)


def test_names_that_a_sweep_file_does_not_allow_are_changed_and_said(place, tmp_path):
    (tmp_path / "n.csv").write_text("learning rate,1x,loss,é!,_1x\n0.1,2,0.5,a,7\n0.2,3.0,0.4,b,8\n")
    said = drover(place, "import", "--csv", str(tmp_path / "n.csv"), "--metric", "loss", "--params", "learning rate,1x,é!,_1x", "--name", "named")
    assert "parameter 'learning rate' is learning_rate here" in said and "parameter '1x' is _1x_ here" in said
    assert place.show("named")["best"]["params"] == {"learning_rate": 0.2, "_1x_": 3, "___": "b", "_1x": 8}


# ---- Python -------------------------------------------------------------------------------------------------------------

def test_python_reads_a_sweep(place, trials):
    found = place.python("print(json.dumps(drover.sweep('s').trials))")
    assert comparable(found) == comparable(trials) and len(found[0]["curves"]["loss"]) == 2
    said = place.python("""
try:
    drover.sweep("nosuch").trials
except ValueError as error:
    print(json.dumps(str(error)))
""")
    assert "there is no sweep 'nosuch'" in said


@pytest.mark.parametrize("form", ["--csv", "--jsonl"])
def test_an_export_to_a_pipe_or_a_device_leaves_it_and_no_other_file_is_lost(place, tmp_path, form):
    fifo, kept = tmp_path / "pipe", tmp_path / "pipe.tmp"
    os.mkfifo(fifo)
    kept.write_text("mine")
    with subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE, text=True) as reader:
        drover(place, "export", "s", form, str(fifo))
        read = reader.communicate(timeout=60)[0]
    assert read == drover(place, "export", "s", form, "-") and fifo.is_fifo() and kept.read_text() == "mine"
    file = tmp_path / "kept.csv"
    file.write_text("old")
    drover(place, "export", "s", form, str(file))
    assert file.read_text() == read and sorted(p.name for p in tmp_path.iterdir()) == ["kept.csv", "pipe", "pipe.tmp"]
    missing = tmp_path / "none" / "x"
    assert f"{missing}: No such file or directory" in drover(place, "export", "s", form, str(missing), status=1)
