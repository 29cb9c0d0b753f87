#!/usr/bin/env python3
"""The peak memory of training models of Hugging Face, with random weights: `model_memory` of scripts/gpu-check.

    model_memory.py OUT FOLDER [CASE …]

Appends to OUT one JSON object for the machine, and one per case as soon as it is measured; writes each model's
config.json as FOLDER/CASE.json. Three steps with AdamW. Modes: `amp`: fp32 weights, products in bf16 by autocast; `pure`:
all in bf16; `fp32`. Sizes are GiB: `alloc_gib` and `reserved_gib` are the peaks of PyTorch's allocator, `used_gib` is the
reserved memory with the context of CUDA and the libraries. Needs torch and transformers."""
import gc
import json
import sys
import time
from pathlib import Path

GPT2_LARGE = {"n_embd": 1280, "n_layer": 36, "n_head": 20}
LLAMA_1B = {"vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
            "num_key_value_heads": 8, "max_position_embeddings": 8192, "tie_word_embeddings": True}
ROBERTA_LARGE = {"vocab_size": 50265, "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
                 "max_position_embeddings": 514, "type_vocab_size": 1}
MIXTRAL_SMALL = {"vocab_size": 32000, "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 8, "num_attention_heads": 16,
                 "num_key_value_heads": 4, "num_local_experts": 8, "max_position_embeddings": 4096}
# Each case: the configuration's class, what it is told, the model's class, sequences, tokens, the mode, recomputation.
CASES = {
    "gpt2": ("GPT2Config", {}, "GPT2LMHeadModel", 16, 1024, "amp", False),
    "bert-base": ("BertConfig", {}, "BertForMaskedLM", 32, 512, "amp", False),
    "gpt2-large-rc": ("GPT2Config", GPT2_LARGE, "GPT2LMHeadModel", 8, 1024, "amp", True),
    "llama-1b-pure": ("LlamaConfig", LLAMA_1B, "LlamaForCausalLM", 4, 2048, "pure", False),
    "mixtral-small": ("MixtralConfig", MIXTRAL_SMALL, "MixtralForCausalLM", 4, 1024, "amp", False),
    "llama-1b": ("LlamaConfig", LLAMA_1B, "LlamaForCausalLM", 4, 2048, "amp", False),
    "llama-1b-rc": ("LlamaConfig", LLAMA_1B, "LlamaForCausalLM", 8, 2048, "amp", True),
    "roberta-large": ("RobertaConfig", ROBERTA_LARGE, "RobertaForMaskedLM", 16, 512, "amp", False),
    "gpt2-fp32": ("GPT2Config", {}, "GPT2LMHeadModel", 16, 1024, "fp32", False),
}
FIVE = tuple(CASES)[:5]
STEPS = 3


def gib(n):
    return round(n / 2**30, 2)


def config_of(transformers, name):
    """The case's configuration; its file names the model's class, as a published one does."""
    kind, told, model = CASES[name][:3]
    return getattr(transformers, kind)(**told, architectures=[model], use_cache=False)


def model_of(transformers, name, config):
    auto = transformers.AutoModelForMaskedLM if "MaskedLM" in CASES[name][2] else transformers.AutoModelForCausalLM
    try:
        return auto.from_config(config, attn_implementation="sdpa")
    except (ImportError, ValueError):  # this PyTorch or this model has none
        return auto.from_config(config, attn_implementation="eager")


def context_bytes(torch):
    """What the device has in use beyond PyTorch's memory once cuBLAS is loaded: the context, and other processes' memory."""
    a = torch.ones(256, 256, device="cuda", dtype=torch.bfloat16)
    (a @ a).sum().item()
    free, total = torch.cuda.mem_get_info()
    return total - free - torch.cuda.memory_reserved()


def train(torch, model, name, device):
    """Three steps on any tokens."""
    _, _, _, batch, tokens, mode, recompute = CASES[name]
    if recompute:
        model.gradient_checkpointing_enable()
    model.train()
    fused = {"fused": True} if device == "cuda" else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **fused)
    x = torch.randint(model.config.vocab_size, (batch, tokens), device=device)
    for _ in range(STEPS):
        with torch.autocast(device, torch.bfloat16, enabled=mode == "amp"):
            loss = model(input_ids=x, labels=x).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss.item()


def measure(torch, transformers, name, folder, context):
    _, _, _, batch, tokens, mode, recompute = CASES[name]
    line = {"case": name, "b": batch, "s": tokens, "mode": mode, "recompute": recompute}
    model, error = None, None
    try:
        config = config_of(transformers, name)
        config.to_json_file(folder / f"{name}.json")
        with torch.device("cuda"):
            model = model_of(transformers, name, config)
        if mode == "pure":
            model.to(torch.bfloat16)
        line["params"] = sum(p.numel() for p in model.parameters())
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        train(torch, model, name, "cuda")
    except Exception as e:  # pylint: disable=broad-exception-caught  # a model that this version lacks costs the others nothing
        error = f"{type(e).__name__}: {e}"[:300]
    reserved = torch.cuda.max_memory_reserved()
    line.update(alloc_gib=gib(torch.cuda.max_memory_allocated()), reserved_gib=gib(reserved), used_gib=gib(reserved + context), error=error)
    del model
    gc.collect()
    torch.cuda.empty_cache()
    return line


def main(out, folder, *names):
    began = time.monotonic()
    import torch  # pylint: disable=import-outside-toplevel  # this is what import_s measures
    import transformers  # pylint: disable=import-outside-toplevel
    imported = time.monotonic() - began
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    context = context_bytes(torch)
    with open(out, "a", encoding="utf-8") as f:
        print(json.dumps({"context_mib": context >> 20, "torch": torch.__version__, "transformers": transformers.__version__,
                          "import_s": round(imported, 1)}), file=f, flush=True)
        for name in names or FIVE:
            print(json.dumps(measure(torch, transformers, name, folder, context)), file=f, flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 3 or set(sys.argv[3:]) - set(CASES):
        sys.exit(__doc__)
    main(*sys.argv[1:])
