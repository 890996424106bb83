//! Data sets: readers of files, the sets that the command knows by name, and where their files are looked for. What is
//! computed on the rows is in the library; what the user types is in [`crate::commands`].

pub mod adult;
pub mod cache;
pub mod catalogue;
pub mod covtype;
pub mod generator;
pub mod libsvm;
pub mod prepared;
pub mod sets;
pub mod shaped_like;
pub mod source;
pub mod table;
