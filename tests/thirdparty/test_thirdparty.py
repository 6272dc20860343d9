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
# What a transformer's step dispatches, by the names that llama.cpp gives its pipelines. Flash attention takes the
# softmax into a kernel of its own: the q8_0 model runs with it, the f16 model without.
FAMILIES = {
    "matrix-vector": r"^mul_mat_vec", "softmax": r"^soft_max|^flash_attn", "normalisation": r"rms_norm|^add_rms",
    "rotation": r"^rope", "activation": r"^swiglu|^silu",
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
    return [shutil.which("node"), str(HERE / "generate.mjs"), str(PLACE), str(model), backend, str(COUNT),
            "flash" if model.stem == "q8_0" else "plain"]


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


def test_every_kernel_is_captured_and_replayed_bitwise(home, listed, record):
    model, _, answer = listed
    for family, pattern in FAMILIES.items():
        assert any(re.search(pattern, k["name"]) for k in answer["kernels"]), f"no {family}: {answer['kernels']}"
    failed = []
    for kernel in answer["kernels"]:
        name = kernel["name"]
        bundle = home.folder / f"{model.stem}-{kernel['hash']}.klab"
        nth = max(1, kernel["calls"] // 2)
        done = home("capture", "--json", "--kernel", kernel["hash"], "--nth", str(nth), "-o", bundle, "--",
                    *command(model, "vulkan"), timeout=900)
        if done.code != 0:
            failed.append(f"{name}: {done!r}")
            continue
        inspected = home.ok("inspect", bundle, "--json").json
        dispatch = inspected["manifest"]["dispatches"][0]
        replayed = home("replay", bundle, "--iterations", "20", "--json")
        proof = dispatch["proof"]["state"]
        if proof == "nondeterministic" and dispatch["proof"]["varying"]:
            proof = f"nondeterministic, {dispatch['proof']['varying_bytes']} bytes named"
        elif proof != "equal":
            failed.append(f"{name}: proof {dispatch['proof']}")
        if replayed.code != 0 or not inspected["verified"]:
            failed.append(f"{name}: {replayed!r}")
            continue
        record("thirdparty", model=model.stem, kernel=name, nth=nth, grid="x".join(map(str, dispatch["grid"])),
               regions=len(dispatch["regions"]), captured_bytes=replayed.json["captured_bytes"],
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
