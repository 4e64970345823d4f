//! What a file holds for one processor level, or for GPUs: the Programs and what is known of each kernel.

use crate::{Program, SizeExpr};
use serde::{Deserialize, Serialize};

/// Programs and kernels of one variant; its machine code, or PTX, is a section of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VariantBody {
    /// One per [`Entry`](crate::Entry), in the same order.
    pub programs: Vec<Program>,
    /// What [`Launch`](crate::Launch) steps refer to by index.
    pub kernels: Vec<KernelInfo>,
}

impl VariantBody {
    /// What stands before all kernels in the variant's code: the head of the PTX module whose entries they are. Nothing
    /// for machine code, and in files of schema 2, whose kernels are modules each. Empty if `code` is another's.
    #[must_use]
    pub fn head<'a>(&self, code: &'a [u8]) -> &'a [u8] {
        let first = self.kernels.iter().map(|kernel| kernel.code_offset).min().unwrap_or(0);
        usize::try_from(first).ok().and_then(|first| code.get(..first)).unwrap_or_default()
    }
}

/// One compiled kernel: where its code is, and what `inspect` and `profile` tell about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelInfo {
    /// Short and unique within the variant, such as `k12_conv_relu`.
    pub name: String,
    /// Where its code starts within the code section; the first byte is the entry point. In PTX the text of an entry of
    /// the one module that the section is.
    pub code_offset: u64,
    /// Bytes of code and constants.
    pub code_len: u64,
    /// Which emitter made it: `wide`, `cranelift`, …
    pub emitter: String,
    /// Width of its main vectors in bits; 0 for scalar code.
    pub vector_bits: u32,
    /// The ONNX nodes it computes.
    pub origins: Vec<String>,
    /// The schedule as text.
    pub schedule: String,
    /// Multiply-accumulates (or scalar operations) of one launch, over the entry's symbols.
    pub macs: Option<SizeExpr>,
    /// Bytes one launch must read and write at least, over the entry's symbols.
    pub bytes: Option<SizeExpr>,
    /// Vector instructions in the code.
    pub vector_insts: u64,
    /// All instructions in the code.
    pub total_insts: u64,
    /// How a GPU starts it; `None` for machine code. Kept beside the other fields ([`crate::wire`]).
    #[serde(skip)]
    pub device: Option<DeviceKernel>,
}

/// How a kernel that is an entry of a PTX module is started.
///
/// Its parameters are the addresses of its buffers, in order, and then the values of its launch, 8 bytes each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceKernel {
    /// The name of the module's entry.
    pub entry: String,
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Shared memory that a launch asks for, beyond what the module declares.
    pub dynamic_shared_bytes: u32,
    /// Whether it may begin before the kernels before it have ended: each of its threads waits for these
    /// (`griddepcontrol.wait`) before it touches what they may write. Kept beside the other fields ([`crate::wire`]).
    #[serde(skip)]
    pub waits: bool,
}
