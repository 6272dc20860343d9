# SPDX-License-Identifier: Apache-2.0
"""klab calibrate on a CPU driver: measured once, kept, shown, by two at once measured once, whole after a kill."""
import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from conftest import ROOT


def figures(calibration):
    return {(f["kind"], f["name"]) for f in calibration["figures"]}


def cache(klab):
    return pathlib.Path(klab.env["KLAB_HOME"]) / "cache" / "calibration"


def test_measured_once_then_kept_and_shown(klab):
    none = klab("calibrate", "--show", "--json")
    assert none.code == 1 and none.error["code"] == "not_found" and not cache(klab).exists()

    first = klab.ok("calibrate", "--api", "vulkan", "--json").json
    c = first["calibration"]
    assert not first["cached"] and 0 < c["took_s"] < 60
    assert {("memory", n) for n in ("read", "write", "copy", "triad")} <= figures(c)
    assert {("vector", "fp32"), ("vector", "int32"), ("launch", "empty_launch"), ("launch", "launch_and_wait"),
            ("launch", "launch_throughput")} <= figures(c)
    for f in c["figures"]:
        assert f["samples"] >= 5 and 0 < f["q1"] <= f["value"] <= f["q3"], f
        assert f["config"]
    assert {m["name"] for m in c["missing"]} >= {"matrix units"}
    if c["device"]["type"] == "cpu":
        assert any("nothing of any GPU" in note for note in c["notes"])

    again = klab.ok("calibrate", "--api", "vulkan", "--json").json
    assert again["cached"] and again["calibration"] == c
    # No hub, no worker, no driver: only the file.
    shown = klab.ok("calibrate", "--show", "--json", "--no-hub", env={"VK_ICD_FILENAMES": "/nowhere.json"}).json
    assert [one["made_at"] for one in shown["calibrations"]] == [c["made_at"]]
    assert not shown["calibrations"][0]["expired"]
    human = klab.ok("calibrate", "--show").out
    assert "memory, copy" in human and "GB/s" in human and "not measured: matrix units" in human
    assert klab("calibrate", "--show", "--device", "no such GPU").code == 1

    [file] = cache(klab).glob("*.json")
    assert file.stat().st_mode & 0o777 == 0o600

    # Eight days later, or of another driver, it does not count; --show says so.
    old = json.loads(file.read_text())
    old["made_at"] -= 8 * 24 * 3600
    file.write_text(json.dumps(old))
    assert klab.ok("calibrate", "--show", "--json").json["calibrations"][0]["expired"]
    assert "not valid any more" in klab.ok("calibrate", "--show").out
    assert not klab.ok("calibrate", "--api", "vulkan", "--json").json["cached"]


@pytest.mark.parametrize("mode", [["--no-hub"], []], ids=["alone", "hub"])
def test_two_at_once_measure_once(klab, mode):
    children = [klab.start("calibrate", "--api", "vulkan", "--json", *mode) for _ in range(2)]
    answers = []
    for child in children:
        out, err = child.communicate(timeout=120)
        assert child.returncode == 0, err
        answers.append(json.loads(out))
    assert answers[0]["calibration"] == answers[1]["calibration"]
    assert sorted(a["cached"] for a in answers) == [False, True]


def test_a_killed_calibration_leaves_nothing_and_holds_nothing(klab):
    child = klab.start("calibrate", "--api", "vulkan", "--no-hub")
    while "calibrating: copy" not in (line := child.stderr.readline()):
        assert line, "it ended before it measured"
    os.kill(child.pid, signal.SIGKILL)
    child.communicate(timeout=60)
    assert not list(cache(klab).glob("*.json*"))
    done = klab.ok("calibrate", "--api", "vulkan", "--json", "--no-hub", timeout=120).json
    assert not done["cached"] and done["calibration"]["figures"]
    assert len(list(cache(klab).glob("*.json"))) == 1


def test_words_that_cannot_be_are_refused(klab):
    assert klab("calibrate", "--show", "--force").code == 2
    assert klab("calibrate", "--api", "vulkan", "--device", "99", "--json").error["code"] == "no_device"
    unknown = klab("calibrate", "--api", "metal", "--json")
    assert unknown.code == 6 and unknown.error["hint"], unknown


@pytest.mark.parametrize("arch, instruction", [("gfx90a", "v_mfma"), ("gfx942", "v_mfma"), ("gfx1100", "v_wmma")])
def test_the_kernels_are_hip_too(tmp_path, arch, instruction):
    """There is no HIP backend yet; its kernels are the same source."""
    clang = shutil.which("clang++-19")
    if clang is None:
        pytest.skip("no clang++-19 (package clang-19)")
    out = tmp_path / "calibrate.s"
    subprocess.run([clang, "-x", "hip", f"--offload-arch={arch}", "--cuda-device-only", "-nogpulib", "-nogpuinc", "-std=c++17", "-O2", "-S",
                    "-o", out, ROOT / "src" / "kernels" / "calibrate.cu"], check=True, timeout=120)
    assembly = out.read_text()
    assert instruction in assembly
    assert assembly.count(".amdhsa_kernel ") >= 30, "every kernel is there"
