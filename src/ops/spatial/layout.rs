//! The attribute that tells where the channels are.

use crate::ops::prelude::*;
use crate::pass::channels::Layout;

impl Layout {
    /// Reads the attribute `channels_last`.
    pub fn of(call: &Call) -> Result<Layout> {
        Ok(Layout { channels_last: call.flag("channels_last")? })
    }
}
