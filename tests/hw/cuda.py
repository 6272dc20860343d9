#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything that needs a CUDA device, as cases: examples, faults, Python programs, variants, measurements.

Each case is one or more rows; each row is one JSON line of OUT/results.jsonl, written as soon as it is known, so that
nothing is lost when time runs out. Cases that check may run several at a time; cases that measure run alone.
Not here: what is checked (capture.py, faults.py, basics.py) and measured (measure.py, overhead.py).
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import sys
import threading
import time
import traceback

import basics
import calibrate
import cases
import cheats
import claims
import faults
import measure
import overhead
from lab import Context, Failure, Lab, Skip, cut_bytes, find_build, usage

# Groups in the order in which they run. Those that measure run one case at a time, after the others.
ORDER = ["doctor", "unit", "examples", "faults", "variants", "cheats", "python", "speeds", "overhead", "big-capture", "agreement",
         "warm", "validation-cost", "claims-width", "claims-slowdown", "claims", "calibrate"]
ALONE = {"doctor", "unit", "speeds", "overhead", "big-capture", "agreement", "warm", "validation-cost", "claims-width",
         "claims-slowdown", "claims", "calibrate"}


class Results:
    """Rows as they come: into the file, one line on the terminal, and kept for the table. Thread: any."""

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8")
        self.rows, self.lock = [], threading.Lock()

    def add(self, group, case, outcome, row, note=""):
        whole = {"group": group, "case": case, "outcome": outcome, **row}
        if note:
            whole["note"] = note
        with self.lock:
            self.rows.append(whole)
            self.file.write(json.dumps(whole, ensure_ascii=False) + "\n")
            self.file.flush()
            what = row.get("what", case) + (f" [{row['scope']}]" if row.get("scope") else "")
            print(f"{outcome:8} {what}" + (f": {note}" if note else ""), flush=True)

    def line(self, value):
        self.file.write(json.dumps(value, ensure_ascii=False) + "\n")
        self.file.flush()


def run_case(lab, results, group, name, function):
    if lab.deadline is not None and time.monotonic() >= lab.deadline:
        results.add(group, name, "not_run", {}, "the time was used up")
        return
    started = time.monotonic()
    context = Context(lab, f"{group}_{name}")
    emitted = []

    def emit(outcome, row, note=""):
        emitted.append(outcome)
        results.add(group, name, outcome, {**row, "at_s": round(time.monotonic() - started, 2)}, note)

    try:
        function(context, emit)
        if not emitted:
            raise Failure("the case checked nothing")
    except Skip as skip:
        emit("skip", {}, str(skip))
    except Failure as failure:
        emit("fail", {}, str(failure))
    except Exception as error:  # a mistake of this script: the other cases go on
        context.note(traceback.format_exc())
        emit("fail", {}, f"the test script failed: {error!r}")
    failed = "fail" in emitted
    if failed:
        context.worker_log()
    context.close(keep=failed)


def print_table(results):
    columns = [("case", lambda r: r.get("what", r["case"])[:46]), ("scope", lambda r: r.get("scope", "")),
               ("capture", lambda r: r.get("capture", "")), ("proof", lambda r: r.get("proof", "")),
               ("regions", lambda r: str(r.get("regions", ""))),
               ("bytes", lambda r: cut_bytes(r["bytes"]) if "bytes" in r else ""),
               ("addresses", lambda r: r.get("addresses", "")), ("replay", lambda r: r.get("replay", "")[:34]),
               ("median us", lambda r: str(r.get("median_us", ""))), ("outcome", lambda r: r["outcome"]),
               ("note", lambda r: r.get("note", r.get("result", ""))[:110])]
    cells = [[name for name, _ in columns]] + [[text(r) for _, text in columns] for r in results.rows]
    shown = [i for i in range(len(columns)) if any(row[i] for row in cells[1:])]
    widths = {i: max(len(row[i]) for row in cells) for i in shown}
    print()
    for row in cells:
        print("  ".join(row[i].ljust(widths[i]) for i in shown).rstrip())
    counts = {}
    for row in results.rows:
        counts[row["outcome"]] = counts.get(row["outcome"], 0) + 1
    print("\n" + ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())) or "nothing was run")


def parse_arguments(argv):
    parser = argparse.ArgumentParser(prog="tests/hw/cuda.sh", description=__doc__.split("\n")[0],
                                     epilog="Groups: " + ", ".join(ORDER) + ". A case is GROUP:PART-OF-ITS-NAME.")
    parser.add_argument("--build", help="folder that klab is in (default: the build of this source tree)")
    parser.add_argument("--only", default="", metavar="GROUP,...", help="groups, or cases as GROUP:PART-OF-NAME")
    parser.add_argument("--skip", default="", metavar="GROUP,...", help="what to leave out, in the same words")
    parser.add_argument("--budget", type=float, metavar="SECONDS",
                        help="start no new case after this; what was not run is said")
    parser.add_argument("--out", default="", help="folder for results.jsonl and logs (default: BUILD/hw)")
    parser.add_argument("--work", default="", help="folder for bundles, 20 GiB free (default: OUT/work)")
    parser.add_argument("--jobs", type=int, default=4, help="checking cases at a time (default 4)")
    parser.add_argument("--rounds", type=int, default=3, help="of each side of an overhead (default 3)")
    parser.add_argument("--python", default=sys.executable, help="Python that has torch, triton, cupy, jax (default: this)")
    parser.add_argument("--list", action="store_true", help="name the cases and do nothing")
    parser.add_argument("--self-test", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def chosen(words, group, name):
    for word in filter(None, words.split(",")):
        in_group, _, part = word.partition(":")
        if in_group == group and part in name:
            return True
    return False


def main(argv):
    arguments = parse_arguments(argv)
    if arguments.self_test:
        every = cases.program_cases(self_test=True) + faults.SELF_TEST + measure.SELF_TEST
        order, alone = ["self-test"], set()
    else:
        every = basics.CASES + cases.program_cases() + faults.CASES + measure.CASES + calibrate.CASES + overhead.CASES + cheats.CASES + claims.CASES
        order, alone = ORDER, ALONE
    for words in (arguments.only, arguments.skip):
        for word in filter(None, words.split(",")):
            if word.partition(":")[0] not in order:
                usage(f"no group {word.partition(':')[0]}; there are {', '.join(order)}")
    wanted = [c for c in sorted(every, key=lambda c: order.index(c[0]))
              if (not arguments.only or chosen(arguments.only, c[0], c[1])) and not chosen(arguments.skip, c[0], c[1])]
    if arguments.list:
        for group, name, _ in wanted:
            print(f"{group}:{name}")
        return 0
    if not wanted:
        usage("no such case (--list names them)")

    build = find_build(arguments.build)
    out = pathlib.Path(arguments.out) if arguments.out else build / ("hw-self-test" if arguments.self_test else "hw")
    out.mkdir(parents=True, exist_ok=True)
    out = out.resolve()
    shutil.rmtree(out / "logs", ignore_errors=True)
    work = pathlib.Path(arguments.work) if arguments.work else out / "work"
    work.mkdir(parents=True, exist_ok=True)
    lab = Lab(build, out, work.resolve(), shutil.which(arguments.python) or arguments.python, arguments.self_test)
    lab.rounds = arguments.rounds
    started = time.monotonic()
    if arguments.budget:
        lab.deadline = started + arguments.budget
    results = Results(out / "results.jsonl")
    environment = basics.environment(lab)
    results.line({"environment": environment})
    print("; ".join(f"{k}: {v}" for k, v in environment.items() if v), flush=True)
    # Ended from outside: what runs is ended and told, the table is printed; a second time nothing is waited for.
    stopped = []

    def stop(number, _):
        if stopped:
            os._exit(128 + number)
        stopped.append(number)
        lab.stop_all()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)

    together = [c for c in wanted if c[0] not in alone]
    first = [c for c in wanted if c[0] in ("doctor", "unit")]
    last = [c for c in wanted if c[0] in alone and c[0] not in ("doctor", "unit")]
    for case in first:
        run_case(lab, results, *case)
    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        for done in [pool.submit(run_case, lab, results, *case) for case in together]:
            done.result()
    for case in last:
        run_case(lab, results, *case)
    results.line({"finished": {"seconds": round(time.monotonic() - started, 1)}})
    print_table(results)
    print(f"{time.monotonic() - started:.0f} s; {out / 'results.jsonl'}; logs of failures in {out / 'logs'}")
    if stopped:
        return 128 + stopped[0]
    outcomes = {r["outcome"] for r in results.rows}
    if not outcomes - {"skip", "not_run"}:
        print("nothing was checked")
        return 6
    return 1 if outcomes & {"fail", "missed", "not_run"} else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
