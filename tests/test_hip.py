# SPDX-License-Identifier: Apache-2.0
"""HIP programs on the real ROCm user space over a simulated GPU (or over a real one): listed, captured with both scopes,
their own results untouched. What a capture holds is computed here from its pre-state."""
import array
import dataclasses
import json
import os
import pathlib
import struct
import subprocess
import time

import pytest

from conftest import BUILD, SKIPPED, base_environment, regex_of

HIP = BUILD / "examples" / "hip"
SIMULATOR = pathlib.Path(os.environ.get("KLAB_SIM", BUILD / "sim"))
ON_SIMULATOR = (SIMULATOR / "libhsakmt.so.1").exists()
PROOF = os.environ.get("KLAB_TEST_HIP_PROOF", "1") == "1"  # 0: captures alone
WORD = 0xffffffff

pytestmark = [
    pytest.mark.skipif(not (HIP / "saxpy").exists(), reason="no hipcc: the HIP examples are not built"),
    pytest.mark.skipif(not ON_SIMULATOR and not os.path.exists("/dev/kfd"),
                       reason=f"no AMD GPU, and no simulated one in {SIMULATOR} (KLAB_SIM names its folder)"),
]


def environment():
    if not ON_SIMULATOR:
        return {}
    before = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": f"{SIMULATOR}:{before}" if before else str(SIMULATOR)}


def program(name, *args):
    return [str(HIP / name), *args]


def run(name, *args, timeout=120):
    if not (HIP / name).exists():
        pytest.skip(f"{name} is not built: rocPRIM is not installed")
    return subprocess.run(program(name, *args), capture_output=True, text=True, timeout=timeout,
                          env={**base_environment(), **environment()}, stdin=subprocess.DEVNULL)


@pytest.fixture
def hip(klab):
    klab.env.update(environment())
    return klab


@dataclasses.dataclass(frozen=True)
class Case:
    program: str
    kernel: str                # mangled or plain name that the capture asks for
    grid: tuple
    block: tuple
    nth: int = 1
    executions: int = 1        # of that kernel
    symbols: tuple = ()        # module variables that must be there
    regions: int = 0           # besides them, with scope reachable
    kinds: frozenset = frozenset({"device"})  # of those
    threads: tuple = ()
    lds: int = 0
    code: str = ""             # what the program's own line holds besides
    args: tuple = ()


CASES = [
    Case("saxpy", "saxpy", (64, 1, 1), (256, 1, 1), nth=2, executions=3, regions=2),
    Case("inplace", "scale_in_place", (64, 1, 1), (256, 1, 1), nth=3, executions=5, regions=1),
    Case("reduction", "sum_blocks", (1, 1, 1), (256, 1, 1), nth=2, executions=2, regions=2),
    Case("pointer_table", "weigh_blocks", (32, 4, 1), (256, 1, 1), regions=1 + 8 * 3),
    Case("pointer_struct", "run_job", (79, 1, 1), (128, 1, 1), regions=4),
    Case("module_variables", "through_variables", (32, 1, 1), (256, 1, 1), nth=2, executions=3, regions=2,
         symbols=("coefficients", "lookup", "output", "launches", "histogram", "alias")),
    Case("scratch", "shuffle_private", (16, 1, 1), (64, 1, 1), regions=2),
    Case("atomics", "count_values", (32, 1, 1), (256, 1, 1), nth=2, executions=2, regions=4),
    Case("dynamic_lds", "reverse_blocks", (32, 1, 1), (128, 1, 1), regions=2, lds=512),
    Case("partial_grid", "fill_volume", (3, 4, 3), (16, 4, 2), nth=2, executions=2, regions=1, threads=(37, 13, 5)),
    Case("two_streams", "stream_rotate", (16, 1, 1), (256, 1, 1), nth=7, executions=30, regions=1),
    Case("graph", "graph_mix", (16, 1, 1), (256, 1, 1), nth=2, executions=3, regions=2),
    Case("runtime_module", "blend", (64, 1, 1), (64, 1, 1), regions=3),
    Case("grid_sync", "two_phases", (4, 1, 1), (64, 1, 1), regions=2),
    Case("device_printf", "tell", (4, 1, 1), (64, 1, 1), regions=1),
    Case("host_memory", "from_host_memory", (32, 1, 1), (256, 1, 1), nth=2, executions=2, regions=4,
         kinds=frozenset({"device", "pinned_host"})),
    Case("managed", "advance_managed", (32, 1, 1), (256, 1, 1), nth=2, executions=3, regions=2,
         kinds=frozenset({"managed", "pinned_host"})),
    Case("forked", "in_the_child", (32, 1, 1), (256, 1, 1), regions=1),
    Case("primitives", "lookback_scan_kernel", (2, 1, 1), (256, 1, 1), regions=3),
    Case("primitives", "block_reduce_kernel<false", (2, 1, 1), (256, 1, 1), regions=2),
    Case("hsa_kernels", "hsa_fold", (20, 1, 1), (256, 1, 1), nth=2, executions=3, regions=3,
         kinds=frozenset({"device", "pinned_host"})),
    Case("hidden_pointer", "follow_hidden", (64, 1, 1), (256, 1, 1), regions=2),
]


def ids(case):
    return case.program if case.program != "primitives" else case.kernel.split("<")[0]


class Bundle:
    """A bundle's manifest and the bytes of its regions, read by docs/bundle-format.md."""

    def __init__(self, folder):
        self.folder = folder
        self.manifest = json.loads((folder / "manifest.json").read_text())
        self.dispatch = self.manifest["dispatches"][0]
        index = (folder / "data.idx").read_bytes()
        assert index[:8] == b"KLABIDX\n"
        _, chunk, chunks, lists, _, _ = struct.unpack_from("<IIQQQQ", index, 8)
        at = 48
        self.chunks = [struct.unpack_from("<QQQII", index, at + 32 * i) for i in range(chunks)]
        at += 32 * chunks
        sizes = struct.unpack_from(f"<{lists}Q", index, at)
        at += 8 * lists
        self.lists = []
        for size in sizes:
            count = -(-size // chunk)
            self.lists.append((size, struct.unpack_from(f"<{count}I", index, at)))
            at += 4 * count
        self.chunk = chunk
        self.pack = (folder / "data.pack").read_bytes()

    def bytes(self, number):
        size, numbers = self.lists[number]
        out = bytearray()
        for n in numbers:
            want = min(self.chunk, size - len(out))
            if n == WORD:
                out += bytes(want)
            else:
                _, _, offset, length, _ = self.chunks[n]
                assert length == want
                out += self.pack[offset:offset + length]
        return bytes(out)

    def region(self, address):
        """The region that holds `address`, and the offset in it."""
        for r in self.dispatch["regions"]:
            begin = int(r["address"], 16)
            if begin <= address < begin + r["size"]:
                return r, address - begin
        raise AssertionError(f"{address:#x} is in no region")

    def words(self, address, state, count=None):
        r, offset = self.region(address)
        data = self.bytes(r[state])[offset:]
        return array.array("I", data[:len(data) // 4 * 4 if count is None else count * 4])

    def symbol(self, name, state):
        (r,) = [r for r in self.dispatch["regions"] if r["name"] == name]
        return self.bytes(r[state])

    def arguments(self, layout):
        return struct.unpack_from(layout, bytes.fromhex(self.dispatch["arguments"]))


def capture(hip, case, scope, *options):
    options = ("--scope", scope, "--nth", str(case.nth), *(() if PROOF else ("--no-proof",)), *options)
    answer = hip.capture(program(case.program, *case.args), regex_of(case.kernel) if case.program in
                         ("partial_grid", "runtime_module") else case.kernel, case.program, *options)
    return answer, Bundle(hip.folder / f"{case.program}.klab")


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_example_is_right_by_itself(case):
    done = run(case.program, *case.args)
    if done.returncode == SKIPPED:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0 and f"{case.program}: ok, checksum" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES, ids=ids)
@pytest.mark.parametrize("scope", ["reachable", "all"])
def test_capture_holds_the_launch_and_leaves_the_program_alone(hip, case, scope):
    bare = run(case.program, *case.args)
    if bare.returncode == SKIPPED:
        pytest.skip(bare.stdout.strip())
    answer, bundle = capture(hip, case, scope)
    assert answer.json["target_exit"] == 0
    for line in bare.stdout.splitlines():
        assert line in answer.err + answer.out, "the program's own output must come through, unchanged"
    hip.ok("inspect", "--json", bundle.folder)  # checks every hash
    m, d = bundle.manifest, bundle.dispatch
    assert m["device"]["api"] == "hip" and m["device"]["arch"].startswith("gfx")
    assert m["device"]["name"] and m["device"]["uuid"] and m["device"]["vendor_id"] == 0x1002
    assert [c["kind"] for c in m["code"]] == ["hsaco"]
    assert (bundle.folder / m["code"][0]["file"]).read_bytes()[:4] == b"\x7fELF"
    assert case.kernel in d["name"] and case.kernel.split("<")[0] in d["entry_point"] and not d["entry_point"].endswith(".kd")
    assert d["nth"] == case.nth and d["call"] == "hsa_kernel_dispatch"
    assert tuple(d["grid"]) == case.grid and tuple(d["block"]) == case.block
    assert tuple(d.get("threads", ())) == case.threads
    assert d["dynamic_shared_bytes"] == case.lds
    attributes = {a["name"]: a["value"] for a in d["attributes"]}
    assert attributes["aql.group_segment_bytes"] >= case.lds
    assert (attributes["aql.private_segment_bytes"] > 0) == (case.program in ("scratch", "device_printf"))
    assert attributes.get("cooperative", 0) == (1 if case.program == "grid_sync" else 0)
    layout = d["argument_layout"]
    assert layout and all(a["kind"] for a in layout)
    assert all(a["offset"] + a["size"] <= len(d["arguments"]) // 2 for a in layout)
    regions = d["regions"]
    assert {r["name"] for r in regions if r["name"]} >= set(case.symbols)
    for r in regions:
        assert r["kind"] in ("module_variable", "constant") if r["name"] else r["kind"] in (
            "device", "pinned_host", "managed")
        assert r["pre"] is not None and r["post"] is not None
    plain = [r for r in regions if not r["name"]]
    if scope == "reachable":
        assert len(plain) == case.regions, plain
        assert {r["kind"] for r in plain} <= case.kinds
        assert all(r["reached_by"] in ("argument", "pointer") for r in plain)
    else:
        assert len(plain) >= case.regions
        assert any(r["reached_by"] == "scope_all" for r in plain) or len(plain) == case.regions
    if PROOF:
        expected = "failed" if case.program == "hidden_pointer" and scope == "reachable" else "equal"
        assert answer.json["proofs"][0]["state"] == expected, answer


def step(x, factor, addend):
    return array.array("I", ((v * factor + addend) & WORD for v in x))


def test_state_is_that_before_and_after_the_wanted_execution(hip):
    _, bundle = capture(hip, CASES[1], "reachable")
    x, n, factor, addend = bundle.arguments("<QIII")
    assert (n, factor, addend) == (1 << 14, 3, 3)
    pre, post = bundle.words(x, "pre"), bundle.words(x, "post")
    assert len(pre) == 2 * n, "the whole allocation is there"
    assert post[:n] == step(pre[:n], factor, addend) and post[n:] == pre[n:]
    # Two executions of it were before: the pre-state is theirs.
    start = array.array("I", ((v * pow(3, -1, 1 << 32)) & WORD for v in ((w - 2) & WORD for w in pre[:4])))
    start = [((v - 1) * pow(3, -1, 1 << 32)) & WORD for v in start]
    hashed = []
    for i in range(4):
        h = (i * 0x9e3779b9 + 0x1234567) & WORD
        h = ((h ^ h >> 16) * 0x7feb352d) & WORD
        h = ((h ^ h >> 15) * 0x846ca68b) & WORD
        hashed.append(h ^ h >> 16)
    assert start == hashed


def test_pointer_table_leaves_out_what_nothing_leads_to(hip):
    answer, bundle = capture(hip, next(c for c in CASES if c.program == "pointer_table"), "reachable")
    assert answer.json["captured_bytes"] < 1 << 20
    table, entries = bundle.arguments("<QI")
    pointers = struct.unpack_from(f"<{entries}Q", bundle.bytes(bundle.region(table)[0]["pre"]))
    for e, block in enumerate(pointers):
        r, offset = bundle.region(block)
        values, result, count, weight = struct.unpack_from("<QQII", bundle.bytes(r["pre"]), offset)
        expected = array.array("I", ((v * weight + e) & WORD for v in bundle.words(values, "pre", count)))
        assert bundle.words(result, "post", count) == expected
        assert set(bundle.words(result, "pre", count)) == {0x80000000 | e}


def test_scope_all_has_what_nothing_leads_to(hip):
    answer, _ = capture(hip, next(c for c in CASES if c.program == "pointer_table"), "all")
    assert answer.json["captured_bytes"] > 16 << 20


def test_module_variables_lead_to_memory(hip):
    _, bundle = capture(hip, next(c for c in CASES if c.program == "module_variables"), "reachable")
    (n,) = bundle.arguments("<I")
    coefficients = array.array("I", bundle.symbol("coefficients", "pre"))
    assert list(coefficients) == [2 * i + 1 for i in range(16)]
    lookup = bundle.words(struct.unpack("<Q", bundle.symbol("lookup", "pre"))[0], "pre")
    out = bundle.words(struct.unpack("<Q", bundle.symbol("output", "pre"))[0], "post")
    expected = [(lookup[i % 4096] * coefficients[i % 16]) & WORD for i in range(n)]
    assert list(out) == expected
    assert struct.unpack("<I", bundle.symbol("launches", "pre")) == (1,)
    assert struct.unpack("<I", bundle.symbol("launches", "post")) == (2,)
    bins = array.array("I", bundle.symbol("histogram", "pre"))
    for x in expected:
        bins[x % 64] += 1
    assert array.array("I", bundle.symbol("histogram", "post")) == bins


def test_partial_blocks_write_just_the_exact_grid(hip):
    _, bundle = capture(hip, next(c for c in CASES if c.program == "partial_grid"), "reachable")
    out, width, height, seed = bundle.arguments("<QIII")
    pre, post = bundle.words(out, "pre"), bundle.words(out, "post")
    for z in range(5):
        for y in range(height):
            for x in range(width):
                at = (z * height + y) * width + x
                pre[at] = (pre[at] + seed * (x + 1) + 1000 * y + 1000000 * z) & WORD
    assert post == pre


def test_hidden_arguments_are_marked_and_lead_nowhere(hip):
    _, bundle = capture(hip, next(c for c in CASES if c.program == "device_printf"), "all")
    arguments = bytes.fromhex(bundle.dispatch["arguments"])
    hidden = [a for a in bundle.dispatch["argument_layout"] if a["kind"] in
              ("hidden_hostcall_buffer", "hidden_printf_buffer")]
    assert hidden, bundle.dispatch["argument_layout"]
    for a in hidden:
        (pointer,) = struct.unpack_from("<Q", arguments, a["offset"])
        assert pointer != 0
        assert not any(int(r["address"], 16) <= pointer < int(r["address"], 16) + r["size"]
                       for r in bundle.dispatch["regions"]), "the runtime's own buffer was captured"


def test_several_executions_are_one_bundle(hip):
    answer = hip.capture(program("inplace"), "scale_in_place", "several", "--nth", "1,2,5", "--no-proof")
    assert answer.json["target_exit"] == 0
    m = json.loads((hip.folder / "several.klab" / "manifest.json").read_text())
    assert [d["nth"] for d in m["dispatches"]] == [1, 2, 5]
    first, second = m["dispatches"][0]["regions"][0], m["dispatches"][1]["regions"][0]
    bundle = Bundle(hip.folder / "several.klab")
    assert bundle.bytes(first["post"]) == bundle.bytes(second["pre"])
    assert bundle.bytes(first["pre"]) != bundle.bytes(first["post"])


def test_what_came_before_in_another_stream_is_done(hip):
    """Two threads launch as fast as they can; the state is that of whole launches."""
    _, bundle = capture(hip, next(c for c in CASES if c.program == "two_streams"), "all")
    x, n, turn = bundle.arguments("<QII")
    pre, post = bundle.words(x, "pre"), bundle.words(x, "post")
    assert post[:n] == array.array("I", ((((v << 5) | (v >> 27)) + turn) & WORD for v in pre[:n]))
    others = [r for r in bundle.dispatch["regions"] if r["size"] == 4 * 4 * n]
    assert others and all(bundle.bytes(r["pre"]) == bundle.bytes(r["post"]) for r in others), \
        "the other stream ran on during the capture"


def test_every_packet_of_a_batch_is_looked_at(hip):
    """Three dispatches and a barrier by one ring of the doorbell, straight to HSA; the runtime is started twice."""
    for nth, seed in ((2, 20), (3, 30), (5, 20)):
        answer = hip.ok("capture", "--json", "--kernel", "fill_volume", "--nth", nth, "--scope", "all", "--no-proof", "-o",
                        hip.folder / f"{nth}.klab", "--", *program("packets", "--repeat", "2"))
        assert answer.json["target_exit"] == 0 and answer.err.count("packets: ok, checksum") == 2, answer
        assert answer.err.count("Signals leaked") == run("packets", "--repeat", "2").stderr.count("Signals leaked")
        bundle = Bundle(hip.folder / f"{nth}.klab")
        assert len(bundle.dispatch["regions"]) == 1, "freed memory, or that of the arguments, was captured"
        out, width, height, got = bundle.arguments("<QIII")
        assert (width, height, got) == (64, 4, seed)
        pre, post = bundle.words(out, "pre", 512), bundle.words(out, "post", 512)
        for k in range(512):
            pre[k] += seed * (k % 64 + 1) + 1000 * (k // 64 % 4) + 1000000 * (k // 256)
        assert pre == post
        assert bundle.dispatch["program_ns"] > 0
    rows = hip.ok("dispatches", "--json", "--rows", "--", *program("packets", "--repeat", "2")).json["rows"]
    assert [r["nth"] for r in sorted(rows, key=lambda r: r["sequence"])] == [1, 2, 3, 4, 5, 6]
    assert all(r["gpu_ns"] > 0 for r in rows)


def test_memory_of_plain_hsa_calls_is_followed_until_it_is_freed(hip):
    """hsa_memory_allocate, hsa_memory_free, hsa_memory_copy; each of the program's three kernels."""
    _, bundle = capture(hip, next(c for c in CASES if c.program == "hsa_kernels"), "all")
    (table,) = bundle.arguments("<Q")
    r, offset = bundle.region(table)
    x, sums, n, turn = struct.unpack_from("<QQII", bundle.bytes(r["pre"]), offset)
    assert (n, turn) == (5000, 1)
    assert [bundle.region(at)[0]["kind"] for at in (table, x, sums)] == ["device", "device", "pinned_host"]
    assert all(r["size"] < 1 << 20 for r in bundle.dispatch["regions"]), "freed memory was captured"
    values, before, after = bundle.words(x, "pre", n), bundle.words(sums, "pre", 20), bundle.words(sums, "post", 20)
    assert any(before)
    for g in range(20):
        assert after[g] == (before[g] + ((sum(values[g * 256:g * 256 + 256]) & WORD) ^ turn)) & WORD
    for kernel in ("hsa_spread", "hsa_scale"):
        answer = hip.capture(program("hsa_kernels"), kernel, kernel, "--nth", "3")
        assert answer.json["target_exit"] == 0
        assert not PROOF or answer.json["proofs"][0]["state"] == "equal", answer


@pytest.mark.parametrize("scope", ["reachable", "all"])
def test_each_of_two_devices_is_captured_and_replayed_as_itself(hip, scope):
    hip.env["KLAB_SIM_AGENTS"] = "2"
    bare = subprocess.run(program("two_devices"), capture_output=True, text=True, timeout=120, env=hip.env)
    if bare.returncode == SKIPPED:
        pytest.skip(bare.stdout.strip())
    assert bare.returncode == 0, bare.stdout + bare.stderr
    devices = [d["identity"]["uuid"] for d in hip.ok("devices", "--json").json["devices"]
               if d["api"] == "hip" and "identity" in d]
    assert len(set(devices)) == len(devices) >= 2
    where = []
    for nth, addend in ((3, 1), (4, 11)):
        folder = hip.folder / f"{nth}.klab"
        proof = PROOF and (nth == 4 or scope == "reachable")
        answer = hip.ok("capture", "--json", "--kernel", "on_each_device", "--nth", nth, "--scope", scope, "-o", folder,
                        *(() if proof else ("--no-proof",)), "--", *program("two_devices"))
        assert answer.json["target_exit"] == 0 and "two_devices: ok, checksum" in answer.err + answer.out
        assert not proof or answer.json["proofs"][0]["state"] == "equal", answer
        bundle = Bundle(folder)
        x, n, got = bundle.arguments("<QII")
        assert (n, got) == (4096, addend)
        assert bundle.words(x, "post", n) == step(bundle.words(x, "pre", n), 3, addend)
        assert scope == "all" or len(bundle.dispatch["regions"]) == 1
        where.append(bundle.manifest["device"]["uuid"])
    assert where == devices[:2]
    if scope == "all":
        return
    replay = hip.ok("replay", folder, "--iterations", "1", "--no-validate", "--json")
    assert replay.json["device"]["uuid"] == devices[1], replay.json["device"]


def test_dispatches_are_listed_with_their_grids(hip):
    for case in CASES:
        if not (HIP / case.program).exists():
            continue
        bare = run(case.program, *case.args)
        if bare.returncode == SKIPPED:
            continue
        answer = hip.ok("dispatches", "--json", "--rows", "--", *program(case.program, *case.args))
        assert answer.json["exit_code"] == 0, answer
        for line in bare.stdout.splitlines():
            assert line in answer.err + answer.out
        (kernel,) = [k for k in answer.json["kernels"] if case.kernel in k["name"]]
        assert kernel["calls"] == case.executions, case.program
        rows = [r for r in answer.json["rows"] if answer.json["kernels"][r["kernel"]]["name"] == kernel["name"]] \
            if isinstance(answer.json["rows"][0]["kernel"], int) else \
            [r for r in answer.json["rows"] if r["kernel"] == kernel["name"]]
        assert [r["nth"] for r in sorted(rows, key=lambda r: r["sequence"])] == list(range(1, case.executions + 1))
        assert tuple(sorted(rows, key=lambda r: r["nth"])[case.nth - 1]["grid"]) == case.grid


def test_a_missing_kernel_is_told_with_the_nearest_names(hip):
    refused = hip("capture", "--json", "--kernel", "saxpi_", "-o", hip.folder / "x.klab", "--no-proof", "--",
                  *program("saxpy"))
    assert refused.code != 0 and "saxpy" in refused.error["hint"]
    assert not (hip.folder / "x.klab").exists()


def test_too_large_a_capture_says_its_size(hip):
    refused = hip("capture", "--json", "--kernel", "weigh_blocks", "--scope", "all", "--max-bytes", "1MiB", "-o",
                  hip.folder / "x.klab", "--no-proof", "--", *program("pointer_table"))
    assert refused.code == 10 and "--max-bytes" in refused.error["hint"], refused
    assert "pointer_table: ok" in refused.err


def test_a_kernel_that_ends_late_is_captured(hip):
    """The host sets the flag that it waits for while the capture waits for it."""
    answer = hip.ok("capture", "--json", "--kernel", "spin_until_told", "--drain", "5", "-o", hip.folder / "x.klab",
                    "--no-proof", "--", *program("endless"))
    assert answer.json["target_exit"] == 0 and "endless: ok" in answer.err


def test_a_kernel_that_never_ends_is_refused(hip):
    refused = hip("capture", "--json", "--kernel", "spin_until_told", "--drain", "1", "-o", hip.folder / "x.klab",
                  "--no-proof", "--stop-after-capture", "--time-limit", "60", "--", *program("endless", "--hold"),
                  timeout=60)
    assert refused.code == 9 and "did not end within 1000 ms" in refused.error["what"], refused
    assert not (hip.folder / "x.klab").exists()


def test_a_device_that_does_not_drain_is_refused_and_the_program_goes_on(hip):
    refused = hip("capture", "--json", "--kernel", "add_meanwhile", "--drain", "1", "-o", hip.folder / "x.klab",
                  "--no-proof", "--", *program("busy_stream"))
    assert refused.code == 9 and "did not drain within 1000 ms" in refused.error["what"], refused
    assert "busy_stream: ok" in refused.err
    assert not (hip.folder / "x.klab").exists()


def test_a_fault_later_loses_nothing_of_what_was_taken(hip):
    answer = hip("capture", "--json", "--kernel", "before_the_fault", "-o", hip.folder / "x.klab", "--no-proof", "--",
                 *program("fault"))
    assert answer.code == 0, answer
    assert answer.json["target_exit"] != 0
    bundle = Bundle(hip.folder / "x.klab")
    x, n = bundle.arguments("<QI")
    pre = bundle.words(x, "pre")
    assert bundle.words(x, "post")[:n] == array.array("I", ((v * 2 + i) & WORD for i, v in enumerate(pre[:n])))


def test_another_tools_library_stays_first(hip, tmp_path):
    """A user's own tools library is loaded as well, and before ours."""
    source = tmp_path / "tool.c"
    source.write_text("#include <stdio.h>\n#include <stdint.h>\n#include <stdbool.h>\n"
                      "bool OnLoad(void* t, uint64_t v, uint64_t n, const char* const* f) {\n"
                      "  (void)t, (void)v, (void)n, (void)f;\n  fputs(\"own tool\\n\", stderr);\n  return true;\n}\n"
                      "void OnUnload(void) {}\n")
    library = tmp_path / "libown.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    answer = hip.ok("capture", "--json", "--kernel", "saxpy", "-o", hip.folder / "x.klab", "--no-proof", "--",
                    *program("saxpy"), env={"HSA_TOOLS_LIB": str(library)})
    assert "own tool" in answer.err and answer.json["target_exit"] == 0


def test_without_klab_the_shim_is_silent(hip):
    shim = BUILD / "libklab_hsa.so"
    done = subprocess.run(program("saxpy"), capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                          env={**base_environment(), **environment(), "HSA_TOOLS_LIB": str(shim)})
    assert done.returncode == 0 and "klab" not in done.stdout + done.stderr
    libraries = subprocess.run(["ldd", str(shim)], capture_output=True, text=True).stdout
    assert "hsa" not in libraries and "stdc++" not in libraries


def test_many_launches_are_not_held_up(hip):
    started = time.monotonic()
    answer = hip.ok("capture", "--json", "--kernel", "tiny_add", "--nth", "1500", "-o", hip.folder / "x.klab",
                    "--no-proof", "--", *program("many_launches"))
    assert answer.json["target_exit"] == 0 and time.monotonic() - started < 60
    bundle = Bundle(hip.folder / "x.klab")
    x, addend = bundle.arguments("<QI")
    assert addend == 1499
    assert set(bundle.words(x, "pre", 32)) == {sum(range(1499))}
    assert set(bundle.words(x, "post", 32)) == {sum(range(1500))}
