#!/usr/bin/env python3
"""Minimises a function with parameters from `drover suggest`: python3 search.py [PATH_OF_DROVER]

`drover suggest` reads one JSON request per line from its standard input, and answers each with one
line of JSON. "init" defines the search, "ask" returns parameter sets to try, "tell" passes their
values to the search, and "best" returns the best parameter set."""
import json
import math
import subprocess
import sys

BUDGET = 40  # trials
SPACE = [{"name": "lr", "type": "float", "low": 1e-5, "high": 1, "log": True},
         {"name": "layers", "type": "int", "low": 1, "high": 8},
         {"name": "optimizer", "type": "cat", "choices": ["adam", "sgd"]},
         {"name": "momentum", "type": "float", "low": 0, "high": 0.99, "when": {"param": "optimizer", "in": ["sgd"]}}]
search = subprocess.Popen([*(sys.argv[1:] or ["drover"]), "suggest"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def request(**fields):
    """Sends one request and returns the answer. Exits if the answer is an error."""
    print(json.dumps(fields), file=search.stdin, flush=True)
    answer = json.loads(search.stdout.readline())
    return answer if "error" not in answer else sys.exit(answer["error"])


def train(lr, layers, optimizer, momentum=0.5):
    """Returns the value to minimise. A real program would train a model here."""
    return (math.log10(lr) + 2.5) ** 2 + abs(layers - 3) + (optimizer == "adam") + (momentum - 0.9) ** 2


request(op="init", space=SPACE, budget=BUDGET, goal="minimize")
for _ in range(BUDGET):
    for trial in request(op="ask", n=1)["trials"]:
        request(op="tell", results=[{"id": trial["id"], "value": train(**trial["params"])}])
print(json.dumps(request(op="best")["best"]))
