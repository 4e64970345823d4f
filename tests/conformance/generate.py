"""Writes the conformance cases of ONNX as folders that `infc conformance` runs.

    python generate.py OUT

The cases come with the package `onnx`, in the version that requirements.txt pins:

    OUT/<kind>/<case>/model.onnx
    OUT/<kind>/<case>/test_data_set_<n>/{input,output}_<i>.pb
    OUT/<kind>/<case>/tolerance.json     {"rtol": 0.001, "atol": 1e-07}

Kinds are node, simple, pytorch-converted and pytorch-operator. Equal versions give equal cases: whatever a case draws
at random is seeded.
"""

import json
import random
import shutil
import sys
from pathlib import Path

import numpy as np

KINDS = ["node", "simple", "pytorch-converted", "pytorch-operator"]


def encode(value, info):
    """A value of a test case as the protobuf message that its type calls for."""
    from onnx import TensorProto, numpy_helper

    if isinstance(value, TensorProto):
        return value
    kind = info.type.WhichOneof("value")
    makers = {
        "map_type": numpy_helper.from_dict,
        "sequence_type": numpy_helper.from_list,
        "optional_type": numpy_helper.from_optional,
        "tensor_type": numpy_helper.from_array,
    }
    return makers[kind](value, info.name)


def write_values(folder, prefix, values, infos):
    for index, (value, info) in enumerate(zip(values, infos)):
        (folder / f"{prefix}_{index}.pb").write_bytes(encode(value, info).SerializeToString(deterministic=True))


def write_case(case, folder):
    if folder.exists():
        shutil.rmtree(folder)
    if case.model_dir is not None:
        shutil.copytree(case.model_dir, folder)
    else:
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(case.model.SerializeToString(deterministic=True))
        graph = case.model.graph
        for number, (inputs, outputs) in enumerate(case.data_sets):
            data = folder / f"test_data_set_{number}"
            data.mkdir()
            write_values(data, "input", inputs, graph.input)
            write_values(data, "output", outputs, graph.output)
    tolerance = {"rtol": case.rtol, "atol": case.atol}
    (folder / "tolerance.json").write_text(json.dumps(tolerance) + "\n")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    # Before the import that makes the cases.
    np.random.seed(0)
    random.seed(0)
    from onnx.backend.test.loader import load_model_tests

    for kind in KINDS:
        cases = [case for case in load_model_tests(kind=kind) if case.url is None]
        cases = sorted(cases, key=lambda case: case.name)
        for case in cases:
            write_case(case, out / kind / case.name)
        print(f"{kind}: {len(cases)} cases")


if __name__ == "__main__":
    main()
