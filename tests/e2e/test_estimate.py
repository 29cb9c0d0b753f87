"""`drover estimate`: documented values from the command line, what examples/gpt allocates, config.json and safetensors files, GPUs."""
import json
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
        assert (got["low_bytes"], got["high_bytes"]) == tuple(sum(p[i] for p in found.values()) for i in (0, 1))
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
        assert "llama: 8030261248 parameters, 32 layers of width 4096" in text
        assert re.search(r"^  gradients +1\.87 +18\.70  2 P / N to 2 P \+ 4 P / N$", text, re.M), text
        assert "V: 128256 vocabulary" in text and "flash attention, no recomputation" in text


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
            keep = [w for w in job if not ("--flash" in options and w == "--no-flash")]
            assert json.loads(estimate(*keep, *options, "--gpu", gpu, "--json"))["gpus"][0]["verdict"] == "fits", line


def test_measured_peaks_of_earlier_jobs_correct_the_estimate(drover, estimate, tmp_path):
    command = ["sh", "-c", "sleep 5.4", "train", "--layers", 4]  # the shortest job that is measured runs for 5 s
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    jobs = []
    for batch, mib in ((8, 10240), (16, 14336)):
        (tmp_path / f"gpus-{batch}").write_text(f"gpus 1\ngpu 0 utilization 50\ngpu 0 process 4711 {mib}\n")
        env = {**FAKE_NVML, **state, "DROVER_FAKE_NVML": str(tmp_path / f"gpus-{batch}")}
        jobs.append(drover.start("run", "-np", 1, "--", *command, "--batch-size", batch, env=env))
    for job in jobs:
        _, err = job.communicate(timeout=60)
        assert job.returncode == 0, err
    model = ["--model", "gpt2", "--seq", 1024, "--gpu", "24G"]
    formula = estimate(*model, "--batch", 32, **state)
    text = estimate(*model, "--", *command, "--batch-size", 32, **state)
    total = re.compile(r"^  total +(\S+) +(\S+)$", re.M)
    assert total.search(text).groups() == total.search(formula).groups()
    measured = re.search(r"^  corrected +(\S+) +(\S+)  least squares over 2 measured peaks: (\S+) GiB \+ (\S+) GiB x batch$", text, re.M)
    low, high, fixed, slope = map(float, measured.groups())
    assert slope == 0.5 and high == pytest.approx((fixed + 16) * 1.03, abs=0.02) and low == pytest.approx((fixed + 16) * 0.97, abs=0.02)
    got = json.loads(estimate(*model, "--json", "--", *command, "--batch-size", 32, **state))
    assert got["measured"] == 2 and got["high_bytes"] / GIB == pytest.approx(high, abs=0.01)
    # Another batch than the command's; another option of the program is another job.
    assert json.loads(estimate(*model, "--batch", 16, "--json", "--", *command, **state))["options"]["batch"] == 16
    other = estimate(*model, "--", *command, "--large", **state)
    assert "no peak of this program with these options was measured yet" in other and "corrected" not in other


def test_the_rough_rule_says_that_it_is_one(estimate):
    text = estimate("--rough", 8, 2048, 4096)
    assert text.startswith("0.38 GiB: batch x seq x hidden x 4 B x 1.5\n") and "rough rule" in text


@pytest.mark.parametrize("args, says", [
    ([], "no model"), (["--params", "7GB"], "--params: '7GB'"), (["--params", "0"], "1 to 1000T"), (["--model", "lama"], "unknown model"),
    (["none.json"], "none.json: No such file"), (["--params", "7B", "--precision", "bf17"], "unknown precision 'bf17'"),
    (["--params", "7B", "--zero", "4"], "--zero"), (["--params", "7B", "--recompute", "all"], "--recompute all"),
    (["--params", "7B", "--flash", "--no-flash"], "exclude each other"), (["--params", "7B", "--offload-params"], "ZeRO stage 3"),
    (["--params", "7B", "-np", 6, "--tp", 4], "not a multiple"), (["--layers", 2, "--hidden", 8], "--heads is missing"),
    (["--model", "gpt2", "--layers", 2], "exclude each other"), (["--params", "7B", "--gpu", "80X"], "--gpu"),
    (["--params", "7B", "--gpu", "80"], "less than 1 MiB"), (["--rough", 8, 2048, "x"], "--rough HIDDEN"), (["a.json", "b.json"], "b.json"),
    (["--params", "7B", "--"], "the command after '--' is missing"),
    (["bad.json"], "bad.json: 1:"), (["short.safetensors"], "too short"), (["long.safetensors"], "incomplete"),
    (["huge.safetensors"], "more than 32 MiB"), (["text.safetensors"], "header: 1:"), (["/dev/zero.safetensors"], "No such file")])
def test_bad_input_is_named(drover, tmp_path, args, says):
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "short.safetensors").write_bytes(b"abc")
    (tmp_path / "long.safetensors").write_bytes(struct.pack("<Q", 1 << 62) + b"{}")
    (tmp_path / "text.safetensors").write_bytes(struct.pack("<Q", 4) + b"text")
    with open(tmp_path / "huge.safetensors", "wb") as f:
        f.write(struct.pack("<Q", 40 << 20))
        f.truncate(41 << 20)
    done = drover.run("estimate", *args)
    assert (done.returncode, done.stdout) == (2, "") and says in done.stderr, done.stderr
