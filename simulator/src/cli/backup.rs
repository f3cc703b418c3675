//! `rewake backup …`

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use clap::Subcommand;

use super::BadInput;
use crate::tools::Archive;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Says what a backup (Velero's tar.gz) holds, and what a restore of it will trip over.
    Inspect {
        /// The archive.
        file: PathBuf,
    },
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    let Command::Inspect { file } = &arguments.command;
    let bad = |message: String| BadInput(format!("{}: {message}", file.display()));
    let content = File::open(file).map_err(|error| bad(format!("the file cannot be read: {error}")))?;
    let name = file.file_name().map(|name| name.to_string_lossy().trim_end_matches(".tar.gz").to_owned());
    let archive =
        Archive::read(&name.unwrap_or_default(), BufReader::new(content)).map_err(|error| bad(error.to_string()))?;
    print!("{}", archive.describe());
    Ok(true)
}
