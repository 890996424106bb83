//! Matrices as collections of rows: dense row-major, compressed rows, and rows of ones without values (with one-byte column
//! indices if they fit) for 0/1 data such as a9a. Operations by columns are not provided.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::fetch::{fetch, fetch_one};
use super::offsets::Offsets;
use super::reduce::{self, Chunks};
use super::{vec, wide};
use crate::{Error, Result};

/// Size in bytes above which a selection refers to the rows of its source instead of copying them. A copy has contiguous rows,
/// but large data must not be in memory twice.
const COPIED: usize = 64 << 20;

/// Number of lanes that the entries of a row are distributed to.
pub(crate) const LANES: usize = 4;

/// Entries that are owned or live as long as the process, such as those of a mapped file.
type Entries<T> = Cow<'static, [T]>;

/// An immutable matrix with fast rows. A clone shares the entries.
#[derive(Debug, Clone)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    /// Number of stored entries in these rows.
    stored: usize,
    store: Arc<Store>,
    /// Indices of the selected rows in the store; `None` for all rows in order.
    picked: Option<Arc<[usize]>>,
}

#[derive(Debug, PartialEq)]
enum Store {
    Dense(Vec<f64>),
    Sparse {
        ptr: Offsets,
        ids: Entries<u32>,
        values: Entries<f64>,
    },
    /// Every stored entry is 1.
    Ones32 {
        ptr: Offsets,
        ids: Entries<u32>,
    },
    /// Every stored entry is 1 and there are at most 256 columns.
    Ones8 {
        ptr: Offsets,
        ids: Entries<u8>,
    },
}

/// Compressed rows as stored: row `i` has the entries of its span in the offsets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Compressed<'a> {
    /// Columns, counted from 0, and values.
    Valued(&'a Offsets, &'a [u32], &'a [f64]),
    /// Columns of ones.
    Ones(&'a Offsets, &'a [u32]),
    /// Columns of ones, of at most 256.
    ByteOnes(&'a Offsets, &'a [u8]),
}

/// Visitor of the entries of a row. A closure is one; a type of its own can mark its method for inlining, which the compiler
/// omits for a long closure used in several places.
pub(crate) trait Visit {
    /// Visits an entry with its lane, column and value.
    fn visit(&mut self, lane: usize, column: usize, value: f64);
}

impl<F: FnMut(usize, usize, f64)> Visit for F {
    #[inline(always)]
    fn visit(&mut self, lane: usize, column: usize, value: f64) {
        self(lane, column, value);
    }
}

/// Slopes of selected rows in [`Matrix::pull_several`].
pub(crate) struct Pull<'a> {
    /// Increasing positions within the range of rows; `None` for all of them.
    pub(crate) members: Option<&'a [u32]>,
    /// A slope for each.
    pub(crate) slopes: &'a [f64],
}

/// Rows that several products share while they are in the first-level cache.
const SHARED: usize = 32;

impl Store {
    fn stored(&self) -> usize {
        match self {
            Store::Dense(e) => e.len(),
            Store::Sparse { ids, .. } | Store::Ones32 { ids, .. } => ids.len(),
            Store::Ones8 { ids, .. } => ids.len(),
        }
    }

    /// Returns the bytes per stored entry.
    fn width(&self) -> usize {
        match self {
            Store::Dense(_) => 8,
            Store::Sparse { .. } => 12,
            Store::Ones32 { .. } => 4,
            Store::Ones8 { .. } => 1,
        }
    }
}

impl Matrix {
    /// Builds a dense matrix from its entries, row after row.
    pub fn dense(rows: usize, cols: usize, entries: Vec<f64>) -> Result<Self> {
        crate::error::check_length("the dense matrix", entries.len(), rows * cols)?;
        if let Some((i, v)) = vec::first_not_finite(&entries) {
            let what = format!("entry ({}, {}) of the matrix", i / cols.max(1) + 1, i % cols.max(1) + 1);
            return Err(Error::NotFinite { what, value: v });
        }
        Ok(Self::of(rows, cols, Store::Dense(entries)))
    }

    /// Builds a sparse matrix from compressed rows: row `i` has the columns `ids[ptr.span(i)]`, counted from 0 and strictly
    /// increasing. If every value is 1, the values are dropped. Lists are moved, and slices that live as long as the process
    /// are not copied.
    pub fn sparse(
        cols: usize,
        ptr: impl Into<Offsets>,
        ids: impl Into<Cow<'static, [u32]>>,
        values: impl Into<Cow<'static, [f64]>>,
    ) -> Result<Self> {
        let (ptr, ids, values) = (ptr.into(), ids.into(), values.into());
        crate::error::check_length("the list of values", values.len(), ids.len())?;
        if values.iter().all(|&v| v == 1.0) {
            return Self::ones(cols, ptr, ids);
        }
        if let Some((k, v)) = vec::first_not_finite(&values) {
            return Err(Error::NotFinite { what: format!("stored value {} of the matrix", k + 1), value: v });
        }
        let rows = check_rows(cols, &ptr, &ids)?;
        Ok(Self::of(rows, cols, Store::Sparse { ptr, ids, values }))
    }

    /// Builds a matrix of zeros and ones from the positions of the ones, as in [`Matrix::sparse`].
    pub fn ones(cols: usize, ptr: impl Into<Offsets>, ids: impl Into<Cow<'static, [u32]>>) -> Result<Self> {
        let (ptr, ids) = (ptr.into(), ids.into());
        let rows = check_rows(cols, &ptr, &ids)?;
        let store = if cols <= 256 {
            // check_rows has verified that every id is below cols.
            Store::Ones8 { ptr, ids: ids.iter().map(|&c| c as u8).collect() }
        } else {
            Store::Ones32 { ptr, ids }
        };
        Ok(Self::of(rows, cols, store))
    }

    /// As [`Matrix::ones`], for at most 256 columns with one byte each.
    pub fn byte_ones(cols: usize, ptr: impl Into<Offsets>, ids: impl Into<Cow<'static, [u8]>>) -> Result<Self> {
        let (ptr, ids) = (ptr.into(), ids.into());
        if cols > 256 {
            return Err(Error::setting("the number of columns", cols, "at most 256, which is what a byte can tell apart"));
        }
        let rows = check_rows(cols, &ptr, &ids)?;
        Ok(Self::of(rows, cols, Store::Ones8 { ptr, ids }))
    }

    fn of(rows: usize, cols: usize, store: Store) -> Self {
        Matrix { rows, cols, stored: store.stored(), store: Arc::new(store), picked: None }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the number of stored entries.
    pub fn stored(&self) -> usize {
        self.stored
    }

    /// Returns the compressed rows as stored; `None` for a dense matrix and for a selection of rows.
    pub fn compressed(&self) -> Option<Compressed<'_>> {
        match &*self.store {
            _ if self.picked.is_some() => None,
            Store::Dense(_) => None,
            Store::Sparse { ptr, ids, values } => Some(Compressed::Valued(ptr, ids, values)),
            Store::Ones32 { ptr, ids } => Some(Compressed::Ones(ptr, ids)),
            Store::Ones8 { ptr, ids } => Some(Compressed::ByteOnes(ptr, ids)),
        }
    }

    /// Returns the same rows with additional, empty columns.
    pub fn with_columns(&self, cols: usize) -> Result<Matrix> {
        if cols < self.cols {
            return Err(Error::setting("the number of columns", cols, format!("at least {}", self.cols)));
        }
        let mut wide = Matrix { cols, ..self.clone() };
        match &*self.store {
            Store::Dense(_) => {
                let mut entries = vec![0.0; self.rows * cols];
                for (i, row) in entries.chunks_mut(cols.max(1)).take(self.rows).enumerate() {
                    self.visit_row(i, |c, v| row[c] = v);
                }
                wide = Matrix::of(self.rows, cols, Store::Dense(entries));
            }
            Store::Ones8 { ptr, ids } if cols > 256 => {
                let store = Store::Ones32 { ptr: ptr.clone(), ids: ids.iter().map(|&c| u32::from(c)).collect() };
                wide.store = Arc::new(store);
            }
            _ => (),
        }
        Ok(wide)
    }

    /// Returns the index of row `i` in the store.
    #[inline(always)]
    fn place(&self, i: usize) -> usize {
        self.picked.as_ref().map_or(i, |rows| rows[i])
    }

    /// Returns the range of row `i` in a dense store.
    #[inline(always)]
    fn line(&self, i: usize) -> Range<usize> {
        let i = self.place(i);
        i * self.cols..(i + 1) * self.cols
    }

    /// Returns the range of row `i` in compressed rows.
    #[inline(always)]
    fn span(&self, ptr: &Offsets, i: usize) -> Range<usize> {
        ptr.span(self.place(i))
    }

    /// Describes the storage format.
    pub fn form(&self) -> &'static str {
        match &*self.store {
            Store::Dense(_) => "dense",
            Store::Sparse { .. } => "sparse",
            Store::Ones32 { .. } => "sparse ones",
            Store::Ones8 { .. } => "sparse ones, one-byte columns",
        }
    }

    /// Calls `visit(column, value)` for the stored entries of row `i`, in the order of the columns.
    #[inline]
    pub fn visit_row(&self, i: usize, mut visit: impl FnMut(usize, f64)) {
        match &*self.store {
            Store::Dense(e) => e[self.line(i)].iter().enumerate().for_each(|(c, &v)| visit(c, v)),
            Store::Sparse { ptr, ids, values } => {
                let range = self.span(ptr, i);
                ids[range.clone()].iter().zip(&values[range]).for_each(|(&c, &v)| visit(c as usize, v));
            }
            Store::Ones32 { ptr, ids } => ids[self.span(ptr, i)].iter().for_each(|&c| visit(c as usize, 1.0)),
            Store::Ones8 { ptr, ids } => ids[self.span(ptr, i)].iter().for_each(|&c| visit(c as usize, 1.0)),
        }
    }

    /// As [`Matrix::visit_row`], with the entries distributed to [`LANES`] lanes in turn. Sums in different lanes are
    /// independent, and a lane is a compile-time constant, so that they stay in registers.
    #[inline(always)]
    pub(crate) fn deal_row(&self, i: usize, to: &mut impl Visit) {
        match &*self.store {
            Store::Dense(e) => e[self.line(i)].iter().enumerate().for_each(|(c, &v)| to.visit(0, c, v)),
            Store::Sparse { ptr, ids, values } => {
                let range = self.span(ptr, i);
                let (ids, values) = (ids[range.clone()].chunks_exact(LANES), values[range].chunks_exact(LANES));
                let rest = ids.remainder().iter().zip(values.remainder());
                for (c, v) in ids.zip(values) {
                    for lane in 0..LANES {
                        to.visit(lane, c[lane] as usize, v[lane]);
                    }
                }
                rest.for_each(|(&c, &v)| to.visit(0, c as usize, v));
            }
            Store::Ones32 { ptr, ids } => deal_ones(&ids[self.span(ptr, i)], to),
            Store::Ones8 { ptr, ids } => deal_ones(&ids[self.span(ptr, i)], to),
        }
    }

    /// Prefetches the position of row `i`.
    #[inline]
    pub(crate) fn fetch_place(&self, i: usize) {
        match &*self.store {
            Store::Dense(_) => {}
            Store::Sparse { ptr, .. } | Store::Ones32 { ptr, .. } | Store::Ones8 { ptr, .. } => match ptr {
                Offsets::Short(list) => fetch_one(&list[self.place(i)]),
                Offsets::Long(list) => fetch_one(&list[self.place(i)]),
            },
        }
    }

    /// Prefetches the entries of row `i`.
    #[inline]
    pub(crate) fn fetch_row(&self, i: usize) {
        match &*self.store {
            Store::Dense(e) => fetch(&e[self.line(i)]),
            Store::Sparse { ptr, ids, values } => {
                let range = self.span(ptr, i);
                fetch(&ids[range.clone()]);
                fetch(&values[range]);
            }
            Store::Ones32 { ptr, ids } => fetch(&ids[self.span(ptr, i)]),
            Store::Ones8 { ptr, ids } => fetch(&ids[self.span(ptr, i)]),
        }
    }

    /// Computes the inner product of row `i` and `x`.
    pub fn row_dot(&self, i: usize, x: &[f64]) -> f64 {
        match &*self.store {
            Store::Dense(e) => vec::dot(&e[self.line(i)], x),
            Store::Sparse { ptr, ids, values } => sparse_dot(&ids[self.span(ptr, i)], &values[self.span(ptr, i)], x),
            Store::Ones32 { ptr, ids } => gather(&ids[self.span(ptr, i)], |&c| x[c as usize]),
            Store::Ones8 { ptr, ids } => gather(&ids[self.span(ptr, i)], |&c| x[c as usize]),
        }
    }

    /// Computes `y += a * (row i)`.
    pub fn add_row(&self, i: usize, a: f64, y: &mut [f64]) {
        match &*self.store {
            Store::Dense(e) => vec::add_scaled(y, a, &e[self.line(i)]),
            Store::Sparse { ptr, ids, values } => {
                for (&c, &v) in ids[self.span(ptr, i)].iter().zip(&values[self.span(ptr, i)]) {
                    y[c as usize] += a * v;
                }
            }
            Store::Ones32 { ptr, ids } => ids[self.span(ptr, i)].iter().for_each(|&c| y[c as usize] += a),
            Store::Ones8 { ptr, ids } => ids[self.span(ptr, i)].iter().for_each(|&c| y[c as usize] += a),
        }
    }

    /// Computes the squared Euclidean norm of row `i`.
    pub fn row_norm_squared(&self, i: usize) -> f64 {
        if let Store::Dense(e) = &*self.store {
            return vec::norm_squared(&e[self.line(i)]);
        }
        let mut total = 0.0;
        self.visit_row(i, |_, v| total += v * v);
        total
    }

    /// Orders rows by their stored entries; exactly the identical rows compare equal.
    pub fn compare_rows(&self, a: usize, b: usize) -> std::cmp::Ordering {
        let numbers = |x: &[f64], y: &[f64]| {
            let first = x.iter().zip(y).map(|(x, y)| x.total_cmp(y)).find(|order| order.is_ne());
            first.unwrap_or_else(|| x.len().cmp(&y.len()))
        };
        match &*self.store {
            Store::Dense(e) => numbers(&e[self.line(a)], &e[self.line(b)]),
            Store::Sparse { ptr, ids, values } => {
                let columns = ids[self.span(ptr, a)].cmp(&ids[self.span(ptr, b)]);
                columns.then_with(|| numbers(&values[self.span(ptr, a)], &values[self.span(ptr, b)]))
            }
            Store::Ones32 { ptr, ids } => ids[self.span(ptr, a)].cmp(&ids[self.span(ptr, b)]),
            Store::Ones8 { ptr, ids } => ids[self.span(ptr, a)].cmp(&ids[self.span(ptr, b)]),
        }
    }

    /// Computes `out[k] = <row (rows.start + k), x>` for all rows of a range.
    pub fn scores(&self, rows: Range<usize>, x: &[f64], out: &mut [f64]) {
        let first = rows.start;
        let shift = |r: Range<usize>| first + r.start..first + r.end;
        let chunks = Chunks::of(rows.len());
        match &*self.store {
            Store::Ones8 { ptr, ids } => {
                // A byte is always a valid index into a table of 256 entries, so the inner loop has no bounds check.
                let mut table = [0.0; 256];
                table[..self.cols].copy_from_slice(&x[..self.cols]);
                reduce::fill_rows(chunks, out, |range, out| {
                    for (i, o) in shift(range).zip(out) {
                        *o = gather(&ids[self.span(ptr, i)], |&c| table[usize::from(c)]);
                    }
                });
            }
            Store::Dense(e) if self.picked.is_none() && self.cols < vec::LONG => reduce::fill_rows(chunks, out, |range, out| {
                let rows = shift(range);
                wide::row_products(&e[rows.start * self.cols..rows.end * self.cols], &x[..self.cols], out);
            }),
            _ => reduce::fill_rows(chunks, out, |range, out| {
                for (i, o) in shift(range).zip(out) {
                    *o = self.row_dot(i, x);
                }
            }),
        }
    }

    /// Returns the entries, row after row, if the matrix is dense and no selection of rows.
    pub(crate) fn dense_entries(&self) -> Option<&[f64]> {
        match &*self.store {
            Store::Dense(e) if self.picked.is_none() => Some(e),
            _ => None,
        }
    }

    /// Computes several products with the transpose in one pass over the rows of a dense matrix: row j of `out` becomes the sum of
    /// `slopes_j[k]` times the k-th row of the j-th selection. Returns false, and computes nothing, if the matrix is not dense.
    pub(crate) fn pull_several(&self, rows: Range<usize>, pulls: &[Pull], out: &mut [f64], slots: &mut Vec<f64>) -> bool {
        let Some(entries) = self.dense_entries().filter(|_| self.cols > 0) else { return false };
        let width = pulls.len() * self.cols;
        let chunks = Chunks::of(rows.len());
        let chunks = if chunks.count() * width > rows.len() * self.cols / 2 { Chunks::single(rows.len()) } else { chunks };
        slots.clear();
        slots.resize(chunks.count() * width, 0.0);
        reduce::for_each_chunk(chunks, slots, |_, range, slot| {
            let below = |members: &[u32], end: usize| members.partition_point(|&m| (m as usize) < end);
            let mut done: Vec<usize> = pulls.iter().map(|pull| pull.members.map_or(0, |m| below(m, range.start))).collect();
            for start in range.clone().step_by(SHARED) {
                let end = (start + SHARED).min(range.end);
                for ((pull, done), out) in pulls.iter().zip(&mut done).zip(slot.chunks_exact_mut(self.cols)) {
                    match pull.members {
                        None => {
                            let block = &entries[(rows.start + start) * self.cols..(rows.start + end) * self.cols];
                            wide::add_all_rows(block, &pull.slopes[start..end], out);
                        }
                        Some(members) => {
                            let here = *done..*done + below(&members[*done..], end);
                            wide::add_picked_rows(entries, rows.start, &members[here.clone()], &pull.slopes[here.clone()], out);
                            *done = here.end;
                        }
                    }
                }
            }
        });
        out.fill(0.0);
        reduce::add_slots(slots, out);
        true
    }

    /// Returns the number of entries of working space that [`Matrix::pull`] requires for `rows` rows.
    pub fn pull_slots(&self, rows: usize) -> usize {
        self.pull_chunks(rows).count() * self.cols
    }

    /// Computes `grad += (sum_k slopes[k] * (row (rows.start + k))) / divisor`, a product with the transpose. `slots` is
    /// working space of [`Matrix::pull_slots`] entries. Dividing last keeps sums of whole numbers exact.
    pub fn pull(&self, rows: Range<usize>, slopes: &[f64], divisor: f64, grad: &mut [f64], slots: &mut [f64]) {
        let first = rows.start;
        let chunks = self.pull_chunks(rows.len());
        let slots = &mut slots[..chunks.count() * self.cols];
        reduce::for_each_chunk(chunks, slots, |_, range, slot| {
            let part = &slopes[range.clone()];
            let rows = first + range.start..first + range.end;
            match &*self.store {
                Store::Ones8 { ptr, ids } => scatter_bytes(ids, rows.map(|i| self.span(ptr, i)), part, slot),
                Store::Dense(e) if self.picked.is_none() && self.cols > 0 => {
                    slot.fill(0.0);
                    wide::add_all_rows(&e[rows.start * self.cols..rows.end * self.cols], part, slot);
                }
                _ => {
                    slot.fill(0.0);
                    for (i, &s) in rows.zip(part) {
                        if s != 0.0 {
                            self.add_row(i, s, slot);
                        }
                    }
                }
            }
        });
        let (total, others) = slots.split_at_mut(self.cols);
        reduce::add_slots(others, total);
        grad.iter_mut().zip(total).for_each(|(g, t)| *g += *t / divisor);
    }

    /// Returns the matrix with every column divided by its largest absolute value, so that all entries lie in [-1, 1].
    pub fn scaled(&self) -> Matrix {
        let mut largest = vec![0.0_f64; self.cols];
        (0..self.rows).for_each(|i| self.visit_row(i, |c, v| largest[c] = largest[c].max(v.abs())));
        let all: Vec<usize> = (0..self.rows).collect();
        let mut store = self.copied(&all);
        let divide = |v: &mut f64, c: usize| {
            if largest[c] > 0.0 {
                *v /= largest[c];
            }
        };
        match &mut store {
            Store::Dense(e) => e.iter_mut().enumerate().for_each(|(k, v)| divide(v, k % self.cols)),
            Store::Sparse { ids, values, .. } => {
                values.to_mut().iter_mut().zip(ids.iter()).for_each(|(v, &c)| divide(v, c as usize));
            }
            // Ones already have the largest absolute value 1.
            Store::Ones32 { .. } | Store::Ones8 { .. } => {}
        }
        Self::of(self.rows, self.cols, store)
    }

    /// Returns the given rows, in that order. A large selection shares the entries with this matrix.
    pub fn select(&self, rows: &[usize]) -> Matrix {
        let stored = rows.iter().map(|&i| self.stored_in(i)).sum::<usize>();
        if stored * self.store.width() > COPIED { self.view(rows, stored) } else { self.copy(rows) }
    }

    fn stored_in(&self, i: usize) -> usize {
        match &*self.store {
            Store::Dense(_) => self.cols,
            Store::Sparse { ptr, .. } | Store::Ones32 { ptr, .. } | Store::Ones8 { ptr, .. } => self.span(ptr, i).len(),
        }
    }

    fn view(&self, rows: &[usize], stored: usize) -> Matrix {
        let picked = Some(rows.iter().map(|&i| self.place(i)).collect());
        Matrix { rows: rows.len(), cols: self.cols, stored, store: Arc::clone(&self.store), picked }
    }

    fn copy(&self, rows: &[usize]) -> Matrix {
        Self::of(rows.len(), self.cols, self.copied(rows))
    }

    fn copied(&self, rows: &[usize]) -> Store {
        let pick = || -> Offsets {
            let ends = rows.iter().scan(0, |end, &i| {
                *end += self.stored_in(i);
                Some(*end)
            });
            std::iter::once(0).chain(ends).collect()
        };
        fn entries<T: Copy>(rows: &[usize], span: impl Fn(usize) -> Range<usize>, from: &[T]) -> Vec<T> {
            rows.iter().flat_map(|&i| from[span(i)].iter().copied()).collect()
        }
        match &*self.store {
            Store::Dense(e) => Store::Dense(entries(rows, |i| self.line(i), e)),
            Store::Sparse { ptr, ids, values } => {
                let span = |i| self.span(ptr, i);
                Store::Sparse { ptr: pick(), ids: entries(rows, span, ids).into(), values: entries(rows, span, values).into() }
            }
            Store::Ones32 { ptr, ids } => Store::Ones32 { ptr: pick(), ids: entries(rows, |i| self.span(ptr, i), ids).into() },
            Store::Ones8 { ptr, ids } => Store::Ones8 { ptr: pick(), ids: entries(rows, |i| self.span(ptr, i), ids).into() },
        }
    }

    /// Returns the chunks for [`Matrix::pull`]: with many columns, many slots would cost more than the rows themselves.
    fn pull_chunks(&self, rows: usize) -> Chunks {
        let chunks = Chunks::of(rows);
        let share = self.stored as f64 * rows as f64 / self.rows.max(1) as f64;
        if (chunks.count() * self.cols) as f64 > 0.5 * share { Chunks::single(rows) } else { chunks }
    }
}

impl PartialEq for Matrix {
    fn eq(&self, other: &Self) -> bool {
        if self.rows != other.rows || self.cols != other.cols || self.stored != other.stored || self.form() != other.form() {
            return false;
        }
        if self.picked.is_none() && other.picked.is_none() {
            return self.store == other.store;
        }
        let row = |m: &Matrix, i: usize| {
            let mut entries = vec![];
            m.visit_row(i, |c, v| entries.push((c, v)));
            entries
        };
        (0..self.rows).all(|i| row(self, i) == row(other, i))
    }
}

/// [`Matrix::deal_row`] of ones.
#[inline(always)]
fn deal_ones<T: Copy + Into<u32>>(ids: &[T], to: &mut impl Visit) {
    let quads = ids.chunks_exact(LANES);
    let rest = quads.remainder();
    for c in quads {
        for (lane, &c) in c.iter().enumerate() {
            to.visit(lane, c.into() as usize, 1.0);
        }
    }
    rest.iter().for_each(|&c| to.visit(0, c.into() as usize, 1.0));
}

/// Sums looked-up entries from left to right. Rows are short and independent of each other, so the processor overlaps them, and
/// a score has the same bits as a plain loop. (If a margin sits on the kink of a hinge in exact arithmetic, the bits decide
/// which subgradient is taken.)
#[inline(always)]
fn gather<T>(ids: &[T], look: impl Fn(&T) -> f64) -> f64 {
    ids.iter().fold(0.0, |sum, id| sum + look(id))
}

fn sparse_dot(ids: &[u32], values: &[f64], x: &[f64]) -> f64 {
    ids.iter().zip(values).fold(0.0, |sum, (&c, v)| sum + v * x[c as usize])
}

/// Implements [`Matrix::pull`] for rows of ones with byte columns. Neighbouring rows share columns, so two tables in turn keep
/// an addition from waiting for the previous store.
fn scatter_bytes(ids: &[u8], rows: impl Iterator<Item = Range<usize>>, slopes: &[f64], slot: &mut [f64]) {
    let mut even = [0.0; 256];
    let mut odd = [0.0; 256];
    let mut turn = false;
    for (row, &s) in rows.zip(slopes) {
        if s != 0.0 {
            let table = if turn { &mut odd } else { &mut even };
            for &c in &ids[row] {
                table[usize::from(c)] += s;
            }
            turn = !turn;
        }
    }
    for ((out, a), b) in slot.iter_mut().zip(&even).zip(&odd) {
        *out = a + b;
    }
}

/// Checks the shape of compressed rows and returns their number.
fn check_rows<T: Copy + Ord + Into<u32>>(cols: usize, ptr: &Offsets, ids: &[T]) -> Result<usize> {
    let bad = |why: String| Error::Problem(format!("compressed rows are damaged: {why}"));
    let rows = match ptr.count().checked_sub(1) {
        Some(rows) if ptr.at(0) == 0 => rows,
        _ => return Err(bad("the row pointers must start with 0".into())),
    };
    let end = ptr.at(rows);
    if end != ids.len() {
        return Err(bad(format!("the last row pointer is {end}, but {} entries are stored", ids.len())));
    }
    for i in 0..rows {
        let Some(row) = ids.get(ptr.span(i)) else {
            return Err(bad(format!("row pointer {} goes back", i + 1)));
        };
        if let Some(pair) = row.windows(2).find(|p| p[0] >= p[1]) {
            let [before, after] = [pair[0], pair[1]].map(|c| u64::from(c.into()) + 1);
            return Err(bad(format!("row {} has column {after} after column {before}", i + 1)));
        }
        if let Some(c) = row.last().map(|&c| c.into()).filter(|&c| c as usize >= cols) {
            return Err(bad(format!("row {} has column {} of {cols}", i + 1, u64::from(c) + 1)));
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::rng::{Purpose, Rng};

    /// The same random 0/1 or real rows in every form, and as plain nested vectors: the naive twin.
    fn forms(rows: usize, cols: usize, real: bool, seed: u64) -> (Vec<Vec<f64>>, Vec<Matrix>) {
        let mut rng = Rng::new(seed, Purpose::Data);
        let plain: Vec<Vec<f64>> = (0..rows)
            .map(|_| {
                (0..cols)
                    .map(|_| match (rng.uniform() < 0.2, real) {
                        (false, _) => 0.0,
                        (true, true) => rng.uniform() - 0.5,
                        (true, false) => 1.0,
                    })
                    .collect()
            })
            .collect();
        let mut ptr = vec![0];
        let (mut ids, mut values) = (vec![], vec![]);
        for row in &plain {
            for (c, &v) in row.iter().enumerate().filter(|(_, v)| **v != 0.0) {
                ids.push(c as u32);
                values.push(v);
            }
            ptr.push(ids.len());
        }
        let matrices = vec![
            Matrix::dense(rows, cols, plain.concat()).unwrap(),
            Matrix::sparse(cols, ptr.clone(), ids.clone(), values.clone()).unwrap(),
            Matrix::of(rows, cols, Store::Sparse { ptr: ptr.into(), ids: ids.into(), values: values.into() }),
        ];
        (plain, matrices)
    }

    #[test]
    fn scaled_columns_have_a_largest_entry_of_one() {
        let (plain, matrices) = forms(40, 12, true, 3);
        for matrix in matrices {
            let picked: Vec<usize> = (0..30).rev().collect();
            for (scaled, rows) in [(matrix.scaled(), (0..40).collect()), (matrix.view(&picked, 0).scaled(), picked)] {
                for (at, &i) in rows.iter().enumerate() {
                    let mut row = [0.0; 12];
                    scaled.visit_row(at, |c, v| row[c] = v);
                    for (c, v) in row.iter().enumerate() {
                        let largest = rows.iter().map(|&i| plain[i][c].abs()).fold(0.0, f64::max);
                        assert_eq!(*v, if largest > 0.0 { plain[i][c] / largest } else { 0.0 });
                    }
                }
            }
        }
        let (_, ones) = forms(20, 300, false, 4);
        assert_eq!(ones[1].scaled(), ones[1]);
    }

    #[test]
    fn every_form_equals_the_plain_loop() {
        for (cols, real) in [(7, false), (256, false), (257, false), (40, true)] {
            let (plain, matrices) = forms(300, cols, real, 3);
            let x: Vec<f64> = (0..cols).map(|j| (j as f64 * 1.3).cos()).collect();
            let slopes: Vec<f64> = (0..250).map(|i| if i % 3 == 0 { 0.0 } else { (i as f64).sin() }).collect();
            for m in &matrices {
                let mut scores = vec![0.0; 250];
                m.scores(50..300, &x, &mut scores);
                for (k, s) in scores.iter().enumerate() {
                    let naive: f64 = plain[50 + k].iter().zip(&x).map(|(a, b)| a * b).sum();
                    assert!((s - naive).abs() < 1e-12);
                }
                let mut grad = vec![1.0; cols];
                let mut slots = vec![0.0; m.pull_slots(250)];
                m.pull(50..300, &slopes, 2.0, &mut grad, &mut slots);
                for (j, g) in grad.iter().enumerate() {
                    let naive: f64 = (0..250).map(|k| slopes[k] * plain[50 + k][j]).sum::<f64>() / 2.0 + 1.0;
                    assert!((g - naive).abs() < 1e-12, "{} {g} {naive}", m.form());
                }
                let some = m.select(&[5, 3, 5]);
                assert!(some.compare_rows(0, 2).is_eq() && some.compare_rows(0, 1) == m.compare_rows(5, 3));
                assert_eq!(m.compare_rows(5, 3).is_eq(), plain[5] == plain[3]);
                assert_eq!(m.compare_rows(5, 3), m.compare_rows(3, 5).reverse());
                assert!((some.row_dot(1, &x) - m.row_dot(3, &x)).abs() < 1e-15);
                assert_eq!(some.row_norm_squared(2), m.row_norm_squared(5));
            }
        }
    }

    #[test]
    fn several_products_with_the_transpose_equal_single_ones() {
        let (_, matrices) = forms(5_000, 11, true, 8);
        let all: Vec<f64> = (0..4_900).map(|i| (i as f64 * 0.7).sin()).collect();
        let selections: Vec<Vec<u32>> = vec![(0..4_900).step_by(3).collect(), vec![], (4_000..4_900).collect()];
        let mut pulls = vec![Pull { members: None, slopes: &all }];
        pulls.extend(selections.iter().map(|members| Pull { members: Some(members), slopes: &all[..members.len()] }));
        let several = |threads| {
            let mut out = vec![9.0; 4 * 11];
            reduce::with_threads(threads, || assert!(matrices[0].pull_several(50..4_950, &pulls, &mut out, &mut vec![])))
                .unwrap();
            out
        };
        let found = several(1);
        assert_eq!(found, several(2));
        for (pull, found) in pulls.iter().zip(found.chunks_exact(11)) {
            let mut plain = vec![0.0; 11];
            let members: Vec<u32> = pull.members.map_or_else(|| (0..4_900).collect(), <[u32]>::to_vec);
            members.iter().zip(pull.slopes).for_each(|(&i, s)| matrices[0].add_row(50 + i as usize, *s, &mut plain));
            found.iter().zip(&plain).for_each(|(found, plain)| assert!((found - plain).abs() < 1e-11, "{found} {plain}"));
        }
        assert!(!matrices[1].pull_several(0..100, &[], &mut [], &mut vec![]));
    }

    #[test]
    fn shared_rows_are_the_copied_ones_bit_for_bit() {
        for (cols, real) in [(7, false), (257, false), (40, true)] {
            let (_, matrices) = forms(900, cols, real, 4);
            let rows: Vec<usize> = (0..900).rev().step_by(2).chain([3, 3]).collect();
            let x: Vec<f64> = (0..cols).map(|j| (j as f64 * 1.3).cos()).collect();
            for m in &matrices {
                let copied = m.copy(&rows);
                let shared = m.view(&rows, rows.iter().map(|&i| m.stored_in(i)).sum());
                assert_eq!(copied, shared);
                assert_ne!(m.copy(&rows[1..]), shared);
                assert_eq!((copied.stored(), copied.form()), (shared.stored(), shared.form()));
                let numbers = |m: &Matrix| {
                    let mut scores = vec![0.0; 400];
                    m.scores(10..410, &x, &mut scores);
                    let mut grad = vec![0.0; cols];
                    m.pull(10..410, &scores, 3.0, &mut grad, &mut vec![0.0; m.pull_slots(400)]);
                    m.add_row(7, 0.3, &mut grad);
                    scores.extend(grad);
                    scores.extend([m.row_dot(11, &x), m.row_norm_squared(12)]);
                    scores.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
                };
                assert_eq!(numbers(&copied), numbers(&shared));
                assert_eq!(copied.compare_rows(1, 2), shared.compare_rows(1, 2));
                // Rows of rows.
                let again = [450, 2, 0];
                assert_eq!(copied.copy(&again), shared.view(&again, again.iter().map(|&i| shared.stored_in(i)).sum()));
                assert_eq!(copied.copy(&again), shared.copy(&again));
                assert!(shared.compressed().is_none());
            }
        }
    }

    #[test]
    fn lent_entries_are_not_copied() {
        static PTR: &[u32] = &[0, 2, 3];
        static IDS: [u32; 3] = [0, 299, 4];
        static BYTES: [u8; 3] = [0, 255, 4];
        let m = Matrix::sparse(300, PTR, &IDS, vec![1.0, 2.0, 3.0]).unwrap();
        assert!(matches!(m.compressed(), Some(Compressed::Valued(_, ids, _)) if std::ptr::eq(ids, &IDS[..])));
        let m = Matrix::byte_ones(256, PTR, &BYTES).unwrap();
        assert_eq!(m, Matrix::ones(256, PTR, vec![0, 255, 4]).unwrap());
        assert!(Matrix::byte_ones(257, PTR, &BYTES).unwrap_err().to_string().contains("at most 256"));
        assert!(Matrix::byte_ones(200, PTR, &BYTES).unwrap_err().to_string().contains("column 256 of 200"));
    }

    #[test]
    fn more_columns_change_no_row() {
        for (cols, real) in [(7, false), (256, false), (40, true)] {
            let (plain, matrices) = forms(30, cols, real, 6);
            for m in &matrices {
                let wide = m.with_columns(300).unwrap();
                assert_eq!((wide.rows(), wide.cols()), (30, 300));
                for (i, row) in plain.iter().enumerate() {
                    let mut found = vec![0.0; 300];
                    wide.add_row(i, 1.0, &mut found);
                    assert_eq!((&found[..cols], found[cols..].iter().all(|v| *v == 0.0)), (&row[..], true));
                }
                assert!(m.with_columns(cols - 1).unwrap_err().to_string().contains("must be at least"));
            }
        }
    }

    #[test]
    fn ones_take_the_compact_form() {
        let (_, small) = forms(20, 256, false, 1);
        let (_, large) = forms(20, 257, false, 1);
        assert_eq!(small[1].form(), "sparse ones, one-byte columns");
        assert_eq!(large[1].form(), "sparse ones");
    }

    #[test]
    fn one_and_two_threads_give_the_same_bits() {
        let (_, matrices) = forms(20_000, 12, true, 5);
        let x: Vec<f64> = (0..12).map(|j| (j as f64).sin()).collect();
        for m in &matrices {
            let work = || {
                let mut scores = vec![0.0; 20_000];
                m.scores(0..20_000, &x, &mut scores);
                let mut grad = vec![0.0; 12];
                m.pull(0..20_000, &scores.clone(), 1.0, &mut grad, &mut vec![0.0; m.pull_slots(20_000)]);
                grad.iter().map(|g| g.to_bits()).collect::<Vec<_>>()
            };
            assert_eq!(reduce::with_threads(1, work).unwrap(), reduce::with_threads(2, work).unwrap());
        }
    }

    #[test]
    fn damaged_rows_are_refused_with_a_sentence() {
        let refuse = |cols, ptr: &[usize], ids: &[u32]| Matrix::ones(cols, ptr.to_vec(), ids.to_vec()).unwrap_err().to_string();
        assert!(refuse(3, &[0, 2], &[1, 1]).contains("row 1 has column 2 after column 2"));
        assert!(refuse(3, &[0, 1], &[3]).contains("column 4 of 3"));
        assert!(refuse(3, &[0, 2], &[1]).contains("last row pointer is 2"));
        assert!(refuse(3, &[], &[]).contains("start with 0"));
        assert!(refuse(3, &[0, 2, 1, 2], &[0, 1]).contains("goes back"));
        let nan = Matrix::sparse(2, vec![0, 1], vec![0], vec![f64::NAN]).unwrap_err().to_string();
        assert!(nan.contains("stored value 1"), "{nan}");
    }
}
