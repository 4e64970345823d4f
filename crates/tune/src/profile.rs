//! Machine profiles: what was measured of a machine once, for the schedules of its native code.
//!
//! A profile is one JSON object in a file. It is for one processor and one target, and says so: who reads it for another, of
//! another version, or with numbers that no machine has, gets the reason instead. The numbers only lead the default choice;
//! whatever they are, schedules are as legal as others.

use infc::{MachineModel, Target};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// The schema of a profile; counted on whenever numbers get another meaning.
const SCHEMA: &str = "infc.machine/1";
/// Bytes that a profile takes at most.
pub const PROFILE_BYTES: u64 = 64 << 10;

/// What is known of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineProfile {
    /// `infc.machine/1`.
    schema: String,
    /// The target whose schedules it is for.
    target: String,
    /// The processor that was measured, with its caches.
    processor: String,
    /// What schedules are told.
    model: Numbers,
    /// What that follows from.
    pub measured: Measured,
}

/// The part of a [`MachineModel`] that does not follow from the target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Numbers {
    l1d_bytes: u64,
    l2_bytes: u64,
    l3_bytes: u64,
    fma_per_cycle: u32,
    loads_per_cycle: u32,
    fma_latency: u32,
    l2_bytes_per_cycle: u32,
    l3_bytes_per_cycle: u32,
}

/// What was measured, of one core unless it says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Nanoseconds of an addition that waits for the one before: a cycle.
    pub cycle_ns: f64,
    /// Cycles of a fused multiply-add that waits for the one before; of a product and a sum where there are none.
    pub multiply_add_cycles: f64,
    /// Vectors of full width loaded per cycle from the first cache.
    pub loads_per_cycle: f64,
    /// How much arithmetic code for each level does, the widest vectors first.
    pub arithmetic: Vec<Arithmetic>,
    /// How quickly memory is read and written, the nearest first.
    pub memory: Vec<Memory>,
    /// Threads that the next number is of.
    pub threads: usize,
    /// Microseconds until all threads have begun a launch and ended it; `None` of one thread.
    pub hand_off_us: Option<f64>,
    /// The descriptions of the machine that were compared, and the time of the built-in kernels by the schedules that
    /// follow from each, over that by the schedules of the target's fixed model: the geometric mean.
    pub compared: Vec<Compared>,
}

/// A description of the machine that schedules were chosen for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// `fixed`, `caches` or `measured`.
    pub description: String,
    /// Times over those of `fixed`.
    pub ratio: f64,
    /// Whether it is what the profile says.
    pub taken: bool,
}

/// Multiply-adds of 32-bit floats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arithmetic {
    /// What the code is made for.
    pub target: String,
    /// Width of its vectors.
    pub vector_bits: u32,
    /// 10^9 operations per second in a matrix product; a multiply-add is two.
    pub gflops: f64,
}

/// How quickly a set of so many bytes is gone through again and again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// `L1`, `L2`, `L3` or `memory`.
    pub level: String,
    /// Bytes that are gone through.
    pub bytes: u64,
    /// 10^9 bytes per second.
    pub read_gb_per_s: f64,
    /// The same, written.
    pub write_gb_per_s: f64,
}

/// Caches that there are.
const CACHE_BYTES: RangeInclusive<u64> = (4 << 10)..=(4 << 30);
/// Instructions that are begun in a cycle.
const PER_CYCLE: RangeInclusive<u32> = 1..=8;
/// Cycles of an instruction.
const LATENCY: RangeInclusive<u32> = 1..=32;
/// What caches deliver.
const BYTES_PER_CYCLE: RangeInclusive<u32> = 1..=512;

impl MachineProfile {
    /// A profile of this version. The machine is that of the target.
    #[must_use]
    pub fn new(target: &Target, processor: String, measured: Measured) -> Self {
        let model = Numbers {
            l1d_bytes: target.machine.l1d_bytes,
            l2_bytes: target.machine.l2_bytes,
            l3_bytes: target.machine.l3_bytes,
            fma_per_cycle: target.machine.fma_per_cycle,
            loads_per_cycle: target.machine.loads_per_cycle,
            fma_latency: target.machine.fma_latency,
            l2_bytes_per_cycle: target.machine.l2_bytes_per_cycle,
            l3_bytes_per_cycle: target.machine.l3_bytes_per_cycle,
        };
        Self { schema: SCHEMA.to_owned(), target: target.to_string(), processor, model, measured }
    }

    /// The object, on lines of its own.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Reads a profile for a target on a processor.
    ///
    /// # Errors
    /// What is expected and found: text that is no profile, of another version, for another machine or target, or with
    /// numbers that no machine has.
    pub fn parse(text: &str, target: &Target, processor: &str) -> Result<Self, String> {
        /// What profiles of all versions have.
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        let head: Head = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if head.schema != SCHEMA {
            return Err(format!("schema: expected {SCHEMA}, found {}", head.schema));
        }
        let profile: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        for (what, found, expected) in
            [("target", &profile.target, target.to_string()), ("processor", &profile.processor, processor.to_owned())]
        {
            if *found != expected {
                return Err(format!("{what}: expected `{expected}`, found `{found}`"));
            }
        }
        profile.model.check()?;
        Ok(profile)
    }

    /// A target with the machine that was measured.
    #[must_use]
    pub fn applied_to(&self, target: &Target) -> Target {
        let numbers = self.model;
        let machine = MachineModel {
            l1d_bytes: numbers.l1d_bytes,
            l2_bytes: numbers.l2_bytes,
            l3_bytes: numbers.l3_bytes,
            fma_per_cycle: numbers.fma_per_cycle,
            loads_per_cycle: numbers.loads_per_cycle,
            fma_latency: numbers.fma_latency,
            l2_bytes_per_cycle: numbers.l2_bytes_per_cycle,
            l3_bytes_per_cycle: numbers.l3_bytes_per_cycle,
            ..target.machine
        };
        with_machine(target, machine)
    }
}

impl Numbers {
    fn check(&self) -> Result<(), String> {
        fn within<T: Copy + PartialOrd + std::fmt::Display>(
            what: &str,
            found: T,
            range: &RangeInclusive<T>,
        ) -> Result<(), String> {
            if range.contains(&found) {
                return Ok(());
            }
            Err(format!("{what}: expected {} to {}, found {found}", range.start(), range.end()))
        }
        within("l1d_bytes", self.l1d_bytes, &CACHE_BYTES)?;
        within("l2_bytes", self.l2_bytes, &CACHE_BYTES)?;
        within("l3_bytes", self.l3_bytes, &CACHE_BYTES)?;
        within("fma_per_cycle", self.fma_per_cycle, &PER_CYCLE)?;
        within("loads_per_cycle", self.loads_per_cycle, &PER_CYCLE)?;
        within("fma_latency", self.fma_latency, &LATENCY)?;
        within("l2_bytes_per_cycle", self.l2_bytes_per_cycle, &BYTES_PER_CYCLE)?;
        within("l3_bytes_per_cycle", self.l3_bytes_per_cycle, &BYTES_PER_CYCLE)?;
        if self.l1d_bytes > self.l2_bytes {
            return Err(format!("l2_bytes: expected l1d_bytes ({}) at least, found {}", self.l1d_bytes, self.l2_bytes));
        }
        Ok(())
    }
}

/// A target whose schedules have a machine in mind.
#[must_use]
pub fn with_machine(target: &Target, machine: MachineModel) -> Target {
    let mut target = target.clone();
    target.machine = machine;
    target
}

/// The numbers that schedules are told, as integers that machines have.
#[must_use]
pub fn plausible(model: MachineModel) -> MachineModel {
    fn to<T: Copy + Ord>(found: T, range: &RangeInclusive<T>) -> T {
        found.clamp(*range.start(), *range.end())
    }
    let l1d_bytes = to(model.l1d_bytes, &CACHE_BYTES);
    MachineModel {
        l1d_bytes,
        l2_bytes: to(model.l2_bytes, &CACHE_BYTES).max(l1d_bytes),
        l3_bytes: to(model.l3_bytes, &CACHE_BYTES),
        fma_per_cycle: to(model.fma_per_cycle, &PER_CYCLE),
        loads_per_cycle: to(model.loads_per_cycle, &PER_CYCLE),
        fma_latency: to(model.fma_latency, &LATENCY),
        l2_bytes_per_cycle: to(model.l2_bytes_per_cycle, &BYTES_PER_CYCLE),
        l3_bytes_per_cycle: to(model.l3_bytes_per_cycle, &BYTES_PER_CYCLE),
        ..model
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESSOR: &str = "Some, L1 48 KiB, L2 2048 KiB";

    fn target() -> Target {
        let mut target: Target = "x86-64-v4+vnni".parse().expect("a target");
        target.machine.l1d_bytes = 48 << 10;
        target.machine.fma_per_cycle = 1;
        target
    }

    fn text() -> String {
        let measured = Measured { cycle_ns: 0.25, ..Measured::default() };
        MachineProfile::new(&target(), PROCESSOR.to_owned(), measured).to_text()
    }

    #[test]
    fn what_is_written_is_read() {
        let plain: Target = "x86-64-v4+vnni".parse().expect("a target");
        let profile = MachineProfile::parse(&text(), &plain, PROCESSOR).expect("a profile");
        assert_eq!(profile.measured.cycle_ns, 0.25);
        assert_eq!(profile.applied_to(&plain), target());
        assert_eq!(profile.to_text(), text());
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        let refused = |text: &str| MachineProfile::parse(text, &target(), PROCESSOR).expect_err("it is refused");
        let with = |from: &str, to: &str| {
            assert!(text().contains(from), "{from}");
            refused(&text().replace(from, to))
        };
        assert!(with("infc.machine/1", "infc.machine/2").contains("expected infc.machine/1"));
        assert!(with("x86-64-v4+vnni", "x86-64-v4").starts_with("target: expected `x86-64-v4+vnni`"));
        assert!(with("L2 2048", "L2 1024").starts_with("processor: expected `Some, L1 48 KiB, L2 2048 KiB`"));
        for (from, to, said) in [
            ("\"l1d_bytes\": 49152", "\"l1d_bytes\": 0", "l1d_bytes"),
            ("\"l1d_bytes\": 49152", "\"l1d_bytes\": 4000000", "l2_bytes"),
            ("\"l2_bytes\": 1048576", "\"l2_bytes\": 18446744073709551615", "l2_bytes"),
            ("\"fma_per_cycle\": 1", "\"fma_per_cycle\": 4294967295", "fma_per_cycle"),
            ("\"fma_latency\": 4", "\"fma_latency\": 0", "fma_latency"),
            ("\"l2_bytes_per_cycle\": 24", "\"l2_bytes_per_cycle\": 0", "l2_bytes_per_cycle"),
            ("\"l3_bytes_per_cycle\": 16", "\"l3_bytes_per_cycle\": 513", "l3_bytes_per_cycle"),
            ("\"l1d_bytes\": 49152", "\"l1d_bytes\": -1", "expected u64"),
        ] {
            assert!(with(from, to).contains(said), "{to}: {}", with(from, to));
        }
        for end in 0..text().len() - 2 {
            refused(&text()[..end]);
        }
    }

    #[test]
    fn whatever_is_measured_makes_a_profile_that_is_read() {
        let mut all = vec![target().machine];
        for huge in [0, u32::MAX] {
            all.push(MachineModel {
                l1d_bytes: u64::from(huge) << 8,
                l2_bytes: 1,
                l3_bytes: u64::MAX - u64::from(huge),
                fma_per_cycle: huge,
                loads_per_cycle: huge,
                fma_latency: huge,
                l2_bytes_per_cycle: huge,
                l3_bytes_per_cycle: huge,
                ..target().machine
            });
        }
        for machine in all {
            let target = with_machine(&target(), plausible(machine));
            let text = MachineProfile::new(&target, PROCESSOR.to_owned(), Measured::default()).to_text();
            let profile = MachineProfile::parse(&text, &target, PROCESSOR).expect("a profile");
            assert_eq!(profile.applied_to(&target), target);
        }
    }
}
