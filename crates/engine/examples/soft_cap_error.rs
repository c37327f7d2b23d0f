//! Largest error of the contract's soft cap over every finite f32 it can meet: the bound that the search for candidates
//! (`src/sample/select.rs`) rests on. Takes a few minutes: `cargo run --release -p rawloop-engine --example soft_cap_error`.

use rawloop_spec::contract;

fn main() {
    let cap = 30f32;
    let mut worst = (0f64, 0f32);
    // The cap is odd, and flat beyond 20 times itself.
    for bits in 0..=(20.0 * cap).to_bits() {
        let z = f32::from_bits(bits);
        let truth = libm::tanh(f64::from(z) / f64::from(cap)) * f64::from(cap);
        let error = (f64::from(contract::soft_cap(z, cap)) - truth).abs();
        if error > worst.0 {
            worst = (error, z);
        }
    }
    println!("soft_cap({}) is off by {:e}, {:e} of the cap", worst.1, worst.0, worst.0 / f64::from(cap));
}
