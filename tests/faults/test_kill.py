# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at many moments: a bundle or source file is whole or the old one, nobody is left behind, and the next
command works. `--kill-points N` moments each, at times drawn from `--seed`."""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import pytest

from conftest import SOURCES, example


def processes():
    """pid -> (parent, name) of all processes that are not zombies."""
    out = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
        except OSError:
            continue
        name = stat[stat.index("(") + 1:stat.rindex(")")]
        state, parent = stat[stat.rindex(")") + 2:].split()[:2]
        if state != "Z":
            out[int(entry.name)] = (int(parent), name)
    return out


def descendants(pid):
    """pid -> name of what `pid` started, and what they started."""
    everything, found, todo = processes(), {}, [pid]
    while todo:
        parent = todo.pop()
        for child, (p, name) in everything.items():
            if p == parent and child not in found:
                found[child] = name
                todo.append(child)
    return found


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False


def end(child, limit=60):
    """Waits for klab; its streams may be held open by a program that it started."""
    try:
        child.wait(limit)
    except subprocess.TimeoutExpired:
        pytest.fail(f"klab did not end within {limit} s")
    child.stdout.close()
    child.stderr.close()


def gone(pids, limit=20):
    """All of `pids` (name by pid) must end by themselves."""
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        left = {p: n for p, n in pids.items() if p in (now := processes()) and now[p][1] == n}
        if not left:
            return
        time.sleep(0.05)
    for pid in left:
        kill(pid)
    pytest.fail(f"left running after {limit} s: {left}")


def strike(klab, args, victim, delay):
    """Starts klab, kills `victim` ("klab" or the name of a descendant) after `delay` seconds.

    Returns (killed, exit code). A descendant that has not started yet is waited for; one that has ended is not killed.
    """
    child = klab.start(*args)
    start, killed, family = time.monotonic(), False, {}
    while child.poll() is None:
        family = {**family, **descendants(child.pid)}
        if time.monotonic() - start >= delay:
            if victim == "klab":
                killed = kill(child.pid)
                break
            targets = [pid for pid, name in descendants(child.pid).items() if name == victim]
            if targets:
                killed = kill(targets[0])
                break
        time.sleep(0.002)
    family = {**family, **descendants(child.pid)}
    end(child)
    gone(family)
    return killed, child.returncode


def duration(klab, args):
    start = time.monotonic()
    klab.ok(*args)
    return time.monotonic() - start


@pytest.fixture(autouse=True)
def alone(klab):
    """What one command starts is what is killed here; test_kill_sessions.py does it to the hub's."""
    klab.env["KLAB_NO_HUB"] = "1"


@pytest.fixture
def rng(pytestconfig, request):
    return random.Random(f"{pytestconfig.getoption('seed')} {request.node.name}")


def delays(rng, count, whole):
    """Stratified over the whole of an undisturbed run, so that few points still cover it."""
    return [(i + rng.random()) * whole / count for i in range(count)]


@pytest.mark.parametrize("victim", ["klab", "inplace", "klab-worker"])
def test_kill_during_capture(klab, pytestconfig, rng, victim):
    program = [example("inplace"), "--size", str(2 << 20)]
    args = ["capture", "--json", "--kernel", "main", "--nth", "2", "-o", "x.klab", "--", *program]
    whole = duration(klab, args)
    shutil.rmtree(klab.folder / "x.klab")
    hits = 0
    for delay in delays(rng, pytestconfig.getoption("kill_points"), whole):
        killed, code = strike(klab, args, victim, delay)
        hits += killed
        bundle = klab.folder / "x.klab"
        if bundle.exists():
            assert klab.ok("inspect", bundle, "--json").json["verified"], f"killed {victim} at {delay:.3f} s"
        if killed and victim == "inplace" and code == 0:
            assert bundle.exists(), "success was reported without a bundle"
        klab.ok(*args[:2], "--replace", *args[2:])
        assert klab.ok("inspect", bundle, "--json").json["verified"]
        shutil.rmtree(bundle)
    left = [p.name for p in klab.folder.iterdir() if "klab" in p.name]
    assert left == [], f"staging of killed captures is cleaned up by the next: {left}"
    assert hits, "no kill hit anything"


def test_kill_during_replace_keeps_old_or_new(klab, pytestconfig, rng):
    args = ["capture", "--json", "--kernel", "main", "-o", "x.klab", "--replace", "--", example("inplace")]
    whole = duration(klab, args)
    for delay in delays(rng, pytestconfig.getoption("kill_points"), whole):
        strike(klab, args, "klab", delay)
        assert klab.ok("inspect", "x.klab", "--json").json["verified"], f"killed at {delay:.3f} s"
    klab.ok(*args)


@pytest.mark.parametrize("victim", ["klab", "klab-worker"])
def test_kill_during_replay(klab, pytestconfig, rng, shared_bundle, victim):
    bundle = klab.folder / "x.klab"
    shutil.copytree(shared_bundle("inplace"), bundle)
    args = ["replay", bundle, "--iterations", "40", "--json"]
    whole = duration(klab, args)
    hits = 0
    for delay in delays(rng, pytestconfig.getoption("kill_points"), whole):
        killed, code = strike(klab, args, victim, delay)
        hits += killed
        if killed and victim == "klab-worker":
            assert code in (0, 8), f"worker killed at {delay:.3f} s: exit code {code}"
        assert klab.ok("inspect", bundle, "--json").json["verified"]
        klab.ok("replay", bundle, "--iterations", "2")
    assert hits, "no kill hit anything"


def test_kill_during_save_and_undo(klab, pytestconfig, rng, shared_bundle):
    bundle = klab.folder / "x.klab"
    shutil.copytree(shared_bundle("reduction"), bundle)
    old = (SOURCES / "reduction.comp").read_text()
    new = old.replace("s >>= 1", "s /= 2")
    # Long enough that writing it takes a moment.
    padding = "".join(f"// {i}: {'-' * 100}\n" for i in range(20000))
    old, new = old + padding, new + padding
    file = klab.folder / "project" / "reduction.comp"
    file.parent.mkdir()
    file.write_text(old)
    klab.ok("source", "select", bundle, "--file", file)
    (klab.folder / "better.comp").write_text(new)
    klab.ok("build", bundle, "--source", "better.comp")
    klab.done("compare", bundle, "--variant", "better", "--budget", "300ms")
    args = ["save", bundle, "--variant", "better", "--yes", "--json"]
    start = time.monotonic()
    saved = klab.ok(*args).json["saved"]
    whole = time.monotonic() - start
    klab.ok("save", "--undo", saved["id"])
    for delay in delays(rng, 3 * pytestconfig.getoption("kill_points"), whole):
        strike(klab, args, "klab", delay)
        text = file.read_text()
        assert text in (old, new), f"killed at {delay:.4f} s: the file is neither the old nor the new one"
        for s in klab.ok("save", "--list", "--json").json["saves"]:
            assert open(s["backup"]).read() in (old, new), "a listed save has a whole backup"
        assert sorted(p.name for p in file.parent.iterdir()) in (["reduction.comp"],) or _only_temporaries(file)
        if text == old:
            saved = klab.ok(*args).json["saved"]
        else:
            saved = klab.ok("save", "--list", "--json").json["saves"][0]
        assert file.read_text() == new
        strike(klab, ["save", "--undo", saved["id"], "--json"], "klab", rng.random() * whole)
        assert file.read_text() in (old, new), "undo was killed"
        if file.read_text() == new:
            klab.ok("save", "--undo", saved["id"])
        assert file.read_text() == old


def _only_temporaries(file):
    """A killed save may leave its temporary file beside the source; it must be recognisable as one."""
    return all(p == file or p.name.startswith(".") for p in file.parent.iterdir())


def test_interrupt_ends_with_130_and_leaves_nothing(klab):
    child = klab.start("capture", "--kernel", "never", "-o", "x.klab", "--", example("many_dispatches"), "--iterations",
                       "1000000")
    time.sleep(1.5)
    family = descendants(child.pid)
    assert "many_dispatches" in family.values()
    child.send_signal(signal.SIGINT)
    end(child)
    assert child.returncode == 130
    gone(family)
    assert not list(klab.folder.glob("x.klab*"))
