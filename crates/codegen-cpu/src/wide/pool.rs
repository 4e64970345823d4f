//! The constants that stand behind the code.

use std::collections::HashMap;

/// Deduplicated constants; entries are aligned to their own size.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    bytes: Vec<u8>,
    known: HashMap<Vec<u8>, u32>,
}

impl Pool {
    /// The offset of these bytes, whose number is a power of two.
    pub(super) fn add(&mut self, entry: &[u8]) -> u32 {
        if let Some(&offset) = self.known.get(entry) {
            return offset;
        }
        let start = self.bytes.len().next_multiple_of(entry.len());
        self.bytes.resize(start, 0);
        self.bytes.extend_from_slice(entry);
        let offset = u32::try_from(start).expect("constants are few");
        self.known.insert(entry.to_vec(), offset);
        offset
    }

    /// All constants.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
