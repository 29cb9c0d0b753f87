"""`drover estimate`: documented values from the command line, what examples/gpt allocates, config.json and safetensors files, GPUs."""
import json
import os
import math
import random
import re
import struct
import subprocess

import pytest
from kit_ranks import BUILD, clean_env

GIB = 1 << 30
GPT = BUILD / "examples/gpt/gpt"
FAKE_NVML = {"DROVER_NVML_LIB": str(BUILD / "tests/fake/libnvidia-ml.so.1")}
STATES = "parameters", "gradients", "optimizer state", "master weights"


@pytest.fixture
def estimate(drover):
    def run(*args, **env):
        done = drover.run("estimate", *args, env=env)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout

    return run


@pytest.fixture
def parts(estimate):
    """{part: (low, high)} in bytes"""
    def run(*args):
        got = json.loads(estimate(*args, "--json", "--gpu", "80G"))
        found = {p["name"]: (p["low_bytes"], p["high_bytes"]) for p in got["parts"]}
        for end in ("low_bytes", "expected_bytes", "high_bytes"):
            assert got[end] == max(p[end] for p in got["phases"])
        return found

    return run


@pytest.mark.parametrize("options, gib", [(["--zero", 2], "15.93"), (["--zero", 2, "--offload"], "5.31"), (["--zero", 3], "6.09"),
                                          (["--zero", 3, "--offload"], "0.78"), (["--zero", 3, "--offload-params"], "0.12")])
def test_model_states_are_those_that_deepspeed_documents(parts, options, gib):
    found = parts("--params", "2851e6", "--largest-layer", "32M", "-np", 8, "--precision", "fp16", *options)
    assert f"{sum(found[name][1] for name in STATES) / GIB:.2f}" == gib


@pytest.mark.parametrize("ranks, options", [(1, []), (1, ["--precision=bf16"]), (1, ["--recompute"]), (3, ["--zero=1"]),
                                            (2, ["--zero=1", "--precision=bf16", "--recompute"])],
                         ids=["fp32", "bf16", "recompute", "zero", "all"])
def test_the_range_has_what_a_trainer_allocates(parts, tmp_path, ranks, options):
    """examples/gpt has GPT-2's shape and says what it allocates."""
    layers, channels, heads, context = 12, 96, 4, 64
    argv = [GPT, f"--layers={layers}", f"--channels={channels}", f"--heads={heads}", f"--context={context}", "--batch=3", "--steps=1", *options]
    done = subprocess.run([BUILD / "bin/drover", "run", "--oversubscribe", "-np", str(ranks), "--", *argv], env=clean_env(), text=True,
                          capture_output=True, timeout=60, check=True)
    printed = re.search(r"^memory (\d+) bytes of activations, (\d+) bytes of optimizer state, \d+ bytes .*\n"
                        r"parameters (\d+) bytes, gradients (\d+) bytes$", done.stdout, re.M)
    activations, state, parameters, gradients = map(int, printed.groups())
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_layer": layers, "n_embd": channels, "n_head": heads,
                                                      "n_positions": context, "vocab_size": 256}))
    words = {"--zero=1": ["--zero", 1], "--precision=bf16": ["--precision", "bf16"], "--recompute": ["--recompute", "block"]}
    chosen = [w for o in options for w in words[o]]
    found = parts(tmp_path, "--batch", 3, "-np", ranks, *(chosen if "--precision=bf16" in options else ["--precision", "fp32", *chosen]))

    def bounds(*names):
        return [sum(found[name][i] for name in names) for i in (0, 1)]

    padding = 1.001  # of a bucket, to equal parts
    assert bounds("parameters")[0] <= parameters <= padding * bounds("parameters")[1]
    assert bounds("gradients")[0] <= gradients <= padding * bounds("gradients")[1]
    assert bounds("optimizer state", "master weights")[0] <= state <= padding * bounds("optimizer state", "master weights")[1]
    low, high = bounds("activations", "logits")[0], bounds("activations", "logits", "fragmentation")[1]
    # It allocates each block once, without fragments; what a model has once counts more with 12 layers than with more.
    assert low <= activations <= 1.05 * high, (low, activations, high)


# Public shapes, and the parameters that `transformers` counts for a model that is made of each.
CONFIGS = {
    "gpt2": (124439808, {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 12, "n_embd": 768, "n_head": 12, "n_inner": None,
                         "n_positions": 1024, "vocab_size": 50257, "resid_pdrop": 0.1, "task_specific_params": {"text-generation": {"max_length": 50}}}),
    "llama": (8030261248, {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 32, "hidden_size": 4096,
                           "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
                           "max_position_embeddings": 8192, "attention_bias": False, "rope_scaling": None, "tie_word_embeddings": False}),
    "qwen2": (494032768, {"model_type": "qwen2", "num_hidden_layers": 24, "hidden_size": 896, "num_attention_heads": 14, "num_key_value_heads": 2,
                          "intermediate_size": 4864, "vocab_size": 151936, "max_position_embeddings": 131072, "tie_word_embeddings": True}),
    "gemma": (2506172416, {"model_type": "gemma", "num_hidden_layers": 18, "hidden_size": 2048, "num_attention_heads": 8, "num_key_value_heads": 1,
                           "head_dim": 256, "intermediate_size": 16384, "vocab_size": 256000, "max_position_embeddings": 8192}),
    "mixtral": (46702792704, {"model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
                              "intermediate_size": 14336, "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2}),
    "bert": (109482240, {"model_type": "bert", "architectures": ["BertModel"], "num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12,
                         "intermediate_size": 3072, "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12}),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_gives_the_known_number_of_parameters(estimate, tmp_path, name):
    params, config = CONFIGS[name]
    (tmp_path / "config.json").write_text(json.dumps(config, indent=2))
    assert json.loads(estimate(tmp_path / "config.json", "--json"))["model"]["params"] == params


def test_a_config_is_read_and_explained(estimate, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS["llama"][1]))
    for place in (tmp_path, tmp_path / "config.json"):
        text = estimate(place, "--batch", 4, "--explain", "--gpu", "80G", "-np", 8, "--zero", 2)
        assert "llama: 8.03B parameters, 32 layers of width 4096" in text
        assert re.search(r"^  gradients +1\.87 +5\.61 +18\.70  2 P / N to 2 P \+ 4 P / N, at most 4 P$", text, re.M), text
        assert "V: 128256 vocabulary" in text and "flash attention, no recomputation" in text


@pytest.mark.parametrize("options", [["--model", "gpt2", "--batch", 2], ["--model", "llama-3-8b", "--qlora"], ["--model", "llama-3-8b", "--no-flash", "--tp", 2, "--pp", 2],
                                     ["--model", "gpt2", "--recompute", "block", "--loss", "chunked"], ["--model", "llama-3-8b", "--cp", 2, "--loss", "fused"]])
def test_activations_and_logits_are_what_their_explanation_says(estimate, options):
    text = estimate(*options, "--explain", "--gpu", "80G")
    number = {name: float(re.search(rf"\b{name}: (?:width )?(\d+)", text)[1]) for name in "bsLhV"}
    for part, unit in ("activations", "Lsbh"), ("one layer", "sbh"), ("logits", "sbV"):
        row = re.search(rf"^  {part} +(\S+) +(\S+) +(\S+)  (\S+) to (\S+) \((\S+)\) {' '.join(unit)}", text, re.M)
        low, expected, high, *of = map(float, row.groups())
        size = math.prod(number[c] for c in unit) / GIB
        for gib, share in zip((low, high, expected), of):
            assert gib == pytest.approx(share * size, abs=0.006, rel=0.001), (part, text)


def write_safetensors(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))


def test_safetensors_files_are_counted(estimate, drover, tmp_path):
    files = [tmp_path / f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    write_safetensors(files[0], {"wte.weight": ("BF16", [100, 8], 1600), "h.0.w": ("F32", [50], 200)})
    write_safetensors(files[1], {"h.1.w": ("F8_E4M3", [30], 30), "ids": ("I64", [4], 32)})
    assert "880 parameters;" in estimate(*files)
    done = drover.run("estimate", files[0])
    assert done.returncode == 2 and "one of 2 files" in done.stderr and "*-of-00002.safetensors" in done.stderr
    os.mkfifo(tmp_path / "pipe.safetensors")  # opening it would wait
    done = drover.run("estimate", tmp_path / "pipe.safetensors")
    assert done.returncode == 2 and "pipe.safetensors: not a regular file" in done.stderr
    # The config next to them has the shape, and the files the number.
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "n_positions": 16, "vocab_size": 100}))
    assert "gpt2: 880 parameters, 2 layers of width 8" in estimate(*files)


def test_gpus_of_this_machine_are_compared(estimate):
    gpus = ";".join(f"GPU-{i},NVIDIA A,0{i},{total},{free}" for i, (total, free) in enumerate(((81920, 81920), (81920, 20480), (40960, 40960))))
    text = estimate("--model", "gpt2-xl", "--batch", 4, "--seq", 1024, **FAKE_NVML, DROVER_FAKE_GPUS=gpus)
    lines = text.splitlines()
    assert "GPU 0, NVIDIA A (80.0 GiB usable): fits" in lines
    assert "GPU 1, NVIDIA A (80.0 GiB usable): fits; now: does not fit, 19.4 GiB are free" in lines  # 600 MiB are the driver's
    assert "GPU 2, NVIDIA A (40.0 GiB usable): close" in lines  # advice is for the smallest
    assert "what would fit, cheapest first:" in lines and any(line.startswith("  --batch ") for line in lines)


def test_without_a_gpu_nothing_is_compared(estimate):
    text = estimate("--params", "7B", DROVER_NVML_LIB="/none")
    assert text.endswith("no GPU on this machine to compare with (try: --gpu 80G)\n")


def test_each_advice_fits_when_it_is_followed(estimate):
    job = ["--model", "llama-2-7b", "--batch", 16, "-np", 8, "--no-flash", "--precision", "fp32"]
    for gpu in ("16G", "24G", "40G", "80G", "141G"):
        got = json.loads(estimate(*job, "--gpu", gpu, "--json"))
        assert got["advice"] and got["gpus"][0]["verdict"] != "fits"
        for line in got["advice"]:
            options = line.split(":")[0].split()
            assert json.loads(estimate(*job, *options, "--gpu", gpu, "--json"))["gpus"][0]["verdict"] == "fits", line


def test_400_random_jobs_are_advised_by_what_fits(estimate):
    """Each line of advice, appended as it is printed to the user's own, gives the figures that it promises, and fits."""
    r, lines, flash = random.Random(50), 0, 0

    def ask(*words):
        return json.loads(estimate(*words, "--json"))

    for _ in range(400):
        job = {"--model": r.choice(["gpt2-xl", "llama-3-8b", "llama-2-70b", "mixtral-8x7b", "qwen2-0.5b", "bert-large", "qwen3-30b-a3b"]),
               "--batch": r.choice([1, 4, 16, 64]), "--gpu": r.choice(["16G", "RTX 4090", "H100", "B200"]), "-np": r.choice([1, 4, 8]),
               "--zero": r.choice([0, 2, 3]), "--precision": r.choice(["fp32", "bf16", "fp8"]), "--loss": r.choice(["eager", "chunked", "fused"]),
               "--optimizer": r.choice(["adamw", "paged_adamw_8bit", "adamw_torch", "sgd"]), "--accumulate": r.choice([1, 4])}
        more = r.choice([[], ["--no-flash"], ["--no-flash", "--recompute", "selective"], ["--lora", 16], ["--qlora"], ["--step-in-backward", "--accumulate", 1], ["--cp", 2, "-np", 8]])
        argv = [x for pair in job.items() for x in pair] + more
        got = ask(*argv)
        for line in got["advice"]:
            words, rest = line.split(": ", 1)
            changed, lines, flash = argv + words.split(), lines + 1, flash + ("--flash" in words)
            low, high = map(float, re.match(r"([\d.]+) to ([\d.]+) GiB; ", rest).groups())
            then = ask(*changed)
            assert then["gpus"][0]["verdict"] == "fits", (argv, line)
            assert then["low_bytes"] / GIB == pytest.approx(low, abs=0.06) and then["high_bytes"] / GIB == pytest.approx(high, abs=0.06)
            if got["gpus"][0]["verdict"] == "fits":
                assert ask(*changed, "--batch", then["options"]["batch"] + 1)["gpus"][0]["verdict"] != "fits", (argv, line)
    assert lines > 200 and flash > 10


def test_fine_tuning_needs_less_than_training(estimate):
    def gib(*more):
        return json.loads(estimate("--model", "meta-llama/Llama-3.1-8B-Instruct", "--batch", 2, "--recompute", "block", "--loss", "chunked", *more, "--gpu", "RTX 4090", "--json"))["expected_bytes"] / GIB

    full, lora, qlora = gib(), gib("--lora", 8), gib("--qlora")
    assert full > 100 > 30 > lora > 16 > 12 > qlora > 6
    text = estimate("--model", "llama-3-8b", "--lora", 8, "--lora-targets", "q_proj,v_proj", "--explain", "--gpu", "24G")
    assert "LoRA of rank 8" in text and "T: those that are trained, 3407872;" in text


def test_a_gpu_is_given_by_its_name_and_number(estimate, drover):
    got = json.loads(estimate("--params", "7B", "--gpu", "8xH100", "--json"))
    assert got["gpus"][0]["name"] == "H100" and got["gpus"][0]["usable_bytes"] == 81559 << 20 and got["options"]["ranks"] == 8
    done = drover.run("estimate", "--params", "7B", "--gpu", "H1O0")
    assert done.returncode == 2 and "--gpu: 'H1O0' is neither a size nor a known GPU" in done.stderr and "--gpu 80G" in done.stderr and "H100" in done.stderr


def test_advice_keeps_to_the_memory_of_the_host(estimate):
    job = ["--model", "llama-2-7b", "--gpu", "A100-40G", "--json"]
    free, little = (json.loads(estimate(*job, *more))["advice"] for more in ((), ("--host-memory", "64G")))
    assert any("--offload" in line and "GiB of host memory per rank" in line for line in free)
    assert not any("--offload" in line for line in little)
    text = estimate("--model", "llama-3-8b", "--offload", "--gpu", "H100", "--host-memory", "64G")
    assert re.search(r"host memory per rank: 179\.\d+ GiB, more than there is", text), text


def test_experts_and_tokens_are_divided_among_ranks(parts):
    job = ["--model", "qwen3-30b-a3b", "--seq", 2048, "-np", 8]
    whole, experts, context = parts(*job), parts(*job, "--ep", 8), parts(*job, "--cp", 4)
    assert experts["parameters"][0] < 0.2 * whole["parameters"][0]
    assert context["activations"][0] == pytest.approx(whole["activations"][0] / 4, rel=0.01)
    assert context["parameters"] == whole["parameters"]


def test_measured_peaks_of_earlier_jobs_correct_the_estimate(drover, estimate, tmp_path):
    own = 'sleep 5.4 & echo GPU-00000000-0000-0000-0000-000000000000 $$ $MIB >$DROVER_FAKE_GPU_USERS; wait'
    command = ["sh", "-c", own, "train", "--layers", 4]  # the shortest job that is measured runs for 5 s
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    jobs = []
    for batch, mib in ((8, 10240), (16, 14336), (24, "-")):  # another process has 9 GiB; of the last job it is not told
        (tmp_path / f"gpus-{batch}").write_text("gpus 1\ngpu 0 utilization 50\ngpu 0 process 1 9216\n")
        env = {**FAKE_NVML, **state, "DROVER_FAKE_NVML": str(tmp_path / f"gpus-{batch}"), "MIB": str(mib),
               "DROVER_FAKE_GPU_USERS": str(tmp_path / f"users-{batch}")}
        jobs.append(drover.start("run", "-np", 1, "--", *command, "--batch-size", batch, env=env))
    for job in jobs:
        _, err = job.communicate(timeout=60)
        assert job.returncode == 0, err
    model = ["--model", "gpt2", "--seq", 1024, "--gpu", "24G"]
    formula = estimate(*model, "--batch", 32, **state)
    text = estimate(*model, "--", *command, "--batch-size", 32, **state)
    total = re.compile(r"^  total +(\S+) +(\S+) +(\S+)$", re.M)
    assert total.search(text).groups() == total.search(formula).groups()
    measured = re.search(r"^  corrected +(\S+) +\S+ +(\S+)  least squares over the peaks of 2 jobs: (\S+) GiB \+ (\S+) GiB x batch$", text, re.M)
    low, high, fixed, slope = map(float, measured.groups())
    assert fixed == pytest.approx(6, abs=0.01) and slope == 0.5 and high == pytest.approx((fixed + 16) * 1.03, abs=0.02) and low == pytest.approx((fixed + 16) * 0.97, abs=0.02)
    got = json.loads(estimate(*model, "--json", "--", *command, "--batch-size", 32, **state))
    assert got["left_out"] == "1 earlier job does not count: 1 whose own peak is unknown" and got["left_out"] in text
    two = estimate(*model, "-np", 2, "--", *command, "--batch-size", 32, **state)
    assert "corrected" not in two and "not count: 2 with another number of GPUs (-np), 1 whose" in two
    assert got["measured"] == 2 and got["high_bytes"] / GIB == pytest.approx(high, abs=0.01)
    # Another batch than the command's; another option of the program is another job.
    assert json.loads(estimate(*model, "--batch", 16, "--json", "--", *command, **state))["options"]["batch"] == 16
    other = estimate(*model, "--", *command, "--large", **state)
    assert "no peak of this program alone with these options was measured yet" in other and "corrected" not in other


def test_the_rough_rule_says_that_it_is_one(estimate):
    text = estimate("--rough", 8, 2048, 4096)
    assert text.startswith("0.38 GiB: batch x seq x hidden x 4 B x 1.5\n") and "rough rule" in text


@pytest.mark.parametrize("args, says", [
    ([], "no model"), (["--params", "7GB"], "--params: '7GB'"), (["--params", "0"], "1 to 1000T"), (["--model", "lama"], "unknown model"),
    (["none.json"], "none.json: No such file"), (["--params", "7B", "--precision", "bf17"], "unknown precision 'bf17'"),
    (["--params", "7B", "--zero", "4"], "--zero"), (["--params", "7B", "--lora", 8], "adapters need the shape"), (["--model", "gpt2", "--lora-targets", "q"], "needs --lora"),
    (["--model", "gpt2", "--lora", 8, "--lora-targets", "q,x"], "unknown matrix 'x'"), (["--model", "gpt2", "--loss", "liger"], "unknown loss 'liger'"),
    (["--model", "gpt2", "--lora", 8, "--trainable", "5M"], "the rank gives their number; remove one of the two"),
    (["--model", "gpt2", "--trainable", "1B"], "the model has 124439808"), (["--model", "gpt2", "--ep", 2, "-np", 2], "expert parallelism 2: 0 experts"),
    (["--model", "gpt2", "--lora", 8, "--lora-targets", "zz"], "'--lora-targets': unknown matrix 'zz'\n  try: q, k, v,"), (["zero.json"], "missing or 0"),
    (["--params", "7B", "--trainable", "x"], "'--trainable': 'x'"), (["--params", "7B", "--gpu", "0"], "neither a size"),
    (["--model", "gpt2", "-np", 6, "--cp", 4], "tensor x pipeline x context"), (["--params", "7B", "--recompute", "all"], "'--recompute': unknown recompute 'all'"),
    (["--params", "7B", "--step-in-backward", "--accumulate", 2], "2 micro-batches"), (["--params", "7B", "--offload-params"], "ZeRO stage 3"),
    (["--model", "bert-base", "--lora", 8, "--lora-targets", "gate"], "adapters on 'gate': the MLP of the model has no such matrix\n  try: of q, k, v, o, up, down"),
    (["--params", "7B", "-np", 6, "--tp", 4], "not a multiple"), (["--layers", 2, "--hidden", 8], "--heads is missing"),
    (["--model", "gpt2", "--layers", 2], "exclude each other"), (["--params", "7B", "--gpu", "80X"], "--gpu"),
    (["--params", "7B", "--gpu", "80"], "less than 1 MiB"), (["--rough", 8, 2048, "x"], "'--rough': HIDDEN"), (["a.json", "b.json"], "b.json"),
    (["--params", "7B", "--"], "the command after '--' is missing"),
    (["bad.json"], "bad.json: 1:"), (["short.safetensors"], "too short"), (["long.safetensors"], "incomplete"),
    (["huge.safetensors"], "more than 32 MiB"), (["text.safetensors"], "header: 1:"), (["/dev/zero.safetensors"], "No such file")])
def test_bad_input_is_named(drover, tmp_path, args, says):
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "zero.json").write_text(json.dumps({**CONFIGS["llama"][1], "num_hidden_layers": 0}))
    (tmp_path / "short.safetensors").write_bytes(b"abc")
    (tmp_path / "long.safetensors").write_bytes(struct.pack("<Q", 1 << 62) + b"{}")
    (tmp_path / "text.safetensors").write_bytes(struct.pack("<Q", 4) + b"text")
    with open(tmp_path / "huge.safetensors", "wb") as f:
        f.write(struct.pack("<Q", 40 << 20))
        f.truncate(41 << 20)
    done = drover.run("estimate", *args)
    assert (done.returncode, done.stdout) == (2, "") and says in done.stderr, done.stderr
