# SPDX-License-Identifier: Apache-2.0
"""The path that every program takes: bare run, dispatches, capture, inspect, replay. One code for examples and for
Python programs, for CUDA and (in the self-test) for Vulkan.
"""
import dataclasses
import re

from lab import Failure, SKIPPED, Skip, cut_bytes, must, result_lines

ITERATIONS = 20


@dataclasses.dataclass(frozen=True)
class Kernel:
    pattern: str             # regular expression on the name that `klab dispatches` shows
    calls: int = 0           # executions in one run; 0: not known
    nth: int = 1             # the execution to take
    scopes: tuple = ("reachable", "all")
    varying: bool = False    # some bytes of its result change from run to run
    proof: str = "equal"     # what a capture of what is reachable must prove: "equal", or "not equal"
    reachable_below: int = 0  # bytes; 0: not checked
    all_above: int = 0


@dataclasses.dataclass(frozen=True)
class Program:
    name: str
    kernels: tuple
    args: tuple = ()
    label: str = ""          # of the case; the name with its arguments when empty
    limit: int = 120         # seconds for one command
    pick: bool = False       # patterns are wishes: the first that matches a kernel of enough calls is taken
    replays: bool = True

    @property
    def case(self):
        return self.label or " ".join((self.name, *self.args))


def bare(ctx, argv, limit, env=None):
    """The program alone; returns its result lines. Raises Skip where it says that it lacks something."""
    done = ctx.run(argv, limit, env)
    if done.code == SKIPPED:
        raise Skip(done.out.strip().splitlines()[-1] if done.out.strip() else "it said nothing of why")
    must(done)
    lines = result_lines(done.out)
    if not lines or ": ok, " not in lines[0]:
        raise Failure(f"the program alone printed no result: {done.out.strip()[:200]!r}")
    return lines, done


def check_unchanged(done, lines):
    """The program's own result must come through klab as it was."""
    got = result_lines(done.err + "\n" + done.out)
    if got != lines:
        raise Failure(f"the program's own result changed: {got or 'none'} in place of {lines}")


def list_kernels(ctx, argv, lines, limit):
    """`klab dispatches`: its kernels, and its rows."""
    done = must(ctx.klab("dispatches", "--rows", program=argv, limit=limit))
    answer = done.json
    if answer.get("exit_code") != 0:
        raise Failure(f"under klab dispatches the program exited with {answer.get('exit_code')}")
    check_unchanged(done, lines)
    return answer


def find_kernel(answer, kernel, pick=False):
    """The listed kernel that is meant; several of one name (specialisations): the one with most calls."""
    for pattern in (kernel.pattern.split("||") if pick else [kernel.pattern]):
        found = [k for k in answer["kernels"] if re.search(pattern, k["name"])]
        if pick:
            found = [k for k in found if k["calls"] >= max(kernel.calls, 1)]
        if found:
            return max(found, key=lambda k: (k["calls"], k["total_ns"]))
    if pick and answer["kernels"]:
        enough = [k for k in answer["kernels"] if k["calls"] >= kernel.calls] or answer["kernels"]
        return max(enough, key=lambda k: k["total_ns"])
    names = ", ".join(sorted(k["name"][:60] for k in answer["kernels"])[:8]) or "none"
    raise Failure(f"klab dispatches lists no kernel like {kernel.pattern}; it lists {names}")


def check_proof(kernel, proofs, error, expected):
    """Bitwise equal, or the bytes that vary named; returns the word for the table."""
    if error:
        if expected == "not equal":
            return f"not run, {error.get('code')}"
        raise Failure(f"the proof replay could not run: {error.get('code')}: {error.get('what')}")
    if len(proofs) != 1:
        raise Failure(f"{len(proofs)} proofs of one dispatch")
    proof = proofs[0]
    state = proof.get("state")
    if expected == "not equal":
        if state in ("differs", "failed"):
            return state
        raise Failure(f"the proof is {state}, though what the kernel reads was not captured")
    if state == "nondeterministic":
        named = sum(r["size"] for r in proof.get("varying", []))
        if not 0 < named == proof.get("varying_bytes"):
            raise Failure(f"the proof names {named} varying bytes and counts {proof.get('varying_bytes')}")
        if not kernel.varying:
            raise Failure(f"{named} bytes vary in a kernel that is deterministic: {proof.get('detail')}")
        return f"{named} bytes vary"
    if state != "equal":
        raise Failure(f"proof {state}: {proof.get('detail')}")
    return "equal"


def take(ctx, row, argv, lines, kernel, reference, scope, limit, *options):
    """`klab capture` and what must hold of it; fills `row`. Returns the bundle's path."""
    bundle = ctx.folder / f"{re.sub(r'[^a-zA-Z0-9_]+', '_', kernel.pattern)[:40]}_{scope}.klab"
    done = must(ctx.klab("capture", "--kernel", reference, "--nth", kernel.nth, "--scope", scope, "-o", bundle,
                         "--replace", "--time-limit", limit, *options, program=argv, limit=limit + 60))
    answer = done.json
    row["capture"] = "ok"
    row["seconds_capture"] = round(done.seconds, 2)
    row["shim_ms"] = round(answer.get("shim_ms", 0), 1)
    if answer.get("target_exit") != 0:
        raise Failure(f"under klab capture the program exited with {answer.get('target_exit')}")
    if lines is not None:
        check_unchanged(done, lines)
    (dispatch,) = answer["dispatches"]
    if dispatch["nth"] != kernel.nth:
        raise Failure(f"execution {dispatch['nth']} was taken in place of {kernel.nth}")
    row["kernel"] = dispatch["name"]
    row["regions"] = len(dispatch["regions"])
    row["bytes"] = answer["captured_bytes"]
    row["stored_bytes"] = answer["stored_bytes"]
    row["kinds"] = sorted({r.get("kind", "device") for r in dispatch["regions"]})
    row["program_ns"] = dispatch.get("program_ns", 0)
    if answer.get("warnings"):
        row["warnings"] = answer["warnings"][:3]
    if "--no-proof" in options:
        row["proof"] = "left out"
    else:
        expected = kernel.proof if scope == "reachable" else "equal"
        row["proof"] = check_proof(kernel, answer.get("proofs", []), answer.get("proof_error"), expected)
    return bundle


def check_size(kernel, scope, row):
    if scope == "reachable" and 0 < kernel.reachable_below <= row["bytes"]:
        raise Failure(f"{cut_bytes(row['bytes'])} are called reachable: it should be less than "
                      f"{cut_bytes(kernel.reachable_below)}")
    if scope == "all" and row["bytes"] < kernel.all_above:
        raise Failure(f"scope all took {cut_bytes(row['bytes'])}, but the program holds "
                      f"{cut_bytes(kernel.all_above)}")


def inspect(ctx, bundle, limit=120):
    answer = must(ctx.klab("inspect", bundle, limit=limit)).json
    if not answer.get("verified") or answer.get("checked", {}).get("code_objects", 0) < 1:
        raise Failure("klab inspect did not verify every hash")
    return answer


def replay(ctx, row, bundle, *options, iterations=ITERATIONS, varying=False, limit=180):
    """`klab replay` and what every replay must carry; fills `row`. Returns the answer."""
    done = ctx.klab("replay", bundle, "--iterations", iterations, *options, limit=limit)
    if done.code not in (0, 3) or not done.json.get("ok"):
        raise Failure(done.brief())
    answer = done.json
    if answer["outcome"] != "ok":
        raise Failure(f"replay: {answer['outcome']}")
    if answer["asked"] != answer["ran"]:
        raise Failure(f"asked {answer['asked']}, ran {answer['ran']}")
    samples = answer["samples_ns"]
    if len(samples) != iterations or not all(s > 0 for s in samples):
        raise Failure(f"{len(samples)} samples of {iterations}, smallest {min(samples, default=0)} ns")
    if not 0 <= answer["restored_bytes_per_iteration"] <= answer["captured_bytes"]:
        raise Failure(f"{answer['restored_bytes_per_iteration']} bytes restored of {answer['captured_bytes']} captured")
    row["addresses"] = answer["address_mode"]
    if answer["address_mode"] == "relocated":
        row["addresses"] += f", {answer['rewritten_words']} words"
    row["restored"] = answer["restored_bytes_per_iteration"]
    row["median_us"] = round(answer["summary"]["median_ns"] / 1e3, 2)
    row["seconds_replay"] = round(done.seconds, 2)
    if answer.get("notes"):
        row["notes"] = answer["notes"][:3]
    if "--no-validate" in options:
        row["replay"] = "ran"
        return answer
    validation = answer["validation"]
    row["replay"] = validation["correctness"]
    if validation["correctness"] == "correct" and done.code == 0:
        return answer
    if validation["correctness"] == "not_verified" and varying and 0 < validation.get("masked_bytes", 0) <= 4096:
        return answer
    raise Failure(f"replay: {validation['correctness']}: {validation.get('reason')}")


def one(ctx, emit, program, argv, lines, answer, kernel, scope):
    """Capture, inspect, replay of one kernel in one scope: one row."""
    row = {"what": f"{program.case}: {kernel.pattern.split('||')[0]}", "scope": scope, "nth": kernel.nth}
    try:
        listed = find_kernel(answer, kernel, program.pick) if answer else None
        row["kernel"] = listed["name"] if listed else kernel.pattern
        reference = listed["hash"] if listed and listed.get("hash") else kernel.pattern
        if listed:
            row["trace_us"] = round(listed["median_ns"] / 1e3, 2)
        bundle = take(ctx, row, argv, lines, kernel, reference, scope, program.limit)
        check_size(kernel, scope, row)
        inspect(ctx, bundle)
        if program.replays and not (scope == "reachable" and kernel.proof == "not equal"):
            replay(ctx, row, bundle, varying=kernel.varying)
        emit("pass", row)
    except Failure as failure:
        emit("fail", row, str(failure))
    except (KeyError, TypeError, ValueError) as error:
        ctx.note(f"unexpected answer: {error!r}")
        emit("fail", row, f"an answer of klab lacks or holds something unexpected: {error!r}")


def program_case(program, argv_of):
    """A case: the program bare, its list, then each kernel in each scope. `argv_of(lab)` makes its command line."""

    def run(ctx, emit):
        argv = argv_of(ctx.lab)
        lines, _ = bare(ctx, argv, program.limit)
        answer, row = None, {"what": f"{program.case}: dispatches"}
        try:
            answer = list_kernels(ctx, argv, lines, program.limit)
            row["dispatches"] = answer["dispatches"]
            if not any(r["gpu_ns"] > 0 for r in answer["rows"]):
                raise Failure("no dispatch has a time")
            for kernel in program.kernels:
                listed = find_kernel(answer, kernel, program.pick)
                if kernel.calls and not program.pick and listed["calls"] != kernel.calls:
                    raise Failure(f"{listed['calls']} calls of {kernel.pattern} are listed, {kernel.calls} were made")
            emit("pass", row)
        except Failure as failure:
            emit("fail", row, str(failure))
        for kernel in program.kernels:
            for scope in kernel.scopes:
                one(ctx, emit, program, argv, lines, answer, kernel, scope)

    return run
