"""What the guard costs: its share of the time of `corestack predict`, and the bytes of a model file of a thousand classes."""
import json
import pathlib
import resource
import struct
import tempfile

import numpy as np

import common
import conditions

ROWS = 50000  # of the timed prediction, at most
REPEATS = 5
# Sections that a stack without anything for shift has.
BEFORE = ("TASK", "MEMB", "CLAS", "GATE", "REGR", "CALI", "NETW", "RULE", "OWNS", "LEAR", "FUSE", "DOMA", "ABSE", "ABSP", "SETT")
OFF, ON = ("--guard", "off"), ("--batch", conditions.BATCH)


def seconds(options, model, pool, words):
    """Processor time of one prediction, files included."""
    def used():
        of = resource.getrusage(resource.RUSAGE_CHILDREN)
        return of.ru_utime + of.ru_stime

    before = used()
    conditions.predict(options, model, pool, *words, "--threads", 1)
    return used() - before


def share_of_time(options, manifest):
    """Of the processor time that a prediction of clean rows takes with the guard, the share that it adds; the least of several runs."""
    model = conditions.fitted(options, manifest)
    labels = common.array(manifest, common.split_of(manifest, "test")["labels"])
    order = np.tile(np.arange(len(labels)), -(-ROWS // len(labels)))[:ROWS]
    split = conditions.Split(manifest, "test", rows=order)
    with conditions.Pool(split, 0) as pool:
        words = pool.add("rows")
        times = [[seconds(options, model, pool, [*words, *more]) for more in (OFF, ON)] for _ in range(REPEATS)]
    off, on = np.min(times, axis=0)
    return {"rows": len(order), "off": float(off), "on": float(on), "share": float(max(0.0, 1 - off / on))}


def sections(content):
    """{tag: bytes, header included} of a model file (docs/model-format.md)."""
    found, place = {}, 24
    while place < len(content) - 4:
        tag, _, length = struct.unpack_from("<4sIQ", content, place)
        found[tag.decode()] = 16 + length
        place += 16 + length
    return found


def thousand_classes(options, members, classes=1000, rows=4000):
    """Bytes of the model file of random members with many classes, and of its sections."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, classes, rows)
    with tempfile.TemporaryDirectory(prefix="corestack-shift-") as folder:
        folder = pathlib.Path(folder)
        np.save(folder / "labels.npy", labels)
        models = []
        common_part = rng.normal(size=(rows, classes)).astype(np.float32)
        for k in range(members):
            logits = common_part + rng.normal(size=(rows, classes)).astype(np.float32)
            logits[np.arange(rows), labels] += 3 + 0.3 * k
            np.save(folder / f"m{k}.npy", (2 * logits).astype(np.float16))
            models.append({"name": f"m{k}", "predictions": {"oof": f"m{k}.npy"}})
        manifest = folder / "pool.json"
        manifest.write_text(json.dumps({"corestack_pool": 1, "task": "classification", "classes": classes, "output": "logit",
                                        "splits": {"oof": {"labels": "labels.npy"}}, "models": models}))
        model = folder / "model.cstack"
        common.run_tool(options, "fit", manifest, "-o", model, "--set", "evaluate.nested=false", "--threads", 1)
        total, parts = model.stat().st_size, sections(model.read_bytes())
    added = sum(length for tag, length in parts.items() if tag not in BEFORE)
    return {"classes": classes, "members": members, "bytes": total, "without": total - added, "sections": parts}
