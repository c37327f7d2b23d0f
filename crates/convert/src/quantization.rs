//! Code widths from `quantization_config`.
//!
//! The patterns of `module_quant_configs` are tried as one alternation, as Transformers does: the leftmost match in the
//! module's name decides, among matches at the same place the first in the order of the file. What the file then says is
//! checked against the stored bytes (`inventory.rs`): a 4-bit row of 6144 inputs and a 2-bit row of 12288 look the same.

use rawloop_spec::Bits;
use regex::Regex;

use crate::error::ConvertError;
use crate::fields::Fields;

/// Which module has which width.
#[derive(Debug)]
pub struct Quantization {
    default: Bits,
    overrides: Vec<(Regex, Bits)>,
}

impl Quantization {
    /// Reads `quantization_config` of a config.json.
    ///
    /// # Errors
    /// It is missing, has another `quant_method`, a width other than 2, 4 and 8, or a pattern that does not compile.
    pub fn read(config: &Fields) -> Result<Quantization, ConvertError> {
        let expected = "an object with quant_method \"gemma\" (the mobile QAT checkpoints)";
        let fields =
            config.required("quantization_config", expected, config.object("quantization_config"))?;
        if fields.text("quant_method")? != Some("gemma") {
            return Err(fields.wrong("quant_method", "\"gemma\" (the mobile QAT checkpoints)"));
        }
        if fields.flag("quantize_embeddings")? != Some(true) {
            return Err(fields.wrong("quantize_embeddings", "true"));
        }
        let default = width(&fields)?.ok_or_else(|| fields.wrong("num_bits", "2, 4 or 8"))?;
        let mut overrides = Vec::new();
        if let Some(modules) = fields.object("module_quant_configs")? {
            for (pattern, _) in modules.entries() {
                let regex = Regex::new(pattern).map_err(|error| {
                    modules.wrong(pattern, &format!("under a pattern that can be compiled ({error})"))
                })?;
                let Some(options) = modules.object(pattern)? else {
                    return Err(modules.wrong(pattern, "an object"));
                };
                overrides.push((regex, width(&options)?.unwrap_or(default)));
            }
        }
        Ok(Quantization { default, overrides })
    }

    /// The width of the module of that name, such as `model.language_model.layers.3.mlp.gate_proj`.
    pub fn bits(&self, module: &str) -> Bits {
        let found = self
            .overrides
            .iter()
            .enumerate()
            .filter_map(|(order, (regex, bits))| Some((regex.find(module)?.start(), order, *bits)));
        found.min_by_key(|&(start, order, _)| (start, order)).map_or(self.default, |(.., bits)| bits)
    }
}

fn width(fields: &Fields) -> Result<Option<Bits>, ConvertError> {
    let bits = |width| u8::try_from(width).ok().and_then(|width| Bits::try_from(width).ok());
    match fields.count("num_bits")? {
        None => Ok(None),
        Some(width) => bits(width).map(Some).ok_or_else(|| fields.wrong("num_bits", "2, 4 or 8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Document;

    fn document(modules: serde_json::Value) -> Document {
        let value = serde_json::json!({ "quantization_config": {
            "quant_method": "gemma", "num_bits": 4, "quantize_embeddings": true, "module_quant_configs": modules
        }});
        Document { file: "config.json".into(), value }
    }

    #[test]
    fn the_leftmost_match_wins_then_the_order_of_the_file() {
        let document = document(serde_json::json!({
            "mlp\\.": { "num_bits": 8 },
            "layers\\.\\d+\\.mlp": { "num_bits": 2 },
            "layers\\.3": { "num_bits": 8 },
            "^lm_head$": { "num_bits": 2 },
            "self_attn": {}
        }));
        let quantization = Quantization::read(&document.root().unwrap()).unwrap();
        assert_eq!(quantization.bits("model.language_model.layers.3.mlp.gate_proj"), Bits::Two);
        assert_eq!(quantization.bits("model.language_model.layers.3.per_layer_input_gate"), Bits::Eight);
        assert_eq!(quantization.bits("model.vision.mlp.fc"), Bits::Eight);
        assert_eq!(quantization.bits("lm_head"), Bits::Two);
        assert_eq!(quantization.bits("model.lm_head"), Bits::Four);
        assert_eq!(quantization.bits("model.language_model.layers.4.self_attn.q_proj"), Bits::Four);
    }

    #[test]
    fn a_pattern_that_does_not_compile_is_named() {
        let document = document(serde_json::json!({ "(?<=a)b": { "num_bits": 8 } }));
        let error = Quantization::read(&document.root().unwrap()).unwrap_err().to_string();
        assert!(error.contains("(?<=a)b"), "{error}");
    }
}
