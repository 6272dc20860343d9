# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the end-to-end tests: where the programs are, a Klab with its own home for each test, records."""
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("KLAB_BUILD_DIR", ROOT / "build")).resolve()
EXAMPLES = BUILD / "examples" / "vulkan"
SOURCES = ROOT / "examples" / "vulkan"
RECORDS = BUILD / "e2e"
SKIPPED = 77  # an example's exit code where the device lacks a feature

sys.path.insert(0, str(ROOT / "tests"))


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes minutes; ./test --quick leaves it out")


def pytest_addoption(parser):
    parser.addoption("--kill-points", type=int, default=int(os.environ.get("KLAB_KILL_POINTS", "4")),
                     help="moments at which each fault test kills (default 4)")
    parser.addoption("--seed", type=int, default=int(os.environ.get("KLAB_SEED", "1")), help="of the fault tests")


def base_environment():
    """The tester's environment, with one device: lavapipe unless KLAB_TEST_ICD names another driver's manifest."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("VK_", "KLAB_"))}
    icd = os.environ.get("KLAB_TEST_ICD") or next(
        (str(p) for p in sorted(pathlib.Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"))), None)
    if icd:
        env["VK_ICD_FILENAMES"] = env["VK_DRIVER_FILES"] = icd
    # One shader cache for all: the first dispatch of a kernel compiles it, and that is most of the time.
    env.setdefault("MESA_SHADER_CACHE_DIR", str(BUILD / "mesa_cache"))
    env["NO_COLOR"] = "1"
    env["KLAB_LOCKS"] = str(BUILD / "locks")
    # A hub that a test leaves behind ends soon by itself.
    env["KLAB_HUB_IDLE_S"] = "3"
    return env


class Outcome:
    """What a run of klab gave: exit code, both streams, and the JSON object of --json."""

    def __init__(self, argv, code, out, err):
        self.argv, self.code, self.out, self.err = argv, code, out, err
        self.json = None
        if "--json" in argv and out.strip():
            self.json = json.loads(out)

    @property
    def error(self):
        return (self.json or {}).get("error", {})

    def __repr__(self):
        out = self.out[-6000:]
        if self.json:  # the parts that say what went wrong, not every number
            out = json.dumps({k: v for k, v in self.json.items() if k in BRIEF}, indent=1)
        return (f"`{' '.join(map(str, self.argv))}` exited with {self.code}\n--- stdout\n{out}\n"
                f"--- stderr\n{self.err[-3000:]}")


BRIEF = ("ok", "exit_code", "error", "outcome", "validation", "verdict", "proofs", "proof_error", "warnings", "notes",
         "target_exit", "candidates", "captured_bytes", "stored_bytes", "restored_bytes_per_iteration")


DONE = (0, 4, 5)  # exit codes of work that was done: and the variant is slower, or no verdict was reached (README)


class Klab:
    def __init__(self, folder):
        self.folder = folder
        self.env = base_environment()
        for name in ("KLAB_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
            place = folder / ".env" / name.lower()
            place.mkdir(parents=True, mode=0o700)
            self.env[name] = str(place)

    @property
    def home(self):
        return pathlib.Path(self.env["KLAB_HOME"])

    def argv(self, *args):
        return [str(BUILD / "klab"), *map(str, args)]

    def __call__(self, *args, timeout=300, env=None, cwd=None, expect=None):
        """Runs klab; `expect` is the exit code that must come (0 by default in `ok`)."""
        argv = self.argv(*args)
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=timeout,
                              env={**self.env, **(env or {})}, cwd=cwd or self.folder, stdin=subprocess.DEVNULL)
        outcome = Outcome(argv, done.returncode, done.stdout, done.stderr)
        assert done.returncode >= 0 and done.returncode != 70, f"klab itself failed: {outcome!r}"
        if expect is not None:
            assert outcome.code == expect, repr(outcome)
        return outcome

    def ok(self, *args, **kw):
        return self(*args, expect=0, **kw)

    def done(self, *args, **kw):
        """As ok(); a comparison may say slower or undecided too, whose exit codes are not 0."""
        outcome = self(*args, **kw)
        assert outcome.code in DONE, repr(outcome)
        return outcome

    def start(self, *args, env=None):
        """Klab as a process that the test can kill."""
        return subprocess.Popen(self.argv(*args), env={**self.env, **(env or {})}, cwd=self.folder,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def kernels(self, *program, **kw):
        return self.ok("dispatches", "--json", "--", *program, **kw).json["kernels"]

    def capture(self, program, kernel=None, name="captured", *options, **kw):
        """Captures `kernel` (default: the first that is listed) of `program`, a list; returns the outcome."""
        if kernel is None:
            kernel = self.kernels(*program)[0]["hash"]
        return self.ok("capture", "--json", "--kernel", kernel, "-o", self.folder / f"{name}.klab", *options, "--",
                       *program, **kw)


def example(name):
    path = EXAMPLES / name
    assert path.exists(), f"{path} is not built: cmake --build build --target examples"
    return str(path)


def run_example(name, *args, env=None, timeout=120):
    return subprocess.run([example(name), *args], capture_output=True, text=True, timeout=timeout,
                          env={**base_environment(), **(env or {})})


def no_op(source):
    """GLSL of the same interface whose main does nothing."""
    text = source.read_text() if isinstance(source, pathlib.Path) else source
    return text[:text.index("void main()")] + "void main() {}\n"


def regex_of(name):
    """A POSIX extended expression that matches just `name`."""
    return "^" + re.sub(r"([][\\.^$*+?(){}|])", r"\\\1", name) + "$"


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def xxh3(data):
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_128bits.restype = Hash128
    library.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    h = library.XXH3_128bits(data, len(data))
    return f"{h.high:016x}{h.low:016x}"


def seal_manifest(manifest):
    """manifest.json's text of a changed manifest with a seal that agrees: only its content can be refused."""
    j = {k: v for k, v in manifest.items() if k != "seal"}
    compact = json.dumps(j, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    pretty = json.dumps(j, indent=2, sort_keys=True, ensure_ascii=False)
    return pretty[:-2] + f',\n  "seal": "{xxh3(compact.encode())}"\n}}\n'


@pytest.fixture
def klab(tmp_path):
    if not (BUILD / "klab").exists():
        pytest.fail(f"{BUILD / 'klab'} is not built")
    return Klab(tmp_path)


@pytest.fixture(scope="session")
def shared_bundle(tmp_path_factory):
    """A bundle of a named example, captured once; tests that change one copy it."""
    made = {}

    def get(program, kernel=None, *args, options=()):
        key = (program, kernel, args, options)
        if key not in made:
            folder = tmp_path_factory.mktemp(program)
            made[key] = Klab(folder)
            made[key].capture([example(program), *args], kernel, "shared", *options)
        return made[key].folder / "shared.klab"

    return get


_records = []


@pytest.fixture
def record():
    """Collects a row for build/e2e/NAME.json, which docs/results is made from."""
    return lambda table, **row: _records.append((table, row))


def pytest_sessionfinish(session):
    tables = {}
    for table, row in _records:
        tables.setdefault(table, []).append(row)
    for table, rows in tables.items():
        RECORDS.mkdir(parents=True, exist_ok=True)
        (RECORDS / f"{table}.json").write_text(json.dumps(rows, indent=2) + "\n")


def pytest_terminal_summary(terminalreporter):
    tables = {}
    for table, row in _records:
        tables.setdefault(table, []).append(row)
    for table, rows in tables.items():
        terminalreporter.section(f"{table} ({RECORDS / (table + '.json')})")
        columns = list(rows[0])
        cells = [columns] + [[str(r.get(c, "")) for c in columns] for r in rows]
        widths = [max(len(r[i]) for r in cells) for i in range(len(columns))]
        for r in cells:
            terminalreporter.write_line("  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip())
