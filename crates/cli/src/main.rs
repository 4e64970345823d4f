//! The command `infc`.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    infc_cli::main(None)
}
