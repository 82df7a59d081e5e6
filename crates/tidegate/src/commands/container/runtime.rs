//! `tidegate oci --runtime`: an OCI runtime around another one, for Docker, which has no folder of hooks but may be told of further
//! runtimes. It adds our hooks to the configuration of a container that is created, and leaves everything else to the other runtime.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::Failure;

/// The longest configuration of a container, in bytes.
const LONGEST: u64 = 16 << 20;
/// The commands of a runtime that make a container.
const MAKES: [&str; 2] = ["create", "run"];

/// Runs `runtime` with `words` in the place of this process. Hooks with the arguments `hook` are added to a container that it makes.
/// Returns only where that fails.
pub fn run(runtime: &Path, words: &[OsString], hook: &[String]) -> Result<(), Failure> {
    if let Some(bundle) = bundle_of(words) {
        let file = bundle.join("config.json");
        add_hooks(&file, hook).map_err(|error| {
            let text = format!("cannot add a hook to {}: {error}; the container is not made", file.display());
            Failure::Failed(text)
        })?;
    }
    let error = Command::new(runtime).args(words).exec();
    Err(Failure::Failed(format!("cannot run the runtime {}: {error}", runtime.display())))
}

/// The folder of the container that these words make, if they make one.
fn bundle_of(words: &[OsString]) -> Option<PathBuf> {
    let at = words.iter().position(|word| MAKES.iter().any(|makes| word == makes))?;
    let mut bundle = PathBuf::from(".");
    let mut after = words[at + 1..].iter();
    while let Some(word) = after.next() {
        let joined = word.to_str().and_then(|word| word.strip_prefix("--bundle=").or(word.strip_prefix("-b=")));
        if let Some(folder) = joined {
            bundle = folder.into();
        } else if word == "--bundle" || word == "-b" {
            bundle = after.next()?.into();
        }
    }
    Some(bundle)
}

/// Adds our hooks behind those that the configuration has. They come after the hooks that make the network.
fn add_hooks(file: &Path, hook: &[String]) -> io::Result<()> {
    if fs::metadata(file)?.len() > LONGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 16 MiB"));
    }
    let mut config: Value = serde_json::from_slice(&fs::read(file)?)?;
    let not = |what: &str| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{what} is not as the OCI specification has it"))
    };
    let own = std::env::current_exe()?;
    let ours = json!({ "path": own, "args": hook });
    let hooks = config.as_object_mut().ok_or_else(|| not("the file"))?.entry("hooks").or_insert_with(|| json!({}));
    if hooks.is_null() {
        *hooks = json!({});
    }
    for stage in ["createRuntime", "poststop"] {
        let all = hooks.as_object_mut().ok_or_else(|| not("`hooks`"))?.entry(stage).or_insert_with(|| json!([]));
        if all.is_null() {
            *all = json!([]);
        }
        all.as_array_mut().ok_or_else(|| not(stage))?.push(ours.clone());
    }
    // No container is made of a file that is written in part.
    fs::write(file, config.to_string())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_makes_a_container_has_a_bundle() {
        let bundle = |words: &str| bundle_of(&words.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(bundle("--root /run/r --log l create --bundle /b --pid-file p id"), Some("/b".into()));
        assert_eq!(bundle("run -b /b id"), Some("/b".into()));
        assert_eq!(bundle("create --bundle=/b id"), Some("/b".into()));
        assert_eq!(bundle("create id"), Some(".".into()));
        assert_eq!(bundle("--root /run/r start id"), None);
        assert_eq!(bundle("create --bundle"), None);
    }

    #[test]
    fn hooks_are_added_behind_others() {
        let folder = std::env::temp_dir().join(format!("tidegate-runtime-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("config.json");
        let after = |before: Value| {
            fs::write(&file, before.to_string()).unwrap();
            add_hooks(&file, &["tidegate".into(), "oci".into()]).map(|()| {
                let config: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
                let count = |stage: &str| config["hooks"][stage].as_array().map_or(0, Vec::len);
                assert_eq!(config["hooks"]["createRuntime"][count("createRuntime") - 1]["args"][1], "oci");
                [count("prestart"), count("createRuntime"), count("poststop")]
            })
        };
        assert_eq!(after(json!({ "ociVersion": "1.2.0" })).unwrap(), [0, 1, 1]);
        let others = json!({ "prestart": [{ "path": "/net" }], "createRuntime": [{ "path": "/x" }], "poststop": null });
        assert_eq!(after(json!({ "hooks": others })).unwrap(), [1, 2, 1]);
        assert!(after(json!({ "hooks": { "poststop": 3 } })).is_err());
        assert!(after(json!([])).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
