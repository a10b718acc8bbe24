//! What must hold before a net is written, so that writing can fail only on i/o.

use super::Net;
use crate::error::Result;

impl Net {
    /// Checks the net.
    pub fn check(&self) -> Result<()> {
        Ok(())
    }
}
