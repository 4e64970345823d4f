//! `infc tune`, and compiling by what it found.

use crate::records::{choice, record};
use crate::support::{folder, infc};
use infc_tune::{ChoiceRecord, LOG_HEAD, Proven, Record};
use std::fs;

#[test]
fn what_is_found_is_compiled() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    let json = infc(at, "tune digits.onnx --trials 30 --records found --format json").ok().json();
    assert_eq!((json["schema"].as_str(), json["trials"].as_u64()), (Some("infc.tune/1"), Some(30)));
    let kernels = json["kernels"].as_array().unwrap();
    let tried: u64 = kernels.iter().map(|kernel| kernel["trials"].as_u64().unwrap()).sum();
    let failed: u64 = kernels.iter().map(|kernel| kernel["failed"].as_u64().unwrap()).sum();
    assert_eq!(tried, 30);
    assert!(failed < 10, "{failed} schedules could not be measured, or computed something else");
    let shares: f64 = kernels.iter().map(|kernel| kernel["share"].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    assert!(json["best_ms"].as_f64().unwrap() <= json["default_ms"].as_f64().unwrap());
    let won = kernels.iter().filter(|kernel| !kernel["schedule"].is_null()).count();
    let lines = fs::read_to_string(at.join("found")).map_or(0, |text| text.lines().count());
    let formed = json["formed"]["choices"].as_array().unwrap().len();
    assert_eq!(lines, won + formed, "a record per kernel, and per choice, for which something quicker was found");
}

/// Ways to form kernels are tried as often as is said, on whole runs; those of the file are taken, and measured again if that is
/// asked for.
#[test]
fn plans_are_searched() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    let tune = |words: &str| {
        let command = format!("tune digits.onnx --target x86-64-v2 --trials 0 --records found {words} --format json");
        infc(at, &command).ok().json()
    };
    let json = tune("--plan-trials 2");
    let formed = &json["formed"];
    assert_eq!(formed["trials"].as_u64(), Some(2), "{formed}");
    assert!(formed["best_ms"].as_f64().unwrap() > 0.0 && formed["default_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(tune("--plan-trials 0")["formed"]["trials"].as_u64(), Some(0));
    // A kernel that is asked for by name stays what it is.
    let key = json["kernels"][0]["key"].as_str().unwrap().to_owned();
    let of_kernel = tune(&format!("--plan-trials 2 --kernel {key}"));
    assert_eq!(of_kernel["formed"]["trials"].as_u64(), Some(0));

    // Of another machine, and of this one: an epilogue apart, whatever that costs. What a compilation takes is tuned.
    let elsewhere = choice(at);
    let here = infc(at, "doctor --format json").ok().json()["processor"].as_str().unwrap().to_owned();
    let known = ChoiceRecord { machine: here, ..elsewhere.clone() };
    let kernels = |json: &serde_json::Value| json["kernels"].as_array().unwrap().len();
    // Something may have been found.
    fs::write(at.join("found"), "").unwrap();
    let usual = kernels(&tune("--plan-trials 0"));
    fs::write(at.join("found"), elsewhere.to_line()).unwrap();
    assert_eq!(kernels(&tune("--plan-trials 0")), usual + 1, "compilations for a target with a name take it");
    fs::write(at.join("found"), known.to_line()).unwrap();
    assert_eq!(kernels(&tune("--plan-trials 0")), usual + 1);
    // It is believed for as long as nothing else was measured; what is at least as quick without it takes it out.
    assert_eq!(kernels(&tune("--plan-trials 0 --resume")), usual + 1);
    let again = tune("--plan-trials 1 --resume");
    assert_eq!(again["formed"]["trials"].as_u64(), Some(1), "what is known comes first");
    let left = fs::read_to_string(at.join("found")).unwrap();
    let refuted = again["formed"]["choices"].as_array().unwrap();
    assert_eq!(left.lines().count() + refuted.len(), 1, "{again}");
    assert!(refuted.iter().all(|choice| choice["way"] == "together" && choice["instead_of"] == "apart"), "{again}");
    assert_eq!(kernels(&again), usual + 1 - refuted.len());
}

/// Of what was found before that counts which is about the kernels at hand.
#[test]
fn searches_begin_with_what_is_known_of_their_kernels() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    let here = infc(at, "doctor --format json").ok().json()["processor"].as_str().unwrap().to_owned();
    let records = [0, 1].map(|n| Record { machine: here.clone(), ..record(at, n) });
    fs::write(at.join("found"), records.each_ref().map(Record::to_line).concat()).unwrap();
    let tune = |words: &str| {
        let command = format!("tune digits.onnx --target x86-64-v2 --trials 0 --resume --records found{words}");
        infc(at, &command).ok().stderr
    };
    let of_one = format!(" --kernel {}", records[0].kernel);
    assert!(tune(&of_one).contains("for 1 of them") && tune("").contains("for 2 of them"), "{}", tune(""));
}

/// Each way of searching measures what it is asked to, of the kernels that it is asked for, and writes that down.
#[test]
fn searches_are_logged() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    let kernels = infc(at, "tune digits.onnx --trials 0 --format json").ok().json()["kernels"].clone();
    let key = kernels[0]["key"].as_str().unwrap().to_owned();
    for how in ["guided", "evolutionary", "random"] {
        let arguments = format!("--search {how} --kernel {} --trials 6 --log log --format json", &key[..16]);
        let json = infc(at, &format!("tune digits.onnx {arguments}")).ok().json();
        assert_eq!((json["trials"].as_u64(), json["kernels"].as_array().unwrap().len()), (Some(6), 1), "{how}");
        let log = fs::read_to_string(at.join("log")).unwrap();
        let lines: Vec<serde_json::Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["schema"], &lines[0]["kernel"]), (&"infc.tuned-kernel/1".into(), &key.clone().into()));
        assert!(lines.iter().all(|line| line["kernel"] == key.as_str()), "{how}");
        // What wins is measured more than once, and has a proof for other numbers of rows.
        let proofs = lines[1..].iter().filter(|line| line["schema"] == "infc.proof/1");
        let trials = lines[1..].iter().filter(|line| line["schema"] == "infc.trial/1");
        assert_eq!(proofs.count() + trials.clone().count(), lines.len() - 1, "{how}");
        let distinct: std::collections::BTreeSet<_> = trials.map(|line| line["schedule"].as_str().unwrap()).collect();
        assert_eq!(distinct.len(), 6, "{how}");
    }
}

/// No file that is there already is lost: neither others nor records, whatever is found.
#[test]
fn other_files_are_left_alone() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    let model = fs::read(at.join("digits.onnx")).unwrap();
    infc(at, "tune digits.onnx --records digits.onnx").fails(1, "cli::cannot-read");
    infc(at, "tune digits.onnx --log digits.onnx").fails(2, "cli::usage");
    infc(at, "demo --save other").ok();
    infc(at, "tune digits.onnx --log other/digits.onnx").fails(1, "cli::cannot-write");
    infc(at, "tune digits.onnx --records nowhere/found").fails(1, "cli::cannot-write");
    infc(at, "tune digits.onnx --records -").fails(2, "cli::usage");
    infc(at, "tune digits.onnx --log -").fails(2, "cli::usage");
    // Whatever the path, a log is not begun anew over what is read; nor is anything begun without all that is.
    fs::write(at.join("earlier"), LOG_HEAD).unwrap();
    for same in ["--records one --log one", "--records ./one --log one", "--learn earlier --log ./earlier"] {
        infc(at, &format!("tune digits.onnx --trials 0 {same}")).fails(2, "cli::usage");
    }
    infc(at, "tune digits.onnx --trials 0 --learn nowhere --log earlier").fails(1, "cli::cannot-read");
    assert_eq!(fs::read_to_string(at.join("earlier")).unwrap(), LOG_HEAD);
    assert!(fs::read(at.join("digits.onnx")).unwrap() == model);
    // Lines of another version stay, and a record that is better than what can be found.
    let here = infc(at, "doctor --format json").ok().json()["processor"].as_str().unwrap().to_owned();
    let best = Record { machine: here, ratio_at_most: 1e-6, seconds: 1e-12, ..record(at, 1) };
    let newer = best.to_line().replace("infc.record/2", "infc.record/3");
    let damaged = b"{\"schema\":\"infc.record/2\",\xff\xfe\x00\xc3}\n";
    let lines = [newer.as_bytes(), damaged, best.to_line().as_bytes()].concat();
    fs::write(at.join("found"), lines).unwrap();
    infc(at, "tune digits.onnx --target x86-64-v2 --trials 30 --records found").ok();
    let found = fs::read(at.join("found")).unwrap();
    for line in [newer.as_bytes(), damaged, best.to_line().as_bytes()] {
        assert!(found.windows(line.len()).any(|bytes| bytes == line), "{}", String::from_utf8_lossy(line));
    }
}

/// A record whose schedule differs from the default is taken, and gives the same bytes every time.
#[test]
fn records_are_taken() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    infc(at, "compile digits.onnx --target x86-64-v2 -o plain.infa").ok();
    fs::write(at.join("records"), record(at, 0).to_line()).unwrap();
    let with = "compile digits.onnx --target x86-64-v2 --records records";
    infc(at, &format!("{with} -o a.infa")).ok();
    infc(at, &format!("{with} -o b.infa")).ok();
    let read = |name: &str| fs::read(at.join(name)).unwrap();
    assert!(read("a.infa") == read("b.infa"), "the same records give the same bytes");
    assert!(read("a.infa") != read("plain.infa"), "the record is taken");
    infc(at, "compare a.infa --data test_data_set_0").ok();
}

#[test]
fn records_that_are_wrong_are_told_and_left_out() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    infc(at, "compile digits.onnx --target x86-64-v2 -o plain.infa").ok();
    let good = record(at, 0).to_line();
    let mut illegal: serde_json::Value = serde_json::from_str(&good).unwrap();
    illegal["schedule"] = "unroll nothing.x".into();
    for (text, said) in [
        (format!("\u{0}\u{1}garbage\n{good}"), "record not taken"),
        (good.replace("\"space\":1", "\"space\":77"), "version 77"),
        (good.replace("infc.record/2", "infc.record/1"), "found infc.record/1"),
        (format!("{illegal}\n"), "record not taken"),
    ] {
        fs::write(at.join("records"), text).unwrap();
        let told = infc(at, "compile digits.onnx --target x86-64-v2 --records records -o a.infa").ok();
        assert!(told.stderr.contains(said), "{}", told.stderr);
        infc(at, "compare a.infa --data test_data_set_0").ok();
    }
    infc(at, "compile digits.onnx --records nowhere").fails(1, "cli::cannot-read");
    infc(at, "compile digits.onnx --records digits.onnx").fails(1, "cli::cannot-read");
    infc(at, "tune digits.onnx --target x86-64-v9").fails(2, "cli::usage");
    infc(at, "tune digits.onnx --kernel nothing").fails_after_notes(2, "cli::usage");
    infc(at, "tune digits.onnx --budget soon").fails(2, "cli::usage");
    infc(at, "tune nothing.onnx").fails(1, "onnx::cannot-read");
}

/// Where the profile is that a run without a model wrote.
fn profile_of(at: &std::path::Path) -> std::path::PathBuf {
    let mut files = fs::read_dir(at.join(".data/infc/machines")).unwrap();
    let path = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none(), "one file per machine and target");
    path
}

/// Without a model the machine is measured: what is written is what `native` takes, and no other target.
#[test]
fn the_machine_is_measured() {
    let folder = folder();
    let at = folder.path();
    let json = infc(at, "tune --trials 2 --format json").ok().json();
    assert_eq!((json["trials"].as_u64(), &json["model"]), (Some(2), &serde_json::Value::Null));
    let measured = &json["profile"]["measured"];
    assert_eq!(measured["memory"].as_array().unwrap().len(), 4, "{measured}");
    let compared = measured["compared"].as_array().unwrap();
    assert_eq!((compared.len(), compared.iter().filter(|c| c["taken"] == true).count()), (3, 1), "{measured}");
    assert!(json["kernels"].as_array().unwrap().iter().all(|kernel| kernel["default_us"].as_f64().unwrap() > 0.0));
    let path = profile_of(at);
    assert_eq!(json["profile"]["file"].as_str(), path.to_str());
    // It counts from now on.
    infc(at, "demo --save .").ok();
    let doctor = infc(at, "doctor --format json").ok().json();
    assert!(doctor["profile"].as_str().unwrap().starts_with("measured: L1 "), "{doctor}");
    let told = infc(at, "compile digits.onnx --target native").ok();
    assert!(told.stderr.contains(&format!("in {}", path.display())), "{}", told.stderr);
    infc(at, "compare digits.infa --data test_data_set_0").ok();
    assert!(!infc(at, "compile digits.onnx").ok().stderr.contains("measured"));
    infc(at, "tune --target x86-64-v2").fails(2, "cli::usage");
}

/// A profile that is damaged, of another machine or another version is told and left out: the artifact is that of the fixed
/// machine. One with other numbers counts, whatever they are, and makes code that is right.
#[test]
fn profiles_are_read_with_caution() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    infc(at, "tune --trials 0").ok();
    let path = profile_of(at);
    let good = fs::read_to_string(&path).unwrap();
    let profile: serde_json::Value = serde_json::from_str(&good).unwrap();
    let native = profile["target"].as_str().unwrap().to_owned();
    infc(at, &format!("compile digits.onnx --target {native} -o fixed.infa")).ok();
    let compile = || {
        let told = infc(at, "compile digits.onnx --target native -o native.infa").ok().stderr;
        (told, fs::read(at.join("native.infa")).unwrap())
    };
    let fixed = fs::read(at.join("fixed.infa")).unwrap();
    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut changed = profile.clone();
        change(&mut changed);
        changed.to_string()
    };
    for (text, said) in [
        ("garbage".to_owned(), "expected"),
        (String::new(), "EOF"),
        (good[..good.len() / 2].to_owned(), "EOF"),
        (" ".repeat(1 << 20), "found more"),
        (with(&|p| p["schema"] = "infc.machine/9".into()), "found infc.machine/9"),
        (with(&|p| p["processor"] = "Abacus".into()), "found `Abacus`"),
        (with(&|p| p["target"] = "x86-64-v2".into()), "found `x86-64-v2`"),
        (with(&|p| p["model"]["l1d_bytes"] = 0.into()), "l1d_bytes: expected"),
        (with(&|p| p["model"]["fma_per_cycle"] = (-1).into()), "invalid value"),
        (with(&|p| p["model"]["l2_bytes"] = u64::MAX.into()), "l2_bytes: expected"),
    ] {
        fs::write(&path, text).unwrap();
        let (told, bytes) = compile();
        assert!(told.contains("machine profile not taken") && told.contains(said), "{said}: {told}");
        assert!(bytes == fixed, "{said}");
    }
    for (l1, l2, one) in [(4 << 10, 4 << 10, 1), (4 << 30, 4i64 << 30, 8)] {
        let odd = with(&|p| {
            let numbers = p["model"].as_object_mut().unwrap();
            numbers.values_mut().for_each(|number| *number = one.into());
            for (name, bytes) in [("l1d_bytes", l1), ("l2_bytes", l2), ("l3_bytes", l2)] {
                numbers[name] = bytes.into();
            }
        });
        fs::write(&path, odd).unwrap();
        let (told, bytes) = compile();
        assert!(told.contains(&format!("{one} multiply-adds of {one} cycles")), "{told}");
        assert!(bytes != fixed, "the artifact says what machine its schedules have in mind");
        infc(at, "compare native.infa --data test_data_set_0").ok();
        // Nobody else's code depends on it.
        infc(at, &format!("compile digits.onnx --target {native} -o named.infa")).ok();
        assert!(fs::read(at.join("named.infa")).unwrap() == fixed);
    }
    fs::remove_file(&path).unwrap();
    assert!(compile().1 == fixed);
}

/// A search may begin with what others have measured, and is another one then.
#[test]
fn searches_learn_from_earlier_ones() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    infc(at, "tune digits.onnx --search random --trials 40 --log first").ok();
    let told = infc(at, "tune digits.onnx --trials 20 --learn first --log second").ok().stderr;
    let count = told.split("learned from ").nth(1).and_then(|rest| rest.split(' ').next()).and_then(|n| n.parse().ok());
    assert!(count.is_some_and(|count: usize| (20..=40).contains(&count)), "{told}");
    // Records teach as well; what is neither does not.
    fs::write(at.join("records"), record(at, 0).to_line()).unwrap();
    let told = infc(at, "tune digits.onnx --trials 0 --learn records --learn digits.onnx").ok().stderr;
    assert!(told.contains("learned from 1 schedules of records"), "{told}");
    assert!(told.contains("learned from 0 schedules of digits.onnx"), "{told}");
}

/// Threads are written down with what was found, a search goes on with what is there, and compilations take what was found
/// with as many threads.
#[test]
fn threads_are_part_of_what_is_found() {
    let folder = folder();
    let at = folder.path();
    infc(at, "demo --save .").ok();
    let cores = std::thread::available_parallelism().unwrap().get();
    let json = infc(at, &format!("tune digits.onnx --threads {cores} --trials 4 --log log --format json")).ok().json();
    assert_eq!(json["threads"].as_u64(), Some(cores as u64));
    let log = fs::read_to_string(at.join("log")).unwrap();
    let head: serde_json::Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    // Logs do not say so of one thread.
    assert_eq!(head["threads"].as_u64(), (cores > 1).then_some(cores as u64));
    for wrong in ["0", "two", &(cores + 1).to_string()] {
        infc(at, &format!("tune digits.onnx --threads {wrong} --trials 1")).fails(2, "cli::usage");
    }
    // What was found on this machine before is measured again, and what was found elsewhere is left as it is.
    let elsewhere = record(at, 0);
    let machine = infc(at, "doctor --format json").ok().json()["processor"].as_str().unwrap().to_owned();
    let here = Record { machine, ..elsewhere.clone() };
    for (known, count) in [(&elsewhere, 0), (&here, 1)] {
        fs::write(at.join("known"), known.to_line()).unwrap();
        let target = &known.target;
        let run = infc(at, &format!("tune digits.onnx --target {target} --trials 0 --records known --resume")).ok();
        assert_eq!(run.stderr.contains("was found before for 1 of them"), count == 1, "{}", run.stderr);
        assert_eq!(fs::read_to_string(at.join("known")).unwrap(), known.to_line());
    }
    // A file may say anything.
    let mut illegal: serde_json::Value = serde_json::from_str(&here.to_line()).unwrap();
    illegal["schedule"] = "unroll nothing.x".into();
    fs::write(at.join("known"), format!("{illegal}\n")).unwrap();
    let resumed = infc(at, "tune digits.onnx --target x86-64-v2 --trials 0 --records known --resume").ok();
    assert!(resumed.stderr.contains("record not taken"), "{}", resumed.stderr);
    assert!(!resumed.stderr.contains("was found before"), "{}", resumed.stderr);
    infc(at, "compile digits.onnx --records known --threads 0").fails(2, "cli::usage");
}
