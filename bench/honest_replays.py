#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays of the example kernels with validation, where nothing is wrong: how often klab raises a false alarm.

Every kernel of tests/programs_list.py is captured once. Its forms take turns: the captured code itself, and honest variants, which
leave the same bytes: its source rebuilt, rebuilt without optimisation, with its variables renamed, with a constant that is
not used, with negated comparisons. A false alarm is a verdict `incorrect` or `failed`; or `not_verified` where the kernel's first
replay was `correct`. A kernel whose results vary from run to run (float_atomics) must be `not_verified` each time.

Exit code 1 when there was a false alarm."""
import argparse
import collections
import json
import pathlib
import re
import sys
import tempfile
import time

from example_kernels import ask, capture_all, laboratory, listed, table, versions, write_text

LEFT_OUT = ("crash", "endless", "no_dispatch")


def renamed(text):
    """Every local variable gets another name. Members, swizzles and what the interface names keep theirs."""
    head, body = text.split("void main()", 1)
    for name in sorted(set(re.findall(r"\b(?:float|uint|int|Block)\s+(\w+)\s*=", body))):
        body = re.sub(rf"(?<![\w.]){name}\b", f"{name}_renamed", body)
    # `const uint col = ..., row = ...;`
    for name in sorted(set(re.findall(r"(?<=, )(\w+)(?= = )", body))):
        body = re.sub(rf"(?<![\w.]){name}\b", f"{name}_renamed", body)
    return f"{head}void main(){body}"


def with_constant(text):
    return text.replace("void main() {", "void main() {\n  const uint not_used = 12345u;", 1)


def negated(text):
    """`a < b` of unsigned numbers becomes `!(a >= b)` (of floats that would be another thing for NaN)."""
    head, body = text.split("void main()", 1)
    body = re.sub(r"\bif \((\w+) < ([\w.]+)\)", r"if (!(\1 >= \2))", body)
    body = re.sub(r"\bif \((\w+) >= (\w+)\) return;", r"if (!(\1 < \2)) return;", body)
    body = re.sub(r"; (\w+) < (\w+); ", r"; !(\1 >= \2); ", body)
    return f"{head}void main(){body}"


REWRITTEN = {"renamed": renamed, "unused constant": with_constant, "negated comparison": negated}
FORMS = ("captured", "rebuilt", "unoptimised", *REWRITTEN)


class Honest:
    def __init__(self, lab, args):
        self.lab, self.args = lab, args
        self.rows, self.variant, self.code, self.first = [], {}, {}, {}

    def build(self, kernel, at):
        """The kernel's variants, once; their forms that change nothing in its text are left out."""
        text = kernel.source.read_text()
        for form in FORMS[1:]:
            changed = REWRITTEN[form](text) if form in REWRITTEN else text
            if form in REWRITTEN and changed == text:
                continue
            name = f"k{at}_{form.replace(' ', '_')}"
            file = self.lab.folder / "honest" / f"{name}.comp"
            file.parent.mkdir(exist_ok=True)
            file.write_text(changed)
            code, answer, why = ask(self.lab, "build", kernel.bundle, "--source", file, "--name", name,
                                    *(("-O", "none") if form == "unoptimised" else ()))
            if code != 0:
                raise SystemExit(f"{kernel.label}, {form}: klab build failed: {answer.get('error', why)}")
            self.variant[kernel, form] = answer["variant"]["id"]
            self.code[kernel, form] = answer["variant"]["code_hash"]

    def replay(self, kernel, form):
        asked = () if form == "captured" else ("--variant", self.variant[kernel, form])
        start = time.monotonic()
        code, answer, why = ask(self.lab, "replay", kernel.bundle, *asked, "--iterations", "1", "--budget", str(self.args.time_limit),
                                *self.args.klab_option, limit=2 * self.args.time_limit + 60)
        judged = answer.get("validation") or answer.get("verdict") or {}
        row = {"kernel": kernel.label, "form": form, "verdict": judged.get("correctness", "none"), "reason": judged.get("reason", ""),
               "launches_checked": judged.get("launches_checked"), "exit_code": code, "seconds": round(time.monotonic() - start, 2), "alarm": ""}
        if row["verdict"] == "none":
            error = answer.get("error", {})
            row["reason"] = f"{error.get('code', '')} {error.get('what', why)}".strip()
        first = self.first.setdefault(kernel, row["verdict"])
        if row["verdict"] not in ("correct", "not_verified"):
            row["alarm"] = "no verdict" if row["verdict"] == "none" else row["verdict"]
        elif kernel.program.varying and row["verdict"] != "not_verified":
            row["alarm"] = "results that vary were called correct"
        elif row["verdict"] == "not_verified" and first == "correct":
            row["alarm"] = "not verified, and the first replay was correct"
        if row["alarm"]:
            row["answer"] = answer
        self.rows.append(row)
        return row

    def run(self, kernels):
        for at, k in enumerate(kernels):
            self.build(k, at)
        turns = [(k, form) for form in FORMS for k in kernels if form == "captured" or (k, form) in self.variant]
        began = last = time.monotonic()
        for i in range(self.args.replays):
            row = self.replay(*turns[i % len(turns)])
            if row["alarm"]:
                print(f"FALSE ALARM: {row['kernel']}, {row['form']}: {row['alarm']}: {row['reason']}", file=sys.stderr, flush=True)
            if time.monotonic() - last > 10 or i + 1 == self.args.replays:
                last = time.monotonic()
                alarms = sum(bool(r["alarm"]) for r in self.rows)
                print(f"[{last - began:6.0f} s] {i + 1} of {self.args.replays} replays, false alarms: {alarms}", file=sys.stderr, flush=True)


def report(honest, kernels, seconds):
    rows = honest.rows
    alarms = [r for r in rows if r["alarm"]]
    lines = ["# Honest replays of the example kernels\n",
             "Made by `bench/honest_replays.py" + "".join(f" {w}" for w in sys.argv[1:]) + "`. " + versions(honest.lab) + ".\n",
             f"**{len(rows)} validated replays of {len({r['kernel'] for r in rows})} kernels, false alarms: {len(alarms)}.** {seconds:.0f} s.\n",
             "Forms: the captured code; its source rebuilt; rebuilt without optimisation; with renamed variables, with an unused constant, "
             "with negated comparisons. `code` counts the different SPIR-V modules among them.\n"]
    body = []
    for k in kernels:
        mine = [r for r in rows if r["kernel"] == k.label]
        verdicts = collections.Counter(r["verdict"] for r in mine)
        last = next((r["reason"] for r in reversed(mine) if not r["alarm"]), "")
        codes = {h for (o, form), h in honest.code.items() if o is k} | {k.code_hash}
        launches = min((r["launches_checked"] for r in mine if r["launches_checked"] and not r["alarm"]), default="")
        body.append((k.label, len(mine), len({r["form"] for r in mine}), len(codes), launches, verdicts["correct"], verdicts["not_verified"],
                     sum(bool(r["alarm"]) for r in mine), last))
    lines.append(table(["kernel", "replays", "forms", "code", "fewest launches checked", "correct", "not verified",
                        "false alarms", "reason of the last"], body))
    if alarms:
        lines.append("## False alarms\n")
        lines.append(table(["kernel", "form", "alarm", "reason"], [(r["kernel"], r["form"], r["alarm"], r["reason"]) for r in alarms]))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replays", type=int, default=1000, help="in all (default 1000)")
    parser.add_argument("--kernels", nargs="+", metavar="WORD", help="those with one of these words in PROGRAM/KERNEL")
    parser.add_argument("--time-limit", type=float, default=120, metavar="S", help="klab's --budget for each replay (default 120)")
    parser.add_argument("--klab-option", action="append", default=[], metavar="WORD", help="handed to klab replay: --klab-option=--seed=3")
    parser.add_argument("--work", type=pathlib.Path, help="empty folder that bundles and sources stay in (default: one that is removed)")
    parser.add_argument("--out", help="JSON with every replay")
    parser.add_argument("--markdown", help="the table (default: stdout)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="klab-honest-") as temporary:
        lab = laboratory((args.work or pathlib.Path(temporary) / "w").absolute())
        try:
            kernels = listed(lab, args.kernels, LEFT_OUT)
            capture_all(lab, kernels)
            honest = Honest(lab, args)
            began = time.monotonic()
            honest.run(kernels)
            seconds = time.monotonic() - began
            text = report(honest, kernels, seconds)
        finally:
            ask(lab, "hub", "stop", "--force")
    alarms = [r for r in honest.rows if r["alarm"]]
    if args.out:
        write_text(args.out, json.dumps({"replays": len(honest.rows), "kernels": len(kernels), "false_alarms": len(alarms),
                                         "seconds": round(seconds, 1), "rows": honest.rows}, indent=1) + "\n")
    write_text(args.markdown, text) if args.markdown else print(text)
    return 1 if alarms or not honest.rows else 0


if __name__ == "__main__":
    sys.exit(main())
