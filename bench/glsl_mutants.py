# SPDX-License-Identifier: Apache-2.0
"""Small wrong edits of a compute shader's GLSL, each of one line. A regular-expression reader of the examples' plain style
(one statement a line, no macros), no parser: what does not compile is found out by compiling it.
Not here: which edits are tried, and what klab says of them."""
import dataclasses
import re

OPERAND = r"[A-Za-z_][\w.]*(?:\[[^\[\]]*\])?(?:\.\w+)?|\d[\w.]*"
LITERAL = re.compile(r"(?<![\w.])(\d+\.\d*|\d+)(u|f)?(?![\w.])")
# The first that fits wins, so that `<<` is never read as `<`.
TOKEN = re.compile(r"<<=|>>=|<<|>>|<=|>=|==|!=|\+\+|--|\+=|-=|\*=|/=|%=|\^=|&=|\|=|&&|\|\||[-+*/%<>^&|]")
REPLACED = {
    "<": ["<=", ">"], ">": [">=", "<"], "<=": ["<", ">="], ">=": [">", "<="], "==": ["!="], "!=": ["=="],
    "+": ["-", "*"], "-": ["+"], "*": ["+", "-"], "/": ["*"], "%": ["/"], "<<": [">>"], ">>": ["<<"],
    "^": ["|", "&"], "|": ["&", "^"], "&": ["|"], "&&": ["||"], "||": ["&&"],
    "+=": ["-=", "="], "-=": ["+="], "*=": ["+="], "^=": ["=", "|="], ">>=": ["<<="], "<<=": [">>="],
}
COMPARISONS = {"<", ">", "<=", ">=", "==", "!="}
OTHER_BUILTIN = {
    "gl_GlobalInvocationID": "gl_LocalInvocationID", "gl_LocalInvocationID": "gl_GlobalInvocationID",
    "gl_WorkGroupID": "gl_GlobalInvocationID", "gl_NumWorkGroups": "gl_WorkGroupSize",
}


@dataclasses.dataclass(frozen=True)
class Mutant:
    line: int       # from 1
    operator: str
    before: str     # the line, without its indentation
    after: str
    text: str = dataclasses.field(repr=False)  # of the whole mutated file

    @property
    def edit(self):
        return f"{self.before} -> {self.after}"


def without_comment(line):
    return line.split("//", 1)[0].rstrip()


def mutants(source):
    """Every edit that this file knows of `source` (text), no two with the same result."""
    lines = source.split("\n")
    start = next(i for i, line in enumerate(lines) if "void main()" in line)
    found, seen = [], {source}
    for at, whole in enumerate(lines):
        code = without_comment(whole)
        if not code.strip():
            continue
        edits = body(code, lines, at) if at > start else declaration(code)
        for operator, after in edits:
            text = "\n".join(lines[:at] + ([after + whole[len(code):]] if after.strip() else []) + lines[at + 1:])
            if text not in seen:
                seen.add(text)
                found.append(Mutant(at + 1, operator, code.strip(), after.strip() or "(nothing)", text))
    return found


def declaration(code):
    """Workgroup and shared-array sizes. Bindings and specialization constants are the program's interface: left."""
    if "constant_id" in code:
        return
    for m in re.finditer(r"(local_size_[xyz] = )(\d+)", code):
        for n in (int(m[2]) - 1, int(m[2]) * 2):
            yield "workgroup size", replaced(code, m.span(2), str(n))
    if code.startswith("shared "):
        for m in re.finditer(r"\[(\d+)\]", code):
            yield "shared size", replaced(code, m.span(1), str(int(m[1]) // 2))


def body(code, lines, at):
    yield from constants(code)
    yield from operators(code)
    yield from swapped(code)
    yield from indices(code)
    yield from names(code)
    yield from statements(code, lines, at)


def replaced(code, span, new):
    return code[:span[0]] + new + code[span[1]:]


def constants(code):
    for m in LITERAL.finditer(code):
        start = code[:m.start()]
        operator = "initial value" if re.search(r"\b(float|uint|int)\s+\w+ = $", start) and code[m.end():m.end() + 1] == ";" else "constant"
        suffix = m[2] or ""
        if "." in m[1]:
            value = float(m[1])
            others = [repr(v) for v in (value + 1, value - 1, value * 2, 0.0)]
            others = [f"({v})" if v.startswith("-") else v for v in others]
        else:
            value = int(m[1])
            others = [str(v) for v in (value + 1, value - 1, value * 2, 0) if v >= 0]
        for other in dict.fromkeys(others):
            yield operator, replaced(code, m.span(), other + suffix)


def operators(code):
    for m in TOKEN.finditer(code):
        for new in REPLACED.get(m[0], []):
            if m[0] == "-" and not re.search(r"[\w)\]] $", code[:m.start()]):
                continue  # a sign
            yield "comparison" if m[0] in COMPARISONS else "operator", replaced(code, m.span(), new)
        if m[0] in COMPARISONS:
            right = re.match(rf" ({OPERAND})", code[m.end():])
            if right:
                end = m.end() + right.end()
                for change in (" - 1u", " + 1u"):
                    yield "bound", code[:end] + change + code[end:]
        if m[0] == "++":
            yield "operator", code[:m.start()] + "--" + code[m.end():]
            post = re.search(r"(\w+)$", code[:m.start()])
            if post:
                yield "operator", replaced(code, (m.start() - len(post[1]), m.end()), "++" + post[1])
    for m in re.finditer(r"(?<=[?:=(,] )-(?=\w)", code):
        yield "operator", replaced(code, m.span(), "")


def swapped(code):
    """Operands of operators that mind the order, the two results of a choice, arguments of min, max and clamp."""
    for m in re.finditer(rf"({OPERAND}) (-|/|%|<<|>>|<|>|<=|>=) ({OPERAND})", code):
        yield "swapped operands", replaced(code, m.span(), f"{m[3]} {m[2]} {m[1]}")
    for m in re.finditer(r"\? ([^?:;]+) : ([^?:;]+);", code):
        yield "swapped operands", replaced(code, m.span(), f"? {m[2]} : {m[1]};")
    for m in re.finditer(r"\b(min|max)\(", code):
        yield "min and max", replaced(code, m.span(1), "max" if m[1] == "min" else "min")
    for m in re.finditer(r"\bclamp\(([^,()]+), ([^,()]+), ([^,()]+)\)", code):
        yield "min and max", replaced(code, m.span(), f"min({m[1]}, {m[3]})")
        yield "min and max", replaced(code, m.span(), f"max({m[1]}, {m[2]})")
        yield "swapped operands", replaced(code, m.span(), f"clamp({m[1]}, {m[3]}, {m[2]})")


def indices(code):
    for at, c in enumerate(code):
        if c != "[":
            continue
        depth, end = 1, at + 1
        while end < len(code) and depth:
            depth += {"[": 1, "]": -1}.get(code[end], 0)
            end += 1
        inner = code[at + 1:end - 1]
        if depth or not inner or LITERAL.fullmatch(inner):
            continue  # a literal is a constant, and changed as one
        for change in (" + 1u", " - 1u"):
            yield "index off by one", replaced(code, (at + 1, end - 1), f"({inner}){change}")


def names(code):
    for m in re.finditer(r"(?<=[\w\])])\.([xyzw])\b", code):
        for other in {"x": "yz", "y": "xz", "z": "xy", "w": "x"}[m[1]]:
            yield "component", replaced(code, m.span(1), other)
    for m in re.finditer(r"\bgl_\w+", code):
        if m[0] in OTHER_BUILTIN:
            yield "built-in", replaced(code, m.span(), OTHER_BUILTIN[m[0]])
    for m in re.finditer(rf"\bfor \(uint \w+ = ({OPERAND});", code):
        yield "initial value", replaced(code, m.span(1), f"{m[1]} + 1u")


def statements(code, lines, at):
    stripped = code.strip()
    indent = code[:len(code) - len(code.lstrip())]
    if re.fullmatch(r"(barrier|memoryBarrier\w*|groupMemoryBarrier)\(\);", stripped):
        yield "barrier removed", ""
    if re.fullmatch(r"if \([^()]*\) return;", stripped):
        yield "guard removed", ""
    guard = re.match(r"\s*if \([^()]*\) ", code)
    if guard and "return" not in code:
        yield "guard removed", indent + code[guard.end():]
    loop = re.match(r"\s*for \([^()]*\) ", code)
    if loop and not code.endswith("{"):
        yield "statement dropped", code[:loop.end()].rstrip() + ";"
    if at + 1 < len(lines) and lines[at + 1].strip() == "}" and stripped.endswith(";") and opens_loop(lines, at + 1):
        yield "statement dropped", ""
    if re.fullmatch(r"[\w.]+\[.*\] \S?= .*;", stripped):
        yield "statement dropped", ""


def opens_loop(lines, closing):
    depth = 0
    for line in reversed(lines[:closing + 1]):
        depth += line.count("}") - line.count("{")
        if depth <= 0:
            return line.lstrip().startswith("for ")
    return False
