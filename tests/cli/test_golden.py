"""What the commands print on the example pools is in tests/golden/ (golden.py)."""

import os
import unittest

import golden


class Golden(unittest.TestCase):
    maxDiff = None

    def test_outputs(self):
        diffs = golden.differences()
        if diffs:
            text = "\n".join(diffs.values())
            self.fail(f"{text}\n{len(diffs)} files differ. If this is right, run tests/cli/golden.py --write and commit the result.")

    def test_files_are_small(self):
        sizes = [os.path.getsize(os.path.join(golden.FOLDER, name)) for name in os.listdir(golden.FOLDER)]
        self.assertLess(sum(sizes), 415000)


class Comparison(unittest.TestCase):
    def differ(self, name, expected, actual):
        return golden.difference(name, expected, actual) != ""

    def test_last_digits_of_texts(self):
        self.assertFalse(self.differ("a.txt", "NLL 0.2145, [0.1, 1.0]", "NLL 0.2146, [0.2, 1.1]"))
        for other in ("NLL 0.2148, [0.1, 1.0]", "nll 0.2145, [0.1, 1.0]", "NLL 0.2145, [0.1, 1.0", "NLL 0.2145, [0.1, 1.0]\n\nmore"):
            self.assertTrue(self.differ("a.txt", "NLL 0.2145, [0.1, 1.0]", other), other)

    def test_digits_of_json(self):
        self.assertFalse(self.differ("a.json", '"nll": 0.2145000001,', '"nll": 0.2145000009,'))
        for other in ('"nll": 0.2146,', '"nll": -0.2145000001,', '"nll": null,'):
            self.assertTrue(self.differ("a.json", '"nll": 0.2145000001,', other), other)

    def test_whole_numbers_and_names(self):
        for expected, other in (("kept 9 of 16", "kept 8 of 16"), ("knn_25 1.0", "knn_24 1.0"), ("top-1", "top-2"), ("154k", "155k")):
            self.assertTrue(self.differ("a.txt", expected, other), other)

    def test_lines_that_are_gone(self):
        diff = golden.difference("a.txt", "one 1.0\ntwo 2.0\nthree 3.0\n", "one 1.1\nthree 3.0\n")
        self.assertEqual([line for line in diff.splitlines() if line[0] in "+-"][2:], ["-two 2.0"])

    def test_times(self):
        for wide in ("", "  "):
            table = f"  method   K  FLOPs   {wide}  s    p\n  a        1  0.009  {wide}0.01    -\n\n  time    1.5 s: read 0.25\n  took 3, in 2.5 s\n"
            self.assertEqual(
                golden.without_times(table, ".txt"),
                "  method   K  FLOPs  s    p\n  a        1  0.009  T    -\n\n  time    T s: read T\n  took 3, in T s\n",
            )
        document = '{\n  "seconds": {\n    "read": 0.5\n  },\n  "nll": 0.5,\n  "seconds_scored": 2e-05\n}\n'
        self.assertEqual(golden.without_times(document, ".json"), document.replace('0.5\n', '"T"\n').replace("2e-05", '"T"'))


if __name__ == "__main__":
    unittest.main()
