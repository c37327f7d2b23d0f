//! The numbers of a dispatch: `struct Params` of `shaders/params.wgsl`, field for field.

use bytemuck::{Pod, Zeroable};

/// See the shader. All fields are words, so there is no padding.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Params {
    pub zero: u32,
    pub flags: u32,
    pub rows: u32,
    pub inputs: u32,
    pub first_row: u32,
    pub in_stride: u32,
    pub out_stride: u32,
    pub other_stride: u32,
    pub other_offset: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub pairs: u32,
    pub window: u32,
    pub slots: u32,
    pub ring: u32,
    pub owns: u32,
    pub block: u32,
    pub count: u32,
    pub kv_values: u32,
    pub kv_key_scales: u32,
    pub kv_value_scales: u32,
    pub partials: u32,
    pub input_scale: f32,
    pub output_scale: f32,
    pub up_scale: f32,
    pub next_scale: f32,
    pub factor: f32,
    pub scalar: f32,
    pub stream_in: u32,
    pub stream_out: u32,
    pub join_scale: f32,
}

/// A token of a pass: `struct Column`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Column {
    pub token: u32,
    pub position: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_in_the_shaders_order() {
        let shader = include_str!("../shaders/params.wgsl");
        let body = shader.split("struct Params {").nth(1).unwrap().split('}').next().unwrap();
        let fields: Vec<(&str, &str)> = body
            .lines()
            .filter_map(|line| line.split("//").next().unwrap().trim().trim_end_matches(',').split_once(": "))
            .collect();
        let debug = format!("{:?}", Params::default());
        let names: Vec<&str> = debug
            .trim_start_matches("Params { ")
            .split(", ")
            .filter_map(|field| field.split_once(": "))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(fields.len() * 4, size_of::<Params>());
        for (index, (field, kind)) in fields.iter().enumerate() {
            assert_eq!(*field, names[index]);
            let float = debug.contains(&format!(" {field}: 0.0"));
            assert_eq!(*kind, if float { "f32" } else { "u32" }, "{field}");
        }
    }
}
