//! What the default schedule needs to know of a GPU.

/// A GPU, as far as loops care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuMachine {
    /// Threads of a block.
    pub threads: i64,
    /// Threads of all blocks together that keep the machine busy.
    pub busy_threads: i64,
    /// Shared memory that a block should take at most.
    pub shared_bytes: u64,
    /// The same of a block whose warps multiply in groups, which has a processor to itself.
    pub group_shared_bytes: u64,
    /// Memory of its own that a thread may have.
    pub local_bytes: u64,
    /// Points of a result along one side that a thread holds in registers.
    pub register_side: i64,
    /// Registers of a thread that hold its part of a product of matrices.
    pub fragment_registers: i64,
    /// Points of a sum whose factors are in shared memory at a time.
    pub depth: i64,
    /// Threads of a warp.
    pub warp: i64,
    /// Blocks that keep the machine busy where each has a tile of a product of matrices.
    pub busy_blocks: i64,
    /// Whether warps multiply matrices, and memory is copied asynchronously.
    pub multiplies_matrices: bool,
    /// Whether four warps together multiply matrices that lie in shared memory.
    pub multiplies_in_groups: bool,
    /// Whether products of matrices of f32 may round their factors to TF32, which warps multiply, and so change results.
    pub rounds_to_tf32: bool,
}

impl Default for GpuMachine {
    /// Any GPU since Ampere: the smallest of them have 99 KB of shared memory for a block (CUDA programming guide, compute
    /// capabilities 8.6, 8.9 and 12.0), of which the system takes one.
    fn default() -> Self {
        Self {
            threads: 256,
            busy_threads: 1 << 15,
            shared_bytes: 96 << 10,
            group_shared_bytes: 0,
            local_bytes: 64 << 10,
            register_side: 4,
            fragment_registers: 128,
            depth: 16,
            warp: 32,
            busy_blocks: 108,
            multiplies_matrices: true,
            multiplies_in_groups: false,
            rounds_to_tf32: false,
        }
    }
}

impl GpuMachine {
    /// A GPU of a compute capability (major·10 + minor), or of a later one. The warps of those before Ampere multiply no matrices of
    /// the shapes that there are schedules for, and the smaller ones have 40 processors (datasheet of the T4; not measured).
    #[must_use]
    pub fn for_capability(capability: u32) -> Self {
        if capability < 80 {
            Self { multiplies_matrices: false, busy_blocks: 40, shared_bytes: 48 << 10, ..Self::default() }
        } else {
            Self::default()
        }
    }

    /// A GPU as [`GpuMachine::for_capability`] has it, whose warps multiply in groups or not.
    #[must_use]
    pub fn for_target(capability: u32, in_groups: bool) -> Self {
        let machine = Self::for_capability(capability);
        if in_groups { machine.with_groups() } else { machine }
    }

    /// The same with the instructions of Hopper alone (`sm_90a`), whose processors have more shared memory (CUDA programming guide,
    /// compute capability 9.0).
    #[must_use]
    pub fn with_groups(self) -> Self {
        Self { multiplies_in_groups: true, group_shared_bytes: 226 << 10, busy_blocks: 132, ..self }
    }

    /// The same where threads have room for half as many points of results; `None` if that is one already.
    #[must_use]
    pub fn with_fewer_registers(self) -> Option<Self> {
        let Self { register_side, fragment_registers, .. } = self;
        let (register_side, fragment_registers) = ((register_side / 2).max(1), (fragment_registers / 2).max(8));
        let fewer = Self { register_side, fragment_registers, ..self };
        (fewer != self).then_some(fewer)
    }
}
