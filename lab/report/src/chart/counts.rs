//! [`Counts`]: of how many values the means of a figure are.

/// The number of values in the means of a figure, at least and at most.
#[derive(Default)]
pub(super) struct Counts {
    least: usize,
    pub(super) most: usize,
}

impl Counts {
    pub(super) fn add(&mut self, count: usize) {
        self.least = if self.most == 0 { count } else { self.least.min(count) };
        self.most = self.most.max(count);
    }
    /// States it; `None` if there are no means of several values.
    pub(super) fn said(&self) -> Option<String> {
        let Self { least, most } = self;
        (*most > 1).then(|| if least == most { format!("{most} values") } else { format!("{least} to {most} values") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_said_once_if_all_means_have_it() {
        let said = |counts: &[usize]| {
            let mut all = Counts::default();
            counts.iter().for_each(|count| all.add(*count));
            all.said()
        };
        assert_eq!((said(&[]), said(&[1, 1])), (None, None));
        assert_eq!((said(&[5, 5]).as_deref(), said(&[5, 3]).as_deref()), (Some("5 values"), Some("3 to 5 values")));
    }
}
