# SPDX-License-Identifier: Apache-2.0
"""The laboratory page, in Debian's Chromium: a whole laboratory; and who must not come in, or not for long."""
import http.client
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

from conftest import ROOT, SOURCES, Klab, example

HERE = pathlib.Path(__file__).resolve().parent
needs_browser = pytest.mark.skipif(not shutil.which("chromium") or not shutil.which("node"),
                                   reason="no chromium or no node (tools/setup page)")


class Page:
    """`klab serve` on the inplace example, with its source in a folder of its own."""

    def __init__(self, folder, *options):
        self.klab = Klab(folder)
        self.klab.env["KLAB_HUB_IDLE_S"] = "60"
        self.folder = folder / "project"
        self.folder.mkdir()
        self.file = self.folder / "inplace.comp"
        shutil.copy(SOURCES / "inplace.comp", self.file)
        url = folder / "url"
        self.child = self.klab.start("serve", "--root", self.folder, "--url-file", url, "--socket", folder / "s",
                                     *options, "--", example("inplace"))
        deadline = time.monotonic() + 20
        while not url.exists():
            assert self.child.poll() is None and time.monotonic() < deadline, self.child.stderr.read()
            time.sleep(0.02)
        self.url = url.read_text().strip()
        self.port = int(self.url.split(":")[2].split("/")[0])
        self.token = self.url.split("#t=")[1]

    def close(self):
        self.child.send_signal(signal.SIGINT)
        out, err = self.child.communicate(timeout=30)
        self.klab("hub", "stop", "--force")
        assert self.child.returncode in (0, 130), err
        assert self.token not in out + err, "the key stands in the file alone"

    def ask(self, method="GET", path="/api/about", body=None, host=None, timeout=20, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        given = {"Host": host or f"127.0.0.1:{self.port}", "Authorization": f"Bearer {self.token}",
                 "Content-Type": "application/json"}
        given.update({k.replace("_", "-"): v for k, v in headers.items()})
        connection.request(method, path, body, {k: v for k, v in given.items() if v is not None})
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, data

    def call(self, verb, **arguments):
        status, data = self.ask("POST", "/api/call", json.dumps({"verb": verb, "arguments": arguments}))
        assert status == 200, data
        return json.loads(data)

    def alive(self):
        started = time.monotonic()
        assert "sessions" in self.call("session.list")["result"]
        assert self.ask(path="/")[0] == 200
        return time.monotonic() - started


@pytest.fixture
def page(tmp_path):
    served = Page(tmp_path)
    yield served
    served.close()


@needs_browser
def test_a_whole_laboratory(page, tmp_path):
    subprocess.run([ROOT / "tools" / "page", "--packages"], check=True, timeout=600)
    result = tmp_path / "result.json"
    done = subprocess.run(["node", HERE / "whole.mjs", page.url, page.file, result], capture_output=True, text=True,
                          timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    saw = json.loads(result.read_text())
    assert saw["axe"] == [], saw["axe"]
    assert saw["outside"] == [], "nothing is asked of anybody else"
    assert saw["complaints"] == [], saw["complaints"]
    # What the page did is in the session as the command line shows it.
    shown = page.klab.ok("session", "show", saw["session"], "--json").json["session"]
    assert shown["state"] == "closed" and shown["made_by"] == "page" and shown["runs"] >= 3
    kinds = [e["kind"] for e in page.klab.ok("session", "show", saw["session"], "--view", "events", "--json").json["items"]]
    for kind in ("trace", "capture", "build", "run", "compare", "save", "undone", "freed"):
        assert kind in kinds, kinds


def test_without_the_key_nobody_comes_in(page):
    assert page.ask()[0] == 200
    assert page.ask(Authorization=None)[0] == 401
    for wrong in ("Bearer x", "Bearer " + page.token[:-1], "Bearer " + page.token + "0", "Basic " + page.token, ""):
        for method, path in (("GET", "/api/about"), ("GET", "/api/stream"), ("POST", "/api/call")):
            status, data = page.ask(method, path, "{}", Authorization=wrong)
            assert status == 401 and page.token.encode() not in data, (wrong, path)
    for path in ("/", "/app.js"):
        assert page.token.encode() not in page.ask(path=path, Authorization=None)[1]


def test_other_pages_and_rebound_names_are_refused(page):
    for host in ("evil.example", f"evil.example:{page.port}", "127.0.0.1.evil.example", ""):
        assert page.ask(host=host)[0] in (400, 403), host
        assert page.ask(path="/", host=host)[0] in (400, 403), host
    for origin in ("http://evil.example", "null", "https://127.0.0.1"):
        assert page.ask(Origin=origin)[0] == 403, origin
    assert page.ask(Sec_Fetch_Site="cross-site")[0] == 403
    assert page.ask("POST", "/api/call", "{}", Content_Type="text/plain")[0] == 415
    assert page.ask("OPTIONS", "/api/call")[0] in (403, 405)
    assert page.ask(host=f"localhost:{page.port + 1}")[0] == 200, "a forwarded port has another number"


def test_no_path_leads_out(page):
    for path in ("/../../../../etc/passwd", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd",
                 "/assets/../../gate.h", "/index.html/../../x", "/\\..\\..\\etc\\passwd", "/app.js%00.html"):
        status, data = page.ask(path=path)
        assert status in (400, 404) and b"root:" not in data, path
    for arguments in ({"list": "/etc/passwd"}, {"list": str(page.folder / ".." / ".." / "x")}):
        assert "error" in page.call("dispatches.rows", **arguments)
    assert page.call("session.open", bundle="/etc")["error"]["code"] == "usage"
    assert "error" in page.call("session.open", program="sh")
    assert "error" in page.call("session.open", roots=["/"])


def test_long_bodies_and_slow_clients_are_bounded(page):
    big = b"x" * (100 << 20)
    status, data = page.ask("POST", "/api/call", big, timeout=60)
    assert status == 413, data
    # A body whose length nobody says, until it is too long.
    with socket.create_connection(("127.0.0.1", page.port), timeout=60) as s:
        s.sendall(f"POST /api/call HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\nAuthorization: Bearer {page.token}\r\n"
                  "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        sent = 0
        try:
            while sent < 64 << 20:
                s.sendall(b"100000\r\n" + b"x" * (1 << 20) + b"\r\n")
                sent += 1 << 20
        except OSError:
            pass
        assert sent < 40 << 20, "it was cut off"
    with socket.create_connection(("127.0.0.1", page.port), timeout=60) as s:
        s.sendall(b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000)
        s.settimeout(30)
        try:
            assert s.recv(100) in (b"",) or True
        except OSError:
            pass
    # One that sends a byte now and then has ten seconds for its header.
    with socket.create_connection(("127.0.0.1", page.port), timeout=60) as s:
        started = time.monotonic()
        s.settimeout(1)
        while time.monotonic() - started < 20:
            try:
                s.sendall(b"G")
                if s.recv(10) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() - started < 15
    page.alive()


def test_five_hundred_connections_do_not_keep_the_user_out(page):
    kept = []
    try:
        for _ in range(500):
            s = socket.create_connection(("127.0.0.1", page.port), timeout=5)
            kept.append(s)
        slowest = max(page.alive() for _ in range(5))
        assert slowest < 10, slowest
        files = len(list(pathlib.Path(f"/proc/{page.child.pid}/fd").iterdir()))
        assert files < 400, files
    finally:
        for s in kept:
            s.close()
    page.alive()


def test_events_reach_the_page_and_a_gone_listener_costs_nothing(page):
    with socket.create_connection(("127.0.0.1", page.port), timeout=20) as s:
        s.sendall(f"GET /api/stream?after=0 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {page.token}\r\n\r\n".encode())
        text = b""
        while b"event: hello" not in text:
            text += s.recv(65536)
        opened = page.klab.ok("session", "open", "--root", page.folder, "--json").json["session"]["id"]
        deadline = time.monotonic() + 20
        while f'"session":"{opened}"'.encode() not in text:
            assert time.monotonic() < deadline, text
            text += s.recv(65536)
        for kind in (b"id: ", b"event: event", b'"kind":"open"'):
            assert kind in text
    for _ in range(40):
        s = socket.create_connection(("127.0.0.1", page.port), timeout=20)
        s.sendall(f"GET /api/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {page.token}\r\n\r\n".encode())
        s.close()
    page.klab.ok("session", "open", "--root", page.folder, "--json")
    deadline = time.monotonic() + 20
    while len(list(pathlib.Path(f"/proc/{page.child.pid}/fd").iterdir())) > 40:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_client_that_leaves_takes_its_call_back(page):
    job = page.call("job.start", verb="calibrate", arguments={"budget_s": 30})["result"]["job"]
    assert page.call("job.wait", job=job, wait_s=0)["result"]["job"]["state"] in ("queued", "running")
    assert page.call("job.cancel", job=job)["result"]["job"]["state"] == "cancelled"
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=20)
    connection.request("POST", "/api/call", json.dumps({"verb": "calibrate", "arguments": {"budget_s": 60}}),
                       {"Host": "localhost", "Authorization": f"Bearer {page.token}", "Content-Type": "application/json"})
    time.sleep(1)
    assert page.klab.ok("hub", "status", "--json").json["at_work"] >= 1
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    deadline = time.monotonic() + 30
    while page.klab.ok("hub", "status", "--json").json["at_work"] > 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_read_only_and_the_socket(tmp_path):
    served = Page(tmp_path, "--read-only")
    try:
        for verb in ("session.open", "session.run", "session.save", "session.undo", "calibrate", "job.start"):
            assert served.call(verb)["error"]["code"] == "not_allowed", verb
        assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(tmp_path / "s"))
            s.sendall(f"GET /api/about HTTP/1.1\r\nHost: localhost:9\r\nAuthorization: Bearer {served.token}\r\nConnection: close\r\n\r\n".encode())
            text = b""
            while data := s.recv(65536):
                text += data
            assert b"200 OK" in text and b'"read_only":true' in text
    finally:
        served.close()


def test_a_million_dispatches_are_a_page_at_a_time(page):
    path = page.folder / "many.jsonl"
    with path.open("w") as f:
        f.write(json.dumps({"klab_dispatch_list": 1, "source": "made", "kernels": 3, "rows": 200_000, "device": {}, "program": {}}) + "\n")
        for k in range(3):
            f.write(json.dumps({"kernel": f"kernel_{k}", "entry_point": "main", "hash": str(k), "code_hash": "", "block": [64, 1, 1]}) + "\n")
        for i in range(200_000):
            f.write(f'[{i % 3},{i + 1},{i // 3 + 1},[{i % 7 + 1},1,1],"vkCmdDispatch",{i % 2},{i * 100},{i * 37 % 1000 + 1}]\n')
    first = page.call("dispatches.rows", list=str(path), sort="gpu_ns", descending=True, limit=3)["result"]
    assert first["total"] == 200_000 and [r["gpu_ns"] for r in first["items"]] == [1000, 1000, 1000]
    last = page.call("dispatches.rows", list=str(path), sort="gpu_ns", descending=True, offset=199_999, limit=3)["result"]
    assert [r["gpu_ns"] for r in last["items"]] == [1]
    some = page.call("dispatches.rows", list=str(path), kernel=1, queue=1, offset=10, limit=2)["result"]
    assert all(r["kernel"] == 1 and r["queue"] == 1 for r in some["items"]) and some["total"] == 33_333
    kernels = page.call("dispatches.kernels", list=str(path))["result"]
    assert sum(k["calls"] for k in kernels["items"]) == 200_000
    lanes = page.call("dispatches.timeline", list=str(path), bins=100)["result"]
    assert len(lanes["queues"]) == 2 and len(lanes["queues"][0]["bins"]) == 100 and "spans" not in lanes
    near = page.call("dispatches.timeline", list=str(path), bins=10, from_ns=0, to_ns=5000)["result"]
    assert 50 <= len(near["spans"]) <= 51
