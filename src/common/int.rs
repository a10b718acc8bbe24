//! Integers of any width as 64 bits, without errors.

/// An integer that 64 bits represent. Indices and lengths are at most `isize::MAX`.
pub(crate) trait Int: Copy {
    /// Returns the integer; `i64::MAX` for one that is larger.
    fn int(self) -> i64;
}

impl Int for i64 {
    fn int(self) -> i64 {
        self
    }
}

impl Int for i32 {
    fn int(self) -> i64 {
        self.into()
    }
}

impl Int for usize {
    fn int(self) -> i64 {
        i64::try_from(self).unwrap_or(i64::MAX)
    }
}

impl<T: Int> Int for &T {
    fn int(self) -> i64 {
        (*self).int()
    }
}
