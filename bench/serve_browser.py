#!/usr/bin/python3
"""Runs bench/serve.mjs in Chromium: serve_browser.py PACKAGE, a folder of `corestack export --format wasm`."""

import functools
import http.server
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from pathlib import Path

done = threading.Event()
lines = []


class Pages(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}

    def do_GET(self):
        if self.path.startswith("/done?"):
            lines.append(urllib.parse.unquote(self.path[6:]))
            done.set()
        super().do_GET()

    def log_message(self, *_):
        pass


with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
    folder = Path(work, "package")
    shutil.copytree(sys.argv[1], folder)
    shutil.copy(Path(__file__).with_name("serve.mjs"), folder)
    Path(folder, "page.html").write_text('<!doctype html><script type="module" src="serve.mjs"></script>')
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Pages, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = subprocess.Popen(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={work}/profile", "--remote-debugging-port=0"]
        + [f"http://127.0.0.1:{server.server_port}/page.html"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    done.wait(120)
    browser.terminate()
    browser.wait()
print(*lines)
sys.exit(not lines)
