//! The wgpu backend through the program: its flags, its report, and the CPU's ids where an adapter is there.

mod support;

use support::Program;

#[test]
fn ids_are_the_cpus_where_there_is_an_adapter() {
    let program = Program::new();
    let report = program.run(&["doctor", "--json", "--no-measure"]).json();
    let adapters = report["adapters"].as_array().unwrap();
    let generate = |backend: &str| {
        let ids = "2,105,2364,107";
        let flags = ["--max-tokens", "3", "--ctx", "128", "--backend", backend, "--json"];
        program.run(&[&["generate", "--prompt-ids", ids], &flags[..]].concat())
    };
    if adapters.is_empty() {
        println!("nothing to test on: there is no adapter");
        generate("wgpu").refused(2, &["no adapter was found", "--backend cpu"]);
        return;
    }
    for adapter in adapters {
        assert!(adapter["name"].is_string() && adapter["binding"].as_u64() > Some(1 << 20), "{adapter}");
    }
    let (cpu, wgpu) = (generate("cpu").json(), generate("wgpu").json());
    assert_eq!(wgpu["labels"]["backend"], "wgpu", "{wgpu}");
    assert_eq!(wgpu["output_ids"], cpu["output_ids"]);
    assert!(cpu["output_ids"].is_array(), "{cpu}");
}

#[test]
fn an_adapter_that_is_not_there_is_a_mistake_of_the_command_line() {
    let program = Program::new();
    let finished =
        program.run(&["generate", "--prompt-ids", "2", "--backend", "wgpu", "--adapter", "no such"]);
    finished.refused(2, &["no adapter 'no such'"]);
}

#[test]
fn a_bench_has_the_stages_of_the_program() {
    let program = Program::new();
    let report = program.run(&["doctor", "--json", "--no-measure"]).json();
    let base = ["bench", "-q", "--backend", "wgpu", "--tokens", "5", "--rounds", "1", "--prompts", "12"];
    let finished = program.run(&[&base[..], &["--ctx", "256", "--stages", "--json"]].concat());
    if report["adapters"].as_array().unwrap().is_empty() {
        finished.refused(2, &["no adapter was found"]);
        return;
    }
    let value = finished.json();
    assert_eq!(value["labels"]["backend"], "wgpu");
    let above = |value: &serde_json::Value| value.as_f64().unwrap() > 0.0;
    assert!(above(&value["decode"]["tokens_per_second"]) && above(&value["prefill"][0]["ms"]), "{value}");
    assert!(above(&value["bytes_per_token"]) && above(&value["device_bytes_without_kv"]));
    for table in [&value["stages_alone_us"], &value["stages_alone_us_wide"]["stages"]] {
        let stages: Vec<&str> =
            table.as_array().unwrap().iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
        // An adapter without timestamps has no table.
        if stages.is_empty() {
            continue;
        }
        let program = [
            "embed",
            "per_layer_inputs",
            "norm_qkv",
            "attention",
            "output",
            "norm_gate_up",
            "down",
            "ple_gate",
            "ple_projection",
            "final_norm",
            "head",
            "pick",
        ];
        assert_eq!(stages, program);
        assert!(table.as_array().unwrap().iter().all(|stage| above(&stage["dispatches"])), "{table}");
    }
    program.run(&[&base[..], &["--ctx", "64"]].concat()).refused(2, &["--ctx leaves 64"]);
}
