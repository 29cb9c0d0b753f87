"""The model of examples/gpt in PyTorch.

  gpt_peer.py DUMP STEPS          trains the weights on the batches of a dump (`gpt --dump=FILE`), with one thread; prints
                                  the seconds of CPU that the steps take
  gpt_peer.py speed DEVICE LAYERS CHANNELS HEADS CONTEXT BATCH
                                  prints the tokens/s of compiled training in bfloat16, on any bytes"""
import math
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

SYMBOLS, BATCH = 256, 16
WARMUP, LR, DECAY, CLIP = 20, 2e-3, 0.1, 1.0


class Shape(NamedTuple):
    layers: int = 2
    channels: int = 64
    heads: int = 4
    context: int = 64


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        c, self.heads = shape.channels, shape.heads
        self.norm1, self.qkv, self.out = nn.LayerNorm(c), nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.norm2, self.up, self.down = nn.LayerNorm(c), nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
        self.register_buffer("future", torch.triu(torch.full((shape.context, shape.context), -math.inf), 1), persistent=False)

    def attend(self, x):
        b, t, c = x.shape
        q, k, v = (a.view(b, t, self.heads, c // self.heads).transpose(1, 2) for a in self.qkv(x).split(c, 2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = ((q @ k.transpose(2, 3)) / math.sqrt(c // self.heads) + self.future).softmax(3) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.tokens, self.places = nn.Embedding(SYMBOLS, shape.channels), nn.Embedding(shape.context, shape.channels)
        self.norm = nn.LayerNorm(shape.channels)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))

    def forward(self, x, y):
        h = self.tokens(x) + self.places.weight
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy((self.norm(h) @ self.tokens.weight.t()).view(-1, SYMBOLS), y.reshape(-1))


class Dump:
    """What `gpt --dump` writes: the weights; then per step the tokens, the targets, the loss and the gradient."""

    def __init__(self, path, params):
        tokens = (BATCH, Shape().context)
        step = np.dtype([("x", "<u2", tokens), ("y", "<u2", tokens), ("loss", np.float32),
                         ("gradient", np.float32, params)])
        raw = Path(path).read_bytes()
        self.weights = np.frombuffer(raw, np.float32, params)
        self.steps = np.frombuffer(raw, step, offset=4 * params)


def load(path):
    """(the model with the dump's weights, the dump). PyTorch's parameters are in the order of the dump."""
    torch.set_num_threads(1)
    model = GPT(Shape())
    dump = Dump(path, sum(p.numel() for p in model.parameters()))
    torch.nn.utils.vector_to_parameters(torch.from_numpy(dump.weights.copy()), model.parameters())
    return model, dump


def optimizer(model):
    fused = {"fused": True} if torch.__version__ >= "2" else {}
    matrices = [p for p in model.parameters() if p.dim() > 1]  # and embeddings, as in GPT-2's recipe
    others = [p for p in model.parameters() if p.dim() == 1]
    return torch.optim.AdamW([{"params": matrices}, {"params": others, "weight_decay": 0}], lr=LR, betas=(0.9, 0.95),
                             weight_decay=DECAY, **fused)


def train(model, dump, steps, total, follow=False, lr=LR):
    """Yields (the loss, the gradient before it is clipped) of each step. With `follow`, the step is then made with the
    dump's gradient, so that the weights of both stay equal."""
    opt = optimizer(model)
    for t, step in enumerate(dump.steps[:steps]):
        loss = model(torch.from_numpy(step["x"].astype(np.int64)), torch.from_numpy(step["y"].astype(np.int64)))
        opt.zero_grad()
        loss.backward()
        yield loss.item(), [p.grad for p in model.parameters()]
        if follow:
            given = torch.from_numpy(step["gradient"].copy()).split([p.numel() for p in model.parameters()])
            for p, gradient in zip(model.parameters(), given):
                p.grad = gradient.view_as(p)
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        done = (t - WARMUP) / (total - WARMUP)
        for group in opt.param_groups:
            group["lr"] = lr * ((t + 1) / WARMUP if t < WARMUP else 0.1 + 0.45 * (1 + math.cos(math.pi * done)))
        opt.step()


def speed(device, shape, batch, warm=8, steps=30):
    """Prints the tokens/s of `steps` steps after `warm` ones, which compile the model."""
    torch.manual_seed(1)
    model = GPT(shape).to(device)
    for p in model.parameters():
        nn.init.normal_(p, std=0.02)
    opt, step = optimizer(model), torch.compile(model) if hasattr(torch, "compile") else model
    data = torch.randint(SYMBOLS, (warm + steps, batch, shape.context + 1), device=device)
    for i, tokens in enumerate(data):
        if i == warm:
            torch.zeros(1, device=device).item()  # waits for the device
            begin = time.monotonic()
        with torch.autocast(torch.device(device).type, torch.bfloat16):
            loss = step(tokens[:, :-1], tokens[:, 1:])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        opt.step()
    last = loss.item()  # waits, too
    rate = steps * batch * shape.context / (time.monotonic() - begin)
    print(f"PyTorch {torch.__version__}, {'compiled' if step is not model else 'not compiled'}, loss {last:.4f}")
    print(f"throughput {rate:.0f} tokens/s")


def main():
    if sys.argv[1] == "speed":
        *shape, batch = map(int, sys.argv[3:])
        speed(sys.argv[2], Shape(*shape), batch)
        return
    model, dump = load(sys.argv[1])
    steps, begin = int(sys.argv[2]), time.process_time()
    for _ in train(model, dump, steps, steps):
        pass
    print(f"cpu {time.process_time() - begin:.3f} s")


if __name__ == "__main__":
    main()
