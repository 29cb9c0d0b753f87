"""`drover runs`: the logs of runs that `drover run` keeps."""
import csv
import io
import json
import os
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest
from conftest import DROVER
from waiting import wait_until

LOOP = "for i in 1 2 3; do echo \"{'step': $i, 'loss': 0.$i, 'acc': nan}\"; done"


@pytest.fixture(autouse=True)
def own_state(drover, tmp_path):
    (tmp_path / "run").mkdir(mode=0o700)
    drover.env["XDG_RUNTIME_DIR"] = str(tmp_path / "run")
    drover.env["XDG_STATE_HOME"] = str(tmp_path / "state")


def files(drover):
    return sorted(Path(drover.env["XDG_STATE_HOME"]).glob("drover/runs/*.db"))


def begun(drover):
    """The logs that have their first rows: `drover runs` does not know one that is empty, since it is being made."""
    return [path for path in files(drover) if path.stat().st_size]


def runs(drover, *args):
    return [json.loads(line) for line in drover.run("runs", "--json", *args).stdout.splitlines()]


def records(path, kind):
    with sqlite3.connect(path) as db:
        return [(rank, json.loads(data)) for rank, data in
                db.execute("SELECT rank, data FROM record WHERE kind = ? ORDER BY seq", (kind,))]


def test_a_run_that_failed_is_listed_shown_and_exported(drover):
    done = drover.run("run", "--oversubscribe", "-np", 2, "--name", "first", "sh", "-c",
                      LOOP + "; [ $RANK = 0 ] && exec sleep 100; echo bye >&2; exit 3")
    path, = files(drover)
    assert done.returncode == 3 and done.stderr.endswith(f"\n  try: drover runs show {path.stem}\n")
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    r, = runs(drover)
    assert (r["id"], r["name"], r["state"], r["status"], r["failed_rank"]) == (path.stem, "first", "failed", 3, 1)
    assert r["metrics"] == {"loss": {"last": 0.3, "best": 0.1, "count": 6}, "acc": {"last": "nan", "best": "nan", "count": 6}}
    assert r["plan"]["ranks"] == 2 and r["command"].startswith("sh -c") and r["end_ms"] >= r["begin_ms"]
    row = drover.run("runs").stdout.splitlines()[1]
    assert row.split()[:3] == [path.stem, "first", "failed"]
    assert "loss 0.3 (best 0.1)" in row and "rank 1 on " in row and "exited with status 3" in row
    shown = drover.run("runs", "show", path.stem[7:12]).stdout
    assert "its last lines:\n    bye\n" in shown and "ended  {" in shown
    table = list(csv.DictReader(io.StringIO(drover.run("runs", "export", "first").stdout)))
    assert len(table) == 12
    assert [t["value"] for t in table if t["metric"] == "loss" and t["rank"] == "1"] == ["0.1", "0.2", "0.3"]
    assert {t["value"] for t in table if t["metric"] == "acc"} == {"nan"}
    lines = [json.loads(x) for x in drover.run("runs", "export", "--format", "json", "first").stdout.splitlines()]
    assert lines[0]["id"] == path.stem and {x["kind"] for x in lines[1:]} == {"report", "event", "lines"}
    assert drover.run("runs", "export", "--format", "xml", "first").returncode == 2


def test_logs_finds_a_run_that_has_ended_by_its_name(drover):
    drover.run("run", "--oversubscribe", "-np", 2, "--name", "talk", "sh", "-c", "echo one; echo two $RANK")
    for command in ["logs"], ["runs", "logs"]:
        done = drover.run(*command, "talk")
        assert done.stdout == "0| one\n0| two 0\n1| one\n1| two 1\n"
        assert f"try: drover runs show {files(drover)[0].stem}" in done.stderr
        assert drover.run(*command, "-n", 1, "talk", 1).stdout == "two 1\n"
    assert "drover runs lists all" in drover.run("ps", "--done").stdout
    assert drover.run("logs", "other").returncode == 2


def test_no_record_quiet_and_wrong_names(drover):
    assert drover.run("run", "-np", 1, "--no-record", "false").stderr.count("drover runs") == 0
    assert files(drover) == []
    assert drover.run("run", "-np", 1, "--no-record", "env").stdout.count("DROVER_REPORT_FD") == 0
    assert drover.run("run", "-np", 1, "-q", "false").stderr == ""
    assert runs(drover)[0]["state"] == "failed"
    for name in "", "a/b", "a\nb", "x" * 129:
        done = drover.run("run", "-np", 1, "--name", name, "touch", "started")
        assert done.returncode == 2 and "--name" in done.stderr
    assert not (drover.cwd / "started").exists()


def test_a_job_without_metrics_and_one_that_succeeds(drover):
    assert drover.run("run", "-np", 1, "true").stderr == ""
    r, = runs(drover)
    assert r["state"] == "done" and r.get("metrics") is None and r["cause"] == ""
    assert drover.run("runs").stdout.splitlines()[1].split()[6] == "-"


def test_secrets_are_not_kept(drover):
    env = {"API_TOKEN": "hidden1", "URL": "https://u:hidden2@host/"}
    drover.run("run", "-np", 1, "-x", "MY_PASSWORD=hidden3", "true", "--api-key", "hidden4", env=env)
    path, = files(drover)
    assert b"hidden" not in path.read_bytes()
    meta = json.loads(drover.run("runs", "export", "--format", "json", path.stem).stdout.splitlines()[0])
    assert meta["environment"]["API_TOKEN"] == "***" and meta["environment"]["URL"] == "https://u:***@host/"


def test_what_a_run_was_made_of_is_kept(drover):
    (drover.cwd / "code").mkdir()
    (drover.cwd / "code" / "train.py").write_text("import time, ssl; time.sleep(100)\n")
    p = drover.start("run", "-np", 1, "--wdir", "code", "-x", "SHARDS=7", "-x", "MY_KEY=hidden", "python3", "train.py",
                     "--config=train.py", "--token", "hidden", "--lr", "0.1")
    path, = wait_until(lambda: begun(drover), "the log")

    def kept():
        exported = drover.run("runs", "export", "--format", "json", path.stem).stdout
        return json.loads(exported.splitlines()[0])

    wait_until(lambda: "libraries" in kept(), "the libraries of rank 0")
    p.send_signal(signal.SIGTERM)
    p.communicate(timeout=60)
    meta = kept()
    assert meta["argv"] == ["python3", "train.py", "--config=train.py", "--token", "***", "--lr", "0.1"]
    assert meta["environment"]["SHARDS"] == "7" and meta["environment"]["MY_KEY"] == "***"
    assert meta["files"]["train.py"].endswith(" 34") and list(meta["files"]) == ["train.py"]
    assert meta["node"]["kernel"] == os.uname().release and meta["node"]["memory_bytes"] > 1 << 28
    assert any("ssl" in path and code >= 4096 for path, code in meta["libraries"].items())


def test_a_runs_last_lines_have_no_secrets_and_steer_no_terminal(drover):
    text = "Authorization: Bearer hidden5\\nclone of https://u:hidden6@host/ \\302\\2332J \\033]0;title\\007"
    done = drover.run("run", "-np", 1, "sh", "-c", f"printf '{text}\\n' >&2; exit 3")
    path, = files(drover)
    assert done.returncode == 3 and "hidden5" in done.stderr
    shown = drover.run("runs", "show", path.stem).stdout
    assert "clone of https://u:***@host/ \\x9b2J \\x1b]0;title\\x07" in shown, shown
    assert "hidden6" not in shown.split("events", 1)[1] and "hidden5" not in shown.split("events", 1)[1]
    for kind in "lines", "event":
        assert "hidden" not in str(records(path, kind))


def test_a_restart_is_in_the_log_and_ids_stay(drover):
    drover.run("run", "-np", 1, "--max-restarts", 1, "--restart-always", "false", timeout=120)
    path, = files(drover)
    events = [e["event"] for _, e in records(path, "event")]
    assert events.count("ended") == 2 and "restart" in events
    assert runs(drover)[0]["restarts"] == 1


@pytest.mark.parametrize("victim", ["drover", "guardian"])
def test_what_was_written_before_a_kill_can_be_read(drover, victim):
    p = drover.start("run", "-np", 1, "--name", "victim", "sh", "-c", LOOP + "; exec sleep 100")
    path = wait_until(lambda: begun(drover), "the log")[0]
    wait_until(lambda: any("loss" in (r.get("metrics") or {}) for r in runs(drover)), "the reports")
    assert runs(drover)[0]["state"] == "running"
    refused = drover.run("runs", "rm", "victim")
    assert refused.returncode == 2 and "has not ended" in refused.stderr and path.exists()
    assert drover.run("logs", "victim").stdout.endswith("'acc': nan}\n")  # those of the job that runs
    rank = [e["pid"] for _, e in records(path, "event") if e["event"] == "started"][0]
    guardian = int(Path(f"/proc/{rank}/stat").read_text().rsplit(")", 1)[1].split()[1])
    os.kill(p.pid if victim == "drover" else guardian, signal.SIGKILL)
    p.communicate(timeout=60)
    assert [d["loss"] for _, d in records(path, "report")] == [0.1, 0.2, 0.3]
    r, = runs(drover)
    assert r["state"] == ("lost" if victim == "drover" else "failed")
    assert victim == "guardian" or "was killed" in drover.run("runs").stdout
    assert drover.run("runs", "rm", "victim").returncode == 0 and runs(drover) == []
    drover.nothing_left()


def test_two_jobs_at_once_have_two_logs(drover):
    jobs = [drover.start("run", "-np", 1, "--name", n, "sh", "-c", f"echo \"{{'loss': {n}}}\"; sleep 0.3") for n in "12"]
    assert [p.wait(60) for p in jobs] == [0, 0]
    assert {r["name"]: r["metrics"]["loss"]["last"] for r in runs(drover)} == {"1": 1, "2": 2}
    assert drover.run("runs", "show", "drover-").returncode == 2
    assert drover.run("runs", "rm", "1", "nothing").returncode == 2 and len(files(drover)) == 2
    assert len(runs(drover, "-n", "1")) == 1


TMPFS = """
mount -t tmpfs -o size=SIZE none "$XDG_STATE_HOME" 2>/dev/null || exit 77
MORE
exec $1 run -np 1 sh -c 'i=0; while [ $((i += 1)) -lt 2000 ]; do echo "{\\"loss\\": $i}"; done; sleep 1.3; echo end'
"""


@pytest.mark.parametrize("size, more, error", [("64k", "", "full"), ("64k", 'mount -o remount,ro "$XDG_STATE_HOME"', "Read-only")])
def test_a_disk_that_is_full_or_read_only_costs_the_log_and_not_the_job(drover, size, more, error):
    Path(drover.env["XDG_STATE_HOME"]).mkdir()
    script = TMPFS.replace("SIZE", size).replace("MORE", more)
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", DROVER], env=drover.env, text=True, check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    if done.returncode == 77 or "unshare:" in done.stderr:
        pytest.skip(f"no tmpfs can be mounted: {done.stderr}")
    assert done.returncode == 0 and done.stdout.endswith("end\n")
    assert done.stderr.count("\n") == 1 and "the log of this run ends here" in done.stderr and error in done.stderr


def test_another_users_directory_is_refused_and_the_job_runs(drover):
    drover.run("run", "-np", 1, "true")
    where = files(drover)[0].parent
    where.chmod(0o777)  # as good as another user's
    done = drover.run("run", "-np", 1, "echo", "hello")
    assert (done.returncode, done.stdout) == (0, "hello\n") and done.stderr.count("\n") == 1
    done = drover.run("runs")
    assert done.returncode == 1 and str(where) in done.stderr
    if os.geteuid() == 0:
        where.chmod(0o700)
        os.chown(where, 65534, 65534)
        assert drover.run("runs").returncode == 1
    else:
        assert drover.run("runs", env={"XDG_STATE_HOME": "/root"}).stdout.count("\n") <= 1


def test_a_file_that_is_no_log_is_named_and_left_out(drover):
    drover.run("run", "-np", 1, "true")
    junk = files(drover)[0].parent / "junk.db"
    junk.write_bytes(b"not a log" * 1000)
    (junk.parent / "empty.db").touch()
    os.utime(junk.parent / "empty.db", (1, 1))
    (junk.parent / "begins.db").touch()  # of a run whose first rows come
    done = drover.run("runs")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2
    assert sorted(line.split("/")[-1].split(":")[0] for line in set(done.stderr.splitlines())) == ["empty.db", "junk.db"]
    assert junk.exists()


def test_ten_thousand_reports_need_a_megabyte(drover):
    program = drover.cwd / "many.py"
    program.write_text("import random, sys\nfor i in range(10000):\n"
                       "    print({'step': i, **{f'metric{k}': random.random() for k in range(int(sys.argv[1]))}})\n")
    for metrics in 1, 20:
        assert drover.run("run", "-np", 1, "--name", metrics, "python3", program, metrics).returncode == 0
        r = [x for x in runs(drover) if x["name"] == str(metrics)][0]
        path = [f for f in files(drover) if f.stem == r["id"]][0]
        assert path.stat().st_size <= 1 << 20 and r["metrics"]["metric0"]["count"] == 10000
        kept = len(records(path, "report"))
        assert kept == 10000 if metrics == 1 else 400 < kept < 5000


def test_old_runs_go(drover):
    for _ in range(2):
        drover.run("run", "-np", 1, "true")
    old = files(drover)[0]
    os.utime(old, (0, 0))
    assert len(runs(drover)) == 1 and not old.exists()
    new, = files(drover)
    os.utime(new, (os.stat(new).st_mtime - 86400 * 3,) * 2)
    assert len(runs(drover)) == 1
    assert "DROVER_RUNS_MAX_AGE_DAYS" in drover.run("runs", env={"DROVER_RUNS_MAX_AGE_DAYS": "x"}).stderr
    assert drover.run("runs", "--json", env={"DROVER_RUNS_MAX_AGE_DAYS": "2"}).stdout == ""


def test_the_commit_and_the_changes_are_kept(drover):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], cwd=drover.cwd, check=True)
    (drover.cwd / "train").write_text("one\n")
    subprocess.run([*git, "add", "train"], cwd=drover.cwd, check=True)
    subprocess.run([*git, "commit", "-qm", "x"], cwd=drover.cwd, check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], cwd=drover.cwd, text=True, capture_output=True, check=True).stdout
    (drover.cwd / "train").write_text("two\n")
    drover.run("run", "-np", 1, "--name", "code", "sleep", "1.5")
    meta = json.loads(drover.run("runs", "export", "--format", "json", "code").stdout.splitlines()[0])
    assert meta["git"]["commit"] == head.strip() and meta["git"]["dirty"] and "+two" in meta["git"]["diff"]
