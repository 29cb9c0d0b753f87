"""examples/pytorch: its README's lines, the same losses whatever starts it and however a step is divided, and resumption."""
import ast
import json
import os
import re
import signal
import subprocess

import pytest
from kit_ranks import ROOT
from readme_kit import can_import, commands, prepare, run_line
from waiting import hear_signals, wait_until

FOLDER = ROOT / "examples/pytorch"
TRAIN = "drover run -np 2 --oversubscribe examples/pytorch/train.py"
LIBRARIES = {"lightning_digits.py": "lightning", "hf_trainer.py": "transformers"}
LIMIT_S = 100


@pytest.fixture(name="place")
def make_place(tmp_path):
    if not can_import("/usr/bin/python3", "torch"):
        pytest.skip("PyTorch is not installed for /usr/bin/python3")
    return tmp_path, prepare(tmp_path)


def lines_of(text):
    """The lines of JSON, which torchrun prefixes."""
    return [json.loads(x) for x in re.findall(r'(?:^|:)({"step": .*})$', text, re.M)]


def losses(lines):
    return [(x["step"], x["loss"], x["val_loss"]) for x in lines]


def lines_with(*words):
    return [line for line in commands("pytorch") if any(w in line for w in words)]


def test_every_line_of_the_readme_is_in_a_test():
    assert len(lines_with("train.py", "sweep ", *LIBRARIES)) == len(commands("pytorch"))


def test_the_table_names_functions_that_exist():
    rows = re.findall(r"^\| .* \| `(\S+):(\w+)` \|$", (FOLDER / "README.md").read_text(), re.M)
    assert len(rows) >= 10
    for file, name in rows:
        names = {x.name for x in ast.parse((FOLDER / file).read_text()).body if hasattr(x, "name")}
        assert name in names, f"{file}: {name}"


def test_neither_launchers_nor_parts_of_a_step_change_the_losses(place):
    """The lines are the README's: three launchers, then all techniques together."""
    directory, env = place
    *launchers, techniques = lines_with("train.py")
    whole = ["--dropout=0"]
    first, *others = [losses(lines_of(run_line(x, directory, env, *whole))) for x in launchers]
    assert len(others) == 2 and [x[0] for x in first] == [1, 2, 3] and first[2][1] < first[0][1] / 2
    assert all(other == first for other in others)
    parts = "--epochs=3 --accumulate=2 --recompute --workers=1"
    alone = losses(lines_of(run_line(f"python3 examples/pytorch/train.py {parts}", directory, env, *whole)))
    assert all(x == pytest.approx(y, abs=1e-4) for x, y in zip(alone, first)) and len(alone) == 3
    half = losses(lines_of(run_line(techniques, directory, env, *whole)))
    assert parts in techniques.replace("--amp=bf16 ", "") and half[2] == pytest.approx(first[2], abs=0.02) and half != alone


def test_after_sigterm_it_resumes_bit_by_bit(place):
    directory, env = place
    with open(directory / "out", "w+", encoding="utf-8") as out:
        job = subprocess.Popen([*TRAIN.split(), "--epochs=500", "--workers=1", "--checkpoint=ck"], cwd=directory, env=env,
                               stdout=out, stderr=subprocess.PIPE, text=True, preexec_fn=hear_signals)
        wait_until(lambda: len(lines_of((directory / "out").read_text())) >= 2, "two epochs", LIMIT_S)
        job.send_signal(signal.SIGTERM)
        _, err = job.communicate(timeout=LIMIT_S)
        out.seek(0)
        before = lines_of(out.read())
    assert job.returncode == 143, err
    epochs = f"--epochs={len(before) + 2}"
    after = lines_of(run_line(TRAIN, directory, {**env, "DROVER_CKPT_DIR": "ck"}, epochs))
    assert len(after) == 2 and before + after == lines_of(run_line(TRAIN, directory, env, epochs))
    assert [f.name for f in (directory / "ck").iterdir()] == ["digits.pt"]


BAD = {"--batch=63 --accumulate=2": "--batch=63: not a multiple of 1 ranks * 2 micro-batches", "--batch=0": "--batch=0: not",
       "--batch=1438": "up to 1437", "--accumulate=0": "0 micro-batches", "--amp=fp16": "needs a GPU", "--amp=int4": "--amp"}
EACH = """
import os, sys
import train  # once
for line in sys.argv[1:]:
    sys.argv = ["train.py", *line.split()]
    if os.fork() == 0:
        train.main()
    print("status", os.waitstatus_to_exitcode(os.wait()[1]), file=sys.stderr)
"""


def test_bad_options_are_errors(place):
    directory, env = place
    done = subprocess.run(["python3", "-c", EACH, *BAD], cwd=directory, env={**env, "PYTHONPATH": str(FOLDER)}, text=True,
                          capture_output=True, timeout=LIMIT_S, check=False)
    parts = done.stderr.split("status ")
    for part, after, message in zip(parts, parts[1:], BAD.values()):
        assert message in part and after.startswith("2\n"), done.stderr
    assert len(parts) == len(BAD) + 1 and not done.stdout


@pytest.mark.parametrize("line", lines_with("sweep "))
def test_its_sweeps_find_a_good_model_without_a_failed_trial(place, line):
    directory, env = place
    run_line(line, directory, env, "--quiet")
    name, = (d.name for d in (directory / "sweeps").iterdir())
    sweep = json.loads(run_line(f"drover sweep show {name} --json", directory, env))
    assert {t["state"] for t in sweep["trials"]} <= {"done", "pruned"}
    if "json" in line:
        assert len(sweep["trials"]) == 3 and sweep["best"]["value"] < 0.4
        assert all(t["steps"] == 8 for t in sweep["trials"])
    else:
        assert len(sweep["trials"]) == 8 and sweep["best"]["value"] > 0.96
        assert "pruned" in {t["state"] for t in sweep["trials"]}


@pytest.mark.parametrize("script", LIBRARIES)
def test_a_library_trains_reports_and_resumes(place, script):
    package = LIBRARIES[script]
    variable = f"DROVER_TEST_{package.upper()}_PYTHON"
    python = os.environ.get(variable, "/usr/bin/python3")
    if not can_import(python, package):
        pytest.skip(f"{package} is not installed ({variable} names a Python that has it)")
    directory, env = place
    env["TEST_PYTHON"] = python
    line, = lines_with(script)
    done = lines_of(run_line(line, directory, env, "--checkpoint=ck", "--epochs=3"))
    assert [x["step"] for x in done] == [1, 2, 3]
    more = lines_of(run_line(line, directory, env, "--checkpoint=ck", "--epochs=5"))
    assert [x["step"] for x in more] == [4, 5]
    value = [x["eval_loss" if "eval_loss" in x else "val_loss"] for x in done + more]
    assert value[4] < value[0] / 2
