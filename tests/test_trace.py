# SPDX-License-Identifier: Apache-2.0
"""klab dispatches: every dispatch of a program, with the grid that really ran; the program's own result is untouched."""
import collections

import pytest

from conftest import SKIPPED, example, regex_of, run_example
from programs_list import PROGRAMS


def ids(p):
    return " ".join((p.program, *p.args))


@pytest.mark.parametrize("p", PROGRAMS, ids=ids)
def test_trace_lists_every_dispatch(klab, p):
    bare = run_example(p.program, *p.args)
    if bare.returncode == SKIPPED:
        pytest.skip(bare.stdout.strip())
    traced = klab.ok("dispatches", "--json", "--rows", "--", example(p.program), *p.args)
    answer = traced.json
    assert answer["exit_code"] == 0
    assert bare.stdout.strip() in traced.err + traced.out, "the program's own line must come through, unchanged"
    assert answer["dispatches"] == p.calls == len(answer["rows"])
    assert sorted(k["calls"] for k in answer["kernels"]) == sorted(n for _, n in p.shaders)
    for name in p.named:
        assert name in [k["name"] for k in answer["kernels"]]
    names = [k["name"] for k in answer["kernels"]]
    assert len(set(names)) == len(names) and all(names), "each kernel has a name of its own"
    assert [r["sequence"] for r in sorted(answer["rows"], key=lambda r: r["sequence"])] == list(range(1, p.calls + 1))
    by_kernel = collections.defaultdict(list)
    for row in sorted(answer["rows"], key=lambda r: r["sequence"]):
        by_kernel[row["kernel"]].append(row["nth"])
        assert row["gpu_ns"] >= 0
    for nths in by_kernel.values():
        assert nths == list(range(1, len(nths) + 1))
    assert any(r["gpu_ns"] > 0 for r in answer["rows"]), "no dispatch has a time"


def test_trace_reports_the_indirect_grid(klab):
    rows = klab.ok("dispatches", "--json", "--rows", "--", example("indirect"), "--size", "1000").json["rows"]
    indirect = [r for r in rows if r["call"] == "vkCmdDispatchIndirect"]
    assert len(indirect) == 2
    first, second = sorted(indirect, key=lambda r: r["sequence"])
    assert 1 <= first["grid"][0] <= 16 and first["grid"][1:] == [1, 1]  # about half of 1000 values, 64 a workgroup
    assert second["grid"][0] == 0


def test_trace_names_kernels_by_their_source_where_no_debug_name_is(klab):
    assert "saxpy" in klab.kernels(example("saxpy"))[0]["name"]
    assert klab.kernels(example("inplace"))[0]["name"].startswith("main@")


def test_list_is_kept_and_read_again(klab):
    answer = klab.ok("dispatches", "--json", "--out", klab.folder / "list", "--", example("matmul_tiled")).json
    again = klab.ok("dispatches", "--json", "--from", klab.folder / "list").json
    assert again["kernels"] == answer["kernels"]
    only = klab.ok("dispatches", "--json", "--from", klab.folder / "list", "--kernel", regex_of("matmul_naive")).json
    assert [k["name"] for k in only["kernels"]] == ["matmul_naive"]


def test_trace_of_a_program_that_dispatches_nothing_is_an_empty_list(klab):
    answer = klab.ok("dispatches", "--json", "--", example("no_dispatch")).json
    assert answer["dispatches"] == 0 and answer["kernels"] == []


def test_trace_keeps_what_a_crashed_program_dispatched(klab):
    outcome = klab("dispatches", "--json", "--", example("crash"), "--iterations", "3")
    assert outcome.code in (0, 9)
    text = outcome.out + outcome.err
    assert "SIGSEGV" in text, "how the program ended is said"
    if outcome.code == 0:
        assert outcome.json["dispatches"] == 3


def test_doctor_and_devices(klab):
    assert klab.ok("doctor", "--json").json["usable"] is True
    devices = klab.ok("devices", "--json").json["devices"]
    assert any(d.get("identity", {}).get("api") == "vulkan" for d in devices)
