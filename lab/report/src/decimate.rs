//! Reduces the points of a curve without changing its picture.
//!
//! A screen has a few hundred columns of pixels. In one column a line shows only where it enters, where it leaves, and
//! the extremes between. [`decimate`] divides the range into equally wide steps, and keeps exactly these four points of
//! each (M4: Jugel, Jerzak, Hackenbroich, Markl, "M4: A Visualization-Oriented Time Series Data Aggregation", VLDB
//! 2014). No point is averaged or interpolated, and no peak is lost.

/// Returns at most `most` of the points: the first, the lowest, the highest and the last of each step. The points must
/// increase in x.
///
/// `place` maps an x to its position on the axis and is the identity or a logarithm. All points are kept if there are
/// at most `most`. A value of `most` below 4 counts as 4.
pub fn decimate(points: &[(f64, f64)], most: usize, place: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    if points.len() <= most {
        return points.to_vec();
    }
    let steps = (most / 4).max(1);
    let (left, right) = (place(first.0), place(last.0));
    let width = (right - left) / steps as f64;
    let step = |x: f64| if width > 0.0 { (((place(x) - left) / width) as usize).min(steps - 1) } else { 0 };
    let mut kept = Vec::with_capacity(steps * 4);
    let mut begin = 0;
    while begin < points.len() {
        let current = step(points[begin].0);
        let end = begin + points[begin..].iter().take_while(|point| step(point.0) == current).count();
        let by_height = |a: &usize, b: &usize| points[*a].1.total_cmp(&points[*b].1);
        let lowest = (begin..end).min_by(by_height).unwrap_or(begin);
        let highest = (begin..end).max_by(by_height).unwrap_or(begin);
        let mut four = [begin, lowest, highest, end - 1];
        four.sort_unstable();
        for (n, index) in four.into_iter().enumerate() {
            if n == 0 || index != four[n - 1] {
                kept.push(points[index]);
            }
        }
        begin = end;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_points_stay_as_they_are() {
        let points = [(0.0, 1.0), (1.0, 5.0), (2.0, 3.0)];
        assert_eq!(decimate(&points, 3, |x| x), points);
        assert_eq!(decimate(&[], 3, |x| x), []);
    }

    #[test]
    fn of_each_step_the_first_the_lowest_the_highest_and_the_last_stay() {
        // There are two steps of five points, [0, 4.5) and [4.5, 9]. In the first, 3 is first, 9 highest, 1 lowest, 4
        // last.
        let heights = [3.0, 9.0, 5.0, 1.0, 4.0, 2.0, 2.0, 8.0, 0.0, 6.0];
        let points: Vec<_> = heights.iter().enumerate().map(|(x, y)| (x as f64, *y)).collect();
        let kept: Vec<f64> = decimate(&points, 8, |x| x).iter().map(|p| p.1).collect();
        assert_eq!(kept, [3.0, 9.0, 1.0, 4.0, 2.0, 8.0, 0.0, 6.0]);
    }

    #[test]
    fn no_peak_is_lost_and_nothing_is_invented() {
        // A noisy line with one peak in a hundred thousand points.
        let mut state = 1_u64;
        let mut points: Vec<_> = (0..100_000)
            .map(|n| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (f64::from(n), (state >> 40) as f64)
            })
            .collect();
        points[77_777].1 = 1e12;
        points[12_345].1 = -1e12;
        let kept = decimate(&points, 2_000, |x| x);
        assert!(kept.len() <= 2_000);
        assert!(kept.iter().all(|point| points[point.0 as usize] == *point));
        assert!(kept.is_sorted_by(|a, b| a.0 < b.0));
        assert!(kept.contains(&(77_777.0, 1e12)) && kept.contains(&(12_345.0, -1e12)));
        assert_eq!((kept.first(), kept.last()), (points.first(), points.last()));
    }

    #[test]
    fn all_at_one_place_is_one_step() {
        let points: Vec<_> = (0..100).map(|n| (1.0, f64::from(n))).collect();
        assert_eq!(decimate(&points, 8, |x| x), [(1.0, 0.0), (1.0, 99.0)]);
    }
}
