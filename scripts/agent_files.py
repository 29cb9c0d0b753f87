"""What coding agents read: a skill file (agentskills.io) and llms.txt (llmstxt.org), from docs/skill.md and the rows of --help."""
import re

from documents import DOCS, exit_statuses, names, plain, section_rows

SHARE = "PREFIX/share/drover/"
# Agents read this line alone, to decide if they need the skill.
WHEN = ("Launches distributed training (instead of mpirun or torchrun), searches hyperparameters with W&B sweep files, and measures collectives, "
        "with the command line tool drover. Use it to start, watch or end jobs of several ranks, GPUs or nodes, to find out why one failed or "
        "hangs, to run and read a sweep, to check a machine with GPUs, or to estimate the memory of a training.")


def body():
    """The part of docs/skill.md that is the skill."""
    return re.search(r"^## What drover does\n.*", (DOCS / "skill.md").read_text(), re.M | re.S)[0]


def usage(page):
    return " ".join(f"{page.name} {page.usage}".split())


def ends(page):
    return "Exit status: " + "; ".join(f"{status}: {meaning}" for status, meaning in exit_statuses(page.path)) + "."


def bullet(page, top):
    """A command as llms.txt lists it; exit statuses that differ from the program's."""
    options = ", ".join(f"`{' '.join([*o['names'], *filter(None, [o.get('arg')])])}`" for o in page.options if "--help" not in o["names"])
    own = f" {ends(page)}" if ends(page) != ends(top) else ""
    return f"- `{usage(page)}`: {page.about[0].lower() + page.about[1:]}." + (f" Options: {options}." if options else "") + own


def skill(pages, version):
    commands = [f"| `{p.name}` | {p.about[0].lower() + p.about[1:]} |" for p in pages[1:]]
    return "\n".join(["---", "name: drover", f'description: "{WHEN}"', "license: Apache-2.0", "---", "", f"# drover {version}", "", body(),
                      "## Commands", "", ends(pages[0]), "`drover help COMMAND` says more.", "",
                      "| command | does |", "| --- | --- |", *commands, ""])


def llms(pages):
    does = body().split("\n## ")[0]
    summary, rules = does.split("\n\n")[1:3]
    out = ["# drover", "", *(f"> {line}" for line in summary.split("\n")), "", rules.strip(), "", "Every command with its options, and its exit statuses if they are others.", ends(pages[0]), "",
           *(bullet(p, pages[0]) for p in pages), "", "## Files", ""]
    found = {n: plain(row[-1]) for row in section_rows("Files") for n in names(row[0]) if n.startswith(SHARE) and "." in n and not n.endswith("llms.txt")}
    return "\n".join([*out, *(f"- [{n.removeprefix(SHARE)}]({n.removeprefix(SHARE)}): {text}" for n, text in found.items()), ""])
