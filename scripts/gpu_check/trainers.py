"""Steps of scripts/gpu-check: examples/digits, examples/gpt, sweeps, and PyTorch's DDP."""
import json
import re
import time

from gpu_check.kit import Failed, Skipped, apart, last_words, need, rows_of

# Three networks that between them use every kernel of examples/digits.
KINDS = {"gelu": ["--activation=gelu", "--optimizer=adamw", "--dropout=0.3", "--hidden=70,33,50", "--batch=50"],
         "tanh": ["--activation=tanh", "--optimizer=momentum", "--lr=0.05", "--label-smoothing=0.2"],
         "relu": ["--activation=relu", "--optimizer=sgd", "--lr=0.05", "--hidden=32"]}
LOSS_APART_MAX, BF16_APART_MAX = 1e-3, 5e-2
BEYOND_ALLOCATED_MAX = 2 << 30  # of the device's memory: CUDA's context, the libraries' code and workspaces
ESTIMATE_APART_MAX = 0.05  # of an end of `drover estimate`'s range
DDP = """
import os, torch, torch.distributed as dist
backend = os.environ["CHECK_BACKEND"]
dist.init_process_group(backend)
device = torch.device("cuda", 0) if backend == "nccl" else torch.device("cpu")
torch.manual_seed(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 10).to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(2 + dist.get_rank())
x, y = torch.randn(256, 64, device=device), torch.randint(10, (256,), device=device)
losses = []
for step in range(20):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
weight = model.module.weight.detach().clone()
dist.broadcast(weight, 0)
assert torch.equal(weight, model.module.weight), "ranks have different weights"
print("ddp", dist.get_rank(), dist.get_world_size(), losses[0], losses[-1], flush=True)
dist.destroy_process_group()
"""


def cpu(c):
    """Run, sweep, bench and the trainer without the GPU."""
    ranks = [c.drover, "run", "-np", 2, "--gpus", "", "--oversubscribe"]
    began = time.monotonic()
    out = c.run(*ranks, "sh", "-c", "echo $RANK/$WORLD_SIZE").out
    run_s = time.monotonic() - began
    need(sorted(out.split()) == ["0/2", "1/2"], f"the ranks said {out!r}")
    alone, _ = c.train("--epochs=2", "--device=cpu")
    out = c.run(*ranks, c.trainer["digits"], "--epochs=2", "--device=cpu", "--comm=mpi").out
    two = [tuple(map(float, r)) for r in re.findall(r"^epoch +\d+  loss (\S+)  val_loss (\S+)", out, re.M)]
    need(apart(alone, two) < 1e-4, "two ranks do not train as one does")
    record = json.loads(c.run(c.drover, "bench", "all_reduce", "-np", 2, "--backend", "mpi", "--oversubscribe", "--json",
                              "-b", "8", "-e", "1M", "-f", "8").out)
    busbw = rows_of(record)["out_of_place"]["busbw_gbps"]
    kit = json.loads(c.run(*ranks, c.conform, "--backend", "mpi", "--max", "64K", "--json").out)
    return {"run_s": round(run_s, 4), "busbw_gbps": busbw, "conform_checks": kit["checks"]}


def cpu_sweep(c):
    trials = sweep(c, "cpu-sweep", "--device=cpu", {"name": "cpu", "trials": 4, "parallel": 2})
    return {"best": max(t["value"] for t in trials), "trials": len(trials)}


def digits(c):
    """The trainer's losses on the GPU are the CPU's, and a resumed training ends with the same bits."""
    c.needs_gpu()
    metrics = c.metrics
    for name, options in KINDS.items():
        gpu, _ = c.train(*options, "--epochs=3", "--device=cuda")
        metrics[f"{name}_apart"] = apart(gpu, c.train(*options, "--epochs=3", "--device=cpu")[0])
    need(max(metrics.values()) <= LOSS_APART_MAX, f"the losses differ by {max(metrics.values()):.2g}")
    options = [*KINDS["gelu"], "--device=cuda", "--schedule=constant"]
    began = time.monotonic()
    _, whole = c.train(*options, "--epochs=6")
    metrics["epochs_6_s"] = round(time.monotonic() - began, 3)
    kept = f"--checkpoint={c.work}/kept"
    (c.work / "kept").mkdir()
    c.train(*options, "--epochs=3", kept)
    _, resumed = c.train(*options, "--epochs=6", kept, "--resume")
    need(resumed == whole, f"resumed: weights {resumed}, not {whole}")
    return metrics


def gpt_kernels(c):
    """Each operation of examples/gpt against the same formula in float64, and twice with the same bits."""
    c.needs_gpt_cuda()
    done = c.run(c.vectors, c.trainer["gpt"].with_name("gpt_cuda.so"), *([] if c.options.quick else ["long"]), ok=None)
    beyond = []
    for line in done.out.splitlines():
        result = re.match(r"# .*, (fp32|bf16), .*: error (\S+) at \d+, at most (\S+)$", line)
        if result and float(result[2]) <= float(result[3]):
            name = f"{result[1]}_error_by_limit"  # the largest
            c.metrics[name] = max(c.metrics.get(name, 0), round(float(result[2]) / float(result[3]), 4))
        elif line.startswith("#"):
            beyond.append(line[2:])
    need(done.out.endswith("}\n"), f"gpt_vectors: status {done.returncode}: {last_words(done.err or done.out)}")
    c.metrics.update(json.loads(done.out.splitlines()[-1]))
    need(done.returncode == 0, f"{c.metrics['wrong']} results are wrong, {c.metrics['different']} runs differ: {'; '.join(beyond)}")
    return c.metrics, last_words(done.err)  # of a GPU without bfloat16


def gpt_attention(c):
    """Attention by cuDNN is right, gives the same bits twice, and how fast it is next to the own kernels; a refusal is no fault."""
    c.needs_gpt_cuda()
    done = c.run(c.vectors, c.trainer["gpt"].with_name("gpt_cuda.so"), "attention", *(["quick"] if c.options.quick else []), ok=None)
    refused = []
    for line in done.out.splitlines():
        if line.startswith("{"):
            shape = json.loads(line)
            if "deterministic_back_ms" in shape:
                shape["by_own"] = round((shape["ms"] + shape["deterministic_back_ms"]) / (shape["own_ms"] + shape["own_back_ms"]), 3)
            else:
                refused.append(f"{shape['shape']}: {shape['attention']}")
            c.metrics[shape.pop("shape")] = shape
    need(done.returncode == 0 and c.metrics, f"gpt_vectors: status {done.returncode}: {last_words(done.err or done.out)}")
    return c.metrics, "; ".join(refused)


def gpt_curves(c):
    """examples/gpt trains on the GPU as on the CPU, in bf16 as in fp32, and twice with the same bits."""
    c.needs_gpt_cuda()
    options = ["--log-every=1", *(["--steps=4", *c.shape("quick")[1]] if c.options.quick else ["--steps=30"])]
    gpu, cpu = (c.gpt(*options, f"--device={name}") for name in ("cuda", "cpu"))
    c.metrics["fp32_apart"] = apart(gpu.losses, cpu.losses)
    half = c.gpt(*options, "--device=cuda", "--precision=bf16")
    c.metrics["bf16_apart"] = apart(half.losses, gpu.losses)
    need(c.gpt(*options, "--device=cuda").weights == gpu.weights, "a second training ended with other bits")
    need(c.metrics["fp32_apart"] <= LOSS_APART_MAX, f"the losses differ from the CPU's by {c.metrics['fp32_apart']:.2g}")
    need(c.metrics["bf16_apart"] <= BF16_APART_MAX, f"bf16's losses differ from fp32's by {c.metrics['bf16_apart']:.2g}")
    return c.metrics


def estimated(c, shape):
    """`drover estimate` for examples/gpt in bf16, which has GPT-2's shape -> (parameters, the range of all bytes)"""
    config = c.work / "config.json"
    names = {"n_layer": shape["layers"], "n_embd": shape["channels"], "n_head": shape["heads"], "n_positions": shape["context"]}
    config.write_text(json.dumps({"model_type": "gpt2", "vocab_size": 256, **names}))
    got = json.loads(c.run(c.drover, "estimate", config, "--batch", shape["batch"], "--precision", "bf16", "--json").out)
    return got["model"]["params"], got["low_bytes"], got["high_bytes"]


def torch_speed(c, shape):
    """Tokens/s of the same model in compiled PyTorch -> (them, what PyTorch it is)"""
    left = c.left() - 25  # for gpt again
    done = c.run(c.python(), c.peer, "speed", "cuda", *shape.values(), ok=None, limit_s=max(1.0, left))
    rate = re.search(r"^throughput (\d+) tokens/s", done.out, re.M)
    if done.returncode != 0 or not rate:
        raise Skipped(f"PyTorch: {last_words(done.err or done.out, 1)}")
    return int(rate[1]), done.out.splitlines()[0]


def gpt_speed(c, name):
    """Tokens/s, MFU and memory of examples/gpt at the size of a GPT-2, next to compiled PyTorch."""
    c.needs_gpt_cuda()
    shape, options = c.shape(name)
    options += ["--device=cuda", "--log-every=10"]
    before = int(c.run("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits").out.split()[0]) << 20
    bf16 = [*options, "--precision=bf16", f"--steps={10 if c.options.quick else 40}"]
    half = c.gpt(*bf16)
    params, low, high = estimated(c, shape)
    c.metrics.update(parameters=params, bf16_tokens_s=half.tokens_s, bf16_mfu=half.mfu, attention=half.attention,
                     loss_bf16=half.losses[0][0], activations=half.activations, allocated=half.allocated, used=half.used, used_before=before,
                     estimate_low=low, estimate_high=high)
    more = half.used - before
    need(-half.allocated // 50 <= more - half.allocated <= BEYOND_ALLOCATED_MAX,
         f"{more} bytes of the device are used, not {half.allocated}")
    need(c.options.quick or low * (1 - ESTIMATE_APART_MAX) <= more <= high * (1 + ESTIMATE_APART_MAX),
         f"{more} bytes of the device are used, but `drover estimate` says {low} to {high}")
    if name == "124m":
        full = c.gpt(*options, "--precision=fp32", "--steps=10")
        c.metrics.update(fp32_tokens_s=full.tokens_s, fp32_mfu=full.mfu, loss_fp32=full.losses[0][0],
                         bf16_by_fp32=round(half.tokens_s / full.tokens_s, 3), loss_apart=apart(half.losses[:1], full.losses))
        need(c.metrics["loss_apart"] <= BF16_APART_MAX, f"bf16's loss after 10 steps differs from fp32's by {c.metrics['loss_apart']:.2g}")
    try:
        rate, what = torch_speed(c, shape)
    except (Failed, Skipped) as e:
        return c.metrics, f"without PyTorch: {e}"
    again = c.gpt(*bf16).tokens_s
    ours = (half.tokens_s + again) / 2  # before and after it, since clocks change
    c.metrics.update(bf16_tokens_s_again=again, torch_tokens_s=rate, by_torch=round(ours / rate, 3))
    if half.mfu is not None:
        c.metrics["torch_mfu"] = round(half.mfu * rate / half.tokens_s, 1)
    return c.metrics, what


def sweep(c, name, device_option, how):
    d = c.work / name
    d.mkdir()
    (d / "s.yaml").write_text(f"""
name: {how['name']}
program: {c.trainer['digits']}
command: ["${{program}}", "{device_option}", "--epochs=3", "${{args}}"]
method: random
run_cap: {how['trials']}
metric: {{name: accuracy, goal: maximize}}
parameters: {{lr: {{distribution: log_uniform_values, min: 1e-3, max: 1e-2}}}}
drover: {{seed: 1, parallel: {how['parallel']}}}
""")
    at = ["--dir", d / "sweeps"]
    c.run(c.drover, "sweep", d / "s.yaml", "--quiet", *at)
    shown = json.loads(c.run(c.drover, "sweep", "show", how["name"], "--json", *at).out)
    states = [t["state"] for t in shown["trials"]]
    need(states == ["done"] * how["trials"], f"the trials are {', '.join(states)}")
    return shown["trials"]


def gpu_sweep(c):
    c.needs_gpu()
    began = time.monotonic()
    trials = sweep(c, "gpu-sweep", "--device=cuda", {"name": "gpu", "trials": 8, "parallel": 8})
    need(min(t["value"] for t in trials) > 0.5, "a trial did not learn")
    return {"trials": len(trials), "s": round(time.monotonic() - began, 2), "best": max(t["value"] for t in trials)}


def ddp(c, backend, ranks):
    """An unmodified DDP script of PyTorch's."""
    if backend == "nccl":
        c.needs_gpu()
    python = c.python()
    (c.work / "ddp.py").write_text(DDP)
    share = [] if backend == "nccl" else ["--gpus", "", "--oversubscribe"]
    out = c.run(c.drover, "run", "-np", ranks, *share, python, c.work / "ddp.py", CHECK_BACKEND=backend).out
    said = re.findall(r"^ddp (\d+) (\d+) (\S+) (\S+)$", out, re.M)
    need(sorted(int(s[0]) for s in said) == list(range(ranks)), f"the ranks said {last_words(out)}")
    need(all(float(s[3]) < float(s[2]) for s in said), "the loss did not fall")
    return {"ranks": ranks, "first_loss": float(said[0][2]), "last_loss": float(said[0][3])}
