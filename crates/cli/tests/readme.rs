//! The README's commands name no package, so there must be one program that `cargo run` can mean.

use std::process::Command;

use serde_json::Value;

#[test]
fn cargo_run_means_the_program() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let told = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root)
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&told.stdout).unwrap();
    let members = metadata["workspace_default_members"].as_array().unwrap();
    let packages =
        metadata["packages"].as_array().unwrap().iter().filter(|package| members.contains(&package["id"]));
    let programs: Vec<&str> = packages
        .flat_map(|package| package["targets"].as_array().unwrap())
        .filter(|target| target["kind"][0] == "bin")
        .map(|target| target["name"].as_str().unwrap())
        .collect();
    assert_eq!(programs, ["rawloop"]);
}
