"""`drover run` over three nodes, by mpirun and by srun: programs of every kind find what the plan says, and each other.

Sizes are checked everywhere: what starts MPI programs wrongly starts N jobs of one rank."""
import json
import os
import re
import subprocess

import pytest
from cluster_kit import DECOY, NETWORK, ONE_ENGINE, WITH_SSH, untagged
from conftest import BUILD, compile_c
from kit_ranks import FAKE_NCCL, build_client_programs
from test_nodes import MPI
from test_run_mpi import DDP
from test_run_output import WRITER, check_lines, writes_alone
from waiting import wait_until

PYTHON = "/usr/bin/python3"
CASES = int(os.environ.get("DROVER_TEST_CASES", "3"))
UNKNOWN_BEFORE = {"DROVER_JOB_ID", "TORCHELASTIC_RUN_ID", "MASTER_ADDR", "OMPI_MCA_orte_hnp_uri"}  # to a dry run
PROBE = """
import json, os, re, socket
status = open("/proc/self/status").read()
print(json.dumps({"env": dict(os.environ), "node": socket.gethostname(), "cwd": os.getcwd(),
                  "cpus": re.search("Cpus_allowed_list:\\t(.*)", status)[1],
                  "mems": re.search("Mems_allowed_list:\\t(.*)", status)[1]}))
"""


@pytest.fixture(scope="module", name="mpi_program")
def build_mpi_program(tmp_path_factory):
    return compile_c(tmp_path_factory.mktemp("mpi"), "mpi", MPI, "mpicc")


@WITH_SSH
@pytest.mark.parametrize("size, sum_", [(3, 3), (6, 15)])
def test_an_open_mpi_program_has_all_its_ranks(engine, mpi_program, size, sum_):
    [(status, out, err)] = engine.run_mpi("-np", size, mpi_program)
    assert (status, sorted(out.splitlines()), err) == (0, [f"{r}/{size} {sum_}" for r in range(size)], "")
    engine.cluster.nothing_left()


def test_mpi4py_says_hello(engine):
    [(status, out, err)] = engine.run_mpi("-np", "6", PYTHON, "-m", "mpi4py.bench", "helloworld")
    assert status == 0, err
    assert [re.sub(" on .*", "", x) for x in sorted(out.splitlines())] == \
        [f"Hello, World! I am process {r} of 6" for r in range(6)]


@ONE_ENGINE
def test_a_pytorch_ddp_script_runs_unmodified(engine, tmp_path):
    (tmp_path / "ddp.py").write_text(DDP)
    status, out, err = engine.run("-np", "3", "-N", "1", "--wdir", tmp_path, PYTHON, "ddp.py", timeout=120)
    assert status == 0, err
    assert sorted(out.splitlines()) == [f"{r} 3 3.0 8.0" for r in range(3)]


def test_ranks_meet_over_pmix_for_nccl(engine, tmp_path):
    """All that libdrover needs to open NCCL's communicator, over PMIx."""
    if not FAKE_NCCL.exists():
        pytest.skip("built without NCCL's and CUDA's headers")
    programs = build_client_programs(tmp_path)
    env = {"DROVER_NCCL_LIB": str(FAKE_NCCL), "DROVER_CUDART_LIB": str(FAKE_NCCL), "FAKE_NCCL_DIR": str(tmp_path)}
    status, out, err = engine.run("-np", "3", "-N", "1", programs / "comm_check", "nccl", env=env)
    assert status == 0, err
    assert sorted(re.findall(r"^rank (\d) of 3: [1-9]\d\d checks over nccl$", out, re.M)) == list("012")


def probe(engine, *args, **kw):
    """What each rank sees, by rank."""
    status, out, err = engine.run(*args, "--", PYTHON, "-Sc", PROBE, **kw)
    assert status == 0, err
    seen = [json.loads(line) for line in out.splitlines()]
    return sorted(seen, key=lambda x: int(x["env"]["RANK"]))


def random_case(seed):
    """(options, environment of drover)."""
    options = seed.choice([["-np", str(seed.randint(1, 6))], ["-np", str(seed.randint(1, 3)), "-N", "1"], ["-N", "2"]])
    if "-N" not in options and seed.random() < 0.5:
        options += ["--map-by", seed.choice(["slot", "node"])]
    if seed.random() < 0.6:
        options += ["--bind-to", seed.choice(["none", "core", "numa"])]
    if seed.random() < 0.5:
        options += ["-x", "GIVEN=a b=c\n'd", "-x", "PASSED"]
    env = {"PASSED": "on", "OWN_TOKEN": "not to be shown"}
    if seed.random() < 0.3:
        env["OMP_NUM_THREADS"] = "3"
    return options, env


@pytest.mark.parametrize("_", range(CASES))
def test_ranks_see_what_the_dry_run_says(engine, seed, _):
    options, env = random_case(seed)
    status, out, err = engine.run("--dry-run", "--json", *options, "true", env=env)
    assert status == 0, err
    plan = json.loads(out)
    seen = probe(engine, *options, env=env)
    assert len(seen) == plan["world_size"] == len(plan["ranks"])
    for rank, found in zip(plan["ranks"], seen):
        assert found["node"] == rank["node"], options
        assert rank["cpus"] in (None, found["cpus"]), options
        assert rank["mems"] in (None, found["mems"]), options
        want = {**plan["env"], **rank["env"]}
        assert {k: v for k, v in want.items() if k not in UNKNOWN_BEFORE and v != "***" and
                found["env"].get(k) != v} == {}, options
        assert found["env"]["OWN_TOKEN"] == "not to be shown"
        assert found["env"]["PASSED"] == "on"


@WITH_SSH
def test_the_environment_arrives_but_for_what_is_a_nodes_own(engine):
    seen = probe(engine, "-np", "6", env={"LD_LIBRARY_PATH": "/some/where", "ODD": "a\nb=\"c' $d", "EMPTY": "",
                                          "HOSTNAME": "elsewhere", "SSH_CONNECTION": "1 2 3 4", "DISPLAY": ":7"})
    for found in seen:
        assert (found["env"]["ODD"], found["env"]["EMPTY"]) == ("a\nb=\"c' $d", "")
        assert "/some/where" in found["env"]["LD_LIBRARY_PATH"].split(":")
        assert found["cwd"] == str(engine.cluster.home)
        assert not any(k.startswith(("DROVER_CONTROL", "DROVER_TOKEN")) for k in found["env"])
        if engine.name == "slurm":  # as in a task of srun
            assert [found["env"].get(f"SLURM_{x}") for x in ("PROCID", "LOCALID", "NODEID", "NTASKS")] == \
                [found["env"][x] for x in ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE")]
    for found in seen[2:] if engine.name != "slurm" else []:  # not on the head; srun's own start passes all on
        assert found["env"].get("HOSTNAME") != "elsewhere"
        assert found["env"].get("SSH_CONNECTION") != "1 2 3 4"
        assert "DISPLAY" not in found["env"]


def test_master_addr_is_rank_0s_on_the_network_that_joins_the_nodes(engine):
    seen = probe(engine, "-np", "6")
    assert {x["env"]["MASTER_ADDR"] for x in seen} <= {f"{NETWORK}1", "node1"}
    assert len({x["env"]["MASTER_PORT"] for x in seen}) == 1
    assert [x["node"] for x in seen] == ["node1", "node1", "node2", "node2", "node3", "node3"]
    for found in seen:
        assert DECOY not in "".join(v for k, v in found["env"].items() if k.endswith(("ADDR", "IFNAME")))


def test_master_addr_is_where_rank_0_is_when_that_is_not_the_head(cluster):
    words = [BUILD / "bin/drover", "run", "--hostfile", cluster.hostfile(1, cluster.nodes[1:])]
    status, out, err = cluster.head.run(*words, "-np", "2", "sh", "-c", "echo $RANK $(hostname) $MASTER_ADDR")
    assert status == 0, err
    lines = [x.split() for x in sorted(untagged(out).splitlines())]
    assert [x[:2] for x in lines] == [["0", "node2"], ["1", "node3"]]
    assert {x[2] for x in lines} <= {f"{NETWORK}2", "node2"}


def test_one_far_node_alone_is_enough(cluster):
    words = [BUILD / "bin/drover", "run", "--host", "node3:2", "-np", "2"]
    status, out, err = cluster.head.run(*words, "sh", "-c", "echo $RANK $(hostname)")
    assert (status, sorted(out.splitlines())) == (0, ["0 node3", "1 node3"]), err


def test_lines_have_their_node_and_rank_before_them(engine):
    status, out, err = engine.start("-np", "6", "sh", "-c", "echo out $RANK; echo err $RANK >&2").end()
    assert status == 0
    for text, word in ((out, "out"), (err, "err")):
        assert sorted(text.decode().splitlines()) == [f"node{r // 2 + 1}:{r}| {word} {r}" for r in range(6)]


def test_lines_are_whole_and_files_have_what_was_written(engine, tmp_path, seed):
    program, number = compile_c(tmp_path, "writer", WRITER), seed.randrange(1 << 20)
    status, out, err = engine.run("--tag", "rank", "-np", "6", "--output-filename", tmp_path / "d", program, "2000", number)
    assert status == 0, err
    alone = writes_alone(program, 6, "2000", str(number))
    check_lines(out, alone)
    for rank in range(6):
        assert (tmp_path / f"d/rank.{rank}/stdout").read_bytes() == alone[rank]
        assert (tmp_path / f"d/rank.{rank}/stderr").read_bytes() == b""


def test_rank_0_reads_our_input_wherever_it_is(engine, tmp_path):
    sent = os.urandom(3 << 20)
    (tmp_path / "in").write_bytes(sent)
    with open(tmp_path / "in", "rb") as f:
        status, _, err = engine.run("-np", "6", "sh", "-c", f"cat >{tmp_path}/got.$RANK", stdin=f)
    assert status == 0, err
    assert (tmp_path / "got.0").read_bytes() == sent
    assert all((tmp_path / f"got.{r}").read_bytes() == b"" for r in range(1, 6))


def test_two_jobs_at_once_keep_apart(engine, mpi_program):
    for status, out, err in engine.run_mpi("-np", "3", "-N", "1", mpi_program, jobs=2):
        assert (status, sorted(out.splitlines())) == (0, [f"{r}/3 3" for r in range(3)]), err


def test_200_jobs_at_once_on_one_node_have_200_ports(cluster, tmp_path):
    words = [BUILD / "bin/drover", "run", "-np", "1", "--bind-to", "none", "--no-pmix", "sh", "-c",
             f'echo $MASTER_PORT >{tmp_path}/port.$1; until [ -e {tmp_path}/go ]; do sleep 0.3; done', "sh"]
    jobs = [cluster.nodes[1].start_job(*words, i) for i in range(200)]
    wait_until(lambda: len(list(tmp_path.glob("port.*"))) == 200, "200 ports")
    (tmp_path / "go").touch()
    assert [job.end()[0] for job in jobs] == [0] * 200
    assert len({p.read_text() for p in tmp_path.glob("port.*")}) == 200
