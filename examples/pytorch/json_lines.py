#!/usr/bin/env python3
"""Prints one line of JSON per epoch and knows nothing of drover: `drover sweep json_lines.yaml` reads the lines.

The model is a softmax regression on the handwritten digits."""
import argparse
import json
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

p = argparse.ArgumentParser()
p.add_argument("--lr", type=float, default=0.5)
p.add_argument("--epochs", type=int, default=10)
args = p.parse_args()

csv = Path(__file__).resolve().parents[1] / "digits/data/digits.csv"
rows = torch.tensor([[int(x) for x in line.split(",")] for line in csv.read_text().splitlines()])
images, digits = rows[:, :64] / 16, rows[:, 64]
test = torch.arange(len(rows)) % 5 == 0
torch.manual_seed(1)
model = torch.nn.Linear(64, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
for epoch in range(1, args.epochs + 1):
    for batch in torch.randperm(len(rows)).split(64):
        batch = batch[~test[batch]]
        optimizer.zero_grad()
        cross_entropy(model(images[batch]), digits[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        guess = model(images[test])
        loss = cross_entropy(guess, digits[test]).item()
    print(json.dumps({"step": epoch, "val_loss": loss,
                      "accuracy": (guess.argmax(1) == digits[test]).float().mean().item()}))
