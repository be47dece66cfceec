#!/usr/bin/env python3
"""Serves a model over HTTP with the standard library alone, and takes up a new model file while it runs.

    python3 server.py ensemble.cstack 8000
    curl -d '{"svm_rbf": [0.9, 0.1], "forest": [0.8, 0.2]}' http://127.0.0.1:8000/predict

A request is a JSON object: for each kept member its prediction of one row, or a list of rows. The answer is
{"predictions": ...} of the same shape. GET /model lists the members. server.c is the same in C.
"""
from __future__ import annotations

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import corestack

BODY_MAX = 1 << 24  # bytes


class Model:
    """The predictor of a model file: of the new one, once the file has changed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.seen = self.stamp()
        self.stack = corestack.load(path)
        self.predictor = self.stack.predictor()  # requests share it: a call takes microseconds

    def stamp(self) -> tuple[int, int, int]:
        found = os.stat(self.path)
        return found.st_mtime_ns, found.st_size, found.st_ino

    def current(self) -> Any:
        """Loads the file where it has changed. One that cannot be read is said once, and the model stays as it was."""
        with self.lock:
            try:
                stamp = self.stamp()
                if stamp != self.seen:
                    self.seen = stamp
                    stack = corestack.load(self.path)
                    self.stack, self.predictor = stack, stack.predictor()
                    print(f"{self.path}: loaded again", file=sys.stderr, flush=True)
            except (OSError, corestack.Error) as error:
                print(f"{self.path}: not loaded, the old model stays: {error}", file=sys.stderr, flush=True)
            return self.predictor


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Model

    def answer(self, status: int, document: object) -> None:
        body = json.dumps(document).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.path != "/model":
            return self.answer(404, {"error": "there are GET /model and POST /predict"})
        self.model.current()
        self.answer(200, {"members": self.model.stack.kept, "classes": self.model.stack.n_classes})

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if self.path != "/predict" or not length.isdigit() or int(length) > BODY_MAX:
            self.close_connection = True  # the body is not read
            return self.answer(404, {"error": f"POST /predict takes a Content-Length of at most {BODY_MAX} bytes"})
        try:
            predictions = self.model.current()(json.loads(self.rfile.read(int(length))))
        except (corestack.Error, ValueError, TypeError) as error:
            return self.answer(400, {"error": str(error)})
        self.answer(200, {"predictions": predictions.tolist()})

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: server.py MODEL [PORT]")
    Handler.model = Model(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) == 3 else 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
