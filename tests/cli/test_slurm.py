"""The batch script of docs/clusters.md: a Slurm of its own, with one node of two processors, runs it."""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
import unittest

from support import DIGITS, SOURCES, run, slow
from test_rank_faults import MPICH_TOOL
from test_ranks import LONG, MPI_TOOL, NOT_NESTED, RankCase

PORT = 20000 + os.getpid() % 20000
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "sinfo")
CONFIGURATION = """ClusterName=corestack
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={next_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES OverSubscribe=FORCE:4 MaxTime=INFINITE State=UP
"""


def script():
    """The page's batch script."""
    with open(os.path.join(SOURCES, "docs", "clusters.md"), encoding="utf-8") as page:
        return next(block for block in re.findall(r"```sh\n(.*?)```", page.read(), re.S) if "#SBATCH" in block)


class TheScript(unittest.TestCase):
    def test_it_parses(self):
        self.assertIn("corestack-mpi fit /shared/pool", script())
        subprocess.run(["sh", "-n"], input=script().encode(), check=True)


@unittest.skipUnless(LONG, "in make check-long")
class Jobs(RankCase):
    def setUp(self):
        super().setUp()
        missing = [name for name in NEEDED if not shutil.which(name)]
        if missing or os.geteuid() != 0:
            self.skipTest("Slurm is not installed: " + ", ".join(missing) if missing else "slurmd needs root")
        os.chmod(self.folder, 0o755)
        for name in ("munge", "state", "spool"):
            os.mkdir(self.path(name), 0o700)
        with open(os.open(self.path("munge/key"), os.O_CREAT | os.O_WRONLY, 0o400), "wb") as key:
            key.write(secrets.token_bytes(128))
        host = socket.gethostname().split(".")[0]
        with open(self.path("slurm.conf"), "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(host=host, port=PORT, next_port=PORT + 1, folder=self.folder, cpus=min(os.cpu_count(), 2)))
        self.env = {**os.environ, "SLURM_CONF": self.path("slurm.conf"), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        munge = [f"--{what}={self.path('munge/' + name)}" for what, name in (("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"))]
        self.daemon("munge/pid", "munged", "--force", *munge)
        self.daemon("slurmctld.pid", "slurmctld", "-c", "-f", self.path("slurm.conf"))
        self.daemon("slurmd.pid", "slurmd", "-c", "-f", self.path("slurm.conf"))
        deadline = time.monotonic() + 20
        while b"idle" not in self.call("sinfo", "-h", "-o", "%T").stdout:
            if time.monotonic() > deadline:
                self.skipTest("Slurm cannot be started here: " + self.log())
            time.sleep(0.2)

    def call(self, *words):
        return subprocess.run(words, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)

    def log(self):
        text = ""
        for name in ("slurmctld.log", "slurmd.log"):
            if os.path.exists(self.path(name)):
                text += self.bytes_of(name).decode()[-600:]
        return text

    def daemon(self, pid_file, *words):
        self.addCleanup(self.end, pid_file)
        started = self.call(*words)
        if started.returncode != 0:
            self.skipTest(f"{words[0]} cannot be started here: {started.stdout.decode()}")

    def end(self, pid_file):
        try:
            number = int(self.bytes_of(pid_file))
            os.kill(number, signal.SIGTERM)
            deadline = time.monotonic() + 10
            while os.path.exists(f"/proc/{number}") and time.monotonic() < deadline:
                time.sleep(0.05)
        except (OSError, ValueError):
            pass  # it was not started

    def submit(self, text):
        with open(self.path("job"), "w", encoding="utf-8") as file:
            file.write(text)
        done = self.call("sbatch", "--wait", "-o", self.path("job.out"), self.path("job"))
        said = self.bytes_of("job.out").decode() if os.path.exists(self.path("job.out")) else ""
        return done.returncode, done.stdout.decode() + said

    def filled_in(self):
        """The page's script for this machine: its paths, two tasks, one processor for each."""
        text = script().replace("task=16", "task=1").replace("threads 16", "threads 1").replace("--nodes=4", "--nodes=1")
        text = text.replace("--ntasks-per-node=1", "--ntasks-per-node=2")
        text = text.replace("/shared/pool", DIGITS).replace("/shared/", self.folder + "/")
        text = text.replace(" fit ", " fit " + " ".join(NOT_NESTED) + " ").replace("corestack-mpi", MPI_TOOL)
        return text if os.cpu_count() > 1 else text.replace("--ntasks-per-node=2", "--ntasks-per-node=1")

    @slow
    def test_jobs(self):
        self.assertEqual(run("fit", DIGITS, "-o", "one", *NOT_NESTED, cwd=self.folder).code, 0)
        texts = {"mpirun": self.filled_in()}
        kinds = self.call("srun", "--mpi=list").stdout.decode()
        if "pmix" in kinds:
            texts["srun, Open MPI"] = self.filled_in().replace("mpirun --bind-to none ", "srun --mpi=pmix ")
        if "pmi2" in kinds and os.path.exists(MPICH_TOOL):
            texts["srun, MPICH"] = self.filled_in().replace("mpirun --bind-to none ", "srun --mpi=pmi2 ").replace(MPI_TOOL, MPICH_TOOL)
        for name, text in texts.items():
            with self.subTest(launcher=name):
                code, said = self.submit(text)
                self.assertEqual(code, 0, said + self.log())
                self.assertEqual(self.bytes_of("model.cstack"), self.bytes_of("one"))
                os.remove(self.path("model.cstack"))

    @slow
    def test_a_rank_that_fails(self):
        text = self.filled_in().replace("mpirun --bind-to none ", "srun --mpi=pmix --kill-on-bad-exit ")
        code, said = self.submit(text.replace(DIGITS, self.path("no-pool")))
        self.assertIn(code, (2, 3), said)
        self.assertEqual(len([line for line in said.splitlines() if line.startswith("corestack")]), 1, said)


if __name__ == "__main__":
    unittest.main()
