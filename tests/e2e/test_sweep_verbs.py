"""`drover sweep stop, cancel, pause, resume, retry, add, ls`: what is asked of a sweep while it runs, and when nobody works on it."""
import contextlib
import csv
import json
import re
import os
import pty
import signal
import subprocess
import time

import pytest
from sweep_kit import DROVER, use_place  # noqa: F401
from waiting import wait_until

pytestmark = pytest.mark.skipif(not DROVER.exists(), reason="drover is not built")
RANDOM = """
method: random
run_cap: 4
metric: {name: loss}
parameters: {x: {min: 0, max: 999}, opt: {parameters: {k: {values: [a, b]}}}}
"""
TRIAL = 'while ! test -e go; do sleep 0.02; done; echo "{\\"loss\\": $x}"\n'


def running(place, n):
    """The sweep once n trials run: their processes are there."""
    sweep = place.start(place.sweep(RANDOM), "--parallel", str(n))
    wait_until(lambda: len(list(place.path.glob("sweeps/s/trials/*/*/stdout"))) == n, "trials")
    return sweep


def verb(place, *args, status=0):
    began = time.monotonic()
    done = place.run(*args)
    assert done.returncode == status, done.stdout + done.stderr
    assert time.monotonic() - began < 5
    return done.stdout + done.stderr


@contextlib.contextmanager
def on_terminal(place, *args):
    """The terminal of a command, and its process."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([DROVER, "sweep", *args], cwd=place.path, env=dict(place.env, TERM="xterm"), stdin=theirs,
                               stdout=theirs, stderr=theirs, start_new_session=True)
    place.started.append(process)
    os.close(theirs)
    try:
        yield ours, process
    finally:
        os.close(ours)


def read_until(fd, text):
    """What a terminal shows, until it has this text or the command ends."""
    shown = ""
    with contextlib.suppress(OSError):  # EIO: no process has the terminal open
        while text not in shown:
            shown += os.read(fd, 4096).decode(errors="replace").replace("\r\n", "\n")
    return shown


def test_a_sweep_that_is_stopped_lets_its_trials_finish(place):
    sweep = running(place, 2)
    assert "s is stopped, 2 trials are still running" in verb(place, "stop", "s")
    assert place.states() == ["leased"] * 2
    (place.path / "go").touch()
    assert sweep.wait(30) == 0
    assert place.states() == ["done"] * 2 and place.show()["state"] == "stopped"
    assert "it was stopped (drover sweep resume continues it)" in place.said()
    assert place.run("resume", "s").returncode == 0
    assert place.states() == ["done"] * 4


def test_single_trials_are_stopped(place):
    sweep = running(place, 2)
    assert "s: trials 0 1 are cancelled" in verb(place, "stop", "s", "0", "1")
    wait_until(lambda: place.states()[:2] == ["cancelled"] * 2, "their ends")
    assert "trial 1 has ended: cancelled" in verb(place, "cancel", "s", "1", status=2)
    assert "there is no trial 9" in verb(place, "stop", "s", "2", "9", status=2)
    assert "trial" in verb(place, "stop", "s", "x", status=2)
    (place.path / "go").touch()
    assert sweep.wait(30) == 0
    assert place.states() == ["cancelled"] * 2 + ["done"] * 2
    place.nothing_runs()


def test_a_single_trial_is_killed_without_a_grace(place):
    place.script("t.sh", "trap '' TERM\n" + TRIAL)
    running(place, 1)
    assert "s: trial 0 is cancelled" in verb(place, "stop", "s", "0", "--now")
    wait_until(lambda: place.states()[0] == "cancelled", "its end", 10)  # the grace is 30 s


def test_a_sweep_that_runs_is_cancelled(place):
    sweep = running(place, 2)
    assert "s is stopped, 2 trials are still running" in verb(place, "cancel", "s")
    assert sweep.wait(30) == 1  # none had a value
    assert place.states() == ["cancelled", "cancelled"] and place.show()["state"] == "stopped"
    assert "it was stopped (drover sweep resume continues it)" in place.said()
    place.nothing_runs()
    assert "the sweep has ended" in verb(place, "stop", "s", status=2)
    (place.path / "go").touch()
    done = place.run("s.yaml")  # it stays over until it is resumed
    assert done.returncode == 1 and place.states() == ["cancelled"] * 2
    assert "2 trials wait" not in verb(place, "retry", "s", "0") and place.show()["state"] == "stopped"
    done = place.run("resume", "s")
    assert done.returncode == 0, done.stderr
    assert place.states() == ["done", "cancelled", "done", "done"]


def test_a_stop_now_waits_for_no_grace(place):
    place.script("t.sh", "trap '' TERM\n" + TRIAL)
    sweep = running(place, 2)
    assert "s is stopped" in verb(place, "stop", "s", "--now")
    assert sweep.wait(10) == 1  # the grace is 30 s
    place.nothing_runs()


def test_a_paused_sweep_stays_so_over_a_restart(place):
    place.script("t.sh", 'echo "run" >> "$DROVER_CKPT_DIR/runs"; cat "$DROVER_CKPT_DIR/runs"\n' + TRIAL)
    sweep = running(place, 2)
    assert "s is paused" in verb(place, "pause", "s", "--now")
    wait_until(lambda: place.states() == ["waiting"] * 2, "a pause")
    shown = json.loads(place.run("ls", "--json").stdout)[0]
    assert shown["state"] == "paused" and shown["states"] == {"waiting": 2} and shown["coordinator"]["pid"]
    os.killpg(sweep.pid, signal.SIGTERM)
    assert sweep.wait(30) == 128 + signal.SIGTERM
    hint = "to continue: drover sweep resume s"
    before = place.said().count(hint)
    sweep = place.start("s.yaml")
    wait_until(lambda: place.said().count(hint) > before, "what it says")
    (place.path / "go").touch()
    assert place.states() == ["waiting"] * 2
    assert verb(place, "resume", "s") == "s is resumed\n"
    assert sweep.wait(30) == 0
    assert place.states() == ["done"] * 4
    outputs = [p.read_text().count("run\n") for p in sorted(place.path.glob("sweeps/s/trials/*/*/stdout"))]
    assert outputs == [1, 2, 1, 2, 1, 1]  # two of them from their checkpoints


def test_a_pause_lets_trials_finish(place):
    sweep = running(place, 2)
    assert "s is paused, 2 trials are still running" in verb(place, "pause", "s")
    (place.path / "go").touch()
    wait_until(lambda: place.states() == ["done"] * 2, "two ends")
    verb(place, "resume", "s")
    assert sweep.wait(30) == 0 and place.states() == ["done"] * 4


def test_failed_trials_are_run_again(place):
    place.script("t.sh", 'test -e go || exit 3; echo "{\\"loss\\": $x}"\n')
    assert place.run(place.sweep(RANDOM + "drover: {give_up_after: 0}\n")).returncode == 1
    assert place.states() == ["failed"] * 4
    assert "no trial 9" in verb(place, "retry", "s", "9", status=2)
    assert "trial numbers, or --failed" in verb(place, "retry", "s", status=2)
    assert "trial 2 waits; no coordinator is running: drover sweep resume s" in verb(place, "retry", "s", "2")
    (place.path / "go").touch()
    assert place.run("resume", "s").returncode == 0
    assert place.states() == ["failed", "failed", "done", "failed"]
    verb(place, "retry", "--failed", "s")
    assert place.run("--resume", "s.yaml").returncode == 0
    assert place.states() == ["done"] * 4
    assert "no trial has failed" in verb(place, "retry", "--failed", "s", status=2)


def test_trials_are_added(place):
    sweep = running(place, 1)
    assert "trial 1 waits" in verb(place, "add", "s", "--param", "x=1", "--param", "opt.k=b")
    said = verb(place, "add", "s", "--param", "x=1000", "--param", "opt.k=b", status=2)
    assert "'x' cannot be 1000" in said
    assert "one of --param" in verb(place, "add", "s", status=2)
    assert "NAME=VALUE" in verb(place, "add", "s", "--param", "x", status=2)
    (place.path / "go").touch()
    assert sweep.wait(30) == 0
    params = [t["params"] for t in place.show()["trials"]]
    assert len(params) == 5 and params[1] == {"x": 1, "opt": {"k": "b"}}
    verb(place, "add", "s", "--trials", "2")
    verb(place, "add", "s", "--json", '[{"x": 3, "opt": {"k": "a"}}, {"x": 4, "opt": {"k": "a"}}]')
    assert place.run("resume", "s").returncode == 0
    assert place.states() == ["done"] * 9
    assert [t["params"]["x"] for t in place.show()["trials"]][5:7] == [3, 4]
    verb(place, "add", "s", "--param", "opt.k=b")
    assert place.run("resume", "s").returncode == 0
    assert place.show()["trials"][9]["params"]["opt"] == {"k": "b"}


def test_a_coordinator_that_does_not_answer_is_named_and_does_it_later(place):
    sweep = running(place, 1)
    os.kill(sweep.pid, signal.SIGSTOP)
    said = verb(place, "cancel", "s", status=1)
    assert f"process {sweep.pid} on {os.uname().nodename}, does not answer" in said and "/commands/" in said
    os.kill(sweep.pid, signal.SIGCONT)
    assert sweep.wait(30) == 1
    assert place.states() == ["cancelled"]


def test_a_stop_of_a_sweep_whose_coordinator_was_killed_counts_at_its_next_start(place):
    sweep = running(place, 1)
    sweep.kill()
    sweep.wait()
    assert "1 trial is still running; no coordinator is running" in verb(place, "cancel", "s")
    assert place.run("s.yaml").returncode == 1
    assert place.states() == ["cancelled"]
    place.nothing_runs()


def test_what_is_asked_of_no_sweep_names_the_nearest(place):
    (place.path / "go").touch()
    assert place.run(place.sweep(RANDOM)).returncode == 0
    for words in (["stop", "t"], ["cancel", "t"], ["stop", "t", "1"], ["pause", "t"], ["resume", "t"], ["retry", "t", "--failed"], ["add", "t", "--trials", "1"]):
        said = verb(place, *words, status=2)
        assert f"drover sweep {words[0]}: there is no sweep 't' in 'sweeps'" in said.replace(
            "drover sweep:", f"drover sweep {words[0]}:")
    assert "no sweep name given" in verb(place, "stop", status=2)
    assert "unexpected argument" in verb(place, "pause", "s", "t", status=2)
    (line,) = place.run("ls").stdout.splitlines()
    assert line.startswith("s ") and "finished" in line and "4 of 4 trials: 4 done" in line and " s old" in line


QUICK = 'echo "{\\"loss\\": $x}"\n'


def test_a_changed_file_starts_a_sweep_of_the_next_name(place):
    place.script("t.sh", QUICK)
    assert place.run(place.sweep(RANDOM)).returncode == 0
    done = place.run(place.sweep(RANDOM.replace("999", "99")))
    assert done.returncode == 0 and "'s' is a sweep with another file, so this one is 's-2'" in done.stderr
    assert len(place.states("s")) == len(place.states("s-2")) == 4
    assert "s-2" in place.run("s.yaml").stderr and place.run("ls").stdout.count("\n") == 2  # it is continued
    done = place.run("s.yaml", "--name", "s")
    assert done.returncode == 2 and "holds a sweep with another file" in done.stderr and "--restart" in done.stderr


def test_a_restart_archives_the_sweep(place):
    place.script("t.sh", QUICK)
    assert place.run(place.sweep(RANDOM), "--restart").returncode == 0  # there is nothing to archive
    for n in (1, 2):
        done = place.run(place.sweep(RANDOM + f"description: file {n}\n"), "--restart")
        assert done.returncode == 0 and f"the earlier sweep 's' is now 's.{n}'" in done.stderr
        assert len(place.states("s")) == len(place.states(f"s.{n}")) == 4
    before = place.show("s.2")
    assert place.run("s.yaml", "--restart", "--dry-run").returncode == 0 and place.show("s.2") == before
    assert not (place.path / "sweeps/s.3").exists()
    assert "exclude each other" in verb(place, "s.yaml", "--restart", "--resume", status=2)


def test_a_sweep_that_runs_is_neither_archived_nor_removed(place):
    running(place, 1)
    assert "is being worked on" in verb(place, "s.yaml", "--restart", status=2)
    assert "is being worked on" in verb(place, "rm", "s", "--yes", status=2)
    assert place.states() == ["leased"]


def test_a_sweep_is_removed_after_a_question(place):
    place.script("t.sh", QUICK)
    assert place.run(place.sweep(RANDOM)).returncode == 0
    assert "drover sweep rm --yes s" in verb(place, "rm", "s", status=2)
    assert "no sweep 't'" in verb(place, "rm", "t", "--yes", status=2)
    for answer, status in (("n", "s is not removed"), ("y", "s is removed")):
        assert place.db().exists()
        with on_terminal(place, "rm", "s") as (ask, process):
            assert "remove the sweep 's' with all files in" in read_until(ask, "[y/N]")
            os.write(ask, answer.encode() + b"\n")
            assert status in read_until(ask, status) and process.wait(10) == 0
    assert not (place.path / "sweeps/s").exists()
    assert place.run("s.yaml").returncode == 0 and "s is removed" in verb(place, "rm", "s", "-y")


# ---- one trial, the best one, all as a table -------------------------------------------------------------

CURVE = """
echo "{\\"step\\": 1, \\"loss\\": 9$x}"; echo "{\\"step\\": 2, \\"loss\\": $x}"
test "$x" != 2 || { echo "out of luck" >&2; exit 3; }
"""
GRID = "method: grid\nmetric: {name: loss, goal: minimize}\nparameters: {x: {values: [1, 2]}, s: {value: it's \"so\" $HOME}}\n"


def finished(place, drover=""):
    place.script("t.sh", CURVE)
    done = place.run(place.sweep(GRID + drover))
    assert done.returncode == 0, done.stderr
    return done


def test_a_failed_trial_says_why_and_where_its_output_is(place):
    done = finished(place)
    where = place.path / "sweeps/s/trials/000001/2"
    assert f"(exit status 3: out of luck)\n  output: {where}\n" in done.stderr
    line = f"exit status 3: out of luck; output: {where}\n"
    assert line in done.stdout and line in place.run("show", "s").stdout
    assert (where / "stderr").read_text() == "out of luck\n"
    assert place.run("--name", "s", "--resume").returncode == 0


def test_a_terminal_shows_a_failed_trial_too(place):
    place.script("t.sh", CURVE)
    place.sweep(GRID)
    with on_terminal(place, "s.yaml") as (shown, process):
        text = read_until(shown, "best: trial 0, loss 1")
        assert process.wait(10) == 0
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r", "")
    assert "(exit status 3: out of luck)\n  output: " in plain


def test_all_about_a_trial(place):
    finished(place)
    shown = place.run("show", "s", "1").stdout
    assert shown.startswith("trial 1  failed  loss 2")
    for text in ("\nreason: exit status 3: out of luck\n", "\n  x  2\n", "curve of loss, 2 points", "lease  node", "  stderr  12 bytes\n",
                 f"files in {place.path}/sweeps/s/trials/000001/2\n", "end of stderr\n  out of luck\n", "drover run -np 1 -- ./t.sh"):
        assert text in shown, (text, shown)
    one = json.loads(place.run("show", "s", "1", "--json").stdout)
    assert one["curves"]["loss"] == [[1, 92], [2, 2]] and one["leases"][0]["lease"] == 2
    assert one["output"] == f"{place.path}/sweeps/s/trials/000001/2"
    assert "trials are numbered from 0 to 1" in verb(place, "show", "s", "7", status=2)
    assert "trial" in verb(place, "show", "s", "x", status=2)
    assert "--csv shows all trials" in verb(place, "show", "s", "1", "--csv", status=2)
    assert "exclude each other" in verb(place, "show", "s", "--curves", "--csv", status=2)
    for args in (["--csv"], ["--json"], ["1"], ["1", "--json"]):
        assert "--top" in verb(place, "show", "s", *args, "--top", "2", status=2)


def test_the_table_as_csv_and_as_curves(place):
    finished(place)
    rows = list(csv.DictReader(place.run("show", "s", "--csv").stdout.splitlines()))
    assert [(r["trial"], r["state"], float(r["value"]), r["x"], r["s"]) for r in rows] == [
        ("0", "done", 1, "1", 'it\'s "so" $HOME'), ("1", "failed", 2, "2", 'it\'s "so" $HOME')]
    assert rows[1]["error"] == "exit status 3: out of luck"
    curves = place.run("show", "s", "--curves", "--top", "1").stdout.splitlines()
    assert curves[0].startswith("trial 0     done") and "█" in curves[0] and len(curves) == 2


def test_sets_from_outside_have_the_form_of_the_space(place):
    place.script("t.sh", 'echo "{\\"loss\\": 1}"\n')
    done = place.run(place.sweep("""
method: random
metric: {name: loss}
run_cap: 1
parameters:
  k: {distribution: int_uniform, min: 1, max: 5}
  w: {values: [16, 32]}
  q: {distribution: q_uniform, min: 0, max: 10, q: 2}
  l: {values: [[64, 64], [32]]}
  s: {values: ["1", 1, b]}
drover: {start: [{k: 3.0, w: 32.0, q: 4.0, l: [32.0], s: b}]}
"""), "-q")
    assert done.returncode == 0, done.stderr
    verb(place, "add", "s", "--param", "k=2.0", "--param", "w=16.0", "--param", "q=6.0", "--param", "l=[64, 64.0]", "--param", 's="1"')
    verb(place, "add", "s", "--json", '{"k": 1.0, "w": 32.0, "q": 2.0, "l": [64.0, 64], "s": 1.0}')
    trials = sorted(place.show("s")["trials"], key=lambda t: t["id"])
    assert [json.dumps(t["params"], sort_keys=True) for t in trials] == [
        '{"k": 3, "l": [32], "q": 4, "s": "b", "w": 32}', '{"k": 2, "l": [64, 64], "q": 6, "s": "1", "w": 16}',
        '{"k": 1, "l": [64, 64], "q": 2, "s": 1, "w": 32}']
    for args, said in ((["--param", "k=1", "--param", "k=2"], "'k=2': this parameter is given twice"),
                       (["--param", "s=[1"], "--param: 's=[1': the value:"), (["--json", '{"k":1,"k":2}'], "duplicate")):
        assert said in verb(place, "add", "s", *args, status=2)
    assert len(place.show("s")["trials"]) == 3


@pytest.mark.parametrize("drover, ranks", [("", 1), ("drover: {resources: {ranks: 2}}\n", 2)])
def test_the_command_of_the_best_trial_can_be_pasted(place, drover, ranks):
    done = finished(place, drover)
    command = verb(place, "best", "s", "--command")
    assert command.startswith(f"drover run -np {ranks} ")
    assert f"\n  {command}" in done.stdout and f"\n  {command}" in verb(place, "best", "s")
    best = json.loads(verb(place, "best", "s", "--json"))
    assert best["id"] == 0 and best["command"] + "\n" == command
    place.script("t.sh", 'echo "x is $x and s is $s"\n')
    env = dict(place.env, PATH=f"{DROVER.parent}:{place.env['PATH']}")
    pasted = subprocess.run(["bash", "-c", command], cwd=place.path, env=env, text=True, capture_output=True, timeout=60,
                            stdin=subprocess.DEVNULL)
    assert pasted.returncode == 0, pasted.stderr
    assert pasted.stdout.count('x is 1 and s is it\'s "so" $HOME') == ranks


def test_without_a_value_there_is_no_best_trial(place):
    place.script("t.sh", "exit 0\n")
    assert place.run(place.sweep(GRID)).returncode == 1
    assert "no trial has a value yet" in verb(place, "best", "s", status=1)
    assert "no sweep 't'" in verb(place, "best", "t", status=2)


def test_the_output_of_a_trial(place):
    finished(place)
    assert verb(place, "logs", "s", "1") == '{"step": 1, "loss": 92}\n{"step": 2, "loss": 2}\n'
    assert verb(place, "logs", "s", "1", "-n", "1") == '{"step": 2, "loss": 2}\n'
    assert verb(place, "logs", "s", "1", "--stderr", "-f") == "out of luck\n"
    assert verb(place, "logs", "s", "0", "--stderr") == ""  # it wrote none
    assert "no trial given" in verb(place, "logs", "s", status=2)
    assert "there is no trial 5" in verb(place, "logs", "s", "5", status=2)
    (place.path / "sweeps/s/trials/000001/2/stdout").unlink()
    assert "trials/000001/2/stdout: No such file" in verb(place, "logs", "s", "1", status=1)


def test_the_output_is_followed_over_leases_until_the_trial_ends(place):
    place.script("t.sh", 'echo "lease $DROVER_RESUME"\n' + TRIAL)
    sweep = running(place, 1)
    with on_terminal(place, "logs", "s", "0", "-f") as (shown, process):
        assert "lease" in read_until(shown, "lease")
        verb(place, "pause", "s", "--now")
        wait_until(lambda: place.states() == ["waiting"], "the pause")
        verb(place, "resume", "s")
        assert "lease 1" in read_until(shown, "lease 1")  # the file of the second lease
        assert process.poll() is None
        (place.path / "go").touch()
        assert "loss" in read_until(shown, "loss")
        assert process.wait(30) == 0
    assert sweep.wait(30) == 0


# ---- drover ps --------------------------------------------------------------------------------------------


def drover(place, *args):
    return subprocess.run([DROVER, *args], cwd=place.path, env=place.env, text=True, capture_output=True, timeout=60,
                          stdin=subprocess.DEVNULL)


def test_ps_lists_a_sweep_and_its_trials(place):
    (place.path / "run").mkdir(mode=0o700)
    place.env["XDG_RUNTIME_DIR"] = str(place.path / "run")
    sweep = running(place, 2)

    def jobs():
        listed = map(json.loads, drover(place, "ps", "--json").stdout.splitlines())
        return [j for j in listed if j.get("sweep") == "s" and j["dir"].startswith(str(place.path))]  # other tests run, too
    listed = wait_until(lambda: len(jobs()) == 3 and jobs(), "the sweep and two trials")
    (whole,) = [j for j in listed if j["kind"] == "sweep"]
    trials = sorted((j for j in listed if j["kind"] == "trial"), key=lambda j: j["trial"])
    assert whole["pid"] == sweep.pid and whole["command"] == f"sweep s in {place.path}/sweeps/s"
    assert [j["trial"] for j in trials] == [0, 1] and trials[0]["command"].startswith("./t.sh --")
    assert trials[0]["output_dir"] == f"{place.path}/sweeps/s/trials/000000/1"
    shown = drover(place, "ps").stdout
    assert f"{whole['id']}  " in shown and f"{trials[1]['id']}  " in shown
    trial, all_of_it = trials[1]["id"], whole["id"]  # whole: the sweeps of other tests begin with sweep-s, too
    for words, said in ((["kill", trial], "try: drover sweep stop s 1"), (["logs", trial], "try: drover sweep logs s 1"),
                        (["logs", all_of_it], "try: drover sweep show s"), (["kill", "-s", "USR1", all_of_it], "only signals that stop it")):
        done = drover(place, *words)
        assert done.returncode == 2 and said in done.stderr, done.stderr
    assert drover(place, "kill", all_of_it).returncode == 0  # as Ctrl-C
    assert sweep.wait(30) == 128 + signal.SIGTERM and place.states() == ["waiting"] * 2
    assert jobs() == []
    wait_until(lambda: not list((place.path / "run/drover/jobs").iterdir()), "the last entry to be removed")


def paste(place, text, status=0):
    """Runs the command for the sweep of another directory that drover has printed; returns what it says."""
    line = re.search(r"drover (?:sweep|export)[^;\n]* --dir (?:'my sweeps'|\S*/my sweeps')", text)
    assert line, text
    env = dict(place.env, PATH=f"{DROVER.parent}:{place.env['PATH']}")
    done = subprocess.run(["sh", "-c", line[0].replace(" FILE ", " u.yaml ")], cwd=place.path, env=env, text=True,
                          capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == status, (line[0], done.stdout + done.stderr)
    return done.stdout + done.stderr


def test_each_command_that_is_printed_has_the_directory_of_the_sweep(place):
    place.script("t.sh", 'echo "{\\"loss\\": 1}"\n')
    place.sweep(RANDOM), place.sweep(RANDOM, name="u")
    at = "--dir", "my sweeps"
    assert place.run("s.yaml", "--quiet", *at).returncode == 0
    paste(place, verb(place, "logs", "s", *at, status=2))
    paste(place, verb(place, "add", "s", "--trials", "1", *at))
    verb(place, "add", "s", "--trials", "1", *at)
    paste(place, verb(place, "pause", "s", *at))
    place.sweep(RANDOM + "description: other\n")
    paste(place, verb(place, "s.yaml", "--name", "s", *at, status=2))
    drover = lambda *args: subprocess.run([DROVER, *args], cwd=place.path, env=place.env, text=True, capture_output=True, timeout=60)
    paste(place, drover("export", "s", *at).stderr)
    lines = drover("export", "s", "--jsonl", "s.jsonl", *at)
    assert lines.returncode == 0, lines.stderr
    said = drover("import", "--jsonl", "s.jsonl", "--name", "imp", *at).stdout
    paste(place, said.splitlines()[1]), paste(place, said.splitlines()[2])
    paste(place, paste(place, drover("import", "--jsonl", "s.jsonl", "--name", "imp", *at).stderr, status=2))
    assert not (place.path / "my sweeps/imp").exists()


def test_the_commands_for_a_sweep_that_runs_have_its_directory(place):
    at = "--dir", "my sweeps"
    sweep = place.start(place.sweep(RANDOM), "--parallel", "1", *at)
    wait_until(lambda: len(list(place.path.glob("my sweeps/s/trials/*/*/stdout"))) == 1, "a trial")
    paste(place, verb(place, "s.yaml", "--resume", *at, status=2))
    jobs = subprocess.run([DROVER, "ps", "--json"], env=place.env, capture_output=True, text=True, timeout=60).stdout
    trial, = [j["id"] for j in map(json.loads, jobs.splitlines())
              if j["kind"] == "trial" and j["output_dir"].startswith(str(place.path))]
    for job, command in ((trial, "kill"), (trial, "logs"), (f"sweep-s.{sweep.pid}", "logs")):
        said = subprocess.run([DROVER, command, job], cwd=place.path, env=place.env, capture_output=True, text=True, timeout=60).stderr
        assert "my sweeps'" in said and "--dir" in said, said
    paste(place, verb(place, "rm", "s", "--yes", *at, status=2))
    assert sweep.wait(60) is not None


@pytest.mark.parametrize("words", [
    ("s.yaml", "--name", "a", "--name", "b"), ("--seed", "1", "s.yaml", "--seed=2"), ("s.yaml", "--parallel", "1", "--parallel", "2"),
    ("s.yaml", "--deadline", "8h", "--deadline", "9h"), ("show", "s", "--top", "1", "--top", "2"), ("rm", "--dir", "a", "s", "--dir", "b")])
def test_an_option_with_one_value_that_is_given_twice_is_refused(place, words):
    place.sweep(RANDOM)
    said = verb(place, *words, status=2)
    assert "given twice" in said and not (place.path / "sweeps").exists(), said


def test_a_price_without_a_budget_is_refused(place):
    said = verb(place, place.sweep(RANDOM), "--price", "2", status=2)
    assert "--price has no effect without --budget" in said and not (place.path / "sweeps").exists()
    assert place.run("s.yaml", "--price", "2", "--budget", "30", "--dry-run").returncode == 0


@pytest.mark.parametrize("words", [("run", "-np", "1", "-np", "2", "--dry-run", "true"), ("torchrun", "--nnodes", "1", "--nnodes", "1", "--help"),
                                   ("estimate", "--model", "bert-base", "--model", "gpt2")])
def test_commands_to_which_wrappers_append_options_take_the_last_value(place, words):
    done = subprocess.run([DROVER, *words], cwd=place.path, env=place.env, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0 and ("2 ranks" in done.stdout or "gpt2" in done.stdout or words[0] == "torchrun"), done
