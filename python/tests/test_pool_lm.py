"""python -m corestack.pool lm: what it lists, against NumPy; windows; a run that was stopped; hints."""
import contextlib
import io
import pathlib
import tempfile
import unittest

import numpy as np

try:
    import torch  # noqa: F401

    from corestack.pool import _command, _lm
except ImportError:
    _command = None

V, CONTEXT, TOP = 50, 16, 8
FACTORY = """
import numpy as np
LIMIT = None  # batches before it fails
def bigram():
    scores = np.random.default_rng(0).normal(size=(50, 50)).astype(np.float32)
    done = [0]
    def model(tokens):
        done[0] += 1
        if LIMIT is not None and done[0] > LIMIT:
            raise KeyboardInterrupt
        return scores[tokens]
    return model
def short():
    return lambda tokens: np.zeros((*tokens.shape, 49), np.float32)
"""


@unittest.skipIf(_command is None, "needs torch")
class Lm(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        self.number = np.repeat([3, 0, 7, 1], [40, 33, 1, 60])
        self.tokens = np.random.default_rng(1).integers(0, V, len(self.number))
        np.savez(self.folder / "oof.npz", tokens=self.tokens, documents=self.number, bytes=700)
        (self.folder / "f.py").write_text(FACTORY)

    def run_lm(self, pool, *more, model="a=f.py:bigram"):
        out, err = io.StringIO(), io.StringIO()
        name, _, text = model.partition("=")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = _command.main(["lm", str(self.folder / pool), "--split", f"oof={self.folder / 'oof.npz'}", "--models",
                                  f"{name}={self.folder}/{text}", "--classes", str(V), "--top", str(TOP), "--context", str(CONTEXT),
                                  "--batch-size", "2", "--dtype", "float32", *more])  # fmt: skip
        return code, out.getvalue(), err.getvalue()

    def load(self, pool, kind):
        return np.load(self.folder / pool / f"a.oof.{kind}.npy")

    def test_lists_are_those_of_numpy(self):
        code, out, err = self.run_lm("pool")
        self.assertEqual(code, 0, err)
        rows = np.flatnonzero(np.r_[False, self.number[1:] == self.number[:-1]])
        scores = np.random.default_rng(0).normal(size=(V, V)).astype(np.float32).astype(float)
        logs = scores[self.tokens[rows - 1]]
        logs -= np.log(np.exp(logs).sum(1, keepdims=True))
        order = np.argsort(-logs, 1)[:, :TOP]
        np.testing.assert_array_equal(self.load("pool", "indices"), order)
        np.testing.assert_allclose(self.load("pool", "logprobs"), np.take_along_axis(logs, order, 1), atol=1e-6)
        np.testing.assert_allclose(np.exp(self.load("pool", "rest")), 1 - np.exp(np.take_along_axis(logs, order, 1)).sum(1), atol=1e-6)
        np.testing.assert_array_equal(np.load(self.folder / "pool" / "oof.labels.npy"), self.tokens[rows])
        np.testing.assert_array_equal(np.load(self.folder / "pool" / "oof.groups.npy"), self.number[rows])
        loss = -logs[np.arange(len(rows)), self.tokens[rows]].mean()
        bits = loss * len(rows) / np.log(2) / 700
        self.assertIn(f"NLL {loss:.4f} a token, perplexity {np.exp(loss):.2f}, {bits:.4f} bits a byte", out)

    def test_a_stopped_run_goes_on_with_the_same_bytes(self):
        self.assertEqual(self.run_lm("whole")[0], 0)
        block, _lm.BLOCK = _lm.BLOCK, 10
        self.addCleanup(setattr, _lm, "BLOCK", block)
        _lm._networks.factory.cache_clear()
        (self.folder / "f.py").write_text(FACTORY.replace("LIMIT = None", "LIMIT = 3"))
        self.assertEqual(self.run_lm("pool")[0], 130)
        _lm._networks.factory.cache_clear()
        (self.folder / "f.py").write_text(FACTORY)
        code, out, err = self.run_lm("pool")
        self.assertEqual(code, 0, err)
        self.assertNotIn("a oof: 0 of", err)
        for kind in ("indices", "logprobs", "rest"):
            np.testing.assert_array_equal(self.load("pool", kind), self.load("whole", kind))

    def test_each_token_once_with_enough_before_it(self):
        held = _lm.Documents(self.tokens, self.number, 0)
        seen = []
        for begin, done, end in _lm.windows(held, CONTEXT, 4):
            self.assertLessEqual(end - begin, CONTEXT)
            self.assertTrue(done - begin >= CONTEXT - 4 or begin == done)
            self.assertEqual(len(set(self.number[begin:end + 1])), 1)
            seen += range(done + 1, end + 1)
        self.assertEqual(seen, held.rows.tolist())

    def test_mistakes(self):
        for words, arguments in (
            (["vocabulary of 49", "--classes 50"], {"model": "a=f.py:short"}),
            (["no function nothing"], {"model": "a=f.py:nothing"}),
        ):
            code, _, err = self.run_lm("pool", **arguments)
            self.assertEqual(code, 2)
            for word in words:
                self.assertIn(word, err)
        self.assertEqual(self.run_lm("other")[0], 0)
        code, _, err = self.run_lm("other", "--stride", "2")
        self.assertEqual(code, 2)
        self.assertIn("same options", err)
        np.savez(self.folder / "oof.npz", tokens=self.tokens + 1, documents=self.number)
        self.assertIn("token 50 at", self.run_lm("pool")[2])


if __name__ == "__main__":
    unittest.main()
