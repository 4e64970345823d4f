//! Sixteen constants of which an instruction finds one, on machines that have it.

use super::erf::ERF;
use super::exp::ROOT_POWERS;

/// Which constants: `f32` as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Powers of the sixteenth root of two, nearly, for exponentials.
    RootPowers,
    /// The coefficients of this power, 0 to 5, of sixteen polynomials that make up the error function.
    Erf(u8),
}

impl Table {
    /// All of them.
    pub const ALL: [Table; 7] =
        [Table::RootPowers, Table::Erf(0), Table::Erf(1), Table::Erf(2), Table::Erf(3), Table::Erf(4), Table::Erf(5)];

    /// The constants; those of a power that there is not are zeros.
    #[must_use]
    pub fn values(self) -> &'static [u32; 16] {
        match self {
            Table::RootPowers => &ROOT_POWERS,
            Table::Erf(power) => ERF.get(usize::from(power)).unwrap_or(&[0; 16]),
        }
    }

    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        const ERF_NAMES: [&str; 6] = ["erf_0", "erf_1", "erf_2", "erf_3", "erf_4", "erf_5"];
        match self {
            Table::RootPowers => "root_power",
            Table::Erf(power) => ERF_NAMES.get(usize::from(power)).copied().unwrap_or("erf"),
        }
    }
}
