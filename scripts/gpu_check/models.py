"""A step of scripts/gpu-check: the memory of real models, next to `drover estimate`."""
import json
from pathlib import Path

from gpu_check.kit import Failed, Skipped, need
from gpu_check.trainers import ESTIMATE_APART_MAX

PROGRAM = Path(__file__).with_name("model_memory.py")
MODES = {"amp": ["--precision", "bf16"], "pure": ["--precision", "bf16", "--no-master"], "fp32": ["--precision", "fp32"]}


def gib(n):
    return round(n / 2**30, 2)


def estimated(c, line, config):
    """What `drover estimate` says of a measured case, as fields of its line."""
    recompute = ["--recompute", "block"] if line["recompute"] else []
    got = json.loads(c.run(c.drover, "estimate", config, "--batch", line["b"], "--seq", line["s"], *MODES[line["mode"]], *recompute, "--json").out)
    low, high = got["low_bytes"], got["high_bytes"]
    return {"est_params": got["model"]["params"], "low_gib": gib(low), "high_gib": gib(high),
            "used_by_middle": round(2 * line["used_gib"] / (gib(low) + gib(high)), 3),
            "parts": {p["name"]: [gib(p["low_bytes"]), gib(p["high_bytes"])] for p in got["parts"]}}


def apart(line):
    """What is wrong with a case; None: nothing."""
    if line["error"]:
        return line["error"]
    if line["params"] != line["est_params"]:
        return f"{line['params']} parameters, but `drover estimate` says {line['est_params']}"
    if not line["low_gib"] * (1 - ESTIMATE_APART_MAX) <= line["used_gib"] <= line["high_gib"] * (1 + ESTIMATE_APART_MAX):
        return f"{line['used_gib']} GiB are used, but `drover estimate` says {line['low_gib']} to {line['high_gib']}"
    return None


def model_memory(c):
    """The peak memory of five models of Hugging Face lies in the range of `drover estimate`. Writes a JSON line per model next
    to the record."""
    c.needs_gpu()
    python = c.python()
    find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('transformers') is None)"
    if c.run(python, "-c", find, ok=None).returncode != 0:
        raise Skipped(f"{python} has no transformers")
    measured, configs, beside = c.work / "models.jsonl", c.work / "models", Path(c.options.out).resolve()
    beside = beside.with_name(f"{beside.stem}-memory.jsonl")
    why = ""
    try:
        c.run(python, PROGRAM, measured, configs, limit_s=c.left() - 3)  # the rest is for the estimates
    except Failed as e:
        why = str(e)
    lines = [json.loads(line) for line in measured.read_text().splitlines()] if measured.exists() else []
    need(lines, why or "model_memory.py measured nothing")
    wrong = [why] if why else []
    c.metrics.update(lines[0], file=beside.name)
    with beside.open("w", encoding="utf-8") as f:
        print(json.dumps(lines[0]), file=f)
        for line in lines[1:]:
            if not line["error"]:
                line.update(estimated(c, line, configs / f"{line['case']}.json"))
                c.metrics[line["case"]] = {name: line[name] for name in ("used_gib", "low_gib", "high_gib")}
            print(json.dumps(line), file=f, flush=True)
            if apart(line):
                wrong.append(f"{line['case']}: {apart(line)}")
    need(not wrong, "; ".join(wrong))
    return c.metrics
