# SPDX-License-Identifier: Apache-2.0
"""The main claim: each kernel of each example is captured, its bundle verified, its replay proved and measured."""
import pytest

from conftest import SKIPPED, example, run_example
from programs_list import PROGRAMS


def check_replay(answer, iterations=20):
    """What every replay must carry."""
    assert answer["outcome"] == "ok"
    assert answer["asked"] == answer["ran"]
    assert answer["ran"]["mode"] == "isolated" and answer["ran"]["iterations"] == iterations
    assert len(answer["samples_ns"]) == iterations and all(s > 0 for s in answer["samples_ns"])
    assert answer["device"]["api"] == "vulkan" and answer["device"]["name"]
    assert answer["address_mode"] in ("none", "exact", "relocated")
    assert 0 <= answer["restored_bytes_per_iteration"] <= answer["captured_bytes"]
    assert answer["resources"]["code"]["instructions"] > 0


def check_proof(dispatch, varying):
    """Bitwise equal, or the bytes that vary named; returns the cell for the table."""
    proof = dispatch["proof"]
    assert proof["state"] in (("equal", "nondeterministic") if varying else ("equal",)), proof
    if proof["state"] == "nondeterministic":
        named = sum(r["size"] for r in proof["varying"])
        assert 0 < named == proof["varying_bytes"]
        return f"nondeterministic, {named} bytes named"
    return "equal"


CASES = [(p, i) for p in PROGRAMS for i in range(len(p.shaders))]


@pytest.mark.parametrize("p,index", CASES, ids=[" ".join((p.program, *p.args, str(i))) for p, i in CASES])
def test_capture_inspect_replay(klab, record, p, index):
    bare = run_example(p.program, *p.args)
    if bare.returncode == SKIPPED:
        pytest.skip(bare.stdout.strip())
    program = [example(p.program), *p.args]
    kernel = sorted(klab.kernels(*program), key=lambda k: k["name"])[index]
    captured = klab.capture(program, kernel["hash"], "x", "--nth", str(p.nth))
    assert captured.json["target_exit"] == 0
    assert bare.stdout.strip() in captured.err + captured.out, "capture changed what the program computes"

    inspected = klab.ok("inspect", "x.klab", "--json").json
    assert inspected["verified"] and inspected["checked"]["code_objects"] == 1
    (dispatch,) = inspected["manifest"]["dispatches"]
    assert dispatch["nth"] == p.nth and dispatch["name"] == kernel["name"]
    proof = check_proof(dispatch, p.varying)

    replayed = klab("replay", "x.klab", "--iterations", "20", "--json")
    assert replayed.json and replayed.json["ok"], repr(replayed)
    check_replay(replayed.json)
    validation = replayed.json["validation"]
    assert validation["checked_bytes"] > 0 and validation["differing_bytes"] == 0, validation
    if validation["masked_bytes"]:  # what varies cannot be judged bit by bit, and that is said
        assert p.varying and validation["correctness"] == "not_verified" and "vary" in validation["reason"]
        assert validation["masked_bytes"] == 4 and replayed.code == 3
    else:
        assert validation["correctness"] == "correct" and replayed.code == 0, repr(replayed)
    record("replays", program=" ".join((p.program, *p.args)), kernel=kernel["name"], nth=p.nth,
           grid="x".join(map(str, dispatch["grid"])), regions=len(dispatch["regions"]),
           captured_bytes=replayed.json["captured_bytes"],
           restored_bytes=replayed.json["restored_bytes_per_iteration"], addresses=replayed.json["address_mode"],
           proof=proof, replay=validation["correctness"],
           median_us=round(replayed.json["summary"]["median_ns"] / 1e3, 1))


def test_nondeterminism_is_one_named_word(klab):
    klab.capture([example("float_atomics")], None, "x")
    dispatch = klab.ok("inspect", "x.klab", "--json").json["manifest"]["dispatches"][0]
    if dispatch["proof"]["state"] == "equal":
        pytest.skip("this device happened to add in one order each time")
    out = next(b["region"] for b in dispatch["bindings"] if b["binding"] == 1)
    for r in dispatch["proof"]["varying"]:  # only the float sum at the start of the output
        assert r["region"] == out and r["offset"] + r["size"] <= 4, dispatch["proof"]


def test_pointer_table_replay_json(klab):
    program = [example("pointer_table")]
    klab.capture(program, "pointer_table", "near")
    klab.capture(program, "pointer_table", "all", "--scope", "all")
    near = klab.ok("inspect", "near.klab", "--json").json["manifest"]["dispatches"][0]
    everything = klab.ok("inspect", "all.klab", "--json").json["manifest"]["dispatches"][0]
    size = 1 << 17
    names = {r["name"] for r in near["regions"]}
    assert {"table", "result", "values 0"} <= names and "unreached" not in names
    assert "unreached" in {r["name"] for r in everything["regions"]}
    assert all(r["reached_by"] == "pointer" for r in near["regions"])
    near_bytes = sum(r["size"] for r in near["regions"])
    # Four buffers of values and the result, each 4 bytes a value; table and blocks are small.
    assert 5 * 4 * size <= near_bytes < 5 * 4 * size + (64 << 10)
    assert sum(r["size"] for r in everything["regions"]) >= near_bytes + 8 * 4 * size

    answer = klab.ok("replay", "near.klab", "--iterations", "20", "--json").json
    check_replay(answer)
    assert answer["address_mode"] in ("exact", "relocated")
    if answer["address_mode"] == "relocated":
        assert answer["rewritten_words"] >= 4 + 4  # the table's and the blocks' pointers
    else:
        assert answer["address_by"]
    assert answer["captured_bytes"] == near_bytes
    assert 4 * size <= answer["restored_bytes_per_iteration"] < near_bytes
    assert answer["resources"]["code"]["uses_physical_addresses"] is True


def test_only_what_is_written_is_restored(klab):
    """The second half of inplace's buffer is never written."""
    size = 1 << 20
    klab.capture([example("inplace"), "--size", str(size)], None, "x")
    answer = klab.ok("replay", "x.klab", "--json").json
    assert answer["captured_bytes"] == 8 * size
    assert answer["restored_bytes_per_iteration"] == 4 * size


def test_in_place_kernel_does_not_drift(klab):
    """A replay without restoring would compute another value each time; all launches are checked against one."""
    klab.capture([example("inplace")], None, "x", "--nth", "2")
    for iterations in (1, 7):
        answer = klab.ok("replay", "x.klab", "--iterations", str(iterations), "--json").json
        assert answer["validation"]["correctness"] == "correct"


def test_several_executions_in_one_bundle(klab):
    done = klab.capture([example("inplace")], None, "x", "--nth", "1,3,5")
    assert [d["nth"] for d in done.json["dispatches"]] == [1, 3, 5]
    for i in range(3):
        answer = klab.ok("replay", "x.klab", "--dispatch", str(i), "--iterations", "2", "--json").json
        assert answer["validation"]["correctness"] == "correct"
    # An unchanged chunk is stored once: the second half of the buffer is the same in all six states.
    assert done.json["stored_bytes"] < 6 * (8 << 20) * 2 // 3


def test_stop_after_capture_ends_the_program(klab):
    done = klab("capture", "--json", "--kernel", "scale", "-o", "x.klab", "--stop-after-capture", "--",
                example("many_dispatches"), "--iterations", "1000000", timeout=120)
    assert done.code == 0, repr(done)
    assert klab.ok("inspect", "x.klab", "--json").json["verified"]


@pytest.mark.parametrize("condition", ["isolated", "sustained", "repeats"])
def test_conditions_that_ran_are_those_asked(klab, shared_bundle, condition):
    bundle = shared_bundle("reduction")
    done = klab("replay", bundle, "--condition", condition, "--iterations", "4", "--repeats", "3", "--json")
    assert done.code == 0, repr(done)
    assert done.json["ran"]["mode"] == condition and done.json["asked"] == done.json["ran"]
    if condition == "repeats":
        assert len(done.json["replay_averages_ns"]) == 3


def test_sustained_is_refused_for_a_kernel_that_reads_what_it_writes(klab, shared_bundle):
    done = klab("replay", shared_bundle("inplace"), "--condition", "sustained", "--json")
    assert done.code != 0 and done.error.get("what"), repr(done)
    assert "reads" in done.error["what"]


def test_counters_that_the_driver_lacks_are_a_note_and_the_times_stand(klab, shared_bundle):
    done = klab.ok("replay", shared_bundle("saxpy"), "--counters", "--counter", "mine", "--json")
    assert done.json["samples_ns"] and "counters" not in done.json
    assert any("no hardware counters" in note for note in done.json["notes"]), done.json["notes"]


def test_pack_and_unpack_keep_everything(klab, shared_bundle):
    bundle = shared_bundle("reduction")
    klab.ok("bundle", "pack", bundle, "x.klabz")
    klab.ok("bundle", "unpack", "x.klabz", "again.klab")
    one, two = (klab.ok("inspect", b, "--json").json for b in (bundle, "again.klab"))
    assert one["manifest"] == two["manifest"] and two["verified"]
    klab.ok("replay", "again.klab", "--iterations", "2")


def test_fork_is_captured_in_the_child(klab):
    done = klab.capture([example("forked")], None, "x")
    assert done.json["target_exit"] == 0


def test_what_a_program_computed_before_it_crashed_is_not_lost(klab):
    done = klab("capture", "--json", "--kernel", "main", "-o", "x.klab", "--", example("crash"))
    assert done.code in (0, 9), repr(done)
    assert (klab.folder / "x.klab").exists(), "the capture was whole before the program died"
    assert klab.ok("inspect", "x.klab", "--json").json["verified"]
    assert "SIGSEGV" in done.out + done.err


def test_endless_replay_runs_out_of_time(klab):
    """The host ended the kernel in the program; nobody does in the replay."""
    done = klab("capture", "--json", "--no-proof", "--drain", "60", "--kernel", "main", "-o", "x.klab", "--",
                example("endless"))
    assert done.code == 0, repr(done)
    replayed = klab("replay", "x.klab", "--iterations", "1", "--budget", "5", "--json", timeout=120)
    assert replayed.code == 8 and replayed.error["code"] == "timeout", repr(replayed)
    klab.ok("devices")  # the next command works
