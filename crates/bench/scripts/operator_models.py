"""Models of one operator or a short chain each, at sizes that networks have.

    python operator_models.py DIR [--symbolic] [--filter REGEX]

writes NAME.onnx and NAME.inputs.npz for each, to be measured beside other engines (docs/measuring.md). Networks that
nobody has looked at have operators that benchmark networks do not have; what is slow alone is found by measuring it alone.

With --symbolic, extents that have a name below (batch, length, height, width) are symbols instead of numbers; inputs are
the same. Needs onnx and numpy. Inputs are drawn anew for each model from its name, so that a filter changes nothing.
"""

import argparse
import pathlib
import re
import zlib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, HALF, INT32, INT64, UINT8, INT8, BOOL = (
    TensorProto.FLOAT,
    TensorProto.FLOAT16,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.UINT8,
    TensorProto.INT8,
    TensorProto.BOOL,
)


class Dim(int):
    """An extent with a name, which --symbolic makes a symbol."""

    def __new__(cls, name, value):
        dim = super().__new__(cls, value)
        dim.name = name
        return dim


def batch(value=8):
    return Dim("N", value)


def length(value=128):
    return Dim("S", value)


def height(value):
    return Dim("H", value)


def width(value):
    return Dim("W", value)


class Model:
    """What one case adds to: nodes, ports, constants."""

    def __init__(self, name, symbolic):
        self.name = name
        self.symbolic = symbolic
        self.random = numpy.random.default_rng(zlib.crc32(name.encode()))
        self.nodes, self.ports, self.constants, self.arrays = [], [], [], {}

    def input(self, shape, kind=FLOAT, low=None, high=None):
        """A graph input of `shape`; floats are normal, or uniform from `low` to `high`; integers uniform below `high`."""
        name = f"x{len(self.ports)}"
        numpy_type = helper.tensor_dtype_to_np_dtype(kind)
        extents = [int(extent) for extent in shape]
        if kind in (FLOAT, HALF):
            values = self.random.standard_normal(extents) if low is None else self.random.uniform(low, high, extents)
        elif kind == BOOL:
            values = self.random.random(extents) < (0.5 if high is None else high)
        else:
            values = self.random.integers(low or 0, 100 if high is None else high, extents)
        self.arrays[name] = values.astype(numpy_type)
        dims = [dim.name if self.symbolic and isinstance(dim, Dim) else int(dim) for dim in shape]
        self.ports.append(helper.make_tensor_value_info(name, kind, dims))
        return name

    def set(self, name, values):
        """Gives an input other values than drawn ones."""
        self.arrays[name] = numpy.asarray(values, self.arrays[name].dtype)
        return name

    def weight(self, *shape, scale=0.1):
        return self.constant((self.random.standard_normal(shape) * scale).astype(numpy.float32))

    def constant(self, values, kind=None):
        if not isinstance(values, numpy.ndarray):
            values = numpy.array(values)
            kind = kind or (INT64 if values.dtype.kind == "i" else FLOAT)
        if kind is not None:
            values = values.astype(helper.tensor_dtype_to_np_dtype(kind))
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def op(self, kind, *inputs, outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def write(self, folder, results, opset):
        results = results if isinstance(results, list) else [results]
        graph = helper.make_graph(self.nodes, self.name, self.ports, [], self.constants)
        graph.output.extend(helper.make_empty_tensor_value_info(name) for name in results)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        inferred = onnx.shape_inference.infer_shapes(model)
        known = {value.name: value for value in [*inferred.graph.value_info, *inferred.graph.output]}
        del graph.output[:]
        for name in results:
            value = known[name]
            graph.output.append(value)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        onnx.save(model, folder / f"{self.name}.onnx")
        numpy.savez(folder / f"{self.name}.inputs.npz", **self.arrays)


CASES = []


def case(name, build, opset=20):
    CASES.append((name, build, opset))


def unary(kind, shape=(batch(), 256, height(28), width(28)), low=None, high=None, opset=20, name=None, **attributes):
    case(name or kind.lower(), lambda m: m.op(kind, m.input(shape, low=low, high=high), **attributes), opset)


def elementwise():
    for kind in ["Sigmoid", "Tanh", "Exp", "Erf", "Softplus", "Softsign", "Elu", "Selu", "Celu", "Mish", "HardSwish", "HardSigmoid",
                 "Gelu", "LeakyRelu", "Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh", "Floor", "Round", "Sign", "Abs", "Reciprocal",
                 "ThresholdedRelu", "Shrink"]:
        unary(kind, low=-3, high=3)
    for kind in ["Log", "Sqrt"]:
        unary(kind, low=0.01, high=9)
    for kind in ["Asin", "Acos", "Atanh"]:
        unary(kind, low=-0.99, high=0.99)
    unary("Acosh", low=1, high=9)
    unary("Gelu", low=-3, high=3, name="gelu_tanh", approximate="tanh")
    unary("IsNaN")
    image = (batch(), 256, height(28), width(28))
    case("pow_tensor", lambda m: m.op("Pow", m.input(image, low=0.1, high=3), m.input(image, low=-2, high=2)))
    case("pow_2", lambda m: m.op("Pow", m.input(image), m.constant(2.0)))
    case("pow_half", lambda m: m.op("Pow", m.input(image, low=0.1, high=3), m.constant(0.5)))
    case("mod_i32", lambda m: m.op("Mod", m.input((batch(), 65536), INT32, -1000, 1000), m.input((batch(), 65536), INT32, 1, 50)))
    case("fmod", lambda m: m.op("Mod", m.input(image), m.input(image, low=0.5, high=2), fmod=1))
    case("div_i64", lambda m: m.op("Div", m.input((batch(), 65536), INT64, 0, 1000), m.input((batch(), 65536), INT64, 1, 50)))
    case("div_i64_const", lambda m: m.op("Div", m.input((batch(), 65536), INT64, 0, 100000), m.constant(7)))
    case("add_channels", lambda m: m.op("Add", m.input(image), m.weight(1, 256, 1, 1)))
    case("add_rows", lambda m: m.op("Add", m.input((batch(), length(), 768)), m.weight(768)))
    case("add_columns", lambda m: m.op("Add", m.input((batch(), length(), 768)), m.input((batch(), length(), 1))))
    case("add_outer", lambda m: m.op("Add", m.input((batch(), length(512), 1)), m.input((batch(), 1, length(512)))))
    case("mul_gate", lambda m: m.op("Mul", m.input(image), m.op("Sigmoid", m.input((batch(), 256, 1, 1)))))
    case("where_mask", lambda m: m.op("Where", m.input((batch(), 1, length(), length()), BOOL), m.input((batch(), 12, length(), length())), m.constant(-10000.0)))
    case("where_tensors", lambda m: m.op("Where", m.input(image, BOOL), m.input(image), m.input(image)))
    case("clip", lambda m: m.op("Clip", m.input(image), m.constant(0.0), m.constant(6.0)))
    case("max_3", lambda m: m.op("Max", m.input(image), m.input(image), m.input(image)))
    case("prelu", lambda m: m.op("PRelu", m.input(image), m.weight(256, 1, 1)))
    case("less_and_not", lambda m: m.op("Not", m.op("And", m.op("Less", m.input(image), m.input(image)), m.input(image, BOOL))))
    case("equal_i64", lambda m: m.op("Equal", m.input((batch(), 65536), INT64, 0, 9), m.constant(3)))
    case("bitshift", lambda m: m.op("BitShift", m.input((batch(), 65536), UINT8), m.constant(2, UINT8), direction="RIGHT"))
    for source, kind in [(UINT8, FLOAT), (FLOAT, UINT8), (INT64, FLOAT), (FLOAT, INT64), (BOOL, FLOAT), (FLOAT, HALF), (HALF, FLOAT), (INT64, INT32)]:
        name = f"cast_{TensorProto.DataType.Name(source)}_{TensorProto.DataType.Name(kind)}".lower()
        case(name, lambda m, source=source, kind=kind: m.op("Cast", m.input((batch(), 65536), source, **({"low": 0, "high": 100} if source == FLOAT else {})), to=kind))
    case("normalize_image", lambda m: m.op("Div", m.op("Sub", m.op("Cast", m.input((1, 3, height(480), width(640)), UINT8), to=FLOAT), m.constant(numpy.array([[[[123.0]], [[116.0]], [[103.0]]]], numpy.float32))), m.constant(numpy.array([[[[58.0]], [[57.0]], [[57.0]]]], numpy.float32))))
    case("normalize_nhwc", lambda m: m.op("Transpose", m.op("Div", m.op("Sub", m.op("Cast", m.input((1, height(480), width(640), 3), UINT8), to=FLOAT), m.constant(numpy.array([123.0, 116, 103], numpy.float32))), m.constant(numpy.array([58.0, 57, 57], numpy.float32))), perm=[0, 3, 1, 2]))


def reductions():
    for kind in ["Sum", "Mean", "Max", "L2", "LogSumExp", "Prod", "SumSquare", "LogSum"]:
        for name, axes in [("last", [-1]), ("middle", [1]), ("image", [2, 3])]:
            shape = (batch(), 256, height(28), width(28)) if name != "last" else (batch(), length(), 768)
            low, high = ((0.1, 1.1) if kind in ("Prod", "LogSum") else (None, None))
            case(f"reduce_{kind.lower()}_{name}", lambda m, kind=kind, shape=shape, axes=axes, low=low, high=high: m.op(f"Reduce{kind}", m.input(shape, low=low, high=high), m.constant(axes), keepdims=1))
    case("reduce_sum_all", lambda m: m.op("ReduceSum", m.input((batch(), length(), 768)), m.constant([0, 1, 2]), keepdims=0))
    case("reduce_sum_first", lambda m: m.op("ReduceSum", m.input((length(1024), 768)), m.constant([0]), keepdims=0))
    case("reduce_max_i64", lambda m: m.op("ReduceMax", m.input((batch(), 65536), INT64), m.constant([-1])))
    case("argmax_last", lambda m: m.op("ArgMax", m.input((batch(), length(), 1000)), axis=-1))
    case("argmax_channels", lambda m: m.op("ArgMax", m.input((1, 21, height(256), width(256))), axis=1, keepdims=0))
    case("argmin_long", lambda m: m.op("ArgMin", m.input((batch(1), 50257)), axis=-1))
    case("softmax_last", lambda m: m.op("Softmax", m.input((batch(), 12, length(), length())), axis=-1))
    case("softmax_channels", lambda m: m.op("Softmax", m.input((1, 21, height(256), width(256))), axis=1))
    case("softmax_long", lambda m: m.op("Softmax", m.input((batch(1), 50257)), axis=-1))
    case("logsoftmax", lambda m: m.op("LogSoftmax", m.input((batch(), length(), 1000)), axis=-1))
    case("softmax_few", lambda m: m.op("Softmax", m.input((batch(), 8400, 4)), axis=-1))
    case("hardmax", lambda m: m.op("Hardmax", m.input((batch(), 1000)), axis=-1))
    case("cumsum_rows", lambda m: m.op("CumSum", m.input((batch(), length(1024))), m.constant(1)))
    case("cumsum_columns", lambda m: m.op("CumSum", m.input((length(1024), 256)), m.constant(0)))
    case("cumsum_mask", lambda m: m.op("CumSum", m.input((batch(), length(512)), INT64, 0, 2), m.constant(1)))
    case("cumsum_long", lambda m: m.op("CumSum", m.input((1, length(262144))), m.constant(1)))
    case("lp_normalize", lambda m: m.op("LpNormalization", m.input((batch(), length(), 768)), axis=-1, p=2))
    case("std", lambda m: m.op("Sqrt", m.op("ReduceMean", m.op("Pow", m.op("Sub", *(lambda x: (x, m.op("ReduceMean", x, m.constant([-1]))))(m.input((batch(), length(), 768)))), m.constant(2.0)), m.constant([-1]))))


def norms():
    case("layer_norm", lambda m: m.op("LayerNormalization", m.input((batch(), length(), 768)), m.weight(768), m.weight(768), axis=-1))
    case("layer_norm_96", lambda m: m.op("LayerNormalization", m.input((batch(), length(3136), 96)), m.weight(96), m.weight(96), axis=-1))
    case("group_norm", lambda m: m.op("GroupNormalization", m.input((batch(1), 320, height(64), width(64))), m.weight(320), m.weight(320), num_groups=32), 21)
    case("instance_norm", lambda m: m.op("InstanceNormalization", m.input((batch(1), 64, height(128), width(128))), m.weight(64), m.weight(64)))
    case("batch_norm", lambda m: m.op("BatchNormalization", m.input((batch(), 64, height(56), width(56))), m.weight(64), m.weight(64), m.weight(64), m.constant((m.random.random(64) + 0.5).astype(numpy.float32))))
    case("lrn", lambda m: m.op("LRN", m.input((batch(), 96, height(27), width(27))), size=5))
    case("mean_variance_norm", lambda m: m.op("MeanVarianceNormalization", m.input((batch(), 64, height(56), width(56)))))
    case("rms_norm", lambda m: m.op("RMSNormalization", m.input((batch(), length(), 768)), m.weight(768), axis=-1), 23)

    def rms(m):
        x = m.input((batch(1), length(), 2048))
        mean = m.op("ReduceMean", m.op("Pow", x, m.constant(2.0)), m.constant([-1]))
        return m.op("Mul", m.op("Mul", x, m.op("Reciprocal", m.op("Sqrt", m.op("Add", mean, m.constant(1e-6))))), m.weight(2048))

    case("rms_norm_spelled", rms)

    def channels_first(m):
        x = m.input((batch(), 96, height(56), width(56)))
        centred = m.op("Sub", x, m.op("ReduceMean", x, m.constant([1])))
        variance = m.op("ReduceMean", m.op("Mul", centred, centred), m.constant([1]))
        return m.op("Mul", m.op("Div", centred, m.op("Sqrt", m.op("Add", variance, m.constant(1e-6)))), m.weight(96, 1, 1))

    case("layer_norm_channels_first", channels_first)


def convolutions():
    def convolution(name, shape, filters, kernel, groups=1, **attributes):
        def build(m):
            kernels = kernel if isinstance(kernel, list) else [kernel] * (len(shape) - 2)
            attributes.setdefault("pads", [k // 2 for k in kernels] * 2)
            return m.op("Conv", m.input(shape), m.weight(filters, shape[1] // groups, *kernels), m.weight(filters), group=groups, **attributes)

        case(f"conv_{name}", build)

    convolution("3x3_64", (batch(1), 64, height(56), width(56)), 64, 3)
    convolution("1x1_256", (batch(1), 256, height(28), width(28)), 128, 1)
    convolution("first", (batch(1), 3, height(224), width(224)), 32, 3, strides=[2, 2])
    convolution("7x7_first", (batch(1), 3, height(224), width(224)), 64, 7, strides=[2, 2])
    convolution("patch16", (batch(1), 3, height(224), width(224)), 384, 16, strides=[16, 16], pads=[0, 0, 0, 0])
    convolution("patch4", (batch(1), 3, height(224), width(224)), 96, 4, strides=[4, 4], pads=[0, 0, 0, 0])
    convolution("dw3", (batch(1), 256, height(28), width(28)), 256, 3, groups=256)
    convolution("dw5", (batch(1), 256, height(28), width(28)), 256, 5, groups=256)
    convolution("dw7", (batch(1), 96, height(56), width(56)), 96, 7, groups=96)
    convolution("dw31", (batch(1), 64, height(32), width(32)), 64, 31, groups=64)
    convolution("dw3_s2", (batch(1), 96, height(112), width(112)), 96, 3, groups=96, strides=[2, 2])
    convolution("group32", (batch(1), 256, height(28), width(28)), 256, 3, groups=32)
    convolution("group4", (batch(1), 128, height(28), width(28)), 128, 3, groups=4)
    convolution("dilated2", (batch(1), 256, height(28), width(28)), 256, 3, dilations=[2, 2], pads=[2] * 4)
    convolution("dilated12", (batch(1), 256, height(33), width(33)), 256, 3, dilations=[12, 12], pads=[12] * 4)
    convolution("5x5", (batch(1), 64, height(28), width(28)), 96, 5)
    convolution("1x7", (batch(1), 128, height(17), width(17)), 128, [1, 7])
    convolution("1d_3", (batch(1), 256, length(500)), 256, 3)
    convolution("1d_dw31", (batch(1), 256, length(500)), 256, 31, groups=256)
    convolution("1d_stride5", (batch(1), 1, length(16000)), 512, 10, strides=[5], pads=[0, 0])
    convolution("1d_dilated", (batch(1), 64, length(4000)), 64, 3, dilations=[8], pads=[8, 8])
    convolution("1d_causal", (batch(1), 64, length(1000)), 64, 7, pads=[6, 0])
    convolution("3d_3", (batch(1), 32, 16, height(32), width(32)), 32, 3)
    convolution("3d_311", (batch(1), 64, 16, height(28), width(28)), 64, [3, 1, 1])
    convolution("to_1", (batch(1), 64, height(128), width(128)), 1, 3)
    convolution("to_21", (batch(1), 256, height(64), width(64)), 21, 1)

    def transposed(name, shape, filters, kernel, groups=1, **attributes):
        case(f"deconv_{name}", lambda m: m.op("ConvTranspose", m.input(shape), m.weight(shape[1], filters // groups, *([kernel] * (len(shape) - 2))), m.weight(filters), group=groups, **attributes))

    transposed("2x2_s2", (batch(1), 128, height(32), width(32)), 64, 2, strides=[2, 2])
    transposed("3x3_s2", (batch(1), 128, height(32), width(32)), 64, 3, strides=[2, 2], pads=[1] * 4, output_padding=[1, 1])
    transposed("4x4_s2", (batch(1), 128, height(32), width(32)), 64, 4, strides=[2, 2], pads=[1] * 4)
    transposed("3x3_s1", (batch(1), 64, height(32), width(32)), 64, 3, pads=[1] * 4)
    transposed("dw4_s2", (batch(1), 256, height(32), width(32)), 256, 4, groups=256, strides=[2, 2], pads=[1] * 4)
    transposed("1d_16_s8", (batch(1), 256, length(100)), 128, 16, strides=[8], pads=[4, 4])

    def chain(name, build):
        case(f"conv_chain_{name}", build)

    def squeeze_excite(m):
        x = m.input((batch(1), 96, height(56), width(56)))
        pooled = m.op("GlobalAveragePool", x)
        reduced = m.op("Relu", m.op("Conv", pooled, m.weight(24, 96, 1, 1), m.weight(24)))
        return m.op("Mul", x, m.op("Sigmoid", m.op("Conv", reduced, m.weight(96, 24, 1, 1), m.weight(96))))

    chain("squeeze_excite", squeeze_excite)

    def silu(m):
        y = m.op("Conv", m.input((batch(1), 64, height(80), width(80))), m.weight(64, 64, 3, 3), m.weight(64), pads=[1] * 4)
        return m.op("Mul", y, m.op("Sigmoid", y))

    chain("silu", silu)

    def shuffle(m):
        x = m.input((batch(1), 116, 28, 28))
        y = m.op("Transpose", m.op("Reshape", x, m.constant([0, 2, 58, 28, 28])), perm=[0, 2, 1, 3, 4])
        left, right = m.op("Split", m.op("Reshape", y, m.constant([0, 116, 28, 28])), outputs=2, axis=1, num_outputs=2)
        return [m.op("Relu", left), m.op("Conv", right, m.weight(58, 58, 1, 1), m.weight(58))]

    chain("channel_shuffle", shuffle)

    def deform(m):
        x = m.input((batch(1), 64, 32, 32))
        return m.op("DeformConv", x, m.weight(64, 64, 3, 3), m.input((batch(1), 18, 32, 32)), kernel_shape=[3, 3], pads=[1] * 4)

    case("deform_conv", deform, 22)


def pools():
    image = (batch(1), 64, height(112), width(112))
    for kind in ["MaxPool", "AveragePool"]:
        for name, kernel, stride in [("3_s2", 3, 2), ("2_s2", 2, 2), ("3_s1", 3, 1)]:
            case(f"{kind.lower()}_{name}", lambda m, kind=kind, kernel=kernel, stride=stride: m.op(kind, m.input(image), kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[(kernel - 1) // 2] * 4))
    for kernel in [5, 9, 13]:
        case(f"maxpool_{kernel}_s1", lambda m, kernel=kernel: m.op("MaxPool", m.input((batch(1), 256, height(20), width(20))), kernel_shape=[kernel] * 2, strides=[1, 1], pads=[kernel // 2] * 4))
    case("maxpool_1d", lambda m: m.op("MaxPool", m.input((batch(1), 256, length(1000))), kernel_shape=[2], strides=[2]))
    case("averagepool_1d_25", lambda m: m.op("AveragePool", m.input((batch(1), 7, length(512))), kernel_shape=[25], strides=[1], pads=[12, 12]))
    case("averagepool_7", lambda m: m.op("AveragePool", m.input((batch(1), 512, 28, 28)), kernel_shape=[7, 7], strides=[7, 7]))
    case("lppool", lambda m: m.op("LpPool", m.input(image), kernel_shape=[3, 3], strides=[2, 2], p=2), 18)
    case("global_average", lambda m: m.op("GlobalAveragePool", m.input((batch(), 960, height(7), width(7)))))
    case("global_average_large", lambda m: m.op("GlobalAveragePool", m.input((batch(1), 96, height(112), width(112)))))
    case("global_max", lambda m: m.op("GlobalMaxPool", m.input((batch(), 256, height(28), width(28)))))
    case("maxpool_indices", lambda m: m.op("MaxPool", m.input((batch(1), 64, 56, 56)), outputs=2, kernel_shape=[2, 2], strides=[2, 2]))


def resizes():
    image = (batch(1), 64, height(40), width(40))
    for mode in ["nearest", "linear", "cubic"]:
        for coordinates in (["asymmetric", "half_pixel"] if mode == "nearest" else ["half_pixel", "align_corners"]):
            extra = {"nearest_mode": "floor"} if mode == "nearest" else {}
            case(f"resize_{mode}_{coordinates}", lambda m, mode=mode, coordinates=coordinates, extra=extra: m.op("Resize", m.input(image), "", m.constant(numpy.array([1, 1, 2, 2], numpy.float32)), mode=mode, coordinate_transformation_mode=coordinates, **extra))
    case("resize_linear_down", lambda m: m.op("Resize", m.input((1, 3, height(480), width(640))), "", m.constant(numpy.array([1, 1, 0.5, 0.5], numpy.float32)), mode="linear"))
    case("resize_linear_fraction", lambda m: m.op("Resize", m.input((1, 3, 480, 640)), "", "", m.constant([1, 3, 224, 224]), mode="linear"))
    case("resize_antialias", lambda m: m.op("Resize", m.input((1, 3, 480, 640)), "", "", m.constant([1, 3, 224, 224]), mode="linear", antialias=1))
    case("resize_linear_1d", lambda m: m.op("Resize", m.input((batch(1), 64, length(500))), "", m.constant(numpy.array([1, 1, 2], numpy.float32)), mode="linear"))
    case("resize_nearest_4", lambda m: m.op("Resize", m.input((batch(1), 256, height(16), width(16))), "", m.constant(numpy.array([1, 1, 4, 4], numpy.float32)), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"))
    case("grid_sample", lambda m: m.op("GridSample", m.input((batch(1), 32, height(64), width(64))), m.input((batch(1), 64, 64, 2), low=-1.1, high=1.1), mode="linear"))
    case("grid_sample_nearest", lambda m: m.op("GridSample", m.input((batch(1), 32, height(64), width(64))), m.input((batch(1), 64, 64, 2), low=-1.1, high=1.1), mode="nearest"))
    case("grid_sample_border", lambda m: m.op("GridSample", m.input((batch(1), 32, height(64), width(64))), m.input((batch(1), 64, 64, 2), low=-1.1, high=1.1), mode="linear", padding_mode="border", align_corners=1))
    case("affine_grid", lambda m: m.op("AffineGrid", m.input((batch(4), 2, 3)), m.constant([4, 3, 128, 128])))
    case("depth_to_space", lambda m: m.op("DepthToSpace", m.input((batch(1), 256, height(64), width(64))), blocksize=2, mode="CRD"))
    case("depth_to_space_3", lambda m: m.op("DepthToSpace", m.input((batch(1), 27, height(128), width(128))), blocksize=3))
    case("space_to_depth", lambda m: m.op("SpaceToDepth", m.input((batch(1), 64, height(128), width(128))), blocksize=2))
    case("roi_align", lambda m: m.op("RoiAlign", m.input((1, 256, 50, 50)), m.set(m.input((length(100), 4)), boxes(m.random, 100, 400)), m.set(m.input((length(100),), INT64), numpy.zeros(100)), output_height=7, output_width=7, sampling_ratio=2, spatial_scale=0.125))


def boxes(random, count, size):
    corners = random.uniform(0, size * 0.7, (count, 2))
    return numpy.concatenate([corners, corners + random.uniform(4, size * 0.3, (count, 2))], 1)


def movement():
    case("transpose_0213", lambda m: m.op("Transpose", m.input((batch(), length(), 12, 64)), perm=[0, 2, 1, 3]))
    case("transpose_0231", lambda m: m.op("Transpose", m.input((batch(1), 64, height(112), width(112))), perm=[0, 2, 3, 1]))
    case("transpose_0312", lambda m: m.op("Transpose", m.input((batch(1), height(112), width(112), 64)), perm=[0, 3, 1, 2]))
    case("transpose_10", lambda m: m.op("Transpose", m.input((length(1024), 768)), perm=[1, 0]))
    case("transpose_021", lambda m: m.op("Transpose", m.input((batch(), 84, length(8400))), perm=[0, 2, 1]))
    case("transpose_nhwc3", lambda m: m.op("Transpose", m.input((1, 3, height(480), width(640))), perm=[0, 2, 3, 1]))
    case("concat_channels", lambda m: m.op("Concat", m.input((batch(1), 64, height(56), width(56))), m.input((batch(1), 64, height(56), width(56))), axis=1))
    case("concat_last", lambda m: m.op("Concat", m.input((batch(), length(), 64)), m.input((batch(), length(), 64)), axis=-1))
    case("concat_last_odd", lambda m: m.op("Concat", m.input((batch(), 8400, 4)), m.input((batch(), 8400, 80)), m.input((batch(), 8400, 1)), axis=-1))
    case("concat_cache", lambda m: m.op("Concat", m.input((batch(1), 12, length(512), 64)), m.input((batch(1), 12, 1, 64)), axis=2))
    case("split_qkv", lambda m: [m.op("Relu", x) for x in m.op("Split", m.input((batch(), length(), 2304)), outputs=3, axis=-1, num_outputs=3)])
    case("slice_step", lambda m: m.op("Slice", m.input((batch(), 64, height(112), width(112))), m.constant([0, 0]), m.constant([9999, 9999]), m.constant([2, 3]), m.constant([2, 2])))
    case("slice_reverse", lambda m: m.op("Slice", m.input((batch(), length(512), 64)), m.constant([-1]), m.constant([-99999]), m.constant([1]), m.constant([-1])))
    case("slice_reverse_last", lambda m: m.op("Slice", m.input((batch(), 64, length(512))), m.constant([-1]), m.constant([-99999]), m.constant([2]), m.constant([-1])))
    for mode in ["constant", "reflect", "edge", "wrap"]:
        case(f"pad_{mode}", lambda m, mode=mode: m.op("Pad", m.input((batch(1), 64, height(56), width(56))), m.constant([0, 0, 3, 3, 0, 0, 3, 3]), mode=mode))
    case("pad_1d_reflect", lambda m: m.op("Pad", m.input((batch(1), length(16000))), m.constant([0, 200, 0, 200]), mode="reflect"))
    case("expand", lambda m: m.op("Expand", m.input((batch(), 1, 64, 1)), m.constant([1, 32, 64, 128])))
    case("tile", lambda m: m.op("Tile", m.input((batch(), 32, 64)), m.constant([1, 4, 3])))
    case("window_partition", lambda m: m.op("Reshape", m.op("Transpose", m.op("Reshape", m.input((batch(1), 56, 56, 96)), m.constant([0, 8, 7, 8, 7, 96])), perm=[0, 1, 3, 2, 4, 5]), m.constant([-1, 49, 96])))
    case("roll", lambda m: (lambda x: m.op("Concat", m.op("Slice", x, m.constant([3]), m.constant([9999]), m.constant([1])), m.op("Slice", x, m.constant([0]), m.constant([3]), m.constant([1])), axis=1))(m.input((batch(1), height(56), width(56), 96))))
    case("unfold_patches", lambda m: m.op("Transpose", m.op("Reshape", m.input((batch(1), 3, 224, 224)), m.constant([0, 3, 14, 16, 14, 16])), perm=[0, 2, 4, 3, 5, 1]))
    case("trilu", lambda m: m.op("Trilu", m.input((batch(), length(512), length(512))), upper=0))
    case("eyelike", lambda m: m.op("Add", m.op("EyeLike", m.input((512, 512))), m.input((512, 512))))
    case("reverse_sequence", lambda m: m.op("ReverseSequence", m.input((length(128), batch(), 64)), m.set(m.input((batch(),), INT64), numpy.arange(8) * 10 + 20), time_axis=0, batch_axis=1))
    case("compress", lambda m: m.op("Compress", m.input((length(4096), 64)), m.input((length(4096),), BOOL), axis=0))
    case("nonzero", lambda m: m.op("NonZero", m.input((length(65536),), BOOL, high=0.1)))
    case("unique", lambda m: m.op("Unique", m.input((length(4096),), INT64, 0, 500), outputs=4, sorted=1)[0])
    case("onehot", lambda m: m.op("OneHot", m.input((batch(), length()), INT64, 0, 1000), m.constant(1000), m.constant(numpy.array([0.0, 1.0], numpy.float32))))
    case("range_mask", lambda m: m.op("Less", m.op("Range", m.constant(0), m.constant(512), m.constant(1)), m.op("Unsqueeze", m.input((batch(),), INT64, 0, 512), m.constant([1]))))


def lookups():
    case("gather_embedding", lambda m: m.op("Gather", m.weight(30522, 384), m.input((batch(), length()), INT64, 0, 30522), axis=0))
    case("gather_small", lambda m: m.op("Gather", m.weight(512, 16), m.input((batch(), length(4096)), INT64, 0, 512), axis=0))
    case("gather_scalar_rows", lambda m: m.op("Gather", m.weight(100000, 1), m.input((batch(), 256), INT64, 0, 100000), axis=0))
    case("gather_axis1", lambda m: m.op("Gather", m.input((batch(), 197, 384)), m.input((length(50),), INT64, 0, 197), axis=1))
    case("gather_last", lambda m: m.op("Gather", m.input((batch(), length(), 768)), m.constant(0), axis=1))
    case("gather_columns", lambda m: m.op("Gather", m.input((length(1024), 512)), m.input((300,), INT64, 0, 512), axis=1))
    case("gather_elements", lambda m: m.op("GatherElements", m.input((batch(), length(512), 64)), m.input((batch(), length(512), 64), INT64, 0, 512), axis=1))
    case("gather_elements_last", lambda m: m.op("GatherElements", m.input((batch(), length(512), 512)), m.input((batch(), length(512), 64), INT64, 0, 512), axis=2))
    case("gather_nd_rows", lambda m: m.op("GatherND", m.input((batch(), 8400, 64)), m.set(m.input((length(300), 2), INT64), numpy.stack([m.random.integers(0, 8, 300), m.random.integers(0, 8400, 300)], 1))))
    case("gather_nd_points", lambda m: m.op("GatherND", m.input((64, 64, 32)), m.input((length(4096), 3), INT64, 0, 32)))
    case("gather_nd_batch", lambda m: m.op("GatherND", m.input((batch(), 1024, 64)), m.input((batch(), 100, 1), INT64, 0, 1024), batch_dims=1))
    case("scatter_nd", lambda m: m.op("ScatterND", m.input((1024, 64)), m.set(m.input((length(256), 1), INT64), m.random.permutation(1024)[:256, None]), m.input((length(256), 64))))
    case("scatter_elements", lambda m: m.op("ScatterElements", m.input((256, 512)), m.set(m.input((256, 64), INT64), m.random.random((256, 512)).argsort(1)[:, :64]), m.input((256, 64)), axis=1))
    case("scatter_elements_add", lambda m: m.op("ScatterElements", m.input((300, 64)), m.input((length(4000), 64), INT64, 0, 300), m.input((length(4000), 64)), axis=0, reduction="add"))
    case("scatter_nd_add", lambda m: m.op("ScatterND", m.input((300, 64)), m.input((length(4000), 1), INT64, 0, 300), m.input((length(4000), 64)), reduction="add"))
    case("scatter_nd_max", lambda m: m.op("ScatterND", m.input((300, 64)), m.input((length(4000), 1), INT64, 0, 300), m.input((length(4000), 64)), reduction="max"), 20)
    for name, shape, k in [("5_of_1000", (length(512), 1000), 5), ("100_of_8400", (batch(1), 8400), 100), ("8_of_64", (length(1024), 64), 8), ("1_of_50257", (batch(1), 50257), 1), ("50_of_50257", (batch(1), 50257), 50), ("all_of_4096", (batch(1), 4096), 4096), ("300_of_8400", (batch(1), 8400), 300), ("2_of_8", (length(256), 8), 2)]:
        case(f"topk_{name}", lambda m, shape=shape, k=k: m.op("TopK", m.input(shape), m.constant([k]), outputs=2))
    case("topk_100_of_8400_i64", lambda m: m.op("TopK", m.set(m.input((batch(1), 8400), INT64), m.random.permutation(8400)[None]), m.constant([100]), outputs=2))
    case("topk_middle", lambda m: m.op("TopK", m.input((batch(1), 1000, 20)), m.constant([10]), outputs=2, axis=1))
    case("argsort_256", lambda m: m.op("TopK", m.input((batch(), 256)), m.constant([256]), outputs=2, largest=0)[1])
    case("nms", lambda m: m.op("NonMaxSuppression", m.set(m.input((1, 2000, 4)), boxes(m.random, 2000, 600)[None]), m.input((1, 1, 2000), low=0, high=1), m.constant([100]), m.constant(numpy.array([0.5], numpy.float32)), m.constant(numpy.array([0.3], numpy.float32))))


def products():
    case("matmul_square", lambda m: m.op("MatMul", m.input((length(512), 512)), m.input((512, 512))))
    case("matmul_weight", lambda m: m.op("Add", m.op("MatMul", m.input((batch(1), length(), 768)), m.weight(768, 3072)), m.weight(3072)))
    case("matmul_batch", lambda m: m.op("MatMul", m.input((batch(), 12, length(), 64)), m.input((batch(), 12, 64, length()))))
    case("matmul_broadcast", lambda m: m.op("MatMul", m.input((batch(), 1, length(), 64)), m.input((1, 8, 64, 64))))
    case("matvec", lambda m: m.op("MatMul", m.input((batch(1), 4096)), m.weight(4096, 4096)))
    case("matvec_left", lambda m: m.op("MatMul", m.input((batch(), 1024, 512)), m.input((batch(), 512, 1))))
    case("gemm_tb", lambda m: m.op("Gemm", m.input((batch(32), 512)), m.weight(256, 512), m.weight(256), transB=1))
    case("gemm_small", lambda m: m.op("Gemm", m.input((batch(1), 64)), m.weight(64, 64), m.weight(64)))
    case("gemm_ta", lambda m: m.op("Gemm", m.input((256, length(512))), m.input((256, 128)), transA=1))
    case("matmul_narrow", lambda m: m.op("MatMul", m.input((length(4096), 256)), m.weight(256, 4)))
    case("matmul_short_k", lambda m: m.op("MatMul", m.input((length(4096), 4)), m.weight(4, 256)))
    case("matmul_odd", lambda m: m.op("MatMul", m.input((length(197), 333)), m.weight(333, 77)))
    for name, equation, shapes in [
        ("attention", "bhid,bhjd->bhij", [(batch(), 8, length(), 64), (batch(), 8, length(), 64)]),
        ("outer", "bi,bj->bij", [(batch(), 256), (batch(), 256)]),
        ("bilinear", "bnd,de,bme->bnm", [(batch(), 64, 128), (128, 128), (batch(), 64, 128)]),
        ("channels", "bchw,oc->bohw", [(batch(1), 64, height(56), width(56)), (64, 64)]),
        ("diagonal", "bii->bi", [(batch(), 256, 256)]),
        ("relative", "bhwc,hkc->bhwk", [(batch(), 14, 14, 64), (14, 14, 64)]),
        ("states", "bln,bld->bnd", [(batch(), length(), 16), (batch(), length(), 256)]),
    ]:
        case(f"einsum_{name}", lambda m, equation=equation, shapes=shapes: m.op("Einsum", *[m.input(shape) for shape in shapes], equation=equation))
    case("cosine_similarity", lambda m: m.op("MatMul", m.op("LpNormalization", m.input((length(512), 512)), axis=-1), m.op("Transpose", m.op("LpNormalization", m.input((256, 512)), axis=-1), perm=[1, 0])))
    case("pairwise_distance", lambda m: m.op("Sqrt", m.op("ReduceSum", m.op("Pow", m.op("Sub", m.op("Unsqueeze", m.input((length(256), 64)), m.constant([1])), m.op("Unsqueeze", m.input((256, 64)), m.constant([0]))), m.constant(2.0)), m.constant([-1]), keepdims=0)))


def attention():
    def heads(m, rows, count, size):
        return m.op("Transpose", m.op("Reshape", m.input((batch(1), rows, count * size)), m.constant([0, 0, count, size])), perm=[0, 2, 1, 3])

    def spelled(m, rows, columns, count=12, size=64, mask=None):
        query, key, value = heads(m, rows, count, size), heads(m, columns, count, size), heads(m, columns, count, size)
        scores = m.op("Div", m.op("MatMul", query, m.op("Transpose", key, perm=[0, 1, 3, 2])), m.constant(8.0))
        if mask == "add":
            scores = m.op("Add", scores, m.input((batch(1), 1, 1, columns), low=-9, high=0))
        if mask == "where":
            scores = m.op("Where", m.input((batch(1), 1, rows, columns), BOOL), scores, m.constant(-1e9))
        merged = m.op("Transpose", m.op("MatMul", m.op("Softmax", scores, axis=-1), value), perm=[0, 2, 1, 3])
        return m.op("Reshape", merged, m.constant([0, 0, count * size]))

    case("attention_128", lambda m: spelled(m, length(), length()))
    case("attention_197_3", lambda m: spelled(m, 197, 197, 3))
    case("attention_512", lambda m: spelled(m, length(512), length(512)))
    case("attention_mask", lambda m: spelled(m, length(), length(), mask="add"))
    case("attention_where", lambda m: spelled(m, length(), length(), mask="where"))
    case("attention_cross", lambda m: spelled(m, length(100), Dim("T", 1500), 8))
    case("attention_decode", lambda m: spelled(m, 1, length(512)))
    case("attention_long", lambda m: spelled(m, length(2048), length(2048), 4))

    def fused(name, rows, columns, query_heads, key_heads, opset=23, **attributes):
        case(f"attention_op_{name}", lambda m: m.op("Attention", m.input((batch(1), query_heads, rows, 64)), m.input((batch(1), key_heads, columns, 64)), m.input((batch(1), key_heads, columns, 64)), **attributes), opset)

    fused("plain", length(), length(), 8, 8)
    fused("causal", length(), length(), 8, 8, is_causal=1)
    fused("grouped", length(), length(), 8, 2, is_causal=1)
    fused("decode_grouped", 1, length(512), 8, 2)

    def rotary(m):
        x = m.input((batch(1), length(), 8, 64))
        cosine, sine = m.input((1, length(), 1, 64)), m.input((1, length(), 1, 64))
        left, right = m.op("Split", x, outputs=2, axis=-1, num_outputs=2)
        turned = m.op("Concat", m.op("Neg", right), left, axis=-1)
        return m.op("Add", m.op("Mul", x, cosine), m.op("Mul", turned, sine))

    case("rotary_spelled", rotary)
    case("rotary_op", lambda m: m.op("RotaryEmbedding", m.input((batch(1), 8, length(), 64)), m.input((batch(1), length(), 32)), m.input((batch(1), length(), 32))), 23)

    def swiglu(m):
        x = m.input((batch(1), length(), 512))
        gate = m.op("MatMul", x, m.weight(512, 1408))
        return m.op("MatMul", m.op("Mul", m.op("Mul", gate, m.op("Sigmoid", gate)), m.op("MatMul", x, m.weight(512, 1408))), m.weight(1408, 512))

    case("swiglu", swiglu)
    case("feed_forward", lambda m: m.op("MatMul", m.op("Gelu", m.op("Add", m.op("MatMul", m.input((batch(1), length(), 384)), m.weight(384, 1536)), m.weight(1536))), m.weight(1536, 384)))


def recurrences():
    for kind, gates in [("LSTM", 4), ("GRU", 3), ("RNN", 1)]:
        for name, steps, size, direction, sequences in [("128", 100, 128, "forward", 1), ("256_both", 50, 256, "bidirectional", 1), ("64_batch16", 50, 64, "forward", 16), ("512_step", 1, 512, "forward", 1)]:
            def build(m, kind=kind, gates=gates, steps=steps, size=size, direction=direction, sequences=sequences):
                directions = 2 if direction == "bidirectional" else 1
                extra = {"linear_before_reset": 1} if kind == "GRU" else {}
                return m.op(kind, m.input((length(steps) if steps > 1 else 1, batch(sequences), size)), m.weight(directions, gates * size, size), m.weight(directions, gates * size, size), m.weight(directions, 2 * gates * size), outputs=2, hidden_size=size, direction=direction, **extra)[0]

            case(f"{kind.lower()}_{name}", build)
    case("dft_512", lambda m: m.op("DFT", m.input((batch(16), 512, 1)), "", m.constant(1), onesided=1))
    case("dft_400", lambda m: m.op("DFT", m.input((length(98), 400, 1)), "", m.constant(1), onesided=1))
    case("dft_1000_complex", lambda m: m.op("DFT", m.input((batch(), 1000, 2)), "", m.constant(1)))
    case("dft_prime", lambda m: m.op("DFT", m.input((batch(), 251, 2)), "", m.constant(1)))
    case("stft_400", lambda m: m.op("STFT", m.input((batch(1), length(16000), 1)), m.constant(160), m.weight(400, scale=1.0), m.constant(400)))
    case("mel_spectrogram", lambda m: (lambda y: m.op("Log", m.op("Add", m.op("MatMul", m.op("ReduceSumSquare", y, m.constant([-1]), keepdims=0), m.constant(numpy.abs(m.random.standard_normal((201, 80))).astype(numpy.float32))), m.constant(1e-6))))(m.op("STFT", m.input((batch(1), length(16000), 1)), m.constant(160), m.weight(400, scale=1.0), m.constant(400))))


def quantised():
    def quantise(m, x, scale=0.02, zero=128, kind=UINT8):
        return m.op("DequantizeLinear", m.op("QuantizeLinear", x, m.constant(scale), m.constant(zero, kind)), m.constant(scale), m.constant(zero, kind))

    def weight(m, *shape):
        values = m.random.integers(-127, 128, shape).astype(numpy.int8)
        return m.op("DequantizeLinear", m.constant(values), m.constant(numpy.full(shape[0], 0.01, numpy.float32)), m.constant(numpy.zeros(shape[0], numpy.int8)), axis=0)

    case("quantize", lambda m: m.op("QuantizeLinear", m.input((batch(), 65536)), m.constant(0.02), m.constant(128, UINT8)))
    case("dequantize", lambda m: m.op("DequantizeLinear", m.input((batch(), 65536), UINT8), m.constant(0.02), m.constant(128, UINT8)))
    case("qdq_conv", lambda m: quantise(m, m.op("Relu", m.op("Conv", quantise(m, m.input((batch(1), 64, height(56), width(56)))), weight(m, 64, 64, 3, 3), pads=[1] * 4))))
    case("qdq_conv_1x1", lambda m: quantise(m, m.op("Conv", quantise(m, m.input((batch(1), 256, height(28), width(28)))), weight(m, 128, 256, 1, 1))))
    case("qdq_conv_dw", lambda m: quantise(m, m.op("Conv", quantise(m, m.input((batch(1), 256, height(28), width(28)))), weight(m, 256, 1, 3, 3), group=256, pads=[1] * 4)))
    case("qdq_add", lambda m: quantise(m, m.op("Add", quantise(m, m.input((batch(1), 256, height(28), width(28)))), quantise(m, m.input((batch(1), 256, height(28), width(28))), 0.03, 120))))
    case("qdq_sigmoid", lambda m: quantise(m, m.op("Sigmoid", quantise(m, m.input((batch(1), 256, height(28), width(28))))), 1 / 256, 0))
    case("dynamic_quantize", lambda m: m.op("DynamicQuantizeLinear", m.input((batch(1), length(), 768)), outputs=3)[0])
    case("dynamic_matmul", lambda m: (lambda q: m.op("Mul", m.op("Cast", m.op("MatMulInteger", q[0], m.constant(m.random.integers(-127, 128, (768, 768)).astype(numpy.int8)), q[2]), to=FLOAT), m.op("Mul", q[1], m.constant(0.01))))(m.op("DynamicQuantizeLinear", m.input((batch(1), length(), 768)), outputs=3)))
    case("half_matmul", lambda m: m.op("MatMul", m.input((batch(1), length(), 768), HALF), m.constant((m.random.standard_normal((768, 768)) * 0.1).astype(numpy.float16))))
    case("half_conv", lambda m: m.op("Conv", m.input((batch(1), 64, height(56), width(56)), HALF), m.constant((m.random.standard_normal((64, 64, 3, 3)) * 0.1).astype(numpy.float16)), pads=[1] * 4))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--symbolic", action="store_true", help="named extents are symbols")
    parser.add_argument("--filter", default="", metavar="REGEX", help="cases whose name it matches")
    arguments = parser.parse_args()
    for group in [elementwise, reductions, norms, convolutions, pools, resizes, movement, lookups, products, attention, recurrences, quantised]:
        group()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, build, opset in CASES:
        if re.search(arguments.filter, name):
            model = Model(name, arguments.symbolic)
            model.write(arguments.folder, build(model), opset)


if __name__ == "__main__":
    main()
