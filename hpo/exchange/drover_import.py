"""Reads the trials of other tools for drover_exchange.py, in the form of exchange_lines.h.

read_NAME(path, options) -> (the line that describes the sweep, the trials)."""
import csv
import itertools
import json
import math
import os
import sqlite3
import tempfile
import urllib.parse
from datetime import datetime, timezone

IMPORTED_STATES = {"COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed"}
UTC_SINCE = 5  # Optuna's release from which on its SQLite files have times in UTC; before that, in local time


class Refused(Exception):
    """What the user gave is wrong: a message, and a hint or None."""

    def __init__(self, text, hint=None):
        super().__init__(text)
        self.hint = hint


# ---- Optuna -------------------------------------------------------------------------------------------------------------

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
    # Up to Optuna 4 one attribute has a list of numbers, from 5 on each constraint has its own. Without any, a trial is feasible.
    beyond = [[x for key, value in t.system_attrs.items() if key.split(":")[0] == "constraints"
               for x in (value if isinstance(value, (list, tuple)) else [value])] for t in ended]
    rows = []
    for t, excess in zip(ended, beyond):
        begin, end = moment_ms(t.datetime_start), moment_ms(t.datetime_complete)
        error = t.user_attrs.get("error")
        rows.append({"state": IMPORTED_STATES[t.state.name], "params": nested(t.params, found),
                     "metrics": {name: metric(v) for name, v in zip(names, t.values or [])},
                     "curves": {names[0]: [[step, metric(v)] for step, v in sorted(t.intermediate_values.items())]},
                     "leased_ms": begin, "ended_ms": end, "seconds": max(end - begin, 0) / 1000 if begin else 0,
                     **({"feasible": all(x <= 0 for x in excess)} if any(beyond) else {}),
                     **({"error": error} if isinstance(error, str) else {})})
    described = [{"name": name, "goal": goal} for name, goal in zip(names, goals)]
    return {"metrics": described, "parameters": parameters, "unfinished": len(trials) - len(ended)}, rows


# ---- imports of tables and runs -----------------------------------------------------------------------------------------

# Columns with one of these prefixes are the parameters, and then no others are.
PREFIXES = ("params_", "param.", "config/", "config.")
# Other columns that are neither a parameter nor a metric: of drover, Optuna's trials_dataframe(), Ray's get_dataframe(), W&B's page.
ROLES = {"state": "state", "status": "state", "seconds": "seconds", "runtime": "seconds", "error": "error",
         "feasible": "feasible", "drover_feasible": "feasible"}
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


def settled(trial, objectives):
    """A trial whose value is not finite has none. Without its curves, since an earlier report would count instead."""
    wrong = next((f"{name} is {trial['metrics'][name]}" for name in objectives if isinstance(trial["metrics"].get(name), str)), None)
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


def header_of(metrics, options, unfinished, goals=None, **more):
    described = [{"name": name, "goal": options["goal"] or (goals or {}).get(name, "minimize")} for name in metrics]
    return {"metrics": described, "unfinished": unfinished, **more}


# drover's own table: the metrics are between the first of these columns and the others, the parameters follow. Only a sweep with
# outcome constraints has the columns BOUNDED, and a table of an older version has no `goals`: there the first metric counts.
OWN_FIRST = ["trial", "state", "value"]
OWN_THEN = {"steps": None, "feasible": None, "seconds": "seconds", "node": None, "why": None, "error": "error", "goals": "goals",
            "outcome_constraints": "bounds"}
BOUNDED = ("feasible", "outcome_constraints")


def own_roles(names):
    """The roles of the columns of drover's own table, or None if it is another one."""
    at = names.index("steps") if "steps" in names else 0
    bounded = names[at + 1:at + 2] == ["feasible"]
    told = names[at + 5 + bounded:][:1] == ["goals"]
    then = [name for name in OWN_THEN if (bounded or name not in BOUNDED) and (told or name not in ("goals", "outcome_constraints"))]
    if names[:3] != OWN_FIRST or names[at:at + len(then)] != then:
        return None
    return [None, "state", "value", *["metric"] * (at - 3), *map(OWN_THEN.get, then), *["param"] * (len(names) - at - len(then))]


def with_value(trial, metric, value):
    """drover's own table has the value that counts beside the last one: a report before the last."""
    last = trial["metrics"].get(metric)
    if value is None or value == last:
        return trial
    return {**trial, "value": value, "metrics": {metric: value, **trial["metrics"]},
            "curves": {metric: [[0, value], *([[1, last]] if isinstance(last, (int, float)) else [])]}}


def json_cell(kind, line, cells, at):
    try:
        value = json.loads(cells[at])
    except ValueError:
        value = None
    if not isinstance(value, kind):
        raise Refused(f"line {line}: '{cells[at]}' is not a {'list' if kind is list else 'mapping'} of JSON")
    return value


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
    for line, cells in rows[1:]:
        if len(cells) != len(names):
            raise Refused(f"line {line}: {len(cells)} cells, the header has {len(names)}")
    goals = json_cell(dict, *rows[1], own.index("goals")) if own and "goals" in own and rows[1:] else {}
    metrics = metrics or list(goals) or ([names[own.index("metric")]] if own and "metric" in own else ["value"] if "value" in names else [])
    if not metrics:
        raise Refused("which column is the metric?", "--metric NAME")
    for name in [*options["metrics"], *params]:
        if name not in names and name not in map(bare, names):
            raise Refused(f"there is no column '{name}'")
    prefixed = any(bare(name) != name for name in names)
    roles = own or [role_of(name, metrics, params, prefixed) for name in names]
    short = {name: name if own or name in params else bare(name) for name in names}
    all_params = {short[name] for name, role in zip(names, roles) if role == "param"}
    trials = []
    for line, cells in rows[1:]:
        trial, values = {"state": "done", "metrics": {}}, {}
        counted = None
        for at, (name, role, text) in enumerate(zip(names, roles, cells)):
            value = cell(text)
            if value is None:
                continue
            if role == "param":
                values[short[name]] = text
            elif role == "value":
                counted = value
            elif role == "metric" and metric(value) is not None:
                trial["metrics"][name] = metric(value)
            elif role == "state":
                trial["state"] = STATES.get(text.lower())
            elif role == "bounds":
                trial["outcome_constraints"] = json_cell(list, line, cells, at)
            elif role == "feasible" and isinstance(value, bool):
                trial["feasible"] = value
            elif role == "error" or role == "seconds" and isinstance(value, (int, float)):
                trial[role] = text if role == "error" else value
        trials.append(with_value({**trial, "params": nested(values, all_params)}, metrics[0], counted))
    ended = [t for t in trials if t["state"]]
    return header_of(metrics, options, len(trials) - len(ended), goals, texts=True), ended


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
        seconds, feasible = summary.get("_runtime"), summary.get("drover_feasible")
        trials.append({"state": state, **({"feasible": feasible} if isinstance(feasible, bool) else {}), "params": nested(values, values),
                       "metrics": {m: metric(summary[m]) for m in metrics if metric(summary.get(m)) is not None},
                       "curves": {m: [[row.get("_step", k), metric(row[m])] for k, row in enumerate(run.get("history") or [])
                                      if metric(row.get(m)) is not None] for m in metrics},
                       "seconds": seconds if isinstance(seconds, (int, float)) and math.isfinite(seconds) else 0})
    return header_of(metrics, options, unfinished), trials
