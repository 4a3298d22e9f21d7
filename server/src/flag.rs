//! A condition that many tasks wait for: the server stops, there is no leader.

use std::sync::Arc;

use tokio::sync::watch;

/// Raises and lowers a flag. Clones move the same flag.
#[derive(Debug, Clone)]
pub struct FlagPole(Arc<watch::Sender<bool>>);

/// A flag as one task sees it.
#[derive(Debug, Clone)]
pub struct Flag(watch::Receiver<bool>);

impl FlagPole {
    /// A flag that is down.
    #[must_use]
    pub fn new() -> Self {
        FlagPole(Arc::new(watch::Sender::new(false)))
    }

    /// Raises or lowers the flag; wakes who waits only if that changes it.
    pub fn set(&self, up: bool) {
        self.0.send_if_modified(|set| std::mem::replace(set, up) != up);
    }

    /// A view of the flag.
    #[must_use]
    pub fn flag(&self) -> Flag {
        Flag(self.0.subscribe())
    }
}

impl Default for FlagPole {
    fn default() -> Self {
        Self::new()
    }
}

impl Flag {
    /// Waits until the flag is up, or nobody is left who could raise it. Safe to drop and call again.
    pub async fn raised(&mut self) {
        // Whoever could raise it is gone, and the server with them.
        let _ = self.0.wait_for(|up| *up).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn a_flag_is_seen_when_it_is_up() {
        let pole = FlagPole::new();
        let (mut early, mut late) = (pole.flag(), pole.flag());
        assert!(early.raised().now_or_never().is_none(), "down at first");
        pole.set(true);
        early.raised().await;
        late.raised().await;
        pole.set(false);
        assert!(late.raised().now_or_never().is_none(), "down again");
        drop(pole);
        late.raised().await;
    }
}
