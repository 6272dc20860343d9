# SPDX-License-Identifier: Apache-2.0
"""Levels, element types, custom checkers, unseen inputs: through the real klab on real dispatches."""
import os
import re
import stat
import textwrap

import pytest

from conftest import ROOT, SOURCES

SAXPY = (SOURCES / "saxpy.comp").read_text()
NAIVE = (SOURCES / "matmul_tiled_naive.comp").read_text()
REVERSED = NAIVE.replace("for (uint k = 0; k < n; ++k)", "for (uint k = n; k-- > 0;)")


def compare(klab, bundle, text, *options, name="variant.comp"):
    (klab.folder / name).write_text(text)
    return klab("compare", bundle, "--variant", klab.folder / name, "--json", "--budget", "0", *options)


def verdict(done):
    assert done.json and "verdict" in done.json, repr(done)
    return done.json["verdict"]["correctness"], done.json["verdict"]["reason"]


def checker(klab, body, name="check.py"):
    """A checker in Python; `regions` are what it was given, with bytes read when asked for."""
    file = klab.folder / name
    file.write_text("#!/usr/bin/python3\n" + textwrap.dedent("""
        import json, os, socket, struct, sys, time
        question = json.loads(os.pread(3, 1 << 20, 0))
        regions = {r["id"]: r for r in question["regions"]}
        def read(region, which):
            return os.pread(regions[region][which + "_fd"], regions[region]["size"], 0)
        def say(verdict, reason=""):
            print(json.dumps({"verdict": verdict, "reason": reason}))
            sys.exit(0)
        """) + textwrap.dedent(body))
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


def test_types_are_found_out_and_shown(klab, shared_bundle):
    done = klab.ok("compare", "--budget", "0", shared_bundle("small_types"), "--variant", SOURCES / "small_types.comp", "--json",
                   "--iterations", "1")
    types = {t["type"]: t["from"] for t in done.json["variants"][1]["validation"]["types"]}
    assert types == {"u8": "SPIR-V", "u16": "SPIR-V", "f16": "SPIR-V"}, types


def test_types_can_be_given_with_a_shape_and_name_the_element(klab, shared_bundle):
    bundle = shared_bundle("matmul_tiled", "matmul_naive")
    wrong = NAIVE.replace("c[row * n + col] = sum;", "c[row * n + col] = row == 7u && col == 9u ? 0.5 : sum;")
    done = compare(klab, bundle, wrong, "--type", "c naive=f32:160x160")
    correctness, reason = verdict(done)
    assert correctness == "incorrect" and "element [7,9]" in reason and "got 0.5" in reason, reason
    (d,) = done.json["variants"][1]["validation"]["differences"]
    assert (d["type"], d["index"], d["actual_value"]) == ("f32", "[7,9]", "0.5"), d
    assert d["map"]["rows"] == 16 and d["map"]["columns"] == 64 and d["map"]["shares"].count(0) == 16 * 64 - 1, d["map"]
    shown = klab("compare", "--budget", "0", bundle, "--variant", klab.folder / "variant.comp", "--type", "c naive=f32:160x160")
    assert re.search(r"f32 element \[7,9\]: expected \S+ \([0-9a-f]+\), got 0.5", shown.out), shown.out
    assert shown.out.count("      |") == 16, shown.out
    for bad in ("c naive=f33", "nothing=f32", "c naive", "c naive=f32:161x160"):
        done = compare(klab, bundle, wrong, "--type", bad)
        assert done.code == 2 and (done.error.get("hint") or "fit" in done.error["what"]), repr(done)


def test_types_of_a_projects_klab_toml_are_used(klab, shared_bundle):
    bundle = shared_bundle("matmul_tiled", "matmul_naive")
    (klab.folder / "klab.toml").write_text('[types.matmul]\n"c naive" = "f32:160x160"\n')
    done = compare(klab, bundle, NAIVE)
    types = {t["name"]: (t["type"], t["from"]) for t in done.json["variants"][1]["validation"]["types"]}
    assert types["c naive"] == ("f32 160x160", "klab.toml"), types


def test_other_orders_pass_numerically_and_show_their_ulps_bitwise(klab, shared_bundle):
    bundle = shared_bundle("matmul_tiled", "matmul_naive")
    correctness, reason = verdict(compare(klab, bundle, REVERSED, "--level", "numeric"))
    assert correctness == "correct" and "within the tolerance" in reason and "ULP" in reason, reason
    done = compare(klab, bundle, REVERSED)
    correctness, reason = verdict(done)
    assert correctness == "incorrect" and "ULP" in reason
    values = done.json["variants"][1]["validation"]["values"]
    assert sum(values["ulps"].values()) == values["elements"] and values["max_ulp"] > 0, values
    shown = klab("compare", "--budget", "0", bundle, "--variant", klab.folder / "variant.comp")
    assert "ULPs apart: " in shown.out, shown.out


def test_numeric_covers_what_varies_where_it_is_floating_point(klab, shared_bundle):
    """float_atomics keeps its sum in an integer: bitwise and numeric are not verified until its type is given."""
    bundle = shared_bundle("float_atomics", "float_atomics")
    source = (SOURCES / "float_atomics.comp").read_text()
    for options in ((), ("--level", "numeric")):
        done = compare(klab, bundle, source, *options)
        if done.code == 2:  # no floating-point element is known
            assert "--type" in done.error["hint"], repr(done)
            continue
        assert verdict(done)[0] == "not_verified", repr(done)
    typed = ("--level", "numeric", "--type", "1=f32:1")
    done = compare(klab, bundle, source, *typed, "--tolerance", "rel=1e-9")
    correctness, reason = verdict(done)
    assert correctness == "not_verified" and "own results" in reason, reason
    done = compare(klab, bundle, source, *typed, "--tolerance", "abs=0.01,rel=5e-3")
    correctness, reason = verdict(done)
    assert correctness == "correct" or "half of their precision" in reason, reason


def test_a_tolerance_that_takes_half_precision_is_refused_with_figures(klab, shared_bundle):
    done = compare(klab, shared_bundle("matmul_tiled", "matmul_naive"), REVERSED, "--tolerance", "abs=0.01,rel=0.01")
    correctness, reason = verdict(done)
    assert correctness == "not_verified" and "is refused" in reason and re.search(r"up to \d", reason), reason
    assert done.code == 3


def test_a_checker_decides(klab, shared_bundle):
    bundle = shared_bundle("saxpy")
    exact = checker(klab, """
        n = regions[1]["size"] // 4
        x, y, got = (struct.unpack(f"{n}f", read(*w)) for w in ((0, "input"), (1, "input"), (1, "actual")))
        for i in range(0, n, 997):
            if not abs(got[i] - (0.5 * x[i] + y[i])) <= 1e-6:
                say("incorrect", f"element {i} is {got[i]}")
        say("correct")
        """)
    fused = SAXPY.replace("y[i] = a * x[i] + y[i]", "y[i] = fma(a, x[i], y[i])")
    assert fused != SAXPY
    correctness, reason = verdict(compare(klab, bundle, fused, "--checker", exact))
    assert correctness == "correct" and "checker" in reason, reason
    correctness, reason = verdict(compare(klab, bundle, SAXPY.replace("a * x[i]", "-a * x[i]"), "--checker", exact))
    assert correctness == "incorrect" and "element 0 is" in reason, reason


@pytest.mark.parametrize("body, said", [
    ("say('correct')", "cannot be told from a right one"),
    ("say('incorrect', 'never')", "does not accept what the captured kernel itself leaves"),
    ("sys.exit(3)", "exited with 3"),
    ("os.kill(os.getpid(), 11)", "SIGSEGV"),
    ("print('yes')", "gave no verdict"),
    ("print(json.dumps({'verdict': 'fine'}))", "answered"),
    ("time.sleep(60)", "did not answer within 1 s"),
], ids=["always", "never", "exits", "crashes", "text", "word", "hangs"])
def test_a_checker_that_proves_nothing_verifies_nothing(klab, shared_bundle, body, said):
    file = checker(klab, body)
    done = compare(klab, shared_bundle("saxpy"), SAXPY.replace("a * x[i] + y[i]", "y[i] + x[i] * a * 1.0"),
                   "--checker", file, "--checker-limit", "1" if "sleep" in body else "30")
    correctness, reason = verdict(done)
    assert correctness == "not_verified" and said in reason, (correctness, reason)
    assert done.code == 3


def test_a_checker_has_no_network_and_cannot_change_what_it_reads(klab, shared_bundle):
    file = checker(klab, """
        for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
            try:
                socket.socket(family, socket.SOCK_STREAM)
                say("incorrect", "it has sockets")
            except PermissionError:
                pass
        for r in question["regions"]:
            for which in ("input_fd", "expected_fd", "actual_fd"):
                if which in r:
                    try:
                        os.pwrite(r[which], b"x", 0)
                        say("incorrect", "it can write what it reads")
                    except OSError:
                        pass
        extra = [fd for fd in range(3, 200) if os.path.exists(f"/proc/self/fd/{fd}")]
        known = {3} | {r[w] for r in question["regions"] for w in ("input_fd", "expected_fd", "actual_fd") if w in r}
        if set(extra) - known - {max(extra)}:  # one is the folder being listed
            say("incorrect", f"it inherited {set(extra) - known}")
        say("correct" if read(1, "expected") == read(1, "actual") else "incorrect", "bytes differ")
        """)
    done = compare(klab, shared_bundle("saxpy"), SAXPY.replace("a * x[i] + y[i]", "y[i] + x[i] * a"), "--checker", file)
    correctness, reason = verdict(done)
    assert correctness == "correct", reason


def test_other_captures_are_held_out_inputs(klab, shared_bundle):
    """Right for one execution only: the second pass of reduction has one workgroup and 64 values."""
    bundle = shared_bundle("reduction", None, options=("--nth", "1,2"))
    text = (SOURCES / "reduction.comp").read_text()
    right = compare(klab, bundle, text.replace("uint sum = 0;", "uint sum = 0u;"))
    assert verdict(right)[0] == "correct", repr(right)
    inputs = right.json["variants"][1]["validation"]["inputs"]
    assert [i for i in inputs if i["kind"] == "capture" and i["agrees"]], inputs
    only = text.replace("gl_NumWorkGroups.x * 256", "64 * 256")
    only = only.replace("sum += values[i];", "sum += values[i] + (gl_NumWorkGroups.x == 64u ? 0u : 1u);")
    correctness, reason = verdict(compare(klab, bundle, only))
    assert correctness == "incorrect" and "dispatch 1 of the bundle" in reason, reason
    assert verdict(compare(klab, bundle, only, "--no-other-captures"))[0] == "correct"


def test_mutated_inputs_are_made_again_from_the_seed_in_the_answer(klab, shared_bundle):
    """What is said of a variant that only changed inputs show names values of these inputs."""
    cheat = (ROOT / "tests" / "cheats" / "vulkan" / "hard_coded_values.comp").read_text()
    said = []
    for seed in ("7", "7", "8"):
        done = compare(klab, shared_bundle("saxpy"), cheat, "--seed", seed)
        correctness, reason = verdict(done)
        assert correctness == "incorrect" and f"seed {seed}" in reason, reason
        assert done.json["variants"][1]["validation"]["seed"] == int(seed)
        said.append(done.json["variants"][1]["validation"]["differences"])
    assert said[0] == said[1] and said[0] != said[2], said


def test_a_session_runs_only_checkers_that_its_owner_named(klab, shared_bundle):
    named = checker(klab, "say('correct' if read(1, 'expected') == read(1, 'actual') else 'incorrect', 'bytes')", "named.py")
    other = checker(klab, "open('/tmp/klab-was-here', 'w'); say('correct')", "other.py")
    (klab.folder / "klab.toml").write_text(f'[checkers]\nbytes = ["./{named.name}"]\n')
    session = klab.ok("session", "open", "--bundle", shared_bundle("saxpy"), "--json").json["session"]["id"]
    (klab.folder / "v.comp").write_text(SAXPY.replace("a * x[i]", "x[i] * a"))
    klab.ok("session", "build", session, "--source", klab.folder / "v.comp", "--name", "v", "--json")
    done = klab("session", "compare", session, "--variant", "v", "--checker", other, "--json", "--budget", "0")
    assert done.error["code"] == "not_allowed" and "bytes" in done.error["hint"], repr(done)
    assert not os.path.exists("/tmp/klab-was-here")
    done = klab("session", "compare", session, "--variant", "v", "--checker", "bytes", "--json", "--budget", "0")
    assert verdict(done)[0] == "correct", repr(done)


def test_options_that_do_not_belong_together_are_refused(klab, shared_bundle):
    bundle = shared_bundle("saxpy")
    for options in (["--level", "bitwise", "--tolerance", "abs=1"], ["--level", "custom"],
                    ["--level", "numeric", "--checker", "x"], ["--tolerance", "abs=-1"], ["--unseen", "grid"],
                    ["--unseen", "colour=3"], ["--reference", "1"]):
        done = compare(klab, bundle, SAXPY, *options)
        assert done.code == 2 and done.error["code"] == "usage", repr(done)
