//! The `rewake` program; everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    rewake::cli::main()
}
