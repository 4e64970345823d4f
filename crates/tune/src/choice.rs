//! A record of a choice: another way to form kernels than what is estimated to be the best one, and by how much a model that
//! asks for it was quicker.

use crate::proven::{Place, Proven, Times, line};
use crate::record::Proof;
use infc::{KernelKey, VariantTarget, Way};
use serde::{Deserialize, Serialize};

/// The schema of a line.
const SCHEMA: &str = "infc.choice/1";
/// How the schemas of lines begin in all versions.
pub(crate) const SCHEMA_FAMILY: &str = "infc.choice/";

/// A way to form kernels that was quicker than the estimated one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChoiceRecord {
    /// `infc.choice/1`.
    pub schema: String,
    /// The hash of the question's text, as a [`KernelKey`].
    pub question: String,
    /// What kind of question it is; for people.
    pub kind: String,
    /// Where the model asks it; for people.
    pub name: String,
    /// The target that code was made for.
    pub target: String,
    /// The processor that it was measured on, with its caches.
    pub machine: String,
    /// Threads that it was measured with.
    pub threads: usize,
    /// Whether it was found under `--strict`.
    pub strict: bool,
    /// The way that was quicker.
    pub way: String,
    /// The way that was taken before: the estimated one, or one that was found before it.
    pub instead_of: String,
    /// Seconds of a run of the whole model.
    pub seconds: f64,
    /// The same with what is estimated, measured in turns with it.
    pub default_seconds: f64,
    /// The upper end of the 95 % interval of the one over the other; below 1.
    pub ratio_at_most: f64,
}

impl ChoiceRecord {
    /// A record of this version; the places are to be filled in.
    #[must_use]
    pub fn new(choice: &infc::Choice, way: Way, proof: Proof) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            question: KernelKey::of_text(&choice.question).to_string(),
            kind: choice.kind().to_owned(),
            name: choice.origins.first().cloned().unwrap_or_default(),
            target: String::new(),
            machine: String::new(),
            threads: 1,
            strict: false,
            way: way.to_string(),
            instead_of: choice.taken.to_string(),
            seconds: proof.default_seconds * proof.ratio,
            default_seconds: proof.default_seconds,
            ratio_at_most: proof.ratio_at_most,
        }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// What is expected and found: text that is no such record, of another version, or that contradicts itself.
    pub fn parse(line: &str) -> Result<Self, String> {
        /// What lines of all versions have.
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        let head: Head = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if head.schema != SCHEMA {
            return Err(format!("expected {SCHEMA}, found {}", head.schema));
        }
        let record: Self = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let (key, target, _) = record.parts()?;
        for (what, found, usual) in
            [("question", &record.question, key.to_string()), ("target", &record.target, target.to_string())]
        {
            if *found != usual {
                return Err(format!("{what} `{found}`: expected `{usual}`"));
            }
        }
        record.times().check(record.threads)?;
        Ok(record)
    }

    /// What it is for and says; all of it was read when the line was.
    ///
    /// # Errors
    /// The part that cannot be read, and why.
    pub fn parts(&self) -> Result<(KernelKey, VariantTarget, Way), String> {
        let key = self.question.parse().map_err(|error| format!("question `{}`: {error}", self.question))?;
        let target = self.target.parse().map_err(|error| format!("target `{}`: {error}", self.target))?;
        let way = self.way.parse().map_err(|error| format!("way `{}`: {error}", self.way))?;
        Ok((key, target, way))
    }
}

impl Proven for ChoiceRecord {
    fn times(&self) -> Times {
        let &Self { seconds, default_seconds, ratio_at_most, .. } = self;
        Times { seconds, default_seconds, ratio_at_most }
    }

    /// The question stands for the kernel.
    fn place(&self) -> Place<'_> {
        (&self.question, &self.target, &self.machine, self.threads, self.strict)
    }

    fn to_line(&self) -> String {
        line(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn record() -> ChoiceRecord {
        let choice = infc::Choice {
            question: "attention\ngraph @\"\"() -> ()\n".to_owned(),
            ways: vec![Way::Together, Way::Apart],
            taken: Way::Together,
            answer: None,
            origins: vec!["/layer.0/MatMul".to_owned()],
        };
        let proof = Proof { default_seconds: 2.0, ratio: 0.75, ratio_at_most: 0.8 };
        let record = ChoiceRecord::new(&choice, Way::Apart, proof);
        ChoiceRecord { target: "x86-64-v3".to_owned(), machine: "Abacus".to_owned(), ..record }
    }

    #[test]
    fn what_is_written_is_read() {
        let record = record();
        assert_eq!(ChoiceRecord::parse(record.to_line().trim_end()), Ok(record.clone()));
        assert_eq!((record.kind.as_str(), record.instead_of.as_str()), ("attention", "together"));
        assert_eq!(record.parts().map(|(_, _, way)| way), Ok(Way::Apart));
    }

    #[test]
    fn other_versions_are_told_by_their_schema() {
        let error =
            ChoiceRecord::parse("{\"schema\":\"infc.choice/2\",\"way\":[]}").expect_err("it is another version");
        assert!(error.contains("found infc.choice/2"), "{error}");
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let with = |change: &dyn Fn(&mut ChoiceRecord)| {
            let mut record = record();
            change(&mut record);
            ChoiceRecord::parse(&record.to_line()).expect_err("it is wrong")
        };
        assert!(with(&|r| r.schema = "infc.choice/2".to_owned()).contains("found infc.choice/2"));
        assert!(with(&|r| r.question.truncate(3)).contains("hexadecimal"));
        assert!(with(&|r| r.question = r.question.to_uppercase()).contains("expected `"));
        assert!(with(&|r| r.target = "z80".to_owned()).contains("z80"));
        assert!(with(&|r| r.way = "sideways".to_owned()).contains("innermost N"));
        assert!(with(&|r| r.seconds = 1.9).contains("ratio_at_most"));
        assert!(with(&|r| r.ratio_at_most = 1.0).contains("below 1"));
        assert!(with(&|r| r.threads = 0).contains("threads"));
    }
}
