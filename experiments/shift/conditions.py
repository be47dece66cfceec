"""Predictions of the tool under shift, condition by condition: with its guard, and adapted to a few labels.

Shared by the experiments shift, corruptions and domain-shift. Each condition is a stream by itself, in batches of BATCH rows.
What the same tool gave for the same pool is read again from data/experiments/.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

BATCH = 200
TINY = 1e-300


def fitted(options, manifest, *words):
    """The path of a model fitted on split `oof`."""
    place = common.stored_folder(options, manifest, "fit", [str(w) for w in words], options.seed)
    model = place / "stack.cstack"
    if options.fresh or not model.exists():
        place.mkdir(parents=True, exist_ok=True)
        print(f"corestack fit {manifest.parent.name} {' '.join(str(w) for w in words)}", file=sys.stderr, flush=True)
        common.run_tool(options, "fit", manifest, "-o", model, "--set", "evaluate.nested=false", "--seed", options.seed, *words)
    return model


class Split:
    """A split with all its conditions (one, if it has no list of them), and the members' predictions there."""

    def __init__(self, manifest, name, rows=None):
        self.pool = json.loads(manifest.read_text())
        self.name, self.manifest = name, manifest
        entry = self.pool["splits"][name]
        self.labels = np.asarray(common.array(manifest, entry["labels"])).astype(int)
        self.listed = entry.get("conditions") or [{"shift": name, "kind": name, "severity": 0}]
        self.members = {}
        for model in self.pool["models"]:
            values = common.array(manifest, model["predictions"][name])
            self.members[model["name"]] = values if entry.get("conditions") else values[None]
        if rows is not None:
            self.labels = self.labels[rows]
            self.members = {n: v[:, rows] for n, v in self.members.items()}

    def __len__(self):
        return len(self.listed)

    def average(self):
        """[conditions, rows, classes]: the plain mean of all members' probabilities."""
        logits = self.pool.get("output") == "logit"
        total = 0.0
        for values in self.members.values():
            total = total + np.stack([common.probabilities(page, logits) for page in values])
        return total / len(self.members)


class Pool:
    """A pool of rows of one condition in a temporary folder, with a split for each choice of rows."""

    def __init__(self, split, condition):
        self.split, self.condition = split, condition
        self.folder = tempfile.TemporaryDirectory(prefix="corestack-shift-")
        self.path = pathlib.Path(self.folder.name) / "pool.json"
        pool = split.pool
        self.document = {key: pool[key] for key in ("corestack_pool", "task", "classes", "output") if key in pool}
        self.document["splits"] = {}
        self.document["models"] = [{**{k: m[k] for k in m if k in ("name", "family", "flops", "params", "latency_ms")}, "predictions": {}} for m in pool["models"]]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def add(self, name, rows=slice(None), labels=True):
        """A further split of these rows. Returns the words that choose it."""
        folder = self.path.parent
        entry = {"domain": name}
        if labels:
            np.save(folder / f"{name}.labels.npy", self.split.labels[rows])
            entry = {"labels": f"{name}.labels.npy"}
        self.document["splits"][name] = entry
        for number, model in enumerate(self.document["models"]):
            np.save(folder / f"{name}.{number}.npy", self.split.members[model["name"]][self.condition][rows])
            model["predictions"][name] = f"{name}.{number}.npy"
        self.path.write_text(json.dumps(self.document))
        return ["--split", name]


def predict(options, model, pool, *words):
    """(probabilities, document) of `corestack predict`."""
    out = pool.path.parent / "out.npy"
    document = common.run_tool(options, "predict", model, pool.path, "-o", out, *words)
    return np.load(out), document


def stored(options, manifest, key, compute):
    """The arrays {name: array} that compute() gives, kept for the tool and the pool."""
    place = common.stored_folder(options, manifest, "shift", key, options.seed)
    path = place / "arrays.npz"
    if options.fresh or not path.exists():
        place.mkdir(parents=True, exist_ok=True)
        print(f"shift {manifest.parent.name} {' '.join(str(k) for k in key)}", file=sys.stderr, flush=True)
        np.savez(path, **compute())
    with np.load(path) as arrays:
        return dict(arrays)


def predicted(options, manifest, split, guard=("--batch", BATCH), fit=(), shuffled=False):
    """[conditions, rows, classes] of `predict` with the words guard, after a fit with the words fit. Rows come in the order of
    the files, which may be that of their classes, or in a random one."""
    order = draws(len(split.labels), 500) if shuffled else slice(None)

    def compute():
        model = fitted(options, manifest, *fit)
        pages = np.empty((len(split), len(split.labels), count_classes(split)), np.float32)
        for condition in range(len(split)):
            with Pool(split, condition) as pool:
                pages[condition, order] = predict(options, model, pool, *pool.add("rows", order), *guard)[0]
        return {"p": pages}

    return stored(options, manifest, ["predict", split.name, *guard, *fit, *(["shuffled"] if shuffled else [])], compute)["p"]


def draws(rows, draw):
    """The order in which rows get labels; the first 10 and the first 50 are those of the experiments."""
    return np.random.default_rng([20, draw]).permutation(rows)


def adapted(options, manifest, split, labelled, seeds, *words):
    """[draws, conditions, rows, classes]: the stack adapted to `labelled` random rows of each condition, for several draws; the
    rows that had labels are NaN."""
    def compute():
        model = fitted(options, manifest)
        rows = len(split.labels)
        found = np.full((seeds, len(split), rows, count_classes(split)), np.nan, np.float32)
        for condition in range(len(split)):
            with Pool(split, condition) as pool:
                whole = pool.add("rows")
                for draw in range(seeds):
                    some = np.sort(draws(rows, draw)[:labelled])
                    changed, numbers = (pool.path.parent / name for name in ("adapted.cstack", "some.npy"))
                    np.save(numbers, some)
                    common.run_tool(options, "adapt", model, pool.path, *whole, "--rows", numbers, "-o", changed, *words)
                    found[draw, condition] = predict(options, changed, pool, *whole, "--batch", BATCH)[0]
                    found[draw, condition, some] = np.nan
        return {"p": found}

    return stored(options, manifest, ["adapt", split.name, labelled, seeds, *words], compute)["p"]


def count_classes(split):
    classes = split.pool["classes"]
    return classes if isinstance(classes, int) else len(classes)


# ---- scores ---------------------------------------------------------------------------------------------------------

def losses(p, labels):
    """(NLL, error) of each row: [..., rows]; NaN rows stay NaN."""
    p = np.asarray(p, np.float64)
    of = np.take_along_axis(p, np.broadcast_to(labels[:, None], (*p.shape[:-1], 1)), axis=-1)[..., 0]
    with np.errstate(invalid="ignore"):
        wrong = (np.argmax(p, axis=-1) != labels).astype(float)
    wrong[np.isnan(of)] = np.nan
    return -np.log(np.maximum(of, TINY)), wrong


def mean_known(pages):
    """The mean over pages of what is not NaN; NaN where all are."""
    pages = np.stack(pages)
    known = ~np.isnan(pages)
    count = known.sum(axis=0)
    return np.where(count > 0, np.where(known, pages, 0).sum(axis=0) / np.maximum(count, 1), np.nan)


def mean_error(values):
    """(mean, its standard error) of [conditions, rows] or [rows]: rows are images, which all conditions share."""
    image = mean_known(values) if values.ndim == 2 else values
    image = image[~np.isnan(image)]
    return float(image.mean()), float(image.std(ddof=1) / np.sqrt(len(image)))


def worse(ours, average, stack, listed):
    """The conditions in which ours [conditions, rows] is worse than the better of two others, in the mean, by over two
    standard errors of the paired difference: [(condition, difference, standard error)]."""
    found = []
    for number, condition in enumerate(listed):
        other = min((average[number], stack[number]), key=np.nanmean)
        gap, error = mean_error(ours[number] - other)
        if gap > 2 * error and gap > 1e-12:
            found.append((condition, gap, error))
    return found


CHOSEN_ON = ("cifar10", "vision")


def judged(name, listed):
    """Whether each condition's kind was left out of all choices: on two pools every second kind in alphabetical order, from the
    second, on others all."""
    kinds = sorted({c["kind"] for c in listed})
    return np.array([name not in CHOSEN_ON or kinds.index(c["kind"]) % 2 == 1 for c in listed])
