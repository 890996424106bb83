//! Offsets of compressed rows in their list of entries. The entries themselves are in [`super::matrix`].

use std::borrow::Cow;
use std::ops::Range;

/// Row `i` has the entries between offsets `i` and `i + 1`. Offsets take 4 bytes as long as all fit, which is the case for
/// nearly all data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offsets {
    /// At most 4,294,967,295 entries.
    Short(Cow<'static, [u32]>),
    /// Any number of entries.
    Long(Cow<'static, [u64]>),
}

impl Offsets {
    /// Creates the offsets of no rows.
    pub fn new() -> Self {
        Offsets::Short(vec![0].into())
    }

    /// Adds a row that ends at `end`.
    pub fn push(&mut self, end: usize) {
        match (&mut *self, u32::try_from(end)) {
            (Offsets::Short(list), Ok(end)) => list.to_mut().push(end),
            (Offsets::Short(list), Err(_)) => {
                *self = Offsets::Long(list.iter().map(|&at| u64::from(at)).chain([end as u64]).collect());
            }
            (Offsets::Long(list), _) => list.to_mut().push(end as u64),
        }
    }

    /// Returns the number of offsets, one more than there are rows.
    pub fn count(&self) -> usize {
        match self {
            Offsets::Short(list) => list.len(),
            Offsets::Long(list) => list.len(),
        }
    }

    /// Returns the begin of row `i`, or the end of the last row.
    #[inline(always)]
    pub fn at(&self, i: usize) -> usize {
        match self {
            Offsets::Short(list) => list[i] as usize,
            Offsets::Long(list) => list[i] as usize,
        }
    }

    /// Returns the range of entries of row `i`.
    #[inline(always)]
    pub fn span(&self, i: usize) -> Range<usize> {
        match self {
            Offsets::Short(list) => list[i] as usize..list[i + 1] as usize,
            Offsets::Long(list) => list[i] as usize..list[i + 1] as usize,
        }
    }
}

impl Default for Offsets {
    fn default() -> Self {
        Self::new()
    }
}

impl FromIterator<usize> for Offsets {
    /// Takes the numbers unchecked; they are validated together with their entries.
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        let mut offsets = Offsets::Short(vec![].into());
        numbers.into_iter().for_each(|end| offsets.push(end));
        offsets
    }
}

impl From<Vec<usize>> for Offsets {
    fn from(numbers: Vec<usize>) -> Self {
        numbers.into_iter().collect()
    }
}

impl From<&'static [u32]> for Offsets {
    fn from(numbers: &'static [u32]) -> Self {
        Offsets::Short(numbers.into())
    }
}

impl From<&'static [u64]> for Offsets {
    fn from(numbers: &'static [u64]) -> Self {
        Offsets::Long(numbers.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_long_only_when_they_must() {
        let last = u32::MAX as usize;
        let mut offsets: Offsets = vec![0, 3, last].into();
        assert!(matches!(offsets, Offsets::Short(_)));
        let short = offsets.clone();
        for end in [last + 1, last + 5] {
            offsets.push(end);
        }
        assert!(matches!(offsets, Offsets::Long(_)));
        let list = [0, 3, last, last + 1, last + 5];
        assert_eq!(offsets, list.to_vec().into());
        assert_eq!(offsets.count(), 5);
        for (i, pair) in list.windows(2).enumerate() {
            assert_eq!((offsets.at(i), offsets.span(i)), (pair[0], pair[0]..pair[1]));
            if i < 2 {
                assert_eq!(short.span(i), offsets.span(i));
            }
        }
        assert_eq!((Offsets::new().count(), Offsets::new().at(0)), (1, 0));
    }
}
