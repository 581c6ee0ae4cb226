//! What a host gets of its group, in one byte.

/// Installers that a group may name, and more: places of them in a [`Choice`].
const INSTALLERS: u8 = 8;

/// Which target and which installer of its group a host gets. One byte: a million hosts have one each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Choice(u8);

impl Choice {
    /// No target fits.
    pub const NO_TARGET: Self = Self(254);
    /// No installer of the group is enabled and known on the host.
    pub const NO_INSTALLER: Self = Self(255);

    pub(crate) fn of(target: usize, installer: usize) -> Self {
        u8::try_from(target)
            .map_or(Self::NO_TARGET, |target| Self(target * INSTALLERS + u8::try_from(installer).unwrap_or_default()))
    }

    /// Whether the host gets something.
    pub fn is_some(self) -> bool {
        self.0 < Self::NO_TARGET.0
    }

    /// The target's place in the list; `None`: none.
    pub fn target(self) -> Option<usize> {
        self.is_some().then_some(usize::from(self.0 / INSTALLERS))
    }

    /// The installer's place in its list; `None`: none.
    pub fn installer(self) -> Option<usize> {
        self.is_some().then_some(usize::from(self.0 % INSTALLERS))
    }
}
