# SPDX-License-Identifier: Apache-2.0
"""Variants: bad ones are caught, compile errors name file and line, the winner is saved and undone."""
import shutil

import pytest

from conftest import ROOT, SOURCES, example, no_op
from programs_list import PROGRAMS


def source_of(klab, bundle, shaders):
    """The example's shader that compiles to the captured code, found by klab itself."""
    found = klab.ok("source", "find", bundle, "--root", SOURCES, "--json").json
    assert found["candidates"], found
    return found["candidates"][0]


CASES = [p for p in PROGRAMS if not p.varying]


@pytest.mark.parametrize("p", CASES, ids=lambda p: p.program)
def test_variant_that_writes_nothing_is_incorrect(klab, shared_bundle, p):
    bundle = shared_bundle(p.program, p.named[0] if p.named else None, options=("--nth", str(p.nth)))
    stem = next(s for s, _ in p.shaders if p.program != "many_dispatches" or s.endswith("scale"))
    if p.program == "indirect":
        name = source_of(klab, bundle, p.shaders)["file"]
        source = no_op(open(name).read())
    else:
        source = no_op(SOURCES / f"{stem}.comp")
    (klab.folder / "nothing.comp").write_text(source)
    done = klab("compare", bundle, "--variant", klab.folder / "nothing.comp", "--json", "--budget", "0")
    assert done.json and done.json["ok"], repr(done)
    verdict = done.json["verdict"]
    if p.program == "idempotent":
        # Nothing changes, so only poison or a mutated input can tell; else the answer is "not verified", and why.
        assert verdict["correctness"] in ("incorrect", "not_verified") and verdict["reason"], verdict
    else:
        assert verdict["correctness"] == "incorrect", verdict
        assert "ratio" not in done.json, "a wrong variant has no speed"
    assert done.code == 3, repr(done)


def test_fill_that_writes_nothing_is_not_called_correct(klab, shared_bundle):
    bundle = shared_bundle("idempotent", "idempotent_fill")
    (klab.folder / "nothing.comp").write_text(no_op(SOURCES / "idempotent_fill.comp"))
    done = klab("compare", bundle, "--variant", klab.folder / "nothing.comp", "--json", "--budget", "0")
    assert done.code == 3 and done.json["verdict"]["correctness"] in ("incorrect", "not_verified"), repr(done)


def test_wrong_in_one_element_is_incorrect(klab, shared_bundle):
    text = (SOURCES / "inplace.comp").read_text().replace("x[i] * a + b", "x[i] * a + (i == 777u ? b + 1.0 : b)")
    (klab.folder / "wrong.comp").write_text(text)
    done = klab("compare", "--budget", "0", shared_bundle("inplace"), "--variant", klab.folder / "wrong.comp", "--json")
    assert done.code == 3 and done.json["verdict"]["correctness"] == "incorrect", repr(done)
    (difference,) = done.json["variants"][1]["validation"]["differences"]
    assert difference["first_offset"] // 4 == 777 and 1 <= difference["differing_bytes"] <= 4


def test_writing_outside_the_result_is_incorrect(klab, shared_bundle):
    text = (SOURCES / "inplace.comp").read_text()
    text = text.replace("x[i] = x[i] * a + b;", "{ x[i] = x[i] * a + b; if (i == 0) x[n + n / 2] = 3.0; }")
    (klab.folder / "stray.comp").write_text(text)
    done = klab("compare", "--budget", "0", shared_bundle("inplace"), "--variant", klab.folder / "stray.comp", "--json")
    assert done.code == 3 and done.json["verdict"]["correctness"] == "incorrect", repr(done)


def test_compile_error_names_the_users_file_and_line(klab, shared_bundle):
    text = (SOURCES / "saxpy.comp").read_text().replace("y[i] = a", "y[i] = undefined_name")
    (klab.folder / "broken.comp").write_text(text)
    line = text[:text.index("undefined_name")].count("\n") + 1
    done = klab("build", shared_bundle("saxpy"), "--source", klab.folder / "broken.comp", "--json")
    assert done.code == 7 and done.error["code"] == "compile_failed", repr(done)
    assert f"broken.comp:{line}" in done.error["what"] and "undefined_name" in done.error["what"]
    # An error in an included file names that file.
    (klab.folder / "include").mkdir()
    (klab.folder / "include" / "part.glsl").write_text("// one\n// two\nfloat f(float x) { return y_missing; }\n")
    text = (SOURCES / "saxpy.comp").read_text()
    text = text.replace("layout(local", '#extension GL_GOOGLE_include_directive : require\n#include "part.glsl"\nlayout(local')
    (klab.folder / "including.comp").write_text(text)
    done = klab("build", shared_bundle("saxpy"), "--source", "including.comp", "-I", "include", "--json")
    assert done.code == 7 and "part.glsl:3" in done.error["what"], repr(done)


def test_build_options_reach_the_compiler(klab, shared_bundle):
    text = (SOURCES / "reduction.comp").read_text().replace("#version 450", "#version 450\n#ifndef OK\n#error no OK\n#endif")
    (klab.folder / "defined.comp").write_text(text)
    bundle = shared_bundle("reduction")
    assert klab("build", bundle, "--source", "defined.comp", "--json").code == 7
    built = klab.ok("build", bundle, "--source", "defined.comp", "-D", "OK=1", "-O", "none", "--name", "v1", "--json")
    assert built.json["variant"]["name"] == "v1"
    klab.ok("compare", bundle, "--variant", "v1", "--budget", "0")


def test_launch_override_of_the_grid_is_judged(klab, shared_bundle):
    bundle = shared_bundle("saxpy")
    done = klab("replay", bundle, "--grid", "1", "--iterations", "2", "--json")
    assert done.code == 3 and done.json["validation"]["correctness"] == "incorrect", repr(done)


def test_specialization_can_be_overridden(klab, shared_bundle):
    bundle = shared_bundle("spec_constants")
    done = klab("replay", bundle, "--spec", "1=9", "--iterations", "2", "--json")
    assert done.code == 3, repr(done)


@pytest.mark.parametrize("program,shader", [("saxpy", "saxpy"), ("inplace", "inplace"),
                                            ("spec_constants", "spec_constants"), ("forked", "forked")])
def test_source_is_found_by_what_it_compiles_to(klab, shared_bundle, program, shader):
    found = klab.ok("source", "find", shared_bundle(program), "--root", ROOT / "examples", "--json").json
    best = found["candidates"][0]
    assert best["file"].endswith(f"/{shader}.comp"), found
    assert best["evidence"] in ("same_code", "embedded_source", "debug_name")
    assert best["because"]


class Project:
    """reduction's source in a project of its own, and a right and a wrong variant of it."""

    def __init__(self, klab, bundle, ending="\n", mode=0o640):
        self.bundle = klab.folder / "mine.klab"
        shutil.copytree(bundle, self.bundle)
        self.file = klab.folder / "project" / "reduction.comp"
        self.file.parent.mkdir()
        self.text = (SOURCES / "reduction.comp").read_text().replace("\n", ending)
        self.file.write_text(self.text, newline="")
        self.file.chmod(mode)
        klab.ok("source", "select", self.bundle, "--file", self.file)
        better = self.text.replace("s >>= 1", "s /= 2").replace("if (t == 0)", "if (t < 1)")
        assert better != self.text
        (klab.folder / "better.comp").write_text(better.replace(ending, "\n"))
        (klab.folder / "worse.comp").write_text(no_op(self.text.replace(ending, "\n")))
        klab.ok("build", self.bundle, "--source", "better.comp")
        klab.ok("build", self.bundle, "--source", "worse.comp")
        self.better = better


@pytest.fixture
def project(klab, shared_bundle):
    return Project(klab, shared_bundle("reduction"))


def test_save_needs_a_verdict_of_correct(klab, project):
    for variant in ("better", "worse"):
        done = klab("save", project.bundle, "--variant", variant, "--yes", "--json")
        assert done.code == 3 and done.error["code"] == "not_correct", repr(done)
    assert klab("compare", project.bundle, "--variant", "worse", "--budget", "0").code == 3
    done = klab("save", project.bundle, "--variant", "worse", "--yes", "--json")
    assert done.code == 3 and done.error["code"] == "not_correct", repr(done)
    assert project.file.read_bytes() == project.text.encode()


def test_save_and_undo(klab, project):
    klab.ok("compare", project.bundle, "--variant", "better", "--budget", "0")
    dry = klab.ok("save", project.bundle, "--variant", "better", "--dry-run", "--json").json
    assert "+  for (uint s = 128; s > 0; s /= 2) {" in dry["diff"] and project.file.read_text() == project.text
    refused = klab("save", project.bundle, "--variant", "better")  # nobody to ask
    assert refused.code == 2 and project.file.read_text() == project.text
    saved = klab.ok("save", project.bundle, "--variant", "better", "--yes", "--json").json["saved"]
    assert project.file.read_text() == project.better
    assert project.file.stat().st_mode & 0o777 == 0o640
    assert open(saved["backup"]).read() == project.text
    klab.ok("save", "--undo", saved["id"])
    assert project.file.read_bytes() == project.text.encode()


def test_save_keeps_line_endings_and_links(klab, shared_bundle):
    project = Project(klab, shared_bundle("reduction"), ending="\r\n", mode=0o604)
    klab.ok("compare", project.bundle, "--variant", "better", "--budget", "0")
    link = klab.folder / "link.comp"
    link.symlink_to(project.file)
    klab.ok("save", project.bundle, "--variant", "better", "--file", link, "--yes")
    assert link.is_symlink() and project.file.read_bytes() == project.better.encode()
    assert b"\r\n" in project.file.read_bytes() and project.file.stat().st_mode & 0o777 == 0o604


def test_save_refuses_a_file_that_changed(klab, project):
    klab.ok("compare", project.bundle, "--variant", "better", "--budget", "0")
    project.file.write_text("// mine\n" + project.text)
    done = klab("save", project.bundle, "--variant", "better", "--yes", "--json")
    assert done.code != 0 and done.error["code"] == "source_changed", repr(done)
    assert project.file.read_text() == "// mine\n" + project.text


def test_undo_refuses_a_file_that_changed_since(klab, project):
    klab.ok("compare", project.bundle, "--variant", "better", "--budget", "0")
    saved = klab.ok("save", project.bundle, "--variant", "better", "--yes", "--json").json["saved"]
    project.file.write_text("// edited since\n")
    done = klab("save", "--undo", saved["id"], "--json")
    assert done.error["code"] == "source_changed" and project.file.read_text() == "// edited since\n"
