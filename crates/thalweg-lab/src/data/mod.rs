//! Data sets: file readers, the sets that are available by name, and the search for their files. Computations on rows are in
//! the library, command-line arguments in [`crate::commands`].

pub mod adult;
pub mod cache;
pub mod catalogue;
pub mod columns;
pub mod covtype;
pub mod generator;
pub mod libsvm;
pub mod limits;
pub mod prepared;
pub mod sets;
pub mod shaped_like;
pub mod source;
pub mod table;
