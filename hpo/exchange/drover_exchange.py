"""Trials for other tools and from them, with these tools' own libraries: `drover export` and `drover import` start it.

    drover_exchange.py export parquet|tensorboard|wandb|mlflow|optuna TARGET
    drover_exchange.py import optuna|csv|wandb FILE OPTIONS

An export reads from stdin, and an import writes to stdout, one line of JSON that describes the sweep, then one per trial
(exchange_lines.h). OPTIONS is {"metrics": [NAME, ...], "goal"?, "params"?: [NAME, ...], "study"?}. After
a failure the last line of stdout is {"error", "hint", "status"}, and the exit status is not 0."""
import json
import math
import os
import sys
import tempfile
import urllib.parse
from datetime import datetime, timezone

sys.dont_write_bytecode = True
from drover_import import Refused, read_csv, read_optuna, read_wandb, settled  # noqa: E402,F401: import_from() calls read_*

LIBRARIES = {"parquet": "pyarrow", "tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlflow", "optuna": "optuna"}


def flat(params, header, prefix=""):
    """The parameters with dotted names. A value that is a list or a mapping stays one."""
    names = {p["name"] for p in header["params"]} if isinstance(header, dict) else header
    out = {}
    for name, value in params.items():
        group = isinstance(value, dict) and prefix + name not in names
        out.update(flat(value, names, f"{prefix}{name}.") if group else {prefix + name: value})
    return out


def plain(value):
    """A number, a truth value or a text: what columns and hyperparameters of other tools can be."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else json.dumps(value)


def number(value):
    """drover writes numbers that are not finite as texts."""
    return float(value) if isinstance(value, str) else value


def trial_facts(trial):
    return {key: trial[key] for key in ("id", "state", "feasible", "node", "seconds", "steps", "error", "why") if trial.get(key) is not None}


def moment(ms):
    return datetime.fromtimestamp(ms / 1000, timezone.utc) if ms else None


# ---- one function per format --------------------------------------------------------------------------------------------

def column(values):
    """The values of a column with one type: numbers stay numbers if all are, other mixtures become text."""
    present = [v for v in values if v is not None]
    if all(isinstance(v, bool) for v in present) or all(isinstance(v, str) for v in present):
        return values
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in present):
        whole = all(isinstance(v, int) for v in present)
        return values if whole else [None if v is None else float(v) for v in values]
    return [None if v is None else v if isinstance(v, str) else json.dumps(v) for v in values]


def write_parquet(target, header, trials):
    import pyarrow
    import pyarrow.parquet
    rows = []
    for t in trials:
        row = {"trial": t["id"], "state": t["state"], "value": t["value"]}
        row.update({f"metric.{name}": number(value) for name, value in t["metrics"].items()})
        row.update({f"param.{name}": plain(value) for name, value in flat(t["params"], header).items()})
        row.update({"feasible": t["feasible"]} if "feasible" in t else {})
        row.update({"steps": t["steps"], "seconds": t["seconds"], "node": t["node"], "why": t.get("why"), "error": t.get("error")})
        row.update({key[:-3]: moment(t.get(key)) for key in ("created_ms", "leased_ms", "ended_ms")})
        row["curves"] = json.dumps(t["curves"])
        rows.append(row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = pyarrow.table({name: column([row.get(name) for row in rows]) if name not in ("created", "leased", "ended")
                           else pyarrow.array([row.get(name) for row in rows], pyarrow.timestamp("ms", "UTC")) for name in names})
    pyarrow.parquet.write_table(table.replace_schema_metadata({"drover": json.dumps(header)}), target)


def write_tensorboard(target, header, trials):
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import api_pb2, summary_v2
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    def domain(param):
        if param["kind"] == "choice":
            return summary_v2.Discrete(list(dict.fromkeys(plain_text(c) for c in param["choices"])))
        return (summary_v2.IntInterval if param["kind"] == "integer" else summary_v2.RealInterval)(param["low"], param["high"])

    def plain_text(value):
        return value if isinstance(value, str) else json.dumps(value)

    kinds = {p["name"]: p["kind"] for p in header["params"]}
    hparams = [summary_v2.HParam(p["name"], domain(p)) for p in header["params"]]
    bounded = ["feasible"] if "outcome_constraints" in header else []
    metrics = [summary_v2.Metric(name) for name in [*(m["name"] for m in header["metrics"]), *bounded]]
    root = EventFileWriter(target)
    root.add_event(Event(wall_time=0, summary=summary_v2.hparams_config_pb(hparams, metrics)))
    root.close()
    for t in trials:
        run = f"trial-{t['id']}"
        writer = EventFileWriter(os.path.join(target, run))
        begin, end = (t.get("leased_ms") or t["created_ms"]) / 1000, (t.get("ended_ms") or t["created_ms"]) / 1000
        values = {name: plain_text(v) if kinds.get(name) == "choice" else v for name, v in flat(t["params"], header).items()}
        writer.add_event(Event(wall_time=begin, summary=summary_v2.hparams_pb(values, trial_id=run, start_time_secs=begin)))
        points = sorted((number(step), name, number(value)) for name, curve in t["curves"].items() for step, value in curve)
        points += [(points[-1][0] if points else 0, name, float(t["feasible"])) for name in bounded]
        for i, (step, name, value) in enumerate(points):
            at = begin + (end - begin) * (i + 1) / len(points)
            writer.add_event(Event(wall_time=at, step=int(step), summary=Summary(value=[Summary.Value(tag=name, simple_value=value)])))
        good = t["state"] in ("done", "pruned")
        status = api_pb2.STATUS_SUCCESS if good else api_pb2.STATUS_RUNNING if t["state"] in RUNNING else api_pb2.STATUS_FAILURE
        if status != api_pb2.STATUS_RUNNING:
            writer.add_event(Event(wall_time=end, summary=session_end(summary_v2, api_pb2, status, end)))
        writer.close()


RUNNING = ("waiting", "leased", "running", "stopping", "pausing", "paused")


def session_end(summary_v2, api_pb2, status, end):
    """The event that ends a session, in the form of the plug-in's own writer."""
    from tensorboard.plugins.hparams import metadata, plugin_data_pb2
    from tensorboard.compat.proto.summary_pb2 import Summary
    data = plugin_data_pb2.HParamsPluginData(
        session_end_info=plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=end), version=metadata.PLUGIN_DATA_VERSION)
    summary = Summary()
    value = summary.value.add(tag=metadata.SESSION_END_INFO_TAG)
    value.metadata.plugin_data.plugin_name = metadata.PLUGIN_NAME
    value.metadata.plugin_data.content = data.SerializeToString()
    value.tensor.CopyFrom(metadata.NULL_TENSOR)
    return summary


def write_wandb(target, header, trials):
    """One offline run per trial; `wandb sync TARGET/wandb/offline-run-*` uploads them."""
    import wandb
    os.makedirs(target, exist_ok=True)
    os.environ.setdefault("WANDB_SILENT", "true")
    for t in trials:
        run = wandb.init(mode="offline", dir=target, project=header["name"], name=f"trial-{t['id']}", group=header["name"],
                         config=t["params"], tags=[t["state"]], reinit=True)
        steps = {}
        for name, curve in t["curves"].items():
            for step, value in curve:
                steps.setdefault(int(number(step)), {})[name] = number(value)
        for step in sorted(steps):
            run.log(steps[step], step=step)
        run.summary.update({name: number(value) for name, value in t["metrics"].items()})
        run.summary.update({f"drover_{key}": value for key, value in trial_facts(t).items()})
        run.finish(exit_code=0 if t["state"] in ("done", "pruned") else 1)


def write_mlflow(target, header, trials):
    """MLflow's store is SQLite: DIR/mlflow.db."""
    import re
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.tracking import MlflowClient
    os.makedirs(target, exist_ok=True)
    target = os.path.abspath(target)
    client = MlflowClient(tracking_uri=f"sqlite:///{target}/mlflow.db")
    found = client.get_experiment_by_name(header["name"])
    experiment = found.experiment_id if found else client.create_experiment(header["name"], f"file://{urllib.parse.quote(target)}/artifacts")
    keys = {}

    def key(name):
        """The name with the characters that MLflow allows. Other characters become '_', and two names stay two."""
        if name not in keys:
            new = re.sub(r"[^\w./ :-]", "_", name)[:250]
            while new in keys.values():
                new = new[:249] + "_"
            keys[name] = new
            if new != name:
                print(f"drover export: --mlflow: '{name}' is '{new}' there", file=sys.stderr)
        return keys[name]

    for t in trials:
        begin, end = t.get("leased_ms") or t["created_ms"], t.get("ended_ms")
        run = client.create_run(experiment, start_time=begin, run_name=f"trial-{t['id']}",
                                tags={f"drover.{name}": str(value) for name, value in trial_facts(t).items()})
        metrics = [Metric(key(name), number(value), end or begin, int(number(step)))
                   for name, curve in t["curves"].items() for step, value in curve]
        params = [Param(key(name), str(plain(value))) for name, value in flat(t["params"], header).items()]
        for i in range(0, max(len(metrics), 1), 500):  # MLflow's limits of a batch: 1000 metrics, 100 parameters
            client.log_batch(run.info.run_id, metrics[i:i + 500], [], [RunTag("drover.sweep", header["name"])] if i == 0 else [])
        for i in range(0, len(params), 100):
            client.log_batch(run.info.run_id, [], params[i:i + 100], [])
        status = "FINISHED" if t["state"] in ("done", "pruned") else "RUNNING" if t["state"] in RUNNING else "FAILED"
        if status != "RUNNING":
            client.set_terminated(run.info.run_id, status, end)


# ---- Optuna -------------------------------------------------------------------------------------------------------------

# A trial that was cancelled, is invalid or ran out of memory has failed there.
OPTUNA_STATES = {"waiting": "WAITING", "done": "COMPLETE", "pruned": "PRUNED", **{state: "RUNNING" for state in RUNNING[1:]}}


def optuna_distribution(optuna, param, values):
    """The distribution of a parameter that has these values."""
    d = optuna.distributions
    if param["kind"] == "choice":
        return d.CategoricalDistribution(list(dict.fromkeys(plain(c) for c in param["choices"])))
    low, high, step = param["low"], param["high"], param.get("step")
    on_grid = step and all(abs((v - low) / step - round((v - low) / step)) < 1e-8 for v in values)
    if param["kind"] == "integer":
        return d.IntDistribution(low, high, log=param["log"], step=step if on_grid else 1)
    return d.FloatDistribution(low, high, log=param["log"], step=step if on_grid else None)


def excesses(header, trial):
    """Optuna's form of constraints: 0 or less is feasible. A metric that is missing or not finite satisfies none."""
    values = [number(trial["metrics"].get(c["metric"], math.nan)) for c in header["outcome_constraints"]]
    return [max(v - c.get("max", math.inf), c.get("min", -math.inf) - v) if math.isfinite(v) else sys.float_info.max
            for v, c in zip(values, header["outcome_constraints"])]


def write_optuna(target, header, trials):
    if os.path.lexists(target):
        raise Refused("the file exists", "another name; a study is written into a new file")
    import optuna
    import warnings
    warnings.simplefilter("ignore")  # names of objectives are experimental, and a range may end between two steps
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    names = [m["name"] for m in header["metrics"]]
    rows = [(t, {k: plain(v) for k, v in flat(t["params"], header).items()}) for t in trials]
    distributions = {p["name"]: optuna_distribution(optuna, p, [values[p["name"]] for _, values in rows if p["name"] in values])
                     for p in header["params"]}

    def frozen(t, params):
        # The first objective is the best value of the trial, or the last one; the others are last values.
        found = [t["value"] if i == 0 else t["metrics"].get(name) for i, name in enumerate(names)]
        values = [number(v) for v in found if v is not None]
        state = OPTUNA_STATES.get(t["state"], "FAIL")
        whole = len(values) == len(names) and not any(math.isnan(v) for v in values)
        state = "FAIL" if state == "COMPLETE" and not whole else state
        curve = t["curves"].get(names[0], []) if len(names) == 1 else []
        new = optuna.trial.create_trial(
            state=optuna.trial.TrialState[state], values=values if whole and state in ("COMPLETE", "PRUNED") else None, params=params,
            distributions={name: distributions[name] for name in params}, user_attrs={"error": t["error"]} if t.get("error") else {},
            intermediate_values={math.floor(number(step)): number(value) for step, value in curve},
            system_attrs={"constraints": excesses(header, t)} if state in ("COMPLETE", "PRUNED") and header.get("outcome_constraints") else {})
        begin, end = t.get("leased_ms") or t["created_ms"], t.get("ended_ms") or t["created_ms"]
        new.datetime_start = None if state == "WAITING" else datetime.fromtimestamp(begin / 1000)
        new.datetime_complete = datetime.fromtimestamp(end / 1000) if state in ("COMPLETE", "PRUNED", "FAIL") else None
        return new

    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(target)), prefix=".drover-") as place:
        file = os.path.join(place, "study.db")
        storage = optuna.storages.RDBStorage("sqlite:///" + file)
        study = optuna.create_study(storage=storage, study_name=header["name"], directions=[m["goal"] for m in header["metrics"]])
        if hasattr(study, "set_metric_names"):
            study.set_metric_names(names)
        study.add_trials([frozen(*row) for row in rows])
        storage.engine.dispose()
        os.link(file, target)  # unlike a rename, it does not replace what another process has made meanwhile


# ---- the two directions -------------------------------------------------------------------------------------------------

def export_to(form, target):
    header = json.loads(sys.stdin.readline())
    globals()[f"write_{form}"](target, header, (json.loads(line) for line in sys.stdin))


def import_from(form, path, options):
    header, trials = globals()[f"read_{form}"](path, {"params": None, "goal": None, "study": None, **json.loads(options)})
    objectives = [m["name"] for m in header["metrics"]]
    return [header, *(settled(t, objectives) for t in trials)]


def main():
    # What libraries print goes to stderr.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    way, form, place, *more = sys.argv[1:]
    text, hint, status = None, None, 2
    try:
        for line in (export_to if way == "export" else import_from)(form, place, *more) or []:
            out.write(json.dumps(line, allow_nan=False) + "\n")
    except ImportError as error:
        text = f"needs the Python package {LIBRARIES[form]}: {error}"
        hint = f"{sys.executable} -m pip install {LIBRARIES[form]}"
    except Refused as error:
        text, hint = f"{place}: {error}", error.hint
    except OSError as error:
        text, status = f"{place}: {error.strerror or error}", 1 if way == "export" else 2
    if text:
        out.write(json.dumps({"error": text, "hint": hint, "status": status}) + "\n")
    out.close()
    sys.exit(1 if text else 0)


if __name__ == "__main__":
    main()
