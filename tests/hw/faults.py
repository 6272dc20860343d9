# SPDX-License-Identifier: Apache-2.0
"""Kernels that fault or never end, in the program and in the replay; variants that are wrong, fault or hang. Each must
end with a typed outcome inside its budget, and the next command must work.
"""
import re
import shutil
import time

from capture import Kernel, bare, check_unchanged, replay, take
from lab import Failure, Skip, must, result_lines

TYPED = {"target_failed", "capture_refused", "launch_failed", "device_fault", "timeout", "worker_lost"}


def typed(done, codes, within):
    """`done` must have failed with one of the error codes, in time, and not by a bug of klab's."""
    if done.timed_out or done.seconds > within:
        raise Failure(f"{done.brief()} (it had {within} s)")
    if done.code is None or done.code < 0 or done.code == 70:
        raise Failure(f"klab itself failed: {done.brief()}")
    if done.code == 0:
        raise Failure("it succeeded, though it could not")
    if done.error.get("code") not in codes:
        raise Failure(f"not one of {', '.join(sorted(codes))}: {done.brief()}")
    if not done.error.get("what"):
        raise Failure(f"{done.error.get('code')} without a word of what happened")
    return f"{done.error['code']} after {done.seconds:.1f} s"


def next_run_works(ctx, row, program="saxpy", pattern="saxpy"):
    """Whatever happened before: a capture and a replay of another program."""
    argv = [ctx.lab.example(program)]
    bundle = take(ctx, {}, argv, None, Kernel(pattern), pattern, "reachable", 60)
    replay(ctx, {}, bundle, iterations=3)
    row["next_run"] = "works"


class Rows:
    """Several checks in one case, one row each."""

    def __init__(self, ctx, emit):
        self.ctx, self.emit = ctx, emit

    def check(self, what, function):
        row = {"what": what}
        try:
            function(row)
            self.emit("pass", row)
            return True
        except Failure as failure:
            self.emit("fail", row, str(failure))
        except (KeyError, TypeError, ValueError) as error:
            self.emit("fail", row, f"an answer of klab lacks or holds something unexpected: {error!r}")
        return False


def fault_in_the_program(ctx, emit):
    rows, argv = Rows(ctx, emit), [ctx.lab.example("fault")]
    lines, _ = bare(ctx, argv, 60)

    def before(row):
        bundle = take(ctx, row, argv, lines, Kernel("before_the_fault"), "before_the_fault", "reachable", 60)
        replay(ctx, row, bundle)

    def at(row):
        done = ctx.klab("capture", "--kernel", "write_outside", "-o", "fault.klab", "--time-limit", 60, program=argv,
                        limit=120)
        if done.code == 0:  # the state before was taken and the fault came after: then the proof must say so
            states = [p["state"] for p in done.json.get("proofs", [])]
            if not done.json.get("proof_error") and states != ["failed"]:
                raise Failure(f"captured, and the proof is {states}")
            row["replay"] = "captured; proof " + (states[0] if states else done.json["proof_error"]["code"])
            check_unchanged(done, lines)
        else:
            row["replay"] = typed(done, TYPED, 100)
        next_run_works(ctx, row)

    rows.check("fault: the launch before it", before)
    rows.check("fault: the faulting launch", at)


def endless(ctx, emit):
    rows, argv = Rows(ctx, emit), [ctx.lab.example("endless")]
    lines, _ = bare(ctx, argv, 60)

    def replayed(row):
        bundle = take(ctx, row, argv, lines, Kernel("spin_until_told"), "spin_until_told", "reachable", 60,
                      "--no-proof")
        done = ctx.klab("replay", bundle, "--iterations", 1, "--budget", 5, limit=90)
        row["replay"] = typed(done, {"timeout"}, 45)
        next_run_works(ctx, row)

    def held(row):
        done = ctx.klab("capture", "--kernel", "spin_until_told", "-o", "held.klab", "--drain", 5, "--time-limit", 15,
                        "--no-proof", program=[*argv, "--hold"], limit=120)
        row["replay"] = typed(done, TYPED, 60)
        next_run_works(ctx, row)

    rows.check("endless: its replay", replayed)
    rows.check("endless --hold: its capture", held)


FAULTING = """extern "C" __global__ void saxpy(unsigned n, float a, const float* __restrict__ x, float* __restrict__ y) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i + (1ull << 44)] = a * x[i];
}
"""
HANGING = """extern "C" __global__ void saxpy(unsigned n, float a, const float* __restrict__ x, float* y) {
  volatile float* p = y;
  while (p[0] != 123456.0f) {}
  p[1] = a * x[0] + n;
}
"""
BROKEN = """extern "C" __global__ void saxpy(unsigned n, float a, const float* __restrict__ x, float* __restrict__ y) {
  undefined_name = n;
}
"""


def compare(ctx, bundle, source, *options, limit=180):
    return ctx.klab("compare", bundle, "--variant", source, "--budget", "2s", *options, limit=limit)


def wants_correct(done, row):
    verdict = must(done, (0, 4, 5)).json["verdict"]
    row["replay"] = verdict["correctness"]
    if verdict["correctness"] != "correct":
        raise Failure(f"{verdict['correctness']}: {verdict.get('reason')}")
    ratio = done.json.get("ratio")
    if ratio:
        row["ratio"] = round(ratio["ratio"], 4)


def wants_incorrect(done, row):
    verdict = must(done, 3).json["verdict"]
    row["replay"] = verdict["correctness"]
    if verdict["correctness"] != "incorrect":
        raise Failure(f"{verdict['correctness']}: {verdict.get('reason')}")
    if "ratio" in done.json:
        raise Failure("a wrong variant was given a speed")


def variants(ctx, emit):
    """Built through NVRTC (the default) and nvcc, judged against what was captured."""
    rows = Rows(ctx, emit)
    sources = ctx.lab.sources / "variants"
    argv = [ctx.lab.example("saxpy"), "--size", str(16 << 20)]
    bare(ctx, argv, 60)
    made = {}

    def captured(row):
        made["saxpy"] = take(ctx, row, argv, None, Kernel("saxpy"), "saxpy", "reachable", 60)
        made["transpose"] = take(ctx, row, [ctx.lab.example("transpose"), "--size", "4096"], None,
                                 Kernel("transpose_naive"), "transpose_naive", "reachable", 60)

    if not rows.check("variants: capture", captured):
        return
    saxpy, transpose = made["saxpy"], made["transpose"]

    def with_nvcc(row):
        found = ctx.klab("build", "--help")
        flag = re.search(r"--(compiler|toolchain|with)\b", found.text)
        if not flag:
            raise Failure("klab build has no option that chooses nvcc")
        must(ctx.klab("build", saxpy, "--source", sources / "saxpy_fast.cu", f"--{flag.group(1)}", "nvcc", "--name",
                      "by_nvcc", limit=120))
        wants_correct(compare(ctx, saxpy, "by_nvcc"), row)

    def same_source(row):
        shutil.copy(ctx.lab.sources / "saxpy_kernel.cuh", ctx.folder / "same.cu")
        built = must(ctx.klab("build", saxpy, "--source", ctx.folder / "same.cu", "--name", "same"))
        row["note_build"] = "same code" if built.json.get("same_code") else "other code"
        wants_correct(compare(ctx, saxpy, "same"), row)

    def broken(row):
        (ctx.folder / "broken.cu").write_text(BROKEN)
        done = ctx.klab("build", saxpy, "--source", ctx.folder / "broken.cu")
        row["replay"] = typed(done, {"compile_failed"}, 60)
        if "undefined_name" not in done.error["what"] or "broken.cu" not in done.error["what"]:
            raise Failure(f"the message names neither file nor mistake: {done.error['what'][:200]}")

    def ends(name, text, outcome):
        def check(row):
            (ctx.folder / f"{name}.cu").write_text(text)
            started = time.monotonic()
            done = compare(ctx, saxpy, ctx.folder / f"{name}.cu", "--worker-budget", 40, limit=120)
            verdict = must(done, (3, 8)).json.get("verdict", {})
            if verdict.get("correctness") != "failed" or outcome not in verdict.get("reason", ""):
                raise Failure(f"{verdict.get('correctness')}: {verdict.get('reason')} (wanted {outcome})")
            row["replay"] = f"failed, {outcome} after {time.monotonic() - started:.1f} s"
            row["next_run"] = "fails"
            replay(ctx, {}, saxpy, iterations=3)
            row["next_run"] = "works"
        return check

    rows.check("variant saxpy_fast (NVRTC)", lambda row: wants_correct(
        compare(ctx, saxpy, sources / "saxpy_fast.cu"), row))
    rows.check("variant saxpy_wrong (NVRTC)", lambda row: wants_incorrect(
        compare(ctx, saxpy, sources / "saxpy_wrong.cu"), row))
    rows.check("variant transpose_fast (NVRTC)", lambda row: wants_correct(
        compare(ctx, transpose, sources / "transpose_fast.cu"), row))
    rows.check("variant saxpy_fast (nvcc)", with_nvcc)
    rows.check("variant: the same source", same_source)
    rows.check("variant: a compile error", broken)
    rows.check("variant: a fault", ends("faulting", FAULTING, "device_fault"))
    rows.check("variant: never ends", ends("hanging", HANGING, "timeout"))


# The self-test: the same functions on Vulkan programs, and failures that are made on purpose.

def self_variants(ctx, emit):
    rows = Rows(ctx, emit)
    argv = [ctx.lab.example("saxpy"), "--size", "4096"]
    bare(ctx, argv, 60)
    bundle = take(ctx, {}, argv, None, Kernel("saxpy"), "saxpy", "reachable", 60)
    right = (ctx.lab.sources / "saxpy.comp").read_text()
    (ctx.folder / "right.comp").write_text(right)
    (ctx.folder / "wrong.comp").write_text(right[:right.index("void main()")] + "void main() {}\n")
    rows.check("a right variant", lambda row: wants_correct(compare(ctx, bundle, "right.comp"), row))
    rows.check("a wrong variant", lambda row: wants_incorrect(compare(ctx, bundle, "wrong.comp"), row))


def self_endless(ctx, emit):
    rows, argv = Rows(ctx, emit), [ctx.lab.example("endless")]
    lines, _ = bare(ctx, argv, 60)

    def replayed(row):
        bundle = take(ctx, row, argv, lines, Kernel("main"), "main", "reachable", 60, "--no-proof")
        done = ctx.klab("replay", bundle, "--iterations", 1, "--budget", 3, limit=60)
        row["replay"] = typed(done, {"timeout"}, 30)
        next_run_works(ctx, row)

    rows.check("endless: its replay", replayed)


def self_failures(ctx, emit):
    """What goes wrong must be seen: each of these must raise Failure, or the case fails."""
    rows = Rows(ctx, emit)
    saxpy = [ctx.lab.example("saxpy"), "--size", "4096"]
    lines, _ = bare(ctx, saxpy, 60)

    def must_fail(function, *words):
        def check(row):
            try:
                function()
            except Failure as failure:
                if not all(word in str(failure) for word in words):
                    raise Failure(f"seen, but told as: {failure}") from None
                row["replay"] = str(failure)[:90]
                return
            raise Failure("it was not seen")
        return check

    rows.check("a missing program is seen", must_fail(lambda: ctx.lab.example("no_such_program"), "no_such_program"))
    rows.check("a program that exits with 1 is seen", must_fail(lambda: bare(ctx, ["false"], 5), "exited with 1"))
    rows.check("a program without a result is seen", must_fail(lambda: bare(ctx, ["true"], 5), "no result"))
    rows.check("a time limit is seen", must_fail(lambda: must(ctx.run(["sleep", "30"], 0.5)), "ran out of"))
    rows.check("a kernel that never comes is seen",
               must_fail(lambda: take(ctx, {}, saxpy, lines, Kernel("x"), "never_comes", "reachable", 60),
                         "no_such_kernel"))
    rows.check("an execution that never comes is seen",
               must_fail(lambda: take(ctx, {}, saxpy, lines, Kernel("saxpy", nth=9), "saxpy", "reachable", 60),
                         "no_such_kernel"))
    rows.check("a changed result is seen",
               must_fail(lambda: take(ctx, {}, saxpy, ["saxpy: ok, checksum 0"], Kernel("saxpy"), "saxpy", "reachable",
                                      60), "result changed"))
    rows.check("a program that cannot start is seen",
               must_fail(lambda: take(ctx, {}, ["/no/such/program"], None, Kernel("x"), "x", "reachable", 20)))
    rows.check("a klab that dies is seen", must_fail(lambda: must(ctx.run(["sh", "-c", "kill -11 $$"], 5)), "-11"))

    def left_behind(row):
        # A command that is ended takes its children with it.
        ctx.run(["sh", "-c", "sleep 61.25 & echo $! > child; wait"], 0.5)
        pid = (ctx.folder / "child").read_text().strip()
        time.sleep(0.2)
        try:
            state = open(f"/proc/{pid}/stat").read().split()[2]
        except OSError:
            state = "gone"
        if state not in ("gone", "Z", "X"):
            raise Failure(f"process {pid} is left behind ({state})")

    rows.check("nothing is left behind", left_behind)

    def skipped(row):
        try:
            bare(ctx, ["sh", "-c", "echo 'x: skipped, no device'; exit 77"], 5)
        except Skip as skip:
            row["replay"] = str(skip)
            return
        raise Failure("a skip was not seen")

    rows.check("a skip is seen", skipped)
    def parsed(row):
        found = result_lines("noise\nx: ok, checksum 0a1b, ns_per_launch 17.5\n")
        if found != ["x: ok, checksum 0a1b"]:
            raise Failure(f"{found}")

    rows.check("results are found without their timings", parsed)


CASES = [("faults", "fault", fault_in_the_program), ("faults", "endless", endless), ("variants", "variants", variants)]
SELF_TEST = [("self-test", "variants", self_variants), ("self-test", "endless", self_endless),
             ("self-test", "failures", self_failures)]
