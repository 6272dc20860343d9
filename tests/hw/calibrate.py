# SPDX-License-Identifier: Apache-2.0
"""Calibration against what PyTorch attains in the same minutes: the same product of the same size on random values,
and a copy of the same size. Not here: whether the kernels do what is counted (klab_cuda_hw_test, group unit).
"""
import json
import re
import subprocess
import threading
import time

from basics import tool
from lab import Failure, Skip, must
from measure import judge

# torch.matmul of normal values, and copy_ of 2 GiB: settled rates, as a power limit leaves them.
TORCH = """
import json, statistics, torch
def rates(work, run, seconds, batch):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(3): run()
    torch.cuda.synchronize()
    found, total = [], 0.0
    while total < seconds * 1e3 or len(found) < 10:
        start.record()
        for _ in range(batch): run()
        end.record()
        end.synchronize()
        ms = start.elapsed_time(end)
        total += ms
        found.append(work * batch / ms / 1e6)
    settled = found[len(found) // 2:]
    return {"settled": statistics.median(settled), "burst": max(found), "samples": len(settled)}
out = {"torch": torch.__version__}
n = 8192
for name, kind in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
    a, b = (torch.randn(n, n, device="cuda", dtype=kind) for _ in range(2))
    c = torch.empty(n, n, device="cuda", dtype=kind)
    out[name] = rates(2 * n ** 3, lambda: torch.matmul(a, b, out=c), 1.0, 5)
del a, b, c
x = torch.randn(1 << 29, device="cuda")
y = torch.empty_like(x)
out["copy"] = rates(2 * x.numel() * 4, lambda: y.copy_(x), 0.3, 1)
print(json.dumps(out))
"""
# GB/s that the maker states for memory, where the name says it all.
STATED = [("H200", 4800), ("H100 80GB HBM3", 3350)]


class Clocks:
    """SM clock and power as nvidia-smi sees them, each 50 ms, while it lives; nothing where it is missing."""

    def __init__(self, ctx):
        self.ctx, self.rows, self.process = ctx, [], None

    def __enter__(self):
        if tool("nvidia-smi"):
            self.process = subprocess.Popen(
                ["nvidia-smi", "--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "-lms", "50"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            threading.Thread(target=self.collect, daemon=True).start()
        return self

    def collect(self):
        for line in self.process.stdout:
            found = re.match(r"\s*([\d.]+),\s*([\d.]+)", line)
            if found:
                self.rows.append((time.monotonic(), float(found[1]), float(found[2])))

    def __exit__(self, *_):
        if self.process:
            self.process.terminate()
            self.process.wait()


def figure(calibration, kind, name):
    """The best figure of that name, as `klab calibrate` shows it."""
    found = [f for f in calibration["figures"] if f["kind"] == kind and f["name"] == name]
    return max(found, key=lambda f: (not f.get("ceiling_only"), f["value"]), default=None)


def ratio(emit, what, mine, other, unit, goal_text, met):
    row = {"what": what, "value": round(mine["value"], 1), "against": round(other, 1), "unit": unit,
           "ratio": round(mine["value"] / other, 4), "goal": goal_text, "config": mine["config"]}
    if mine.get("burst"):
        row["burst"] = round(mine["burst"], 1)
    row["result"] = f"{row['value']} of {row['against']} {unit}: {100 * row['ratio']:.1f} % ({mine['config']})"
    judge(emit, row, None if met is None else met(row["ratio"]))


def maximum_clock():
    if not tool("nvidia-smi"):
        return None
    said = subprocess.run(["nvidia-smi", "--query-gpu=clocks.max.sm", "--format=csv,noheader,nounits"],
                          capture_output=True, text=True, check=False).stdout.strip().splitlines()
    return float(said[0]) if said and re.fullmatch(r"[\d.]+", said[0].strip()) else None


def cuda(ctx, emit):
    with Clocks(ctx) as clocks:
        first = must(ctx.run([ctx.lab.klab, "calibrate", "--api", "cuda", "--force", "--json"], 120))
    c = first.json["calibration"]
    (ctx.lab.out / "calibration-cuda.json").write_text(json.dumps(c, indent=1) + "\n")
    for f in c["figures"]:
        best = figure(c, f["kind"], f["name"]) is f
        how = " ".join(filter(None, [f.get("how", ""), f"{f['width']} B" if f.get("width") else "", f.get("shape", "")]))
        if best or f["kind"] == "matrix":
            emit("pass", {"what": f"{f['kind']} {f['name']} {how}".strip(), "value": round(f["value"], 2), "unit": f["unit"],
                          "q1": round(f["q1"], 2), "q3": round(f["q3"], 2), "samples": f["samples"],
                          "result": f"{f['value']:.4g} {f['unit']}, burst {f.get('burst', 0):.4g}; {f['config']}",
                          **{k: f[k] for k in ("burst", "clock_mhz") if k in f}})
    for m in c["missing"]:
        emit("pass", {"what": f"not measured: {m['name']}", "result": m["why"]})
    row = {"what": "calibration, the first time", "seconds": round(first.seconds, 2), "measuring_s": round(c["took_s"], 2),
           "goal": "< 30 s", "result": f"{first.seconds:.1f} s, of which {c['took_s']:.1f} s measure"}
    if clocks.rows:
        row["clock_mhz"] = [min(r[1] for r in clocks.rows), max(r[1] for r in clocks.rows)]
        row["power_w"] = max(r[2] for r in clocks.rows)
    judge(emit, row, first.seconds < 30)
    kept = min((must(ctx.run([ctx.lab.klab, "calibrate", "--api", "cuda", "--json"], 60)) for _ in range(3)),
               key=lambda done: done.seconds)
    if not kept.json["cached"]:
        raise Failure("the second calibration measured again")
    judge(emit, {"what": "calibration, cached", "seconds": round(kept.seconds, 3), "goal": "< 0.1 s",
                 "result": f"{kept.seconds * 1e3:.0f} ms"}, kept.seconds < 0.1)

    name = c["device"]["name"]
    stated = next((rate for part, rate in STATED if part in name), None)
    if stated:
        for op, goal in (("read", 0.93), ("triad", 0.83), ("write", None), ("copy", None)):
            ratio(emit, f"{op} against the stated bandwidth", figure(c, "memory", op), stated, "GB/s",
                  f">= {100 * goal:.0f} %" if goal else "", (lambda r, g=goal: r >= g) if goal else None)
    fp32 = figure(c, "vector", "fp32")
    clock = fp32.get("clock_mhz") or maximum_clock()
    if clock:
        units = compute_units(ctx, c["device"]["uuid"])
        if units:
            peak = clock * 1e6 * units * 128 * 2 / 1e9
            seen = "observed" if fp32.get("clock_mhz") else "highest possible"
            ratio(emit, f"fp32 against the {seen} clock of {clock:.0f} MHz x {units} x 128 x 2", fp32, peak, "GFLOP/s",
                  ">= 85 %", lambda r: r >= 0.85)

    done = ctx.run([ctx.lab.python, "-c", TORCH], 180)
    if done.code != 0:
        if "No module named" in done.text:
            raise Skip("no PyTorch: nothing to compare the product and the copy with")
        must(done)
    torch = json.loads(done.out.strip().splitlines()[-1])
    emit("pass", {"what": "PyTorch", **torch, "result": json.dumps(torch)})
    for precision in ("bf16", "fp16"):
        mine = figure(c, "matrix", precision)
        ratio(emit, f"matrix {precision} against torch.matmul of 8192, normal values", mine, torch[precision]["settled"],
              "GFLOP/s", "95 .. 110 %", lambda r: 0.95 <= r <= 1.10)
    ratio(emit, "copy against a device-to-device memcpy of 2 GiB", figure(c, "memory", "copy"), torch["copy"]["settled"],
          "GB/s", ">= 93 % (97 % hoped for)", lambda r: r >= 0.93)


def compute_units(ctx, uuid):
    for device in must(ctx.run([ctx.lab.klab, "devices", "--json"], 60)).json["devices"]:
        if device.get("identity", {}).get("uuid") == uuid and device["identity"]["api"] == "cuda":
            return device["abilities"].get("compute_units")
    return None


def vulkan(ctx, emit):
    done = ctx.run([ctx.lab.klab, "calibrate", "--api", "vulkan", "--force", "--json"], 120)
    if done.code != 0:
        raise Skip(f"no Vulkan here: {done.brief()}")
    c = done.json["calibration"]
    (ctx.lab.out / "calibration-vulkan.json").write_text(json.dumps(c, indent=1) + "\n")
    best = {f"{f['kind']} {f['name']}": f"{f['value']:.4g} {f['unit']}" for f in c["figures"]
            if figure(c, f["kind"], f["name"]) is f}
    judge(emit, {"what": f"calibration through Vulkan on {c['device']['name']}", "seconds": round(done.seconds, 2),
                 "figures": best, "missing": c["missing"], "goal": "< 30 s", "result": json.dumps(best)},
          done.seconds < 30)


CASES = [("calibrate", "cuda", cuda), ("calibrate", "vulkan", vulkan)]
