"""Sweep files as users of W&B publish them: a trial gets the argv that W&B's own functions build for its parameters.

Needs W&B's module, which scripts/setup --test installs into build/wandb."""
import json
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sweep_kit import ROOT, Place, use_scripts  # noqa: F401  a fixture

WANDB = ROOT / "build/wandb"
HERE = Path(__file__).parent
FILES = dict(re.findall(r"^--- # (\S+)\n(.*?)(?=^--- # |\Z)", (HERE / "sweep_files.yaml").read_text(), re.M | re.S))

# Where drover reads a file in another way than W&B, on purpose: why, and what is replaced in W&B's view, by its repr().
NUMBERS = "YAML 1.1 has no number without a point and a signed exponent, but users mean numbers"
DIFFERS = {
    "exponents-without-a-point": (NUMBERS, {"'1e-4'": 0.0001, "'5E3'": 5000.0, "'1e-2'": 0.01}),
    "exponents-without-a-sign": (NUMBERS, {"'1.0e6'": 1000000.0, "'2.5e3'": 2500.0}),
    "numbers-in-words": ("the words of a command are text as written", {
        "1.1": "1.10", "10": "0012", "255": "0xFF", "True": "yes", "None": "null", "1000": "1_000", "750": "12:30"}),
    "date-as-a-value": ("parameters are JSON, which has no dates", {"datetime.date(2024, 1, 2)": "2024-01-02"}),
    "names-that-are-numbers": ("names are text as written", {"1.5": "1.50", "True": "yes", "8": "010", "None": "null"}),
    "infinite-values": ("parameters are JSON, which has only finite numbers", {"inf": "inf", "-inf": "-inf"}),
}

# Files that drover refuses although W&B runs them: a word of the file, and part of the message.
REFUSED = [
    ("W&B drops a macro that it does not know", 'command: [python, "${programm}", "${args}"]', "unknown macro"),
    ("W&B runs the word as it is", 'command: [sh, -c, "python train.py ${args}"]', "only replaced if"),
    ("YAML 1.1: 8, YAML 1.2: 10", "parameters: {n: {value: 010}}", "octal or decimal"),
    ("YAML 1.1: 45045, YAML 1.2: text", "parameters: {n: {value: 12:30:45}}", "base 60"),
    ("YAML 1.1: 5, YAML 1.2: text", "parameters: {n: {value: 0b101}}", "binary or text"),
    ("W&B takes the last one", "parameters: {n: {value: 1}, n: {value: 2}}", "duplicate key"),
]

# Stands for the programs that the files name: stores its argv, and reports.
RECORDER = """#!/bin/sh
printf '%s\\0' "$0" "$@" >"$DROVER_TRIAL_DIR/argv"
echo '{"loss": 1, "val_loss": 1, "accuracy": 0.5, "f1": 0.5, "eval/loss": 1, "metrics/mAP_0.5": 1, "charts/episodic_return": 1}'
"""
PROGRAMS = "python python3 torchrun accelerate deepspeed bash julia poetry xvfb-run conda".split()
SCRIPTS = ["train.py", "main.py", "run.py", "train_lora.py", "src/train.py", "src/my project/train.py", "job.sh", "train.jl",
           "run_glue.py", "ppo.py", "fit.py"]

class Sweeps(Place):
    """The sweeps of all files, run in one directory: the argv of each trial, and W&B's view of it."""

    def __init__(self, path):
        super().__init__(path)
        for program in (*(f"bin/{name}" for name in PROGRAMS), *SCRIPTS):
            (path / program).parent.mkdir(parents=True, exist_ok=True)
            (path / program).write_text(RECORDER)
            (path / program).chmod(0o755)
        self.env.update(PATH=f"{path}/bin:{self.env['PATH']}", DATA_DIR="/my data", RUN_TAG="a=b", EMPTY="")

    def run_file(self, name):
        (self.path / f"{name}.yaml").write_text(FILES[name])
        return self.run(f"{name}.yaml", "--quiet", "--parallel", "1", "--name", name)

    def leases(self, name):
        return sorted((self.path / "sweeps" / name / "trials").glob("*/*/"))

    def asked(self, name):
        """The input of wandb_argv.py for the sweep of a file."""
        trials = [{"params": str(lease.parent / "params.json"), "config": str(lease / "config.yaml")}
                  for lease in self.leases(name)]
        return {"file": str(self.path / f"{name}.yaml"), "replace": DIFFERS.get(name, ("", {}))[1], "trials": trials}

    def ask_wandb(self, sweeps):
        done = subprocess.run([WANDB / "bin/python", HERE / "progs/wandb_argv.py"], env=self.env, text=True,
                              capture_output=True, input=json.dumps(sweeps), timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def recorded(self, argv):
        """What the recorder stores if `argv` is started: env(1) leaves itself and assignments out."""
        argv = argv[:]
        if argv[0] == "/usr/bin/env":
            del argv[0]
            while "=" in argv[0]:
                del argv[0]
        return [argv[0] if "/" in argv[0] else shutil.which(argv[0], path=self.env["PATH"]), *argv[1:]]


@pytest.fixture(name="sweeps", scope="module")
def use_sweeps(tmp_path_factory):
    if not (WANDB / "whole").exists():
        pytest.skip("W&B's module is not installed: scripts/setup --test")
    place = Sweeps(tmp_path_factory.mktemp("sweeps"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        place.ran = dict(zip(FILES, pool.map(place.run_file, FILES)))
    place.wandb = dict(zip(FILES, place.ask_wandb([place.asked(name) for name in FILES])))
    yield place
    place.clean_up()


def is_listed(params, values):
    """Whether each parameter is one of its listed values, of the same type."""
    return all(is_listed(params[name], listed) if isinstance(listed, dict) else repr(params[name]) in map(repr, listed)
               for name, listed in values.items())


@pytest.mark.parametrize("name", FILES)
def test_a_trial_gets_the_argv_that_wandb_builds(sweeps, name):
    assert sweeps.ran[name].returncode == 0, sweeps.ran[name].stderr
    leases, view = sweeps.leases(name), sweeps.wandb[name]
    assert leases
    for lease, trial in zip(leases, view["trials"]):
        params = json.loads((lease.parent / "params.json").read_text())
        argv = (lease / "argv").read_bytes().decode().split("\0")[:-1]
        assert argv == sweeps.recorded(trial["argv"])
        assert is_listed(params, view["values"]), (params, view["values"])
        assert repr(trial["params"]) == repr(params)
        assert repr(trial["config"]) == repr({"wandb_version": 1, **{k: {"value": v} for k, v in params.items()}})


def test_the_differences_are_differences(sweeps):
    """A row of DIFFERS that is no longer needed fails here: without it, W&B's view is another one."""
    views = sweeps.ask_wandb([sweeps.asked(name) | {"replace": {}} for name in DIFFERS])
    for name, view in zip(DIFFERS, views):
        assert view != sweeps.wandb[name], name


@pytest.mark.parametrize("why, line, message", REFUSED)
def test_a_file_with_two_readings_is_refused(place, why, line, message):
    text = "program: train.py\nmethod: grid\nparameters: {a: {value: 1}}\n"
    key = line.split(":")[0]
    text = "".join(x for x in text.splitlines(True) if not x.startswith(key)) + line + "\n"
    (place.path / "s.yaml").write_text(text)
    done = place.run("s.yaml")
    assert done.returncode == 2 and message in done.stderr, done.stderr
