//! What many measurements say together.

/// A sample's middle and spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// How many.
    pub count: usize,
    /// The smallest.
    pub min: f64,
    /// A quarter is below.
    pub lower: f64,
    /// Half is below.
    pub median: f64,
    /// A quarter is above.
    pub upper: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// Of `values`, in any order; `None` of none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| quantile(&sorted, part);
        Some(Self {
            count: sorted.len(),
            min: *sorted.first()?,
            lower: at(0.25),
            median: at(0.5),
            upper: at(0.75),
            max: *sorted.last()?,
        })
    }

    /// Of the ratios of what was measured in the same round: what slows one round down slows both.
    ///
    /// # Panics
    /// If there are not as many of one as of the other.
    pub fn of_ratios(values: &[f64], by: &[f64]) -> Option<Self> {
        assert_eq!(values.len(), by.len(), "measured in pairs");
        Self::of(&values.iter().zip(by).map(|(value, by)| value / by).collect::<Vec<_>>())
    }
}

/// The value below which `part` (0 to 1) of the sorted sample lies, between neighbours in proportion.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = part * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// How far counts are from being all alike: the sum over bins of (count - expected)² / expected.
pub fn chi_square(counts: &[u64]) -> f64 {
    let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    counts.iter().map(|&count| (count as f64 - expected).powi(2) / expected).sum()
}

/// The value that chi-square of `bins` bins passes with the probability of a normal deviate above `z` (Wilson and
/// Hilferty's approximation, good to a few per mille from 10 bins on).
pub fn chi_square_limit(bins: usize, z: f64) -> f64 {
    let freedom = (bins - 1) as f64;
    let spread = 2.0 / (9.0 * freedom);
    freedom * (1.0 - spread + z * spread.sqrt()).powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_neighbours_in_proportion() {
        let summary = Summary::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((summary.count, summary.min, summary.max), (4, 1.0, 4.0));
        assert_eq!((summary.lower, summary.median, summary.upper), (1.75, 2.5, 3.25));
        let one = Summary::of(&[7.0]).unwrap();
        assert_eq!((one.min, one.lower, one.median, one.upper, one.max), (7.0, 7.0, 7.0, 7.0, 7.0));
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        // A round in which the machine was busy tells the same ratio as the others.
        let ratios = Summary::of_ratios(&[1.0, 10.0, 1.2], &[2.0, 20.0, 2.0]).unwrap();
        assert_eq!((ratios.min, ratios.median, ratios.max), (0.5, 0.5, 0.6));
    }

    #[test]
    fn the_limit_of_chi_square_is_that_of_the_tables() {
        // P = 0.05 for 10 and 100 degrees of freedom: 18.307 and 124.342.
        for (bins, limit) in [(11, 18.307), (101, 124.342)] {
            let found = chi_square_limit(bins, 1.644_854);
            assert!((found / limit - 1.0).abs() < 0.003, "{bins} bins: {found}");
        }
        assert_eq!(chi_square(&[10, 10, 10]), 0.0);
        assert_eq!(chi_square(&[0, 20]), 20.0);
    }
}
