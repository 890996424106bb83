//! Vectors aligned to a cache line, for iterates and vectors of the same length. The kernels that work on them are in `vec` and
//! `wide`.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Numbers in a cache line.
const LINE: usize = 8;

/// Vector whose first number is at the beginning of a cache line. Allocators guarantee only a quarter of that alignment, and
/// misaligned vector loads that touch two lines can cost a loop up to half of its speed. The alignment changes no bits; a
/// checkpoint stores a plain list.
#[derive(Debug, Default)]
pub struct Aligned {
    /// The numbers, with spare capacity to align them.
    store: Vec<f64>,
    first: usize,
    len: usize,
}

impl Aligned {
    /// Copies `x`; allocates only if the vector was never as long before.
    pub fn set(&mut self, x: &[f64]) {
        self.make_room(x.len());
        self.copy_from_slice(x);
    }

    /// Becomes `len` zeros.
    pub fn zeros(&mut self, len: usize) {
        self.make_room(len);
        self.fill(0.0);
    }

    fn make_room(&mut self, len: usize) {
        self.store.resize(len + LINE - 1, 0.0);
        let to_line = self.store.as_ptr().align_offset(LINE * size_of::<f64>());
        // `align_offset` may return no answer.
        self.first = if to_line < LINE { to_line } else { 0 };
        self.len = len;
    }
}

impl Deref for Aligned {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        &self.store[self.first..self.first + self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f64] {
        &mut self.store[self.first..self.first + self.len]
    }
}

/// A copy is aligned on its own.
impl Clone for Aligned {
    fn clone(&self) -> Self {
        let mut copy = Aligned::default();
        copy.set(self);
        copy
    }
}

impl PartialEq for Aligned {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Serialize for Aligned {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Aligned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut read = Aligned::default();
        read.set(&Vec::<f64>::deserialize(deserializer)?);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begins_at_a_line(x: &Aligned) -> bool {
        (x.as_ptr() as usize).is_multiple_of(LINE * size_of::<f64>())
    }

    #[test]
    fn begins_at_a_line_whatever_becomes_of_it() {
        assert!(Aligned::default().is_empty());
        let mut x = Aligned::default();
        for len in [1, 7, 1000, 3, 0, 50_000] {
            let numbers: Vec<f64> = (0..len).map(|i| i as f64).collect();
            x.set(&numbers);
            let moved = Box::new(x.clone());
            assert!(*x == *numbers && *moved == x && begins_at_a_line(&x) && begins_at_a_line(&moved));
            x.zeros(len);
            assert!(x.iter().all(|x| *x == 0.0) && x.len() == len && **moved == *numbers);
        }
    }

    #[test]
    fn a_checkpoint_holds_a_plain_list() {
        let mut x = Aligned::default();
        x.set(&[1.5, -2.0, 3.0]);
        let bytes = postcard::to_stdvec(&x).unwrap();
        assert_eq!(bytes, postcard::to_stdvec(&vec![1.5, -2.0, 3.0]).unwrap());
        let read: Aligned = postcard::from_bytes(&bytes).unwrap();
        assert!(read == x && begins_at_a_line(&read));
    }
}
