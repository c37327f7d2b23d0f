//! `convert`, `synth`, `inspect`, `verify`, `compare` and `generate`: files in, files and JSON out, codes for what goes wrong.

mod support;

use std::path::Path;

use support::{Program, repository};

const QUESTION: &str = "What is the capital of France?";

fn place(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

/// The shipped checkpoint converted to `out`.
fn convert(program: &Program, out: &str) -> support::Finished {
    let (checkpoint, assistant) = (repository("models/tiny/checkpoint"), repository("models/tiny/assistant"));
    program.run(&["convert", &checkpoint, out, "--assistant", &assistant, "--name", "tiny-gemma4", "--json"])
}

#[test]
fn a_checkpoint_becomes_the_shipped_pack_and_the_pack_explains_itself() {
    let (program, folder) = (Program::new(), tempfile::tempdir().unwrap());
    let (pack, shipped) = (place(folder.path(), "tiny.rlp"), repository("models/tiny/tiny.rlp"));
    let report = convert(&program, &pack).json();
    assert_eq!(report["model"]["name"], "tiny-gemma4");
    assert_eq!(report["provenance"]["skipped"]["dead_kv"], 10);
    assert!(std::fs::read(&pack).unwrap() == std::fs::read(&shipped).unwrap());
    let same = program.run(&["compare", &pack, &shipped]);
    assert!(same.text().ends_with("\nequal"), "{same:?}");
    let verified = program.run(&["verify", &pack, "--json"]).json();
    assert_eq!(verified["tensors"], report["tensors"]);

    let inspected = program.run(&["inspect", &pack, "--json", "--program", "--tensors"]).json();
    assert_eq!(inspected["geometry"]["layers"].as_array().unwrap().len(), 10);
    assert_eq!(inspected["tensors"].as_array().unwrap().len(), verified["tensors"]);
    assert_eq!(inspected["bytes_per_token"], report["bytes_per_token"]);
    // Two stages, seven a layer, three.
    assert_eq!(inspected["program"].as_array().unwrap().len(), 2 + 7 * 10 + 3);
    let text = program.run(&["inspect", &pack, "--program"]);
    for words in ["tiny-gemma4", "bytes a decoded token reads", "mobile mix", "program (75 stages)"] {
        assert!(text.text().contains(words), "{words}: {}", text.stdout);
    }
    assert!(!text.stdout.contains("SYNTHETIC"));
}

#[test]
fn a_synthetic_model_is_the_same_both_ways_and_says_what_it_is() {
    let (program, folder) = (Program::new(), tempfile::tempdir().unwrap());
    let paths =
        ["direct.rlp", "checkpoint", "converted.rlp", "other.rlp"].map(|name| place(folder.path(), name));
    let [direct, checkpoint, converted, other] = &paths;
    let shape = ["synth", "--preset", "tiny-e4b", "--seed", "7"];
    let synth = |more: &[&str]| program.run(&[&shape, more].concat());
    assert!(synth(&[direct]).text().contains("(synthetic)"));
    synth(&[checkpoint, "--checkpoint", "--shards", "2"]).text();
    synth(&[checkpoint, "--checkpoint"]).refused(3, &["checkpoint"]);
    assert!(program.run(&["convert", checkpoint, converted]).text().contains("(synthetic)"));
    let same = program.run(&["compare", direct, converted]);
    assert!(same.text().contains("every tensor equal"), "{same:?}");
    assert!(program.run(&["inspect", direct]).text().contains("SYNTHETIC weights"));
    let generated = program.run(&["generate", "--model", direct, "--prompt-ids", "2,3", "--max-tokens", "2"]);
    assert!(generated.code == 0 && generated.stderr.contains("synthetic weights"), "{generated:?}");

    program.run(&["synth", "--preset", "tiny-e4b", "--seed", "8", other]).text();
    let differs = program.run(&["compare", direct, other, "--json"]);
    assert_eq!(differs.code, 1, "{differs:?}");
    let report: serde_json::Value = serde_json::from_str(&differs.stdout).unwrap();
    assert_eq!(report["families"]["layers.N.q.codes"]["equal"], 0);
    program.run(&["synth", "--preset", "e3b", other]).refused(3, &["e3b", "narrow-e2b"]);
}

#[test]
fn files_that_cannot_be_used_end_with_3_and_leave_what_was_there() {
    let (program, folder) = (Program::new(), tempfile::tempdir().unwrap());
    let old = place(folder.path(), "old.rlp");
    std::fs::write(&old, "what was there").unwrap();
    let empty = place(folder.path(), "");
    program.run(&["convert", &empty, &old]).refused(3, &["config.json"]);
    let checkpoint = repository("models/tiny/checkpoint");
    program.run(&["convert", &checkpoint, &empty]).refused(3, &["folder"]);
    program.run(&["convert", &checkpoint]).refused(2, &["<OUTPUT>"]);
    for command in ["inspect", "verify"] {
        program.run(&[command, &old]).refused(3, &["old.rlp", "not a pack"]);
    }
    let shipped = repository("models/tiny/tiny.rlp");
    program.run(&["compare", &shipped, &old]).refused(3, &["old.rlp"]);
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "what was there");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

    // One bit in the weights: it opens, verification finds it.
    let damaged = place(folder.path(), "damaged.rlp");
    let mut bytes = std::fs::read(&shipped).unwrap();
    bytes[20_000] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    program.run(&["verify", &damaged]).refused(3, &["damaged.rlp", "embed.codes"]);
    assert_eq!(program.run(&["compare", &shipped, &damaged]).code, 1);
}

#[test]
fn generate_takes_ids_or_text_and_both_backends_agree() {
    let program = Program::new();
    let asked = program.run(&["generate", "--prompt", QUESTION, "--json"]).json();
    assert_eq!((&asked["finish_reason"], &asked["labels"]["backend"]), (&"stop".into(), &"cpu".into()));
    assert!(asked["text"].as_str().unwrap().starts_with("The capital of France is Paris."), "{asked}");
    for field in ["load_ms", "prefill_ms", "first_token_ms", "decode_ms"] {
        assert!(asked["timings"][field].is_number(), "{field}: {asked}");
    }
    let list = |value: &serde_json::Value| {
        let ids: Vec<String> = value.as_array().unwrap().iter().map(ToString::to_string).collect();
        ids.join(",")
    };
    let (prompt, output) = (list(&asked["prompt_ids"]), list(&asked["output_ids"]));
    let pack = repository("models/tiny/tiny.rlp");
    let flags =
        ["--temperature", "0", "--threads", "1", "--chunk", "5", "--ctx", "64", "--arithmetic", "exact"];
    for backend in ["cpu", "ref"] {
        let mut args = vec!["generate", "--model", &pack, "--prompt-ids", &prompt, "--backend", backend];
        args.extend(flags);
        assert_eq!(program.run(&args).text(), output, "{backend}");
    }
    let rendered = format!("<|turn>user\n{QUESTION}<turn|>\n<|turn>model\n");
    let raw = program.run(&["generate", "--raw", "--prompt", &rendered, "--json"]).json();
    assert_eq!(raw["output_ids"], asked["output_ids"]);
}

#[test]
fn generate_refuses_with_a_code_for_each_reason() {
    let program = Program::new();
    program.run(&["generate"]).refused(2, &["--prompt"]);
    program.run(&["generate", "--prompt", "x", "--prompt-ids", "2"]).refused(2, &["--prompt-ids"]);
    program.run(&["generate", "--prompt-ids", "2", "--raw"]).refused(2, &["--raw"]);
    program.run(&["generate", "--prompt-ids", "2,4096"]).refused(2, &["4096", "vocabulary"]);
    program.run(&["generate", "--prompt-ids", "2", "--temperature", "1"]).refused(2, &["--temperature"]);
    program.run(&["generate", "--model", "nowhere.rlp", "--prompt-ids", "2"]).refused(3, &["nowhere.rlp"]);
    program.run(&["generate", "--prompt-ids", "2,105,106", "--ctx", "2"]).refused(4, &["--ctx"]);
    let most = usize::MAX.to_string();
    let full =
        program.run(&["generate", "--prompt-ids", "2,2,2", "--ctx", "4", "--max-tokens", &most, "--json"]);
    assert!(matches!(full.code, 0 | 4), "{full:?}");
}
