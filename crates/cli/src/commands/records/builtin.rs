//! Which of the records that ship with infc a compilation takes.

use super::tell_bad;
use crate::console::Console;
use crate::process;
use infc::Records;
use infc_tune::{builtin_kinds, builtin_records};
use std::path::Path;
use std::str::FromStr;

/// What `--builtin-records` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::commands) enum BuiltinRecords {
    /// Those for machines of this kind, for `native` alone: other targets give the same bytes on every machine.
    #[default]
    Auto,
    /// None.
    Off,
    /// Those for machines of a kind, on whatever machine, for each target that they are for.
    Of(&'static str),
}

impl FromStr for BuiltinRecords {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            _ => builtin_kinds().find(|kind| *kind == text).map(Self::Of).ok_or_else(|| {
                let kinds: Vec<&str> = builtin_kinds().collect();
                format!("expected auto, off or a kind of machines: {}", kinds.join(", "))
            }),
        }
    }
}

/// Built-in records, and what kind of machines they are for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::commands) struct Builtin {
    pub(in crate::commands) kind: Option<&'static str>,
    pub(in crate::commands) records: Records,
}

impl BuiltinRecords {
    /// The records; `native` is the target that is this machine alone, if that is compiled for.
    pub(in crate::commands) fn read(&self, native: Option<&str>, console: &Console) -> Builtin {
        let here = process::machine_kind().map(|kind| kind.to_string());
        self.read_on(here.as_deref(), native, console)
    }

    /// The same, on a machine of a kind.
    fn read_on(&self, here: Option<&str>, native: Option<&str>, console: &Console) -> Builtin {
        let kind = match (self, native) {
            (Self::Off, _) | (Self::Auto, None) => None,
            (Self::Auto, Some(_)) => builtin_kinds().find(|kind| Some(*kind) == here),
            (Self::Of(kind), _) => Some(*kind),
        };
        let Some((kind, mut file)) = kind.and_then(|kind| Some((kind, builtin_records(kind)?))) else {
            return Builtin::default();
        };
        tell_bad(&file, Path::new(kind), console);
        if *self == Self::Auto {
            file.records.retain(|record| Some(record.target.as_str()) == native);
        }
        Builtin { kind: Some(kind), records: file.to_records(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::{ColorChoice, Format};

    /// Built-in records are for `native` on machines of their kind, and elsewhere only if somebody says so.
    #[test]
    fn they_are_for_machines_of_their_kind() {
        let console = Console::new(Format::Text, ColorChoice::Never, true, false);
        for kind in builtin_kinds() {
            let target = builtin_records(kind).unwrap().records[0].target.clone();
            let read = |choice: &BuiltinRecords, here, native| choice.read_on(here, native, &console);
            let here = read(&BuiltinRecords::Auto, Some(kind), Some(&target));
            assert_eq!((here.kind, here.records.is_empty()), (Some(kind), false));
            for (here, native) in
                [(Some("abacus-1-1"), Some(target.as_str())), (None, Some(&target)), (Some(kind), None)]
            {
                assert_eq!(read(&BuiltinRecords::Auto, here, native), Builtin::default(), "{here:?} {native:?}");
            }
            // Of another target's records there are none.
            assert!(read(&BuiltinRecords::Auto, Some(kind), Some("x86-64-v2")).records.is_empty());
            assert_eq!(read(&BuiltinRecords::Off, Some(kind), Some(&target)), Builtin::default());
            let all = read(&BuiltinRecords::Of(kind), None, None);
            assert_eq!((all.kind, all.records.len()), (Some(kind), builtin_records(kind).unwrap().records.len()));
        }
    }

    #[test]
    fn choices() {
        assert_eq!(("auto".parse(), "off".parse()), (Ok(BuiltinRecords::Auto), Ok(BuiltinRecords::Off)));
        for kind in builtin_kinds() {
            assert_eq!(kind.parse(), Ok(BuiltinRecords::Of(kind)));
        }
        assert!("abacus-1-1".parse::<BuiltinRecords>().unwrap_err().contains("intel-6-207"));
    }
}
