"""The language models of the pool: Kneser-Ney n-grams, an LSTM and transformers. Each function is a factory for
`python -m corestack.pool lm`: it returns a function from token ids [B, T] to scores [B, T, vocabulary]."""
import math
import pathlib

import numpy as np
import torch
from torch import nn

FOLDER = pathlib.Path(__file__).parent / "work"
SIZE, BITS = 16384, 14  # of the vocabulary


class Tied(nn.Module):
    """An embedding whose transpose is the output layer."""

    def __init__(self, width):
        super().__init__()
        self.embedding = nn.Embedding(SIZE, width)
        self.bias = nn.Parameter(torch.zeros(SIZE))
        nn.init.normal_(self.embedding.weight, std=width ** -0.5)

    def forward(self, tokens):
        return self.out(self.inside(self.embedding(tokens)))

    def out(self, hidden):
        return hidden @ self.embedding.weight.T + self.bias


class Recurrent(Tied):
    def __init__(self, width):
        super().__init__(width)
        self.layers = nn.LSTM(width, width, num_layers=1, batch_first=True)

    def inside(self, x):
        return self.layers(x)[0]


class Transformer(Tied):
    def __init__(self, width, layers, context=128):
        super().__init__(width)
        self.place = nn.Parameter(torch.randn(context, width) * 0.02)
        one = nn.TransformerEncoderLayer(width, width // 32, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(one, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(width)

    def inside(self, x):
        length = x.shape[1]
        ahead = torch.triu(torch.full((length, length), -math.inf), 1)
        return self.norm(self.layers(x * math.sqrt(x.shape[2]) + self.place[:length], mask=ahead))


NETWORKS = {  # name: (network, seed)
    "lstm_192": (lambda: Recurrent(192), 1),
    "transformer_96": (lambda: Transformer(96, 2), 2),
    "transformer_128_a": (lambda: Transformer(128, 3), 3),
    "transformer_128_b": (lambda: Transformer(128, 3), 4),
    "transformer_192": (lambda: Transformer(192, 3), 5),
}
GRAMS = {"kneser_ney_2": 2, "kneser_ney_3": 3, "kneser_ney_4": 4}


def sampled_loss(network, inputs, targets, share):
    """Cross-entropy over the targets of the batch and some thousand other tokens, corrected by how probable each was to be among them."""
    hidden = network.inside(network.embedding(inputs)).flatten(0, 1)
    targets = targets.flatten()
    drawn = torch.cat([targets, torch.randint(SIZE, (2048,))]).unique()
    chance = 1 - (1 - share[drawn]) ** len(targets) * (1 - 1 / SIZE) ** 2048
    logits = hidden @ network.embedding.weight[drawn].T + network.bias[drawn] - torch.log(chance)
    return nn.functional.cross_entropy(logits, torch.searchsorted(drawn, targets))


def train(name, tokens, count, context=128, batch=16):
    """One pass over `count` tokens from places that the seed draws; AdamW; the last twentieth of the steps with all tokens of the vocabulary."""
    make, seed = NETWORKS[name]
    torch.manual_seed(seed)
    network, draw = make(), np.random.default_rng(seed)
    share = torch.from_numpy(np.bincount(tokens, minlength=SIZE) / len(tokens)).float()
    steps = count // (batch * context)
    begin = draw.choice(len(tokens) // context - 1, steps * batch, replace=False) * context
    fast = torch.optim.AdamW(network.parameters(), lr=2e-3, weight_decay=0.01)
    pace = torch.optim.lr_scheduler.OneCycleLR(fast, 3e-3, steps, pct_start=0.1)
    for step in range(steps):
        part = torch.from_numpy(np.stack([tokens[b:b + context + 1] for b in begin[step * batch:(step + 1) * batch]]).astype(np.int64))
        if step < 0.95 * steps:
            loss = sampled_loss(network, part[:, :-1], part[:, 1:], share)
        else:
            loss = nn.functional.cross_entropy(network(part[:, :-1]).flatten(0, 1), part[:, 1:].flatten())
        fast.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        fast.step()
        pace.step()
        if step % 50 == 0:
            print(f"{name}: step {step} of {steps}, loss {loss.item():.3f}", flush=True)
    torch.save(network.state_dict(), FOLDER / f"{name}.pth")


def packed(tokens, n):
    """Every n tokens that follow each other as one number."""
    key = np.zeros(max(0, len(tokens) - n + 1), np.int64)
    for i in range(n):
        key = key << BITS | tokens[i:i + len(key)]
    return key


class KneserNey:
    """Interpolated Kneser-Ney of up to four tokens with one discount for each order (Chen and Goodman 1999), n1 / (n1 + 2 n2)."""

    def __init__(self, tokens, order):
        self.order, self.tables = order, []
        counted = np.unique(packed(tokens, order), return_counts=True)
        for n in range(order, 1, -1):
            held, counts = counted
            once, twice = (counts == 1).sum(), (counts == 2).sum()
            discount = once / (once + 2 * twice)
            contexts, cuts = np.unique(held >> BITS, return_index=True)
            total = np.add.reduceat(counts, cuts)
            left = discount * np.diff(np.r_[cuts, len(counts)]) / total  # for the lower orders
            shares = ((counts - discount) / np.repeat(total, np.diff(np.r_[cuts, len(counts)]))).astype(np.float32)
            self.tables.insert(0, (contexts, np.r_[cuts, len(counts)], left.astype(np.float32), (held & SIZE - 1).astype(np.int64), shares))
            # Of lower orders: in how many ways they are continued to the left.
            counted = np.unique(held & (1 << BITS * (n - 1)) - 1, return_counts=True)
        ways = np.bincount(counted[0].astype(np.int64), counted[1], SIZE)
        self.base = ((ways + 0.5) / (ways + 0.5).sum()).astype(np.float32)

    def __call__(self, tokens):
        out = np.empty((*tokens.shape, SIZE), np.float32)
        for scores, row in zip(out, tokens):
            found = []
            for n, (contexts, *_) in enumerate(self.tables, 1):
                keys = packed(row, n)
                at = np.searchsorted(contexts, keys).clip(max=len(contexts) - 1)
                found.append([-1] * (n - 1) + np.where(contexts[at] == keys, at, -1).tolist())
            for p, places in zip(scores, zip(*found)):
                p[:] = self.base
                for at, (_, cuts, left, words, shares) in zip(places, self.tables):
                    if at < 0:
                        break
                    p *= left[at]
                    p[words[cuts[at]:cuts[at + 1]]] += shares[cuts[at]:cuts[at + 1]]
        return np.log(out, out)


def loaded(name):
    network = NETWORKS[name][0]()
    network.load_state_dict(torch.load(FOLDER / f"{name}.pth"))
    return network


def _factory(name):
    if name in GRAMS:
        return lambda: KneserNey(np.load(FOLDER / "train.npy"), GRAMS[name])
    return lambda: loaded(name)


globals().update({name: _factory(name) for name in (*NETWORKS, *GRAMS)})
