"""The plots draw the numbers of the reports: heights, places and labels, read back from the axes."""
from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
from common import digits, needs_tool, run_tool, toy

import corestack
from corestack import plot

try:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    matplotlib.use("Agg")
except ImportError:
    raise unittest.SkipTest("matplotlib is not installed")


def texts_fit(test, ax):
    """Every text of the figure lies inside it, has 6 points at least, and touches no other one."""
    figure = ax.figure
    FigureCanvasAgg(figure).draw()
    whole = figure.bbox
    hidden = set()  # labels of ticks beyond the ends of an axis
    for axis in [axis for a in figure.axes for axis in (a.xaxis, a.yaxis)]:
        low, high = sorted(axis.get_view_interval())
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
            if not low <= tick.get_loc() <= high:
                hidden |= {id(tick.label1), id(tick.label2)}
    boxes = []
    for text in figure.findobj(matplotlib.text.Text):
        if text.get_text() and text.get_visible() and id(text) not in hidden:
            box = text.get_window_extent()
            inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= whole.x1 + 1 and box.y1 <= whole.y1 + 1
            test.assertTrue(inside, f"{text.get_text()}: {box} in {whole}")
            test.assertGreaterEqual(text.get_fontsize(), 6, text.get_text())
            boxes.append((box, text.get_text()))
    low, high = (np.array([getattr(box, end) for box, _ in boxes]) for end in ("min", "max"))
    share = np.minimum(high[:, None], high) - np.maximum(low[:, None], low) > 0.1 * np.minimum((high - low)[:, None], high - low)
    for i, j in np.argwhere(np.triu(share.all(axis=2), 1)):
        test.fail(f"{boxes[i][1]!r} and {boxes[j][1]!r} overlap")


def named(ax):
    """{name in the key: (points, style)}, of error bars."""
    return {bars.get_label(): bars[0].get_xydata().tolist() for bars in ax.containers}


def long_names(members, classes=4, rows=300):
    """Members of which every third is a near copy of the one before."""
    preds, y = toy(rows=rows, classes=classes, members=members)
    random = np.random.default_rng(1)
    found = {}
    for k, p in enumerate(preds.values()):
        if k % 3 == 2:
            p = found[f"convnext_large_in22k_seed{k - 1}"] * np.exp(0.01 * random.normal(size=p.shape))
            p = (p / p.sum(1, keepdims=True)).astype(np.float32)
        found[f"convnext_large_in22k_seed{k}"] = p
    return found, y


class Plots(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        manifest, cls.oof, cls.test, cls.y, cls.y_test, folds = digits()
        cls.flops = {m["name"]: m["flops"] for m in manifest["models"]}
        names = ["svm_rbf", "knn_5", "forest_a", "forest_b", "lda", "tree"]
        cls.few = {name: cls.oof[name] for name in names}
        cls.inspected = corestack.inspect(cls.few, cls.y, options={"cka.threshold": 0.95})
        cls.p = cls.oof["svm_rbf"]

    def tearDown(self):
        self.assertNotIn("matplotlib.pyplot", sys.modules)  # no global state

    def test_reliability(self):
        bins = corestack.metrics.reliability(self.p, self.y, bins=12)
        some = [b for b in bins if b["count"]]
        ax = plot.reliability(self.p, self.y, bins=12)
        accuracy, gap = ax.containers
        self.assertEqual(len(accuracy), len(some))
        for bar, hole, b in zip(accuracy, gap, some):
            self.assertAlmostEqual(bar.get_x(), b["lower"])
            self.assertAlmostEqual(bar.get_x() + bar.get_width(), b["upper"])
            self.assertAlmostEqual(bar.get_height(), b["accuracy"])
            self.assertAlmostEqual(hole.get_y(), b["accuracy"])
            self.assertAlmostEqual(hole.get_y() + hole.get_height(), b["confidence"])
        diagonal, points = ax.lines
        self.assertEqual(diagonal.get_xydata().tolist(), [[0, 0], [1, 1]])
        np.testing.assert_allclose(points.get_xdata(), [b["confidence"] for b in some])
        np.testing.assert_allclose(points.get_ydata(), [b["accuracy"] for b in some])
        ece = corestack.metrics.ece(self.p, self.y, bins=12)
        self.assertEqual(ax.get_title(), f"Reliability, ECE {ece:.4f}")
        below = ax.figure.axes[1]
        np.testing.assert_allclose([bar.get_height() for bar in below.patches], [b["count"] / len(self.y) for b in bins])
        self.assertEqual((ax.get_ylabel(), below.get_ylabel()), ("accuracy", "share of rows"))
        self.assertEqual(below.get_xlabel(), "confidence")
        texts_fit(self, ax)

    def test_reliability_of_a_report(self):
        report = corestack.evaluate(self.p, self.y)
        figure = Figure()
        ax, other = figure.subplots(1, 2)
        self.assertIs(plot.reliability(report, ax=ax, histogram_ax=other, title="SVM"), ax)
        direct = plot.reliability(self.p, self.y)
        for a, b in zip(ax.patches, direct.patches):
            self.assertAlmostEqual(a.get_height(), b.get_height(), places=8)
        self.assertEqual(ax.get_title(), f"SVM, ECE {report['ece']:.4f}")
        self.assertEqual(len(other.patches), 15)
        self.assertEqual(ax.get_xlabel(), "confidence")
        self.assertEqual(len(figure.axes), 2)
        alone = plot.reliability(report, ax=Figure().subplots())
        self.assertEqual(len(alone.figure.axes), 1)
        for wrong in (dict(y=self.y), dict(bins=10)):
            with self.assertRaises(corestack.ArgumentError):
                plot.reliability(report, **wrong)
        with self.assertRaisesRegex(corestack.ArgumentError, "labels y"):
            plot.reliability(self.p)
        with self.assertRaisesRegex(corestack.ArgumentError, "'evaluate'; this is one of 'inspect'"):
            plot.reliability(self.inspected)

    def test_cka(self):
        report = dict(self.inspected)
        report["clusters"] = [["svm_rbf"], ["knn_5", "lda"], ["forest_a", "tree", "forest_b"]]
        ax = plot.cka(report)
        order = ["forest_a", "tree", "forest_b", "knn_5", "lda", "svm_rbf"]
        for labels in (ax.get_xticklabels(), ax.get_yticklabels()):
            self.assertEqual([t.get_text() for t in labels], order)
        place = [report["models"].index(name) for name in order]
        expected = np.array(report["cka"])[np.ix_(place, place)]
        np.testing.assert_allclose(np.asarray(ax.images[0].get_array()), expected)
        outlines = [(p.get_x(), p.get_y(), p.get_width(), p.get_height()) for p in ax.patches]
        self.assertEqual(outlines, [(-0.5, -0.5, 3, 3), (2.5, 2.5, 2, 2)])
        self.assertIn("2 clusters", ax.get_title())
        self.assertIn(f"{report['cluster_threshold']:g}", ax.get_title())
        written = {t.get_position(): t.get_text() for t in ax.texts}
        self.assertEqual(len(written), 30)
        self.assertEqual(float(written[(1, 0)]), round(expected[0, 1], 2))
        bar = ax.figure.axes[1]
        self.assertEqual(bar.get_ylabel(), "CKA")
        self.assertEqual(ax.images[0].get_clim()[1], 1)
        texts_fit(self, ax)
        pearson = plot.cka(self.inspected, measure="pearson", title="P")
        self.assertEqual(pearson.get_title(), "P")
        self.assertEqual(pearson.figure.axes[1].get_ylabel(), "Pearson correlation")
        with self.assertRaisesRegex(ValueError, "measure is 'r2'"):
            plot.cka(self.inspected, measure="r2")

    def test_pair_that_is_not_known(self):
        report = json.loads(self.inspected.to_json())
        report["cka"][0][1] = report["cka"][1][0] = None
        shown = np.asarray(plot.cka(report).images[0].get_array().filled(np.nan))
        self.assertEqual(np.isnan(shown).sum(), 2)

    def test_many_members(self):
        preds, y = long_names(33)
        report = corestack.inspect(preds, y)
        self.assertTrue(any(len(cluster) > 1 for cluster in report["clusters"]))
        ax = plot.cka(report)
        self.assertEqual(len(ax.get_yticklabels()), 33)
        self.assertEqual(len(ax.patches), sum(len(cluster) > 1 for cluster in report["clusters"]))
        self.assertEqual(len(ax.texts), 0)
        texts_fit(self, ax)
        weights = {name: (-1) ** k * (k + 1) / 40 for k, name in enumerate(preds)}
        texts_fit(self, plot.weights({"command": "fit", "weights": weights}))

    def test_spectrum(self):
        report = self.inspected
        ax = plot.spectrum(report)
        values = sorted(report["eigenvalues"], reverse=True)
        above, below, *lines = ax.lines
        n = sum(v > report["mp_edge"] for v in values)
        np.testing.assert_allclose(above.get_xydata(), list(zip(range(1, n + 1), values[:n])))
        np.testing.assert_allclose(below.get_xydata(), list(zip(range(n + 1, len(values) + 1), values[n:])))
        heights = {line.get_label(): line.get_ydata()[0] for line in lines}
        expected = {f"Marchenko-Pastur edge {report['mp_edge']:.3g}": report["mp_edge"]}
        for rule, value in report["lambda"].items():
            expected[f"λ* {value:.3g}" if rule == "star" else f"λ {rule} {value:.3g}"] = value
        self.assertEqual(heights, expected)
        self.assertEqual(len({(line.get_color(), str(line.get_linestyle())) for line in lines}), len(lines))
        self.assertEqual(ax.get_yscale(), "log")
        self.assertEqual(ax.get_xlabel(), "rank")
        self.assertEqual(above.get_label(), f"above the edge ({n})")
        texts_fit(self, ax)
        with self.assertRaisesRegex(ValueError, "remove output"):
            plot.spectrum(report, output=1)
        several = {"command": "inspect", "outputs": [{"name": "a"}, {"name": "b", **report}]}
        self.assertEqual(len(plot.spectrum(several, output="b").lines), len(ax.lines))
        self.assertEqual(len(plot.spectrum(several, output=1).lines), len(ax.lines))
        with self.assertRaisesRegex(ValueError, "one of a, b"):
            plot.spectrum(several)
        with self.assertRaisesRegex(ValueError, "no 'eigenvalues'"):
            plot.spectrum(several, output=0)

    def test_front(self):
        flops = {name: self.flops[name] for name in self.few}
        most = sorted(flops.values())[1] * 1.5
        stack = corestack.fit(self.few, self.y, flops=flops, keep_max_flops=most, evaluate_nested=False)
        points = stack.report["front"]["points"]
        ax = plot.front(stack)
        drawn = {tuple(xy) for line in ax.lines for xy in np.column_stack(line.get_data())}
        for point in points:
            self.assertTrue(point["kept"] or (point["flops"], point["loss"]) in drawn)
        self.assertEqual([text.get_text() for text in ax.get_legend().get_texts()], ["best at its cost or less", "kept", "budget"])
        self.assertEqual((ax.get_xlabel(), ax.get_xscale()), ("FLOPs, log scale", "log"))
        self.assertEqual(plot.front(dict(stack.report), cost="flops", title="T").get_title(), "T")
        for call, says in (
            (lambda: plot.front(stack, cost="latency_ms"), "has no latency_ms"),
            (lambda: plot.front(stack, cost="euros"), "must be one of"),
            (lambda: plot.front(corestack.fit(self.few, self.y, evaluate_nested=False)), "has no flops"),
        ):
            with self.assertRaisesRegex(corestack.ArgumentError, says):
                call()

    def test_accuracy_flops(self):
        methods = ["best-single", "average", "greedy", "ridge", "log-linear"]
        flops = {name: self.flops[name] for name in self.few}
        report = corestack.compare(self.few, self.y, methods=methods, flops=flops, resamples=100)
        rows = report["rows"]
        ax = plot.accuracy_flops(report)
        for row, (name, points) in zip(sorted(rows, key=lambda row: row["method"]), sorted(named(ax).items())):
            self.assertEqual((name, points), (row["method"], [[row["flops_rel"], row["top1"]]]))  # at their true places
            (bars,) = [bars for bars in ax.containers if bars.get_label() == name]
            np.testing.assert_allclose(bars[2][0].get_segments()[0][:, 1], row["top1_ci"])
            self.assertEqual(bars[0].get_transform(), ax.transData)
        best = {
            row["method"]
            for row in rows
            if not any(
                o["flops_rel"] <= row["flops_rel"] and o["top1"] >= row["top1"]
                and (o["flops_rel"], -o["top1"]) != (row["flops_rel"], -row["top1"])
                for o in rows
            )
        }  # fmt: skip
        (front,) = [line for line in ax.lines if line.get_label() == "best at its cost or less"]
        wanted = sorted((row["flops_rel"], row["top1"]) for row in rows if row["method"] in best)
        self.assertEqual([tuple(xy) for xy in front.get_xydata().tolist()], wanted)
        self.assertEqual(ax.get_xlabel(), "FLOPs relative to all members, log scale")
        self.assertEqual(ax.get_ylabel(), "top-1 accuracy (fraction)")
        texts_fit(self, ax)
        # Low is good here: the front goes down.
        ax = plot.accuracy_flops(report, metric="nll", title="Loss")
        (front,) = [line for line in ax.lines if line.get_label() == "best at its cost or less"]
        self.assertTrue((np.diff(front.get_ydata()) < 0).all())
        self.assertEqual(front.get_ydata()[-1], min(row["nll"] for row in rows))
        self.assertEqual((ax.get_title(), ax.get_ylabel()), ("Loss", "NLL (nats)"))
        with self.assertRaisesRegex(ValueError, "no row has a score 'luck'"):
            plot.accuracy_flops(report, metric="luck")
        with self.assertRaisesRegex(ValueError, "no FLOPs"):
            plot.accuracy_flops(corestack.compare(self.few, self.y, methods=["average"], resamples=0))

    def test_many_methods(self):
        rows = [
            {"method": f"method-{k}+temperature", "flops_rel": 1.0 if k % 2 else 0.1 * (k + 1), "top1": 0.9 + 1e-4 * (k % 5),
             "top1_ci": [0.88, 0.92], "kappa_gram": 1.5 + k, "kappa_cka": 2.0}
            for k in range(30)
        ]  # fmt: skip
        rows[7]["method"], rows[9]["method"] = "default", "average"
        for draw, rest in ((plot.accuracy_flops, "other methods (22)"), (lambda r, **how: plot.kappa(r, matrix="gram", **how), "other baselines (22)")):
            for width in ("single", "double"):
                ax = draw({"command": "compare", "rows": rows}, width=width)
                texts_fit(self, ax)
                self.assertEqual(len(named(ax)), 8)
                self.assertLessEqual({"default", "average"}, set(named(ax)))
                (grey,) = [line for line in ax.lines if line.get_label() == rest]
                every = {tuple(xy) for points in (grey.get_xydata().tolist(), *named(ax).values()) for xy in points}
                key = "flops_rel" if rest.startswith("other m") else "kappa_gram"
                self.assertEqual(every, {(row[key], row["top1"]) for row in rows})
                for text in (row["method"] for row in rows if row["method"] not in named(ax)):
                    self.assertIn(text, plot.caption(ax))
                key = ax.get_legend().get_window_extent()
                self.assertFalse(key.padded(-1).overlaps(ax.get_window_extent()))

    def test_notebook(self):
        weights = {"command": "fit", "weights": {"a": 0.6, "b": 0.4}}
        data, size = plot.weights(weights, width="single")._repr_png_()
        self.assertTrue(data.startswith(b"\x89PNG"))
        self.assertEqual(size["width"], round(3.35 * 96))
        own = Figure().subplots()
        self.assertFalse(hasattr(plot.weights(weights, ax=own), "_repr_png_"))

    def test_width(self):
        weights = {"command": "fit", "weights": {"a": 0.6, "b": 0.4}}
        for width, inches in (("single", 3.35), ("double", 6.9), (None, 6.9), (5, 5), ("4.5", 4.5)):
            self.assertAlmostEqual(plot.weights(weights, width=width).figure.get_figwidth(), inches)
        for wrong in ("wide", 0.1, float("nan"), [1]):
            with self.assertRaisesRegex(corestack.ArgumentError, "'single' \\(3.35 inches\\)"):
                plot.weights(weights, width=wrong)
        with self.assertRaisesRegex(corestack.ArgumentError, "remove width"):
            plot.weights(weights, ax=Figure().subplots(), width=4)
        for width in ("single", "double"):
            for ax in (
                plot.cka(self.inspected, width=width), plot.spectrum(self.inspected, width=width), plot.reliability(self.p, self.y, width=width),
                plot.weights({"command": "fit", "weights": {"convnext_large": -0.2, "b": 0.4}}, width=width),
            ):  # fmt: skip
                texts_fit(self, ax)
                self.assertGreater(len(plot.caption(ax)), 80)

    def test_save(self):
        weights = {"command": "fit", "weights": {"convnext_a": 0.6, "b": 0.4}}
        ax = plot.weights(weights, width="single")
        program = f"from corestack import plot; plot.save(plot.weights({weights!r}, width='single'), 'b.pdf')"
        with tempfile.TemporaryDirectory() as folder:
            for end in ("pdf", "svg", "png"):
                plot.save(ax, Path(folder, f"a.{end}"))
            subprocess.run([sys.executable, "-c", program], check=True, cwd=folder)
            pdf = Path(folder, "a.pdf").read_bytes()
            self.assertEqual(Path(folder, "b.pdf").read_bytes(), pdf)
            self.assertIn(b"/CIDFontType2", pdf)
            for absent in (b"/Type3", b"Date"):
                self.assertNotIn(absent, pdf)
            for end in ("pdf", "svg", "png"):
                self.assertIn(b"Bars start at 0", Path(folder, f"a.{end}").read_bytes())
            with self.assertRaisesRegex(corestack.ArgumentError, "must end in .png, .svg or .pdf"):
                plot.save(ax, f"{folder}/a.jpg")
        with self.assertRaisesRegex(corestack.ArgumentError, "corestack.plot returned"):
            plot.caption(Figure().subplots())

    def test_weights(self):
        stack = corestack.fit(self.few, self.y, evaluate_nested=False)
        ax = plot.weights(stack)
        found = {}
        for label, place in zip(ax.get_yticklabels(), ax.get_yticks()):
            (bar,) = [b for b in ax.patches if abs(b.get_y() + b.get_height() / 2 - place) < 1e-9]
            found[label.get_text()] = bar.get_width()
        self.assertEqual(set(found), set(stack.weights))
        for name, value in stack.weights.items():
            self.assertAlmostEqual(found[name], value)
        self.assertEqual(list(found), sorted(found, key=lambda name: -found[name]))
        self.assertEqual([t.get_text() for t in ax.texts], [f"{v:.3g}" for v in found.values()])
        texts_fit(self, ax)
        with tempfile.TemporaryDirectory() as folder:
            stack.save(f"{folder}/a.cstack")
            Path(f"{folder}/fit.json").write_text(stack.to_json())
            for other in (f"{folder}/a.cstack", Path(folder) / "fit.json", stack.report, dict(stack.report)):
                again = [b.get_width() for b in plot.weights(other).patches]
                np.testing.assert_allclose(again, [b.get_width() for b in ax.patches], rtol=1e-8)
            Path(f"{folder}/bad.json").write_text("{")
            with self.assertRaisesRegex(corestack.FormatError, "not a JSON document"):
                plot.weights(f"{folder}/bad.json")
            with self.assertRaises(OSError):
                plot.weights(f"{folder}/none.json")
        report = corestack.compare(self.few, self.y, methods=["average", "prototype"], resamples=0)
        ax = plot.weights(report, method="average")
        np.testing.assert_allclose([b.get_width() for b in ax.patches], [1 / 6] * 6)
        with self.assertRaisesRegex(ValueError, "one of average, prototype"):
            plot.weights(report)
        with self.assertRaisesRegex(ValueError, "the stack has no weights"):
            plot.weights(report, method="prototype")
        with self.assertRaisesRegex(ValueError, "remove it"):
            plot.weights(stack, method="average")
        paper = corestack.fit(*toy(rows=60), preset="paper", evaluate_nested=False)
        with self.assertRaisesRegex(ValueError, "the stack has no weights"):
            plot.weights(paper)
        with self.assertRaisesRegex(ValueError, "this is list"):
            plot.weights([1, 2])

    @needs_tool
    def test_documents_of_the_command_line(self):
        with tempfile.TemporaryDirectory() as folder:
            names = [f"{folder}/{name}.npy" for name in self.few]
            for file, p in zip(names, self.few.values()):
                np.save(file, p)
            np.save(f"{folder}/y.npy", self.y)
            labels = ("--labels", f"{folder}/y.npy", "--json")
            for function, command, files in (
                (plot.cka, "inspect", names), (plot.spectrum, "inspect", names), (plot.reliability, "evaluate", names[:1]),
            ):  # fmt: skip
                path = Path(folder) / "out.json"
                path.write_text(run_tool(command, *files, *labels))
                self.assertTrue(function(path).get_title())

    def test_what_cannot_be_drawn_is_told(self):
        preds, y = toy()
        inspected = corestack.inspect(preds, y)
        ablated = corestack.ablate(preds, y, resamples=0, flops=[1.0] * 4)
        ax = plot.accuracy_flops(ablated)
        self.assertEqual(set(named(ax)), {row["stage"] for row in ablated["rows"]})
        for call, text in (
            (lambda: plot.accuracy_flops({**ablated, "command": "compare", "rows": None}), "no 'rows'"),
            (lambda: plot.accuracy_flops(ablated, metric="stage"), "no row has a score 'stage'"),
            (lambda: plot.cka({k: v for k, v in inspected.items() if k != "models"}), "no 'models'"),
            (lambda: plot.weights({"command": "compare", "members": []}, method="a"), "no 'rows'"),
            (lambda: plot.reliability("p.npy"), "labels y"),
        ):
            with self.assertRaisesRegex(corestack.ArgumentError, text):
                call()
        for call in (plot.cka, plot.weights, plot.reliability):
            with self.assertRaises(corestack.FileError):
                call("/nowhere/report.json")
        several = {"command": "inspect", "outputs": [{**inspected, "name": "a"}, {**inspected, "name": "b"}]}
        plot.spectrum(several, output=np.int64(1))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "p.npy"
            np.save(path, preds["model3"])
            np.save(path.with_name("y.npy"), y)
            expected = plot.reliability(preds["model3"], y).get_title()
            self.assertEqual(plot.reliability(path, y).get_title(), expected)
            self.assertEqual(plot.reliability(str(path), path.with_name("y.npy")).get_title(), expected)

    def test_without_matplotlib(self):
        program = (
            "import sys; sys.modules['matplotlib'] = sys.modules['matplotlib.figure'] = None\n"
            "import corestack, corestack.plot\n"
            "assert corestack.plot is sys.modules['corestack.plot']\n"
            "try:\n    corestack.plot.weights({'command': 'fit', 'weights': {'a': 1}})\n"
            "except ImportError as error:\n    print(error)"
        )
        out = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
        self.assertIn("pip install matplotlib", out)
        self.assertEqual(len(out.splitlines()), 1)
        program = "import sys, corestack; corestack.plot; assert not any(m.startswith('matplotlib') for m in sys.modules)"
        subprocess.run([sys.executable, "-c", program], check=True)


def spearman(x, y):
    ranks = [np.array([np.mean([i + 1 for i, v in enumerate(sorted(values)) if v == w]) for w in values]) for values in (x, y)]
    return np.corrcoef(*ranks)[0, 1]


class Figures(unittest.TestCase):
    """The paper's figures, from reports and from a pool."""

    @classmethod
    def setUpClass(cls):
        preds, y = toy(rows=150, members=5)
        flops = [1.0, 2.0, 3.0, 4.0, 5.0]
        quick = {"resamples": 40, "flops": flops}
        cls.compared = corestack.compare(preds, y, methods=["average", "best-single", "ridge", "greedy", "paper", "prototype", "default"], **quick)
        cls.ablated = corestack.ablate(preds, y, **quick)
        cls.over_tau = corestack.sweep(preds, y, over="cka.threshold", values=["0.5", "0.7", "0.9"], methods=["paper", "prototype"], **quick)
        cls.over_size = corestack.sweep(preds, y, over="pool.size", values=[2, 3, 5], methods=["average", "ridge"], draws=3)

    def test_kappa(self):
        for matrix, both in (("cka", (self.compared, self.ablated)), ("gram", (self.ablated, self.compared))):
            ax = plot.kappa(*both, matrix=matrix)
            key = f"kappa_{matrix}"
            methods = {row["method"]: [row[key], row["top1"]] for row in self.compared["rows"]}
            stages = {row["stage"]: [row[key], row["top1"]] for row in self.ablated["rows"]}
            points = named(ax)
            for name in ("average", "best-single", "ridge", "greedy", "default"):
                self.assertEqual(points.pop(name), [methods[name]])
            self.assertEqual(points.pop("ablation steps"), list(stages.values())[:4])
            self.assertEqual(points, {"paper": [stages["+S4 Laplace"]], "+S5 refit": [stages["+S5 refit"]]})
            line = next(line for line in ax.lines if len(line.get_xdata()) == 5)
            self.assertEqual(line.get_xydata().tolist(), list(stages.values())[:5])
            every = [methods[m] for m in ("average", "best-single", "ridge", "greedy", "default")] + list(stages.values())
            rho = spearman(*zip(*every))
            self.assertIn(f"Spearman's rho {rho:+.2f} (p ", ax.get_title())
            self.assertIn(f"n = {len(every)})", ax.get_title())
            self.assertIn("CKA" if matrix == "cka" else "Gram", ax.get_xlabel())
            texts_fit(self, ax)
        alone = plot.kappa(self.compared, width="single")
        self.assertEqual(set(named(alone)), set(methods))
        texts_fit(self, alone)
        # A method has one colour and one marker in all figures.
        styles = [{bars.get_label(): (bars[0].get_color(), bars[0].get_marker()) for bars in other.containers}
                  for other in (alone, plot.accuracy_flops(self.compared), plot.threshold(self.over_tau), plot.pool_size(self.over_size))]  # fmt: skip
        for other in styles[1:]:
            for name in set(other) & set(styles[0]):
                self.assertEqual(other[name], styles[0][name])
        self.assertEqual(len(set(styles[0].values())), len(styles[0]))

    def test_p_value_of_the_correlation(self):
        from corestack.plot import _figures

        rho, p = _figures._spearman(np.arange(8.0), -np.arange(8.0) ** 3)
        self.assertEqual(round(rho, 12), -1)
        self.assertLess(p, 0.001)  # 2 of 40,320 orders
        rho, p = _figures._spearman(np.array([1.0, 2, 3]), np.array([1.0, 2, 3]))
        self.assertAlmostEqual(p, 1 / 3, delta=0.02)  # 2 of 6
        self.assertTrue(np.isnan(_figures._spearman(np.ones(4), np.arange(4.0))[0]))

    def test_online(self):
        series = {"rows": [100, 200], "labelled": [90, 190], "adapter": [50.0, 80.0], "stack": [49.0, 90.0], "average": [60.0, 100.0],
                  "best_member": [55.0, 95.0], "switching": [48.0, 85.0]}  # fmt: skip
        report = {"command": "online", "best_member": "a", "series": series}
        ax = plot.online(report)
        lines = {line.get_label(): line.get_xydata().tolist() for line in ax.lines}
        self.assertEqual(lines["stack"], [[0, 0], [100, 1], [200, -10]])
        self.assertEqual(lines["best in each block"], [[0, 0], [100, 2], [200, -5]])
        self.assertIn("best member (a)", lines)
        texts_fit(self, ax)
        with self.assertRaisesRegex(corestack.ArgumentError, "no label was learned"):
            plot.online({**report, "series": {key: [] for key in series}})
        with self.assertRaisesRegex(corestack.ArgumentError, "online"):
            plot.online(self.compared)

    def test_threshold(self):
        ax = plot.threshold(self.over_tau)
        rows = [row for row in self.over_tau["rows"] if row["method"] == "paper"]
        self.assertEqual(named(ax)["paper"], [[float(row["value"]), row["top1"]] for row in rows])
        (right,) = [other for other in ax.figure.axes if other is not ax]
        kept = {line.get_label(): line.get_ydata().tolist() for line in right.lines}
        self.assertEqual(kept["_paper: members kept"], [row["models"] for row in rows])
        self.assertEqual(right.get_ylim()[0], 0)
        texts_fit(self, plot.threshold(self.over_tau, width="single"))
        given = plot.threshold(self.over_tau, ax=Figure().subplots())  # members on an axis to the right
        self.assertIn("paper: members kept", [text.get_text() for text in given.get_legend().get_texts()])
        texts_fit(self, ax)

    def test_pool_size(self):
        ax = plot.pool_size(self.over_size, metric="nll")
        rows = [row for row in self.over_size["summary"] if row["method"] == "ridge"]
        self.assertEqual(named(ax)["ridge"], [[float(row["value"]), row["nll_mean"]] for row in rows])
        bars = next(bars for bars in ax.containers if bars.get_label() == "ridge")
        low, high = np.array(bars[2][0].get_segments())[0][:, 1]
        self.assertAlmostEqual(high - low, 2 * rows[0]["nll_sd"])
        (right,) = [other for other in ax.figure.axes if other is not ax]
        kept = {line.get_label(): line.get_ydata().tolist() for line in right.lines}
        self.assertEqual(kept["_ridge: members kept"], [row["models_mean"] for row in rows])
        self.assertEqual(kept["half of the members"], [1, 1.5, 2.5])
        self.assertEqual(ax.get_ylabel(), "NLL (nats)")
        texts_fit(self, ax)

    def test_ablation(self):
        ax = plot.ablation(self.ablated)
        rows = self.ablated["rows"]
        right = ax.figure.axes[1]
        for axes, score in ((ax, "top1"), (right, "ece")):
            own, ours = axes.lines[-2:]
            self.assertEqual([line.get_xdata().tolist() for line in (own, ours)], [[row[score] for row in part] for part in (rows[:5], rows[5:])])
            self.assertEqual(ours.get_markerfacecolor(), "white")
        labels = [label.get_text() for label in ax.get_yticklabels()]
        for row, label in zip(rows, labels):
            self.assertEqual(label.replace("\n", " "), f"{row['stage']} K {row['models']} κ {row['kappa_gram']:.3g} / {row['kappa_cka']:.3g}")
        texts_fit(self, ax)
        texts_fit(self, plot.ablation(self.ablated, width="single"))
        self.assertEqual(len(plot.ablation(self.ablated, ax=Figure().subplots()).figure.axes), 2)

    def test_repetitions_have_standard_errors(self):
        rows = [{"method": m, "top1": 0.8 + k / 100, "top1_se": 0.01, "flops_rel": 0.5, "kappa_gram": 2.0, "kappa_cka": 3.0 + k, "models": 2}
                for k, m in enumerate(("average", "ridge"))]  # fmt: skip
        for ax in (plot.kappa({"command": "compare", "rows": rows}), plot.accuracy_flops({"command": "compare", "rows": rows})):
            low, high = ax.containers[0][2][0].get_segments()[0][:, 1]
            self.assertAlmostEqual(high - low, 0.02)

    def test_wrong_reports(self):
        for call, says in (
            (lambda: plot.kappa(), "one of each"),
            (lambda: plot.kappa(self.compared, self.compared), "one of each"),
            (lambda: plot.kappa(self.over_tau), "'compare' or 'ablate'"),
            (lambda: plot.kappa(self.compared, matrix="pearson"), "'cka' or 'gram'"),
            (lambda: plot.kappa({"command": "compare", "rows": [{"method": "average", "kappa": 3, "top1": 1}]}), "no 'kappa_gram'"),
            (lambda: plot.threshold(self.over_size), "over cka.threshold"),
            (lambda: plot.pool_size(self.over_tau), "over pool.size"),
            (lambda: plot.ablation(self.compared), "'ablate'"),
            (lambda: plot.ablation(self.ablated, metric="luck"), "no row has a score 'luck'"),
        ):
            with self.assertRaisesRegex(corestack.ArgumentError, says):
                call()

    def test_one_command_each(self):
        from corestack.plot import _command

        with tempfile.TemporaryDirectory() as folder:
            paths = {}
            for name in ("compared", "ablated", "over_tau", "over_size"):
                paths[name] = f"{folder}/{name}.json"
                Path(paths[name]).write_text(getattr(self, name).to_json())
            for figure, names in (
                ("kappa", ("compared", "ablated")), ("pareto", ("compared",)), ("tau", ("over_tau",)), ("pool-size", ("over_size",)),
                ("ablation", ("ablated",)),
            ):  # fmt: skip
                found = {}
                for end in ("png", "pdf", "svg", "svg"):
                    out = f"{folder}/{figure}.{end}"
                    with redirect_stdout(StringIO()) as said:
                        self.assertEqual(_command.main([figure, *(paths[name] for name in names), "-o", out, "--width", "single"]), 0)
                    self.assertIn("error bars" if figure != "tau" else "threshold", said.getvalue().lower())
                    data = Path(out).read_bytes()
                    self.assertEqual(found.setdefault(end, data), data, f"{figure}: other bytes")
                self.assertTrue(found["png"].startswith(b"\x89PNG"))
                self.assertTrue(found["pdf"].startswith(b"%PDF"))
                self.assertIn(b"</svg>", found["svg"])
                self.assertNotIn(b"dc:date", found["svg"])
            again = f"{folder}/again.svg"
            command = [sys.executable, "-W", "error::RuntimeWarning", "-m", "corestack.plot", "pareto", paths["compared"], "-o", again,
                       "--width", "single"]  # fmt: skip
            subprocess.run(command, check=True, capture_output=True)
            self.assertEqual(Path(again).read_bytes(), Path(f"{folder}/pareto.svg").read_bytes())
            self.assertEqual(sorted(p.suffix for p in Path(folder).iterdir() if p.name.startswith(".")), [])

    def test_from_a_pool(self):
        from corestack.plot import _command

        preds, y = toy(rows=90, members=4)
        with tempfile.TemporaryDirectory() as folder:
            for name, p in preds.items():
                np.save(f"{folder}/{name}.npy", p)
            np.save(f"{folder}/y.npy", y)
            pool = {
                "corestack_pool": 1, "task": "classification", "classes": 3, "output": "probability",
                "splits": {"oof": {"labels": "y.npy"}},
                "models": [{"name": name, "flops": 10, "predictions": {"oof": f"{name}.npy"}} for name in preds],
            }  # fmt: skip
            Path(folder, "pool.json").write_text(json.dumps(pool))
            quick = ["-r", "0", "--set", "gate.epochs=2"]
            for figure, source, more in (
                ("kappa", "pool.json", ["--methods", "average,ridge,best-single", "--matrix", "gram"]), ("pareto", "", ["--methods", "average,ridge"]),
                ("tau", "pool.json", ["--values", "0.5,0.9"]), ("pool-size", "pool.json", ["--draws", "1", "--methods", "average"]),
                ("ablation", "pool.json", ["--metric", "nll"]),
            ):  # fmt: skip
                out = Path(folder, f"{figure}.svg")
                with redirect_stdout(StringIO()):
                    self.assertEqual(_command.main([figure, f"{folder}/{source}", "-o", str(out), *quick, *more]), 0)
                self.assertTrue(out.read_bytes().startswith(b"<?xml"), figure)

    def test_wrong_commands(self):
        from corestack.plot import _command

        with tempfile.TemporaryDirectory() as folder:
            report = f"{folder}/report.json"
            Path(report).write_text(self.ablated.to_json())
            Path(f"{folder}/bad.json").write_text("{")
            for words, says in (
                (["ablation", report, "-o", f"{folder}/a.jpg"], "must end in .png, .svg or .pdf"),
                (["ablation", report, "-o", f"{folder}/a.svg", "--width", "wide"], "'single' (3.35 inches)"),
                (["ablation", report, "-o", f"{folder}/none/a.svg"], "the folder is not there"),
                (["ablation", report, report, "-o", f"{folder}/a.svg"], "it takes 1"),
                (["ablation", f"{folder}/none.json", "-o", f"{folder}/a.svg"], "none.json"),
                (["ablation", f"{folder}/bad.json", "-o", f"{folder}/a.svg"], "not a JSON document"),
                (["tau", report, "-o", f"{folder}/a.svg"], "needs a report of 'sweep'"),
                (["ablation", report, "-o", f"{folder}/a.svg", "--metric", "luck"], "no row has a score"),
                (["ablation", folder, "-o", f"{folder}/a.svg", "--set", "x"], "needs KEY=VALUE"),
                (["heatmap", report, "-o", f"{folder}/a.svg"], "invalid choice"),
                (["ablation", report], "-o/--output"),
            ):
                errors = StringIO()
                with redirect_stderr(errors):
                    self.assertEqual(_command.main(words), 2, words)
                self.assertIn(says, errors.getvalue())
                self.assertEqual(errors.getvalue().count("\n"), 1)
                self.assertFalse(Path(f"{folder}/a.svg").exists())


if __name__ == "__main__":
    unittest.main()
