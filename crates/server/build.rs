//! Puts the page's files into the program: every file under `web/`, as a table of path, type, hash and bytes.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("web");
    println!("cargo::rerun-if-changed=web");
    let mut files = Vec::new();
    walk(&root, &mut files);
    files.sort();
    let mut table = String::from("static FILES: &[File] = &[\n");
    for path in &files {
        let Ok(relative) = path.strip_prefix(&root) else { continue };
        let name = relative
            .components()
            .map(|part| part.as_os_str().to_string_lossy())
            .collect::<Vec<_>>()
            .join("/");
        let Some(kind) = kind(path) else { continue };
        println!("cargo::rerun-if-changed={}", path.display());
        let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // FNV-1a: enough to tell one version of a file from the next.
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let _ = writeln!(
            table,
            "File {{ path: {name:?}, kind: {kind:?}, tag: \"\\\"{hash:016x}\\\"\", bytes: include_bytes!({:?}) }},",
            path.display().to_string()
        );
    }
    table.push_str("];\n");
    let out = PathBuf::from(std::env::var("OUT_DIR").unwrap_or_default()).join("web.rs");
    std::fs::write(&out, table).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    println!("cargo::rerun-if-changed={}", folder.display());
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() { walk(&path, files) } else { files.push(path) }
    }
}

/// The type that a file is served as; none for files that are not served.
fn kind(path: &Path) -> Option<&'static str> {
    Some(match path.extension()?.to_str()? {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml; charset=utf-8",
        "txt" => "text/plain; charset=utf-8",
        "json" | "webmanifest" => "application/json; charset=utf-8",
        _ => return None,
    })
}
