//! `--ptxas off|auto|PATH`: machine code for GPUs beside PTX.

use crate::console::Console;
use crate::failure::Failure;
use infc::Ptxas;
use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

/// Variables that say where a CUDA toolkit is.
const TOOLKITS: [&str; 2] = ["CUDA_HOME", "CUDA_PATH"];
/// Where it is unless somebody chose another place.
const USUAL_TOOLKIT: &str = "/usr/local/cuda";

/// Which assembler is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PtxasArg {
    Off,
    /// The one on PATH or in a toolkit, if there is one.
    Auto,
    At(PathBuf),
}

impl FromStr for PtxasArg {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "off" => Self::Off,
            "auto" => Self::Auto,
            path => Self::At(path.into()),
        })
    }
}

impl PtxasArg {
    /// The assembler, for targets of which some are GPUs or none is.
    pub(crate) fn find(&self, for_gpus: bool, console: &Console) -> Result<Option<Ptxas>, Failure> {
        let program = match self {
            Self::Off => return Ok(None),
            _ if !for_gpus => {
                console.note("  --ptxas changes nothing: no target is a GPU");
                return Ok(None);
            }
            Self::At(program) => program.clone(),
            Self::Auto => match installed() {
                Some(program) => program,
                None => {
                    console.note("  no ptxas on PATH nor in a CUDA toolkit: the artifact has PTX alone");
                    return Ok(None);
                }
            },
        };
        Ok(Some(Ptxas::at(&program)?))
    }
}

/// On PATH, or in a toolkit.
fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path);
    let named = TOOLKITS.iter().filter_map(std::env::var_os).map(PathBuf::from);
    let in_toolkits = named.chain([PathBuf::from(USUAL_TOOLKIT)]).map(|toolkit| toolkit.join("bin"));
    let name = format!("ptxas{}", std::env::consts::EXE_SUFFIX);
    on_path.chain(in_toolkits).map(|folder| folder.join(&name)).find(|program| program.is_file())
}
