//! docs/cases.md names tests; each of them is there.

use std::path::{Path, PathBuf};

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

#[test]
fn every_test_that_a_case_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(root.join("crates")).unwrap() {
        for part in ["src", "tests"] {
            let folder = entry.as_ref().unwrap().path().join(part);
            if folder.is_dir() {
                sources(&folder, &mut files);
            }
        }
    }
    let texts: Vec<(PathBuf, String)> = files
        .into_iter()
        .filter_map(|path| Some((path.clone(), std::fs::read_to_string(path).ok()?)))
        .collect();
    let cases = std::fs::read_to_string(root.join("docs/cases.md")).unwrap();
    let names = cases.split('`').skip(1).step_by(2);
    let mut found = 0;
    for name in names.filter(|name| name.contains("::") && !name.contains("FILE")) {
        let parts: Vec<&str> = name.split("::").collect();
        let test = parts[parts.len() - 1];
        // The file is the last part that is no module inside of one.
        let file = parts[..parts.len() - 1].iter().rev().find(|part| **part != "tests").unwrap();
        let is_there = |(path, text): &(PathBuf, String)| {
            let stem = path.file_stem().is_some_and(|stem| stem == *file);
            let folder = path.file_stem().is_some_and(|stem| stem == "mod" || stem == "tests")
                && path.parent().is_some_and(|folder| folder.ends_with(file));
            let function = match test.strip_suffix('*') {
                Some(start) => text.contains(&format!("fn {start}")),
                None => test == "tests" || text.contains(&format!("fn {test}(")),
            };
            (stem || folder) && function
        };
        assert!(texts.iter().any(is_there), "docs/cases.md names {name}, which is not there");
        found += 1;
    }
    assert!(found > 80, "{found} names");
}
