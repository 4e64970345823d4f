#!/usr/bin/env python3
"""Train the network of `infc demo`: handwritten digits, 8 x 8 pixels.

    train.py [--out DIR] [--validate] [--seed N]

writes into DIR (default: this file's folder)

    digits.onnx        ONNX opset 17; input `image` f32[N, 1, 8, 8] in 0..1,
                       output `probabilities` f32[N, 10]; N is dynamic
    test_images.npy    uint8[360, 1, 8, 8], grey levels 0 (paper) .. 16 (ink)
    test_labels.npy    int64[360]

and prints the accuracy that onnxruntime measures on the held-out images. The
data set comes with scikit-learn, so nothing is downloaded. The held-out fifth
is split off first and touched again only by that last measurement: neither the
weights nor any setting below were chosen by it. Settings are judged with
--validate, which trains on four fifths of the training images, reports the
accuracy on the remaining fifth, and writes nothing.

The same seed and packages on the same machine give the same bytes.

Needs: torch scikit-learn numpy onnx onnxruntime (README.md lists the versions
that made the committed files).
"""

import argparse
import pathlib

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

OPSET = 17
GREY_LEVELS = 16.0  # scikit-learn counts ink from 0 to 16
HELD_OUT = 0.2

EPOCHS = 80
BATCH = 64
PEAK_RATE = 5e-3
WEIGHT_DECAY = 5e-3
DROPOUT = 0.3
LABEL_SMOOTHING = 0.05

# How far an image is distorted each time it is seen. A pixel is 2 / 8 wide.
MAX_TURN = 0.15  # radians
MAX_STRETCH = 0.12
MAX_SHIFT = 0.12


class Digits(nn.Module):
    """Three 3x3 convolutions with batch norm, two halvings, two linear layers: 40 thousand weights."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(32)
        self.conv3 = nn.Conv2d(32, 64, 3, padding=1, bias=False)
        self.norm3 = nn.BatchNorm2d(64)
        self.linear1 = nn.Linear(64 * 2 * 2, 64)
        self.dropout = nn.Dropout(DROPOUT)
        self.linear2 = nn.Linear(64, 10)

    def logits(self, image):
        x = F.relu(self.norm1(self.conv1(image)))
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        x = F.max_pool2d(F.relu(self.norm3(self.conv3(x))), 2)
        x = F.relu(self.linear1(torch.flatten(x, start_dim=1)))
        return self.linear2(self.dropout(x))

    def forward(self, image):
        return torch.softmax(self.logits(image), dim=1)


def load_split():
    """(train images, train labels, test images, test labels); images are uint8 [count, 1, 8, 8]."""
    images, labels = load_digits(return_X_y=True)
    images = images.astype(np.uint8).reshape(-1, 1, 8, 8)
    labels = labels.astype(np.int64)
    train, test, train_labels, test_labels = train_test_split(
        images, labels, test_size=HELD_OUT, stratify=labels, random_state=0
    )
    return train, train_labels, test, test_labels


def to_input(images):
    """Grey levels to what the network reads: f32 in 0..1."""
    return torch.from_numpy(images.astype(np.float32) / GREY_LEVELS)


def distort(images):
    """Each image turned, stretched and shifted a little, at random."""
    count = len(images)
    turn = (torch.rand(count) * 2 - 1) * MAX_TURN
    stretch = 1 + (torch.rand(count, 2) * 2 - 1) * MAX_STRETCH
    shift = (torch.rand(count, 2) * 2 - 1) * MAX_SHIFT
    cos, sin = torch.cos(turn), torch.sin(turn)
    rows = [
        torch.stack([cos * stretch[:, 0], -sin * stretch[:, 1], shift[:, 0]], dim=1),
        torch.stack([sin * stretch[:, 0], cos * stretch[:, 1], shift[:, 1]], dim=1),
    ]
    grid = F.affine_grid(torch.stack(rows, dim=1), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


def train(images, labels):
    """Trains for a fixed number of epochs: there is no early stopping to look at any other data."""
    inputs, targets = to_input(images), torch.from_numpy(labels)
    network = Digits()
    steps = EPOCHS * -(-len(inputs) // BATCH)
    optimiser = torch.optim.AdamW(network.parameters(), lr=PEAK_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, PEAK_RATE, total_steps=steps)
    network.train()
    for epoch in range(EPOCHS):
        total = 0.0
        for chosen in torch.randperm(len(inputs)).split(BATCH):
            logits = network.logits(distort(inputs[chosen]))
            loss = F.cross_entropy(logits, targets[chosen], label_smoothing=LABEL_SMOOTHING)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item() * len(chosen)
        if (epoch + 1) % 10 == 0:
            print(f"epoch {epoch + 1:3}  loss {total / len(inputs):.4f}", flush=True)
    return network.eval()


def export(network, path):
    """Writes the ONNX file. Batch norms stay nodes of their own: folding them is the compiler's work."""
    torch.onnx.export(
        network, (torch.zeros(1, 1, 8, 8),), str(path), dynamo=False, opset_version=OPSET,
        training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
        input_names=["image"], output_names=["probabilities"],
        dynamic_axes={"image": {0: "N"}, "probabilities": {0: "N"}},
    )  # fmt: skip
    onnx.checker.check_model(onnx.load(path), full_check=True)


def measured_accuracy(path, images, labels):
    """(right answers, count) of the exported file, as onnxruntime runs it."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (probabilities,) = session.run(["probabilities"], {"image": to_input(images).numpy()})
    return int((probabilities.argmax(axis=1) == labels).sum()), len(labels)


def validate(images, labels):
    """Accuracy on a fifth of the *training* images, for choosing settings."""
    fitted, kept, fitted_labels, kept_labels = train_test_split(
        images, labels, test_size=HELD_OUT, stratify=labels, random_state=1
    )
    network = train(fitted, fitted_labels)
    with torch.inference_mode():
        right = (network(to_input(kept)).argmax(dim=1).numpy() == kept_labels).sum()
    print(f"validation: {right} of {len(kept_labels)} right, {right / len(kept_labels):.2%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent, metavar="DIR")
    parser.add_argument("--validate", action="store_true", help="measure on training images only; write nothing")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    torch.manual_seed(options.seed)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)  # sums in one order, whatever the machine's core count

    train_images, train_labels, test_images, test_labels = load_split()
    if options.validate:
        return validate(train_images, train_labels)

    network = train(train_images, train_labels)
    options.out.mkdir(parents=True, exist_ok=True)
    model = options.out / "digits.onnx"
    export(network, model)
    np.save(options.out / "test_images.npy", test_images)
    np.save(options.out / "test_labels.npy", test_labels)
    right, count = measured_accuracy(model, test_images, test_labels)
    print(f"{model.name}: {model.stat().st_size} bytes; held out: {right} of {count} right, {right / count:.2%}")


if __name__ == "__main__":
    main()
