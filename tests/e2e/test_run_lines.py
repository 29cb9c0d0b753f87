"""Command lines as people have them: mpirun's of Open MPI 4 and 5, hydra's, Intel MPI's and torchrun's, each planned and
not started. Hosts that are not there are named freely: a plan asks none of them."""
import json
import os
import shlex
import shutil
import subprocess

import pytest
from conftest import DROVER, ROOT

HOSTS4 = "node1 slots=4\nnode2 slots=4 # a comment\n"
FILES = {
    "hosts": HOSTS4,
    "machines": "node1:4\nnode2:4\n",
    "deepspeed": "worker-1 slots=8\nworker-2 slots=8\n",
    "pbs": "n1\nn1\nn2\nn2\n",
    "ranks": "rank 0=node1 slot=0\nrank 1=node2 slot=0\nrank 2=node1 slot=0:0\n",
    "app": "# two programs\n-np 1 ./head --port 1\n-np 3 -x ROLE='a b' ./worker\n",
}


def plan(drover, line, tmp_path, env=None, tail="--dry-run --json"):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    program, _, rest = line.partition(" ")
    link = tmp_path / "links" / program
    link.parent.mkdir(exist_ok=True)
    if not link.exists():
        link.symlink_to(DROVER)
    done = subprocess.run([link, *tail.split(), *shlex.split(rest)], cwd=tmp_path, env={**drover.env, **(env or {})},
                          text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30,
                          check=False)
    return done


def short(text):
    """{"node1": 4, …}, the program, and the environment of the job."""
    p = json.loads(text)
    return {n["name"]: n["ranks"] for n in p["nodes"]}, p["argv"], p["env"], p["ranks"]


TWO = {"node1": 4, "node2": 4}
LINES = [
    # Horovod, its documentation
    ("mpirun -np 8 -H node1:4,node2:4 -bind-to none -map-by slot -x NCCL_DEBUG=INFO -x LD_LIBRARY_PATH -x PATH "
     "-mca pml ob1 -mca btl ^openib python train.py", TWO, {"NCCL_DEBUG": "INFO", "OMPI_MCA_btl": "^openib"}),
    ("mpirun --allow-run-as-root --tag-output -np 8 -H node1:4,node2:4 -bind-to none -map-by slot -mca pml ob1 -mca btl "
     "^openib -mca btl_tcp_if_include eth0 -x NCCL_SOCKET_IFNAME=eth0 python3 main.py", TWO,
     {"OMPI_MCA_btl_tcp_if_include": "eth0", "NCCL_SOCKET_IFNAME": "eth0"}),
    ("mpirun -np 8 --hostfile hosts -bind-to none -map-by slot -mca plm_rsh_args '-p 12345' -x NCCL_DEBUG=INFO python t.py",
     TWO, {"OMPI_MCA_plm_rsh_args": "-p 12345"}),
    # nccl-tests
    ("mpirun -np 16 -N 8 --hostfile deepspeed ./build/all_reduce_perf -b 8 -e 8G -f 2 -g 1",
     {"worker-1": 8, "worker-2": 8}, {}),
    ("mpirun -np 2 -H node1:4,node2:4 --map-by ppr:1:node -x NCCL_IB_HCA=mlx5 ./all_reduce_perf -b 8 -e 128M -f 2 -g 4",
     {"node1": 1, "node2": 1}, {"NCCL_IB_HCA": "mlx5"}),
    # cloud guides (EFA, UCX)
    ("mpirun -n 16 -N 8 --hostfile deepspeed -x FI_PROVIDER=efa -x LD_LIBRARY_PATH -x NCCL_DEBUG=INFO --mca pml ^cm "
     "--mca btl tcp,self --mca btl_tcp_if_exclude lo,docker0 --bind-to none ./run", {"worker-1": 8, "worker-2": 8},
     {"FI_PROVIDER": "efa", "OMPI_MCA_pml": "^cm"}),
    ("mpirun --oversubscribe -np 8 -npernode 4 --hostfile hosts --mca coll_hcoll_enable 0 -x UCX_TLS=tcp "
     "-x NCCL_TOPO_FILE=/opt/topo.xml --bind-to numa ./a.out", TWO, {"UCX_TLS": "tcp"}),
    ("mpirun --prefix /opt/amazon/openmpi -np 8 --machinefile machines -x PATH ./a.out", TWO, {}),
    ("mpirun --mca plm_rsh_no_tree_spawn 1 --mca plm_rsh_agent ssh -np 8 -hostfile hosts ./a.out", TWO,
     {"OMPI_MCA_plm_rsh_no_tree_spawn": "1"}),
    ("mpirun --use-hwthread-cpus --oversubscribe -np 4 ./a.out", 4, {}),
    # Open MPI 4's manual
    ("mpirun -host node1,node1,node2,node2 ./a.out", {"node1": 2, "node2": 2}, {}),
    ("mpirun -H node1:4,node2:4 -np 4 --map-by node ./a.out", {"node1": 2, "node2": 2}, {}),
    ("mpirun --hostfile hosts --map-by ppr:2:node ./a.out", {"node1": 2, "node2": 2}, {}),
    ("mpirun --hostfile hosts -pernode ./a.out", {"node1": 1, "node2": 1}, {}),
    ("mpirun --hostfile hosts -npernode 3 ./a.out", {"node1": 3, "node2": 3}, {}),
    ("mpirun --hostfile hosts --host node2 -np 2 --oversubscribe ./a.out", {"node2": 2}, {}),
    ("mpirun -np 2 --rank-by node --map-by slot:OVERSUBSCRIBE -H node1,node2 ./a.out", {"node1": 1, "node2": 1}, {}),
    ("mpirun -c 2 --oversubscribe -wdir /tmp -q ./a.out", 2, {}),
    ("mpirun -np 2 --oversubscribe -bynode -bind-to-none ./a.out", 2, {}),
    ("mpirun -np 2 --oversubscribe --map-by core:PE=1 --bind-to core --report-bindings ./a.out", 2, {}),
    ("mpirun -np 2 --oversubscribe --display-map --display-allocation -v ./a.out", 2, {}),
    ("mpirun -np 2 --oversubscribe --timestamp-output --merge-stderr-to-stdout --output-filename out:nojobid ./a.out", 2,
     {}),
    ("mpirun -np 2 --oversubscribe --timeout 60 --report-state-on-timeout --get-stack-traces ./a.out", 2, {}),
    ("mpirun -np 2 --oversubscribe --stdin none --nooversubscribe ./a.out", 2, {}),
    ("mpirun --app app --oversubscribe", 4, {}),
    ("mpirun -np 1 --oversubscribe ./head : -np 3 -x A=1 ./worker", 4, {}),
    # Open MPI 5's
    ("mpirun -n 2 --map-by :OVERSUBSCRIBE --output tag,timestamp --display map,bind ./a.out", 2, {}),
    ("mpirun -n 2 --map-by core:OVERSUBSCRIBE:PE=1 --rank-by fill --bind-to core:overload-allowed ./a.out", 2, {}),
    ("mpirun -n 2 --map-by package:OVERSUBSCRIBE --bind-to package -x 'MARK*' ./a.out", 2, {"MARK_B": "b"}),
    ("mpirun -n 2 --prtemca plm_rsh_agent ssh --pmixmca gds hash --runtime-options abort-nonzero-status --map-by "
     ":OVERSUBSCRIBE ./a.out", 2, {}),
    # hydra and Intel MPI
    ("mpiexec -n 8 -f machines -ppn 4 ./a.out", TWO, {}),
    ("mpiexec -hosts node1,node2 -n 8 -ppn 4 -genv OMP_NUM_THREADS 2 ./a.out", TWO, {"OMP_NUM_THREADS": "2"}),
    ("mpiexec -hosts node1,node2 -n 7 ./a.out", {"node1": 4, "node2": 3}, {}),
    ("mpiexec -n 8 -f machines -perhost 4 -genvall -l -iface eth0 -bootstrap ssh ./a.out", TWO,
     {"OMPI_MCA_btl_tcp_if_include": "eth0"}),
    ("mpiexec -hosts node1:4,node2:4 -n 8 -genvlist MARK_A,MARK_B -launcher ssh ./a.out", TWO, {"MARK_A": "a"}),
    ("mpiexec -n 2 -env A 1 -prepend-rank -print-rank-map -bind-to core:1 -map-by rr --oversubscribe ./a.out", 2,
     {"A": "1"}),
    ("mpiexec --n 2 -genv I_MPI_FABRICS=tcp -genv KMP_AFFINITY=granularity=fine,compact,1,0 --oversubscribe ./a.out", 2,
     {"I_MPI_FABRICS": "tcp", "KMP_AFFINITY": "granularity=fine,compact,1,0"}),
    ("mpiexec -configfile app --oversubscribe", 4, {}),
    ("orterun -n 2 --N 2 --oversubscribe ./a.out", 2, {}),
    ("mpiexec.hydra -n 2 --oversubscribe ./a.out", 2, {}),
    ("mpirun.openmpi -n 2 --stream-buffering 0 --output :raw --oversubscribe ./a.out", 2,
     {"OMPI_MCA_ompi_stream_buffering": "0"}),
    ("mpiexec -np 2 -launcher fork -disable-auto-cleanup -rmk user -wdir /tmp --oversubscribe ./a.out", 2, {}),
    # torchrun's
    ("torchrun --standalone --nproc_per_node=2 train.py --lr 0.1", 2, {}),
    ("torchrun --nproc-per-node 2 --nnodes 1 --node_rank 0 --master_addr localhost --master_port 29501 train.py", 2, {}),
    ("torchrun --nnodes=2 --nproc_per_node=2 --node_rank=1 --master_addr=10.0.0.1 --master_port=1234 train.py", 2,
     {"WORLD_SIZE": "4", "MASTER_ADDR": "10.0.0.1", "GROUP_WORLD_SIZE": "2"}),
    ("torchrun --nnodes 2 --nproc_per_node 2 --node_rank 0 --rdzv_id 7 --rdzv_backend static --rdzv_endpoint head:29400 "
     "--rdzv_conf timeout=900 train.py", 2, {"WORLD_SIZE": "4", "MASTER_ADDR": "head", "TORCHELASTIC_RUN_ID": "7"}),
    ("torchrun --nnodes 2 --nproc_per_node 2 --node_rank 0 --rdzv_id 7 --rdzv_backend c10d --rdzv_endpoint head:29400 "
     "--rdzv_conf timeout=900 train.py", 2, {"WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "7"}),  # as far as it is known
    ("torchrun --max_restarts 3 --monitor_interval 5 --start_method spawn --role trainer -m pkg.train --x", 1,
     {"ROLE_NAME": "trainer"}),
    ("torchrun --nnodes 2 --nproc-per-node 4 --hostfile hosts train.py", TWO, {}),
    ("torchrun --nnodes 1:4 --nproc-per-node 4 --host node1,node2 train.py", TWO, {}),
    ("torchrun --nnode=1 --nproc 2 --master_p 29777 --max_rest 0 train.py", 2, {}),
    ("torchrun --no-python --nproc-per-node 2 --log-dir logs -r 3 -t 0:1,1:3 --local-ranks-filter 0 ./prog", 2, {}),
]


@pytest.mark.parametrize("line, nodes, env", LINES, ids=[" ".join(x[0].split()[:4]) + f" {i}" for i, x in enumerate(LINES)])
def test_a_line_is_planned_as_it_is_meant(drover, tmp_path, line, nodes, env):
    done = plan(drover, line, tmp_path, env={"MARK_A": "a", "MARK_B": "b"})
    assert done.returncode == 0, done.stderr
    got, argv, has, ranks = short(done.stdout)
    if isinstance(nodes, int):
        assert list(got.values()) == [nodes]
    else:
        assert got == nodes
    assert len(ranks) == sum(got.values())
    assert {k: has.get(k) for k in env} == env
    words = shlex.split(line)
    if not {"--app", "-configfile", ":"} & set(words):
        assert argv[-1] == words[-1]
    assert not (tmp_path / "out").exists() and not (tmp_path / "logs").exists()


def test_hydras_hosts_take_ranks_in_turn(drover, tmp_path):
    ranks = short(plan(drover, "mpiexec -hosts node1,node2 -n 4 ./a", tmp_path).stdout)[3]
    assert [r["node"] for r in ranks] == ["node1", "node2", "node1", "node2"]


def test_at_least_40_lines_are_there():
    assert len({x[0] for x in LINES}) >= 40


def test_several_programs_have_their_ranks_arguments_and_variables(drover, tmp_path):
    (tmp_path / "who").write_text("#!/bin/sh\necho $RANK $0 $1 \"$ROLE\"\n")
    (tmp_path / "who").chmod(0o755)
    (tmp_path / "f").write_text("-np 1 ./who a\n\n# more\n-np 2 -x 'ROLE=b c' ./who d : -np 1 -x OF ./who e\n")
    for args in (["--app", "f"], ["-np", "1", "./who", "a", ":", "-np", "2", "-x", "ROLE=b c", "./who", "d", ":",
                                  "-np", "1", "-x", "OF", "./who", "e"]):
        done = drover.run("run", "--oversubscribe", *args)
        assert sorted(done.stdout.splitlines()) == ["0 ./who a ", "1 ./who d b c", "2 ./who d b c", "3 ./who e "], done.stderr
    (tmp_path / "f").write_text("-np 1 --wdir /usr/bin --output-filename out pwd\n")
    done = drover.run("run", "--app", "f")
    assert done.stdout == "/usr/bin\n" and (tmp_path / "out/rank.0/stdout").read_text() == done.stdout, done.stderr
    done = drover.run("run", "-np", "1", "--", "echo", ":", "-np", "1")
    assert done.stdout == ": -np 1\n"


def test_each_program_has_its_directory_and_path(drover, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for d in "ab":
        (tmp_path / d / "here").write_text(f"#!/bin/sh\necho {d}\n")
        (tmp_path / d / "here").chmod(0o755)
    run = ["run", "--oversubscribe", "-np", "1"]

    def lines(*args):
        done = drover.run(*run, *args)
        assert done.returncode == 0, done.stderr
        return sorted(done.stdout.splitlines())
    a, b, own = (str(tmp_path / d) for d in ("a", "b", "."))
    assert lines("-wdir", a, "pwd", ":", "-np", "1", "-wdir", b, "pwd") == [a, b]
    assert lines("-wdir", a, "pwd", ":", "-np", "1", "pwd") == sorted([a, os.path.normpath(own)])
    assert lines("-gwdir", a, "pwd", ":", "-np", "1", "-wd", b, "pwd", ":", "-n", "1", "pwd") == [a, a, b]
    assert lines("-path", a, "here", ":", "-np", "1", "-path", b, "here") == ["a", "b"]
    done = drover.run(*run, "true", ":", "-np", "1", "-wdir", "nowhere", "true")
    assert done.returncode == 126 and "rank 1" in done.stderr and "'nowhere'" in done.stderr, done.stderr


@pytest.mark.parametrize("line, nodes", [
    ("-np 1 -H node1 ./a : -np 1 -H node2 ./b", ["node1", "node2"]),
    ("-np 1 -H node1 ./a : -np 1 -H node1 ./b", ["node1", "node1"]),
    ("-np 1 -H node2:2 ./a : -np 2 -H node1:2 ./b : -np 1 ./c", ["node2", "node1", "node1", "node2"]),
    ("--hostfile hosts -np 2 ./a : -np 3 -H node2 ./b", ["node1", "node1", "node2", "node2", "node2"]),
    ("--hostfile hosts -np 4 -H node2 ./a : -np 1 ./b", ["node2", "node2", "node2", "node2", "node1"]),
])
def test_each_program_runs_on_its_hosts(drover, tmp_path, line, nodes):
    done = plan(drover, f"mpirun {line}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert [r["node"] for r in short(done.stdout)[3]] == nodes


@pytest.mark.parametrize("line", [
    "-np 1 -H localhost:2 sh -c 'echo a $OMPI_COMM_WORLD_RANK' : -np 1 -H localhost:2 sh -c 'echo b $OMPI_COMM_WORLD_RANK'",
    "-np 1 -wdir /usr pwd : -np 1 pwd", "-np 1 -wdir /usr pwd : -np 1 -wdir /etc pwd", "-np 1 --oversubscribe pwd : -np 1 pwd"])
def test_programs_have_the_outcome_that_mpirun_gives_them(drover, tmp_path, line):
    peer = shutil.which("mpirun.openmpi")
    if not peer:
        pytest.skip("Open MPI is not installed")
    words = shlex.split(f"--oversubscribe {line}")
    env = {**drover.env, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    theirs = subprocess.run([peer, *words], cwd=tmp_path, env=env, text=True, stdin=subprocess.DEVNULL,
                            capture_output=True, timeout=60, check=False)
    own = drover.run("run", *words)
    assert (own.returncode, sorted(own.stdout.splitlines())) == (theirs.returncode, sorted(theirs.stdout.splitlines()))


@pytest.mark.parametrize("line", ["--rankfile ranks", "-rf ranks -np 3", "--map-by rankfile:file=ranks"])
def test_a_rank_file_names_the_host_of_each_rank(drover, tmp_path, line):
    done = plan(drover, f"mpirun {line} ./a", tmp_path)
    assert done.returncode == 0, done.stderr
    assert [(r["node"], r["local_rank"]) for r in short(done.stdout)[3]] == [("node1", 0), ("node2", 0), ("node1", 1)]


SHOW_CPUS = ["sh", "-c", 'echo ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} $(grep Cpus_allowed_list /proc/self/status)']


def outcome(command, cwd, env):
    done = subprocess.run([*command, *SHOW_CPUS], cwd=cwd, env=env, text=True, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def test_a_rank_file_binds_as_mpiruns_does(drover, tmp_path):
    peer = shutil.which("mpirun.openmpi")
    if not peer or os.cpu_count() < 2:
        pytest.skip("Open MPI is not installed, or there is one CPU")
    here = os.uname().nodename
    (tmp_path / "ranks").write_text(f"rank 0={here} slot=1\nrank 1={here} slot=0:0\nrank 2={here} slot=0-1\n")
    env = {**drover.env, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    line = ["-H", f"{here}:3", "-np", "3", "-rf", "ranks"]
    assert outcome([DROVER, "run", *line], tmp_path, env) == outcome([peer, *line], tmp_path, env)


@pytest.mark.parametrize("cpus", ["1,0", "0+1,1", "1"])
def test_hydras_lists_bind_as_hydra_does(drover, tmp_path, cpus):
    peer = ROOT / "build/mpis/mpich/bin/mpiexec.hydra"
    if not peer.exists() or os.cpu_count() < 2:
        pytest.skip("MPICH is not in build/mpis (scripts/setup --test), or there is one CPU")
    line = ["-bind-to", f"user:{cpus}", "-n", "3"]
    assert outcome([DROVER, "run", *line], tmp_path, drover.env) == outcome([peer, *line], tmp_path, drover.env)


def test_ranks_of_a_share_know_their_place_among_all(drover, tmp_path):
    line = "torchrun --nnodes 3 --node-rank 1 --nproc-per-node 2 --master-addr 127.0.0.1 --master-port 4321 --no-python "
    done = plan(drover, line + "sh -c 'echo $RANK $LOCAL_RANK $WORLD_SIZE $GROUP_RANK $MASTER_ADDR $MASTER_PORT'", tmp_path,
                tail="")
    assert sorted(done.stdout.splitlines()) == ["2 0 6 1 127.0.0.1 4321", "3 1 6 1 127.0.0.1 4321"], done.stderr
    done = plan(drover, line + "sh -c 'exit $RANK'", tmp_path, tail="")
    assert done.returncode in (2, 3) and f"rank {done.returncode} on" in done.stderr


def test_torchruns_options_come_from_the_environment_too(drover, tmp_path):
    env = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "10.0.0.9",
           "PET_MASTER_PORT": "99"}
    done = plan(drover, "torchrun train.py", tmp_path, env=env)
    _, argv, has, ranks = short(done.stdout)
    assert has["WORLD_SIZE"] == "4" and has["MASTER_ADDR"] == "10.0.0.9" and ranks[1]["env"]["RANK"] == "3"
    assert argv == ["python3", "-u", "train.py"]
    step = {"SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NODEID": "1"}
    done = plan(drover, "torchrun --nnodes 2 --rdzv-backend static --rdzv-endpoint h:1 train.py", tmp_path, env=step)
    assert short(done.stdout)[3][0]["env"]["RANK"] == "1", done.stderr


@pytest.mark.parametrize("line, words", [
    ("mpirun -np 4 --rankfile r ./a", ["rank file 'r'", "No such file"]),
    ("mpirun -np 4 --rankfile ranks ./a", ["4 ranks", "the rank file has 3", "try: -np 3"]),
    ("mpirun -H node1 --rankfile ranks ./a", ["rank 1", "'node2' is not one of the job's"]),
    ("mpirun -bind-to user:9999 -np 1 ./a", ["'p9999'", "no such CPU"]),
    ("mpirun -bind-to user:a -np 1 ./a", ["'user:a'", "try: user:0+2"]),
    ("mpirun -np 4 --map-by dist:mlx ./a", ["dist", "not supported"]),
    ("mpirun -np 4 --map-by ppr:2:nodes ./a", ["ppr:2:nodes", "ppr:2:node"]),
    ("mpirun -np 4 --display-mapp ./a", ["--display-mapp", "try: --display-map"]),
    ("mpiexec -n 4 -genvnone ./a", ["-genvnone", "env -i"]),
    ("mpirun -np 9 --hostfile hosts ./a", ["9"]),
    ("mpirun --hostfile nothing -np 2 ./a", ["nothing", "No such file"]),
    ("mpirun -H node1:x -np 2 ./a", ["node1", "x"]),
    ("mpirun --engine pbs -np 2 ./a", ["'pbs'", "openmpi"]),
    ("mpirun --stdin all -H node1,node2 ./a", ["stdin for all ranks", "only on this node"]),
    ("mpiexec -s 1,2 -n 3 ./a", ["'-s'", "'1,2' is not a number"]),
    ("mpirun --show 1-x -np 2 ./a", ["'1-x'", "0,3-5"]),
    ("mpirun ./a : -np 2 ./b", ["-np N of the first one is missing"]),
    ("mpirun -np 2 ./a : -np 2 --bind-to core ./b", ["--bind-to", "before the first program"]),
    ("mpirun -np 2 ./a :", ["after ':'"]),
    ("mpirun --hostfile hosts -np 1 ./a : -np 1 -H node3 ./b", ["'node3'", "not in the host file"]),
    ("mpirun -np 1 -H node1 ./a : -np 2 -H node2 ./b", ["program 2", "2 ranks", "'node2' has 1 slot"]),
    ("mpirun --app nofile", ["nofile"]),
    ("mpirun -np 2 --nolocal ./a", ["--nolocal", "--hostfile"]),
    ("mpirun --show 0,5 -np 2 --oversubscribe ./a", ["output of rank 5", "ranks 0 to 1"]),
    ("mpirun --stream-buffering 3 -np 2 ./a", ["--stream-buffering", "out of range (0 to 2)"]),
    ("mpirun -genv =1 ./a", ["-genv", "NAME=VALUE"]),
    ("torchrun --node-rank -1 t.py", ["--node-rank", "-1 is out of range"]),
    ("torchrun --n 1 t.py", ["'--n' is ambiguous", "--nnodes"]),
    ("torchrun --nproc-per-node x t.py", ["'x'", "gpu"]),
    ("torchrun --nnodes 2 t.py", ["--nnodes 2", "--node-rank", "--hostfile"]),
    ("torchrun --nnodes 2 --node-rank 2 --master-addr a t.py", ["--node-rank 2", "out of range (0 to 1)"]),
    ("torchrun --nnodes 2 --node-rank 1 t.py", ["address of rank 0", "--master-addr"]),
    ("torchrun --nnodes 3:2 t.py", ["3:2"]),
    ("torchrun --nnodes 1:2 --node-rank 1 --master-addr a t.py", ["1:2", "--nnodes 2"]),
    ("torchrun --rdzv-endpoint a:b t.py", ["--rdzv-endpoint", "'b'"]),
    ("torchrun --nnodes 2 --rdzv-backend etcd --rdzv-endpoint a:1 t.py", ["'etcd'", "--rdzv-backend c10d"]),
    ("torchrun --nnodes 2 --rdzv-endpoint a:1 --rdzv-conf x t.py", ["--rdzv-conf 'x'", "KEY=VALUE"]),
    ("torchrun --nnodes 2 --rdzv-endpoint a:1 --rdzv-conf join_timeout=y t.py", ["join_timeout=y"]),
    ("torchrun -r 4 t.py", ["--redirects", "4"]),
    ("torchrun -t 0:1,x t.py", ["--tee", "'x'"]),
    ("torchrun -m --no-python t.py", ["--module"]),
    ("torchrun --nprok_per_node 2 t.py", ["--nprok_per_node", "try: --nproc-per-node"]),
    ("torchrun", ["the script is missing", "torchrun --nproc-per-node 2 train.py"]),
    ("mpirun -np 2 -m pkg.train", ["'-m'", "python3 -m MODULE", "drover torchrun -m"]),
])
def test_what_cannot_be_meant_is_said(drover, tmp_path, line, words):
    done = plan(drover, line, tmp_path, tail="--dry-run")
    assert done.returncode == 2 and done.stdout == "", done.stdout
    assert done.stderr.startswith(line.split()[0] + ": ") and len(done.stderr.splitlines()) <= 2, done.stderr
    for word in words:
        assert word in done.stderr


def test_what_is_known_and_means_nothing_is_said_once(drover, tmp_path):
    done = plan(drover, "mpirun -np 1 --xml --enable-recovery --prefix /opt/x --report-uri f -x NOT_THERE true", tmp_path,
                tail="")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "mpirun: warn: -x NOT_THERE: the variable is not set",
        "mpirun: warn: ignored, no effect with this engine: --xml --enable-recovery --report-uri f --prefix /opt/x"]
    done = plan(drover, "mpirun -np 1 --allow-run-as-root -genvall true", tmp_path, tail="")
    assert (done.returncode, done.stderr) == (0, "")


def test_links_speak_as_what_they_are(drover, tmp_path):
    done = plan(drover, "mpirun --version", tmp_path, tail="")
    assert done.stdout.splitlines()[0].split()[:3] == ["mpirun", "(Open", "MPI)"] and "drover" in done.stdout
    assert plan(drover, "mpiexec -V", tmp_path, tail="").stdout == done.stdout
    assert plan(drover, "torchrun --help", tmp_path, tail="").stdout.startswith("Usage: torchrun ")
    assert plan(drover, "mpirun --help", tmp_path, tail="").stdout.startswith("Usage: mpirun ")
    done = drover.run("torchrun", "--help")
    assert done.stdout.startswith("Usage: drover torchrun ")


def test_path_says_where_the_program_is_looked_for(drover, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own/only-here").write_text("#!/bin/sh\necho found\n")
    (tmp_path / "own/only-here").chmod(0o755)
    done = drover.run("run", "--path", tmp_path / "own", "-np", "1", "only-here")
    assert done.stdout == "found\n", done.stderr
