//! What is wrong with a module, a launch or an execution.

use std::fmt;

/// Where an execution stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Line of the module's text, from 1.
    pub line: u32,
    /// Number of the block in its grid, x fastest.
    pub block: u64,
    /// Number of the thread in its block, x fastest.
    pub thread: u32,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, block {}, thread {}", self.line, self.block, self.thread)
    }
}

/// Why a module cannot be executed, or what an execution did that it may not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum SimError {
    #[error("line {line}: expected {expected}, found `{found}`")]
    Syntax { line: u32, expected: String, found: String },
    #[error("line {line}: the simulator does not know `{instruction}`")]
    UnknownInstruction { line: u32, instruction: String },
    #[error("line {line}: `{instruction}` does not take `{operand}`: {reason}")]
    OperandType { line: u32, instruction: String, operand: String, reason: String },
    #[error("line {line}: `{name}` is not declared")]
    Undeclared { line: u32, name: String },
    #[error("the launch cannot be made: {reason}")]
    Launch { reason: String },
    #[error("{site}: {bytes} bytes at {place} are outside of it ({len} bytes)")]
    OutOfBounds { site: Site, place: String, bytes: u64, len: u64 },
    #[error("{site}: address {address:#x} is in no buffer of {space} memory")]
    WildAddress { site: Site, address: u64, space: &'static str },
    #[error("{site}: {place} is not aligned to {align} bytes")]
    Misaligned { site: Site, place: String, align: u64 },
    #[error("{site}: {place} is read and was never written")]
    UninitialisedMemory { site: Site, place: String },
    #[error("{site}: register {register} is read and was never written")]
    UninitialisedRegister { site: Site, register: String },
    #[error("{site}: {place} is only to be read")]
    ReadOnly { site: Site, place: String },
    #[error("{site}: {place} is {access} while {other} {other_access} it, without a barrier in between")]
    Race { site: Site, place: String, access: &'static str, other: String, other_access: &'static str },
    #[error("{site}: {place} is the target of an asynchronous copy that may not have ended")]
    PendingCopy { site: Site, place: String },
    #[error("{site}: a barrier that thread {other} {state}")]
    DivergentBarrier { site: Site, other: u32, state: &'static str },
    #[error("{site}: an operation of the whole warp that lane {lane} does not take part in")]
    DivergentWarp { site: Site, lane: u32 },
    #[error("{site}: register {register} belongs to a product that may not have ended")]
    BusyRegister { site: Site, register: String },
    #[error("{site}: register {register} was written, and no wgmma.fence has come since")]
    UnfencedRegister { site: Site, register: String },
    #[error("{site}: {place} was written, and its writer has not made that visible to products (fence.proxy.async)")]
    Unfenced { site: Site, place: String },
    #[error("{site}: a product by a group of warps, of which {reason}")]
    Group { site: Site, reason: String },
    #[error("{site}: {what} before griddepcontrol.wait")]
    BeforeWait { site: Site, what: String },
    #[error("{site}: the launch has taken {limit} steps and has not ended")]
    StepLimit { site: Site, limit: u64 },
}

impl SimError {
    /// A stable name.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "ptxsim::syntax",
            Self::UnknownInstruction { .. } => "ptxsim::unknown-instruction",
            Self::OperandType { .. } => "ptxsim::operand-type",
            Self::Undeclared { .. } => "ptxsim::undeclared",
            Self::Launch { .. } => "ptxsim::launch",
            Self::OutOfBounds { .. } => "ptxsim::out-of-bounds",
            Self::WildAddress { .. } => "ptxsim::wild-address",
            Self::Misaligned { .. } => "ptxsim::misaligned",
            Self::UninitialisedMemory { .. } => "ptxsim::uninitialised-memory",
            Self::UninitialisedRegister { .. } => "ptxsim::uninitialised-register",
            Self::ReadOnly { .. } => "ptxsim::read-only",
            Self::Race { .. } => "ptxsim::race",
            Self::PendingCopy { .. } => "ptxsim::pending-copy",
            Self::DivergentBarrier { .. } => "ptxsim::divergent-barrier",
            Self::DivergentWarp { .. } => "ptxsim::divergent-warp",
            Self::BusyRegister { .. } => "ptxsim::busy-register",
            Self::UnfencedRegister { .. } => "ptxsim::unfenced-register",
            Self::Unfenced { .. } => "ptxsim::unfenced",
            Self::Group { .. } => "ptxsim::group",
            Self::BeforeWait { .. } => "ptxsim::before-wait",
            Self::StepLimit { .. } => "ptxsim::step-limit",
        }
    }
}
