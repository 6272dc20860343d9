# SPDX-License-Identifier: Apache-2.0
"""What a shim costs a program that nobody captures: bare, idle shim, tracing, and waiting for a kernel that never comes.

The four sides take turns, round by round; each program prints its own median time, so loading is not counted.
"""
import statistics

from capture import bare
from lab import Failure, must, numbers_of

MODES = ("bare", "idle", "trace", "waiting")


def one_run(ctx, mode, argv, program, number, lines, limit):
    if mode == "bare":
        done = must(ctx.run(argv, limit))
    elif mode == "idle":
        done = must(ctx.run(argv, limit, {"CUDA_INJECTION64_PATH": str(ctx.lab.shim())}))
    elif mode == "trace":
        done = must(ctx.klab("dispatches", "--out", ctx.folder / "list.jsonl", program=argv, limit=limit))
    else:
        done = ctx.klab("capture", "--kernel", "^klab_never_comes$", "--no-proof", "-o", ctx.folder / "never.klab",
                        program=argv, limit=limit)
        if done.error.get("code") != "no_such_kernel":
            raise Failure(f"waiting for a kernel that never comes: {done.brief()}")
    numbers = numbers_of(done.out, program) or numbers_of(done.err, program)
    if number not in numbers:
        raise Failure(f"{mode}: {program} printed no {number}")
    return numbers[number]


def overhead(program, argv_of, number, rounds_of, goal, limit):
    def run(ctx, emit):
        argv = argv_of(ctx.lab)
        lines, _ = bare(ctx, argv, limit)
        row, broken, times = {"what": f"overhead: {program}"}, {}, {mode: [] for mode in MODES}
        for _ in range(rounds_of(ctx.lab)):
            for mode in MODES:
                if mode in broken:
                    continue
                try:
                    times[mode].append(one_run(ctx, mode, argv, program, number, lines, limit))
                except Exception as error:  # one side that fails leaves the others' numbers
                    broken[mode] = str(error)
        row["unit"] = number
        for mode in MODES:
            if times[mode]:
                row[mode] = round(statistics.median(times[mode]), 2)
                row[f"{mode}_range"] = [round(min(times[mode]), 2), round(max(times[mode]), 2)]
        if "bare" not in row:
            raise Failure(f"bare: {broken.get('bare')}")
        ratios = {mode: round(row[mode] / row["bare"], 4) for mode in MODES[1:] if mode in row}
        row["ratios"] = ratios
        row["goal"] = f"idle <= {goal} x"
        row["result"] = f"{number} {row['bare']}: " + ", ".join(f"{mode} {ratio} x" for mode, ratio in ratios.items())
        if broken:
            emit("fail", row, "; ".join(f"{mode}: {why}" for mode, why in broken.items()))
            return
        row["met"] = ratios["idle"] <= goal
        emit("pass" if row["met"] else "missed", row)

    return run


def script(name):
    return lambda lab: [lab.python, str(lab.programs / f"{name}.py")]


CASES = [
    ("overhead", "many_launches", overhead("many_launches", lambda lab: [lab.example("many_launches"), "--size", "100000"],
                                           "ns_per_launch", lambda lab: 2 * lab.rounds, 1.10, 60)),
    ("overhead", "loop_small", overhead("loop_small", script("loop_small"), "us_per_step", lambda lab: lab.rounds, 1.10,
                                        120)),
    ("overhead", "training_step", overhead("training_step", script("training_step"), "us_per_step",
                                           lambda lab: lab.rounds, 1.01, 180)),
]
