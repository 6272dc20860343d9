# SPDX-License-Identifier: Apache-2.0
"""Agents: the official MCP clients drive a whole tuning, and hostile messages each get a proper error."""
import json
import os
import pathlib
import shutil
import select
import subprocess
import time

import pytest

from conftest import BUILD, ROOT, SOURCES, example, no_op

NODE = BUILD / "mcp_node"


@pytest.fixture(scope="session")
def node():
    """The clients of tests/mcp, installed as its package-lock.json says."""
    NODE.mkdir(exist_ok=True)
    for name in ("package.json", "package-lock.json", "clients.mjs", "tuning.mjs"):
        shutil.copy(ROOT / "tests" / "mcp" / name, NODE / name)
    lock = (NODE / "package-lock.json").read_text()
    stamp = NODE / "installed"
    if not stamp.exists() or stamp.read_text() != lock:
        done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=NODE, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
        stamp.write_text(lock)
    return NODE


class Project:
    """A folder with the source of a program that agents may tune."""

    def __init__(self, klab):
        self.folder = klab.folder / "project"
        self.folder.mkdir()
        self.file = self.folder / "inplace.comp"
        shutil.copy(SOURCES / "inplace.comp", self.file)
        self.text = self.file.read_text()
        self.right = self.text.replace("x[i] = x[i] * a + b", "x[i] = a * x[i] + b")
        self.wrong = no_op(self.text)
        self.broken = self.text.replace("x[i] * a", "undefined_name * a")
        assert self.right != self.text and self.broken != self.text
        self.program, self.path, self.language, self.timed, self.build = "inplace", example("inplace"), "glsl", True, {}

    def arguments(self):
        return ["mcp", "--root", str(self.folder), "--program", f"{self.program}={self.path}"]


@pytest.fixture
def project(klab):
    return Project(klab)


def running(klab, program):
    """Whether a process of that program is there that this test's klab started: other tests run the same ones."""
    mine = f"KLAB_HOME={klab.env['KLAB_HOME']}".encode()
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if (entry.name.isdigit() and (entry / "cmdline").read_bytes().split(b"\0")[0] == program.encode()
                    and mine in (entry / "environ").read_bytes().split(b"\0")):
                return True
        except OSError:
            continue
    return False


def until(condition, limit=60):
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


def drive(node, klab, project, kind, server, save, timeout=280):
    major = int(subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.lstrip("v").split(".")[0])
    if kind != "v1" and major < 20:
        pytest.skip(f"@modelcontextprotocol/client 2.x needs Node 20; this is {major}")
    # The dispatch whose code the file's own source compiles to.
    kernel = klab.kernels(project.path)[0]["hash"]
    job = {"kind": kind, "server": server, "program": project.program, "kernel": kernel, "language": project.language,
           "timed": project.timed, "build": project.build, "file": str(project.file),
           "right": project.right, "wrong": project.wrong, "broken": project.broken, "save": save,
           "env": klab.env, "approve": klab.argv("session", "approve")}
    done = subprocess.run(["node", "tuning.mjs", json.dumps(job)], cwd=node, capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, **klab.env})
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-4000:]}"
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("kind,save", [("v1", "elicit"), ("v1", "token"), ("v2", "elicit"), ("v2", "decline"),
                                       ("v2-modern", "elicit"), ("v2-modern", "token")])
def test_whole_tuning_over_stdio(node, klab, project, kind, save):
    server = {"command": str(BUILD / "klab"), "args": project.arguments(), "env": klab.env}
    steps = drive(node, klab, project, kind, server, save)
    assert [s["step"] for s in steps] == ["tools", "open", "capture", "search", "variants", "save", "status", "close"]
    # Everything that was done is in the session's log.
    session = steps[1]["session"]
    kinds = [e["kind"] for e in klab.ok("session", "show", session, "--view", "events", "--json", "--limit", "200").json["items"]]
    for kind in ("open", "capture", "search", "select_source", "build", "run", "compare", "save_asked", "close"):
        assert kind in kinds, kinds


class Http:
    def __init__(self, klab, project, *more):
        token = klab.folder / "token"
        self.child = subprocess.Popen(klab.argv(*project.arguments(), "--http", "0", "--token-file", token, *more), env=klab.env,
                                      cwd=klab.folder, stderr=subprocess.PIPE, text=True)
        line = self.child.stderr.readline()
        assert "serving MCP at http://127.0.0.1:" in line, line
        self.url = line.split()[-1]
        self.child.stderr.readline()
        self.token = token.read_text().strip()
        assert token.stat().st_mode & 0o777 == 0o600

    def post(self, body, **headers):
        """(status, headers, body) of one POST; a header given as None is left out."""
        import http.client
        host = self.url.split("/")[2]
        c = http.client.HTTPConnection(host, timeout=60)
        all_headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json",
                       "Accept": "application/json, text/event-stream", **headers}
        data = body if isinstance(body, (bytes, str)) else json.dumps(body)
        c.putrequest("POST", "/mcp", skip_host="Host" in all_headers)
        data = data.encode() if isinstance(data, str) else data
        for k, v in all_headers.items():
            if v is not None:
                c.putheader(k, v)
        c.putheader("Content-Length", str(len(data)))
        c.endheaders()
        try:
            c.send(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all of it was read
        r = c.getresponse()
        return r.status, r.headers, r.read()

    def end(self):
        self.child.terminate()
        self.child.wait(30)
        self.child.stderr.close()


@pytest.fixture
def http(klab, project):
    server = Http(klab, project)
    yield server
    assert server.child.poll() is None, "the server did not live"
    server.end()


@pytest.mark.parametrize("kind,save", [("v1", "elicit"), ("v2", "token"), ("v2-modern", "elicit")])
def test_whole_tuning_over_http(node, klab, project, http, kind, save):
    steps = drive(node, klab, project, kind, {"url": http.url, "token": http.token}, save)
    assert steps[-1]["step"] == "close"


INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
              "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def test_http_lets_in_only_who_has_the_token(http):
    assert http.post(INITIALIZE)[0] == 200
    for wrong in (None, "Bearer", "Bearer " + "0" * 64, "Bearer " + http.token[:-1], "Basic " + http.token, "Bearer " + http.token + "x"):
        assert http.post(INITIALIZE, Authorization=wrong)[0] == 401, wrong
    assert http.post(INITIALIZE, Host="evil.example")[0] == 403
    assert http.post(INITIALIZE, Host="127.0.0.1.evil.example:80")[0] == 403
    assert http.post(INITIALIZE, Origin="http://evil.example")[0] == 403
    assert http.post(INITIALIZE, Origin=http.url[:-len("/mcp")])[0] == 200


def test_http_refuses_what_is_no_message(http):
    assert http.post("{")[0] == 400
    assert http.post("[" * 100000)[0] == 400
    assert http.post("[]")[0] == 400
    assert http.post(b"\xff\xfe")[0] == 400
    assert http.post("x" * (17 << 20))[0] == 413
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    assert http.post(ping)[0] == 400, "no session"
    assert http.post(ping, **{"Mcp-Session-Id": "nobody"})[0] == 404
    status, headers, body = http.post(INITIALIZE)
    assert status == 200 and json.loads(body)["result"]["protocolVersion"] == "2025-11-25"
    assert http.post(ping, **{"Mcp-Session-Id": headers["Mcp-Session-Id"]})[0] == 200


def test_http_modern_headers_must_agree(http):
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
    right = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
    status, _, body = http.post(call, **right)
    assert status == 200 and json.loads(body)["result"]["ttlMs"] > 0
    for headers in ({**right, "Mcp-Method": "tools/call"}, {**right, "MCP-Protocol-Version": "2025-11-25"}, {"Mcp-Method": "tools/list"}):
        status, _, body = http.post(call, **headers)
        assert status == 400 and json.loads(body)["error"]["code"] == -32020, (headers, body)
    other = json.loads(json.dumps(call).replace("2026-07-28", "2031-01-01"))
    status, _, body = http.post(other, **{**right, "MCP-Protocol-Version": "2031-01-01"})
    assert status == 400 and json.loads(body)["error"]["code"] == -32022
    assert "2026-07-28" in json.loads(body)["error"]["data"]["supported"]
    status, _, body = http.post({**call, "method": "no/such"}, **{**right, "Mcp-Method": "no/such"})
    assert status == 404 and json.loads(body)["error"]["code"] == -32601


class Stdio:
    """A raw client: lines out, lines in."""

    def __init__(self, klab, *args):
        self.child = subprocess.Popen(klab.argv(*args), env=klab.env, cwd=klab.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE)
        self.next, self.pending = 100, b""
        assert self.request("initialize", INITIALIZE["params"])["result"]["serverInfo"]["name"] == "klab"

    def send(self, message):
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.child.stdin.write(line + b"\n")
        self.child.stdin.flush()

    def read(self, limit=120):
        while b"\n" not in self.pending:
            assert select.select([self.child.stdout], [], [], limit)[0], "no answer came"
            got = os.read(self.child.stdout.fileno(), 1 << 16)
            assert got, "the server ended: " + self.child.stderr.read().decode()[-2000:]
            self.pending += got
        line, self.pending = self.pending.split(b"\n", 1)
        return json.loads(line)

    def request(self, method, params):
        self.next += 1
        self.send({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})
        while True:
            answer = self.read()
            if answer.get("id") == self.next:
                return answer

    def tool(self, tool, /, **arguments):
        result = self.request("tools/call", {"name": tool, "arguments": arguments})["result"]
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result["isError"], result["structuredContent"]

    def lives(self):
        assert self.request("ping", {})["result"] == {}

    def end(self):
        self.child.stdin.close()
        assert self.child.wait(30) == 0
        self.child.stdout.close()
        self.child.stderr.close()


@pytest.fixture
def stdio(klab, project):
    server = Stdio(klab, *project.arguments())
    yield server
    server.end()


def test_stdio_broken_messages_get_errors(stdio):
    for line, code in ((b"{", -32700), (b"[" * 100000, -32700), (b"[]", -32600), (b"17", -32600), (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
                       (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600), (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602),
                       (b'\xff\xfe\x00', -32700), (b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 1000 + b'"}', -32600)):
        stdio.send(line)
        assert stdio.read()["error"]["code"] == code, line[:60]
    stdio.send(b'"' + b"y" * (17 << 20) + b'"')
    assert stdio.read()["error"]["code"] == -32600
    assert stdio.request("no/such", {})["error"]["code"] == -32601
    assert stdio.request("tools/call", {})["error"]["code"] == -32602
    assert stdio.request("tools/call", {"name": "rm"})["error"]["code"] == -32602
    assert stdio.request("resources/read", {"uri": "file:///etc/passwd"})["error"]["code"] == -32002
    assert stdio.request("resources/read", {"uri": "klab://session/../../log"})["error"]["code"] == -32002
    assert stdio.request("prompts/get", {"name": "x"})["error"]["code"] == -32602
    stdio.lives()


def test_hostile_arguments_get_errors(stdio, klab, project):
    (project.folder / "link.comp").symlink_to("/etc/passwd")
    (project.folder / "up").symlink_to("/")
    failed, opened = stdio.tool("tuning_open", program="inplace")
    assert not failed, opened
    session = opened["session"]["id"]

    def refused(tool, /, _codes=("usage", "not_allowed", "not_found", "illegal_state"), **arguments):
        failed, data = stdio.tool(tool, **arguments)
        assert failed and data["code"] in _codes and data["message"] and "hint" in data and "retryable" in data, data
        return data

    refused("tuning_open", program="/bin/sh")
    refused("tuning_open", program="inplace; rm -rf /")
    refused("tuning_open", command="/bin/sh")
    refused("tuning_open", bundle="/etc")
    refused("tuning_open", roots=["/"])
    refused("tuning_status", session="nobody")
    refused("tuning_status", session=session, view="secrets")
    refused("tuning_status", session=session, limit=100000)
    refused("tuning_status", session=session, cursor="'; DROP TABLE runs; --", view="runs")
    refused("tuning_status", session=17)
    refused("tuning_action", session=session, action="shell")
    refused("tuning_action", session=session, action="run", iterations=10 ** 9)
    refused("tuning_action", session=session, action="run", kernel_options="-o /etc/passwd")
    refused("tuning_action", session=session, action="search", query="x", iterations=3)
    for file in ("/etc/passwd", "../../../etc/passwd", str(project.folder / "link.comp"), str(project.folder / "up/etc/passwd"), "link.comp",
                 str(project.folder / ".." / "project2"), "a\0b", "x" * 5000, ".", ""):
        refused("tuning_action", session=session, action="select", file=file)
        if file not in (".", ""):  # the root itself may be searched
            refused("tuning_action", session=session, action="search", query="x", root=file)
    refused("tuning_action", session=session, action="run")  # nothing is captured
    refused("tuning_action", session=session, action="save", variant="x")
    refused("tuning_action", session=session, action="tune", _codes=("unsupported",))
    failed, captured = stdio.tool("tuning_action", session=session, action="capture", kernel=".", wait_seconds=60)
    assert not failed, captured
    for text in ('#include "/etc/passwd"', '#include "../../../../etc/passwd"', "#include SECRET", "#  include </etc/shadow>"):
        source = project.text.replace("layout(local", text + "\nlayout(local", 1)
        data = refused("tuning_action", session=session, action="build", language="glsl", source_text=source)
        assert "root:" not in json.dumps(data)
    for source in ("/etc/passwd", str(project.folder / "link.comp"), "../x.comp"):
        refused("tuning_action", session=session, action="build", source=source)
    refused("tuning_action", session=session, action="build", language="glsl", source_text="y" * (9 << 20))
    refused("tuning_action", session=session, action="build", language="glsl", source_text=project.text, include_folders=["/etc"])
    refused("tuning_action", session=session, action="build", language="glsl", source_text=project.text, name="../../x")
    refused("tuning_action", session=session, action="save", variant="baseline", file="/etc/passwd")
    refused("read_source", session=session, variant="../../etc/passwd")
    # Cancelling what has ended, or never was, is nothing; a second close loses.
    stdio.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 101}})
    stdio.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "nobody"}})
    stdio.send({"jsonrpc": "2.0", "method": "notifications/cancelled"})
    for n in (1, 2):
        stdio.send({"jsonrpc": "2.0", "id": f"close{n}", "method": "tools/call", "params": {"name": "tuning_close", "arguments": {"session": session}}})
    results = [stdio.read()["result"]["isError"] for _ in range(2)]
    assert sorted(results) == [False, True]
    assert not (pathlib.Path("/etc/passwd").read_text().startswith("#version"))
    stdio.lives()


def test_cancel_stops_the_work_for_real(klab, project):
    server = Stdio(klab, "mcp", "--root", str(project.folder), "--program", f"endless={example('endless')}")
    failed, opened = server.tool("tuning_open", program="endless")
    session = opened["session"]["id"]
    server.send({"jsonrpc": "2.0", "id": "slow", "method": "tools/call",
                 "params": {"name": "tuning_action", "arguments": {"session": session, "action": "capture", "kernel": "nobody_has_this",
                                                                   "wait_seconds": 100}, "_meta": {"progressToken": 1}}})
    until(lambda: running(klab, example("endless")))  # its program runs
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}})
    server.lives()
    until(lambda: server.tool("tuning_status", session=session, view="jobs")[1]["items"][0]["state"] == "cancelled")
    seen = server.tool("tuning_status", session=session)[1]
    assert seen["session"]["state"] == "opened"
    assert not running(klab, example("endless")), "the program still runs"
    server.end()


def test_read_only_server_has_no_tool_that_changes_anything(klab, project):
    server = Stdio(klab, *project.arguments(), "--read-only")
    tools = server.request("tools/list", {})["result"]["tools"]
    assert tools and all(t["annotations"]["readOnlyHint"] for t in tools), [t["name"] for t in tools]
    assert server.request("tools/call", {"name": "tuning_open", "arguments": {}})["error"]["code"] == -32602
    server.end()


def test_allowed_folder_is_saved_without_a_question(klab, project):
    server = Stdio(klab, *project.arguments(), "--allow-save", str(project.folder))
    session = server.tool("tuning_open", program="inplace")[1]["session"]["id"]
    assert not server.tool("tuning_action", session=session, action="capture", kernel=klab.kernels(example("inplace"))[0]["hash"], wait_seconds=60)[0]
    assert not server.tool("tuning_action", session=session, action="select", file=str(project.file))[0]
    judged = server.tool("tuning_action", session=session, action="compare", language="glsl", source_text=project.right, name="r", measure_s=0,
                         wait_seconds=100)
    assert judged[1]["verdict"]["correctness"] == "correct", judged
    failed, saved = server.tool("tuning_action", session=session, action="save", variant="r")
    assert not failed and saved["state"] == "saved", saved
    assert project.file.read_text() == project.right
    server.end()
