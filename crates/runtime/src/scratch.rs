//! Scratch memory of a session: what kernels keep to themselves while they run.

use crate::arena::{Arena, Span};
use crate::error::RuntimeError;
use crate::guarded::{Flush, GuardedBytes};

/// Scratch memory between inaccessible pages, for finding out whether code stays within it and reads nothing that it has not
/// written there. It is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardedScratch {
    /// At which end touching the byte beyond ends the process. Only the memories of the first and last thread have a neighbour
    /// that is inaccessible.
    pub flush: Flush,
    /// What every byte is before a launch.
    pub poison: u8,
}

/// The memory for all threads.
#[derive(Debug)]
pub(crate) enum Scratch {
    Plain(Arena),
    Guarded(GuardedScratch, Option<GuardedBytes>),
}

impl Scratch {
    /// Without memory.
    pub(crate) fn empty(guarded: Option<GuardedScratch>) -> Self {
        guarded.map_or_else(|| Self::Plain(Arena::empty()), |how| Self::Guarded(how, None))
    }

    /// Makes sure there is memory for so many threads, whose memories lie `stride_bytes` apart; of them `used_bytes` are used.
    /// The contents are lost.
    pub(crate) fn reserve(
        &mut self,
        threads: usize,
        stride_bytes: usize,
        used_bytes: usize,
    ) -> Result<(), RuntimeError> {
        let out_of_memory = |len_bytes| RuntimeError::OutOfMemory { len_bytes };
        let all = stride_bytes.checked_mul(threads).ok_or(out_of_memory(usize::MAX))?;
        match self {
            Self::Plain(arena) => arena.reserve(all),
            Self::Guarded(how, memory) => {
                // Up to the last byte that is used, so that what lies behind it is inaccessible.
                let len_bytes = all.saturating_sub(stride_bytes.saturating_sub(used_bytes));
                if memory.as_ref().is_none_or(|memory| memory.len() != len_bytes) {
                    *memory = None;
                    *memory = Some(GuardedBytes::zeroed(len_bytes, how.flush).map_err(|_| out_of_memory(len_bytes))?);
                }
                Ok(())
            }
        }
    }

    /// The memory for a launch.
    pub(crate) fn span(&mut self) -> Span {
        match self {
            Self::Plain(arena) => arena.span(),
            Self::Guarded(_, None) => Span::EMPTY,
            Self::Guarded(how, Some(memory)) => {
                memory.fill(how.poison);
                Span::writable(memory)
            }
        }
    }
}
