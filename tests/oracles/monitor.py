"""The monitor in NumPy: statistics, evidence row by row, expected accuracy. Used by tests/cli/test_monitor.py."""

import numpy as np

LEVELS = np.array([0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4, 0.6, 0.8, 1.0])
EXPONENTS = (0.5, 0.7)


def entropy(p):
    return -(p * np.log(np.maximum(p, 1e-30))).sum(axis=-1)


def statistics(members, stack):
    """[3][rows], large values unlike the fit. members: [K][rows][classes]; stack: [rows][classes]."""
    entropies = entropy(members)
    alike = -np.log(entropies + 1e-3).std(axis=0)
    return np.array([entropy(stack), entropy(members.mean(axis=0)) - entropies.mean(axis=0), alike])


class Fit:
    def __init__(self, members, stack, labels, least=100):
        values, predicted = statistics(members, stack), stack.argmax(axis=1)
        counts = np.bincount(predicted, minlength=stack.shape[1])
        self.table = np.zeros(stack.shape[1], dtype=int)
        own = np.flatnonzero(counts >= least)
        self.table[own] = np.arange(len(own)) + 1
        rest = self.table[predicted] == 0
        chosen = [rest if rest.sum() >= least else np.ones(len(predicted), bool)]
        chosen += [predicted == c for c in own]
        self.sorted = [[np.sort(v[rows]) for v in values] for rows in chosen]
        self.rows = np.array([rows.sum() for rows in chosen])
        self.shares = (np.append(counts, 0) + 1) / (counts.sum() + len(counts) + 1)  # up to 31 classes, and the rest
        self.total = len(labels)
        right = int((predicted == labels).sum())
        self.accuracy = right / len(labels)
        self.cuts = [self.cut(p.max(axis=1), right) for p in (stack, members.mean(axis=0))]

    @staticmethod
    def cut(confidence, right):
        at = np.sort(confidence)[::-1][right - 1]
        return at, (right - (confidence > at).sum()) / (confidence == at).sum()

    def expected(self, members, stack):
        found = []
        for p, (at, share) in zip((stack, members.mean(axis=0)), self.cuts):
            confidence = p.max(axis=1)
            found.append(((confidence > at).sum() + share * (confidence == at).sum()) / len(p))
        return min(found)

    def evidence(self, members, stack):
        """After each row, in the order given."""
        values, tables = statistics(members, stack), self.table[stack.argmax(axis=1)]
        low = np.concatenate([[0], LEVELS[:-1]])
        density = np.array([(LEVELS**k - low**k) / (LEVELS - low) for k in EXPONENTS])
        share = min(0.5, 1000 / self.rows.sum())
        seen = [[np.zeros(11) for _ in range(3)] for _ in self.rows]
        classes, recent = np.zeros(len(self.shares)), np.zeros(len(self.shares))
        capital, waiting, out = np.full((4, 2), 0.5 / 8), 0.5, []
        for i, (table, group) in enumerate(zip(tables, stack.argmax(axis=1))):
            start = waiting * (1 - np.sqrt((200 + i) / (201 + i)))
            waiting -= start
            capital = (1 - 0.002) * capital + (0.002 * capital.sum() + start) / 8
            for s in range(3):
                reference = self.sorted[table][s]
                level = (1 + (reference >= values[s, i]).sum()) / (len(reference) + 1)
                here = int(np.searchsorted(LEVELS, level - 1e-9))
                ranks = np.floor(LEVELS * (len(reference) + 1) + 1e-9)
                urn = share * np.diff(ranks, prepend=0) + seen[table][s]
                most = np.diff(np.minimum(1, 1.05 * np.cumsum(urn) / urn.sum()), prepend=0)
                capital[s] *= density[:, here] / (density @ most)
                seen[table][s][here] += 1
            fit, urn = self.shares[group], share * self.total
            expected = (urn * fit + classes[group]) / (urn + i)
            capital[3] *= np.array([(20 * fit + classes[group]) / (20 + i), (20 * fit + recent[group]) / (20 + recent.sum())]) / expected
            recent *= 0.99
            recent[group] += 1
            classes[group] += 1
            out.append(waiting + capital.sum())
        return np.array(out)
