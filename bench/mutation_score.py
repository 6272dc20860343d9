#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many small wrong edits of the example kernels' sources klab's validation catches.

Each mutant is one edit of one line (glsl_mutants.py), drawn by --seed, compiled and judged by `klab compare` on a bundle of the
example program that the source belongs to. Not counted: a mutant that does not compile, and one whose code is, byte
for byte, that of the unchanged source or of an earlier mutant. Survivors (verdict `correct`) are then judged on
dispatches that klab has not seen (another execution, another size of the program): one that is wrong there is no
equivalent mutant. Explanations of survivors come from mutation_notes.json; those without one are said to be unexplained.

Exit code 1 when a mutant could not be judged at all, or an unchanged source was not called correct."""
import argparse
import collections
import json
import pathlib
import random
import re
import sys
import tempfile
import time

from example_kernels import BUILD, OTHER_SIZE, SOURCES, ask, capture, capture_all, laboratory, listed, select, table, versions, write_text
from glsl_mutants import mutants

LEFT_OUT = ("float_atomics", "crash", "endless", "no_dispatch")
NOTES = pathlib.Path(__file__).resolve().parent / "mutation_notes.json"
OUTCOMES = ("incorrect", "failed", "not_verified", "correct")


def draw(kernel, seed):
    """The kernel's mutants in the order in which they are tried: kinds of edits take turns. Kernels of one source
    share them out, so that no edit is counted twice."""
    chance = random.Random(f"{seed}:{kernel.source.name}")
    kinds = collections.defaultdict(list)
    for m in mutants(kernel.source.read_text()):
        kinds[m.operator].append(m)
    for group in kinds.values():
        chance.shuffle(group)
    order = []
    while kinds:
        for kind in chance.sample(sorted(kinds), len(kinds)):
            order.append(kinds[kind].pop())
            if not kinds[kind]:
                del kinds[kind]
    ids = [(f"{kernel.source.stem}-{i}", m) for i, m in enumerate(order)]
    place, number = kernel.siblings
    return ids[place::number]


class Score:
    def __init__(self, lab, args):
        self.lab, self.args = lab, args
        self.rows, self.trouble, self.blamed, self.seen, self.witnesses = [], [], [], {}, {}

    def compare(self, bundle, file):
        start = time.monotonic()
        code, answer, why = ask(self.lab, "compare", bundle, "--variant", file, "--budget", "0", "--worker-budget",
                                str(self.args.time_limit_per_mutant), *self.args.klab_option,
                                limit=self.args.time_limit_per_mutant * 2 + 60)
        verdict = answer.get("verdict", {})
        if not verdict.get("correctness"):
            error = answer.get("error", {})
            return {"outcome": "error", "reason": f"exit {code}: {error.get('code', '')} {error.get('what', why)}".strip()}
        validation = (answer.get("variants") or [{}])[-1].get("validation", {})
        return {"outcome": verdict["correctness"], "reason": verdict.get("reason", ""),
                "inputs_tried": validation.get("inputs_tried"), "launches_checked": validation.get("launches_checked"),
                "seconds": round(time.monotonic() - start, 2)}

    def build(self, bundle, file):
        """The hash of the code, or None and the compiler's (or klab's) refusal."""
        code, answer, why = ask(self.lab, "build", bundle, "--source", file)
        if code == 0:
            return answer["variant"]["code_hash"], ""
        error = answer.get("error", {})
        if code == 7 or error.get("code") == "compile_failed":
            return None, error.get("what", why)
        raise RuntimeError(f"klab build: exit {code}: {error.get('what', why)}")

    def start(self, kernel):
        """The unchanged source must be `correct`, else a caught mutant says nothing."""
        self.seen[kernel.hash] = {self.build(kernel.bundle, kernel.source)[0]: "the unchanged source"}
        unchanged = self.compare(kernel.bundle, kernel.source)
        if unchanged["outcome"] != "correct":
            self.trouble.append(f"{kernel.label}: the unchanged source is {unchanged['outcome']}: {unchanged['reason']}")
        return unchanged["outcome"] == "correct"

    def judge(self, kernel, name, mutant):
        file = self.lab.folder / "mutants" / f"{name.replace('-', '_')}.comp"
        file.parent.mkdir(exist_ok=True)
        file.write_text(mutant.text)
        row = {"id": name, "kernel": kernel.label, "file": kernel.source.name, "line": mutant.line, "operator": mutant.operator,
               "before": mutant.before, "after": mutant.after, "outcome": "", "reason": ""}
        try:
            hash_, refusal = self.build(kernel.bundle, file)
        except RuntimeError as error:
            row.update(outcome="error", reason=str(error))
        else:
            seen = self.seen[kernel.hash]
            if hash_ is None:
                row.update(outcome="build_failed", reason=refusal)
            elif hash_ in seen:
                row.update(outcome="equal_code", reason=f"the same code as {seen[hash_]}")
            else:
                seen[hash_] = name
                row.update(self.compare(kernel.bundle, file))
                if row["outcome"] == "failed":
                    # A worker may die of what an earlier mutant did to its memory: the new one is asked too.
                    row["first"] = row["reason"]
                    row.update(self.compare(kernel.bundle, file))
                    if row["outcome"] != "failed":
                        self.blamed.append(f"{name}: {row['first']}; in a new worker: {row['outcome']}")
                if row["outcome"] in ("correct", "not_verified"):
                    row["elsewhere"] = [self.elsewhere(kernel, w, file) for w in self.held_out(kernel)]
        if row["outcome"] == "error":
            self.trouble.append(f"{name}: {row['reason']}")
        self.rows.append(row)
        return row

    def held_out(self, kernel):
        """(what it is, bundle) of dispatches of the same kernel that klab has not judged by."""
        if kernel.hash not in self.witnesses:
            p, nth = kernel.program, min(kernel.program.nth, kernel.calls)
            size = OTHER_SIZE.get(p.program, 777)
            asked = [(f"size {size}", nth, ("--size", str(size)))]
            if kernel.calls > 1:
                other = 1 if nth > 1 else 2
                asked.append((f"execution {other}", other, ()))
            found = []
            for what, n, more in asked if self.args.elsewhere else []:
                name = f"{kernel.bundle.stem}_{what.replace(' ', '_')}"
                bundle, why = capture(self.lab, kernel, name, n, more)
                if bundle:
                    select(self.lab, kernel, bundle)
                    if self.compare(bundle, kernel.source)["outcome"] == "correct":
                        found.append((what, bundle))
                else:
                    print(f"{kernel.label}, {what}: not captured: {why}", file=sys.stderr)
            self.witnesses[kernel.hash] = found
        return self.witnesses[kernel.hash]

    def elsewhere(self, kernel, witness, file):
        what, bundle = witness
        judged = self.compare(bundle, file)
        return {"on": what, "outcome": judged["outcome"], "reason": judged["reason"]}

    def run(self, kernels):
        """Kernels take turns, until --count mutants are counted or none is left."""
        if self.args.only:
            queues = {k: [d for d in draw(k, self.args.seed) if d[0] in self.args.only] for k in kernels}
            queues = {k: q for k, q in queues.items() if q}
        else:
            queues = {k: draw(k, self.args.seed) for k in kernels}
        queues = {k: q for k, q in queues.items() if self.start(k)} if queues else {}
        counted, began = 0, time.monotonic()
        while queues and (self.args.count == 0 or counted < self.args.count):
            for kernel in list(queues):
                while queues[kernel]:
                    row = self.judge(kernel, *queues[kernel].pop(0))
                    print(f"[{counted:>4}  {time.monotonic() - began:6.0f} s] {row['id']:<26} {row['outcome']:<12} "
                          f"{row['before']} -> {row['after']}", file=sys.stderr, flush=True)
                    if row["outcome"] in OUTCOMES:
                        counted += 1
                        break
                if not queues[kernel]:
                    del queues[kernel]
                if self.args.count and counted >= self.args.count:
                    break
        return counted


def note_of(row, notes):
    """The first note whose expression is found in "FILE: BEFORE -> AFTER"; one that needs it, only with a witness."""
    edit = f"{row['file']}: {row['before']} -> {row['after']}"
    return next((n for n in notes if re.search(n["edit"], edit) and (n.get("needs") != "elsewhere" or wrong_elsewhere(row))), None)


def wrong_elsewhere(row):
    return any(e["outcome"] in ("incorrect", "failed") for e in row.get("elsewhere", []))


KINDS = """`equivalent`: no input that the interface allows tells it from the source. `this launch`: right for the captured grid and
arguments only. `undefined`: out of bounds or not initialized, harmless on this device. `race`: hidden by the order in which this device
runs threads. `told`: klab
shows the difference, and says `not_verified`. `hole`: wrong for other inputs of this launch, and missed. `unexplained`: nobody has looked.
"""


def by_kind(rows, notes):
    kinds = collections.defaultdict(list)
    for r in rows:
        kinds[(note_of(r, notes) or {}).get("kind", "**unexplained**")].append(r)
    return kinds


def reason_class(row):
    """What caught it, in few words."""
    reason = row["reason"]
    if row["outcome"] == "failed":
        return "the replay crashed or did not end"
    for words, what in (("captured input, where doing nothing", "a mutated input"), ("mutated", "a mutated input"),
                        ("differ from the baseline", "the captured input")):
        if words in reason:
            return what
    return "another check"


def report(score, kernels, args, seconds, notes):
    rows = [r for r in score.rows if r["outcome"] in OUTCOMES]
    number = collections.Counter(r["outcome"] for r in score.rows)
    caught = number["incorrect"] + number["failed"]
    left = [r for r in rows if r["outcome"] in ("correct", "not_verified")]
    holes = [r for r in left if r["outcome"] == "correct" and wrong_elsewhere(r)]
    lines = ["# Mutation score of the example kernels\n",
             "Made by `bench/mutation_score.py" + "".join(f" {w}" for w in sys.argv[1:] if w != "") + "`. " + versions(score.lab) + ".\n",
             f"Of {len(score.rows)} mutants {number['build_failed']} did not compile and {number['equal_code']} have the code of the unchanged "
             f"source or of another mutant; **{len(rows)} are counted, {caught} caught**, {number['not_verified']} not verified, "
             f"{number['correct']} called correct, of which {len(holes)} are wrong on another dispatch of their program. {seconds:.0f} s.\n",
             "## Kernels\n"]
    columns = ["kernel", "source", "counted", "caught", "of these failed", "not verified", "survived", "not compiled", "equal code"]
    lines.append(table(columns, [per(k.label, k.source.name, [r for r in score.rows if r["kernel"] == k.label]) for k in kernels]))
    lines.append("## Kinds of edits\n")
    kinds = sorted({r["operator"] for r in score.rows})
    lines.append(table([columns[0].replace("kernel", "edit"), *columns[2:]],
                       [per(o, None, [r for r in score.rows if r["operator"] == o]) for o in kinds]))
    lines.append("## What caught them\n")
    by = collections.Counter(reason_class(r) for r in rows if r["outcome"] in ("incorrect", "failed"))
    lines.append(table(["by", "mutants"], by.most_common()))
    lines.append("## Survivors\n")
    if left:
        lines += [KINDS, table(["kind", "survivors", "wrong on another dispatch"], [
            (kind, len(rs), sum(r in holes for r in rs)) for kind, rs in sorted(by_kind(left, notes).items())])]
        lines.append(table(["mutant", "kernel", "line", "edit", "verdict", "elsewhere", "kind", "why it survived"], [
            (r["id"], r["kernel"], f"{r['file']}:{r['line']}", f"`{r['before']}` → `{r['after']}`", f"{r['outcome']}: {r['reason']}",
             "; ".join(f"{e['on']}: {e['outcome']}" for e in r.get("elsewhere", [])),
             (note_of(r, notes) or {}).get("kind", "**unexplained**"), (note_of(r, notes) or {}).get("why", "")) for r in left]))
    else:
        lines.append("None.\n")
    if score.blamed:
        lines += ["## Failed once\n", "Judged `failed`, and otherwise in a new worker: the verdict counted is the second.\n",
                  *(f"- {t}" for t in score.blamed), ""]
    if score.trouble:
        lines += ["## Not judged\n", *(f"- {t}" for t in score.trouble), ""]
    return "\n".join(lines)


def per(name, source, rows):
    n = collections.Counter(r["outcome"] for r in rows)
    figures = (sum(n[o] for o in OUTCOMES), n["incorrect"] + n["failed"], n["failed"], n["not_verified"], n["correct"], n["build_failed"],
               n["equal_code"])
    return (name, *(() if source is None else (source,)), *figures)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=220, help="mutants to count, 0 for all (default 220)")
    parser.add_argument("--seed", type=int, default=1, help="of the order in which edits are tried (default 1)")
    parser.add_argument("--kernels", nargs="+", metavar="WORD", help="those with one of these words in PROGRAM/KERNEL")
    parser.add_argument("--only", nargs="+", metavar="ID", help="just these mutants (with the same --seed)")
    parser.add_argument("--time-limit-per-mutant", type=float, default=120, metavar="S", help="klab's --budget (default 120)")
    parser.add_argument("--no-elsewhere", dest="elsewhere", action="store_false", help="survivors are not judged on other dispatches")
    parser.add_argument("--klab-option", action="append", default=[], metavar="WORD", help="handed to klab compare: --klab-option=--seed=3")
    parser.add_argument("--work", type=pathlib.Path, help="empty folder that bundles and mutants stay in (default: one that is removed)")
    parser.add_argument("--out", help="JSON with every mutant")
    parser.add_argument("--markdown", help="the tables (default: stdout)")
    parser.add_argument("--list", action="store_true", help="only list every edit")
    args = parser.parse_args()
    if args.list:
        for file in sorted(SOURCES.glob("*.comp")):
            if not file.name.startswith(LEFT_OUT):
                for m in mutants(file.read_text()):
                    print(f"{file.name}:{m.line}: {m.operator}: {m.edit}")
        return 0
    notes = json.loads(NOTES.read_text()) if NOTES.exists() else []
    with tempfile.TemporaryDirectory(prefix="klab-mutants-") as temporary:
        lab = laboratory((args.work or pathlib.Path(temporary) / "w").absolute())
        try:
            kernels = listed(lab, args.kernels, LEFT_OUT)
            capture_all(lab, kernels)
            score = Score(lab, args)
            began = time.monotonic()
            counted = score.run(kernels)
            seconds = time.monotonic() - began
            text = report(score, kernels, args, seconds, notes)
        finally:
            ask(lab, "hub", "stop", "--force")
    if args.out:
        for r in score.rows:
            if r["outcome"] in ("correct", "not_verified"):
                r["note"] = note_of(r, notes)
        write_text(args.out, json.dumps({"seed": args.seed, "counted": counted, "seconds": round(seconds, 1), "build": str(BUILD.name),
                                         "failed_once": score.blamed, "trouble": score.trouble, "mutants": score.rows}, indent=1) + "\n")
    write_text(args.markdown, text) if args.markdown else print(text)
    for t in score.trouble:
        print(f"mutation_score: {t}", file=sys.stderr)
    return 1 if score.trouble or not counted else 0


if __name__ == "__main__":
    sys.exit(main())
