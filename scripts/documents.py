"""What pages of docs say in rows: exit statuses, variables and files of a command."""
import re

from sources import ROOT

DOCS = ROOT / "docs"
STARTERS = "run", "torchrun", "ft_launcher", "place"  # "jobs" in docs/environment.md


def plain(text):
    """A cell or a sentence without the marks of a page."""
    text = re.sub(r"\s*\(\[[^]]*\]\([^)]*\)\)", "", text)
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("\\|", "|").replace("`", "")


def tables(text):
    """(the heads, the rows of cells) of each table."""
    for block in re.findall(r"(?:^\|.*\n)+", text, re.M):
        rows = [[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in block.splitlines()]
        yield rows[0], rows[2:]


def names(cell):
    """The words in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def manual_of(path):
    """The page about a command, ("drover", "sweep", "show"); without one of its own, that whose lines show how to type it."""
    own = DOCS / f"drover-{path[1]}.md" if path[1:] else DOCS / "commands.md"
    if own.exists():
        return own.read_text()
    usage = re.compile(rf"^    drover {path[1]} ", re.M)
    return next((t for t in (p.read_text() for p in sorted(DOCS.glob("drover-*.md"))) if usage.search(t)), "")


def exit_statuses(path):
    """[(status, meaning)]: of the command itself, else of its page, else what holds for every command."""
    text = manual_of(path)
    found = {}
    for who, said in re.findall(r"^Exit status( of [^:]*)?: ((?:.+\n)+)", text, re.M):
        items = re.split(r"; (?=[\dn][\dn+, ]*: )", " ".join(said.split()).rstrip("."))
        for name in names(who) or [""]:
            found[name] = [tuple(plain(item).split(": ", 1)) for item in items]
    for heads, rows in tables(text):
        if heads == ["status", "meaning"]:
            found[""] = [(plain(status), plain(meaning)) for status, meaning in rows]
    own = found.get(path[-1]) or found.get("" if len(path) < 3 or path[-1] == "resume" else None)
    return own or exit_statuses(("drover",))


def section_rows(section):
    text = (DOCS / "environment.md").read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    return [row for _, rows in tables(text) for row in rows]


def rows_of(path, section):
    """[(the names, the meaning)] of the rows of a section of docs/environment.md that name the command."""
    own = {"all", " ".join(path[1:]), *(f"{name}*" for name in path[1:2]), *(["jobs"] if path[1:] and path[1] in STARTERS else [])}
    return [(names(cell), plain(meaning)) for cell, who, meaning in section_rows(section) if own & set(" ".join(names(who)).split())]


def rank_variables():
    """[(the names, the meaning)] of the variables of other launchers that a rank finds."""
    rows = next(rows for heads, rows in tables((DOCS / "drover-run.md").read_text().split("## What a rank finds")[1]))
    return [(names(cell), plain(meaning)) for cell, meaning in rows if "DROVER_" not in cell]
