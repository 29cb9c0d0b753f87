"""What W&B's own functions make of sweep files: run by a Python with W&B's module, for test_wandb_argv.py.

Reads a list of sweeps from stdin, {"file", "replace", "trials": [{"params", "config"}, …]}, and writes to stdout, per
sweep, {"values", "trials": [{"argv", "params", "config"}, …]}. The paths of trials are those of their files."""
import json
import os
import sys
from pathlib import Path

import yaml
from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args, load_sweep_config


def replaced(value, by):
    """`value` with the parts that `by` names, by their repr(), replaced."""
    if repr(value) in by:
        return by[repr(value)]
    if isinstance(value, dict):
        return {replaced(k, by): replaced(v, by) for k, v in value.items()}
    return [replaced(v, by) for v in value] if isinstance(value, list) else value


def listed(parameters):
    """The values that a parameter may have, where the file lists them; nested parameters as a mapping."""
    found = {}
    for name, entry in parameters.items():
        if "parameters" in entry:
            found[name] = listed(entry["parameters"])
        elif "value" in entry or "values" in entry:
            found[name] = entry.get("values", [entry.get("value")])
    return found


def argv_of(command, program, params, json_file):
    """As W&B's agent puts the words of a command together."""
    macros = create_sweep_command_args({"args": {name: {"value": value} for name, value in params.items()}})
    macros |= {"interpreter": ["python"], "program": [program], "args_json_file": [json_file], "env": ["/usr/bin/env"]}
    argv = []
    for word in map(str, create_sweep_command(command and command.copy())):
        argv += macros.get(word[2:-1]) or [] if word.startswith("${") and word.endswith("}") else [word]
    return argv


def look_at(trial, config):
    text = Path(trial["params"]).read_text()
    argv = argv_of(config.get("command"), config.get("program"), json.loads(text), trial["params"])
    return {"argv": argv, "params": yaml.safe_load(text),
            "config": yaml.safe_load(Path(trial["config"]).read_text())}


def look(sweep):
    config = replaced(load_sweep_config(sweep["file"]), sweep["replace"])
    return {"values": listed(config["parameters"]), "trials": [look_at(t, config) for t in sweep["trials"]]}


answer, sys.stdout = sys.stdout, sys.stderr
os.environ["WANDB_SILENT"] = "true"
json.dump([look(sweep) for sweep in json.load(sys.stdin)], answer, default=repr)
