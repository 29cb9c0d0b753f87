"""`drover torchrun`: the contract of torchrun's ranks, alone and as a share, its files, and PyTorch itself where it is
installed. What its lines mean is test_run_lines.py's."""
import json
import os
import socket
import subprocess

import pytest
from conftest import DROVER
from waiting import wait_until

SHOW = "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $ROLE_NAME $TORCHELASTIC_RUN_ID"
DDP = """
import sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
x = torch.tensor([float(dist.get_rank())])
dist.all_reduce(x)
print(dist.get_rank(), dist.get_world_size(), int(x.item()), sys.argv[1:], flush=True)
dist.destroy_process_group()
"""


def has_torch():
    return subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed as d; assert d.is_gloo_available()"],
                          check=False, capture_output=True, timeout=120).returncode == 0


def shell(drover, *options, text=SHOW, **kw):
    return drover.run("torchrun", "--no-python", *options, "sh", "-c", text, **kw)


def test_ranks_find_what_torchrun_gives_them(drover):
    done = shell(drover, "--nproc_per_node=2", "--role", "trainer", "--rdzv-id=j7", "--max-restarts=0")
    assert sorted(done.stdout.splitlines()) == ["0 0 2 2 0 trainer j7", "1 1 2 2 0 trainer j7"], done.stderr
    assert shell(drover, text="echo $WORLD_SIZE").stdout == "1\n"


def test_every_line_about_the_job_says_torchrun(drover):
    done = shell(drover, "--max-restarts", "1", text="exit 3")
    assert done.stderr.count("drover torchrun: rank 0 on") == 2, done.stderr
    assert "drover torchrun: restarting the job now (restart 1 of 1)\n" in done.stderr, done.stderr
    assert "drover run: " not in done.stderr


def test_a_script_is_run_by_python_and_a_module_too(drover, tmp_path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/train.py").write_text("import sys\nprint(__name__, sys.argv[1:])\n")
    (tmp_path / "script").write_text("import sys\nprint('script', sys.argv[1:])\n")
    done = drover.run("torchrun", "-m", "pkg.train", "--lr", "0.1")
    assert done.stdout == "__main__ ['--lr', '0.1']\n", done.stderr
    assert drover.run("torchrun", "script", "-r", "3").stdout == "script ['-r', '3']\n"
    done = drover.run("torchrun", "script", env={"PYTHON_EXEC": "/bin/echo"})
    assert done.stdout == "-u script\n"


def test_dashes_directly_behind_the_script_are_torchruns(drover, tmp_path):
    (tmp_path / "pkg").mkdir()
    for name in ("pkg/train.py", "t.py"):
        (tmp_path / name).write_text("import sys\nprint(sys.argv[1:])\n")
    for line, args in (("t.py -- --depth=26", ["--depth=26"]), ("-m pkg.train -- --depth=26", ["--depth=26"]),
                       ("t.py -- a --", ["a", "--"]), ("t.py a -- x=1", ["a", "--", "x=1"]),
                       ("t.py --", []), ("-- t.py a", ["a"]), ("-- t.py -- a", ["--", "a"])):
        done = drover.run("torchrun", *line.split())
        assert done.stdout == f"{args}\n", (line, done.stderr)


PARSE = """
import json, sys
from torch.distributed.run import parse_args
a = parse_args(sys.argv[1:])
print(json.dumps([a.nproc_per_node, a.max_restarts, a.training_script, a.training_script_args]))
"""


@pytest.fixture(scope="module", name="torchruns_reading")
def make_torchruns_reading():
    if not has_torch():
        pytest.skip("PyTorch is not installed")

    def read(words):
        done = subprocess.run(["/usr/bin/python3", "-c", PARSE, *words], text=True, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=120, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else done.returncode
    return read


@pytest.mark.parametrize("line", [
    "--nnode 1 t.py", "--nnode=1 --nproc=2 t.py", "--master_p 29777 t.py", "--max_rest 2 t.py", "--max t.py", "--n 1 t.py",
    "t.py -- --depth=26", "t.py a -- x=1", "t.py -- a --", "t.py --", "-- t.py a"])
def test_a_line_is_read_as_torchrun_reads_it(drover, torchruns_reading, line):
    peer = torchruns_reading(line.split())
    done = drover.run("torchrun", "--dry-run", "--json", *line.split())
    if isinstance(peer, int):
        assert done.returncode == peer == 2, done.stderr
        return
    plan = json.loads(done.stdout)
    restarts = int(plan["env"]["TORCHELASTIC_MAX_RESTARTS"])
    assert [str(plan["world_size"]), restarts, plan["argv"][2], plan["argv"][3:]] == peer


def test_one_rank_per_gpu_needs_a_gpu(drover):
    done = shell(drover, "--nproc-per-node", "gpu", env={"CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 2 and "has no GPU" in done.stderr and done.stdout == ""
    assert shell(drover, "--nproc-per-node", "cpu", text="exit 0").returncode == 0


def test_shares_of_two_nodes_are_one_world(drover):
    outs = [shell(drover, "--nnodes", "2", "--node-rank", n, "--nproc-per-node", "2", "--rdzv-endpoint", "127.0.0.1:1")
            for n in (0, 1)]
    lines = sorted(line for o in outs for line in o.stdout.splitlines())
    assert [line.split()[:5] for line in lines] == [[str(r), str(r % 2), "4", "2", str(r // 2)] for r in range(4)]


def test_a_node_rank_beside_a_rendezvous_is_nothing(drover):
    """As torchrun, which has it for the static backend. A scheduler's variable that was expanded on one node is 0 on all."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    options = ["--nnodes=2", "--node_rank=0", "--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{port}", "--rdzv_id=x"]
    nodes = [drover.start("torchrun", "--no-python", *options, "sh", "-c", "echo $RANK $WORLD_SIZE $GROUP_RANK")
             for _ in range(2)]
    outs = sorted(node.communicate(timeout=60)[0] for node in nodes)
    assert outs == [b"0 2 0\n", b"1 2 1\n"]


@pytest.mark.parametrize("options, env", [(["--shutdown-timeout", "1"], {}), (["--shutdown_timeout=1"], {}),
                                          ([], {"PET_SHUTDOWN_TIMEOUT": "1"})])
def test_the_time_between_term_and_kill_is_torchruns(drover, options, env):
    line = "trap '' TERM; touch up.$RANK; until [ -f up.1 ]; do sleep 0.02; done; [ $RANK = 0 ] && exit 3; while :; do sleep 0.1; done"
    done = shell(drover, "--nproc-per-node", "2", *options, text=line, env=env)
    assert done.returncode == 3 and "1 s" in done.stderr, done.stderr


def test_the_port_of_another_node_is_not_taken_here(drover):
    with socket.create_server(("127.0.0.1", 0)) as rank0:
        port = str(rank0.getsockname()[1])
        options = ["--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", port, "--node-rank"]
        done = shell(drover, *options, "1", text="echo $RANK $MASTER_PORT")
        assert (done.returncode, done.stdout) == (0, f"1 {port}\n"), done.stderr
        done = shell(drover, *options, "0")
        assert done.returncode == 2 and port in done.stderr


def test_redirected_and_teed_lines_are_where_torchrun_puts_them(drover, tmp_path):
    done = shell(drover, "--nproc-per-node", "2", "--log-dir", "logs", "--rdzv-id", "j", "-r", "3", "-t", "1:1", text="echo o$RANK; "
                 "echo e$RANK >&2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "[default1]:o1\n", "")
    run, = (tmp_path / "logs").iterdir()
    assert run.name.startswith("j_")
    files = {str(f.relative_to(run)): f.read_text() for f in run.rglob("*.log")}
    assert files == {f"attempt_0/{r}/std{s}.log": f"{s[0] if s == 'err' else 'o'}{r}\n" for r in (0, 1) for s in ("out", "err")}


def test_a_redirected_file_is_live(drover, tmp_path):
    """It has each line at once, and the beginning of a line soon after."""
    job = drover.start("torchrun", "--no-python", "--log-dir", "logs", "-r", "1", "sh", "-c",
                       "echo one; printf two; while [ ! -e go ]; do sleep 0.05; done; echo .")
    wait_until(lambda: [f.read_text() for f in (tmp_path / "logs").rglob("stdout.log")] == ["one\ntwo"], "both lines")
    (tmp_path / "go").touch()
    job.communicate(timeout=30)
    file, = (tmp_path / "logs").rglob("stdout.log")
    assert job.returncode == 0 and file.read_text() == "one\ntwo.\n"


def test_what_a_rank_wrote_is_in_its_file_byte_for_byte(drover, tmp_path, seed):
    text = bytes(seed.choice(b"ab\n\r\0\xff") for _ in range(200_000))
    (tmp_path / "text").write_bytes(text)
    done = drover.run("torchrun", "--no-python", "--log-dir", "logs", "-r", "1", "cat", "text")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    file, = (tmp_path / "logs").rglob("stdout.log")
    assert file.read_bytes() == text


def test_only_the_filtered_ranks_are_shown(drover):
    done = shell(drover, "--nproc-per-node", "3", "--local-ranks-filter", "0,2", text="echo $RANK")
    assert sorted(done.stdout.split()) == ["0", "2"]


def test_the_first_failure_of_a_share_is_named_by_its_number_among_all(drover):
    done = shell(drover, "--nnodes", "2", "--node-rank", "1", "--nproc-per-node", "2", "--master-addr", "127.0.0.1",
                 text="[ $LOCAL_RANK = 1 ] && exit 7; sleep 60", timeout=30)
    assert done.returncode == 7 and "drover torchrun: rank 3 on" in done.stderr
    drover.nothing_left()


@pytest.mark.skipif(not has_torch(), reason="no PyTorch with gloo")
def test_a_ddp_script_runs_on_one_node_and_as_two_shares(drover, tmp_path):
    (tmp_path / "ddp.py").write_text(DDP)
    env = {"GLOO_SOCKET_IFNAME": "lo", "PYTHON_EXEC": "/usr/bin/python3"}
    done = drover.run("torchrun", "--nproc-per-node", "2", "ddp.py", "--x", env=env, timeout=240)
    assert sorted(done.stdout.splitlines()) == ["0 2 1 ['--x']", "1 2 1 ['--x']"], done.stderr
    with open(os.devnull, encoding="ascii") as nothing:
        probe = subprocess.run(["/usr/bin/python3", "-c", "import socket; s=socket.socket(); s.bind(('', 0)); "
                                "print(s.getsockname()[1])"], text=True, stdin=nothing, capture_output=True, check=True)
    common = ["torchrun", "--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "127.0.0.1", "--master-port",
              probe.stdout.strip()]
    jobs = [subprocess.Popen([DROVER, *common, "--node-rank", str(n), "ddp.py"], cwd=tmp_path, env={**drover.env, **env},
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for n in (1, 0)]
    outs = [j.communicate(timeout=240) for j in jobs]
    assert sorted(o for o, _ in outs) == ["0 2 1 []\n", "1 2 1 []\n"], outs


# PyTorch's ErrorHandler (torch/distributed/elastic/multiprocessing/errors/error_handler.py) writes this file.
FAILS = """
import json, os, sys, time
if os.environ["RANK"] != "1" or os.environ["TORCHELASTIC_RESTART_COUNT"] == sys.argv[1]:
    sys.exit(0) if os.environ["TORCHELASTIC_RESTART_COUNT"] == sys.argv[1] else time.sleep(60)
about = {"message": "RuntimeError: bad", "extraInfo": {"py_callstack": "Traceback\\nValueError: worse\\n", "timestamp": "1"}}
json.dump({"message": about}, open(os.environ["TORCHELASTIC_ERROR_FILE"], "w"))
sys.exit(1)
"""


@pytest.mark.parametrize("command", [["torchrun", "--nproc-per-node"], ["run", "--oversubscribe", "-np"]])
def test_the_users_error_file_has_the_first_failure(drover, tmp_path, command):
    (tmp_path / "t.py").write_text(FAILS)
    file = tmp_path / "error.json"
    done = drover.run(*command, "2", "t.py", "never", env={"TORCHELASTIC_ERROR_FILE": str(file)})
    assert done.returncode == 1
    assert json.loads(file.read_text())["message"]["message"] == "RuntimeError: bad"
    assert "  cause: RuntimeError: bad (ValueError: worse)\n  try: drover runs show " in done.stderr
    done = drover.run(*command, "2", "t.py", "never", env={"TORCHELASTIC_ERROR_FILE": str(tmp_path / "none/file")})
    assert done.returncode == 1 and f"TORCHELASTIC_ERROR_FILE '{tmp_path}/none/file': No such file" in done.stderr


def test_a_job_that_a_restart_has_saved_leaves_no_error_file(drover, tmp_path):
    (tmp_path / "t.py").write_text(FAILS)
    file = tmp_path / "error.json"
    done = drover.run("torchrun", "--nproc-per-node", "2", "--max-restarts", "1", "t.py", "1",
                      env={"TORCHELASTIC_ERROR_FILE": str(file)})
    assert done.returncode == 0 and not file.exists(), done.stderr


def test_each_rank_has_an_error_file_unless_the_user_names_one(drover):
    text = "echo $TORCHELASTIC_ERROR_FILE"
    files = shell(drover, "--nproc-per-node", "2", text=text, env={"TORCHELASTIC_ERROR_FILE": "mine"}).stdout.split()
    assert len(set(files)) == 2 and "mine" not in files
    done = drover.run("run", "-np", "2", "--oversubscribe", "-x", "TORCHELASTIC_ERROR_FILE", "sh", "-c", text,
                      env={"TORCHELASTIC_ERROR_FILE": "mine"})
    assert done.stdout == "mine\n" * 2


def test_a_job_inside_a_rank_passes_its_failure_to_the_outer_job(drover, tmp_path):
    (tmp_path / "t.py").write_text(FAILS)
    file = tmp_path / "error.json"
    done = drover.run("run", "-np", "1", DROVER, "torchrun", "--nproc-per-node", "2", "t.py", "never",
                      env={"TORCHELASTIC_ERROR_FILE": str(file)})
    assert done.returncode == 1 and "RuntimeError: bad" in file.read_text(), done.stderr


@pytest.mark.skipif(not has_torch(), reason="there is no PyTorch with gloo")
def test_pytorchs_record_writes_the_error_file(drover, tmp_path):
    (tmp_path / "t.py").write_text("from torch.distributed.elastic.multiprocessing.errors import record\n"
                                   "@record\ndef main():\n    raise ValueError('of the model')\nmain()\n")
    file = tmp_path / "error.json"
    done = drover.run("torchrun", "t.py", env={"TORCHELASTIC_ERROR_FILE": str(file), "PYTHON_EXEC": "/usr/bin/python3"})
    assert done.returncode == 1 and "ValueError: of the model" in file.read_text(), done.stderr
