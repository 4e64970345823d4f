//! What the command itself finds wrong; errors of the libraries keep their own codes.

use infc_tensor::DType;
use std::io;
use std::path::PathBuf;

/// An error of the command line's own making.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error("{message}")]
    Usage { message: String },

    #[error("cannot read `{}`", path.display())]
    CannotRead { path: PathBuf, source: io::Error },

    #[error("cannot write `{}`", path.display())]
    CannotWrite { path: PathBuf, source: io::Error },

    #[error("cannot write to standard output")]
    Stdout { source: io::Error },

    #[error("`{code}` is not an error code of infc")]
    UnknownCode { code: String, similar: Vec<&'static str> },

    #[error("no data for {}", names.join(", "))]
    MissingData { names: Vec<String> },

    #[error("`{spec}`: {reason}")]
    BadSpec { spec: String, reason: String },

    #[error("`{}` is no `.npy` array that infc can read: {reason}", place)]
    BadArray { place: String, reason: String },

    #[error("`{}` is no `.npz` archive that infc can read: {reason}", path.display())]
    BadArchive { path: PathBuf, reason: String },

    #[error("`{}` has no array for {}, it has {}", path.display(), names.join(", "), if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
    MissingArray { path: PathBuf, names: Vec<String>, known: Vec<String> },

    #[error("`{}` is no ONNX test data: {reason}", path.display())]
    BadDataFolder { path: PathBuf, reason: String },

    #[error("`{}` cannot become {expected} for input `{input}`: {reason}", path.display())]
    BadImage { path: PathBuf, input: String, expected: String, reason: String },

    #[error("`{place}` holds elements of type {found}, which cannot be used as {expected}")]
    WrongElements { place: String, expected: DType, found: DType },

    #[error("the model and the artifact do not belong together: {what}: expected {expected}, found {found}")]
    OtherModel { what: String, expected: String, found: String },

    #[error("{node} cannot be evaluated: {reason}")]
    CannotEvaluate { node: String, reason: String },

    #[error("`{}` has no expected outputs to compare with", place)]
    NothingExpected { place: String },

    #[error("`{}` has no timings to compare with: {reason}", path.display())]
    BadBaseline { path: PathBuf, reason: String },

    #[error("the timings of `{}` were taken under other conditions: {what}: then {then}, now {now}", path.display())]
    OtherConditions { path: PathBuf, what: &'static str, then: String, now: String },

    #[error(
        "the model takes {bytes} bytes without the constants that can lie outside of it, and a file of ONNX at most 2 GiB"
    )]
    TooLargeForOnnx { bytes: usize },

    #[error("{what} has more elements than fit in memory")]
    TooLarge { what: String },
}

impl CliError {
    /// A mistake in the arguments.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into() }
    }

    /// The stable code.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Usage { .. } => "cli::usage",
            Self::CannotRead { .. } => "cli::cannot-read",
            Self::CannotWrite { .. } | Self::Stdout { .. } => "cli::cannot-write",
            Self::UnknownCode { .. } => "cli::unknown-code",
            Self::MissingData { .. } => "input::missing",
            Self::BadSpec { .. } => "input::bad-spec",
            Self::BadArray { .. } => "input::bad-array",
            Self::BadArchive { .. } => "input::bad-archive",
            Self::MissingArray { .. } => "input::missing-array",
            Self::BadDataFolder { .. } => "input::bad-data-folder",
            Self::BadImage { .. } => "input::bad-image",
            Self::WrongElements { .. } => "input::wrong-elements",
            Self::OtherModel { .. } => "compare::other-model",
            Self::CannotEvaluate { .. } => "compare::cannot-evaluate",
            Self::NothingExpected { .. } => "compare::nothing-expected",
            Self::BadBaseline { .. } => "bench::bad-baseline",
            Self::OtherConditions { .. } => "bench::other-conditions",
            Self::TooLargeForOnnx { .. } => "onnx::too-large",
            Self::TooLarge { .. } => "input::too-large",
        }
    }

    /// What to try next.
    pub(crate) fn help(&self) -> Option<String> {
        Some(match self {
            Self::CannotRead { .. } => "check the path and that the file may be read".to_owned(),
            Self::CannotWrite { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "the disk is full; nothing was left behind".to_owned()
            }
            Self::CannotWrite { .. } => "check the path and that the folder may be written to".to_owned(),
            Self::UnknownCode { similar, .. } if !similar.is_empty() => format!("similar: {}", similar.join(", ")),
            Self::UnknownCode { .. } => "`infc explain` lists all codes".to_owned(),
            Self::MissingData { .. } => {
                "give --data DIR, --inputs FILE.npz or --input NAME=SPEC, or --random for made-up data".to_owned()
            }
            Self::BadSpec { .. } => {
                "--input NAME=SPEC, where SPEC is a file (.npy, .pb, .png, .jpg), `zeros`, `random` or a number"
                    .to_owned()
            }
            Self::BadArray { .. } | Self::BadArchive { .. } => {
                "write it with `numpy.save` or `numpy.savez`, without objects".to_owned()
            }
            Self::MissingArray { .. } => "arrays are named after the model's inputs".to_owned(),
            Self::BadDataFolder { .. } => {
                "it must hold input_0.pb, input_1.pb, …, or folders test_data_set_*".to_owned()
            }
            Self::BadImage { .. } => "give --layout, or prepare the data as an .npy file".to_owned(),
            Self::WrongElements { .. } => "convert the array with `astype`".to_owned(),
            Self::OtherModel { .. } => "compile this model again and compare with that artifact".to_owned(),
            Self::CannotEvaluate { .. } => "compare with stored outputs instead: --data or --expected".to_owned(),
            Self::NothingExpected { .. } => {
                "give --data with output_*.pb, --expected OUT.npz, or --model MODEL.onnx".to_owned()
            }
            Self::BadBaseline { .. } => "give what `infc bench ART --format json` printed".to_owned(),
            Self::OtherConditions { .. } => {
                "measure the old artifact here as well: --against OLD.infa, or store its timings anew".to_owned()
            }
            Self::TooLargeForOnnx { .. } => {
                "constants of graphs within nodes cannot lie outside; make them initializers of the main graph"
                    .to_owned()
            }
            Self::TooLarge { .. } => "give smaller dims with --dim".to_owned(),
            Self::Usage { .. } | Self::Stdout { .. } => return None,
        })
    }

    /// Whether the user should call differently rather than mend a file.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Usage { .. }
                | Self::UnknownCode { .. }
                | Self::MissingData { .. }
                | Self::BadSpec { .. }
                | Self::NothingExpected { .. }
        )
    }
}
