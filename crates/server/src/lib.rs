//! Server.
pub mod batch;
