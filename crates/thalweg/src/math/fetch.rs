//! Hints to processor and system about memory that is visited in an order which they cannot foresee: that it will be read soon, and that it
//! should lie on large pages. They change no number: where there are no such things, nothing happens.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Asks for the memory of a slice.
#[inline(always)]
pub(crate) fn fetch<T>(slice: &[T]) {
    let bytes = size_of_val(slice);
    // A slice need not begin at a line, so that its last byte may lie in one more.
    for at in (0..bytes).step_by(LINE).chain(bytes.checked_sub(1)) {
        line(slice.as_ptr().wrapping_byte_add(at));
    }
}

/// Asks for the line that a small value begins in.
#[inline(always)]
pub(crate) fn fetch_one<T>(value: &T) {
    line(value);
}

#[inline(always)]
fn line<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // A prefetch neither reads nor faults, whatever the address.
        #[allow(unsafe_code)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(address.cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = address;
    }
}

/// Bytes of a large page.
const LARGE: usize = 2 << 20;

/// An empty list with room for `len` entries which are read in no order: if it is long, on large pages where the system has them, so that
/// an entry far from the last costs one look into memory and not several.
pub(crate) fn scattered<T>(len: usize) -> Vec<T> {
    let list = Vec::with_capacity(len);
    #[cfg(target_os = "linux")]
    {
        let (begin, bytes) = (list.as_ptr() as usize, list.capacity() * size_of::<T>());
        let (first, end) = (begin.next_multiple_of(LARGE), (begin + bytes) / LARGE * LARGE);
        if first < end {
            // SAFETY: the range lies within what was just allocated and holds nothing yet. The advice is about how pages are made when
            // they are first touched; it moves and changes nothing, and a system that refuses it leaves small pages.
            #[allow(unsafe_code)]
            unsafe {
                libc::madvise(first as *mut libc::c_void, end - first, libc::MADV_HUGEPAGE);
            }
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scattered_list_is_a_list() {
        for len in [0, 1, 1000, 700_000] {
            let mut list: Vec<u64> = scattered(len);
            assert!(list.is_empty() && list.capacity() >= len);
            list.extend(0..len as u64);
            list.iter().for_each(fetch_one);
            assert!(list.iter().enumerate().all(|(i, &v)| v == i as u64));
        }
    }

    #[test]
    fn slices_of_every_length_are_as_they_were() {
        let numbers: Vec<u32> = (0..200).collect();
        for length in 0..numbers.len() {
            fetch(&numbers[length / 3..length]);
        }
        assert!(numbers.iter().enumerate().all(|(i, &n)| n == i as u32));
    }
}
