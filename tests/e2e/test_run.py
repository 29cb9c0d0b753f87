"""`drover run`: what a rank finds, what the options mean, and what is refused before anything starts."""
import json
import os
import re
import socket
import subprocess
import sys

import pytest
from conftest import BUILD, DROVER, compile_c

PYTHON = "/usr/bin/python3"
LISTENER = r"""
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
int main(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(atoi(getenv("MASTER_PORT")))};
    int s = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    if (atoi(getenv("RANK")))
        return 0;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(s, (struct sockaddr *)&a, sizeof a) < 0 || listen(s, 5) < 0) {
        perror("MASTER_PORT");
        return 1;
    }
    puts(getenv("MASTER_PORT"));
    return 0;
}
"""


def env_of_ranks(drover, *options, env=None):
    done = drover.run("run", *options, "--oversubscribe", "sh", "-c", "env | sed s/^/$RANK:/", env=env)
    assert done.returncode == 0, done.stderr
    ranks = {}
    for line in done.stdout.splitlines():
        rank, _, text = line.partition(":")
        name, _, value = text.partition("=")
        if rank.isdigit():
            ranks.setdefault(int(rank), {})[name] = value
    return ranks


def test_each_of_4_ranks_finds_torchruns_contract(drover):
    ranks = env_of_ranks(drover, "-np", "4")
    assert sorted(ranks) == [0, 1, 2, 3]
    for i, env in ranks.items():
        assert env["RANK"] == env["LOCAL_RANK"] == env["ROLE_RANK"] == str(i)
        assert env["WORLD_SIZE"] == env["LOCAL_WORLD_SIZE"] == env["ROLE_WORLD_SIZE"] == "4"
        assert env["GROUP_RANK"] == env["NODE_RANK"] == env["TORCHELASTIC_RESTART_COUNT"] == "0"
        assert env["MASTER_ADDR"] == "127.0.0.1" and int(env["OMP_NUM_THREADS"]) >= 1
        assert env["DROVER_JOB_ID"] and env["DROVER_REPORT_FD"].isdigit()
    assert len({env["MASTER_PORT"] for env in ranks.values()}) == 1
    assert len({env["DROVER_JOB_ID"] for env in ranks.values()}) == 1


def test_x_sets_and_passes_variables(drover):
    ranks = env_of_ranks(drover, "-np", "2", "-x", "A=1 2", "-x", "B", "-x", "NOT_SET", env={"B": "b"})
    assert [(e["A"], e["B"], "NOT_SET" in e) for e in ranks.values()] == [("1 2", "b", False)] * 2


def test_a_variable_passed_by_name_overrides_what_drover_sets(drover):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        used = str(taken.getsockname()[1])
    user = {"MASTER_ADDR": "localhost", "MASTER_PORT": used, "ROLE_NAME": "mine"}
    for options in (["-x", "MASTER_ADDR", "-x", "MASTER_PORT", "-x", "ROLE_NAME"], ["-genvlist", ",".join(user)]):
        ranks = env_of_ranks(drover, "-np", "2", *options, env=user)
        assert [{k: e[k] for k in user} for e in ranks.values()] == [user] * 2
    ranks = env_of_ranks(drover, "-np", "1", env=user)  # not passed by -x: an outer launcher's
    assert ranks[0]["MASTER_PORT"] != used and ranks[0]["ROLE_NAME"] == "default"
    done = drover.run("run", "-np", "1", "-x", "MASTER_PORT", "true", env={"MASTER_PORT": "none"})
    assert done.returncode == 2 and "MASTER_PORT" in done.stderr


def test_ranks_have_no_rank_of_another_launcher(drover):
    theirs = ["PALS_LOCAL_RANKID", "JSM_NAMESPACE_LOCAL_RANK", "FLUX_TASK_LOCAL_ID", "MV2_COMM_WORLD_LOCAL_RANK", "MPT_LRANK",
              "ALPS_APP_PE", "HOROVOD_LOCAL_RANK"]
    ranks = env_of_ranks(drover, "-np", "2", env={name: "0" for name in theirs})
    assert [name for env in ranks.values() for name in theirs if name in env] == []


REFUSES_BINDING = """
import ctypes, os, struct, sys
SCHED_SETAFFINITY = 203  # on x86-64
code = b"".join(struct.pack("HBBI", *i) for i in [(0x20, 0, 0, 0), (0x15, 0, 1, SCHED_SETAFFINITY), (6, 0, 0, 0x00050001),
                                                   (6, 0, 0, 0x7fff0000)])
text = ctypes.create_string_buffer(code)
class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
libc = ctypes.CDLL(None)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(Filter(4, ctypes.addressof(text))), 0, 0):
    sys.exit(77)
os.execvp(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the filter has the system call's number on x86-64")
def test_a_sandbox_that_refuses_to_bind_runs_jobs_that_need_not_be_bound(drover, tmp_path):
    (tmp_path / "sandbox.py").write_text(REFUSES_BINDING)
    inside = ["/usr/bin/python3", "sandbox.py", DROVER, "run", "-np", "2", "--oversubscribe"]

    def run(*args):
        return subprocess.run([*inside, *args], cwd=tmp_path, env=drover.env, text=True, capture_output=True, timeout=60, check=False)
    if run("--dry-run", "true").returncode == 77:
        pytest.skip("no seccomp filter can be set")
    done = run("echo", "hi")
    assert (done.returncode, done.stdout) == (0, "hi\nhi\n"), done.stderr
    done = run("--bind-to", "core", "echo", "hi")
    assert done.returncode == 126 and "Operation not permitted" in done.stderr


def test_mca_is_a_variable_of_open_mpi(drover):
    ranks = env_of_ranks(drover, "-np", "1", "--mca", "btl", "tcp,self", "-mca", "x_y", "z")
    assert ranks[0]["OMPI_MCA_btl"] == "tcp,self" and ranks[0]["OMPI_MCA_x_y"] == "z"


def test_a_job_inside_a_job_has_ranks_of_its_own(drover):
    done = drover.run("run", "-np", "2", "--oversubscribe", DROVER, "run", "-np", "3", "--oversubscribe", "sh", "-c",
                      "echo $RANK/$WORLD_SIZE")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == ["0/3"] * 2 + ["1/3"] * 2 + ["2/3"] * 2


def test_wdir_is_where_the_ranks_are(drover, tmp_path):
    (tmp_path / "d").mkdir()
    done = drover.run("run", "-np", "1", "--wdir", tmp_path / "d", "pwd")
    assert done.stdout == f"{tmp_path / 'd'}\n"
    done = drover.run("run", "-np", "1", "--wdir", tmp_path / "none", "pwd")
    assert done.returncode == 126 and "chdir" in done.stderr and "none" in done.stderr


def test_a_python_file_is_run_with_python(drover, tmp_path):
    (tmp_path / "t.py").write_text("import os, sys\nprint(os.environ['RANK'], sys.argv[1:])\n")
    done = drover.run("run", "-np", "1", "t.py", "--lr", "0.1")
    assert (done.returncode, done.stdout) == (0, "0 ['--lr', '0.1']\n"), done.stderr


@pytest.mark.parametrize("name", ["./t.py", "t.py", "sub/t.py"])
def test_an_executable_script_chooses_its_interpreter(drover, tmp_path, name):
    (tmp_path / "sub").mkdir()
    (tmp_path / name).write_text("#!/bin/sh\necho by sh $1\n")
    (tmp_path / name).chmod(0o755)
    assert drover.run("run", "-np", "1", name, "x").stdout == "by sh x\n"
    (tmp_path / name).write_text("#!/bin/sh\r\nprint('by python')\n")  # no kernel finds such an interpreter
    assert drover.run("run", "-np", "1", name).stdout == "by python\n"
    (tmp_path / name).write_text("print('by python')\n")
    assert drover.run("run", "-np", "1", name).stdout == "by python\n"


def test_mpiruns_usual_options_are_understood(drover):
    done = drover.run("run", "--allow-run-as-root", "-bind-to", "none", "-map-by", "slot", "--oversubscribe", "-H",
                      "localhost:4", "-np", "4", "--", "true")
    assert done.returncode == 0, done.stderr
    done = drover.run("run", "--map-by", "ppr:2:node:OVERSUBSCRIBE", "sh", "-c", "echo $WORLD_SIZE")
    assert done.stdout == "2\n2\n", done.stderr
    done = drover.run("run", "--nproc-per-node", "2", "--oversubscribe", "sh", "-c", "echo $WORLD_SIZE")
    assert done.stdout == "2\n2\n", done.stderr


def test_ranks_are_bound_before_they_start(drover):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one CPU")
    show = "grep Cpus_allowed_list /proc/self/status"
    done = drover.run("run", "-np", "1", "--cpus", str(cpus[1]), "sh", "-c", show)
    assert done.stdout.split()[1] == str(cpus[1]), done.stderr
    done = drover.run("run", "-np", "1", "--bind-to", "none", "sh", "-c", show)
    free = subprocess.run(["sh", "-c", show], capture_output=True, text=True, check=True)
    assert done.stdout == free.stdout, done.stderr


def test_a_plan_is_shown_and_nothing_started(drover, tmp_path):
    done = drover.run("run", "--dry-run", "-np", "2", "--oversubscribe", "touch", "started")
    assert done.returncode == 0 and "rank" in done.stdout and not (tmp_path / "started").exists()
    done = drover.run("run", "--dry-run", "--json", "-np", "2", "--oversubscribe", "touch", "started")
    plan = json.loads(done.stdout)
    assert plan["world_size"] == 2 and plan["argv"] == ["touch", "started"] and len(plan["ranks"]) == 2
    assert not (tmp_path / "started").exists()


def test_bindings_are_reported_and_the_job_runs(drover):
    done = drover.run("run", "--report-bindings", "-np", "2", "--oversubscribe", "echo", "hi")
    assert done.stdout == "hi\nhi\n" and done.stderr.startswith("rank ") and len(done.stderr.splitlines()) == 3


@pytest.mark.parametrize("args, words", [
    (["-np", "0", "touch", "f"], ["option '-np': 0 is out of range (1 to "]),
    (["-np", "-1", "touch", "f"], ["option '-np': -1 is out of range (1 to "]),
    (["--grace", "-1", "touch", "f"], ["option '--grace': '-1' is not a duration"]),
    (["--lost-after", "500ms", "touch", "f"], ["option '--lost-after': 500ms is out of range (1 to "]),
    (["-np", "two", "touch", "f"], ["'two'", "number"]),
    (["-np", "2", "--oversubscrib", "touch", "f"], ["--oversubscrib", "try: --oversubscribe"]),
    (["-np", "2"], ["the program is missing", "try:"]),
    (["-np", "2", "--bind-to", "sock", "touch", "f"], ["--bind-to", "'sock'", "socket"]),
    (["--map-by", "slot:PE=x", "touch", "f"], ["PE", "'x'"]),
    (["--engine", "local", "-H", "other-host:2", "touch", "f"], ["'other-host'", "another machine"]),
    (["-H", "localhost:2", "-np", "3", "touch", "f"], ["3 ranks", "2 slots"]),
    (["-x", "=1", "touch", "f"], ["name is missing"]),
    (["-x", "MASTER_PORT=some", "-np", "1", "touch", "f"], ["MASTER_PORT", "'some'"]),
    (["--json", "touch", "f"], ["--dry-run"]),
    (["--grace", "-1.5", "touch", "f"], ["option '--grace': '-1.5' is not a duration"]),
    (["--cpus", "9999", "-np", "1", "touch", "f"], ["9999"]),
    (["--master-port", "70000", "-np", "1", "touch", "f"], ["70000"]),
    (["--output-filename", "/dev/null/x", "-np", "1", "touch", "f"], ["/dev/null/x"]),
])
def test_what_is_wrong_is_said_and_nothing_is_started(drover, tmp_path, args, words):
    done = drover.run("run", *args)
    assert done.returncode == 2, done.stderr
    assert done.stdout == "" and done.stderr.startswith("drover run: ") and len(done.stderr.splitlines()) <= 2
    for word in words:
        assert word in done.stderr
    assert not (tmp_path / "f").exists()
    drover.nothing_left()


def test_commands_that_are_not_there_are_named(drover):
    done = drover.run("runn", "-np", "2", "true")
    assert done.returncode == 2 and "unknown command 'runn'" in done.stderr and "drover run" in done.stderr
    done = drover.run()
    assert done.returncode == 2 and "Commands:" in done.stderr and done.stdout == ""
    done = drover.run("help", "run")
    assert done.returncode == 0 and "--np" in done.stdout and done.stderr == ""
    done = drover.run("help", "nothing")
    assert done.returncode == 2
    for words, meant in ((["rnu"], "run"), (["versoin"], "version"), (["sweep", "shwo", "x"], "sweep show"),
                         (["sweep", "pasue", "x"], "sweep pause")):
        done = drover.run(*words)
        assert done.returncode == 2 and f"unknown command '{words[-2 if len(words) > 2 else -1]}'" in done.stderr, words
        assert done.stderr.splitlines()[1:] == [f"  try: drover {meant}"], done.stderr
    assert drover.run("--version").stdout.startswith("drover ")
    assert drover.run("version").stdout == drover.run("--version").stdout
    assert "Commands:" in drover.run("--help").stdout
    assert drover.run("help", "version").stdout.startswith("Usage: drover version")


def test_a_single_index_that_may_be_meant_as_a_count_is_explained(drover):
    done = drover.run("run", "-np", "1", "--cpus", "1", "--dry-run", "true")
    assert "--cpus 1 selects one CPU, that with the index 1: it is a list, not a count\n" in done.stderr
    for cpus in ("0", "0-1", "0,1"):
        assert drover.run("run", "-np", "1", "--cpus", cpus, "--dry-run", "true").stderr == "", cpus


def test_a_script_that_does_not_exist_is_refused_before_the_start(drover, tmp_path):
    (tmp_path / "there.py").write_text("print('ran')\n")
    (tmp_path / "s.yaml").write_text("program: none.py\nmethod: random\nmetric: {name: l}\n"
                                     "parameters: {x: {min: 0, max: 1}}\nrun_cap: 1\n")
    for words in (["run", "-np", "1", "none.py"], ["run", "-np", "1", "python3", "-u", "none.py"],
                  ["torchrun", "none.py"], ["sweep", "s.yaml", "--quiet"]):
        done = drover.run(*words)
        assert done.returncode == 2 and done.stdout == "", words
        assert "'none.py': no such file" in done.stderr.replace("N", "n") and str(tmp_path) in done.stderr
    assert not (tmp_path / "sweeps").exists()
    for words in (["-np", "1", "there.py"], ["-np", "1", "python3", "there.py", "none.py"],
                  ["-np", "1", "python3", "-c", "print('ran')", "none.py"]):
        assert drover.run("run", *words).stdout == "ran\n", words


def test_each_command_shows_its_options(drover):
    commands = drover.run("help").stdout.partition("Commands:")[2].partition("\n\n")[0]
    listed = re.findall(r"^  (\w+) ", commands, re.MULTILINE)
    assert {"run", "torchrun", "sweep", "bench"} <= set(listed) and not {"rank", "machine"} & set(listed)
    verbs = [["sweep", verb] for verb in ("ls", "show", "best", "logs", "stop", "cancel", "pause", "resume", "retry", "add", "rm")] + [["bench", "diff"]]
    for words in [[]] + [[name] for name in [*listed, "machine"]] + verbs:
        done = drover.run(*words, "--help")
        assert (done.returncode, done.stderr) == (0, ""), words
        assert done.stdout.startswith("Usage: "), words
        wide = [line for line in done.stdout.splitlines() if len(line) > 80]
        assert not wide, (words, wide)


def test_a_full_disk_below_stdout_is_an_error(drover):
    with open("/dev/full", "w", encoding="ascii") as full:
        for args in (["--version"], ["help"], ["run", "--dry-run", "-np", "1", "true"],
                     ["run", "-np", "1", "echo", "x"]):
            done = subprocess.run([DROVER, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=30,
                                  check=False, stdin=subprocess.DEVNULL)
            assert done.returncode == 1 and "No space left" in done.stderr, args


def test_a_program_of_another_part_is_found_beside_drover(drover, tmp_path):
    """In a tree of its own, with a stand-in that tells its arguments."""
    for d in ("bin", "libexec/drover"):
        (tmp_path / d).mkdir(parents=True)
    (tmp_path / "bin/drover").write_bytes((BUILD / "bin/drover").read_bytes())
    (tmp_path / "bin/drover").chmod(0o755)
    stub = tmp_path / "libexec/drover/drover-bench"
    stub.write_text("#!/bin/sh\necho \"$@\"\nexit 5\n")
    stub.chmod(0o755)
    done = subprocess.run([tmp_path / "bin/drover", "bench", "all_reduce", "-b", "8"], text=True, timeout=30,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (5, "bench all_reduce -b 8\n")
    done = subprocess.run([tmp_path / "bin/drover", "sweep", "x"], text=True, timeout=30, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1 and "drover-hpo" in done.stderr and "try:" in done.stderr


@pytest.mark.parametrize("option", ["--stdin", "-s"])
def test_stdin_may_go_to_all_ranks(drover, tmp_path, seed, option):
    text = "".join(f"{seed.random()}\n" for _ in range(50_000))  # more than the pipes hold
    (tmp_path / "input").write_text(text)
    # Rank 1 reads nothing and holds up no other.
    line = [option, "all", "-np", "3", "--oversubscribe", "sh", "-c", "[ $RANK = 1 ] || cat >out$RANK"]
    for kind in ("file", "pipe"):
        with subprocess.Popen(["cat", "input"], cwd=tmp_path, stdout=subprocess.PIPE) as cat, \
                open(tmp_path / "input", encoding="ascii") as file:
            done = drover.run("run", *line, stdin=file if kind == "file" else cat.stdout)
            cat.stdout.close()
        assert done.returncode == 0, done.stderr
        for rank in (0, 2):
            assert (tmp_path / f"out{rank}").read_text() == text
            (tmp_path / f"out{rank}").unlink()
    assert drover.run("run", option, "none", "-np", "2", "--oversubscribe", "cat").stdout == ""


def test_stdin_goes_to_rank_0_alone(drover):
    with subprocess.Popen(["printf", "a\\nb\\n"], stdout=subprocess.PIPE) as source:
        done = drover.run("run", "-np", "3", "--oversubscribe", "sh", "-c", "sed s/^/$RANK:/", stdin=source.stdout)
    assert (done.returncode, done.stdout) == (0, "0:a\n0:b\n")


def test_closed_standard_descriptors_do_no_harm(drover):
    command = f"{DROVER} run -np 2 --oversubscribe sh -c 'echo x; echo y >&2; cat' <&- >&- 2>&-"
    done = subprocess.run(["sh", "-c", command], env=drover.env, timeout=30, check=False)
    assert done.returncode == 0


def test_rank_0_can_listen_on_master_port_and_50_jobs_do_not_clash(drover, tmp_path):
    program = compile_c(tmp_path, "listener", LISTENER)
    jobs = [drover.start("run", "--no-pmix", "-np", "2", "--oversubscribe", program) for _ in range(50)]
    ports = []
    for job in jobs:
        out, err = job.communicate(timeout=60)
        assert job.returncode == 0, err
        ports.append(out)
    assert all(p.strip().isdigit() for p in ports)


def test_a_port_that_is_taken_is_an_error_that_names_who_has_it(drover):
    hold = subprocess.Popen([sys.executable, "-c", "import socket,sys; s=socket.create_server(('', 0)); "
                             "print(s.getsockname()[1], flush=True); sys.stdin.read()"],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with hold:
        port = hold.stdout.readline().strip()
        done = drover.run("run", "--master-port", port, "-np", "1", "true")
        assert done.returncode == 2 and port in done.stderr and f"process {hold.pid} (" in done.stderr
        hold.stdin.close()
    done = drover.run("run", "--master-port", port, "-np", "1", "sh", "-c", "echo $MASTER_PORT")
    assert done.stdout.strip() == port, done.stderr
    done = drover.run("run", "-x", f"MASTER_PORT={port}", "-np", "1", "sh", "-c", "echo $MASTER_PORT")
    assert done.stdout.strip() == port, done.stderr


def test_without_holding_a_strict_program_can_take_the_port(drover, tmp_path):
    program = compile_c(tmp_path, "strict", LISTENER.replace("SO_REUSEADDR", "SO_BROADCAST"))
    assert drover.run("run", "-np", "1", program).returncode == 1
    assert drover.run("run", "--no-hold-port", "-np", "1", program).returncode == 0
