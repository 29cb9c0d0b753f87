#!/usr/bin/env python3
"""Trains a classifier of handwritten digits with the Trainer of Hugging Face: drover run -np 2 hf_trainer.py

Trainer (by accelerate) finds its ranks in the variables of torchrun, which drover sets. After SIGTERM all ranks save a
checkpoint and exit with 143."""
import argparse
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

try:
    import drover  # drover.py: the trials of `drover sweep` find it
except ImportError:
    drover = None


def load_data():
    """-> training set, test set: every fifth image"""
    csv = Path(__file__).resolve().parents[1] / "digits/data/digits.csv"
    rows = torch.tensor([[int(x) for x in line.split(",")] for line in csv.read_text().splitlines()])
    samples = [{"images": row[:64] / 16, "labels": row[64]} for row in rows]
    return [s for i, s in enumerate(samples) if i % 5], samples[::5]


class Digits(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 10))

    def forward(self, images, labels):
        logits = self.net(images)
        return {"loss": cross_entropy(logits, labels), "logits": logits}


class Launcher(TrainerCallback):
    """Reports each evaluation. If a rank got SIGTERM, or drover asks for a stop, all ranks stop after the same step."""

    def __init__(self, device):
        self.device, self.terminated = device, False
        signal.signal(signal.SIGTERM, self.on_sigterm)

    def on_sigterm(self, *_args):
        self.terminated = True

    def on_evaluate(self, args, state, control, metrics=None, **_kw):
        numbers = {name: x for name, x in metrics.items() if name in ("eval_loss", "eval_accuracy")}
        if not state.is_world_process_zero:
            return
        if drover and "DROVER_TRIAL_ID" in os.environ:
            drover.report(numbers, step=round(state.epoch))
        else:
            print(json.dumps({"step": round(state.epoch), **numbers}), flush=True)

    def on_step_end(self, args, state, control, **_kw):
        wishes = torch.tensor([self.terminated, bool(drover and drover.should_stop())], dtype=torch.int32, device=self.device)
        if dist.is_initialized():
            dist.all_reduce(wishes, dist.ReduceOp.MAX)
        self.terminated = bool(wishes[0])
        if wishes.any():
            control.should_save = control.should_training_stop = True


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--checkpoint", default=os.environ.get("DROVER_CKPT_DIR"), help="directory (default: $DROVER_CKPT_DIR)")
    args = p.parse_args()
    train, test = load_data()
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as unused:
        options = TrainingArguments(
            args.checkpoint or unused, num_train_epochs=args.epochs, learning_rate=args.lr, per_device_train_batch_size=32,
            per_device_eval_batch_size=360, eval_strategy="epoch", save_strategy="epoch" if args.checkpoint else "no",
            save_total_limit=1, ddp_find_unused_parameters=False, logging_strategy="no", report_to="none", disable_tqdm=True,
            use_cpu=not torch.cuda.is_available(),  # else ranks without a GPU do not find each other
            dataloader_pin_memory=torch.cuda.is_available())
        launcher = Launcher(options.device)
        trainer = Trainer(Digits(), options, train_dataset=train, eval_dataset=test, callbacks=[launcher],
                          compute_metrics=lambda p: {"accuracy": (p.predictions.argmax(1) == p.label_ids).mean()})
        trainer.remove_callback(PrinterCallback)  # it would print the metrics again
        trainer.train(resume_from_checkpoint=args.checkpoint and Path(args.checkpoint).exists() and
                      get_last_checkpoint(args.checkpoint))
    if dist.is_initialized():
        dist.destroy_process_group()
    sys.exit(143 if launcher.terminated else 0)


if __name__ == "__main__":
    main()
