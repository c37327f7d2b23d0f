//! The committed pack is what the committed checkpoint converts to, byte for byte.

use rawloop_convert::{ConvertOptions, convert};
use rawloop_testkit::goldens::repository;

#[test]
fn the_shipped_pack_is_its_checkpoint_converted() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = repository().join("models/tiny");
    let options = ConvertOptions {
        checkpoint: tiny.join("checkpoint"),
        assistant: Some(tiny.join("assistant")),
        output: folder.path().join("tiny.rlp"),
        name: Some("tiny-gemma4".into()),
        ..ConvertOptions::default()
    };
    convert(&options, &mut ()).unwrap();
    let (made, shipped) =
        (std::fs::read(&options.output).unwrap(), std::fs::read(tiny.join("tiny.rlp")).unwrap());
    assert!(made == shipped, "models/tiny/tiny.rlp is out of date: run goldens/make.sh");
}
