# SPDX-License-Identifier: Apache-2.0
"""Variants that try to pass (tests/cheats/vulkan), and honest ones that must."""
import struct
import sys

import pytest

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "cheats"))
from heads import cheats  # noqa: E402

ALL = list(cheats("vulkan"))


def noise(index, stream):
    """As the examples make their inputs (examples/vulkan/common.cpp)."""
    x = (index * 0x9E3779B9 + stream * 0x85EBCA6B + 0x1234567) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    x ^= x >> 16
    return struct.unpack("f", struct.pack("f", (x >> 8) * (2.0 / 16777216.0) - 1.0))[0]


@pytest.fixture(scope="session")
def product(tmp_path_factory):
    """The matrix product of matmul_tiled in float64."""
    n = 160
    a = [noise(i, 4) for i in range(n * n)]
    b = [noise(i, 5) for i in range(n * n)]
    columns = [b[c::n] for c in range(n)]
    c = [sum(x * y for x, y in zip(a[r * n:r * n + n], columns[k])) for r in range(n) for k in range(n)]
    file = tmp_path_factory.mktemp("reference") / "c.f64"
    file.write_bytes(struct.pack(f"<{n * n}d", *c))
    return file


@pytest.mark.parametrize("cheat", ALL, ids=lambda c: c.name)
def test_what_a_variant_tries_is_said(klab, shared_bundle, request, cheat):
    bundle = shared_bundle(cheat.program, None if cheat.kernel == "." else cheat.kernel, *cheat.args,
                           options=("--nth", str(cheat.nth)))
    problems = []
    for check in cheat.checks:
        options = [o for o in check.options if o != "{reference}"]
        if options != list(check.options):
            options += ["--reference", f"2={request.getfixturevalue('product')}"]
        done = klab("compare", bundle, "--variant", cheat.file, "--json", "--budget", "0.3", *options)
        assert done.json, repr(done)
        problem = check.problem(done.json)
        if problem:
            problems.append(problem)
        if (done.json.get("verdict") or {}).get("correctness") != "correct":
            assert done.code in (3, 7, 8) and "ratio" not in done.json, repr(done)
    assert not problems, "\n".join(problems)
