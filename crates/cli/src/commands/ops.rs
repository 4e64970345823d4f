//! `infc ops`: the operators that can be imported.

use crate::console::{Console, Style};
use crate::error::CliError;
use crate::failure::{Exit, Failure};
use crate::tables::{self, Side};
use infc_frontend_onnx::{NEWEST_OPSET, operator_opsets, supported_operators};
use serde::Serialize;

/// List the operators that infc imports
///
/// With the opsets of their domain in which they are. Whether a particular node is supported also depends on its
/// attributes and types: `infc check` tells for a model.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  infc ops\n  infc ops Resize --format json")]
pub(crate) struct OpsArgs {
    /// Only operators whose name contains this, in either case
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
    /// First and last opsets of the spans in which it is the same to the importer.
    opsets: Vec<(i64, i64)>,
}

pub(crate) fn run(arguments: &OpsArgs, console: &Console) -> Result<Exit, Failure> {
    let wanted = arguments.name.as_deref().unwrap_or_default().to_lowercase();
    let mut operators = Vec::new();
    for domain in ["", "com.microsoft"] {
        for name in supported_operators(domain).into_iter().filter(|name| name.to_lowercase().contains(&wanted)) {
            operators.push(Operator { domain, name, opsets: operator_opsets(domain, name) });
        }
    }
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
    let rows = report.operators.iter().map(|operator| {
        let domain = if operator.domain.is_empty() { "ai.onnx" } else { operator.domain };
        let span =
            |&(first, last): &(i64, i64)| if first == last { first.to_string() } else { format!("{first}…{last}") };
        let opsets: Vec<String> = operator.opsets.iter().map(span).collect();
        vec![domain.to_owned(), operator.name.to_owned(), opsets.join(", ")]
    });
    let columns = [("domain", Side::Left), ("operator", Side::Left), ("opsets", Side::Left)];
    console.write(tables::table(&columns, rows).as_bytes())?;
    let count = report.operators.len();
    let text = format!("  {count} {}", if count == 1 { "operator" } else { "operators" });
    console.line(console.paint(Style::Dim, &text))
}
