"""The online adapter in NumPy (float64), and tests/data/online.h: a stream of rows for the first stack of model.py with
one more member, its labels late or missing, and what the adapter predicts. experiments/shift/online.py uses the same
class.

Newton experts minimise prior/2 |t|^2 plus the rows' losses, each as a quadratic at the parameters of its time, weighted
by keep^(labels since). Fixed share (Herbster and Warmuth 1998) weighs the stack, averages and members; a second one mixes
the stack, the Newton experts and the first."""
import pathlib

import numpy as np

from _c_header import array

MEMBER_MIX, STACK_MIX = 1e-3, 1e-6
KEPT, PRECISION = (0.98, 0.7, 0.3), 1.0
TEMPERATURE_KEPT, TEMPERATURE_PRECISION = 0.98, 10.0
SHARED, STACK_START = 0.05, 0.9
LEAST, BIAS_CLASSES = 1e-7, 64


def single(values):
    """Rounded to float32, as rows are kept."""
    return np.asarray(values, np.float32).astype(np.float64)


class Newton:
    def __init__(self, features, classes, biases, kept, prior):
        self.features, self.biases = features, classes if biases else 0
        size = features + self.biases
        self.keep, self.prior = kept ** 0.01, prior
        self.center = np.eye(size)[0]
        self.curvature, self.pull, self.shift = np.zeros((size, size)), np.zeros(size), np.zeros(size)

    def design(self, x):
        """[classes, parameters] of a row x [features, classes]."""
        return np.hstack([x.T, np.eye(x.shape[1])]) if self.biases else x.T

    def predict(self, x):
        z = self.design(x) @ (self.center + self.shift)
        e = np.exp(z - z.max())
        return e / e.sum()

    def learn(self, x, label):
        p, d = self.predict(x), self.design(x)
        gradient = d.T @ p - d[label]
        mean = p @ d
        curvature = (d * p[:, None]).T @ d - np.outer(mean, mean)
        self.curvature = self.keep * self.curvature + curvature
        self.pull = self.keep * self.pull + curvature @ self.shift - gradient
        self.shift = np.linalg.solve(self.curvature + self.prior * np.eye(len(self.pull)), self.pull)


def fixed_share(weights, likelihood, home):
    part = 1 - (1 - SHARED) ** 0.01
    weights = weights * np.maximum(likelihood, LEAST)
    return (1 - part) * weights / weights.sum() + part * home


class Adapter:
    def __init__(self, members, classes):
        biases = classes <= BIAS_CLASSES
        self.newton = [Newton(members + 1, classes, biases, kept, PRECISION) for kept in KEPT]
        self.average = Newton(1, classes, False, TEMPERATURE_KEPT, TEMPERATURE_PRECISION)
        self.share = np.full(members + 3, 1 / (members + 3))
        self.home = np.array([STACK_START] + [(1 - STACK_START) / (len(KEPT) + 1)] * (len(KEPT) + 1))
        self.mixture = self.home.copy()
        self.rows = []

    def observe(self, members, stack):
        """members [K, C], stack [C] as float32; the prediction, and a row for `label`."""
        members, stack = single(members), single(stack)
        even = 1 / len(stack)
        mean = members.mean(0)
        logs = np.log(np.vstack([(1 - STACK_MIX) * stack + STACK_MIX * even,
                                 (1 - MEMBER_MIX) * members + MEMBER_MIX * even]))
        mean_log = np.log((1 - STACK_MIX) * mean + STACK_MIX * even)[None]
        singles = np.vstack([stack, mean, single(self.average.predict(mean_log)), members])
        shared = single(self.share @ singles)
        mixed = np.vstack([stack] + [single(n.predict(logs)) for n in self.newton] + [shared])
        self.rows.append((logs, mean_log, singles, mixed))
        return single(self.mixture @ mixed)

    def label(self, ticket, label):
        logs, mean_log, singles, mixed = self.rows[ticket]
        self.rows[ticket] = None
        self.share = fixed_share(self.share, singles[:, label], 1 / len(self.share))
        self.mixture = fixed_share(self.mixture, mixed[:, label], self.home)
        for newton in self.newton:
            newton.learn(logs, label)
        self.average.learn(mean_log, label)


def best_switching(losses, block=100):
    """The best single expert of every block. losses [experts, rows]."""
    return sum(losses[:, i:i + block].sum(1).min() for i in range(0, losses.shape[1], block))


# ---- the fixture ----

ROWS, MEMBERS, CLASSES = 90, 4, 5


def main():
    from model import made, stack_predict
    stack = made()[3][0]
    rng = np.random.default_rng(5)
    truth = rng.integers(0, CLASSES, ROWS)
    z = rng.normal(size=(MEMBERS, ROWS, CLASSES)) + 1.5 * np.eye(CLASSES)[truth]
    z[2:, ROWS // 2:] = rng.normal(size=(2, ROWS - ROWS // 2, CLASSES)) * 2  # two members break
    p = np.exp(z * np.array([1, 0.5, 3, 2])[:, None, None])
    p = (p / p.sum(2, keepdims=True)).astype(np.float32)
    kept = p[[0, 2, 3]].astype(float)  # member 1 is not in the stack
    stacked = stack_predict(kept, stack)
    adapter = Adapter(MEMBERS, CLASSES)
    predicted, after, tickets, labels = [], [], [], []
    for i in range(ROWS):
        predicted.append(adapter.observe(p[:, i], stacked[i]))
        for late in range(5):  # rows whose label comes now; of every sixth none comes
            ticket = i - late
            if ticket >= 0 and ticket % 6 != 5 and ticket * 7 % 5 == late:
                adapter.label(ticket, truth[ticket])
                after.append(i), tickets.append(ticket), labels.append(truth[ticket])
    text = ("/* Written by tests/oracles/online.py. */\n// clang-format off\n#include <stdint.h>\n"
            f"enum {{ ONLINE_ROWS = {ROWS}, ONLINE_MEMBERS = {MEMBERS}, ONLINE_CLASSES = {CLASSES}, "
            f"ONLINE_LABELS = {len(labels)} }};\n")
    text += array("float", "online_input", p.astype(float)) + array("double", "online_expected", np.array(predicted))
    text += "".join(array("int32_t", f"online_{name}", np.array(values), "%d") for name, values in
                    (("after", after), ("ticket", tickets), ("label", labels)))
    text += array("double", "online_mixture", adapter.mixture) + array("double", "online_share", adapter.share)
    for i, newton in enumerate([*adapter.newton, adapter.average]):
        text += array("double", f"online_shift_{i}", newton.shift)
    (pathlib.Path(__file__).parent.parent / "data" / "online.h").write_text(text)


if __name__ == "__main__":
    main()
