//! A record: a schedule that was found for a kernel, and by how much it is quicker than the default choice.

use crate::profile::with_machine;
use crate::proven::{Place, Proven, Times, line};
use infc::{KernelKey, MachineModel, RecordedCode, Task, VariantTarget, recorded_code};
use infc_ir::schedule::Schedule;
use infc_passes::ErrorClass;
use serde::{Deserialize, Serialize};

/// Counts changes of the schedule language after which the text of a schedule means something else.
pub const SPACE_VERSION: u32 = 1;

/// The schema of a line.
const SCHEMA: &str = "infc.record/2";
/// How the schemas of lines begin in all versions.
pub(crate) const SCHEMA_FAMILY: &str = "infc.record/";

/// A schedule that was quicker than the default choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// `infc.record/2`.
    pub schema: String,
    /// [`SPACE_VERSION`] when it was found.
    pub space: u32,
    /// The [`KernelKey`] as text: the hash of `text`.
    pub kernel: String,
    /// What the kernel was called; for people.
    pub name: String,
    /// The target that code was made for.
    pub target: String,
    /// The processor that it was measured on, with its caches.
    pub machine: String,
    /// Threads that it was measured with.
    pub threads: usize,
    /// Whether it was found under `--strict`.
    pub strict: bool,
    /// The steps.
    pub schedule: String,
    /// Seconds per launch.
    pub seconds: f64,
    /// The same of the default choice, measured in turns with it.
    pub default_seconds: f64,
    /// The upper end of the 95 % interval of the time over that of the default, by runs that took turns; below 1.
    pub ratio_at_most: f64,
    /// Hash of the machine code that was measured.
    pub code: String,
    /// The same of the default choice.
    pub default_code: String,
    /// The kernel as it was planned, without its name.
    pub text: String,
}

/// What a measurement says of a schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proof {
    /// Seconds per launch of the default choice.
    pub default_seconds: f64,
    /// The schedule's time over that: the median of turns.
    pub ratio: f64,
    /// The upper end of its 95 % interval.
    pub ratio_at_most: f64,
}

/// Whether a record still says what would happen now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The schedule is legal, and its code and the default's are those that were measured.
    Measured,
    /// The schedule is legal, but other code than what was measured would run: its own or the default's. This is what
    /// they are now.
    Changed(RecordedCode),
    /// Compilations leave it out, for this reason.
    Illegal(String),
}

impl Record {
    /// A record of this version for a task.
    ///
    /// # Errors
    /// The reason why compilations would not take the schedule.
    pub fn new(
        task: &Task,
        target: &VariantTarget,
        strict: bool,
        schedule: &Schedule,
        proof: Proof,
    ) -> Result<Self, String> {
        let code = recorded_code(&task.text, schedule, target, allowed(strict))?;
        let record = Self {
            schema: SCHEMA.to_owned(),
            space: SPACE_VERSION,
            kernel: task.key.to_string(),
            name: task.kernel.name.clone(),
            target: target.to_string(),
            machine: String::new(),
            threads: 1,
            strict,
            schedule: schedule.to_string(),
            seconds: 0.0,
            default_seconds: 0.0,
            ratio_at_most: 0.0,
            code: String::new(),
            default_code: String::new(),
            text: task.text.clone(),
        };
        Ok(record.proven(proof, code))
    }

    /// The same record after it was measured again.
    #[must_use]
    pub fn proven(self, proof: Proof, code: RecordedCode) -> Self {
        Self {
            seconds: proof.default_seconds * proof.ratio,
            default_seconds: proof.default_seconds,
            ratio_at_most: proof.ratio_at_most,
            code: code.code,
            default_code: code.default_code,
            ..self
        }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// What is expected and found: text that is no record, of another version, or that contradicts itself.
    pub fn parse(line: &str) -> Result<Self, String> {
        /// What lines of all versions have.
        #[derive(Deserialize)]
        struct Head {
            schema: String,
            space: u32,
        }
        let head: Head = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if head.schema != SCHEMA || head.space != SPACE_VERSION {
            let found = format!("{} of version {}", head.schema, head.space);
            return Err(format!("expected {SCHEMA} of version {SPACE_VERSION}, found {found}"));
        }
        let record: Self = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let (key, target, _) = record.parts()?;
        // Records are told apart by these texts, so there is one for each key and target.
        for (what, found, usual) in
            [("kernel", &record.kernel, key.to_string()), ("target", &record.target, target.to_string())]
        {
            if *found != usual {
                return Err(format!("{what} `{found}`: expected `{usual}`"));
            }
        }
        let of_text = KernelKey::of_text(&record.text);
        if key != of_text {
            return Err(format!("kernel `{}`: the text is that of {of_text}", record.kernel));
        }
        record.times().check(record.threads)?;
        Ok(record)
    }

    /// What it is for and says; all of it was read when the line was.
    ///
    /// # Errors
    /// The part that cannot be read, and why.
    pub fn parts(&self) -> Result<(KernelKey, VariantTarget, Schedule), String> {
        let key = self.kernel.parse().map_err(|error| format!("kernel `{}`: {error}", self.kernel))?;
        let target = self.target.parse().map_err(|error| format!("target `{}`: {error}", self.target))?;
        let schedule = self.schedule.parse().map_err(|error| format!("schedule: {error}"))?;
        Ok((key, target, schedule))
    }

    /// Compiles its kernel by the schedule and by the default choice, and compares with what was measured. `machine` is what
    /// the default choice has in mind, if that is not the fixed machine of the record's target.
    #[must_use]
    pub fn standing(&self, machine: Option<MachineModel>) -> Standing {
        let compiled = self.parts().and_then(|(_, target, schedule)| {
            let target = match target {
                VariantTarget::Cpu(target) => with_machine(&target, machine.unwrap_or(target.machine)).into(),
                gpu @ VariantTarget::Cuda(_) => gpu,
            };
            recorded_code(&self.text, &schedule, &target, allowed(self.strict))
        });
        match compiled {
            Err(reason) => Standing::Illegal(reason),
            Ok(now) if now.code == self.code && now.default_code == self.default_code => Standing::Measured,
            Ok(now) => Standing::Changed(now),
        }
    }
}

impl Proven for Record {
    fn times(&self) -> Times {
        let &Self { seconds, default_seconds, ratio_at_most, .. } = self;
        Times { seconds, default_seconds, ratio_at_most }
    }

    fn place(&self) -> Place<'_> {
        (&self.kernel, &self.target, &self.machine, self.threads, self.strict)
    }

    fn to_line(&self) -> String {
        line(self)
    }
}

/// How far results may differ from the kernel's own.
fn allowed(strict: bool) -> ErrorClass {
    if strict { ErrorClass::Exact } else { ErrorClass::Reassociating }
}
