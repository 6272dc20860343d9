# SPDX-License-Identifier: Apache-2.0
"""`klab compare`: the verdict on speed, what it rests on, and what becomes of it when somebody stops it.

Times of these machines mean little: what is asked is the protocol, and that a kernel with several times the work is not called
equal. Rates of false claims are counted in bench/claims.py."""
import re
import signal

import pytest

from conftest import SOURCES, example

UNDECIDED = ("inconclusive", "unstable", "clock_dependent")


@pytest.fixture
def heavier(klab):
    """saxpy with so much more work that no machine hides it: the same bytes."""
    text = (SOURCES / "inplace.comp").read_text()
    at = text.rindex("}")
    text = text[:at] + """
  float more = 0.0;
  for (uint r = 0u; r < 6u; ++r) more += sin(float(r + gl_GlobalInvocationID.x));
  if (more > 1e9) x[0] += 1.0;  // never
}
"""
    file = klab.folder / "heavier.comp"
    file.write_text(text)
    return file


def compare(klab, bundle, *options):
    return klab("compare", bundle, "--json", *options)


def test_a_slower_variant_is_called_slower_or_nothing_is_claimed(klab, shared_bundle, heavier):
    done = compare(klab, shared_bundle("inplace"), "--variant", heavier, "--budget", "2s")
    assert done.code in (4, 5), repr(done)
    answer = done.json
    assert answer["verdict"]["correctness"] == "correct", answer["verdict"]
    speed, comparison = answer["verdict"]["speed"], answer["comparison"]
    assert speed == "slower" if done.code == 4 else speed in UNDECIDED, answer["verdict"]
    conclusion = comparison["conclusion"]
    assert conclusion["verdict"] == speed and conclusion["reason"]
    assert (speed == "slower") == bool(answer["headline"]), answer["headline"]
    # What it rests on is all there.
    blocks = comparison["blocks"]
    placements = {b["placement"] for b in blocks}
    assert len(placements) >= 3 and conclusion["blocks"] == len(blocks)
    assert all(len([b for b in blocks if b["placement"] == p]) >= (6 if len(placements) > 3 else 1) for p in placements)
    orders = [b["order"] for b in blocks]
    assert abs(orders.count("ABBA") - orders.count("BAAB")) <= max(1, len(placements)), orders
    dropped = [b for b in blocks if b.get("dropped")]
    assert len(dropped) == conclusion["blocks_dropped"]
    assert comparison["clocks"] == "not observed" and "CPU" in comparison["environment"]["why"]
    assert comparison["floor"]["measured"] and comparison["floor"]["value"] >= 0
    assert comparison["design"]["delta"] == max(comparison["design"]["margin"], comparison["floor"]["value"])
    assert abs(sum(look["alpha"] for look in comparison["design"]["looks"]) - 0.05) < 1e-9
    launches = sum(b["a"][i]["launches"] for b in blocks for i in (0, 1))
    assert launches == answer["a"]["count"] == answer["b"]["count"] == answer["ran"]["iterations"]


def test_the_floor_is_measured_once_and_then_known(klab, shared_bundle, heavier):
    first = compare(klab, shared_bundle("inplace"), "--variant", heavier, "--budget", "1s").json["comparison"]["floor"]
    assert first["measured"]
    second = compare(klab, shared_bundle("inplace"), "--variant", heavier, "--budget", "1s").json["comparison"]["floor"]
    if first["keep"]:
        assert not second["measured"] and second["value"] == first["value"] and second["at"]
    else:  # the machine was disturbed, and nothing was kept of it
        assert second["measured"]


def test_rotating_caches_take_turns_on_copies(klab, heavier):
    klab.capture([example("inplace"), "--size", "262144"])  # 1 MiB
    bundle = klab.folder / "captured.klab"
    done = klab.ok("replay", bundle, "--cache", "rotating", "--iterations", "40", "--json").json
    assert done["ran"]["cache"] == "rotating" and done["validation"]["correctness"] == "correct"
    assert any("take turns on" in note for note in done["notes"]), done["notes"]
    compared = compare(klab, bundle, "--variant", heavier, "--cache", "rotating", "--budget", "2s")
    assert compared.code in (4, 5) and compared.json["verdict"]["correctness"] == "correct", repr(compared)
    assert "rotating" in compared.json["comparison"]["floor"]["class"]
    for options, words in ((("--condition", "sustained"), "warm"), (("--flush-mb", "4"), "no flush"), (("--counters",), "counters")):
        refused = klab("replay", bundle, "--cache", "rotating", *options)
        assert refused.code not in (0, 70) and words in refused.err and "try:" in refused.err, repr(refused)


def test_equal_code_is_identical_and_not_timed(klab, shared_bundle):
    bundle = shared_bundle("inplace")
    klab.ok("build", bundle, "--source", SOURCES / "inplace.comp", "--name", "one")
    klab.ok("build", bundle, "--source", SOURCES / "inplace.comp", "--name", "two", "-D", "NOT_USED=1")
    done = klab.ok("compare", bundle, "--variant", "two", "--against", "one", "--json")
    assert done.json["verdict"]["speed"] == "identical" and "comparison" not in done.json


def test_several_variants_are_claimed_together(klab, shared_bundle, heavier):
    bundle = shared_bundle("inplace")
    right = (SOURCES / "inplace.comp").read_text().replace("x[i] * a + b", "b + a * x[i]")
    wrong = right.replace("b + a * x[i]", "b - a * x[i]")
    assert right != wrong
    (klab.folder / "right.comp").write_text(right), (klab.folder / "wrong.comp").write_text(wrong)
    names = [str(heavier), "right.comp", "wrong.comp"]
    options = [word for name in names for word in ("--variant", name)]
    done = klab("compare", bundle, *options, "--budget", "1s", "--json")
    assert done.code in (0, 4, 5, 3), repr(done)
    all = done.json["finalists"]
    assert [one["verdict"]["correctness"] for one in all] == ["correct", "correct", "incorrect"]
    assert all[0]["verdict"]["speed"] in ("slower", *UNDECIDED) and all[2]["verdict"]["speed"] == "none"
    assert all[1]["verdict"]["speed"] != "none"
    for one in all[:2]:
        design = one.get("comparison", {}).get("design")
        if design:  # equal code is not timed
            assert sum(look["alpha"] for look in design["looks"]) <= design["alpha"] + 1e-12 <= 0.05 + 2e-12
            assert abs(design["alpha"] * 3 - 0.05) < 1e-9 or one["verdict"]["speed"] not in UNDECIDED
    assert ("best" in done.json) == any(one["verdict"]["speed"] == "faster" for one in all)
    text = klab("compare", bundle, *options, "--budget", "0").out
    assert "3 variants against baseline" in text and text.count("not timed") == 2 and "incorrect" in text, text


@pytest.mark.parametrize("names, words", [((["right.comp"] * 2), "named twice"), (["right.comp", "baseline"], "baseline itself"),
                                          ([f"v{i}" for i in range(9)], "from 2 to 8"), (["right.comp", "no_such"], "no_such")])
def test_several_variants_that_cannot_be_are_refused_before_anything_is_measured(klab, shared_bundle, names, words):
    (klab.folder / "right.comp").write_text((SOURCES / "inplace.comp").read_text())
    done = klab("compare", shared_bundle("inplace"), *[word for name in names for word in ("--variant", name)])
    assert done.code in (1, 2, 6), repr(done)
    assert words in done.err and "try:" in done.err, repr(done)


def test_budget_0_only_judges(klab, shared_bundle, heavier):
    done = klab.ok("compare", shared_bundle("inplace"), "--variant", heavier, "--budget", "0", "--json")
    assert done.json["verdict"]["correctness"] == "correct" and done.json["verdict"]["speed"] == "none"
    assert "comparison" not in done.json


def test_what_cannot_be_asked_is_refused_with_a_way_out(klab, shared_bundle, heavier):
    bundle = shared_bundle("inplace")
    for options, words in ((("--margin", "0.001"), "0.005"), (("--condition", "repeats"), "isolated"), (("--budget", "2h"), "h unit"),
                           (("--budget", "900s"), "--worker-budget"), (("--condition", "sustained"), "reads what it writes")):
        done = klab("compare", bundle, "--variant", heavier, *options)
        assert done.code not in (0, 4, 5, 70), (options, repr(done))
        assert words in done.err + done.out, (options, repr(done))


@pytest.mark.parametrize("where", [(), ("--no-hub",)], ids=["hub", "alone"])
def test_ctrl_c_keeps_what_there_is_and_says_inconclusive(klab, shared_bundle, heavier, where):
    bundle = shared_bundle("inplace")
    klab.ok("build", bundle, "--source", heavier, "--name", "heavier")
    run = klab.start(*where, "compare", bundle, "--variant", "heavier", "--budget", "20s")
    seen = ""
    while "so far" not in seen:  # it measures
        line = run.stderr.readline()
        assert line, seen
        seen += line
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 130, (run.returncode, out[-2000:], err[-2000:])
    assert re.search(r"inconclusive: it was interrupted after \d+ of \d+ placements", out), out
    assert "B takes" in out, "what there is stays visible"
    # The worker, or another, goes on.
    assert klab.ok("replay", bundle, "--json").json["validation"]["correctness"] == "correct"


def test_a_person_reads_the_verdict_first(klab, shared_bundle, heavier):
    done = klab("compare", shared_bundle("inplace"), "--variant", heavier, "--budget", "1s")
    assert done.code in (4, 5), repr(done)
    lines = done.out.splitlines()
    assert re.match(r"  (slower, at least [\d.]+ % more time|unstable|inconclusive)", lines[2]), done.out
    for words in ("blocks of four letters", "differences up to", "clocks: not observed", "next: klab save"):
        assert words in done.out, done.out
    assert "so far" in done.err, "it says how it stands while it works"
