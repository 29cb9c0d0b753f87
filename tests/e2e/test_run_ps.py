"""`drover ps`, `drover logs`, `drover kill`: the jobs that run on this machine."""
import json
import os
import subprocess

import kit_ranks
import pytest
from conftest import DROVER
from waiting import wait_until

RUN = ["run", "--oversubscribe"]


@pytest.fixture(autouse=True)
def own_registry(drover, tmp_path):
    (tmp_path / "run").mkdir(mode=0o700)
    drover.env["XDG_RUNTIME_DIR"] = str(tmp_path / "run")


def jobs(drover, cwd):
    """Those that were started here: other tests' jobs are this user's, too."""
    lines = drover.run("ps", "--json").stdout.splitlines()
    return [j for j in map(json.loads, lines) if j["dir"] == str(cwd)]


def started(drover, cwd, *args, **kw):
    p = drover.start(*RUN, *args, **kw)
    return p, wait_until(lambda: jobs(drover, cwd), "the job")[0]


def test_ps_lists_a_job_while_it_runs(drover, tmp_path):
    assert jobs(drover, tmp_path) == []
    p, job = started(drover, tmp_path, "-np", "3", "--output-filename", "out", "sleep", "100")
    assert job["pid"] == p.pid and job["ranks"] == 3 and job["command"] == "sleep 100"
    assert job["output_dir"] in ("", str(tmp_path / "out"))
    text = drover.run("ps").stdout.splitlines()
    assert text[0].split() == ["JOB", "RANKS", "FOR", "COMMAND"]
    assert any(line.startswith(job["id"]) and line.endswith("sleep 100") for line in text)
    p.terminate()
    p.communicate(timeout=30)
    assert jobs(drover, tmp_path) == []
    assert list((tmp_path / "run/drover/jobs").iterdir()) == []


def test_a_drover_that_was_killed_is_no_job_and_its_files_go(drover, tmp_path):
    p, _ = started(drover, tmp_path, "-np", "1", "sh", "-c", "echo line; exec sleep 100")
    wait_until(lambda: len(list((tmp_path / "run/drover/jobs").iterdir())) == 2, "the line")
    p.kill()
    p.communicate(timeout=30)
    assert jobs(drover, tmp_path) == []
    assert list((tmp_path / "run/drover/jobs").iterdir()) == []
    drover.nothing_left()


SESSION = """
mkdir -p /run/user && mount -t tmpfs tmpfs /run/user && mkdir -m 700 /run/user/$(id -u) || exit 77
XDG_RUNTIME_DIR=/run/user/$(id -u) $1 run -np 1 sh -c 'read x' <pipe & exec 3>pipe
n=0; until [ -n "$(ls /run/user/*/drover/jobs 2>/dev/null)" ] || [ $((n += 1)) = 600 ]; do sleep 0.05; done
for dir in "" /run/user/$(id -u); do XDG_RUNTIME_DIR=$dir $1 ps | grep -c 'read x'; done
echo >&3; wait
"""


@pytest.mark.skipif(subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode != 0,
                    reason="no mount namespaces")
def test_a_job_of_the_login_session_is_found_without_its_variable(drover, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    done = subprocess.run(["unshare", "-m", "sh", "-c", SESSION, "sh", DROVER], cwd=tmp_path, env=drover.env, text=True,
                          capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n1\n"), done.stderr


def test_secrets_are_not_listed(drover, tmp_path):
    p, job = started(drover, tmp_path, "-np", "1", "sh", "-c", "exec sleep 100", "--api-key", "hidden")
    assert "hidden" not in json.dumps(job) and "--api-key ***" in job["command"]
    p.terminate()
    p.communicate(timeout=30)


def test_kill_ends_a_job_in_good_order_and_waits_for_its_end(drover, tmp_path):
    p, job = started(drover, tmp_path, "-np", "2", "sh", "-c",
                     "trap 'sleep 0.5; echo saved; exit 0' TERM; echo up; sleep 100 & wait")
    for _ in range(2):
        assert p.stdout.readline() == b"up\n"
    done = drover.run("kill", job["id"][:-1])
    assert done.returncode == 0
    assert jobs(drover, tmp_path) == []
    out, _ = p.communicate(timeout=30)
    assert out == b"saved\nsaved\n" and p.returncode == 0
    drover.nothing_left()


def test_kill_says_what_it_waits_for(drover, tmp_path):
    p, job = started(drover, tmp_path, "-np", "1", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done")
    assert p.stdout.readline() == b"up\n"
    done = drover.run("kill", "--wait", "2.5", job["id"])
    assert done.returncode == 1 and f"drover kill: warn: waiting 2 s: job {job['id']} has not ended" in done.stderr, done.stderr
    assert drover.run("kill", "-s", "SIGKILL", job["id"]).returncode == 0
    p.communicate(timeout=30)


def test_kill_can_be_told_to_wait_no_longer(drover, tmp_path):
    p, job = started(drover, tmp_path, "-np", "1", "sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done")
    assert p.stdout.readline() == b"up\n"
    done = drover.run("kill", "--wait", "0.2", job["id"])
    assert done.returncode == 1 and job["id"] in done.stderr and "--signal KILL" in done.stderr
    assert drover.run("kill", "-s", "SIGKILL", job["id"]).returncode == 0
    p.communicate(timeout=30)
    drover.nothing_left()


def test_other_signals_go_on_to_the_ranks(drover, tmp_path):
    p, job = started(drover, tmp_path, "-np", "2", "sh", "-c",
                     "trap 'echo usr1; exit 0' USR1; echo up; while :; do sleep 0.05; done")
    for _ in range(2):
        assert p.stdout.readline() == b"up\n"
    assert drover.run("kill", "--signal", "usr1", job["id"]).returncode == 0
    out, _ = p.communicate(timeout=30)
    assert out == b"usr1\nusr1\n" and p.returncode == 0


@pytest.mark.parametrize("words", [["kill", "nobody"], ["logs", "nobody"], ["kill"], ["logs"], ["ps", "x"],
                                   ["kill", "-s", "NONE", "x"], ["logs", "a", "b", "c"]])
def test_what_does_not_fit_is_refused(drover, words):
    done = drover.run(*words)
    assert done.returncode == 2 and done.stderr.startswith(f"drover {words[0]}: ")


def test_logs_shows_the_last_lines_of_a_rank_or_of_all(drover, tmp_path):
    p, job = started(drover, tmp_path, "-np", "2", "sh", "-c",
                     "for i in 1 2 3; do echo $RANK says $i; done; echo error $RANK >&2; touch r$RANK; exec sleep 100",
                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: drover.run("logs", job["id"]).stdout.count("error") == 2, "all lines")
    lines = drover.run("logs", job["id"], "1").stdout.splitlines()
    assert sorted(lines) == ["1 says 1", "1 says 2", "1 says 3", "error 1"]
    tagged = drover.run("logs", "-n", "2", job["id"]).stdout.splitlines()
    assert len(tagged) == 4 and [t[:3] for t in tagged] == ["0| ", "0| ", "1| ", "1| "]
    assert drover.run("logs", "-n", "0", job["id"]).stdout == ""
    done = drover.run("logs", job["id"], "2")
    assert done.returncode == 2 and "ranks 0 to 1" in done.stderr
    p.terminate()
    p.communicate(timeout=30)


def test_logs_shows_a_line_that_has_not_ended(drover, tmp_path):
    """Followed, each is shown once, though it is read again and again: in a pipe, its rest is on a line of its own if the other's
    came between."""
    p, job = started(drover, tmp_path, "-np", "2", "sh", "-c",
                     "printf 'name%d? ' $RANK; while [ ! -e go ]; do sleep 0.05; done; echo thanks",
                     stdout=subprocess.DEVNULL)
    wait_until(lambda: drover.run("logs", job["id"]).stdout == "0| name0? \n1| name1? ", "both prompts")
    assert drover.run("logs", job["id"], "1").stdout == "name1? "
    follow = [DROVER, "logs", "-f", job["id"]]
    with kit_ranks.started(follow, drover.env, text=False) as both, kit_ranks.started([*follow, "0"], drover.env, text=False) as one:
        assert both.stdout.read(21) == b"0| name0? \n1| name1? " and one.stdout.read(7) == b"name0? "
        (tmp_path / "go").touch()
        assert one.communicate(timeout=30)[0] == b"thanks\n"
        rest = (b"0| name0? \n1| name1? " + both.communicate(timeout=30)[0]).decode().splitlines()
    assert p.wait(timeout=30) == 0
    for rank in "01":
        assert "".join(x[3:] for x in rest if x[0] == rank) == f"name{rank}? thanks", rest
    assert len(rest) <= 4


def test_logs_follows_until_the_job_ends(drover, tmp_path):
    p, job = started(drover, tmp_path, "-np", "1", "sh", "-c", "echo first; while [ ! -e go ]; do sleep 0.05; done; echo last",
                     stdout=subprocess.DEVNULL)
    follower = subprocess.Popen([DROVER, "logs", "-f", job["id"], "0"], env=drover.env, stdout=subprocess.PIPE, bufsize=0)
    assert follower.stdout.readline() == b"first\n"
    (tmp_path / "go").touch()
    out, _ = follower.communicate(timeout=30)
    assert out == b"last\n" and follower.returncode == 0
    assert p.wait(timeout=30) == 0


def test_logs_keeps_the_last_of_many_lines(drover, tmp_path):
    p, job = started(drover, tmp_path, "-np", "1", "sh", "-c", "seq 1 200000; echo end; exec sleep 100",
                     stdout=subprocess.DEVNULL)
    wait_until(lambda: drover.run("logs", "-n", "1", job["id"]).stdout == "0| end\n", "the last line")
    lines = drover.run("logs", job["id"], "0").stdout.splitlines()
    assert lines[-1] == "end" and lines[-2] == "200000" and 30000 < len(lines) < 45000
    assert [int(x) for x in lines[:-1]] == list(range(200001 - len(lines) + 1, 200001))
    p.terminate()
    p.communicate(timeout=30)


def test_a_registry_that_cannot_be_written_costs_no_job(drover, tmp_path):
    (tmp_path / "run").rmdir()
    (tmp_path / "run").write_text("a file")
    done = drover.run(*RUN, "-np", "1", "echo", "ran")
    assert done.returncode == 0 and done.stdout == "ran\n" and done.stderr == ""


def test_a_job_is_one_line_of_the_table_whatever_its_command_is(drover, tmp_path):
    script = "echo a\n\tsleep 100 # \x1b[2J\u009b1m\nexit 1"
    p, job = started(drover, tmp_path, "-np", "1", "sh", "-c", script)
    assert job["command"] == f"sh -c {script}"
    text = drover.run("ps").stdout
    lines = [line for line in text.splitlines() if job["id"] in line]
    assert lines == [line for line in text.split("\n") if "echo a" in line] and len(lines) == 1
    assert lines[0].endswith(r"sh -c echo a\n\tsleep 100 # \x1b[2J\x9b1m\nexit 1")
    p.terminate()
    p.communicate(timeout=30)


def test_an_invalid_byte_damages_no_other_character(drover, tmp_path):
    name = "caf\u00e9 \udcff na\u00efve"  # \udcff is the byte 0xff
    p, job = started(drover, tmp_path, "-np", "1", "--events", "events", "sh", "-c", "sleep 100", name)
    assert job["command"] == "sh -c sleep 100 caf\u00e9 ? na\u00efve"
    planned = json.loads((tmp_path / "events").read_text().splitlines()[0])
    assert planned["command"] == job["command"]
    p.terminate()
    p.communicate(timeout=30)
