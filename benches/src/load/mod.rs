//! Load: works that call a server over and over, what drives them, and what is measured.
//!
//! Reading order: [`payload`] (keys and values), [`work`] (what one call is), [`pages`], [`mixture`], [`pace`] (open loop), [`driver`],
//! [`process`] (CPU, memory and disk of a process), [`report`].

pub(crate) mod driver;
pub(crate) mod mixture;
pub(crate) mod pace;
pub(crate) mod pages;
pub(crate) mod payload;
pub(crate) mod process;
pub(crate) mod report;
pub(crate) mod work;
