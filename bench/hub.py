#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the hub and sessions cost: bench/hub.py [--build DIR] [--runs 1001]. Needs a Vulkan device (lavapipe will do). Prints a table;
times are medians of calls in one run, in milliseconds."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    p.add_argument("--runs", default=1001, type=int, help="of one session; its cap is one less")
    p.add_argument("--iterations", default=3, type=int, help="of each of those runs")
    p.add_argument("--program", default="indirect")
    a = p.parse_args()
    build = a.build.resolve()
    klab = str(build / "klab")
    with tempfile.TemporaryDirectory(prefix="kb") as home:
        env = {**os.environ, "KLAB_HOME": home + "/home", "XDG_RUNTIME_DIR": home, "NO_COLOR": "1", "KLAB_LOCKS": home + "/locks"}

        def run(*args, expect=0):
            done = subprocess.run([klab, *map(str, args)], env=env, cwd=home, capture_output=True, text=True)
            assert done.returncode == expect, f"{args}: {done.returncode}: {done.stderr[-500:]}{done.stdout[-500:]}"
            return json.loads(done.stdout) if "--json" in args and done.stdout else None

        def time_of(n, *args):
            times = []
            for _ in range(n):
                start = time.perf_counter()
                run(*args)
                times.append((time.perf_counter() - start) * 1000)
            return statistics.median(times)

        rows = []
        program = str(build / "examples" / "vulkan" / a.program)
        kernel = run("dispatches", "--json", "--", program)["kernels"][0]["hash"]
        run("capture", "--json", "--kernel", kernel, "-o", "x.klab", "--", program)
        pathlib.Path(home, "x.comp").write_text((ROOT / "examples" / "vulkan" / "saxpy.comp").read_text())
        rows.append(("klab --version (a process, nothing else)", time_of(20, "--version")))
        select = ("source", "select", "x.klab", "--file", "x.comp", "--json")
        rows.append(("source select alone (--no-hub)", time_of(20, "--no-hub", *select)))
        rows.append(("source select through the warm hub", time_of(20, *select)))
        replay = ("replay", "x.klab", "--iterations", "20", "--json")
        run(*replay)
        walls = []
        for _ in range(20):
            start = time.perf_counter()
            worker = run(*replay)["wall_ms"]
            walls.append((time.perf_counter() - start) * 1000 - worker)
        rows.append(("replay through the warm hub, beyond the worker's own time", statistics.median(walls)))
        # Events from one front end to another.
        session = run("session", "open", "--bundle", "x.klab", "--max-runs", a.runs - 1, "--json")["session"]["id"]
        after = run("session", "show", session, "--view", "events", "--json")["items"][-1]["id"]
        watch = subprocess.Popen([klab, "session", "events", session, "--follow", "--after", str(after), "--json"], env=env, cwd=home,
                                 stdout=subprocess.PIPE, text=True)
        time.sleep(0.5)
        late = []
        for i in range(20):
            run("session", "select", session, "--kernel", f"k{i}", "--json")
            told = time.perf_counter()
            watch.stdout.readline()
            late.append(max(0.0, (time.perf_counter() - told) * 1000))
        watch.terminate()
        watch.wait()
        rows.append(("an event reaches another front end after the call's end", statistics.median(late)))
        rows.append(("the slowest of 20", max(late)))
        # A long session.
        start = time.perf_counter()
        for _ in range(a.runs - 1):
            run("session", "run", session, "--iterations", a.iterations, "--no-validate", "--json")
        each = (time.perf_counter() - start) * 1000 / (a.runs - 1)
        refused = run("session", "run", session, "--json", expect=10)
        assert refused["error"]["code"] == "cap_reached", refused
        rows.append((f"each of {a.runs - 1} runs ({a.iterations} iterations, not validated)", each))
        rows.append(("klab session list, that session in the store", time_of(20, "session", "list", "--json")))
        rows.append(("klab session show --view runs", time_of(20, "session", "show", session, "--view", "runs", "--json")))
        store = sum(f.stat().st_size for f in pathlib.Path(home, "home").glob("klab.sqlite*"))
        run("hub", "stop", "--json")
        for what, ms in rows:
            print(f"{what:<62} {ms:9.1f} ms")
        print(f"{'store, with its write-ahead log':<62} {store / 1e6:9.1f} MB")
        print(f"run {a.runs} was refused: {refused['error']['what']}")


main()
