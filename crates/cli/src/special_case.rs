//! Special cases of a model's entry, as commands tell of them.

use infc_artifact::{Entry, Manifest};
use infc_runtime::{Model, Session};

/// The values that what a session ran last is made for, as `N=1, S=128`; `None` if it takes all.
pub(crate) fn of_session(model: &Model, session: &Session) -> Option<String> {
    model.manifest().special_case_text(session.entry_in_use())
}

/// ` (N=1)`, behind the name of a variant, or nothing.
pub(crate) fn suffix(case: Option<&str>) -> String {
    case.map_or_else(String::new, |case| format!(" ({case})"))
}

/// The values of the symbols of an entry, of which `values` has those of another one: those of the same name.
pub(crate) fn symbols_by_name(entry: &Entry, other: &Entry, values: &[i64]) -> Vec<i64> {
    let value = |name: &str| {
        let index = other.symbols.iter().position(|symbol| symbol.name == name)?;
        values.get(index).copied()
    };
    entry.symbols.iter().map(|symbol| value(&symbol.name).unwrap_or_else(|| symbol.min.max(1))).collect()
}

/// The entry that runs when the first one is asked for and its symbols have these values, with the values that its own
/// symbols have then.
pub(crate) fn chosen(manifest: &Manifest, symbols: &[i64]) -> (usize, Vec<i64>) {
    let fitting = manifest.special_cases(0).find(|(_, case)| case.fits(symbols)).map(|(index, _)| index);
    match (fitting, manifest.entries.as_slice()) {
        (Some(index), [first, ..]) => (index, symbols_by_name(&manifest.entries[index], first, symbols)),
        _ => (0, symbols.to_vec()),
    }
}
