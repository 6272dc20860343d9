# SPDX-License-Identifier: Apache-2.0
"""A program that nobody here wrote: llama.cpp's Vulkan backend, as npm ships it, on a small synthetic model."""
import json
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, RECORDS, Klab, base_environment

HERE = pathlib.Path(__file__).resolve().parent
PLACE = BUILD / "thirdparty"
COUNT = 8  # tokens
# Kernels that a transformer's step dispatches, by the names that llama.cpp gives its pipelines.
FAMILIES = {
    "matrix-vector": r"^mul_mat_vec", "softmax": r"^soft_max|flash_attn", "rms_norm": r"^rms_norm", "rope": r"^rope",
    "add": r"^add", "mul": r"^mul_f32|^mul_f16", "swiglu": r"glu|silu", "copy": r"^cpy|^contig|^set_rows",
    "get_rows": r"^get_rows", "matrix-matrix": r"^matmul",
}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def packages():
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("needs nodejs and npm")
    PLACE.mkdir(parents=True, exist_ok=True)
    lock = (HERE / "package-lock.json").read_text()
    stamp = PLACE / "installed"
    if not stamp.exists() or stamp.read_text() != lock:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, PLACE / name)
        done = subprocess.run(["npm", "install", "--ignore-scripts", "--omit=optional", "--no-save", "--no-audit", "--no-fund"],
                              cwd=PLACE, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"npm could not install the test program:\n{done.stdout}{done.stderr}"
        stamp.write_text(lock)
    return PLACE


@pytest.fixture(scope="session", params=["f16", "q8_0"])
def model(packages, request):
    file = packages / f"{request.param}.gguf"
    subprocess.run(["/usr/bin/python3", HERE / "make_gguf.py", file, "--type", request.param], check=True)
    return file


def command(model, backend):
    return [shutil.which("node"), str(HERE / "generate.mjs"), str(PLACE), str(model), backend, str(COUNT)]


def generate(model, backend, **env):
    done = subprocess.run(command(model, backend), capture_output=True, text=True, timeout=600,
                          env={**base_environment(), **env})
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_tokens_equal_those_of_the_cpu(model):
    gpu, cpu = generate(model, "vulkan"), generate(model, "cpu")
    assert gpu["gpu"] == "vulkan" and gpu["devices"] and gpu["gpuLayers"] > 0 and cpu["gpuLayers"] == 0
    assert len(gpu["tokens"]) == COUNT
    assert gpu["tokens"] == cpu["tokens"]


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    return Klab(tmp_path_factory.mktemp("thirdparty"))


@pytest.fixture(scope="session")
def listed(home, model):
    """(model, tokens, dispatch list) of the program under trace."""
    traced = home.ok("dispatches", "--json", "--", *command(model, "vulkan"), timeout=900)
    (RECORDS / f"thirdparty_{model.stem}_dispatches.json").parent.mkdir(parents=True, exist_ok=True)
    (RECORDS / f"thirdparty_{model.stem}_dispatches.json").write_text(traced.out)
    line = re.search(r'\{"backend":"vulkan".*\}', traced.err + traced.out)
    assert line, f"the program's own output is missing: {traced!r}"
    return model, json.loads(line[0])["tokens"], traced.json


def test_trace_changes_nothing(listed):
    model, tokens, answer = listed
    assert tokens == generate(model, "vulkan")["tokens"]
    assert answer["exit_code"] == 0 and answer["dispatches"] > 100 and len(answer["kernels"]) >= 5
    assert all(k["median_ns"] > 0 for k in answer["kernels"])


def choose(kernels):
    """One kernel of each family that the program has, and enough others to be at least six."""
    chosen = {}
    for family, pattern in FAMILIES.items():
        for k in kernels:
            if re.search(pattern, k["name"]) and k["hash"] not in {c["hash"] for c in chosen.values()}:
                chosen[family] = k
                break
    for k in kernels:
        if len(chosen) < 6 and k["hash"] not in {c["hash"] for c in chosen.values()}:
            chosen[k["name"]] = k
    return chosen


def test_kernels_are_captured_and_replayed_bitwise(home, listed, record):
    model, _, answer = listed
    chosen = choose(answer["kernels"])
    assert len(chosen) >= 5, sorted(k["name"] for k in answer["kernels"])
    failed = []
    for family, kernel in chosen.items():
        bundle = home.folder / f"{model.stem}-{kernel['hash']}.klab"
        nth = max(1, kernel["calls"] // 2)
        done = home("capture", "--json", "--kernel", kernel["hash"], "--nth", str(nth), "-o", bundle, "--",
                    *command(model, "vulkan"), timeout=900)
        if done.code != 0:
            failed.append(f"{family} ({kernel['name']}): {done!r}")
            continue
        inspected = home.ok("inspect", bundle, "--json").json
        dispatch = inspected["manifest"]["dispatches"][0]
        replayed = home("replay", bundle, "--iterations", "20", "--json")
        proof = dispatch["proof"]["state"]
        if proof == "nondeterministic" and dispatch["proof"]["varying"]:
            proof = f"nondeterministic, {dispatch['proof']['varying_bytes']} bytes named"
        elif proof != "equal":
            failed.append(f"{family} ({kernel['name']}): proof {dispatch['proof']}")
        if replayed.code != 0 or not inspected["verified"]:
            failed.append(f"{family} ({kernel['name']}): {replayed!r}")
            continue
        record("thirdparty", model=model.stem, family=family, kernel=kernel["name"], nth=nth,
               grid="x".join(map(str, dispatch["grid"])), captured_bytes=replayed.json["captured_bytes"],
               restored_bytes=replayed.json["restored_bytes_per_iteration"], addresses=replayed.json["address_mode"],
               proof=proof, replay=replayed.json["validation"]["correctness"],
               median_us=round(replayed.json["summary"]["median_ns"] / 1e3, 1))
    assert not failed, "\n".join(failed)


def test_capture_changes_no_token(home, listed):
    model, tokens, answer = listed
    kernel = answer["kernels"][0]
    done = home.ok("capture", "--no-proof", "--replace", "--kernel", kernel["hash"], "-o", home.folder / "t.klab", "--",
                   *command(model, "vulkan"), timeout=900)
    line = re.search(r'\{"backend":"vulkan".*\}', done.err + done.out)
    assert line and json.loads(line[0])["tokens"] == tokens
