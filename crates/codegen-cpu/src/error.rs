//! What can go wrong while code is made.

/// Why a function has no machine code.
#[derive(Debug, thiserror::Error)]
pub enum CodegenError {
    /// This emitter does not do it; another one does.
    #[error("this emitter does not take {what}")]
    Unsupported {
        /// What the function contains.
        what: &'static str,
    },
    /// The nest has something that no code can be made for.
    #[error("kernel `{kernel}`: {reason}")]
    Lower {
        /// The kernel.
        kernel: String,
        /// What, and why not.
        reason: String,
    },
    /// The function breaks a rule of `vir`: a bug in what made it.
    #[error("malformed function: {}", errors.join("; "))]
    Malformed {
        /// All violations.
        errors: Vec<String>,
    },
    /// Register allocation failed: a bug in selection.
    #[error("register allocation failed: {message}")]
    Allocation {
        /// What the allocator said.
        message: String,
    },
    /// Cranelift refused a function or settings: a bug in the translation.
    #[error("Cranelift: {message}")]
    Cranelift {
        /// What it said.
        message: String,
    },
    /// An instruction could not be encoded: a bug in selection.
    #[error("can not encode {code}")]
    Encoding {
        /// The instruction.
        code: String,
        /// What the encoder said.
        source: iced_x86::IcedError,
    },
}
