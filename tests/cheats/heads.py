# SPDX-License-Identifier: Apache-2.0
"""Reads the heads of the files beside it: what a variant tries, on what, and what must be said of it."""
import dataclasses
import pathlib
import re
import shlex

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Check:
    options: tuple
    verdicts: tuple
    reason: str

    def problem(self, answer):
        """Why the answer of `klab compare --json` is not what was to be said; None: it is."""
        verdict = answer.get("verdict") or {}
        got, reason = verdict.get("correctness"), verdict.get("reason", "")
        if got not in self.verdicts:
            return f"{' '.join(self.options) or 'bitwise'}: {got}, not {' or '.join(self.verdicts)}: {reason}"
        if not re.search(self.reason, reason):
            return f"{' '.join(self.options) or 'bitwise'}: {got}, but for another reason: {reason}"
        return None


@dataclasses.dataclass(frozen=True)
class Cheat:
    name: str
    file: pathlib.Path
    tries: str
    program: str
    args: tuple
    nth: int
    kernel: str
    checks: tuple


def cheats(folder):
    """Those of `vulkan` or `cuda`, in the order of their names."""
    for file in sorted((HERE / folder).iterdir()):
        head = re.findall(r"^// (tries|program|kernel|check): (.*)$", file.read_text(), re.M)
        one = {k: v for k, v in head if k != "check"}
        words = shlex.split(one["program"])
        nth = 1
        if "--nth" in words:
            at = words.index("--nth")
            nth = int(words[at + 1])
            del words[at:at + 2]
        checks = []
        for key, text in head:
            if key != "check":
                continue
            options, said = re.split(r"\s*=> ", text, maxsplit=1)
            verdicts, reason = said.split(": ", 1)
            checks.append(Check(tuple(shlex.split(options)), tuple(verdicts.split("|")), reason))
        assert checks, f"{file} says nothing of what must be said"
        yield Cheat(file.stem, file, one["tries"], words[0], tuple(words[1:]), nth, one["kernel"], tuple(checks))
