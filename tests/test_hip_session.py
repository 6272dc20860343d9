# SPDX-License-Identifier: Apache-2.0
"""A whole session on a HIP program, and an agent's tools on one: the same steps as on the other APIs."""
import shutil

from conftest import ROOT
from test_hip import ON_SIMULATOR, hip, program, pytestmark  # noqa: F401 (fixture and marks)

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
