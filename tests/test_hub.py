# SPDX-License-Identifier: Apache-2.0
"""The hub: one for a user and home, a queue for each device, work that survives or ends with who asked."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from conftest import BUILD, example


def status(klab):
    return klab.ok("hub", "status", "--json").json


def until(condition, limit=60):
    deadline = time.monotonic() + limit
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)
    return value


@pytest.fixture
def bundle(klab, shared_bundle):
    return shared_bundle("inplace")


def test_two_at_once_start_one_hub_which_loads_no_driver(klab, bundle):
    children = [klab.start("--json", "replay", bundle, "--iterations", "2") for _ in range(6)]
    for child in children:
        out, err = child.communicate(timeout=120)
        assert child.returncode == 0, err
    pid = status(klab)["pid"]
    hubs = [p for p in pathlib.Path("/proc").iterdir() if p.name.isdigit() and is_hub_of(p, klab)]
    assert [int(p.name) for p in hubs] == [pid]
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
    assert "libvulkan" not in maps and "libcuda" not in maps and "libvulkan_lvp" not in maps
    klab.ok("hub", "stop")
    until(lambda: not pathlib.Path(f"/proc/{pid}").exists())
    assert not status(klab)["running"]


def is_hub_of(proc, klab):
    try:
        return (proc / "cmdline").read_bytes().split(b"\0")[1:3] == [b"hub", b"run"] and \
            f"KLAB_HOME={klab.env['KLAB_HOME']}".encode() in (proc / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def test_twenty_sessions_at_once_finish_one_gpu_job_at_a_time(klab, bundle):
    ids = [klab.ok("session", "open", "--bundle", bundle, "--json").json["session"]["id"] for _ in range(20)]
    children = [klab.start("--json", "session", "run", i, "--iterations", "2") for i in ids]
    most_running, most_waiting, seen_places = 0, 0, set()
    while any(c.poll() is None for c in children):
        s = status(klab)
        if s["running"]:
            running = [q for q in s["queue"] if q["place"] == 0]
            most_running = max(most_running, len(running))
            seen_places |= {q["place"] for q in s["queue"]}
            most_waiting = max(most_waiting, len(s["queue"]) - len(running))
    for child in children:
        out, err = child.communicate()
        assert child.returncode == 0 and json.loads(out)["validation"]["correctness"] == "correct", err
    assert most_running == 1 and most_waiting >= 2 and {0, 1, 2} <= seen_places, (most_running, most_waiting, seen_places)
    for i in ids:
        assert klab.ok("session", "show", i, "--json").json["session"]["state"] == "idle"


def test_a_second_job_in_a_session_is_refused_with_the_one_that_runs(klab, bundle):
    s = klab.ok("session", "open", "--bundle", bundle, "--json").json["session"]["id"]
    first = klab.start("--json", "session", "run", s, "--iterations", "2000")
    running = until(lambda: klab.ok("session", "show", s, "--json").json.get("running"))
    refused = klab("session", "run", s, "--json", expect=1)
    assert refused.error["code"] == "illegal_state" and str(running["job"]) in refused.error["what"], refused
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=60)
    assert first.returncode == 130
    until(lambda: klab.ok("session", "show", s, "--json").json["session"]["state"] != "running")


def test_a_client_that_dies_ends_its_call(klab, bundle):
    child = klab.start("replay", bundle, "--iterations", "10000")
    until(lambda: status(klab).get("at_work", 0) > 0)
    child.kill()
    child.communicate()
    until(lambda: status(klab)["at_work"] == 0)
    klab.ok("replay", bundle, "--iterations", "1")


def test_a_hub_that_is_killed_loses_nothing_that_was_reported(klab, bundle):
    s = klab.ok("session", "open", "--bundle", bundle, "--json").json["session"]["id"]
    run = klab.ok("session", "run", s, "--iterations", "2", "--json").json["run"]
    child = klab.start("--json", "session", "run", s, "--iterations", "10000")
    until(lambda: klab.ok("session", "show", s, "--json").json.get("running"))
    os.kill(status(klab)["pid"], signal.SIGKILL)
    out, err = child.communicate(timeout=60)
    assert child.returncode != 0 and "hub" in json.loads(out)["error"]["what"]
    klab.ok("session", "run", s, "--iterations", "2")  # a new hub; the session is at rest again
    items = klab.ok("session", "show", s, "--view", "runs", "--json").json["items"]
    assert run in [i["run"] for i in items] and len(items) == 2
    jobs = klab.ok("session", "show", s, "--view", "jobs", "--json").json["items"]
    assert sorted(j["state"] for j in jobs) == ["done", "done", "lost"], jobs


def test_events_of_one_front_end_reach_another(klab, bundle):
    s = klab.ok("session", "open", "--bundle", bundle, "--json").json["session"]["id"]
    after = klab.ok("session", "show", s, "--view", "events", "--json").json["items"][-1]["id"]
    watcher = klab.start("--json", "session", "events", s, "--follow", "--after", after)
    klab.ok("session", "run", s, "--iterations", "1")
    seen = [json.loads(watcher.stdout.readline()) for _ in range(2)]
    assert [e["kind"] for e in seen] == ["begin", "run"]
    watcher.send_signal(signal.SIGINT)
    watcher.communicate(timeout=30)


def raw(klab, data):
    """What the hub answers to these bytes."""
    import socket
    path = status(klab)["socket"]
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(str(path))
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            got = b""
            while piece := s.recv(65536):
                got += piece
            return got
        except (BrokenPipeError, ConnectionResetError):
            return b""


def frame(message):
    text = message if isinstance(message, bytes) else json.dumps(message).encode()
    return len(text).to_bytes(4, "little") + text


def test_garbage_on_the_socket_harms_nobody(klab, bundle):
    klab.ok("devices")
    pid = status(klab)["pid"]
    hello = frame({"hello": {}})
    for data in (b"", b"\0", b"garbage" * 1000, b"\xff\xff\xff\xff", frame(b"{"), frame(b"[" * 100000), frame({"hello": 1}) + b"\x05",
                 hello + frame([]), hello + frame({"verb": 7}), hello + frame({"verb": "rm -rf"}), hello + frame({"verb": "replay", "arguments": []}),
                 hello + frame({"verb": "replay", "arguments": {"bundle": "\0"}}), hello + frame({"verb": "replay", "environment": {"A": 1}}),
                 hello + frame({"verb": "job.wait", "arguments": {"job": "x"}}), hello + frame({"verb": "job.cancel", "arguments": {"job": 10 ** 12}})):
        raw(klab, data)
    klab.ok("replay", bundle, "--iterations", "1")
    assert status(klab)["pid"] == pid


def test_who_asks_once_it_is_told_to_stop_finds_none_and_can_start_the_next(klab, bundle):
    before = set()
    for _ in range(5):
        klab.ok("replay", bundle, "--json")
        pid = klab.ok("hub", "status", "--json").json["pid"]
        assert pid not in before
        before.add(pid)
        klab.ok("hub", "stop")
        assert not klab.ok("hub", "status", "--json").json["running"]


def test_a_hub_of_another_version_is_replaced_when_it_is_idle(klab, bundle):
    """Another build of klab is another file: the copy's hub and ours do not work together."""
    copy = klab.folder / "other"
    copy.mkdir()
    for name in ("klab", "klab-worker", "klab-compile"):
        shutil.copy2(BUILD / name, copy / name)
    first = subprocess.run([copy / "klab", "--json", "replay", bundle, "--iterations", "1"], env=klab.env, capture_output=True, text=True)
    assert first.returncode == 0, first.stderr
    old = status_of(copy / "klab", klab)["pid"]
    klab.ok("replay", bundle, "--iterations", "1")
    assert status(klab)["pid"] != old
    until(lambda: not pathlib.Path(f"/proc/{old}").exists())


def status_of(program, klab):
    return json.loads(subprocess.run([program, "hub", "status", "--json"], env=klab.env, capture_output=True, text=True).stdout)


def test_without_a_place_for_the_socket_the_work_is_done_here(klab, bundle):
    blocked = pathlib.Path(tempfile.mkdtemp(prefix="k"))  # short: a longer path is too long for a socket
    (blocked / "klab").write_text("no folder")
    done = klab.ok("replay", bundle, "--iterations", "1", env={"XDG_RUNTIME_DIR": str(blocked)})
    shutil.rmtree(blocked)
    assert "in this process" in done.err and "median" in done.out


def test_the_device_is_locked_against_everybody(klab, bundle):
    """Also against commands without a hub, and other homes; the wait is no part of the budget."""
    locks = {"KLAB_LOCKS": str(klab.folder / "locks"), "KLAB_NO_HUB": "1"}
    first = klab.start("replay", bundle, "--iterations", "600", env=locks)
    until(lambda: list((klab.folder / "locks").glob("*.lock")) if (klab.folder / "locks").exists() else None)
    second = klab.start("replay", bundle, "--iterations", "1", "--budget", "3", env={**locks, "KLAB_HOME": str(klab.folder / "other-home")})
    out, err = second.communicate(timeout=120)
    first.communicate(timeout=120)
    assert first.returncode == 0 and second.returncode == 0, err
    assert "waiting for the device: held by process" in err, err


def test_a_place_for_locks_that_is_none_is_a_note(klab, bundle):
    (klab.folder / "locks").write_text("no folder")
    done = klab.ok("replay", bundle, "--iterations", "1", "--json", env={"KLAB_LOCKS": str(klab.folder / "locks"), "KLAB_NO_HUB": "1"})
    assert any("could not be locked" in n for n in done.json["notes"]), done.json["notes"]
