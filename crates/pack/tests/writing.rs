//! A target holds a whole pack or what it held before: whatever fails, and whenever the writer is killed.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use rawloop_pack::{Pack, PackError, PackWriter};
use rawloop_spec::{Class, Format, TensorSpec};

/// File names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn spec(name: &str, rows: usize, columns: usize) -> TensorSpec {
    TensorSpec { name: name.into(), format: Format::F32, rows, columns, class: Class::Norms }
}

/// Set in the child of the test below: where to start a pack.
const CHILD_TARGET: &str = "RAWLOOP_PACK_TEST_TARGET";

#[test]
fn a_killed_writer_leaves_no_pack() {
    if let Some(target) = std::env::var_os(CHILD_TARGET) {
        let mut writer = PackWriter::create(Path::new(&target)).unwrap();
        for spec in common::registry().iter().take(20) {
            writer.begin(spec).unwrap();
            writer.write(&common::content(spec)).unwrap();
            writer.end().unwrap();
        }
        println!("half way");
        loop {
            std::thread::park();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("small.rlp");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_writer_leaves_no_pack", "--nocapture"])
        .env(CHILD_TARGET, &target)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.map_while(Result::ok).any(|line| line.contains("half way"));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ready);
    assert!(!target.exists());
    for name in names(folder.path()) {
        assert!(name.ends_with(".unfinished"), "{name}");
        let error = Pack::open(&folder.path().join(name)).unwrap_err();
        assert!(matches!(error, PackError::Magic { .. } | PackError::Length { .. }), "{error}");
    }
}

#[test]
fn a_dropped_writer_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = PackWriter::create(&folder.path().join("small.rlp")).unwrap();
    writer.begin(&spec("a", 1, 4)).unwrap();
    writer.write(&[0; 16]).unwrap();
    assert_eq!(names(folder.path()).len(), 1);
    drop(writer);
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn a_failed_finish_keeps_the_old_pack() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.rlp");
    common::write(&path);
    let old = std::fs::read(&path).unwrap();
    // Each of these is refused at the end, by the manifest or by the values.
    let mut bad_geometry = common::head();
    bad_geometry.geometry.layers[0].ffn = 128;
    let mut no_drafter = common::head();
    no_drafter.drafter = None;
    let mut absurd = common::head();
    absurd.geometry.vocab = usize::MAX;
    let mut bad_generation = common::head();
    bad_generation.generation.temperature = f32::NAN;
    for (head, message) in [
        (bad_geometry, "layers.0.gate.codes"),
        (no_drafter, "drafter.pre_projection"),
        (absurd, "vocab_size"),
        (bad_generation, "temperature"),
    ] {
        let error = common::write_with(&path, head, |_, _| {}).unwrap_err().to_string();
        assert!(error.contains(message) && error.contains("small.rlp"), "{error}");
    }
    let nan = common::write_with(&path, common::head(), |spec, bytes| {
        if spec.name == "layers.2.down.multipliers" {
            bytes[8..12].copy_from_slice(&f32::NAN.to_le_bytes());
        }
    });
    let error = nan.unwrap_err().to_string();
    assert!(error.contains("layers.2.down.multipliers") && error.contains("row 2"), "{error}");
    assert!(std::fs::read(&path).unwrap() == old);
    assert_eq!(names(folder.path()), ["small.rlp"]);
}

#[test]
fn misuse_is_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("small.rlp");
    let mut writer = PackWriter::create(&target).unwrap();
    assert!(writer.write(&[0]).is_err());
    assert!(writer.end().is_err());
    let absurd = writer.begin(&spec("absurd", usize::MAX, usize::MAX)).unwrap_err();
    assert!(absurd.to_string().contains("absurd"), "{absurd}");
    writer.begin(&spec("first", 1, 4)).unwrap();
    let nested = writer.begin(&spec("second", 1, 4)).unwrap_err().to_string();
    assert!(nested.contains("second") && nested.contains("first"), "{nested}");
    assert!(writer.blob("blob", &[1]).is_err());
    writer.write(&[0; 10]).unwrap();
    let long = writer.write(&[0; 7]).unwrap_err().to_string();
    assert!(long.contains("17") && long.contains("16"), "{long}");
    let short = writer.end().unwrap_err().to_string();
    assert!(short.contains("first") && short.contains("10"), "{short}");
    writer.blob("blob", &[1]).unwrap();
    assert!(writer.begin(&spec("late", 1, 4)).unwrap_err().to_string().contains("after blob"));
    let error = writer.finish(common::head()).unwrap_err().to_string();
    assert!(error.contains("embed.codes") && error.contains("missing"), "{error}");
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn an_unfinished_tensor_cannot_be_finished() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = PackWriter::create(&folder.path().join("small.rlp")).unwrap();
    writer.begin(&spec("open", 1, 4)).unwrap();
    assert!(writer.finish(common::head()).unwrap_err().to_string().contains("open"));
}

#[test]
fn targets_that_cannot_be_written_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "text").unwrap();
    for target in [folder.path().join("missing/small.rlp"), file.join("small.rlp"), folder.path().into()] {
        let error = PackWriter::create(&target).err().unwrap().to_string();
        assert!(error.contains(&target.display().to_string()), "{error}");
    }
    assert_eq!(names(folder.path()), ["file"]);
}

#[cfg(unix)]
#[test]
fn a_pack_in_use_survives_its_replacement() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.rlp");
    common::write(&path);
    let old = Pack::open(&path).unwrap();
    let mut head = common::head();
    head.model.name = "another".into();
    common::write_with(&path, head, |spec, bytes| {
        if spec.name == "embed.codes" {
            bytes.fill(0);
        }
    })
    .unwrap();
    assert_eq!(old.verify(|_| {}).unwrap().tensors, common::registry().len());
    let new = Pack::open(&path).unwrap();
    assert_eq!(new.manifest().model.name, "another");
    assert_ne!(new.codes("embed.codes").unwrap(), old.codes("embed.codes").unwrap());
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_permissions_are_those_of_a_new_file() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real.rlp"), folder.path().join("link.rlp"));
    std::fs::write(&real, "old").unwrap();
    symlink(&real, &link).unwrap();
    common::write(&link);
    assert!(link.is_symlink());
    assert!(Pack::open(&real).is_ok());
    let fresh = folder.path().join("fresh");
    std::fs::write(&fresh, "").unwrap();
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&real), mode(&fresh));
    // A link to nowhere is an error that names it, not a file under a surprising name.
    let dangling = folder.path().join("dangling.rlp");
    symlink(folder.path().join("nowhere.rlp"), &dangling).unwrap();
    assert!(PackWriter::create(&dangling).err().unwrap().to_string().contains("dangling.rlp"));
}
