"""Sections, heartbeats and stragglers (`drover run --section-timeouts`, `--stragglers`): rank 3 of 8 is named."""
import datetime
import json
import os
import re
import shutil

import pytest
from kit_ranks import BUILD, ROOT, build_client_programs
from waiting import check_time, wait_until

RUN = ["run", "--oversubscribe", "-np", 8, "--grace", 1]
HEAD = f"""
import os, sys, time
sys.path.insert(0, {str(ROOT / "launcher/client")!r})
import drover
late = drover.rank() == 3
"""


@pytest.fixture(name="quick")
def without_debuggers(drover, tmp_path):
    """drover without gdb in PATH: call stacks take seconds, and are others' tests."""
    (tmp_path / "bin").mkdir()
    for name in ("python3", "sh"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name, path="/usr/bin:/bin"))
    drover.env["PATH"] = str(tmp_path / "bin")
    return drover


def events(file, name):
    return [e for e in map(json.loads, file.read_text().splitlines()) if e["event"] == name]


CASES = {
    "section": (["--section-timeouts", "setup:60,step:1"], "section",
                "rank 3 on {} has been in section 'step' for {} s, longer than 1 s (--section-timeouts)", """
with drover.section("setup"):
    pass
for _ in range(20):
    with drover.section("step"):
        begun = time.time()
        while time.time() < begun + (60 if late else 0.1):
            time.sleep(0.02)
"""),
    "outside": (["--out-of-section-timeout", "1"], "out of section",
                "rank 3 on {} has been in no section for {} s, longer than 1 s (--out-of-section-timeout)", """
with drover.section("all"):
    time.sleep(0.3 if late else 60)
begun = time.time()
time.sleep(60)
"""),
    "heartbeat": (["--heartbeat-timeout", "1", "--initial-heartbeat-timeout", "60"], "heartbeat",
                  "rank 3 on {} has sent no heartbeat for {} s, longer than 1 s (--heartbeat-timeout)", """
begun = time.time()
while True:
    drover.heartbeat()
    time.sleep(60 if late else 0.1)
"""),
}


@pytest.mark.parametrize("case", CASES)
def test_the_rank_that_exceeds_a_limit_is_named(quick, tmp_path, case):
    options, why, told, program = CASES[case]
    file = tmp_path / "ev.jsonl"
    begun = tmp_path / "begun"
    (tmp_path / "t.py").write_text(HEAD + program.replace("begun = time.time()", "begun = time.time()\n" + (
        "        " if case == "section" else "") + f"late and open({str(begun)!r}, 'w').write(str(begun))"))
    done = quick.run(*RUN, *options, "--events", file, "t.py")
    assert done.returncode == 124, done.stderr
    (hang,) = events(file, "hang")
    pattern = re.escape("drover run: the job hangs: " + told).replace(r"\{\}", r"([\w.-]+)")
    assert re.match(pattern, done.stderr), done.stderr
    assert (hang["why"], hang["rank"], hang["section"]) == (why, 3, "step" if case == "section" else None)
    assert hang["ranks"][3]["differs"]
    assert hang["timeout_ms"] == 1000 <= hang["elapsed_ms"]
    named = datetime.datetime.fromisoformat(hang["time"]).timestamp()
    check_time(named - float(begun.read_text()) < 2, "named later than a second after the limit")
    quick.nothing_left()


def test_a_section_that_takes_too_long_restarts_the_job(quick, tmp_path):
    (tmp_path / "t.py").write_text(HEAD + """
with drover.section("step"):
    time.sleep(60 if late and os.environ["DROVER_RESTART_COUNT"] == "0" else 0.1)
print("end", drover.rank())
""")
    done = quick.run(*RUN, "--section-timeouts", "step:1", "--max-restarts", "1", "t.py")
    assert done.returncode == 0 and len(re.findall("^end", done.stdout, re.M)) == 8 + 7, done.stderr
    assert done.stderr.count("the job hangs: rank 3 on") == 1
    quick.nothing_left()


def test_sections_within_their_limits_and_without_options_change_nothing(quick, tmp_path):
    (tmp_path / "t.py").write_text(HEAD + """
for _ in range(3):
    with drover.section("step"), drover.section("load"):
        drover.heartbeat()
        time.sleep(0.05)
try:
    with drover.section("step"):
        raise KeyError
except KeyError:
    pass
with drover.section("step"):
    print(drover.report(step=1, loss=2))
""")
    for options in [], ["--section-timeouts", "step:20,load:null", "--heartbeat-timeout", "null", "--stragglers"]:
        done = quick.run(*RUN, *options, "t.py")
        assert (done.returncode, done.stderr) == (0, "") and done.stdout == "False\n" * 8
    quick.nothing_left()


@pytest.mark.parametrize("options, words", [
    (["--section-timeouts", "step"], "'step' is not SECTION:TIME"),
    (["--section-timeouts", "step:1,step:2"], "section 'step' is named twice"),
    (["--section-timeouts", "step:soon"], "section 'step': "),
    (["--out-of-section-timeout", "0"], "'0' is not a time limit"),
    (["--heartbeat-timeout", "-1"], "--heartbeat-timeout"),
])
def test_a_malformed_limit_starts_nothing(drover, options, words):
    done = drover.run("run", *options, "sh", "-c", "echo started")
    assert done.returncode == 2 and words in done.stderr and not done.stdout, done.stderr


@pytest.fixture(scope="module", name="slow")
def build_slow(tmp_path_factory):
    return build_client_programs(tmp_path_factory.mktemp("progs")) / "comm_slow"


def find_straggler(drover, tmp_path, rank, *words):
    """Runs a job until its slow rank is named, and until it is no longer slow. Returns what it is slow in, its time and
    that of the others."""
    p = drover.start(*words)
    os.set_blocking(p.stderr.fileno(), False)
    text = []

    def line(pattern):
        text.append((p.stderr.read() or b"").decode())
        return re.search(rf"^drover run: rank {rank} on \S+ {pattern}$", "".join(text), re.M)
    found = wait_until(lambda: line(r"is \d\.\d+ times slower than the median \((.*) ([\d.]+) ms, others ([\d.]+) ms ± "
                                    r"[\d.]+\)"), lambda: f"a report: {text}")
    (tmp_path / "found").touch()
    wait_until(lambda: line("is no longer slower than the others"), lambda: f"its end: {text}")
    (tmp_path / "end").touch()
    assert p.wait(60) == 0
    drover.nothing_left()
    return found.group(1), float(found.group(2)), float(found.group(3))


@pytest.mark.parametrize("how", ["sections", "reports"])
def test_a_rank_that_is_slower_is_named_while_the_job_runs_and_again_when_it_is_not(drover, tmp_path, how):
    """Rank 3 is 1.5 times slower until its report has arrived, and the job ends when the second one has."""
    (tmp_path / "t.py").write_text(HEAD + f"how = {how!r}" + """
for step in range(5000):
    if os.path.exists("end"):
        break
    seconds = 0.045 if late and not os.path.exists("found") else 0.03
    if how == "sections":
        with drover.section("step"):
            time.sleep(seconds)
    else:
        time.sleep(seconds)
        drover.report(step=step, loss=1)
""")
    what, own, others = find_straggler(drover, tmp_path, 3, *RUN, "--stragglers", "--events", "ev.jsonl", "t.py")
    assert what == ("step" if how == "sections" else "step between reports") and own > others
    changes = [e for e in events(tmp_path / "ev.jsonl", "straggler") if e["rank"] == 3]
    assert [e["slow"] for e in changes[:2]] == [True, False] and changes[0]["ratio"] > 1.2


SLOW_STEPS = HEAD + """
while not os.path.exists("end"):
    with drover.section("step"):
        time.sleep(0.06 if late else 0.03)
"""


@pytest.mark.parametrize("fault, told, findings", [
    ("gpu 1 ecc_volatile 2\ngpu 1 pcie_width 8",
     r"gpu\.ecc: GPU 1: 2 uncorrected errors since the last reset, wanted: .*; gpu\.pcie: GPU 1: 8 of 16 lanes, wanted: .*",
     [("gpu.ecc", "fail"), ("gpu.pcie", "fail")]),
    ("", "nothing that would slow it down", []),
])
def test_what_the_checks_find_on_the_node_of_a_straggler_is_told(drover, tmp_path, fault, told, findings):
    (tmp_path / "t.py").write_text(SLOW_STEPS)
    (tmp_path / "machine").write_text(f"gpus 2\n{fault}\n")
    (tmp_path / "root").mkdir()
    drover.env.update(DROVER_NVML_LIB=str(BUILD / "tests/fake/libnvidia-ml.so.1"), DROVER_FAKE_NVML=str(tmp_path / "machine"),
                      DROVER_SYSROOT=str(tmp_path / "root"))
    with (tmp_path / "err").open("w") as err:
        p = drover.start("run", "--oversubscribe", "-np", 4, "--bind-to", "none", "--stragglers", "--events", "ev.jsonl", "t.py", stderr=err)
    line = wait_until(lambda: re.search(r"^drover run: checks of (\S+), the node of rank 3: (.*)\n", (tmp_path / "err").read_text(), re.M),
                      lambda: f"the checks: {(tmp_path / 'err').read_text()}")
    (tmp_path / "end").touch()
    assert p.wait(60) == 0
    drover.nothing_left()
    assert re.fullmatch(told, line.group(2)), line.group(0)
    assert re.search(r"^drover run: rank 3 on \S+ \(GPU 1\) is ", (tmp_path / "err").read_text(), re.M)
    (event,) = events(tmp_path / "ev.jsonl", "straggler_checks")
    assert (event["rank"], event["node"]) == (3, line.group(1))
    assert [(f["id"], f["state"]) for f in event["findings"]] == findings


@pytest.mark.skipif(not (BUILD / "lib/drover/backend_mpi.so").exists(), reason="Open MPI is missing")
def test_a_rank_for_which_the_others_wait_in_collectives_is_named(drover, slow, tmp_path):
    """All ranks' steps take the same time: the slow rank is the one that is seldom in a collective."""
    what, own, others = find_straggler(drover, tmp_path, 2, "run", "--oversubscribe", "-np", "4", "--bind-to", "none",
                                       "--stragglers", slow, "found", "end")
    assert what == "time per second outside of collectives" and others < own <= 1000


def test_limits_are_learnt_from_earlier_jobs(quick, tmp_path):
    quick.env["XDG_STATE_HOME"] = str(tmp_path / "state")
    (tmp_path / "t.py").write_text(HEAD + """
for i in range(4):
    with drover.section("step"):
        time.sleep(60 if late and i == 2 and "HANG" in os.environ else 0.1)
""")
    learn = [*RUN, "--learn-timeouts"]
    done = quick.run(*RUN, "t.py")
    assert (done.returncode, done.stderr) == (0, "")
    done = quick.run(*learn, "t.py")
    assert done.returncode == 0 and done.stderr == "drover run: no time limits from earlier jobs; this one is measured\n"
    done = quick.run(*learn, "t.py", env={"HANG": "1"})
    assert done.returncode == 124, done.stderr
    assert done.stderr.startswith("drover run: time limits from earlier jobs: step 5 s, no section "), done.stderr
    assert re.search(r"the job hangs: rank 3 on \S+ has been in section 'step' for 5\.\d s, longer than 5 s", done.stderr)
    done = quick.run(*learn, "--section-timeouts", "step:null", "t.py")  # what hung was not stored, and what is given stays
    assert done.returncode == 0 and re.fullmatch(r"drover run: time limits from earlier jobs: no section \S+ s\n", done.stderr)
    done = quick.run(*learn, "t.py", "--other")
    assert "no time limits from earlier jobs" in done.stderr
    (tmp_path / "sub").mkdir()
    seen = [quick.run(*learn, "-gwdir", "sub", "../t.py").stderr for _ in range(2)]  # known by the directory it ran in
    assert "no time limits from earlier jobs" in seen[0] and "time limits from earlier jobs: step" in seen[1], seen
