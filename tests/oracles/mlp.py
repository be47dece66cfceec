"""Writes tests/data/mlp.h: loss, gradient and training of a small network from PyTorch in float64.

The network is that of src/fit/baselines/mlp.h: standardised log-probabilities, two hidden layers of ReLU units, softmax. It is
trained with torch.optim.AdamW on all rows at once, weight decay on weights only.
"""
import pathlib

import numpy as np
import torch

from _c_header import array

ROWS, MEMBERS, CLASSES, HIDDEN, EPOCHS = 90, 2, 3, 5, 80
RATE, DECAY = 0.01, 0.05


def main():
    rng = np.random.default_rng(12)
    truth = rng.normal(size=(ROWS, CLASSES)) * 1.5
    labels = np.array([rng.choice(CLASSES, p=np.exp(z) / np.exp(z).sum()) for z in truth])
    z = truth * 1.5 + rng.normal(size=(MEMBERS, ROWS, CLASSES))
    p = np.exp(z) / np.exp(z).sum(2, keepdims=True)
    p[0, :4, 0] = 0  # below the floor
    p = (p / p.sum(2, keepdims=True)).astype(np.float32)
    logs = np.log(np.maximum(p.astype(np.float64), 1e-6)).transpose(1, 0, 2).reshape(ROWS, -1)
    mean, scale = logs.mean(0), logs.std(0)

    torch.set_default_dtype(torch.float64)
    torch.manual_seed(4)
    net = torch.nn.Sequential(torch.nn.Linear(MEMBERS * CLASSES, HIDDEN), torch.nn.ReLU(),
                              torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES))
    x, y = torch.tensor((logs - mean) / scale), torch.tensor(labels)
    parameters = list(net.parameters())

    def flat(tensors):
        return np.concatenate([t.detach().numpy().ravel() for t in tensors])

    start = flat(parameters)
    loss = torch.nn.functional.cross_entropy(net(x), y)
    gradient = flat(torch.autograd.grad(loss, parameters))
    first = float(loss)
    adam = torch.optim.AdamW([{"params": parameters[0::2], "weight_decay": DECAY},
                              {"params": parameters[1::2], "weight_decay": 0.0}], lr=RATE)
    losses, states = [first], [start]
    for _ in range(EPOCHS):
        adam.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        adam.step()
        losses.append(float(torch.nn.functional.cross_entropy(net(x), y)))
        states.append(flat(parameters))
    best = int(np.argmin(losses))
    assert best > EPOCHS / 2 and losses[best] < 0.7 * first, (best, losses)
    net_best = states[best]
    torch.nn.utils.vector_to_parameters(torch.tensor(net_best), parameters)
    text = ("/* Written by tests/oracles/mlp.py. */\n// clang-format off\n#include <stdint.h>\n"
            f"enum {{ MLP_ROWS = {ROWS}, MLP_MEMBERS = {MEMBERS}, MLP_CLASSES = {CLASSES}, MLP_HIDDEN = {HIDDEN}, "
            f"MLP_EPOCHS = {EPOCHS}, MLP_BEST = {best}, MLP_SIZE = {start.size} }};\n"
            f"static const double mlp_rate = {RATE}, mlp_decay = {DECAY};\n"
            f"static const double mlp_best_loss = {losses[best]:.17g};\n"
            + array("float", "mlp_probabilities", p, "%.9eF") + array("int32_t", "mlp_labels", labels, "%d")
            + array("double", "mlp_mean", mean, "%.17g") + array("double", "mlp_scale", scale, "%.17g")
            + array("double", "mlp_start", start, "%.17g")
            + array("double", "mlp_best", net_best, "%.17g")
            + array("double", "mlp_best_probabilities", torch.softmax(net(x), 1).detach().numpy(), "%.12g"))
    (pathlib.Path(__file__).parent.parent / "data" / "mlp.h").write_text(text)


if __name__ == "__main__":
    main()
