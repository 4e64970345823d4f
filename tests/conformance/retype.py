"""Writes ONNX's cases of one node with other element types: all that the operator's schema allows.

    python retype.py CASES OUT

CASES is what generate.py has written. Of each operator the smallest, the middle and the largest model are taken; per type
parameter of its schema and per type that it allows, what is of that parameter gets the type. Inputs are those of the case,
converted; outputs are what ONNX's reference implementation makes of them. What that cannot evaluate, or gives another type,
is left out.

    OUT/node/<case>-<parameter>-<type>/...
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

warnings.filterwarnings("ignore")

TYPES = {
    "float": TensorProto.FLOAT,
    "double": TensorProto.DOUBLE,
    **{name.lower(): code for name, code in TensorProto.DataType.items() if name not in ("UNDEFINED", "FLOAT", "DOUBLE")},
}

# What inputs are limited to, so that all types have them.
LIMITS = {
    **{f"int{bits}": (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for bits in (2, 4, 8)},
    **{f"uint{bits}": (0, (1 << bits) - 1) for bits in (2, 4, 8, 16)},
    **{f"int{bits}": (-30000, 30000) for bits in (16, 32, 64)},
    **{f"uint{bits}": (0, 1e9) for bits in (32, 64)},
    "float4e2m1": (-6, 6),
    "float8e8m0": (1e-3, 1e3),
}

# Some units of the last place: the reference rounds halves after every step.
TOLERANCES = {"float16": {"rtol": 4e-3, "atol": 2e-3}, "bfloat16": {"rtol": 3.2e-2, "atol": 1.6e-2}}


def single_nodes(cases):
    """Per operator the models of one node, without functions and graphs, the smallest first."""
    found = {}
    for folder in sorted(cases.glob("node/*")):
        model = onnx.load(folder / "model.onnx")
        nodes = model.graph.node
        if len(nodes) != 1 or model.functions or nodes[0].domain not in ("", "ai.onnx.ml"):
            continue
        if not any(a.type in (a.GRAPH, a.GRAPHS) for a in nodes[0].attribute):
            found.setdefault((nodes[0].domain, nodes[0].op_type), []).append((folder, model))
    for models in found.values():
        models.sort(key=lambda pair: (len(pair[1].SerializeToString()), pair[0].name))
    return found


def of_parameter(formal, names, parameter):
    """The values of a node whose type a parameter is; the last formal one may stand for several."""
    formals = [formal[min(n, len(formal) - 1)].type_str if formal else None for n in range(len(names))]
    return {name for name, own in zip(names, formals) if name and own == parameter}


def retyped(model, parameter, code):
    """The model with all that is of a parameter in another type, and those values; None if it cannot be."""
    node = model.graph.node[0]
    opset = max(o.version for o in model.opset_import if o.domain == node.domain)
    schema = defs.get_schema(node.op_type, opset, node.domain)
    inputs = of_parameter(schema.inputs, node.input, parameter)
    values = inputs | of_parameter(schema.outputs, node.output, parameter)
    if not inputs or any(tensor.name in values for tensor in model.graph.initializer):
        return None
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    for info in [*graph.input, *graph.output, *graph.value_info]:
        if info.name in values:
            if not info.type.HasField("tensor_type"):
                return None
            info.type.tensor_type.elem_type = code
    try:
        onnx.checker.check_model(changed, full_check=True)
    except Exception:
        return None
    return changed, values


def converted(array, name):
    if name == "string":
        return np.array([str(x) for x in array.reshape(-1)], dtype=object).reshape(array.shape)
    if array.dtype.kind == "c" and not name.startswith("complex"):
        array = array.real
    if array.dtype.kind not in "biufc":
        array = array.astype(np.float32)
    if name in LIMITS:
        array = np.clip(np.nan_to_num(array.astype(np.float64)), *LIMITS[name])
    return array.astype(helper.tensor_dtype_to_np_dtype(TYPES[name]))


def write_case(folder, model, values, name, data):
    feeds = {}
    for n, info in enumerate(model.graph.input):
        tensor = TensorProto()
        tensor.ParseFromString((data / f"input_{n}.pb").read_bytes())
        array = numpy_helper.to_array(tensor)
        if info.name in values and array.dtype == object and name != "string":
            return
        feeds[info.name] = converted(array, name) if info.name in values else array
    outputs = ReferenceEvaluator(model).run(None, feeds)
    tensors = [numpy_helper.from_array(np.asarray(o), i.name) for o, i in zip(outputs, model.graph.output)]
    if any(t.data_type != i.type.tensor_type.elem_type for t, i in zip(tensors, model.graph.output)):
        return
    given = [numpy_helper.from_array(feeds[info.name], info.name) for info in model.graph.input]
    sets = folder / "test_data_set_0"
    sets.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
    for prefix, tensors in (("input", given), ("output", tensors)):
        for n, tensor in enumerate(tensors):
            (sets / f"{prefix}_{n}.pb").write_bytes(tensor.SerializeToString(deterministic=True))
    if name in TOLERANCES:
        (folder / "tolerance.json").write_text(json.dumps(TOLERANCES[name]))


def main(cases, out):
    for (domain, op_type), models in single_nodes(cases).items():
        chosen = {n: models[n] for n in (0, len(models) // 2, len(models) - 1)}
        for folder, model in chosen.values():
            opset = max(o.version for o in model.opset_import if o.domain == domain)
            for constraint in defs.get_schema(op_type, opset, domain).type_constraints:
                for allowed in constraint.allowed_type_strs:
                    name = allowed.removeprefix("tensor(").removesuffix(")")
                    if not allowed.startswith("tensor(") or name not in TYPES:
                        continue
                    case = retyped(model, constraint.type_param_str, TYPES[name])
                    if case is None:
                        continue
                    target = out / "node" / f"{folder.name}-{constraint.type_param_str}-{name}"
                    try:
                        write_case(target, *case, name, folder / "test_data_set_0")
                    except Exception:
                        # The reference implementation cannot.
                        continue


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
