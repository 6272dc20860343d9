# SPDX-License-Identifier: Apache-2.0
"""Comparisons on a GPU: how often two copies of one kernel are called different, how narrow intervals are, what is found.

`logistic` computes for as long as it is told; `variants/logistic_slower.cu` does some thousandths more of the same.
Not here: the same on a CPU driver (bench/claims.py).
"""
import collections
import json
import os
import statistics

from capture import Kernel, bare, take
from lab import Failure, Skip, must
from measure import judge

# Rounds that give about these times on an H200; the row says what they were.
DURATIONS = {"10 us": 300, "100 us": 3500, "1 ms": 36000}


def captured(ctx, row, name):
    argv = [ctx.lab.example("logistic"), "--repeat", str(DURATIONS[name])]
    lines, _ = bare(ctx, argv, 60)
    return take(ctx, row, argv, lines, Kernel("logistic"), "logistic", "reachable", 60, "--no-proof")


def claims(ctx, bundle, *options, limit):
    bench = ctx.lab.build / "bench_claims"
    if not os.access(bench, os.X_OK):
        raise Skip("bench_claims is not built (target bench)")
    # Floors are shared by all cases of this run, as a user's are by a week's.
    done = must(ctx.run([bench, bundle, "--floors", ctx.lab.work / "floors.json", *map(str, options)], limit))
    lines = [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]
    good = [line for line in lines if "error" not in line]
    if not good:
        raise Failure(f"nothing was compared: {lines[:1]}")
    return good


def figures(row, lines):
    verdicts = collections.Counter(line["verdict"] for line in lines)
    half = [(line["high"] - line["low"]) / 2 for line in lines if line["high"] > 0]
    row.update(tries=len(lines), verdicts=dict(verdicts), median_us=round(statistics.median(line["median_ns"] for line in lines) / 1e3, 2),
               half_width_percent=round(100 * statistics.median(half), 3) if half else None,
               excludes_1=sum(line["low"] > 1 or 0 < line["high"] < 1 for line in lines),
               floor_percent=round(100 * lines[-1]["floor"], 3), placements=statistics.median(line["placements"] for line in lines),
               seconds=round(statistics.mean(line["seconds"] for line in lines), 2),
               timer_step_ns=statistics.median(line["timer_step_ns"] for line in lines),
               dropped=sum(sum(line["dropped"].values()) for line in lines))
    return verdicts


def same(name, tries):
    def run(ctx, emit):
        row = {"what": f"A/A, {name}, --budget 2s"}
        bundle = captured(ctx, row, name)
        lines = claims(ctx, bundle, "--same", "--tries", tries, "--budget", 2, limit=60 + 6 * tries)
        verdicts = figures(row, lines)
        false = verdicts["faster"] + verdicts["slower"]
        row["goal"] = "intervals without 1 <= 8.5 %, claims <= 2 %"
        row["result"] = (f"{row['excludes_1']} of {len(lines)} intervals without 1, {false} false claims, {dict(verdicts)}; half-width "
                         f"{row['half_width_percent']} %, floor {row['floor_percent']} %, {row['placements']} placements")
        judge(emit, row, row["excludes_1"] <= 0.085 * len(lines) and false <= 0.02 * len(lines))

    return run


def width(name, budget):
    def run(ctx, emit):
        row = {"what": f"half-width, {name}, --budget {budget}s"}
        bundle = captured(ctx, row, name)
        lines = claims(ctx, bundle, "--same", "--tries", 1, "--budget", budget, "--seed", 4000, limit=90 + 4 * budget)
        figures(row, lines)
        row["result"] = f"+-{row['half_width_percent']} % ({lines[0]['verdict']}), floor {row['floor_percent']} %, {row['placements']} placements"
        judge(emit, row, None)

    return run


def slowdowns(name, budget, tries):
    def run(ctx, emit):
        row = {"what": f"injected slowdowns, {name}, --budget {budget}s"}
        bundle = captured(ctx, row, name)
        found = []

        def build(extra):
            done = ctx.klab("build", bundle, "--source", ctx.lab.sources / "variants" / "logistic_slower.cu", "-D", f"EXTRA={extra}",
                            "--name", f"slower{extra}", limit=60)
            return must(done).json["variant"]["code"]

        # Against the same source with no round more, so that only these count.
        none = build(0)
        for extra in (4, 8, 12, 20, 40):
            lines = claims(ctx, bundle, "--reference", none, "--code", build(extra), "--tries", tries, "--budget", budget, "--seed", 500 + extra,
                           limit=120 + 5 * budget * tries)
            verdicts = collections.Counter(line["verdict"] for line in lines)
            ratio = statistics.median(line["ratio"] for line in lines)
            found.append((extra / 10, round(100 * (ratio - 1), 2), verdicts["slower"], len(lines), round(100 * lines[-1]["delta"], 2)))
            if verdicts["slower"] == len(lines):
                break
        row["found"] = found
        smallest = next((f for f in found if f[2] >= 0.8 * f[3]), None)
        row["result"] = "; ".join(f"+{f[0]} % of the rounds: {f[1]:+} %, found {f[2]}/{f[3]}" for f in found) + f"; delta {found[-1][4]} %"
        row["goal"] = "found when twice delta"
        judge(emit, row, smallest is not None and smallest[1] <= 2 * smallest[4] + 0.5)

    return run


CASES = ([("claims", f"same {name}", same(name, 100)) for name in DURATIONS] +
         [("claims-width", f"{name} {budget}s", width(name, budget)) for name in DURATIONS for budget in (2, 10, 60)] +
         [("claims-slowdown", name, slowdowns(name, 5, 5)) for name in DURATIONS])
