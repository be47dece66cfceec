"""Pools of more members than selection can look at one by one: those that a pool of all needs most lead."""

import unittest

import numpy as np

from support import PoolCase

MEMBERS, ROWS, CLASSES = 260, 150, 3
GOOD = {17, 101, 230}  # they know half of the rows each; the others know nothing


class Many(PoolCase):
    def test_few_lead(self):
        rng = np.random.default_rng(5)
        labels = rng.integers(0, CLASSES, ROWS)
        pool = ["--labels", self.save("y.npy", labels)]
        for k in range(MEMBERS):
            logits = rng.normal(size=(ROWS, CLASSES))
            knows = rng.random(ROWS) < 0.5 * (k in GOOD)
            logits[knows, labels[knows]] += 5
            p = np.exp(logits)
            pool.append(self.save(f"m{k:03d}.npy", (p / p.sum(1, keepdims=True)).astype(np.float32)))
        fit = self.works("fit", *pool, "-o", self.model, "--threads", 1, "--json").json()
        first = self.read(self.model)
        self.works("fit", *pool, "-o", self.model, "--threads", 2)
        self.assertEqual(self.read(self.model), first)
        self.assertIn("260 members are too many to select from", str(fit["notices"]))
        kept = {int(name[1:]) for name in fit["kept"]}
        self.assertLessEqual(GOOD, kept)
        self.assertLess(len(kept), 129)
        self.assertLess(fit["oof"]["nll"], min(member["nll"] for member in fit["members"]))
        self.few_lead_within_a_limit()

    def few_lead_within_a_limit(self):
        """The member that costs more than the limit is out; the two others that know something are in."""
        models = [{"name": f"m{k:03d}", "flops": 100 if k == 17 else 1, "predictions": {"oof": f"m{k:03d}.npy"}}
                  for k in range(MEMBERS)]
        self.manifest = {"corestack_pool": 1, "task": "classification", "classes": CLASSES,
                         "splits": {"oof": {"labels": "y.npy"}}, "models": models}
        self.write_manifest()
        fit = self.works("fit", self.pool, "-o", self.model, "-s", "keep.max_flops=3", "-s", "evaluate.nested=false",
                         "--json").json()
        self.assertIn("260 members are too many to select from", str(fit["notices"]))
        self.assertLessEqual({"m101", "m230"}, set(fit["kept"]))
        self.assertLessEqual(len(fit["kept"]), 3)
        self.assertNotIn("m017", fit["kept"])


if __name__ == "__main__":
    unittest.main()
