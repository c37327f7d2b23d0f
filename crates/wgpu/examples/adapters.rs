//! Lists the adapters of this machine and what their arithmetic is.
fn main() {
    for (index, adapter) in rawloop_wgpu::adapters().iter().enumerate() {
        println!("{index}: {adapter:?}");
        println!("   {:?}", rawloop_wgpu::arithmetic(Some(&index.to_string())));
    }
}
