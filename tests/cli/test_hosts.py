"""corestack-mpi on several hosts: network namespaces with a delay and a limited rate between them (tests/ranks/hosts.py)."""

import errno
import os
import re
import signal
import subprocess
import sys
import time
import unittest

from support import DIGITS, SOURCES, TOOL, run, slow
from test_own_rows import OwnRows
from test_rank_faults import MPICH_TOOL, SOON, lines_of_ours
from test_ranks import LONG, MPI_TOOL, NOT_NESTED

sys.path.insert(0, os.path.join(SOURCES, "tests", "ranks"))
from hosts import Hosts, why_not  # noqa: E402

os.environ.setdefault("CORESTACK_DELAYED_LINKS", os.path.join(os.path.dirname(TOOL), "tests", "delayed_links"))
REASON = why_not()


def named_spaces():
    return [name for name in os.listdir("/run/netns") if f"-{os.getpid()}-" in name]


@unittest.skipIf(REASON, REASON)
class TheHosts(unittest.TestCase):
    def test_names_and_delay(self):
        connect = "import socket, time; t = time.time(); s = socket.socket(); print(s.connect_ex(('node2', 9)), time.time() - t)"
        with Hosts(2, 20, 100) as hosts:
            named = hosts.run(["hostname"], host=2, stdout=subprocess.PIPE)
            hosts.run(["/usr/bin/python3", "-c", connect], stdout=subprocess.PIPE)  # each learns the other's address
            refused = hosts.run(["/usr/bin/python3", "-c", connect], stdout=subprocess.PIPE)
            self.assertEqual(len(named_spaces()), 2)
        self.assertEqual(named.stdout, b"node2\n")
        code, seconds = refused.stdout.split()
        self.assertEqual(int(code), errno.ECONNREFUSED)
        self.assertGreaterEqual(float(seconds), 0.04)  # there and back
        self.assertEqual(named_spaces(), [])


@unittest.skipIf(REASON, REASON)
class SeveralHosts(OwnRows):
    mpirun = "mpirun"
    tool = MPI_TOOL

    def fit(self, hosts, *words, pool=DIGITS):
        words = [self.mpirun, "-n", len(hosts.names), self.tool, "fit", pool, "-o", self.path("out"), "--threads", 1, *words]
        with open(self.path("err"), "wb") as err:  # no pipe: launchers on dead hosts would hold it
            return hosts.start(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err)

    def end(self, process):
        """What it said."""
        process.wait(timeout=300)
        return self.bytes_of("err").decode()

    def same_bytes(self, count, delay, rate, *words, pool=DIGITS):
        with Hosts(count, delay, rate) as hosts:
            start = time.monotonic()
            with self.fit(hosts, *NOT_NESTED, *words, pool=pool) as process:
                err = self.end(process)
            seconds = time.monotonic() - start
            sent = hosts.sent()
        self.assertEqual(process.returncode, 0, err)
        self.assertEqual(self.bytes_of("out"), self.bytes_of("one"))
        self.assertGreater(min(sent), 4e5)  # not through memory
        os.remove(self.path("out"))
        if LONG:
            print(f"{self.mpirun}: {count} hosts, {delay} ms, {rate} Mbit/s: {seconds:.1f} s, {max(sent) / 1e6:.1f} MB", flush=True)

    def compare(self, *cases):
        self.assertEqual(run("fit", DIGITS, "-o", "one", *NOT_NESTED, cwd=self.folder).code, 0)
        for case in cases:
            with self.subTest(case=case):
                self.same_bytes(*case)

    @slow
    def test_two_hosts(self):
        self.compare((2, 1, 1000))

    @slow
    def test_own_rows(self):
        self.assertEqual(run("fit", DIGITS, "-o", "one", *NOT_NESTED, cwd=self.folder).code, 0)
        pool = self.cut_pool("digits", (0.0, 0.3, 1.0))
        self.same_bytes(2, 1, 1000, "--own-rows", "-v", pool=pool)
        fetched = re.search(r"fetched ([0-9.]+) MB", self.bytes_of("err").decode())
        self.assertGreater(float(fetched[1]), 0)  # from the other host

    @slow
    @unittest.skipUnless(LONG, "in make check-long")
    def test_delays_and_rates(self):
        self.compare((2, 0, 0), *((count, delay, rate) for count in (2, 3) for delay in (1, 10) for rate in (1000, 100)))

    def processes(self, hosts, host):
        """Of corestack on a host: those that wait, and those that compute."""
        listed = subprocess.run(["ip", "netns", "pids", hosts.space(f"node{host}")], stdout=subprocess.PIPE, check=True)
        found = []
        for name in listed.stdout.decode().split():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    if file.read().split(b"\0")[0] == self.tool.encode():
                        found.append(int(name))
            except FileNotFoundError:
                pass
        return sorted(found)

    def start(self, hosts):
        process = self.fit(hosts)
        deadline = time.monotonic() + SOON
        while any(len(self.processes(hosts, h + 1)) < 2 for h in range(len(hosts.names))) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1)
        return process

    @slow
    def test_a_rank_killed_on_another_host(self):
        with Hosts(2, 1, 1000) as hosts, self.start(hosts) as process:
            start = time.monotonic()
            os.kill(self.processes(hosts, 2)[-1], signal.SIGKILL)
            err = self.end(process)
            self.assertLess(time.monotonic() - start, SOON)
            self.assertEqual(self.processes(hosts, 2), [])
        self.assertEqual(process.returncode, 3, err)
        self.assertEqual(len(lines_of_ours(err)), 1, err)
        self.assertIn("rank 1 on node2 was ended by signal 9", err)
        self.assertFalse(os.path.exists(self.path("out")))

    @slow
    @unittest.skipUnless(LONG, "in make check-long")
    def test_a_dead_host(self):
        """All ranks end, on both sides. Open MPI's mpirun itself waits for a machine that does not answer."""
        with Hosts(2, 1, 1000) as hosts, self.start(hosts) as process:
            start = time.monotonic()
            hosts.cut(2)
            while time.monotonic() < start + SOON and self.processes(hosts, 1) + self.processes(hosts, 2):
                time.sleep(0.1)
            self.assertEqual(self.processes(hosts, 1) + self.processes(hosts, 2), [])
            if self.mpirun == "mpirun":
                process.kill()
            err = self.end(process)
        self.assertEqual(len(lines_of_ours(err)), 1, err)
        self.assertIn("rank 1 on node2 has shown no sign of life", err)
        self.assertFalse(os.path.exists(self.path("out")))
        if self.mpirun != "mpirun":
            self.assertEqual(process.returncode, 3, err)


@unittest.skipUnless(LONG, "in make check-long")
class SeveralHostsOverMpich(SeveralHosts):
    mpirun = "mpirun.mpich"
    tool = MPICH_TOOL

    def setUp(self):
        if not os.path.exists(MPICH_TOOL):
            self.skipTest("there is no libmpich-dev, or MPICH is what corestack-mpi was built for")
        super().setUp()


if __name__ == "__main__":
    unittest.main()
