#!/usr/bin/python3
"""Several hosts on one machine, for MPI: network namespaces with names, a delay and a limited rate between them.

    hosts.py --hosts 2 --delay 1 --rate 1000 -- mpirun -n 2 corestack-mpi fit POOL -o M

runs a command on the first host; --delay is in milliseconds one way, --rate in Mbit/s, 0 for none. mpirun of Open MPI and of
MPICH finds the hosts node1, node2, ... by itself and starts a rank on each in turn, without ssh. From Python:

    with Hosts(2, delay_ms=1, rate_mbit=1000) as hosts:
        hosts.run(["mpirun", "-n", "2", ...])

Needs root, /dev/net/tun and the program delayed_links (`cmake --build --preset gcc --target delayed_links`). The hosts share
files, processes and memory; only the network and the names differ.
"""

import argparse
import atexit
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIX = "corestack-"
NAMES = "/etc/netns"
# As on a host of its own: its name, and network interfaces of no other host.
ENTER = 'echo "$0" >/proc/sys/kernel/hostname && exec "$@"'
AGENT = """#!/bin/sh
# In the place of ssh: [OPTION...] HOST WORD...
while :; do case $1 in -*) shift ;; *) break ;; esac; done
host=$1
shift
exec ip netns exec {prefix}"$host" unshare --uts sh -c 'echo "$0" >/proc/sys/kernel/hostname && eval "$1"' "$host" "$*"
"""


def switch():
    """The program delayed_links; None where it was not built."""
    told = os.environ.get("CORESTACK_DELAYED_LINKS")
    if told:
        return told
    root = os.path.dirname(os.path.dirname(HERE))
    built = glob.glob(os.path.join(root, "build*", "tests", "delayed_links"))
    return max(built, key=os.path.getmtime, default=None)


def why_not():
    """Why there can be no hosts here; None if there can."""
    if os.geteuid() != 0:
        return "hosts in network namespaces need root"
    if not os.path.exists("/dev/net/tun"):
        return "this machine has no /dev/net/tun"
    if not shutil.which("ip") or not shutil.which("unshare"):
        return "ip (iproute2) or unshare (util-linux) is missing"
    if not switch():
        return "delayed_links was not built: cmake --build --preset gcc --target delayed_links"
    probe = f"{PREFIX}{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], stderr=subprocess.PIPE, check=False)
    if made.returncode != 0:
        return "no network namespace can be made here: " + made.stderr.decode().strip()
    subprocess.run(["ip", "netns", "del", probe], check=False)
    return None


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def remove(space):
    """A namespace, with whatever still runs in it."""
    found = subprocess.run(["ip", "netns", "pids", space], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    for number in found.stdout.split():
        try:
            os.kill(int(number), signal.SIGKILL)
        except ProcessLookupError:
            pass
    subprocess.run(["ip", "netns", "del", space], stderr=subprocess.DEVNULL, check=False)
    shutil.rmtree(os.path.join(NAMES, space), ignore_errors=True)
    try:
        os.rmdir(NAMES)
    except OSError:
        pass  # others use it


def remove_abandoned():
    """Namespaces of processes that were killed."""
    for path in glob.glob(f"/run/netns/{PREFIX}*-*"):
        space = os.path.basename(path)
        owner = space[len(PREFIX) :].split("-")[0]
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            remove(space)


class Hosts:
    """So many hosts, node1 and so on. rate_mbit of each host's link, in both directions; 0: as fast as it goes."""

    made = 0

    def __init__(self, count, delay_ms=0, rate_mbit=0, slots=1):
        Hosts.made += 1
        self.names = [f"node{i + 1}" for i in range(count)]
        self.delay_ms = delay_ms
        self.rate_mbit = rate_mbit
        self.slots = slots
        self.prefix = f"{PREFIX}{os.getpid()}-{Hosts.made}-"
        self.links = None
        self.folder = None
        self.env = {}

    def space(self, name):
        return self.prefix + name

    def __enter__(self):
        reason = why_not()
        if reason:
            raise RuntimeError(reason)
        remove_abandoned()
        atexit.register(self.close)
        self.folder = tempfile.mkdtemp(prefix="corestack-hosts-")
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def open(self):
        table = "127.0.0.1 localhost\n" + "".join(f"10.77.0.{i + 1} {name}\n" for i, name in enumerate(self.names))
        for name in self.names:
            ip("netns", "add", self.space(name))
            os.makedirs(os.path.join(NAMES, self.space(name)))
            self.write(os.path.join(NAMES, self.space(name), "hosts"), table)
        words = [switch(), str(round(self.delay_ms * 1000)), str(round(self.rate_mbit * 1e6))]
        self.links = subprocess.Popen(
            [*words, *map(self.space, self.names)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        if self.links.stdout.readline() != b"ready\n":
            raise RuntimeError("delayed_links did not start")
        for i, name in enumerate(self.names):
            place = ("-n", self.space(name))
            ip(*place, "link", "set", "lo", "up")
            ip(*place, "link", "set", "eth0", "address", f"02:00:00:00:00:{i + 1:02x}", "txqueuelen", "10000", "up")
            ip(*place, "address", "add", f"10.77.0.{i + 1}/24", "dev", "eth0")
        agent = self.write(os.path.join(self.folder, "agent"), AGENT.format(prefix=self.prefix))
        os.chmod(agent, 0o755)
        slots = "".join(f"{name} slots={self.slots}\n" for name in self.names)
        self.env = {
            # Open MPI
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_plm_rsh_agent": agent,
            "OMPI_MCA_orte_default_hostfile": self.write(os.path.join(self.folder, "hostfile"), slots),
            "OMPI_MCA_rmaps_base_mapping_policy": "node:OVERSUBSCRIBE",
            "OMPI_MCA_btl": "tcp,vader,self",
            "OMPI_MCA_mpi_yield_when_idle": "1",  # the hosts share the cores, with delayed_links too
            # MPICH, which would find that the hosts share memory
            "UCX_TLS": "tcp,self",
            "HYDRA_LAUNCHER": "ssh",
            "HYDRA_LAUNCHER_EXEC": agent,
            "HYDRA_HOST_FILE": self.write(os.path.join(self.folder, "hydra"), slots.replace(" slots=", ":")),
        }

    @staticmethod
    def write(path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def words(self, command, host=1):
        """A command, to be run on a host."""
        name = self.names[host - 1]
        return ["ip", "netns", "exec", self.space(name), "unshare", "--uts", "sh", "-c", ENTER, name, *map(str, command)]

    def start(self, command, host=1, env=None, **more):
        return subprocess.Popen(self.words(command, host), env={**os.environ, **self.env, **(env or {})}, **more)

    def run(self, command, host=1, env=None, **more):
        return subprocess.run(self.words(command, host), env={**os.environ, **self.env, **(env or {})}, check=False, **more)

    def tell(self, line):
        self.links.stdin.write(line.encode() + b"\n")
        self.links.stdin.flush()

    def cut(self, host):
        """From now on the host's frames are lost, and those to it, as if it had no power."""
        self.tell(f"cut {host}")

    def mend(self, host):
        self.tell(f"mend {host}")

    def sent(self):
        """Bytes on the wire that each host has sent so far, headers of frames included."""
        self.tell("count")
        return [int(n) for n in self.links.stdout.readline().split()]

    def close(self):
        for name in self.names:
            if os.path.exists(f"/run/netns/{self.space(name)}"):
                remove(self.space(name))
        if self.links:
            self.links.kill()
            self.links.wait()
            self.links.stdin.close()
            self.links.stdout.close()
            self.links = None
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None
        atexit.unregister(self.close)


def main():
    parser = argparse.ArgumentParser(usage="hosts.py [--hosts N] [--delay MS] [--rate MBIT] [--slots N] -- COMMAND...")
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--delay", type=float, default=0, help="milliseconds, one way")
    parser.add_argument("--rate", type=float, default=0, help="Mbit/s of each host's link, in both directions")
    parser.add_argument("--slots", type=int, default=1, help="ranks on a host")
    parser.add_argument("command", nargs="+")
    given = parser.parse_args()
    reason = why_not()
    if reason:
        print(f"hosts.py: {reason}", file=sys.stderr)
        return 77
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    with Hosts(given.hosts, given.delay, given.rate, given.slots) as hosts:
        start = time.monotonic()
        process = hosts.start(given.command)
        while True:
            try:
                code = process.wait()
                break
            except KeyboardInterrupt:  # the command got it too
                pass
        seconds = time.monotonic() - start
        sent = ", ".join(f"{name} {number / 1e6:.3f} MB" for name, number in zip(hosts.names, hosts.sent()))
        print(f"hosts.py: {seconds:.2f} s; sent by {sent}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
