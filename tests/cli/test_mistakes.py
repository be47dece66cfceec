"""docs/mistakes.md: typical mistakes, and what the tool does about each (mistakes.py)."""

import unittest

import mistakes
from golden import difference


class Mistakes(unittest.TestCase):
    maxDiff = None

    def test_page(self):
        found = list(mistakes.runs())
        self.assertGreaterEqual(len(found), 40)
        for title, expected, actual, said, good in found:
            with self.subTest(title):
                self.assertEqual(actual, expected, said)
                self.assertTrue(good, "the result differs from that without the mistake")
                self.assertTrue(actual != "error" or len(said) == 1, said)
        for path, text in ((mistakes.PAGE, mistakes.page(found)), (mistakes.ANSWERS, mistakes.answers(found))):
            diff = difference(path, mistakes.stored(path), text)
            self.assertEqual(diff, "", "If this is right, run tests/cli/mistakes.py --write and commit the result.")


if __name__ == "__main__":
    unittest.main()
