"""What PyTorch makes of the kernels that infc-hardware times, and of two networks.

Standard input: a list of {"name", "same": {"op", "dtype", "dims"}}. Standard output: a line {"name", "ms", "error"} for each that
was timed. Arguments: "cuda", or "cpu" to see that the script works; the second since 1970 after which nothing more is begun, and a
network that is being compiled is given up. Ends with 7 if there is no PyTorch, or none for GPUs.
"""

import json
import signal
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError as error:
    print(f"no PyTorch: {error}", file=sys.stderr)
    sys.exit(7)

DEVICE = sys.argv[1]
END = float(sys.argv[2])
if DEVICE == "cuda" and not torch.cuda.is_available():
    print("this PyTorch sees no GPU", file=sys.stderr)
    sys.exit(7)
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "tf32": torch.float32, "i8": torch.int8}
# What f32 means is f32, but where a case says that it may be rounded.
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True


def seconds(call, least=0.02, replays=5):
    """Seconds of a call, by events around many in a CUDA graph; the median."""
    call()
    if DEVICE == "cpu":
        begun = time.perf_counter()
        call()
        return time.perf_counter() - begun
    # As PyTorch asks for before a capture: some calls on a stream of their own.
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
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
    torch.backends.cuda.matmul.allow_tf32 = same["dtype"] == "tf32"
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
    if op == "attention":
        heads, rows, keys, columns = dims
        q, k, v = (random((1, heads, points, columns), dtype) for points in (rows, keys, keys))
        return lambda: F.scaled_dot_product_attention(q, k, v)
    x = random(tuple(dims), dtype)
    if op == "softmax":
        return lambda: torch.softmax(x, -1)
    y = torch.empty_like(x)
    return lambda: torch.neg(x, out=y)


def resnet50(dtype):
    import torchvision

    size = 32 if DEVICE == "cpu" else 224
    image = random((1, 3, size, size), dtype).to(memory_format=torch.channels_last)
    net = torchvision.models.resnet50().eval().to(DEVICE, dtype).to(memory_format=torch.channels_last)
    return net, image


def bert_base(dtype):
    import transformers

    config = transformers.BertConfig(num_hidden_layers=1 if DEVICE == "cpu" else 12)
    net = transformers.BertModel(config).eval().to(DEVICE, dtype)
    return net, torch.randint(0, 30000, (1, 128), device=DEVICE)


def tell(name, make):
    """Times what `make` gives, and says so, whatever happens; what it gives nothing for is left out."""
    if time.time() > END:
        return
    said = {"name": name, "ms": None, "error": None}
    try:
        call = make()
        if call is None:
            return
        said["ms"] = seconds(call) * 1e3
    except Exception as error:  # One that fails must not take the others with it.
        said["error"] = f"{type(error).__name__}: {error}"[:500]
    print(json.dumps(said), flush=True)


def too_late(*_):
    raise TimeoutError("no time was left")


if DEVICE == "cuda":
    signal.signal(signal.SIGALRM, too_late)
    signal.alarm(max(1, int(END - time.time())))
with torch.no_grad():
    for case in json.load(sys.stdin):
        tell(case["name"], lambda: operation(case["same"]))
    dtype = torch.float32 if DEVICE == "cpu" else torch.float16
    for name, make in [("resnet50", resnet50), ("bert_base, 128 tokens", bert_base)]:

        def eager():
            net, x = make(dtype)
            return lambda: net(x)

        def compiled():
            net, x = make(dtype)
            net = torch.compile(net)
            return lambda: net(x)

        tell(f"{name}, eager in a graph", eager)
        if DEVICE == "cuda":
            tell(f"{name}, torch.compile in a graph", compiled)
