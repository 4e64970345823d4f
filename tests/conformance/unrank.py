"""Writes ONNX's cases with inputs and outputs of any rank: what the model declares of shapes is left out.

    python unrank.py CASES OUT

CASES is what generate.py has written. Functions that are written out, whose names end in `_expanded`, are left out.

    OUT/node/<case>/...
"""

import shutil
import sys
from pathlib import Path

import onnx


def without_shape(value_type):
    kind = value_type.WhichOneof("value")
    if kind == "tensor_type":
        value_type.tensor_type.ClearField("shape")
    elif kind in ("sequence_type", "optional_type"):
        without_shape(getattr(value_type, kind).elem_type)


def main(cases, out):
    for path in sorted(cases.glob("**/model.onnx")):
        if path.parent.name.endswith("_expanded"):
            continue
        folder = out / path.parent.relative_to(cases)
        shutil.copytree(path.parent, folder)
        model = onnx.load(path, load_external_data=False)
        for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
            without_shape(value.type)
        onnx.save(model, folder / "model.onnx")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
