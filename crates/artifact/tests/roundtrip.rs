//! What is written is what is read.

mod support;

use infc_artifact::container::{Container, ContainerWriter, PAGE, Piece, REQUIRED, SectionKind};
use infc_artifact::{Artifact, ArtifactBuilder, Hash};
use std::io::{self, Write};

#[test]
fn everything_comes_back() {
    let encoded = support::sample();
    let bytes = encoded.to_vec().unwrap();
    assert_eq!(bytes.len() as u64, encoded.len_bytes());
    let artifact = Artifact::read(&bytes).unwrap();
    artifact.verify_all().unwrap();
    artifact.verify_weights().unwrap();
    assert_eq!(artifact.manifest(), encoded.manifest());
    let targets: Vec<&str> = artifact.manifest().variants.iter().map(|v| v.target.as_str()).collect();
    assert_eq!(targets, ["x86-64-v3", "x86-64"]);
    let body = artifact.variant(1).unwrap();
    assert_eq!((body.kernels[0].code_offset, body.kernels[0].code_len), (0, 40));
    assert!(artifact.variant(2).is_err() && artifact.code(2).is_err() && artifact.weight_range(1).is_none());
}

#[test]
fn sections_lie_on_pages_and_weights_on_cache_lines() {
    let mut artifact = ArtifactBuilder::new(support::provenance());
    let weights: Vec<Vec<u8>> = [100, 1, 0, 64, 5000, 1].map(|len| vec![7u8; len]).to_vec();
    for (index, bytes) in weights.iter().enumerate() {
        artifact.weight(support::weight(&format!("w{index}")), bytes.as_slice());
    }
    artifact.entry(support::main_entry());
    artifact.entry(support::pair_entry());
    artifact.variant(support::variant("x86-64"));
    let bytes = artifact.finish().unwrap().to_vec().unwrap();
    let artifact = Artifact::read(&bytes).unwrap();
    for section in artifact.container().sections() {
        assert_eq!(section.range.start % PAGE as usize, 0);
        assert_eq!(section.flags, REQUIRED);
    }
    for (index, expected) in weights.iter().enumerate() {
        let range = artifact.weight_range(index).unwrap();
        assert_eq!(range.start % 64, 0);
        assert_eq!(&bytes[range], expected.as_slice());
        assert_eq!(artifact.manifest().weights[index].hash, Hash::of(expected));
    }
    // Equal bytes are stored once.
    assert_eq!(artifact.weight_range(1), artifact.weight_range(5));
}

#[test]
fn the_same_parts_give_the_same_bytes() {
    assert!(support::sample().to_vec().unwrap() == support::sample().to_vec().unwrap());
}

/// Takes `room` bytes, a few at a time, then fails.
struct Tight {
    taken: Vec<u8>,
    room: usize,
}

impl Write for Tight {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(7).min(self.room - self.taken.len());
        if len == 0 && !bytes.is_empty() {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.taken.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn streaming_gives_the_same_bytes_and_reports_a_full_disk() {
    let encoded = support::sample();
    let bytes = encoded.to_vec().unwrap();
    let mut out = Tight { taken: vec![], room: bytes.len() };
    encoded.write_to(&mut out).unwrap();
    assert!(out.taken == bytes);
    for room in [0, 10, 100, 5000, bytes.len() - 1] {
        let error = encoded.write_to(&mut Tight { taken: vec![], room }).unwrap_err();
        assert_eq!(error.code(), "artifact::cannot-write");
    }
}

#[test]
fn a_container_of_nothing_and_of_empty_sections() {
    let write = |writer: &ContainerWriter<'_>| {
        let mut bytes = Vec::new();
        writer.write_to(&mut bytes).unwrap();
        bytes
    };
    let mut writer = ContainerWriter::default();
    let bytes = write(&writer);
    assert_eq!(Container::read(&bytes).unwrap().sections(), []);
    assert_eq!(Artifact::read(&bytes).unwrap_err().code(), "artifact::malformed");

    writer.section(SectionKind::WEIGHTS, 0, 3, vec![]);
    writer.section(SectionKind::CODE, REQUIRED, 0, vec![Piece::new(vec![]), Piece { padding: 5, ..Piece::new(&[9]) }]);
    let bytes = write(&writer);
    let container = Container::read(&bytes).unwrap();
    assert_eq!(container.verified(0).unwrap(), []);
    assert_eq!(container.verified(1).unwrap(), [0, 0, 0, 0, 0, 9]);
    assert_eq!(container.sections()[0].schema, 3);
}

#[test]
fn a_thin_artifact_is_one_variant_with_its_weights() {
    let mut artifact = ArtifactBuilder::new(support::provenance());
    artifact.weight(support::weight("unused"), vec![1u8; 10_000]);
    artifact.weight(support::weight("used"), vec![2u8; 16]);
    artifact.entry(support::main_entry());
    artifact.entry(support::pair_entry());
    for target in ["x86-64-v3", "x86-64"] {
        let mut program = support::main_program();
        program.slots[1] = infc_artifact::Slot::Weight(1);
        let mut variant = infc_artifact::VariantBuilder::new(target, &["fma"]);
        variant.kernel(infc_artifact::KernelInfo::default(), &support::ADD);
        variant.program(program);
        variant.program(support::pair_program());
        artifact.variant(variant);
    }
    let bytes = artifact.finish().unwrap().to_vec().unwrap();
    let whole = Artifact::read(&bytes).unwrap();
    let thin = whole.thin("x86-64").unwrap().to_vec().unwrap();
    assert!(thin.len() < bytes.len() - 10_000);
    let thin = Artifact::read(&thin).unwrap();
    thin.verify_all().unwrap();
    assert_eq!(thin.manifest().entries, whole.manifest().entries);
    assert_eq!(thin.manifest().variants.len(), 1);
    assert_eq!(thin.manifest().variants[0].required_features, ["fma"]);
    let names: Vec<&str> = thin.manifest().weights.iter().map(|w| w.name.as_str()).collect();
    assert_eq!(names, ["used"]);
    assert_eq!(thin.weight_bytes(0).unwrap(), [2; 16]);
    let body = thin.variant(0).unwrap();
    assert_eq!(body.programs[0], support::main_program());
    assert_eq!(body.kernels, whole.variant(1).unwrap().kernels);
    assert_eq!(thin.code(0).unwrap().0, whole.code(1).unwrap().0);
    assert_eq!(whole.thin("aarch64").unwrap_err().code(), "artifact::no-such-target");
}

#[test]
fn what_is_read_here_and_there_is_written_in_small_pieces() {
    /// The lengths of what is written at once.
    struct Calls(Vec<u8>, Vec<usize>);
    impl Write for Calls {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.extend_from_slice(bytes);
            self.1.push(bytes.len());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let bytes: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8).collect();
    let write = |piece: Piece<'static>| {
        let mut writer = ContainerWriter::default();
        writer.section(SectionKind::WEIGHTS, 0, 0, vec![piece]);
        let mut calls = Calls(Vec::new(), Vec::new());
        writer.write_to(&mut calls).unwrap();
        calls
    };
    let whole = write(Piece::new(bytes.clone()));
    let scattered = write(Piece { scattered: true, ..Piece::new(bytes) });
    assert_eq!(whole.0, scattered.0);
    assert!(whole.1.contains(&200_000) && scattered.1.iter().all(|&len| len <= 1 << 16));
    assert_eq!(Container::read(&scattered.0).unwrap().verified(0).unwrap().len(), 200_000);
    assert_eq!(write(Piece { scattered: true, ..Piece::new(vec![]) }).0, write(Piece::new(vec![])).0);
}
