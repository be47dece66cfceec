"""CoreStackClassifier, besides scikit-learn's own checks (test_sklearn_checks)."""
from __future__ import annotations

import contextlib
import io
import pickle
import unittest
import warnings
from importlib.util import find_spec

import numpy as np
from common import toy

import corestack

try:
    import sklearn  # noqa: F401
    from sklearn.base import clone
    from sklearn.datasets import load_iris
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
    from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold, cross_val_predict
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.naive_bayes import GaussianNB, MultinomialNB
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sklearn.tree import DecisionTreeClassifier
    from scipy import sparse

    from corestack.sklearn import CoreStackClassifier, CoreStackRegressor
except ImportError:
    raise unittest.SkipTest("scikit-learn is not installed")

try:
    import pandas as pd
except ImportError:
    pd = None


class Divisions(unittest.TestCase):
    def test_columns_that_may_be_divided_in_several_ways(self):
        preds, y = toy(240, 2, 4)
        one = np.stack([p[:, 1] for p in preds.values()], axis=1).astype(np.float64)
        logits = np.log(one / (1 - one))
        for options in ({}, {"n_classes": 2}):
            with self.assertRaisesRegex(corestack.ArgumentError, "4 of 1 or 2 of 2.; give n_members"):
                CoreStackClassifier(output="logit", **options).fit(logits, y)
        fitted = CoreStackClassifier(output="logit", n_members=4).fit(logits, y)
        self.assertEqual(fitted._shape, (4, 1))
        self.assertEqual(CoreStackClassifier().fit(one, y)._shape, (4, 1))  # probabilities tell
        both = np.concatenate(list(preds.values()), axis=1)
        self.assertEqual(CoreStackClassifier().fit(both, y)._shape, (4, 2))
        preds, y = toy(240, 3, 4)
        flat = np.log(np.concatenate(list(preds.values()), axis=1))
        some = np.minimum(y, 1)
        with self.assertRaisesRegex(corestack.ArgumentError, "12 of 1 or 6 of 2 or 4 of 3 .*give n_members"):
            CoreStackClassifier(output="logit").fit(flat, some)
        with self.assertRaisesRegex(corestack.ArgumentError, "4 of 3 or 3 of 4 .*n_members, or n_classes if y has all 3"):
            CoreStackClassifier(output="logit").fit(flat, y)
        for options in ({"n_classes": 3}, {"n_members": 4}, {"classes": [0, 1, 2]}):
            self.assertEqual(CoreStackClassifier(output="logit", **options).fit(flat, y)._shape, (4, 3))
        with self.assertRaisesRegex(corestack.MismatchError, "3 classes, of which y has 2, give classes="):
            CoreStackClassifier().fit(np.exp(flat), some)

    def test_classes_that_y_lacks(self):
        preds, y = toy(240, 3, 4)
        flat, rows = np.concatenate(list(preds.values()), axis=1), y != 2
        cube = flat.reshape(len(y), 4, 3)
        names = np.array(["c", "a", "b"])
        for X in (flat, cube):
            with self.assertRaisesRegex(corestack.MismatchError, "give classes="):
                CoreStackClassifier(n_classes=3).fit(X[rows], y[rows])
            fitted = CoreStackClassifier(classes=names).fit(X[rows], names[y[rows]])
            self.assertEqual(fitted.classes_.tolist(), ["c", "a", "b"])
            self.assertEqual(fitted.predict_proba(X).shape, (240, 3))
            self.assertGreater((fitted.predict(X[rows]) == names[y[rows]]).mean(), 0.6)
        with self.assertRaisesRegex(corestack.MismatchError, "row 0 is .*not one of the classes"):
            CoreStackClassifier(classes=["x", "y", "z"]).fit(flat, names[y])
        for wrong in (["a"], ["a", "a"], "abc"):
            with self.assertRaisesRegex(corestack.ArgumentError, "classes: is"):
                CoreStackClassifier(classes=wrong).fit(flat, names[y])
        y = np.where((y == 2) & (np.cumsum(y == 2) > 1), 0, y)  # one row of class 2, so that a fold has none
        estimator = CoreStackClassifier(classes=[0, 1, 2], cv=3, n_jobs=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertEqual(cross_val_predict(estimator, flat, y, cv=3, method="predict_proba").shape, (240, 3))
            search = GridSearchCV(estimator, {"options": [{"cka.threshold": 0.9}]}, cv=3, error_score="raise")
            self.assertEqual(search.fit(flat, y).predict(flat).shape, (240,))
            on_features = CoreStackClassifier([("nb", GaussianNB())], classes=[0, 1, 2], cv=3)
            self.assertEqual(cross_val_predict(on_features, flat, y, cv=3, method="predict_proba").shape, (240, 3))


class Features(unittest.TestCase):
    """With estimators X is handed to them as it is."""

    def test_texts(self):
        words = np.random.default_rng(0).choice(["a b", "b c", "c d"], 120)
        y = np.char.startswith(words, "a").astype(int) + np.char.endswith(words, "d")
        for X in (words, words.tolist()):
            pair = [("nb", make_pipeline(TfidfVectorizer(token_pattern="."), MultinomialNB())),
                    ("lr", make_pipeline(TfidfVectorizer(token_pattern="."), LogisticRegression()))]  # fmt: skip
            fitted = CoreStackClassifier(pair, cv=3).fit(X, y)
            self.assertGreater((fitted.predict(X) == y).mean(), 0.6)
        with self.assertRaisesRegex(ValueError, "inconsistent"):
            CoreStackClassifier(pair, cv=3).fit(words[:-1], y)

    def test_sparse(self):
        words = np.random.default_rng(0).choice(["a b", "b c", "c d"], 120)
        y = np.char.add("class ", np.char.replace(words, " ", ""))
        counts = TfidfVectorizer(token_pattern=".").fit_transform(words)
        pair = [("nb", MultinomialNB()), ("lr", LogisticRegression())]
        dense = CoreStackClassifier(pair, cv=3).fit(counts.toarray(), y)
        for kind in (sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix):
            fitted = CoreStackClassifier(pair, cv=3).fit(kind(counts), y)
            np.testing.assert_allclose(fitted.predict_proba(kind(counts)), dense.predict_proba(counts.toarray()), atol=1e-5)
            self.assertEqual(fitted.n_features_in_, counts.shape[1])
            self.assertEqual(set(fitted.predict(kind(counts))), {"class ab", "class bc", "class cd"})

    @unittest.skipIf(pd is None, "pandas is not installed")
    def test_frames_of_several_types(self):
        random = np.random.default_rng(0)
        count = pd.Series(random.integers(0, 9, 120), dtype="Int64")
        color = pd.Series(random.choice(["red", "blue"], 120)).astype("category")
        y = (color == "red").to_numpy().astype(int)
        count[3] = pd.NA
        X = pd.DataFrame({"color": color, "count": count})

        def pipeline(last):
            first = ColumnTransformer([("c", OneHotEncoder(), ["color"])])
            return make_pipeline(first, last)

        pair = [("lr", pipeline(LogisticRegression())), ("knn", pipeline(KNeighborsClassifier()))]
        fitted = CoreStackClassifier(pair, cv=3).fit(X, pd.Series(y, dtype="Int64"))
        self.assertEqual(fitted.feature_names_in_.tolist(), ["color", "count"])
        self.assertEqual(fitted.n_features_in_, 2)
        np.testing.assert_array_equal(fitted.predict(X[["count", "color"]]), y)
        regressors = [("a", pipeline(LinearRegression())), ("b", pipeline(KNeighborsRegressor()))]
        values = CoreStackRegressor(regressors, cv=3).fit(X, y + random.normal(0, 0.01, 120)).predict(X)
        self.assertLess(np.abs(values - y).max(), 0.3)


class Parameters(unittest.TestCase):
    def test_what_is_not_valid(self):
        preds, y = toy()
        X = np.concatenate(list(preds.values()), axis=1)
        cases = (
            ({"n_members": 0}, "n_members: is 0"),
            ({"n_classes": 0}, "n_classes: is 0"),
            ({"random_state": np.random.RandomState(0)}, "random_state: is RandomState"),
            ({"n_jobs": "2"}, "n_jobs: is '2'"),
            ({"keep_max": 0}, "keep_max: is 0"),
            ({"method": "bogus"}, "'bogus'"),
            ({"method": "ridge", "preset": "paper"}, "preset and method: give one"),
            ({"cv": "bogus"}, "cv: is 'bogus'"),
            ({"cv": StratifiedKFold(3)}, "cv: is StratifiedKFold"),
            ({"estimators": [LogisticRegression()]}, r"estimators: must be a list of \(name, classifier\)"),
            ({"options": {"cka_threshold": 0.9}}, "the key is 'cka.threshold'"),
        )
        for parameters, text in cases:
            with self.subTest(text), self.assertRaisesRegex(corestack.ArgumentError, text):
                CoreStackClassifier(**parameters).fit(X, y)
        with self.assertRaisesRegex(corestack.MismatchError, "is not a shape of predictions"):
            CoreStackClassifier().fit(np.zeros((len(y), 0, 3)), y)
        with self.assertRaisesRegex(corestack.ArgumentError, "the key is 'cka.threshold'"):
            corestack.fit(preds, y, options={"cka_threshold": 0.9})

    def test_are_those_of_fit(self):
        preds, y = toy()
        X, members = np.concatenate(list(preds.values()), axis=1), list(preds.values())
        plain = CoreStackClassifier().fit(X, y)
        self.assertGreater(len(plain.stack_.kept), 2)
        for parameters, given in (
            ({"method": "hill-climbing"}, {"method": "hill-climbing"}),
            ({"method": "compact"}, {"method": "compact"}),
            ({"keep_max": 2}, {"keep_max": 2}),
        ):
            fitted = CoreStackClassifier(**parameters).fit(X, y)
            self.assertEqual(fitted.stack_.to_bytes(), corestack.fit(members, y, **given, evaluate_nested=False).to_bytes())
            self.assertNotEqual(fitted.stack_.to_bytes(), plain.stack_.to_bytes())
        values = np.stack([p[:, 0] for p in members], axis=1)
        fitted = CoreStackRegressor(method="ridge").fit(values, y)
        stack = corestack.fit(list(values.T), y, task="regression", method="ridge", evaluate_nested=False)
        self.assertEqual(fitted.stack_.to_bytes(), stack.to_bytes())

    @unittest.skipIf(not any(one["key"] == "metric" for one in corestack.option_table()), "the library has no such option")
    def test_metric(self):
        preds, y = toy(classes=2)
        X = np.concatenate(list(preds.values()), axis=1)
        fitted = CoreStackClassifier(metric="auc").fit(X, y)
        self.assertEqual(fitted.stack_.settings["metric"], "auc")
        with self.assertRaises(corestack.ArgumentError):
            CoreStackClassifier(metric="bogus").fit(X, y)

    def test_verbose(self):
        preds, y = toy()
        for verbose in (False, True):
            shown = io.StringIO()
            with contextlib.redirect_stderr(shown):
                CoreStackClassifier(verbose=verbose).fit(np.concatenate(list(preds.values()), axis=1), y)
            self.assertEqual("labels" in shown.getvalue(), verbose and find_spec("tqdm") is not None)

    @unittest.skipIf(pd is None, "pandas is not installed")
    def test_names_of_features(self):
        preds, y = toy()
        X = pd.DataFrame(np.concatenate(list(preds.values()), axis=1)).add_prefix("c")
        fitted = CoreStackClassifier().fit(X, y)
        self.assertTrue(set(fitted.get_feature_names_out(list(X.columns))) <= set(X.columns))
        for wrong in ([f"d{k}" for k in range(12)], ["c0"]):
            with self.assertRaises(ValueError):
                fitted.get_feature_names_out(wrong)
        unnamed = CoreStackClassifier().fit(X.to_numpy(), y)
        with self.assertRaises(ValueError):
            unnamed.get_feature_names_out(["c0"])
        self.assertTrue(set(unnamed.get_feature_names_out(list(X.columns))) <= set(X.columns))


class OnPredictions(unittest.TestCase):
    def setUp(self):
        self.preds, self.codes = toy(rows=300)
        self.labels = np.array(["cat", "ant", "bee"])[self.codes]
        order = np.argsort(["cat", "ant", "bee"])  # columns in the order of classes_
        self.members = [p[:, order] for p in self.preds.values()]
        self.X = np.concatenate(self.members, axis=1)
        self.fitted = CoreStackClassifier().fit(self.X, self.labels)

    def test_is_the_functional_fit(self):
        codes = np.searchsorted(["ant", "bee", "cat"], self.labels)
        stack = corestack.fit(self.members, codes, evaluate_nested=False)
        self.assertEqual(self.fitted.stack_.to_bytes(), stack.to_bytes())
        p = self.fitted.predict_proba(self.X)
        np.testing.assert_array_equal(p, stack.predict(self.members).astype(np.float64))
        self.assertEqual(self.fitted.classes_.tolist(), ["ant", "bee", "cat"])
        np.testing.assert_array_equal(self.fitted.predict(self.X), self.fitted.classes_[p.argmax(1)])
        self.assertGreater(self.fitted.score(self.X, self.labels), 0.6)

    def test_shapes(self):
        p = self.fitted.predict_proba(self.X)
        cube = np.stack(self.members, axis=1)
        for X in (cube, np.stack(self.members).transpose(1, 0, 2), np.asfortranarray(self.X), self.X.astype(np.float64)):
            other = CoreStackClassifier(n_members=4, n_classes=3).fit(X, self.labels)
            np.testing.assert_allclose(other.predict_proba(X), p, atol=1e-6)
            self.assertEqual(other.n_features_in_, 12)
        with self.assertRaisesRegex(ValueError, "5 members with 3 classes"):
            CoreStackClassifier(n_members=5).fit(self.X, self.labels)
        with self.assertRaisesRegex(ValueError, "n_classes is 4"):
            CoreStackClassifier(n_classes=4).fit(self.X, self.labels)
        with self.assertRaisesRegex(ValueError, "was fitted on"):
            CoreStackClassifier().fit(cube, self.labels).predict(cube[:, :2])
        with self.assertRaisesRegex(ValueError, "features"):
            self.fitted.predict(self.X[:, :6])

    def test_binary(self):
        preds, y = toy(rows=300, classes=2)
        one = np.stack([p[:, 1] for p in preds.values()], axis=1)
        two = np.concatenate(list(preds.values()), axis=1)
        a = CoreStackClassifier(n_members=4).fit(one, y)
        b = CoreStackClassifier(n_members=4).fit(two, y)
        np.testing.assert_allclose(a.predict_proba(one), b.predict_proba(two), atol=1e-4)

    def test_parameters(self):
        estimator = CoreStackClassifier(preset="paper", options={"cka.threshold": 0.9}, random_state=3, n_jobs=1)
        fitted = clone(estimator).fit(self.X, self.labels)
        self.assertEqual(fitted.stack_.settings["cka.threshold"], "0.9")
        self.assertEqual(fitted.stack_.settings["seed"], "3")
        nested = CoreStackClassifier(nested=True, cv=3).fit(self.X, self.labels)
        self.assertTrue(nested.report_["oof"]["nested"])
        self.assertEqual(nested.report_["folds"], {"count": 3, "source": "made"})
        folds = np.arange(len(self.X)) % 4
        given = CoreStackClassifier().fit(self.X, self.labels, folds=folds)
        self.assertEqual(given.report_["folds"], {"count": 4, "source": "pool"})
        weights = np.random.default_rng(0).random(len(self.X))
        weights[::7] = 0
        counted = weights > 0
        weighted = CoreStackClassifier().fit(self.X, self.labels, weights, folds=folds)
        without = CoreStackClassifier().fit(self.X[counted], self.labels[counted], weights[counted], folds=folds[counted])
        self.assertEqual(weighted.stack_.to_bytes(), without.stack_.to_bytes())
        self.assertNotEqual(weighted.stack_.to_bytes(), given.stack_.to_bytes())
        alike = CoreStackClassifier().fit(self.X, self.labels, np.full(len(self.X), 2.5), folds=folds)
        self.assertEqual(alike.stack_.to_bytes(), given.stack_.to_bytes())
        with self.assertRaisesRegex(TypeError, "weights"):
            CoreStackClassifier().fit(self.X, self.labels, weights=1)

    def test_pickle_and_search(self):
        again = pickle.loads(pickle.dumps(self.fitted))
        np.testing.assert_array_equal(again.predict_proba(self.X), self.fitted.predict_proba(self.X))
        search = GridSearchCV(
            CoreStackClassifier(), {"preset": ["default", "prototype"]}, cv=3, scoring="neg_log_loss", n_jobs=2
        )
        search.fit(self.X, self.labels)
        self.assertTrue(np.isfinite(search.best_score_))
        self.assertEqual(search.predict(self.X).shape, self.labels.shape)

    def test_transform(self):
        kept = self.fitted.stack_.kept
        out = self.fitted.transform(self.X)
        expected = np.concatenate([self.members[int(name[1:])] for name in kept], axis=1)
        np.testing.assert_array_equal(out, expected)
        self.assertEqual(len(self.fitted.get_feature_names_out()), out.shape[1])

    @unittest.skipIf(pd is None, "pandas is not installed")
    def test_data_frame(self):
        columns = [f"{name}_{c}" for name in self.preds for c in ("ant", "bee", "cat")]
        frame = pd.DataFrame(self.X, columns=columns)
        fitted = CoreStackClassifier().fit(frame, pd.Series(self.labels))
        self.assertEqual(fitted.feature_names_in_.tolist(), columns)
        np.testing.assert_array_equal(fitted.predict_proba(frame), self.fitted.predict_proba(self.X))
        out = fitted.set_output(transform="pandas").transform(frame)
        self.assertTrue(set(out.columns) <= set(columns))
        np.testing.assert_array_equal(out.to_numpy(), frame[out.columns].to_numpy())


class OnFeatures(unittest.TestCase):
    def setUp(self):
        self.X, self.y = load_iris(return_X_y=True)
        self.base = [
            ("lr", LogisticRegression(max_iter=500)),
            ("nb", GaussianNB()),
            ("rf", RandomForestClassifier(20, random_state=0)),
        ]

    def test_out_of_fold(self):
        cv = StratifiedKFold(4, shuffle=True, random_state=0)
        fitted = CoreStackClassifier(self.base, cv=cv).fit(self.X, self.y)
        folds = np.empty(len(self.y), int)
        for number, (_, test) in enumerate(cv.split(self.X, self.y)):
            folds[test] = number
        preds = {n: cross_val_predict(clone(e), self.X, self.y, cv=cv, method="predict_proba") for n, e in self.base}
        stack = corestack.fit(preds, self.y, folds=folds, evaluate_nested=False)
        self.assertEqual(fitted.stack_.to_bytes(), stack.to_bytes())
        self.assertEqual(list(fitted.named_estimators_), stack.kept)
        members = {n: clone(e).fit(self.X, self.y).predict_proba(self.X) for n, e in self.base}
        np.testing.assert_array_equal(fitted.predict_proba(self.X), stack.predict(members).astype(np.float64))
        self.assertGreater(fitted.score(self.X, self.y), 0.9)

    def test_prefit(self):
        half = np.arange(len(self.y)) % 2 == 0
        base = [(n, clone(e).fit(self.X[half], self.y[half])) for n, e in self.base]
        fitted = CoreStackClassifier(base, cv="prefit").fit(self.X[~half], self.y[~half])
        for name, est in fitted.named_estimators_.items():
            self.assertIs(est, dict(base)[name])
        with self.assertRaises(sklearn.exceptions.NotFittedError):
            CoreStackClassifier(self.base, cv="prefit").fit(self.X, self.y)

    def test_parameters_of_estimators(self):
        search = GridSearchCV(
            make_pipeline(StandardScaler(), CoreStackClassifier(self.base, cv=3)),
            {"corestackclassifier__lr__C": [0.1, 1.0], "corestackclassifier__nb": ["drop"]},
            cv=3,
        )
        search.fit(self.X, self.y)
        best = search.best_estimator_[-1]
        self.assertNotIn("nb", best.stack_.members)
        self.assertIn(best.get_params()["lr__C"], (0.1, 1.0))
        self.assertGreater(search.best_score_, 0.9)

    def test_classifiers_that_only_decide(self):
        fitted = CoreStackClassifier([("ridge", RidgeClassifier()), *self.base[:1]]).fit(self.X, self.y)
        self.assertGreater(fitted.score(self.X, self.y), 0.8)

    def test_sample_weight(self):
        weights = np.random.default_rng(0).random(len(self.y))
        weights[::5] = 0
        counted = weights > 0
        cv = StratifiedKFold(3, shuffle=True, random_state=0)
        base = [*self.base[:2], ("scaled", make_pipeline(StandardScaler(), LogisticRegression())),
                ("knn", KNeighborsClassifier(5))]  # fmt: skip
        fitted = CoreStackClassifier(base, cv=cv).fit(self.X, self.y, weights)
        X, y, w = self.X[counted], self.y[counted], weights[counted]
        without = CoreStackClassifier(base, cv=cv).fit(X, y, sample_weight=w)
        np.testing.assert_array_equal(fitted.predict_proba(self.X), without.predict_proba(self.X))
        key = {"lr": "sample_weight", "nb": "sample_weight", "scaled": "logisticregression__sample_weight"}
        preds = {}
        for name, est in base:
            how = {key[name]: w} if name in key else {}
            preds[name] = cross_val_predict(clone(est), X, y, cv=cv, method="predict_proba", fit_params=how)
        folds = np.empty(len(y), int)
        for number, (_, test) in enumerate(cv.split(X, y)):
            folds[test] = number
        stack = corestack.fit(preds, y, folds=folds, sample_weight=w, evaluate_nested=False)
        self.assertEqual(fitted.stack_.to_bytes(), stack.to_bytes())
        for wrong, text in ((-weights, "row 1 is -"), (weights * np.nan, "NaN|nan"), (weights * 0, "every weight is 0")):
            with self.assertRaisesRegex(ValueError, text):
                CoreStackClassifier(base).fit(self.X, self.y, wrong)

    def test_groups_reach_estimators_that_take_them(self):
        groups = np.arange(len(self.y)) % 10
        search = GridSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 3]}, cv=GroupKFold(3))
        plain = not hasattr(sklearn.utils, "metadata_routing")  # GridSearchCV takes them by name in scikit-learn before 1.3
        if not plain:
            sklearn.set_config(enable_metadata_routing=True)
            self.addCleanup(sklearn.set_config, enable_metadata_routing=False)
        fitted = CoreStackClassifier([("tree", search), ("nb", GaussianNB())], cv=3).fit(self.X, self.y, groups=groups)
        self.assertGreater(fitted.score(self.X, self.y), 0.9)
        if plain:
            return
        base = [("lr", LogisticRegression().set_fit_request(sample_weight=True)), ("nb", GaussianNB().set_fit_request(sample_weight=False))]
        CoreStackClassifier(base, cv=3).fit(self.X, self.y, np.ones(len(self.y)))
        with self.assertRaises(sklearn.exceptions.UnsetMetadataPassedError):
            CoreStackClassifier(self.base, cv=3).fit(self.X, self.y, np.ones(len(self.y)))

    def test_groups(self):
        groups = np.arange(len(self.y)) % 10
        fitted = CoreStackClassifier(self.base, cv=GroupKFold(5)).fit(self.X, self.y, groups=groups)
        self.assertEqual(fitted.report_["folds"]["count"], 5)

    def test_folds_keep_groups_together(self):
        # Features that only tell the groups apart, and labels that are noise: a member that has seen a group knows its label.
        rng = np.random.default_rng(5)
        groups = np.repeat(np.arange(60), 10)
        X = rng.normal(size=(60, 4))[groups] + rng.normal(scale=1e-3, size=(600, 4))
        y = rng.integers(0, 2, 60)[groups]
        base = [("knn", KNeighborsClassifier(3)), ("nb", GaussianNB())]
        for cv in (5, None):
            fitted = CoreStackClassifier(base, cv=cv, nested=True).fit(X, y, groups=groups)
            self.assertLess(fitted.report_["oof"]["top1"], 0.7)
            alike = CoreStackClassifier(base, cv=StratifiedGroupKFold(5), nested=True).fit(X, y, groups=groups)
            self.assertEqual(fitted.stack_.to_bytes(), alike.stack_.to_bytes())
        names = np.array([f"patient {g:02}" for g in groups])
        self.assertEqual(CoreStackClassifier(base, nested=True).fit(X, y, groups=names).stack_.to_bytes(), fitted.stack_.to_bytes())
        with self.assertRaisesRegex(ValueError, "3 groups cannot be divided into 5 folds"):
            CoreStackClassifier(base).fit(X, y, groups=groups % 3)

    def test_folds_that_lack_a_class(self):
        order = np.argsort(self.y, kind="stable")
        X, y, count = self.X[order], np.array(["cat", "dog", "newt"])[self.y[order]], np.bincount(self.y)
        plain = CoreStackClassifier(self.base[:2], cv=KFold(3))
        with self.assertRaisesRegex(ValueError, r"cv: fold \d holds .* rows of class (cat|dog|newt).*StratifiedKFold.*shuffle=True"):
            plain.fit(X, y)
        few = np.r_[np.arange(count[0] + count[1]), np.flatnonzero(y == "newt")[:5]]  # a class within one fold
        with self.assertRaisesRegex(ValueError, "fold 2 holds 5 of the 5 rows of class newt, and its estimators train on 0"):
            plain.fit(X[few], y[few])
        plain.set_params(cv=KFold(3, shuffle=True, random_state=0)).fit(X, y)
        plain.set_params(cv=3).fit(X, y)

    def test_what_is_refused(self):
        for estimators, text in (
            ([], "at least one"),
            ([("lr", "keep")], "at least one"),
            ([("scale", StandardScaler())], "not a classifier"),
            ([("lr", GaussianNB()), ("lr", GaussianNB())], "not unique"),
        ):
            with self.assertRaisesRegex(ValueError, text):
                CoreStackClassifier(estimators).fit(self.X, self.y)
        overlapping = [(np.arange(100), np.arange(100, 150)), (np.arange(50, 150), np.arange(149))]
        with self.assertRaisesRegex(ValueError, "several test folds"):
            CoreStackClassifier(self.base, cv=overlapping).fit(self.X, self.y)
        order = np.argsort(self.y, kind="stable")
        with self.assertRaisesRegex(ValueError, "fold 0 holds .* rows of class .*StratifiedKFold"):
            CoreStackClassifier(self.base, cv=KFold(3)).fit(self.X[order], self.y[order])
        with self.assertRaisesRegex(ValueError, "'prefit'"):
            CoreStackClassifier(self.base, cv="fitted").fit(self.X, self.y)

    @unittest.skipIf(pd is None, "pandas is not installed")
    def test_data_frame(self):
        frame = pd.DataFrame(self.X, columns=list("abcd"))
        fitted = CoreStackClassifier(self.base[:2]).fit(frame, self.y)
        self.assertEqual(fitted.feature_names_in_.tolist(), list("abcd"))
        self.assertEqual(fitted.estimators_[0].feature_names_in_.tolist(), list("abcd"))
        out = fitted.set_output(transform="pandas").transform(frame)
        self.assertEqual(out.columns[0], f"{fitted.stack_.kept[0]}_0")


class SeveralLabels(unittest.TestCase):
    """y (rows, labels): as corestack.fit(task="multilabel") of the same predictions, whatever form estimators give theirs in."""

    def test_indicator(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(240, 4))
        y = (X @ rng.normal(size=(4, 3)) + rng.normal(size=(240, 3)) > 0.4).astype(int)
        given = [("tree", DecisionTreeClassifier(max_depth=3)), ("near", KNeighborsClassifier(15)), ("lines", OneVsRestClassifier(LogisticRegression()))]
        found = CoreStackClassifier(given).fit(X[:160], y[:160])
        p = found.predict_proba(X[160:])
        self.assertEqual(p.shape, (80, 3))
        self.assertEqual(found.predict(X[160:]).tolist(), (p >= 0.5).astype(int).tolist())
        self.assertGreater(found.score(X[160:], y[160:]), 0.3)
        cube = np.stack([cross_val_predict(OneVsRestClassifier(est), X, y, method="predict_proba") for est in (LogisticRegression(), GaussianNB())], axis=1)
        sparse_y = CoreStackClassifier().fit(cube, sparse.csr_matrix(y))
        stack = corestack.fit([cube[:, 0], cube[:, 1]], y, task="multilabel", options={"evaluate.nested": False})
        self.assertEqual(sparse_y.predict_proba(cube).tolist(), stack.predict([cube[:, 0], cube[:, 1]]).astype(float).tolist())
        with self.assertRaisesRegex(corestack.ArgumentError, "leave classes out"):
            CoreStackClassifier(classes=["a", "b"]).fit(cube, y)


if __name__ == "__main__":
    unittest.main()
