#!/usr/bin/python3
"""Two networks and their stack in one file of ONNX: features in, the stack's probabilities out.

    examples/onnx_compose.py SERVICE.onnx

Needs corestack, NumPy and onnx. The networks stand for your own, exported from where they were trained; all graphs that are
joined have the same version and opset as the stack's.
"""
import os
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, compose, helper, numpy_helper

import corestack

FEATURES, CLASSES = 8, 3
DOUBLE, FLOAT = TensorProto.DOUBLE, TensorProto.FLOAT


def model_of(stack, nodes, constants, inputs, outputs):
    """A model of the stack's version and opset."""
    infos = [[helper.make_tensor_value_info(name, FLOAT, ["rows", width]) for name, width in ends.items()] for ends in (inputs, outputs)]
    graph = helper.make_graph(nodes, "member", *infos, [numpy_helper.from_array(a, name) for name, a in constants.items()])
    return helper.make_model(graph, ir_version=stack.ir_version, opset_imports=list(stack.opset_import))


def network(stack, weights, bias):
    """A member: one layer, from features to logits."""
    nodes = [helper.make_node("MatMul", ["features", "weights"], ["product"]), helper.make_node("Add", ["product", "bias"], ["logits"])]
    return model_of(stack, nodes, {"weights": weights, "bias": bias}, {"features": FEATURES}, {"logits": CLASSES})


def service(stack, members):
    """{input of the stack: graph with `features` and `logits`} before the stack, all of them reading one input `features`."""
    to = {name: f"{name}_features" for name in members}
    whole = model_of(stack, [helper.make_node("Identity", ["features"], [name]) for name in to.values()], {},
                     {"features": FEATURES}, {name: FEATURES for name in to.values()})
    for name, member in members.items():
        member = compose.add_prefix(member, name + "_")
        # outputs that the member does not read stay: they are for those that follow
        left = [o.name for o in whole.graph.output if o.name != to[name]]
        whole = compose.merge_models(whole, compose.add_prefix(member, "net_"), io_map=[(to[name], f"net_{name}_features")],
                                     outputs=[*left, f"net_{name}_logits"])
    return compose.merge_models(whole, stack, io_map=[(f"net_{name}_logits", name) for name in members])


def main(path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, FEATURES)).astype(np.float32)
    truth = rng.normal(size=(FEATURES, CLASSES))
    y = (x @ truth + rng.gumbel(size=(600, CLASSES))).argmax(axis=1)
    layers = {}
    for name in ("wide", "deep"):  # what training gave
        layers[name] = (0.7 * truth + 0.3 * rng.normal(size=truth.shape)).astype(np.float32), rng.normal(scale=0.2, size=CLASSES).astype(np.float32)
    logits = {name: x @ w + b for name, (w, b) in layers.items()}
    fitted = corestack.fit(logits, y, output="logit", method="log-linear")
    with tempfile.TemporaryDirectory() as folder:
        fitted.export(os.path.join(folder, "stack.onnx"), output="logit")
        stack = onnx.load(os.path.join(folder, "stack.onnx"))
    whole = service(stack, {name: network(stack, *layers[name]) for name in fitted.kept})
    onnx.checker.check_model(whole, full_check=True)
    onnx.save(whole, path)
    print(f"{path}: {len(whole.graph.input)} input, {len(whole.graph.node)} nodes, members {', '.join(fitted.kept)}")
    return x, fitted.predict({name: logits[name] for name in fitted.kept}, output="logit")


if __name__ == "__main__":
    main(sys.argv[1])
