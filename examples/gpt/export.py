#!/usr/bin/env python3
"""Writes the model of a checkpoint as ONNX, and compares its loss on the validation set with that of the program:

    python3 export.py CHECKPOINT_DIR [--output gpt.onnx] [--int8] [--data TEXT] [--gpt PROGRAM]

Needs onnx and onnxruntime (PyPI). The input `tokens` is int64 of batch x context, the output `logits` float32 of batch x
context x vocabulary. With --int8, matrix products have weights of 8 bits and are computed in integers."""
import argparse
import os
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quant_pre_process, quantize_dynamic

HERE = Path(__file__).resolve().parent
FACT, FACTS, TAIL = struct.Struct("<24s40s"), 24, struct.Struct("<qdQ")  # kit/checkpoint.h: facts; step, value, bytes of the state
MAGIC, HEAD_SIZE = b"CKPT0002", 8 + FACTS * FACT.size + TAIL.size
SIZES = "layers", "channels", "heads", "context", "vocabulary"
EVAL_SEQUENCES = 160  # train.c
BYTES, LLMC = 256, struct.pack("<i", 20240520)  # tokens.c
LIMITS = {False: 1e-4, True: 0.05}  # largest difference of the losses, without and with --int8


def read_checkpoint(path):
    """-> the SIZES, {name: array}. The state begins with the weights, in the order of model.c."""
    raw = path.read_bytes()
    if raw[:4] == MAGIC[:4] and raw[:8] != MAGIC:
        sys.exit(f"export: {path}: version {raw[4:8].decode(errors='replace')} of the format, not {MAGIC[4:].decode()}")
    if raw[:8] != MAGIC or len(raw) < HEAD_SIZE or len(raw) != HEAD_SIZE + TAIL.unpack_from(raw, HEAD_SIZE - TAIL.size)[-1] + 8:
        sys.exit(f"export: {path}: not a complete checkpoint")
    text = (part.partition(b"\0")[0].decode() for fact in FACT.iter_unpack(raw[8:8 + FACTS * FACT.size]) for part in fact)
    facts = dict(zip(text, text))
    layers, channels, heads, context, vocabulary = sizes = [int(facts[name]) for name in SIZES]
    c = channels
    shapes = {"wte": (vocabulary, c), "wpe": (context, c), "gain": (c,), "bias": (c,)}
    for i in range(layers):
        shapes |= {f"{i}.{name}": shape for name, shape in {
            "gain1": (c,), "bias1": (c,), "qkv": (3 * c, c), "qkv_bias": (3 * c,), "out": (c, c), "out_bias": (c,),
            "gain2": (c,), "bias2": (c,), "up": (4 * c, c), "up_bias": (4 * c,), "down": (c, 4 * c), "down_bias": (c,)}.items()}
    flat, at, weights = np.frombuffer(raw[HEAD_SIZE:-8], "<f4"), 0, {}
    for name, shape in shapes.items():
        weights[name] = flat[at:at + np.prod(shape)].reshape(shape)
        at += weights[name].size
    return sizes, weights


class Graph:
    """The nodes and constants of an ONNX graph. Each operation returns the name of its result."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def constant(self, array):
        self.constants.append(numpy_helper.from_array(np.array(array, order="C"), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def op(self, kind, *inputs, **attributes):
        inputs = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        self.nodes.append(helper.make_node(kind, inputs, [f"t{len(self.nodes)}"], **attributes))
        return self.nodes[-1].output[0]

    def linear(self, x, matrix, bias):
        return self.op("Add", self.op("MatMul", x, matrix.T), bias)

    def norm(self, x, gain, bias):
        return self.op("LayerNormalization", x, gain, bias, epsilon=1e-5)


def build(sizes, w):
    """-> the model, as model_forward() of model.c computes it"""
    layers, channels, heads, context, vocabulary = sizes
    g = Graph()
    future = np.triu(np.full((context, context), -np.inf, np.float32), 1)
    split = np.array([0, 0, 3, heads, channels // heads])
    x = g.op("Add", g.op("Gather", w["wte"], "tokens"), w["wpe"])
    for i in range(layers):
        of = {name.partition(".")[2]: array for name, array in w.items() if name.startswith(f"{i}.")}
        qkv = g.linear(g.norm(x, of["gain1"], of["bias1"]), of["qkv"], of["qkv_bias"])
        parts = g.op("Transpose", g.op("Reshape", qkv, split), perm=[2, 0, 3, 1, 4])  # 3 x batch x head x token x channel
        q, k, v = (g.op("Gather", parts, np.array(n), axis=0) for n in range(3))
        scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = g.op("Add", g.op("Mul", scores, np.float32((channels // heads) ** -0.5)), future)
        y = g.op("Transpose", g.op("MatMul", g.op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        x = g.op("Add", x, g.linear(g.op("Reshape", y, np.array([0, 0, channels])), of["out"], of["out_bias"]))
        up = g.linear(g.norm(x, of["gain2"], of["bias2"]), of["up"], of["up_bias"])
        x = g.op("Add", x, g.linear(g.op("Gelu", up, approximate="tanh"), of["down"], of["down_bias"]))
    g.op("MatMul", g.norm(x, w["gain"], w["bias"]), w["wte"].T)
    g.nodes[-1].output[0] = "logits"
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", context])
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", context, vocabulary])
    graph = helper.make_graph(g.nodes, "gpt", [tokens], [output], g.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    return model


def read_tokens(path, vocabulary):
    """-> the tokens of a text, or of a file of 16 bits (tokens.c), with which a model of another vocabulary is trained"""
    raw = path.read_bytes()
    if vocabulary == BYTES:
        return np.frombuffer(raw, np.uint8)
    return np.frombuffer(raw[1024:] if raw[:4] == LLMC else raw, "<u2")


def validation_set(text, context):
    """-> tokens, targets: the sequences of train.c's open_evaluation(), whose places kit/rng.h gives"""
    def mix(z):
        mask = 2 ** 64 - 1
        z = (z + 0x9e3779b97f4a7c15) & mask
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & mask
        z = (z ^ z >> 27) * 0x94d049bb133111eb & mask
        return z ^ z >> 31
    split = len(text) // 10 * 9
    places = [split + mix(mix(0) ^ i) % (len(text) - split - context) for i in range(EVAL_SEQUENCES)]
    rows = np.array([text[at:at + context + 1] for at in places], np.int64)
    return rows[:, :-1], rows[:, 1:]


def onnx_loss(path, tokens, targets):
    logits, = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"tokens": tokens})
    logits = logits.astype(np.float64)
    logits -= logits.max(-1, keepdims=True)
    chosen = np.take_along_axis(logits, targets[..., None], -1)[..., 0]
    return float((np.log(np.exp(logits).sum(-1)) - chosen).mean())


def gpt_loss(program, sizes, checkpoint, data):
    """What `gpt --eval` prints."""
    options = [f"--{name}={n}" for name, n in zip(SIZES, sizes)]
    options[-1:] = [f"--data={data}"] if sizes[-1] == BYTES else [options[-1], f"--tokens={data}"]
    done = subprocess.run([program, "--eval", "--device=cpu", f"--checkpoint={checkpoint}", *options],
                          text=True, capture_output=True, check=False)
    found = re.search(r"^val_loss (\S+)", done.stdout, re.M)
    return float(found[1]) if found else sys.exit(f"export: {program} --eval failed: {done.stderr}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("checkpoint", help="directory")
    p.add_argument("--output", default="gpt.onnx")
    p.add_argument("--int8", action="store_true", help="quantize the matrices")
    p.add_argument("--gpt", default=str(HERE / "gpt"), help="the program (default: next to this script)")
    p.add_argument("--data", help="the text, or the file of --tokens (default: paradise_lost.txt next to the program)")
    args = p.parse_args()
    data = Path(args.data or Path(args.gpt).resolve().parent / "paradise_lost.txt")
    file = Path(args.checkpoint) / "gpt.ckpt"
    for path in (file, data):
        if not path.is_file():
            p.error(f"{path}: not found")
    sizes, weights = read_checkpoint(file)
    model = build(sizes, weights)
    if args.int8:
        with tempfile.TemporaryDirectory() as d:
            whole, prepared = (os.path.join(d, name) for name in ("whole.onnx", "prepared.onnx"))
            onnx.save(model, whole)
            quant_pre_process(whole, prepared, skip_symbolic_shape=True)
            quantize_dynamic(prepared, args.output, weight_type=QuantType.QInt8)
    else:
        onnx.save(model, args.output)
    mine = onnx_loss(args.output, *validation_set(read_tokens(data, sizes[4]), sizes[3]))
    its = gpt_loss(args.gpt, sizes, args.checkpoint, data)
    print(f"{args.output}: {os.path.getsize(args.output)} bytes, loss {mine:.6f} (gpt: {its:.6f})")
    if not abs(mine - its) <= LIMITS[args.int8]:
        sys.exit(f"export: the losses differ by more than {LIMITS[args.int8]}")


if __name__ == "__main__":
    main()
