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
