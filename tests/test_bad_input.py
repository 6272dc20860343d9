# SPDX-License-Identifier: Apache-2.0
"""Bad input: each gives a clear error, an exit code of the design, and loses nothing."""
import json
import os
import random
import shutil
import subprocess
import time

import pytest

from conftest import example, seal_manifest


def refused(outcome, code, error):
    assert outcome.code == code, repr(outcome)
    assert outcome.error["code"] in ((error,) if isinstance(error, str) else error), repr(outcome)
    assert len(outcome.error["what"]) > 10 and "klab: " in outcome.err, repr(outcome)
    return outcome.error


@pytest.mark.parametrize("verb", ["devices", "replay", "dispatches"])
def test_no_vulkan_driver(klab, shared_bundle, verb):
    none = {"VK_ICD_FILENAMES": "/dev/null", "VK_DRIVER_FILES": "/dev/null"}
    if verb == "devices":
        outcome = klab("devices", "--json", env=none)
    elif verb == "replay":
        outcome = klab("replay", shared_bundle("saxpy"), "--json", env=none)
    else:  # the program itself fails for want of a driver; klab says that it did
        outcome = klab("dispatches", "--json", "--", example("saxpy"), env=none)
        assert outcome.code in (0, 6, 9) and "saxpy" in outcome.err + outcome.out
        return
    error = refused(outcome, 6, ("no_device", "environment"))
    assert "mesa-vulkan-drivers" in json.dumps(error), "names the package to install"


def test_no_such_kernel_offers_the_nearest_names(klab):
    outcome = klab("capture", "--json", "--kernel", "matmul_tild", "-o", "x.klab", "--", example("matmul_tiled"))
    error = refused(outcome, 9, "no_such_kernel")
    assert "matmul_tiled" in error["hint"]
    assert not (klab.folder / "x.klab").exists()


def test_fewer_executions_than_asked(klab):
    outcome = klab("capture", "--json", "--kernel", "matmul_tiled", "--nth", "5", "-o", "x.klab", "--",
                   example("matmul_tiled"))
    error = refused(outcome, 9, "no_such_kernel")
    assert "1" in error["what"] and not (klab.folder / "x.klab").exists()


@pytest.mark.parametrize("program", [["no_dispatch"], ["crash", "--early"]], ids=" ".join)
def test_program_ends_before_the_match(klab, program):
    outcome = klab("capture", "--json", "--kernel", "main", "-o", "x.klab", "--", example(program[0]), *program[1:])
    error = refused(outcome, 9, ("no_such_kernel", "target_failed"))
    if program[0] == "crash":
        assert "SIGSEGV" in error["what"]
    assert not list(klab.folder.glob("*.klab*"))


def test_program_that_does_not_exist(klab):
    outcome = klab("capture", "--json", "--kernel", "main", "-o", "x.klab", "--", "./no_such_program")
    error = refused(outcome, outcome.code, ("target_failed", "not_found"))
    assert outcome.code in (1, 9) and "no_such_program" in error["what"]


def test_program_that_uses_no_vulkan(klab):
    outcome = klab("capture", "--json", "--kernel", "main", "-o", "x.klab", "--", "/bin/true")
    refused(outcome, 9, ("no_such_kernel", "target_failed"))


def test_program_that_never_ends_is_ended(klab):
    outcome = klab("dispatches", "--json", "--time-limit", "3", "--", "/bin/sleep", "1000", timeout=60)
    refused(outcome, outcome.code, ("timeout", "target_failed"))
    assert outcome.code in (8, 9)


def test_existing_bundle_is_not_overwritten(klab):
    klab.capture([example("reduction")], None, "x")
    before = (klab.folder / "x.klab" / "manifest.json").read_bytes()
    outcome = klab("capture", "--json", "--kernel", "reduction", "-o", "x.klab", "--", example("reduction"))
    assert outcome.code != 0 and outcome.error["hint"], repr(outcome)
    assert (klab.folder / "x.klab" / "manifest.json").read_bytes() == before
    klab.ok("capture", "--kernel", "reduction", "-o", "x.klab", "--replace", "--", example("reduction"))
    assert (klab.folder / "x.klab" / "manifest.json").read_bytes() != before


def test_size_preview_refuses_before_writing(klab):
    outcome = klab("capture", "--json", "--kernel", "main", "--max-bytes", "64K", "-o", "x.klab", "--",
                   example("inplace"))
    error = refused(outcome, 10, "cap_reached")
    assert "MiB" in error["what"] and not list(klab.folder.glob("x.klab*"))


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 8 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], capture_output=True)
    if done.returncode:
        pytest.skip("mounting a small disk needs root")
    yield place
    for _ in range(100):  # a hub that was told to stop may still hold its store
        if subprocess.run(["umount", str(place)], capture_output=True).returncode == 0:
            return
        time.sleep(0.1)
    pytest.fail("somebody still uses the small disk")


def test_limit_on_file_size_is_named(klab):
    """The ring that klab shares with the program is a file for `ulimit -f`."""
    argv = ["prlimit", "--fsize=1048576", *klab.argv("capture", "--json", "--kernel", "saxpy", "-o", "x.klab", "--",
                                                     example("saxpy"))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=klab.env, cwd=klab.folder)
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "io_failed" and "ulimit -f" in error["hint"], done.stdout
    assert not list(klab.folder.glob("*.klab*"))


def test_full_disk_leaves_nothing_and_says_so(klab, small_disk):
    outcome = klab("capture", "--json", "--kernel", "saxpy", "--max-bytes", "1G", "-o", small_disk / "x.klab", "--",
                   example("saxpy"), "--size", str(4 << 20))
    error = refused(outcome, outcome.code, ("disk_full", "cap_reached"))
    assert outcome.code in (1, 10) and error.get("hint")
    assert os.listdir(small_disk) == [], "a partial capture was left"
    klab.ok("capture", "--kernel", "saxpy", "-o", klab.folder / "x.klab", "--", example("saxpy"))


def test_full_disk_under_the_store(klab, small_disk, shared_bundle):
    with open(small_disk / "filler", "wb", buffering=0) as f:
        try:
            while f.write(b"\0" * 65536):
                pass
        except OSError:
            pass
    outcome = klab("replay", shared_bundle("reduction"), "--iterations", "2", "--json",
                   env={"KLAB_HOME": str(small_disk / "home")})
    assert outcome.code in (0, 1) and (outcome.code == 0 or outcome.error["what"]), repr(outcome)
    os.unlink(small_disk / "filler")
    klab.ok("replay", shared_bundle("reduction"), "--iterations", "2", env={"KLAB_HOME": str(small_disk / "home")})
    klab.ok("hub", "stop", env={"KLAB_HOME": str(small_disk / "home")})


@pytest.fixture
def bundle(klab, shared_bundle):
    copy = klab.folder / "copy.klab"
    shutil.copytree(shared_bundle("reduction"), copy)
    return copy


@pytest.mark.parametrize("file", ["manifest.json", "data.pack", "data.idx", "code"])
@pytest.mark.parametrize("damage", ["truncated", "emptied", "removed"])
def test_cut_bundle(klab, bundle, file, damage):
    path = bundle / file if file != "code" else next((bundle / "code").iterdir())
    data = path.read_bytes()
    if damage == "removed":
        path.unlink()
    else:
        path.write_bytes(data[:len(data) // 2] if damage == "truncated" else b"")
    for verb in (["inspect"], ["replay", "--iterations", "1"]):
        outcome = klab(verb[0], bundle, *verb[1:], "--json")
        error = refused(outcome, 1, ("bundle_corrupt", "invalid_data", "not_found", "io_failed"))
        assert error.get("hint") or path.name in error["what"], repr(outcome)


def test_flipped_bits_are_always_found(klab, bundle, pytestconfig):
    rng = random.Random(pytestconfig.getoption("seed"))
    files = sorted(p for p in bundle.rglob("*") if p.is_file() and p.stat().st_size > 0)
    for _ in range(12):
        path = rng.choice(files)
        whole = path.read_bytes()
        data = bytearray(whole)
        at = rng.randrange(len(data))
        data[at] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        outcome = klab("inspect", bundle, "--json")
        assert outcome.code == 1, f"a flipped bit at {at} of {path.name} was not noticed: {outcome!r}"
        assert outcome.error["code"] in ("bundle_corrupt", "invalid_data", "bundle_version"), repr(outcome)
        path.write_bytes(whole)
    klab.ok("inspect", bundle)


def change_manifest(bundle, change):
    path = bundle / "manifest.json"
    manifest = json.loads(path.read_text())
    assert seal_manifest(manifest) == path.read_text(), "this test writes manifests as klab does"
    change(manifest)
    path.write_text(seal_manifest(manifest))


def set_region_size(m):
    m["dispatches"][0]["regions"][0]["size"] = 1 << 60


def set_binding_range(m):
    m["dispatches"][0]["bindings"][0]["range"] = 1 << 60


def set_code_outside(m):
    m["code"][0]["file"] = "../../../../etc/passwd"


def set_code_absolute(m):
    m["code"][0]["file"] = "/etc/passwd"


def set_code_size(m):
    m["code"][0]["size"] = 1 << 60


def set_region_index(m):
    m["dispatches"][0]["bindings"][0]["region"] = 1 << 31


def set_negative(m):
    m["dispatches"][0]["regions"][0]["size"] = -1


def set_wrong_type(m):
    m["dispatches"] = "none"


@pytest.mark.parametrize("change", [set_region_size, set_binding_range, set_code_outside, set_code_absolute,
                                    set_code_size, set_region_index, set_negative, set_wrong_type])
def test_manifest_that_lies(klab, bundle, change):
    change_manifest(bundle, change)
    for verb in (["inspect"], ["inspect", "--no-verify"], ["replay", "--iterations", "1"]):
        outcome = klab(verb[0], bundle, *verb[1:], "--json", timeout=60)
        refused(outcome, 1, ("invalid_data", "bundle_corrupt"))


def test_manifest_of_a_newer_version(klab, bundle):
    change_manifest(bundle, lambda m: m.update(format=999))
    error = refused(klab("inspect", bundle, "--json"), 1, "bundle_version")
    assert "999" in error["what"]


@pytest.mark.parametrize("args", [["replay"], ["capture"], ["frobnicate"], ["replay", "x.klab", "--iterations", "0"],
                                  ["replay", "x.klab", "--iterations", "10001"], ["save"],
                                  ["capture", "--kernel", "x", "--nth", "zero", "-o", "x", "--", "/bin/true"]],
                         ids=lambda a: " ".join(a[:3]))
def test_usage_errors(klab, args):
    outcome = klab(*args)
    assert outcome.code == 2 and outcome.err.strip(), repr(outcome)


def test_missing_bundle(klab):
    outcome = klab("replay", "nowhere.klab", "--json")
    refused(outcome, 1, "not_found")
