//! On macOS a module that the interpreter loads leaves the interpreter's symbols open, which the linker has to be told.

fn main() {
    pyo3_build_config::add_extension_module_link_args();
}
