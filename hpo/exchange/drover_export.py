"""Writes a sweep for other tools, with these tools' own libraries: `drover export` starts it.

    drover_export.py parquet|tensorboard|wandb|mlflow TARGET

The first line of stdin describes the sweep, each further one is a trial (export_lines.h). Exit status 1 with a message
if the library is missing or fails."""
import json
import os
import sys
from datetime import datetime, timezone

LIBRARIES = {"parquet": "pyarrow", "tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlflow"}


def flat(params, prefix=""):
    """The parameters with dotted names; a value that is a list stays one."""
    out = {}
    for name, value in params.items():
        out.update(flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value})
    return out


def plain(value):
    """A number, a truth value or a text: what columns and hyperparameters of other tools can be."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else json.dumps(value)


def number(value):
    """drover writes numbers that are not finite as texts."""
    return float(value) if isinstance(value, str) else value


def trial_facts(trial):
    return {key: trial[key] for key in ("id", "state", "node", "seconds", "steps", "error", "why") if trial.get(key) is not None}


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
        row.update({f"param.{name}": plain(value) for name, value in flat(t["params"]).items()})
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
            return summary_v2.Discrete([plain_text(c) for c in param["choices"]])
        return (summary_v2.IntInterval if param["kind"] == "integer" else summary_v2.RealInterval)(param["low"], param["high"])

    def plain_text(value):
        return value if isinstance(value, str) else json.dumps(value)

    kinds = {p["name"]: p["kind"] for p in header["params"]}
    hparams = [summary_v2.HParam(p["name"], domain(p)) for p in header["params"]]
    metrics = [summary_v2.Metric(m["name"]) for m in header["metrics"]]
    root = EventFileWriter(target)
    root.add_event(Event(wall_time=0, summary=summary_v2.hparams_config_pb(hparams, metrics)))
    root.close()
    for t in trials:
        run = f"trial-{t['id']}"
        writer = EventFileWriter(os.path.join(target, run))
        begin, end = (t.get("leased_ms") or t["created_ms"]) / 1000, (t.get("ended_ms") or t["created_ms"]) / 1000
        values = {name: plain_text(v) if kinds.get(name) == "choice" else v for name, v in flat(t["params"]).items()}
        writer.add_event(Event(wall_time=begin, summary=summary_v2.hparams_pb(values, trial_id=run, start_time_secs=begin)))
        points = sorted((number(step), name, number(value)) for name, curve in t["curves"].items() for step, value in curve)
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
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.tracking import MlflowClient
    client = MlflowClient(tracking_uri="file://" + os.path.abspath(target))
    found = client.get_experiment_by_name(header["name"])
    experiment = found.experiment_id if found else client.create_experiment(header["name"])
    for t in trials:
        begin, end = t.get("leased_ms") or t["created_ms"], t.get("ended_ms")
        run = client.create_run(experiment, start_time=begin, run_name=f"trial-{t['id']}",
                                tags={f"drover.{key}": str(value) for key, value in trial_facts(t).items()})
        metrics = [Metric(name, number(value), end or begin, int(number(step)))
                   for name, curve in t["curves"].items() for step, value in curve]
        params = [Param(name, str(plain(value))) for name, value in flat(t["params"]).items()]
        for i in range(0, max(len(metrics), 1), 1000):  # MLflow's limit of a batch
            client.log_batch(run.info.run_id, metrics[i:i + 1000], params if i == 0 else [],
                             [RunTag("drover.sweep", header["name"])] if i == 0 else [])
        status = "FINISHED" if t["state"] in ("done", "pruned") else "RUNNING" if t["state"] in RUNNING else "FAILED"
        if status != "RUNNING":
            client.set_terminated(run.info.run_id, status, end)


def main():
    form, target = sys.argv[1:]
    header = json.loads(sys.stdin.readline())
    trials = (json.loads(line) for line in sys.stdin)
    try:
        globals()[f"write_{form}"](target, header, trials)
    except ImportError as error:
        print(f"drover export: --{form} needs the Python package {LIBRARIES[form]}: {error}\n"
              f"  try: {sys.executable} -m pip install {LIBRARIES[form]}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:
        print(f"drover export: --{form} {target}: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
