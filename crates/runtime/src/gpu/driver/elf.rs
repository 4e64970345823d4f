//! Whether machine code is all there. A driver gets no length with it: it believes what the header says.

/// Bytes of a header of 64-bit ELF.
const HEADER_LEN: usize = 64;
/// What it begins with: the name, 64 bits, little-endian.
const MAGIC: [u8; 6] = [0x7f, b'E', b'L', b'F', 2, 1];
/// Where it says where the tables of segments and of sections are: offset (8 bytes), length of an entry and number of entries
/// (2 bytes each).
const TABLES: [(usize, usize, usize); 2] = [(32, 54, 56), (40, 58, 60)];
/// Bytes of an entry of the table of sections, and where its kind, the offset and the length of the section are.
const SECTION_LEN: usize = 64;
const SECTION: (usize, usize, usize) = (4, 24, 32);
/// The kind of section that has no bytes in the file.
const NO_BYTES: u32 = 8;

/// Whether tables and sections of an ELF file lie within it.
///
/// Source: System V ABI, chapter 4, "ELF Header" and "Sections".
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    if bytes.len() < HEADER_LEN || !bytes.starts_with(&MAGIC) {
        return false;
    }
    let is_within = |start: u64, len: u64| start.checked_add(len).is_some_and(|end| end <= bytes.len() as u64);
    let tables = TABLES.map(|(start, entry, count)| (u64_at(bytes, start), u16_at(bytes, entry), u16_at(bytes, count)));
    if !tables.iter().all(|&(start, entry, count)| is_within(start, u64::from(entry) * u64::from(count))) {
        return false;
    }
    let (start, entry, count) = tables[1];
    if count > 0 && usize::from(entry) != SECTION_LEN {
        return false;
    }
    let table = &bytes[start as usize..][..usize::from(entry) * usize::from(count)];
    table.chunks_exact(SECTION_LEN).all(|section| {
        let kind = section[SECTION.0..][..4].iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte));
        kind == NO_BYTES || is_within(u64_at(section, SECTION.1), u64_at(section, SECTION.2))
    })
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..][..8].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header, a section of 16 bytes, one without, and their table.
    fn image() -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN + 16 + 2 * SECTION_LEN];
        bytes[..6].copy_from_slice(&MAGIC);
        bytes[40..48].copy_from_slice(&80u64.to_le_bytes());
        bytes[58..62].copy_from_slice(&[64, 0, 2, 0]);
        bytes[80 + 4] = 1;
        bytes[80 + 24..80 + 40].copy_from_slice(&[64u64.to_le_bytes(), 16u64.to_le_bytes()].concat());
        bytes[144 + 4] = 8;
        bytes[144 + 24..144 + 40].copy_from_slice(&[64u64.to_le_bytes(), (1u64 << 40).to_le_bytes()].concat());
        bytes
    }

    #[test]
    fn what_is_cut_off_or_says_too_much() {
        let whole = image();
        assert!(is_whole(&whole));
        assert!((0..whole.len()).all(|len| !is_whole(&whole[..len])), "every part lacks something");
        // Offset and count of the tables, entries' length, offset and length of the first section.
        for at in [39, 47, 55, 61, 58, 80 + 31, 80 + 39] {
            let mut changed = image();
            changed[at] = 0xff;
            if at == 55 {
                changed[57] = 0xff;
            }
            assert!(!is_whole(&changed), "{at}");
        }
        assert!(!is_whole(b".version 7.0"));
    }
}
