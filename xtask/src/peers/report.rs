//! The reports of `peers.py`, and the table of ratios made of them.
//!
//! A ratio below 1 means that infc is ahead. Latency is the median. Start-up and memory are net of what the peer's
//! Python and imports cost before it touches the model (`import_ms`, `rss_before_mb`; both 0 for infc), so that infc is
//! compared with the engine and not with its wrapping.

use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The name under which infc takes part.
pub(super) const INFC: &str = "infc";

/// One model's measurements.
#[derive(Debug)]
pub(super) struct Report {
    model: String,
    compile_s: f64,
    engines: BTreeMap<String, Outcome>,
}

/// What came of one engine: figures, or why there are none.
#[derive(Debug)]
enum Outcome {
    Measured(Figures),
    Failed(String),
}

/// One engine's figures on one model.
#[derive(Debug)]
struct Figures {
    /// Median of the counted runs.
    latency_ms: f64,
    /// Process start to first result, without the wrapping.
    cold_start_ms: f64,
    /// Peak of a process that ran ten times, without the wrapping.
    memory_mb: f64,
    /// How the outputs differ from the reference.
    agreement: Agreement,
}

/// How an engine's outputs compare with the reference.
#[derive(Debug)]
enum Agreement {
    /// Largest difference, relative to the largest value of its output.
    Within(f64),
    /// Another number of outputs, another shape, or not finite.
    Mismatch(String),
    /// The engine left no outputs behind.
    Unknown,
}

/// infc's figures divided by a peer's.
struct Ratios {
    latency: f64,
    cold_start: f64,
    memory: f64,
}

impl Report {
    /// Reads the JSON text that `peers.py` wrote for `model`, which infc took `compile_s` seconds to compile.
    pub(super) fn parse(model: &str, compile_s: f64, text: &str) -> Result<Self> {
        let report: Value = serde_json::from_str(text)?;
        let peers = report["peers"].as_object().context("there is no object `peers`")?;
        let engines = peers
            .iter()
            .map(|(name, result)| Ok((name.clone(), Outcome::parse(result).with_context(|| format!("peer `{name}`"))?)))
            .collect::<Result<_>>()?;
        Ok(Self { model: model.to_owned(), compile_s, engines })
    }

    /// infc beside `peer`, or which of the two has no figures and why.
    fn ratios(&self, peer: &str) -> Result<Ratios, String> {
        let figures = |name: &str| match self.engines.get(name) {
            Some(Outcome::Measured(figures)) => Ok(figures),
            Some(Outcome::Failed(reason)) => Err(format!("{name}: {reason}")),
            None => Err(format!("{name}: not measured")),
        };
        let (ours, theirs) = (figures(INFC)?, figures(peer)?);
        Ok(Ratios {
            latency: ours.latency_ms / theirs.latency_ms,
            cold_start: ours.cold_start_ms / theirs.cold_start_ms,
            memory: ours.memory_mb / theirs.memory_mb,
        })
    }

    /// How infc's outputs compare with the reference.
    fn agreement(&self) -> &Agreement {
        match self.engines.get(INFC) {
            Some(Outcome::Measured(figures)) => &figures.agreement,
            _ => &Agreement::Unknown,
        }
    }
}

impl Outcome {
    fn parse(result: &Value) -> Result<Self> {
        if let Some(reason) = result["error_message"].as_str() {
            return Ok(Self::Failed(reason.to_owned()));
        }
        let number = |value: &Value, name: &str| value[name].as_f64().with_context(|| format!("no number `{name}`"));
        let net =
            |whole: &str, wrapping: &str| Ok::<_, anyhow::Error>(number(result, whole)? - number(result, wrapping)?);
        Ok(Self::Measured(Figures {
            latency_ms: number(&result["latency_ms"], "median")?,
            cold_start_ms: net("cold_start_ms", "import_ms")?,
            memory_mb: net("rss_mb", "rss_before_mb")?,
            agreement: Agreement::parse(&result["error"]),
        }))
    }
}

impl Agreement {
    fn parse(error: &Value) -> Self {
        match (error["max_rel"].as_f64(), error["mismatch"].as_str()) {
            (Some(relative), _) => Self::Within(relative),
            (None, Some(mismatch)) => Self::Mismatch(mismatch.to_owned()),
            (None, None) => Self::Unknown,
        }
    }
}

/// infc beside one peer on every model, with the geometric mean over the models on which both have figures.
pub(super) fn table(reports: &[Report], peer: &str) -> String {
    let width = reports.iter().map(|report| report.model.len()).chain(["geometric mean".len()]).max().unwrap_or(0);
    let mut text = format!("\ninfc / {peer} (below 1: infc is ahead; start and memory net of Python and imports)\n");
    let mut line = |cells: [&str; 6]| {
        let [model, rest @ ..] = cells;
        let row = rest.iter().fold(format!("{model:width$}"), |row, cell| row + &format!("{cell:>12}"));
        writeln!(text, "{}", row.trim_end()).expect("writing to a String cannot fail");
    };
    line(["model", "latency", "cold start", "memory", "rel. error", "compile s"]);
    let mut compared = Vec::new();
    let mut notes = Vec::new();
    for report in reports {
        let compile = format!("{:.1}", report.compile_s);
        match report.ratios(peer) {
            Ok(ratios) => {
                let error = match report.agreement() {
                    Agreement::Within(relative) => format!("{relative:.0e}"),
                    Agreement::Mismatch(mismatch) => {
                        notes.push(format!("WRONG RESULT: {}: {mismatch}", report.model));
                        "WRONG".to_owned()
                    }
                    Agreement::Unknown => "unknown".to_owned(),
                };
                let [latency, cold, memory] = ratios.cells();
                line([&report.model, &latency, &cold, &memory, &error, &compile]);
                compared.push(ratios);
            }
            Err(reason) => {
                line([&report.model, "-", "-", "-", "-", &compile]);
                notes.push(format!("left out: {}: {reason}", report.model));
            }
        }
    }
    if !compared.is_empty() {
        let [latency, cold, memory] = Ratios::mean(&compared).cells();
        line(["geometric mean", &latency, &cold, &memory, "", ""]);
    }
    for note in notes {
        writeln!(text, "{note}").expect("writing to a String cannot fail");
    }
    text
}

impl Ratios {
    fn cells(&self) -> [String; 3] {
        [self.latency, self.cold_start, self.memory].map(|ratio| format!("{ratio:.2}"))
    }

    fn mean(all: &[Self]) -> Self {
        let mean =
            |pick: fn(&Self) -> f64| (all.iter().map(|ratios| pick(ratios).ln()).sum::<f64>() / all.len() as f64).exp();
        Self { latency: mean(|r| r.latency), cold_start: mean(|r| r.cold_start), memory: mean(|r| r.memory) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"peers": {
        "infc": {"latency_ms": {"median": 10.0}, "cold_start_ms": 40.0, "import_ms": 0.0,
                 "rss_mb": 120.0, "rss_before_mb": 0.0, "error": {"max_abs": 1e-5, "max_rel": 2e-6}},
        "ort": {"latency_ms": {"median": 20.0}, "cold_start_ms": 300.0, "import_ms": 140.0,
                "rss_mb": 290.0, "rss_before_mb": 50.0, "error": {"max_rel": 1e-6}}}}"#;
    const OTHER: &str = r#"{"peers": {
        "infc": {"latency_ms": {"median": 20.0}, "cold_start_ms": 40.0, "import_ms": 0.0,
                 "rss_mb": 120.0, "rss_before_mb": 0.0, "error": {"mismatch": "not finite"}},
        "ort": {"latency_ms": {"median": 10.0}, "cold_start_ms": 300.0, "import_ms": 140.0,
                "rss_mb": 290.0, "rss_before_mb": 50.0}}}"#;
    const FAILED: &str = r#"{"peers": {"infc": {"compile_ms": 0.0, "error_message": "exit status 4: no Einsum"}}}"#;

    fn report(model: &str, text: &str) -> Report {
        Report::parse(model, 1.25, text).expect("a well-formed report")
    }

    #[test]
    fn ratios_are_net_and_averaged_geometrically() {
        let reports = [report("resnet50", GOOD), report("other", OTHER)];
        assert_eq!(
            table(&reports, "ort"),
            "
infc / ort (below 1: infc is ahead; start and memory net of Python and imports)
model              latency  cold start      memory  rel. error   compile s
resnet50              0.50        0.25        0.50        2e-6         1.2
other                 2.00        0.25        0.50       WRONG         1.2
geometric mean        1.00        0.25        0.50
WRONG RESULT: other: not finite
"
        );
    }

    #[test]
    fn an_engine_without_figures_is_named_and_left_out() {
        let text = table(&[report("resnet50", GOOD), report("einsum", FAILED)], "ort");
        assert!(text.contains("\nleft out: einsum: infc: exit status 4: no Einsum\n"), "{text}");
        assert!(text.contains("\ngeometric mean        0.50"), "{text}");
        let text = table(&[report("resnet50", GOOD)], "openvino");
        assert!(text.contains("left out: resnet50: openvino: not measured"), "{text}");
        assert!(!text.contains("geometric mean"), "{text}");
    }

    #[test]
    fn a_report_of_another_shape_is_refused() {
        assert!(Report::parse("m", 0.0, "[]").is_err());
        let error = Report::parse("m", 0.0, r#"{"peers": {"ort": {"latency_ms": {}}}}"#).expect_err("no figures in it");
        assert_eq!(format!("{error:#}"), "peer `ort`: no number `median`");
    }
}
