"""`drover estimate` counts the parameters of public configurations as transformers does, and those of stored weights."""
import json
import re
import struct
from pathlib import Path

import pytest

# Each line: the configuration as the public config.json says it, and what transformers 5.24 counts for a model that is made of it.
MODELS = {line["model"]: line for line in map(json.loads, (Path(__file__).parent / "estimate_models.jsonl").read_text().splitlines())}


@pytest.fixture
def count(drover, tmp_path):
    def run(config, *files):
        (tmp_path / "config.json").write_text(json.dumps(config))
        done = drover.run("estimate", *(files or [tmp_path / "config.json"]), "--json", "--gpu", "80G")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["model"]

    return run


@pytest.mark.parametrize("name", MODELS)
def test_the_count_is_that_of_transformers(count, name):
    got = count(MODELS[name]["config"])
    assert (got["params"], got["approximate"]) == (MODELS[name]["params"], False)


def test_the_record_has_what_transformers_counts():
    transformers, torch = pytest.importorskip("transformers", reason="the peer is transformers"), pytest.importorskip("torch")
    for name, line in MODELS.items():
        config = dict(line["config"])
        made = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
        with torch.device("meta"):
            model = getattr(transformers, config["architectures"][0])(made)
        model.tie_weights()
        assert sum(p.numel() for p in model.parameters()) == line["params"], name


LLAMA = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100, "rms_norm_eps": 1e-6,
         "tie_word_embeddings": False}


def test_an_unknown_type_is_counted_by_its_keys_and_said_to_be_approximate(count, drover, tmp_path):
    known, unknown = count({"model_type": "llama", **LLAMA}), count({"model_type": "new-one", **LLAMA})
    assert unknown["approximate"] and not known["approximate"] and unknown["params"] == known["params"]
    assert drover.run("estimate", tmp_path / "config.json", "--gpu", "80G").stdout.startswith("new-one: about ")
    nested = count({"model_type": "new-vision", "text_config": {"model_type": "llama", **LLAMA},
                    "vision_config": {"model_type": "clip_vision_model", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
                                      "intermediate_size": 64, "image_size": 28, "patch_size": 14}})
    assert nested["approximate"] and nested["params"] > known["params"]


def test_parts_without_a_type_and_unknown_pairs_of_encoder_and_decoder_are_counted(count):
    vision = {"depth": 4, "embed_dim": 64, "num_heads": 4, "hidden_size": 128, "patch_size": 14, "mlp_ratio": 4}
    got = count({"model_type": "new-vl", **LLAMA, "vision_config": vision})
    assert got["approximate"] and got["params"] > count({"model_type": "llama", **LLAMA})["params"] + 4 * 12 * 64 * 64
    sound = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 256, "vocab_size": 8}
    heard = count({"model_type": "new-audio", "text_config": {"model_type": "llama", **LLAMA}, "audio_config": sound})
    assert heard["approximate"] and heard["params"] > count({"model_type": "llama", **LLAMA})["params"] + 4 * 12 * 64 * 64
    plain = count({"model_type": "new-relu", **LLAMA, "hidden_act": "relu2"})
    assert plain["params"] == count({"model_type": "llama", **LLAMA})["params"] - 2 * 64 * 96
    half = count({**MODELS["bart-large"]["config"], "architectures": ["BartForCausalLM"]})
    assert half["approximate"] and 0.5 < half["params"] / MODELS["bart-large"]["params"] < 0.7
    off = {"num_experts": 1000, "num_experts_per_tok": 8, "is_moe": False}
    assert count({"model_type": "new-one", **LLAMA, **off})["params"] == count({"model_type": "llama", **LLAMA})["params"]
    pair = MODELS["opus-mt-en-de"]
    got = count({**pair["config"], "model_type": "new-translation"})
    assert got["approximate"] and 0.9 < got["params"] / pair["params"] < 1.1


@pytest.mark.parametrize("change, says", [
    ({"model_type": "mamba", "state_size": 16}, "'state_size': layers with a state"), ({"model_type": "resnet", "hidden_sizes": [64, 128]}, "'hidden_sizes'"),
    ({"model_type": "funnel", "block_sizes": [4, 4]}, "'block_sizes'"), ({"model_type": "gemma4", "vocab_size_per_layer_input": 9}, "each layer"),
    ({"model_type": "jamba", "mamba_d_state": 16}, "'mamba_d_state'"), ({"model_type": "x", "num_attention_heads": None}, "'num_attention_heads': missing"),
    ({"model_type": "x", "vocab_size": None}, "'vocab_size': missing"), ({"model_type": "qwen3_next", "linear_num_value_heads": 32}, "linear attention"),
    ({"model_type": "llama", "intermediate_size": None}, "'intermediate_size': missing"), ({"model_type": "x", "num_experts": 8}, "'num_experts_per_tok': missing"),
    ({"model_type": "llama", "quantization_config": {"quant_method": "aqlm", "num_codebooks": 1}}, "'quantization_config': unknown form")])
def test_what_cannot_be_counted_is_named(drover, tmp_path, change, says):
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, **change}))
    done = drover.run("estimate", tmp_path / "config.json")
    assert (done.returncode, done.stdout) == (2, "") and says in done.stderr and "try:" in done.stderr, done.stderr


def write(path, tensors):
    bits = {"U8": 8, "I8": 8, "I32": 32, "BF16": 16, "F16": 16, "F32": 32, "F8_E4M3": 8}
    header, at = {}, 0
    for name, (kind, shape) in tensors.items():
        size = bits[kind] // 8
        for n in shape:
            size *= n
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)


FORMS = [
    (4.12, {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False}), (8, {"load_in_4bit": False, "load_in_8bit": True}),
    (4.12, {"quant_method": "gptq", "bits": 4}), (4.12, {"quant_method": "awq", "w_bit": 4}), (8, {"quant_method": "fp8", "weight_block_size": [128, 128]}),
    (4.12, {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4}}}), (8, {"quant_method": "quanto", "weights": "int8"}),
    (4.12, {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4}}}}),
    (4.5, {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "config_groups": {"group_0": {"weights": {"num_bits": 4}}}}),
    (4.5, {"quant_method": "modelopt", "quant_algo": "NVFP4"}), (8, {"quant_method": "modelopt", "quant_algo": "FP8"}), (4.25, {"quant_method": "mxfp4"}),
    (4.12, {"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig"}}}), (2, {"quant_method": "bitnet"}), (0, {}), (0, None)]


@pytest.mark.parametrize("bits, form", FORMS)
def test_a_config_says_in_which_form_the_layers_are_stored(drover, count, tmp_path, bits, form):
    config = {**MODELS["llama-3-8b"]["config"], "quantization_config": form}
    assert 8 * count(config)["stored_bytes"] == pytest.approx(bits, abs=0.01)
    done = drover.run("estimate", tmp_path / "config.json", "--lora", 8, "--json", "--gpu", "80G")
    got = next(p for p in json.loads(done.stdout)["parts"] if p["name"] == "parameters")["low_bytes"]
    words = 2 * 128256 * 4096  # embeddings and output have 16 bit
    adapters = json.loads(done.stdout)["options"]["trainable"]
    assert got == pytest.approx(2 * (words + adapters) + (bits or 16) / 8 * (MODELS["llama-3-8b"]["params"] - words), rel=0.002)


MATRIX = 256 * 512
STORED = {
    "bitsandbytes 4 bit": {".weight": ("U8", [MATRIX // 2, 1]), ".weight.absmax": ("U8", [MATRIX // 64]), ".weight.quant_map": ("F32", [16]),
                           ".weight.nested_absmax": ("F32", [8]), ".weight.nested_quant_map": ("F32", [256]), ".weight.quant_state.bitsandbytes__nf4": ("U8", [80])},
    "bitsandbytes 8 bit": {".weight": ("I8", [256, 512]), ".SCB": ("F32", [256]), ".weight_format": ("U8", [1])},
    "GPTQ 4 bit": {".qweight": ("I32", [512 // 8, 256]), ".qzeros": ("I32", [4, 32]), ".scales": ("F16", [4, 256]), ".g_idx": ("I32", [512])},
    "GPTQ 8 bit": {".qweight": ("I32", [512 // 4, 256]), ".qzeros": ("I32", [4, 64]), ".scales": ("F16", [4, 256]), ".g_idx": ("I32", [512])},
    "AWQ": {".qweight": ("I32", [512, 256 // 8]), ".qzeros": ("I32", [4, 32]), ".scales": ("F16", [4, 256])},
    "compressed-tensors": {".weight_packed": ("I32", [256, 64]), ".weight_scale": ("BF16", [256, 4]), ".weight_shape": ("I32", [2])},
    "fp8": {".weight": ("F8_E4M3", [256, 512]), ".weight_scale_inv": ("F32", [2, 4])},
    "MXFP4": {"_blocks": ("U8", [256, 16, 16]), "_scales": ("U8", [256, 16])},
}


@pytest.mark.parametrize("kind", STORED)
def test_packed_weights_count_as_the_weights_that_they_hold(drover, tmp_path, kind):
    tensors = {"model.layers.0.q_proj" + end: t for end, t in STORED[kind].items()}
    write(tmp_path / "model.safetensors", {**tensors, "norm.weight": ("BF16", [512])})
    done = drover.run("estimate", tmp_path / "model.safetensors", "--json", "--gpu", "80G")
    got = json.loads(done.stdout)["model"]
    assert got["params"] == MATRIX + 512
    bits = 8 if "8" in kind else 4
    assert bits <= 8 * got["stored_bytes"] < 1.2 * bits


def test_what_files_hold_counts_more_than_what_their_config_says(drover, tmp_path):
    tensors = {"model.layers.0.q_proj" + end: t for end, t in STORED["GPTQ 4 bit"].items()}
    write(tmp_path / "model.safetensors", tensors)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **LLAMA, "quantization_config": {"quant_method": "aqlm"}}))
    text = drover.run("estimate", tmp_path / "model.safetensors", "--gpu", "80G").stdout
    assert re.search(r"parameters stored in 4\.\d+ bits, 2 layers", text), text


def test_a_model_that_lies_there_twice_counts_once(drover, tmp_path):
    names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    for i, name in enumerate(names):
        write(tmp_path / name, {f"model.layers.{i}.w": ("BF16", [1024])})
    for whole in ("consolidated.safetensors", "model.safetensors"):
        write(tmp_path / whole, {"layers.0.w": ("BF16", [1024]), "layers.1.w": ("BF16", [1024])})

    def params(*files):
        return json.loads(drover.run("estimate", *[tmp_path / f for f in files], "--json", "--gpu", "80G").stdout)["model"]["params"]

    assert params(*names, "consolidated.safetensors") == params("consolidated.safetensors", *names, "model.safetensors") == 2048
    assert params("consolidated.safetensors", "model.safetensors") == params("consolidated.safetensors") == 2048


def test_an_adapter_is_no_model(drover, tmp_path):
    write(tmp_path / "adapter_model.safetensors", {f"base_model.model.layers.0.q_proj.lora_{x}.weight": ("F32", [16, 64]) for x in "AB"})
    done = drover.run("estimate", tmp_path / "adapter_model.safetensors")
    assert done.returncode == 2 and "an adapter of 2048 parameters, not a model" in done.stderr


@pytest.mark.parametrize("params, first", [("7B", "7B parameters;"), ("350M", "350M parameters;"), ("8030261248", "8.03B parameters;"), ("999", "999 parameters;")])
def test_counts_are_printed_as_users_write_them(drover, params, first):
    line = drover.run("estimate", "--params", params, "--gpu", "80G").stdout.splitlines()[0]
    assert line.startswith(first) and not re.search(r"\d{4}", line)
