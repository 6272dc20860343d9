# SPDX-License-Identifier: Apache-2.0
"""Reports: made of a comparison, well-formed, self-contained; --verify finds what was changed."""
import html.parser
import json
import re
import subprocess

import pytest

from conftest import SOURCES, no_op

VOID = {"meta", "br"}


class Page(html.parser.HTMLParser):
    """Fails where tags do not match, and collects what a browser would load or run."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.loads, self.text = [], [], [], ""
        self.feed(text)
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "action", "data") or name.startswith("on"):
                self.loads.append((tag, name, value))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> does not match"

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A capture with a timed comparison, and then one of a wrong variant."""
    from conftest import Klab, example
    klab = Klab(tmp_path_factory.mktemp("report"))
    klab.capture([example("reduction")], None, "reduction")
    # Other code that computes the same.
    text = (SOURCES / "reduction.comp").read_text()
    other = text.replace("part[t] = sum;", "part[t] = sum ^ (n == 3u ? 1u : 0u);")
    assert other != text
    (klab.folder / "other.comp").write_text(other)
    (klab.folder / "nothing.comp").write_text(no_op(text))
    done = klab("compare", "reduction.klab", "--variant", "other.comp", "--budget", "2", "--json")
    assert done.json and done.json["ok"], repr(done)
    assert done.json["verdict"]["correctness"] == "correct" and done.json["comparison"]["blocks"], repr(done)
    klab.compared = done.json
    return klab


def verify(klab, file, code):
    done = klab("report", "--verify", file, "--json", expect=code)
    assert done.json["agrees"] == (code == 0), repr(done)
    return {c["name"]: c for c in done.json["checks"]}


def test_a_report_is_written_and_agrees_with_itself(compared):
    klab = compared
    made = klab.ok("report", "reduction.klab", "--json").json
    page, data = klab.folder / "reduction-report.html", klab.folder / "reduction-report.json"
    assert made["html"] == str(page) and made["data"] == str(data)
    checks = verify(klab, data, 0)
    assert not [c for c in checks.values() if c["result"] != "ok"], checks
    report = json.loads(data.read_text())
    assert report["schema"] == "klab.report/1"
    assert report["verdict"]["comparison"] == klab.compared["verdict"]["id"]
    assert report["verdict"]["speed"] == klab.compared["verdict"]["speed"]
    assert report["comparison"]["blocks"] == klab.compared["comparison"]["blocks"]
    assert report["samples"]["b"]["times_ns"] == klab.compared["variants"][1]["samples_ns"]
    assert report["b"]["label"] == "other" and report["b"]["source"]["file"] == "other.comp"
    assert str(klab.folder) not in data.read_text() and str(klab.folder) not in page.read_text()

    text = page.read_text()
    parsed = Page(text)
    assert not parsed.loads and not {"script", "link", "img", "iframe"} & set(parsed.tags), parsed.loads
    assert not re.search(r"https?:|url\(|@import", text)
    assert "default-src 'none'; style-src 'unsafe-inline'" in text
    assert parsed.tags.count("svg") >= 6
    assert "klab report --verify reduction-report.json" in parsed.text
    assert "Clocks were not observed" in parsed.text
    subprocess.run(["xmllint", "--noout", page], check=True) if has_xmllint() else None

    # What is there is kept.
    before = page.read_bytes()
    again = klab("report", "reduction.klab", "--json", expect=2)
    assert "is there already" in again.error["what"] and "--force" in again.error["hint"], repr(again)
    assert page.read_bytes() == before
    klab.ok("report", "reduction.klab", "--force")


def has_xmllint():
    try:
        return subprocess.run(["xmllint", "--version"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def test_what_was_changed_is_named(compared):
    klab = compared
    klab.ok("report", "reduction.klab", "-o", "kept.html")
    kept = (klab.folder / "kept.json").read_text()
    changed = klab.folder / "changed.json"

    def change(edit):
        report = json.loads(kept)
        edit(report)
        changed.write_text(json.dumps(report))
        return {n for n, c in verify(klab, changed, 3).items() if c["result"] == "failed"}

    # One byte: the last digit of the first time of the first block.
    at = kept.index('"time_ns"')
    digit = re.compile(r"\d(?=[.,\s])").search(kept, at).start()
    other = "7" if kept[digit] != "7" else "3"
    changed.write_text(kept[:digit] + other + kept[digit + 1:])
    failed = {n: c["detail"] for n, c in verify(klab, changed, 3).items() if c["result"] == "failed"}
    assert "seal" in failed and "samples of A" in failed and "block" in failed["samples of A"], failed

    def promise(report):
        report["verdict"]["speed"] = "faster"
        report["comparison"]["conclusion"]["verdict"] = "faster"
        report["comparison"]["conclusion"]["headline"] = "at least 50 % less time"
    if json.loads(kept)["verdict"]["speed"] != "faster":
        assert {"seal", "conclusion"} <= change(promise)
    assert {"seal", "conditions"} <= change(lambda r: r["conditions"]["ran"].update(cache="warm"))
    assert {"seal", "correctness"} <= change(lambda r: r["verdict"].update(correctness="not_verified"))
    assert {"seal", "floor"} <= change(lambda r: r["comparison"]["floor"].update(value=0.5))
    assert change(lambda r: r["notes"].append("fast")) == {"seal"}
    # For a person: the line of the check and the exit code.
    done = klab("report", "--verify", changed, expect=3)
    assert "differs  seal" in done.out and "does not agree" in done.out, repr(done)


def test_unreadable_data_is_refused(klab):
    (klab.folder / "page.json").write_text("<html>")
    done = klab("report", "--verify", "page.json", "--json", expect=1)
    assert done.error["code"] == "invalid_data", repr(done)
    assert klab("report", "--verify", "none.json", "--json").error["code"] == "not_found"
    (klab.folder / "deep.json").write_text("[" * 100000)
    assert klab("report", "--verify", "deep.json", "--json").error["code"] == "invalid_data"
    (klab.folder / "empty.json").write_text("{}")
    assert klab("report", "--verify", "empty.json", "--json").code == 3
    assert klab("report", "--json", expect=2).error["hint"]
    assert klab("report", "--verify", "empty.json", "--list", expect=2)


def test_the_newest_is_taken_and_others_by_number(compared):
    klab = compared
    first = klab.compared["verdict"]["id"]
    done = klab("compare", "reduction.klab", "--variant", "nothing.comp", "--budget", "0", "--json", expect=3)
    second = done.json["verdict"]["id"]
    listed = klab.ok("report", "reduction.klab", "--list", "--json").json["comparisons"]
    assert [c["id"] for c in listed] == [second, first]
    assert listed[0]["variant_name"] == "nothing" and listed[0]["correctness"] == "incorrect"

    klab.ok("report", "reduction.klab", "-o", "wrong.html")
    wrong = json.loads((klab.folder / "wrong.json").read_text())
    assert wrong["verdict"]["comparison"] == second and wrong["verdict"]["speed"] == "none"
    assert "nothing is incorrect" in Page((klab.folder / "wrong.html").read_text()).text
    verify(klab, klab.folder / "wrong.json", 0)

    # By number, without the bundle's name, also when the bundle is gone.
    moved = klab.folder / "elsewhere.klab"
    (klab.folder / "reduction.klab").rename(moved)
    try:
        klab.ok("report", "--comparison", first, "-o", "first.html")
        assert json.loads((klab.folder / "first.json").read_text())["verdict"]["comparison"] == first
        verify(klab, klab.folder / "first.json", 0)
    finally:
        moved.rename(klab.folder / "reduction.klab")
    assert klab("report", "--comparison", "99", "--json").error["code"] == "not_found"


def test_a_bundle_without_a_comparison_says_what_to_do(klab, shared_bundle):
    done = klab("report", shared_bundle("saxpy"), "--json", expect=1)
    assert done.error["code"] == "not_found" and "klab compare" in done.error["hint"], repr(done)
