//! `bench` on the model in the program: shape and arithmetic of its results. Nothing here asks how fast it was.

mod support;

use serde_json::Value;
use support::{Program, repository};

const TINY: &str = "models/tiny/tiny.rlp";

/// `bench` with few tokens and one round that counts, and more flags.
fn bench(program: &Program, flags: &[&str]) -> Value {
    let base = ["bench", "--quiet", "--json", "--tokens", "10", "--rounds", "1", "--prompts", "12"];
    program.run(&[&base, flags].concat()).json()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

#[track_caller]
fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * a.abs().max(b.abs()), "{a} is not {b}");
}

#[test]
fn the_standard_protocol_has_every_figure_and_its_conditions() {
    let program = Program::new();
    let flags = ["--prompts", "12,40", "--rounds", "3", "--threads", "2", "--kv", "i8"];
    let flags = [&["bench", "--quiet", "--json", "--tokens", "10"], &flags[..]].concat();
    let value = program.run(&flags).json();

    let decode = &value["decode"];
    for field in
        ["tok_s", "bytes_per_token", "gb_s", "read_gb_s", "read_share", "p50_ms", "p99_ms", "cold_tok_s"]
    {
        assert!(number(&decode[field]) > 0.0, "{field}: {decode}");
    }
    let rounds = numbers(&decode["rounds"]);
    let mut sorted = rounds.clone();
    sorted.sort_by(f64::total_cmp);
    assert_eq!((rounds.len(), sorted[1]), (3, number(&decode["tok_s"])));
    assert!(number(&decode["p50_ms"]) <= number(&decode["p99_ms"]));
    // Turns of two tokens: five pairs a round, of three rounds.
    assert_eq!(decode["turns"], 15);
    close(number(&decode["gb_s"]), number(&decode["bytes_per_token"]) * number(&decode["tok_s"]) / 1e9);

    let lengths: Vec<&String> = value["prefill"].as_object().unwrap().keys().collect();
    assert_eq!(lengths, ["12", "40"]);
    for (length, prefill) in value["prefill"].as_object().unwrap() {
        assert!(number(&prefill["peak_share"]) > 0.0, "{prefill}");
        let rounds = numbers(&prefill["rounds"]).len();
        assert_eq!(rounds, 3);
        // The median of times and that of rates are of the same round.
        let tokens: f64 = length.parse().unwrap();
        close(number(&prefill["tok_s"]), tokens / number(&prefill["first_token_ms"]) * 1e3);
    }

    let (load, first) = (number(&value["load_ms"]), number(&value["ttft_ms"]));
    assert!(load > 0.0 && first > 0.0, "{value}");
    let starts = value["startup"]["rest"].as_array().unwrap();
    assert_eq!(starts.len(), 3);
    assert!(starts.iter().all(|start| number(&start["load_ms"]) < number(&start["ttft_ms"])));
    assert!(number(&value["peak_rss_mb"]) > 1.0, "{value}");

    let labels = &value["labels"];
    for (label, expected) in
        [("model", "tiny-gemma4"), ("profile", "mobile"), ("kv", "i8"), ("backend", "cpu")]
    {
        assert_eq!(labels[label], expected, "{labels}");
    }
    assert_eq!((&labels["synthetic"], &labels["threads"]), (&false.into(), &2.into()));
    for label in ["kernels", "machine", "date", "version", "arithmetic", "os", "arch"] {
        assert!(!labels[label].as_str().unwrap().is_empty(), "{label}");
    }
    assert!(labels["commit"].is_null() || labels["commit"].is_string());
    assert!(number(&labels["load_average"]) >= 0.0);
    for part in ["contexts", "verify", "stages", "compare"] {
        assert!(value.get(part).is_none(), "{part} was not asked for");
    }
}

#[test]
fn bytes_are_those_of_inspect_and_of_the_visible_keys() {
    let program = Program::new();
    let decode = &bench(&program, &["--kv", "f16"])["decode"];
    let pack = program.run(&["inspect", &repository(TINY), "--tensors", "--json"]).json();
    let whole = ["attention", "ffn", "ple", "ple_model_projection", "head", "scales"];
    let mut weights = 0.0;
    for tensor in pack["tensors"].as_array().unwrap() {
        let (class, name) = (tensor["class"].as_str().unwrap(), tensor["name"].as_str().unwrap());
        let bytes = number(&tensor["bytes"]);
        if class == "gathered" {
            weights += bytes / number(&tensor["rows"]);
        } else if whole.contains(&class) && !name.ends_with("activation_scales") {
            weights += bytes;
        }
    }
    assert_eq!(number(&decode["weight_bytes_per_token"]), weights);
    // What inspect counts beyond that stays in the first-level cache: norms, tables, two scales a linear.
    let account = number(&pack["bytes_per_token"]["token_bytes"]);
    assert!(weights < account && weights > 0.97 * account, "{weights} of {account}");

    let geometry = &pack["geometry"];
    let mut kv = 0.0;
    for position in 127..137 {
        for layer in geometry["layers"].as_array().unwrap() {
            let window = if layer["attention"] == "sliding" { number(&geometry["window"]) } else { f64::MAX };
            let keys = window.min(position as f64 + 1.0);
            kv += 2.0 * 2.0 * keys * number(&geometry["kv_heads"]) * number(&layer["head_dim"]);
        }
    }
    close(number(&decode["kv_bytes_per_token"]), kv / 10.0);
    close(number(&decode["bytes_per_token"]), weights + kv / 10.0);
}

#[test]
fn the_other_program_takes_turns_and_its_last_number_counts() {
    let program = Program::new();
    let calls = program.home.path().join("calls");
    let command = format!("echo call >> '{}'; echo 'q4_0: 3 runs, 12.5 tok/s'", calls.display());
    let value = program
        .run(&[
            "bench",
            "-q",
            "--json",
            "--tokens",
            "10",
            "--prompts",
            "2",
            "--rounds",
            "3",
            "--compare",
            &command,
        ])
        .json();
    let compare = &value["compare"];
    assert_eq!((&compare["what"], &compare["command"]), (&"decode".into(), &command.as_str().into()));
    assert_eq!(numbers(&compare["theirs"]), [12.5; 3]);
    assert_eq!(compare["theirs_tok_s"], 12.5);
    let (ours, ratios) = (numbers(&compare["ours"]), numbers(&compare["ratios"]));
    assert_eq!(ratios, ours.iter().map(|ours| ours / 12.5).collect::<Vec<_>>());
    let mut sorted = ratios.clone();
    sorted.sort_by(f64::total_cmp);
    assert_eq!(number(&compare["ratio"]), sorted[1]);
    close(number(&compare["ours_tok_s"]) / 12.5, sorted[1]);
    // One pair warmed up.
    assert_eq!(std::fs::read_to_string(&calls).unwrap().lines().count(), 4);

    let value = bench(&program, &["--compare", "echo 100", "--compare-prefill", "20"]);
    assert_eq!(value["compare"]["what"], "prefill 20");
}

#[test]
fn a_command_that_fails_or_prints_no_number_is_named() {
    let program = Program::new();
    let base = ["bench", "--quiet", "--tokens", "5", "--rounds", "1", "--prompts", "2", "--compare"];
    let run = |command: &str| program.run(&[&base[..], &[command]].concat());
    run("echo it broke >&2; exit 3").refused(1, &["--compare", "it broke"]);
    run("echo no number in i7 here").refused(1, &["last number", "no number in i7 here"]);
    run("echo 0").refused(1, &["above 0"]);
}

#[test]
fn stages_add_up_to_the_whole_and_verification_has_every_width() {
    let program = Program::new();
    let value = bench(&program, &["--stages", "--verify"]);
    let weights = number(&value["decode"]["weight_bytes_per_token"]);
    for (name, table) in [("decode", &value["stages"]["decode"]), ("prefill", &value["stages"]["prefill"])] {
        let stages = table.as_object().unwrap();
        assert_eq!(stages.len(), 10, "{table}");
        let share: f64 = stages.values().map(|stage| number(&stage["share"])).sum();
        assert!((share - 1.0).abs() < 1e-9, "{name}: {share}");
        for (kind, stage) in stages {
            let (ms, bytes) = (number(&stage["ms"]), number(&stage["bytes"]));
            assert!(
                ms >= 0.0
                    && (ms == 0.0
                        || (number(&stage["gb_s"]) * ms / bytes * 1e6 - 1.0).abs() < 1e-6
                        || bytes == 0.0),
                "{kind}: {stage}"
            );
        }
        assert_eq!(number(&stages["head"]["bytes"]) > 0.0, name == "decode");
    }
    let bytes = |stages: &Value| -> f64 {
        let stages = stages.as_object().unwrap();
        stages.iter().filter(|stage| stage.0 != "attention").map(|stage| number(&stage.1["bytes"])).sum()
    };
    close(bytes(&value["stages"]["decode"]), weights);
    assert_eq!(value["stages"]["prefill_tokens"], 12);

    let verify = value["verify"].as_object().unwrap();
    assert_eq!(verify.keys().collect::<Vec<_>>(), ["2", "3", "4", "5", "6", "7", "8"]);
    for cost in verify.values() {
        assert!(number(&cost["steps"]) > 0.0);
        // A kernel table whose peak is not measured has no bound; the others have both figures.
        assert_eq!(cost["bound"].is_null(), cost["over_bound"].is_null());
        assert!(cost["bound"].is_null() || number(&cost["bound"]) >= 1.0);
    }
    let draft = value["draft"].as_object().unwrap();
    assert_eq!(draft.keys().collect::<Vec<_>>(), ["1", "3", "7"]);
    assert!(draft.values().all(|steps| number(steps) > 0.0));
}

#[test]
fn drawn_and_drafted_runs_stand_beside_decode() {
    let program = Program::new();
    let flags = ["--temperature", "0.8", "--top-k", "20", "--draft", "3"];
    let value = bench(&program, &flags);
    let (drawn, drafted) = (&value["drawn"], &value["drafted"]);
    for run in [drawn, drafted] {
        // Of a drafted run most tokens arrive with the one before them.
        assert!(number(&run["tok_s"]) > 0.0 && number(&run["p50_ms"]) <= number(&run["p99_ms"]), "{run}");
        assert_eq!(numbers(&run["rounds"]), [number(&run["tok_s"])]);
        let sampling = (&run["temperature"], &run["top_k"], &run["top_p"]);
        assert_eq!(sampling, (&0.8.into(), &20.into(), &0.95.into()));
    }
    assert!(drawn.get("drafts").is_none(), "{drawn}");
    let drafts = &drafted["drafts"];
    assert_eq!(drafts["depth"], 3);
    assert!(number(&drafts["verify_ms"]) > 0.0, "{drafts}");
    close(number(&drafts["drafts_s"]), 1e3 / number(&drafts["draft_ms"]));
    assert!((1.0..=4.0).contains(&number(&drafts["tokens_per_verify"])), "{drafts}");
    assert!((0.0..=1.0).contains(&number(&drafts["accepted"])), "{drafts}");

    let value = bench(&program, &["--draft", "1"]);
    assert_eq!(value["drafted"]["temperature"], 0.0);
    assert!(value.get("drawn").is_none(), "it was not asked for");
}

#[test]
fn drafts_need_a_drafter() {
    let program = Program::new();
    let pack = program.home.path().join("none.rlp").display().to_string();
    assert_eq!(program.run(&["synth", "-q", "--preset", "tiny-e4b", &pack]).code, 0);
    program.run(&["bench", "-q", "--model", &pack, "--draft", "2"]).refused(2, &["--draft", "--assistant"]);
}

#[test]
fn depths_are_drawn_and_the_record_is_what_was_printed() {
    let program = Program::new();
    let (svg, records) = (program.home.path().join("depth.svg"), program.home.path().join("record"));
    let (svg_flag, record_flag) = (svg.display().to_string(), records.display().to_string());
    let flags =
        ["--contexts", "300,0,64", "--svg", &svg_flag, "--record", &record_flag, "--machine", "A Box (2)"];
    let value = bench(&program, &flags);
    let depths = value["contexts"].as_array().unwrap();
    let contexts: Vec<u64> = depths.iter().map(|depth| depth["context"].as_u64().unwrap()).collect();
    assert_eq!(contexts, [0, 64, 300]);
    let bytes: Vec<f64> = depths.iter().map(|depth| number(&depth["bytes_per_token"])).collect();
    assert!(bytes[0] < bytes[1] && bytes[1] < bytes[2], "{bytes:?}");
    assert!(depths.iter().all(|depth| number(&depth["tok_s"]) > 0.0 && number(&depth["read_share"]) > 0.0));
    let drawing = std::fs::read_to_string(&svg).unwrap();
    assert_eq!(drawing.matches("<circle").count(), 3);
    assert!(drawing.contains("tiny-gemma4") && drawing.contains("A Box (2)"), "{drawing}");

    let date = value["labels"]["date"].as_str().unwrap();
    let stem = format!("{}-tiny-gemma4-contexts", &date[..10]);
    let record = records.join("a-box-2").join(format!("{stem}.json"));
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&record).unwrap()).unwrap();
    assert_eq!(kept, value);
    // A second one on the same day does not take its place.
    let again = bench(&program, &["--contexts", "0", "--record", &record_flag, "--machine", "A Box (2)"]);
    let names: Vec<String> = std::fs::read_dir(records.join("a-box-2"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 2, "{names:?} after {again}");
}

#[test]
fn people_get_a_table_with_units() {
    let program = Program::new();
    let flags = ["bench", "-q", "--tokens", "5", "--rounds", "1", "--prompts", "1,9", "--threads", "1"];
    let more = ["--kernels", "portable", "--contexts", "0", "--verify", "--stages"];
    let text = program.run(&[&flags[..], &more, &["--temperature", "1", "--draft", "2"]].concat());
    for words in [
        "tiny-gemma4",
        "1 threads, portable kernels, f16 K/V, exact arithmetic",
        "tok/s",
        "GB/s",
        "read share",
        "peak share",
        "first token",
        "context",
        "drawn at 1, top-k 64, top-p 0.95:",
        "drawn at 1, top-k 64, top-p 0.95, 2 drafted a step:",
        "drafts/s",
        "norm_gate_up",
        "prefill, 1 tokens",
    ] {
        assert!(text.text().contains(words), "{words:?} is not in {}", text.stdout);
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let program = Program::new();
    let run = |flags: &[&str]| program.run(&[&["bench"], flags].concat());
    run(&["--tokens", "4"]).refused(2, &["at least 5"]);
    run(&["--backend", "ref"]).refused(2, &["reference"]);
    run(&["--prompts", "9000"]).refused(2, &["9000 positions", "8192"]);
    run(&["--contexts", "8192"]).refused(2, &["8192"]);
    run(&["--ctx", "64"]).refused(2, &["--ctx leaves 64"]);
    run(&["--kernels", "sse9"]).refused(2, &["sse9", "portable"]);
    run(&["--model", "nowhere.rlp"]).refused(3, &["nowhere.rlp"]);
    run(&["--temperature", "0"]).refused(2, &["above 0"]);
    run(&["--top-k", "5"]).refused(2, &["--temperature"]);
    run(&["--draft", "8"]).refused(2, &["1 to 7"]);
    run(&["--compare-prefill", "5"]).refused(2, &["--compare"]);
}
