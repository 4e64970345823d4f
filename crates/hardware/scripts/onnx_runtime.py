"""What ONNX Runtime's CUDA provider makes of the models that infc-hardware runs.

Standard input: a list of {"name", "path", "dims": {symbol: size}}. Standard output: a line {"name", "ms", "error"} for each way to run
each model. Arguments: "cuda", or "cpu" to see that the script works; the second since 1970 after which nothing more is begun; the
numbers to compute in, f32, tf32 or f16. Ends with 7 if there is no ONNX Runtime, or none for GPUs.

A model is timed with its inputs and outputs in the GPU's memory and its kernels in a CUDA graph, many runs after each other, which
is the GPU's own time; and with all copies, as a caller has it.
"""

import json
import os
import sys
import tempfile
import time

try:
    try:
        import torch  # Its libraries of CUDA are found by having it loaded.
    except ImportError:
        pass
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnxruntime.transformers import float16, optimizer
except ImportError as error:
    print(f"no ONNX Runtime: {error}", file=sys.stderr)
    sys.exit(7)

# What libraries print does not belong to what this says.
SAID = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
DEVICE = sys.argv[1]
END = float(sys.argv[2])
PRECISION = sys.argv[3]
if PRECISION not in ("f32", "tf32", "f16"):
    # What it computed instead would stand beside what it is not.
    print(f"ONNX Runtime's tools make no {PRECISION} of a model", file=sys.stderr)
    sys.exit(7)
PROVIDER = "CUDAExecutionProvider" if DEVICE == "cuda" else "CPUExecutionProvider"
LEAST_SECONDS = 0.2 if DEVICE == "cuda" else 0.0
if PROVIDER not in ort.get_available_providers():
    print("this ONNX Runtime has no provider for GPUs", file=sys.stderr)
    sys.exit(7)
ort.set_default_logger_severity(3)


def inputs_of(model, dims):
    """Inputs as infc makes them up: floats in [0, 1), integers 0."""
    random = np.random.default_rng(0)
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        kind = value.type.tensor_type
        shape = [d.dim_value or dims.get(d.dim_param, 1) for d in kind.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        is_float = np.issubdtype(dtype, np.floating)
        inputs[value.name] = (random.random(shape) if is_float else np.zeros(shape)).astype(dtype)
    return inputs


def rounded(model):
    """The model with its weights and what it computes in halves; inputs and outputs stay as they are."""
    if PRECISION != "f16" or DEVICE != "cuda":
        return model
    return float16.convert_float_to_float16(model, keep_io_types=True)


def fused(path):
    """The model as ONNX Runtime's optimiser for transformers writes it; None if it finds no attention."""
    found = optimizer.optimize_model(path, model_type="bert", num_heads=0, hidden_size=0, opt_level=0)
    kinds = found.get_fused_operator_statistics()
    if not any(kinds.get(kind) for kind in ("Attention", "MultiHeadAttention")):
        return None
    if PRECISION == "f16" and DEVICE == "cuda":
        found.convert_float_to_float16(keep_io_types=True)
    return found.model


def session_of(model, folder, **provider):
    path = os.path.join(folder, "model.onnx")
    onnx.save(model, path)
    if DEVICE == "cuda":
        provider = {"use_tf32": "1" if PRECISION == "tf32" else "0", "enable_cuda_graph": "1", **provider}
    return ort.InferenceSession(path, providers=[(PROVIDER, provider)])


def on_device(session, inputs, outputs):
    """Seconds of a run whose inputs and outputs are on the GPU, of many that are not waited for singly."""
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(value, DEVICE, 0))
    # The memory of an output has to stay where it is for a graph.
    for output, value in zip(session.get_outputs(), outputs):
        binding.bind_ortvalue_output(output.name, ort.OrtValue.ortvalue_from_numpy(value, DEVICE, 0))
    options = ort.RunOptions()
    options.add_run_config_entry("disable_synchronize_execution_providers", "1")
    for _ in range(3):
        session.run_with_iobinding(binding)

    def timed(count):
        begun = time.perf_counter()
        for _ in range(count):
            session.run_with_iobinding(binding, options)
        session.run_with_iobinding(binding)
        return (time.perf_counter() - begun) / (count + 1)

    count = max(1, min(2000, int(LEAST_SECONDS / max(timed(1), 1e-6))))
    return sorted(timed(count) for _ in range(5))[2]


def with_copies(session, inputs, _):
    """Seconds of a run with its copies, the median."""
    for _ in range(3):
        session.run(None, inputs)
    seconds = []
    until = time.perf_counter() + LEAST_SECONDS
    while not seconds or (time.perf_counter() < until and len(seconds) < 1000):
        begun = time.perf_counter()
        session.run(None, inputs)
        seconds.append(time.perf_counter() - begun)
    return sorted(seconds)[len(seconds) // 2]


def tell(name, make):
    """Times what `make` gives, and says so, whatever happens; what it gives nothing for is left out."""
    if time.time() > END:
        return
    said = {"name": name, "ms": None, "error": None}
    try:
        seconds = make()
        if seconds is None:
            return
        said["ms"] = seconds * 1e3
    except Exception as error:  # One that fails must not take the others with it.
        said["error"] = f"{type(error).__name__}: {error}"[:500]
    print(json.dumps(said), file=SAID, flush=True)


WAYS = [("", {})]
if DEVICE == "cuda":
    # Convolutions channels last are what tensor cores take as it is.
    WAYS = [("", {}), (", channels last", {"prefer_nhwc": "1"})]


def see(name, path, dims):
    """Times a model in all ways."""
    model = onnx.load(path)
    inputs = inputs_of(model, dims)
    outputs = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, inputs)
    convolves = any(node.op_type == "Conv" for node in model.graph.node)
    models = [("", lambda: rounded(onnx.load(path))), (", fused for transformers", lambda: fused(path))]
    for about, make in models:
        for way, provider in WAYS if convolves else WAYS[:1]:

            def run(how, **other):
                made = make()
                if made is None:
                    return None
                with tempfile.TemporaryDirectory() as folder:
                    return how(session_of(made, folder, **provider, **other), inputs, outputs)

            tell(f"{name}, ONNX Runtime{about}{way}, on the GPU", lambda: run(on_device))
            copied = {} if DEVICE == "cpu" else {"enable_cuda_graph": "0"}
            tell(f"{name}, ONNX Runtime{about}{way}, with all copies", lambda: run(with_copies, **copied))


for case in json.load(sys.stdin):
    # A model that cannot be read is told as well.
    tell(case["name"], lambda: see(case["name"], case["path"], case["dims"]))
