//! Dims and shapes on the command line.

use crate::error::CliError;
use infc::{DimChoice, ShapeDim};

/// `SYM=8`, `SYM=1..64`, `SYM=1..`: both ends belong to the range.
pub(super) fn parse_dim(text: &str) -> Result<(String, DimChoice), CliError> {
    let bad = || CliError::usage(format!("--dim `{text}`: expected SYM=VALUE or SYM=A..B"));
    // At the last sign: names may hold one, ranges do not.
    let (name, value) = text.rsplit_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(bad)?;
    let number = |text: &str| text.parse::<i64>().ok().filter(|&number| number >= 0).ok_or_else(bad);
    let choice = match value.split_once("..") {
        None => DimChoice::Fixed(number(value)?),
        Some((min, "")) => DimChoice::Range(number(min)?, None),
        Some((min, max)) => DimChoice::Range(number(min)?, Some(number(max)?)),
    };
    Ok((name.to_owned(), choice))
}

/// `INPUT=1x3x?x?`, `INPUT=scalar`.
pub(super) fn parse_shape(text: &str) -> Result<(String, Vec<ShapeDim>), CliError> {
    let bad = || CliError::usage(format!("--shape `{text}`: expected INPUT=SHAPE with SHAPE as in 1x3x?x?"));
    let (name, shape) = text.rsplit_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(bad)?;
    if shape == "scalar" {
        return Ok((name.to_owned(), Vec::new()));
    }
    let extent = |text: &str| match text {
        "?" => Ok(ShapeDim::Dynamic),
        _ => text.parse().ok().filter(|&extent: &i64| extent >= 0).map(ShapeDim::Fixed).ok_or_else(bad),
    };
    Ok((name.to_owned(), shape.split('x').map(extent).collect::<Result<_, _>>()?))
}

/// `SYM=1,8`: the values of a dim that a model is compiled for once more.
pub(super) fn parse_specialize(text: &str) -> Result<(String, Vec<i64>), CliError> {
    let bad = || CliError::usage(format!("--specialize `{text}`: expected SYM=VALUE or SYM=VALUE,VALUE,…"));
    let (name, values) = text.rsplit_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(bad)?;
    let number = |text: &str| text.parse::<i64>().ok().filter(|&number| number >= 0).ok_or_else(bad);
    Ok((name.to_owned(), values.split(',').map(number).collect::<Result<_, _>>()?))
}

/// `OUT=IN`.
pub(super) fn parse_state(text: &str) -> Result<(String, String), CliError> {
    match text.split_once('=') {
        Some((output, input)) if !output.is_empty() && !input.is_empty() => Ok((output.to_owned(), input.to_owned())),
        _ => Err(CliError::usage(format!("--state `{text}`: expected OUTPUT=INPUT"))),
    }
}

/// The options that an artifact's provenance names, to compile its model again in the same way.
pub(super) fn from_flags(flags: &[String]) -> Result<infc::CompileOptions, CliError> {
    let mut options = infc::CompileOptions::default();
    // How kernels are formed depends on whether they are for GPUs.
    let names = |text: &str| text.split(',').map(str::to_owned).collect();
    for flag in flags {
        match flag.split_once('=') {
            Some(("target", text)) => options.targets = names(text),
            Some(("byte-target", text)) => options.byte_targets = names(text),
            Some(("bf16-target", text)) => options.bf16_targets = names(text),
            Some(("dim", text)) => options.dims.push(parse_dim(text)?),
            Some(("specialize", text)) => options.specialize.push(parse_specialize(text)?),
            Some(("shape", text)) => options.shapes.push(parse_shape(text)?),
            Some(("state", text)) => options.states.push(parse_state(text)?),
            Some(("max-weight-growth", text)) => {
                options.max_weight_growth = text.parse().unwrap_or(options.max_weight_growth);
            }
            Some(("precision", text)) => {
                let found = infc::Precision::ALL.into_iter().find(|precision| precision.to_string() == text);
                options.precision = found.unwrap_or_default();
            }
            None if flag == "strict" => options.strict = true,
            _ => {}
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dims() {
        let parse = |text: &str| parse_dim(text).map(|(_, choice)| choice).ok();
        assert_eq!(parse("N=8"), Some(DimChoice::Fixed(8)));
        assert_eq!(parse("N=0..64"), Some(DimChoice::Range(0, Some(64))));
        assert_eq!(parse("N=1.."), Some(DimChoice::Range(1, None)));
        assert_eq!(parse_dim("x[0]=1").unwrap().0, "x[0]");
        for bad in ["N", "=1", "N=", "N=-1", "N=a..b", "N=..4", "N=1...4"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn flags() {
        let flags = ["target=cuda,x86-64-v3", "byte-target=x86-64-v4+vnni", "dim=N=2", "precision=f16", "strict"];
        let options = from_flags(&flags.map(str::to_owned)).unwrap();
        assert_eq!(options.targets, ["cuda", "x86-64-v3"]);
        assert_eq!(options.byte_targets, ["x86-64-v4+vnni"]);
        assert_eq!(options.dims, [("N".to_owned(), DimChoice::Fixed(2))]);
        assert_eq!((options.precision, options.strict), (infc::Precision::F16, true));
    }

    #[test]
    fn shapes() {
        let parse = |text: &str| parse_shape(text).map(|(_, shape)| shape).ok();
        assert_eq!(parse("x=scalar"), Some(vec![]));
        let expected = vec![ShapeDim::Fixed(1), ShapeDim::Dynamic];
        assert_eq!(parse("x=1x?"), Some(expected));
        for bad in ["x", "x=", "x=1x", "x=1xa", "x=-1", "=1"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn special_cases() {
        assert_eq!(parse_specialize("N=1,8").unwrap(), ("N".to_owned(), vec![1, 8]));
        assert_eq!(parse_specialize("x[0]=1").unwrap(), ("x[0]".to_owned(), vec![1]));
        for bad in ["N", "N=", "=1", "N=1,", "N=-1", "N=1..8", "N=a"] {
            assert!(parse_specialize(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn states() {
        assert_eq!(parse_state("hn=h").unwrap(), ("hn".to_owned(), "h".to_owned()));
        for bad in ["h", "=h", "hn="] {
            assert!(parse_state(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn flags_of_an_artifact() {
        let flags = ["target=x86-64-v3", "dim=N=1..8", "specialize=N=1,8", "shape=x=?x3", "precision=bf16", "strict"];
        let flags = flags.map(str::to_owned);
        let options = from_flags(&flags).unwrap();
        assert_eq!(options.dims, [("N".to_owned(), DimChoice::Range(1, Some(8)))]);
        assert_eq!(options.specialize, [("N".to_owned(), vec![1, 8])]);
        assert_eq!((options.shapes.len(), options.strict), (1, true));
        assert_eq!(options.precision, infc::Precision::Bf16);
    }
}
