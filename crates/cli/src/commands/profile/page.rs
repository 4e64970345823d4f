//! The profile as one page that needs nothing from outside.

use super::charts::{self, Piece};
use super::{Bound, Report};
use crate::failure::Failure;
use crate::kernel_times::Times;
use crate::picture::Picture;
use crate::picture::svg::{drawing, escape};
use crate::special_case;
use crate::tables::{self, value};
use infc_artifact::{MemoryPlan, Program, Slot};
use infc_runtime::Model;
use std::fmt::Write;

const STYLE: &str = "\
:root{color-scheme:light}*{box-sizing:border-box}\
body{margin:0;background:#f3f4f6;color:#1f2937;font:14px/1.5 system-ui,'Segoe UI','DejaVu Sans',sans-serif}\
main{max-width:1160px;margin:0 auto;padding:28px 20px 60px}\
h1{font-size:22px;margin:0 0 2px}h2{font-size:15px;margin:0 0 10px}\
p{margin:0 0 10px;color:#4b5563}\
section{background:#fff;border:1px solid #e5e7eb;border-radius:8px;padding:16px 18px;margin-top:16px}\
.tiles{display:flex;flex-wrap:wrap;gap:12px;margin-top:16px}\
.tile{background:#fff;border:1px solid #e5e7eb;border-radius:8px;padding:10px 16px;flex:1 1 150px}\
.tile b{display:block;font-size:19px;white-space:nowrap}.tile span{color:#6b7280;font-size:12px}\
.chart{width:100%;height:auto;display:block}\
.chart text{font:12px system-ui,'Segoe UI','DejaVu Sans',sans-serif;fill:#1f2937}\
.chart .note{fill:#6b7280;font-size:11px}.chart .rooftext{fill:#b45309;font-size:11px}\
.bar{fill:#2563eb}.grid{stroke:#e5e7eb;fill:none}.roof{stroke:#d97706;stroke-width:1.6;fill:none}\
.point{fill:#2563eb;fill-opacity:.45;stroke:#1d4ed8}\
.scroll{overflow:auto;max-height:820px;border:1px solid #e5e7eb;border-radius:6px;text-align:center}\
table{border-collapse:collapse;width:100%;font-size:12.5px}\
th,td{text-align:left;padding:5px 8px;border-bottom:1px solid #eef0f3;vertical-align:top}\
th{color:#6b7280;font-weight:600;white-space:nowrap}td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\
td:first-child{white-space:nowrap}td.from{color:#4b5563;overflow-wrap:anywhere}\
details pre{margin:6px 0 0;white-space:pre-wrap;font-size:11.5px;color:#374151}summary{cursor:pointer;color:#2563eb}";

/// The whole file.
pub(super) fn page(report: &Report, model: &Model, times: &Times) -> Result<String, Failure> {
    let variant = model.variant();
    let shares = step_shares(times);
    let (manifest, empty) = (model.manifest(), Program::default());
    let program = variant.programs.get(times.entry).unwrap_or(&empty);
    let entry = &manifest.entries[times.entry];
    let picture = Picture::new(entry, program, variant, &manifest.weights, &times.symbols, Some(&shares));
    let (width, height, graph) = drawing(&picture);
    let plan = match &program.static_plan {
        Some(plan) => plan.clone(),
        None => MemoryPlan::new(program, &times.symbols)?,
    };
    let mut html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{0}</title><style>{STYLE}</style></head><body><main><h1>{0}</h1><p>{1}</p>",
        escape(&report.artifact),
        escape(&format!(
            "{}{} · {} · {} · inputs {}",
            report.variant,
            special_case::suffix(report.special_case.as_deref()),
            if report.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", report.threads) },
            report.machine,
            if report.inputs.is_empty() { "none".to_owned() } else { report.inputs.join(", ") }
        ))
    );
    tiles(report, plan.arena_bytes, &mut html);
    section(
        &mut html,
        "Time per kernel",
        "Of the quickest time of each step, all launches of a kernel together.",
        &charts::bars(report),
    );
    section(
        &mut html,
        "Roofline",
        "Each point is a kernel, as large as its share of the time. The lines are what this machine did at most, just \
         before: a large product of 32-bit floats, and going through memory, by how much of it there is.",
        &charts::roofline(report),
    );
    section(
        &mut html,
        "Memory between kernels",
        "Where each value lies in the arena, and from which step to which.",
        &charts::memory(&pieces(program, &plan, &times.symbols), program.steps.len(), plan.arena_bytes),
    );
    let graph = format!(
        "<div class=\"scroll\"><svg width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         role=\"img\" aria-label=\"Graph\">{graph}</svg></div>"
    );
    section(
        &mut html,
        "Graph",
        "What a run launches, the warmer the longer it takes. Resting on a node shows ONNX nodes, weights and schedule.",
        &graph,
    );
    section(&mut html, "Kernels", "", &kernel_table(report));
    html.push_str("</main></body></html>\n");
    Ok(html)
}

fn section(html: &mut String, title: &str, text: &str, body: &str) {
    let text = if text.is_empty() { String::new() } else { format!("<p>{text}</p>") };
    let _ = write!(html, "<section><h2>{title}</h2>{text}{body}</section>");
}

fn tiles(report: &Report, arena_bytes: u64, html: &mut String) {
    let of_kernels: f64 = report.kernels.iter().map(|kernel| kernel.time.ms).sum();
    let least: f64 = report.kernels.iter().filter_map(|kernel| Some(kernel.of_roofline? * kernel.time.ms)).sum::<f64>();
    let launches: usize = report.kernels.iter().map(|kernel| kernel.time.launches).sum();
    let macs: f64 = report.kernels.iter().filter_map(|k| Some(k.macs? as f64 * k.time.launches as f64)).sum();
    let rate = 2.0 * macs / 1e6 / of_kernels.max(1e-9);
    html.push_str("<div class=\"tiles\">");
    for (value, what) in [
        (tables::millis(report.run_ms), "quickest run".to_owned()),
        (format!("{:.0} %", least / of_kernels.max(1e-9) * 100.0), "of the roofline, by time".to_owned()),
        (format!("{rate:.0} GFLOP/s"), format!("in kernels; at most {:.0}", report.ceilings.highest())),
        (format!("{launches} launches"), format!("of {} kernels", report.kernels.len())),
        (tables::bytes(arena_bytes), "between kernels".to_owned()),
    ] {
        let _ = write!(html, "<div class=\"tile\"><b>{}</b><span>{}</span></div>", escape(&value), escape(&what));
    }
    html.push_str("</div>");
}

/// By step, the part of the time of all steps.
fn step_shares(times: &Times) -> Vec<f64> {
    let total: f64 = times.steps.iter().flatten().map(std::time::Duration::as_secs_f64).sum();
    times.steps.iter().map(|took| took.map_or(0.0, |took| took.as_secs_f64() / total.max(1e-12))).collect()
}

fn pieces(program: &Program, plan: &MemoryPlan, symbols: &[i64]) -> Vec<Piece> {
    let slots = program.slots.iter().enumerate();
    slots
        .filter_map(|(index, slot)| {
            let Slot::Arena(slot) = slot else { return None };
            Some(Piece {
                slot: index,
                offset: plan.offsets.get(index).copied().flatten()?,
                bytes: value(&slot.size_bytes, symbols)?,
                first_step: slot.first_step,
                last_step: slot.last_step,
            })
        })
        .collect()
}

fn kernel_table(report: &Report) -> String {
    let mut html = String::from(
        "<table><tr><th>kernel</th><th class=\"n\">runs</th><th class=\"n\">time</th><th class=\"n\">share</th>\
         <th class=\"n\">GFLOP/s</th><th class=\"n\">GB/s</th><th class=\"n\">of roofline</th><th>bound by</th>\
         <th>ONNX nodes</th><th>schedule</th></tr>",
    );
    let rate = |rate: Option<f64>| rate.map_or_else(|| "–".to_owned(), |rate| format!("{rate:.1}"));
    for kernel in &report.kernels {
        let time = &kernel.time;
        let _ = write!(
            html,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.1} %</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td class=\"from\">{}</td>\
             <td><details><summary>{}</summary><pre>{}</pre></details></td></tr>",
            escape(&time.name),
            time.launches,
            tables::millis(time.ms),
            time.share * 100.0,
            rate(time.gflops),
            rate(time.gb_per_s),
            kernel.of_roofline.map_or_else(|| "–".to_owned(), |part| format!("{:.0} %", part * 100.0)),
            kernel.bound.map_or("–", Bound::name),
            escape(&tables::few(&time.origins, 4)),
            escape(&time.emitter),
            escape(&kernel.schedule).replace("&#10;", "\n"),
        );
    }
    html.push_str("</table>");
    html
}
