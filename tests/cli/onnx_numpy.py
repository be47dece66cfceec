"""The operators of ONNX that an exported graph has, in NumPy: run(model, inputs) -> {output: array}."""

import numpy as np
import onnx
from onnx import numpy_helper

TYPES = {onnx.TensorProto.FLOAT: np.float32, onnx.TensorProto.DOUBLE: np.float64, onnx.TensorProto.INT64: np.int64}


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def top(x, k, axis, largest):
    if largest:
        return -np.sort(-x, axis=axis).take(np.arange(k[0]), axis=axis)
    return np.sort(x, axis=axis).take(np.arange(k[0]), axis=axis)


def sigmoid(x):
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


OPERATORS = {
    "Abs": lambda a, x: np.abs(x),
    "Add": lambda a, x, y: x + y,
    "And": lambda a, x, y: x & y,
    "ArgMax": lambda a, x: x.argmax(axis=a["axis"]),
    "Cast": lambda a, x: x.astype(TYPES[a["to"]]),
    "Concat": lambda a, *x: np.concatenate(x, axis=a["axis"]),
    "CumSum": lambda a, x, axis: x.cumsum(axis=axis[0]),
    "Div": lambda a, x, y: x / y,
    "Exp": lambda a, x: np.exp(x),
    "Gather": lambda a, x, at: x.take(at, axis=a.get("axis", 0)),
    "Greater": lambda a, x, y: x > y,
    "Identity": lambda a, x: x,
    "Less": lambda a, x, y: x < y,
    "Log": lambda a, x: np.log(x),
    "MatMul": lambda a, x, y: x @ y,
    "Max": lambda a, *x: np.maximum(*x),
    "Min": lambda a, *x: np.minimum(*x),
    "Mul": lambda a, x, y: x * y,
    "Not": lambda a, x: ~x,
    "Or": lambda a, x, y: x | y,
    "ReduceMax": lambda a, x: x.max(axis=tuple(a["axes"]), keepdims=bool(a.get("keepdims", 1))),
    "ReduceSum": lambda a, x, axes: x.sum(axis=tuple(axes), keepdims=bool(a.get("keepdims", 1))),
    "Relu": lambda a, x: np.maximum(x, 0),
    "Reshape": lambda a, x, shape: x.reshape(shape),
    "Sigmoid": lambda a, x: sigmoid(x),
    "Softmax": lambda a, x: softmax(x, a["axis"]),
    "Sqrt": lambda a, x: np.sqrt(x),
    "Squeeze": lambda a, x, axes: x.squeeze(tuple(axes)),
    "Sub": lambda a, x, y: x - y,
    "TopK": lambda a, x, k: top(x, k, a["axis"], a["largest"]),
    "Transpose": lambda a, x: x.transpose(a["perm"]),
    "Unsqueeze": lambda a, x, axes: np.expand_dims(x, tuple(axes)),
    "Where": lambda a, c, x, y: np.where(c, x, y),
}


def run(model, inputs):
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for given in model.graph.input:
        values[given.name] = inputs[given.name]
        assert values[given.name].dtype == TYPES[given.type.tensor_type.elem_type], given.name
    for node in model.graph.node:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        with np.errstate(divide="ignore", invalid="ignore"):
            values[node.output[0]] = np.asarray(OPERATORS[node.op_type](attributes, *(values[name] for name in node.input)))
    return {o.name: values[o.name] for o in model.graph.output}
