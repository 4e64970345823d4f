//! A small kernel for every instruction that the backend prints, whose operands show which is which: what a GPU makes of it is
//! recorded, and the simulator has to make the same of it.
//!
//! All of these instructions have one right result (there are no approximate ones), so a record is a hash.

mod group;
mod matrix;
mod memory;
mod record;
mod scalar;
mod text;

pub use record::{Record, Recorded};

use crate::device::Device;
use anyhow::Result;
use infc_runtime::GpuImage;
use infc_runtime::artifact::DeviceKernel;
use infc_tensor::{AlignedBytes, DType, Tensor};

/// Threads of a block, of which there is one.
const THREADS: u32 = 256;

/// A kernel that shows what an instruction does.
#[derive(Clone, Debug)]
pub struct Micro {
    /// The instruction, as far as the blank in front of its operands.
    pub instruction: String,
    /// The module, whose entry is `micro` and takes the addresses of the inputs, then of the output.
    pub text: String,
    threads: u32,
    inputs: Vec<Vec<u8>>,
    output_bytes: usize,
    /// The type of the output's elements, if they are floats: which of the many NaN one is does not matter.
    float: Option<DType>,
}

/// The kernels, by what they show.
#[must_use]
pub fn all() -> Vec<Micro> {
    scalar::micros().chain(memory::micros()).chain(matrix::micros()).chain(group::micros()).collect()
}

/// What is in every kernel anyway, and what another one shows along with what it is for.
pub const EVERYWHERE: [&str; 12] = [
    "bar.sync",
    "bra",
    "cp.async.commit_group",
    "cp.async.wait_group",
    "cvta.to.global.u64",
    "fence.proxy.async.shared::cta",
    "ld.param.u64",
    "mov.u64",
    "ret",
    "wgmma.commit_group.sync.aligned",
    "wgmma.fence.sync.aligned",
    "wgmma.wait_group.sync.aligned",
];

impl Micro {
    /// Whether it takes a GPU of this compute capability, major·10 + minor.
    #[must_use]
    pub fn runs_on(&self, capability: u32) -> bool {
        text::needed(&self.instruction).runs_on(capability)
    }

    /// The output, with every NaN the same.
    ///
    /// # Errors
    /// The GPU's.
    pub fn run(&self, device: &Device) -> Result<Vec<u8>> {
        let kernel = DeviceKernel {
            entry: "micro".to_owned(),
            block: [self.threads, 1, 1],
            dynamic_shared_bytes: 0,
            ..DeviceKernel::default()
        };
        let code = device.load(GpuImage::Ptx(&self.text), kernel)?;
        let buffers = self.inputs.iter().map(|bytes| device.buffer(bytes)).collect::<Result<Vec<_>>>()?;
        let output = device.buffer(&vec![0xa5; self.output_bytes])?;
        let parameters: Vec<u64> = buffers.iter().chain([&output]).map(|buffer| buffer.address()).collect();
        device.launch(&code, [1; 3], &parameters)?;
        let mut bytes = output.read()?;
        if let Some(dtype) = self.float {
            let size = dtype.size_bytes().unwrap_or(1);
            let nan = |element: &[u8]| {
                let tensor = Tensor::from_bytes(dtype, vec![1], AlignedBytes::from_slice(element));
                tensor.ok().and_then(|tensor| tensor.get_f64(0)).is_some_and(f64::is_nan)
            };
            bytes.chunks_exact_mut(size).filter(|element| nan(element)).for_each(|element| element.fill(0xff));
        }
        Ok(bytes)
    }
}
