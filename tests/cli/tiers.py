"""Runs the tests of modules that are quick, or those that are marked as slow (support.slow): tiers.py quick|slow MODULE..."""

import sys
import unittest


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def is_slow(test):
    return getattr(getattr(test, test._testMethodName), "slow", False)


wanted = {"quick": False, "slow": True}[sys.argv[1]]
chosen = [test for test in flat(unittest.defaultTestLoader.loadTestsFromNames(sys.argv[2:])) if is_slow(test) == wanted]
if not chosen:
    sys.exit(f"no {sys.argv[1]} tests in {' '.join(sys.argv[2:])}")
sys.exit(not unittest.TextTestRunner().run(unittest.TestSuite(chosen)).wasSuccessful())
