#!/usr/bin/env python3
"""Trains a classifier of handwritten digits with PyTorch's DistributedDataParallel (DDP).

    drover run -np 2 train.py --epochs=5

`drover torchrun` and torchrun start it as well, and alone it is rank 0 of 1. README.md lists where each technique is.
The batch (--batch) is that of all ranks together: neither the ranks nor --accumulate change the losses."""
import argparse
import json
import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

try:
    import drover  # drover.py: the trials of `drover sweep` find it
except ImportError:
    drover = None

DATA = Path(__file__).resolve().parents[1] / "digits/data/digits.csv"
AGREE_EVERY = 10  # steps: reading a number from a GPU waits for all work that is queued there
OPTIONS = [("epochs", 10, "number of epochs"), ("batch", 64, "samples per step, of all ranks together"),
           ("lr", 3e-3, "learning rate"), ("decay", 0.01, "weight decay"), ("width", 64, "size of the hidden layers"),
           ("blocks", 2, "number of residual blocks"), ("dropout", 0.1, "share of activations that is dropped"),
           ("seed", 1, "of weights, order and dropout"), ("accumulate", 1, "micro-batches per step"),
           ("workers", 0, "processes per rank that load data"), ("prefetch", 2, "batches that each of them prepares")]
signals = []  # the signals that this process has received


def load_data():
    """-> (training set, test set): images of 64 pixels from 0 to 1, and their digits. Every fifth image is for the test."""
    rows = torch.tensor([[int(x) for x in line.split(",")] for line in DATA.read_text().splitlines()])
    images, digits = rows[:, :64] / 16, rows[:, 64]
    test = torch.arange(len(rows)) % 5 == 0
    return TensorDataset(images[~test], digits[~test]), (images[test], digits[test])


def batches(size, args, first, last):
    """This rank's share of each batch, as indices, from step `first` to step `last`. The order depends on the seed and the
    epoch only, so a resumed training sees the batches that it would have seen."""
    order = None
    for step in range(first, last):
        epoch, at = divmod(step * args.batch, size // args.batch * args.batch)
        if at == 0 or order is None:
            order = torch.randperm(size, generator=torch.Generator().manual_seed(args.seed + epoch))
        yield order[at:at + args.batch][dist.get_rank()::dist.get_world_size()].tolist()


def ignore_sigterm(_worker):
    """A launcher may signal the loader's processes, too. They end with their rank."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def make_loader(dataset, indices, args, device):
    """Prefetching: processes prepare `prefetch` batches each while the device computes. Copies from pinned memory to a GPU
    are asynchronous."""
    ahead = {"prefetch_factor": args.prefetch, "worker_init_fn": ignore_sigterm} if args.workers else {}
    return DataLoader(dataset, batch_sampler=indices, num_workers=args.workers, pin_memory=device.type == "cuda", **ahead)


class Net(nn.Module):
    """Residual blocks. With `recompute`, the backward pass computes the activations inside of a block again: they need not
    be kept, for about a third more time."""

    def __init__(self, args):
        super().__init__()
        self.recompute = args.recompute
        self.first, self.last = nn.Linear(64, args.width), nn.Linear(args.width, 10)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(args.width), nn.Linear(args.width, args.width), nn.GELU(), nn.Dropout(args.dropout))
            for _ in range(args.blocks))

    def forward(self, x):
        x = self.first(x).float()  # with AMP, too: sums, norms and the loss are in fp32
        for block in self.blocks:
            again = self.recompute and self.training
            x = x + (checkpoint(block, x, use_reentrant=False) if again else block(x))
        return self.last(x).float()


def mixed_precision(args, device):
    """AMP: matrix products in 16 bit; weights, norms and the loss stay in fp32. Only fp16 needs the GradScaler."""
    return torch.autocast(device.type, dtype=torch.float16 if args.amp == "fp16" else torch.bfloat16, enabled=args.amp != "no")


def train_step(model, optimizer, scaler, images, digits, args):
    """Accumulation: the rank's share in micro-batches; the last backward pass reduces the sum of their gradients over the
    ranks. -> the loss, on the device"""
    total = torch.zeros((), device=images.device)
    for i, (x, y) in enumerate(zip(images.chunk(args.accumulate), digits.chunk(args.accumulate))):
        with nullcontext() if i == args.accumulate - 1 else model.no_sync():
            with mixed_precision(args, images.device):
                loss = cross_entropy(model(x), y) / args.accumulate
            scaler.scale(loss).backward()
        total += loss.detach()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    return total


def sum_over_ranks(*numbers, device):
    """-> the sums over all ranks, as Python's numbers. All ranks must call it after the same step."""
    sums = torch.stack([torch.as_tensor(x, dtype=torch.float32, device=device) for x in numbers])
    dist.all_reduce(sums)
    return sums.tolist()


@torch.no_grad()
def evaluate(model, images, digits, args):
    """-> (loss, accuracy) on the test set; each rank computes a share."""
    images, digits = (x[dist.get_rank()::dist.get_world_size()] for x in (images, digits))
    model.eval()
    with mixed_precision(args, images.device):
        guess = model(images)
        loss = cross_entropy(guess, digits, reduction="sum")
    model.train()
    right = (guess.argmax(1) == digits).sum()
    loss, right, count = sum_over_ranks(loss, right, len(digits), device=images.device)
    return loss / count, right / count


def report(**metrics):
    """Reports rank 0's metrics to the sweep; outside of a sweep, or without drover.py, as a line of JSON."""
    if drover and "DROVER_TRIAL_ID" in os.environ:
        drover.report(**metrics)
    elif dist.get_rank() == 0:
        print(json.dumps(metrics), flush=True)


def save(file, state):
    """Replaces the file in one step: a kill at any moment leaves the previous checkpoint or the new one."""
    if file and dist.get_rank() == 0:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        with open(part, "wb") as f:
            torch.save(state, f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(part, file)
    dist.barrier()  # no rank exits before the file is complete: the launcher would end the others


def train(args, device, dataset, test):
    """-> the exit status"""
    file = Path(args.checkpoint) / "digits.pt" if args.checkpoint else None
    torch.manual_seed(args.seed)
    net = Net(args).to(device)
    model = nn.parallel.DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=args.decay)
    scaler = getattr(torch.amp, "GradScaler", torch.cuda.amp.GradScaler)(enabled=args.amp == "fp16")
    parts = {"net": net, "optimizer": optimizer, "scaler": scaler}
    first, epoch_loss = 0, 0.0
    if file and file.exists():  # resume: every rank reads rank 0's file
        state = torch.load(file, map_location=device)
        first, epoch_loss = state["step"], state["epoch_loss"]
        for name, part in parts.items():
            part.load_state_dict(state[name])
    per_epoch = len(dataset) // args.batch
    loader = make_loader(dataset, batches(len(dataset), args, first, args.epochs * per_epoch), args, device)
    unread = torch.zeros((), device=device)  # losses of steps since the ranks last agreed
    for step, (images, digits) in enumerate(loader, first + 1):
        torch.manual_seed((args.seed * 1_000_003 + step) * dist.get_world_size() + dist.get_rank())  # of dropout
        unread += train_step(model, optimizer, scaler, images.to(device, non_blocking=True),
                             digits.to(device, non_blocking=True), args)
        if step % AGREE_EVERY and step % per_epoch:
            continue
        loss, terminated, asked = sum_over_ranks(unread, bool(signals), bool(drover and drover.should_stop()), device=device)
        unread.zero_()
        epoch_loss += loss / dist.get_world_size()
        if step % per_epoch == 0:
            val_loss, accuracy = evaluate(net, *test, args)
            report(step=step // per_epoch, loss=epoch_loss / per_epoch, val_loss=val_loss, accuracy=accuracy)
            epoch_loss = 0.0
        if step % per_epoch == 0 or terminated or asked:
            save(file, {"step": step, "epoch_loss": epoch_loss, **{name: part.state_dict() for name, part in parts.items()}})
        if terminated or asked:
            return 143 if terminated else 0
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default, text in OPTIONS:
        p.add_argument(f"--{name}", type=type(default), default=default, help=f"{text} (default: %(default)s)")
    p.add_argument("--amp", choices=["no", "bf16", "fp16"], default="no", help="16-bit products; fp16 only on a GPU")
    p.add_argument("--recompute", action="store_true", help="activation checkpointing")
    p.add_argument("--checkpoint", default=os.environ.get("DROVER_CKPT_DIR"), help="directory (default: $DROVER_CKPT_DIR)")
    args = p.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _frame: signals.append(number))
    gpus = torch.cuda.device_count()
    device = torch.device(f"cuda:{int(os.environ.get('LOCAL_RANK', '0')) % gpus}" if gpus else "cpu")
    alone = {} if "RANK" in os.environ else {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    if gpus:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpus else "gloo", **alone)
    if not gpus and args.amp == "fp16":
        p.error("--amp=fp16 needs a GPU (try: --amp=bf16)")
    pieces, (dataset, test) = dist.get_world_size() * args.accumulate, load_data()
    if pieces < 1 or args.batch not in range(pieces, len(dataset) + 1, pieces):
        p.error(f"--batch={args.batch}: not a multiple of {dist.get_world_size()} ranks * {args.accumulate} micro-batches, "
                f"up to {len(dataset)}")
    status = train(args, device, dataset, [x.to(device) for x in test])
    dist.destroy_process_group()
    sys.exit(status)


if __name__ == "__main__":
    main()
