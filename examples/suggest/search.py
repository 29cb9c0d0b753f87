#!/usr/bin/env python3
"""Asks drover for parameters and tells it what they are worth: python3 search.py [path of drover]"""
import json
import math
import subprocess
import sys

SPACE = [{"name": "lr", "type": "float", "low": 1e-5, "high": 1, "log": True},
         {"name": "layers", "type": "int", "low": 1, "high": 8},
         {"name": "optimizer", "type": "cat", "choices": ["adam", "sgd"]},
         {"name": "momentum", "type": "float", "low": 0, "high": 0.99, "when": {"param": "optimizer", "in": ["sgd"]}}]
search = subprocess.Popen([*(sys.argv[1:] or ["drover"]), "suggest"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def say(**request):
    print(json.dumps(request), file=search.stdin, flush=True)
    reply = json.loads(search.stdout.readline())
    return reply if "error" not in reply else sys.exit(reply["error"])


def train(lr, layers, optimizer, momentum=0.5):  # your program's place
    return (math.log10(lr) + 2.5) ** 2 + abs(layers - 3) + (optimizer == "adam") + (momentum - 0.9) ** 2


say(op="init", space=SPACE, budget=40, goal="minimize")
for _ in range(40):
    for trial in say(op="ask", n=1)["trials"]:
        say(op="tell", results=[{"id": trial["id"], "value": train(**trial["params"])}])
print(json.dumps(say(op="best")["best"]))
