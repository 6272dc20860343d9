# SPDX-License-Identifier: Apache-2.0
"""SIGKILL of the hub, an MCP server, a worker, a compiler or the program during each action of a session: the store opens,
nothing that was reported is lost, nothing is half-saved, and the session goes on."""
import json
import os
import pathlib
import random
import select
import shutil
import subprocess
import time

import pytest

from conftest import DONE, SOURCES, example, no_op
from test_kill import kill, processes

ACTIONS = ("trace", "capture", "search", "build", "run", "compare", "save", "close")
# Who works on it. "hub" and "mcp" are klab processes; they are told apart by their arguments.
VICTIMS = {"trace": ("hub", "inplace", "front"), "capture": ("hub", "inplace", "klab-worker", "front"), "search": ("hub", "klab-compile", "front"),
           "build": ("hub", "klab-compile", "front"), "run": ("hub", "klab-worker", "front"), "compare": ("hub", "klab-worker", "front"),
           "save": ("hub", "front"), "close": ("hub", "front")}


def arguments_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return []


def ours(klab, pid):
    try:
        return f"KLAB_HOME={klab.env['KLAB_HOME']}".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def find(klab, victim, front):
    """Processes of that kind which work for this home."""
    if victim == "front":
        return [front.pid] if front.poll() is None else []
    found = []
    for pid, (_, name) in processes().items():
        if victim == "hub":
            if name == "klab" and arguments_of(pid)[1:3] == ["hub", "run"] and ours(klab, pid):
                found.append(pid)
        elif name == victim[:15] and ours(klab, pid):
            found.append(pid)
    return found


class Laboratory:
    def __init__(self, klab, via):
        self.klab, self.via = klab, via
        self.folder = klab.folder / "project"
        self.folder.mkdir(exist_ok=True)
        self.file = self.folder / "inplace.comp"
        self.text = (SOURCES / "inplace.comp").read_text()
        self.saved_text = self.text.replace("x[i] = x[i] * a + b", "x[i] = a * x[i] + b")
        self.reported = {"runs": set(), "comparisons": set(), "variants": set(), "saves": set()}
        self.n = 0

    def open(self):
        self.file.write_text(self.text)
        self.n += 1
        (self.folder / "right.comp").write_text(self.saved_text)
        self.id = self.klab.ok("session", "open", "--root", self.folder, "--json", "--", example("inplace"), "--size", "65536").json["session"]["id"]
        self.reported = {k: set() for k in self.reported}

    def prepare(self, action):
        """Brings a new session to where `action` can be done."""
        self.open()
        steps = {"trace": [], "capture": [], "search": ["capture"], "build": ["capture"], "run": ["capture"], "close": ["capture", "run"],
                 "compare": ["capture", "search", "build"], "save": ["capture", "search", "build", "compare"]}[action]
        for step in steps:
            done = self.klab(*self.command(step))
            assert done.json and done.json["ok"], repr(done)
            self.note(step, done.json)

    def command(self, action):
        extra = {"trace": [], "capture": ["--kernel", "."], "search": [], "build": ["--source", self.folder / "right.comp"],
                 "run": ["--iterations", "2"], "compare": ["--variant", "right", "--budget", "300ms"], "save": ["--variant", "right", "--yes"],
                 "close": []}[action]
        return ["session", action, self.id, *extra, "--json"]

    def note(self, action, answer):
        """What was reported must be there for ever."""
        if action == "run":
            self.reported["runs"].add(answer["run"])
        elif action == "build":
            self.reported["variants"].add(answer["variant"]["id"])
        elif action == "compare":
            self.reported["comparisons"].add(answer["verdict"]["id"])
        elif action == "save" and answer.get("state") == "saved":
            self.reported["saves"].add(answer["saved"]["id"])

    def mcp_call(self, action):
        """The same action as an agent does it: a server of its own, whose process is the front end."""
        return self.klab.start("mcp", "--root", self.folder, "--allow-save", self.folder)

    def items(self, view):
        return self.klab.ok("session", "show", self.id, "--view", view, "--limit", "200", "--json").json["items"]

    def check(self, what):
        shown = self.klab.ok("session", "show", self.id, "--json").json
        assert {r["run"] for r in self.items("runs")} >= self.reported["runs"], what
        assert {r["id"] for r in self.items("variants")} >= self.reported["variants"], what
        assert {r["id"] for r in self.items("comparisons")} >= self.reported["comparisons"], what
        assert {r["id"] for r in self.items("saves")} >= self.reported["saves"], what
        text = self.file.read_text()
        assert text in (self.text, self.saved_text), f"{what}: the source file is neither old nor new"
        if text == self.saved_text:
            backups = [p.read_text() for p in (self.klab.home / "backups").glob("*/*") if p.is_file()]
            assert self.text in backups, f"{what}: saved without a backup"
        for bundle in (self.klab.home / "sessions" / self.id).glob("*.klab"):
            assert self.klab.ok("inspect", bundle, "--json").json["verified"], what
        return shown


def goes_on(lab, action, what):
    """The next action works: the session is at rest again, and its work can be done once more."""
    state = lab.klab.ok("session", "show", lab.id, "--json").json["session"]["state"]
    if state == "closed":
        assert not list((lab.klab.home / "sessions" / lab.id).glob("*.klab")) or lab.klab.ok("hub", "status")
        return
    if action == "save" and lab.file.read_text() == lab.saved_text:
        return  # it is written; once is enough
    done = lab.klab(*lab.command(action))
    # The hub goes on with what a front end that was killed had asked for: that is waited for.
    deadline = time.monotonic() + 60
    while done.error and done.error["code"] == "illegal_state" and " runs job " in done.error["what"] and time.monotonic() < deadline:
        time.sleep(0.2)
        done = lab.klab(*lab.command(action))
    assert done.json and done.json["ok"], f"{what}: {done!r}"
    lab.note(action, done.json)


@pytest.mark.parametrize("action", ACTIONS)
def test_kill_during_a_session(klab, pytestconfig, action):
    rng = random.Random(f"{pytestconfig.getoption('seed')} {action}")
    lab = Laboratory(klab, "cli")
    lab.prepare(action)
    start = time.monotonic()
    lab.note(action, klab.done(*lab.command(action)).json)
    whole = time.monotonic() - start
    hits = 0
    count = pytestconfig.getoption("kill_points")
    for i in range(count):
        victim = VICTIMS[action][i % len(VICTIMS[action])]
        delay = (i + rng.random()) * whole / count
        what = f"{action}, {victim} killed after {delay:.3f} of {whole:.3f} s"
        lab.prepare(action)
        front = klab.start(*map(str, lab.command(action)))
        deadline, struck = time.monotonic() + delay, False
        while time.monotonic() < deadline and front.poll() is None:
            time.sleep(0.001)
        targets = find(klab, victim, front)
        if targets:
            struck = kill(targets[0])
        out, _ = front.communicate(timeout=60)
        hits += struck
        if front.returncode in DONE:
            answer = json.loads(out)
            assert answer["ok"], what
            lab.note(action, answer)
        lab.check(what)
        goes_on(lab, action, what)
        lab.check(what + ", then done again")
    print(f"{action}: {hits} of {count} kills hit")
    klab("hub", "stop", "--force")


def rpc(child, number, method, params):
    child.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
    child.stdin.flush()


def test_kill_of_the_mcp_server_while_it_works(klab, pytestconfig):
    """The job goes on in the hub, or is not there; it is never half there."""
    rng = random.Random(f"{pytestconfig.getoption('seed')} mcp")
    lab = Laboratory(klab, "mcp")
    for i in range(pytestconfig.getoption("kill_points")):
        lab.prepare("run")
        argv = klab.argv("mcp", "--root", lab.folder)
        child = subprocess.Popen(argv, env=klab.env, cwd=klab.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        rpc(child, 1, "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})
        rpc(child, 2, "tools/call", {"name": "tuning_action", "arguments": {"session": lab.id, "action": "run", "iterations": 2}})
        time.sleep(rng.random() * 1.0)
        child.kill()
        child.communicate()
        deadline = time.monotonic() + 60
        while lab.klab.ok("session", "show", lab.id, "--json").json["session"]["state"] == "running":
            assert time.monotonic() < deadline, "the job did not end"
            time.sleep(0.05)
        lab.check("mcp server killed")
        goes_on(lab, "run", "mcp server killed")
    klab("hub", "stop", "--force")
