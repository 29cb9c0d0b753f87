"""Lines of mappings, as json.dumps() and print() write them: the reports are what Python itself reads in them."""
import ast
import json
import math
import string

from sweep_kit import use_scripts  # noqa: F401  a fixture

LINES = 500
TEXTS = ["", "loss", "val/loss", "a.b", "it's", 'say "x"', "both ' and \"", "back\\slash", "tab\there", "é大😀", "\x1b[0m", "{x: 1}",
         "a, b", "a: b", "None", "nan", "\u2028", "\U000e0001", "100%", "<b>", "(", "]"]


def number(seed):
    return seed.choice([0, 1, -1, 2**63 - 1, -2**63, 0.0, -0.0, 0.1, 1e-5, -2.5e300, 5e-324, 1e16, math.inf, -math.inf, math.nan,
                        seed.randrange(10**6), seed.random(), seed.gauss(0, 1e-6), seed.gauss(0, 1e9)])


def value(seed, depth, as_json):
    kind = seed.randrange(10)
    if kind < 5:
        return number(seed)
    if kind == 5 and depth < 4:
        return mapping(seed, depth + 1, as_json)
    if kind == 6:
        return [value(seed, 4, as_json) for _ in range(seed.randrange(4))]
    if kind == 7 and not as_json:
        return seed.choice([(1, 2), (), (0.5,), {"a", 1}, b"bytes'", 1 + 2j, {"}"}, ("{", "'")])
    return seed.choice([True, False, None, *(t for t in TEXTS if t != "nan")])


def mapping(seed, depth, as_json):
    def key():
        if not as_json and seed.randrange(6) == 0:
            return seed.choice([0, 17, -3, (1, "a:b"), None, True])
        return seed.choice(TEXTS) + "".join(seed.choices(string.ascii_letters, k=2))
    return {key(): value(seed, depth, as_json) for _ in range(seed.randrange(1, 6))}


def numbers(read, prefix=""):
    """The numbers of a mapping by their dotted names, as reports have them."""
    found = {}
    for key, v in read.items():
        if not isinstance(key, (str, int, float)) or isinstance(key, bool):
            name = prefix  # names no metric
        else:
            name = f"{prefix}.{key}" if prefix else str(key)
            if isinstance(v, (int, float)) and not isinstance(v, bool):
                found[name] = v if math.isfinite(v) else str(v)
        if isinstance(v, dict):
            found.update(numbers(v, name))
    return found


def literal(line):
    """ast.literal_eval() of a line with the words for floats that are not literals."""
    tree = ast.parse(line, mode="eval")

    class Floats(ast.NodeTransformer):
        def visit_Name(self, node):  # noqa: N802  ast's name
            return ast.copy_location(ast.Constant(float(node.id)), node) if node.id in ("inf", "nan") else node

        def visit_UnaryOp(self, node):  # noqa: N802
            self.generic_visit(node)
            negative = isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, float)
            return ast.copy_location(ast.Constant(-node.operand.value), node) if negative else node
    return ast.literal_eval(Floats().visit(tree).body)


def test_lines_are_read_as_python_reads_them(place, seed):
    lines = []
    for i in range(LINES):
        data = {"line": i, **mapping(seed, 0, as_json := i % 2 == 0)}
        lines.append(json.dumps(data, ensure_ascii=i % 4 == 0) if as_json else repr(data))
    (place.path / "lines.txt").write_text("".join(line + "\n" for line in lines))
    place.train('print(open("lines.txt").read(), end="")\nprint({"loss": 1})\n')
    reports = [values for _, values in place.reports()]
    assert len(reports) == LINES + 1
    for i, (line, report) in enumerate(zip(lines, reports)):
        want = numbers(json.loads(line) if i % 2 == 0 else literal(line))
        assert repr(sorted(report.items())) == repr(sorted(want.items())), line
