//! Memory with an idea of which bytes have been written, and by whom.

use crate::shadow::{Conflict, History, Toucher};

/// Buffers lie so far apart that no offset leads from one to another.
const BUFFER_SPAN_BITS: u32 = 40;
/// What the ABI promises of buffers: 16 bytes of alignment and not one more.
const BUFFER_START: u64 = 16;

/// A buffer in global memory.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Its contents.
    pub bytes: Vec<u8>,
    /// Which of them may be read: given, or written by the kernel.
    pub initialised: Vec<bool>,
    /// Whether the kernel may write it.
    pub writable: bool,
}

impl Buffer {
    /// What a kernel may only read.
    #[must_use]
    pub fn input(bytes: Vec<u8>) -> Self {
        Self { initialised: vec![true; bytes.len()], bytes, writable: false }
    }

    /// What a kernel must write before anybody may read it.
    #[must_use]
    pub fn output(len_bytes: usize) -> Self {
        Self { bytes: vec![0xff; len_bytes], initialised: vec![false; len_bytes], writable: true }
    }

    /// What a kernel may read, and replace.
    #[must_use]
    pub fn replaceable(bytes: Vec<u8>) -> Self {
        Self { writable: true, ..Self::input(bytes) }
    }
}

/// What a kernel is given for a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The address of a buffer, by its position.
    Buffer(usize),
    /// A number, or its bits.
    Value(u64),
}

/// The address of a buffer, by its position.
#[must_use]
pub fn buffer_address(buffer: usize) -> u64 {
    ((buffer as u64 + 1) << BUFFER_SPAN_BITS) + BUFFER_START
}

/// The buffer that an address points into, of so many, and where; the place may lie outside of it.
#[must_use]
pub fn buffer_at(address: u64, buffers: usize) -> Option<(usize, i64)> {
    // Half of the span before a buffer belongs to it, so that an address below it is told as such.
    let number = address.checked_add(1 << (BUFFER_SPAN_BITS - 1))? >> BUFFER_SPAN_BITS;
    let buffer = usize::try_from(number.checked_sub(1)?).ok().filter(|&n| n < buffers)?;
    Some((buffer, address.wrapping_sub(buffer_address(buffer)) as i64))
}

/// Bytes of shared or global memory, and what happened to them.
#[derive(Clone, Debug)]
pub(crate) struct Tracked {
    pub(crate) bytes: Vec<u8>,
    pub(crate) initialised: Vec<bool>,
    history: Vec<History>,
    /// How many asynchronous copies to each byte are under way.
    pending: Vec<u16>,
    /// Which bytes are there for what reads memory asynchronously.
    shown: Vec<bool>,
}

/// Why bytes cannot be read or written now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Uninitialised,
    Pending,
    /// Read as a constant, and written before.
    Written,
    /// Written, and read as a constant before.
    Constant,
    Race(Conflict),
}

impl Tracked {
    pub(crate) fn new(bytes: Vec<u8>, initialised: Vec<bool>) -> Self {
        let len = bytes.len();
        Self {
            bytes,
            initialised,
            history: vec![History::default(); len],
            pending: vec![0; len],
            shown: vec![false; len],
        }
    }

    /// Forgets everything: the memory of another block.
    pub(crate) fn clear(&mut self) {
        self.initialised.fill(false);
        self.history.fill(History::default());
        self.pending.fill(0);
        self.shown.fill(false);
    }

    /// Reads up to 8 bytes. `constant`: nobody may have written them in this launch.
    pub(crate) fn read(&mut self, at: usize, len: usize, who: Toucher, constant: bool) -> Result<u64, Refusal> {
        let mut value = 0;
        for n in at..at + len {
            if self.pending[n] > 0 {
                return Err(Refusal::Pending);
            }
            if constant {
                if self.history[n].is_written() {
                    return Err(Refusal::Written);
                }
                self.history[n].note_constant();
            }
            if let Some(conflict) = self.history[n].read(who) {
                return Err(Refusal::Race(conflict));
            }
            if !self.initialised[n] {
                return Err(Refusal::Uninitialised);
            }
            value |= u64::from(self.bytes[n]) << (8 * (n - at));
        }
        Ok(value)
    }

    /// Writes up to 8 bytes.
    pub(crate) fn write(&mut self, at: usize, len: usize, value: u64, who: Toucher) -> Result<(), Refusal> {
        for n in at..at + len {
            if self.pending[n] > 0 {
                return Err(Refusal::Pending);
            }
            if self.history[n].is_read_as_constant() {
                return Err(Refusal::Constant);
            }
            if let Some(conflict) = self.history[n].write(who) {
                return Err(Refusal::Race(conflict));
            }
            self.initialised[n] = true;
            self.shown[n] = false;
            self.bytes[n] = (value >> (8 * (n - at))) as u8;
        }
        Ok(())
    }

    /// What was written to these bytes is there for what reads memory asynchronously.
    pub(crate) fn show(&mut self, at: usize, len: usize) {
        self.shown[at..at + len].fill(true);
    }

    /// Whether it is.
    pub(crate) fn is_shown(&self, at: usize, len: usize) -> bool {
        self.shown[at..at + len].iter().all(|&shown| shown)
    }

    /// An asynchronous copy to these bytes begins: from now on until it ends they may change.
    pub(crate) fn expect(&mut self, at: usize, len: usize, who: Toucher) -> Result<(), Refusal> {
        for n in at..at + len {
            if let Some(conflict) = self.history[n].write(who) {
                return Err(Refusal::Race(conflict));
            }
            self.pending[n] += 1;
            self.initialised[n] = false;
        }
        Ok(())
    }

    /// An asynchronous copy ends.
    pub(crate) fn land(&mut self, at: usize, data: &[u8], who: Toucher) -> Result<(), Refusal> {
        for (n, byte) in (at..).zip(data) {
            self.pending[n] -= 1;
            if let Some(conflict) = self.history[n].write(who) {
                return Err(Refusal::Race(conflict));
            }
            self.bytes[n] = *byte;
            self.shown[n] = false;
            self.initialised[n] = self.pending[n] == 0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_back_to_their_buffers() {
        assert_eq!(buffer_at(buffer_address(2) + 5, 3), Some((2, 5)));
        assert_eq!(buffer_at(buffer_address(0) - 20, 3), Some((0, -20)));
        assert_eq!(buffer_at(buffer_address(3), 3), None);
        assert_eq!(buffer_at(0x400, 3), None);
        assert_eq!(buffer_at(u64::MAX, 3), None);
    }
}
