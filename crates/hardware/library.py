"""What PyTorch makes of the kernels that infc-hardware times, and of two networks.

Standard input: a list of {"name", "same": {"op", "dtype", "dims"}}. Standard output: {"kernels": {name: microseconds},
"models": {name: milliseconds}}. Argument: "cuda", or "cpu" to see that the script works. Ends with 7 if there is no PyTorch.
"""

import json
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(f"no PyTorch: {error}", file=sys.stderr)
    sys.exit(7)

DEVICE = sys.argv[1]
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "i8": torch.int8}
# What f32 means is f32.
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True


def seconds(call, least=0.02, replays=5):
    """Seconds of a call, by events around many in a CUDA graph; the median."""
    if DEVICE == "cpu":
        call()
        begun = time.perf_counter()
        call()
        return time.perf_counter() - begun
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()

    def timed(start):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        start()
        last.record()
        last.synchronize()
        return first.elapsed_time(last) / 1e3

    count = max(1, min(500, int(least / max(timed(call), 1e-6)) + 1))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            call()
    return sorted(timed(graph.replay) / count for _ in range(replays + 1))[replays // 2]


def random(shape, dtype):
    if dtype == torch.int8:
        return torch.randint(-100, 100, shape, dtype=dtype, device=DEVICE)
    return torch.randn(shape, device=DEVICE).to(dtype)


def operation(same):
    """A call that does what a case does; None if PyTorch has none that is comparable."""
    op, dtype, dims = same["op"], DTYPES[same["dtype"]], same["dims"]
    if op == "product":
        m, n, k = dims
        a, b = random((m, k), dtype), random((k, n), dtype)
        if dtype == torch.int8:
            if DEVICE == "cpu" or m <= 16:
                return None
            b = b.t().contiguous().t()
            return lambda: torch._int_mm(a, b)
        return lambda: a @ b
    if op in ("convolution", "depthwise"):
        size, c = dims[:2]
        groups = c if op == "depthwise" else 1
        n = c if op == "depthwise" else dims[2]
        x = random((1, c, size, size), dtype).to(memory_format=torch.channels_last)
        w = random((n, c // groups, 3, 3), dtype).to(memory_format=torch.channels_last)
        return lambda: F.relu(F.conv2d(x, w, padding=1, groups=groups))
    x = random(tuple(dims), dtype)
    if op == "softmax":
        return lambda: torch.softmax(x, -1)
    y = torch.empty_like(x)
    return lambda: torch.neg(x, out=y)


def networks():
    """Networks with random weights, each with an input for one item."""
    dtype = torch.float32 if DEVICE == "cpu" else torch.float16
    try:
        import torchvision

        size = 32 if DEVICE == "cpu" else 224
        image = random((1, 3, size, size), dtype).to(memory_format=torch.channels_last)
        net = torchvision.models.resnet50().eval().to(DEVICE, dtype).to(memory_format=torch.channels_last)
        yield "resnet50", net, image
    except ImportError:
        print("no torchvision", file=sys.stderr)
    try:
        import transformers

        layers = 1 if DEVICE == "cpu" else 12
        config = transformers.BertConfig(num_hidden_layers=layers)
        net = transformers.BertModel(config).eval().to(DEVICE, dtype)
        yield "bert_base, 128 tokens", net, torch.randint(0, 30000, (1, 128), device=DEVICE)
    except ImportError:
        print("no transformers", file=sys.stderr)


said = {"kernels": {}, "models": {}}
with torch.inference_mode():
    for case in json.load(sys.stdin):
        call = operation(case["same"])
        if call is not None:
            said["kernels"][case["name"]] = seconds(call) * 1e6
    for name, net, x in networks():
        said["models"][f"{name}, eager in a graph"] = seconds(lambda: net(x)) * 1e3
        if DEVICE == "cuda":
            compiled = torch.compile(net, mode="max-autotune-no-cudagraphs")
            said["models"][f"{name}, torch.compile in a graph"] = seconds(lambda: compiled(x)) * 1e3
json.dump(said, sys.stdout)
