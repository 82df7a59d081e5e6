//! `tidegate completions`: shell completions, generated from the definition of the command line.

use std::io::Write;

use clap_complete::{Shell, generate};

use crate::Failure;

/// Print the completions of a shell
///
/// bash: tidegate completions bash > ~/.local/share/bash-completion/completions/tidegate
///
/// zsh: tidegate completions zsh > a folder of $fpath, as the file _tidegate
///
/// fish: tidegate completions fish > ~/.config/fish/completions/tidegate.fish
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    // Generated into a buffer first, because clap_complete panics on a closed pipe.
    let mut script = Vec::new();
    generate(args.shell, &mut crate::cli::command(), "tidegate", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(())
}
