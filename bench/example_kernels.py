# SPDX-License-Identifier: Apache-2.0
"""The kernels of the Vulkan example programs, captured once, with their sources: what mutation_score.py and
honest_replays.py work on. Not here: edits of sources, verdicts."""
import dataclasses
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

try:
    from conftest import BUILD, SOURCES, Klab, example  # noqa: E402
except ModuleNotFoundError as error:
    sys.exit(f"{sys.executable} lacks {error.name}, which the end-to-end tests need too: try /usr/bin/python3")
from programs_list import PROGRAMS  # noqa: E402

# `--size` of a run whose dispatches are held out: odd, and small. A matmul's is the side.
OTHER_SIZE = {"matmul_tiled": 48}


@dataclasses.dataclass(eq=False)
class Kernel:
    program: object     # of programs_list
    name: str           # as klab shows it
    hash: str
    code_hash: str
    calls: int
    source: pathlib.Path = None
    bundle: pathlib.Path = None
    siblings: tuple = (0, 1)  # place among, and number of, the program's kernels of the same code

    @property
    def label(self):
        return " ".join((self.program.program, *self.program.args)) + "/" + self.name

    def argv(self, *more):
        return [example(self.program.program), *self.program.args, *more]


def laboratory(folder):
    """A Klab with a home in `folder`, whose hub keeps its workers between commands."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty: name another folder")
    lab = Klab(folder)
    lab.env["KLAB_HUB_IDLE_S"] = "300"
    return lab


def ask(lab, *args, limit=300):
    """One klab command with --json: (exit code, its JSON object, why there is none). Exit codes are klab's; None
    when it had to be ended."""
    try:
        done = lab("-q", "--json", *args, timeout=limit)
        return done.code, done.json or {}, done.err[-2000:]
    except subprocess.TimeoutExpired:
        return None, {}, f"klab did not end within {limit:.0f} s"
    except (AssertionError, ValueError) as error:  # klab crashed, or wrote no JSON
        return None, {}, str(error)[-2000:]


def listed(lab, wanted=None, leave_out=()):
    """The kernels that the example programs dispatch, not captured yet. `wanted`: words of which one must be in
    a kernel's label or program; a program in `leave_out`, or that the device lacks a feature for, is not run."""
    kernels = []
    for p in PROGRAMS:
        if p.program in leave_out:
            continue
        argv = [example(p.program), *p.args]
        code, found, why = ask(lab, "dispatches", "--", *argv)
        # klab reports the program's exit code as its own failure; 77 says that the device lacks a feature
        if code != 0 and subprocess.run(argv, env=lab.env, capture_output=True).returncode == 77:
            print(f"{p.program}: skipped, the device lacks a feature", file=sys.stderr)
            continue
        if code != 0:
            raise SystemExit(f"{p.program}: klab dispatches failed: {found.get('error', why)}")
        rows = sorted(found["kernels"], key=lambda k: k["hash"])
        for k in rows:
            same = [o["hash"] for o in rows if o["code_hash"] == k["code_hash"]]
            kernels.append(Kernel(p, k["name"], k["hash"], k["code_hash"], k["calls"], siblings=(same.index(k["hash"]), len(same))))
    if wanted:
        kernels = [k for k in kernels if any(w in k.label for w in wanted)]
    if not kernels:
        raise SystemExit(f"no kernel of the examples is called like {' or '.join(wanted)}")
    return kernels


def capture(lab, kernel, name, nth=None, args=()):
    """A bundle of one execution, or None and why."""
    bundle = lab.folder / f"{name}.klab"
    code, _, why = ask(lab, "capture", "--kernel", kernel.hash, "--nth", str(nth or min(kernel.program.nth, kernel.calls)),
                       "-o", bundle, "--", *kernel.argv(*args))
    return (bundle, "") if code == 0 else (None, why.strip())


def capture_all(lab, kernels):
    """Captures each kernel, and lets klab find its source. What is compiled later has no debug information: the text
    of a source inside its code would make every two differ."""
    for at, k in enumerate(kernels):
        k.bundle, why = capture(lab, k, f"k{at}")
        if not k.bundle:
            raise SystemExit(f"{k.label}: klab capture failed: {why}")
        code, found, why = ask(lab, "source", "find", k.bundle, "--root", SOURCES)
        if code != 0 or not found.get("candidates"):
            raise SystemExit(f"{k.label}: its source was not found: {found.get('error', why)}")
        k.source = pathlib.Path(found["candidates"][0]["file"])
        select(lab, k, k.bundle)
        print(f"captured {k.label} of {k.source.name}", file=sys.stderr)


def select(lab, kernel, bundle):
    code, answer, why = ask(lab, "source", "select", bundle, "--file", kernel.source)
    if code != 0:
        raise SystemExit(f"{kernel.label}: klab source select failed: {answer.get('error', why)}")


def versions(lab):
    """What was tried, for the head of a report."""
    text = lab("--version").out.strip()
    code, found, _ = ask(lab, "devices")
    devices = found.get("devices", []) if code == 0 else []
    named = next((f"{d['name']}, {d['driver_version']}" for d in (d["identity"] for d in devices)), "unknown device")
    return f"{text}; {named}"


def table(columns, rows):
    cell = lambda x: str(x).replace("|", "\\|").replace("\n", " ")  # noqa: E731
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join(lines + ["| " + " | ".join(map(cell, r)) + " |" for r in rows]) + "\n"


def write_text(path, text):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + f".{os.getpid()}")
    partial.write_text(text)
    partial.replace(path)


__all__ = ["BUILD", "ROOT", "SOURCES", "Kernel", "OTHER_SIZE", "ask", "capture", "capture_all", "laboratory", "listed", "select",
           "table", "versions", "write_text"]
