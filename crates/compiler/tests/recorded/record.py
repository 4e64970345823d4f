"""Records what ONNX Runtime makes of three models over many runs; crates/compiler/tests/state.rs compares with it.

    python record.py PATH/TO/models      (with numpy and onnxruntime; made with 1.31.1, optimisations disabled)

Inputs are made of integers, so that Rust makes the same: `noise(n)` is SplitMix64 of n in [0, 1).
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort


def noise(at):
    """SplitMix64 (Steele, Lea and Flood, 2014) of each number, as multiples of 2^-24 in [0, 1)."""
    with np.errstate(over="ignore"):
        z = (at.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(40)).astype(np.float64) / 2.0**24


def session(models, name):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return ort.InferenceSession(models / name / "model.onnx", options, providers=["CPUExecutionProvider"])


def llama(models):
    """Prompt 1, 2, …, 12, then the likeliest token of each step, 200 times."""
    model = session(models, "llama260k_kvcache")
    caches = [i.name for i in model.get_inputs() if i.name.startswith("past")]
    past = {name: np.zeros((1, 4, 0, 8), np.float32) for name in caches}
    tokens, given, length = [], list(range(1, 13)), 0
    for _ in range(200):
        feeds = {
            "input_ids": np.array([given], np.int64),
            "attention_mask": np.ones((1, length + len(given)), np.int64),
            "position_ids": np.arange(length, length + len(given), dtype=np.int64)[None],
        }
        logits, *present = model.run(None, feeds | past)
        past = dict(zip(caches, present))
        length += len(given)
        given = [int(logits[0, -1].argmax())]
        tokens += given
    return [" ".join(map(str, tokens[n : n + 20])) for n in range(0, 200, 20)]


def audio(at):
    """Every half second another loudness, noise over a saw tooth of 150 Hz and more."""
    part = at // 8000
    loud = np.array([0.0, 0.03, 0.25, 0.6, 0.1])[part % 5]
    step = 150 + 37 * (part % 7)
    saw = (at * step % 16000).astype(np.float64) / 16000.0 - 0.5
    return (loud * (saw + 0.25 * (noise(at) - 0.5))).astype(np.float32)


def silero(models):
    """A minute at 16 kHz: 1,875 chunks of 512 samples, each with the 64 before it."""
    model = session(models, "silero_vad_v5")
    state = np.zeros((2, 1, 128), np.float32)
    samples = np.concatenate([np.zeros(64, np.float32), audio(np.arange(1875 * 512))])
    lines = []
    for chunk in range(1875):
        window = samples[chunk * 512 : chunk * 512 + 576][None]
        probability, state = model.run(None, {"input": window, "state": state, "sr": np.array(16000, np.int64)})
        lines.append(repr(float(probability[0, 0])))
    return lines


def ppocr(models):
    """Per width the class and its probability at each place of an image of black and white strokes."""
    model = session(models, "ppocrv4_rec")
    lines = []
    for width in [48, 49, 64, 100, 160, 320, 333, 640, 1000, 1200]:
        row, column = np.arange(48)[:, None], np.arange(width)[None]
        ink = (row >= 8) & (row < 40) & (column % 20 < 16) & (noise(row // 6 * 1000 + column // 4) > 0.45)
        x = np.broadcast_to(np.where(ink, -1.0, 1.0).astype(np.float32), (1, 3, 48, width))
        (y,) = model.run(None, {"x": x})
        best = y[0].argmax(-1)
        lines.append(f"{width} " + " ".join(f"{c}:{y[0, n, c]:.6g}" for n, c in enumerate(best)))
    return lines


def main():
    models = Path(sys.argv[1])
    for name, record in [("llama260k_kvcache", llama), ("silero_vad_v5", silero), ("ppocrv4_rec", ppocr)]:
        Path(__file__).with_name(f"{name}.txt").write_text("\n".join(record(models)) + "\n")


if __name__ == "__main__":
    main()
