//! The driver: runs the graphs of the figures, records before it sends, and forgets what it need not know.

mod bounds;
mod contract;
mod differential;
mod figures;
mod running;
mod support;
