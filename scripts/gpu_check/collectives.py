"""Steps of scripts/gpu-check: drover bench, the conformance kit, and ranks that share the GPU."""
import json
import re
import shutil
import statistics
import time
from pathlib import Path

from gpu_check.kit import LOOPBACK, Failed, Skipped, last_words, need, rows_of

OPS = ("all_reduce", "broadcast", "reduce", "all_gather", "reduce_scatter", "alltoall", "gather", "scatter", "sendrecv")
# One rank's times by nccl-tests' own: medians of three rounds differed by up to 1.3 % from 16 MiB on (docs/measurements/h100.md).
NCCL_TESTS_ROUNDS, NCCL_TESTS_APART_MAX = 7, 0.03


def each_of(c, name, *command, **env):
    """A bench among several of a step, whose failure costs the others nothing -> (its last row, all rows, why it failed)"""
    try:
        record = c.bench(*command, **env)
        return rows_of(record), record["rows"], []
    except Failed as e:
        return None, [], [f"{name}: {e}"]


def bench_ops(c):
    c.needs_gpu()
    wrong = []
    for name, options in (("types", ["-d", "all"]), ("reductions", ["-o", "all"])):
        _, rows, why = each_of(c, name, "all_reduce", "-b", "1M", "-e", "1M", *options)
        if rows:
            c.metrics[name] = len(rows)
        wrong += why
    for op in OPS:
        row, _, why = each_of(c, op, op, "-b", "8", "-e", c.largest, "-f", "8", "-n", "10")
        if row:
            c.metrics[f"{op}_algbw_gbps"] = row["out_of_place"]["algbw_gbps"]
        wrong += why
    need(not wrong, "; ".join(wrong))
    return c.metrics


def bench_modes(c):
    """CUDA graphs, registered buffers and the default stream give what is right too; each is tried."""
    c.needs_gpu()
    wrong = []
    for name, op, options in (("graph", "all_reduce", ["-G", 3]), ("graph_sendrecv", "sendrecv", ["-G", 3]),
                              ("registered", "all_reduce", ["-R", 1]), ("symmetric", "all_reduce", ["-R", 2]),
                              ("default_stream", "all_reduce", ["-y", 1]), ("unaligned", "all_reduce", ["-u", 1])):
        row, _, why = each_of(c, name, op, "-b", "1M", "-e", "1M", *options)
        if row:
            c.metrics[f"{name}_us"] = row["out_of_place"]["time_us"]
        wrong += why
    need(not wrong, "; ".join(wrong))
    return c.metrics


def bench_wrong(c):
    """An element that is spoilt on purpose is found."""
    c.needs_gpu()
    record = c.bench("all_reduce", "-b", "4M", "-e", "4M", ok=(1,), DROVER_BENCH_INJECT="0:12345")
    need(record["wrong"] >= 1, "the injected wrong element was not found")
    return {"wrong": record["wrong"]}


def bench_local(c):
    """Products of matrices and copies by the GPU itself are right, and how fast they are; a wrong one is found."""
    c.needs_gpu()
    for kind in ("bfloat16", "half", "float"):
        row = c.bench("gemm", "-d", kind, "-n", 20, "-w", 5, "-T", 20)["rows"][0]
        need(row["wrong"] == 0, f"{kind}: {row['wrong']} wrong rows")
        c.metrics.update({f"{kind}_tflops": row["tflops"], f"{kind}_spread": row["spread"]})
    row = c.bench("copy", "-n", 20, "-T", 20)["rows"][0]
    need(row["wrong"] == 0, f"copies: {row['wrong']} wrong bytes")
    c.metrics.update({f"{way}_gbps": row[f"{way}_gbps"] for way in ("to", "from", "within")})
    if row["link"]:
        c.metrics.update(link=row["link"], to_by_link=round(row["to_gbps"] / row["link"]["gbps"], 3),
                         from_by_link=round(row["from_gbps"] / row["link"]["gbps"], 3))
    for what in ("gemm", "copy"):
        record = c.bench(what, "-b", "1M", "-n", 1, ok=(1,), DROVER_BENCH_INJECT="0:12345")
        need(record["wrong"] >= 1, f"{what}: the injected wrong element was not found")
    return c.metrics


def bench_kernels(c):
    """The kernel that compares buffers finds what the host finds, on every type, and is the one that is used."""
    c.needs_gpu()
    if "DROVER_NCCL_KERNELS" not in c.env and not (c.tree / "lib/drover/nccl_kernels.so").exists():
        raise Skipped("no nvcc, and no nccl_kernels.so in the bundle")
    found, metrics = {}, {}
    for name, env in (("gpu", {}), ("host", {"DROVER_NCCL_KERNELS": ""})):
        done = c.run(c.drover, "bench", "all_reduce", "-np", 1, "--backend", "nccl", "--json", "-b", "4M", "-e", "4M", "-d", "all",
                     "-n", 1, ok=(1,), DROVER_BENCH_INJECT="0:70001", DROVER_LOG="debug", **env)
        need(f"compared on the {name.replace('gpu', 'GPU')}" in done.err, f"the {name} did not compare: {last_words(done.err)}")
        found[name] = [(row["type"], half, row[half]["wrong"], row[half].get("first_wrong")) for row in json.loads(done.out)["rows"]
                       for half in ("out_of_place", "in_place")]
        metrics[name] = sum(wrong for _, _, wrong, _ in found[name])
    need(found["gpu"] == found["host"], f"GPU {found['gpu']}, host {found['host']}")
    return metrics


def conform(c):
    c.needs_gpu()
    kit = json.loads(c.run(c.conform, "--backend", "nccl", "--json").out)
    need(kit["failed"] == 0, f"{kit['failed']} of {kit['checks']} checks failed")
    return {"checks": kit["checks"], "refused": kit["refused"], "version": kit["version"]}


def one_gpu(c, ranks):
    """Ranks that share one GPU: what NCCL says to it, with and without a host id of each rank's own. Refusing is fine."""
    c.needs_gpu()
    bench = (c.drover, "bench", "all_reduce", "--backend", "nccl", "--json", "-b", "4K", "-e", c.shared, "-f", "16", "-n", 5,
             "-T", 25)
    metrics, refusals, wrong = c.metrics, [], []
    plain = (c.drover, "run", "-np", ranks, "--oversubscribe", *bench)
    for name, command, env in (("plain", plain, {}), ("hostid", c.two_on_one(ranks, *bench), {}),
                               ("multi_rank", plain, {"NCCL_MULTI_RANK_GPU_ENABLE": "1"})):  # NCCL 2.30
        try:
            done = c.run(*command, ok=None, limit_s=35, **LOOPBACK, **env)
            metrics[name] = "supported" if done.returncode == 0 else "unsupported"
            if done.returncode == 0:
                metrics[f"{name}_busbw_gbps"] = rows_of(json.loads(done.out))["out_of_place"]["busbw_gbps"]
            else:
                refusals.append(f"{name}: {last_words(done.err)}")
                said = "\n".join(line for line in done.err.splitlines() if not line.startswith("drover run: warn:"))
                need("have the same GPU" in said or "NCCL" in said,
                     f"refused without a word of the GPU or of NCCL's: {last_words(done.err)}")
        except Failed as e:
            wrong.append(f"{name}: {e}")
    c.hostids |= metrics.get("hostid") == "supported"
    need(not wrong, "; ".join(wrong))
    return metrics, "; ".join(refusals)


def mps(c):
    """Two ranks that share the GPU at the same time, by NVIDIA's Multi-Process Service."""
    c.needs_gpu()
    control = shutil.which("nvidia-cuda-mps-control", path=c.env["PATH"])
    if not control:
        raise Skipped("nvidia-cuda-mps-control is not installed")
    folders = {"CUDA_MPS_PIPE_DIRECTORY": str(c.work / "mps"), "CUDA_MPS_LOG_DIRECTORY": str(c.work / "mps-log")}
    for folder in folders.values():
        Path(folder).mkdir(exist_ok=True)
    started = c.run(control, "-d", ok=None, **folders)
    if started.returncode != 0:
        raise Skipped(f"MPS does not start: {last_words(started.err or started.out)}")
    try:
        bench = (c.drover, "bench", "all_reduce", "--backend", "nccl", "--json", "-b", "4K", "-e", c.shared, "-f", 16, "-n", 5, "-T", 25)
        done = c.run(*c.two_on_one(2, *bench), ok=None, limit_s=35, **LOOPBACK, **folders)
        if done.returncode != 0:
            need("have the same GPU" in done.err or "NCCL" in done.err, f"refused without NCCL's reason: {last_words(done.err)}")
            return {"two_ranks": "unsupported"}, last_words(done.err)
        return {"two_ranks": "supported", "busbw_gbps": rows_of(json.loads(done.out))["out_of_place"]["busbw_gbps"]}
    finally:
        c.run("sh", "-c", f"echo quit | '{control}'", ok=None, limit_s=10, **folders)


def conform_two(c):
    c.needs_gpu()
    if not c.hostids:
        raise Skipped("NCCL takes no two ranks on one GPU")
    done = c.run(*c.two_on_one(2, c.conform, "--backend", "nccl", "--max", "64K", "--json"), **LOOPBACK)
    kit = json.loads(done.out)
    need(kit["failed"] == 0, f"{kit['failed']} of {kit['checks']} checks failed")
    return {"checks": kit["checks"], "refused": kit["refused"]}


def bootstrap_kill(c):
    """A rank that dies while the others connect ends the job, soon, and is named; one that stays away is named too."""
    c.needs_gpu()
    metrics = c.metrics
    bench = f"exec '{c.drover}' bench all_reduce --backend nccl -b 8 -e 8 -T 6"

    def job(name, fate):
        """Rank 0 measures, rank 1 meets its fate."""
        began = time.monotonic()
        done = c.run(c.drover, "run", "-np", 2, "--oversubscribe", "--grace", 2, "sh", "-c",
                     f'export NCCL_HOSTID=check-$RANK; [ "$RANK" = 1 ] || {bench}; {fate}', ok=None, limit_s=22, **LOOPBACK)
        metrics[f"{name}_s"] = round(time.monotonic() - began, 2)
        return done

    for name, fate in (("before", "kill -9 $$"), ("amidst", f"({bench}) & sleep 0.3; kill -9 $! $$")):
        done = job(name, fate)
        need(done.returncode == 137 and "rank 1" in done.err or name == "amidst" and done.returncode != 0,
             f"{name}: status {done.returncode}: {last_words(done.err)}")
    done = job("away", "exec sleep 60")
    need(done.returncode == 1 and re.search(r"missing: (node \S+: )?rank 1\b", done.err), f"away: {last_words(done.err)}")
    return metrics


def nccl_tests(c):
    """The same sizes by nccl-tests' binary and by bench, by turns."""
    c.needs_gpu()
    if not c.options.nccl_tests:
        raise Skipped("--nccl-tests DIR was not given")
    sizes = ("-b", "1M", "-e", c.largest, "-f", "4", "-n", "50", "-w", "10")
    theirs, ours = {}, {}

    def measure_theirs():
        out = c.run(Path(c.options.nccl_tests) / "all_reduce_perf", *sizes, "-g", "1", "-c", "0").out
        for size, us in re.findall(r"^ +(\d+) +\d+ +float +sum +-1 +(\S+)", out, re.M):
            theirs.setdefault(int(size), []).append(float(us))

    def measure_ours():
        for row in c.bench("all_reduce", *sizes, "-c", "0")["rows"]:
            ours.setdefault(row["size_bytes"], []).append(row["out_of_place"]["time_us"])

    for turn in range(NCCL_TESTS_ROUNDS):  # each is first in every other round
        for measure in (measure_theirs, measure_ours)[::-1 if turn % 2 else 1]:
            measure()
    need(theirs.keys() == ours.keys(), f"sizes {sorted(theirs)} and {sorted(ours)}")
    ratio = {str(s): round(statistics.median(ours[s]) / statistics.median(theirs[s]), 4) for s in sorted(ours)}
    c.metrics.update(ratio=ratio, rounds=NCCL_TESTS_ROUNDS,
                     spread={str(s): round((max(theirs[s]) - min(theirs[s])) / statistics.median(theirs[s]), 4) for s in sorted(theirs)})
    need(all(abs(r - 1) <= NCCL_TESTS_APART_MAX for r in ratio.values()), f"bench's time by nccl-tests': {ratio}")
    return c.metrics
