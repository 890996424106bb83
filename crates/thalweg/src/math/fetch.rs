//! Hints to processor and operating system about memory with irregular access: prefetches and large pages. They change no
//! numbers, and do nothing where they are not supported.

/// Bytes of a cache line.
const LINE: usize = 64;

/// Prefetches the memory of a slice.
#[inline(always)]
pub(crate) fn fetch<T>(slice: &[T]) {
    let bytes = size_of_val(slice);
    // A slice need not begin at a line, so that its last byte may lie in one more.
    for at in (0..bytes).step_by(LINE).chain(bytes.checked_sub(1)) {
        line(slice.as_ptr().wrapping_byte_add(at));
    }
}

/// Prefetches the line that a small value begins in.
#[inline(always)]
pub(crate) fn fetch_one<T>(value: &T) {
    line(value);
}

#[inline(always)]
fn line<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // A prefetch neither reads nor faults at any address.
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

/// Returns an empty list with capacity for `len` entries that are read in irregular order. A long one is placed on large pages
/// if available, which reduces the cost of address translation.
pub(crate) fn scattered<T>(len: usize) -> Vec<T> {
    let list = Vec::with_capacity(len);
    #[cfg(target_os = "linux")]
    {
        let (begin, bytes) = (list.as_ptr() as usize, list.capacity() * size_of::<T>());
        let (first, end) = (begin.next_multiple_of(LARGE), (begin + bytes) / LARGE * LARGE);
        if first < end {
            // SAFETY: the range lies within the new allocation and holds nothing yet. The advice affects how pages are created
            // when first touched; it moves and changes nothing, and a system that refuses it leaves small pages.
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
