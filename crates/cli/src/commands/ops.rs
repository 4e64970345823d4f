//! `infc ops`: the operators that can be imported, and what computes them.

mod cases;

use crate::console::{Console, Style};
use crate::error::CliError;
use crate::failure::{Exit, Failure};
use crate::tables::{self, Side};
use cases::Cases;
use infc_frontend_onnx::{NEWEST_OPSET, host_operators, operator_opsets, supported_operators};
use serde::Serialize;

/// List the operators that infc imports
///
/// With the opsets of their domain in which they are, the element types of ONNX's own cases that kernels compute, and those of cases
/// in which the host has a part. Whether a particular node is supported, and runs as a kernel, also depends on its attributes:
/// `infc check` tells for a model.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc ops\n  infc ops Resize --format json")]
pub(crate) struct OpsArgs {
    /// Only operators of this name, or, if none is spelled so, those whose names contain it, in either case
    name: Option<String>,
}

#[derive(Serialize)]
struct Report {
    schema: &'static str,
    /// The newest opset of ONNX's own domain that is read.
    newest_opset: i64,
    operators: Vec<Operator>,
}

#[derive(Serialize)]
struct Operator {
    /// Empty for ONNX's own.
    domain: &'static str,
    name: &'static str,
    /// First and last opsets of the spans in which it is the same to the importer; none of one that is not imported but evaluated
    /// on the host by its definition.
    opsets: Vec<(i64, i64)>,
    /// Whether it is always evaluated on the host.
    always_on_host: bool,
    /// Element types of ONNX's cases that are kernels alone.
    native: Vec<&'static str>,
    /// Element types of cases in which the host has a part.
    host: Vec<&'static str>,
    /// Why the host has one.
    why: Option<&'static str>,
    /// ONNX's cases of this one operator that pass, and all.
    cases: (usize, usize),
}

impl Operator {
    fn of(domain: &'static str, name: &'static str, why: Option<&'static str>) -> Self {
        let Cases { native, host, why: shown, passed, all } = cases::of(domain, name);
        Self {
            domain,
            name,
            opsets: operator_opsets(domain, name),
            always_on_host: why.is_some(),
            native: native.into_iter().collect(),
            host: host.into_iter().collect(),
            why: why.or(shown),
            cases: (passed, all),
        }
    }
}

pub(crate) fn run(arguments: &OpsArgs, console: &Console) -> Result<Exit, Failure> {
    let wanted = arguments.name.as_deref().unwrap_or_default().to_lowercase();
    // What is spelled exactly so, or else those whose names contain it.
    let domains = ["", "ai.onnx.ml", "com.microsoft", "ai.onnx.preview.training", "ai.onnx.preview"];
    let names = domains.into_iter().flat_map(supported_operators);
    let mut names = names.chain(host_operators().into_iter().map(|operator| operator.name));
    let exact = names.find(|name| arguments.name.as_deref() == Some(*name));
    let is_wanted = |name: &str| exact.map_or_else(|| name.to_lowercase().contains(&wanted), |exact| name == exact);
    let mut operators = Vec::new();
    for domain in domains {
        let names = supported_operators(domain).into_iter().filter(|name| is_wanted(name));
        operators.extend(names.map(|name| Operator::of(domain, name, None)));
    }
    let on_host = host_operators().into_iter().filter(|operator| is_wanted(operator.name));
    operators.extend(on_host.map(|operator| Operator::of(operator.domain, operator.name, Some(operator.why))));
    if operators.is_empty() {
        return Err(CliError::usage(format!("no operator that infc imports is called `{wanted}`")).into());
    }
    let report = Report { schema: "infc.ops/1", newest_opset: NEWEST_OPSET, operators };
    if console.is_json() {
        console.json(&report)?;
    } else {
        print(&report, console)?;
    }
    Ok(Exit::Done)
}

fn print(report: &Report, console: &Console) -> Result<(), Failure> {
    // What is asked for by name is told in full.
    let (few_types, in_full) = (4, report.operators.len() <= 2);
    let types = |types: &[&str]| match types {
        [] => "-".to_owned(),
        types if in_full || types.len() <= few_types => types.join(", "),
        types => format!("{}, … ({})", types[..few_types - 1].join(", "), types.len()),
    };
    let rows = report.operators.iter().map(|operator| {
        let domain = if operator.domain.is_empty() { "ai.onnx" } else { operator.domain };
        let span =
            |&(first, last): &(i64, i64)| if first == last { first.to_string() } else { format!("{first}…{last}") };
        let opsets: Vec<String> = operator.opsets.iter().map(span).collect();
        let opsets = if opsets.is_empty() { "all".to_owned() } else { opsets.join(", ") };
        let host = if operator.always_on_host { "always".to_owned() } else { types(&operator.host) };
        let cases = match operator.cases {
            (_, 0) => "-".to_owned(),
            (passed, all) => format!("{passed} of {all}"),
        };
        vec![domain.to_owned(), operator.name.to_owned(), opsets, types(&operator.native), host, cases]
    });
    let left = |name| (name, Side::Left);
    let columns = [
        left("domain"),
        left("operator"),
        left("opsets"),
        left("kernels"),
        left("on the host"),
        ("cases", Side::Right),
    ];
    console.write(tables::table(&columns, rows).as_bytes())?;
    for Operator { name, why, .. } in report.operators.iter().filter(|_| in_full) {
        why.map_or(Ok(()), |why| console.line(format!("\n  {name} on the host because {why}")))?;
    }
    let count = report.operators.len();
    let text = format!("  {count} {}", if count == 1 { "operator" } else { "operators" });
    console.line(console.paint(Style::Dim, &text))
}
