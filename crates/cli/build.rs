//! Makes the table of error pages from `docs/errors/<area>/<code>.md`, for `infc explain`, and says how the command is linked.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    if reads_packed_relocations() {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../../docs/errors");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut pages: Vec<(String, PathBuf)> = Vec::new();
    for area in fs::read_dir(&folder)? {
        let area = area?.path();
        if !area.is_dir() {
            continue;
        }
        println!("cargo::rerun-if-changed={}", area.display());
        for page in fs::read_dir(&area)? {
            let page = page?.path();
            let stem = |path: &Path| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            if let (Some(area), Some(name)) = (stem(&area), stem(&page)) {
                pages.push((format!("{area}::{name}"), page.canonicalize()?));
            }
        }
    }
    pages.sort();
    let mut source = String::from("static PAGES: &[Page] = &[\n");
    for (code, path) in &pages {
        writeln!(source, "    Page {{ code: {code:?}, text: include_str!({path:?}) }},").expect("a string takes all");
    }
    source.push_str("];\n");
    fs::write(Path::new(&env::var("OUT_DIR").expect("set by cargo")).join("pages.rs"), source)
}

/// Whether the command may have its 43,000 relative relocations in 13 KB instead of 1 MB, which every process reads and keeps:
/// a sixth of the memory of small models. Loaders know that form since glibc 2.36; what is shipped (`dist`) runs with older ones, and
/// so does what is built with `INFC_PORTABLE` in the environment. Of linkers that somebody has chosen nothing is known.
fn reads_packed_relocations() -> bool {
    println!("cargo::rerun-if-env-changed=INFC_PORTABLE");
    if env::var_os("INFC_PORTABLE").is_some() || env::var_os("RUSTC_LINKER").is_some() {
        return false;
    }
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_native = env::var_os("HOST") == env::var_os("TARGET");
    let is_shipped = env::var_os("OUT_DIR").is_some_and(|folder| Path::new(&folder).iter().any(|part| part == "dist"));
    if !is_native || is_shipped || !is("CARGO_CFG_TARGET_OS", "linux") || !is("CARGO_CFG_TARGET_ENV", "gnu") {
        return false;
    }
    // "glibc 2.36"
    let found = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let text = found.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let version = text.trim().strip_prefix("glibc ").and_then(|version| version.split_once('.'));
    let number = |text: &str| text.parse::<u32>().ok();
    version.and_then(|(major, minor)| Some((number(major)?, number(minor)?))).is_some_and(|version| version >= (2, 36))
}
