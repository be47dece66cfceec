"""The paper's preset in NumPy and PyTorch: the peer that `corestack fit --preset paper` is timed against.

    paper_numpy.py POOL.json [THREADS] [none|one|full] [KEPT,...]

The same stages in the same order on the same numbers, without nested evaluation: Nystrom CKA with sqrt(N) uniform
landmarks and the projection; the gate trained by PyTorch's Adam on an importance sample of 20,000 rows; the meta-design
in blocks, its standardised Gram; lambda* of its spectrum; ridge, elastic net and lasso on the Gram; cross-fitting over
five folds for the Laplace blend; drop-and-refit. Written as one would write it with care: float32, vectorised, blocks
that fit the cache, aggregators computed once for all gates of a cross-fit, elastic net by scikit-learn on a square root
of the Gram instead of on N x C rows. Drop-and-refit makes dozens of refits and takes an hour on large pools: `none`
leaves it out, `one` measures a single refit, `full` does it. Positions of members to keep override what the projection
found, so that both sides go on with the same. Prints one JSON document with the seconds of each stage;
imports are not counted.
"""
import json
import os
import pathlib
import resource
import sys
import time

THREADS = sys.argv[2] if len(sys.argv) > 2 else "2"
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = THREADS
import numpy as np  # noqa: E402
import torch  # noqa: E402
from sklearn.linear_model import enet_path  # noqa: E402
from sklearn.model_selection import StratifiedKFold  # noqa: E402

torch.set_num_threads(int(THREADS))
FOLDS, TAU, HIDDEN, L1_RATIO, AGGREGATORS = 5, 0.85, 32, 0.5, 12
SECONDS = {}


class stage:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.start = time.perf_counter()

    def __exit__(self, *_):
        SECONDS[self.name] = SECONDS.get(self.name, 0) + time.perf_counter() - self.start


def read(path):
    manifest = json.loads(path.read_text())
    folder = path.parent
    labels = np.load(folder / manifest["splits"]["oof"]["labels"])
    predictions = []
    for model in manifest["models"]:
        p = np.load(folder / model["predictions"]["oof"]).astype(np.float32, copy=False)
        p /= p.sum(1, keepdims=True)
        predictions.append(p)
    return np.stack(predictions), labels.astype(np.int64)


def nystrom_cka(predictions, rng):
    """Equations (1) and (2) of the paper with features K_nm W^(-1/2) on sqrt(N) landmarks."""
    count, rows, _ = predictions.shape
    landmarks = rng.choice(rows, int(np.ceil(np.sqrt(rows))), replace=False)
    sample = rng.choice(rows, min(rows, 1000), replace=False)
    features = []
    for p in predictions:
        some = p[sample]
        square = (some**2).sum(1)
        distance = np.maximum(square[:, None] + square - 2 * some @ some.T, 0)
        gamma = 0.5 / np.median(np.sqrt(distance[np.triu_indices(len(some), 1)])) ** 2
        at = p[landmarks]
        cross = np.einsum("ij,ij->i", p, p)[:, None] + (at**2).sum(1) - 2 * p @ at.T
        cross = np.exp(-gamma * np.maximum(cross, 0))
        values, vectors = np.linalg.eigh(cross[landmarks].astype(np.float64))
        good = values > 1e-10 * values[-1]
        phi = cross @ (vectors[:, good] / np.sqrt(values[good])).astype(np.float32)
        features.append(phi - phi.mean(0))
    hsic = np.zeros((count, count))
    for a in range(count):
        for b in range(a, count):
            hsic[a, b] = hsic[b, a] = np.square((features[a].T @ features[b]).astype(np.float64)).sum()
    return hsic / np.sqrt(np.outer(np.diag(hsic), np.diag(hsic)))


def project(cka, risk):
    kept = []
    for k in np.argsort(risk, kind="stable"):
        if all(cka[k, j] <= TAU for j in kept):
            kept.append(int(k))
    return sorted(kept)


def aggregates(p, best):
    """[12, n, C] of p [K, n, C]."""
    count = len(p)
    mean, sd = p.mean(0), p.std(0, unbiased=False)
    order = p.sort(0).values

    def quantile(level):
        below = int(level * (count - 1))
        above = min(below + 1, count - 1)
        return torch.lerp(order[below], order[above], level * (count - 1) - below)

    tiny = 1e-30
    log_mean = (mean + tiny).log()
    entropy = -(mean * log_mean).sum(1, keepdim=True).expand_as(mean)
    divergence = (p[best] * ((p[best] + tiny).log() - log_mean)).sum(1, keepdim=True).expand_as(mean)
    spread = order[-1] - order[0]
    return torch.stack([mean, sd, quantile(0.5), spread, quantile(0.25), quantile(0.75), entropy, mean * sd, mean**2,
                        spread * sd, sd**2, divergence])


def draw_rows(predictions, labels, rows, best, rng, max_rows=20000, per_sample=8):
    """(sample, class) rows for the gate: the true class always, others by mass, with their weights; held-out first."""
    classes = predictions[0].shape[1]
    if len(rows) * classes <= max_rows:
        per_sample = classes
    chosen = rng.permutation(rows)[: max(1, max_rows // per_sample)]
    held = int(0.1 * len(chosen))
    p = torch.from_numpy(np.stack([q[chosen] for q in predictions]))
    a = aggregates(p, best).numpy()
    p = p.numpy()
    truth = labels[chosen]
    place = np.arange(len(chosen))
    most = p.max(0)
    most[place, truth] = 0
    share = 0.1 / (classes - 1) + 0.9 * most / np.maximum(most.sum(1, keepdims=True), 1e-30)
    probability = np.minimum(1, (per_sample - 1) * share) if per_sample < classes else np.ones_like(most)
    probability[place, truth] = 0
    taken = rng.random(probability.shape) < probability if per_sample < classes else np.ones(probability.shape, bool)
    probability[place, truth] = 1
    taken[place, truth] = True
    sample, label = np.nonzero(taken)
    x = p[:, sample, label].T
    return x, a[:, sample, label].T, (label == truth[sample]).astype(np.float32), 1 / probability[sample, label], \
        sample < held


def train_gate(predictions, labels, rows, best, seed):
    """Adam on the weighted squared error of gate and linear head; the epoch of least held-out loss is kept."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    x, a, y, w, held = draw_rows(predictions, labels, rows, best, rng)
    mean = np.average(x[~held], 0, w[~held])
    scale = np.sqrt(np.average((x[~held] - mean) ** 2, 0, w[~held])) + 1e-12
    a_scale = np.sqrt(np.average((a[~held] - np.average(a[~held], 0, w[~held])) ** 2, 0, w[~held])) + 1e-12
    y_mean = np.average(y[~held], weights=w[~held])
    y_scale = np.sqrt(np.average((y[~held] - y_mean) ** 2, weights=w[~held]))
    tensor = [torch.from_numpy(np.ascontiguousarray(v, np.float32)) for v in
              ((x - mean) / scale, a / a_scale, (y - y_mean) / y_scale, w / w[~held].mean())]
    train = [v[torch.from_numpy(~held)] for v in tensor]
    check = [v[torch.from_numpy(held)] for v in tensor]
    count = x.shape[1]
    first, second = torch.nn.Linear(count, HIDDEN), torch.nn.Linear(HIDDEN, AGGREGATORS)
    head = torch.nn.Linear(count + AGGREGATORS, 1)
    parameters = [*first.parameters(), *second.parameters(), *head.parameters()]
    adam = torch.optim.Adam(parameters, lr=1e-3)

    def loss(v):
        gate = torch.sigmoid(second(torch.relu(first(v[0]))))
        error = head(torch.cat([v[0], gate * v[1]], 1))[:, 0] - v[2]
        return (v[3] * error**2).mean() + 1e-4 * (head.weight**2).sum()

    least, patience, kept = np.inf, 0, None
    torch.set_num_threads(1)  # the steps are too small to share
    for _ in range(30):
        for batch in torch.randperm(len(train[0])).split(256):
            adam.zero_grad()
            loss([v[batch] for v in train]).backward()
            adam.step()
        with torch.no_grad():
            value = float(loss(check))
        if value < least:
            least, patience = value, 0
            kept = [v.detach().clone() for v in parameters[:4]]
        else:
            patience += 1
            if patience == 5:
                break
    torch.set_num_threads(int(THREADS))
    w1 = kept[0] / torch.from_numpy(scale.astype(np.float32))
    return w1, kept[1] - w1 @ torch.from_numpy(mean.astype(np.float32)), kept[2], kept[3]


def design(p, a, gate):
    """[K + 12, n C]: the members and the gated aggregators."""
    w1, b1, w2, b2 = gate
    flat = p.reshape(len(p), -1)
    hidden = torch.addmm(b1[:, None], w1, flat).relu_()
    g = torch.addmm(b2[:, None], w2, hidden).sigmoid_()
    return torch.cat([flat, g.mul_(a.reshape(AGGREGATORS, -1))])


def penalised(moments):
    """Ridge at lambda*, elastic net and lasso at the same penalty, from [1, X, y] moments; raw coefficients."""
    n = moments[0, 0]
    mean = moments[0] / n
    covariance = moments / n - np.outer(mean, mean)
    scale = np.sqrt(np.diag(covariance)[1:-1])
    gram = covariance[1:-1, 1:-1] / np.outer(scale, scale)
    xy = covariance[1:-1, -1] / scale
    values, vectors = np.linalg.eigh(gram)
    edge = np.median(values[: len(values) // 2]) * (1 + np.sqrt(len(values) / n)) ** 2
    below = values <= edge
    below[0] = True
    star = values[-1] / (values[~below].sum() / values[below].sum())
    out = []
    for ratio in (0, L1_RATIO, 1):
        if ratio == 0:
            w = vectors @ (vectors.T @ xy / (values + star))
            hessian = gram + star * np.eye(len(xy))
        else:
            root = vectors * np.sqrt(np.maximum(values, 1e-12)) * np.sqrt(len(xy))
            target = (vectors / np.sqrt(np.maximum(values, 1e-12))).T @ xy * np.sqrt(len(xy))
            w = enet_path(root.T, target, l1_ratio=ratio, alphas=[star], max_iter=100000, tol=1e-12)[1][:, 0]
            active = w != 0
            hessian = (gram + (star * (1 - ratio) + 1e-10) * np.eye(len(xy)))[np.ix_(active, active)]
        logdet = np.linalg.slogdet(2 * n * hessian)[1] if len(hessian) else 0.0
        raw = w / scale
        out.append((raw, mean[-1] - raw @ mean[1:-1], 0.5 * logdet))
    return out


def meta_fit(predictions, labels, parts, kept, risk):
    """Gates, moments and learners on all rows and without each fold; held-out loss of each row of the blend."""
    members = [predictions[k] for k in kept]
    best = int(np.argmin([risk[k] for k in kept]))
    rows, classes = members[0].shape
    with stage("gate"):
        everything = np.arange(rows)
        gates = [train_gate(members, labels, np.setdiff1d(everything, part), best, 1 + f)
                 for f, part in enumerate(parts)]
        gates.append(train_gate(members, labels, everything, best, 0))
    width = len(kept) + AGGREGATORS + 2
    moments = np.zeros((FOLDS + 1, width, width))
    block = max(1, 200000 // classes)
    with stage("design"):
        for fold, part in enumerate(parts):
            for at in range(0, len(part), block):
                some = part[at:at + block]
                p = torch.from_numpy(np.stack([m[some] for m in members]))
                a = aggregates(p, best)
                y = torch.zeros(len(some), classes)
                y[torch.arange(len(some)), torch.from_numpy(labels[some])] = 1
                ends = torch.ones(1, y.numel()), y.reshape(1, -1)
                for f in range(FOLDS + 1):
                    if f != fold:
                        x = torch.cat([ends[0], design(p, a, gates[f]), ends[1]])
                        moments[f] += (x @ x.T).double().numpy()
    with stage("ridge"):
        learners = [penalised(m) for m in moments]
    likelihood = np.zeros((3, rows))
    with stage("blend"):
        for fold, part in enumerate(parts):
            weights = torch.from_numpy(np.stack([w for w, _, _ in learners[fold]]).astype(np.float32))
            bias = torch.tensor([[b] for _, b, _ in learners[fold]], dtype=torch.float32)
            for at in range(0, len(part), block):
                some = part[at:at + block]
                p = torch.from_numpy(np.stack([m[some] for m in members]))
                scores = torch.addmm(bias, weights, design(p, aggregates(p, best), gates[fold]))
                scores = scores.clamp_(min=1e-6).reshape(3, len(some), classes)
                truth = scores[:, torch.arange(len(some)), torch.from_numpy(labels[some])]
                likelihood[:, some] = (truth / scores.sum(2)).numpy()
        evidence = -np.log(likelihood).sum(1) + np.array([h for _, _, h in learners[-1]])
        blend = np.exp(-(evidence - evidence.min()))
        blend /= blend.sum()
    return -np.log(blend @ likelihood), blend


def drop_and_refit(predictions, labels, parts, kept, risk, loss, blend):
    """Members whose loss is missed by less than its standard error go, least missed first, until nobody does."""
    before = 0
    refits = 0

    def change(candidate):
        nonlocal refits
        refits += 1
        new, weights = meta_fit(predictions, labels, parts, candidate, risk)
        difference = new - loss
        return difference.mean(), difference.std() / np.sqrt(len(difference)), new, weights

    while len(kept) > 1 and len(kept) != before:
        before = len(kept)
        alone = [(change([j for j in kept if j != k])[:2], k) for k in kept]
        for (_, _), k in sorted(((c, se), k) for (c, se), k in alone if c < se):
            if len(kept) == 1:
                break
            candidate = [j for j in kept if j != k]
            mean, se, new, weights = change(candidate)
            if mean < se:
                kept, loss, blend = candidate, new, weights
    return kept, loss, blend, refits


def main():
    start = time.perf_counter()
    with stage("read"):
        predictions, labels = read(pathlib.Path(sys.argv[1]))
    with stage("cka"):
        truth = predictions[:, np.arange(len(labels)), labels]
        risk = -np.log(np.maximum(truth, 1e-15)).mean(1)
        kept = project(nystrom_cka(predictions, np.random.default_rng(0)), risk)
    if len(sys.argv) > 4:
        kept = [int(k) for k in sys.argv[4].split(",")]
    smallest = np.bincount(labels).min()
    parts = [np.arange(f, len(labels), FOLDS) for f in range(FOLDS)] if smallest < FOLDS else \
        [part for _, part in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(labels, labels)]
    loss, blend = meta_fit(predictions, labels, parts, kept, risk)
    mode = sys.argv[3] if len(sys.argv) > 3 else "full"
    stages = dict(SECONDS)
    refits, first = 0, kept
    with stage("drop"):
        if mode == "one" and len(kept) > 1:
            meta_fit(predictions, labels, parts, kept[:-1], risk)
            refits = 1
        elif mode == "full":
            kept, loss, blend, refits = drop_and_refit(predictions, labels, parts, kept, risk, loss, blend)
    total = time.perf_counter() - start - (SECONDS["drop"] if mode == "one" else 0)
    print(json.dumps({"mode": mode, "models_projected": len(first), "models_kept": len(kept), "kept": kept,
                      "refits": refits, "nll": loss.mean(), "blend": blend.tolist(),
                      "seconds": {**stages, "drop": SECONDS["drop"], "total": total},
                      "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
