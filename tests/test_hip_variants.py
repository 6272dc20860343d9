# SPDX-License-Identifier: Apache-2.0
"""Variants of a captured HIP kernel, through hipcc, hiprtc and as code objects: built, judged, saved. On the simulated GPU no time
means anything, so none is looked at (--budget 0 only judges)."""
import pathlib
import shutil
import subprocess

import pytest

from conftest import ROOT
from test_hip import CASES, ON_SIMULATOR, capture, hip, pytestmark  # noqa: F401 (fixture and marks)

VARIANTS = ROOT / "examples" / "hip" / "variants"
SAXPY = next(c for c in CASES if c.program == "saxpy")


@pytest.fixture
def saxpy(hip):
    capture(hip, SAXPY, "reachable")
    return hip.folder / "saxpy.klab"


def judged(hip, bundle, source, *options):
    return hip("compare", bundle, "--variant", source, "--json", "--budget", "0", *options)


def test_the_source_is_found_by_its_code_and_a_right_variant_is_saved(hip, saxpy):
    project = hip.folder / "project"
    project.mkdir()
    for name in ("saxpy.hip", "saxpy_kernel.h", "common.h"):
        shutil.copy(ROOT / "examples" / "hip" / name, project)
    found = hip.ok("source", "find", saxpy, "--root", project, "--json").json
    assert any(pathlib.Path(c["file"]).name == "saxpy_kernel.h" for c in found["candidates"]), found
    target = project / "saxpy_kernel.h"
    hip.ok("source", "select", saxpy, "--file", target)
    fast = hip.folder / "fast.hip"
    shutil.copy(VARIANTS / "saxpy_fast.hip", fast)
    built = hip.ok("build", saxpy, "--source", fast, "--name", "fast", "--json").json
    assert built["cuda"]["arch"].startswith("gfx"), built
    assert built["cuda"]["kernel"]["registers"] > 0 and built["cuda"]["kernel"]["scalar_registers"] > 0
    done = judged(hip, saxpy, "fast")
    assert done.json["verdict"]["correctness"] == "correct", repr(done)
    hip.ok("save", saxpy, "--variant", "fast", "--yes")
    assert target.read_text() == fast.read_text()


def test_a_wrong_variant_is_caught(hip, saxpy):
    done = judged(hip, saxpy, VARIANTS / "saxpy_wrong.hip")
    assert done.code == 3 and done.json["verdict"]["correctness"] == "incorrect", repr(done)


def test_what_does_not_compile_names_the_line(hip, saxpy):
    done = hip("build", saxpy, "--source", VARIANTS / "saxpy_broken.hip", "--json")
    assert done.code == 7 and "saxpy_broken.hip:3" in done.error["what"], repr(done)


def test_another_kernel_is_never_taken_for_the_captured_one(hip, saxpy):
    other = hip.folder / "other.hip"
    other.write_text((VARIANTS / "saxpy_fast.hip").read_text().replace("void saxpy(", "void sbxpy("))
    done = hip("build", saxpy, "--source", other, "--json")
    assert done.code != 0 and "sbxpy" in done.error["what"] and done.error["code"] == "missing_symbol", repr(done)


@pytest.mark.parametrize("name, outcome", [("saxpy_fault", "device_fault"), ("saxpy_endless", "timeout")])
def test_what_ends_a_device_ends_the_worker_alone(hip, saxpy, name, outcome):
    done = judged(hip, saxpy, VARIANTS / f"{name}.hip", "--worker-budget", "30")
    assert done.code != 0 and outcome in done.out + done.err, repr(done)
    assert hip.ok("replay", saxpy, "--iterations", "1", "--cache", "warm", "--json").json["ok"]


def test_a_code_object_is_a_variant(hip, saxpy):
    made = hip.folder / "fast.hsaco"
    subprocess.run(["hipcc", "--genco", "-O2", "--offload-arch=gfx1030", "--offload-arch=gfx906", "-include",
                    "hip/hip_runtime.h", "-o", str(made), str(VARIANTS / "saxpy_fast.hip")], check=True,
                   capture_output=True)
    done = judged(hip, saxpy, made)
    assert done.json["verdict"]["correctness"] == "correct", repr(done)


def hiprtc_or_skip(hip):
    (check,) = [c for c in hip("doctor", "--json").json["checks"] if c["name"] == "hiprtc"]
    if check["health"] != "ok":
        pytest.skip(check["found"])


def test_hiprtc_builds_variants_too(hip, saxpy):
    hiprtc_or_skip(hip)
    fast = hip.ok("build", saxpy, "--source", VARIANTS / "saxpy_fast.hip", "--compiler", "hiprtc", "--json").json
    assert fast["compiler"].startswith("hiprtc ") and fast["cuda"]["kernel"]["registers"] > 0, fast
    done = judged(hip, saxpy, "saxpy_fast")
    assert done.json["verdict"]["correctness"] == "correct", repr(done)
    hip.ok("build", saxpy, "--source", VARIANTS / "saxpy_wrong.hip", "--compiler", "hiprtc", "--json")
    done = judged(hip, saxpy, "saxpy_wrong")
    assert done.code == 3 and done.json["verdict"]["correctness"] == "incorrect", repr(done)
    done = hip("build", saxpy, "--source", VARIANTS / "saxpy_broken.hip", "--compiler", "hiprtc", "--json")
    assert done.code == 7 and "saxpy_broken.hip:3" in done.error["what"] and done.error["code"] == "compile_failed", repr(done)


def test_the_captured_kernel_s_own_source_replays_bitwise_through_hiprtc(hip, saxpy):
    hiprtc_or_skip(hip)
    own = hip.folder / "own.hip"
    own.write_text((ROOT / "examples" / "hip" / "saxpy_kernel.h").read_text())
    hip.ok("build", saxpy, "--source", own, "--compiler", "hiprtc", "--json")
    done = hip.ok("replay", saxpy, "--variant", "own", "--iterations", "1", "--json")
    assert done.json["validation"]["correctness"] == "correct", repr(done)


def test_a_compiler_that_crashes_is_an_error_and_the_next_build_works(hip, saxpy):
    hiprtc_or_skip(hip)
    # ROCm 5.2's hiprtc aborts for gfx1100; where it does not, its code does not run on the captured device.
    for arch in ("gfx1100", "gfx9999"):
        done = hip("build", saxpy, "--source", VARIANTS / "saxpy_fast.hip", "--compiler", "hiprtc", "--arch", arch, "--json")
        assert done.code == 7 and done.error["code"] == "compile_failed" and done.error["hint"], repr(done)
    hip.ok("build", saxpy, "--source", VARIANTS / "saxpy_fast.hip", "--compiler", "hiprtc", "--json")


def test_the_hipcc_that_is_named_is_used(hip, saxpy):
    named = hip.folder / "my-hipcc"
    named.write_text("#!/bin/sh\ntouch \"$0.was-run\"\nexec hipcc \"$@\"\n")
    named.chmod(0o700)
    hip.ok("build", saxpy, "--source", VARIANTS / "saxpy_fast.hip", "--hipcc", named, "--json")
    assert (hip.folder / "my-hipcc.was-run").exists()
    done = hip("build", saxpy, "--source", VARIANTS / "saxpy_fast.hip", "--hipcc", hip.folder / "none", "--json")
    assert done.error["code"] == "environment" and "none" in done.error["what"], repr(done)
    checks = {c["name"]: c for c in hip("doctor", "--json").json["checks"]}
    for name in ("hipcc", "hiprtc", "comgr"):
        assert checks[name]["health"] == "ok" or checks[name]["fix"], checks[name]
    done = hip("doctor", "--json", env={"KLAB_HIPCC": str(hip.folder / "none")})
    (check,) = [c for c in done.json["checks"] if c["name"] == "hipcc"]
    assert check["health"] == "warning" and "KLAB_HIPCC" in check["fix"], check


def test_memory_pools_are_refused_with_the_reason(hip, saxpy):
    done = hip("replay", saxpy, "--memory", "host", "--json")
    assert not done.json["ok"] and "grain" in done.error["what"], repr(done)


def test_nothing_is_claimed_of_the_speed_of_an_emulated_device(hip, saxpy):
    if not ON_SIMULATOR:
        pytest.skip("a real GPU")
    done = hip("compare", saxpy, "--variant", VARIANTS / "saxpy_fast.hip", "--budget", "1s", "--json")
    assert done.code == 0 and done.json["verdict"]["correctness"] == "correct", repr(done)
    assert done.json["verdict"]["speed"] == "none" and "emulated" in done.json["verdict"]["reason"] and "comparison" not in done.json
    told = hip.ok("compare", saxpy, "--variant", VARIANTS / "saxpy_fast.hip", "--budget", "1s")
    told = told.out + told.err + hip.ok("replay", saxpy).out + hip.ok("replay", saxpy).out
    for word in ("faster", "slower", "speedup", "launches a second"):
        assert word not in told.replace("saxpy_fast", ""), told
    refused = hip("calibrate", "--api", "hip", "--json")
    assert not refused.json["ok"] and "emulated" in refused.error["what"], repr(refused)
