"""Where ranks go, against what Open MPI's mpirun itself says of the same options, generated at random: which rank on
which host (its --display-map over made-up hosts, nothing is started), which CPUs (its simulator on recorded machines,
tests/plan/machines, and real ranks on this one). DROVER_TEST_SEED repeats a run.

Where drover differs on purpose, and why; everything else has to be equal:

- Without --bind-to, ranks mapped by slot, node or ppr get even shares of whole cores; mpirun binds up to two ranks to a
  core each and more of them to NUMA nodes (threads of a rank then stand on one core, or wander). Not generated.
- Ranks go beside their GPUs; mpirun knows none. The plans here are made without GPUs.
- mpirun leaves ranks unbound without a word where it cannot bind them as it would like to (its IF-SUPPORTED; more ranks
  than CPUs; a NUMA node or a level 3 cache with Debian's hwloc 2; hardware threads). drover binds them or refuses.
- mpirun lets a rank of PE=n reach over the end of its object into the next; drover refuses.
- mpirun refuses PE=n with --map-by core and hwthread; drover gives n of these that follow each other. Not generated.
- --map-by node where slots differ: what is left after an even number for each goes to the first host with room;
  drover goes on in turn."""
import json
import os
import random
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest
from conftest import BUILD, ROOT

MPIRUN = shutil.which("mpirun")
MACHINES = ROOT / "tests/plan/machines"
THEIR_NAMES = {"l3": "l3cache", "package": "socket"}
pytestmark = pytest.mark.skipif(
    not MPIRUN or "Open MPI) 4.1" not in subprocess.run([MPIRUN, "--version"], stdout=subprocess.PIPE, text=True,
                                                        check=False).stdout, reason="there is no mpirun of Open MPI 4.1")


@pytest.fixture
def rng():
    seed = int(os.environ.get("DROVER_TEST_SEED", random.randrange(1 << 30)))
    print(f"DROVER_TEST_SEED={seed}")
    return random.Random(seed)


def mpirun(*args, **more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMIX_", "SLURM_"))}
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **more)
    return subprocess.run([MPIRUN, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env,
                          timeout=60, check=False, cwd=ROOT, stdin=subprocess.DEVNULL).stdout


def plans(cases, folder):
    """What drover plans for each case (tests/plan/README.md has the words): rows of the table, or None: refused."""
    paths = []
    for i, case in enumerate(cases):
        paths.append(folder / f"{i}.txt")
        paths[-1].write_text("".join(f"{k}: {v}\n" for k, v in case.items()) + "---\n")
    out = subprocess.run([BUILD / "tests/plan/test_plan_golden", "--show", *paths], stdout=subprocess.PIPE, text=True,
                         check=True, cwd=ROOT).stdout
    blocks = re.split(rf"^{re.escape(str(folder))}/\d+\.txt\n", out, flags=re.M)[1:]
    return [None if b.startswith("error") else [line.split() for line in b.strip().splitlines()[1:]] for b in blocks]


def numbers(text):
    """"0-3,8" as a set; "-" is None."""
    if text == "-":
        return None
    ends = (word.partition("-") for word in text.split(","))
    return {n for a, _, b in ends for n in range(int(a), int(b or a) + 1)}


# ---- which host ------------------------------------------------------------------------------------------------------


def seats_wish(rng):
    # Of addresses that nobody has (RFC 5737); names would be looked up, each time.
    hosts = [(f"198.51.100.{i + 1}", rng.randint(1, 4)) for i in range(rng.randint(1, 4))]
    case = {"machine": "laptop", "gpus": "", "bind": "none", "hosts": "; ".join(f"{h} slots={n}" for h, n in hosts)}
    args = ["-H", ",".join(f"{h}:{n}" for h, n in hosts), "--bind-to", "none"]
    how, by = rng.choice(["slot", "node", "usual", "-N", "ppr"]), None
    if how == "usual" or rng.random() < .8:
        case["ranks"] = rng.randint(1, 10)
        args += ["-np", str(case["ranks"])]
    if how in ("slot", "node"):
        case["map"] = by = how
    elif how == "-N":
        case["per-node"] = rng.randint(1, 4)
        args += ["-N", str(case["per-node"])]
    elif how == "ppr":
        case["ppr"] = f"{rng.randint(1, 4)}:node"
        by = f"ppr:{case['ppr']}"
    if rng.random() < .3:
        case["oversubscribe"] = "yes"
        by, args = (f"{by}:OVERSUBSCRIBE", args) if by else (by, [*args, "--oversubscribe"])
    if by:
        args += ["--map-by", by]
    if rng.random() < .4:
        case["rank-by"] = rng.choice(["slot", "node"])
        args += ["--rank-by", case["rank-by"]]
    return case, args


def their_seats(args):
    host, seats = None, {}
    for line in mpirun(*args, "--do-not-launch", "--display-map", "true").splitlines():
        if m := re.search(r"Data for node: (\S+)", line):
            host = m[1]
        if m := re.search(r"Process rank: (\d+)", line):
            seats[int(m[1])] = host
    return [seats[r] for r in sorted(seats)] or None


def test_ranks_are_seated_on_hosts_as_mpirun_seats_them(rng, tmp_path):
    wishes = [seats_wish(rng) for _ in range(100)]
    seated = 0
    for (case, args), rows in zip(wishes, plans([c for c, _ in wishes], tmp_path)):
        ours, theirs = rows and [row[1] for row in rows], their_seats(args)
        if case.get("map") == "node" and ours and theirs and len(set(re.findall(r"slots=(\d)", case["hosts"]))) > 1:
            assert len(ours) == len(theirs)
        else:
            assert ours == theirs, f"mpirun {' '.join(args)}"
        seated += bool(ours)
    assert seated >= 40  # the others were refused by both


# ---- which CPUs ------------------------------------------------------------------------------------------------------


def cpus_of(machine):
    """Of each package its cores, of each core its hardware threads."""
    root = ElementTree.parse(MACHINES / f"{machine}.xml").getroot()

    def below(o, kind):
        return (x for x in o.iter("object") if x.get("type") == kind)
    return [[[int(pu.get("os_index")) for pu in below(core, "PU")] for core in below(p, "Core")]
            for p in below(root, "Package")]


def bound_to(machine, text):
    """ "[BB/../..][../../..]" as a set; None where it is not bound, or to all that there is."""
    found = set()
    for package, cores in zip(cpus_of(machine), re.findall(r"\[([^]]*)]", text)):
        for core, marks in zip(package, cores.split("/")):
            found |= {cpu for cpu, mark in zip(core, marks) if mark == "B"}
    return found or None


def their_bindings(machine, args):
    """None: it has refused; "crashed": always (its simulator reads memory that it has not written)."""
    for fill in ("0", "255", "1", "85"):
        out = mpirun("--mca", "plm", "isolated", "--mca", "ras", "simulator", "--mca", "ras_simulator_slots", "512",
                     "--mca", "ras_simulator_num_nodes", "1", "--mca", "ras_simulator_topo_files",
                     f"tests/plan/machines/{machine}.xml", "--do-not-launch", "--display-devel-map", *args, "true",
                     MALLOC_PERTURB_=fill)
        if "Segmentation fault" not in out:
            break
    else:
        return "crashed"
    pairs = re.findall(r"Data for proc: \[\[\d+,1\],(\d+)\].*?Binding: ([^\n]*)", out, re.S)
    return [bound_to(machine, text) for _, text in sorted(pairs, key=lambda p: int(p[0]))] or None


def bindings_wish(rng):
    machine = rng.choice(["xeon-2s", "epyc-nps2", "laptop", "dgx-a100", "dgx-h100", "v100-smt-off", "workstation-4gpu"])
    case = {"machine": machine, "gpus": "", "ranks": rng.randint(1, 12)}
    by = rng.choice(["slot", "node", "core", "numa", "package", "l3", "ppr"])
    width = rng.choice([0, 0, 2, 3]) if by != "core" else 0
    if by == "ppr":
        each, of = rng.randint(1, 4), rng.choice(["numa", "package", "l3"])
        case["ppr"], words = f"{each}:{of}", f"ppr:{each}:{THEIR_NAMES.get(of, of)}"
    else:
        case["map"], words = by, THEIR_NAMES.get(by, by)
    if width:
        case["cpus-per-rank"] = width
        words += f":PE={width}"
    args = ["-np", str(case["ranks"]), "--map-by", words]
    binds = ["core", "core", "package", "l3"] + (["default"] if by not in ("slot", "node", "ppr") else [])
    bind = rng.choice(["core", "default"]) if width else rng.choice(binds)
    if bind != "default":
        case["bind"] = bind
        args += ["--bind-to", THEIR_NAMES.get(bind, bind)]
    if rng.random() < .4:
        case["rank-by"] = rng.choice(["slot", "core", "numa", "package"])
        args += ["--rank-by", THEIR_NAMES.get(case["rank-by"], case["rank-by"])]
    return case, args


def test_ranks_are_bound_to_the_cpus_that_mpirun_binds_them_to(rng, tmp_path):
    wishes = [bindings_wish(rng) for _ in range(180)]
    same = 0
    for (case, args), rows in zip(wishes, plans([c for c, _ in wishes], tmp_path)):
        ours, theirs = rows and [numbers(row[4]) for row in rows], their_bindings(case["machine"], args)
        if theirs == "crashed" or theirs and None in theirs:
            continue  # or it has bound nothing: see above
        if not ours and "cpus-per-rank" in case:
            continue
        assert ours == theirs, f"{case['machine']}: mpirun {' '.join(args)}"
        same += 1
        if same == 110:
            return
    assert same >= 100


def test_real_ranks_on_this_machine_have_the_cpus_that_mpiruns_have(drover):
    everything = numbers(re.search(r"Cpus_allowed_list:\s*(\S+)", open("/proc/self/status", encoding="ascii").read())[1])
    compared = 0
    for np in (1, 2):
        for by in ("slot", "core", "socket", "node", "l2cache", "l1cache"):
            for bind in ("none", "core", "socket", "l2cache", "l1cache"):
                args = ["-np", str(np), "--map-by", by, "--bind-to", bind]
                plan = drover.run("run", *args, "--gpus", "", "--oversubscribe", "--dry-run", "--json", "true")
                assert plan.returncode == 0, plan.stderr
                ours = [numbers(r["cpus"] or "-") or everything for r in json.loads(plan.stdout)["ranks"]]
                out = mpirun("--oversubscribe", *args, "sh", "-c",
                             'echo "rank $OMPI_COMM_WORLD_RANK $(grep Cpus_allowed_list /proc/self/status)"')
                theirs = [numbers(c) for _, c in sorted(re.findall(r"rank (\d+) Cpus_allowed_list:\s*(\S+)", out))]
                assert ours == theirs, f"mpirun {' '.join(args)}: {out}"
                compared += 1
    assert compared == 60
