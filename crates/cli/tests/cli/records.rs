//! `infc records`: files of records listed, checked, merged, chosen from.

use crate::support::{folder, infc};
use infc::{CompileOptions, Phase, Source, Task, Way};
use infc_tune::{ChoiceRecord, Proof, Proven, Record, RecordFile};
use std::fs;
use std::path::Path;

/// A target that every machine with x86 runs.
const TARGET: &str = "x86-64-v2";

/// The kernels of the demo's model, which is at `at`, and of special cases of it.
pub(crate) fn tasks(at: &Path, specialize: Vec<(String, Vec<i64>)>) -> Vec<Task> {
    let options = CompileOptions { specialize, stop_after: Some(Phase::Plan), ..CompileOptions::default() };
    let compilation = infc::compile(&Source::file(at.join("digits.onnx")), &options, &mut ()).unwrap();
    infc::tasks(&compilation.plans())
}

/// A record for one of the demo's kernels.
pub(crate) fn record(at: &Path, n: usize) -> Record {
    plain(&tasks(at, Vec::new())[n])
}

/// A record for a kernel: plain loops, which are legal for all.
pub(crate) fn plain(task: &Task) -> Record {
    let proof = Proof { default_seconds: 2e-6, ratio: 0.5, ratio_at_most: 0.6 };
    let plain = "".parse().unwrap();
    let record = Record::new(task, &TARGET.parse().unwrap(), false, &plain, proof).unwrap();
    Record { machine: "Abacus".to_owned(), ..record }
}

/// A record for a choice of the demo: what follows a kernel's sums in a kernel of its own.
pub(crate) fn choice(at: &Path) -> ChoiceRecord {
    let options = CompileOptions { lists_choices: true, stop_after: Some(Phase::Plan), ..CompileOptions::default() };
    let compilation = infc::compile(&Source::file(at.join("digits.onnx")), &options, &mut ()).unwrap();
    let choices = compilation.plan.unwrap().log.choices;
    let fused = choices.iter().find(|choice| choice.taken == Way::Together).unwrap();
    let record = ChoiceRecord::new(fused, Way::Apart, Proof { default_seconds: 2e-6, ratio: 0.5, ratio_at_most: 0.6 });
    ChoiceRecord { target: TARGET.to_owned(), machine: "Abacus".to_owned(), ..record }
}

/// Writes a file, and the demo's model beside it, to a folder.
fn prepare(at: &Path, lines: impl FnOnce() -> String) {
    infc(at, "demo --save .").ok();
    fs::write(at.join("some.records"), lines()).unwrap();
}

fn read(path: &Path) -> Vec<Record> {
    let file = RecordFile::parse(fs::read_to_string(path).unwrap());
    assert_eq!(file.bad, []);
    file.records
}

#[test]
fn records_are_listed_and_chosen() {
    let folder = folder();
    let at = folder.path();
    prepare(at, || {
        let small = Record { ratio_at_most: 0.9, ..record(at, 1) };
        format!("{}{}garbage\n", record(at, 0).to_line(), small.to_line())
    });
    let listed = infc(at, "records ls some.records --format json").ok();
    assert!(listed.stderr.contains("line 3"), "{}", listed.stderr);
    let json = listed.json();
    assert_eq!(json["records"].as_array().unwrap().len(), 2);
    assert_eq!(
        (json["records"][0]["here"].as_bool(), json["records"][0]["ratio_at_most"].as_f64()),
        (Some(false), Some(0.6))
    );
    assert_eq!((json["bad"][0]["line"].as_u64(), json["bad"].as_array().unwrap().len()), (Some(3), 1));
    let text = infc(at, "records ls some.records").ok().stdout;
    assert!(text.contains("50.0 %") && text.contains("40.0 %") && text.contains("Abacus"), "{text}");

    let key = record(at, 1).kernel;
    let other_key = record(at, 0).kernel;
    for (choice, expected) in [
        ("--min-gain 5%", vec![&other_key, &key]),
        ("--min-gain 30%", vec![&other_key]),
        ("--target x86-64-v3", vec![]),
        ("--target x86-64-v2", vec![&other_key, &key]),
        ("--here", vec![]),
        (&format!("--kernel {}", &key[..10]), vec![&key]),
        ("--model digits.onnx", vec![&other_key, &key]),
    ] {
        infc(at, &format!("records export some.records {choice} -o chosen")).ok();
        let chosen = read(&at.join("chosen"));
        assert_eq!(chosen.iter().map(|r| &r.kernel).collect::<Vec<_>>(), expected, "{choice}");
    }
    let streamed = infc(at, "records export some.records -o -").ok().stdout;
    assert_eq!(RecordFile::parse(&streamed).records.len(), 2);
    infc(at, "records export some.records --target z80 -o chosen").fails_after_notes(2, "cli::usage");
    infc(at, "records export some.records --min-gain much -o chosen").fails(2, "cli::usage");
    infc(at, "records ls nowhere").fails(1, "cli::cannot-read");
    // A file of something else is no file without records.
    fs::write(at.join("chosen"), record(at, 0).to_line()).unwrap();
    infc(at, "records merge digits.onnx -o chosen").fails(1, "cli::cannot-read");
    infc(at, "records export some.records digits.onnx -o chosen").fails_after_notes(1, "cli::cannot-read");
    assert_eq!(read(&at.join("chosen")), [record(at, 0)]);
    assert_eq!(infc(at, "records export some.records -o - --format json").code, 2);
    infc(at, "records ls").fails(2, "cli::usage");
}

/// What is proven counts, from whatever file it comes; and compilations do the same.
#[test]
fn of_two_the_better_is_kept() {
    let folder = folder();
    let at = folder.path();
    prepare(at, || record(at, 0).to_line());
    let worse = Record { ratio_at_most: 0.7, seconds: 0.1e-6, ..record(at, 0) };
    let strict = Record { strict: true, ..record(at, 0) };
    fs::write(at.join("other.records"), format!("{}{}", worse.to_line(), strict.to_line())).unwrap();
    let json = infc(at, "records merge some.records other.records -o ab --format json").ok().json();
    assert_eq!((json["read"].as_u64(), json["written"].as_u64()), (Some(3), Some(2)));
    infc(at, "records merge other.records some.records -o ba").ok();
    assert_eq!(read(&at.join("ab")), [record(at, 0), strict]);
    assert!(fs::read(at.join("ab")).unwrap() == fs::read(at.join("ba")).unwrap(), "the order makes no difference");
    infc(at, "records merge ab ba -o ab").ok();
    assert!(fs::read(at.join("ab")).unwrap() == fs::read(at.join("ba")).unwrap(), "nor does doing it again");
    // A disk that is full keeps the file that was there, and says so.
    #[cfg(target_os = "linux")]
    infc(at, "records merge ab -o /dev/full").fails(1, "cli::cannot-write");
}

#[test]
fn what_is_illegal_or_changed_is_told() {
    let folder = folder();
    let at = folder.path();
    prepare(at, || {
        let illegal = Record { schedule: "unroll nothing.x".to_owned(), ..record(at, 0) };
        let changed = Record { code: "0".repeat(64), ..record(at, 1) };
        format!("{}{}{}not a record\n", record(at, 0).to_line(), illegal.to_line(), changed.to_line())
    });
    let json = infc(at, "records verify some.records --format json").ok().json();
    let found: Vec<_> = json["checked"].as_array().unwrap().iter().map(|c| c["found"].as_str().unwrap()).collect();
    assert_eq!(found, ["measured", "illegal", "changed"]);
    assert!(json["checked"][1]["reason"].as_str().unwrap().contains("nothing"), "{json}");
    assert_eq!(json["bad"].as_array().unwrap().len(), 1);
    let told = infc(at, "records verify some.records").ok().stdout;
    assert!(told.contains("1 as measured, 1 changed, 1 illegal, 1 lines are no records"), "{told}");
    assert_eq!(infc(at, "records verify some.records --deny").code, 3);
    infc(at, "records verify some.records -o good.records").ok();
    assert_eq!(read(&at.join("good.records")), [record(at, 0), Record { code: "0".repeat(64), ..record(at, 1) }]);
    let streamed = infc(at, "records verify some.records -o -").ok().stdout;
    assert_eq!(streamed, fs::read_to_string(at.join("good.records")).unwrap());
    assert!(!at.join("-").exists());
    assert_eq!(infc(at, "records verify some.records -o - --format json").code, 2);
    infc(at, "records verify some.records --measure").fails(2, "cli::usage");
    // It was measured on another machine, so it stays as it is.
    infc(at, "records verify good.records --measure -o again.records").ok();
    assert_eq!(read(&at.join("again.records")), read(&at.join("good.records")));
    // Who wants all measured again gets only what was.
    let json = infc(at, "records verify good.records --measure --all -o again.records --format json").ok().json();
    assert_eq!(
        (&json["checked"][0]["found"], &json["checked"][1]["found"]),
        (&"undecided".into(), &"undecided".into())
    );
    assert_eq!(read(&at.join("again.records")), []);
    infc(at, "records verify good.records --all -o again.records").fails(2, "cli::usage");
}

/// A record of this machine that has changed is measured: plain loops are not quicker than the default, which is.
#[test]
fn what_changed_here_is_measured_again() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    let listed = |at: &Path| infc(at, "records ls some.records --format json").ok().json();
    // Of the kernels whose plain loops are far slower than the default, the first product.
    let n = tasks(at, Vec::new()).iter().position(|task| task.text.contains("fold sum")).expect("the demo sums");
    // The name of this machine is what the command calls it.
    let here = infc(at, "doctor --format json").ok().json()["processor"].as_str().unwrap().to_owned();
    // What is as it was measured is measured again only if all is.
    let same = Record { machine: here.clone(), ..record(at, n) };
    fs::write(at.join("same.records"), same.to_line()).unwrap();
    for (all, found) in [("", "measured"), (" --all", "not-quicker")] {
        let verify = format!("records verify same.records --measure{all} -o kept.records --format json");
        assert_eq!(infc(at, &verify).ok().json()["checked"][0]["found"], found, "{all}");
    }
    assert_eq!(read(&at.join("kept.records")), []);
    let record = Record { machine: here, code: "0".repeat(64), ..record(at, n) };
    fs::write(at.join("some.records"), record.to_line()).unwrap();
    assert_eq!(listed(at)["records"][0]["here"], true);
    let json = infc(at, "records verify some.records --measure -o some.records --format json").ok().json();
    assert_eq!(json["checked"][0]["found"], "not-quicker", "{json}");
    assert_eq!(listed(at)["records"].as_array().unwrap().len(), 0);
}

/// `native` is this machine: what was measured elsewhere is not taken for it, and that is told.
#[test]
fn foreign_records_are_not_taken_for_native() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    let native = infc(at, "doctor --format json").ok().json()["native"].as_str().unwrap().to_owned();
    let record = Record { target: native.clone(), ..record(at, 0) };
    fs::write(at.join("some.records"), record.to_line()).unwrap();
    infc(at, &format!("compile digits.onnx --target {native} -o plain.infa")).ok();
    let told = infc(at, "compile digits.onnx --target native --records some.records -o native.infa").ok();
    assert!(told.stderr.contains("measured on Abacus"), "{}", told.stderr);
    infc(at, &format!("compile digits.onnx --target {native} --records some.records -o named.infa")).ok();
    let code = |name: &str| {
        let json = infc(at, &format!("inspect {name} --format json")).ok().json();
        json["variant"]["kernels"].as_array().unwrap().iter().map(|k| k["schedule"].to_string()).collect::<Vec<_>>()
    };
    assert!(code("native.infa") == code("plain.infa"), "it is left out");
    assert!(code("named.infa") != code("plain.infa"), "who names the target takes it");
}

/// Targets with a name get no built-in records unless somebody asks for those of a kind of machines, and then get the same
/// everywhere: all that ships is for targets that can be named.
#[test]
fn named_targets_take_no_built_in_records_by_themselves() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    let targets = infc(at, "targets --format json").ok().json();
    let kinds: Vec<&str> = targets["builtin_records"].as_array().unwrap().iter().map(|k| k.as_str().unwrap()).collect();
    assert_eq!(kinds, infc_tune::builtin_kinds().collect::<Vec<_>>());
    let compiled = |arguments: &str| {
        let json = infc(at, &format!("compile digits.onnx -o some.infa --format json {arguments}")).ok().json();
        (fs::read(at.join("some.infa")).unwrap(), json["builtin_records"].clone(), json["builtin_kernels"].clone())
    };
    for target in ["cpu", "x86-64-v4", &builtin_target(kinds[0])] {
        let (off, kind, taken) = compiled(&format!("--target {target} --builtin-records off"));
        assert_eq!((kind, taken), (serde_json::Value::Null, 0.into()));
        let (auto, kind, taken) = compiled(&format!("--target {target}"));
        assert_eq!((kind, taken), (serde_json::Value::Null, 0.into()));
        assert!(auto == off, "{target}");
    }
    let (_, kind, _) = compiled(&format!("--target {} --builtin-records {}", builtin_target(kinds[0]), kinds[0]));
    assert_eq!(kind, kinds[0]);
    infc(at, "compile digits.onnx --builtin-records abacus-1-1").fails(2, "cli::usage");
}

/// The target of the first record for a kind of machines.
fn builtin_target(kind: &str) -> String {
    infc_tune::builtin_records(kind).unwrap().records[0].target.clone()
}

/// Records of a model are those of its kernels as it is compiled: of special cases only with these, strict ones as strictly.
#[test]
fn records_of_a_model_are_chosen_as_it_is_compiled() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    let general = tasks(at, Vec::new());
    let with_three = tasks(at, vec![("N".to_owned(), vec![3])]);
    let own =
        with_three.iter().find(|task| general.iter().all(|other| other.key != task.key)).expect("a kernel of its own");
    let options = CompileOptions { strict: true, stop_after: Some(Phase::Plan), ..CompileOptions::default() };
    let compilation = infc::compile(&Source::file(at.join("digits.onnx")), &options, &mut ()).unwrap();
    let strict = Record { strict: true, ..plain(&infc::tasks(&compilation.plans())[0]) };
    let lines = [plain(&general[0]), plain(own), strict.clone()].map(|record| record.to_line()).concat();
    fs::write(at.join("some.records"), lines).unwrap();
    let exported = |choice: &str| {
        infc(at, &format!("records export some.records --model digits.onnx{choice} -o chosen")).ok();
        read(&at.join("chosen"))
    };
    assert_eq!(exported(""), [plain(&general[0]), strict.clone()]);
    assert_eq!(exported(" --specialize N=3").len(), 3);
    let fixed = exported(" --dim N=3");
    assert!(fixed.contains(&plain(own)) && !fixed.contains(&plain(&general[0])), "{fixed:?}");
    infc(at, "records export some.records --dim N=3 -o chosen").fails(2, "cli::usage");
}

/// Records of choices go through all that records of schedules do.
#[test]
fn choices_are_records() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    let (choice, schedule) = (choice(at), record(at, 0));
    let elsewhere = ChoiceRecord { question: "0".repeat(64), ..choice.clone() };
    fs::write(at.join("some.records"), [choice.to_line(), schedule.to_line(), elsewhere.to_line()].concat()).unwrap();

    let json = infc(at, "records ls some.records --format json").ok().json();
    let choices = json["choices"].as_array().unwrap();
    assert_eq!((choices.len(), json["records"].as_array().unwrap().len()), (2, 1));
    assert_eq!((choices[0]["way"].as_str(), choices[0]["instead_of"].as_str()), (Some("apart"), Some("together")));
    let text = infc(at, "records ls some.records").ok().stdout;
    assert!(text.contains("apart instead of together") && text.contains(&choice.question[..12]), "{text}");

    infc(at, "records merge some.records some.records -o all.records").ok();
    let all = RecordFile::parse(fs::read(at.join("all.records")).unwrap());
    assert_eq!((all.records.len(), all.choices.len(), all.bad.len()), (1, 2, 0));
    infc(at, "records export some.records --model digits.onnx -o mine.records").ok();
    let mine = RecordFile::parse(fs::read(at.join("mine.records")).unwrap());
    assert_eq!((mine.records, mine.choices), (vec![schedule.clone()], vec![choice.clone()]));
    let verified = infc(at, "records verify some.records -o kept.records --format json").ok().json();
    assert_eq!((verified["unchecked_choices"].as_u64(), verified["checked"].as_array().unwrap().len()), (Some(2), 1));
    assert_eq!(RecordFile::parse(fs::read(at.join("kept.records")).unwrap()).len(), 3);

    // A kernel that is only there as the choice has it is the model's, too.
    let options = CompileOptions {
        records: RecordFile { choices: vec![choice.clone()], ..RecordFile::default() }.to_records(None),
        targets: vec![TARGET.to_owned()],
        stop_after: Some(Phase::Plan),
        ..CompileOptions::default()
    };
    let compilation = infc::compile(&Source::file(at.join("digits.onnx")), &options, &mut ()).unwrap();
    let usual = tasks(at, Vec::new());
    let formed = infc::tasks(&compilation.plans());
    let new = formed.iter().find(|task| usual.iter().all(|other| other.key != task.key)).unwrap();
    fs::write(at.join("some.records"), [choice.to_line(), plain(new).to_line()].concat()).unwrap();
    infc(at, "records export some.records --model digits.onnx -o mine.records").ok();
    assert_eq!(RecordFile::parse(fs::read(at.join("mine.records")).unwrap()).len(), 2);

    let compiled = infc(at, "compile digits.onnx --target x86-64-v2 --records some.records --format json").ok().json();
    assert_eq!((compiled["recorded_choices"].as_u64(), compiled["recorded_kernels"].as_u64()), (Some(1), Some(1)));
    infc(at, "compare digits.infa --data test_data_set_0").ok();
}
