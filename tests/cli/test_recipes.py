"""docs/recipes.md: every command of the page works, one after the other, on small pools."""

import json
import os
import re
import shlex
import tempfile
import unittest

import numpy as np
from support import SOURCES, run

ROWS = 150
PAGE = os.path.join(SOURCES, "docs", "recipes.md")


def save(name, array):
    np.save(name, np.asarray(array))


def text(name, lines):
    with open(name, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def manifest(name, members, **more):
    splits = {s: {"labels": f"{name}_{s}.npy", "ids": f"{name}_{s}_ids.npy"} for s in ("oof", "test")}
    models = [{"name": m, "predictions": {s: f"{name}_{m}_{s}.npy" for s in splits}} for m in members]
    with open(f"{name}.json", "w", encoding="utf-8") as file:
        json.dump({"corestack_pool": 1, "splits": splits, "models": models, **more}, file)


def make():
    rng = np.random.default_rng(2)
    members = [f"m{k}" for k in range(5)]
    for split in ("oof", "test"):
        y = (rng.random(ROWS) < 0.3).astype(np.int64)
        price = rng.lognormal(1, 0.6, ROWS)
        save(f"pool_{split}.npy", y)
        save(f"prices_{split}.npy", price)
        for name in ("pool", "prices"):
            save(f"{name}_{split}_ids.npy", [f"r{split}{i}" for i in range(ROWS)])
        for k, m in enumerate(members):
            p = 1 / (1 + np.exp(-(2 * y - 1.5 + rng.normal(size=ROWS) * (1 + 0.2 * k))))
            save(f"pool_{m}_{split}.npy", np.stack([1 - p, p], 1).astype(np.float32))
            save(f"prices_{m}_{split}.npy", price * np.exp((0.2 + 0.05 * k) * rng.normal(size=ROWS)))
    manifest("pool", members, task="classification", classes=["no", "yes"])
    manifest("prices", members, task="regression")
    save("mine.npy", np.load("pool_m0_test.npy"))
    save("patients.npy", np.arange(ROWS) // 2)
    for name, source in (("y", "pool_oof"), ("a", "pool_m0_oof"), ("b", "pool_m1_oof")):
        save(f"{name}.npy", np.load(f"{source}.npy"))
    text("costs.csv", ["0,1", "5,0"])
    text("score.sh", ["#!/bin/sh", "echo 0.5"])
    os.chmod("score.sh", 0o755)
    text("sample.csv", ["id,yes"] + [f"rtest{i},0" for i in range(ROWS)])
    y = np.load("pool_oof.npy")
    text("y.csv", ["id,answer"] + [f"{i},{('no', 'yes')[v]}" for i, v in enumerate(y)])
    for name, m in (("a", "m0"), ("b", "m1")):
        text(f"{name}.csv", ["id,score"] + [f"{i},{v:.6g}" for i, v in enumerate(np.load(f"pool_{m}_oof.npy")[:, 1])])
    os.symlink(os.path.join(SOURCES, "examples"), "examples")


class Recipes(unittest.TestCase):
    def test_every_command(self):
        with open(PAGE, encoding="utf-8") as file:
            commands = re.findall(r"`corestack (.*?)` \|$", file.read(), flags=re.M)
        self.assertGreaterEqual(len(commands), 20)
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                make()
                for command in commands:
                    result = run(*shlex.split(command))
                    self.assertEqual(result.code, 0, f"{command}\n{result.err}")
            finally:
                os.chdir(before)


if __name__ == "__main__":
    unittest.main()
