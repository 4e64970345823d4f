//! Whatever the text, parsing ends in a structure or an error; and what is valid prints as text that parses back.

#![no_main]

use infc_ir::graph::Graph;
use infc_ir::kernel::Kernel;
use infc_ir::schedule::Schedule;
use infc_ir::text::{constants_by_hash, parse_graph};
use infc_ir::verify::{verify_graph, verify_kernel};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(kernel) = text.parse::<Kernel>()
        && verify_kernel(&kernel).is_ok()
    {
        let printed = kernel.to_string();
        let again: Kernel = printed.parse().unwrap_or_else(|e| panic!("{e}\n{printed}"));
        assert!(again == kernel, "{printed}\nbecame\n{again}");
    }
    if let Ok(graph) = text.parse::<Graph>()
        && verify_graph(&graph).is_ok()
    {
        // Large constants print as hashes.
        let constants = constants_by_hash(&graph);
        let printed = graph.to_string();
        let again = parse_graph(&printed, &|hash| constants.get(hash).cloned());
        let again = again.unwrap_or_else(|e| panic!("{e}\n{printed}"));
        assert!(again == graph, "{printed}\nbecame\n{again}");
    }
    if let Ok(schedule) = text.parse::<Schedule>() {
        let printed = schedule.to_string();
        let again: Schedule = printed.parse().unwrap_or_else(|e| panic!("{e}\n{printed}"));
        assert!(again == schedule, "{printed}\nbecame\n{again}");
    }
});
