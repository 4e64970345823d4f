//! What is measured: the sizes that the project sets itself goals for.

use crate::kernels::{Conv, byte_matmul, matmul};
use crate::roofline::Demand;
use infc_ir::kernel::{Kernel, Operand, OperandKind, Stage};
use infc_testkit::Random;

/// A kernel with its roofline.
pub(crate) struct Case {
    /// Which part of the suite it belongs to.
    pub(crate) group: &'static str,
    /// The kernel.
    pub(crate) kernel: Kernel,
    /// What it needs at least.
    pub(crate) demand: Demand,
    /// Arithmetic operations, for a figure that is comparable with others'; a multiply-add is 2.
    pub(crate) operations: f64,
}

impl Case {
    /// A kernel whose every instruction counts as one operation.
    pub(crate) fn of(group: &'static str, kernel: Kernel, instructions: f64) -> Self {
        let size = |o: &Operand| o.layout.len_elems.as_const().unwrap_or(0) * o.dtype.size_bytes().unwrap_or(1) as i64;
        let (written, read): (Vec<_>, Vec<_>) = kernel.operands.iter().partition(|o| o.kind == OperandKind::Output);
        let bytes = |operands: Vec<&Operand>| operands.into_iter().map(size).sum::<i64>() as f64;
        let (read_bytes, written_bytes) = (bytes(read), bytes(written));
        let demand = Demand { instructions, instructions_512: instructions, read_bytes, written_bytes };
        Self { group, kernel, demand, operations: instructions }
    }

    /// A kernel that is made of multiply-adds.
    fn new(group: &'static str, kernel: Kernel, macs: i64) -> Self {
        Self { operations: macs as f64 * 2.0, ..Self::of(group, kernel, macs as f64) }
    }

    fn conv(group: &'static str, conv: Conv) -> Self {
        Self::new(group, conv.build(), conv.macs())
    }

    fn matmul(group: &'static str, m: i64, n: i64, k: i64) -> Self {
        Self::new(group, matmul(m, n, k), m * n * k)
    }
}

/// A kernel that does next to nothing: what a launch costs.
#[must_use]
pub(crate) fn nothing() -> Kernel {
    let text = "kernel @nothing(x: f32[1]) -> (y: f32[1]) { stage o[n: 1] = x[n] output y[n] = o[n] }";
    text.parse().unwrap_or_else(|e| panic!("{e}"))
}

/// A kernel as text. Its largest reduction counts.
///
/// # Errors
/// If the text is no kernel, or its extents are not known.
pub(crate) fn of_text(text: &str) -> anyhow::Result<Case> {
    let kernel: Kernel = text.parse().map_err(|e| anyhow::anyhow!("{e}"))?;
    let points = |stage: &Stage| stage.axes.iter().map(|a| a.extent.as_const().unwrap_or(0)).product::<i64>();
    let macs = kernel.stages.iter().map(points).max().unwrap_or(0);
    Ok(Case::new("text", kernel, macs))
}

/// The parts of the suite, in order.
pub(crate) const GROUPS: [&str; 5] = ["gemm", "conv3x3", "conv1x1", "random", "untuned"];

/// All cases. The random ones depend on the seed.
#[must_use]
pub(crate) fn cases(seed: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    for (m, n, k) in [(168, 3072, 768), (168, 768, 3072), (1008, 1152, 1024)] {
        cases.push(Case::matmul("gemm", m, n, k));
    }
    // Bytes, summed in 32 bits: as many operations as in floats, by fewer instructions where there are dot products.
    for (m, n, k) in [(168, 3072, 768), (168, 768, 3072), (1008, 1152, 1024)] {
        cases.push(Case::new("int8", byte_matmul(m, n, k), m * n * k));
    }
    let square = |side, channels, filters, kernel, stride| Conv {
        height: side,
        width: side,
        channels,
        filters,
        kernel,
        stride,
        depthwise: false,
    };
    for (side, channels) in [(56, 64), (28, 128), (14, 256), (7, 512)] {
        cases.push(Case::conv("conv3x3", square(side, channels, channels, 3, 1)));
    }
    // The 1x1 convolutions of ResNet-50.
    for (side, channels, filters, stride) in [
        (56, 64, 64, 1),
        (56, 64, 256, 1),
        (56, 256, 64, 1),
        (56, 256, 128, 1),
        (56, 256, 512, 2),
        (28, 128, 512, 1),
        (28, 512, 128, 1),
        (28, 512, 256, 1),
        (28, 512, 1024, 2),
        (14, 256, 1024, 1),
        (14, 1024, 256, 1),
        (14, 1024, 512, 1),
        (14, 1024, 2048, 2),
        (7, 512, 2048, 1),
        (7, 2048, 512, 1),
    ] {
        cases.push(Case::conv("conv1x1", square(side, channels, filters, 1, stride)));
    }
    cases.extend(random(seed, 40));
    cases.extend(crate::untuned::cases());
    cases
}

/// Contractions and convolutions that nobody chose.
fn random(seed: u64, count: usize) -> Vec<Case> {
    const CHANNELS: [i64; 10] = [3, 8, 24, 40, 72, 112, 144, 200, 320, 1000];
    let mut random = Random::new(seed);
    let mut pick = |from: &[i64]| from[random.below(from.len() as u64) as usize];
    let mut cases = Vec::new();
    while cases.len() < count {
        let channels = pick(&CHANNELS);
        let filters = pick(&CHANNELS);
        match pick(&[0, 0, 1, 1, 2]) {
            0 => {
                let m = 1 + pick(&[0, 1, 6, 30, 48, 99, 127, 196, 512, 783, 1023, 1999]);
                cases.push(Case::matmul("random", m, filters, channels));
            }
            kind => {
                let depthwise = kind == 2;
                let kernel = pick(if depthwise { &[3, 5, 7] } else { &[1, 3, 5, 7] });
                let side = pick(&[7, 13, 14, 19, 27, 33, 45, 56]);
                let conv = Conv {
                    height: side,
                    width: side + pick(&[0, 1, 2, 5]),
                    channels,
                    filters: if depthwise { channels } else { filters },
                    kernel,
                    stride: pick(&[1, 1, 2]),
                    depthwise,
                };
                // A case should take milliseconds, not seconds.
                if conv.macs() < 400_000_000 {
                    cases.push(Case::conv("random", conv));
                }
            }
        }
    }
    cases
}
