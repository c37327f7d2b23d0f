//! Medians and percentiles: what a noisy machine leaves of a measurement.

/// The middle value, or the mean of the two middle ones; NaN of nothing.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

/// The smallest value that at least `percent` per cent are not above; NaN of nothing.
pub fn percentile(values: impl IntoIterator<Item = f64>, percent: f64) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * values.len() as f64).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_ignore_order_and_outliers() {
        assert_eq!(median([3.0]), 3.0);
        assert_eq!(median([9e9, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 100.0]), 3.0);
        assert!(median([]).is_nan());
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values = || (1..=200).rev().map(f64::from);
        assert_eq!(percentile(values(), 50.0), 100.0);
        assert_eq!(percentile(values(), 99.0), 198.0);
        assert_eq!(percentile(values(), 100.0), 200.0);
        assert_eq!(percentile([7.0], 99.0), 7.0);
        assert!(percentile([], 50.0).is_nan());
    }
}
