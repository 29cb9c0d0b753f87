"""The commands of a build, their options and their words, as each command's own --help gives them as JSON (common/opt.h)."""
import json
import os
import re
import subprocess


class Page:
    """The help of one command. `path`: its words, ("drover", "sweep", "show")."""

    def __init__(self, path, about, text):
        facts, end = json.JSONDecoder().raw_decode(text)
        self.path, self.about, self.rest = path, about, text[end:].strip("\n")
        self.name = " ".join(path)
        self.program, self.usage, self.summary = facts["program"], facts["usage"], facts["summary"]
        self.examples, self.options = facts["examples"] or "", facts["options"]
        # A summary lists commands as lines of two spaces: name, operands, what it does.
        self.commands = dict(re.findall(r"^  (\S+)(?: .*?)? {2,}(\S.*)$", self.summary, re.M))
        operands = re.search(r"one of:\n(.+)", self.summary)
        self.operands = re.findall(r"\w+", operands[1]) if operands else []


def page(program, path, about=""):
    """The Page of a command; None if the word is not a command with a help of its own."""
    done = subprocess.run([program, *path[1:], "--help"], text=True, capture_output=True, check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, "DROVER_HELP": "json"})
    found = Page(path, about, done.stdout) if done.returncode == 0 and done.stdout.startswith("{") else None
    return found if found and found.program == " ".join(path) else None


def pages(program, path=("drover",), about="distributed training, hyperparameter search, and collectives"):
    """The pages of all commands: each command before its own ones."""
    top = page(program, path, about)
    if not top:
        return []
    return [top] + [p for name, text in top.commands.items() for p in pages(program, (*path, name), text)]
