"""docs/json.md has the keys that the commands print, and docs/json.txt says what each is."""

import unittest

import json_page
from golden import difference
from support import slow


class JsonPage(unittest.TestCase):
    maxDiff = None

    @slow
    def test_page(self):
        diff = difference("json.md", json_page.PAGE.read_text(encoding="utf-8"), json_page.page())
        self.assertEqual(diff, "", "If this is right, run tests/cli/json_page.py --write and commit the result.")

    def test_a_key_without_a_description(self):
        self.assertEqual(json_page.unknown({"members": [{"name": "a", "colour": 1}], "weights": {"colour": 1}}, "fit"), ["fit.members.colour"])


if __name__ == "__main__":
    unittest.main()
