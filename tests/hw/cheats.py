# SPDX-License-Identifier: Apache-2.0
"""Variants that try to pass (tests/cheats/cuda), and honest ones that must; what a check costs on the device."""
import json
import pathlib
import sys

from capture import Kernel, take
from lab import SKIPPED, Failure, Skip, must

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cheats"))
from heads import cheats  # noqa: E402


def cheat_case(cheat):
    def run(ctx, emit):
        row = {"what": f"cheat {cheat.name}", "tries": cheat.tries}
        argv = [ctx.lab.example(cheat.program), *cheat.args]
        bundle = take(ctx, row, argv, None, Kernel(cheat.kernel, nth=cheat.nth), cheat.kernel, "reachable", 60)
        for check in cheat.checks:
            done = ctx.klab("compare", bundle, "--variant", cheat.file, "--budget", "0.3", *check.options, limit=120)
            if done.timed_out or not done.out.strip():
                raise Failure(f"no answer: {done.brief()}")
            answer = done.json
            problem = check.problem(answer)
            if problem:
                raise Failure(problem)
            row["reason"] = answer["verdict"]["reason"][:300]
            row["launches"] = max(v.get("validation", {}).get("launches_checked", 0) for v in answer["variants"])
        row["result"] = f"{answer['verdict']['correctness']}: {row['reason'][:110]}"
        emit("pass", row)
    return run


def validation_cost(ctx, emit):
    """Goal: under 1 ms of device time for 64 MiB."""
    bench = ctx.lab.build / "bench_validation_cost"
    if not bench.exists():
        raise Skip("bench_validation_cost is not built (target bench)")
    done = ctx.run([bench, "cuda", "64"], 120)
    if done.code == SKIPPED:
        raise Skip(done.err.strip())
    answer = json.loads(must(done).out)
    worst = max(answer["hash_ms"], answer["values_f32_ms"], answer["values_f16_ms"])
    row = {"what": "validation of 64 MiB", "goal": "< 1 ms on the device", **answer, "met": worst < 1,
           "result": f"hash {answer['hash_ms']:.3f} ms, f32 {answer['values_f32_ms']:.3f}, f16 {answer['values_f16_ms']:.3f}, "
                     f"blanking {answer['blank_ms']:.3f}; to the host {answer['to_host_ms']:.1f}"}
    emit("pass" if worst < 1 else "missed", row)


CASES = [("cheats", c.name, cheat_case(c)) for c in cheats("cuda")] + [("validation-cost", "64 MiB", validation_cost)]
