"""What the rows of the bench share: pools, fits with their memory, turns of two sides, and the machine's rates."""
import json
import mmap
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
WORK = pathlib.Path(os.environ.get("BENCH_DIR") or tempfile.gettempdir()) / f"corestack-bench-{os.getuid()}"
CORES = os.cpu_count()
# BENCH_SMOKE=1: every row on a pool so small that the figures mean nothing, to see that the harness works.
SMOKE = os.environ.get("BENCH_SMOKE") == "1"
IMAGENET = (1200, 100, 5) if SMOKE else (25000, 1000, 14)
HUGE = (3000, 40, 5) if SMOKE else (1000000, 355, 25)
# The size at which a whole fit of the peer ends within minutes.
PEER = (500, 50, 4) if SMOKE else (2000, 1000, 14)
# For errors against exact kernels, and for threads.
MIDDLE = (1000, 50, 5) if SMOKE else (5000, 1000, 14)
# Pools of diffuse members.
DIFFUSE = (2000, 80, 4) if SMOKE else (100000, 400, 15)
ALL_MEMBERS = (1000, 80, 4) if SMOKE else (20000, 200, 15)
MANY_MEMBERS = (400, 10, 20) if SMOKE else (2000, 20, 250)
# Checkpoints of a hyperparameter search (--large).
SEARCH = (400, 5, 260) if SMOKE else (100000, 10, 1000)
FORTY = (500, 30, 6) if SMOKE else (10000, 100, 40)
STACKED = (500, 10, 4) if SMOKE else (5000, 20, 10)
# A build of an older version, measured in turns with this one.
AGAINST = os.environ.get("BENCH_AGAINST")
# Seconds that the older version gets for a fit.
PATIENCE = 900


def say(text):
    print(text, file=sys.stderr, flush=True)


def pool(rows, classes, members, kind="f32", spread="peaked"):
    """Path of the manifest of a pool made by bench-pool, kept for the run. spread: as its last argument."""
    folder = WORK / f"pool-{rows}-{classes}-{members}-{kind}-{spread}"
    if not (folder / "pool.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        WORK.mkdir(parents=True, exist_ok=True)
        need = rows * classes * members * (2 if kind == "f16" else 4)
        if shutil.disk_usage(WORK).free < 1.1 * need:
            raise SystemExit(f"bench: {WORK} has no room for {need / 1e9:.1f} GB; set BENCH_DIR")
        say(f"making a pool of {rows} x {classes} x {members} {kind} {spread}")
        subprocess.run([BUILD / "bench-pool", folder, str(rows), str(classes), str(members), kind, "1", str(CORES), "0",
                        str(spread)], check=True, stderr=subprocess.DEVNULL)
    return folder / "pool.json"


def drop_pool(manifest):
    shutil.rmtree(manifest.parent, ignore_errors=True)


def pool_bytes(manifest):
    return sum(path.stat().st_size for path in manifest.parent.glob("*.npy"))


# A program started from a large process would have that one's peak of memory as its least: from this one it has 10 MB.
LAUNCHER = """
import json, os, signal, sys, time
report, patience, words = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
start = time.perf_counter()
pid = os.fork()
if pid == 0:
    os.execvp(words[0], words)
if patience > 0:
    signal.signal(signal.SIGALRM, lambda *_: os.kill(pid, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, patience)
_, code, usage = os.wait4(pid, 0)
seconds = time.perf_counter() - start
with open(report, "w") as file:
    json.dump([seconds, os.waitstatus_to_exitcode(code), usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime], file)
"""


def run(words, patience=0, **environment):
    """Seconds, standard output, peak resident bytes by the kernel and seconds of CPU of a program. With `patience`, it
    is ended after so many seconds, and the output is None."""
    WORK.mkdir(parents=True, exist_ok=True)
    report = WORK / "usage.json"
    words = [str(word) for word in words]
    out = subprocess.run([sys.executable, "-ISc", LAUNCHER, report, str(patience), *words], stdout=subprocess.PIPE,
                         text=True, env={**os.environ, **environment}, check=True).stdout
    seconds, code, rss, cpu = json.loads(report.read_text())
    if code == -9 and 0 < patience <= seconds:
        return seconds, None, rss, cpu
    if code:
        raise SystemExit(f"bench: {' '.join(words)} ended with {code}")
    return seconds, out, rss, cpu


def fit(manifest, *settings, preset="paper", threads=None, model=None, memory=None, tool=None, patience=0):
    """One `corestack fit`: its JSON document, with `wall` seconds, `cpu` seconds and `rss` bytes of the process. One
    that was ended has nothing else."""
    words = [tool or BUILD / "corestack", "fit", manifest, "-o", model or WORK / "model.cstack", "--preset", preset,
             "--json", "--quiet", "--threads", threads or CORES]
    for setting in settings:
        words += ["--set", setting]
    if memory:
        words += ["--memory", memory]
    seconds, out, rss, cpu = run(words, patience)
    return {**(json.loads(out) if out else {}), "wall": seconds, "rss": rss, "cpu": cpu}


def fits(manifest, *settings, rounds=2, **how):
    """The quicker of `rounds` fits, in turns with the older version where there is one: what a row of them says about
    itself and the time of the older version. Fits of a minute are made once."""
    mine, old, ended = [], [], False
    for at in range(rounds):
        if at == 0 or mine[0]["wall"] < 60:
            mine.append(fit(manifest, *settings, **how))
        if AGAINST and (at == 0 or old[0] < 60):
            document = fit(manifest, *settings, **how, tool=AGAINST, patience=PATIENCE)
            old.append(document["wall"])
            ended = "models_in" not in document
    document = min(mine, key=lambda d: d["wall"])
    document["before"] = {"seconds": min(old), "ended": ended} if old else None
    return document


def peer(script, *words, threads=None):
    threads = str(threads or CORES)
    return json.loads(run(["/usr/bin/python3", ROOT / "bench" / script, *words], OMP_NUM_THREADS=threads,
                          OPENBLAS_NUM_THREADS=threads)[1])


def kernels(path, what, threads=1):
    return json.loads(run([BUILD / "bench-kernels", path, threads, what])[1])


def turns(ours, theirs, rounds=2):
    """A B A B: the least of ours and of theirs, and what they gave last."""
    a, b = [], []
    for _ in range(rounds):
        a.append(ours())
        b.append(theirs())
    return min(a, key=lambda x: x[0]), min(b, key=lambda x: x[0])


def timed(function, *arguments):
    start = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - start, result


# ---- the machine

SGEMM = """
import sys, time
import numpy as np
n = 2048
a, b = np.ones((n, n), np.float32), np.ones((n, n), np.float32)
a @ b
best = 1e9
for _ in range(5):
    start = time.perf_counter(); a @ b; best = min(best, time.perf_counter() - start)
print(2 * n**3 / best)
"""


def sgemm_rate(threads):
    return float(run(["/usr/bin/python3", "-c", SGEMM], OPENBLAS_NUM_THREADS=str(threads))[1])


def read_rate(path, direct):
    """Bytes a second of reading a file through read(2) into one buffer; `direct`: around the page cache."""
    buffer = mmap.mmap(-1, 1 << 23)
    file = os.open(path, os.O_RDONLY | (os.O_DIRECT if direct else 0))
    try:
        total, start = 0, time.perf_counter()
        while (count := os.readv(file, [buffer])) > 0:
            total += count
            if direct and count % 4096:
                break
        return total / (time.perf_counter() - start)
    finally:
        os.close(file)


def rates(threads):
    return json.loads(run([BUILD / "bench-kernels", "-", threads, "rates"])[1])


def read_from_disk(manifest):
    """Seconds of reading the files of a pool once, in order, out of the page cache."""
    files = sorted(manifest.parent.glob("*.npy"))
    forget(files)
    start = time.perf_counter()
    for path in files:
        read_rate(path, False)
    seconds = time.perf_counter() - start
    forget(files)
    return seconds


def forget(files):
    """Takes files out of the page cache."""
    for path in files:
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def page_fault():
    """Seconds of the first touch of a page of memory."""
    pages = 1 << 14
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        start = time.perf_counter()
        memory[::mmap.PAGESIZE] = bytes(pages)
        return (time.perf_counter() - start) / pages


def machine():
    """Rates that floors are computed from, measured in this run."""
    WORK.mkdir(parents=True, exist_ok=True)
    path = WORK / "bandwidth"
    block = os.urandom(1 << 24)
    with open(path, "wb") as file:
        for _ in range(32):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    cached = max(read_rate(path, False) for _ in range(3))
    try:
        disk = read_rate(path, True)
    except OSError:
        disk = None
    path.unlink()
    name = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    return {"cpu": name, "cores": CORES, "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
            "kernel": platform.release(), "python": platform.python_version(), "sgemm_1": sgemm_rate(1),
            "sgemm_2": sgemm_rate(2), "read_cached": cached, "read_disk": disk, "rates_1": rates(1), "rates_2": rates(2),
            "page_fault": page_fault(), "load": os.getloadavg()[0], "blas": os.environ.get("OPENBLAS_CORETYPE")}
