//! What the cases of a single node show of each operator, as a file: which opsets and element types kernels compute.
//!
//! ```text
//! # comment
//! Resize 19 f32 native 11 host 3 failing 0 what its scales are is computed
//! ```
//!
//! Per operator, version of its domain and element type: how many cases pass whose node is kernels alone, how many pass where the
//! host has a part, how many do not pass, and why the host has one. An operator of a domain of its own is `domain::Name`; `-` is the
//! type of what is no tensor. `infc ops` and `docs/operators.md` tell of it.

use super::status::{NOT_RUN, PASS, Row};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// What `infc-simulated` says of a case of more instructions than it executes.
const TOO_LONG: &str = "runtime::gpu-time-limit";
/// The first line of the file, which says where it comes from.
const HEADING: &str = "# What ONNX's cases of one node show of each operator: cargo xtask conformance --bless writes this list, and\n\
                       # xtask/src/conformance/operators.rs says how to read it.\n";

/// Counts by operator, opset and element type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Operators {
    rows: BTreeMap<(String, u64, String), Counts>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counts {
    native: usize,
    host: usize,
    failing: usize,
    /// Of the first case, in the order of names, in which the host has a part.
    why: Option<String>,
}

impl Operators {
    /// Counts a case, of which the command says the details.
    pub(super) fn count(&mut self, details: &Value, row: &Row) {
        let node = &details["node"];
        let (Some(operator), Some(opset)) = (node["operator"].as_str(), node["opset"].as_u64()) else { return };
        let operator = match node["domain"].as_str() {
            None | Some("") => operator.to_owned(),
            Some(domain) => format!("{domain}::{operator}"),
        };
        let dtype = node["dtype"].as_str().unwrap_or("-").to_owned();
        let counts = self.rows.entry((operator, opset, dtype)).or_default();
        // What takes the simulator too long says nothing of the operator.
        let is_fine = |column: &String| [PASS, NOT_RUN, TOO_LONG].contains(&column.as_str());
        if !row.columns.iter().all(is_fine) {
            counts.failing += 1;
        } else if row.runs == "native" {
            counts.native += 1;
        } else {
            counts.host += 1;
            counts.why = counts.why.take().or_else(|| details["why"].as_str().map(str::to_owned));
        }
    }
}

impl fmt::Display for Operators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEADING)?;
        for ((operator, opset, dtype), Counts { native, host, failing, why }) in &self.rows {
            write!(f, "{operator} {opset} {dtype} native {native} host {host} failing {failing}")?;
            match why {
                Some(why) => writeln!(f, " {}", why.split_whitespace().collect::<Vec<_>>().join(" "))?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cases_of_one_node_are_counted() {
        let mut operators = Operators::default();
        let mut count = |name: &str, domain: &str, dtype: Option<&str>, columns: [&str; 5], runs: &str| {
            let node = json!({ "operator": name, "domain": domain, "opset": 13, "dtype": dtype });
            let details = json!({ "node": node, "why": (runs == "host").then_some("it\ncannot be") });
            let row = Row { columns: columns.map(str::to_owned), runs: runs.to_owned() };
            operators.count(&details, &row);
        };
        let passes = ["pass", "pass", "not-run", "pass", "pass"];
        count("Abs", "", Some("f32"), passes, "native");
        count("Abs", "", Some("f32"), passes, "native");
        count("Abs", "", Some("f32"), ["pass", "pass", "pass", "x", "pass"], "native");
        count("Abs", "", Some("i8"), passes, "host");
        count("Map", "ai.onnx.ml", None, passes, "host");
        operators
            .count(&json!({ "node": null }), &Row { columns: passes.map(str::to_owned), runs: "native".to_owned() });
        let expected = "Abs 13 f32 native 2 host 0 failing 1\n\
                        Abs 13 i8 native 0 host 1 failing 0 it cannot be\n\
                        ai.onnx.ml::Map 13 - native 0 host 1 failing 0 it cannot be\n";
        assert_eq!(operators.to_string(), format!("{HEADING}{expected}"));
    }
}
