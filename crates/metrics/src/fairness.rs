//! Jain's index.

/// Jain's fairness index of `shares` (Jain, Chiu and Hawe, 1984): 1 when all are equal, 1/n when one has all;
/// 1 for none at all.
pub fn jain(shares: impl IntoIterator<Item = f64>) -> f64 {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for share in shares {
        n += 1.0;
        sum += share;
        squares += share * share;
    }
    if squares > 0.0 { sum * sum / (n * squares) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::jain;

    #[test]
    fn the_ends_of_the_scale() {
        assert_eq!(jain([3.0, 3.0, 3.0]), 1.0);
        assert_eq!(jain([5.0, 0.0, 0.0, 0.0]), 0.25);
        // (1 + 3)^2 / (2 * (1 + 9)) = 0.8.
        assert_eq!(jain([1.0, 3.0]), 0.8);
    }
}
