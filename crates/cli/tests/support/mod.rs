//! The real program, away from the user's folders.

#![allow(dead_code)] // each test file uses a part of it

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The program and a folder that stands in for the user's home.
pub struct Program {
    pub home: TempDir,
}

impl Program {
    pub fn new() -> Program {
        Program { home: tempfile::tempdir().unwrap() }
    }

    /// A command with nothing on stdin.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rawloop"));
        command.args(args).stdin(Stdio::null());
        for variable in ["HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "LOCALAPPDATA"] {
            command.env(variable, self.home.path());
        }
        command
    }

    /// Runs with nothing on stdin.
    pub fn run(&self, args: &[&str]) -> Finished {
        Finished::from(self.command(args).output().unwrap())
    }

    /// Runs with a text on stdin.
    pub fn pipe(&self, args: &[&str], stdin: &[u8]) -> Finished {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A program that refuses its flags does not read.
        let _ = child.stdin.take().unwrap().write_all(stdin);
        Finished::from(child.wait_with_output().unwrap())
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Finished {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Finished {
    fn from(output: Output) -> Finished {
        Finished {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Finished {
    /// What was printed, of a run that went well.
    pub fn text(&self) -> &str {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout.trim_end()
    }

    /// The JSON that was printed, of a run that went well.
    pub fn json(&self) -> Value {
        serde_json::from_str(self.text()).unwrap()
    }

    /// Checks that the run was refused with a code and words that say why, and printed nothing else.
    #[track_caller]
    pub fn refused(&self, code: i32, words: &[&str]) {
        assert_eq!((self.code, self.stdout.as_str()), (code, ""), "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is not in {self:?}");
        }
    }
}

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A path in the repository, as an argument.
pub fn repository(path: &str) -> String {
    root().join(path).display().to_string()
}

/// Never end an answer early: the stop ids are pushed down, and what repeats itself goes on. Nor may a call begin, which would
/// be held back up to its end.
pub const ENDLESS: [&str; 10] = [
    "--bias",
    "1=-100",
    "--bias",
    "106=-100",
    "--bias",
    "50=-100",
    "--bias",
    "48=-100",
    "--greedy",
    "--allow-loops",
];
