//! The examples in `docs/ir-text.md` are in the language that it describes.

use infc_ir::kernel::Kernel;
use infc_ir::schedule::Schedule;
use infc_ir::verify::verify_kernel;

const PAGE: &str = include_str!("../../../docs/ir-text.md");

#[test]
fn the_kernel_on_the_page_is_valid() {
    let mut blocks = PAGE.split("```").filter_map(|b| b.strip_prefix("text\n"));
    let kernel: Kernel = blocks.find(|b| b.starts_with("kernel")).expect("an example").parse().expect("parses");
    verify_kernel(&kernel).expect("valid");
    let steps: Schedule = blocks.find(|b| b.starts_with("join")).expect("an example").parse().expect("parses");
    assert_eq!(steps.steps.len(), 32);
}

#[test]
fn every_function_on_the_page_is_one() {
    let row = PAGE.lines().find(|l| l.starts_with("| `neg abs")).expect("the list of functions");
    let names = row.split('`').nth(1).expect("the names are code");
    for name in names.split(' ') {
        let text = format!("kernel @k(x: f32[2]) {{ stage s[i: 2] = {name}(x[i]) }}");
        text.parse::<Kernel>().unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}
