//! Methods, one file for each family, and the settings they share. Loops, budgets and clocks do not belong here.

pub mod schedule;

pub use schedule::Schedule;
