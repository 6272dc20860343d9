# SPDX-License-Identifier: Apache-2.0
"""A klab-worker that stays warm, asked as klab asks it (src/replay/protocol.h): length-prefixed JSON on descriptor 3.

The command line starts a worker for each command; what a replay costs in one that holds the bundle is seen only here.
"""
import json
import os
import socket
import struct
import subprocess

from lab import Failure


class Worker:
    """`with Worker(ctx) as worker: worker.ask(...)`. Ends with the block."""

    def __init__(self, ctx):
        self.ctx = ctx
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.log = open(ctx.folder / "worker.log", "w+b")
        number = theirs.fileno()

        def place():
            if number == 3:
                os.set_inheritable(3, True)
            else:
                os.dup2(number, 3, inheritable=True)

        # Every other descriptor of ours closes when the worker starts; only 3 is handed over.
        self.child = subprocess.Popen([str(ctx.lab.build / "klab-worker")], cwd=ctx.folder, env=ctx.env,
                                      stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, close_fds=False,
                                      preexec_fn=place)
        theirs.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ours.close()
        try:
            self.child.wait(15)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.log.close()

    def receive(self, size):
        data = b""
        while len(data) < size:
            try:
                part = self.ours.recv(size - len(data))
            except socket.timeout:
                raise Failure("the worker gave no answer in time") from None
            except OSError as error:
                raise Failure(f"the worker's socket: {error}") from None
            if not part:
                raise Failure("the worker is gone: " + self.said())
            data += part
        return data

    def said(self):
        self.log.flush()
        self.log.seek(0)
        text = self.log.read().decode(errors="replace")
        self.ctx.note("--- klab-worker\n" + text[-4000:])
        lines = text.strip().splitlines()
        return lines[-1][:200] if lines else "it wrote nothing"

    def ask(self, verb, limit=300, **members):
        text = json.dumps({"verb": verb, "budget_s": limit, **members}).encode()
        self.ours.settimeout(limit + 20)
        try:
            self.ours.sendall(struct.pack("<I", len(text)) + text)
        except OSError as error:
            raise Failure(f"the worker takes no request ({error}): {self.said()}") from None
        while True:
            (size,) = struct.unpack("<I", self.receive(4))
            answer = json.loads(self.receive(size))
            if "progress" not in answer:
                return answer

    def replay(self, bundle, iterations, **conditions):
        """An answer whose one variant ran; raises Failure otherwise."""
        answer = self.ask("replay", bundle=str(bundle), dispatch=0, variants=[{"label": "baseline"}],
                          conditions={"mode": "isolated", "iterations": iterations, **conditions})
        variants = answer.get("variants") or [{}]
        if answer.get("outcome") != "ok" or variants[0].get("outcome") != "ok":
            error = answer.get("error") or variants[0].get("error") or {}
            raise Failure(f"worker: {answer.get('outcome')}: {error.get('what', 'no more is said')}")
        if len(variants[0]["samples_ns"]) != iterations:
            raise Failure(f"worker: {len(variants[0]['samples_ns'])} samples of {iterations}")
        return answer
