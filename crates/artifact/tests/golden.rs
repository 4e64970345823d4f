//! One small artifact per released format, which every later version must read. `INFC_BLESS=1` writes the newest anew;
//! the older ones never change.

mod support;

use infc_artifact::Artifact;
use std::path::PathBuf;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/format-1.0.infa")
}

#[test]
fn format_1_0_is_read() {
    // The newest schemas, and older manifests.
    is_the_sample(&std::fs::read(path()).unwrap());
    for schema in 2..=6 {
        is_the_sample(&std::fs::read(path().with_file_name(format!("format-1.0-manifest-{schema}.infa"))).unwrap());
    }
}

fn is_the_sample(bytes: &[u8]) {
    let artifact = Artifact::read(bytes).unwrap();
    artifact.verify_all().unwrap();
    assert_eq!(artifact.container().format(), (1, 0));
    assert_eq!(artifact.manifest().entries, [support::main_entry(), support::pair_entry()]);
    for variant in 0..2 {
        let body = artifact.variant(variant).unwrap();
        assert_eq!(body.programs, [support::main_program(), support::pair_program()]);
        assert_eq!(artifact.code(variant).unwrap().0, support::ADD);
    }
    let weight = &bytes[artifact.weight_range(0).unwrap()];
    assert_eq!(weight, [0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64, 0, 0, 128, 64]);
}

/// Whoever changes the bytes that are written must also change the format's version, or the schema of a section.
#[test]
fn format_1_0_is_written() {
    let bytes = support::sample().to_vec().unwrap();
    if std::env::var_os("INFC_BLESS").is_some() {
        std::fs::write(path(), &bytes).unwrap();
    }
    assert!(bytes == std::fs::read(path()).unwrap(), "the bytes of format 1.0 have changed");
}
