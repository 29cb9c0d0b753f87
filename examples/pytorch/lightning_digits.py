#!/usr/bin/env python3
"""Trains a classifier of handwritten digits with Lightning: drover run -np 2 lightning_digits.py

Lightning finds its ranks in the variables of torchrun, which drover sets. LOCAL_WORLD_SIZE and GROUP_WORLD_SIZE give the
numbers of devices and nodes. After SIGTERM all ranks save a checkpoint and exit with 143."""
import argparse
import json
import os
import signal
import sys
from pathlib import Path

import torch
import lightning as L
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

try:
    import drover  # drover.py: the trials of `drover sweep` find it
except ImportError:
    drover = None


def load_data():
    """-> training set, test set: every fifth image"""
    csv = Path(__file__).resolve().parents[1] / "digits/data/digits.csv"
    rows = torch.tensor([[int(x) for x in line.split(",")] for line in csv.read_text().splitlines()])
    test = torch.arange(len(rows)) % 5 == 0
    return [TensorDataset(rows[part, :64] / 16, rows[part, 64]) for part in (~test, test)]


class Digits(L.LightningModule):
    def __init__(self, lr):
        super().__init__()
        self.lr = lr
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 10))

    def training_step(self, batch, _index):
        return cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch, _index):
        guess = self.net(batch[0])
        self.log("val_loss", cross_entropy(guess, batch[1]), sync_dist=True)
        self.log("accuracy", (guess.argmax(1) == batch[1]).float().mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr)


class Launcher(Callback):
    """Reports each validation. If a rank got SIGTERM, or drover asks for a stop, all ranks stop after the same step."""
    terminated = False

    def on_train_start(self, *_args):  # after Lightning's own handler, which runs a collective at any point of a step
        signal.signal(signal.SIGTERM, self.on_sigterm)

    def on_sigterm(self, *_args):
        self.terminated = True

    def on_validation_end(self, trainer, module):
        if trainer.sanity_checking or not trainer.is_global_zero:
            return
        metrics = {name: float(x) for name, x in trainer.callback_metrics.items()}
        if drover and "DROVER_TRIAL_ID" in os.environ:
            drover.report(metrics, step=trainer.current_epoch + 1)
        else:
            print(json.dumps({"step": trainer.current_epoch + 1, **metrics}), flush=True)

    def on_train_batch_end(self, trainer, *_args):
        self.terminated = trainer.strategy.reduce_boolean_decision(self.terminated, all=False)
        asked = bool(drover and drover.should_stop())
        trainer.should_stop |= self.terminated or trainer.strategy.reduce_boolean_decision(asked, all=False)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--checkpoint", default=os.environ.get("DROVER_CKPT_DIR"), help="directory (default: $DROVER_CKPT_DIR)")
    args = p.parse_args()
    train, test = load_data()
    L.seed_everything(1)
    launcher = Launcher()
    trainer = L.Trainer(
        max_epochs=args.epochs, devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1")), strategy="ddp", accelerator="auto", logger=False,
        enable_checkpointing=bool(args.checkpoint), enable_progress_bar=False, enable_model_summary=False,
        callbacks=[launcher] + ([ModelCheckpoint(args.checkpoint, save_last=True)] if args.checkpoint else []))
    last = Path(args.checkpoint or ".") / "last.ckpt"
    trainer.fit(Digits(args.lr), DataLoader(train, 64, shuffle=True), DataLoader(test, 360),
                ckpt_path=str(last) if args.checkpoint and last.exists() else None)
    if launcher.terminated and args.checkpoint:
        trainer.save_checkpoint(last)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    sys.exit(143 if launcher.terminated else 0)


if __name__ == "__main__":
    main()
