"""Greedy ensemble selection in plain NumPy, and the fixtures of tests/blend/greedy.c.

select() repeats the arithmetic of AutoGluon's EnsembleSelection (multiclass) over all classes, with scikit-learn's
log_loss, the top-1 error or the Brier score as the loss. It writes small synthetic cases for the corners and ten random
problems to tests/data/greedy, what the other two losses give on them to tests/data/greedy_metric.h, and must give the
order that AutoGluon's own class gave on the cases in tests/reference/greedy. With a folder of caseN.npz and
expected.json made by that class and some N as arguments, these are what is put into tests/reference/greedy.
A case is int32 K, N, C, rounds; int32 order[rounds]; double loss; int32 labels[N]; float32 predictions[K][N][C].
"""
import json
import pathlib
import sys
import warnings

import numpy as np
from scipy.special import softmax
from sklearn.metrics import accuracy_score, log_loss

ROUNDS = 25


def cross_entropy(labels, p):
    return log_loss(labels, p, labels=np.arange(p.shape[1]))


def top1_error(labels, p):
    return 1 - accuracy_score(labels, p.argmax(axis=1))


def brier(labels, p):
    return ((p - np.eye(p.shape[1])[labels]) ** 2).sum(axis=1).mean()


def select(predictions, labels, loss=cross_entropy, rounds=ROUNDS, seed=0):
    random = np.random.RandomState(seed)
    count, rows, classes = predictions.shape
    mean = np.zeros((rows, classes))
    order, trajectory, rounding = [], [], False
    for i in range(rounds):
        if i:
            mean *= (i - 1) / i
            mean += predictions[order[-1]] / i
        scores = np.zeros(count)
        for k in range(count):
            mixed = (i / float(i + 1)) * mean + (1.0 / float(i + 1)) * predictions[k]
            mixed /= mixed.sum(axis=1, keepdims=True)
            scores[k] = loss(labels, mixed)
            if rounding:
                scores[k] = scores[k].round(6)
        tied = [k for k in range(count) if abs(scores[k] - scores.min()) <= 1e-12 * abs(scores.min())]
        if len(tied) > 1 and any(k in order for k in tied):
            tied = [k for k in tied if k in order]
        best = int(random.choice(tied))
        score = scores[best]
        if i == 0 and abs(score) > 1e-4:
            rounding = True
            score = score.round(6)
        order.append(best)
        trajectory.append(float(score))
        if count == 1:
            break
    first = trajectory.index(min(trajectory))
    return order[: first + 1], trajectory[first]


def read(path):
    data = path.read_bytes()
    count, rows, classes, rounds = np.frombuffer(data, "<i4", 4)
    order = np.frombuffer(data, "<i4", rounds, 16)
    at = 16 + 4 * rounds
    labels = np.frombuffer(data, "<i4", rows, at + 8)
    predictions = np.frombuffer(data, "<f4", offset=at + 8 + 4 * rows).reshape(count, rows, classes)
    return predictions, labels, order.tolist(), np.frombuffer(data, "<f8", 1, at)[0]


def write(path, predictions, labels, order, loss):
    with open(path, "wb") as file:
        file.write(np.array([*predictions.shape, len(order), *order], "<i4").tobytes())
        file.write(np.array([round(loss, 12)], "<f8").tobytes())
        file.write(labels.astype("<i4").tobytes())
        file.write(predictions.astype("<f4").tobytes())


def noisy_pool(rng, count, rows, classes, noise, sharp):
    truth = rng.normal(size=(rows, classes)) * 2
    labels = np.array([rng.choice(classes, p=p) for p in softmax(truth, axis=1)])
    logits = truth + rng.normal(size=(count, rows, classes)) * noise
    p = np.round(softmax(logits * sharp, axis=2) * 2**20) / 2**20  # so that processors agree on every bit
    return p.astype(np.float32), labels


def synthetic():
    rng = np.random.default_rng(4)
    pool, labels = noisy_pool(rng, 6, 80, 3, 1.5, 1.3)
    yield "plain", pool, labels
    twins = pool.copy()
    loss = [log_loss(labels, p, labels=range(3)) for p in pool]
    twins[[1, 3, 4]] = pool[np.argmin(loss)]  # a tie in the first round: the draw decides
    yield "twins", twins, labels
    yield "one", pool[:1], labels
    hard = (pool > 0.4).astype(np.float32) + np.float32(0)  # zeros for the true class are clipped
    hard[hard.sum(2) == 0] = 1 / 3
    hard /= hard.sum(2, keepdims=True)
    yield "hard", hard, labels
    sure = np.full((4, 40, 3), 1e-6, np.float32)  # loss below 1e-4: no rounding
    answer = rng.integers(0, 3, 40)
    sure[:, np.arange(40), answer] = 1 - rng.random((4, 40)).astype(np.float32) * 1e-4
    yield "sure", sure, answer
    close, labels = noisy_pool(rng, 6, 90, 4, 0.02, 1.0)  # losses a few roundings apart
    yield "close", close, labels
    for i in range(10):
        count, rows, classes = rng.integers([4, 40, 2], [10, 81, 6])
        yield (f"random{i}", *noisy_pool(rng, count, rows, classes, rng.uniform(0.5, 2), rng.uniform(0.5, 2)))


def write_metrics(tests):
    """What the other two losses give on the cases of both folders, at most ROUNDS members in order."""
    rows = []
    for path in sorted(tests.glob("*/greedy/*.bin")):
        predictions, labels, *_ = read(path)
        for metric, loss in (("TOP1", top1_error), ("BRIER", brier)):
            order, value = select(predictions, labels, loss)
            rows.append(f'    {{"{path.relative_to(tests)}", CST_GREEDY_{metric}, {len(order)}, '
                        f'{{{", ".join(map(str, order))}}}, {value:.17g}}},')
    (tests / "data" / "greedy_metric.h").write_text(
        "/* Written by tests/oracles/greedy_numpy.py. */\n// clang-format off\n"
        "static const struct {\n    const char *path;\n    cst_greedy_metric metric;\n    int32_t rounds;\n"
        f"    int32_t order[{ROUNDS}];\n    double loss;\n}} greedy_metric[] = {{\n" + "\n".join(rows) + "\n};\n")


def main():
    warnings.simplefilter("ignore")
    tests = pathlib.Path(__file__).parent.parent
    out, reference = tests / "data" / "greedy", tests / "reference" / "greedy"
    out.mkdir(parents=True, exist_ok=True)
    for name, predictions, labels in synthetic():
        write(out / f"{name}.bin", predictions, labels, *select(predictions, labels))
    write_metrics(tests)
    if len(sys.argv) > 1:
        folder = pathlib.Path(sys.argv[1])
        for case in json.loads((folder / "expected.json").read_text()):
            if str(case["case"]) in sys.argv[2:]:
                data = np.load(folder / f"case{case['case']}.npz")
                write(reference / f"autogluon{case['case']}.bin", data["predictions"], data["labels"], case["order"],
                      case["train_log_loss"])
    for path in sorted(reference.glob("*.bin")):
        predictions, labels, order, loss = read(path)
        assert select(predictions, labels) == (order, loss), path


if __name__ == "__main__":
    main()
