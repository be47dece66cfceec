"""What short commands take as whole processes: startup.py [TOOL ...] prints it for tools in turns; rows of bench/run.py."""
import os
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
DIGITS = str(ROOT / "examples" / "digits")
IMPORT = "import sys, time, numpy; start = time.perf_counter(); import corestack; print(time.perf_counter() - start)"


def ends(words, environment):
    """Seconds of wall time and of CPU of a program, and what it printed."""
    with tempfile.TemporaryFile() as out:
        start = time.perf_counter()
        process = os.posix_spawn(str(words[0]), [str(word) for word in words], environment,
                                 file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), 1)])
        _, code, usage = os.wait4(process, 0)
        seconds = time.perf_counter() - start
        if code:
            raise SystemExit(f"bench: {' '.join(map(str, words))} ended with {os.waitstatus_to_exitcode(code)}")
        out.seek(0)
        return seconds, usage.ru_utime + usage.ru_stime, out.read().decode()


def imported(library, environment):
    """Seconds that `import corestack` takes after NumPy's."""
    environment = {**environment, "PYTHONPATH": str(ROOT / "python"), "CORESTACK_LIBRARY": str(library)}
    _, cpu, out = ends(["/usr/bin/python3", "-c", IMPORT], environment)
    return float(out), cpu, out


def measure(tools, rounds=50):
    """{name: [(least, median, least CPU) of each tool]}; the tools take turns; the import is of the last one's library."""
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    with tempfile.TemporaryDirectory() as folder:
        model, out = folder + "/model.cstack", folder + "/out.npy"
        fit = ["fit", DIGITS, "-o", model, "--set", "evaluate.nested=false"]
        commands = {"help": (["--help"], rounds), "fit": (fit, max(3, rounds // 10)),
                    "predict": (["predict", model, DIGITS, "--split", "test", "-o", out], rounds)}
        calls = {name: ([lambda tool=tool, words=words: ends([tool, *words], environment) for tool in tools], count)
                 for name, (words, count) in commands.items()}
        library = pathlib.Path(tools[-1]).resolve().with_name("libcorestack.so")
        if library.exists():
            calls["import"] = ([lambda: imported(library, environment)], max(3, rounds // 5))
        result = {}
        for name, (sides, count) in calls.items():
            taken = [[] for _ in sides]
            for _ in range(count):
                for side, times in zip(sides, taken):
                    times.append(side())
            walls = [sorted(t[0] for t in times) for times in taken]
            result[name] = [(wall[0], wall[len(wall) // 2], min(t[1] for t in times)) for wall, times in zip(walls, taken)]
        return result


def main():
    tools = sys.argv[1:] or [ROOT / "build" / "corestack"]
    for name, sides in measure(tools).items():
        for tool, (least, median, cpu) in zip(tools[-len(sides):], sides):
            print(f"{name:8} {tool}: least {least * 1e3:.2f} ms, median {median * 1e3:.2f} ms, CPU {cpu * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
