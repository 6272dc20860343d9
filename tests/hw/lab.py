# SPDX-License-Identifier: Apache-2.0
"""Running klab and programs with time limits, and keeping what they said. Standard library only.

Not here: what a case is (cases.py, capture.py, faults.py, measure*.py), the order of cases (cuda.py).
"""
import glob
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time

SKIPPED = 77  # an example's exit code where the device lacks a feature
TAIL = 4000   # characters of each stream that are kept of a failing command


class Failure(Exception):
    """What a case found wrong, in one line. The log has the rest."""


class Skip(Exception):
    """Why a case has nothing to run on here."""


class Done:
    """A command that ended, or was ended: code (negative: signal; None: time limit), both streams, wall seconds."""

    def __init__(self, argv, code, out, err, seconds, limit):
        self.argv, self.code, self.out, self.err, self.seconds, self.limit = argv, code, out, err, seconds, limit

    @property
    def timed_out(self):
        return self.code is None

    @property
    def text(self):
        return self.out + self.err

    @property
    def json(self):
        """The JSON object of --json on stdout; {} when there is none."""
        try:
            answer = json.loads(self.out)
            return answer if isinstance(answer, dict) else {}
        except ValueError:
            return {}

    @property
    def error(self):
        return self.json.get("error") or {}

    def brief(self):
        """One line: how it ended and what it said last."""
        ended = "ran out of its %g s" % self.limit if self.timed_out else f"exited with {self.code}"
        said = self.error.get("what", "") if self.error else ""
        if self.error.get("code"):
            said = f"{self.error['code']}: {said}"
        if not said:
            lines = [line for line in self.err.strip().splitlines() if line.strip()] or self.out.strip().splitlines()
            said = lines[-1] if lines else "nothing was said"
        return f"{name_of(self.argv)} {ended}: {' '.join(said.split())[:300]}"


def name_of(argv):
    """`klab replay`, `saxpy`: a command as a person would call it."""
    words = [str(a) for a in argv]
    name = pathlib.Path(words[0]).name
    return f"{name} {words[1]}" if name == "klab" and len(words) > 1 else name


def result_lines(text):
    """The lines in which programs say their result, without timings: these must not depend on who watches."""
    return re.findall(r"^(\w[\w-]*: (?:ok, (?:checksum|hash) [0-9a-f]+|wrong.*|failed.*))", text, re.M)


def numbers_of(text, program):
    """`name value` pairs that a program printed after its result: {"ns_per_launch": 2100.0}."""
    found = re.search(rf"^{re.escape(program)}: ok, (?:checksum|hash) [0-9a-f]+(.*)$", text, re.M)
    if not found:
        return {}
    return {k: float(v) for k, v in re.findall(r"(\w+) ([-+0-9.e]+)(?:,|$)", found.group(1))}


def find_build(given):
    """The folder where klab is: as given, beside a packed tests/hw, or the source tree's build/."""
    here = pathlib.Path(__file__).resolve().parent
    places = [pathlib.Path(given)] if given else [here.parent.parent, here.parent.parent / "build"]
    for place in places:
        if os.access(place / "klab", os.X_OK):
            return place.resolve()
    raise SystemExit(f"cuda.py: no klab in {', '.join(map(str, places))}: give --build DIR")


class Lab:
    def __init__(self, build, out, python, self_test=False):
        self.build, self.out, self.python, self.self_test = build, out, python, self_test
        self.klab = build / "klab"
        self.examples = build / "examples" / ("vulkan" if self_test else "cuda")
        here = pathlib.Path(__file__).resolve().parent
        self.programs = here / "programs"
        sources = here.parent.parent / "examples"
        self.sources = sources / ("vulkan" if self_test else "cuda")
        self.work = out / "work"
        self.logs = out / "logs"
        self.deadline = None
        self.lock = threading.Lock()

    def environment(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("KLAB_")}
        env["NO_COLOR"] = "1"
        if self.self_test:
            env = {k: v for k, v in env.items() if not k.startswith("VK_")}
            icd = next(iter(sorted(glob.glob("/usr/share/vulkan/icd.d/lvp_icd*.json"))), None)
            if icd:
                env["VK_ICD_FILENAMES"] = env["VK_DRIVER_FILES"] = icd
            env.setdefault("MESA_SHADER_CACHE_DIR", str(self.out / "mesa_cache"))
        return env

    def shim(self):
        """The library for CUDA_INJECTION64_PATH."""
        for folder in (self.build, self.build / "lib"):
            for pattern in ("libklab*cuda*.so", "libKlab*cuda*.so", "lib*klab*inject*.so"):
                for path in sorted(folder.glob(pattern)):
                    return path
        raise Skip(f"no CUDA shim in {self.build}")

    def example(self, name):
        path = self.examples / name
        if not os.access(path, os.X_OK):
            raise Failure(f"{path} is not there (built with nvcc: target cuda_examples)")
        return str(path)


class Context:
    """One case's own folder, KLAB_HOME and log. Thread: the case's."""

    def __init__(self, lab, name):
        self.lab, self.name = lab, name
        safe = re.sub(r"[^\w.-]+", "_", name)
        self.folder = lab.work / safe
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        self.log = lab.logs / f"{safe}.log"
        self.env = lab.environment()
        for variable in ("KLAB_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
            place = self.folder / ".env" / variable.lower()
            place.mkdir(parents=True, mode=0o700)
            self.env[variable] = str(place)
        # PyTorch and Triton keep what they compiled in the user's caches; a case of its own finds them again.
        shared = lab.out / "cache"
        shared.mkdir(exist_ok=True)
        for variable, folder in (("TRITON_CACHE_DIR", "triton"), ("TORCHINDUCTOR_CACHE_DIR", "inductor"),
                                 ("CUPY_CACHE_DIR", "cupy"), ("NUMBA_CACHE_DIR", "numba")):
            self.env.setdefault(variable, str(shared / folder))
        self.failed = False

    def run(self, argv, limit=120, env=None):
        """Runs a command in this case's folder and process group; at `limit` seconds the group is ended."""
        argv = [str(a) for a in argv]
        started = time.monotonic()
        with open(self.folder / ".out", "w+b") as out, open(self.folder / ".err", "w+b") as err:
            try:
                child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=self.folder,
                                         env={**self.env, **(env or {})}, start_new_session=True)
            except OSError as e:
                return self.keep(Done(argv, 127, "", f"{argv[0]}: {e.strerror}", 0.0, limit))
            code = None
            try:
                code = child.wait(limit)
            except subprocess.TimeoutExpired:
                pass
            except BaseException:
                self.end(child)
                raise
            finally:
                if code is None:
                    self.end(child)
            texts = []
            for stream in (out, err):
                stream.seek(0)
                texts.append(stream.read().decode(errors="replace"))
        return self.keep(Done(argv, code, *texts, time.monotonic() - started, limit))

    @staticmethod
    def end(child):
        """SIGTERM to the command's own process group, which klab passes on to its target; SIGKILL when that is not enough."""
        for number, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, 10)):
            try:
                os.killpg(child.pid, number)
            except ProcessLookupError:
                pass
            try:
                child.wait(patience)
                if number == signal.SIGTERM:
                    continue  # others of the group may be left
                return
            except subprocess.TimeoutExpired:
                pass

    def keep(self, done):
        """Every command is one line of the case's log; one that did not end with 0 leaves the end of its streams there."""
        self.lab.logs.mkdir(parents=True, exist_ok=True)
        with open(self.log, "a", encoding="utf-8") as log:
            state = "TIME LIMIT" if done.timed_out else f"exit {done.code}"
            log.write(f"[{time.strftime('%H:%M:%S')}] {state} after {done.seconds:.2f} s: {shlex.join(done.argv)}\n")
            if done.code != 0:
                for title, text in (("stdout", done.out), ("stderr", done.err)):
                    if text.strip():
                        log.write(f"--- {title}, last {TAIL} characters\n{text[-TAIL:].rstrip()}\n---\n")
        return done

    def note(self, text):
        with open(self.log, "a", encoding="utf-8") as log:
            log.write(text.rstrip() + "\n")

    def klab(self, *args, limit=120, env=None, program=None):
        """klab VERB --json ARGS [-- PROGRAM]."""
        argv = [self.lab.klab, args[0], "--json", *args[1:]]
        if program:
            argv += ["--", *program]
        return self.run(argv, limit, env)

    def worker_log(self):
        """What klab-worker wrote, when anything: into the case's log, beside the command that failed."""
        for path in sorted(self.folder.glob(".env/**/*.log")):
            text = path.read_text(errors="replace")
            if text.strip():
                self.note(f"--- {path.name}, last {TAIL} characters\n{text[-TAIL:].rstrip()}\n---")

    def close(self, keep=False):
        """Bundles may be gigabytes: they go, unless the case failed and they are small."""
        if keep:
            for path in self.folder.rglob("data.pack"):
                if path.stat().st_size > 256 << 20:
                    shutil.rmtree(path.parent, ignore_errors=True)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


def must(done, code=0):
    """`done`, which must have ended with `code` (a number or several); else Failure."""
    codes = code if isinstance(code, tuple) else (code,)
    if done.code not in codes:
        raise Failure(done.brief())
    return done


def cut_bytes(n):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
