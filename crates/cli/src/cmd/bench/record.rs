//! `--record`: one file a measurement, `DIR/MACHINE/DATE-MODEL-WHAT.json`. An earlier one is never overwritten.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::report::Report;
use crate::exit::{Code, Failure};

/// Writes the report's JSON; the file it went to.
pub fn write(folder: &Path, report: &Report, value: &Value) -> Result<PathBuf, Failure> {
    let text = |field: &str| value["labels"][field].as_str().unwrap_or_default().to_owned();
    let machine = slug(&text("machine"));
    let date = text("date");
    let stem = format!("{}-{}-{}", date.get(..10).unwrap_or(&date), slug(&text("model")), report.what());
    let folder = folder.join(machine);
    let fail = |error: std::io::Error| {
        Failure::new(Code::Other, format!("cannot keep the record in {}: {error}", folder.display()))
    };
    std::fs::create_dir_all(&folder).map_err(fail)?;
    for number in 1.. {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let path = folder.join(format!("{stem}{suffix}.json"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                writeln!(file, "{value:#}").map_err(fail)?;
                return Ok(path);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(fail(error)),
        }
    }
    unreachable!("some number is free")
}

/// Lower-case letters, digits and single hyphens.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for character in text.chars().flat_map(char::to_lowercase) {
        match character {
            'a'..='z' | '0'..='9' => slug.push(character),
            _ if !slug.is_empty() && !slug.ends_with('-') => slug.push('-'),
            _ => {}
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "unknown".into() } else { slug.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_machines_become_names_of_folders() {
        assert_eq!(slug("AMD EPYC, 2 threads"), "amd-epyc-2-threads");
        assert_eq!(
            slug("Intel(R) Core(TM) i7-10750H CPU @ 2.60GHz"),
            "intel-r-core-tm-i7-10750h-cpu-2-60ghz"
        );
        assert_eq!(slug("../.."), "unknown");
    }
}
