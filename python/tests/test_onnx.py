"""Stack.export, and the example that joins networks and their stack by onnx.compose."""

import contextlib
import io
import os
import sys
import tempfile
import unittest

import numpy as np

import corestack

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path += [os.path.join(ROOT, "examples"), os.path.join(ROOT, "tests", "cli")]  # last, as tests/cli has modules of the same names
try:
    import onnx_compose
    import onnx_numpy
except ImportError:
    onnx_compose = None


class Export(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="corestack-")
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "service.onnx")

    def test_refusals(self):
        rng = np.random.default_rng(0)
        y = rng.normal(size=60)
        stack = corestack.fit({"a": y + rng.normal(size=60), "b": y + rng.normal(size=60)}, y, task="regression")
        with self.assertRaisesRegex(corestack.ArgumentError, "no format 'onyx'"):
            stack.export(self.path, format="onyx")
        with self.assertRaisesRegex(corestack.ArgumentError, "for regression"):
            stack.export(self.path, output="logit")
        with self.assertRaisesRegex(corestack.ArgumentError, "output"):
            stack.export(self.path, output="odds")

    def test_networks_and_stack_in_one_graph(self):
        if onnx_compose is None:
            self.skipTest("python3-onnx is not installed")
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                features, expected = onnx_compose.main(self.path)
        except corestack.UnsupportedError as error:
            self.skipTest(str(error))
        graph = onnx_compose.onnx.load(self.path)
        self.assertEqual([i.name for i in graph.graph.input], ["features"])
        found = onnx_numpy.run(graph, {"features": features})
        np.testing.assert_allclose(found["probabilities"], expected, atol=1e-6, rtol=0)


if __name__ == "__main__":
    unittest.main()
