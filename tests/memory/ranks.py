"""corestack-mpi on large pools: the same bytes on 1 to 3 ranks of a pool of 4 GB, the resident memory of four ranks that
fit 8 GB with 512 MiB each, and what a second rank gains. Takes 9 GB of disk in TMPDIR and about ten minutes.

Arguments: corestack-mpi, bench-pool.
"""
import filecmp
import os
import pathlib
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
LAUNCHER = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
GAIN = 1.8  # of two ranks of one thread over one

# Runs a rank and writes its peak, as the kernel counts it, to a file of its own.
RANK = """
import os, resource, subprocess, sys
code = subprocess.run(sys.argv[2:]).returncode
with open(f"{sys.argv[1]}.{os.getpid()}", "w") as file:
    file.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024))
sys.exit(code)
"""


def make(tool, folder, rows, classes, members, kind):
    subprocess.run([tool, str(folder), str(rows), str(classes), str(members), "f32", "1", "2", "0", kind], check=True)
    return folder


def fit(tool, pool, out, ranks, *more):
    """Seconds, and the peaks of the ranks."""
    peaks = out.with_suffix(".peak")
    words = [tool, "fit", str(pool), "-o", str(out), "--threads", "1", "-q", "--set", "evaluate.nested=false", *more]
    start = time.monotonic()
    subprocess.run(
        ["mpirun", "--bind-to", "none", "-n", str(ranks), sys.executable, "-c", RANK, str(peaks), *words],
        env={**os.environ, **LAUNCHER}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    seconds = time.monotonic() - start
    found = [int(path.read_text()) for path in peaks.parent.glob(peaks.name + ".*")]
    for path in peaks.parent.glob(peaks.name + ".*"):
        path.unlink()
    return seconds, found


def remove(folder):
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def main(tool, bench):
    failed = []
    with tempfile.TemporaryDirectory(prefix="corestack-ranks-") as name:
        folder = pathlib.Path(name)
        pool = make(bench, folder / "gain", 60000, 200, 15, "diffuse")
        one, two = (min(fit(tool, pool, folder / f"gain{n}", n)[0] for _ in range(2)) for n in (1, 2))
        print(f"60,000 x 200 x 15, one thread a rank: one rank {one:.1f} s, two {two:.1f} s, {one / two:.2f} times as fast")
        if one / two < GAIN:
            failed.append(f"two ranks are {one / two:.2f} times as fast as one, not {GAIN}")
        remove(pool)
        pool = make(bench, folder / "same", 50000, 1000, 20, "peaked")
        for ranks in (1, 2, 3):
            print(f"4 GB on {ranks} ranks: {fit(tool, pool, folder / f'same{ranks}', ranks)[0]:.0f} s")
            if not filecmp.cmp(folder / f"same{ranks}", folder / "same1", shallow=False):
                failed.append(f"the model of 4 GB has other bytes on {ranks} ranks")
        remove(pool)
        pool = make(bench, folder / "memory", 100000, 1000, 20, "peaked")
        seconds, peaks = fit(tool, pool, folder / "memory4", 4, "--memory", "512MiB")
        print(f"8 GB on 4 ranks with 512 MiB each: {seconds:.0f} s, peaks", *(f"{peak / MIB:.0f}" for peak in sorted(peaks)), "MiB")
        if len(peaks) != 4 or max(peaks) > 512 * MIB:
            failed.append("ranks with 512 MiB hold more than that")
    for line in failed:
        print("FAILED", line)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
