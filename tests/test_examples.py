# SPDX-License-Identifier: Apache-2.0
"""The examples themselves, without Klab: right results, clean use of the API, refusals that are not failures."""
import os
import pathlib
import signal
import subprocess

import pytest

from conftest import SKIPPED, base_environment, example, run_example
from programs_list import PROGRAMS

ALL = sorted({(p.program, *p.args) for p in PROGRAMS} | {("no_dispatch",), ("endless",)})
SWIFTSHADER = pathlib.Path(os.environ.get("KLAB_SWIFTSHADER_ICD", "/usr/lib/chromium/vk_swiftshader_icd.json"))
VALIDATION = pathlib.Path("/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json")


def check(done):
    if done.returncode == SKIPPED:
        assert "skipped, " in done.stdout
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert ": ok, checksum " in done.stdout and done.stdout.count("\n") == 1


@pytest.mark.parametrize("program", ALL, ids=" ".join)
def test_example_is_right_twice_with_one_checksum(program):
    first, second = run_example(*program), run_example(*program)
    check(first)
    assert first.stdout == second.stdout


@pytest.mark.skipif(not VALIDATION.exists(), reason="vulkan-validationlayers is not installed")
@pytest.mark.parametrize("program", ALL, ids=" ".join)
def test_example_is_clean_under_validation(program):
    done = run_example(*program, env={"VK_INSTANCE_LAYERS": "VK_LAYER_KHRONOS_validation"})
    check(done)
    assert "Validation" not in done.stdout + done.stderr and "VUID" not in done.stdout + done.stderr


@pytest.mark.parametrize("program", ["saxpy", "inplace", "reduction", "pointer_table", "indirect", "spec_constants",
                                     "push_descriptors", "small_types", "two_queues", "descriptor_array", "secondary",
                                     "idempotent", "forked"])
@pytest.mark.parametrize("size,iterations", [(1, 1), (1000, 3)])
def test_example_takes_odd_sizes(program, size, iterations):
    check(run_example(program, "--size", str(size), "--iterations", str(iterations)))


@pytest.mark.skipif(not SWIFTSHADER.exists(), reason="no SwiftShader (Debian's chromium ships it)")
@pytest.mark.parametrize("program", ALL, ids=" ".join)
def test_example_on_swiftshader(program):
    check(run_example(*program, env={"VK_ICD_FILENAMES": str(SWIFTSHADER), "VK_DRIVER_FILES": str(SWIFTSHADER)}))


def test_usage_is_told():
    done = run_example("saxpy", "--frobnicate")
    assert done.returncode == 2 and "usage: saxpy" in done.stderr


def test_crash_dies_by_sigsegv():
    assert run_example("crash").returncode == -signal.SIGSEGV


def test_endless_does_not_end_when_held():
    child = subprocess.Popen([example("endless"), "--hold"], env=base_environment(), stdout=subprocess.DEVNULL)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(4)
    finally:
        child.kill()
        child.wait()
