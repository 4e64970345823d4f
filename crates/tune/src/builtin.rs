//! Records that ship with infc, by the kind of machine that they were measured on.
//!
//! A kind is what the processor says of its design: vendor, family and model (`intel-6-207`). Schedules are quicker or
//! slower by what a core does, and by the first and the second cache, which follow from the design. What differs between
//! machines of one kind is no part of it: names (hypervisors give one to many designs), the share of the third cache, the
//! number of cores, and the stepping (where steppings have other instructions, so has the target that each record names).
//!
//! Records are those of single-threaded runs beside the default choice for the target's fixed machine.

use crate::RecordFile;
use std::fmt;

/// The files, by kind.
const FILES: [(&str, &str); 2] = [
    ("amd-25-17", include_str!("../builtin/amd-25-17.records")),
    ("intel-6-207", include_str!("../builtin/intel-6-207.records")),
];

/// A design of processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineKind {
    /// As the processor says it: `GenuineIntel`.
    pub vendor: String,
    /// The extended one added.
    pub family: u32,
    /// The extended one in front.
    pub model: u32,
}

impl MachineKind {
    /// Of what an x86 processor says of itself: the vendor's twelve characters, and the signature that leaf 1 of `cpuid`
    /// leaves in `eax` (Intel's manual, volume 2A, figure 3-6; AMD's adds the extended parts by the same rule for
    /// families from 15 on).
    #[must_use]
    pub fn of_signature(vendor: &str, signature: u32) -> Self {
        let bits = |from: u32, count: u32| (signature >> from) & ((1 << count) - 1);
        let (family, model) = (bits(8, 4), bits(4, 4));
        let is_extended = family == 6 || family == 15;
        Self {
            vendor: vendor.to_owned(),
            family: if family == 15 { family + bits(20, 8) } else { family },
            model: if is_extended { model | bits(16, 4) << 4 } else { model },
        }
    }
}

impl fmt::Display for MachineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vendor = match self.vendor.as_str() {
            "GenuineIntel" => "intel",
            "AuthenticAMD" => "amd",
            other => other,
        };
        write!(f, "{vendor}-{}-{}", self.family, self.model)
    }
}

/// The kinds of machines for which records ship, as [`MachineKind`] prints them.
pub fn builtin_kinds() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(kind, _)| *kind)
}

/// The records that ship for a kind of machines; `None` if there are none. What of the file cannot be used is among
/// [`RecordFile::bad`].
#[must_use]
pub fn builtin_records(kind: &str) -> Option<RecordFile> {
    FILES.iter().find(|(of, _)| *of == kind).map(|(_, text)| RecordFile::parse(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Standing;
    use std::collections::BTreeSet;

    #[test]
    fn kinds_follow_from_signatures() {
        for (vendor, signature, kind) in [
            // Emerald Rapids, Skylake-SP, Zen 4, and processors from before there were extended numbers.
            ("GenuineIntel", 0x000c_06f2, "intel-6-207"),
            ("GenuineIntel", 0x0005_0654, "intel-6-85"),
            ("AuthenticAMD", 0x00a1_0f11, "amd-25-17"),
            ("GenuineIntel", 0x0000_0543, "intel-5-4"),
            ("GenuineIntel", 0xffff_ffff, "intel-270-255"),
            ("Abacus", 0, "Abacus-0-0"),
        ] {
            assert_eq!(MachineKind::of_signature(vendor, signature).to_string(), kind);
        }
    }

    /// Files that ship are of the present version, without a line that would be left out, and small.
    #[test]
    fn all_that_ships_is_read() {
        for (kind, text) in FILES {
            let file = builtin_records(kind).expect("a file");
            assert_eq!(file.bad, [], "{kind}: measure anew as docs/tuning.md says");
            assert!(!file.records.is_empty() && text.len() < 200 << 10, "{kind}: {} bytes", text.len());
            let places: BTreeSet<_> = file.records.iter().map(|r| (&r.kernel, &r.target, r.strict)).collect();
            assert_eq!(places.len(), file.records.len(), "{kind}: one record for a kernel");
            assert!(file.records.iter().all(|r| r.threads == 1 && !r.machine.is_empty()), "{kind}");
            assert_eq!(file.to_records(None).len(), file.records.len(), "{kind}");
        }
        assert_eq!(builtin_records("intel-6-0"), None);
    }

    /// No compilation refuses what ships. Code may change: whether records are still quicker then,
    /// `infc records verify --measure` finds out.
    #[test]
    fn all_that_ships_is_legal() {
        for (kind, _) in FILES {
            for record in builtin_records(kind).expect("a file").records {
                let standing = record.standing(None);
                assert!(!matches!(standing, Standing::Illegal(_)), "{kind}: {}: {standing:?}", record.name);
            }
        }
    }
}
