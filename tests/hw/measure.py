# SPDX-License-Identifier: Apache-2.0
"""Measurements: capture throughput, what a restore costs, whether a replay's time is the program's, warm evaluation.

Each row says `goal` and `met`; outcome is "pass" or "missed", and "fail" only where nothing could be measured. What is
compared was measured in the same run. Not here: the cost of an idle shim (overhead.py).
"""
import csv
import glob
import io
import json
import os
import re
import shutil
import statistics
import time

from basics import cuda_tool, tool
from capture import Kernel, bare, check_size, find_kernel, list_kernels, replay, take
from lab import SKIPPED, Failure, Skip, cut_bytes, must
from worker import Worker

GIB, MIB = 1 << 30, 1 << 20


def judge(emit, row, met):
    """A row with a goal, or without one (met is None)."""
    row["met"] = met
    emit("missed" if met is False else "pass", row)


def disk_write(ctx, size=4 * GIB):
    """GB/s of one plain sequential write of incompressible bytes, synced, where captures go."""
    block = os.urandom(64 * MIB)
    path = ctx.folder / "disk_write"
    size = min(size, shutil.disk_usage(ctx.folder).free // 4)
    started = time.monotonic()
    try:
        with open(path, "wb", buffering=0) as file:
            for _ in range(size // len(block)):
                file.write(block)
            written = time.monotonic() - started
            os.fsync(file.fileno())
        return size / 1e9 / (time.monotonic() - started), size / 1e9 / written
    finally:
        path.unlink(missing_ok=True)


def copy_speeds(ctx):
    done = ctx.run([ctx.lab.example("copy_speed")], 60)
    if done.code == SKIPPED:
        raise Skip(done.out.strip())
    return json.loads(must(done).out)


def speeds(ctx, emit):
    """What copies and the disk reach here, for the reader of the other rows."""
    row = {"what": "copies and disk", **copy_speeds(ctx)}
    row["disk_synced_gb_s"], row["disk_gb_s"] = (round(x, 2) for x in disk_write(ctx))
    row["result"] = (f"pinned D2H {row['pinned_d2h_gb_s']} GB/s, D2D {row['d2d_bytes_gb_s']} GB/s, "
                     f"disk {row['disk_gb_s']} GB/s, synced {row['disk_synced_gb_s']} GB/s")
    judge(emit, row, None)


def captured_big(ctx, emit):
    """4 GiB reachable: throughput of the capture against the slower of pinned copy and disk."""
    argv = [ctx.lab.example("table_writer"), "--table-gib", "4"]
    lines, alone = bare(ctx, argv, 120)
    copies = copy_speeds(ctx)
    synced, unsynced = disk_write(ctx)
    row = {"what": "capture of 4 GiB", "scope": "reachable"}
    take(ctx, row, argv, lines, Kernel("write_window", nth=2), "write_window", "reachable", 240, "--no-proof")
    moved = row["bytes"] / 1e9
    row.update(alone_s=round(alone.seconds, 2), pinned_d2h_gb_s=copies["pinned_d2h_gb_s"], disk_gb_s=round(unsynced, 2),
               disk_synced_gb_s=round(synced, 2))
    row["capture_gb_s"] = round(moved / (row["shim_ms"] / 1e3), 2) if row["shim_ms"] else 0
    row["whole_gb_s"] = round(moved / max(row["seconds_capture"] - alone.seconds, 1e-3), 2)
    slower = min(copies["pinned_d2h_gb_s"], synced)
    row["goal"] = f">= 70 % of {slower:.2f} GB/s"
    row["result"] = (f"{row['whole_gb_s']} GB/s over the program's own time ({row['capture_gb_s']} GB/s while it waited); "
                     f"{100 * row['whole_gb_s'] / slower:.0f} % of the slower of D2H and synced disk")
    judge(emit, row, row["whole_gb_s"] >= 0.7 * slower)


def held_much(ctx, emit):
    """`reachable` on a program that holds 32 GiB and touches 64 MiB."""
    argv = [ctx.lab.example("holder"), "--hold-gib", "32"]
    lines, first = bare(ctx, argv, 120)
    _, second = bare(ctx, argv, 120)
    row = {"what": "holds 32 GiB, touches 64 MiB", "scope": "reachable"}
    kernel = Kernel("touch_little", nth=2, reachable_below=68 * MIB)
    take(ctx, row, argv, lines, kernel, "touch_little", "reachable", 120, "--no-proof")
    check_size(kernel, "reachable", row)
    alone = min(first.seconds, second.seconds)
    row["alone_s"], row["beyond_s"] = round(alone, 2), round(row["seconds_capture"] - alone, 2)
    row["goal"] = "< 2 s beyond the program's own time"
    row["result"] = f"{row['beyond_s']} s beyond the program's {alone:.2f} s; the program waited {row['shim_ms']} ms"
    judge(emit, row, row["beyond_s"] < 2)


def per_iteration(worker, bundle, few, many, **conditions):
    """Wall microseconds of one isolated iteration in a worker that holds the bundle: the difference of two requests,
    so that what a request costs once is not counted. Also the answer of the longer one, and the median kernel time.
    """
    short = [worker.replay(bundle, few, **conditions)["wall_ms"] for _ in range(3)]
    answer = worker.replay(bundle, many, **conditions)
    kernel_us = statistics.median(answer["variants"][0]["samples_ns"]) / 1e3
    return (answer["wall_ms"] - statistics.median(short)) * 1e3 / (many - few), kernel_us, answer


def restore(ctx, emit):
    """64 MiB written of 8 GiB captured: what is restored, and what an iteration costs."""
    argv = [ctx.lab.example("table_writer"), "--table-gib", "8"]
    lines, _ = bare(ctx, argv, 120)
    copies = copy_speeds(ctx)
    shared = {}
    bundle = take(ctx, shared, argv, lines, Kernel("write_window", nth=2), "write_window", "reachable", 300, "--no-proof")
    written = 64 * MIB
    with Worker(ctx) as worker:
        worker.replay(bundle, 5, cache="warm")  # loads the bundle
        for cache in ("warm", "cold"):
            row = {"what": f"64 MiB written of 8 GiB, cache {cache}", **{k: shared[k] for k in ("bytes", "regions")}}
            try:
                iteration, kernel, answer = per_iteration(worker, bundle, 20, 2020, cache=cache)
            except Failure as failure:
                emit("fail", row, str(failure))
                return
            variant = answer["variants"][0]
            row["addresses"], row["restored"] = answer["address_mode"], variant["restored_bytes_per_iteration"]
            row["replay"] = variant["validation"]["correctness"]
            row["median_us"], row["iteration_us"] = round(kernel, 2), round(iteration, 1)
            # The written chunks are copied back before a launch, and read once to be checked after it.
            row["copy_us"] = round(written / copies["d2d_bytes_gb_s"] / 1e3, 1)
            row["check_us"] = round(written / copies["read_gb_s"] / 1e3, 1)
            row["ratio"] = round(iteration / (kernel + row["copy_us"] + row["check_us"]), 2)
            row["goal"] = "restored = 64 MiB; <= 1.3 x (kernel + copy + check)"
            row["result"] = (f"{cut_bytes(row['restored'])} restored; an iteration {row['iteration_us']} us = "
                             f"{row['ratio']} x ({row['median_us']} kernel + {row['copy_us']} copy + "
                             f"{row['check_us']} check); {row['replay']}")
            if row["replay"] != "correct":
                emit("fail", row, variant["validation"].get("reason", ""))
                continue
            # Cold includes the flush, which is not the restore's cost: no goal.
            judge(emit, row, None if cache == "cold" else row["restored"] == written and row["ratio"] <= 1.3)


# Programs whose kernels take some time, with ten launches each. (program, arguments, pattern, and which launch is captured: the
# sort has nothing to do after its first)
AGREEMENT = [
    ("saxpy", ("--size", str(64 << 20), "--repeat", "10"), "saxpy"),
    ("transpose", ("--size", "8192", "--repeat", "10"), "transpose_naive"),
    ("reduction", ("--size", str(128 << 20), "--repeat", "10"), "reduce_sum_max"),
    ("matmul_wmma", ("--size", "2048", "--repeat", "10"), "matmul_wmma"),
    ("matmul_wgmma", ("--size", "4096", "--repeat", "10"), "matmul_wgmma"),
    ("large_shared", ("--size", "1024", "--repeat", "10"), "sort_in_shared", 1),
    ("inplace", ("--size", str(8 << 20), "--repeat", "10"), "scale_in_place"),
    ("pointer_table", ("--repeat", "10"), "weigh_blocks"),
]


def ncu_path():
    newest = sorted(glob.glob("/opt/nvidia/nsight-compute/*"), reverse=True)
    return cuda_tool("ncu") or tool("ncu", *newest, "/usr/local/cuda/nsight-compute")


def microseconds(value, unit):
    scale = {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3, "msecond": 1e3, "s": 1e6, "second": 1e6}
    return float(value.replace(",", "")) * scale[unit]


def parse_ncu(text):
    """gpu__time_duration.sum of each profiled launch, microseconds, from `ncu --csv`."""
    start = text.find('"ID"')
    if start < 0:
        raise Failure(f"ncu printed no table: {' '.join(text.split())[-200:]}")
    times = []
    for row in csv.DictReader(io.StringIO(text[start:])):
        if row.get("Metric Name") == "gpu__time_duration.sum":
            times.append(microseconds(row["Metric Value"], row["Metric Unit"]))
    if not times:
        raise Failure("ncu's table has no gpu__time_duration.sum")
    return times


def under_ncu(ctx, argv, pattern, cache):
    """Median over five launches of a program; `cache`: "all" flushes before each, "none" does not."""
    done = ctx.run([ncu_path(), "--csv", "--metrics", "gpu__time_duration.sum", "--clock-control", "none",
                    "--cache-control", cache, "--kernel-name", f"regex:{pattern}", "--launch-skip", "3",
                    "--launch-count", "5", *argv], 120)
    if "ERR_NVGPUCTRPERM" in done.text:
        raise Skip("ncu may not read counters here (ERR_NVGPUCTRPERM)")
    must(done)
    return statistics.median(parse_ncu(done.out))


def agreement(name, args, pattern, nth=5):
    def run(ctx, emit):
        argv = [ctx.lab.example(name), *args]
        lines, _ = bare(ctx, argv, 60)
        row = {"what": f"{name}: {pattern}"}
        answer = list_kernels(ctx, argv, lines, 90)
        listed = find_kernel(answer, Kernel(pattern))
        traced = [r["gpu_ns"] / 1e3 for r in answer["rows"] if r["kernel"] == listed["name"] and r["gpu_ns"] > 0]
        if not traced:
            raise Failure(f"klab dispatches gave no time of {pattern}")
        bundle = take(ctx, row, argv, lines, Kernel(pattern, nth=nth), pattern, "reachable", 120, "--no-proof")
        row["trace_us"] = round(statistics.median((traced[2:] or traced) if nth > 1 else traced[:1]), 2)
        replay(ctx, row, bundle, "--cache", "cold")
        row["cold_us"] = row["median_us"]
        replay(ctx, row, bundle, "--cache", "warm")
        row["warm_us"] = row.pop("median_us")
        row["of_trace"] = round(row["warm_us"] / row["trace_us"], 3)
        row["cold_of_trace"] = round(row["cold_us"] / row["trace_us"], 3)
        text = f"trace {row['trace_us']}, replay cold {row['cold_us']} warm {row['warm_us']} us ({row['of_trace']} x)"
        within = [abs(row["of_trace"] - 1)]
        if ncu_path():
            try:
                row["ncu_cold_us"] = round(under_ncu(ctx, argv, pattern, "all"), 2)
                row["ncu_warm_us"] = round(under_ncu(ctx, argv, pattern, "none"), 2)
                row["of_ncu"] = round(row["warm_us"] / row["ncu_warm_us"], 3)
                row["cold_of_ncu"] = round(row["cold_us"] / row["ncu_cold_us"], 3)
                text += (f"; ncu cold {row['ncu_cold_us']} ({row['cold_of_ncu']} x) warm {row['ncu_warm_us']} "
                         f"({row['of_ncu']} x)")
                within.append(abs(row["of_ncu"] - 1))
            except (Failure, Skip) as failure:
                row["ncu"] = str(failure)
                text += f"; {failure}"
        else:
            text += "; no ncu here"
        row["goal"] = "within 3 % of trace and ncu where over 100 us"
        row["result"] = text
        judge(emit, row, max(within) <= 0.03 if row["trace_us"] > 100 else None)

    return run


def warm(ctx, emit):
    """One edited variant in a warm laboratory: NVRTC build, 20 isolated iterations, bitwise check of 64 MiB."""
    bench = ctx.lab.build / "bench_warm_variant"
    if not os.access(bench, os.X_OK):
        raise Skip("bench_warm_variant is not built (target bench)")
    argv = [ctx.lab.example("saxpy"), "--size", str(16 * MIB)]  # 64 MiB of output
    lines, _ = bare(ctx, argv, 60)
    row = {"what": "warm evaluation, 64 MiB of output"}
    bundle = take(ctx, row, argv, lines, Kernel("saxpy"), "saxpy", "reachable", 60, "--no-proof")
    source = ctx.folder / "edited.cu"
    shutil.copy(ctx.lab.sources / "variants" / "saxpy_fast.cu", source)
    answer = json.loads(must(ctx.run([bench, bundle, source, "12"], 120)).out)
    row.update({k: round(answer[k], 2) for k in ("first_ms", "warm_ms", "warm_build_ms", "warm_replay_ms")})
    if answer["last"]["correctness"] != "correct" or answer["last"]["written_bytes"] != 64 * MIB:
        raise Failure(f"the last variant: {answer['last']}")
    row["median_us"] = round(answer["last"]["median_ns"] / 1e3, 2)
    row["goal"] = "< 60 ms"
    row["result"] = (f"{row['warm_ms']} ms = build {row['warm_build_ms']} + replay and check {row['warm_replay_ms']}; "
                     f"the first {row['first_ms']} ms; kernel {row['median_us']} us")
    judge(emit, row, row["warm_ms"] < 60)


CASES = ([("speeds", "speeds", speeds), ("big-capture", "hold 32 GiB", held_much),
          ("big-capture", "capture 4 GiB", captured_big), ("big-capture", "restore 64 MiB of 8 GiB", restore)] +
         [("agreement", name, agreement(name, *rest)) for name, *rest in AGREEMENT] +
         [("warm", "warm", warm)])


def self_measure(ctx, emit):
    """What measuring needs of this script, without a device."""
    table = ('==PROF== Connected\nsaxpy: ok, checksum 1\n"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
             '"0","f(int, ""x"")","gpu__time_duration.sum","nsecond","1,234.5"\n'
             '"1","f","gpu__time_duration.sum","us","2.5"\n')
    if parse_ncu(table) != [1.2345, 2.5]:
        raise Failure(f"ncu's table is read as {parse_ncu(table)}")
    try:
        parse_ncu("==ERROR== nothing")
    except Failure:
        pass
    else:
        raise Failure("an ncu that printed no table is not seen")
    synced, _ = disk_write(ctx, 128 * MIB)
    if not re.match(r"\d", f"{synced:.3f}") or synced <= 0 or (ctx.folder / "disk_write").exists():
        raise Failure("the disk's speed was not measured, or its file is left")
    emit("pass", {"what": "ncu's table, the disk's speed"})

    argv = [ctx.lab.example("inplace"), "--size", "65536"]
    bundle = take(ctx, {}, argv, None, Kernel("main"), "main", "reachable", 60, "--no-proof")
    with Worker(ctx) as worker:
        worker.replay(bundle, 2, cache="warm")
        iteration, kernel, answer = per_iteration(worker, bundle, 5, 105, cache="warm")
        try:
            worker.replay(ctx.folder / "not_there.klab", 2)
        except Failure as failure:
            row = {"what": "a warm worker", "replay": f"{iteration:.0f} us an iteration, kernel {kernel:.0f} us"}
            if answer["variants"][0]["validation"]["correctness"] != "correct" or "not_there" not in str(failure):
                raise Failure(f"{answer['variants'][0]['validation']}; {failure}") from None
            emit("pass", row)
        else:
            raise Failure("a bundle that is not there was replayed")


SELF_TEST = [("self-test", "measure", self_measure)]
