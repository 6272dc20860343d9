# SPDX-License-Identifier: Apache-2.0
"""A whole session on a HIP program, and an agent's tools on one: the same steps as on the other APIs."""
import shutil

from conftest import BUILD, ROOT
from test_hip import ON_SIMULATOR, hip, program, pytestmark  # noqa: F401 (fixture and marks)
from test_mcp import Stdio, drive, node  # noqa: F401 (fixture)

SOURCES = ROOT / "examples" / "hip"


def test_a_whole_session(hip):
    project = hip.folder / "project"
    project.mkdir()
    for name in ("saxpy.hip", "saxpy_kernel.h", "common.h"):
        shutil.copy(SOURCES / name, project)
    for name in ("fast", "wrong", "broken"):
        shutil.copy(SOURCES / "variants" / f"saxpy_{name}.hip", project / f"{name}.hip")
    id = hip.ok("session", "open", "--root", project, "--json", "--", *program("saxpy")).json["session"]["id"]

    def session(verb, *args, expect=0):
        return hip("session", verb, id, *args, "--json", expect=expect).json

    (kernel,) = [k for k in session("trace")["kernels"] if "saxpy" in k["name"]]
    assert kernel["calls"] == 3
    assert session("capture", "--kernel", kernel["hash"], "--nth", "2")["proofs"][0]["state"] == "equal"
    found = session("search")
    target = project / "saxpy_kernel.h"
    assert any(c["file"] == str(target) for c in found["candidates"]), found
    session("select", "--file", target)
    before = target.read_text()
    fast = session("build", "--source", project / "fast.hip")["variant"]
    session("build", "--source", project / "wrong.hip")
    assert session("build", "--source", project / "broken.hip", expect=7)["error"]["code"] == "compile_failed"
    run = session("run", "--iterations", "3")
    assert run["validation"]["correctness"] == "correct"
    again = session("run", "--iterations", "3")
    assert not ON_SIMULATOR or "delta" not in again, "times of an emulated device are not compared"
    assert session("run", "--variant", "wrong", "--iterations", "2", expect=3)["validation"]["correctness"] == "incorrect"
    done = session("compare", "--variant", "fast", "--budget", "0")
    assert done["verdict"]["correctness"] == "correct" and done["verdict"]["speed"] == "none"
    session("save", "--variant", fast["id"], "--yes")
    assert target.read_text() == (project / "fast.hip").read_text() != before
    session("close")


class Project:
    """As test_mcp's, of a HIP program."""

    def __init__(self, hip, build):
        self.folder = hip.folder / "project"
        self.folder.mkdir()
        for name in ("saxpy.hip", "saxpy_kernel.h", "common.h"):
            shutil.copy(SOURCES / name, self.folder)
        self.file = self.folder / "saxpy_kernel.h"
        self.right, self.wrong = ((SOURCES / "variants" / f"saxpy_{n}.hip").read_text() for n in ("fast", "wrong"))
        self.broken = self.right.replace("a * x[i]", "undefined_name * x[i]")
        self.program, self.path, self.language, self.build = "saxpy", program("saxpy")[0], "hip", build
        self.timed = not ON_SIMULATOR

    def arguments(self):
        return ["mcp", "--root", str(self.folder), "--program", f"saxpy={self.path}"]


def test_whole_tuning_by_an_agent(node, hip):
    project = Project(hip, {"compiler": "hiprtc"})
    server = {"command": str(BUILD / "klab"), "args": project.arguments(), "env": hip.env}
    steps = drive(node, hip, project, "v1", server, "elicit")
    assert [s["step"] for s in steps] == ["tools", "open", "capture", "search", "variants", "save", "status", "close"]


def test_an_agent_builds_runs_and_compares(hip):
    project = Project(hip, {})
    server = Stdio(hip, *project.arguments())

    def act(action, **arguments):
        return server.tool("tuning_action", session=session, action=action, wait_seconds=100, **arguments)

    session = server.tool("tuning_open", program="saxpy")[1]["session"]["id"]
    failed, captured = act("capture", kernel=hip.kernels(project.path)[0]["hash"])
    assert not failed and captured["proofs"][0]["state"] == "equal", captured
    failed, built = act("build", name="fast", language="hip", source_text=project.right)
    assert not failed and built["compiler"].startswith("hipcc"), built
    failed, run = act("run", variant="fast", iterations=2)
    assert not failed and run["validation"]["correctness"] == "correct", run
    failed, done = act("compare", variant="fast", measure_s=1)
    assert not failed and done["verdict"]["correctness"] == "correct", done
    if ON_SIMULATOR:
        assert done["verdict"]["speed"] == "none" and "emulated" in done["verdict"]["reason"] and "ratio" not in done, done
    # Programs to run are the person's to name, compilers too.
    answer = server.request("tools/call", {"name": "tuning_action", "arguments": {
        "session": session, "action": "build", "name": "x", "language": "hip", "source_text": project.right, "hipcc": "/bin/true"}})
    assert "error" in answer or answer["result"]["isError"], answer
    server.end()
