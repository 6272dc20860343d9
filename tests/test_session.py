# SPDX-License-Identifier: Apache-2.0
"""Sessions at the command line: the whole of one, its caps, what it may touch, and that reading starts nothing."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest

from conftest import SOURCES, example, no_op


class Session:
    def __init__(self, klab, *options, program=("inplace",), files=("inplace.comp",)):
        self.klab = klab
        self.folder = klab.folder / "project"
        self.folder.mkdir(exist_ok=True)
        for name in files:
            shutil.copy(SOURCES / name, self.folder / name)
        after = ["--", example(program[0]), *program[1:]] if program else []
        self.id = klab.ok("session", "open", "--root", self.folder, "--json", *options, *after).json["session"]["id"]

    def __call__(self, verb, *args, expect=0, **kw):
        return self.klab("session", verb, self.id, *args, "--json", expect=expect, **kw).json

    @property
    def state(self):
        return self("show")["session"]["state"]


def capture(session, **kw):
    kernel = session("trace")["kernels"][0]
    return session("capture", "--kernel", kernel["hash"], **kw)


def test_a_whole_session(klab):
    s = Session(klab)
    file = s.folder / "inplace.comp"
    text = file.read_text()
    assert s.state == "opened"
    assert s("trace")["kernels"][0]["calls"] > 0
    preview = s("capture", "--kernel", ".", "--dry-run")
    assert preview["captured_bytes"] > 0 and s.state == "opened" and not list((klab.home / "sessions" / s.id).glob("*.klab"))
    captured = capture(s)
    assert captured["proofs"][0]["state"] == "equal" and s.state == "captured"
    found = s("search")
    assert any(c["file"] == str(file) for c in found["candidates"])
    s("select", "--file", file)
    (s.folder / "right.comp").write_text(text.replace("x[i] = x[i] * a + b", "x[i] = a * x[i] + b"))
    (s.folder / "wrong.comp").write_text(no_op(text))
    (s.folder / "broken.comp").write_text(text.replace("x[i] * a", "undefined_name * a"))
    right = s("build", "--source", s.folder / "right.comp")["variant"]
    assert s("build", "--source", s.folder / "right.comp")["variant"]["id"] == right["id"], "built twice, stored once"
    s("build", "--source", s.folder / "wrong.comp")
    assert s("build", "--source", s.folder / "broken.comp", expect=7)["error"]["code"] == "compile_failed"
    assert s("run", "--iterations", "3")["validation"]["correctness"] == "correct"
    again = s("run", "--iterations", "3")
    assert again["delta"]["variant"] == "baseline", "equal conditions have a delta"
    assert "delta" not in s("run", "--iterations", "4"), "other conditions have none"
    assert s("compare", "--variant", "right", "--budget", "0")["verdict"]["correctness"] == "correct"
    assert s("compare", "--variant", "wrong", "--budget", "0", expect=3)["verdict"]["correctness"] == "incorrect"
    assert s.state == "idle"
    assert s("save", "--variant", "wrong", expect=3)["error"]["code"] == "not_correct"
    asked = s("save", "--variant", "right")
    assert asked["state"] == "preview" and file.read_text() == text
    assert s("save", "--variant", "right", "--token", asked["token"], expect=1)["error"]["code"] == "not_allowed"
    assert klab.ok("session", "approvals", "--json").json["approvals"][0]["token"] == asked["token"]
    klab.ok("session", "approve", asked["token"])
    saved = s("save", "--variant", "right", "--token", asked["token"])
    assert saved["state"] == "saved" and file.read_text() != text and s.state == "saved"
    assert pathlib.Path(saved["saved"]["backup"]).read_text() == text
    assert s("save", "--variant", "right", expect=1)["error"]["code"] == "source_changed", "it was made from the file before"
    report = s("report")["report"]
    assert len(report["runs"]) == 3 and len(report["comparisons"]) == 2 and len(report["saves"]) == 1
    assert any(f["error"]["code"] == "compile_failed" for f in report["failures"])
    assert "| right |" in klab.ok("session", "report", s.id).out
    closed = s("close")
    assert closed["freed_bytes"] > 0 and not list((klab.home / "sessions" / s.id).glob("*.klab"))
    assert s("close", expect=1)["error"]["code"] == "illegal_state"
    assert s("run", expect=1)["error"]["code"] == "illegal_state"
    assert len(s("show", "--view", "runs")["items"]) == 3 and s("show", "--view", "source", "--variant", "right")["text"]
    klab.ok("save", "--undo", saved["saved"]["id"])
    assert file.read_text() == text


def test_the_run_after_the_cap_is_refused(klab):
    s = Session(klab, "--max-runs", "2")
    capture(s)
    s("run", "--iterations", "1")
    s("run", "--iterations", "1")
    refused = s("run", "--iterations", "1", expect=10)["error"]
    assert refused["code"] == "cap_reached" and "max_runs" in refused["hint"], refused
    assert s.state == "idle" and len(s("show", "--view", "runs")["items"]) == 2


def test_moves_that_a_state_does_not_allow_are_refused_by_name(klab):
    s = Session(klab)
    for verb in ("run", "compare", "build", "save"):
        args = {"compare": ("--variant", "x"), "save": ("--variant", "x"), "build": ("--grid", "1")}.get(verb, ())
        error = s(verb, *args, expect=1)["error"]
        assert error["code"] == "illegal_state" and "opened" in error["what"] or "no capture" in error["what"], error
    assert s.state == "opened"


@pytest.mark.parametrize("bad", ["/etc/passwd", "link.comp", "up/etc/hostname", "../outside.comp", "."])
def test_paths_outside_the_roots_are_refused(klab, bad):
    s = Session(klab)
    (s.folder / "link.comp").symlink_to("/etc/passwd")
    (s.folder / "up").symlink_to("/")
    (klab.folder / "outside.comp").write_text("void main() {}")
    for verb, flag in (("select", "--file"), ("search", "--root")):
        if (verb, bad) == ("search", "."):
            continue
        code = klab("session", verb, s.id, flag, s.folder / bad, "--json").json
        assert not code["ok"] and code["error"]["code"] in ("not_allowed", "not_found", "usage"), code


def test_reading_starts_no_hub_no_worker_and_loads_no_driver(klab):
    s = Session(klab)
    capture(s)
    klab.ok("hub", "stop")
    for args in (("list",), ("show", s.id), ("show", s.id, "--view", "dispatches"), ("report", s.id), ("show", s.id, "--view", "events"),
                 ("log", s.id), ("approvals",)):
        done = subprocess.run(klab.argv("session", *args), env={**klab.env, "LD_DEBUG": "files"}, cwd=klab.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-500:]
        for library in ("libvulkan", "libcuda", "lvp"):
            assert f"{library}" not in done.stderr, f"{args} loads {library}"
        assert not klab.ok("hub", "status", "--json").json["running"], f"{args} started a hub"
    opened = klab.ok("session", "open", "--root", s.folder, "--json", "--", example("inplace"))
    assert opened.json["ok"] and not klab.ok("hub", "status", "--json").json["running"]


def test_a_given_bundle_is_never_deleted(klab):
    bundle = klab.folder / "mine.klab"
    klab.capture([example("inplace")], name="mine")
    s = Session(klab, "--bundle", bundle, program=())
    assert s.state == "captured"
    s("run", "--iterations", "1")
    assert s("close")["freed_bytes"] == 0
    klab.ok("inspect", bundle)


def test_caps_of_klab_toml_and_its_mistakes(klab):
    project = klab.folder / "project"
    project.mkdir()
    (project / "klab.toml").write_text("max_runs = 7\n")
    done = klab.ok("session", "open", "--project", project, "--root", project, "--json", "--", example("inplace"))
    assert done.json["session"]["max_runs"] == 7
    (project / "klab.toml").write_text("max_runs = 7\nmax_rnus = 8\n")
    done = klab("session", "open", "--project", project, "--root", project, "--json", "--", example("inplace"))
    assert done.code != 0 and "max_rnus" in done.error["what"] and "2" in done.error["what"], done
    (project / "klab.toml").write_text("max_runs = 7\n")
    (project / "klab.toml").chmod(0o666)
    done = klab("session", "open", "--project", project, "--root", project, "--json", "--", example("inplace"))
    assert done.code != 0 and done.error["code"] == "not_allowed", done


def test_job_log_has_what_the_program_said(klab):
    s = Session(klab)
    s("trace")
    assert "checksum" in s("log")["text"]


def test_an_equal_run_can_be_taken_from_the_store(klab):
    s = Session(klab)
    capture(s)
    first = s("run", "--iterations", "2", "--cached")
    assert "from_store" not in first
    again = s("run", "--iterations", "2", "--cached")
    assert again["from_store"] and again["run"] == first["run"] and again["samples_ns"] == first["samples_ns"], again
    assert any("nothing ran" in n for n in again["notes"])
    assert "from_store" not in s("run", "--iterations", "3", "--cached"), "other conditions"
    assert "from_store" not in s("run", "--iterations", "2"), "not asked for"
    assert "from_store" not in s("run", "--iterations", "2", "--grid", "1", "--cached", expect=3), "another launch"
