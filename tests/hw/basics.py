# SPDX-License-Identifier: Apache-2.0
"""What the machine is, and the first cases: klab's version, doctor, devices, and the unit tests that need a device."""
import os
import re
import shutil
import subprocess
import time

from lab import Failure, Skip, must


def said_by(argv, limit=60, env=None):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL, env=env)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def tool(name, *folders):
    """A program's path: in PATH, or where toolkits put it."""
    found = shutil.which(name)
    for folder in folders:
        if not found and os.access(os.path.join(folder, name), os.X_OK):
            found = os.path.join(folder, name)
    return found or ""


def cuda_tool(name):
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    return tool(name, home + "/bin", "/usr/local/cuda/bin")


PACKAGES = """
import importlib.metadata as m, platform
found = []
for name in ("torch", "triton", "cupy-cuda13x", "cupy-cuda12x", "numba", "jax"):
    try:
        found.append(name + " " + m.version(name))
    except m.PackageNotFoundError:
        pass
print("Python " + platform.python_version() + (": " if found else "") + ", ".join(found))
"""


def environment(lab):
    """The first line of results.jsonl: what was measured on, with what, under which conditions."""
    gpu = said_by(["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.sm,power.limit",
                   "--format=csv,noheader"]) if not lab.self_test else ""
    uses = said_by(["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]) if gpu else ""
    nvcc = said_by([cuda_tool("nvcc"), "--version"]) if cuda_tool("nvcc") else ""
    ncu = said_by([cuda_tool("ncu"), "--version"]) if cuda_tool("ncu") else ""
    return {
        "when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "gpu": gpu.splitlines()[0] if gpu else "",
        "gpus": len(gpu.splitlines()),
        "klab": said_by([str(lab.klab), "--version"], env=lab.environment()),
        "nvcc": nvcc.splitlines()[-1] if nvcc else "",
        "ncu": next((line for line in ncu.splitlines() if line.startswith("Version")), ""),
        "python": "" if lab.self_test else said_by([lab.python, "-c", PACKAGES]),
        "kernel": os.uname().sysname + " " + os.uname().release.split("-")[0],
        "cpus": len(os.sched_getaffinity(0)),
        "conditions": "clocks as the driver sets them; " +
                      (f"{len(uses.splitlines())} other GPU processes" if uses else "no other GPU process"),
    }


def doctor(ctx, emit):
    for what, args in (("klab doctor", ["doctor"]), ("klab devices", ["devices"])):
        row = {"what": what}
        try:
            done = must(ctx.klab(*args, limit=60))
            if args == ["doctor"]:
                cuda = [c for c in done.json["checks"] if re.search("cuda|cupti|nvrtc|nvcc", c["name"], re.I)]
                row["result"] = "; ".join(f"{c['name']}: {c['found']}" for c in cuda).replace(f"{ctx.lab.build}/", "")[:400]
                bad = [c for c in done.json["checks"] if c["health"] == "missing"]
                if bad:
                    raise Failure("; ".join(f"{c['name']}: {c['found']}" for c in bad))
                if not cuda or not any(c["health"] == "ok" for c in cuda):
                    raise Failure(f"doctor finds no usable CUDA: {row['result'] or 'it does not speak of it'}")
            else:
                cuda = [d["identity"] for d in done.json["devices"] if d.get("identity", {}).get("api") == "cuda"]
                row["result"] = "; ".join(f"{d['name']} ({d['driver_version']})" for d in cuda)
                if not cuda:
                    raise Failure("klab devices lists no CUDA device")
            emit("pass", row)
        except Failure as failure:
            emit("fail", row, str(failure))


def unit(ctx, emit):
    """GoogleTest programs with tests that need a CUDA device, where they were built."""
    found = False
    for path in sorted(ctx.lab.build.glob("klab_*_hw_test")):
        if found == path.name:
            continue
        found = path.name
        done = ctx.run([path, "--gtest_color=no"], 240)
        failed = [line.split("]", 1)[1].strip() for line in done.out.splitlines() if line.startswith("[  FAILED  ]")]
        row = {"what": path.name, "result": next((line for line in done.out.splitlines() if "tests ran" in line), "")}
        if done.code == 0:
            emit("pass", row)
        else:
            emit("fail", row, f"{done.brief()}; {', '.join(failed[:4])}")
            ctx.note(done.out[-20000:])
    if not found:
        raise Skip(f"no klab_cuda_hw_test in {ctx.lab.build}")


CASES = [("doctor", "doctor", doctor), ("unit", "unit", unit)]
