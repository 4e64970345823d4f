"""Holds what `infc simplify` writes to what ONNX's checker and ONNX Runtime say of it.

    check.py INFC FOLDER MODEL...

Each model is simplified twice: as it is, and with all dims fixed to those of its inputs. Both must pass the checker in
full and give the outputs of the original: the same types and shapes, integers and texts exactly, floats within 1e-5 of
the largest. Operators run one by one, so that nothing but the model makes a difference. Dims that the compiler refuses are
refused here as well, and said so. Inputs are NAME.inputs.npz or
NAME.in.npz beside NAME.onnx, or test_data_set_0 beside model.onnx, or made up.
"""

import glob
import json
import os
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

TOLERANCE = 1e-5


def session(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def made_up(port, random):
    shape = [extent if isinstance(extent, int) else 2 for extent in port.shape]
    kinds = {"tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8, "tensor(bool)": np.bool_}
    if port.type in kinds:
        return np.zeros(shape, kinds[port.type])
    kinds = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}
    return random.random(shape).astype(kinds[port.type])


def inputs_of(path, ports):
    """Values by name; those of a folder of test data are in the order of the ports."""
    for ending in (".inputs.npz", ".in.npz"):
        stored = os.path.splitext(path)[0] + ending
        if os.path.exists(stored):
            arrays = np.load(stored)
            return {port.name: arrays[port.name] for port in ports}
    folder = os.path.join(os.path.dirname(path), "test_data_set_0")
    if os.path.isdir(folder):
        values = {}
        for n, port in enumerate(ports):
            tensor = onnx.TensorProto()
            with open(os.path.join(folder, f"input_{n}.pb"), "rb") as file:
                tensor.ParseFromString(file.read())
            values[port.name] = numpy_helper.to_array(tensor)
        return values
    random = np.random.default_rng(0)
    return {port.name: made_up(port, random) for port in ports}


def difference(name, expected, found):
    """How far apart two outputs are, of the largest; raises if they cannot be compared."""
    expected, found = np.asarray(expected), np.asarray(found)
    if expected.dtype != found.dtype or expected.shape != found.shape:
        raise AssertionError(f"{name}: {expected.dtype}{expected.shape} became {found.dtype}{found.shape}")
    if expected.dtype.kind not in "fc":
        if not np.array_equal(expected, found):
            raise AssertionError(f"{name}: other values")
        return 0.0
    if not np.array_equal(np.isfinite(expected), np.isfinite(found)):
        raise AssertionError(f"{name}: other values are infinite or no numbers")
    finite = np.isfinite(expected)
    if not finite.any():
        return 0.0
    expected, found = expected[finite].astype(np.float64), found[finite].astype(np.float64)
    return float(np.abs(expected - found).max() / max(np.abs(expected).max(), 1e-30))


def check(infc, folder, path):
    """What became of a model, in words."""
    original = session(path)
    ports = original.get_inputs()
    values = inputs_of(path, ports)
    names = [port.name for port in original.get_outputs()]
    expected = original.run(names, values)
    fixed = []
    for name, value in values.items():
        fixed += ["--shape", f"{name}=" + ("x".join(map(str, value.shape)) or "scalar")]
    told = []
    for what, flags in (("", []), ("fixed", fixed)):
        written = os.path.join(folder, "simplified.onnx")
        command = [infc, "simplify", path, "-o", written, "--format", "json", "-q", *flags]
        process = subprocess.run(command, capture_output=True, text=True)
        report = json.loads(process.stdout)
        if process.returncode != 0:
            refused = [infc, "check", path, "--format", "json", "-q", *flags]
            if flags and subprocess.run(refused, capture_output=True, check=False).returncode == process.returncode:
                told.append(f"{what}: refused, as by the compiler ({report['code']})")
                continue
            raise AssertionError(f"{report['code']}: {report['message']}")
        onnx.checker.check_model(written, full_check=True)
        simplified = session(written)
        if [port.name for port in simplified.get_inputs()] != [port.name for port in ports]:
            raise AssertionError("other inputs")
        found = simplified.run(names, values)
        worst = max(map(difference, names, expected, found), default=0.0)
        if worst > TOLERANCE:
            raise AssertionError(f"off by {worst:.1e} {what}")
        told.append(f"{report['nodes']}{' ' + what if what else ''} (off by {worst:.0e})")
    return f"{len(onnx.load(path, load_external_data=False).graph.node)} -> {', '.join(told)}"


def main():
    infc, folder, *paths = sys.argv[1:]
    failed = 0
    for path in paths:
        name = os.path.splitext(os.path.basename(path))[0]
        if name == "model":
            name = os.path.basename(os.path.dirname(path))
        try:
            print(f"{name:28} {check(infc, folder, path)}", flush=True)
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            print(f"{name:28} FAILED: {' '.join(str(error).split())[:300]}", flush=True)
        for file in glob.glob(os.path.join(folder, "simplified.onnx*")):
            os.remove(file)
    print(f"{len(paths)} models, {failed} failed")
    sys.exit(failed > 0)


main()
