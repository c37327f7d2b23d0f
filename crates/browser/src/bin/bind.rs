//! Makes the JavaScript side of the compiled module: `rawloop-bind MODULE.wasm FOLDER`.
//!
//! As a program of this workspace and not an installed tool, so that the lock file keeps both halves of wasm-bindgen at one version.

use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [module, folder] = arguments.as_slice() else {
        eprintln!("usage: rawloop-bind MODULE.wasm FOLDER");
        return ExitCode::from(2);
    };
    let mut bindgen = Bindgen::new();
    let made = bindgen
        .input_path(module)
        .out_name("rawloop")
        .typescript(false)
        .remove_name_section(true)
        .web(true)
        .and_then(|bindgen| bindgen.generate(folder));
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rawloop-bind: {module}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
