//! Makes the table of error pages from `docs/errors/<area>/<code>.md`, for `infc explain`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
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
