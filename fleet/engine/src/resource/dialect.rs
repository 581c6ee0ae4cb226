//! The two dialects of a configuration.

/// Whose words a configuration uses, in the order of the columns of defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PolicyDialect {
    /// Managed Updates v2: `autoupdate_config`, and an `autoupdate_version` with `spec.agents`.
    V2,
    /// RFD 0169: `cluster_maintenance_config`, and a flat `autoupdate_version`.
    Rfd0169,
    /// RFD 0090: the entries of a `version-directive`.
    Directive,
}

impl PolicyDialect {
    /// Which defaults of a group are its.
    pub(super) const fn column(self) -> usize {
        self as usize
    }
}
