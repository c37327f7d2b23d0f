//! The committed completions and manual pages are those of the program, and help teaches.
//!
//! `RAWLOOP_UPDATE=1 cargo test -p rawloop --test generated` writes them anew.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use support::{Program, root};

fn check(folder: &str, files: &BTreeMap<String, String>) {
    let folder = root().join("crates/cli").join(folder);
    if std::env::var_os("RAWLOOP_UPDATE").is_some() {
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            std::fs::write(folder.join(name), text).unwrap();
        }
    }
    let committed = read(&folder);
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    let hint = "RAWLOOP_UPDATE=1 cargo test -p rawloop --test generated writes it anew";
    assert_eq!(names(&committed), names(files), "{}: {hint}", folder.display());
    for (name, text) in files {
        assert!(
            &committed[name] == text,
            "{}/{name} is not what the program prints: {hint}",
            folder.display()
        );
    }
}

fn read(folder: &Path) -> BTreeMap<String, String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return BTreeMap::new() };
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    entries.map(file).collect()
}

#[test]
fn completions_are_committed() {
    let program = Program::new();
    let shells = [
        ("bash", "rawloop.bash"),
        ("zsh", "_rawloop"),
        ("fish", "rawloop.fish"),
        ("elvish", "rawloop.elv"),
        ("powershell", "rawloop.ps1"),
    ];
    let files = shells.map(|(shell, name)| {
        let script = program.run(&["completions", shell]);
        assert_eq!(script.code, 0);
        (name.to_owned(), script.stdout)
    });
    check("completions", &files.into_iter().collect());
}

#[test]
fn manual_pages_are_committed() {
    let program = Program::new();
    let folder = program.home.path().join("man");
    program.run(&["man", &folder.display().to_string()]).text();
    check("man", &read(&folder));
}

#[test]
fn every_command_explains_itself_with_examples_or_defaults() {
    let program = Program::new();
    let help = program.run(&["--help"]);
    assert!(help.text().contains("Exit codes") && help.text().contains("Examples"));
    for command in ["chat", "run", "convert", "synth", "generate", "eval", "gate", "bench", "completions"] {
        let help = program.run(&[command, "--help"]);
        assert!(help.text().contains("Example"), "{command}: {}", help.stdout);
    }
    let run = program.run(&["run", "--help"]);
    for words in ["[default: 2048]", "Sampling:", "Running:", "Answer:", "[default: the model's"] {
        assert!(run.text().contains(words), "{words}: {}", run.stdout);
    }
}
