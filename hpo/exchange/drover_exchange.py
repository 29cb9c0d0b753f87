"""Trials for other tools and from them, with these tools' own libraries: `drover export` and `drover import` start it.

    drover_exchange.py export parquet|tensorboard|wandb|mlflow|optuna TARGET
    drover_exchange.py import optuna|csv|wandb FILE OPTIONS

An export reads from stdin, and an import writes to stdout, one line of JSON that describes the sweep, then one per trial
(exchange_lines.h). OPTIONS is {"metrics": [NAME, ...], "goal"?, "params"?: [NAME, ...], "study"?}. After
a failure the last line of stdout is {"error", "hint", "status"}, and the exit status is not 0."""
import csv
import itertools
import json
import math
import os
import sqlite3
import sys
import tempfile
import urllib.parse
from datetime import datetime, timezone

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


class Refused(Exception):
    """What the user gave is wrong: a message, and a hint or None."""

    def __init__(self, text, hint=None):
        super().__init__(text)
        self.hint = hint


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
    metrics = [summary_v2.Metric(m["name"]) for m in header["metrics"]]
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
IMPORTED_STATES = {"COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed"}
UTC_SINCE = 5  # Optuna's release from which on its SQLite files have times in UTC; before that, in local time


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
            system_attrs={"constraints": excesses(header, t)} if state == "COMPLETE" and header.get("outcome_constraints") else {})
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


def sweep_parameter(optuna, found):
    """The parameter of a sweep file that has all these distributions of Optuna."""
    first = found[0]
    if isinstance(first, optuna.distributions.CategoricalDistribution):
        return {"values": list(first.choices)} if len(first.choices) > 1 else {"value": first.choices[0]}
    low, high = (end(getattr(d, name) for d in found if hasattr(d, name)) for end, name in ((min, "low"), (max, "high")))
    if low == high:
        return {"value": low}
    whole, step = isinstance(first, optuna.distributions.IntDistribution), first.step
    if step and step != 1 and abs(low / step - round(low / step)) < 1e-8:  # drover's steps begin at 0
        return {"distribution": "q_uniform", "min": low, "max": high, "q": step}
    kind = ("int_log_uniform" if whole else "log_uniform_values") if first.log else "int_uniform" if whole else "uniform"
    return {"distribution": kind, "min": low, "max": high}


def copy_of_study(path, place):
    """Copies the file, which Optuna may upgrade, to `place` -> (the copy, the major version of Optuna that has made it)."""
    copy = os.path.join(place, "study.db")
    try:
        source = sqlite3.connect(f"file:{urllib.parse.quote(path)}?mode=ro", uri=True)
        made = source.execute("SELECT library_version FROM version_info").fetchone()
        target = sqlite3.connect(copy)
        source.backup(target)
        target.close()
        source.close()
    except sqlite3.Error as error:
        raise Refused(f"not a study of Optuna 3 or later: {error}") from None
    return copy, int(made[0].split(".")[0])


def read_optuna(path, options):
    import optuna
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    now = int(optuna.__version__.split(".")[0])
    with tempfile.TemporaryDirectory(prefix="drover-") as place:
        copy, made = copy_of_study(path, place)
        storage = optuna.storages.RDBStorage("sqlite:///" + copy, skip_compatibility_check=True)
        storage.upgrade()
        studies, wanted = optuna.study.get_all_study_names(storage), options["study"]
        if not studies:
            raise Refused("there is no study")
        if wanted not in studies and (wanted or len(studies) > 1):
            raise Refused(f"there is no study '{wanted}'" if wanted else "there are several studies",
                          ", ".join(f"--study '{name}'" for name in studies))
        study = optuna.load_study(study_name=wanted or studies[0], storage=storage)
        trials = study.get_trials(deepcopy=False)
        own = getattr(study, "metric_names", None) or ["value"] + [f"value_{i}" for i in range(1, len(study.directions))]
        names = [given or name for given, name in itertools.zip_longest(options["metrics"][:len(own)], own)]
        goals = [d.name.lower() for d in study.directions]
        storage.engine.dispose()

    def moment_ms(at):
        """Milliseconds since 1970 of a time as this Optuna gives it: local, if the same Optuna wrote the file."""
        if at is None:
            return 0
        if made < UTC_SINCE <= now:  # it took the local time of the file for UTC
            at = at.astimezone(timezone.utc).replace(tzinfo=None)
        elif now < UTC_SINCE <= made:
            at = at.replace(tzinfo=timezone.utc)
        return round(at.timestamp() * 1000)

    found = {}
    for t in trials:
        for name, d in t.distributions.items():
            found.setdefault(name, []).append(d)
    parameters = {}
    for name, all_of_it in found.items():
        *groups, last = path_of(name, found)
        inner = parameters
        for group in groups:
            inner = inner.setdefault(group, {"parameters": {}})["parameters"]
        inner[last] = sweep_parameter(optuna, all_of_it)
    ended = [t for t in trials if t.state.name in IMPORTED_STATES]
    rows = []
    for t in ended:
        begin, end = moment_ms(t.datetime_start), moment_ms(t.datetime_complete)
        error = t.user_attrs.get("error")
        rows.append({"state": IMPORTED_STATES[t.state.name], "params": nested(t.params, found),
                     "metrics": {name: metric(v) for name, v in zip(names, t.values or [])},
                     "curves": {names[0]: [[step, metric(v)] for step, v in sorted(t.intermediate_values.items())]},
                     "leased_ms": begin, "ended_ms": end, "seconds": max(end - begin, 0) / 1000 if begin else 0,
                     **({"error": error} if isinstance(error, str) else {})})
    described = [{"name": name, "goal": goal} for name, goal in zip(names, goals)]
    return {"metrics": described, "parameters": parameters, "unfinished": len(trials) - len(ended)}, rows


# ---- imports of tables and runs -----------------------------------------------------------------------------------------

# Columns with one of these prefixes are the parameters, and then no others are.
PREFIXES = ("params_", "param.", "config/", "config.")
# Other columns that are neither a parameter nor a metric: of drover, Optuna's trials_dataframe(), Ray's get_dataframe(), W&B's page.
ROLES = {"state": "state", "status": "state", "seconds": "seconds", "runtime": "seconds", "error": "error"}
NO_ROLE = set("trial number id name value steps node why notes user tags created updated hostname github sweep group duration logdir done "
              "timestamp date pid".split()) | {"end time", "job type"}
STATES = {"done": "done", "complete": "done", "completed": "done", "finished": "done", "terminated": "done", "pruned": "pruned",
          "failed": "failed", "fail": "failed", "crashed": "failed", "error": "failed", "oom": "oom", "invalid": "invalid",
          "cancelled": "cancelled", "killed": "cancelled", "preempted": "cancelled"}


def path_of(name, names):
    """The groups of a dotted name, and the rest. A name stays whole if a part is empty or a group is a parameter itself."""
    parts = name.split(".")
    groups = {".".join(parts[:i]) for i in range(1, len(parts))}
    return parts if all(parts) and not groups & set(names) else [name]


def nested(params, names):
    """{"optimizer.lr": 1} -> {"optimizer": {"lr": 1}}"""
    out = {}
    for name, value in params.items():
        *groups, last = path_of(name, names)
        inner = out
        for group in groups:
            inner = inner.setdefault(group, {})
        inner[last] = str(value) if isinstance(value, float) and not math.isfinite(value) else value
    return out


def metric(value):
    """A number as drover stores it: those that are not finite are texts. None: it is no number."""
    if isinstance(value, str) and value.strip().lower().lstrip("+-") in ("nan", "inf", "infinity"):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return value if math.isfinite(value) else str(float(value))


def settled(trial):
    """A trial whose value is not finite has none. Without its curves, since an earlier report would count instead."""
    wrong = next((f"{name} is {value}" for name, value in trial["metrics"].items() if isinstance(value, str)), None)
    return {**trial, "state": "invalid", "error": wrong, "curves": {}} if wrong and trial["state"] == "done" else trial


def cell(text):
    """What a cell of a table means: a number, a truth value, or a text; None: it is empty."""
    if text in ("true", "True", "false", "False"):
        return text in ("true", "True")
    for kind in (int, float):
        try:
            value = kind(text)
            if "_" not in text and math.isfinite(value):
                return value if kind is float or abs(value) < 1 << 63 else float(value)
        except (ValueError, OverflowError):
            pass
    return text or None


def bare(name):
    """The name without a prefix. Ray joins groups by slashes."""
    prefix = next((p for p in PREFIXES if name.startswith(p)), "")
    return name[len(prefix):].replace("/", ".") if prefix == "config/" else name[len(prefix):]


def role_of(name, metrics, params, prefixed):
    if name in metrics:
        return "metric"
    if params:
        if bare(name) in params or name in params:
            return "param"
    elif prefixed and bare(name) != name:
        return "param"
    if name.lower() in ROLES:
        return ROLES[name.lower()]
    own = not name or name.lower() in NO_ROLE or name.startswith(("_", "datetime_", "user_attrs_", "system_attrs_"))
    return None if own or params or prefixed else "param"


def header_of(metrics, options, unfinished, **more):
    return {"metrics": [{"name": name, "goal": options["goal"] or "minimize"} for name in metrics], "unfinished": unfinished, **more}


# drover's own table: the metrics are between the first of these columns and the others, the parameters follow.
OWN_FIRST, OWN_THEN = ["trial", "state", "value"], ["steps", "seconds", "node", "why", "error"]


def own_roles(names):
    """The roles of the columns of drover's own table, or None if it is another one."""
    at = names.index("steps") if "steps" in names else 0
    bounded = names[at + 1:at + 2] == ["feasible"]  # the sweep has outcome constraints
    if names[:3] != OWN_FIRST or names[at:at + 1] + names[at + 1 + bounded:at + 5 + bounded] != OWN_THEN:
        return None
    return [None, "state", "value", *["metric"] * (at - 3), *[None] * (1 + bounded), "seconds", None, None, "error",
            *["param"] * (len(names) - at - 5 - bounded)]


def with_value(trial, metric, value):
    """drover's own table has the value that counts beside the last one: a report before the last."""
    last = trial["metrics"].get(metric)
    if value is None or value == last:
        return trial
    return {**trial, "value": value, "metrics": {metric: value, **trial["metrics"]},
            "curves": {metric: [[0, value], *([[1, last]] if isinstance(last, (int, float)) else [])]}}


def read_csv(path, options):
    params, metrics = options["params"] or [], options["metrics"]
    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        csv.field_size_limit(1 << 30)
        lines = csv.reader(file, strict=True)
        try:
            rows = [(lines.line_num, row) for row in lines if any(row)]
        except csv.Error as error:
            raise Refused(f"line {lines.line_num}: {error}") from None
    if not rows:
        raise Refused("the file is empty")
    names = rows[0][1]
    own = None if params else own_roles(names)
    metrics = metrics or [name for name, role in zip(names, own or []) if role == "metric"] or (["value"] if "value" in names else [])
    if not metrics:
        raise Refused("which column is the metric?", "--metric NAME")
    for name in [*metrics, *params]:
        if name not in names and name not in map(bare, names):
            raise Refused(f"there is no column '{name}'")
    prefixed = any(bare(name) != name for name in names)
    roles = own or [role_of(name, metrics, params, prefixed) for name in names]
    short = {name: name if own or name in params else bare(name) for name in names}
    all_params = {short[name] for name, role in zip(names, roles) if role == "param"}
    trials = []
    for line, cells in rows[1:]:
        if len(cells) != len(names):
            raise Refused(f"line {line}: {len(cells)} cells, the header has {len(names)}")
        trial, values = {"state": "done", "metrics": {}}, {}
        counted = None
        for name, role, text in zip(names, roles, cells):
            value = cell(text)
            if value is None:
                continue
            if role == "param":
                values[short[name]] = text
            elif role == "value":
                counted = value
            elif role == "metric" and name in metrics and metric(value) is not None:
                trial["metrics"][name] = metric(value)
            elif role == "state":
                trial["state"] = STATES.get(text.lower())
            elif role == "error" or role == "seconds" and isinstance(value, (int, float)):
                trial[role] = text if role == "error" else value
        trials.append(with_value({**trial, "params": nested(values, all_params)}, metrics[0], counted))
    ended = [t for t in trials if t["state"]]
    best = [(t["value"], t["metrics"][metrics[0]]) for t in ended if "value" in t and len(t["curves"][metrics[0]]) > 1]
    goal = "maximize" if best and all(value > last for value, last in best) else "minimize"
    return header_of(metrics, {**options, "goal": options["goal"] or goal}, len(trials) - len(ended), texts=True), ended


def json_values(text):
    """The values of a text: a list, or one after the other. Python's NaN is understood."""
    decoder, at, count = json.JSONDecoder(), 0, 0
    while True:
        while text[at:at + 1].isspace():
            at += 1
        if at >= len(text):
            return
        count += 1
        try:
            value, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise Refused(f"value {count} is not JSON: {error}") from None
        yield from value if isinstance(value, list) else [value]


def read_wandb(path, options):
    """Runs as JSON {"config", "summary", "state", "history"}, or the table of W&B's page."""
    with open(path, encoding="utf-8-sig", errors="replace") as file:
        text = file.read()
    if not text.lstrip().startswith(("{", "[")):
        return read_csv(path, options)
    metrics, params = options["metrics"], options["params"]
    trials, unfinished = [], 0
    for number_of_run, run in enumerate(json_values(text), 1):
        config = run.get("config") if isinstance(run, dict) else None
        summary = run.get("summary", run.get("summary_metrics")) if isinstance(run, dict) else None
        if not isinstance(config, dict) or not isinstance(summary, dict):
            raise Refused(f'run {number_of_run}: a run needs the objects "config" and "summary"')
        if not metrics:
            raise Refused('which key of "summary" is the metric?', "--metric NAME")
        state = STATES.get(str(run.get("state", "done")).lower())
        if not state:
            unfinished += 1
            continue
        # W&B's API wraps each value: {"lr": {"value": 0.1}}. Keys that begin with _ are W&B's own.
        values = {k: v["value"] if isinstance(v, dict) and "value" in v else v for k, v in config.items()}
        values = {k: v for k, v in values.items() if v is not None and (k in params if params else not k.startswith("_"))}
        seconds = summary.get("_runtime")
        trials.append({"state": state, "params": nested(values, values),
                       "metrics": {m: metric(summary[m]) for m in metrics if metric(summary.get(m)) is not None},
                       "curves": {m: [[row.get("_step", k), metric(row[m])] for k, row in enumerate(run.get("history") or [])
                                      if metric(row.get(m)) is not None] for m in metrics},
                       "seconds": seconds if isinstance(seconds, (int, float)) and math.isfinite(seconds) else 0})
    return header_of(metrics, options, unfinished), trials


# ---- the two directions -------------------------------------------------------------------------------------------------

def export_to(form, target):
    header = json.loads(sys.stdin.readline())
    globals()[f"write_{form}"](target, header, (json.loads(line) for line in sys.stdin))


def import_from(form, path, options):
    header, trials = globals()[f"read_{form}"](path, {"params": None, "goal": None, "study": None, **json.loads(options)})
    return [header, *map(settled, trials)]


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
