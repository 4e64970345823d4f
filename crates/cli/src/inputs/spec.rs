//! `--input NAME=SPEC`.

use super::generate::Fill;
use super::image::{self, ImageOptions};
use super::{data_folder, fit};
use crate::error::CliError;
use crate::npy;
use infc_artifact::PortSpec;
use infc_tensor::Tensor;
use std::path::{Path, PathBuf};

/// One `--input`.
#[derive(Debug, PartialEq)]
pub(crate) struct InputSpec {
    /// The input meant.
    pub(super) name: String,
    source: Source,
}

#[derive(Debug, PartialEq)]
enum Source {
    Array(PathBuf),
    Proto(PathBuf),
    Image(PathBuf),
    Fill(Fill),
}

/// What an [`InputSpec`] gives.
pub(super) enum Value {
    Tensor(Tensor),
    /// The shape is to be found yet.
    Fill(Fill),
}

impl InputSpec {
    /// Splits at the last `=`: names may hold one, files seldom do.
    pub(super) fn parse(text: &str) -> Result<Self, CliError> {
        let bad = |reason: &str| CliError::BadSpec { spec: text.to_owned(), reason: reason.to_owned() };
        let (name, spec) = text.rsplit_once('=').ok_or_else(|| bad("there is no `=`"))?;
        if name.is_empty() {
            return Err(bad("the name of the input is missing"));
        }
        let path = Path::new(spec);
        let extension = path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
        let source = match (spec, extension.as_deref()) {
            ("zeros", _) => Source::Fill(Fill::Value(0.0)),
            ("random", _) => Source::Fill(Fill::Random),
            (_, Some("npy")) => Source::Array(path.to_owned()),
            (_, Some("pb")) => Source::Proto(path.to_owned()),
            (_, Some("png" | "jpg" | "jpeg")) => Source::Image(path.to_owned()),
            _ => match spec.parse::<f64>() {
                Ok(number) => Source::Fill(Fill::Value(number)),
                Err(_) => return Err(bad("it is no file of a known kind, no word and no number")),
            },
        };
        Ok(Self { name: name.to_owned(), source })
    }

    /// Reads the file, if it is one.
    pub(super) fn read(&self, port: &PortSpec, options: &ImageOptions) -> Result<Value, CliError> {
        let read =
            |path: &Path| std::fs::read(path).map_err(|source| CliError::CannotRead { path: path.to_owned(), source });
        Ok(match &self.source {
            Source::Fill(fill) => Value::Fill(*fill),
            Source::Array(path) => {
                let place = || path.display().to_string();
                let tensor = npy::read(&read(path)?)
                    .map_err(|error| CliError::BadArray { place: place(), reason: error.to_string() })?;
                Value::Tensor(fit(tensor, port.element_type(), place)?)
            }
            Source::Proto(path) => Value::Tensor(data_folder::read_value(port.element_type(), path)?),
            Source::Image(path) => Value::Tensor(image::read(&read(path)?, path, port, options)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs() {
        let source = |text: &str| InputSpec::parse(text).map(|spec| (spec.name, spec.source)).unwrap();
        assert_eq!(source("x=zeros"), ("x".into(), Source::Fill(Fill::Value(0.0))));
        assert_eq!(source("a=b=-1.5"), ("a=b".into(), Source::Fill(Fill::Value(-1.5))));
        assert_eq!(source("x=random"), ("x".into(), Source::Fill(Fill::Random)));
        assert_eq!(source("x=dir/cat.JPG"), ("x".into(), Source::Image("dir/cat.JPG".into())));
        assert_eq!(source("x=1.npy"), ("x".into(), Source::Array("1.npy".into())));
        for bad in ["x", "=zeros", "x=", "x=cat.gif", "x=ones"] {
            assert_eq!(InputSpec::parse(bad).unwrap_err().code(), "input::bad-spec", "{bad}");
        }
    }
}
