//! Records of schedules and of ways to form kernels: what is taken of them, and what is refused with a reason.

use infc::{Choice, CompileOptions, KernelKey, Phase, Records, Source, Way};
use infc_ir::kernel::{Kernel, Stage};
use infc_passes::formulate::normalise;
use std::path::Path;

const TARGET: &str = "x86-64-v3";

fn compile(options: &CompileOptions) -> infc::Compilation {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo/digits.onnx");
    infc::compile(&Source::file(model), options, &mut ()).expect("the demo compiles")
}

fn options(strict: bool) -> CompileOptions {
    CompileOptions { targets: vec![TARGET.to_owned()], byte_targets: Vec::new(), strict, ..CompileOptions::default() }
}

/// A stage that sums floats, and the last axis of the sum.
fn sum(kernel: &Kernel) -> Option<(&Stage, &str)> {
    let sums = |s: &&Stage| s.reducer.as_ref().is_some_and(|r| !r.is_associative() && r.as_binary().is_some());
    let stage = kernel.stages.iter().find(sums)?;
    let axis = stage.reduce_axes().last()?;
    Some((stage, &axis.1.name))
}

/// The demo's first sum by a schedule.
fn recorded(strict: bool, schedule: impl Fn(&str, &str) -> String) -> Records {
    let plan = compile(&CompileOptions { stop_after: Some(Phase::Plan), ..options(strict) }).plan.expect("a plan");
    let tasks = infc::tasks(&[&plan]);
    let (task, kernel) = tasks
        .iter()
        .map(|task| (task, normalise(task.kernel.clone())))
        .find(|(_, kernel)| sum(kernel).is_some())
        .expect("the demo sums");
    let (stage, axis) = sum(&kernel).expect("it has one");
    let text = schedule(&stage.name, axis);
    let mut records = Records::default();
    let schedule = text.parse().unwrap_or_else(|e| panic!("{e}: {text}"));
    records.insert(task.key, &TARGET.parse().expect("a target"), strict, schedule);
    records
}

/// How many records were taken, and why others were not, where the demo's first sum runs by the given schedule.
fn outcome(strict: bool, schedule: impl Fn(&str, &str) -> String) -> (usize, Vec<String>) {
    let records = recorded(strict, schedule);
    let report = compile(&CompileOptions { records, ..options(strict) }).report;
    (report.recorded_schedules, report.refused_records)
}

#[test]
fn what_makes_no_code_is_refused() {
    type Damage = fn(&str, &str) -> String;
    let bad: [(Damage, &str); 4] = [
        (|_, _| "unroll nothing.x".to_owned(), "no stage"),
        (|s, a| format!("bind {s}.{a} to block.x"), "for GPUs"),
        (|s, a| format!("split {s}.{a} by 4000000 -> xo, xi; partial {s}.xi"), "straight code"),
        (|s, _| format!("store {s} in shared"), "for GPUs"),
    ];
    for (schedule, why) in bad {
        let (taken, refused) = outcome(false, schedule);
        assert!(taken == 0 && refused.len() == 1 && refused[0].contains(why), "{why}: {taken} {refused:?}");
    }
    assert_eq!(outcome(false, |_, _| String::new()), (1, Vec::new()));
}

#[test]
fn strict_compilations_take_no_other_order_of_sums() {
    let parts = |s: &str, a: &str| format!("split {s}.{a} by 2 -> xo, xi; partial {s}.xi");
    let (taken, refused) = outcome(true, parts);
    assert!(taken == 0 && refused.len() == 1 && refused[0].contains("another order"), "{taken} {refused:?}");
}

/// Built-in records count where others have nothing that can be taken, and only what was taken is in the artifact.
#[test]
fn built_in_records_come_behind_others() {
    let plain = || recorded(false, |_, _| String::new());
    let split = || recorded(false, |s, a| format!("split {s}.{a} by 2 -> xo, xi"));
    let illegal = || recorded(false, |_, _| "unroll nothing.x".to_owned());
    let with = |records: Records, builtin_records: Records| {
        let compilation = compile(&CompileOptions { records, builtin_records, ..options(false) });
        let bytes = compilation.to_bytes().expect("an artifact");
        (bytes, compilation.report)
    };
    let none = Records::default;
    let (default, _) = with(none(), none());

    let (built_in, report) = with(none(), split());
    assert_eq!((report.recorded_schedules, report.builtin_schedules, report.refused_records), (0, 1, Vec::new()));
    assert!(built_in != default);
    assert!(with(none(), split()).0 == built_in, "the same each time");

    let (own, report) = with(plain(), split());
    assert_eq!((report.recorded_schedules, report.builtin_schedules), (1, 0));
    assert!(own == with(plain(), none()).0, "built-in records that are not taken leave no trace");

    let (_, report) = with(illegal(), split());
    assert_eq!((report.recorded_schedules, report.builtin_schedules, report.refused_records.len()), (0, 1, 1));

    let (refused, report) = with(none(), illegal());
    assert_eq!((report.builtin_schedules, report.refused_records.len()), (0, 1));
    assert!(report.refused_records[0].contains("no stage"), "{:?}", report.refused_records);
    assert!(refused == default);
    // Those of another target, or found under another promise, are not for this compilation.
    let strict = recorded(true, |_, _| String::new());
    let (bytes, report) = with(none(), strict);
    assert_eq!((report.builtin_schedules, report.refused_records.len()), (0, 0));
    assert!(bytes == default);
}

/// A choice that the demo has, and another way.
fn other_way() -> (Choice, Way) {
    let options = CompileOptions { lists_choices: true, stop_after: Some(Phase::Plan), ..options(false) };
    let plan = compile(&options).plan.expect("a plan");
    let mut fusions = plan.log.choices.into_iter().filter(|choice| choice.taken == Way::Together);
    (fusions.next().expect("the demo fuses"), Way::Apart)
}

/// What is settled makes another artifact, the same one each time, for the target and the promise that it was found for.
#[test]
fn settled_choices_are_taken() {
    let (choice, way) = other_way();
    let settled = |target: &str, strict: bool, way: Way| {
        let mut records = Records::default();
        records.settle(KernelKey::of_text(&choice.question), &target.parse().expect("a target"), strict, way);
        records
    };
    let with = |records: Records| {
        let compilation = compile(&CompileOptions { records, ..options(false) });
        (compilation.report.clone(), compilation.to_bytes().expect("an artifact"))
    };
    let (default, default_bytes) = with(Records::default());
    let (report, bytes) = with(settled(TARGET, false, way));
    assert_eq!((report.recorded_choices, report.refused_records), (1, Vec::new()));
    assert!(report.launches > default.launches, "{} kernels, {}", report.launches, default.launches);
    assert!(bytes == with(settled(TARGET, false, way)).1, "the same records give the same bytes");
    for (target, strict) in [("x86-64-v2", false), (TARGET, true)] {
        let (report, _) = with(settled(target, strict, way));
        assert_eq!((report.recorded_choices, report.launches), (0, default.launches));
    }
    // What is no way of it is told, and leaves no trace but the name of the records.
    let (report, refused_bytes) = with(settled(TARGET, false, Way::Filtered(4)));
    assert_eq!((report.recorded_choices, report.launches), (0, default.launches));
    let [refused] = &report.refused_records[..] else { panic!("{:?}", report.refused_records) };
    assert!(refused.contains("`filtered 4`") && refused.contains("there are together, apart"), "{refused}");
    assert!(default_bytes.len().abs_diff(refused_bytes.len()) < 256);
    // Of several targets that share a plan, the first one that has an answer says it.
    let mut both = settled(TARGET, false, Way::Together);
    both.settle(KernelKey::of_text(&choice.question), &"x86-64-v2".parse().expect("a target"), false, way);
    let first = |targets: [&str; 2]| {
        let targets = targets.map(str::to_owned).to_vec();
        compile(&CompileOptions { records: both.clone(), targets, ..options(false) }).report.launches
    };
    assert_eq!(first([TARGET, "x86-64-v2"]), default.launches);
    assert!(first(["x86-64-v2", TARGET]) > default.launches);
}
