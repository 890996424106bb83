//! A hint to the processor that memory will be read soon, for rows that are visited in an order which it cannot foresee. It changes no
//! number: where there is no such instruction, nothing happens.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Asks for the memory of a slice.
#[inline(always)]
pub(crate) fn fetch<T>(slice: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let (begin, bytes) = (slice.as_ptr().cast::<i8>(), size_of_val(slice));
        // A slice need not begin at a line, so that its last byte may lie in one more.
        for at in (0..bytes).step_by(LINE).chain(bytes.checked_sub(1)) {
            // Every address lies within the slice; and a prefetch neither reads nor faults, whatever the address.
            #[allow(unsafe_code)]
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(begin.wrapping_add(at));
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (slice, LINE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_every_length_are_as_they_were() {
        let numbers: Vec<u32> = (0..200).collect();
        for length in 0..numbers.len() {
            fetch(&numbers[length / 3..length]);
        }
        assert!(numbers.iter().enumerate().all(|(i, &n)| n == i as u32));
    }
}
