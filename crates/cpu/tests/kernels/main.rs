//! Every table of kernels that this CPU can run, against the scalar oracle: equality, nothing else.

mod attention;
mod head;
mod linear;
mod noise;
mod oracle;
mod rows;

use rawloop_cpu::kernels::Kernels;

#[test]
fn every_table_is_found_by_its_name_and_portable_is_always_there() {
    for table in Kernels::available() {
        assert_eq!(Kernels::by_name(table.name()).map(Kernels::name), Some(table.name()));
    }
    assert_eq!(Kernels::available().last().map(|table| table.name()), Some("portable"));
    assert_eq!(Kernels::detect().name(), Kernels::available()[0].name());
    assert!(Kernels::by_name("none").is_none());
}

#[test]
fn every_table_that_was_asked_for_is_there() {
    // Set where the machine is known, as under an emulator: what runs there must not be less than what is believed.
    let Some(expected) = std::env::var("RAWLOOP_TABLES").ok().filter(|tables| !tables.is_empty()) else {
        return;
    };
    let found: Vec<_> = Kernels::available().into_iter().map(Kernels::name).collect();
    assert_eq!(found.join(","), expected);
}
