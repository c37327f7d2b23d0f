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
