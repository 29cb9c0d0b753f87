"""First contact with sweeps: what is printed for the user can be pasted as it stands, and what people type first has an answer."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from sweep_kit import BUILD, DROVER, LIMIT_S, ONE, use_scripts  # noqa: F401  a fixture
from waiting import wait_until

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")
GRID = "method: grid\nmetric: {name: loss}\nparameters: {x: {values: [1, 2]}}\n"


def shell(place, line):
    """Runs what drover has printed, with `drover` in PATH."""
    env = dict(place.env, PATH=f"{DROVER.parent}:{place.env['PATH']}")
    return subprocess.run(["sh", "-c", line], cwd=place.path, env=env, text=True, capture_output=True, timeout=LIMIT_S,
                          stdin=subprocess.DEVNULL)


def sweep(place, code, text, *options, name="s"):
    (place.path / f"{name}.py").write_text(code)
    (place.path / f"{name}.yaml").write_text(f"program: {name}.py\n{text}")
    return place.run(f"{name}.yaml", *options)


# ---- the command of the best trial --------------------------------------------------------------

X = "import sys\nx = float(sys.argv[1].split('=')[1])\n"
WAYS = {
    "drover.report": (X + "import drover\ndrover.report(loss=x)\nprint('trained with', x)\n", GRID),
    "JSON": (X + "print('{\"loss\": %g}' % x)\nprint('trained with', x)\n", GRID),
    "pattern": (X + "print(f'loss={x}')\nprint('trained with', x)\n", GRID.replace("{name: loss}", "{name: loss, pattern: 'loss=(.*)'}")),
    "wandb with arguments": (X + "import wandb\nwandb.init()\nwandb.log({'loss': x})\nprint('trained with', x)\n", GRID),
    "wandb.config": ("import wandb\nwandb.init()\nx = float(wandb.config.x)\nwandb.log({'loss': x})\nprint('trained with', x)\n",
                     GRID + "command: ['${interpreter}', '${program}']\n"),
    "wandb.agent": ("import wandb\ndef train():\n    wandb.init()\n    x = float(wandb.config.x)\n    wandb.log({'loss': x})\n"
                    "    print('trained with', x)\nwandb.agent(wandb.sweep({}), train)\n", GRID),
    "two ranks": (X + "import drover\nif drover.rank() == 0:\n    drover.report(loss=x)\n    print('trained with', x)\n"
                  "assert drover.world_size() == 2\n", GRID + "drover: {resources: {ranks: 2}}\n"),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_command_of_the_best_trial_runs_as_printed(place, way):
    done = sweep(place, *WAYS[way], "--parallel", "1")
    assert done.returncode == 0, done.stderr + place.output(stream="stderr")
    (line,) = re.findall(r"^  (drover run .*)$", done.stdout, re.M)
    assert place.run("best", "s", "--command").stdout == line + "\n"
    again = shell(place, line)
    assert again.returncode == 0 and again.stdout.endswith("trained with 1.0\n"), line + again.stderr


def test_the_command_gives_the_real_module_of_wandb_its_parameters(place):
    (place.path / "wandb.py").write_text("import os\nconfig = os.environ['WANDB_SWEEP_PARAM_PATH']\n")
    code = "import drover, wandb\ndrover.report(loss=1)\nprint(wandb.__file__, open(wandb.config).read())\n"
    done = sweep(place, code, GRID + "drover: {wandb: real}\n", "--parallel", "1")
    assert done.returncode == 0, done.stderr
    again = shell(place, place.run("best", "s", "--command").stdout)
    assert again.returncode == 0 and f"{place.path}/wandb.py" in again.stdout and '"x":\n  value: 1' in again.stdout, again.stderr


def test_the_command_runs_from_an_installed_prefix(place, tmp_path):
    prefix = tmp_path / "a prefix"
    shutil.copytree(BUILD / "bin", prefix / "bin")
    shutil.copytree(BUILD / "libexec", prefix / "libexec", symlinks=True)
    shutil.copytree(BUILD / "share", prefix / "share")
    code, text = WAYS["wandb.config"]
    (place.path / "s.py").write_text(code)
    (place.path / "s.yaml").write_text(f"program: s.py\n{text}")
    env = dict(place.env, PATH=f"{prefix}/bin:{place.env['PATH']}")
    line = 'drover sweep s.yaml -q >&2 && eval "$(drover sweep best s --command)"'
    done = subprocess.run(["sh", "-c", line], cwd=place.path, env=env, text=True, capture_output=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout) == (0, "trained with 1.0\n"), done.stderr


def test_ranks_find_drover_py_after_all_that_the_user_names(place):
    code = "import drover\nwith drover.section('step'):\n    print(drover.rank(), drover.__file__)\n"
    (place.path / "t.py").write_text(code)
    done = shell(place, "drover run -np 1 t.py")
    assert done.stdout == f"0 {BUILD}/share/drover/drover.py\n", done.stderr
    (place.path / "own").mkdir()
    (place.path / "own/drover.py").write_text((BUILD / "share/drover/drover.py").read_text())
    place.env["PYTHONPATH"] = "own"
    assert shell(place, "drover run -np 1 t.py").stdout.endswith("own/drover.py\n")
    assert shell(place, "drover run -np 1 -x PYTHONPATH=/nowhere t.py").stdout == done.stdout


def test_a_study_without_the_program_says_where_it_was_looked_for(place):
    shutil.copy(BUILD / "share/drover/drover.py", place.path)
    done = subprocess.run([sys.executable, "-c", "import drover; drover.Study({'x': {'min': 0.0, 'max': 1.0}})"], cwd=place.path,
                          env={"PATH": "/nowhere"}, text=True, capture_output=True, timeout=LIMIT_S)
    assert re.search(r"the program drover is needed: it is neither '.*/bin/drover' nor in PATH$", done.stderr.strip()), done.stderr


# ---- hints --------------------------------------------------------------------------------------


def metric_lines(done, goal=""):
    """What the hint offers for the sweep file."""
    return re.findall(r"^ +(?:- )?(?:metric: )?(\{name: .*\})    in .*the sweep file", done.stderr, re.M)


@pytest.mark.parametrize("code, found", [
    ("print(f'acc={x}')", 1),
    ("print('epoch 1 acc=0\\racc=' + str(x))", 1),
    ("print('{\"val/acc\": %g}' % x)", 1),
    ("print('{\"epoch\": 1, \"lr\": 2, \"grad\": 3, \"accuracy\": %g}' % x)", 3),
], ids=["text", "a bar that redraws itself", "a name with a group", "a longer name"])
def test_the_hint_for_a_metric_can_be_pasted_and_keeps_its_goal(place, code, found):
    text = GRID.replace("{name: loss}", "{name: acc, goal: maximize}")
    done = sweep(place, X + code, text, "--parallel", "1")
    lines = metric_lines(done)
    assert done.returncode == 1 and len(lines) == found, done.stderr
    done = sweep(place, X + code, text.replace("{name: acc, goal: maximize}", lines[0]), name="again")
    assert "best: trial 1" in done.stdout, done.stdout + done.stderr


def test_a_metric_on_stderr_is_shown_and_the_way_out_works(place):
    bar = "for i in range(3):\n    print(f'\\r{i}/3 [00:01, acc={x / (3 - i)}]', end='', file=sys.%s)\n"
    text = GRID.replace("{name: loss}", "{name: acc, goal: maximize}")
    done = sweep(place, X + bar % "stderr", text, "--parallel", "1")
    assert "this line of its stderr looks like the metric, but metrics are read from stdout only:\n    2/3 [00:01, acc=1.0]\n" in done.stderr
    assert "file=sys.stdout" in done.stderr
    (line,) = metric_lines(done)
    done = sweep(place, X + bar % "stdout", text.replace("{name: acc, goal: maximize}", line), name="again")
    assert "best: trial 1, acc 2" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("other, found", [("", 1), (", 'epoch': 1", 0)], ids=["alone", "beside a number"])
def test_a_metric_in_quotes_is_shown(place, other, found):
    done = sweep(place, X + f"print({{'loss': str(int(x)){other}}})", GRID, "--parallel", "1")
    assert "looks like the metric, but a number in quotes is a text:\n    {'loss': '1'" in done.stderr, done.stderr
    assert "print(json.dumps({\"loss\": float(value)}))" in done.stderr and len(metric_lines(done)) == found


def test_an_objective_that_was_never_reported_makes_the_trial_invalid(place):
    text = GRID.replace("metric: {name: loss}", "metrics:\n- {name: loss}\n- {name: acuracy, goal: maximize, target: 9}")
    code = X + "print('{\"loss\": 1, \"accuracy\": %g}' % x)"
    done = sweep(place, code, text, "--parallel", "1")
    assert "the metric 'acuracy' was never reported; reported: 'accuracy', 'loss'" in done.stderr
    (line,) = metric_lines(done)
    assert line == "{name: 'accuracy', goal: maximize, target: 9.0}"
    done = sweep(place, code, text.replace("{name: acuracy, goal: maximize, target: 9}", line), name="again")
    assert done.returncode == 0 and place.states("again") == ["done", "done"], done.stderr


# ---- what cannot work -----------------------------------------------------------------------------


def test_names_that_are_not_utf8_are_refused_before_the_start(place):
    code = "print({'loss': 1})"
    bad = os.fsdecode(os.fsencode(place.path) + b"/caf\xe9")
    os.mkdir(bad)
    done = sweep(place, code, GRID, "--dir", bad)
    assert done.returncode == 2 and "its path is not valid UTF-8\n  try: --dir DIR" in done.stderr, done.stderr
    done = sweep(place, code, GRID + "command: ['${interpreter}', '${program}', '${envvar:ODD}']\n")
    place.env["ODD"] = os.fsdecode(b"\xe9")
    done = place.run("s.yaml")
    assert done.returncode == 2 and "of the command is not valid UTF-8" in done.stderr, done.stderr
    place.path = pathlib.Path(bad)
    done = sweep(place, code, GRID)
    assert done.returncode == 2 and "its path is not valid UTF-8\n  try: rename it" in done.stderr, done.stderr
    assert sorted(os.listdir(bad)) == ["s.py", "s.yaml"]


def test_early_stopping_that_compared_nothing_is_told_at_the_end(place):
    code = "for i in range(4):\n    print({'loss': 1})"
    done = sweep(place, code, GRID + "early_terminate: {type: asha, min_iter: 10}\n")
    assert "drover sweep: early_terminate had no effect: no trial reached step 10\n" in done.stderr, done.stderr


def test_a_pattern_that_gives_no_number_is_told(place):
    text = GRID.replace("{name: loss}", "{name: loss, pattern: '%s'}")
    done = sweep(place, "print('loss: x')", text % "loss: (.*)")
    assert "nothing was reported; the pattern of 'loss' matched 1 line and gave no number" in done.stdout, done.stderr
    done = sweep(place, "print('loss: x')", text % "(loss) ", name="again")
    assert done.returncode == 2 and "again.yaml:3:" in done.stderr and "can give no number" in done.stderr, done.stderr


FLAG = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--amp', action='store_true')\nprint({'loss': int(p.parse_args().amp)})\n"
HYDRA = """import sys
if any(a.startswith("-") for a in sys.argv[1:]):
    sys.exit("t.py: error: unrecognized arguments: " + " ".join(sys.argv[1:]))
print({"loss": 1})
"""


@pytest.mark.parametrize("code", [FLAG, HYDRA], ids=["a flag", "Hydra"])
def test_arguments_that_the_program_does_not_understand_have_a_command_that_can_be_pasted(place, code):
    text = "method: grid\nmetric: {name: loss}\nparameters: {amp: {values: [true, false]}}\n"
    done = sweep(place, code, text)
    (line,) = re.findall(r"^    (command: \[.*\])$", done.stderr, re.M)
    done = sweep(place, code, text + line + "\n", name="again")
    assert done.returncode == 0 and place.states("again") == ["done", "done"], done.stderr


def test_trials_that_failed_run_again_by_the_command_that_is_printed(place):
    done = sweep(place, "raise RuntimeError('bug')\n", GRID, "--dir", "all of them")
    assert done.returncode == 1
    (place.path / "s.py").write_text("print({'loss': 1})\n")
    again = place.run("s.yaml", "--dir", "all of them")
    for said in done.stderr, again.stderr:
        (line,) = re.findall(r"^drover sweep: to run again what failed: (.*)$", said, re.M)
    done = shell(place, line)
    assert done.returncode == 0 and "2 of 2 trials: 2 done" in done.stdout, done.stderr


@pytest.mark.parametrize("name", [[], ["--name", "mine"]])
def test_a_larger_run_cap_and_comments_continue_the_sweep(place, name):
    text = "method: random\nrun_cap: 2\nmetric: {name: loss}\nparameters: {x: {min: 0.0, max: 1.0}}\n"
    code = X + "print({'loss': x})\n"
    first = ["2 of 2 trials: 2 done", ""]
    for cap, comment in (2, ""), (4, ""), (4, "# again\n"), (5, ""):
        done = sweep(place, code, comment + text.replace("run_cap: 2", f"run_cap: {cap}"), *name)
        assert done.returncode == 0 and f"{cap} of {cap} trials: {cap} done" in done.stdout, done.stderr + str(first)
    assert "the run_cap of" in done.stderr and len(list((place.path / "sweeps").iterdir())) == 1
    done = sweep(place, code, text.replace("min: 0.0", "min: 0.5"), *name)
    assert ("'s-2'" in done.stderr, done.returncode) == ((False, 2) if name else (True, 0)), done.stderr


def test_a_dry_run_with_a_larger_run_cap_changes_nothing(place):
    text = GRID.replace("grid", "random") + "run_cap: 1\n"
    sweep(place, X + "print({'loss': x})\n", text)
    done = sweep(place, X, text.replace("run_cap: 1", "run_cap: 2"), "--dry-run")
    assert done.returncode == 0 and "s-2" not in done.stderr and len(place.show()["trials"]) == 1


# ---- what people type first ---------------------------------------------------------------------


@pytest.mark.parametrize("words, meant", [
    (["status", "s"], "drover sweep show"), (["status"], "drover sweep show"), (["list"], "drover sweep ls"),
    (["delete", "s"], "drover sweep rm"), (["help"], "drover sweep --help"), (["frobnicate", "s"], "drover sweep --help"),
    (["shwo", "s"], "drover sweep show"), (["start", "s.yaml"], "drover sweep FILE"), (["run", "s.yaml"], "drover sweep FILE"),
    (["create", "s.yaml"], "drover sweep FILE"), (["cont", "s"], "drover sweep resume"), (["export", "s"], "drover export NAME"),
    (["agent", "s"], "drover worker --key sweeps/NAME/worker.key"),
])
def test_a_word_that_is_no_command_names_the_one_that_was_meant(place, words, meant):
    done = place.run(*words)
    assert done.returncode == 2 and f"unknown command '{words[0]}'" in done.stderr and f"try: {meant}" in done.stderr


def test_the_name_of_a_sweep_and_a_trial_name_show(place):
    sweep(place, X + "print({'loss': -x})\nsys.exit(x == 2)", GRID)
    done = place.run("s", "0")
    assert done.returncode == 2 and "try: drover sweep show s 0\n" in done.stderr
    done = place.run("show", "s")
    assert re.findall(r"^ +(\d+) +(\d+) +(\w+)", done.stdout, re.M) == [("1", "0", "done"), ("2", "1", "failed")], done.stdout


def test_ways_to_add_exclude_each_other(place):
    done = place.run("add", "s", "--trials", "1", "--param", "x=3")
    assert done.returncode == 2 and "--param, --json and --trials exclude each other\n  try: one of" in done.stderr


@pytest.mark.parametrize("words", [["s"], ["--resume", "s"], ["-q", "s"]])
def test_the_name_of_a_sweep_instead_of_a_file_names_resume(place, words):
    sweep(place, "print({'loss': 1})\n", GRID, "--dir", "all")
    done = place.run("--dir", "all", *words)
    assert done.returncode == 2 and "'s' is a stored sweep, not a sweep file" in done.stderr
    hint = re.search("try: (.*)", done.stderr)[1]
    assert hint == "drover sweep resume s --dir all" and shell(place, hint).returncode == 0
    (place.path / "nothing").mkdir()
    assert "sweep file 'other': No such file" in place.run("other").stderr


def test_each_name_of_the_host_file_is_taken(place):
    (place.path / "hosts").write_text("localhost slots=1\n")
    sweep(place, "", GRID, "--dry-run")
    for option in "-f", "--hostfile", "--machinefile":
        assert place.run(option, "hosts", "--dry-run", "s.yaml").returncode == 0
    (line,) = [x for x in place.run("--help").stdout.splitlines() if "--hostfile" in x]
    assert line.split("FILE")[0].split() == ["-f,", "--hostfile,", "--machinefile"]


def test_resume_has_a_help_of_its_own(place):
    done = place.run("resume", "--help")
    assert done.returncode == 0 and done.stdout.startswith("Usage: drover sweep resume NAME")


def test_a_worker_says_that_no_coordinator_answers_and_how_long_it_tries(place):
    out = place.path / "out"
    with open(out, "w") as to:
        p = subprocess.Popen([DROVER, "worker", f"ipc://{place.path}/nobody", "--patience", "20"], cwd=place.path, env=place.env, stdout=to)
    place.started.append(p)
    wait_until(lambda: out.read_text() == f"drover worker: no coordinator answers at ipc://{place.path}/nobody; "
               "trying for 20.0 s (--patience)\n", out.read_text)


@pytest.mark.parametrize("request_, hint", [
    ({"op": "init", "method": "tpe"}, "bayes, sobol, random or grid"),
    ({"op": "init", "method": "byaes"}, '"method":"bayes"'),
    ({"op": "zzzzz"}, "init, ask, tell, report or best"),
])
def test_a_hint_of_suggest_is_one_value_or_a_list(request_, hint):
    request_ = {"space": [{"name": "x", "type": "float", "low": 0, "high": 1}], **request_}
    done = subprocess.run([DROVER, "suggest"], input=json.dumps(request_), text=True, capture_output=True, timeout=LIMIT_S)
    assert json.loads(done.stdout)["error"].endswith(f"; try: {hint}")


# ---- programs and directories -------------------------------------------------------------------


@pytest.mark.parametrize("head, why, fix", [
    (b"#!/bin/sh\r\n", r"'#!/bin/sh\r'", r"sed -i 's/\r$//' ./t.sh"),
    (b"#!/no/such/sh\n", "'#!/no/such/sh'", None),
], ids=["Windows line ends", "no such interpreter"])
def test_a_script_whose_interpreter_is_missing_is_explained(place, head, why, fix):
    script = place.path / "t.sh"
    script.write_bytes(head + b'echo "{\\"loss\\": 1}"' + head[-2:].replace(b"h\n", b"\n"))
    script.chmod(0o755)
    done = shell(place, "drover run -np 1 ./t.sh")
    assert f"exec './t.sh': the interpreter of its first line, {why}, does not exist" in done.stderr
    if fix:
        assert fix in done.stderr and shell(place, fix + " && drover run -np 1 ./t.sh").stdout == '{"loss": 1}\n'


@pytest.mark.parametrize("how", ["--restart", "rm"])
def test_a_sweep_that_is_a_link_is_archived_and_removed(place, how):
    sweep(place, "print({'loss': 1})\n", GRID)
    (place.path / "disk").mkdir()
    (place.path / "sweeps/s").rename(place.path / "disk/s")
    (place.path / "sweeps/s").symlink_to("../disk/s")
    if how == "rm":
        assert place.run("rm", "s", "--yes").returncode == 0
        assert not list((place.path / "sweeps").iterdir()) and not list((place.path / "disk").iterdir())
        return
    done = place.run("s.yaml", "--restart")
    assert done.returncode == 0, done.stderr
    assert place.states("s.1") == place.states("s") == ["done", "done"]
    assert (place.path / "sweeps/s.1").is_symlink() and not (place.path / "sweeps/s").is_symlink()
