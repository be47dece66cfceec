"""scikit-learn's own checks of CoreStackClassifier and CoreStackRegressor. `make check` runs them, with the installed package."""
from __future__ import annotations

import functools
import unittest
import warnings

import common  # noqa: F401

try:
    import sklearn  # noqa: F401
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.utils.estimator_checks import check_estimator

    from corestack.sklearn import FEATURE_CHECKS, CoreStackClassifier, CoreStackRegressor
except ImportError:
    raise unittest.SkipTest("scikit-learn is not installed")


class Classifier(unittest.TestCase):
    def test_on_features(self):
        # Of these two the rule keeps one: logistic regression is not exact about rows of weight 0.
        exact = {"select.rule": "non-inferior"}
        estimator = CoreStackClassifier([("lr", LogisticRegression()), ("nb", GaussianNB())], cv=3, n_jobs=1, options=exact)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", category=sklearn.exceptions.SkipTestWarning)
            check_estimator(estimator)

    def test_on_predictions(self):
        ran = 0
        for estimator, check in check_estimator(CoreStackClassifier(), generate_only=True):
            function = check.func if isinstance(check, functools.partial) else check
            if function.__name__ not in FEATURE_CHECKS:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        check(estimator)
                        ran += 1
                    except unittest.SkipTest:  # it needs what scikit-learn does not find here
                        pass
        self.assertGreater(ran, 15)


class Regressor(unittest.TestCase):
    def every_check(self, estimator, skipped=0):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("ignore")
            warnings.filterwarnings("always", category=sklearn.exceptions.SkipTestWarning)
            check_estimator(estimator)
        self.assertEqual(len(told), skipped, [str(w.message) for w in told])

    def test_on_features(self):
        base = [("lr", LinearRegression()), ("ridge", Ridge()), ("knn", KNeighborsRegressor(3))]
        self.every_check(CoreStackRegressor(base, cv=3, n_jobs=1))

    def test_on_predictions(self):
        self.every_check(CoreStackRegressor(n_jobs=1), skipped=2)  # that of weights shuffles the rows, on which the folds depend


if __name__ == "__main__":
    unittest.main()
