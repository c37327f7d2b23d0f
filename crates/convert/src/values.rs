//! Reading small tensors as numbers, with the checks of the contract on the way.

use std::path::Path;

use rawloop_spec::contract;
use safetensors::tensor::Dtype;

use crate::error::ConvertError;
use crate::source::TensorSource;

/// Appends `bytes` of BF16 or F32 elements to `values` as f32, widening exactly.
///
/// # Errors
/// A value that is not finite, with its index in the tensor (`first` is that of the first element).
pub fn floats(
    file: &Path,
    tensor: &str,
    dtype: Dtype,
    first: usize,
    bytes: &[u8],
    values: &mut Vec<f32>,
) -> Result<(), ConvertError> {
    let start = values.len();
    match dtype {
        Dtype::BF16 => values.extend(
            bytes.chunks_exact(2).map(|pair| contract::bf16_to_f32(u16::from_le_bytes([pair[0], pair[1]]))),
        ),
        _ => values.extend(
            bytes.chunks_exact(4).map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]])),
        ),
    }
    match values[start..].iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(index) => {
            let found = format!("{} at element {}", values[start + index], first + index);
            Err(ConvertError::tensor(file, tensor, "finite numbers", found))
        }
    }
}

/// Checks that scales are finite and not negative; returns how many are 0.
///
/// # Errors
/// Names the first bad one.
pub fn check_scales(file: &Path, tensor: &str, first: usize, values: &[f32]) -> Result<u64, ConvertError> {
    match values.iter().position(|&value| !(value.is_finite() && value >= 0.0)) {
        None => Ok(values.iter().filter(|&&value| value == 0.0).count() as u64),
        Some(index) => {
            let found = format!("{} in row {}", values[index], first + index);
            Err(ConvertError::tensor(file, tensor, "scales that are finite and not negative", found))
        }
    }
}

/// A tensor of one F32 element.
///
/// # Errors
/// It cannot be read, is not finite or negative.
pub fn scalar(source: &dyn TensorSource, tensor: &str) -> Result<f32, ConvertError> {
    let mut bytes = [0; 4];
    source.read(tensor, 0, &mut bytes)?;
    let value = f32::from_le_bytes(bytes);
    if value.is_finite() && value >= 0.0 {
        return Ok(value);
    }
    let expected = "a scale that is finite and not negative";
    Err(ConvertError::tensor(source.file_of(tensor), tensor, expected, value.to_string()))
}

/// An activation scale of a layer's linear: rule 1 divides by it, so 0 (not calibrated) is refused.
///
/// # Errors
/// As [`scalar`], and a 0.
pub fn calibrated(source: &dyn TensorSource, tensor: &str) -> Result<f32, ConvertError> {
    match scalar(source, tensor)? {
        0.0 => {
            let expected = "an activation scale above 0 (only the head may be without calibration)";
            Err(ConvertError::tensor(source.file_of(tensor), tensor, expected, "0"))
        }
        value => Ok(value),
    }
}
