//! Where the real binaries are.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

/// A binary of this workspace, built into the folder of the running one.
pub fn find(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("where this program is cannot be told")?;
    let folders = own.ancestors().skip(1).take(2);
    let found = folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file());
    ensure!(
        found.is_some(),
        "{name} is not beside {}; build it first: cargo build --workspace --bins",
        own.display()
    );
    found.context("found above")
}
